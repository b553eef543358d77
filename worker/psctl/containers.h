/* SPDX-License-Identifier: Apache-2.0 */
/* psctl: the containers of all tasks, for the verbs containers and reset. */
#ifndef PSCTL_CONTAINERS_H
#define PSCTL_CONTAINERS_H

#include "psctl.h"

struct container_on {
    int task; /* index, as in ps_cluster_tasks() */
    const char *task_name;
    ps_container_info info;
};
struct containers {
    struct container_on *on; /* sorted by name, then by task; owned */
    size_t count, capacity;
};
/** Ask all tasks that are up. False: a task did not answer, and is down from now on. The caller frees *out in any case. */
bool containers_ask(struct psctl *c, struct containers *out);
struct containers_sum {
    uint64_t variables, queues, bytes;
};
/** The sums of one container; name NULL: of all containers. */
struct containers_sum containers_sum(const struct containers *list, const char *name);
/** Write "3 variables, 1 queue, 24 B" into text [n]; returns text. */
const char *containers_sum_text(const struct containers_sum *sum, char *text, size_t n);
/** Write into text [n] that there is no such container, and the nearest name. "" if the container exists; the default one always
 * does. */
void containers_say_none(const struct psctl *c, const struct containers *list, const char *name, char *text, size_t n);
void containers_free(struct containers *list);

#endif
