/* SPDX-License-Identifier: Apache-2.0 */
/* psctl containers: what each container holds on each task. psctl reset shows the same sums before it asks. Failure modes, exit
 * 1: a task that does not answer is left out and named; for a task that lost variables their number is printed. */
#include "containers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct adding {
    struct containers *list;
    struct container_on on;
};

static void each(void *ctx, const ps_container_info *info)
{
    struct adding *a = ctx;
    struct containers *list = a->list;
    list->on = cli_grow(list->on, list->count, &list->capacity, sizeof(*list->on));
    a->on.info = *info;
    list->on[list->count++] = a->on;
}

static int by_name_and_task(const void *x, const void *y)
{
    const struct container_on *a = x;
    const struct container_on *b = y;
    int order = strcmp(a->info.name, b->info.name);
    return order != 0 ? order : (a->task > b->task) - (a->task < b->task);
}

bool containers_ask(struct psctl *c, struct containers *out)
{
    bool ok = true;
    memset(out, 0, sizeof(*out));
    for (int i = -1; psctl_next(c, -1, &i);) {
        struct adding a = {.list = out, .on = {.task = i, .task_name = ps_cluster_task_name(c->session, i)}};
        ok = psctl_heard(c, i, ps_task_containers(c->session, i, psctl_left_ms(c), each, &a)) && ok;
    }
    if (out->count > 0) {
        qsort(out->on, out->count, sizeof(out->on[0]), by_name_and_task);
    }
    return ok;
}

struct containers_sum containers_sum(const struct containers *list, const char *name)
{
    struct containers_sum sum = {0};
    for (size_t i = 0; i < list->count; i++) {
        const ps_container_info *info = &list->on[i].info;
        if (name == NULL || strcmp(info->name, name) == 0) {
            sum.variables += info->variables;
            sum.queues += info->queues;
            sum.bytes += info->bytes;
        }
    }
    return sum;
}

const char *containers_sum_text(const struct containers_sum *sum, char *text, size_t n)
{
    char queues[48] = "", bytes[32];
    if (sum->queues > 0) {
        (void)snprintf(queues, sizeof(queues), ", %" PRIu64 " queue%s", sum->queues, sum->queues == 1 ? "" : "s");
    }
    (void)snprintf(text, n, "%" PRIu64 " variable%s%s, %s", sum->variables, sum->variables == 1 ? "" : "s", queues,
                   cli_bytes((double)sum->bytes, bytes, sizeof(bytes)));
    return text;
}

void containers_say_none(const struct psctl *c, const struct containers *list, const char *name, char *text, size_t n)
{
    char near[64] = "";
    bool all = true;
    text[0] = '\0';
    for (int i = 0; i < c->task_count; i++) {
        all = all && c->infos[i].up;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->on[i].info.name, name) == 0) {
            return;
        }
        psctl_nearer(name, list->on[i].info.name, near, sizeof(near));
    }
    if (strcmp(name, PSCTL_CONTAINER_DEFAULT) != 0) {
        psctl_nearer(name, PSCTL_CONTAINER_DEFAULT, near, sizeof(near));
        (void)snprintf(text, n, "there is no container '%s'%s%s%s%s", name, all ? "" : " at the tasks that are up",
                       near[0] != '\0' ? " (did you mean " : "", near, near[0] != '\0' ? "?)" : "");
    }
}

void containers_free(struct containers *list)
{
    free(list->on);
    memset(list, 0, sizeof(*list));
}

static bool has_names(const void *row)
{
    return ((const struct container_on *)row)->info.names > 0;
}

static bool has_number(const void *row)
{
    return ((const struct container_on *)row)->info.chief_number > 0;
}

static bool has_chief(const void *row)
{
    return ((const struct container_on *)row)->info.chief[0] != '\0';
}

static bool has_lease(const void *row)
{
    return ((const struct container_on *)row)->info.chief_left_ms > 0;
}

#define FIELD(kind_, field_) CLI_FIELD(kind_, struct container_on, field_)
static const struct cli_column columns[] = {
    {"CONTAINER", "name", FIELD(CLI_TEXT, info.name)},
    {"TASK", "task", FIELD(CLI_STRING, task_name)},
    {"VARIABLES", "variables", FIELD(CLI_U32, info.variables)},
    {"INITIALISED", "initialised", FIELD(CLI_U32, info.initialised)},
    {"QUEUES", "queues", FIELD(CLI_U32, info.queues)},
    {"BYTES", "bytes", FIELD(CLI_BYTES, info.bytes)},
    {NULL, "names", FIELD(CLI_U32, info.names), .has = has_names},
    {"INCARNATION", "incarnation", FIELD(CLI_HEX, info.incarnation)},
    {"CHIEF", "chief", FIELD(CLI_TEXT, info.chief), .has = has_chief},
    {"NUMBER", "chief_number", FIELD(CLI_U64, info.chief_number), .has = has_number},
    {"LEASE", "chief_left_ms", FIELD(CLI_TIME, info.chief_left_ms), .has = has_lease},
};

/* Print a note for each container of which tasks have lost variables that the directory task knows. True: no note. */
static bool none_lost(const struct psctl *c, const struct containers *list)
{
    bool none = true;
    for (size_t i = 0; i < list->count; i++) {
        const ps_container_info *info = &list->on[i].info;
        uint64_t variables = containers_sum(list, info->name).variables;
        if (info->names > variables) {
            psctl_note(c,
                       "container '%s' should have %" PRIu32 " variables and its tasks have %" PRIu64
                       ": a task has lost some, which psctl vars names",
                       info->name, info->names, variables);
            none = false;
        }
    }
    return none;
}

static enum psctl_exit show(struct psctl *c)
{
    struct containers list;
    struct psctl_list l;
    (void)containers_ask(c, &list);
    (void)psctl_list_begin(&l, c, NULL, "containers", columns, CLI_COUNT(columns));
    for (size_t i = 0; i < list.count; i++) {
        cli_list_add(&l.rows, &list.on[i]);
    }
    enum psctl_exit code = psctl_list_end(&l);
    bool whole = code == PSCTL_OK && none_lost(c, &list);
    containers_free(&list);
    return whole ? PSCTL_OK : PSCTL_FAILED;
}

const struct psctl_verb psctl_verb_containers = {
    .name = "containers",
    .arguments = "",
    .summary = "containers: variables, queues and bytes per task",
    .words = "",
    .show = show,
    .help = "What each container holds on each task; BYTES are values, slots and elements of queues. INCARNATION changes\n"
            "with every reset. CHIEF is who makes the model ready, as far as the task knows; LEASE, at the directory, is what\n"
            "is left of its lease, and NUMBER the highest that a chief of the container has had there.\n",
};
