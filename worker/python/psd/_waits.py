# SPDX-License-Identifier: Apache-2.0
"""Calls that wait. They run on the caller's thread without the GIL.

Python runs a signal's handler on the main thread between two bytecodes, so not while a call of the library waits. While the main thread is
in such a call, the interpreter's C handler wakes a watcher by signal.set_wakeup_fd(). The watcher interrupts the session every 20 ms until
the call has returned; then the handler runs, and KeyboardInterrupt is raised. If the handler raises nothing, the call is made again where
that is safe. The wakeup descriptor of others (asyncio) is in force again after the call, and gets the signals of the call too.
"""

from __future__ import annotations

import os
import signal
import threading
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
        self.lock = threading.Lock()
        self.handle: int | None = None  # session whose call the main thread is in
        self.serial = 0  # rises when a call returns
        self.chained = -1  # another's wakeup descriptor
        threading.Thread(target=self.run, name="psd-signals", daemon=True).start()

    def run(self) -> None:
        while True:
            came = os.read(self.reads, 64)
            serial, chained = self.serial, self.chained
            if chained >= 0:
                try:
                    os.write(chained, came)
                except OSError:
                    pass  # full: its reader is awake
            while self.interrupt(serial):
                sleep(INTERVAL_S)

    def end(self) -> None:
        """In a child, which has no thread of the watcher."""
        self.lock = threading.Lock()  # the thread may have held it
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
        """The session is being closed, which ends its calls."""
        with self.lock:
            if self.handle == handle:
                self.handle = None

    def call(self, handle: int, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        outer = self.handle  # a hook makes calls within a call
        before, chained = -2, self.chained
        try:
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
            self.chained = chained


_watcher: Watcher | None = None
_main = threading.main_thread().ident
_get_ident = threading.get_ident
forks = 0  # number of forks up to this process


def _after_fork() -> None:
    global _watcher, _main, forks
    forks += 1
    lib.ps_after_fork_child()
    if _watcher is not None:
        _watcher.end()
    _watcher = None
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
        except ValueError:  # a subinterpreter, whose signals go to the main one
            return function(*args)
        _watcher = Watcher()
    return _watcher.call(handle, function, args)


def interrupted() -> bool:
    """The calling thread's last call was ended by ps_interrupt()."""
    return bool(lib.ps_last_reason() == Reason.INTERRUPTED)


def again(handle: int, asked: Callable[[], int], limit_s: float, goes_on: bool, function: Callable[..., Any], args: tuple[Any, ...]) -> int:
    """A call has returned CANCELLED. It is made again if a signal ended it, no handler raised, and nothing was applied, or it goes on where it
    was. asked: counts interrupts that the program asks for."""
    before, end = asked(), monotonic() + limit_s
    status = _CANCELLED
    while status == _CANCELLED and interrupted() and asked() == before and monotonic() < end:
        if not goes_on and lib.ps_last_applied() != Applied.NOTHING_APPLIED:
            break
        status = once(handle, function, args)
    return status
