# SPDX-License-Identifier: Apache-2.0
"""The library's log lines, as records of the `logging` logger "psd". The library writes them into a pipe, so that no Python code runs on its
threads."""

from __future__ import annotations

import atexit
import os
import threading

from ._library import lib

_END = b"end\n"
_pid = 0
_pipe: tuple[int, int] | None = None


def _drain(reads: int) -> None:
    import logging

    logger = logging.getLogger("psd")
    levels = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
    with os.fdopen(reads, "rb", closefd=False) as lines:
        for line in lines:
            if line == _END:
                return
            level, _, text = line.decode(errors="replace").rstrip("\n").partition(" ")
            logger.log(levels[int(level)] if level in "0123" else logging.INFO, "%s", text)


def start() -> None:
    """Take the lines of sessions that are opened from now on. Once for each process."""
    global _pid, _pipe
    if _pid == os.getpid():
        return
    _pid = os.getpid()
    _pipe = reads, writes = os.pipe()
    os.set_blocking(writes, False)
    lib.ps_log_to(writes)
    drain = threading.Thread(target=_drain, args=(reads,), name="psd-log", daemon=True)
    drain.start()
    atexit.register(_stop, _pid, writes, drain)


def _stop(pid: int, writes: int, drain: threading.Thread) -> None:
    """At exit: later lines go to standard error; those that are in the pipe are logged."""
    if pid != os.getpid():
        return
    lib.ps_log_to(-1)
    try:
        os.write(writes, _END)
        drain.join(0.5)
    except OSError:
        pass  # the pipe is full: its lines are lost


def _after_fork() -> None:
    global _pipe
    lib.ps_log_to(-1)
    for fd in _pipe or ():
        os.close(fd)
    _pipe = None


os.register_at_fork(after_in_child=_after_fork)
