/* SPDX-License-Identifier: Apache-2.0 */
/* psctl set-lr: replace the learning rate that a program has given its optimizer, while it trains; --clear brings the program's
 * rate back. The rate is set at the variable's task, with --all at all tasks at once. Failure modes, exit 1: no such variable
 * (the nearest name is printed); it has no optimizer, or one that refuses the rate; --all: nothing to set, or a task is down. */
#include "psctl.h"

#include "common/optimizer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static enum psctl_exit set_all(struct psctl *c, const double *rate)
{
    uint64_t count = 0;
    enum psctl_exit code = psctl_connect(c);
    if (code != PSCTL_OK) {
        return code;
    }
    const char *container = c->container != NULL ? c->container : PSCTL_CONTAINER_DEFAULT;
    ps_status st = ps_set_rates(c->session, container, rate, 0, &count);
    if (st != PS_OK) {
        return psctl_change_failed(c, st);
    }
    if (c->json) {
        cli_json_print(json_pack("{s:s, s:I, s:o}", "container", container, "variables", (json_int_t)count, "rate",
                                 rate != NULL ? cli_json_f64(*rate) : json_null()));
    } else if (rate != NULL) {
        (void)printf("container '%s': learning rate %.15g for %" PRIu64 " variable%s\n", container, *rate, count,
                     count == 1 ? "" : "s");
    } else {
        (void)printf("container '%s': the optimizer's own learning rate for %" PRIu64 " variable%s\n", container, count,
                     count == 1 ? "" : "s");
    }
    return PSCTL_OK;
}

static enum psctl_exit set_one(struct psctl *c, const double *rate)
{
    ps_variable *v = NULL;
    char where[PSCTL_WHERE_MAX];
    enum psctl_exit code = psctl_find_variable(c, &v);
    if (code != PSCTL_OK) {
        return code;
    }
    ps_status st = ps_variable_set_rate(v, rate);
    if (st != PS_OK) {
        return psctl_change_failed(c, st);
    }
    if (c->json) {
        cli_json_print(json_pack("{s:s, s:s, s:s, s:o*, s:o}", "name", ps_variable_name(v), "container", ps_variable_container(v),
                                 "device", ps_variable_device(v), "parts", psctl_parts(v), "rate",
                                 rate != NULL ? cli_json_f64(*rate) : json_null()));
    } else if (rate != NULL) {
        (void)printf("%s %s: learning rate %.15g\n", ps_variable_name(v), psctl_where(v, where), *rate);
    } else {
        (void)printf("%s %s: the optimizer's own learning rate\n", ps_variable_name(v), psctl_where(v, where));
    }
    return PSCTL_OK;
}

static enum psctl_exit run_set_lr(struct psctl *c)
{
    double rate = 0;
    char *end = NULL;
    int given = c->argc - (c->all ? 0 : 1);
    if (given != (c->clear ? 0 : 1)) {
        return psctl_misused(c, "set-lr takes NAME or --all, and a RATE or --clear; see psctl set-lr --help");
    }
    if (!c->clear) {
        const char *text = c->argv[c->argc - 1];
        errno = 0;
        rate = strtod(text, &end);
        if (end == text || *end != '\0') {
            psctl_error(c, PS_INVALID_ARGUMENT, "'%.100s' is no learning rate", text);
            return PSCTL_FAILED;
        }
    }
    return c->all ? set_all(c, c->clear ? NULL : &rate) : set_one(c, c->clear ? NULL : &rate);
}

const struct psctl_verb psctl_verb_set_lr = {
    .name = "set-lr",
    .look = "vars",
    .arguments = "[NAME] [RATE]",
    .summary = "a learning rate in place of an optimizer's",
    .args_max = 2,
    .flags = PSCTL_FLAG(ALL) | PSCTL_FLAG(CLEAR) | PSCTL_FLAG(CONTAINER),
    .words = "variable",
    .run = run_set_lr,
    .help = "For variable NAME, or with --all for every variable of a container that has an optimizer, in place of its rate and\n"
            "of its schedule: from the next push\n"
            "that begins, in rounds from the next one that is closed, which --all waits for: all tasks have it from the same\n"
            "round on. It stays when the chief is started anew, until\n"
            "--clear (without RATE) brings the program's own back; `psctl vars` shows both. Does not ask.\n",
};
