# SPDX-License-Identifier: Apache-2.0
"""Calls that wait. They run on the caller's thread without the GIL.

Python runs a signal's handler on the main thread between two bytecodes, and so never while a call of the library waits. While the main thread is
in such a call, the interpreter's C handler wakes a watcher by signal.set_wakeup_fd(). The watcher interrupts the session every 20 ms until
the call has returned; then the handler runs, and KeyboardInterrupt is raised. If the handler raises nothing, the call is made again where
that is safe. The wakeup descriptor of others (asyncio) is in force again after the call, and gets the signals of the call too.
"""

from __future__ import annotations

import os
import signal
import threading
from queue import SimpleQueue
from time import monotonic, sleep
from typing import Any, Callable

from ._abi import Applied, Reason, Status
from ._library import lib

INTERVAL_S = 0.02
_CANCELLED = int(Status.CANCELLED)


class Watcher:
    """Interrupts the call that the main thread is in when a signal comes."""

    def __init__(self) -> None:
        self.reads, self.writes = os.pipe()
        os.set_blocking(self.writes, False)
        self.lock = threading.RLock()  # a handler may make a call
        self.handle: int | None = None  # session whose call the main thread is in
        self.serial = 0  # rises when a call returns: run() then knows that its call is over
        # the wakeup descriptor that the program had set before ours, -1: none; it stays when the call has returned, for late signals
        self.chained = -1
        threading.Thread(target=self.run, name="psd-signals", daemon=True).start()

    def run(self) -> None:
        while True:
            came = os.read(self.reads, 64)
            with self.lock:
                serial, chained = self.serial, self.chained
            if chained >= 0:
                try:
                    os.write(chained, came)
                except OSError:
                    pass  # the pipe is full, so its reader has something to wake up for
            while self.interrupt(serial):
                sleep(INTERVAL_S)

    def end(self) -> None:
        """Undo the watcher in a child of fork(), which does not have the watcher's thread."""
        self.lock = threading.RLock()  # a new lock: the watcher's thread, which is gone, may have held the old one
        fd = signal.set_wakeup_fd(-1)
        fd = self.chained if fd == self.writes else fd
        if fd >= 0:
            signal.set_wakeup_fd(fd)
        os.close(self.reads)
        os.close(self.writes)

    def interrupt(self, serial: int) -> bool:
        """Interrupt the call; False: it has returned."""
        with self.lock:
            if self.handle is None or self.serial != serial:
                return False
            lib.ps_interrupt(self.handle)
            return True

    def forget(self, handle: int) -> None:
        """Interrupt this session no more: it is being closed, which ends its calls."""
        with self.lock:
            if self.handle == handle:
                self.handle = None

    def call(self, handle: int, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        outer = self.handle  # a hook makes calls within a call
        before, chained = -2, self.chained
        try:
            with self.lock:
                before = signal.set_wakeup_fd(self.writes)
                if before != self.writes:
                    self.chained = before
            self.handle = handle
            return function(*args)
        finally:
            with self.lock:
                self.handle = outer
                self.serial += 1
            if before >= -1:
                signal.set_wakeup_fd(before)
            if outer is not None:
                self.chained = chained


class Pool:
    """Daemon threads for calls that asyncio awaits: one for each call at a time, because calls may wait for each other. asyncio's own executor has
    few threads, and waits for them when Ctrl-C has ended the loop."""

    IDLE_MAX = 32

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.idle = 0  # threads that wait for a job, less the jobs that wait

    def submit(self, job: Callable[[], None]) -> None:
        with self.lock:
            begins = self.idle == 0
            self.idle -= 0 if begins else 1
        if begins:
            threading.Thread(target=self.run, name="psd-async", daemon=True).start()
        self.jobs.put(job)

    def run(self) -> None:
        while True:
            job = self.jobs.get()
            job()
            del job  # and what it holds, such as the session
            with self.lock:
                if self.idle >= self.IDLE_MAX:
                    return
                self.idle += 1


_watcher: Watcher | None = None
pool = Pool()
_main = threading.main_thread().ident
_get_ident = threading.get_ident
forks = 0  # number of forks up to this process


def _after_fork() -> None:
    global _watcher, _main, forks, pool
    forks += 1
    lib.ps_after_fork_child()
    if _watcher is not None:
        _watcher.end()
    _watcher = None
    pool = Pool()
    _main = threading.get_ident()


os.register_at_fork(after_in_child=_after_fork)


def forget(handle: int) -> None:
    """No signal interrupts the session from now on."""
    if _watcher is not None:
        _watcher.forget(handle)


def once(handle: int, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Make a call that a signal may end."""
    global _watcher
    if _get_ident() != _main:
        return function(*args)
    if _watcher is None:
        try:
            signal.set_wakeup_fd(signal.set_wakeup_fd(-1))
        except ValueError:  # in a subinterpreter, where no descriptor can be set: the main interpreter gets the signals
            return function(*args)
        _watcher = Watcher()
    return _watcher.call(handle, function, args)


def interrupted() -> bool:
    """The calling thread's last call was ended by ps_interrupt()."""
    return bool(lib.ps_last_reason() == Reason.INTERRUPTED)


def again(handle: int, asked: Callable[[], int], limit_s: float, goes_on: bool, function: Callable[..., Any], args: tuple[Any, ...]) -> int:
    """Repeat a call that has returned CANCELLED because of a signal, while no handler has raised. goes_on: the call continues where it was;
    otherwise it is repeated only if nothing was applied. asked: counts interrupts that the program asks for."""
    before, end = asked(), monotonic() + limit_s
    status = _CANCELLED
    while status == _CANCELLED and interrupted() and asked() == before and monotonic() < end:
        if not goes_on and lib.ps_last_applied() != Applied.NOTHING_APPLIED:
            break
        status = once(handle, function, args)
    return status
