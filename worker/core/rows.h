/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that a program names by index, prepared for the wire (common/rows.h): by rising index, no index twice. Any thread. Values
 * for one row are added in the program's order, in the variable's dtype (float16 and bfloat16: as float32, rounded after each
 * addition; integers wrap); with PSI_ROWS_LAST the last value counts. */
#ifndef PSI_WORKER_ROWS_H
#define PSI_WORKER_ROWS_H

#include "common/rows.h"

#include <stddef.h>

enum psi_rows_use { PSI_ROWS_SUM, PSI_ROWS_LAST, PSI_ROWS_READ, PSI_ROWS_SUM_READ };

/* The rows of one call, as the program gives them. */
struct psi_rows_given {
    const char *name; /* name of the variable */
    const ps_shape *shape;
    ps_dtype dtype;
    const int64_t *indices; /* [count], in any order */
    uint64_t count;
    const void *values;    /* rows; READ: none */
    const uint64_t *at;    /* [count] at[i]: row of `values` for indices[i]; NULL: row i */
    enum psi_rows_use use; /* SUM_READ: as SUM, and then as READ: the new values of the rows come back */
};

/* Rows in wire order: `src` of PSI_REQ_PUSH_ROWS, PSI_REQ_PUSH_PULL_ROWS, PSI_REQ_SCATTER and PSI_REQ_GATHER. READ below includes
 * SUM_READ. */
struct psi_rows {
    uint64_t count;   /* number of different rows */
    uint64_t highest; /* index of the last row; 0 without rows */
    uint64_t columns, row_bytes;
    uint64_t variable_rows;
    uint32_t how;      /* SCATTER: PS_SCATTER_* */
    uint8_t *segments; /* indices and rows as on the wire; segment k begins at k * PS_SEGMENT_BYTES */
    uint64_t *indices; /* READ: [count], rising */
    uint32_t *places;  /* READ: [given] places[i]: position in `indices` of the i-th given index; NULL: i */
    uint64_t given;    /* number of indices that the program gave */
    uint64_t *at;      /* READ: [given] at[i]: row of `to` for the i-th given index; NULL: row i */
    /* GATHER. came: memory for the answer, freed by psi_rows_free(); NULL: the answer goes straight to the caller's memory. to:
     * the caller's memory, into which the rows are copied from `came`; NULL: nothing is copied */
    void *came, *to;
};

/** Check that each index is below `rows`. OUT_OF_RANGE: err says which and where. *out_rise: true if the indices rise. */
PSI_MUST ps_status psi_rows_indices_check(const struct psi_rows_given *given, uint64_t rows, bool *out_rise, struct psi_err *err);
/**
 * Make *out from the program's rows. psi_rows_free() frees it.
 *
 * Errors   INVALID_ARGUMENT    the variable has no rows, or too large ones
 *          OUT_OF_RANGE        an index that no row has; the text is that of psi_rows_indices_check()
 *          RESOURCE_EXHAUSTED  memory
 */
PSI_MUST ps_status psi_rows_new(const struct psi_rows_given *given, struct psi_rows **out, struct psi_err *err);
void psi_rows_free(struct psi_rows *r);
/** SUM: copy the indices, int64 each, and the rows, in wire order. */
void psi_rows_copy(const struct psi_rows *r, uint8_t *indices, uint8_t *rows);
/** READ: for each of the `given` indices, copy its row from `from`, which has the `count` different rows, to `to`. */
void psi_rows_spread(const struct psi_rows *r, const void *from, void *to);

#endif
