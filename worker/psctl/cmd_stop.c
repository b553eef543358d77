/* SPDX-License-Identifier: Apache-2.0 */
/* psctl stop: make ps_should_stop() true in every worker, by the directory task. Failure mode, exit 1: a task is down. If it is
 * that task, the other tasks tell the sessions that they know, and psctl says so. */
#include "psctl.h"

#include <inttypes.h>

static enum psctl_exit stop(struct psctl *c)
{
    uint32_t sessions = 0;
    if (!psctl_confirmed(c, "Tell every worker of this cluster to stop?")) {
        return PSCTL_FAILED;
    }
    /* half of the time: if the directory is silent, ps_stop() asks the other tasks for as long again */
    ps_status st = ps_stop(c->session, psctl_left_ms(c) / 2, &sessions);
    if (st != PS_OK) {
        return psctl_change_failed(c, st);
    }
    sessions -= sessions > 0 ? 1 : 0; /* leave psctl's own session out of the printed number */
    if (c->json) {
        cli_json_print(json_pack("{s:I}", "sessions", (json_int_t)sessions));
    } else {
        (void)printf("%" PRIu32 " session%s told to stop\n", sessions, sessions == 1 ? " was" : "s were");
    }
    (void)fflush(stdout);
    bool up = psctl_all_up(c, -1);
    if (psctl_directory(c) < 0) {
        psctl_note(c, "the directory does not answer: the other tasks have told those that they know, at least so many");
    }
    return up ? PSCTL_OK : PSCTL_FAILED;
}

const struct psctl_verb psctl_verb_stop = {
    .name = "stop",
    .look = "workers",
    .arguments = "",
    .summary = "tell every worker to stop",
    .flags = PSCTL_FLAG(YES),
    .words = "",
    .show = stop,
    .help = "ps_should_stop() becomes true in every session that the directory knows now; training loops end after their\n"
            "step. The tasks go on. While the directory is down the other tasks tell the sessions that they know. Asks\n"
            "first on a terminal.\n",
};
