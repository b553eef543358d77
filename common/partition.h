/* SPDX-License-Identifier: Apache-2.0 */
/* How a variable is cut into parts along one axis: TensorFlow's partitioners, two layouts (which part has which row), and their
 * arithmetic. A row is all elements with one index along the axis. Pure, any thread. With d rows and k parts: layout div gives
 * part i the rows offset .. offset + rows - 1; the first d mod k parts have one row more than the others. Layout mod gives part i
 * the rows i, i + k, i + 2 k ...; the sizes are as in div. */
#ifndef PSI_PARTITION_H
#define PSI_PARTITION_H

#include "limits.h"
#include "status.h"

enum {
    /* most parts of a variable: a CREATE request for all of them fits into one frame, however long their names are */
    PSI_PARTS_MAX = 256,
    /* bytes that a string element is assumed to have when sizes are computed, as in TensorFlow */
    PSI_PARTITION_STRING_BYTES = 16,
};

typedef enum psi_partitioner_kind {
    PSI_PARTITION_EXACT = 1, /* exactly `parts` parts; refused if there are fewer rows */
    PSI_PARTITION_FIXED = 2, /* fixed_size_partitioner: `parts` parts, or one for each row if there are fewer rows */
    /* variable_axis_size_partitioner: each part has at most `bytes`; at most `parts` parts, unless `parts` is 0 */
    PSI_PARTITION_AXIS_SIZE = 3,
    PSI_PARTITION_MIN_MAX = 4 /* min_max_variable_partitioner: at most `parts` parts, each of about `bytes` or more */
} psi_partitioner_kind;

typedef enum psi_layout { PSI_LAYOUT_DIV = 0, PSI_LAYOUT_MOD = 1 } psi_layout;

const char *psi_layout_name(uint32_t layout);

struct psi_partitioner {
    uint32_t kind; /* enum psi_partitioner_kind */
    uint32_t axis;
    uint32_t parts;
    uint64_t bytes;
};

/** Which part has which rows of a partitioned variable. */
struct psi_parts {
    ps_shape shape; /* shape of the whole variable */
    uint32_t axis;
    uint32_t count;  /* 1 .. min(PSI_PARTS_MAX, rows) */
    uint32_t layout; /* enum psi_layout */
};

/** The number of parts that a partitioner gives.
 *
 * Errors   INVALID_ARGUMENT  an axis that the shape does not have; a kind, parts or bytes that are not allowed; 0 parts, more
 *                            parts than rows (PSI_PARTITION_EXACT) or than PSI_PARTS_MAX. The text has the numbers.
 * Source   TF 1.15 python/ops/partitioned_variables.py */
PSI_MUST ps_status psi_partition_count(const struct psi_partitioner *p, ps_dtype dtype, const ps_shape *shape,
                                       uint32_t *out_count, struct psi_err *err);

/** Check axis, count and layout against the shape. Errors: INVALID_ARGUMENT. */
PSI_MUST ps_status psi_parts_check(const struct psi_parts *p, struct psi_err *err);

/* How a variable is one of the `count` parts of a whole variable. All fields 0: the variable is no part. */
struct psi_part {
    uint32_t count;
    uint32_t index;
    uint32_t axis;
    uint32_t layout; /* enum psi_layout */
    int64_t rows;    /* number of rows of the whole variable, along the axis */
};

/** Check a part's definition against its dtype, shape and name, NAME/part_INDEX. All fields 0: PS_OK. Strings are in no parts, as
 * the elements of a part lie at fixed offsets in the whole. Errors: INVALID_ARGUMENT. */
PSI_MUST ps_status psi_part_check(const struct psi_part *part, ps_dtype dtype, const ps_shape *shape, const char *name,
                                  struct psi_err *err);
bool psi_part_equal(const struct psi_part *a, const struct psi_part *b);
/** True if a and b may be parts of one variable: everything but the index is equal. */
bool psi_part_alike(const struct psi_part *a, const struct psi_part *b);
/** Returns how the whole variable of a part is cut. part: a checked definition whose count is not 0; shape: that of the part. */
struct psi_parts psi_part_whole(const struct psi_part *part, const ps_shape *shape);
/** The name of the whole: name without "/part_INDEX", or name itself if the variable is no part. The definition was checked. */
void psi_part_whole_name(const struct psi_part *part, const char *name, char out[PS_NAME_BYTES_MAX + 1]);
#define PSI_PART_TEXT_MAX 256
/** Write " as part 0 of 4 of (1000, 16) along axis 0, layout div"; "" if the variable is no part. Returns buf. */
const char *psi_part_format(const struct psi_part *part, const ps_shape *shape, char *buf, size_t n);

/* For all functions below p has passed psi_parts_check(). */

int64_t psi_parts_rows(const struct psi_parts *p);
ps_shape psi_part_shape(const struct psi_parts *p, uint32_t index);
/** Index in the whole variable of the first row of part `index`. */
int64_t psi_part_offset(const struct psi_parts *p, uint32_t index);
/** The part that has row `row` of the whole, 0 .. rows - 1. *out_at: index of this row within the part. */
uint32_t psi_part_of(const struct psi_parts *p, int64_t row, int64_t *out_at);
int64_t psi_part_row(const struct psi_parts *p, uint32_t index, int64_t at);

/** Elements that lie side by side in a part and in the whole variable. */
struct psi_part_run {
    uint64_t whole; /* index of the first of these elements in the whole, row-major */
    uint64_t count;
};
/** The run that begins at element `at` of part `index`, at most `most` elements. at: below the part's number of elements. */
struct psi_part_run psi_part_run(const struct psi_parts *p, uint32_t index, uint64_t at, uint64_t most);

/** Write NAME/part_INDEX. INVALID_ARGUMENT: it is longer than a name may be. */
PSI_MUST ps_status psi_part_name(char out[PS_NAME_BYTES_MAX + 1], const char *whole, uint32_t index, struct psi_err *err);

#endif
