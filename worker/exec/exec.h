/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the executor of operations share (worker/ps_ops.h is the public header).
 *
 *   ps_ops             the executor of one server: its call table, its memory, its access to variables
 *   psi_exec_run       one call: a decoded run, its values and its stage
 *   psi_exec_transfer  one value that is transferred between a run and a variable
 *   psi_exec_reach     functions that carry transfers: those of the executor's session (reach.c), or a test's
 *
 * A run passes through these stages once, in this order. "-> PENDING": run() returns PENDING while the stage waits.
 *
 *   READING     prepare.c has checked the call; variables that are inputs are read; the server is asked for memory for new
 *               values of variables of its own task (drafts); a part of the call's input may not have arrived  -> PENDING
 *   COMPUTING   when all inputs have arrived, again() makes the server call run() again; compute.c runs the rows in order
 *   DELIVERING  outputs are sent to variables; drafts are published                              -> PENDING
 *   OVER        the answer is encoded, and finish() is called
 *
 * A stage without anything to wait for is followed by the next stage in the same run(). Threads: run() is on a compute thread,
 * transfers end on any thread, cancel() is on the task's thread. The thread that brings psi_exec_run.pending to 0 continues the
 * run; no other thread touches the run from then on. */
#ifndef PSI_EXEC_H
#define PSI_EXEC_H

#include "common/cluster.h"
#include "common/list.h"
#include "worker/plan/run.h"
#include "worker/ps_ops.h"

#include <pthread.h>
#include <stdatomic.h>

enum psi_exec_kind { PSI_EXEC_READ, PSI_EXEC_ASSIGN, PSI_EXEC_ADD, PSI_EXEC_PUSH };

struct psi_exec_kept;
struct psi_exec_transfer;
/** Called once per transfer, on any thread, never from within start() or cancel(). */
typedef void (*psi_exec_done_fn)(struct psi_exec_transfer *t);

/* A transfer of a value between a run and a variable. From start() to done() only its carrier (reach.c or a test) changes it. */
struct psi_exec_transfer {
    enum psi_exec_kind kind;
    const struct psi_run_variable *variable;
    /* [PSI_RUN_KEY_BYTES] key of the variable's container; NULL: the container belongs to no session */
    const uint8_t *key;
    const struct psi_type *type;
    void *data;   /* [bytes] READ: receives the value; other kinds: the value to send. PS_STRING: a blob */
    size_t bytes; /* size of `data`; a READ of PS_STRING sets it to the bytes of the blob before done() */
    float scale;  /* PUSH */
    int64_t timeout_ms;
    const char *who, *role; /* identity of the client, whose rights are checked; NULL: no check */
    psi_exec_done_fn done;
    /* valid in done() and after it */
    struct psi_err err; /* code PS_OK: transferred. applied: what a failure did to the variable */
    uint8_t result[PS_RESULT_BYTES_MAX];
    uint32_t result_bytes; /* ADD: bytes of the new value in result; 0: the value does not fit there. Other kinds: 0 */
    /* used by the run only: */
    struct psi_exec_run *run;
    uint32_t value; /* number of the value in the run */
    bool own_task;  /* the variable is of this task: READ uses psd_call_functions.read, ASSIGN first asks for a draft */
    void *room; /* ASSIGN: the draft, server memory that a publish makes the variable's value; NULL: `reach` carries the value */
    bool begun, ended; /* begun: start() returned PS_OK, or the draft was published */
    /* for a READ of the own task: */
    struct psi_exec_kept *kept; /* copy that an earlier run made, with this run counted among its users; NULL: none */
    uint64_t creation, version; /* creation number of the variable, and version of its value; creation 0: it changed while read */
    bool same;                  /* the variable still has the value of `kept` */
    /* used by the carrier only: */
    void *carrier; /* struct errand in reach.c */
};

struct psi_exec_reach {
    void *ctx;
    /** Start t. PS_OK: t->done is called once; otherwise never, and nothing was applied. Any thread; never waits. */
    ps_status (*start)(void *ctx, struct psi_exec_transfer *t, struct psi_err *err);
    /** Make t end soon, if it was started and has not ended; t->done() is still called. Any thread; does not wait. */
    void (*cancel)(void *ctx, struct psi_exec_transfer *t);
};

enum psi_exec_stage { PSI_EXEC_READING, PSI_EXEC_COMPUTING, PSI_EXEC_DELIVERING, PSI_EXEC_OVER };

#define PSI_EXEC_NO_ROW INT64_C(-1) /* psi_exec_slot.last_row: no row reads the value */
#define PSI_EXEC_RUN_END INT64_MAX  /* psi_exec_slot.last_row: an output of the run has the value */
/* Memory of one value of a run, and how long the value is needed. */
struct psi_exec_slot {
    void *memory;     /* owned by the run, counted in the executor's memory; NULL: none, or the value is in the call's input */
    uint64_t bytes;   /* bytes of a numeric value; strings: 0 until the value exists */
    int64_t last_row; /* index of the last row (operation) with this value as an input, or PSI_EXEC_NO_ROW, PSI_EXEC_RUN_END */
    bool own;         /* the value is in memory that rows may overwrite; false: in the call's input, or in a kept copy */
    void *room;       /* the draft, memory of the server, into which the row writes the value; NULL: none */
    bool live;        /* the value exists in memory that the run must free */
};

struct psi_exec_run {
    ps_ops *ops;
    psd_call *call;
    struct psi_run run;
    enum psi_exec_stage stage;       /* written only by the one thread that begins or continues the run */
    struct psi_type *types;          /* [value_count] */
    struct psi_value *values;        /* [value_count] dtype NONE: the value does not exist yet, or was freed */
    struct psi_exec_slot *slots;     /* [value_count] */
    const struct psi_op **row_ops;   /* [row_count] */
    struct psk_place **places;       /* [row_count] NULL: CPU:0 */
    struct psi_exec_transfer *moves; /* [move_count] reads first, then deliveries */
    uint32_t read_count, move_count;
    struct psi_run_result *results; /* [output_count] results of the answer, used only while it is encoded */
    void *out;
    size_t out_capacity;
    uint64_t own_bytes;   /* bytes of the run itself, without values; reserved by prepare() */
    uint64_t peak_bytes;  /* largest sum of bytes of numeric values at any time; reserved by prepare() */
    uint64_t extra_bytes; /* bytes of strings, which are reserved when they become known */
    uint64_t since_ns;    /* when the current stage began; 0: the run is not traced */
    struct psi_run_times times;
    atomic_uint pending; /* transfers that have not ended, plus 1 while run() starts transfers, plus 1 for `awaits` */
    bool cancelled;      /* under ops->lock */
    bool awaits;         /* under ops->lock: the call's input has not come completely, which counts 1 in `pending` */
    bool ready;          /* under ops->lock: all inputs have arrived, and the server will call run() again */
    struct psi_err err;  /* under ops->lock: the first failure */
};

enum { PSI_EXEC_PLACES_MAX = 16 };
enum { PSI_EXEC_DRAFTS_MAX = 64 }; /* drafts per run */
enum { PSI_EXEC_SPARES_MAX = 32 };
enum { PSI_EXEC_ERRAND_BYTES = 2048 }; /* bytes that a carrier allocates for one transfer, at most */

/* Memory of a value that no row needs any more, kept for a later value of the same size. */
struct psi_exec_spare {
    void *memory;
    uint64_t bytes;
};

struct ps_ops {
    psd_call_row row;
    psd_call_table table;
    ps_log_level log_level;
    ps_log_fn log;
    void *log_ctx;
    const psd_call_functions *functions; /* the server's functions; NULL: no server has called attach() */
    atomic_bool detached;                /* the executor's server has ended */
    char target[PS_ADDRESS_BYTES_MAX + 8];
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t task;
    char *devices;
    char *files[4]; /* credentials of the executor's session: key_file, tls_cert, tls_key, tls_ca; NULL: none */
    char name[PSI_TASK_NAME_MAX];
    struct psi_exec_reach reach;
    struct psi_exec_carrier *carrier; /* state of `reach`, made by psi_exec_carrier_new(); owned */
    pthread_mutex_t lock;
    uint64_t memory_bytes, used_bytes; /* used_bytes: under the lock */
    /* copies of variables (struct psi_exec_kept), least recently used first. kept, kept_count, kept_bytes: under the lock */
    struct psi_list kept;
    uint32_t kept_count;
    uint64_t kept_bytes; /* bytes of all copies in `kept`, which memory_bytes does not limit: kept.c has a limit of its own */
    /* [spare_count], the newest at the end. spares, spare_count and spare_bytes: under the lock */
    struct psi_exec_spare spares[PSI_EXEC_SPARES_MAX];
    uint32_t spare_count;
    uint64_t spare_bytes;       /* bytes of all spares, which memory_bytes does not limit: memory.c has a limit of its own */
    pthread_mutex_t place_lock; /* held while a device is opened, which may take seconds; no other lock is taken under it */
    struct psk_place *places[PSI_EXEC_PLACES_MAX]; /* under place_lock: opened at first use */
    char place_names[PSI_EXEC_PLACES_MAX][PSI_RUN_DEVICE_BYTES_MAX + 1];
    uint32_t place_count;
};

/* ---- memory.c ---- */
/** Reserve bytes of the executor's memory. RESOURCE_EXHAUSTED: the error has the bytes wanted and the bytes left. Any thread. */
PSI_MUST ps_status psi_exec_reserve(ps_ops *ops, uint64_t bytes, struct psi_err *err);
void psi_exec_release(ps_ops *ops, uint64_t bytes);
/** Memory of `bytes` (> 0), 64-byte aligned, not zeroed; NULL: none left. psi_exec_memory_free() needs `bytes`. Any thread. */
void *psi_exec_memory_new(ps_ops *ops, uint64_t bytes);
/** Free memory of psi_exec_memory_new(); large memory is kept as a spare instead (memory.c). NULL: fine. Any thread. */
void psi_exec_memory_free(ps_ops *ops, void *memory, uint64_t bytes);
/** Free all spares. Call it while no run exists. */
void psi_exec_spares_free(ps_ops *ops);
/* ---- place.c ---- */
/** Open the device that a row names, at its first use. *out NULL: CPU:0. INVALID_ARGUMENT, NO_DEVICE: the task lacks it. */
PSI_MUST ps_status psi_exec_place(ps_ops *ops, const char *device, struct psk_place **out, struct psi_err *err);

/** Close all devices. Call it while no run exists. */
void psi_exec_places_close(ps_ops *ops);

/* ---- prepare.c ---- */
/** Decode a call, check it completely and reserve its memory. come: how many bytes of the input have arrived; bytes of values may
 * still be missing. *out_run: owned by the caller, psi_exec_run_free(). */
PSI_MUST ps_status psi_exec_prepare(ps_ops *ops, psd_call *call, const void *in, size_t in_bytes, size_t come, void *out,
                                    size_t out_capacity, struct psi_exec_run **out_run, struct psi_err *err);
/** Check that the values of the answer fit the call's output, as far as sizes are known. RESOURCE_EXHAUSTED: they do not. */
PSI_MUST ps_status psi_exec_answer_fits(const struct psi_exec_run *r, struct psi_err *err);
/** Index of the input value of row i whose memory output 0 of the row takes over; UINT32_MAX: output 0 gets other memory. */
uint32_t psi_exec_reused(const struct psi_exec_run *r, uint32_t i);
/** True if value n, which row i reads or makes, can be freed after row i: it has memory of the run, and no later use. */
bool psi_exec_is_over(const struct psi_exec_run *r, uint32_t i, uint32_t n);
/** True if a row makes the value of output i, and no other output of the run has this value. */
bool psi_exec_is_output_alone(const struct psi_exec_run *r, uint32_t i);
void psi_exec_value_memory_free(struct psi_exec_run *r, uint32_t n);
/** Bytes to allocate for a value of this type that is read from a variable. */
size_t psi_exec_read_bytes(const struct psi_type *type);
/** Free a run; none of its transfers may be in progress. NULL is fine. */
void psi_exec_run_free(struct psi_exec_run *r);

/* ---- compute.c ---- */
/** Give value n (of known type) memory: its draft (server memory), or else `bytes` bytes, 64-byte aligned, owned by the run. */
PSI_MUST ps_status psi_exec_value_new(struct psi_exec_run *r, uint32_t n, size_t bytes, struct psi_err *err);
/** Run all rows. Call it when all inputs have arrived. */
PSI_MUST ps_status psi_exec_compute(struct psi_exec_run *r, struct psi_err *err);

/* ---- kept.c: copies of variables of the own task that do not change ---- */
/** Before a READ t of the own task: set t->kept to the copy of its variable, if there is one. */
void psi_exec_kept_find(struct psi_exec_transfer *t);
/** Call after a successful READ t, before the first row runs. t->same: the run uses the copy t->kept as the value. Otherwise, if
 * the last read of the variable found the same t->creation and t->version, the value of t becomes a copy for later runs. */
void psi_exec_kept_use(struct psi_exec_transfer *t);
/** End this run's use of t->kept. NULL is fine. */
void psi_exec_kept_release(struct psi_exec_transfer *t);
void psi_exec_kept_free(ps_ops *ops);

/* ---- run.c ---- */
ps_status psi_exec_call_run(void *ctx, psd_call *call, const void *in, size_t in_bytes, void *out, size_t out_capacity,
                            size_t *out_bytes, char *error, size_t error_bytes);
void psi_exec_call_cancel(void *ctx, psd_call *call);

/* ---- reach.c ---- */
/** Make the carrier of transfers; its session is opened at the first transfer. RESOURCE_EXHAUSTED: no memory. */
PSI_MUST ps_status psi_exec_carrier_new(ps_ops *ops, struct psi_err *err);
/** End a carrier without transfers in progress. Blocks for at most a second. NULL is fine. */
void psi_exec_carrier_free(struct psi_exec_carrier *carrier);

#endif
