/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a restore discards, and the question before it.
 *
 * Happy path: the checkpoint is listed -> each container that goes back is said with the step that it has now -> the user is
 * asked on a terminal; --yes answers. Failure modes: there is no such checkpoint, or no such container now or in it; standard
 * input is no terminal and --yes is not given: nothing is done.
 */
#include "containers.h"
#include "goes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAID_MAX = 16 /* containers that are named one by one */ };

struct sought {
    uint64_t number;
    ps_checkpoint_info found; /* number 0: it is not listed */
};

static void each(void *ctx, const ps_checkpoint_info *info)
{
    struct sought *s = ctx;
    s->found = info->number == s->number ? *info : s->found;
}

/* The step of a container as it is now, "step 3500". A container without a variable global_step has no step. */
static const char *step_text(struct psctl *c, const char *container, char *buf, size_t n)
{
    ps_variable *v = NULL;
    int64_t step = 0;
    int32_t narrow = 0;
    ps_status st = ps_container_push(c->session, container);
    if (st == PS_OK) {
        st = ps_variable_find(c->session, "global_step", &v);
        (void)ps_container_pop(c->session); /* it was pushed above */
    }
    bool wide = st == PS_OK && ps_variable_bytes(v) == sizeof(step);
    if (st == PS_OK && (wide || ps_variable_bytes(v) == sizeof(narrow))) {
        st = wide ? ps_variable_read(v, &step, sizeof(step)) : ps_variable_read(v, &narrow, sizeof(narrow));
        (void)snprintf(buf, n, "step %" PRId64, wide ? step : (int64_t)narrow);
    }
    if (st != PS_OK) {
        (void)snprintf(buf, n, st == PS_NOT_FOUND ? "no global_step" : "its step is not known: %.100s", ps_last_error());
    }
    return buf;
}

static bool is_named(const struct psctl *c, const char *container)
{
    bool named = c->containers[0] == NULL;
    for (size_t i = 0; c->containers[i] != NULL; i++) {
        named = named || strcmp(c->containers[i], container) == 0;
    }
    return named;
}

/* List the containers that live and are going back, in order. */
static void say_each(struct psctl *c, const struct containers *list)
{
    size_t more = 0, said = 0;
    for (size_t i = 0; i < list->count; i++) {
        const char *name = list->on[i].info.name;
        bool first = i == 0 || strcmp(name, list->on[i - 1].info.name) != 0;
        struct containers_sum sum = containers_sum(list, name);
        char step[160], text[96];
        if (!first || !is_named(c, name) || (sum.variables == 0 && sum.queues == 0)) {
            continue;
        }
        if (said == SAID_MAX) {
            more++;
            continue;
        }
        said++;
        psctl_note(c, "container '%s' goes back: now at %s, %s", name, step_text(c, name, step, sizeof(step)),
                   containers_sum_text(&sum, text, sizeof(text)));
    }
    if (more > 0) {
        psctl_note(c, "and %zu more containers", more);
    }
}

/* Of the containers that go back. */
static void describe(const struct psctl *c, char *buf, size_t n)
{
    size_t used = (size_t)snprintf(buf, n, c->containers[0] == NULL ? "All containers go" : "Of all containers only ");
    for (size_t i = 0; c->containers[i] != NULL && used < n; i++) {
        used += (size_t)snprintf(buf + used, n - used, "%s'%s'", i > 0 ? ", " : "", c->containers[i]);
    }
    if (c->containers[0] != NULL && used < n) {
        (void)snprintf(buf + used, n - used, c->containers[1] == NULL ? " goes" : " go");
    }
}

enum psctl_exit psctl_restore_confirmed(struct psctl *c, uint64_t number)
{
    struct sought s = {.number = number};
    struct containers list = {.count = 0};
    char what[1024], step[48] = "";
    int directory = psctl_directory(c);
    if (directory < 0) {
        psctl_error(c, PS_UNAVAILABLE, "the directory does not answer; nothing was restored");
        return PSCTL_FAILED;
    }
    ps_status st = ps_task_checkpoints(c->session, directory, psctl_left_ms(c), each, &s);
    if (st != PS_OK) {
        return psctl_last_failed(c, st);
    }
    if (s.found.number == 0) {
        psctl_error(c, PS_NOT_FOUND, "there is no checkpoint %" PRIu64 "; nothing was restored", number);
        return PSCTL_FAILED;
    }
    if (!c->yes && isatty(STDIN_FILENO) == 0) {
        return psctl_misused(
            c, "checkpoint restore asks before anything is discarded, and standard input is no terminal: --yes goes "
               "ahead without asking, and saves what is there first (unless --no_save)");
    }
    (void)containers_ask(c, &list); /* a task that did not answer is down: the restore itself says so */
    if (s.found.step >= 0) {
        (void)snprintf(step, sizeof(step), ", step %" PRId64 ",", s.found.step);
    }
    psctl_note(c, "checkpoint %" PRIu64 "%s comes in the place of what these have now%s", number, step,
               c->no_save ? ", which is not saved (--no_save)" : ", which is saved first");
    say_each(c, &list);
    containers_free(&list);
    describe(c, what, sizeof(what));
    return psctl_confirmed(c, "%s back to checkpoint %" PRIu64 " on all ps tasks?", what, number) ? PSCTL_OK : PSCTL_FAILED;
}
