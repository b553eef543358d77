/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that a program names by their indices, made ready for the wire (common/rows.h): sorted, each once. Pure, any thread.
 *
 * Values for a row that is named several times are added in the order in which they stand, in the variable's dtype (float16 and
 * bfloat16: as float32, rounded after each addition; integers wrap); an update keeps the last of them.
 */
#ifndef PSI_WORKER_ROWS_H
#define PSI_WORKER_ROWS_H

#include "common/rows.h"

#include <stddef.h>

enum psi_rows_use { PSI_ROWS_SUM, PSI_ROWS_LAST, PSI_ROWS_READ };

/* The rows of one call, as the program gives them. */
struct psi_rows_given {
    const char *name; /* of the variable */
    const ps_shape *shape;
    ps_dtype dtype;
    const int64_t *indices; /* [count], in any order */
    uint64_t count;
    const void *values; /* rows; READ: none */
    const uint64_t *at; /* [count] which row of `values` belongs to each index; NULL: row i to index i */
    enum psi_rows_use use;
};

/* Rows in the order of the wire. `src` of PSI_REQ_PUSH_ROWS, PSI_REQ_SCATTER and PSI_REQ_GATHER. */
struct psi_rows {
    uint64_t count;   /* different rows */
    uint64_t highest; /* index of the last one; 0 without rows */
    uint64_t columns, row_bytes;
    uint64_t variable_rows;
    uint32_t how;      /* SCATTER: PS_SCATTER_* */
    uint8_t *segments; /* values: segment k lies at k * PS_SEGMENT_BYTES */
    uint64_t *indices; /* READ: [count], rising */
    uint32_t *places;  /* READ: [given] which of the `count` rows each index that was given is; NULL: they rose as given */
    uint64_t given;
    uint64_t *at; /* READ: [given] which row of `to` each index that was given wants; NULL: row i */
    /* READ, of the caller: rows come to `came`, which psi_rows_free() frees, and are put at `to`; NULL: they come where they
     * belong */
    void *came, *to;
};

/** Check that each index is one of a row, below `rows`. OUT_OF_RANGE: which is not, where it stands, and how many rows there are.
 */
PSI_MUST ps_status psi_rows_indices_check(const struct psi_rows_given *given, uint64_t rows, bool *out_rise, struct psi_err *err);
/**
 * Make *out of what a program gives. psi_rows_free() frees it.
 *
 * Errors   INVALID_ARGUMENT    the variable has no rows, or too large ones
 *          OUT_OF_RANGE        an index that no row has: which, where it stands, and how many there are
 *          RESOURCE_EXHAUSTED  memory
 */
PSI_MUST ps_status psi_rows_new(const struct psi_rows_given *given, struct psi_rows **out, struct psi_err *err);
/** NULL is fine. */
void psi_rows_free(struct psi_rows *r);
/** READ: put the rows that have come, `count` at `from`, where the program wants them: `given` rows of `to`. */
void psi_rows_spread(const struct psi_rows *r, const void *from, void *to);

#endif
