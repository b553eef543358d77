#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
# test-sanitizers: asan (Python's own threads and locks are not instrumented)
# test-timeout: 300
# test-transport: plain (its tasks are in the process, or have no key)
"""The tests of the Python package (tests/python) on the libraries of this build, with a Python that has NumPy: Debian's python3-numpy."""
import os
import subprocess
import sys

from cluster import path

RUN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python/run")


def main():
    for python in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(python) and subprocess.run([python, "-c", "import numpy"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            os.execve(RUN, [RUN, path("")], {**os.environ, "PYTHON": python})
    print("no Python here has NumPy")
    return 77


sys.exit(main())
