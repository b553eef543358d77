/* SPDX-License-Identifier: Apache-2.0 */
/* psctl checkpoint restore: what a restore discards, and which containers of the checkpoint it leaves out. */
#ifndef PSCTL_GOES_H
#define PSCTL_GOES_H

#include "containers.h"

struct goes_name {
    char text[64];
};
/* Which containers a restore replaces. All zeros: no containers yet. Free it with psctl_goes_free(), also after an error. */
struct goes {
    struct goes_name *names; /* sorted; owned */
    size_t count, capacity;
    /* true: the names were read from the checkpoint; false: it could not be read, so they are those of the present containers */
    bool known;
    struct containers before; /* all containers as they were right before the restore */
    bool marked;              /* psctl_goes_mark() has set `before`: all tasks have answered */
};

/** Check that the checkpoint has the containers of --container (without it: take all that the checkpoint has), print each with
 * its present step, and ask the user. PSCTL_OK: restore; *out is filled. Otherwise do not restore; the reason was printed. */
enum psctl_exit psctl_restore_confirmed(struct psctl *c, uint64_t number, struct goes *out);
/** Right before the restore: ask all tasks for their containers, to fill goes->before. */
void psctl_goes_mark(struct psctl *c, struct goes *goes);
/** After the restore: print and return which containers it left out; the caller owns the array. NULL: a task did not answer. */
json_t *psctl_goes_left_out(struct psctl *c, const struct goes *goes);
void psctl_goes_free(struct goes *goes);

#endif
