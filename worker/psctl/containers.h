/* SPDX-License-Identifier: Apache-2.0 */
/* psctl: the containers of all tasks, for the verbs containers and reset. */
#ifndef PSCTL_CONTAINERS_H
#define PSCTL_CONTAINERS_H

#include "psctl.h"

struct container_on {
    int task; /* of ps_cluster_tasks() */
    const char *task_name;
    ps_container_info info;
};
struct containers {
    struct container_on *on; /* by name and task; owned */
    size_t count, capacity;
};
/** Ask all tasks that are up; false: one did not answer, and is down now. The caller frees in any case. */
bool containers_ask(struct psctl *c, struct containers *out);
/** Variables of one container on all tasks, and their bytes; name NULL: of all containers. */
uint64_t containers_sum(const struct containers *list, const char *name, uint64_t *out_bytes);
/** text [n]: that there is no such container, and which was likely meant; "" when there is one, as the default one always. */
void containers_say_none(const struct psctl *c, const struct containers *list, const char *name, char *text, size_t n);
void containers_free(struct containers *list);

#endif
