/* SPDX-License-Identifier: Apache-2.0 */
/* What a queue is made as: its kind, its bounds, and the components of its elements. Checked before it travels, checked again by
 * the receiver, compared if a name is opened a second time. Pure, any thread. */
#ifndef PSI_QUEUE_SPEC_H
#define PSI_QUEUE_SPEC_H

#include "msg.h"
#include "shape.h"

#define PSI_QUEUE_COMPONENTS_MAX 16
/** Bytes of one item of a work queue. */
#define PSI_WORK_ITEM_BYTES_MAX ((uint64_t)64 << 10)

/** Numbers are on the wire: never reused. */
enum psi_queue_kind {
    PSI_QUEUE_FIFO = 1,
    PSI_QUEUE_SHUFFLE = 2,    /* elements are drawn at random; TensorFlow's RandomShuffleQueue */
    PSI_QUEUE_WORK = 3,       /* items are leased, and come again until a client says that they are done */
    PSI_QUEUE_ACCUMULATOR = 4 /* gradients are added up; TensorFlow's ConditionalAccumulator */
};
/** What comes out of an accumulator. Numbers are on the wire: never reused. */
enum psi_reduction { PSI_REDUCTION_MEAN = 1, PSI_REDUCTION_SUM = 2 };
/** The global step of an accumulator is 0 to this, which leaves it room to rise. */
#define PSI_STEP_MAX (INT64_C(1) << 62)

struct psi_queue_component {
    ps_dtype dtype;
    bool shaped;    /* the shape is declared: all elements have it */
    ps_shape shape; /* all 0 unless shaped */
};

struct psi_queue_spec {
    uint32_t kind; /* enum psi_queue_kind */
    uint32_t component_count;
    int64_t capacity;           /* elements; < 0: unbounded */
    uint64_t min_after_dequeue; /* SHUFFLE: elements that stay while the queue is open; 0 otherwise */
    uint64_t seed;      /* SHUFFLE: of the draws, 0: the task chooses one; WORK: of the order, 0: as filled; otherwise 0 */
    uint32_t epochs;    /* WORK: how often each item is handed out, >= 1; otherwise 0 */
    uint32_t reduction; /* ACCUMULATOR: enum psi_reduction; otherwise 0 */
    struct psi_queue_component components[PSI_QUEUE_COMPONENTS_MAX];
};

/**
 * Check that a queue can be made so: kind known, capacity not 0, 1 to PSI_QUEUE_COMPONENTS_MAX components that variables could
 * have, fields of other kinds 0, min_after_dequeue below the capacity; WORK: unbounded, one string without dimensions;
 * ACCUMULATOR: unbounded, one float32 or float64 of a declared shape.
 * Errors  PS_INVALID_ARGUMENT, naming the field.
 */
PSI_MUST ps_status psi_queue_spec_check(const struct psi_queue_spec *spec, struct psi_err *err);
/** All fields are equal; any two negative capacities are. */
bool psi_queue_spec_equal(const struct psi_queue_spec *a, const struct psi_queue_spec *b);
/**
 * Check that a program that asks for `want` can use an existing queue. As in TensorFlow, the seed of a SHUFFLE counts only if
 * `want` has one.
 *
 * where    the task that has the queue, and name: both for the text.
 * Errors   PS_INVALID_ARGUMENT (SHAPE_MISMATCH if a component differs), with both sides of the first difference.
 */
PSI_MUST ps_status psi_queue_spec_compare(const struct psi_queue_spec *have, const char *where, const struct psi_queue_spec *want,
                                          const char *name, struct psi_err *err);
void psi_queue_spec_to_msg(const struct psi_queue_spec *from, ps_v1_Queue *to);
/** Errors: those of psi_queue_spec_check(). *to is set even then. */
PSI_MUST ps_status psi_queue_spec_from_msg(const ps_v1_Queue *from, struct psi_queue_spec *to, struct psi_err *err);
/** "FIFO", "RANDOM_SHUFFLE", "WORK", "ACCUMULATOR"; "invalid" otherwise. */
const char *psi_queue_kind_name(uint32_t kind);

#endif
