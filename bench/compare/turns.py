"""A side of a comparison as a process that stays and takes steps when it is told to, so that sides can take turns.
Not here: what a step is."""
import os
import subprocess
import sys
import threading
import time

LIMIT = 240  # seconds that a side may take to answer


class Side:
    """It says first how long it got ready, then the seconds of so many steps whenever it is asked."""

    def __init__(self, command, environment):
        variables = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", JAX_PLATFORMS="cpu", **environment)
        variables["BENCH_START"] = repr(time.clock_gettime(time.CLOCK_MONOTONIC))
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=variables, **pipes)
        self.ready = [float(word) for word in self.answer().split()[1:]]

    def answer(self):
        timer = threading.Timer(LIMIT, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        if not line:
            sys.exit("compare: %s ended with %d" % (self.process.args, self.process.wait()))
        return line

    def step(self, count):
        """Seconds a step."""
        try:
            self.process.stdin.write("%d\n" % count)
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the missing answer tells how it ended
        return float(self.answer()) / count

    def processor_seconds(self):
        with open("/proc/%d/stat" % self.process.pid) as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        self.process.stdin.close()
        self.process.wait()
