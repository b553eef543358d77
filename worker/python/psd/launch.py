# SPDX-License-Identifier: Apache-2.0
"""Start a cluster on this machine:

    python -m psd.launch --ps 2 --workers 3 train.py --batch 64

Starts the ps tasks and the workers, each a process. A worker finds its place in TF_CONFIG, so `psd.Session()` in it needs no arguments. Lines of
the processes get a prefix. When all workers have ended, the ps tasks end, and the status is 0; the first worker that fails ends all, and its status
is the launcher's. If the launcher is killed, its processes end too.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO, Any

from ._run import program

_PR_SET_PDEATHSIG = 1
_GRACE_S = 10


class Launch:
    """The processes of a cluster."""

    def __init__(self, folder: str, options: argparse.Namespace) -> None:
        self.folder, self.options = folder, options
        self.cluster = {"ps": self.addresses("ps", options.ps), "worker": self.addresses("worker", options.workers)}
        self.ps: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self.readers: list[threading.Thread] = []
        self.prctl = ctypes.CDLL(None).prctl

    def addresses(self, job: str, count: int) -> list[str]:
        return [f"unix:{self.folder}/{job}{i}" for i in range(count)]

    def start(self, name: str, words: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            words,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: self.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM),
        )
        reader = threading.Thread(target=self.copy, args=(f"[{name}] ".encode(), process.stdout), daemon=True)
        reader.start()
        self.readers.append(reader)
        return process

    @staticmethod
    def copy(prefix: bytes, lines: IO[bytes]) -> None:
        for line in lines:
            os.write(1, prefix + line if line.endswith(b"\n") else prefix + line + b"\n")

    def start_ps(self, task: int) -> subprocess.Popen[bytes]:
        words = [program("psd"), "--cluster", json.dumps(self.cluster), "--task_index", str(task), "--log_level", "warn"]
        if self.options.checkpoint_dir:
            words += ["--checkpoint_dir", self.options.checkpoint_dir, "--checkpoint_steps", str(self.options.checkpoint_steps)]
        env = {k: v for k, v in os.environ.items() if k != "TF_CONFIG"}
        return self.start(f"ps {task}", words, env)

    def start_worker(self, task: int) -> subprocess.Popen[bytes]:
        config = {"cluster": self.cluster, "task": {"type": "worker", "index": task}}
        env = {**os.environ, "TF_CONFIG": json.dumps(config), "PYTHONUNBUFFERED": "1"}
        if self.options.checkpoint_dir:
            env["PSD_CHECKPOINT_DIR"] = self.options.checkpoint_dir
        return self.start(f"worker {task}", [sys.executable, self.options.script, *self.options.arguments], env)

    def run(self) -> int:
        self.ps = [self.start_ps(i) for i in range(self.options.ps)]
        self.workers = [self.start_worker(i) for i in range(self.options.workers)]
        while True:
            states = [w.poll() for w in self.workers]
            failed = [s for s in states if s]
            if failed:
                return failed[0] if failed[0] > 0 else 128 - failed[0]
            if None not in states:
                return 0
            for i, p in enumerate(self.ps):
                if p.poll() is not None and self.options.checkpoint_dir:
                    print(f"psd.launch: ps {i} has ended with status {p.returncode}: it is started again", file=sys.stderr, flush=True)
                    self.ps[i] = self.start_ps(i)
                elif p.poll() is not None:
                    print(f"psd.launch: ps {i} has ended with status {p.returncode}; --checkpoint_dir would go on", file=sys.stderr, flush=True)
                    return 1
            time.sleep(0.05)

    def end(self) -> None:
        for group in (self.workers, self.ps):
            for p in group:
                if p.poll() is None:
                    p.terminate()
            end = time.monotonic() + _GRACE_S
            for p in group:
                try:
                    p.wait(max(0.1, end - time.monotonic()))
                except subprocess.TimeoutExpired:
                    p.kill()
                    p.wait()
        for reader in self.readers:
            reader.join(1)


def _terminated(*args: Any) -> None:
    raise KeyboardInterrupt


def main(argv: list[str] | None = None) -> int:
    """`python -m psd.launch`."""
    parser = argparse.ArgumentParser("python -m psd.launch", description="Start ps tasks and workers on this machine.")
    parser.add_argument("--ps", type=int, default=1, metavar="N", help="ps tasks (1)")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="workers (1)")
    parser.add_argument("--checkpoint_dir", metavar="DIR", help="ps tasks save there, begin with it, and are started again when they end")
    parser.add_argument("--checkpoint_steps", type=int, default=0, metavar="N", help="save after so many global steps, and every 10 minutes")
    parser.add_argument("script", help="Python program of a worker")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    options = parser.parse_args(argv)
    if options.ps < 1 or options.workers < 1:
        parser.error("--ps and --workers must be at least 1")
    signal.signal(signal.SIGTERM, _terminated)
    with tempfile.TemporaryDirectory(prefix="psd-") as folder:
        launch = Launch(folder, options)
        try:
            return launch.run()
        except KeyboardInterrupt:
            return 130
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            launch.end()


if __name__ == "__main__":
    sys.exit(main())
