/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is there something new? Before each attempt that is not forced, all tasks of the job say whether the newest whole checkpoint
 * has all that they have (TASK_SAVED, DURABILITY 6.9).
 *
 * Happy path: no task has anything new. That checkpoint is the answer to the clients that asked, and no other one is made.
 * Where a task has something new, the attempt begins. TASK_SAVED goes out after the requests of those clients came in, so a
 * task sees whatever was done before them. Failure: a task is lost meanwhile. The tasks are asked again when all are connected.
 */
#include "saver.h"
#include "loader.h"

/* The look is over. The clients that asked wait for the attempt: something is new (news), or the tasks are to be asked
 * again. */
static void look_over(struct psd_task *t, bool news)
{
    struct psd_saver *s = t->saver;
    psd_saver_move(s, PSD_SAVER_IDLE);
    psd_saver_wants(s, news ? PSD_SAVER_ANYWAY : PSD_SAVER_IF_NEW);
    psd_saver_ask_again(s);
}

void psd_saver_look_lost(struct psd_task *t, const struct psd_peer *p)
{
    struct psd_saver *s = t->saver;
    struct psi_err err;
    char who[PS_ADDRESS_BYTES_MAX + PSI_TASK_NAME_MAX + 8];
    PSI_IGNORE(psi_fail_as(&err, PS_UNAVAILABLE, PS_REASON_NOT_CONNECTED, "%s was lost before it had said whether it has changed",
                           psd_peer_text(t, p, who, sizeof(who)))); /* the clients that asked are told */
    psd_saver_move(s, PSD_SAVER_IDLE);
    psd_saver_count_anew(t);
    if (!psi_list_empty(&s->served) || psd_saver_have_news(t)) {
        psd_saver_failed(t, 0, &err);
        psd_saver_note_failed(t);
    }
    psd_saver_ask_again(s); /* the next look serves these requests, if nothing is lost with that task */
}

/* The checkpoint about which the tasks are asked. Where none is whole it is a number that no checkpoint has. */
static uint64_t look_number(const struct psd_task *t)
{
    uint64_t newest = psd_saver_newest(t);
    return newest != 0 ? newest : psd_saver_highest(t) + 1;
}

/* The newest checkpoint has all that the tasks have. It is the answer, and no other one is made. */
static void nothing_new(struct psd_task *t)
{
    struct psd_saver *s = t->saver;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &s->served) {
        struct psd_wait *w = PSI_CONTAINER_OF(it, struct psd_need, at)->wait;
        w->result = s->looked_at;
        w->has_result = true;
    }
    if (psd_saver_known(t, s->looked_at) != NULL) {
        psd_log(t, PSI_LOG_INFO, "checkpoint_unchanged", PSI_KV("checkpoint", s->looked_at));
    }
    psd_saver_move(s, PSD_SAVER_IDLE);
    s->failed_ms = 0;
    s->last_failed = false;
    psd_saver_count_anew(t);
    psd_wait_over(t, &s->served);
}

void psd_saver_looked(struct psd_task *t, uint32_t peer, const struct psi_err *err)
{
    struct psd_saver *s = t->saver;
    bool has = err == NULL || (err->code == PS_NOT_FOUND && psi_list_empty(&s->served));
    s->peers[peer].done = true;
    if (!has) {
        look_over(t, true);
    } else if (psd_saver_all_done(t) && s->looked_at != look_number(t)) {
        look_over(t, false); /* the checkpoint was deleted meanwhile, or a part of it is lost */
    } else if (psd_saver_all_done(t)) {
        nothing_new(t);
    }
}

void psd_saver_look(struct psd_task *t)
{
    struct psd_saver *s = t->saver;
    s->want = PSD_SAVER_NOT_WANTED;
    if (!t->draining) { /* a directory that is to end answers no client, and makes its last checkpoint */
        psi_list_move_all(&s->served, &s->asked);
    }
    psd_saver_move(s, PSD_SAVER_LOOKING);
    s->begun_ms = t->now_ms;
    s->looked_at = look_number(t);
    psd_saver_clear_done(t);
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (t->peers[i].own_job) {
            (void)psd_saver_tell(t, &t->peers[i], PS_OP_TASK_SAVED, s->looked_at, false);
        }
    }
}
