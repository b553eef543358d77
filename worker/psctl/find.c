/* SPDX-License-Identifier: Apache-2.0 */
/* Find the variable or queue that a command line names, and say where a variable is. Failure mode: no such name: print the
 * library's text, and as a hint the nearest name, or another container that has it, within the rest of the command's time. */
#include "psctl.h"

#include <string.h>

struct search {
    const char *name, *container;
    char near[256];
    char elsewhere[64]; /* a container in which the name exists; "": no container */
};

static void each(void *ctx, const ps_variable_info *info)
{
    struct search *s = ctx;
    ps_variable_info whole = *info;
    ps_variable_info_whole(&whole);
    if (strcmp(info->container, s->container) != 0) {
        if (strcmp(whole.name, s->name) == 0) {
            (void)snprintf(s->elsewhere, sizeof(s->elsewhere), "%s", info->container);
        }
        return;
    }
    psctl_nearer(s->name, whole.name, s->near, sizeof(s->near));
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
            break; /* the hint is made from the answers of the tasks that were asked before */
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

const char *psctl_where(const ps_variable *v, char buf[PSCTL_WHERE_MAX])
{
    const uint32_t parts = ps_variable_partitions(v);
    if (parts > 0) {
        (void)snprintf(buf, PSCTL_WHERE_MAX, "in %u parts", parts);
    } else {
        (void)snprintf(buf, PSCTL_WHERE_MAX, "on %s", ps_variable_device(v));
    }
    return buf;
}

json_t *psctl_parts(const ps_variable *v)
{
    const uint32_t parts = ps_variable_partitions(v);
    json_t *list = parts > 0 ? json_array() : NULL;
    for (uint32_t i = 0; i < parts; i++) {
        (void)json_array_append_new(list, json_string(ps_variable_device(ps_variable_partition(v, i))));
    }
    return list;
}
