# SPDX-License-Identifier: Apache-2.0
"""What Python costs over C: make bench-python. The least of several rounds each, because what Python adds does not depend on who else computes.

C's side is the same function called by ctypes with arguments that are ready. Times are CPU time, of calls that
of the calling thread: neither the loads of others nor the server's thread count."""

import importlib.util
import os
import subprocess
import sys
import time

import numpy as np

import psd
from psd._library import lib

ROUNDS, CALLS = 30, 300


def least(function):
    """Least CPU time of a call, in microseconds."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.thread_time()
        for _ in range(CALLS):
            function()
        best = min(best, (time.thread_time() - started) / CALLS * 1e6)
    return best


def row(name, value, unit, must):
    print(f"{name:32} {value:8.2f} {unit:3} must be <= {must:<4} {'must' if value <= must else 'MISSED'}", flush=True)


def main():
    with psd.local_cluster() as cluster, psd.Session(cluster.target) as s:
        v = s.make("v", 1024, psd.ones(), psd.SGD(1e-6))
        array = np.ones(1024, "f4")
        at = array.ctypes.data
        pull = least(lambda: v.read(array)) - least(lambda: lib.ps_variable_read(v._pointer, at, 4096))
        row("python.pull.4KiB.over_c", pull, "us", 10)
        row("python.push.4KiB.over_c", least(lambda: v.push(array)) - least(lambda: lib.ps_variable_push(v._pointer, at, 4096, 1.0)), "us", 10)
    if importlib.util.find_spec("torch"):
        import torch

        with psd.local_cluster() as cluster, psd.Session(cluster.target) as s:
            named = [(f"p{i}", torch.nn.Parameter(torch.ones(10))) for i in range(100)]
            optimizer = psd.torch.Optimizer(named, s, psd.SGD(0.1))
            for _, p in named:
                p.grad = torch.ones(10)
            pointers, handle = [p._pointer for p in optimizer._tensors.params], s._handle

            def bare():
                for p in pointers:
                    lib.ps_push_pull(handle, p)
                lib.ps_step_done(handle)
                lib.ps_pull(handle)

            globals()["CALLS"] = 20
            row("python.torch.step.100params", (least(optimizer.step) - least(bare)) / 1e3, "ms", 1)
    spent = []
    for code in ("pass", "import psd"):
        times = []
        for _ in range(9):
            started = sum(os.times()[2:4])
            subprocess.run([sys.executable, "-c", code], check=True)
            times.append(sum(os.times()[2:4]) - started)
        spent.append(min(times) * 1e3)
    row("python.import", spent[1] - spent[0], "ms", 60)


main()
