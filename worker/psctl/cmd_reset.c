/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psctl reset: empty containers on all tasks.
 *
 * Happy path: ask what they hold -> ask the user on a terminal -> reset -> say what was emptied. Without a list it is the default
 * container only.
 * Failure modes: there is no such container: nothing is reset, the nearest one is named; a ps is down (nothing is reset: it would
 * come back with what was to be gone); exit 1.
 */
#include "containers.h"

#include <inttypes.h>
#include <string.h>

static const char *const default_container[] = {PSCTL_CONTAINER_DEFAULT};

/* The containers that are meant: *out of *out_count; --all: those that hold something, or did. */
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
    uint64_t variables = 0;
    uint64_t bytes = 0;
    char text[32];
    for (size_t i = 0; i < chosen->count; i++) {
        uint64_t of_one = 0;
        variables += containers_sum(list, chosen->names[i], &of_one);
        bytes += of_one;
    }
    if (chosen->count == 0) {
        variables = containers_sum(list, NULL, &bytes);
        len = (size_t)snprintf(dst, n, "all containers");
    }
    if (len < n) {
        (void)snprintf(dst + len, n - len, ": %" PRIu64 " variable%s, %s", variables, variables == 1 ? "" : "s",
                       cli_bytes((double)bytes, text, sizeof(text)));
    }
}

static void say_emptied(const struct psctl *c, const char *name, uint64_t variables, uint64_t bytes)
{
    char text[32];
    if (c->json) {
        cli_json_put(NULL,
                     json_pack("{s:s, s:I, s:I}", "name", name, "variables", (json_int_t)variables, "bytes", (json_int_t)bytes));
    } else if (variables == 0) {
        (void)printf("container '%s' was empty\n", name);
    } else {
        (void)printf("container '%s': %" PRIu64 " variable%s gone, %s\n", name, variables, variables == 1 ? "" : "s",
                     cli_bytes((double)bytes, text, sizeof(text)));
    }
}

static void report(const struct psctl *c, const struct containers *list, const struct chosen *chosen)
{
    uint64_t bytes = 0;
    psctl_answer(c);
    if (c->json) {
        cli_json_list("emptied");
    }
    for (size_t i = 0; i < chosen->count; i++) {
        uint64_t variables = containers_sum(list, chosen->names[i], &bytes);
        say_emptied(c, chosen->names[i], variables, bytes);
    }
    for (size_t i = 0; chosen->count == 0 && i < list->count; i++) {
        if (i == 0 || strcmp(list->on[i].info.name, list->on[i - 1].info.name) != 0) {
            uint64_t variables = containers_sum(list, list->on[i].info.name, &bytes);
            say_emptied(c, list->on[i].info.name, variables, bytes);
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
        return psctl_last_failed(c, st);
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

/* Tasks of the directory's job must be up; a worker that holds variables and is gone loses them anyway. */
static bool all_take_part(const struct psctl *c)
{
    const char *job = NULL;
    bool all = true;
    for (int i = 0; i < c->task_count; i++) {
        job = c->infos[i].directory ? c->infos[i].job : job;
    }
    (void)psctl_all_up(c, -1); /* names them */
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
        (void)psctl_all_up(c, -1); /* says which did not answer */
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
