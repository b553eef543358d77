# SPDX-License-Identifier: Apache-2.0
"""Hooks: functions that a session calls at fixed places of a training loop."""

from __future__ import annotations

import ctypes as C
import weakref
from typing import TYPE_CHECKING, Any, Callable, Mapping

from ._abi import Status, ps_hook, ps_step_values
from ._library import lib
from .errors import Error
from .values import text

if TYPE_CHECKING:
    from .session import Session

_CALL = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p)
_VALUES = C.CFUNCTYPE(C.c_int, C.c_void_p, C.c_void_p, C.POINTER(ps_step_values))


class Hook:
    """Derive from it and override what is wanted. The methods run on the thread that made the call to which they belong, and may call what
    the program may, except close(). psd.OutOfRange ends training without an error. Any other exception ends the session with its text; the
    call to which the hook belongs raises psd.Error from it. In a monitored session psd.Aborted and psd.Unavailable are a loss, from which
    the session recovers."""

    def begin(self, session: Session) -> None:
        """Called once, before the first ready() does anything; may make variables."""

    def after_create_session(self, session: Session) -> None:
        """Called after each ready(), and each recovery."""

    def before_run(self, session: Session) -> None:
        """Called by should_stop() when it is about to return False, because a step begins."""

    def after_run(self, session: Session, values: Mapping[str, float]) -> None:
        """Called when step_done() has counted the step. values: what the step reported by step_value(); the step is session.global_step."""

    def end(self, session: Session) -> None:
        """Called by close() of a session without an error."""


def guarded(session: Session, name: str, function: Callable[[], None]) -> int:
    """Run a callback of Python within a call of C; its exception becomes a status, and is raised by the outer call."""
    try:
        function()
        return int(Status.OK)
    except Error as e:
        session._raised = e
        return int(e.status)
    except Exception as e:
        session._raised = e
        lib.ps_session_fail(session._handle, Status.INTERNAL, f"{name}: {type(e).__name__}: {e}".encode())
        return int(Status.INTERNAL)
    except BaseException as e:  # KeyboardInterrupt: the call ends as an interrupted one, and the session goes on
        session._raised = e
        session._asked += 1
        lib.ps_interrupt(session._handle)
        return int(Status.CANCELLED)


def _values(pointer: Any) -> dict[str, float]:
    v = pointer.contents
    names, numbers = C.cast(v.names, C.POINTER(C.c_char_p)), C.cast(v.values, C.POINTER(C.c_double))
    return {text(names[i]): numbers[i] for i in range(v.count)}


def attach(session: Session, hook: Hook) -> None:
    """Session.add_hook()."""
    struct = ps_hook()
    lib.ps_hook_init(C.byref(struct))
    name = type(hook).__name__
    struct.name = name.encode()
    this = weakref.ref(session)

    def moment(method: str) -> Any:
        def called(ctx: int, handle: int) -> int:
            s = this()
            return guarded(s, f"{name}.{method}", lambda: getattr(hook, method)(s)) if s is not None else 0

        return _CALL(called)

    def after_run(ctx: int, handle: int, values: Any) -> int:
        s = this()
        return guarded(s, f"{name}.after_run", lambda: hook.after_run(s, _values(values))) if s is not None else 0

    for method in ("begin", "after_create_session", "before_run", "after_run", "end"):
        if getattr(type(hook), method) is not getattr(Hook, method):
            function = _VALUES(after_run) if method == "after_run" else moment(method)
            session._kept.append(function)
            setattr(struct, method, C.cast(function, C.c_void_p))
    session._check(lib.ps_add_hook, session._live(), C.byref(struct))
