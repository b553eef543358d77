/* SPDX-License-Identifier: Apache-2.0 */
/* psctl: what a restore discards, and what of the checkpoint it leaves out. */
#ifndef PSCTL_GOES_H
#define PSCTL_GOES_H

#include "containers.h"

struct goes_name {
    char text[64]; /* of a container, as ps_container_info has it */
};
/* The containers that a restore is to bring back. {0} is empty; the caller frees it in any case. */
struct goes {
    struct goes_name *names; /* by name; owned */
    size_t count, capacity;
    bool known;               /* they are those of the checkpoint; else it could not be read, and they are those that live */
    struct containers before; /* what lived when the restore began */
    bool marked;              /* all tasks said it */
};

/** Refuse a name in c->containers that the checkpoint does not have. Then say which containers (c->containers; none: all) go back
 * to this checkpoint and at which step they are now, and ask the user. PSCTL_OK: go ahead, *out is filled. Otherwise nothing was
 * done, and the reason was said. */
enum psctl_exit psctl_restore_confirmed(struct psctl *c, uint64_t number, struct goes *out);
/** The restore begins. */
void psctl_goes_mark(struct psctl *c, struct goes *goes);
/** The restore is done: say which of the containers did not go back. Their names, which the caller owns; NULL: a task did not
 * answer, which was said. */
json_t *psctl_goes_left_out(struct psctl *c, const struct goes *goes);
void psctl_goes_free(struct goes *goes);

#endif
