"""What the comparisons share: virtual environments with a side's packages, the allocator that is preloaded, programs of
nitro, and unpacked data. Not here: what is compared."""
import glob
import gzip
import os
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FASHION = "/usr/share/datasets/fashion-mnist"

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


def unpack_data(work):
    """Plain IDX files, so that no side unpacks during its run."""
    folder = work + "/data"
    os.makedirs(folder, exist_ok=True)
    for path in glob.glob(FASHION + "/train-*.gz"):
        target = folder + "/" + os.path.basename(path)[:-3]
        if not os.path.exists(target):
            with gzip.open(path) as source, open(target + ".part", "wb") as out:
                shutil.copyfileobj(source, out)
            os.rename(target + ".part", target)
    return folder


def build_nitro(build, sources, program):
    """Compiles a program that uses the library as it is installed, with the command's allocator. The program and the
    seconds that took."""
    start = time.monotonic()
    subprocess.run(
        [os.environ.get("CC", "cc"), "-std=gnu17", "-O2", "-I" + ROOT + "/include", *sources, "-o", program,
         "-L" + build + "/src", "-lnitro", "-Wl,-rpath," + build + "/src",
         "-Wl,--no-as-needed,-ltcmalloc_minimal,--as-needed"],
        check=True)
    return program, time.monotonic() - start
