/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts a list of rows into runs: rows at one place that are sent together. Pure, any thread. */
#ifndef PSI_PLAN_CUT_H
#define PSI_PLAN_CUT_H

#include "common/status.h"

/** Place of a row that is not executed: its value exists before the first run. */
#define PSI_CUT_NOWHERE UINT32_MAX
/** In place of a run's index: the row is in no run. */
#define PSI_CUT_NO_RUN UINT32_MAX

struct psi_cut_edge {
    uint32_t row; /* an earlier row of the list. Edges to rows at PSI_CUT_NOWHERE are ignored */
    bool strict;  /* true: the earlier row's run must have ended; false: at the same place, both rows may be in one run */
};
struct psi_cut_row {
    /* where the row runs: index of a task, another number for the client (the caller chooses it), or PSI_CUT_NOWHERE */
    uint32_t place;
    const struct psi_cut_edge *edges;
    uint32_t edge_count;
};
/* A run: the rows at one place on one level, in the order of the list. */
struct psi_cut_run {
    uint32_t level; /* runs of a level are sent together, when all runs of the earlier levels have ended */
    uint32_t place;
    uint32_t row_count;
};

/** Cut the list. Each row gets the lowest level that its edges allow, so the number of levels is the smallest possible; a level
 * has one run for each place that has rows on it. A row that an edge names is in a run of an earlier level, or earlier in the
 * same run. No run waits for another run of its level, so no two tasks wait for each other.
 *
 * out_run    [count] index in out_runs of each row's run, or PSI_CUT_NO_RUN.
 * out_runs   [count] runs sorted by level, then by place. */
PSI_MUST ps_status psi_cut(const struct psi_cut_row *rows, uint32_t count, uint32_t *out_run, struct psi_cut_run *out_runs,
                           uint32_t *out_run_count, struct psi_err *err);

#endif
