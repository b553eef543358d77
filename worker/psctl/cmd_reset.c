/* SPDX-License-Identifier: Apache-2.0 */
/* psctl reset: empty containers on all tasks; without names the default one. Happy path: ask the tasks what the containers
 * hold, ask the user on a terminal, reset, print. Failure modes, exit 1: no such container (the nearest name is printed), or a ps
 * is down, which would come back with the old values: nothing is reset. */
#include "containers.h"

#include <string.h>

static const char *const default_container[] = {PSCTL_CONTAINER_DEFAULT};

/* Which containers to reset: names [count]; count 0: --all, each container that some task lists. */
struct chosen {
    const char *const *names;
    size_t count;
};

static void describe(const struct containers *list, const struct chosen *chosen, char *dst, size_t n)
{
    size_t len = 0;
    for (size_t i = 0; i < chosen->count && len < n; i++) {
        len += (size_t)snprintf(dst + len, n - len, "%s'%s'", i > 0 ? ", " : "", chosen->names[i]);
    }
    struct containers_sum all = {0};
    char text[96];
    for (size_t i = 0; i < chosen->count; i++) {
        struct containers_sum one = containers_sum(list, chosen->names[i]);
        all.variables += one.variables;
        all.queues += one.queues;
        all.bytes += one.bytes;
    }
    if (chosen->count == 0) {
        all = containers_sum(list, NULL);
        len = (size_t)snprintf(dst, n, "all containers");
    }
    if (len < n) {
        (void)snprintf(dst + len, n - len, ": %s", containers_sum_text(&all, text, sizeof(text)));
    }
}

static void say_emptied(const struct psctl *c, const struct containers *list, const char *name)
{
    struct containers_sum sum = containers_sum(list, name);
    char text[96];
    if (c->json) {
        cli_json_put(NULL, json_pack("{s:s, s:I, s:I, s:I}", "name", name, "variables", (json_int_t)sum.variables, "queues",
                                     (json_int_t)sum.queues, "bytes", (json_int_t)sum.bytes));
    } else if (sum.variables == 0 && sum.queues == 0) {
        (void)printf("container '%s' was empty\n", name);
    } else {
        (void)printf("container '%s': %s gone\n", name, containers_sum_text(&sum, text, sizeof(text)));
    }
}

static void report(const struct psctl *c, const struct containers *list, const struct chosen *chosen)
{
    psctl_answer(c);
    if (c->json) {
        cli_json_list("emptied");
    }
    for (size_t i = 0; i < chosen->count; i++) {
        say_emptied(c, list, chosen->names[i]);
    }
    for (size_t i = 0; chosen->count == 0 && i < list->count; i++) {
        if (i == 0 || strcmp(list->on[i].info.name, list->on[i - 1].info.name) != 0) {
            say_emptied(c, list, list->on[i].info.name);
        }
    }
    if (c->json) {
        cli_json_end();
    }
    psctl_answer_end(c);
}

static enum psctl_exit reset(struct psctl *c, const struct containers *list, const struct chosen *chosen)
{
    char what[400];
    describe(list, chosen, what, sizeof(what));
    if (!psctl_confirmed(c, "Empty %s on all %d tasks?", what, c->task_count)) {
        return PSCTL_FAILED;
    }
    ps_status st = c->all ? ps_reset_all(c->session) : ps_reset_containers(c->session, chosen->names, chosen->count);
    if (st != PS_OK) {
        return psctl_change_failed(c, st);
    }
    report(c, list, chosen);
    return PSCTL_OK;
}

static bool all_exist(const struct psctl *c, const struct containers *list, const struct chosen *chosen)
{
    for (size_t i = 0; i < chosen->count; i++) {
        char none[256];
        containers_say_none(c, list, chosen->names[i], none, sizeof(none));
        if (none[0] != '\0') {
            psctl_error(c, PS_NOT_FOUND, "%s; nothing was reset", none);
            return false;
        }
    }
    return true;
}

/* True if all ps tasks (the directory's job) are up. A worker may be down: its variables are lost anyway. */
static bool all_take_part(const struct psctl *c)
{
    const char *job = NULL;
    bool all = true;
    for (int i = 0; i < c->task_count; i++) {
        job = c->infos[i].directory ? c->infos[i].job : job;
    }
    (void)psctl_all_up(c, -1);
    for (int i = 0; i < c->task_count; i++) {
        all = all && (c->infos[i].up || (job != NULL && strcmp(job, c->infos[i].job) != 0));
    }
    return all;
}

static enum psctl_exit run_reset(struct psctl *c)
{
    struct containers list;
    struct chosen chosen = {.names = (const char *const *)c->argv, .count = (size_t)c->argc};
    if (c->all && c->argc > 0) {
        return psctl_misused(c, "reset takes containers or --all, not both");
    }
    if (!c->all && c->argc == 0) {
        chosen = (struct chosen){.names = default_container, .count = 1};
    }
    enum psctl_exit code = psctl_begin(c);
    if (code != PSCTL_OK) {
        return code;
    }
    if (!all_take_part(c)) {
        psctl_error(c, PS_UNAVAILABLE, "nothing was reset: all tasks must take part");
        return PSCTL_FAILED;
    }
    if (!containers_ask(c, &list)) {
        (void)psctl_all_up(c, -1); /* to print which tasks did not answer */
        psctl_error(c, PS_UNAVAILABLE, "nothing was reset: all tasks must take part");
        code = PSCTL_FAILED;
    } else {
        code = all_exist(c, &list, &chosen) ? reset(c, &list, &chosen) : PSCTL_FAILED;
    }
    containers_free(&list);
    return code;
}

const struct psctl_verb psctl_verb_reset = {
    .name = "reset",
    .look = "containers",
    .arguments = "[CONTAINER ...]",
    .summary = "empty containers on all tasks",
    .args_max = PSCTL_ARGS_MANY,
    .flags = PSCTL_FLAG(ALL) | PSCTL_FLAG(YES),
    .words = "container",
    .run = run_reset,
    .help = "Without an argument the default container, localhost, only; --all empties every container. Nothing is reset\n"
            "while a task is down. Programs that use what is gone get ABORTED. Asks first on a terminal;\n"
            "elsewhere --all needs --yes.\n",
};
