/* SPDX-License-Identifier: Apache-2.0 */
/* Containers (named sets of variables and queues) at all tasks, for the verbs containers, reset, vars and others. */
#ifndef PSCTL_CONTAINERS_H
#define PSCTL_CONTAINERS_H

#include "psctl.h"

struct container_on {
    int task; /* index in ps_cluster_tasks() */
    const char *task_name;
    ps_container_info info;
};
struct containers {
    struct container_on *on; /* sorted by name, then by task; owned */
    size_t count, capacity;
};
/** Ask all tasks that are up for their containers. False: a task did not answer; it counts as down now. The caller frees *out. */
bool containers_ask(struct psctl *c, struct containers *out);
struct containers_sum {
    uint64_t variables, queues, bytes;
};
/** Sum up container `name` over all tasks; NULL: all containers. */
struct containers_sum containers_sum(const struct containers *list, const char *name);
/** Write the sum as people read it, "3 variables, 1 queue, 2.0 MiB", into text [n]. Returns text. */
const char *containers_sum_text(const struct containers_sum *sum, char *text, size_t n);
/** Write into text [n] that no task has container `name`, with the most similar name; "" if one has it, or it is the default. */
void containers_say_none(const struct psctl *c, const struct containers *list, const char *name, char *text, size_t n);
void containers_free(struct containers *list);

#endif
