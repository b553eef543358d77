/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts a list of rows into runs (cut.h): one pass finds the level of each row, a sort puts the rows of a run together, a second
 * pass numbers the runs. An example: task A has rows A0 and A1, task B has B0 and B1; A1 needs B0, and B1 needs A0. These become
 * four runs. With a single run for each task, the two runs would wait for each other. Failure mode: no memory. */
#include "cut.h"

#include "common/mem.h"

#include <stdlib.h>

struct placed {
    uint32_t row, level, place;
};

static int by_level_place_row(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    if (x->level != y->level) {
        return x->level < y->level ? -1 : 1;
    }
    if (x->place != y->place) {
        return x->place < y->place ? -1 : 1;
    }
    return x->row < y->row ? -1 : x->row > y->row;
}

/* Lowest level on which a row can run. levels: those of all earlier rows. */
static uint32_t level_of(const struct psi_cut_row *rows, uint32_t row, const uint32_t *levels)
{
    uint32_t level = 0;
    for (uint32_t e = 0; e < rows[row].edge_count; e++) {
        const struct psi_cut_edge *edge = &rows[row].edges[e];
        PSI_ASSERT(edge->row < row);
        if (rows[edge->row].place == PSI_CUT_NOWHERE) {
            continue;
        }
        const bool together = !edge->strict && rows[edge->row].place == rows[row].place;
        const uint32_t least = levels[edge->row] + (together ? 0 : 1);
        level = least > level ? least : level;
    }
    return level;
}

ps_status psi_cut(const struct psi_cut_row *rows, uint32_t count, uint32_t *out_run, struct psi_cut_run *out_runs,
                  uint32_t *out_run_count, struct psi_err *err)
{
    struct placed *placed = psi_calloc((size_t)count + 1, sizeof(*placed));
    uint32_t *levels = psi_calloc((size_t)count + 1, sizeof(*levels));
    uint32_t n = 0, runs = 0;
    ps_status st = PS_OK;
    if (placed == NULL || levels == NULL) {
        st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %u rows", count);
        goto end;
    }
    for (uint32_t i = 0; i < count; i++) {
        out_run[i] = PSI_CUT_NO_RUN;
        if (rows[i].place != PSI_CUT_NOWHERE) {
            levels[i] = level_of(rows, i, levels);
            placed[n++] = (struct placed){.row = i, .level = levels[i], .place = rows[i].place};
        }
    }
    qsort(placed, n, sizeof(*placed), by_level_place_row);
    for (uint32_t i = 0; i < n; i++) {
        const struct placed *p = &placed[i];
        if (i == 0 || p->level != placed[i - 1].level || p->place != placed[i - 1].place) {
            out_runs[runs++] = (struct psi_cut_run){.level = p->level, .place = p->place};
        }
        out_runs[runs - 1].row_count++;
        out_run[p->row] = runs - 1;
    }
    *out_run_count = runs;
end:
    psi_free(placed);
    psi_free(levels);
    return st;
}
