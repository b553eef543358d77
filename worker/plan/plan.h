/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of worker/plan share: a plan, its rows, and a trip, which is one ps_plan_run().
 *
 * Threads: a plan is built and run under its lock, or by the one thread that has set `running`.
 */
#ifndef PSI_PLAN_PLAN_H
#define PSI_PLAN_PLAN_H

#include "common/map.h"
#include "worker/api/api.h"
#include "worker/plan/cut.h"
#include "worker/plan/run.h"

/** Place of rows that the client executes; other places are numbers of tasks in the core's table. */
#define PSI_PLAN_CLIENT (PSI_CUT_NOWHERE - 1u)
/** Bytes for the device of a task: "GPU:0". */
#define PSI_PLAN_DEVICE_BYTES (PSI_RUN_DEVICE_BYTES_MAX + 1)
enum { PSI_PLAN_ALIGN = 64 }; /* bytes; alignment of values in the client's memory */

enum psi_plan_kind {
    PSI_PLAN_OP = 1,
    PSI_PLAN_PLACEHOLDER,
    PSI_PLAN_CONST,
    PSI_PLAN_VARIABLE, /* reads a variable when the run that uses the value begins */
    PSI_PLAN_PART,     /* rows `part` of `parts` of a batch */
    PSI_PLAN_WEIGHT,   /* float32 or float64: rows of the PART / rows of the batch */
    PSI_PLAN_ASSIGN,   /* its result is its input */
    PSI_PLAN_ADD,
    PSI_PLAN_PUSH,
    PSI_PLAN_GROUP
};

/* Output `output` of row `row` of one plan. */
struct psi_plan_ref {
    uint32_t row, output;
};

struct psi_plan_row {
    enum psi_plan_kind kind;
    uint32_t number;      /* number in the plan */
    uint32_t first_value; /* number of output 0 among all values of the plan */
    uint32_t input_count, output_count;
    struct psi_plan_ref *inputs; /* [input_count] */
    struct psi_type *types;      /* [output_count] types as known while building. dtype NONE: the row has no result */
    char *name;                  /* full name, unique in the plan; of a VARIABLE row the variable's name */
    const char *type;            /* TensorFlow's type of the operation: "Add" */
    const struct psi_op *op;     /* set for OP */
    struct psi_op_attrs attrs;   /* set for OP and PLACEHOLDER */
    char *message;               /* attrs.message; NULL: none */
    struct psi_value value;      /* set for CONST: owned by the row */
    ps_variable *variable;       /* set for VARIABLE, ASSIGN, ADD, PUSH */
    float scale;                 /* set for PUSH */
    /* PART, WEIGHT: part of input 0, which has as many rows as input 1; a WEIGHT may have no inputs */
    uint32_t part, parts;
    uint32_t replica; /* 1 + number of the replica that has the row; 0: no replica */
    /* PUSH of an asynchronous replica: the reads of other replicas do not wait for it, and it does not wait for them */
    bool alone;
    struct psi_device device; /* device requested by the scopes */
    char requested[PSI_DEVICE_BYTES];
    char assigned[PSI_DEVICE_BYTES]; /* "": not known yet */
    /* where the row runs, valid if `placed` (rows of operations keep their place); PSI_CUT_NOWHERE: the row is not executed */
    bool placed;
    uint32_t place;
    char local[PSI_PLAN_DEVICE_BYTES]; /* device at its task: "CPU:0" */
    bool shown;                        /* its placement line was written */
    uint64_t ran;                      /* successful runs that needed the row */
};

struct ps_plan {
    ps_session *session;
    struct psi_list link; /* in session->plans */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signals a change of running or calling */
    /* the members below: under the lock, or used by the thread that has set running */
    bool running;
    uint32_t calling;     /* callbacks of started runs that run or will run */
    struct psi_err error; /* first error of building */
    struct psi_plan_row **rows;
    uint32_t row_count;
    size_t row_capacity;
    uint32_t value_count;
    struct psi_map names; /* name -> next number to try, stored as a pointer */
    char *next_name;      /* from ps_plan_name(); NULL: none */
    uint32_t replica;     /* replica of the rows that are being made; 0: none */
    uint64_t runs;        /* runs that have begun */
    bool home_known;
    uint32_t home; /* place of rows whose device names no task */
    struct psi_device home_device;
    char home_name[PSI_TASK_NAME_MAX];
    uint32_t number;       /* number of the plan in its session */
    struct psi_list keeps; /* struct psi_plan_keep: keep.c */
    uint64_t keeps_made;
    uint32_t life;                              /* psi_monitor_life() when keeps and container were found */
    char container[PS_CONTAINER_BYTES_MAX + 1]; /* the session's container; "": not known, also after a recovery of the session */
    uint8_t key[PSI_RUN_KEY_BYTES];
    void **gifts; /* memory of the last run's fetches, owned */
    size_t gift_count;
};

/* ---- object.c ---- */
/** Free the memory of the last run's fetches. */
void psi_plan_gifts_free(ps_plan *p);

/* ---- plan.c ---- */
/** Begin to build; waits until no run is in progress. False: the plan is NULL or has failed: build nothing, and do not call
 * psi_plan_leave(). */
bool psi_plan_enter(ps_plan *p);
/** End building. The plan keeps an error in *err. Returns the value, or no value after an error. */
ps_value psi_plan_leave(ps_plan *p, ps_value value, const struct psi_err *err);
/** Begin a run. If another run is in progress: waits for its end, or fails if !waits. */
ps_status psi_plan_run_begin(ps_plan *p, bool waits, struct psi_err *err) PSI_MUST;
void psi_plan_run_end(ps_plan *p);
/** psi_plan_run_end() before a callback gets the plan: the plan is not freed until psi_plan_called(). */
void psi_plan_run_end_calling(ps_plan *p);
void psi_plan_called(ps_plan *p);
/** Check that the value belongs to the plan and can be an input. INVALID_ARGUMENT begins with `what`: "input 1". */
ps_status psi_plan_value_check(const ps_plan *p, ps_value v, const char *what, struct psi_err *err) PSI_MUST;
/** The row of a value; the value was checked. */
static inline struct psi_plan_row *psi_plan_row_of(const ps_plan *p, uint32_t row)
{
    return p->rows[row];
}
/** Number of a value among all values of the plan; the result of an assignment has the number of the assigned value. */
uint32_t psi_plan_number(const ps_plan *p, struct psi_plan_ref ref);
/** The row and output that make the value, looking through assignments. */
struct psi_plan_ref psi_plan_maker(const ps_plan *p, struct psi_plan_ref ref);

/* ---- build.c ---- */
/* Description of a row to make. */
struct psi_plan_spec {
    enum psi_plan_kind kind;
    const char *name;   /* the program's name for the row; NULL or "": base */
    const char *base;   /* default name */
    const char *type;   /* type of the operation, passed to setters and shown in placement lines */
    const char *device; /* innermost device scope; NULL: none */
    const ps_value *inputs;
    size_t input_count;
    const struct psi_type *types;
    uint32_t output_count;
};
/** Make a row; fields that spec does not have are 0. Between psi_plan_enter() and psi_plan_leave(); the inputs were checked. */
ps_status psi_plan_row_new(ps_plan *p, const struct psi_plan_spec *spec, struct psi_plan_row **out_row,
                           struct psi_err *err) PSI_MUST;
void psi_plan_row_free(struct psi_plan_row *row);
/** Check that the value has the variable's dtype and, as far as known, its shape. INVALID_ARGUMENT begins with `who`. */
ps_status psi_plan_fits_check(const ps_variable *v, const struct psi_type *type, const char *who, struct psi_err *err) PSI_MUST;

/* ---- trip.c: what one run of the plan needs ---- */
struct psi_plan_keep;
/* One value of the plan during a trip. */
struct psi_trip_value {
    struct psi_type type;   /* its shape is complete, from this trip's feeds */
    struct psi_value value; /* in the client's memory; data is NULL and bytes is 0 unless `here` */
    bool here;
    bool owned;                 /* the trip frees value.data */
    bool fetched;               /* the program fetches it, or the client needs it */
    bool wanted;                /* a run at another place or a later run needs it */
    bool pulled;                /* it is fetched, by pulling its keep */
    bool travels;               /* only one run needs it: without a keep it is in that run's call, whatever its size */
    bool kept;                  /* the keep has the value of this trip */
    uint64_t bytes_most;        /* largest number of bytes of strings that are not here */
    struct psi_plan_keep *keep; /* NULL: the value travels in calls */
};
/* Which runs get the value of a variable from the client. */
enum psi_trip_read {
    PSI_READ_NONE,       /* none: the runs that use the value read the variable */
    PSI_READ_FOR_CLIENT, /* none, but the client reads the variable too, for a fetch */
    PSI_READ_FOR_ALL     /* all: a row that uses the value may run after a later change, so the client reads before the change */
};
struct psi_trip {
    ps_plan *plan;
    const ps_feed *feeds;
    size_t feed_count;
    const ps_value *fetches;
    size_t fetch_count;
    ps_fetched *outs;
    ps_run_options options;
    uint64_t until_ms;     /* absolute time of the trip's end; 0: psi_plan_execute() computes it from options.timeout_ms */
    bool *needed;          /* [row_count] */
    uint8_t *client_reads; /* [row_count] enum psi_trip_read, for VARIABLE rows */
    struct psi_trip_value *values; /* [value_count] */
    uint32_t *run_of;              /* [row_count] */
    struct psi_cut_run *runs;      /* [run_count] */
    uint32_t run_count;
    struct psi_trace *trace; /* NULL: the run is not traced */
    bool changed;            /* a run that was sent or executed here may have changed variables */
};
/** Find the needed rows, take the feeds and infer all types. Nothing is sent. */
ps_status psi_trip_prepare(struct psi_trip *t, struct psi_err *err) PSI_MUST;
/** Find the variables that the client reads itself. */
void psi_trip_find_reads(struct psi_trip *t);
/** True if the row is a VARIABLE that the runs read which use its value. */
static inline bool psi_trip_reads_itself(const struct psi_trip *t, const struct psi_plan_row *row)
{
    return row->kind == PSI_PLAN_VARIABLE && t->client_reads[row->number] != PSI_READ_FOR_ALL;
}
/** Cut the needed rows, which are all placed, into runs. */
ps_status psi_trip_cut(struct psi_trip *t, struct psi_err *err) PSI_MUST;
void psi_trip_fini(struct psi_trip *t);
/** Allocate memory for value `number`: `bytes` bytes for strings; 0: the bytes of its shape. */
ps_status psi_trip_room(struct psi_trip *t, uint32_t number, size_t bytes, struct psi_err *err) PSI_MUST;
/** Now in nanoseconds, for spans of the trace; 0: the run is not traced. Any thread. */
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
/** Milliseconds until the trip's end, at least 1. */
int64_t psi_trip_left_ms(const struct psi_trip *t);

/* ---- carry.c: how values come from one run to another ---- */
/** Choose a way for each value that leaves its run, and make the variables that it needs. */
ps_status psi_trip_carry(struct psi_trip *t, struct psi_err *err) PSI_MUST;
/** Assign the client's values to the variables that the runs [first, end) read. */
ps_status psi_trip_give(struct psi_trip *t, uint32_t first, uint32_t end, struct psi_err *err) PSI_MUST;
/** Pull the values that the runs [first, end) have left in variables for the client. */
ps_status psi_trip_fetch(struct psi_trip *t, uint32_t first, uint32_t end, struct psi_err *err) PSI_MUST;

/* ---- place.c ---- */
/** Find the place of each needed row. Asks the cluster, once for each row of the plan. */
ps_status psi_plan_place(struct psi_trip *t, struct psi_err *err) PSI_MUST;

/* ---- local.c ---- */
/** Execute a run in the client, on this thread. */
ps_status psi_trip_local(struct psi_trip *t, uint32_t run, struct psi_err *err) PSI_MUST;

/* ---- remote.c ---- */
/** Send the runs [first, end) of a level to their tasks, execute the client's run meanwhile, and wait for all. */
ps_status psi_trip_level(struct psi_trip *t, uint32_t first, uint32_t end, struct psi_err *err) PSI_MUST;
/** Ask by an empty run whether the task executes runs. A task without the call: false and PS_OK. */
ps_status psi_trip_probe(const struct psi_trip *t, uint32_t task, bool *out_executes, struct psi_err *err) PSI_MUST;
/** Write the names of a run's rows, for errors: "'add', 'mul' and 3 more". Returns buf. */
const char *psi_trip_names(const struct psi_trip *t, uint32_t run, char *buf, size_t n);

/* ---- execute.c ---- */
/** Check the arguments of a run, and take the options. */
ps_status psi_plan_arguments(struct psi_trip *t, const ps_run_options *options, struct psi_err *err) PSI_MUST;
/** Run the plan; the caller has called psi_plan_run_begin(). Ends the trip. */
ps_status psi_plan_execute(struct psi_trip *t, struct psi_err *err) PSI_MUST;

#endif
