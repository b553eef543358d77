/* SPDX-License-Identifier: Apache-2.0 */
/* Every limit on what a peer can make this process hold, in one table. A length from the network is compared with its limit
 * before use. Long work is done in slices: between two slices a task serves other requests. */
#ifndef PSI_LIMITS_H
#define PSI_LIMITS_H

enum {
    PS_NAME_BYTES_MAX = 255,     /* variable names */
    PS_CONTAINER_BYTES_MAX = 63, /* container names */
    PS_JOB_BYTES_MAX = 63,       /* job and cluster names */
    /* names of keys; with the longest cluster name and role, a key's name on the wire (psi_key_wire()) has 126 bytes */
    PS_KEY_NAME_BYTES_MAX = 40,
    PS_HOST_BYTES_MAX = 255,     /* host of an address */
    PS_ADDRESS_BYTES_MAX = 271,  /* host:port, unix:PATH */
    PS_TASKS_MAX = 1024,         /* tasks of a cluster, all jobs */
    PS_JOBS_MAX = 32,            /* jobs of a cluster */
    PS_SEGMENT_BYTES = 64 << 10, /* payload bytes with a checksum of their own */
#ifdef PS_SIM_FRAME_BODY_MAX     /* tests/sim: small frames, so that a value of several frames costs little time */
    PS_FRAME_BODY_MAX = PS_SIM_FRAME_BODY_MAX,
    PS_VALUES_FRAME_BYTES = PS_SIM_FRAME_BODY_MAX,
#else
    PS_FRAME_BODY_MAX = 4 << 20, /* payload bytes of a frame, without padding, checksums and trailer */
    /* payload bytes of a frame that our library sends; smaller than the limit, so that other frames need not wait long */
    PS_VALUES_FRAME_BYTES = 1 << 20,
#endif
    PS_META_BYTES_MAX = 1024,     /* encoded meta of one frame, padding included */
    PS_WINDOW = 256,              /* outcomes of a session's last changes that a task keeps, for answers to repeated requests */
    PS_MULTIFRAME_PUSHES_MAX = 8, /* unfinished pushes of several frames that a session may have at a task */
    PS_RESULT_BYTES_MAX = 64,     /* bytes of the value that a mutation's reply returns */
    PS_CONTROL_BODY_MAX = 256 << 10,       /* body of a frame without tensor values; a longer list goes on in further frames */
    PS_LIST_ITEM_BYTES_MAX = 2048,         /* bytes of one entry of a list, without its length */
    PS_WAITS_PER_SESSION_MAX = 1024,       /* waiting requests that a session may have at a task */
    PS_MEMBERS_MAX = 1024,                 /* workers in a container's synchronous rounds */
    PS_OUT_QUEUE_STOP_BYTES = 2 << 20,     /* a connection with so many bytes of replies waiting is not read any more */
    PS_OUT_QUEUE_RESUME_BYTES = 512 << 10, /* a connection with so few bytes of replies waiting is read again */
    PS_SEND_TRY_BYTES = 256 << 10,         /* bytes given to the operating system in one write, approximately */
    PS_PREAUTH_BYTES_MAX = 8 << 10,        /* bytes held for a connection before its HELLO is accepted */
    PS_SEGMENT_PROGRESS_BYTES = 1 << 10,   /* an incomplete segment must grow by so many bytes in each PS_SEGMENT_DEADLINE_MS */
    PS_SEGMENT_BUFFERS_MAX = 128,          /* incomplete segments at a time, on all connections of a task together */
    PS_PUSHES_IN_PROGRESS_MAX = 4096,      /* unfinished pushes at a task */
    PS_CALLS_MAX = 64,                     /* ps_call()s of clients that run or wait at a task */
    PS_COPIES_BYTES_MAX = 64 << 20,   /* bytes copied for replies that wait on one connection (strings, rows, atomic values) */
    PS_INIT_AT_ONCE_BYTES = 16 << 20, /* a larger INIT (bytes of value and slots) is done in slices */
    PS_INIT_SLICE_BYTES = 64 << 10,   /* bytes that one slice of an INIT writes: some 2 ms */
    PS_ROUND_SLICE_BYTES = 8 << 20,   /* bytes in a slice of a synchronous round, or of a push for LAMB or LARS: some 2 ms */
    PS_REST_BYTES_MAX = 1 << 20, /* bytes kept of what came on a connection behind a request that waits; one read brings fewer */
    PS_TICK_LOOKS = 256,         /* connections, sessions and their containers that one tick of the timer examines: some 0.1 ms */
    PS_LIST_SLICE_ROWS = 1024,   /* variables in one slice of a listing or of a SET_RATE: some 2 ms */
    PS_RESET_SLICE_NAMES = 1024, /* variables or names that one slice of a container's reset removes: some 0.6 ms */
    PS_CUT_SLICE_BYTES = 1 << 19,  /* bytes that one slice of a checkpoint copies or encodes: some 0.5 ms of small entries */
    PS_CUT_PACE_BYTES = 48 << 20,  /* bytes of a checkpoint written to disk each second while clients are served */
    PS_COPY_SLICE_BYTES = 1 << 18, /* bytes that one slice copies for the calls of a task: some 0.05 ms */
    PS_VARIABLES_MAX = 1 << 20     /* variables of a task */
};
#define PS_RESTORE_CONTAINERS_MAX 64u           /* containers that a CHECKPOINT_RESTORE can name */
#define PS_CHIEFS_MAX 65536u                    /* containers whose chief (the session that may initialise it) a task remembers */
#define PS_CHIEF_NUMBER_MAX ((uint64_t)1 << 62) /* highest chief number that a task accepts from a peer */
#define PS_VARIABLE_BYTES_MAX ((uint64_t)1 << 44) /* bytes of a variable's value */

enum {
    PS_LEASE_MS = 10000,             /* default of psd --lease: a session not heard for so long counts as lost */
    PS_BEAT_MS = 2500,               /* default time between two BEATs of a session; HELLO's answer says the value in use */
    PS_HELLO_DEADLINE_MS = 5000,     /* a connection is closed if its first message (HELLO) takes longer */
    PS_SEGMENT_DEADLINE_MS = 5000,   /* an incomplete segment must grow by PS_SEGMENT_PROGRESS_BYTES in this time */
    PS_CUT_STUCK_MS = 5000,          /* a checkpoint is given up if for so long its copies fill their memory and no write ends */
    PS_RECONNECT_FIRST_MS = 50,      /* a client that lost its connection first waits so long before it connects again */
    PS_RECONNECT_MAX_MS = 1000,      /* longest wait before connecting again; the wait doubles each time */
    PS_SESSION_KEEP_MS = 600000,     /* default of psd --session_keep: how long a task remembers a session without a connection */
    PS_OPERATION_TIMEOUT_MS = 60000, /* default deadline of the library's calls */
    PS_READY_TIMEOUT_MS = 600000
};

#endif
