# SPDX-License-Identifier: Apache-2.0
# Written by scripts/abi (make generated) from the public headers and tests/golden/abi.
"""Constants, structs and functions of libpsworker and libpsd, for ctypes."""
from __future__ import annotations

import ctypes as C
from enum import IntEnum
from typing import TYPE_CHECKING, Any

VERSION = "0.1.0"
SOVERSION = 1


PS_SCHEDULE_NUMBERS = 12
PS_SCHEDULE_BOUNDARIES_MAX = 6
PSD_CALL_PENDING = 1000
PSD_CALL_KEY_BYTES = 16
PSD_TEXT_BYTES_MAX = 511
PSD_DAY_MS = 86400000


class Status(IntEnum):
    """ps_status"""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class Applied(IntEnum):
    """ps_applied"""

    NOTHING_APPLIED = 0
    MAYBE_PARTLY_APPLIED = 1
    OUTCOME_UNKNOWN = 2


class Reason(IntEnum):
    """ps_reason"""

    NONE = 0
    UNINITIALIZED = 32
    LOST = 33
    OTHER_CLUSTER = 34
    OVERLOADED = 35
    TOO_LARGE = 36
    NO_CHIEF = 37
    NOT_CONNECTED = 38
    NOT_READY = 39
    RESET_PENDING = 40
    SHUTTING_DOWN = 41
    NEWER_CHIEF = 42
    SHAPE_MISMATCH = 43
    OPTIMIZER_MISMATCH = 44
    ATOMIC_MISMATCH = 45
    CONFLICT = 46
    DISPLACED = 47
    NO_DEVICE = 48
    NOT_FINITE = 49
    VERSION = 50
    FEATURE = 51
    OLD_CONNECTION = 52
    NOT_DIRECTORY = 53
    CLOSING = 54
    GAP = 55
    BAD_CRC = 56
    IN_ROUNDS = 57
    NO_ROUNDS = 58
    DISK_FULL = 59
    INTERRUPTED = 60
    IDENTITY = 61
    REVOKED = 62


class Dtype(IntEnum):
    """ps_dtype"""

    DTYPE_NONE = 0
    F32 = 1
    F64 = 2
    I32 = 3
    I64 = 4
    BOOL = 5
    F16 = 6
    BF16 = 7
    I8 = 8
    U8 = 9
    STRING = 10


class InitKind(IntEnum):
    """ps_init_kind"""

    ZEROS = 1
    ONES = 2
    CONSTANT = 3
    UNIFORM = 4
    NORMAL = 5
    GLOROT_UNIFORM = 6
    TRUNCATED_NORMAL = 7
    HE_NORMAL = 8
    HE_UNIFORM = 9


class Fan(IntEnum):
    """ps_fan"""

    IN_OUT = 0
    OUT_IN = 1


class OptKind(IntEnum):
    """ps_opt_kind"""

    NONE = 0
    SGD = 1
    MOMENTUM = 2
    ADAGRAD = 3
    ADAM = 4
    ADAGRAD_V2 = 5
    ADAGRAD_DA = 6
    ADADELTA = 7
    RMSPROP = 8
    RMSPROP_CENTERED = 9
    ADAMW = 10
    ADAMW_TF = 11
    AMSGRAD = 12
    ADAMAX = 13
    NADAM = 14
    FTRL = 15
    PROXIMAL_GD = 16
    PROXIMAL_ADAGRAD = 17
    ADDSIGN = 18
    POWERSIGN = 19
    LION = 20
    TORCH_ADAM = 21
    TORCH_ADAGRAD = 22
    TORCH_RMSPROP = 23
    TORCH_RMSPROP_CENTERED = 24
    LAZY_ADAM = 25
    ROWWISE_ADAGRAD = 26
    ROWWISE_ADAM = 27
    LAMB = 28
    LARS = 29


class ScheduleKind(IntEnum):
    """ps_schedule_kind"""

    NONE = 0
    CONSTANT = 1
    EXPONENTIAL_DECAY = 2
    INVERSE_TIME_DECAY = 3
    POLYNOMIAL_DECAY = 4
    PIECEWISE_CONSTANT = 5
    COSINE_DECAY = 6
    COSINE_DECAY_RESTARTS = 7


class CheckpointState(IntEnum):
    """ps_checkpoint_state"""

    WHOLE = 1
    WRITING = 2
    IN_PART = 3
    UNUSABLE = 4
    FAILED = 5


class Waiting(IntEnum):
    """ps_waiting"""

    UNSAID = 0
    TASKS = 1
    LOAD = 2
    RETRY = 3
    REFUSED = 4


class PlacementStrategy(IntEnum):
    """ps_placement_strategy"""

    ROUND_ROBIN = 0
    GREEDY_BYTES = 1


class LogLevel(IntEnum):
    """ps_log_level"""

    DEBUG = 0
    INFO = 1
    WARN = 2
    ERROR = 3


class Progress(IntEnum):
    """ps_progress"""

    THREAD = 0
    CALLER = 1


class SyncMode(IntEnum):
    """ps_sync_mode"""

    NONE = 0
    ROUNDS = 1
    STALENESS = 2


class WorkerLoss(IntEnum):
    """ps_worker_loss"""

    WAIT = 0
    SHRINK = 1
    FAIL = 2


class NormOf(IntEnum):
    """ps_norm_of"""

    ALL = 0
    EACH = 1


class RowsMean(IntEnum):
    """ps_rows_mean"""

    ALL = 0
    THOSE = 1


class Reuse(IntEnum):
    """ps_reuse"""

    AUTO = 0
    NEVER = 1
    ALWAYS = 2


class Layout(IntEnum):
    """ps_layout"""

    DIV = 0
    MOD = 1


class RoundPhase(IntEnum):
    """ps_round_phase"""

    OPENING = 1
    COLLECTS = 2
    PREPARES = 3
    COMMITS = 4
    IN_DOUBT = 5
    FAILED = 6


class MemberState(IntEnum):
    """ps_member_state"""

    WORKS = 1
    COMPLETE = 2
    LOST = 3
    ENTERS = 4
    WAITS = 5
    UNKNOWN = 6


class NanAction(IntEnum):
    """ps_nan_action"""

    STOP = 1
    SKIP = 2
    END = 3


class TraceLevel(IntEnum):
    """ps_trace_level"""

    NO_TRACE = 0
    FULL_TRACE = 3


class QueueKind(IntEnum):
    """ps_queue_kind"""

    FIFO = 1
    RANDOM_SHUFFLE = 2
    WORK = 3
    ACCUMULATOR = 4
    SPARSE_ACCUMULATOR = 5


class Reduction(IntEnum):
    """ps_reduction"""

    MEAN = 1
    SUM = 2
    MEAN_OF_ALL = 3


class Activation(IntEnum):
    """ps_activation"""

    LINEAR = 0
    RELU = 1
    SIGMOID = 2
    TANH = 3


class Combiner(IntEnum):
    """ps_combiner"""

    SUM = 0
    MEAN = 1
    SQRTN = 2


class ps_shape(C.Structure):
    """ps_shape: 72 bytes"""

    if TYPE_CHECKING:
        rank: int
        reserved: int
        dims: Any

    _fields_ = [
        ("rank", C.c_uint32),
        ("reserved", C.c_uint32),
        ("dims", C.c_int64 * 8),
    ]


class ps_initializer(C.Structure):
    """ps_initializer: 24 bytes"""

    if TYPE_CHECKING:
        kind: int
        fan: int
        a: float
        b: float

    _fields_ = [
        ("kind", C.c_uint32),
        ("fan", C.c_uint32),
        ("a", C.c_double),
        ("b", C.c_double),
    ]


class ps_optimizer(C.Structure):
    """ps_optimizer: 256 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        kind: int
        nesterov: int
        learning_rate: float
        momentum: float
        initial_accumulator: float
        beta1: float
        beta2: float
        epsilon: float
        weight_decay: float
        power: float
        l1_strength: float
        l2_strength: float
        l2_shrinkage: float
        l2: float
        clip_value: float
        ema: float
        schedule: int
        schedule_switch: int
        warmup_steps: float
        warmup_rate: float
        schedule_numbers: Any
        ema_updates: float

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("kind", C.c_uint32),
        ("nesterov", C.c_uint32),
        ("learning_rate", C.c_double),
        ("momentum", C.c_double),
        ("initial_accumulator", C.c_double),
        ("beta1", C.c_double),
        ("beta2", C.c_double),
        ("epsilon", C.c_double),
        ("weight_decay", C.c_double),
        ("power", C.c_double),
        ("l1_strength", C.c_double),
        ("l2_strength", C.c_double),
        ("l2_shrinkage", C.c_double),
        ("l2", C.c_double),
        ("clip_value", C.c_double),
        ("ema", C.c_double),
        ("schedule", C.c_uint32),
        ("schedule_switch", C.c_uint32),
        ("warmup_steps", C.c_double),
        ("warmup_rate", C.c_double),
        ("schedule_numbers", C.c_double * 12),
        ("ema_updates", C.c_double),
    ]


class ps_resolver_options(C.Structure):
    """ps_resolver_options: 96 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        cluster: bytes | None
        job_name: bytes | None
        task_index: bytes | None
        rendezvous: bytes | None
        address_suffix: bytes | None
        ps_pods: bytes | None
        worker_pods: bytes | None
        host_name: bytes | None
        ps_tasks: int
        ps_per_node: int
        worker_tasks: int
        base_port: int
        wait_ms: int
        directory_port: int

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("cluster", C.c_char_p),
        ("job_name", C.c_char_p),
        ("task_index", C.c_char_p),
        ("rendezvous", C.c_char_p),
        ("address_suffix", C.c_char_p),
        ("ps_pods", C.c_char_p),
        ("worker_pods", C.c_char_p),
        ("host_name", C.c_char_p),
        ("ps_tasks", C.c_uint32),
        ("ps_per_node", C.c_uint32),
        ("worker_tasks", C.c_uint32),
        ("base_port", C.c_uint32),
        ("wait_ms", C.c_uint32),
        ("directory_port", C.c_uint32),
    ]


class ps_resolved(C.Structure):
    """ps_resolved: 1384 bytes"""

    if TYPE_CHECKING:
        manager: Any
        job: Any
        task: int
        listen: Any
        why: Any

    _fields_ = [
        ("manager", C.c_char * 16),
        ("job", C.c_char * 64),
        ("task", C.c_int32),
        ("listen", C.c_char * 276),
        ("why", C.c_char * 1022),
    ]


class psd_call_row(C.Structure):
    """psd_call_row: 40 bytes"""

    if TYPE_CHECKING:
        name: bytes | None
        check: Any
        run: Any
        cancel: Any
        early: bool

    _fields_ = [
        ("name", C.c_char_p),
        ("check", C.c_void_p),
        ("run", C.c_void_p),
        ("cancel", C.c_void_p),
        ("early", C.c_bool),
    ]


class psd_call_read(C.Structure):
    """psd_call_read: 72 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        container: bytes | None
        key: Any
        name: bytes | None
        dtype: int
        dst: Any
        bytes: int
        have_creation: int
        have_version: int

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("container", C.c_char_p),
        ("key", C.c_void_p),
        ("name", C.c_char_p),
        ("dtype", C.c_int),
        ("dst", C.c_void_p),
        ("bytes", C.c_size_t),
        ("have_creation", C.c_uint64),
        ("have_version", C.c_uint64),
    ]


class psd_call_read_result(C.Structure):
    """psd_call_read_result: 56 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        status: int
        reason: int
        version: int
        exact: bool
        error: bytes | None
        creation: int
        same: bool

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("status", C.c_int),
        ("reason", C.c_int),
        ("version", C.c_uint64),
        ("exact", C.c_bool),
        ("error", C.c_char_p),
        ("creation", C.c_uint64),
        ("same", C.c_bool),
    ]


class psd_call_draft(C.Structure):
    """psd_call_draft: 112 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        container: bytes | None
        key: Any
        name: bytes | None
        dtype: int
        shape: ps_shape

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("container", C.c_char_p),
        ("key", C.c_void_p),
        ("name", C.c_char_p),
        ("dtype", C.c_int),
        ("shape", ps_shape),
    ]


class psd_call_draft_result(C.Structure):
    """psd_call_draft_result: 40 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        status: int
        reason: int
        room: Any
        version: int
        error: bytes | None

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("status", C.c_int),
        ("reason", C.c_int),
        ("room", C.c_void_p),
        ("version", C.c_uint64),
        ("error", C.c_char_p),
    ]


class psd_call_functions(C.Structure):
    """psd_call_functions: 112 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        cancelled: Any
        again: Any
        finish: Any
        data: Any
        asker: Any
        left_ms: Any
        read: Any
        reason: Any
        queued_ns: Any
        identity: Any
        draft: Any
        publish: Any
        come: Any

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("cancelled", C.c_void_p),
        ("again", C.c_void_p),
        ("finish", C.c_void_p),
        ("data", C.c_void_p),
        ("asker", C.c_void_p),
        ("left_ms", C.c_void_p),
        ("read", C.c_void_p),
        ("reason", C.c_void_p),
        ("queued_ns", C.c_void_p),
        ("identity", C.c_void_p),
        ("draft", C.c_void_p),
        ("publish", C.c_void_p),
        ("come", C.c_void_p),
    ]


class psd_call_task(C.Structure):
    """psd_call_task: 96 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        target: bytes | None
        name: bytes | None
        job: bytes | None
        task_index: int
        call_threads: int
        cluster_name: bytes | None
        cluster_spec: bytes | None
        devices: bytes | None
        key_file: bytes | None
        tls_cert: bytes | None
        tls_key: bytes | None
        tls_ca: bytes | None

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("target", C.c_char_p),
        ("name", C.c_char_p),
        ("job", C.c_char_p),
        ("task_index", C.c_uint32),
        ("call_threads", C.c_uint32),
        ("cluster_name", C.c_char_p),
        ("cluster_spec", C.c_char_p),
        ("devices", C.c_char_p),
        ("key_file", C.c_char_p),
        ("tls_cert", C.c_char_p),
        ("tls_key", C.c_char_p),
        ("tls_ca", C.c_char_p),
    ]


class psd_call_table(C.Structure):
    """psd_call_table: 48 bytes"""

    if TYPE_CHECKING:
        rows: Any
        row_bytes: int
        count: int
        ctx: Any
        attach: Any
        detach: Any

    _fields_ = [
        ("rows", C.c_void_p),
        ("row_bytes", C.c_size_t),
        ("count", C.c_size_t),
        ("ctx", C.c_void_p),
        ("attach", C.c_void_p),
        ("detach", C.c_void_p),
    ]


class ps_setter_options(C.Structure):
    """ps_setter_options: 48 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        ps_tasks: int
        reserved: int
        cluster: Any
        ps_device: bytes | None
        worker_device: bytes | None
        merge_devices: bool
        reserved2: Any
        strategy: int

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("ps_tasks", C.c_int),
        ("reserved", C.c_int),
        ("cluster", C.c_void_p),
        ("ps_device", C.c_char_p),
        ("worker_device", C.c_char_p),
        ("merge_devices", C.c_bool),
        ("reserved2", C.c_uint8 * 3),
        ("strategy", C.c_int),
    ]


class ps_session_options(C.Structure):
    """ps_session_options: 184 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        target: bytes | None
        cluster_spec: bytes | None
        cluster_name: bytes | None
        job: bytes | None
        task_index: int
        spin_us: int
        operation_timeout_ms: int
        ready_timeout_ms: int
        progress: int
        log_level: int
        log: Any
        log_ctx: Any
        program: bytes | None
        seed: int
        container: bytes | None
        allow_soft_placement: bool
        log_device_placement: bool
        fail_fast: bool
        prefetch: bool
        wire_dtype: int
        placement_log: Any
        placement_log_ctx: Any
        compute_device: bytes | None
        compute_threads: int
        start_timeout_ms: int
        key_file: bytes | None
        tls_cert: bytes | None
        tls_key: bytes | None
        tls_ca: bytes | None

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("target", C.c_char_p),
        ("cluster_spec", C.c_char_p),
        ("cluster_name", C.c_char_p),
        ("job", C.c_char_p),
        ("task_index", C.c_uint32),
        ("spin_us", C.c_uint32),
        ("operation_timeout_ms", C.c_int64),
        ("ready_timeout_ms", C.c_int64),
        ("progress", C.c_int),
        ("log_level", C.c_int),
        ("log", C.c_void_p),
        ("log_ctx", C.c_void_p),
        ("program", C.c_char_p),
        ("seed", C.c_uint64),
        ("container", C.c_char_p),
        ("allow_soft_placement", C.c_bool),
        ("log_device_placement", C.c_bool),
        ("fail_fast", C.c_bool),
        ("prefetch", C.c_bool),
        ("wire_dtype", C.c_int),
        ("placement_log", C.c_void_p),
        ("placement_log_ctx", C.c_void_p),
        ("compute_device", C.c_char_p),
        ("compute_threads", C.c_uint32),
        ("start_timeout_ms", C.c_uint32),
        ("key_file", C.c_char_p),
        ("tls_cert", C.c_char_p),
        ("tls_key", C.c_char_p),
        ("tls_ca", C.c_char_p),
    ]


class ps_sync_options(C.Structure):
    """ps_sync_options: 32 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        mode: int
        workers: int
        replicas_to_aggregate: int
        on_worker_loss: int
        staleness: int
        reserved: int

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("mode", C.c_int),
        ("workers", C.c_uint32),
        ("replicas_to_aggregate", C.c_uint32),
        ("on_worker_loss", C.c_int),
        ("staleness", C.c_uint32),
        ("reserved", C.c_uint32),
    ]


class ps_device_info(C.Structure):
    """ps_device_info: 192 bytes"""

    if TYPE_CHECKING:
        name: Any
        type: Any
        index: int
        reserved: int
        memory_bytes: int

    _fields_ = [
        ("name", C.c_char * 160),
        ("type", C.c_char * 16),
        ("index", C.c_uint32),
        ("reserved", C.c_uint32),
        ("memory_bytes", C.c_uint64),
    ]


class ps_variable_spec(C.Structure):
    """ps_variable_spec: 136 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        name: bytes | None
        dtype: int
        partitions: int
        shape: ps_shape
        init: Any
        optimizer: Any
        device: bytes | None
        type: bytes | None
        atomic: bool
        unique: bool
        partition_axis: int
        partition_layout: int
        wire_dtype: int

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("name", C.c_char_p),
        ("dtype", C.c_int),
        ("partitions", C.c_uint32),
        ("shape", ps_shape),
        ("init", C.c_void_p),
        ("optimizer", C.c_void_p),
        ("device", C.c_char_p),
        ("type", C.c_char_p),
        ("atomic", C.c_bool),
        ("unique", C.c_bool),
        ("partition_axis", C.c_uint8),
        ("partition_layout", C.c_uint8),
        ("wire_dtype", C.c_int),
    ]


class ps_result(C.Structure):
    """ps_result: 112 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        status: int
        applied: int
        version: int
        exact: bool
        reserved: Any
        result_bytes: int
        reason: int
        result: Any
        text: bytes | None

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("status", C.c_int),
        ("applied", C.c_int),
        ("version", C.c_uint64),
        ("exact", C.c_bool),
        ("reserved", C.c_uint8 * 7),
        ("result_bytes", C.c_uint32),
        ("reason", C.c_int),
        ("result", C.c_uint8 * 64),
        ("text", C.c_char_p),
    ]


class ps_request(C.Structure):
    """ps_request: 512 bytes"""

    if TYPE_CHECKING:
        opaque: Any

    _fields_ = [
        ("opaque", C.c_uint64 * 64),
    ]


class ps_file_options(C.Structure):
    """ps_file_options: 64 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        container: bytes | None
        copied: Any
        ctx: Any
        slots: bool
        existing: bool
        reserved: Any
        only: Any
        prefixes: Any
        taken: Any

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("container", C.c_char_p),
        ("copied", C.c_void_p),
        ("ctx", C.c_void_p),
        ("slots", C.c_bool),
        ("existing", C.c_bool),
        ("reserved", C.c_bool * 6),
        ("only", C.c_void_p),
        ("prefixes", C.c_void_p),
        ("taken", C.c_void_p),
    ]


class ps_saved_container(C.Structure):
    """ps_saved_container: 72 bytes"""

    if TYPE_CHECKING:
        container: Any
        step: int

    _fields_ = [
        ("container", C.c_char * 64),
        ("step", C.c_int64),
    ]


class ps_saves_info(C.Structure):
    """ps_saves_info: 1008 bytes"""

    if TYPE_CHECKING:
        known: bool
        whole: bool
        decided: bool
        awaits_reset: bool
        more_containers: bool
        reserved: Any
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
        failed_status: int
        failed_reason: int
        failed: Any
        every_seconds: int
        every_steps: int
        container_count: int
        reserved_containers: Any
        containers: Any

    _fields_ = [
        ("known", C.c_bool),
        ("whole", C.c_bool),
        ("decided", C.c_bool),
        ("awaits_reset", C.c_bool),
        ("more_containers", C.c_bool),
        ("reserved", C.c_uint8 * 3),
        ("number", C.c_uint64),
        ("step", C.c_int64),
        ("age_ms", C.c_int64),
        ("took_ms", C.c_uint64),
        ("bytes", C.c_uint64),
        ("makes", C.c_uint64),
        ("make_ms", C.c_uint64),
        ("make_tasks", C.c_uint32),
        ("make_done", C.c_uint32),
        ("make_share", C.c_uint32),
        ("load_tasks", C.c_uint32),
        ("load_done", C.c_uint32),
        ("load_share", C.c_uint32),
        ("loads", C.c_uint64),
        ("failed_attempts", C.c_uint64),
        ("failed_number", C.c_uint64),
        ("failed_age_ms", C.c_int64),
        ("failed_status", C.c_int),
        ("failed_reason", C.c_int),
        ("failed", C.c_char * 288),
        ("every_seconds", C.c_uint32),
        ("every_steps", C.c_uint32),
        ("container_count", C.c_uint32),
        ("reserved_containers", C.c_uint8 * 4),
        ("containers", ps_saved_container * 8),
    ]


class ps_task_info(C.Structure):
    """ps_task_info: 3968 bytes"""

    if TYPE_CHECKING:
        job: Any
        task: int
        up: bool
        directory: bool
        reserved: Any
        address: Any
        version: Any
        error: Any
        waiting_for: Any
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
        devices: Any
        conflict: Any
        restarts: int
        lost: int
        lost_names: Any
        connected: int
        in_progress: int
        records_bytes: int
        staged_bytes: int
        copies_bytes: int
        most_bytes: int
        most: Any
        status: int
        reason: int
        not_done: Any
        done: int
        trainers: int
        job_done: bool
        insecure: bool
        reserved_done: Any
        checkpoints: Any
        saves: ps_saves_info
        denied: int
        handshakes_done: int
        handshakes_refused: int
        handshakes_under_way: int
        waiting: int
        in_part: bool
        reserved_part: Any

    _fields_ = [
        ("job", C.c_char * 64),
        ("task", C.c_uint32),
        ("up", C.c_bool),
        ("directory", C.c_bool),
        ("reserved", C.c_uint8 * 2),
        ("address", C.c_char * 272),
        ("version", C.c_char * 33),
        ("error", C.c_char * 544),
        ("waiting_for", C.c_char * 256),
        ("uptime_ms", C.c_uint64),
        ("memory_bytes", C.c_uint64),
        ("budget_bytes", C.c_uint64),
        ("variable_bytes", C.c_uint64),
        ("connections", C.c_uint32),
        ("sessions", C.c_uint32),
        ("variables", C.c_uint32),
        ("pid", C.c_uint32),
        ("pushes_applied", C.c_uint64),
        ("pushes_torn", C.c_uint64),
        ("pushes_refused", C.c_uint64),
        ("nonfinite", C.c_uint64),
        ("pulls", C.c_uint64),
        ("bytes_in", C.c_uint64),
        ("bytes_out", C.c_uint64),
        ("life", C.c_uint64),
        ("pushes_per_second", C.c_double),
        ("bytes_per_second", C.c_double),
        ("devices", C.c_char * 128),
        ("conflict", C.c_char * 256),
        ("restarts", C.c_uint32),
        ("lost", C.c_uint32),
        ("lost_names", C.c_char * 256),
        ("connected", C.c_uint32),
        ("in_progress", C.c_uint32),
        ("records_bytes", C.c_uint64),
        ("staged_bytes", C.c_uint64),
        ("copies_bytes", C.c_uint64),
        ("most_bytes", C.c_uint64),
        ("most", C.c_char * 128),
        ("status", C.c_int),
        ("reason", C.c_int),
        ("not_done", C.c_char * 256),
        ("done", C.c_uint32),
        ("trainers", C.c_uint32),
        ("job_done", C.c_bool),
        ("insecure", C.c_bool),
        ("reserved_done", C.c_uint8 * 6),
        ("checkpoints", C.c_char * 512),
        ("saves", ps_saves_info),
        ("denied", C.c_uint64),
        ("handshakes_done", C.c_uint64),
        ("handshakes_refused", C.c_uint64),
        ("handshakes_under_way", C.c_uint32),
        ("waiting", C.c_int),
        ("in_part", C.c_bool),
        ("reserved_part", C.c_uint8 * 7),
    ]


class ps_variable_info(C.Structure):
    """ps_variable_info: 944 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        container: Any
        name: Any
        job: Any
        task: int
        dtype: int
        shape: ps_shape
        optimizer: ps_optimizer
        optimizer_room: Any
        version: int
        pushes: int
        initialised: bool
        sealed: bool
        atomic: bool
        reserved: int
        in_progress: int
        bytes: int
        rate: float
        order: int
        reserved_order: Any
        step: int
        rate_in_force: float
        parts: int
        part: int
        whole_rows: int
        part_axis: int
        part_layout: int
        reserved_part: Any

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("container", C.c_char * 64),
        ("name", C.c_char * 256),
        ("job", C.c_char * 64),
        ("task", C.c_uint32),
        ("dtype", C.c_int),
        ("shape", ps_shape),
        ("optimizer", ps_optimizer),
        ("optimizer_room", C.c_uint8 * 128),
        ("version", C.c_uint64),
        ("pushes", C.c_uint64),
        ("initialised", C.c_bool),
        ("sealed", C.c_bool),
        ("atomic", C.c_bool),
        ("reserved", C.c_uint8),
        ("in_progress", C.c_uint32),
        ("bytes", C.c_uint64),
        ("rate", C.c_double),
        ("order", C.c_uint32),
        ("reserved_order", C.c_uint8 * 4),
        ("step", C.c_uint64),
        ("rate_in_force", C.c_double),
        ("parts", C.c_uint32),
        ("part", C.c_uint32),
        ("whole_rows", C.c_int64),
        ("part_axis", C.c_uint8),
        ("part_layout", C.c_uint8),
        ("reserved_part", C.c_uint8 * 6),
    ]


class ps_config_info(C.Structure):
    """ps_config_info: 48 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        name: bytes | None
        value: bytes | None
        default_value: bytes | None
        help: bytes | None
        reloadable: bool

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("name", C.c_char_p),
        ("value", C.c_char_p),
        ("default_value", C.c_char_p),
        ("help", C.c_char_p),
        ("reloadable", C.c_bool),
    ]


class ps_session_info(C.Structure):
    """ps_session_info: 712 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        job: Any
        task: int
        pid: int
        host: Any
        program: Any
        id: Any
        connected: bool
        stopping: bool
        reserved: Any
        heard_ms: int
        age_ms: int
        global_step: int
        steps_per_second: float
        waits: int
        in_progress: int
        held_bytes: int
        rival: Any
        identity: Any
        key_id: Any
        reserved_key: Any
        values: Any

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("job", C.c_char * 64),
        ("task", C.c_uint32),
        ("pid", C.c_uint32),
        ("host", C.c_char * 65),
        ("program", C.c_char * 65),
        ("id", C.c_char * 17),
        ("connected", C.c_bool),
        ("stopping", C.c_bool),
        ("reserved", C.c_uint8 * 3),
        ("heard_ms", C.c_uint64),
        ("age_ms", C.c_uint64),
        ("global_step", C.c_int64),
        ("steps_per_second", C.c_double),
        ("waits", C.c_uint32),
        ("in_progress", C.c_uint32),
        ("held_bytes", C.c_uint64),
        ("rival", C.c_char * 96),
        ("identity", C.c_char * 134),
        ("key_id", C.c_char * 9),
        ("reserved_key", C.c_uint8 * 1),
        ("values", C.c_char * 192),
    ]


class ps_right_info(C.Structure):
    """ps_right_info: 1200 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        identity: Any
        role: Any
        key_id: Any
        open: bool
        rights: int
        row: Any

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("identity", C.c_char * 134),
        ("role", C.c_char * 16),
        ("key_id", C.c_char * 9),
        ("open", C.c_bool),
        ("rights", C.c_uint32),
        ("row", C.c_char * 1024),
    ]


class ps_event_info(C.Structure):
    """ps_event_info: 584 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        number: int
        life: int
        age_ms: int
        level: int
        event: Any
        text: Any

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("number", C.c_uint64),
        ("life", C.c_uint64),
        ("age_ms", C.c_uint64),
        ("level", C.c_uint32),
        ("event", C.c_char * 32),
        ("text", C.c_char * 512),
    ]


class ps_event_place(C.Structure):
    """ps_event_place: 40 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        life: int
        next: int
        wait_ms: int
        missed: int

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("life", C.c_uint64),
        ("next", C.c_uint64),
        ("wait_ms", C.c_int64),
        ("missed", C.c_uint64),
    ]


class ps_wait_info(C.Structure):
    """ps_wait_info: 776 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        job: Any
        task: int
        pid: int
        host: Any
        program: Any
        id: Any
        request: Any
        what: Any
        release: Any
        since_ms: int
        left_ms: int

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("job", C.c_char * 64),
        ("task", C.c_uint32),
        ("pid", C.c_uint32),
        ("host", C.c_char * 65),
        ("program", C.c_char * 65),
        ("id", C.c_char * 17),
        ("request", C.c_char * 17),
        ("what", C.c_char * 256),
        ("release", C.c_char * 256),
        ("since_ms", C.c_uint64),
        ("left_ms", C.c_int64),
    ]


class ps_container_info(C.Structure):
    """ps_container_info: 216 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        name: Any
        incarnation: int
        bytes: int
        variables: int
        initialised: int
        names: int
        queues: int
        chief: Any
        chief_number: int
        chief_left_ms: int

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("name", C.c_char * 64),
        ("incarnation", C.c_uint64),
        ("bytes", C.c_uint64),
        ("variables", C.c_uint32),
        ("initialised", C.c_uint32),
        ("names", C.c_uint32),
        ("queues", C.c_uint32),
        ("chief", C.c_char * 96),
        ("chief_number", C.c_uint64),
        ("chief_left_ms", C.c_uint64),
    ]


class ps_round_info(C.Structure):
    """ps_round_info: 1072 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        container: Any
        options: ps_sync_options
        generation: int
        round: int
        step: int
        phase: int
        workers: int
        replicas: int
        members: int
        dropped: int
        leads: Any
        waits_for: Any
        owners: Any
        max_norm: float
        max_norm_each: int
        reserved: int

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("container", C.c_char * 64),
        ("options", ps_sync_options),
        ("generation", C.c_uint64),
        ("round", C.c_uint64),
        ("step", C.c_uint64),
        ("phase", C.c_int),
        ("workers", C.c_uint32),
        ("replicas", C.c_uint32),
        ("members", C.c_uint32),
        ("dropped", C.c_uint64),
        ("leads", C.c_uint64 * 17),
        ("waits_for", C.c_char * 512),
        ("owners", C.c_char * 256),
        ("max_norm", C.c_double),
        ("max_norm_each", C.c_uint32),
        ("reserved", C.c_uint32),
    ]


class ps_member_info(C.Structure):
    """ps_member_info: 200 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        job: Any
        task: int
        pid: int
        host: Any
        id: Any
        state: int
        member: int
        since_ms: int
        steps: int
        steps_unknown: bool
        reserved: Any

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("job", C.c_char * 64),
        ("task", C.c_uint32),
        ("pid", C.c_uint32),
        ("host", C.c_char * 65),
        ("id", C.c_char * 17),
        ("state", C.c_int),
        ("member", C.c_uint64),
        ("since_ms", C.c_uint64),
        ("steps", C.c_uint64),
        ("steps_unknown", C.c_bool),
        ("reserved", C.c_uint8 * 7),
    ]


class ps_age_info(C.Structure):
    """ps_age_info: 208 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        container: Any
        ages: Any

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("container", C.c_char * 64),
        ("ages", C.c_uint64 * 17),
    ]


class ps_checkpoint_info(C.Structure):
    """ps_checkpoint_info: 584 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        number: int
        state: int
        time_ms: int
        step: int
        bytes: int
        milliseconds: int
        tasks: int
        done: int
        share: int
        reserved: int
        text: Any

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("number", C.c_uint64),
        ("state", C.c_int),
        ("time_ms", C.c_uint64),
        ("step", C.c_int64),
        ("bytes", C.c_uint64),
        ("milliseconds", C.c_uint64),
        ("tasks", C.c_uint32),
        ("done", C.c_uint32),
        ("share", C.c_int32),
        ("reserved", C.c_int32),
        ("text", C.c_char * 512),
    ]


class ps_checkpoint_fault(C.Structure):
    """ps_checkpoint_fault: 656 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        job: Any
        task: int
        status: int
        file: Any
        text: Any

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("job", C.c_char * 64),
        ("task", C.c_uint32),
        ("status", C.c_int),
        ("file", C.c_char * 32),
        ("text", C.c_char * 544),
    ]


class ps_checkpoint_options(C.Structure):
    """ps_checkpoint_options: 72 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        container: bytes | None
        shard_bytes: int
        slots: bool
        reserved: Any
        copied: Any
        fault: Any
        ctx: Any
        only: Any
        prefixes: Any

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("container", C.c_char_p),
        ("shard_bytes", C.c_uint64),
        ("slots", C.c_bool),
        ("reserved", C.c_bool * 7),
        ("copied", C.c_void_p),
        ("fault", C.c_void_p),
        ("ctx", C.c_void_p),
        ("only", C.c_void_p),
        ("prefixes", C.c_void_p),
    ]


class ps_call_result(C.Structure):
    """ps_call_result: 40 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        status: int
        applied: int
        reason: int
        reserved: int
        out_bytes: int
        text: bytes | None

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("status", C.c_int),
        ("applied", C.c_int),
        ("reason", C.c_int),
        ("reserved", C.c_uint32),
        ("out_bytes", C.c_size_t),
        ("text", C.c_char_p),
    ]


class ps_step_values(C.Structure):
    """ps_step_values: 40 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        global_step: int
        count: int
        reserved: int
        names: Any
        values: Any

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("global_step", C.c_int64),
        ("count", C.c_uint32),
        ("reserved", C.c_uint32),
        ("names", C.c_void_p),
        ("values", C.c_void_p),
    ]


class ps_hook(C.Structure):
    """ps_hook: 64 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        name: bytes | None
        ctx: Any
        begin: Any
        after_create_session: Any
        before_run: Any
        after_run: Any
        end: Any

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("name", C.c_char_p),
        ("ctx", C.c_void_p),
        ("begin", C.c_void_p),
        ("after_create_session", C.c_void_p),
        ("before_run", C.c_void_p),
        ("after_run", C.c_void_p),
        ("end", C.c_void_p),
    ]


class ps_value(C.Structure):
    """ps_value: 16 bytes"""

    if TYPE_CHECKING:
        plan: Any
        row: int
        output: int

    _fields_ = [
        ("plan", C.c_void_p),
        ("row", C.c_uint32),
        ("output", C.c_uint32),
    ]


class ps_row_options(C.Structure):
    """ps_row_options: 72 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        name: bytes | None
        device: bytes | None
        dtype: int
        has_axis: bool
        keep_dims: bool
        transpose_a: bool
        transpose_b: bool
        axis: int
        outputs: int
        activation: int
        keep: float
        seed: int
        message: bytes | None
        first_n: int
        summarize: int

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("name", C.c_char_p),
        ("device", C.c_char_p),
        ("dtype", C.c_int),
        ("has_axis", C.c_bool),
        ("keep_dims", C.c_bool),
        ("transpose_a", C.c_bool),
        ("transpose_b", C.c_bool),
        ("axis", C.c_int32),
        ("outputs", C.c_uint32),
        ("activation", C.c_uint32),
        ("keep", C.c_float),
        ("seed", C.c_uint64),
        ("message", C.c_char_p),
        ("first_n", C.c_uint32),
        ("summarize", C.c_int32),
    ]


class ps_feed(C.Structure):
    """ps_feed: 120 bytes"""

    if TYPE_CHECKING:
        placeholder: ps_value
        dtype: int
        reserved: int
        shape: ps_shape
        data: Any
        bytes: int
        offsets: Any

    _fields_ = [
        ("placeholder", ps_value),
        ("dtype", C.c_int),
        ("reserved", C.c_uint32),
        ("shape", ps_shape),
        ("data", C.c_void_p),
        ("bytes", C.c_size_t),
        ("offsets", C.c_void_p),
    ]


class ps_fetched(C.Structure):
    """ps_fetched: 120 bytes"""

    if TYPE_CHECKING:
        buffer: Any
        buffer_bytes: int
        dtype: int
        reserved: int
        shape: ps_shape
        data: Any
        bytes: int
        offsets: Any

    _fields_ = [
        ("buffer", C.c_void_p),
        ("buffer_bytes", C.c_size_t),
        ("dtype", C.c_int),
        ("reserved", C.c_uint32),
        ("shape", ps_shape),
        ("data", C.c_void_p),
        ("bytes", C.c_size_t),
        ("offsets", C.c_void_p),
    ]


class ps_run_options(C.Structure):
    """ps_run_options: 32 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        trace_level: int
        reserved: int
        trace_file: bytes | None
        timeout_ms: int

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("trace_level", C.c_int),
        ("reserved", C.c_uint32),
        ("trace_file", C.c_char_p),
        ("timeout_ms", C.c_int64),
    ]


class ps_plan_result(C.Structure):
    """ps_plan_result: 32 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        status: int
        applied: int
        reason: int
        reserved: int
        text: bytes | None

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("status", C.c_int),
        ("applied", C.c_int),
        ("reason", C.c_int),
        ("reserved", C.c_uint32),
        ("text", C.c_char_p),
    ]


class ps_replica(C.Structure):
    """ps_replica: 40 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        index: int
        count: int
        device: bytes | None
        inputs: Any
        input_count: int

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("index", C.c_uint32),
        ("count", C.c_uint32),
        ("device", C.c_char_p),
        ("inputs", C.c_void_p),
        ("input_count", C.c_size_t),
    ]


class ps_replicate_options(C.Structure):
    """ps_replicate_options: 72 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        devices: Any
        batches: Any
        batch_count: int
        variables: Any
        variable_count: int
        asynchronous: bool
        reserved: Any
        build: Any
        ctx: Any

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("devices", C.c_void_p),
        ("batches", C.c_void_p),
        ("batch_count", C.c_size_t),
        ("variables", C.c_void_p),
        ("variable_count", C.c_size_t),
        ("asynchronous", C.c_bool),
        ("reserved", C.c_uint8 * 7),
        ("build", C.c_void_p),
        ("ctx", C.c_void_p),
    ]


class ps_component(C.Structure):
    """ps_component: 80 bytes"""

    if TYPE_CHECKING:
        dtype: int
        shaped: bool
        reserved: Any
        shape: ps_shape

    _fields_ = [
        ("dtype", C.c_int),
        ("shaped", C.c_bool),
        ("reserved", C.c_uint8 * 3),
        ("shape", ps_shape),
    ]


class ps_queue_spec(C.Structure):
    """ps_queue_spec: 1336 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        name: bytes | None
        kind: int
        component_count: int
        capacity: int
        min_after_dequeue: int
        seed: int
        device: bytes | None
        components: Any

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("name", C.c_char_p),
        ("kind", C.c_int),
        ("component_count", C.c_uint32),
        ("capacity", C.c_int64),
        ("min_after_dequeue", C.c_uint64),
        ("seed", C.c_uint64),
        ("device", C.c_char_p),
        ("components", ps_component * 16),
    ]


class ps_from(C.Structure):
    """ps_from: 16 bytes"""

    if TYPE_CHECKING:
        data: Any
        bytes: int

    _fields_ = [
        ("data", C.c_void_p),
        ("bytes", C.c_size_t),
    ]


class ps_into(C.Structure):
    """ps_into: 16 bytes"""

    if TYPE_CHECKING:
        data: Any
        bytes: int

    _fields_ = [
        ("data", C.c_void_p),
        ("bytes", C.c_size_t),
    ]


class ps_work_item(C.Structure):
    """ps_work_item: 48 bytes"""

    if TYPE_CHECKING:
        data: bytes | None
        bytes: int
        epoch: int
        again: int
        done_before: bool
        reserved: Any
        serial: int
        opaque: Any

    _fields_ = [
        ("data", C.c_char_p),
        ("bytes", C.c_size_t),
        ("epoch", C.c_uint32),
        ("again", C.c_uint32),
        ("done_before", C.c_bool),
        ("reserved", C.c_uint8 * 7),
        ("serial", C.c_uint64),
        ("opaque", C.c_void_p),
    ]


class ps_summed_rows(C.Structure):
    """ps_summed_rows: 56 bytes"""

    if TYPE_CHECKING:
        count: int
        gradients: int
        indices: Any
        counts: Any
        rows: Any
        rows_bytes: int
        opaque: Any

    _fields_ = [
        ("count", C.c_size_t),
        ("gradients", C.c_uint64),
        ("indices", C.c_void_p),
        ("counts", C.c_void_p),
        ("rows", C.c_void_p),
        ("rows_bytes", C.c_size_t),
        ("opaque", C.c_void_p),
    ]


class ps_queue_info(C.Structure):
    """ps_queue_info: 1792 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        container: Any
        name: Any
        job: Any
        task: int
        kind: int
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
        reserved: Any
        component_count: int
        components: Any
        step: int
        dropped: int
        reduction: int
        reserved2: Any

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("container", C.c_char * 64),
        ("name", C.c_char * 256),
        ("job", C.c_char * 64),
        ("task", C.c_uint32),
        ("kind", C.c_int),
        ("capacity", C.c_int64),
        ("min_after_dequeue", C.c_uint64),
        ("seed", C.c_uint64),
        ("size", C.c_uint64),
        ("taken", C.c_uint64),
        ("bytes", C.c_uint64),
        ("enqueuers", C.c_uint32),
        ("dequeuers", C.c_uint32),
        ("epoch", C.c_uint32),
        ("epochs", C.c_uint32),
        ("items", C.c_uint64),
        ("done", C.c_uint64),
        ("closed", C.c_bool),
        ("reserved", C.c_uint8 * 3),
        ("component_count", C.c_uint32),
        ("components", ps_component * 16),
        ("step", C.c_int64),
        ("dropped", C.c_uint64),
        ("reduction", C.c_int),
        ("reserved2", C.c_uint8 * 4),
    ]


class ps_monitored_options(C.Structure):
    """ps_monitored_options: 48 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        restore: Any
        restore_ctx: Any
        max_recoveries: int
        start_over: bool
        restore_part: bool
        reserved: Any
        max_recovery_ms: int
        checkpoint_dir: bytes | None

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("restore", C.c_void_p),
        ("restore_ctx", C.c_void_p),
        ("max_recoveries", C.c_uint32),
        ("start_over", C.c_bool),
        ("restore_part", C.c_bool),
        ("reserved", C.c_uint8 * 2),
        ("max_recovery_ms", C.c_int64),
        ("checkpoint_dir", C.c_char_p),
    ]


class ps_recovery(C.Structure):
    """ps_recovery: 608 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        count: int
        replacements: int
        status: int
        reason: int
        restored: bool
        initialised: bool
        replaced: bool
        reserved: Any
        step_before: int
        step: int
        model_step: int
        lost_steps: int
        took_ms: int
        text: Any
        lost_steps_total: int
        checkpoint: int
        partly: bool
        reserved_2: Any

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("count", C.c_uint32),
        ("replacements", C.c_uint32),
        ("status", C.c_int),
        ("reason", C.c_int),
        ("restored", C.c_bool),
        ("initialised", C.c_bool),
        ("replaced", C.c_bool),
        ("reserved", C.c_uint8 * 5),
        ("step_before", C.c_int64),
        ("step", C.c_int64),
        ("model_step", C.c_int64),
        ("lost_steps", C.c_int64),
        ("took_ms", C.c_int64),
        ("text", C.c_char * 512),
        ("lost_steps_total", C.c_int64),
        ("checkpoint", C.c_uint64),
        ("partly", C.c_bool),
        ("reserved_2", C.c_uint8 * 7),
    ]


class ps_tensor(C.Structure):
    """ps_tensor: 384 bytes"""

    if TYPE_CHECKING:
        rows: int
        cols: int
        rows_capacity: int
        dtype: int
        place: int
        status: int
        flags: int
        wrapped: Any
        memory: Any
        error: Any

    _fields_ = [
        ("rows", C.c_int64),
        ("cols", C.c_int64),
        ("rows_capacity", C.c_int64),
        ("dtype", C.c_uint32),
        ("place", C.c_uint32),
        ("status", C.c_int32),
        ("flags", C.c_uint32),
        ("wrapped", C.c_void_p),
        ("memory", C.c_uint64 * 12),
        ("error", C.c_char * 240),
    ]


class ps_csr(C.Structure):
    """ps_csr: 40 bytes"""

    if TYPE_CHECKING:
        rows: int
        cols: int
        ends: Any
        columns: Any
        values: Any

    _fields_ = [
        ("rows", C.c_int64),
        ("cols", C.c_int64),
        ("ends", C.c_void_p),
        ("columns", C.c_void_p),
        ("values", C.c_void_p),
    ]


class ps_bags(C.Structure):
    """ps_bags: 48 bytes"""

    if TYPE_CHECKING:
        bags: int
        ends: Any
        count: int
        indices: Any
        weights: Any
        padding: int

    _fields_ = [
        ("bags", C.c_int64),
        ("ends", C.c_void_p),
        ("count", C.c_int64),
        ("indices", C.c_void_p),
        ("weights", C.c_void_p),
        ("padding", C.c_int64),
    ]


class ps_ops_options(C.Structure):
    """ps_ops_options: 40 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        memory_bytes: int
        log_level: int
        log: Any
        log_ctx: Any

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("memory_bytes", C.c_uint64),
        ("log_level", C.c_int),
        ("log", C.c_void_p),
        ("log_ctx", C.c_void_p),
    ]


class psd_text(C.Structure):
    """psd_text: 512 bytes"""

    if TYPE_CHECKING:
        text: Any

    _fields_ = [
        ("text", C.c_char * 512),
    ]


class psd_server_options(C.Structure):
    """psd_server_options: 936 bytes"""

    if TYPE_CHECKING:
        struct_bytes: int
        cluster_spec: bytes | None
        ps_hosts: bytes | None
        worker_hosts: bytes | None
        cluster_name: bytes | None
        job: bytes | None
        task_index: int
        unix_mode: int
        listen: bytes | None
        listen_fds: Any
        listen_fd_count: int
        insecure_any_peer: bool
        memory_budget_bytes: int
        lease_ms: int
        beat_ms: int
        hello_deadline_ms: int
        drain_ms: int
        sessions_max: int
        spin_us: int
        events_max: int
        session_keep_ms: int
        refuse_nonfinite: bool
        exit_when_done: bool
        checkpoint_seconds: int
        checkpoint_steps: int
        max_to_keep: int
        keep_checkpoint_every_hours: int
        checkpoint_memory_bytes: int
        restore: int
        recover: psd_text
        spread: bool
        log_level: int
        log: Any
        ready: Any
        ended: Any
        config_row: Any
        ctx: Any
        calls_before: Any
        call_threads: int
        calls_max: int
        devices: bytes | None
        config_set: Any
        checkpoint_dir: bytes | None
        serving: Any
        calls: psd_call_table
        key_file: bytes | None
        tls_cert: bytes | None
        tls_key: bytes | None
        tls_ca: bytes | None
        tls_refused: bytes | None
        rights: bytes | None
        rights_file: bytes | None
        tls_crc: bool

    _fields_ = [
        ("struct_bytes", C.c_size_t),
        ("cluster_spec", C.c_char_p),
        ("ps_hosts", C.c_char_p),
        ("worker_hosts", C.c_char_p),
        ("cluster_name", C.c_char_p),
        ("job", C.c_char_p),
        ("task_index", C.c_uint32),
        ("unix_mode", C.c_uint32),
        ("listen", C.c_char_p),
        ("listen_fds", C.c_void_p),
        ("listen_fd_count", C.c_size_t),
        ("insecure_any_peer", C.c_bool),
        ("memory_budget_bytes", C.c_uint64),
        ("lease_ms", C.c_int64),
        ("beat_ms", C.c_int64),
        ("hello_deadline_ms", C.c_int64),
        ("drain_ms", C.c_int64),
        ("sessions_max", C.c_uint32),
        ("spin_us", C.c_uint32),
        ("events_max", C.c_uint32),
        ("session_keep_ms", C.c_int64),
        ("refuse_nonfinite", C.c_bool),
        ("exit_when_done", C.c_bool),
        ("checkpoint_seconds", C.c_uint32),
        ("checkpoint_steps", C.c_uint32),
        ("max_to_keep", C.c_uint32),
        ("keep_checkpoint_every_hours", C.c_uint32),
        ("checkpoint_memory_bytes", C.c_uint64),
        ("restore", C.c_int),
        ("recover", psd_text),
        ("spread", C.c_bool),
        ("log_level", C.c_int),
        ("log", C.c_void_p),
        ("ready", C.c_void_p),
        ("ended", C.c_void_p),
        ("config_row", C.c_void_p),
        ("ctx", C.c_void_p),
        ("calls_before", C.c_void_p * 4),
        ("call_threads", C.c_uint32),
        ("calls_max", C.c_uint32),
        ("devices", C.c_char_p),
        ("config_set", C.c_void_p),
        ("checkpoint_dir", C.c_char_p),
        ("serving", C.c_void_p),
        ("calls", psd_call_table),
        ("key_file", C.c_char_p),
        ("tls_cert", C.c_char_p),
        ("tls_key", C.c_char_p),
        ("tls_ca", C.c_char_p),
        ("tls_refused", C.c_char_p),
        ("rights", C.c_char_p),
        ("rights_file", C.c_char_p),
        ("tls_crc", C.c_bool),
    ]


class psd_server_counts(C.Structure):
    """psd_server_counts: 24 bytes"""

    if TYPE_CHECKING:
        turns: int
        connections: int
        sessions: int
        variables: int
        reserved: int

    _fields_ = [
        ("turns", C.c_uint64),
        ("connections", C.c_uint32),
        ("sessions", C.c_uint32),
        ("variables", C.c_uint32),
        ("reserved", C.c_uint32),
    ]


# struct: its bytes, and the offset of each field, as the C compiler has them
LAYOUTS: dict[type[C.Structure], tuple[int, str]] = {
    ps_shape: (72, "0 4 8"),
    ps_initializer: (24, "0 4 8 16"),
    ps_optimizer: (256, "0 8 12 16 24 32 40 48 56 64 72 80 88 96 104 112 120 128 132 136 144 152 248"),
    ps_resolver_options: (96, "0 8 16 24 32 40 48 56 64 72 76 80 84 88 92"),
    ps_resolved: (1384, "0 16 80 84 360"),
    psd_call_row: (40, "0 8 16 24 32"),
    psd_call_read: (72, "0 8 16 24 32 40 48 56 64"),
    psd_call_read_result: (56, "0 8 12 16 24 32 40 48"),
    psd_call_draft: (112, "0 8 16 24 32 40"),
    psd_call_draft_result: (40, "0 8 12 16 24 32"),
    psd_call_functions: (112, "0 8 16 24 32 40 48 56 64 72 80 88 96 104"),
    psd_call_task: (96, "0 8 16 24 32 36 40 48 56 64 72 80 88"),
    psd_call_table: (48, "0 8 16 24 32 40"),
    ps_setter_options: (48, "0 8 12 16 24 32 40 41 44"),
    ps_session_options: (184, "0 8 16 24 32 40 44 48 56 64 68 72 80 88 96 104 112 113 114 115 116 120 128 136 144 148 152 160 168 176"),
    ps_sync_options: (32, "0 8 12 16 20 24 28"),
    ps_device_info: (192, "0 160 176 180 184"),
    ps_variable_spec: (136, "0 8 16 20 24 96 104 112 120 128 129 130 131 132"),
    ps_result: (112, "0 8 12 16 24 25 32 36 40 104"),
    ps_request: (512, "0"),
    ps_file_options: (64, "0 8 16 24 32 33 34 40 48 56"),
    ps_saved_container: (72, "0 64"),
    ps_saves_info: (1008, "0 1 2 3 4 5 8 16 24 32 40 48 56 64 68 72 76 80 84 88 96 104 112 120 124 128 416 420 424 428 432"),
    ps_task_info: (3968, "0 64 68 69 70 72 344 377 921 1184 1192 1200 1208 1216 1220 1224 1228 1232 1240 1248 1256 1264 1272 1280 1288 1296 1304 1312 1440 1696 1700 1704 1960 1964 1968 1976 1984 1992 2000 2128 2132 2136 2392 2396 2400 2401 2402 2408 2920 3928 3936 3944 3952 3956 3960 3961"),
    ps_variable_info: (944, "0 8 72 328 392 396 400 472 728 856 864 872 873 874 875 876 880 888 896 900 904 912 920 924 928 936 937 938"),
    ps_config_info: (48, "0 8 16 24 32 40"),
    ps_session_info: (712, "0 8 72 76 80 145 210 227 228 229 232 240 248 256 264 268 272 280 376 510 519 520"),
    ps_right_info: (1200, "0 8 142 158 167 168 172"),
    ps_event_info: (584, "0 8 16 24 32 36 68"),
    ps_event_place: (40, "0 8 16 24 32"),
    ps_wait_info: (776, "0 8 72 76 80 145 210 227 244 500 760 768"),
    ps_container_info: (216, "0 8 72 80 88 92 96 100 104 200 208"),
    ps_round_info: (1072, "0 8 72 104 112 120 128 132 136 140 144 152 288 800 1056 1064 1068"),
    ps_member_info: (200, "0 8 72 76 80 145 164 168 176 184 192 193"),
    ps_age_info: (208, "0 8 72"),
    ps_checkpoint_info: (584, "0 8 16 24 32 40 48 56 60 64 68 72"),
    ps_checkpoint_fault: (656, "0 8 72 76 80 112"),
    ps_checkpoint_options: (72, "0 8 16 24 25 32 40 48 56 64"),
    ps_call_result: (40, "0 8 12 16 20 24 32"),
    ps_step_values: (40, "0 8 16 20 24 32"),
    ps_hook: (64, "0 8 16 24 32 40 48 56"),
    ps_value: (16, "0 8 12"),
    ps_row_options: (72, "0 8 16 24 28 29 30 31 32 36 40 44 48 56 64 68"),
    ps_feed: (120, "0 16 20 24 96 104 112"),
    ps_fetched: (120, "0 8 16 20 24 96 104 112"),
    ps_run_options: (32, "0 8 12 16 24"),
    ps_plan_result: (32, "0 8 12 16 20 24"),
    ps_replica: (40, "0 8 12 16 24 32"),
    ps_replicate_options: (72, "0 8 16 24 32 40 48 49 56 64"),
    ps_component: (80, "0 4 5 8"),
    ps_queue_spec: (1336, "0 8 16 20 24 32 40 48 56"),
    ps_from: (16, "0 8"),
    ps_into: (16, "0 8"),
    ps_work_item: (48, "0 8 16 20 24 25 32 40"),
    ps_summed_rows: (56, "0 8 16 24 32 40 48"),
    ps_queue_info: (1792, "0 8 72 328 392 396 400 408 416 424 432 440 448 452 456 460 464 472 480 481 484 488 1768 1776 1784 1788"),
    ps_monitored_options: (48, "0 8 16 24 28 29 30 32 40"),
    ps_recovery: (608, "0 8 12 16 20 24 25 26 27 32 40 48 56 64 72 584 592 600 601"),
    ps_tensor: (384, "0 8 16 24 28 32 36 40 48 144"),
    ps_csr: (40, "0 8 16 24 32"),
    ps_bags: (48, "0 8 16 24 32 40"),
    ps_ops_options: (40, "0 8 16 24 32"),
    psd_text: (512, "0"),
    psd_server_options: (936, "0 8 16 24 32 40 48 52 56 64 72 - - - - - - - - - - - - - - - - - - - - - 712 720 728 736 744 752 784 788 792 800 808 816 824 872 880 888 896 904 912 920 928"),
    psd_server_counts: (24, "0 8 12 16 20"),
}

# a letter for each type: first the result, then the arguments
CODES: dict[str, Any] = {
    "v": None,
    "b": C.c_bool,
    "i": C.c_int,
    "I": C.c_uint32,
    "q": C.c_int64,
    "Q": C.c_uint64,
    "z": C.c_size_t,
    "f": C.c_float,
    "d": C.c_double,
    "p": C.c_void_p,
    "s": C.c_char_p,
    "A": ps_shape,
    "B": ps_feed,
    "C": ps_value,
}
FUNCTIONS = {
    "ps_accumulate": "ipd",
    "ps_accumulator_apply_grad": "ippzqqp",
    "ps_accumulator_apply_rows": "ippzpzqqp",
    "ps_accumulator_get": "ipsiAisp",
    "ps_accumulator_num_accumulated": "ipp",
    "ps_accumulator_set_global_step": "ipqp",
    "ps_accumulator_take_grad": "ipqpzqp",
    "ps_accumulator_take_rows": "ipqqp",
    "ps_adagrad": "pd",
    "ps_adagrad_from": "pdd",
    "ps_adam": "pd",
    "ps_adam_with": "pdddd",
    "ps_add": "ippp",
    "ps_add_checkpoint_saver_hook": "ipqdq",
    "ps_add_hook": "ipp",
    "ps_add_logging_hook": "ippIqd",
    "ps_add_nan_hook": "ipsi",
    "ps_add_step_counter_hook": "ipqd",
    "ps_add_stop_at_step_hook": "ipqq",
    "ps_add_summary_hook": "ipsq",
    "ps_after_fork_child": "v",
    "ps_argmax_count": "ippp",
    "ps_assign_add_start": "ippzqppp",
    "ps_assign_start": "ippzqppp",
    "ps_barrier": "ipsi",
    "ps_barrier_within": "ipsiq",
    "ps_call": "ipsspzpzpq",
    "ps_call_start": "ipsspzpzqpp",
    "ps_checkpoint_containers": "ipQpp",
    "ps_checkpoint_delete": "ipQbq",
    "ps_checkpoint_export": "ipQspp",
    "ps_checkpoint_options_init": "vp",
    "ps_checkpoint_restore": "ipQqp",
    "ps_checkpoint_restore_containers": "ipQpzqp",
    "ps_checkpoint_save": "ipqp",
    "ps_checkpoint_save_before": "ipQqp",
    "ps_checkpoint_spread": "ipQqp",
    "ps_checkpoint_verify": "ipQpp",
    "ps_checkpoints": "ipqpp",
    "ps_clip_global_norm": "ipzdp",
    "ps_clip_norm": "ipdp",
    "ps_cluster_info": "ippziq",
    "ps_cluster_resolve": "ipppp",
    "ps_cluster_spec_add_job": "ipss",
    "ps_cluster_spec_add_task": "ipsis",
    "ps_cluster_spec_as_dict": "sp",
    "ps_cluster_spec_equal": "bpp",
    "ps_cluster_spec_free": "vp",
    "ps_cluster_spec_from_tf_config": "ispszp",
    "ps_cluster_spec_job": "spi",
    "ps_cluster_spec_job_count": "ip",
    "ps_cluster_spec_job_tasks": "ipspi",
    "ps_cluster_spec_new": "isp",
    "ps_cluster_spec_num_tasks": "ips",
    "ps_cluster_spec_task_address": "spsi",
    "ps_cluster_spec_task_indices": "ipspi",
    "ps_cluster_spec_text": "sp",
    "ps_cluster_task_name": "spi",
    "ps_cluster_tasks": "ip",
    "ps_constant": "pd",
    "ps_container_pop": "ip",
    "ps_container_push": "ips",
    "ps_dense": "ipppp",
    "ps_dense_act": "ipppip",
    "ps_dense_act_backward": "ipipppp",
    "ps_dense_backward": "ippppp",
    "ps_dequeue": "ippzq",
    "ps_dequeue_many": "ippzIq",
    "ps_dequeue_start": "ippIbqppp",
    "ps_dequeue_tuple": "ippIbq",
    "ps_dequeue_up_to": "ippzIqp",
    "ps_device_canonical": "issz",
    "ps_device_merge": "isssz",
    "ps_device_pop": "ip",
    "ps_device_push": "ips",
    "ps_device_push_setter": "ipp",
    "ps_dot_interaction": "ipIp",
    "ps_dot_interaction_backward": "ipIpp",
    "ps_dropout": "ipQfQp",
    "ps_dropout_backward": "ipQfQp",
    "ps_dropped": "qp",
    "ps_dtype_bytes": "zi",
    "ps_dtype_name": "si",
    "ps_embedding": "ippqp",
    "ps_embedding_ahead": "ippz",
    "ps_embedding_backward": "ippqpp",
    "ps_embedding_bag": "ippppiqp",
    "ps_embedding_bag_backward": "ippppiqpp",
    "ps_embedding_get": "ppp",
    "ps_embedding_pull": "ippzp",
    "ps_enqueue": "ippzq",
    "ps_enqueue_many": "ippzIqp",
    "ps_enqueue_start": "ippqppp",
    "ps_enqueue_tuple": "ippqp",
    "ps_export": "ipspp",
    "ps_feed_of": "BCiApz",
    "ps_file_check": "ispp",
    "ps_file_options_init": "vp",
    "ps_fm": "ippppqpp",
    "ps_fm_backward": "ippppqppp",
    "ps_gather": "ippzpz",
    "ps_gather_start": "ippzpzqppp",
    "ps_gelu": "ipp",
    "ps_gelu_backward": "ippp",
    "ps_global_step": "qp",
    "ps_global_step_get": "ipp",
    "ps_glorot": "pi",
    "ps_he_normal": "pi",
    "ps_he_uniform": "pi",
    "ps_hook_init": "vp",
    "ps_huber_error": "ippfpp",
    "ps_import": "ipspp",
    "ps_interrupt": "vp",
    "ps_is_chief": "bp",
    "ps_last_applied": "i",
    "ps_last_error": "s",
    "ps_last_reason": "i",
    "ps_layer_norm": "ipppfp",
    "ps_layer_norm_backward": "ippppfp",
    "ps_log_to": "vi",
    "ps_mean_absolute_error": "ipppp",
    "ps_mean_squared_error": "ipppp",
    "ps_momentum": "pdd",
    "ps_monitored_last_recovery": "ipp",
    "ps_monitored_open": "ipppsz",
    "ps_monitored_open_args": "pppsp",
    "ps_monitored_options_init": "vp",
    "ps_nesterov": "pdd",
    "ps_nn_add": "ipppq",
    "ps_nn_argmax_count": "ippqqp",
    "ps_nn_backend": "s",
    "ps_nn_dense_backward": "ippppppqqq",
    "ps_nn_dense_forward": "ippppqqq",
    "ps_nn_dot_backward": "ipppqIq",
    "ps_nn_dot_forward": "ippqIq",
    "ps_nn_dropout": "ippqQfQ",
    "ps_nn_embedding_bag_backward": "ipippqq",
    "ps_nn_embedding_bag_forward": "ipqqpip",
    "ps_nn_error": "s",
    "ps_nn_fm_backward": "ipqqpppp",
    "ps_nn_fm_forward": "ipqqppp",
    "ps_nn_gelu_backward": "ipppq",
    "ps_nn_gelu_forward": "ippq",
    "ps_nn_huber_error": "ippfpqqp",
    "ps_nn_layer_norm_backward": "ippppppqqf",
    "ps_nn_layer_norm_forward": "ippppqqf",
    "ps_nn_mean_absolute_error": "ipppqqp",
    "ps_nn_mean_squared_error": "ipppqqp",
    "ps_nn_open": "is",
    "ps_nn_relu_backward": "ipppq",
    "ps_nn_relu_forward": "ippq",
    "ps_nn_sgd": "ippqf",
    "ps_nn_sigmoid_backward": "ipppq",
    "ps_nn_sigmoid_forward": "ippq",
    "ps_nn_sigmoid_xent": "ipppqqp",
    "ps_nn_softmax_xent": "ipppqqp",
    "ps_nn_sparse_backward": "ippppq",
    "ps_nn_sparse_forward": "ippppq",
    "ps_nn_tanh_backward": "ipppq",
    "ps_nn_tanh_forward": "ippq",
    "ps_no_optimizer": "p",
    "ps_normal": "pdd",
    "ps_ones": "p",
    "ps_ops_free": "vp",
    "ps_ops_new": "ippsz",
    "ps_ops_options_init": "vp",
    "ps_ops_table": "pp",
    "ps_optimizer_parse": "isdpz",
    "ps_optimizer_schedule": "ispz",
    "ps_optimizer_standard": "pid",
    "ps_param_fail": "ipis",
    "ps_param_get": "ppsApp",
    "ps_param_get_spec": "ppp",
    "ps_param_grad": "pp",
    "ps_param_hold": "pp",
    "ps_param_lend": "ipp",
    "ps_param_name": "sp",
    "ps_param_release": "vp",
    "ps_param_session": "pp",
    "ps_param_shape": "pp",
    "ps_param_value": "pp",
    "ps_param_version": "Qpp",
    "ps_partition": "ipI",
    "ps_partition_axis_size": "ipQI",
    "ps_partition_fixed_size": "ipI",
    "ps_partition_min_max": "ipIQ",
    "ps_placer_free": "vp",
    "ps_placer_new": "p",
    "ps_placer_place": "ipsQszp",
    "ps_placer_pop": "ip",
    "ps_placer_push": "ips",
    "ps_placer_push_setter": "ipp",
    "ps_plan_add": "CpCC",
    "ps_plan_argmax": "CpCi",
    "ps_plan_assign": "CppC",
    "ps_plan_assign_add": "CppC",
    "ps_plan_cast": "CpCi",
    "ps_plan_concat": "Cppzi",
    "ps_plan_const": "CpiApz",
    "ps_plan_dense": "CpCCC",
    "ps_plan_dense_act": "CpCCCI",
    "ps_plan_dense_act_backward": "CpCICCIp",
    "ps_plan_dense_backward": "CpCCCIp",
    "ps_plan_div": "CpCC",
    "ps_plan_dropout": "CpCQf",
    "ps_plan_error": "sp",
    "ps_plan_eval": "iCpz",
    "ps_plan_free": "vp",
    "ps_plan_group": "Cppz",
    "ps_plan_identity": "CpC",
    "ps_plan_matmul": "CpCC",
    "ps_plan_mul": "CpCC",
    "ps_plan_name": "pps",
    "ps_plan_new": "pp",
    "ps_plan_placeholder": "CpsiA",
    "ps_plan_print": "CpCpzs",
    "ps_plan_push": "CppCf",
    "ps_plan_reduce_mean": "CpC",
    "ps_plan_reduce_mean_axis": "CpCib",
    "ps_plan_reduce_sum": "CpC",
    "ps_plan_reduce_sum_axis": "CpCib",
    "ps_plan_relu": "CpC",
    "ps_plan_relu_backward": "CpCC",
    "ps_plan_row": "Cpspzppz",
    "ps_plan_run": "ippzpzpp",
    "ps_plan_scalar": "Cpid",
    "ps_plan_session": "pp",
    "ps_plan_sigmoid": "CpC",
    "ps_plan_sigmoid_backward": "CpCC",
    "ps_plan_softmax": "CpC",
    "ps_plan_softmax_xent": "CpCCIp",
    "ps_plan_split": "CpCiIp",
    "ps_plan_stack": "Cppz",
    "ps_plan_start": "ippzpzpppp",
    "ps_plan_status": "ip",
    "ps_plan_sub": "CpCC",
    "ps_plan_tanh": "CpC",
    "ps_plan_tanh_backward": "CpCC",
    "ps_plan_text": "Cps",
    "ps_plan_variable": "Cpp",
    "ps_progress_fd": "ip",
    "ps_progress_run": "ipq",
    "ps_progress_timeout_ms": "qp",
    "ps_ps_count": "ip",
    "ps_pull": "ip",
    "ps_pull_param": "ip",
    "ps_pull_start": "ippzqppp",
    "ps_push": "ipp",
    "ps_push_pull": "ipp",
    "ps_push_pull_rows": "ippzpzpzf",
    "ps_push_pull_rows_start": "ippzpzpzfqppp",
    "ps_push_pull_start": "ippzpzfqppp",
    "ps_push_rows": "ippzpzf",
    "ps_push_rows_start": "ippzpzfqppp",
    "ps_push_start": "ippzfqppp",
    "ps_queue_close": "ipbq",
    "ps_queue_device": "sp",
    "ps_queue_find": "ipsp",
    "ps_queue_get": "ippp",
    "ps_queue_is_closed": "ipp",
    "ps_queue_name": "sp",
    "ps_queue_size": "ipp",
    "ps_queue_spec_init": "vpsiA",
    "ps_queue_spec_of": "pp",
    "ps_reason_name": "si",
    "ps_reason_text": "si",
    "ps_relu": "ipp",
    "ps_relu_backward": "ippp",
    "ps_replicate": "ipIpp",
    "ps_replicate_options_init": "vp",
    "ps_report_uninitialized": "ippi",
    "ps_request_stop": "ip",
    "ps_reset": "ip",
    "ps_reset_all": "ip",
    "ps_reset_containers": "ippz",
    "ps_resolver_options_init": "vp",
    "ps_role_checkpoint_dir": "sp",
    "ps_role_cluster_name": "sp",
    "ps_role_cluster_spec": "sp",
    "ps_role_free": "vp",
    "ps_role_from_args": "pip",
    "ps_role_job": "sp",
    "ps_role_key_file": "sp",
    "ps_role_task": "Ip",
    "ps_rounds": "ipqppp",
    "ps_row_options_init": "vp",
    "ps_run_options_init": "vp",
    "ps_scatter_add": "ippzpz",
    "ps_scatter_add_start": "ippzpzqppp",
    "ps_scatter_sub": "ippzpz",
    "ps_scatter_update": "ippzpz",
    "ps_scatter_update_start": "ippzpzqppp",
    "ps_seed": "Qp",
    "ps_session_clip_norm": "ipdi",
    "ps_session_close": "ip",
    "ps_session_devices": "ippzi",
    "ps_session_error": "sp",
    "ps_session_error_applied": "ip",
    "ps_session_fail": "ipis",
    "ps_session_found": "ipp",
    "ps_session_job_done": "ip",
    "ps_session_leave": "vp",
    "ps_session_open": "ippsz",
    "ps_session_open_args": "ppps",
    "ps_session_options_init": "vp",
    "ps_session_ready": "ip",
    "ps_session_reason": "ip",
    "ps_session_set_deadline": "vpq",
    "ps_session_status": "ip",
    "ps_session_sync": "ipp",
    "ps_session_sync_rows": "ipIi",
    "ps_session_wait_cluster": "ipsq",
    "ps_set_rates": "ipspqp",
    "ps_set_steps": "vpq",
    "ps_setter_options_init": "vp",
    "ps_sgd": "pd",
    "ps_shape_elements": "qp",
    "ps_shape_of": "Aqqqqqqqq",
    "ps_should_stop": "bp",
    "ps_sigmoid": "ipp",
    "ps_sigmoid_backward": "ippp",
    "ps_sigmoid_xent": "ipppp",
    "ps_skipped": "qp",
    "ps_softmax_xent": "ipppp",
    "ps_sparse_accumulator_get": "ipsiAisp",
    "ps_sparse_act": "ipppip",
    "ps_sparse_backward": "ipppp",
    "ps_status_name": "si",
    "ps_step_done": "ip",
    "ps_step_value": "ipsd",
    "ps_step_values_find": "bpsp",
    "ps_stop": "ipqp",
    "ps_summed_rows_free": "vp",
    "ps_sync_finish": "ip",
    "ps_sync_options_init": "vp",
    "ps_tanh": "ipp",
    "ps_tanh_backward": "ippp",
    "ps_task_ages": "ipiqpp",
    "ps_task_config": "ipiqpp",
    "ps_task_config_set": "ipissq",
    "ps_task_containers": "ipiqpp",
    "ps_task_count": "ip",
    "ps_task_events": "ipipqpp",
    "ps_task_index": "ip",
    "ps_task_info_devices": "ippzi",
    "ps_task_ping": "ipiqp",
    "ps_task_queues": "ipiqpp",
    "ps_task_rights": "ipiqpp",
    "ps_task_sessions": "ipiqpp",
    "ps_task_shutdown": "ipiq",
    "ps_task_variables": "ipiqpp",
    "ps_task_waits": "ipiqpp",
    "ps_tensor_free": "vp",
    "ps_tensor_init": "ipiqq",
    "ps_tensor_new": "pqq",
    "ps_tensor_read": "pp",
    "ps_tensor_scalar": "dp",
    "ps_tensor_set_rows": "ipq",
    "ps_tensor_wrap": "vppqq",
    "ps_tensor_wrap_indices": "vppq",
    "ps_tensor_wrap_labels": "vppq",
    "ps_tensor_write": "pp",
    "ps_trace_next_step": "ips",
    "ps_trace_status": "ip",
    "ps_truncated_normal": "pdd",
    "ps_tuple_clear": "vp",
    "ps_tuple_count": "Ip",
    "ps_tuple_free": "vp",
    "ps_tuple_get": "ipIIppp",
    "ps_tuple_get_string": "ipIIzppp",
    "ps_tuple_new": "pp",
    "ps_tuple_put": "ipppz",
    "ps_tuple_put_strings": "ippppz",
    "ps_uniform": "pdd",
    "ps_value_device": "sC",
    "ps_value_dtype": "iC",
    "ps_value_name": "sC",
    "ps_value_requested_device": "sC",
    "ps_value_shape": "AC",
    "ps_variable_assign": "ippz",
    "ps_variable_assign_add": "ippzpz",
    "ps_variable_assign_strings": "ipppz",
    "ps_variable_assign_sub": "ippzpz",
    "ps_variable_bytes": "zp",
    "ps_variable_container": "sp",
    "ps_variable_def": "ipsz",
    "ps_variable_delete": "ips",
    "ps_variable_device": "sp",
    "ps_variable_dtype": "ip",
    "ps_variable_find": "ipsp",
    "ps_variable_get": "ippp",
    "ps_variable_info_whole": "vp",
    "ps_variable_init": "ipb",
    "ps_variable_init_from": "ippz",
    "ps_variable_init_strings": "ipppz",
    "ps_variable_is_initialized": "ipp",
    "ps_variable_make": "ppsApp",
    "ps_variable_name": "sp",
    "ps_variable_partition": "ppI",
    "ps_variable_partitions": "Ip",
    "ps_variable_push": "ippzf",
    "ps_variable_push_pull": "ippzpzf",
    "ps_variable_push_pull_versioned": "ippzpzfpp",
    "ps_variable_read": "ippz",
    "ps_variable_read_slot": "ipIpz",
    "ps_variable_read_slot_versioned": "ipIpzpp",
    "ps_variable_read_strings": "ipszpzp",
    "ps_variable_read_versioned": "ippzpp",
    "ps_variable_requested_device": "sp",
    "ps_variable_scope_pop": "ip",
    "ps_variable_scope_push": "ipsi",
    "ps_variable_set_rate": "ipp",
    "ps_variable_shape": "pp",
    "ps_variable_slot_bytes": "zpI",
    "ps_variable_spec_init": "vp",
    "ps_variable_task": "ip",
    "ps_variable_version": "Qpp",
    "ps_variables_get": "ippzp",
    "ps_version": "s",
    "ps_wait_ready": "ipq",
    "ps_wait_step": "ipqq",
    "ps_wipe_freed": "v",
    "ps_work_done": "ipp",
    "ps_work_get": "ipsppIIQp",
    "ps_work_next": "ippq",
    "ps_work_return": "ipp",
    "ps_would_stop": "bp",
    "ps_zeros": "p",
    "psd_call_again": "ip",
    "psd_call_cancelled": "bp",
    "psd_call_finish": "ipizs",
    "psd_server_address": "sp",
    "psd_server_create_local": "ipsz",
    "psd_server_create_local_with": "ippsz",
    "psd_server_free": "vp",
    "psd_server_get_counts": "vppz",
    "psd_server_has_ended": "bp",
    "psd_server_has_lost": "bp",
    "psd_server_join": "vp",
    "psd_server_name": "sp",
    "psd_server_options_init": "vp",
    "psd_server_reload": "ipssz",
    "psd_server_set": "ipsqsz",
    "psd_server_set_text": "ipsssz",
    "psd_server_start": "ippsz",
    "psd_server_stop": "vpq",
    "psd_server_target": "sp",
    "psd_server_version": "s",
    "psd_server_wait": "vp",
    "psd_server_wipe_freed": "v",
}
