"""What the comparisons share: virtual environments with a side's packages, and the allocator that is preloaded.
Not here: what is compared."""
import os
import subprocess
import sys

PACKAGES = {"jax": ["jax", "optax"], "torch": ["torch", "numpy"], "orbax": ["jax", "orbax-checkpoint"],
            "safetensors": ["safetensors", "numpy"]}


def environment(work, name):
    """The python of a virtual environment that has the packages of a side."""
    folder = work + "/venv-" + name
    python = folder + "/bin/python"
    if not os.path.exists(folder + "/ready"):
        print("compare: installing", " ".join(PACKAGES[name]), "into", folder, flush=True)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES[name]], check=True)
        open(folder + "/ready", "w").close()
    return python


def tcmalloc():
    for line in subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout.split("\n"):
        if "libtcmalloc_minimal.so.4" in line:
            return line.split("=> ")[1]
    sys.exit("compare: libtcmalloc_minimal.so.4 was not found: install libtcmalloc-minimal4")
