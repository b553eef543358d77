# SPDX-License-Identifier: Apache-2.0
# Written by scripts/abi (make generated) from the public headers.
"""What psd.admin returns: the structs of the administration calls as dataclasses. worker/ps.h and worker/ps_queue.h tell what the fields mean."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _abi as A


@dataclass(frozen=True)
class SyncOptions:
    """ps_sync_options"""

    mode: A.SyncMode
    workers: int
    replicas_to_aggregate: int
    on_worker_loss: A.WorkerLoss
    staleness: int


@dataclass(frozen=True)
class SavedContainer:
    """ps_saved_container"""

    container: str
    step: int


@dataclass(frozen=True)
class SavesInfo:
    """ps_saves_info"""

    known: bool
    whole: bool
    decided: bool
    awaits_reset: bool
    more_containers: bool
    number: int
    step: int
    age_ms: int
    took_ms: int
    bytes: int
    makes: int
    make_ms: int
    make_tasks: int
    make_done: int
    make_share: int
    load_tasks: int
    load_done: int
    load_share: int
    loads: int
    failed_attempts: int
    failed_number: int
    failed_age_ms: int
    failed_status: A.Status
    failed_reason: A.Reason
    failed: str
    every_seconds: int
    every_steps: int
    container_count: int
    containers: tuple[SavedContainer, ...]


@dataclass(frozen=True)
class TaskInfo:
    """ps_task_info"""

    job: str
    task: int
    up: bool
    directory: bool
    address: str
    version: str
    error: str
    waiting_for: str
    uptime_ms: int
    memory_bytes: int
    budget_bytes: int
    variable_bytes: int
    connections: int
    sessions: int
    variables: int
    pid: int
    pushes_applied: int
    pushes_torn: int
    pushes_refused: int
    nonfinite: int
    pulls: int
    bytes_in: int
    bytes_out: int
    life: int
    pushes_per_second: float
    bytes_per_second: float
    devices: str
    conflict: str
    restarts: int
    lost: int
    lost_names: str
    connected: int
    in_progress: int
    records_bytes: int
    staged_bytes: int
    copies_bytes: int
    most_bytes: int
    most: str
    status: A.Status
    reason: A.Reason
    not_done: str
    done: int
    trainers: int
    job_done: bool
    insecure: bool
    checkpoints: str
    saves: SavesInfo
    denied: int
    handshakes_done: int
    handshakes_refused: int
    handshakes_under_way: int
    waiting: A.Waiting
    in_part: bool


@dataclass(frozen=True)
class VariableInfo:
    """ps_variable_info"""

    container: str
    name: str
    job: str
    task: int
    dtype: A.Dtype
    shape: tuple[int, ...]
    optimizer: Any
    optimizer_room: tuple[int, ...]
    version: int
    pushes: int
    initialised: bool
    sealed: bool
    atomic: bool
    in_progress: int
    bytes: int
    rate: float
    order: int
    step: int
    rate_in_force: float
    parts: int
    part: int
    whole_rows: int
    part_axis: int
    part_layout: int


@dataclass(frozen=True)
class ConfigInfo:
    """ps_config_info"""

    name: str
    value: str
    default_value: str
    help: str
    reloadable: bool


@dataclass(frozen=True)
class SessionInfo:
    """ps_session_info"""

    job: str
    task: int
    pid: int
    host: str
    program: str
    id: str
    connected: bool
    stopping: bool
    heard_ms: int
    age_ms: int
    global_step: int
    steps_per_second: float
    waits: int
    in_progress: int
    held_bytes: int
    rival: str
    identity: str
    key_id: str
    values: str


@dataclass(frozen=True)
class RightInfo:
    """ps_right_info"""

    identity: str
    role: str
    key_id: str
    open: bool
    rights: int
    row: str


@dataclass(frozen=True)
class EventInfo:
    """ps_event_info"""

    number: int
    life: int
    age_ms: int
    level: int
    event: str
    text: str


@dataclass(frozen=True)
class WaitInfo:
    """ps_wait_info"""

    job: str
    task: int
    pid: int
    host: str
    program: str
    id: str
    request: str
    what: str
    release: str
    since_ms: int
    left_ms: int


@dataclass(frozen=True)
class ContainerInfo:
    """ps_container_info"""

    name: str
    incarnation: int
    bytes: int
    variables: int
    initialised: int
    names: int
    queues: int
    chief: str
    chief_number: int
    chief_left_ms: int


@dataclass(frozen=True)
class RoundInfo:
    """ps_round_info"""

    container: str
    options: SyncOptions
    generation: int
    round: int
    step: int
    phase: A.RoundPhase
    workers: int
    replicas: int
    members: int
    dropped: int
    leads: tuple[int, ...]
    waits_for: str
    owners: str
    max_norm: float
    max_norm_each: int


@dataclass(frozen=True)
class MemberInfo:
    """ps_member_info"""

    job: str
    task: int
    pid: int
    host: str
    id: str
    state: A.MemberState
    member: int
    since_ms: int
    steps: int
    steps_unknown: bool


@dataclass(frozen=True)
class AgeInfo:
    """ps_age_info"""

    container: str
    ages: tuple[int, ...]


@dataclass(frozen=True)
class CheckpointInfo:
    """ps_checkpoint_info"""

    number: int
    state: A.CheckpointState
    time_ms: int
    step: int
    bytes: int
    milliseconds: int
    tasks: int
    done: int
    share: int
    text: str


@dataclass(frozen=True)
class Component:
    """ps_component"""

    dtype: A.Dtype
    shaped: bool
    shape: tuple[int, ...]


@dataclass(frozen=True)
class QueueInfo:
    """ps_queue_info"""

    container: str
    name: str
    job: str
    task: int
    kind: A.QueueKind
    capacity: int
    min_after_dequeue: int
    seed: int
    size: int
    taken: int
    bytes: int
    enqueuers: int
    dequeuers: int
    epoch: int
    epochs: int
    items: int
    done: int
    closed: bool
    component_count: int
    components: tuple[Component, ...]
    step: int
    dropped: int
    reduction: A.Reduction


RECORDS: dict[Any, Any] = {
    A.ps_sync_options: SyncOptions,
    A.ps_saved_container: SavedContainer,
    A.ps_saves_info: SavesInfo,
    A.ps_task_info: TaskInfo,
    A.ps_variable_info: VariableInfo,
    A.ps_config_info: ConfigInfo,
    A.ps_session_info: SessionInfo,
    A.ps_right_info: RightInfo,
    A.ps_event_info: EventInfo,
    A.ps_wait_info: WaitInfo,
    A.ps_container_info: ContainerInfo,
    A.ps_round_info: RoundInfo,
    A.ps_member_info: MemberInfo,
    A.ps_age_info: AgeInfo,
    A.ps_checkpoint_info: CheckpointInfo,
    A.ps_component: Component,
    A.ps_queue_info: QueueInfo,
}
