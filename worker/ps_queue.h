/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues, work and accumulators, part of ps.h: what programs that train together hand to each other. C11 and C++17.
 *
 * A queue has a name like a variable (scopes, containers and devices hold for it), lies at one task, and is there until its
 * container is reset or it is deleted. Its elements are tuples of tensors. The semantics are TensorFlow's, but for two things: a
 * dequeue that fails gives back what it had taken, and what was taken by a session that ends before it has it (its lease, see
 * psd --lease) comes again. Nothing here is sticky: each call returns its own status, detail by ps_last_error(). Only in a
 * monitored session a queue that is gone is the session's loss: see ps_monitored.h.
 *
 * Deadlines: timeout_ms <= 0 is the session's operation timeout. What waits at its task ends there a tenth of that before it, at
 * least 120 ms (of less than 240 half of it) and 250 at most, so that the answer is here in time. All calls block unless they are
 * called _start; any thread, but not in a callback. Calls of several threads are served in the order in which they began; so are
 * those of other sessions.
 */
#ifndef PS_QUEUE_H
#define PS_QUEUE_H

#include "ps.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ps_queue ps_queue;
typedef struct ps_tuple ps_tuple;
typedef struct ps_work ps_work;
typedef struct ps_accumulator ps_accumulator;

#define PS_QUEUE_COMPONENTS_MAX 16
typedef enum ps_queue_kind {
    PS_QUEUE_FIFO = 1,
    PS_QUEUE_RANDOM_SHUFFLE = 2, /* gives out any element; keeps min_after_dequeue of them while it is open */
    PS_QUEUE_WORK = 3,           /* as ps_work_get() makes it */
    PS_QUEUE_ACCUMULATOR = 4     /* as ps_accumulator_get() makes it */
} ps_queue_kind;

/** One tensor of each element. */
typedef struct ps_component {
    ps_dtype dtype;
    bool shaped; /* every element has this shape; false: each its own */
    uint8_t reserved[3];
    ps_shape shape;
} ps_component;

typedef struct ps_queue_spec {
    size_t struct_bytes; /* filled by ps_queue_spec_init */
    const char *name;    /* in the scopes that hold now; not empty */
    ps_queue_kind kind;
    uint32_t component_count;
    int64_t capacity;           /* elements; < 0: unbounded */
    uint64_t min_after_dequeue; /* RANDOM_SHUFFLE */
    uint64_t seed;              /* RANDOM_SHUFFLE: of the draws; 0: one of the task's own */
    const char *device;         /* as with ps_variable_spec; where nothing says a task: the directory's */
    ps_component components[PS_QUEUE_COMPONENTS_MAX];
} ps_queue_spec;
/** A FIFO without a bound, of one component of this dtype and shape. Any thread. */
PS_API void ps_queue_spec_init(ps_queue_spec *spec, const char *name, ps_dtype dtype, ps_shape shape);

/** Get or create. The queue is the session's (freed at close). Errors: INVALID_ARGUMENT (also where one of this name is there
 *  with another kind, capacity, dtype, shape, min_after_dequeue or seed, and where it is a variable: the text says both sides),
 * and those of ps_variable_get(). */
PS_API ps_status ps_queue_get(ps_session *s, const ps_queue_spec *spec, ps_queue **out_queue);
/** The one of this name, whatever it is made as. NOT_FOUND. */
PS_API ps_status ps_queue_find(ps_session *s, const char *name, ps_queue **out_queue);
PS_API const char *ps_queue_name(const ps_queue *q);   /* the full one */
PS_API const char *ps_queue_device(const ps_queue *q); /* "/job:ps/task:0/device:CPU:0" */
/** What it is made as, without name and device; NULL for NULL. */
PS_API const ps_queue_spec *ps_queue_spec_of(const ps_queue *q);

/** Values of one component, to be sent: host memory, row-major. */
typedef struct ps_from {
    const void *data;
    size_t bytes;
} ps_from;
/** Memory for the values of one component, to be filled: host memory, row-major. */
typedef struct ps_into {
    void *data;
    size_t bytes;
} ps_into;
#ifndef __cplusplus
/* `values, value_count` of the calls below, one { memory, bytes } for each component, as in
 * ps_enqueue(q, PS_FROM({&x, sizeof(x)}, {y, sizeof(y)}), 0) and ps_dequeue(q, PS_INTO({&x, sizeof(x)}), 0). C only. */
#define PS_FROM(...) ((const ps_from[]){__VA_ARGS__}), (sizeof((const ps_from[]){__VA_ARGS__}) / sizeof(ps_from))
#define PS_INTO(...) ((const ps_into[]){__VA_ARGS__}), (sizeof((const ps_into[]){__VA_ARGS__}) / sizeof(ps_into))
#endif

/**
 * Put one element in; waits while the queue is full, behind those that began before.
 *
 * values   [value_count] one for each component, of exactly the bytes that its dtype and shape say; borrows. Shapes must be
 *          declared, and nothing may be a string; otherwise ps_enqueue_tuple().
 *
 * Errors   INVALID_ARGUMENT    another number of components or of bytes (both are named), memory that is NULL: nothing is sent
 *          CANCELLED           the queue is closed, was closed with cancel, was reset or deleted
 *          DEADLINE_EXCEEDED   it was full until then; it is not in
 *          RESOURCE_EXHAUSTED  the task's memory was full until then
 *          FAILED_PRECONDITION an element is larger than all of the task's memory budget
 *          ABORTED             the queue is gone (reason LOST), or its task lost the session: ps_last_applied() says whether it
 *                              may be in
 */
PS_API ps_status ps_enqueue(ps_queue *q, const ps_from *values, size_t value_count, int64_t timeout_ms);
/** Put `count` elements in, one after the other, as there is room. values: as ps_enqueue(), for each component [count, its
 * shape]. out_inserted (may be NULL): how many are in, after a failure too; those stay. */
PS_API ps_status ps_enqueue_many(ps_queue *q, const ps_from *values, size_t value_count, uint32_t count, int64_t timeout_ms,
                                 uint32_t *out_inserted);
/**
 * Take one element out; waits while there is none.
 *
 * values   [value_count] one for each component: where its values go, exactly as many bytes as its dtype and shape say;
 *          undefined after an error.
 *
 * Errors   INVALID_ARGUMENT    as ps_enqueue(): nothing is taken, nothing is written
 *          OUT_OF_RANGE        the queue is closed and has none
 *          DEADLINE_EXCEEDED   none came; whatever came too late is still in the queue
 *          CANCELLED           the queue was reset or deleted
 *          ABORTED             as ps_enqueue()
 */
PS_API ps_status ps_dequeue(ps_queue *q, const ps_into *values, size_t value_count, int64_t timeout_ms);
/** Take `count` elements out; waits for all. Where the queue is closed with fewer, OUT_OF_RANGE, and they stay. values: as
 *  ps_dequeue(), for each component [count, its shape]. */
PS_API ps_status ps_dequeue_many(ps_queue *q, const ps_into *values, size_t value_count, uint32_t count, int64_t timeout_ms);
/** The same, but fewer, at least one, when the queue is closed with fewer: *out_count. values have room for `count`. */
PS_API ps_status ps_dequeue_up_to(ps_queue *q, const ps_into *values, size_t value_count, uint32_t count, int64_t timeout_ms,
                                  uint32_t *out_count);

/** Elements in it now, without those that were taken and may come back. */
PS_API ps_status ps_queue_size(ps_queue *q, uint64_t *out_size);
PS_API ps_status ps_queue_is_closed(ps_queue *q, bool *out_closed);
/** Nothing is put in after those enqueues that wait, which still get their turn; with cancel_pending_enqueues they end CANCELLED.
 *  What is in it can be taken. A closed queue stays closed: without cancel CANCELLED the second time. */
PS_API ps_status ps_queue_close(ps_queue *q, bool cancel_pending_enqueues, int64_t timeout_ms);

/* ---- elements with strings, or with shapes of their own ---- */

/** A reusable row of elements for this queue; none in it. NULL: no memory. Owns: ps_tuple_free(). One thread at a time. */
PS_API ps_tuple *ps_tuple_new(const ps_queue *q);
PS_API void ps_tuple_free(ps_tuple *t);
/** No elements; its memory is kept. */
PS_API void ps_tuple_clear(ps_tuple *t);
/** The next component of the next element: data [bytes] is copied. shape NULL: the declared one. Errors: INVALID_ARGUMENT (bytes,
 *  shape, a string component), RESOURCE_EXHAUSTED. */
PS_API ps_status ps_tuple_put(ps_tuple *t, const ps_shape *shape, const void *data, size_t bytes);
/** The same of a string component: texts [count], and count is the number of elements of the shape; lengths [count], NULL: the
 *  texts end at their NUL. INVALID_ARGUMENT names both counts where they differ. */
PS_API ps_status ps_tuple_put_strings(ps_tuple *t, const ps_shape *shape, const char *const *texts, const size_t *lengths,
                                      size_t count);
/** Elements that are complete. */
PS_API uint32_t ps_tuple_count(const ps_tuple *t);
/** A component of an element; what is given out is valid until t changes. out_shape and out_bytes may be NULL. Errors:
 * OUT_OF_RANGE (no such element), INVALID_ARGUMENT (a string component), INTERNAL (a task has sent what is none). */
PS_API ps_status ps_tuple_get(ps_tuple *t, uint32_t element, uint32_t component, const void **out_data, size_t *out_bytes,
                              ps_shape *out_shape);
/** String `index`, in row-major order, of a string component; no NUL follows it. *out_shape is that of a component that is there,
 * also where it has no string of that number (OUT_OF_RANGE): one without strings has none. */
PS_API ps_status ps_tuple_get_string(ps_tuple *t, uint32_t element, uint32_t component, size_t index, const char **out_text,
                                     size_t *out_bytes, ps_shape *out_shape);
/** ps_enqueue() and ps_enqueue_many() of what is in t, which stays there. */
PS_API ps_status ps_enqueue_tuple(ps_queue *q, ps_tuple *t, int64_t timeout_ms, uint32_t *out_inserted);
/** ps_dequeue(), ps_dequeue_many() (shapes must be declared where count is not 1) and ps_dequeue_up_to() into t. */
PS_API ps_status ps_dequeue_tuple(ps_queue *q, ps_tuple *t, uint32_t count, bool up_to, int64_t timeout_ms);

/** As ps_push_start(): done is called once, on the session's loop thread. t keeps until then. Of an enqueue result has, as a
 *  uint64_t, how many elements are in. */
PS_API ps_status ps_enqueue_start(ps_queue *q, ps_tuple *t, int64_t timeout_ms, ps_request *req, ps_done_fn done, void *ctx);
PS_API ps_status ps_dequeue_start(ps_queue *q, ps_tuple *t, uint32_t count, bool up_to, int64_t timeout_ms, ps_request *req,
                                  ps_done_fn done, void *ctx);

/* ================================================== work ================================================== */

#define PS_WORK_ITEM_BYTES_MAX ((size_t)64 << 10)
/** An item that this session works at: file name, range of rows, whatever the program makes of its bytes. */
typedef struct ps_work_item {
    const char *data; /* a NUL follows; valid until it is done or returned */
    size_t bytes;
    uint32_t epoch;   /* from 1 on */
    uint32_t again;   /* so often it was handed out in this epoch and came back undone */
    bool done_before; /* ps_work_done(): somebody else had done it */
    uint8_t reserved[7];
    uint64_t serial;
    void *opaque;
} ps_work_item;
/**
 * Items that the sessions of a cluster share out: each is handed out once in each epoch, and comes again when the session that
 * has it ends (its lease) or returns it. Every session may call this with the same items, the first one fills the queue; count 0:
 * it must be there.
 *
 * items    [count] texts of at most PS_WORK_ITEM_BYTES_MAX; sizes NULL: they end at their NUL; borrows.
 * epochs   >= 1: how often each is to be done. A monitored session that has not yet seen the end makes work again that another
 *          one deletes (ps_monitored.h).
 * seed     of the order in each epoch; 0: as given.
 * Errors   INVALID_ARGUMENT (other items, epochs or seed than those that are there), NOT_FOUND (count 0), those of
 * ps_queue_get().
 */
PS_API ps_status ps_work_get(ps_session *s, const char *name, const char *const *items, const size_t *sizes, uint32_t count,
                             uint32_t epochs, uint64_t seed, ps_work **out_work);
/** The next item; waits while all that is left is with others. OUT_OF_RANGE: all epochs are done. */
PS_API ps_status ps_work_next(ps_work *w, ps_work_item *item, int64_t timeout_ms);
/** It is done. FAILED_PRECONDITION: it was taken away and another session, which the text names, works at it now. ABORTED (LOST):
 * the work that handed it out is gone, or has been made anew since. The item is over in any case: its memory is the library's
 * again. */
PS_API ps_status ps_work_done(ps_work *w, ps_work_item *item);
/** It is not done, and comes again. Likewise. */
PS_API ps_status ps_work_return(ps_work *w, ps_work_item *item);

/* ============================================== accumulators ============================================== */

/** What a take gets: the sum of the gradients that are there, or that divided by their number. */
typedef enum ps_reduction { PS_REDUCTION_MEAN = 1, PS_REDUCTION_SUM = 2 } ps_reduction;
/**
 * Get or create: gradients of several workers added up at a task until somebody takes them; TensorFlow's ConditionalAccumulator.
 * The accumulator is the session's (freed at close), its name, place and end are a queue's. docs/TF_MAP.md says what can be built
 * of these and queues; training in rounds (ps_session_sync()) needs none.
 *
 * dtype    PS_F32 or PS_F64. device: NULL, or as in ps_queue_spec: that of the variable (ps_variable_device()) saves a way.
 * Errors   INVALID_ARGUMENT (also where one of this name is there with another dtype, shape or reduction: both sides are said),
 * and those of ps_variable_get().
 */
PS_API ps_status ps_accumulator_get(ps_session *s, const char *name, ps_dtype dtype, ps_shape shape, ps_reduction reduction,
                                    const char *device, ps_accumulator **out_accumulator);
/**
 * Add a gradient, unless it came too late: it counts when local_step is not below the accumulator's global step, otherwise it is
 * dropped, which is PS_OK. Waits for nobody.
 *
 * gradient      [gradient_bytes] in host memory, row-major, of the accumulator's dtype and shape; borrows. NaN and infinity as
 *               with ps_push().
 * out_accepted  may be NULL: did it count?
 *
 * Errors   INVALID_ARGUMENT    NaN or infinity; gradient_bytes are not the accumulator's (both are named, nothing is sent)
 *          RESOURCE_EXHAUSTED  the task's memory was full until the deadline
 *          ABORTED             the accumulator is gone (reason LOST), or its task lost the session; here, and when the deadline
 *                              ends it, ps_last_applied() says whether it may have counted. It never counts in part
 */
PS_API ps_status ps_accumulator_apply_grad(ps_accumulator *a, const void *gradient, size_t gradient_bytes, int64_t local_step,
                                           int64_t timeout_ms, bool *out_accepted);
/**
 * Take what has been added up; waits until it is at least n gradients, behind those that began before. The accumulator's global
 * step rises by one, and it begins at 0 again. A result that was taken by a session which ended before it had it is the next
 * take's, however many gradients are in it.
 *
 * n          1 or more.
 * gradient   [gradient_bytes] where the mean, of all that are there, or the sum goes; undefined after an error.
 * out_count  may be NULL: how many gradients are in it.
 *
 * Errors   INVALID_ARGUMENT    n is not above 0; gradient_bytes are not the accumulator's (both are named, nothing is taken)
 *          DEADLINE_EXCEEDED   there were too few; they stay
 *          CANCELLED           it was reset or deleted
 *          ABORTED             as ps_dequeue()
 */
PS_API ps_status ps_accumulator_take_grad(ps_accumulator *a, int64_t n, void *gradient, size_t gradient_bytes, int64_t timeout_ms,
                                          uint64_t *out_count);
/** Set its global step, 0 to 2^62; what has been added up stays. It may go back: out_before (may be NULL) is what it was. */
PS_API ps_status ps_accumulator_set_global_step(ps_accumulator *a, int64_t step, int64_t *out_before);
/** Gradients that have been added up since the last take. */
PS_API ps_status ps_accumulator_num_accumulated(ps_accumulator *a, uint64_t *out_count);

/* ============================================= administration ============================================= */

typedef struct ps_queue_info {
    size_t struct_bytes;
    char container[64];
    char name[256];
    char job[64];
    uint32_t task;
    ps_queue_kind kind;
    int64_t capacity; /* < 0: unbounded */
    uint64_t min_after_dequeue, seed;
    uint64_t size, taken;          /* elements in it; out of it that may come back */
    uint64_t bytes;                /* of all these */
    uint32_t enqueuers, dequeuers; /* requests that wait */
    uint32_t epoch, epochs;        /* work: the epoch that is under way, 0: not filled, epochs + 1: all are done; of how many */
    uint64_t items, done;          /* work: of an epoch; of this one */
    bool closed;
    uint8_t reserved[3];
    uint32_t component_count;
    ps_component components[PS_QUEUE_COMPONENTS_MAX];
    int64_t step;     /* accumulator: its global step; size has the gradients of it, items the results that came back */
    uint64_t dropped; /* accumulator: gradients that came too late, since its task began */
    ps_reduction reduction;
    uint8_t reserved2[4];
} ps_queue_info;
typedef void (*ps_queue_info_fn)(void *ctx, const ps_queue_info *info);
/** List the queues of one task of ps_cluster_tasks(), by container and name. Blocks; callbacks before it returns. */
PS_API ps_status ps_task_queues(ps_session *s, int task, int64_t timeout_ms, ps_queue_info_fn each, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
