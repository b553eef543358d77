/* SPDX-License-Identifier: Apache-2.0 */
/* Every bound on what a peer can make us hold, in one table. A length from the wire is compared with its bound before use. */
#ifndef PSI_LIMITS_H
#define PSI_LIMITS_H

enum {
    PS_NAME_BYTES_MAX = 255,     /* variable names */
    PS_CONTAINER_BYTES_MAX = 63, /* container names */
    PS_JOB_BYTES_MAX = 63,       /* job and cluster names */
    PS_KEY_NAME_BYTES_MAX = 40,  /* key names: with the longest cluster name and role, an identity on the wire has 126 bytes */
    PS_HOST_BYTES_MAX = 255,     /* host of an address */
    PS_ADDRESS_BYTES_MAX = 271,  /* host:port, unix:PATH */
    PS_TASKS_MAX = 1024,         /* tasks of a cluster, all jobs */
    PS_JOBS_MAX = 32,            /* jobs of a cluster */
    PS_SEGMENT_BYTES = 64 << 10, /* payload per CRC */
#ifdef PS_SIM_FRAME_BODY_MAX     /* tests/sim: frames are small, so that values of several frames cost little */
    PS_FRAME_BODY_MAX = PS_SIM_FRAME_BODY_MAX,
    PS_VALUES_FRAME_BYTES = PS_SIM_FRAME_BODY_MAX,
#else
    PS_FRAME_BODY_MAX = 4 << 20,     /* payload per frame, without padding, CRCs and trailer */
    PS_VALUES_FRAME_BYTES = 1 << 20, /* payload per frame of our library, so that other frames get in between */
#endif
    PS_META_BYTES_MAX = 1024,              /* encoded meta of one frame, padding included */
    PS_WINDOW = 256,                       /* outcomes kept per session and task */
    PS_MULTIFRAME_PUSHES_MAX = 8,          /* multi-frame pushes in progress per session and task */
    PS_RESULT_BYTES_MAX = 64,              /* value that a mutation may return */
    PS_CONTROL_BODY_MAX = 256 << 10,       /* body of a control frame (lists), continued in further frames */
    PS_LIST_ITEM_BYTES_MAX = 2048,         /* one length-delimited message of a list */
    PS_WAITS_PER_SESSION_MAX = 1024,       /* waiting requests per session and task; their memory is bounded apart */
    PS_MEMBERS_MAX = 1024,                 /* members of a container's rounds */
    PS_OUT_QUEUE_STOP_BYTES = 2 << 20,     /* replies waiting for a connection at which it is no longer read */
    PS_OUT_QUEUE_RESUME_BYTES = 512 << 10, /* replies waiting for a connection at which it is read again */
    PS_SEND_TRY_BYTES = 256 << 10,         /* bytes of one write */
    PS_PREAUTH_BYTES_MAX = 8 << 10,        /* before HELLO is accepted */
    PS_SEGMENT_PROGRESS_BYTES = 1 << 10, /* bytes of half a segment that must come in each PS_SEGMENT_DEADLINE_MS: 205 bytes/s */
    PS_SEGMENT_BUFFERS_MAX = 128,        /* segments half received at a time, on all connections of a task */
    PS_PUSHES_IN_PROGRESS_MAX = 4096,    /* pushes begun and not ended, of a task */
    PS_CALLS_MAX = 64,                   /* calls that a task runs or has waiting */
    PS_COPIES_BYTES_MAX = 64 << 20,      /* copies of strings and atomic values waiting to be sent on one connection */
    PS_INIT_AT_ONCE_BYTES = 16 << 20,    /* value and slots: a larger INIT is made in slices, and others are served in between */
    PS_INIT_SLICE_BYTES = 64 << 10,      /* of an INIT: some 2 ms */
    PS_ROUND_SLICE_BYTES = 8 << 20,      /* of a round's new values and what they are made of: some 2 ms */
    PS_REST_BYTES_MAX = 1 << 20,         /* unread bytes behind a request that waits: far above one read of a shell */
    PS_TICK_LOOKS = 256,           /* connections, sessions, and containers of sessions, that a tick looks at: some 0.1 ms */
    PS_LIST_SLICE_ROWS = 1024,     /* variables that a slice of a list, or of a SET_RATE, looks at: some 2 ms */
    PS_RESET_SLICE_NAMES = 1024,   /* variables or names that a slice of a container's reset drops: some 0.6 ms */
    PS_CUT_SLICE_BYTES = 1 << 19,  /* copies and entries of a checkpoint in one slice: some 0.5 ms of small entries */
    PS_CUT_PACE_BYTES = 48 << 20,  /* bytes of a checkpoint written to the disk in a second, beside training */
    PS_COPY_SLICE_BYTES = 1 << 18, /* variables that a slice copies for calls of the task: some 0.05 ms */
    PS_VARIABLES_MAX = 1 << 20     /* variables of a task */
};
#define PS_RESTORE_CONTAINERS_MAX 64u             /* containers that a CHECKPOINT_RESTORE can name */
#define PS_CHIEFS_MAX 65536u                      /* containers whose chief a task keeps */
#define PS_CHIEF_NUMBER_MAX ((uint64_t)1 << 62)   /* of a chief lease: no task follows a higher number */
#define PS_VARIABLE_BYTES_MAX ((uint64_t)1 << 44) /* bytes of a variable's value */

enum {
    PS_LEASE_MS = 10000,             /* default of psd --lease; HELLO's answer has the value in force */
    PS_BEAT_MS = 2500,               /* time between beats by default; HELLO's answer has the value in force */
    PS_HELLO_DEADLINE_MS = 5000,     /* a connection without a whole HELLO by then is closed */
    PS_SEGMENT_DEADLINE_MS = 5000,   /* half a segment that does not move is given up */
    PS_CUT_STUCK_MS = 5000,          /* a checkpoint that has no room, and of which nothing is written, is given up */
    PS_RECONNECT_FIRST_MS = 50,      /* a client's back-off: first wait */
    PS_RECONNECT_MAX_MS = 1000,      /* a client's back-off: longest wait, after doubling */
    PS_SESSION_KEEP_MS = 600000,     /* default of psd --session_keep: how long a record without a connection is kept */
    PS_OPERATION_TIMEOUT_MS = 60000, /* default of our library */
    PS_READY_TIMEOUT_MS = 600000
};

#endif
