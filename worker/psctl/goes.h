/* SPDX-License-Identifier: Apache-2.0 */
/* psctl checkpoint restore: what a restore discards, and which containers of the checkpoint it leaves out. */
#ifndef PSCTL_GOES_H
#define PSCTL_GOES_H

#include "containers.h"

struct goes_name {
    char text[64]; /* name of a container, as in ps_container_info */
};
/* The containers that a restore is to bring back. {0} is empty; the caller frees it in any case. */
struct goes {
    struct goes_name *names; /* sorted; owned */
    size_t count, capacity;
    /* names are those of the checkpoint; false: the checkpoint could not be read, names are the containers that exist now */
    bool known;
    struct containers before; /* the containers that existed when the restore began */
    bool marked;              /* all tasks answered for `before` */
};

/** Check c->containers against the checkpoint (no names: all containers), print each container that is to be restored with its
 * present step, and ask the user. PSCTL_OK: go ahead, *out is filled. Otherwise nothing was done, and the reason was printed. */
enum psctl_exit psctl_restore_confirmed(struct psctl *c, uint64_t number, struct goes *out);
/** Remember in goes->before what exists now, right before the restore. */
void psctl_goes_mark(struct psctl *c, struct goes *goes);
/** After the restore: print and return the names of the containers that were not restored; the caller owns the array. NULL: a
 * task did not answer, which was printed. */
json_t *psctl_goes_left_out(struct psctl *c, const struct goes *goes);
void psctl_goes_free(struct goes *goes);

#endif
