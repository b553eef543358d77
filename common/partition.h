/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a variable is cut into parts along one axis: TensorFlow's partitioners, the two layouts of rows, and which part has which
 * row. A row is a slice of the axis: its index along it. Pure, any thread.
 *
 * Layout div: part i has rows offset .. offset + rows - 1, parts of equal size but for the first d mod k, which have one row
 * more. Layout mod: part i has the rows i, i + k, i + 2 k ...; the same sizes.
 */
#ifndef PSI_PARTITION_H
#define PSI_PARTITION_H

#include "limits.h"
#include "status.h"

enum {
    PSI_PARTS_MAX = 256,             /* one frame of CREATE holds all parts of a variable, whatever their names */
    PSI_PARTITION_STRING_BYTES = 16, /* what a string counts, as in TensorFlow */
    PSI_PART_NAME_EXTRA = 16,        /* bytes that "/part_255" adds to a name, at most */
};

typedef enum psi_partitioner_kind {
    PSI_PARTITION_EXACT = 1,     /* exactly `parts`; more than rows are refused */
    PSI_PARTITION_FIXED = 2,     /* fixed_size_partitioner: `parts`, at most one a row */
    PSI_PARTITION_AXIS_SIZE = 3, /* variable_axis_size_partitioner: parts of at most `bytes`, at most `parts` if that is not 0 */
    PSI_PARTITION_MIN_MAX = 4    /* min_max_variable_partitioner: at most `parts`, of about `bytes` at least */
} psi_partitioner_kind;

typedef enum psi_layout { PSI_LAYOUT_DIV = 0, PSI_LAYOUT_MOD = 1 } psi_layout;

struct psi_partitioner {
    uint32_t kind; /* psi_partitioner_kind */
    uint32_t axis;
    uint32_t parts;
    uint64_t bytes;
};

/** Where the rows of a whole variable are. */
struct psi_parts {
    ps_shape shape;  /* of the whole */
    uint32_t axis;   /* below shape.rank */
    uint32_t count;  /* 1 .. min(PSI_PARTS_MAX, rows) */
    uint32_t layout; /* psi_layout */
};

/**
 * The number of parts that a partitioner gives.
 *
 * Errors   INVALID_ARGUMENT  an axis that the shape does not have; a kind, parts or bytes that are not allowed; 0 parts, more
 * parts than rows (PSI_PARTITION_EXACT) or than PSI_PARTS_MAX. The text has the numbers Source   TF 1.15
 * python/ops/partitioned_variables.py
 */
PSI_MUST ps_status psi_partition_count(const struct psi_partitioner *p, ps_dtype dtype, const ps_shape *shape,
                                       uint32_t *out_count, struct psi_err *err);

/** Check axis, count and layout against the shape. INVALID_ARGUMENT. */
PSI_MUST ps_status psi_parts_check(const struct psi_parts *p, struct psi_err *err);

/* What the definition of a part says of its whole, beside its own name and shape. All 0: the variable is no part. */
struct psi_part {
    uint32_t count;  /* of the whole's parts */
    uint32_t index;  /* of this one */
    uint32_t axis;   /* along which the whole is cut */
    uint32_t layout; /* psi_layout */
    int64_t rows;    /* of the whole along the axis */
};

/** Check a part's definition against its own shape and name: NAME/part_INDEX. A variable that is no part passes.
 * INVALID_ARGUMENT. */
PSI_MUST ps_status psi_part_check(const struct psi_part *part, const ps_shape *shape, const char *name, struct psi_err *err);
bool psi_part_equal(const struct psi_part *a, const struct psi_part *b);
/** The parts that this one, of a checked definition and of this shape, is one of. part->count is not 0. */
struct psi_parts psi_part_whole(const struct psi_part *part, const ps_shape *shape);
/** The name of the whole, of a checked definition: name without its end. A variable that is no part: name. */
void psi_part_whole_name(const struct psi_part *part, const char *name, char out[PS_NAME_BYTES_MAX + 1]);
#define PSI_PART_TEXT_MAX 256
/** " as part 0 of 4 of (1000, 16) along axis 0, layout div"; "" where it is no part. Returns buf. */
const char *psi_part_format(const struct psi_part *part, const ps_shape *shape, char *buf, size_t n);

/* p passed psi_parts_check() for all functions below. */

/** Rows of the whole. */
int64_t psi_parts_rows(const struct psi_parts *p);
/** Shape of part `index`. */
ps_shape psi_part_shape(const struct psi_parts *p, uint32_t index);
/** First row of part `index` in the whole. */
int64_t psi_part_offset(const struct psi_parts *p, uint32_t index);
/** The part that has row `row` of the whole, 0 .. rows-1; *out_at: its row there. */
uint32_t psi_part_of(const struct psi_parts *p, int64_t row, int64_t *out_at);
/** Row of the whole that is row `at` of part `index`. */
int64_t psi_part_row(const struct psi_parts *p, uint32_t index, int64_t at);

/** A run of elements that lie beside each other in a part and in its whole. */
struct psi_part_run {
    uint64_t whole; /* index of the first one in the whole, row-major */
    uint64_t count; /* >= 1 */
};
/** The run that begins at element `at` of part `index`, at most `most` elements. at: below the part's number of elements. */
struct psi_part_run psi_part_run(const struct psi_parts *p, uint32_t index, uint64_t at, uint64_t most);

/** Write NAME/part_INDEX. INVALID_ARGUMENT: it is longer than a name may be. */
PSI_MUST ps_status psi_part_name(char out[PS_NAME_BYTES_MAX + 1], const char *whole, uint32_t index, struct psi_err *err);

#endif
