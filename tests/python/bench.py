# SPDX-License-Identifier: Apache-2.0
"""What Python costs over C: make bench-python. The least of several rounds each, because what Python adds does not depend on who else computes.

C's side is the same function called by ctypes with arguments that are ready. Times are CPU time of the calling thread: loads of others and the
server's thread do not count. The network's row is wall time of a step, in turns with torch.optim; the least counts."""

import importlib.util
import os
import resource
import subprocess
import sys
import tempfile
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


def row(name, value, unit, must, at_least=False):
    held = value >= must if at_least else value <= must
    print(f"{name:32} {value:8.2f} {unit:3} must be {'>=' if at_least else '<='} {must:<4} {'held' if held else 'MISSED'}", flush=True)


def network(torch, overlap):
    """Steps per second of a network whose updates one ps makes, over those with torch.optim."""
    torch.set_num_threads(1)

    def net():
        torch.manual_seed(0)
        sizes = [784, 512, 512, 10]
        layers = [m for i, o in zip(sizes, sizes[1:]) for m in (torch.nn.Linear(i, o), torch.nn.ReLU())]
        return torch.nn.Sequential(*layers[:-1])

    x, y = torch.randn(128, 784), torch.randint(10, (128,))

    def time_of(model, optimizer, steps=10):
        started = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        return (time.perf_counter() - started) / steps

    with psd.local_cluster() as cluster, psd.Session(cluster.target) as s:
        mine, theirs = net(), net()
        pairs = (mine, psd.torch.Optimizer(mine, s, psd.Adagrad(0.01), overlap=overlap)), (theirs, torch.optim.Adagrad(theirs.parameters(), 0.01))
        times = [[time_of(*pair) for pair in pairs] for _ in range(25)]
        return min(t for _, t in times) / min(t for t, _ in times)


def import_ms():
    """Least CPU time that `import psd` adds to a Python, whose bytecode is there, as pip leaves it."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        least_ms = []
        for code in ("pass", "import psd"):
            times = []
            for _ in range(12):
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                subprocess.run([sys.executable, "-c", code], check=True, env=env)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            least_ms.append(min(times) * 1e3)
    return least_ms[1] - least_ms[0]


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
            pointers, handle = [p._pointer for p in optimizer._tensors.params.values()], s._handle

            def bare():
                for p in pointers:
                    lib.ps_push_pull(handle, p)
                lib.ps_step_done(handle)
                lib.ps_pull(handle)

            globals()["CALLS"] = 20
            row("python.torch.step.100params", (least(optimizer.step) - least(bare)) / 1e3, "ms", 1)
        for overlap in (False, True):
            row(f"python.torch.mlp{'.overlap' * overlap}.of_torch", network(torch, overlap), "x", 0.8, at_least=True)
    row("python.import", import_ms(), "ms", 60)


main()
