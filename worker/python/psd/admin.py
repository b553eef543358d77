# SPDX-License-Identifier: Apache-2.0
"""What psctl shows, as dataclasses. Each function takes a session; `task` is an index of task_names(). Fields mean what worker/ps.h says; times that
end in _ms are milliseconds."""

from __future__ import annotations

import ctypes as C
from dataclasses import fields
from typing import Any, Callable, NamedTuple, TypeVar

from . import _abi as A
from . import _records
from ._library import lib
from ._records import (
    AgeInfo,
    ConfigInfo,
    ContainerInfo,
    EventInfo,
    MemberInfo,
    QueueInfo,
    RightInfo,
    RoundInfo,
    SessionInfo,
    TaskInfo,
    VariableInfo,
    WaitInfo,
)
from .cluster import Device
from .errors import last_error
from .files import _Callbacks
from .session import Session
from .values import dims_of, milliseconds, optimizer_of, text

_R = TypeVar("_R")


class Round(NamedTuple):
    """A container that is trained in rounds or with bounded staleness, and its members."""

    info: RoundInfo
    members: list[MemberInfo]


def _plain(value: Any, hint: str) -> Any:
    if isinstance(value, bytes) or value is None:
        return text(value)
    if isinstance(value, C.Array):
        return tuple(_plain(v, hint) for v in value)
    if isinstance(value, A.ps_shape):
        return dims_of(value)
    if isinstance(value, A.ps_optimizer):
        return optimizer_of(value)
    if isinstance(value, C.Structure):
        return _record(value)
    if hint.startswith("A."):
        enum = getattr(A, hint[2:])
        return enum(value) if value in enum._value2member_map_ else value  # a number of a newer server stays a number
    return value


def _record(struct: C.Structure) -> Any:
    made = _records.RECORDS[type(struct)]
    return made(*(_plain(getattr(struct, f.name), str(f.type)) for f in fields(made)))


def _each(session: Session, kind: type[C.Structure], result: type[_R], function: Callable[..., int], *args: Any) -> list[_R]:
    """The structs that a call lists."""
    found: list[_R] = []
    callbacks = _Callbacks()
    called = callbacks.made(C.CFUNCTYPE(None, C.c_void_p, C.POINTER(kind)), lambda pointer: found.append(_record(pointer.contents)))
    session._check(function, session._live(), *args, called, None)
    callbacks.check()
    return found


def _count(session: Session) -> int:
    count = int(session._once(lib.ps_cluster_tasks, session._live()))
    if count < 0:
        raise last_error(session._last_status())
    return count


def task_names(session: Session) -> list[str]:
    """Names of the tasks that serve: "/job:ps/task:0"; the index is what other functions take."""
    count = _count(session)
    return [session._held(lambda h, i=i: text(lib.ps_cluster_task_name(h, i))) for i in range(count)]


def tasks(session: Session, timeout: float | None = None) -> list[TaskInfo]:
    """State of every task that serves. A task that does not answer has up == False, and error says why."""
    count = _count(session)
    infos = (A.ps_task_info * count)()
    session._check(lib.ps_cluster_info, session._live(), infos, C.sizeof(A.ps_task_info), count, milliseconds(timeout))
    return [_record(i) for i in infos]


def task_devices(session: Session, task: int, timeout: float | None = None) -> list[Device]:
    """Devices of one task."""
    count = _count(session)
    infos = (A.ps_task_info * count)()
    session._check(lib.ps_cluster_info, session._live(), infos, C.sizeof(A.ps_task_info), count, milliseconds(timeout))
    devices = (A.ps_device_info * 64)()
    found = lib.ps_task_info_devices(C.byref(infos[task]), devices, C.sizeof(A.ps_device_info), len(devices))
    return [Device(text(d.name), text(d.type), d.index, d.memory_bytes) for d in devices[: max(0, min(found, len(devices)))]]


def variables(session: Session, task: int, timeout: float | None = None) -> list[VariableInfo]:
    """Variables of one task, by container and name."""
    return _each(session, A.ps_variable_info, VariableInfo, lib.ps_task_variables, task, milliseconds(timeout))


def queues(session: Session, task: int, timeout: float | None = None) -> list[QueueInfo]:
    """Queues, work and accumulators of one task."""
    return _each(session, A.ps_queue_info, QueueInfo, lib.ps_task_queues, task, milliseconds(timeout))


def sessions(session: Session, task: int, timeout: float | None = None) -> list[SessionInfo]:
    """Sessions that one task knows. The directory (TaskInfo.directory) knows all."""
    return _each(session, A.ps_session_info, SessionInfo, lib.ps_task_sessions, task, milliseconds(timeout))


def events(session: Session, task: int, timeout: float | None = None) -> list[EventInfo]:
    """What has happened at one task, the oldest first, as far as the task has kept it."""
    found: list[EventInfo] = []
    place = A.ps_event_place(struct_bytes=C.sizeof(A.ps_event_place))
    callbacks = _Callbacks()
    called = callbacks.made(C.CFUNCTYPE(None, C.c_void_p, C.POINTER(A.ps_event_info)),
                            lambda pointer: found.append(_record(pointer.contents)))
    before = -1
    while len(found) > before:
        before = len(found)
        session._check(lib.ps_task_events, session._live(), task, C.byref(place), milliseconds(timeout), called, None)
        callbacks.check()
    return found


def waits(session: Session, task: int, timeout: float | None = None) -> list[WaitInfo]:
    """Requests that wait at one task, the oldest first."""
    return _each(session, A.ps_wait_info, WaitInfo, lib.ps_task_waits, task, milliseconds(timeout))


def containers(session: Session, task: int, timeout: float | None = None) -> list[ContainerInfo]:
    """Containers of one task."""
    return _each(session, A.ps_container_info, ContainerInfo, lib.ps_task_containers, task, milliseconds(timeout))


def ages(session: Session, task: int, timeout: float | None = None) -> list[AgeInfo]:
    """Ages of the gradients that one task has applied."""
    return _each(session, A.ps_age_info, AgeInfo, lib.ps_task_ages, task, milliseconds(timeout))


def rights(session: Session, task: int, timeout: float | None = None) -> list[RightInfo]:
    """Who this session is at one task (first entry), and the rows of rights that apply to it."""
    return _each(session, A.ps_right_info, RightInfo, lib.ps_task_rights, task, milliseconds(timeout))


def config(session: Session, task: int, timeout: float | None = None) -> list[ConfigInfo]:
    """Settings of one task."""
    return _each(session, A.ps_config_info, ConfigInfo, lib.ps_task_config, task, milliseconds(timeout))


def set_config(session: Session, task: int, name: str, value: str, timeout: float | None = None) -> None:
    """Change a setting while the task runs."""
    session._check(lib.ps_task_config_set, session._live(), task, name.encode(), value.encode(), milliseconds(timeout))


def rounds(session: Session, timeout: float | None = None) -> list[Round]:
    """Containers that are trained in rounds or with bounded staleness."""
    found: list[Round] = []
    callbacks = _Callbacks()
    info = callbacks.made(C.CFUNCTYPE(None, C.c_void_p, C.POINTER(A.ps_round_info)), lambda p: found.append(Round(_record(p.contents), [])))
    member = callbacks.made(C.CFUNCTYPE(None, C.c_void_p, C.POINTER(A.ps_member_info)), lambda p: found[-1].members.append(_record(p.contents)))
    session._check(lib.ps_rounds, session._live(), milliseconds(timeout), info, member, None)
    callbacks.check()
    return found


def ping(session: Session, task: int, timeout: float | None = None) -> float:
    """Round-trip time of an empty request, in seconds."""
    out = C.c_int64()
    session._check(lib.ps_task_ping, session._live(), task, milliseconds(timeout), C.byref(out))
    return out.value / 1e6


def shutdown(session: Session, task: int, timeout: float | None = None) -> None:
    """Ask a task to finish its requests and end."""
    session._check(lib.ps_task_shutdown, session._live(), task, milliseconds(timeout))
