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
    uint8_t dtype; /* ps_dtype of the payload; 0 for frames without values */
    uint8_t reserved0;
    uint16_t flags; /* PS_FLAG_* */
    uint64_t id;    /* with PS_FLAG_SEQ the sequence number of a mutation, otherwise the number of a request */
    uint32_t handle;
    uint32_t body_bytes;
    uint64_t offset; /* request or values: index of the first element; reply: ps_status */
    uint16_t meta_bytes;
    uint16_t reserved1;
    uint32_t crc; /* CRC32C of bytes 0..35 and of the meta with its padding */
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
    PS_FLAG_CRC = 1,     /* each segment of the body is followed by its CRC32C */
    PS_FLAG_FIRST = 2,   /* first frame of an operation */
    PS_FLAG_LAST = 4,    /* last frame of an operation */
    PS_FLAG_SEQ = 8,     /* id is a sequence number */
    PS_FLAG_REPLY = 16,  /* the frame answers the request that had this id */
    PS_FLAG_MORE = 32,   /* the list in the body goes on in the next frame with this op and id */
    PS_FLAG_VALUE = 64,  /* PUSHPULL, PUSHPULL_ROWS: the frame has new values of some elements; it does not confirm the push */
    PS_FLAG_TIMES = 128, /* request: the reply shall say how long the request took; reply: its meta ends in ps_times */
    PS_FLAG_KNOWN = 255  /* all flags of this version; other bits must be 0 */
};

/* PS_OP_HELLO = 1 and so on: one constant for each row of proto/operations.h */
#define PS_OP_NUMBER(name, number, ...) PS_OP_##name = (number),
enum ps_op { PS_OPERATIONS(PS_OP_NUMBER) };
#undef PS_OP_NUMBER

/* Meta of the FIRST frame of PUSH, PUSHPULL, ASSIGN and ADD. */
struct ps_push_meta {
    uint64_t total_elements; /* elements of the whole operation */
    float scale;             /* factor for the gradient; finite, > 0. ASSIGN: 1; ADD: +1 or -1 */
    uint32_t assign_flags;   /* ASSIGN: PS_ASSIGN_*; otherwise 0 */
    /* PUSH, PUSHPULL: 1 + version of the values from which the gradient was computed; 0: unknown. ASSIGN of a value: the chief
     * number of the sender, from CHIEF's answer; 0: the sender is not the chief (the session that may initialise the container).
     * ASSIGN of an optimizer slot with a power (such as beta1^t of Adam): the power, as the bits of an f64 */
    uint64_t version;
};
_Static_assert(sizeof(struct ps_push_meta) == 24, "push meta");
/* Follows the ps_push_meta of a PUSH or PUSHPULL, or the ps_rows_meta of a PUSH_ROWS or PUSHPULL_ROWS, if both sides have
 * PS_FEATURE_GLOBAL_STEP. `step` selects the learning rate from the optimizer's schedule. */
struct ps_push_step {
    uint64_t step; /* 1 + the global step that the session knows; 0: unknown */
};
_Static_assert(sizeof(struct ps_push_step) == 8, "push step");
/* Bits of ps_push_meta.assign_flags. At most one of them is set. */
enum {
    PS_ASSIGN_INIT_ONLY = 1, /* set the value only if the variable has none when the last byte comes */
    PS_ASSIGN_SLOT_1 = 2,    /* assign the optimizer's first slot (its state per element) instead of the value */
    PS_ASSIGN_SLOT_2 = 4,    /* assign the optimizer's second slot instead of the value */
    PS_ASSIGN_SLOT_3 = 8,    /* assign the optimizer's third slot instead of the value */
    PS_ASSIGN_SLOT_4 = 16,   /* assign the optimizer's fourth slot instead of the value */
    PS_ASSIGN_SLOTS = 30     /* mask of the four bits */
};

/* Meta of the FIRST frame of CONTRIBUTE. */
struct ps_contribute_meta {
    uint64_t total_elements; /* elements of the whole operation */
    float scale;             /* multiplies the gradient; finite, > 0 */
    uint32_t reserved;
    uint64_t member; /* member id of the sender in the group, from JOIN's answer */
    uint64_t round;  /* number of the synchronous round to which the gradient belongs */
};
_Static_assert(sizeof(struct ps_contribute_meta) == 32, "contribute meta");
/* Meta of the FIRST frame of CONTRIBUTE_ROWS. */
struct ps_contribute_rows_meta {
    uint64_t rows;    /* rows in the whole operation */
    uint64_t highest; /* index of the operation's last row; 0 if it has no rows */
    float scale;      /* multiplies the gradients; finite, > 0 */
    uint32_t reserved;
    uint64_t member; /* member id of the sender in the group, from JOIN's answer */
    uint64_t round;  /* number of the synchronous round to which the gradients belong */
};
_Static_assert(sizeof(struct ps_contribute_rows_meta) == 40, "contribute rows meta");

/* Meta of the FIRST frame of PUSH_ROWS, PUSHPULL_ROWS and SCATTER. */
struct ps_rows_meta {
    uint64_t rows;    /* rows of the whole operation */
    uint64_t highest; /* index of the operation's last row; 0 if it has no rows */
    uint64_t version; /* pushes: 1 + version of the values from which the gradients were computed, 0: unknown; SCATTER: 0 */
    float scale;      /* pushes: multiplies the gradients; finite, > 0. SCATTER: 1 */
    uint32_t how;     /* SCATTER: PS_SCATTER_*; pushes: 0 */
};
_Static_assert(sizeof(struct ps_rows_meta) == 32, "rows meta");
/* What SCATTER does with its rows. */
enum {
    PS_SCATTER_ADD = 1,
    PS_SCATTER_SUB = 2,
    PS_SCATTER_UPDATE = 3 /* the rows replace those of the variable */
};

/* Meta of a GATHER request. */
struct ps_gather_meta {
    /* number of row indices in the body, which has at most PS_CONTROL_BODY_MAX bytes; the reply has at most PS_FRAME_BODY_MAX */
    uint32_t rows;
    uint32_t slot; /* 0: rows of the value; n: rows of the optimizer's n-th slot */
};
_Static_assert(sizeof(struct ps_gather_meta) == 8, "gather meta");

/* Meta of a PULL request. The header's offset is the first element. */
struct ps_pull_meta {
    uint32_t elements; /* number of elements to read, of at most PS_FRAME_BODY_MAX bytes together */
    uint32_t slot;     /* 0: the value; n: the optimizer's n-th slot */
};
_Static_assert(sizeof(struct ps_pull_meta) == 8, "pull meta");

/* Meta of a successful PULL or GATHER reply, and of a frame with new values for PUSHPULL or PUSHPULL_ROWS. */
struct ps_pull_reply_meta {
    uint64_t version; /* version of the variable when the first byte of this frame was read */
    uint64_t durable;
    uint32_t in_progress;
    uint32_t reserved;
};
_Static_assert(sizeof(struct ps_pull_reply_meta) == 24, "pull reply meta");

/* Last bytes in the body of a PULL or GATHER reply, or of a frame with new values. */
struct ps_pull_trailer {
    uint64_t version; /* version of the variable when the last byte of this frame was read */
    uint32_t in_progress;
    uint32_t crc; /* CRC32C of the 12 bytes before; 0 without PS_FLAG_CRC */
};
_Static_assert(sizeof(struct ps_pull_trailer) == 16, "pull trailer");

/* Meta of every reply except a successful PULL or GATHER: this struct, the result, the error's text, both padded to 8 bytes. */
struct ps_reply_meta {
    uint64_t position; /* serial number of the change among all changes at the task; 0: nothing was changed */
    uint64_t durable;
    uint64_t version;      /* version of the variable after the change; 0: none */
    uint16_t result_bytes; /* <= PS_RESULT_BYTES_MAX */
    uint16_t text_bytes;   /* bytes of the error's text */
    uint8_t applied;       /* enum ps_applied */
    uint8_t reserved;
    uint16_t reason;         /* enum ps_reason; 0: the status says all that is known */
    uint32_t retry_after_ms; /* RESOURCE_EXHAUSTED, UNAVAILABLE: ms to wait before the next try; 0: unknown */
    uint32_t reserved1;
};
_Static_assert(sizeof(struct ps_reply_meta) == 40, "reply meta");

/* End of the meta of a reply with PS_FLAG_TIMES: how long the task had the request. All fields are durations, in nanoseconds of
 * the task's own clock, so clocks of different machines are never compared. */
struct ps_times {
    uint64_t queue_ns;  /* the request waited for the task's thread, or its reply waited to be sent */
    uint64_t wait_ns;   /* the request waited for others: workers, a round, a queue's element, a compute thread */
    uint64_t apply_ns;  /* the task's thread worked on the request */
    uint64_t kernel_ns; /* a compute thread worked on the request */
};
_Static_assert(sizeof(struct ps_times) == 32, "times");

struct ps_dequeue_result {
    uint64_t count;      /* number of elements */
    uint64_t bytes;      /* bytes of all elements and of their lengths */
    uint64_t serial;     /* work queue: serial number of the item; accumulator: number of gradients that were summed */
    uint32_t epoch;      /* work queue: the pass over the items (epoch) to which the item belongs */
    uint32_t deliveries; /* highest number of times that one of the elements was taken before and given back */
};
_Static_assert(sizeof(struct ps_dequeue_result) == 32, "dequeue result");

struct ps_step_result {
    uint64_t round; /* synchronous rounds: the member's present round; bounded staleness: steps of the slowest member */
    uint64_t step;  /* synchronous rounds: the global step; bounded staleness: 0 */
    uint32_t taken; /* 1: the values include the sender's contribution; 0: they do not */
    uint32_t flags; /* PS_STEP_* */
};
_Static_assert(sizeof(struct ps_step_result) == 24, "step result");
/* Flags of a STEP's result. */
enum {
    PS_STEP_LOST_PLACE = 1 /* the session is no longer a member and must JOIN again. Of the result only `taken` is valid */
};

/* Bits of HELLO's `features` (what the sender can do besides the version) and `needs` (what the other side must do). */
enum {
    PS_FEATURE_REASONS = 1,            /* errors carry a reason */
    PS_FEATURE_LONG_ADDS = 2,          /* an ADD may have more than 64 bytes, in several frames as a PUSH */
    PS_FEATURE_TIMES = 4,              /* flag TIMES */
    PS_FEATURE_SESSION_CONTAINERS = 8, /* containers named session/..., with their keys */
    PS_FEATURE_GLOBAL_STEP = 16,       /* pushes carry the global step; optimizers have learning-rate schedules */
    PS_FEATURE_ROWS = 32,              /* GATHER, PUSH_ROWS, SCATTER */
    PS_FEATURE_PARTS = 64,             /* partitioned variables: message Part in CREATE, OPEN, VARS */
    PS_FEATURE_ROUND_ROWS = 128,       /* synchronous rounds of rows: CONTRIBUTE_ROWS, fields rows_per_step and rows_mean */
    /* synchronous rounds with a limit on the norm of the averaged gradients: field max_norm, operation BUILD */
    PS_FEATURE_CLIP = 256,
    /* operation ADDRESSES: tasks that listen on any free port, so that the cluster spec lacks their addresses */
    PS_FEATURE_ADDRESSES = 1024,
    PS_FEATURE_PULL_ROWS = 2048,                /* PUSHPULL_ROWS */
    PS_FEATURES_KNOWN = 255 | 256 | 1024 | 2048 /* features of this version; other bits are of newer versions */
};

/* What HELLO's reply says about a change (a request with PS_FLAG_SEQ) whose own reply the session did not get. */
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
    PS_BEAT_CHIEF = 1,     /* some session is the container's chief (may initialise it) at present */
    PS_BEAT_DIRECTORY = 2, /* the task is the directory */
    PS_BEAT_STOP = 4,      /* this session must stop */
    PS_BEAT_JOB_DONE = 8
};

/* What a WAIT request awaits for each of its variables. */
enum ps_wait_condition {
    PS_WAIT_INITIALISED = 1, /* the variable has a value */
    PS_WAIT_SEALED = 2       /* the chief session has declared the variable ready for training (SEAL) */
};

/* What an entry in a task's list of its checkpoints (LIST) says. */
enum ps_saved_state {
    PS_SAVED_HEARD = 1, /* the task saves checkpoints; number: the highest checkpoint number that it knows, or 0 */
    /* the task has its part of the checkpoint, or is writing it, but does not know that the other parts are complete */
    PS_SAVED_UNDECIDED = 2,
    PS_SAVED_WHOLE = 3,
    /* a container was reset: checkpoints up to this number, which were saved before, must not bring it back */
    PS_SAVED_BAR = 4
};

enum ps_file_kind {
    PS_FILE_VALUES = 1,
    PS_FILE_STATE = 2,
    PS_FILE_MANIFEST = 3,
    PS_FILE_NOTE = 4 /* an entry of a manifest about a container that has no file of values */
};
/* What a task has in a container when the checkpoint is taken. In a manifest, files of a container have the bits of all tasks. */
enum ps_file_notes {
    PS_NOTE_SEALED = 1,  /* a variable was declared ready for training (SEAL) */
    PS_NOTE_BARE = 2,    /* a variable has no value yet */
    PS_NOTE_DELETED = 4, /* variables were deleted, so they are not in the checkpoint */
    PS_NOTE_TRAINED = 8, /* a variable was changed by a push, or a global step is above 0 */
    /* an entry of kind NOTE: the task has the container, but no file of its values. The entry of a state file: the task lists a
     * NOTE for each container without a file of values */
    PS_NOTE_NAMED = 16
};

#endif
