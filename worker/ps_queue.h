/* SPDX-License-Identifier: Apache-2.0 */
/* Queues, work and accumulators, part of ps.h: data that programs which train together give to each other. C11 and C++17.
 *
 * A queue has a name like a variable (scopes, containers and devices apply to it), is on one task, and exists until its
 * container is reset or it is deleted. Its elements are tuples of tensors. The semantics are TensorFlow's with two differences: a
 * dequeue that fails puts back what it had taken; and elements taken by a session that ends (with its lease, see psd --lease)
 * before they have arrived are handed out again. Errors are not sticky: each call returns its own status, with details in
 * ps_last_error(). Only in a monitored session the loss of a queue is a loss of the session: see ps_monitored.h.
 *
 * Deadlines: timeout_ms <= 0 is the session's operation timeout. A request that waits at a task ends there before the timeout, so
 * that the answer comes in time: earlier by a tenth of the timeout, but at least 120 and at most 250 ms; with a timeout below
 * 240 ms after half of it. All calls block except those named _start; any thread, but not in a callback. The calls of all
 * threads and sessions are served in the order in which they began. */
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
    PS_QUEUE_RANDOM_SHUFFLE = 2,    /* a dequeue gets a random element; in an open queue min_after_dequeue elements stay */
    PS_QUEUE_WORK = 3,              /* made by ps_work_get() */
    PS_QUEUE_ACCUMULATOR = 4,       /* made by ps_accumulator_get() */
    PS_QUEUE_SPARSE_ACCUMULATOR = 5 /* made by ps_sparse_accumulator_get() */
} ps_queue_kind;

typedef struct ps_component {
    ps_dtype dtype;
    bool shaped; /* all elements have the shape `shape`; false: each element has its own */
    uint8_t reserved[3];
    ps_shape shape;
} ps_component;

typedef struct ps_queue_spec {
    size_t struct_bytes; /* filled by ps_queue_spec_init */
    const char *name;    /* name within the open scopes; not empty */
    ps_queue_kind kind;
    uint32_t component_count;
    int64_t capacity;           /* elements; < 0: unbounded */
    uint64_t min_after_dequeue; /* RANDOM_SHUFFLE */
    uint64_t seed;              /* RANDOM_SHUFFLE: seed of the draws; 0: the task chooses one */
    const char *device;         /* as in ps_variable_spec; if it names no task: the directory (first ps task) */
    ps_component components[PS_QUEUE_COMPONENTS_MAX];
} ps_queue_spec;
/** A FIFO without a bound, with one component of this dtype and shape. Any thread. */
PS_API void ps_queue_spec_init(ps_queue_spec *spec, const char *name, ps_dtype dtype, ps_shape shape);

/** Get or create a queue, which the session owns. Errors: INVALID_ARGUMENT, also if the name is a variable, or a queue with
 * another kind, capacity, dtype, shape, min_after_dequeue or seed (the text names both sides); those of ps_variable_get(). */
PS_API ps_status ps_queue_get(ps_session *s, const ps_queue_spec *spec, ps_queue **out_queue);
/** Find the queue of this name, whatever its definition. NOT_FOUND: no such queue. */
PS_API ps_status ps_queue_find(ps_session *s, const char *name, ps_queue **out_queue);
PS_API const char *ps_queue_name(const ps_queue *q);   /* full name */
PS_API const char *ps_queue_device(const ps_queue *q); /* "/job:ps/task:0/device:CPU:0" */
/** The queue's definition, without name and device; NULL for NULL. */
PS_API const ps_queue_spec *ps_queue_spec_of(const ps_queue *q);

/** Values of one component that are sent: host memory, row-major. */
typedef struct ps_from {
    const void *data;
    size_t bytes;
} ps_from;
/** Memory for the values of one component: host memory, row-major. */
typedef struct ps_into {
    void *data;
    size_t bytes;
} ps_into;
#ifndef __cplusplus
/* Arguments `values, value_count` of the calls below, one { memory, bytes } for each component: ps_enqueue(q, PS_FROM({&x,
 * sizeof(x)}, {y, sizeof(y)}), 0), ps_dequeue(q, PS_INTO({&x, sizeof(x)}), 0). C only. */
#define PS_FROM(...) ((const ps_from[]){__VA_ARGS__}), (sizeof((const ps_from[]){__VA_ARGS__}) / sizeof(ps_from))
#define PS_INTO(...) ((const ps_into[]){__VA_ARGS__}), (sizeof((const ps_into[]){__VA_ARGS__}) / sizeof(ps_into))
#endif

/**
 * Put one element in. Waits while the queue is full, or earlier calls wait.
 *
 * values   [value_count] one for each component, of exactly the size that its dtype and shape give; borrows. Shapes must be
 *          declared, and no component may be a string; otherwise use ps_enqueue_tuple().
 *
 * Errors   INVALID_ARGUMENT    wrong number of components or bytes (both are named), NULL memory: nothing is sent
 *          CANCELLED           the queue is closed, was closed with cancel, was reset or deleted
 *          DEADLINE_EXCEEDED   the queue was full until the deadline; the element is not in it
 *          RESOURCE_EXHAUSTED  the task's memory was full until the deadline
 *          FAILED_PRECONDITION the element is larger than the task's whole memory budget
 *          ABORTED             the queue no longer exists (reason LOST), or its task lost the session: ps_last_applied() says
 *                              whether the element may be in it
 */
PS_API ps_status ps_enqueue(ps_queue *q, const ps_from *values, size_t value_count, int64_t timeout_ms);
/** Put `count` elements in, one after the other, as there is room. values: as of ps_enqueue(), each of shape [count, the
 * component's shape]. out_inserted (may be NULL): number of elements that are in the queue; they stay there after a failure. */
PS_API ps_status ps_enqueue_many(ps_queue *q, const ps_from *values, size_t value_count, uint32_t count, int64_t timeout_ms,
                                 uint32_t *out_inserted);
/**
 * Take one element out. Waits while there is none.
 *
 * values   [value_count] memory for each component, of exactly the size that its dtype and shape give; undefined after an error.
 *
 * Errors   INVALID_ARGUMENT    as ps_enqueue(): nothing is taken or written
 *          OUT_OF_RANGE        the queue is closed and empty
 *          DEADLINE_EXCEEDED   no element came; one that comes later stays in the queue
 *          CANCELLED           the queue was reset or deleted
 *          ABORTED             as ps_enqueue()
 */
PS_API ps_status ps_dequeue(ps_queue *q, const ps_into *values, size_t value_count, int64_t timeout_ms);
/** Take `count` elements out; waits for all. values: [count, component's shape]. OUT_OF_RANGE: the queue is closed and has fewer
 * elements, which stay. */
PS_API ps_status ps_dequeue_many(ps_queue *q, const ps_into *values, size_t value_count, uint32_t count, int64_t timeout_ms);
/** ps_dequeue_many() that takes fewer elements, at least one, if the queue is closed with fewer. *out_count: how many. values:
 * room for `count`. */
PS_API ps_status ps_dequeue_up_to(ps_queue *q, const ps_into *values, size_t value_count, uint32_t count, int64_t timeout_ms,
                                  uint32_t *out_count);

/** Number of elements in the queue, without elements that were taken out and may come back. */
PS_API ps_status ps_queue_size(ps_queue *q, uint64_t *out_size);
PS_API ps_status ps_queue_is_closed(ps_queue *q, bool *out_closed);
/** Close the queue: enqueues that wait still get their turn, or with cancel_pending_enqueues end CANCELLED; later ones are
 * CANCELLED. Elements can still be taken. The queue stays closed; closing it again without cancel is CANCELLED. */
PS_API ps_status ps_queue_close(ps_queue *q, bool cancel_pending_enqueues, int64_t timeout_ms);

/* ---- elements with strings, or with shapes of their own ---- */

/** A reusable buffer for elements of this queue; empty. NULL: no memory. Owns: ps_tuple_free(). One thread at a time. */
PS_API ps_tuple *ps_tuple_new(const ps_queue *q);
PS_API void ps_tuple_free(ps_tuple *t);
/** Remove the elements; the memory is kept. */
PS_API void ps_tuple_clear(ps_tuple *t);
/** Append the next component of the next element: data [bytes] is copied. shape NULL: the declared one. Errors: INVALID_ARGUMENT
 * (bytes, shape, a string component), RESOURCE_EXHAUSTED. */
PS_API ps_status ps_tuple_put(ps_tuple *t, const ps_shape *shape, const void *data, size_t bytes);
/** ps_tuple_put() for a string component: texts [count], count = elements of the shape; lengths [count], NULL: the texts end
 * with a NUL. INVALID_ARGUMENT names both counts. */
PS_API ps_status ps_tuple_put_strings(ps_tuple *t, const ps_shape *shape, const char *const *texts, const size_t *lengths,
                                      size_t count);
/** Number of complete elements. */
PS_API uint32_t ps_tuple_count(const ps_tuple *t);
/** Get a component of an element; valid until t changes. out_shape and out_bytes may be NULL. Errors: OUT_OF_RANGE (no such
 * element), INVALID_ARGUMENT (a string component), INTERNAL (a task has sent bytes that make no sense). */
PS_API ps_status ps_tuple_get(ps_tuple *t, uint32_t element, uint32_t component, const void **out_data, size_t *out_bytes,
                              ps_shape *out_shape);
/** Get string `index`, row-major, without NUL. OUT_OF_RANGE: no such string; *out_shape is set if the component exists. */
PS_API ps_status ps_tuple_get_string(ps_tuple *t, uint32_t element, uint32_t component, size_t index, const char **out_text,
                                     size_t *out_bytes, ps_shape *out_shape);
/** ps_enqueue() or ps_enqueue_many() of the elements in t. They stay in t. */
PS_API ps_status ps_enqueue_tuple(ps_queue *q, ps_tuple *t, int64_t timeout_ms, uint32_t *out_inserted);
/** ps_dequeue(), ps_dequeue_many() (shapes must be declared if count is not 1) or ps_dequeue_up_to() into t. */
PS_API ps_status ps_dequeue_tuple(ps_queue *q, ps_tuple *t, uint32_t count, bool up_to, int64_t timeout_ms);

/** Start ps_enqueue_tuple() or ps_dequeue_tuple(), with the contract of ps_push_start(). t is kept until done. For an enqueue
 * ps_result.result has the number of elements that are in the queue, as a uint64_t. */
PS_API ps_status ps_enqueue_start(ps_queue *q, ps_tuple *t, int64_t timeout_ms, ps_request *req, ps_done_fn done, void *ctx);
PS_API ps_status ps_dequeue_start(ps_queue *q, ps_tuple *t, uint32_t count, bool up_to, int64_t timeout_ms, ps_request *req,
                                  ps_done_fn done, void *ctx);

/* ================================================== work ================================================== */

#define PS_WORK_ITEM_BYTES_MAX ((size_t)64 << 10)
/** An item that this session works at: a file name, a range of rows, or whatever the program understands. */
typedef struct ps_work_item {
    const char *data; /* with a NUL behind it; valid until ps_work_done() or ps_work_return() */
    size_t bytes;
    uint32_t epoch;   /* from 1 on */
    uint32_t again;   /* number of times that the item was handed out in this epoch and came back undone */
    bool done_before; /* set by ps_work_done(): another session had already done the item */
    uint8_t reserved[7];
    uint64_t serial;
    void *opaque;
} ps_work_item;
/**
 * Items that the sessions of a cluster share: each is handed out once per epoch, and again if the session that has it is
 * closed, loses its lease or returns it. Every session may call this with the same items; the first call fills the queue. count
 * 0: the work must exist.
 *
 * items    [count] texts of at most PS_WORK_ITEM_BYTES_MAX; sizes [count], NULL: they end with a NUL; borrows.
 * epochs   >= 1: how often each item is to be done. If another session deletes the work, a monitored session that still uses
 *          it makes it again (ps_monitored.h).
 * seed     of the random order in each epoch; 0: the order of items.
 *
 * Errors   INVALID_ARGUMENT (the work exists with other items, epochs or seed), NOT_FOUND (count 0), those of ps_queue_get()
 */
PS_API ps_status ps_work_get(ps_session *s, const char *name, const char *const *items, const size_t *sizes, uint32_t count,
                             uint32_t epochs, uint64_t seed, ps_work **out_work);
/** Get the next item. Waits while other sessions have all items that are left. OUT_OF_RANGE: all epochs are done. */
PS_API ps_status ps_work_next(ps_work *w, ps_work_item *item, int64_t timeout_ms);
/** Report that the item is done. FAILED_PRECONDITION: the item was taken from this session, and another session, which the text
 * names, works at it. ABORTED (LOST): the work that handed it out no longer exists. item->data becomes NULL. */
PS_API ps_status ps_work_done(ps_work *w, ps_work_item *item);
/** Return the item undone: it is handed out again. Errors and memory as of ps_work_done(). */
PS_API ps_status ps_work_return(ps_work *w, ps_work_item *item);

/* ============================================== accumulators ============================================== */

/** What a take returns: the gradients' mean, or their sum. Of a sparse accumulator: MEAN divides each row by the number of
 * gradients that have it, as TensorFlow does; MEAN_OF_ALL divides each row by the number of all gradients. */
typedef enum ps_reduction { PS_REDUCTION_MEAN = 1, PS_REDUCTION_SUM = 2, PS_REDUCTION_MEAN_OF_ALL = 3 } ps_reduction;
/**
 * Get or create an accumulator: it adds up gradients of several workers at a task until a session takes them; TensorFlow's
 * ConditionalAccumulator. The session frees the object at close. Name, task and deletion are as for a queue.
 * docs/TF_MAP.md says what can be built from accumulators and queues; training in rounds (ps_session_sync()) needs none.
 *
 * dtype    PS_F32 or PS_F64.
 * device   NULL, or as in ps_queue_spec; the device of the variable (ps_variable_device()) saves a transfer.
 *
 * Errors   INVALID_ARGUMENT, also if the name exists with another dtype, shape or reduction (both sides are named); those of
 *          ps_variable_get()
 */
PS_API ps_status ps_accumulator_get(ps_session *s, const char *name, ps_dtype dtype, ps_shape shape, ps_reduction reduction,
                                    const char *device, ps_accumulator **out_accumulator);
/**
 * Add a gradient. It counts if local_step is not below the accumulator's global step; otherwise it is dropped, with PS_OK. Does
 * not wait for other sessions.
 *
 * gradient      [gradient_bytes] in host memory, row-major, in the accumulator's dtype and shape; borrows. NaN and infinity are
 *               treated as by ps_push().
 * out_accepted  may be NULL: whether the gradient counts.
 *
 * Errors   INVALID_ARGUMENT    NaN or infinity; gradient_bytes is wrong (both sizes are named, nothing is sent)
 *          RESOURCE_EXHAUSTED  the task's memory was full until the deadline
 *          ABORTED             the accumulator no longer exists (reason LOST), or its task lost the session. After this error
 *                              and at the deadline ps_last_applied() says whether the gradient may count. It never counts in part
 */
PS_API ps_status ps_accumulator_apply_grad(ps_accumulator *a, const void *gradient, size_t gradient_bytes, int64_t local_step,
                                           int64_t timeout_ms, bool *out_accepted);
/**
 * Take the accumulated gradient. Waits until earlier takes have ended and at least n gradients have been added. The accumulator's
 * global step rises by one, and its sum starts from 0. If a session ends before the result of its take has arrived, the next take
 * gets this result, however many gradients are in it.
 *
 * n          1 or more.
 * gradient   [gradient_bytes] gets the mean of all gradients that were added, or their sum; undefined after an error.
 * out_count  may be NULL: number of gradients in it.
 *
 * Errors   INVALID_ARGUMENT    n is not above 0; gradient_bytes is wrong (both sizes are named, nothing is taken)
 *          DEADLINE_EXCEEDED   there were too few gradients; they stay
 *          CANCELLED           the accumulator was reset or deleted
 *          ABORTED             as ps_dequeue()
 */
PS_API ps_status ps_accumulator_take_grad(ps_accumulator *a, int64_t n, void *gradient, size_t gradient_bytes, int64_t timeout_ms,
                                          uint64_t *out_count);
/**
 * Get or create a sparse accumulator: it adds up gradients that have some rows of a variable, row by row; TensorFlow's
 * SparseConditionalAccumulator. Otherwise as ps_accumulator_get(). Its task keeps the rows that have come, with 16 bytes more for
 * each.
 *
 * shape    of the whole variable: [n, d1, ...], with rows as in ps_gather().
 *
 * Errors   as ps_accumulator_get(); a task of an older release: INVALID_ARGUMENT, kind 5 is unknown
 */
PS_API ps_status ps_sparse_accumulator_get(ps_session *s, const char *name, ps_dtype dtype, ps_shape shape,
                                           ps_reduction reduction, const char *device, ps_accumulator **out_accumulator);
/**
 * ps_accumulator_apply_grad() of some rows. Gradients for a row that is named several times are added first, in their order, and
 * count once. A gradient without rows counts.
 *
 * indices   [index_count] each in [0, n), in any order; borrows.
 * rows      [index_count, d1, ...] row-major, in the accumulator's dtype; borrows.
 *
 * Errors    as ps_accumulator_apply_grad(); OUT_OF_RANGE: an index outside, nothing is sent; INVALID_ARGUMENT: not sparse
 */
PS_API ps_status ps_accumulator_apply_rows(ps_accumulator *a, const int64_t *indices, size_t index_count, const void *rows,
                                           size_t rows_bytes, int64_t local_step, int64_t timeout_ms, bool *out_accepted);
/** Rows that were taken from a sparse accumulator. The caller frees them by ps_summed_rows_free(). */
typedef struct ps_summed_rows {
    size_t count;           /* number of rows */
    uint64_t gradients;     /* number of gradients in the result */
    const int64_t *indices; /* [count], rising */
    const int64_t *counts;  /* [count] number of gradients that have the row */
    const void *rows;       /* [count, d1, ...] mean or sum, in the accumulator's dtype */
    size_t rows_bytes;
    void *opaque;
} ps_summed_rows;
/** ps_accumulator_take_grad() of a sparse accumulator. *out: all rows that the gradients have; empty after an error. Errors: as
 * ps_accumulator_take_grad(); INVALID_ARGUMENT: not sparse. */
PS_API ps_status ps_accumulator_take_rows(ps_accumulator *a, int64_t n, int64_t timeout_ms, ps_summed_rows *out);
/** Free the rows and make *taken empty. NULL is fine. */
PS_API void ps_summed_rows_free(ps_summed_rows *taken);
/** Set the accumulator's global step, 0 to 2^62, which may go back; accumulated gradients stay. out_before (may be NULL): the
 * step before. */
PS_API ps_status ps_accumulator_set_global_step(ps_accumulator *a, int64_t step, int64_t *out_before);
/** Number of gradients that were added since the last take. */
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
    uint64_t size, taken;          /* elements in the queue; elements handed out that may come back */
    uint64_t bytes;                /* bytes of the elements in the queue and of those handed out */
    uint32_t enqueuers, dequeuers; /* requests that wait */
    uint32_t epoch, epochs;        /* only work: present epoch (0: not filled; epochs + 1: all done), and number of epochs */
    uint64_t items, done;          /* only work: items per epoch; items done in this epoch */
    bool closed;
    uint8_t reserved[3];
    uint32_t component_count;
    ps_component components[PS_QUEUE_COMPONENTS_MAX];
    int64_t step; /* accumulator: global step; `size` is then gradients since the last take, `items` results not received yet */
    uint64_t dropped; /* accumulator: number of gradients that came too late since its task started */
    ps_reduction reduction;
    uint8_t reserved2[4];
} ps_queue_info;
typedef void (*ps_queue_info_fn)(void *ctx, const ps_queue_info *info);
/** List the queues of one task of ps_cluster_tasks(), by container and name. Blocks; each() is called before it returns. */
PS_API ps_status ps_task_queues(ps_session *s, int task, int64_t timeout_ms, ps_queue_info_fn each, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
