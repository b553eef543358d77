/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Find the variable or queue that a command line names.
 * Happy path: connect, find the name. Failure mode: the name does not exist: print the library's text, and as a hint the nearest
 * name, or another container that has this name. The search for a hint takes at most the rest of the command's time.
 */
#include "psctl.h"

#include <string.h>

struct search {
    const char *name, *container;
    char near[256];     /* nearest name in the container */
    char elsewhere[64]; /* another container that has the name */
};

static void each(void *ctx, const ps_variable_info *info)
{
    struct search *s = ctx;
    if (strcmp(info->container, s->container) != 0) {
        if (strcmp(info->name, s->name) == 0) {
            (void)snprintf(s->elsewhere, sizeof(s->elsewhere), "%s", info->container);
        }
        return;
    }
    psctl_nearer(s->name, info->name, s->near, sizeof(s->near));
}

static void say_not_found(struct psctl *c, ps_status st)
{
    struct search s = {.name = c->argv[0], .container = c->container != NULL ? c->container : PSCTL_CONTAINER_DEFAULT};
    char text[512];
    (void)snprintf(text, sizeof(text), "%s", ps_last_error());
    ps_reason reason = ps_last_reason();
    bool asked = st == PS_NOT_FOUND && psctl_ask(c, psctl_left_ms(c) / 2) == PSCTL_OK;
    for (int i = 0; asked && i < c->task_count; i++) {
        if (c->infos[i].up && ps_task_variables(c->session, i, psctl_left_ms(c), each, &s) != PS_OK) {
            break; /* the hint is made without the names of this task */
        }
    }
    if (s.elsewhere[0] != '\0') {
        psctl_failed(c, st, reason, "%s (--container %s has one)", text, s.elsewhere);
    } else if (s.near[0] != '\0') {
        psctl_failed(c, st, reason, "%s (did you mean %s?)", text, s.near);
    } else {
        psctl_failed(c, st, reason, "%s", text);
    }
}

enum psctl_exit psctl_find_variable(struct psctl *c, ps_variable **out)
{
    return psctl_find(c, out, NULL);
}

enum psctl_exit psctl_find(struct psctl *c, ps_variable **out, ps_queue **out_queue)
{
    enum psctl_exit code = c->session != NULL ? PSCTL_OK : psctl_connect(c);
    if (code != PSCTL_OK) {
        return code;
    }
    ps_status st = out_queue != NULL ? ps_queue_find(c->session, c->argv[0], out_queue) : PS_NOT_FOUND;
    if (st != PS_OK && st != PS_UNAVAILABLE && st != PS_DEADLINE_EXCEEDED) {
        st = ps_variable_find(c->session, c->argv[0], out);
    }
    if (st != PS_OK) {
        say_not_found(c, st);
        return PSCTL_FAILED;
    }
    return PSCTL_OK;
}
