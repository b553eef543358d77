/* SPDX-License-Identifier: Apache-2.0 */
/* State machine of ps_session_ready() (readying.h). Happy path: the variables are got; READY gives first values, or waits for
 * those of the chief; the session joins rounds, and reads the global step. Failure mode: the first failure ends the machine. */
#include "readying.h"

#include "ways.h"

static const uint8_t WAYS[PSI_READYING_DOS] = {
    [PSI_READYING_GET] = PSI_TO(PSI_READYING_ASK) | PSI_TO(PSI_READYING_OVER),
    [PSI_READYING_ASK] = PSI_TO(PSI_READYING_RESTORE) | PSI_TO(PSI_READYING_JOIN) | PSI_TO(PSI_READYING_OVER),
    [PSI_READYING_RESTORE] = PSI_TO(PSI_READYING_ASK) | PSI_TO(PSI_READYING_OVER),
    [PSI_READYING_JOIN] = PSI_TO(PSI_READYING_READ) | PSI_TO(PSI_READYING_OVER),
    [PSI_READYING_READ] = PSI_TO(PSI_READYING_OVER),
};
static const struct psi_ways TABLE = {"readying", WAYS, PSI_READYING_DOS, 0};

bool psi_readying_unmarked(uint64_t marks, char out[64])
{
    return psi_ways_unmarked(&TABLE, marks, out);
}

enum psi_readying_do psi_readying_next(struct psi_readying *r, bool ok)
{
    const bool restores = r->now == PSI_READYING_ASK && r->readied.nothing && r->number == 0;
    r->number = restores ? r->readied.chief_number : r->number;
    const enum psi_readying_do next = !ok                              ? PSI_READYING_OVER
                                      : restores                       ? PSI_READYING_RESTORE
                                      : r->now == PSI_READYING_RESTORE ? PSI_READYING_ASK
                                      : r->now == PSI_READYING_ASK     ? PSI_READYING_JOIN
                                                                       : (enum psi_readying_do)(r->now + 1);
    r->now = (enum psi_readying_do)psi_ways_move(&TABLE, &r->marks, r->now, next);
    return r->now;
}

bool psi_readying_initialised(const struct psi_readying *r)
{
    /* without variables, the global step alone shows whether there were values */
    const bool none = r->found == 0 && (r->total > 0 || !r->step_found);
    return r->readied.chief_number != 0 && none && !r->restored;
}

int64_t psi_readying_model_step(int64_t step, uint64_t version, uint64_t first_version)
{
    const bool counts = version >= first_version && step > 0 && version - first_version < (uint64_t)step;
    return counts ? step - (int64_t)(version - first_version) : 0;
}
