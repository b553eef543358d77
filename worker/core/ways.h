/* SPDX-License-Identifier: Apache-2.0 */
/* The allowed transitions of a state machine as a table, and a bit for each transition that was taken, for tests. Pure. */
#ifndef PSI_WORKER_WAYS_H
#define PSI_WORKER_WAYS_H

#include "common/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define PSI_TO(state_) (uint8_t)(1u << (state_))
struct psi_ways {
    const char *name;
    const uint8_t *to; /* [states] for each state: the bits PSI_TO() of all states that may follow */
    unsigned states;
    unsigned mark; /* first bit of this table in the word of marks: mark + FROM * states + TO */
};

/** Move from one state to another by the table; `from` equal to `to` is always allowed. Returns `to`. */
static inline unsigned psi_ways_move(const struct psi_ways *w, uint64_t *marks, unsigned from, unsigned to)
{
    if (from != to) {
        PSI_ASSERT((w->to[from] >> to & 1u) != 0);
        *marks |= (uint64_t)1 << (w->mark + from * w->states + to);
    }
    return to;
}

/** Write into out [64] the name of a transition whose bit in `marks` is 0, so that it was never taken. False: all were taken. */
static inline bool psi_ways_unmarked(const struct psi_ways *w, uint64_t marks, char out[64])
{
    for (unsigned way = 0; way < w->states * w->states; way++) {
        if (((unsigned)w->to[way / w->states] >> way % w->states & 1u) != 0 && (marks >> (w->mark + way) & 1u) == 0) {
            (void)snprintf(out, 64, "%s: %u to %u", w->name, way / w->states, way % w->states);
            return true;
        }
    }
    return false;
}

#endif
