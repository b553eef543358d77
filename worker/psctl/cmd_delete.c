/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psctl delete: remove one variable from the cluster.
 * Happy path: find it -> ask on a terminal -> delete it. Failure modes: no such variable, its task is down; exit 1.
 */
#include "psctl.h"

#include "value.h"

static enum psctl_exit run_delete(struct psctl *c)
{
    ps_variable *v = NULL;
    char shape[192];
    enum psctl_exit code = psctl_find_variable(c, &v);
    if (code != PSCTL_OK) {
        return code;
    }
    if (!psctl_confirmed(c, "Delete %s, %s %s in container '%s', with its slots?", ps_variable_name(v),
                         ps_dtype_name(ps_variable_dtype(v)), psi_shape_format(ps_variable_shape(v), shape, sizeof(shape)),
                         ps_variable_container(v))) {
        return PSCTL_FAILED;
    }
    ps_status st = ps_variable_delete(c->session, c->argv[0]);
    if (st != PS_OK) {
        return psctl_last_failed(c, st);
    }
    if (c->json) {
        cli_json_print(json_pack("{s:s, s:s, s:s, s:b}", "name", ps_variable_name(v), "container", ps_variable_container(v),
                                 "device", ps_variable_device(v), "deleted", true));
    } else {
        (void)printf("%s on %s is deleted\n", ps_variable_name(v), ps_variable_device(v));
    }
    return PSCTL_OK;
}

const struct psctl_verb psctl_verb_delete = {
    .name = "delete",
    .arguments = "NAME",
    .summary = "remove a variable",
    .args_min = 1,
    .args_max = 1,
    .flags = PSCTL_FLAG(CONTAINER) | PSCTL_FLAG(YES),
    .words = "variable",
    .run = run_delete,
    .help = "The variable, its slots and its name are gone; programs that use it get ABORTED. Asks first on a\n"
            "terminal.\n",
};
