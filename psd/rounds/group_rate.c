/* SPDX-License-Identifier: Apache-2.0 */
/* SET_RATE for a container in rounds, at the directory (rounds.h): all owners take the learning rate with one and the same round.
 * The client's request has a random token. The directory notes the rate and answers UNAVAILABLE, until a repetition of the
 * request finds the rate in force. The next attempt to close the round sends the rate with its orders; each owner builds new
 * values with the rate, and keeps the rate from the commit on.
 *
 * In two cases the answer is OK at once: if no round can be closed soon, or if the round waits for a worker of the asking
 * process. Then no round is closed for a second (HOLD_MS), in which the client sets the rate at each task.
 *
 * Failure: an attempt that fails changes no rate; the next attempt sends the rate again. A restarted directory has forgotten the
 * rate. If the client stops asking, the rate is forgotten after ASKED_MS. */
#include "groups.h"

#include "psd/rpc/handlers.h"

#include <stdio.h>

enum { RETRY_MS = 50, ASKED_MS = 2000 /* a rate is forgotten this long after its last request */, HOLD_MS = 1000 };

/* True if the round can be closed soon: rounds are open, and enough members are complete or not lost. */
static bool goes_on(const struct psd_group *g)
{
    uint32_t living = 0;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        const struct psd_group_member *m = PSI_CONTAINER_OF(it, struct psd_group_member, link);
        living += m->active && (!m->lost || m->complete);
    }
    return g->opened && !g->failing && living > 0 && living >= psd_group_needed(g);
}

/* True if the round waits for a worker of the asking process, which may contribute only after SET_RATE is answered. */
static bool waits_for_asker(const struct psd_group *g, const struct psd_record *asker)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        const struct psd_group_member *m = PSI_CONTAINER_OF(it, struct psd_group_member, link);
        if (m->active && !m->complete && m->process == psd_group_process(asker)) {
            return true;
        }
    }
    return false;
}

static ps_status ask(struct psd_task *t, struct psd_group *g, const struct psd_record *asker, const struct psd_group_rate *want,
                     struct psi_err *err)
{
    bool closes = g->phase == PSD_GROUP_PREPARING || g->phase == PSD_GROUP_COMMITTING;
    char text[PSD_NAMES_BYTES];
    if (g->phase == PSD_GROUP_SETTING || g->phase == PSD_GROUP_RECOVERING) {
        return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_NOT_READY, "the owners of container '%s' have not all answered yet",
                           g->container);
    }
    if (g->options.mode != PSD_SYNC_ROUNDS || g->rate_done == want->token) {
        return PS_OK;
    }
    if (!closes && (!goes_on(g) || waits_for_asker(g, asker))) {
        g->hold_until_ms = t->now_ms + HOLD_MS;
        return PS_OK;
    }
    if (g->rate_asked.token != want->token) { /* an equal token is a repeated request, which was logged before */
        char who[96], rate[32];
        PSI_IGNORE(snprintf(rate, sizeof(rate), "%g", want->rate)); /* fits */
        psd_log(t, PSI_LOG_INFO, "rate_asked", PSI_KV("peer", psd_record_text(asker, who, sizeof(who))),
                PSI_KV("container", g->container), PSI_KV("round", g->round), PSI_KV("rate", rate));
    }
    g->rate_asked = *want;
    return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_NOT_READY,
                       "the learning rate changes when round %llu of container '%s' is closed, which waits for %s",
                       (unsigned long long)g->round, g->container, psd_group_missing_text(t, g, text, sizeof(text)));
}

static ps_status set_rate(struct psd_task *t, const struct psd_conn *c, const struct psd_request *r, const ps_v1_SetRate *m,
                          struct psi_err *err)
{
    ps_v1_ContainerItem item;
    char container[PS_CONTAINER_BYTES_MAX + 1], buffer[PSI_ERR_TEXT_MAX / 2];
    struct psd_names missing = PSD_NAMES_IN(buffer);
    const struct psd_group_rate want = {.token = m->token, .rate = m->clear ? 0 : m->rate, .until_ms = t->now_ms + ASKED_MS};
    ps_status st = psd_item_only(r, &ps_v1_ContainerItem_msg, &item, "container", NULL, err);
    st = st == PS_OK ? psd_container_parse((const pb_bytes_array_t *)&item.container, container, err) : st;
    st = st == PS_OK ? psd_session_refuse(container, "learning rates", err) : st;
    st = st == PS_OK ? psd_rate_check(want.rate, err) : st;
    struct psd_group *g = st == PS_OK ? psd_group_find(t, container) : NULL;
    if (st == PS_OK && g == NULL && psd_lists_missing(t, &missing)) {
        if (psd_peers_begun(t, err) == PS_FAILED_PRECONDITION) { /* err says why tasks have not reported */
            return PS_FAILED_PRECONDITION;
        }
        return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_NOT_CONNECTED,
                           "the directory waits for the list of %s: rounds of container '%s' may be there",
                           psd_names_text(&missing), container);
    }
    return g == NULL ? st : ask(t, g, c->record, &want, err);
}

void psd_rpc_rate(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    ps_v1_SetRate m;
    struct psi_err err;
    const uint64_t none = 0;
    const struct ps_reply_meta meta = {.result_bytes = sizeof(none)};
    if (psi_msg_decode(&ps_v1_SetRate_msg, &m, r->meta, r->header.meta_bytes, &err) != PS_OK || m.name.size > 0 || m.token == 0 ||
        !t->is_directory) {
        psd_rpc_set_rate(t, c, r); /* this sets the rate at this task only */
        return;
    }
    ps_status st = set_rate(t, c, r, &m, &err);
    psd_reply(t, c, PS_OP_SET_RATE, 0, r->header.id, 0, st == PS_OK ? NULL : &err, st == PS_UNAVAILABLE ? RETRY_MS : 0,
              st == PS_OK ? &meta : NULL, (const uint8_t *)&none);
}
