/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fixed part of the wire: every frame starts with these 40 bytes, little-endian.
 *
 *   0         2     3     4      5     6         8                 16        20
 *   +---------+-----+-----+------+-----+---------+-----------------+---------+-----------+
 *   | magic   | ver | op  |dtype | 0   | flags   | id              | handle  | body bytes|
 *   +---------+-----+-----+------+-----+---------+-----------------+---------+-----------+
 *   24                  32          34     36                    40
 *   +-------------------+-----------+------+---------------------+
 *   | offset or status  | meta bytes| 0    | CRC32C(header+meta) |
 *   +-------------------+-----------+------+---------------------+
 *
 * Then meta (zero-padded to 8, meta bytes counts the padding), then the body (body bytes counts everything in it).
 * A body is a row of segments: payload of at most 64 KiB, zero-padded to 8, then, when PS_FLAG_CRC is set, CRC32C of the
 * padded payload (u32) and u32 0. The body of a PULL's or GATHER's reply ends in struct ps_pull_trailer.
 * docs/PROTOCOL.md has the meaning of every field; this file has the bytes.
 */
#ifndef PS_FRAME_H
#define PS_FRAME_H

#include "operations.h"

#include <stddef.h>
#include <stdint.h>

#define PS_FRAME_MAGIC 0x7350u /* "Ps" */
#define PS_FRAME_VERSION 1u
#define PS_FRAME_HEADER_BYTES 40u

struct ps_frame_header {
    uint16_t magic;
    uint8_t version;
    uint8_t op;    /* enum ps_op */
    uint8_t dtype; /* ps_dtype of the payload, 0 for control frames */
    uint8_t reserved0;
    uint16_t flags; /* PS_FLAG_* */
    uint64_t id;    /* sequence number (PS_FLAG_SEQ) or request number */
    uint32_t handle;
    uint32_t body_bytes;
    uint64_t offset; /* elements in a request and in a value frame, ps_status in a reply */
    uint16_t meta_bytes;
    uint16_t reserved1;
    uint32_t crc; /* of bytes 0..35 and of the meta with its padding */
};
_Static_assert(sizeof(struct ps_frame_header) == PS_FRAME_HEADER_BYTES, "header is 40 bytes");
_Static_assert(offsetof(struct ps_frame_header, magic) == 0, "magic");
_Static_assert(offsetof(struct ps_frame_header, version) == 2, "version");
_Static_assert(offsetof(struct ps_frame_header, op) == 3, "op");
_Static_assert(offsetof(struct ps_frame_header, dtype) == 4, "dtype");
_Static_assert(offsetof(struct ps_frame_header, reserved0) == 5, "reserved0");
_Static_assert(offsetof(struct ps_frame_header, flags) == 6, "flags");
_Static_assert(offsetof(struct ps_frame_header, id) == 8, "id");
_Static_assert(offsetof(struct ps_frame_header, handle) == 16, "handle");
_Static_assert(offsetof(struct ps_frame_header, body_bytes) == 20, "body_bytes");
_Static_assert(offsetof(struct ps_frame_header, offset) == 24, "offset");
_Static_assert(offsetof(struct ps_frame_header, meta_bytes) == 32, "meta_bytes");
_Static_assert(offsetof(struct ps_frame_header, reserved1) == 34, "reserved1");
_Static_assert(offsetof(struct ps_frame_header, crc) == 36, "crc");

enum {
    PS_FLAG_CRC = 1,     /* each segment of the body is followed by its CRC */
    PS_FLAG_FIRST = 2,   /* first frame of an operation */
    PS_FLAG_LAST = 4,    /* last frame of an operation */
    PS_FLAG_SEQ = 8,     /* id is a sequence number */
    PS_FLAG_REPLY = 16,  /* this frame answers id */
    PS_FLAG_MORE = 32,   /* the list in the body goes on in the next frame with this op and id */
    PS_FLAG_VALUE = 64,  /* PUSHPULL: the frame has new values of a range, and acknowledges nothing */
    PS_FLAG_TIMES = 128, /* request: the reply is to say how long the task had it; reply: its meta ends in ps_times */
    PS_FLAG_KNOWN = 255  /* every other bit must be 0 */
};

/* PS_OP_HELLO = 1 and so on: proto/operations.h */
#define PS_OP_NUMBER(name, number, ...) PS_OP_##name = (number),
enum ps_op { PS_OPERATIONS(PS_OP_NUMBER) };
#undef PS_OP_NUMBER

/* Meta of the FIRST frame of PUSH, PUSHPULL, ASSIGN and ADD. */
struct ps_push_meta {
    uint64_t total_elements; /* of the whole operation */
    float scale;             /* multiplies the gradient; finite, > 0; 1 for ASSIGN; +1 or -1 for ADD */
    uint32_t assign_flags;   /* ASSIGN: PS_ASSIGN_*; otherwise 0 */
    uint64_t version; /* PUSH, PUSHPULL: 1 + version of the values that the gradient was computed from; 0: not said. ASSIGN:
                         number of the chief that gives the value; 0: not as a chief; to a slot: bits of the power that belongs
                         to the slot, f64 */
};
_Static_assert(sizeof(struct ps_push_meta) == 24, "push meta");
/* Behind the ps_push_meta of a PUSH or PUSHPULL, and the ps_rows_meta of a PUSH_ROWS, with PS_FEATURE_GLOBAL_STEP; it may be left
 * out. The schedule of the learning rate is evaluated at that step. */
struct ps_push_step {
    uint64_t step; /* 1 + the global step, as the session knows it; 0: not said */
};
_Static_assert(sizeof(struct ps_push_step) == 8, "push step");
/* At most one of these is set. */
enum {
    PS_ASSIGN_INIT_ONLY = 1, /* swap in only if the variable is uninitialised then */
    PS_ASSIGN_SLOT_1 = 2,    /* assign the optimizer's first slot instead of the value */
    PS_ASSIGN_SLOT_2 = 4,    /* assign the optimizer's second slot instead of the value */
    PS_ASSIGN_SLOT_3 = 8,    /* assign the optimizer's third slot instead of the value */
    PS_ASSIGN_SLOT_4 = 16,   /* assign the optimizer's fourth slot instead of the value */
    PS_ASSIGN_SLOTS = 30     /* all of these */
};

/* Meta of the FIRST frame of CONTRIBUTE. */
struct ps_contribute_meta {
    uint64_t total_elements; /* of the whole operation */
    float scale;             /* multiplies the gradient; finite, > 0 */
    uint32_t reserved;
    uint64_t member; /* as in JOIN's answer */
    uint64_t round;  /* that the gradient contributes to */
};
_Static_assert(sizeof(struct ps_contribute_meta) == 32, "contribute meta");

/* Meta of the FIRST frame of PUSH_ROWS and SCATTER. */
struct ps_rows_meta {
    uint64_t rows;    /* of the whole operation */
    uint64_t highest; /* index of the last one; 0 without rows */
    uint64_t version; /* PUSH_ROWS: as ps_push_meta.version; SCATTER: 0 */
    float scale;      /* PUSH_ROWS: multiplies the gradients; finite, > 0. SCATTER: 1 */
    uint32_t how;     /* SCATTER: PS_SCATTER_*; PUSH_ROWS: 0 */
};
_Static_assert(sizeof(struct ps_rows_meta) == 32, "rows meta");
/* What SCATTER does with its rows. */
enum {
    PS_SCATTER_ADD = 1,
    PS_SCATTER_SUB = 2,
    PS_SCATTER_UPDATE = 3 /* they take the place of those that are there */
};

/* Meta of a GATHER request. */
struct ps_gather_meta {
    uint32_t rows; /* indices in its body; at most PS_FRAME_BODY_MAX bytes of rows, and PS_CONTROL_BODY_MAX of indices */
    uint32_t slot; /* 0: of the value; from 1 on: of a slot of the optimizer */
};
_Static_assert(sizeof(struct ps_gather_meta) == 8, "gather meta");

/* Meta of a PULL request. The header's offset is the first element. */
struct ps_pull_meta {
    uint32_t elements; /* at most PS_FRAME_BODY_MAX bytes of payload */
    uint32_t slot;     /* 0: the value; from 1 on: a slot of the optimizer */
};
_Static_assert(sizeof(struct ps_pull_meta) == 8, "pull meta");

/* Meta of a successful PULL or GATHER reply and of a PUSHPULL value frame. */
struct ps_pull_reply_meta {
    uint64_t version; /* when the frame's first byte was composed */
    uint64_t durable;
    uint32_t in_progress;
    uint32_t reserved;
};
_Static_assert(sizeof(struct ps_pull_reply_meta) == 24, "pull reply meta");

/* End of the body of a PULL or GATHER reply and of a value frame. */
struct ps_pull_trailer {
    uint64_t version; /* when the frame's last byte was composed */
    uint32_t in_progress;
    uint32_t crc; /* CRC32C of the 12 bytes before, 0 when PS_FLAG_CRC is not set */
};
_Static_assert(sizeof(struct ps_pull_trailer) == 16, "pull trailer");

/* Meta of every other reply: this struct, then result_bytes, then text_bytes, each padded to 8. */
struct ps_reply_meta {
    uint64_t position;     /* of the mutation among the changes of the task; 0: none */
    uint64_t durable;      /* the task's durable watermark */
    uint64_t version;      /* of the variable after the mutation; 0: none */
    uint16_t result_bytes; /* <= PS_RESULT_BYTES_MAX */
    uint16_t text_bytes;   /* the error's text */
    uint8_t applied;       /* ps_applied */
    uint8_t reserved;
    uint16_t reason;         /* ps_reason; 0: the status says all */
    uint32_t retry_after_ms; /* RESOURCE_EXHAUSTED, UNAVAILABLE: wait before the next try; 0: not known */
    uint32_t reserved1;
};
_Static_assert(sizeof(struct ps_reply_meta) == 40, "reply meta");

/* End of the meta of a reply with flag TIMES: how long the task had the request, in nanoseconds of the task's own clock. All are
 * durations, so that no two clocks are ever compared. */
struct ps_times {
    uint64_t queue_ns;  /* its bytes had come and waited for the task's thread, or the reply for its turn to be sent */
    uint64_t wait_ns;   /* it waited for others: workers, a round, an element, a compute thread */
    uint64_t apply_ns;  /* the task's thread worked at it */
    uint64_t kernel_ns; /* a compute thread worked at it */
};
_Static_assert(sizeof(struct ps_times) == 32, "times");

struct ps_dequeue_result {
    uint64_t count;      /* elements */
    uint64_t bytes;      /* of all elements, with their lengths */
    uint64_t serial;     /* work: of the item; accumulator: gradients in the sum */
    uint32_t epoch;      /* work: epoch of the item */
    uint32_t deliveries; /* how often an element was taken before and came back: the highest */
};
_Static_assert(sizeof(struct ps_dequeue_result) == 32, "dequeue result");

struct ps_step_result {
    uint64_t round; /* that the member contributes to now; staleness: steps of the slowest member */
    uint64_t step;  /* the global step; staleness: 0 */
    uint32_t taken; /* 1: the values have what the member contributed */
    uint32_t flags; /* PS_STEP_* */
};
_Static_assert(sizeof(struct ps_step_result) == 24, "step result");
/* Flags of a STEP's result. */
enum {
    PS_STEP_LOST_PLACE = 1 /* the session is no longer a member: JOIN again. Only `taken` of the result is set */
};

/* Bits of HELLO's `features` and `needs`: what a side speaks besides the protocol's version. */
enum {
    PS_FEATURE_REASONS = 1,            /* errors carry a reason */
    PS_FEATURE_LONG_ADDS = 2,          /* ADD of more than 64 bytes, in as many frames as a PUSH */
    PS_FEATURE_TIMES = 4,              /* flag TIMES */
    PS_FEATURE_SESSION_CONTAINERS = 8, /* containers session/..., with their keys */
    PS_FEATURE_GLOBAL_STEP = 16,       /* pushes carry the global step; optimizers have schedules */
    PS_FEATURE_ROWS = 32,              /* GATHER, PUSH_ROWS, SCATTER */
    PS_FEATURE_PARTS = 64,             /* parts of variables: Part in CREATE, OPEN, VARS */
    PS_FEATURES_KNOWN = 127            /* all other bits are of newer versions */
};

/* What HELLO's reply says about an unresolved number. */
enum ps_number_state {
    PS_NUMBER_NOT_RECEIVED = 0,
    PS_NUMBER_APPLIED = 1,
    PS_NUMBER_REFUSED = 2,
    PS_NUMBER_IN_PROGRESS = 3,
    PS_NUMBER_ABANDONED = 4,
    PS_NUMBER_UNKNOWN = 5
};

/* Bits of BeatAnswer.flags. */
enum ps_beat_flag {
    PS_BEAT_CHIEF = 1,     /* a chief (of the container) holds the lease */
    PS_BEAT_DIRECTORY = 2, /* the task is the directory */
    PS_BEAT_STOP = 4,      /* this session is to stop */
    PS_BEAT_JOB_DONE = 8
};

/* What a WAIT waits for, for each of its variables. */
enum ps_wait_condition {
    PS_WAIT_INITIALISED = 1, /* it has a value */
    PS_WAIT_SEALED = 2       /* a chief has declared it ready by SEAL */
};

/* What a task lists about a checkpoint. */
enum ps_saved_state {
    PS_SAVED_HEARD = 1,     /* the task has a directory for checkpoints; number: the highest that it has heard of, or 0 */
    PS_SAVED_UNDECIDED = 2, /* the task has a part of it, or is writing one, and no manifest */
    PS_SAVED_WHOLE = 3,
    PS_SAVED_BAR = 4 /* a container is barred from checkpoints up to this number */
};

enum ps_file_kind {
    PS_FILE_VALUES = 1,
    PS_FILE_STATE = 2,
    PS_FILE_MANIFEST = 3,
    PS_FILE_NOTE = 4 /* TASK_CUT: not a file, but a container of the task */
};
/* What a task has of a container at the cut. A manifest has the notes of all tasks at each file of the container's values. */
enum ps_file_notes {
    PS_NOTE_SEALED = 1,  /* some variable is sealed */
    PS_NOTE_BARE = 2,    /* some variable has no value */
    PS_NOTE_DELETED = 4, /* some variables were deleted, and the checkpoint does not have them */
    PS_NOTE_TRAINED = 8  /* some variable was pushed to, or a global step is above 0 */
};

#endif
