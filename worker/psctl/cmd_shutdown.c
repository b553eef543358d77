/* SPDX-License-Identifier: Apache-2.0 */
/* psctl shutdown: tell one task, or all, to finish what is in progress and end. The directory task is told last, because the
 * other tasks need it. Failure modes: exit 2 if no task is given, or it does not exist; exit 1 if a task is down or refuses. */
#include "psctl.h"

static bool confirmed(struct psctl *c, int only)
{
    return only < 0 ? psctl_confirmed(c, "Shut down all %d tasks? What they hold and have not saved is lost.", c->task_count)
                    : psctl_confirmed(c, "Shut down %s (%s)? What it holds and has not saved is lost.",
                                      ps_cluster_task_name(c->session, only), c->infos[only].address);
}

static bool shut_down(const struct psctl *c, int i)
{
    const char *name = ps_cluster_task_name(c->session, i);
    char error[512] = "";
    if (!c->infos[i].up) {
        (void)snprintf(error, sizeof(error), "%s", c->infos[i].error);
    } else if (ps_task_shutdown(c->session, i, psctl_left_ms(c)) != PS_OK) {
        (void)psctl_change_error(c, error, sizeof(error));
    }
    bool ok = error[0] == '\0';
    if (c->json) {
        cli_json_put(NULL, json_pack("{s:s, s:o, s:b, s:o*}", "name", name, "address", cli_json_text(c->infos[i].address), "ok",
                                     ok, "error", ok ? NULL : cli_json_text(error)));
    } else if (ok) {
        (void)printf("%s (%s) is shutting down\n", name, c->infos[i].address);
    }
    if (!ok) {
        (void)fprintf(stderr, "psctl: %s (%s): %s\n", name, c->infos[i].address, error);
    }
    return ok;
}

static enum psctl_exit run_shutdown(struct psctl *c)
{
    bool failed = false;
    if (c->all && c->argc > 0) {
        return psctl_misused(c, "shutdown takes a task or --all, not both");
    }
    if (!c->all && c->argc == 0) {
        return psctl_misused(c, "shutdown: say which task, such as ps:1, or --all; psctl status lists them");
    }
    enum psctl_exit code = psctl_begin(c);
    if (code != PSCTL_OK) {
        return code;
    }
    int only = -1;
    if (!psctl_only_task(c, c->argv[0], &only)) {
        return PSCTL_USAGE;
    }
    if (!confirmed(c, only)) {
        return PSCTL_FAILED;
    }
    psctl_answer(c);
    if (c->json) {
        cli_json_list("tasks");
    }
    for (int round = 0; round < 2; round++) { /* round 1: the directory */
        for (int i = 0; i < c->task_count; i++) {
            if ((only < 0 || only == i) && c->infos[i].directory == (round == 1)) {
                failed = !shut_down(c, i) || failed;
            }
        }
    }
    if (c->json) {
        cli_json_end();
    }
    psctl_answer_end(c);
    return failed ? PSCTL_FAILED : PSCTL_OK;
}

const struct psctl_verb psctl_verb_shutdown = {
    .name = "shutdown",
    .look = "status",
    .arguments = "TASK",
    .summary = "let a task, or all with --all, finish and end",
    .args_max = 1,
    .flags = PSCTL_FLAG(ALL) | PSCTL_FLAG(YES),
    .words = "task",
    .run = run_shutdown,
    .help = "TASK, such as ps:1, or with --all every task of the cluster, the directory last. What they hold in memory is\n"
            "lost. Asks first on a terminal; elsewhere --all needs --yes.\n",
};
