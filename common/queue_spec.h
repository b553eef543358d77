/* SPDX-License-Identifier: Apache-2.0 */
/* The specification of a queue: its kind, its limits, and the components of its elements (as a tuple of tensors). The client
 * checks it before sending, the task checks it again, and compares it if the name is opened a second time. Pure, any thread. */
#ifndef PSI_QUEUE_SPEC_H
#define PSI_QUEUE_SPEC_H

#include "msg.h"
#include "shape.h"

#define PSI_QUEUE_COMPONENTS_MAX 16
#define PSI_WORK_ITEM_BYTES_MAX ((uint64_t)64 << 10)

/** Kinds of queues. The numbers are on the wire, so none is ever used for another kind. */
enum psi_queue_kind {
    PSI_QUEUE_FIFO = 1,
    PSI_QUEUE_SHUFFLE = 2,     /* elements are taken in random order; TensorFlow's RandomShuffleQueue */
    PSI_QUEUE_WORK = 3,        /* an item is leased to a client, and given to another one if the first does not report it done */
    PSI_QUEUE_ACCUMULATOR = 4, /* sums up gradients; TensorFlow's ConditionalAccumulator */
    /* sums up gradients of rows (sparse.h), row by row; TensorFlow's SparseConditionalAccumulator */
    PSI_QUEUE_SPARSE_ACCUMULATOR = 5
};
/** What an accumulator gives out for the gradients that it has summed. Numbers are on the wire: never reused. */
enum psi_reduction {
    /* for SPARSE_ACCUMULATOR each row is divided by the number of gradients with this row, as in TensorFlow */
    PSI_REDUCTION_MEAN = 1,
    PSI_REDUCTION_SUM = 2,
    PSI_REDUCTION_MEAN_OF_ALL = 3 /* SPARSE_ACCUMULATOR only: each row is divided by the number of all gradients */
};
/** Highest number to which a program can set an accumulator's global step. Taking a sum adds 1 to the step, also beyond this. */
#define PSI_STEP_MAX (INT64_C(1) << 62)

struct psi_queue_component {
    ps_dtype dtype;
    bool shaped;
    ps_shape shape; /* all 0 unless `shaped` */
};

struct psi_queue_spec {
    uint32_t kind; /* enum psi_queue_kind */
    uint32_t component_count;
    int64_t capacity; /* most elements; < 0: unbounded */
    /* SHUFFLE: so many elements always stay while the queue is open, so that the order is random; otherwise 0 */
    uint64_t min_after_dequeue;
    /* SHUFFLE: random seed, 0: the task chooses. WORK: seed for the order of items, 0: as they were put in. Otherwise 0 */
    uint64_t seed;
    uint32_t epochs;    /* WORK: how often each item is given out in all, >= 1; otherwise 0 */
    uint32_t reduction; /* accumulators: enum psi_reduction; otherwise 0 */
    struct psi_queue_component components[PSI_QUEUE_COMPONENTS_MAX];
};

static inline bool psi_queue_accumulates(uint32_t kind)
{
    return kind == PSI_QUEUE_ACCUMULATOR || kind == PSI_QUEUE_SPARSE_ACCUMULATOR;
}
/** Check that a queue of this spec can be made. The capacity is not 0, and min_after_dequeue is below it. There are 1 to
 * PSI_QUEUE_COMPONENTS_MAX components, each with dtype and shape as of a variable. Fields that only other kinds use are 0. WORK:
 * unbounded, one string without dimensions. Accumulators: unbounded, one float32 or float64 of a declared shape; for a
 * SPARSE_ACCUMULATOR the shape has rows (rows.h). Errors: PS_INVALID_ARGUMENT, naming the field. */
PSI_MUST ps_status psi_queue_spec_check(const struct psi_queue_spec *spec, struct psi_err *err);
/** True if all fields are equal; negative capacities all mean "unbounded" and are equal. */
bool psi_queue_spec_equal(const struct psi_queue_spec *a, const struct psi_queue_spec *b);
/** Check that a queue `have` serves a program that asks for `want`. As in TensorFlow, a SHUFFLE's seed counts if `want` has one.
 *
 * where, name: the task that has the queue, and the queue's name; both for the error's text.
 *
 * Errors   PS_INVALID_ARGUMENT (SHAPE_MISMATCH if a component differs), with both sides of the first difference. */
PSI_MUST ps_status psi_queue_spec_compare(const struct psi_queue_spec *have, const char *where, const struct psi_queue_spec *want,
                                          const char *name, struct psi_err *err);
void psi_queue_spec_to_msg(const struct psi_queue_spec *from, ps_v1_Queue *to);
/** Read a spec from a message, and check it. Errors: those of psi_queue_spec_check(); *to is filled in even then. */
PSI_MUST ps_status psi_queue_spec_from_msg(const ps_v1_Queue *from, struct psi_queue_spec *to, struct psi_err *err);
const char *psi_queue_kind_name(uint32_t kind);

#endif
