/* SPDX-License-Identifier: Apache-2.0 */
/* psctl delete: find a variable or queue by name, ask on a terminal, delete it. Exit 1: no such name; its task is down. */
#include "psctl.h"

#include "value.h"

#include <inttypes.h>

struct thing {
    ps_variable *variable;
    ps_queue *queue;
};

static bool confirmed(struct psctl *c, const struct thing *thing)
{
    const ps_variable *v = thing->variable;
    char shape[192];
    uint64_t size = 0;
    if (v != NULL) {
        return psctl_confirmed(c, "Delete %s, %s %s in container '%s', with its slots%s?", ps_variable_name(v),
                               ps_dtype_name(ps_variable_dtype(v)), psi_shape_format(ps_variable_shape(v), shape, sizeof(shape)),
                               ps_variable_container(v), ps_variable_partitions(v) > 0 ? " and all its parts" : "");
    }
    if (ps_queue_size(thing->queue, &size) != PS_OK) {
        return psctl_confirmed(c, "Delete queue %s, with its elements?", ps_queue_name(thing->queue));
    }
    return psctl_confirmed(c, "Delete queue %s, with %" PRIu64 " element%s?", ps_queue_name(thing->queue), size,
                           size == 1 ? "" : "s");
}

static enum psctl_exit run_delete(struct psctl *c)
{
    struct thing thing = {.variable = NULL};
    enum psctl_exit code = psctl_find(c, &thing.variable, &thing.queue);
    if (code != PSCTL_OK) {
        return code;
    }
    if (!confirmed(c, &thing)) {
        return PSCTL_FAILED;
    }
    ps_status st = ps_variable_delete(c->session, c->argv[0]);
    if (st != PS_OK) {
        return psctl_change_failed(c, st);
    }
    bool queue = thing.queue != NULL;
    const char *name = queue ? ps_queue_name(thing.queue) : ps_variable_name(thing.variable);
    const char *device = queue ? ps_queue_device(thing.queue) : ps_variable_device(thing.variable);
    char where[PSCTL_WHERE_MAX];
    if (c->json) {
        cli_json_print(json_pack("{s:s, s:s, s:s, s:o*, s:b}", "name", name, "container",
                                 c->container != NULL ? c->container : PSCTL_CONTAINER_DEFAULT, "device", device, "parts",
                                 psctl_parts(thing.variable), "deleted", true));
    } else if (queue) {
        (void)printf("%s on %s is deleted\n", name, device);
    } else {
        (void)printf("%s %s is deleted\n", name, psctl_where(thing.variable, where));
    }
    return PSCTL_OK;
}

const struct psctl_verb psctl_verb_delete = {
    .name = "delete",
    .look = "vars, or queues",
    .arguments = "NAME",
    .summary = "remove a variable or a queue",
    .args_min = 1,
    .args_max = 1,
    .flags = PSCTL_FLAG(CONTAINER) | PSCTL_FLAG(YES),
    .words = "variable",
    .run = run_delete,
    .help = "The variable, its slots, all its parts and its name are gone; programs that use it get ABORTED. Of a queue its "
            "elements\n"
            "go, and who waits at it gets CANCELLED. Asks first on a terminal.\n",
};
