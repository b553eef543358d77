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
/* What a container holds on all tasks. */
struct containers_sum {
    uint64_t variables, queues, bytes;
};
/** Of one container; name NULL: of all. */
struct containers_sum containers_sum(const struct containers *list, const char *name);
/** "3 variables, 1 queue, 24 B" into text [n], which it returns. */
const char *containers_sum_text(const struct containers_sum *sum, char *text, size_t n);
/** text [n]: that there is no such container, and which was likely meant; "" when there is one, as the default one always. */
void containers_say_none(const struct psctl *c, const struct containers *list, const char *name, char *text, size_t n);
void containers_free(struct containers *list);

#endif
