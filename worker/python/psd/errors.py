# SPDX-License-Identifier: Apache-2.0
"""Exceptions. Each status of the library has a class, which is also what a Python programmer catches."""

from __future__ import annotations

import re
from typing import NoReturn

from ._abi import Applied, Reason, Status
from ._library import lib

_APPLIED = {
    Applied.MAYBE_PARTLY_APPLIED: "may be partly applied",
    Applied.OUTCOME_UNKNOWN: "outcome unknown: repeating the call may apply the change twice",
}


class Error(RuntimeError):
    """A call failed.

    status   psd.Status: what to do about the failure.
    reason   psd.Reason: which of its causes the status has; Reason.NONE if nothing more is known.
    applied  psd.Applied: what the call did to the state on the ps. Only NOTHING_APPLIED is safe to repeat.
    task     "/job:ps/task:1", the first task that the text names; None if it names none.
    """

    status: Status = Status.UNKNOWN

    def __init__(self, text: str, reason: Reason = Reason.NONE, applied: Applied = Applied.NOTHING_APPLIED, status: Status | None = None) -> None:
        if status is not None:
            self.status = status
        self.text = text
        self.reason = reason
        self.applied = applied
        named = re.search(r"/job:[\w.-]+/task:\d+", text)
        self.task = named[0] if named else None
        said = _APPLIED.get(applied)
        said = f" ({said})" if said and said.partition(":")[0] not in text else ""
        super().__init__(f"{self.status.name}: {text}{said}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.text, self.reason, self.applied, self.status)


class Cancelled(Error):
    """The call was interrupted, or what it waited for is closed, reset or deleted."""

    status = Status.CANCELLED


class InvalidArgument(Error, ValueError):
    """An argument is wrong, or differs from what the cluster has. The text names both sides."""

    status = Status.INVALID_ARGUMENT


class DeadlineExceeded(Error, TimeoutError):
    """The deadline came first. The text says what was waited for."""

    status = Status.DEADLINE_EXCEEDED


class NotFound(Error, LookupError):
    """There is no such variable, queue, file or task."""

    status = Status.NOT_FOUND


class AlreadyExists(Error):
    """The name or the address is in use."""

    status = Status.ALREADY_EXISTS


class PermissionDenied(Error, PermissionError):
    """This identity may not do that (docs/SECURITY.md)."""

    status = Status.PERMISSION_DENIED


class ResourceExhausted(Error):
    """A budget of memory, a disk or a limit is used up."""

    status = Status.RESOURCE_EXHAUSTED


class FailedPrecondition(Error):
    """The state does not allow the call: a variable without a value, a closed session, a child made by fork."""

    status = Status.FAILED_PRECONDITION


class Aborted(Error):
    """What the call relied on is gone: a variable was reset, a task was restarted, a worker was lost."""

    status = Status.ABORTED


class OutOfRange(Error, IndexError):
    """An index outside a variable's rows; or the end of the input: a closed and empty queue, all epochs of work done."""

    status = Status.OUT_OF_RANGE


class Unimplemented(Error, NotImplementedError):
    """This release, or the task's, cannot do that."""

    status = Status.UNIMPLEMENTED


class Internal(Error):
    """A fault of psd, or of a hook."""

    status = Status.INTERNAL


class Unavailable(Error, ConnectionError):
    """A task cannot be reached."""

    status = Status.UNAVAILABLE


class DataLoss(Error):
    """A part of the model, or of a file, is lost."""

    status = Status.DATA_LOSS


class Unauthenticated(Error, PermissionError):
    """A key or certificate is missing or wrong."""

    status = Status.UNAUTHENTICATED


_CLASSES = {c.status: c for c in Error.__subclasses__()}


def _reason(number: int) -> Reason:
    try:
        return Reason(number)
    except ValueError:  # the number of a status, or a reason that only a newer server has
        return Reason.NONE


def error_of(status: int, text: str, reason: int = 0, applied: int = 0) -> Error:
    """The exception of a status."""
    st = Status(status) if status in Status._value2member_map_ else Status.UNKNOWN
    return _CLASSES.get(st, Error)(text, _reason(reason), Applied(applied), st)


def last_error(status: int) -> Error:
    """The exception of the calling thread's last call that failed."""
    return error_of(status, lib.ps_last_error().decode(errors="replace"), lib.ps_last_reason(), lib.ps_last_applied())


def check(status: int) -> None:
    """Raise the calling thread's last error unless status is OK."""
    if status != 0:
        raise last_error(status)


def fail(text: str, status: Status = Status.INVALID_ARGUMENT) -> NoReturn:
    """Raise an error of the package itself."""
    raise error_of(status, text)
