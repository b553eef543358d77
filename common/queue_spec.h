/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a queue is made as: its kind, its bounds, and what its elements consist of. Checked before it travels, checked again by
 * who gets it, compared where a name is opened a second time. Pure, any thread.
 */
#ifndef PSI_QUEUE_SPEC_H
#define PSI_QUEUE_SPEC_H

#include "msg.h"
#include "shape.h"

#define PSI_QUEUE_COMPONENTS_MAX 16
/** Bytes of one item of a work queue. */
#define PSI_WORK_ITEM_BYTES_MAX ((uint64_t)64 << 10)

/** The numbers are on the wire: never reused. */
enum psi_queue_kind {
    PSI_QUEUE_FIFO = 1,
    PSI_QUEUE_SHUFFLE = 2,    /* an element is drawn; TensorFlow's RandomShuffleQueue */
    PSI_QUEUE_WORK = 3,       /* items are leased, and come again until they are said to be done */
    PSI_QUEUE_ACCUMULATOR = 4 /* gradients are added up; TensorFlow's ConditionalAccumulator */
};
/** What comes out of an accumulator. On the wire likewise. */
enum psi_reduction { PSI_REDUCTION_MEAN = 1, PSI_REDUCTION_SUM = 2 };
/** The global step of an accumulator: 0 to this, which leaves it room to rise. */
#define PSI_STEP_MAX (INT64_C(1) << 62)

/** One tensor of each element. */
struct psi_queue_component {
    ps_dtype dtype;
    bool shaped;    /* its shape is declared: the same in every element */
    ps_shape shape; /* all 0 where it is not */
};

struct psi_queue_spec {
    uint32_t kind; /* enum psi_queue_kind */
    uint32_t component_count;
    int64_t capacity;           /* elements; < 0: unbounded */
    uint64_t min_after_dequeue; /* SHUFFLE: so many stay while the queue is open; 0 otherwise */
    uint64_t seed;              /* SHUFFLE: of the draws, 0: one of the task's own; WORK: of the order, 0: as filled; else 0 */
    uint32_t epochs;            /* WORK: how often each item is handed out, >= 1; 0 otherwise */
    uint32_t reduction;         /* ACCUMULATOR: enum psi_reduction; 0 otherwise */
    struct psi_queue_component components[PSI_QUEUE_COMPONENTS_MAX];
};

/**
 * A queue that can be: kind known, capacity not 0, 1 to PSI_QUEUE_COMPONENTS_MAX components that variables could have, what is of
 * another kind 0, min_after_dequeue below the capacity; WORK: unbounded, one string without dimensions; ACCUMULATOR: unbounded,
 * one float32 or float64 of a declared shape.
 * Errors  PS_INVALID_ARGUMENT, naming the field.
 */
PSI_MUST ps_status psi_queue_spec_check(const struct psi_queue_spec *spec, struct psi_err *err);
/** The same in every field; all negative capacities are one. */
bool psi_queue_spec_equal(const struct psi_queue_spec *a, const struct psi_queue_spec *b);
/**
 * Whoever asks for `want` can use what is there. As TensorFlow has it: the seed of a SHUFFLE counts only where `want` has one.
 *
 * where    the task that has it; name of the queue: both for the text.
 * Errors   PS_INVALID_ARGUMENT (SHAPE_MISMATCH where a component differs), with both sides of the first difference.
 */
PSI_MUST ps_status psi_queue_spec_compare(const struct psi_queue_spec *have, const char *where, const struct psi_queue_spec *want,
                                          const char *name, struct psi_err *err);
void psi_queue_spec_to_msg(const struct psi_queue_spec *from, ps_v1_Queue *to);
/** Errors: those of psi_queue_spec_check(); *to is set all the same. */
PSI_MUST ps_status psi_queue_spec_from_msg(const ps_v1_Queue *from, struct psi_queue_spec *to, struct psi_err *err);
/** "FIFO", "RANDOM_SHUFFLE", "WORK", "ACCUMULATOR"; "invalid" otherwise. */
const char *psi_queue_kind_name(uint32_t kind);

#endif
