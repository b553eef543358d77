/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of worker/plan share: a plan, its rows (operations), and a trip (one execution of the plan). A plan is built
 * under its lock, by any thread; it is run by the one thread that has set `running`. */
#ifndef PSI_PLAN_PLAN_H
#define PSI_PLAN_PLAN_H

#include "common/map.h"
#include "worker/api/api.h"
#include "worker/plan/cut.h"
#include "worker/plan/run.h"

/** Place of rows that the client executes. A row's place is otherwise the index of a task in the client's table of tasks. */
#define PSI_PLAN_CLIENT (PSI_CUT_NOWHERE - 1u)
/** Room for the device of a task, such as "GPU:0", with the NUL. */
#define PSI_PLAN_DEVICE_BYTES (PSI_RUN_DEVICE_BYTES_MAX + 1)
enum { PSI_PLAN_ALIGN = 64 }; /* bytes; alignment of values in the client's memory */

enum psi_plan_kind {
    PSI_PLAN_OP = 1,
    PSI_PLAN_PLACEHOLDER,
    PSI_PLAN_CONST,
    PSI_PLAN_VARIABLE, /* reads a variable at the beginning of the run that uses the value */
    PSI_PLAN_PART,     /* part number `part` of a batch that is divided among replicas into `parts` parts */
    PSI_PLAN_WEIGHT,   /* float32 or float64: share of the batch's rows that a PART has */
    PSI_PLAN_ASSIGN,   /* the row's result is its input */
    PSI_PLAN_ADD,
    PSI_PLAN_PUSH,
    PSI_PLAN_GROUP
};

struct psi_plan_ref {
    uint32_t row, output;
};

struct psi_plan_row {
    enum psi_plan_kind kind;
    uint32_t number;
    uint32_t first_value; /* index of the row's first output among all values of the plan */
    uint32_t input_count, output_count;
    struct psi_plan_ref *inputs; /* [input_count] */
    struct psi_type *types;      /* [output_count] types, as far as known before a run. dtype NONE: the row has no result */
    char *name;                  /* full name, unique in the plan; of a VARIABLE row the variable's name */
    const char *type;            /* TensorFlow's type of the operation: "Add" */
    const struct psi_op *op;     /* set for OP */
    struct psi_op_attrs attrs;   /* set for OP and PLACEHOLDER */
    char *message;               /* owns the text of attrs.message; NULL: none */
    struct psi_value value;      /* CONST: the value; the row owns it */
    ps_variable *variable;       /* set for VARIABLE (which it reads), ASSIGN, ADD, PUSH (which change it) */
    float scale;                 /* set for PUSH */
    /* PART, WEIGHT: input 0 is a batch, whose data rows are divided into `parts` parts; the row is about part `part`. Input 1 is
     * the first batch: each batch must have as many data rows. A WEIGHT without a batch has no inputs */
    uint32_t part, parts;
    uint32_t replica; /* 1 + index of the replica for which the row was made; 0: no replica */
    /* PUSH of an asynchronous replica: the push and other replicas' reads of the variable do not wait for each other */
    bool alone;
    struct psi_device device; /* device that the program's device scopes ask for */
    char requested[PSI_DEVICE_BYTES];
    char assigned[PSI_DEVICE_BYTES]; /* "": not known yet */
    /* where the row runs; valid if `placed`, and then fixed for operations. PSI_CUT_NOWHERE: the row is not executed */
    bool placed;
    uint32_t place;
    char local[PSI_PLAN_DEVICE_BYTES]; /* device of the task that runs the row: "CPU:0" */
    bool shown;                        /* the log line about the row's placement is written */
    uint64_t ran;                      /* number of successful runs in which the row was executed */
};

struct ps_plan {
    ps_session *session;
    struct psi_list link; /* in session->plans */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signals a change of running or calling */
    /* the fields below: used under the lock, or by the thread that has set `running` */
    bool running;
    uint32_t calling;     /* callbacks of ps_plan_start() that are due and have not returned; ps_plan_free() waits for 0 */
    struct psi_err error; /* first error of building */
    struct psi_plan_row **rows;
    uint32_t row_count;
    size_t row_capacity;
    uint32_t value_count;
    struct psi_map names; /* name -> N: name_make() makes name_N if the name is given again */
    char *next_name;      /* name that ps_plan_name() gives to the next row; NULL: none */
    uint32_t replica;     /* index + 1 of the replica for which rows are being made; 0: none */
    uint64_t runs;
    bool home_known;
    uint32_t home; /* place (index of a task, or the client) of rows whose device names no task */
    struct psi_device home_device;
    char home_name[PSI_TASK_NAME_MAX];
    uint32_t number;
    struct psi_list keeps; /* struct psi_plan_keep: keep.c */
    uint64_t keeps_made;
    uint32_t life; /* how many recoveries the session had had when keeps and container were set; one more invalidates them */
    /* container of the session's own variables; "": not asked for yet, or no longer valid after a recovery */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint8_t key[PSI_RUN_KEY_BYTES];
    void **gifts; /* [gift_count] memory of the values that the last run returned to the program; freed by the plan */
    size_t gift_count;
};

/* ---- object.c ---- */
void psi_plan_gifts_free(ps_plan *p);

/* ---- plan.c ---- */
/** Begin to build; waits while p runs. False: p is NULL, failed, or the parent's (after fork()): do not call psi_plan_leave(). */
bool psi_plan_enter(ps_plan *p);
/** End building. An error in *err becomes the plan's. Returns the value; after an error a value that belongs to no plan. */
ps_value psi_plan_leave(ps_plan *p, ps_value value, const struct psi_err *err);
/** Begin a run; psi_plan_run_end() must follow. waits: wait for the end of a run in progress. FAILED_PRECONDITION: a run is in
 * progress and `waits` is false, or `waits` is true in a callback of the library. */
ps_status psi_plan_run_begin(ps_plan *p, bool waits, struct psi_err *err) PSI_MUST;
void psi_plan_run_end(ps_plan *p);
/** Call before a callback of ps_plan_start(), instead of psi_plan_run_end(): ps_plan_free() then waits for psi_plan_called(). */
void psi_plan_run_end_calling(ps_plan *p);
void psi_plan_called(ps_plan *p);
/** Check that the value belongs to the plan and can be an input. INVALID_ARGUMENT begins with `what`: "input 1". */
ps_status psi_plan_value_check(const ps_plan *p, ps_value v, const char *what, struct psi_err *err) PSI_MUST;
static inline struct psi_plan_row *psi_plan_row_of(const ps_plan *p, uint32_t row)
{
    return p->rows[row];
}
/** Index of a value among all values of the plan. The result of an assignment has the index of the assigned value. */
uint32_t psi_plan_number(const ps_plan *p, struct psi_plan_ref ref);
/** The row and output that make the value. The result of an assignment is its input, so it is made by the input's row. */
struct psi_plan_ref psi_plan_maker(const ps_plan *p, struct psi_plan_ref ref);

/* ---- build.c ---- */
struct psi_plan_spec {
    enum psi_plan_kind kind;
    const char *name; /* the program's name for the row; NULL or "": base */
    const char *base; /* default name */
    /* type of the operation: shown in logs; a device setter chooses the device by it */
    const char *type;
    const char *device; /* innermost device scope; NULL: none */
    const ps_value *inputs;
    size_t input_count;
    const struct psi_type *types;
    uint32_t output_count;
};
/** Make a row, between psi_plan_enter() and psi_plan_leave(). Its inputs must be checked before. Fields that spec lacks are 0. */
ps_status psi_plan_row_new(ps_plan *p, const struct psi_plan_spec *spec, struct psi_plan_row **out_row,
                           struct psi_err *err) PSI_MUST;
void psi_plan_row_free(struct psi_plan_row *row);
/** Check that a value of this type fits the variable: dtype and known dimensions. INVALID_ARGUMENT begins with `who`. */
ps_status psi_plan_fits_check(const ps_variable *v, const struct psi_type *type, const char *who, struct psi_err *err) PSI_MUST;

/* ---- trip.c: a trip is one execution of the whole plan (psi_plan_execute()), with its inputs, values and runs ---- */
struct psi_plan_keep;
struct psi_trip_value {
    struct psi_type type;   /* dtype and shape, all dimensions known */
    struct psi_value value; /* the value in the client's memory; data is NULL and bytes is 0 unless `here` */
    bool here;
    bool owned;          /* the trip frees value.data */
    bool fetched;        /* the client needs the value: for the program, or for a row that the client executes */
    bool wanted;         /* a run at another place, or a later run at this place, uses the value */
    bool pulled;         /* the client reads the value from `keep` */
    bool travels;        /* a large value of the client that only one run uses: that run's call brings it, unless it has a keep */
    bool kept;           /* `keep` has this trip's value already */
    uint64_t bytes_most; /* strings that are not `here`: most bytes that they may have */
    /* session variable that holds the value; NULL: calls carry it */
    struct psi_plan_keep *keep;
};
/* Which runs get the value of a variable from the client. */
enum psi_trip_read {
    PSI_READ_NONE,       /* no run: each run that uses the value reads the variable */
    PSI_READ_FOR_CLIENT, /* no run; but the client reads the variable, because the program asks for its value */
    PSI_READ_FOR_ALL     /* all runs: the client reads the value first, because a later row changes the variable */
};
struct psi_trip {
    ps_plan *plan;
    const ps_feed *feeds;
    size_t feed_count;
    const ps_value *fetches;
    size_t fetch_count;
    ps_fetched *outs;
    ps_run_options options;
    uint64_t until_ms;             /* absolute deadline; 0: psi_plan_execute() has not computed it yet, from options.timeout_ms */
    bool *needed;                  /* [row_count] */
    uint8_t *client_reads;         /* [row_count] enum psi_trip_read, for VARIABLE rows */
    struct psi_trip_value *values; /* [value_count] */
    uint32_t *run_of;              /* [row_count] */
    struct psi_cut_run *runs;      /* [run_count] */
    uint32_t run_count;
    struct psi_trace *trace;
    bool changed; /* a run may have changed variables: later errors of the trip say that (err->applied) */
};
/** Find the rows that the fetches need, take the program's inputs, and infer all types. Nothing is sent. */
ps_status psi_trip_prepare(struct psi_trip *t, struct psi_err *err) PSI_MUST;
void psi_trip_find_reads(struct psi_trip *t);
/** True if the row is a VARIABLE, and each run that uses its value reads the variable. False: they get the client's value. */
static inline bool psi_trip_reads_itself(const struct psi_trip *t, const struct psi_plan_row *row)
{
    return row->kind == PSI_PLAN_VARIABLE && t->client_reads[row->number] != PSI_READ_FOR_ALL;
}
/** Cut the needed rows, which must have their places, into runs: rows at one place that are sent together. */
ps_status psi_trip_cut(struct psi_trip *t, struct psi_err *err) PSI_MUST;
void psi_trip_fini(struct psi_trip *t);
/** Allocate memory for value `number`: `bytes` bytes if it has strings, else the bytes of its dtype and shape. */
ps_status psi_trip_room(struct psi_trip *t, uint32_t number, size_t bytes, struct psi_err *err) PSI_MUST;
/** The time in ns, for spans (times of parts) of the trace; 0: the run is not traced. Any thread. */
static inline uint64_t psi_trip_now(const struct psi_trip *t)
{
    return t->trace != NULL ? psi_io_now_ns() : 0;
}
/** In a traced run: record a span of this thread, from from_ns until now. */
static inline void psi_trip_span(struct psi_trip *t, const char *cat, const char *name, uint64_t from_ns)
{
    if (t->trace != NULL) {
        psi_trace_add(t->trace, t->trace->thread, cat, name, from_ns, psi_io_now_ns());
    }
}
int64_t psi_trip_left_ms(const struct psi_trip *t); /* milliseconds until t->until_ms, at least 1 */

/* ---- carry.c: how values come from one run to another ---- */
/** Choose for each value that leaves its run whether calls or a session variable (a keep) carry it; make these variables. */
ps_status psi_trip_carry(struct psi_trip *t, struct psi_err *err) PSI_MUST;
/** Before the runs [first, end) of a level: assign values that the client has to the keeps' variables that these runs read. */
ps_status psi_trip_give(struct psi_trip *t, uint32_t first, uint32_t end, struct psi_err *err) PSI_MUST;
/** After the runs [first, end) of a level: read the values that the client needs from the keeps' variables that got them. */
ps_status psi_trip_fetch(struct psi_trip *t, uint32_t first, uint32_t end, struct psi_err *err) PSI_MUST;

/* ---- place.c ---- */
/** Choose the place of each needed row that has none; this asks the cluster's tasks for their devices. */
ps_status psi_plan_place(struct psi_trip *t, struct psi_err *err) PSI_MUST;

/* ---- local.c ---- */
ps_status psi_trip_local(struct psi_trip *t, uint32_t run, struct psi_err *err) PSI_MUST;

/* ---- remote.c ---- */
/** Execute runs [first, end) of a level: call each task with one, execute the client's on this thread, await all answers. */
ps_status psi_trip_level(struct psi_trip *t, uint32_t first, uint32_t end, struct psi_err *err) PSI_MUST;
/** Ask by an empty run whether the task executes runs. *out_executes false, with PS_OK: the task lacks PSI_RUN_CALL. */
ps_status psi_trip_probe(const struct psi_trip *t, uint32_t task, bool *out_executes, struct psi_err *err) PSI_MUST;
/** Write into buf [n] the names of a run's rows, for errors: "'add', 'mul' and 3 more". Returns buf. */
const char *psi_trip_names(const struct psi_trip *t, uint32_t run, char *buf, size_t n);

/* ---- execute.c ---- */
ps_status psi_plan_arguments(struct psi_trip *t, const ps_run_options *options, struct psi_err *err) PSI_MUST;
/** Run the plan; the caller has called psi_plan_run_begin(). Also calls psi_trip_fini(), so the caller must not. */
ps_status psi_plan_execute(struct psi_trip *t, struct psi_err *err) PSI_MUST;

#endif
