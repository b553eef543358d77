/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psctl containers: what each container holds on each task. Also what reset wants to know before it asks.
 * Failure modes: a task that does not answer is left out and named, one that has lost variables is told by their number; exit 1.
 */
#include "containers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 6 };

struct adding {
    struct containers *list;
    int task;
};

static void each(void *ctx, const ps_container_info *info)
{
    const struct adding *a = ctx;
    struct containers *list = a->list;
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 16 : list->capacity * 2;
        struct container_on *more = realloc(list->on, list->capacity * sizeof(*more));
        if (more == NULL) {
            (void)fprintf(stderr, "psctl: out of memory\n");
            exit(PSCTL_FAILED);
        }
        list->on = more;
    }
    list->on[list->count++] = (struct container_on){.task = a->task, .info = *info};
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
    for (int i = 0; i < c->task_count; i++) {
        struct adding a = {.list = out, .task = i};
        if (c->infos[i].up && ps_task_containers(c->session, i, psctl_left_ms(c), each, &a) != PS_OK) {
            psctl_task_failed(c, i);
            ok = false;
        }
    }
    if (out->count > 0) {
        qsort(out->on, out->count, sizeof(out->on[0]), by_name_and_task);
    }
    return ok;
}

uint64_t containers_sum(const struct containers *list, const char *name, uint64_t *out_bytes)
{
    uint64_t variables = 0;
    *out_bytes = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (name == NULL || strcmp(list->on[i].info.name, name) == 0) {
            variables += list->on[i].info.variables;
            *out_bytes += list->on[i].info.bytes;
        }
    }
    return variables;
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

static void print_json(const struct psctl *c, const struct containers *list)
{
    out_json_object(NULL);
    out_json_list("containers");
    for (size_t i = 0; i < list->count; i++) {
        const ps_container_info *info = &list->on[i].info;
        char incarnation[24];
        (void)snprintf(incarnation, sizeof(incarnation), "%016" PRIx64, info->incarnation);
        out_json_object(NULL);
        out_json_text("name", info->name);
        out_json_text("task", ps_cluster_task_name(c->session, list->on[i].task));
        out_json_u64("variables", info->variables);
        out_json_u64("initialised", info->initialised);
        out_json_u64("bytes", info->bytes);
        if (info->names > 0) {
            out_json_u64("names", info->names);
        }
        out_json_text("incarnation", incarnation);
        out_json_end();
    }
    out_json_end();
    out_json_down(c, -1);
    out_json_end();
}

static void print_table(const struct psctl *c, const struct containers *list)
{
    static const char *const headings[COLUMNS] = {"CONTAINER", "TASK", "VARIABLES", "INITIALISED", "BYTES", "INCARNATION"};
    struct out_table table;
    out_table_init(&table, COLUMNS, 0x1cu, headings);
    for (size_t i = 0; i < list->count; i++) {
        const ps_container_info *info = &list->on[i].info;
        char bytes[32];
        out_cell(&table, "%s", info->name);
        out_cell(&table, "%s", ps_cluster_task_name(c->session, list->on[i].task));
        out_cell(&table, "%" PRIu32, info->variables);
        out_cell(&table, "%" PRIu32, info->initialised);
        out_cell(&table, "%s", out_bytes((double)info->bytes, bytes, sizeof(bytes)));
        out_cell(&table, "%016" PRIx64, info->incarnation);
    }
    out_table_print(&table, &c->room);
}

/* The directory knows more names than the tasks have variables. */
static bool none_lost(const struct psctl *c, const struct containers *list)
{
    bool none = true;
    for (size_t i = 0; i < list->count; i++) {
        const ps_container_info *info = &list->on[i].info;
        uint64_t bytes = 0;
        uint64_t variables = containers_sum(list, info->name, &bytes);
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

enum psctl_exit psctl_containers(struct psctl *c)
{
    struct containers list;
    enum psctl_exit code = psctl_begin(c);
    if (code != PSCTL_OK) {
        return code;
    }
    (void)containers_ask(c, &list); /* what did not answer is down */
    if (c->json) {
        print_json(c, &list);
    } else {
        print_table(c, &list);
    }
    (void)fflush(stdout); /* the table before the reasons; errors show at the end */
    bool whole = psctl_all_up(c, -1) && none_lost(c, &list);
    containers_free(&list);
    return whole ? PSCTL_OK : PSCTL_FAILED;
}
