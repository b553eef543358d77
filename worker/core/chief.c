/* SPDX-License-Identifier: Apache-2.0 */
/* The chief is the session that may initialise the model. It holds a lease (core.h: PSI_CHIEF_LEASE), which the directory grants
 * with a number that rises from chief to chief. All requests of a chief carry this number, and the owners of variables refuse
 * lower numbers. Happy path: the session that psi_chief_preferred() names claims the lease when it needs the chief, for READY; it
 * is then HELD. All other sessions are WAITING: the answers to their beats say how long the lease of the chief lasts, and after
 * this time they claim it. Only the chief's beats renew the lease. Failure: after a restart of the directory, or if this process
 * stood still for longer than the lease, the chief claims again with its number. If the directory names another chief, the
 * session is WAITING. A session claims a higher number if it recovers from a loss, or if a task refuses its requests as chief. A
 * session that may not be chief is NEVER. */
#include "client.h"

#include <stdio.h>
#include <string.h>

enum { RETRY_MS = PSI_CHIEF_RETRY_MS };

#define TO(state) (1u << PSI_CHIEF_##state)
static const uint8_t WAYS[PSI_CHIEF_STATES] = {
    [PSI_CHIEF_NONE] = TO(ASKING) | TO(WAITING) | TO(NEVER),
    [PSI_CHIEF_ASKING] = TO(HELD) | TO(WAITING) | TO(NEVER),
    [PSI_CHIEF_WAITING] = TO(HELD) | TO(NEVER),
    [PSI_CHIEF_HELD] = TO(ASKING) | TO(WAITING) | TO(NEVER),
};

void psi_chief_move(struct psi_chief *h, enum psi_chief_state to, uint64_t until_ms)
{
    PSI_ASSERT((WAYS[h->state] >> to & 1u) != 0);
    h->state = to;
    h->until_ms = until_ms;
    if (to == PSI_CHIEF_WAITING || to == PSI_CHIEF_NEVER) {
        h->number = 0;
        h->renew = false;
    }
}

static bool is_evaluator(const struct psi_client *c)
{
    return strcmp(c->job, "evaluator") == 0;
}

/* True if this session is to claim the lease before others: a session without a job; the task that the cluster spec names as
 * chief (psi_cluster_chief()); if the spec names none, task 0 of a job. False for an evaluator. */
bool psi_chief_preferred(const struct psi_client *c)
{
    const char *job = NULL;
    uint32_t task = 0;
    if (c->job[0] == '\0' || is_evaluator(c)) {
        return c->job[0] == '\0';
    }
    if (!c->known || !psi_cluster_chief(&c->cluster, &job, &task)) {
        return c->task == 0;
    }
    return c->task == task && strcmp(c->job, job) == 0;
}

bool psi_client_is_chief(const struct psi_client *c)
{
    return c->chief_mode == PSI_CHIEF_LEASE ? c->chief.state == PSI_CHIEF_HELD : psi_chief_preferred(c);
}

bool psi_client_leads(const struct psi_client *c)
{
    return c->chief_mode == PSI_CHIEF_LEASE && c->chief.state == PSI_CHIEF_NONE ? psi_chief_preferred(c) : psi_client_is_chief(c);
}

bool psi_chief_settled(const struct psi_client *c)
{
    return c->chief_mode == PSI_CHIEF_STATIC || (c->chief.state != PSI_CHIEF_NONE && c->chief.state != PSI_CHIEF_ASKING);
}

void psi_chief_want(struct psi_client *c, const char *container)
{
    struct psi_chief *h = &c->chief;
    if (h->state != PSI_CHIEF_NONE) {
        return;
    }
    /* beats name this container from now on, and their answers say who is its chief */
    snprintf(h->container, sizeof(h->container), "%s", container);
    if (c->chief_mode == PSI_CHIEF_STATIC) {
        return;
    }
    /* ask for a higher number: requests that the session sent under the old one before its recovery may still arrive */
    h->renew = h->number != 0;
    if (is_evaluator(c)) {
        psi_chief_move(h, PSI_CHIEF_NEVER, UINT64_MAX);
    } else if (h->renew || psi_chief_preferred(c)) {
        psi_chief_move(h, PSI_CHIEF_ASKING, c->now_ms);
    } else {
        psi_chief_move(h, PSI_CHIEF_WAITING, UINT64_MAX);
    }
}

static void note_holder(struct psi_chief *h, const pb_bytes_array_t *text)
{
    if (psi_bytes_text(text, h->holder, sizeof(h->holder)) != PS_OK) {
        h->holder[0] = '\0';
    }
}

void psi_chief_granted(struct psi_client *c, uint64_t number)
{
    struct psi_chief *h = &c->chief;
    bool anew = h->number != number;
    if (h->state != PSI_CHIEF_HELD) {
        psi_chief_move(h, PSI_CHIEF_HELD, UINT64_MAX);
    }
    h->until_ms = UINT64_MAX;
    h->number = number;
    h->renew = false;
    if (anew) {
        psi_client_log(c, PSI_LOG_INFO, "chief", PSI_KV("container", h->container), PSI_KV("number", number),
                       PSI_KV("after", h->holder[0] != '\0' ? h->holder : "nobody"));
    }
    h->holder[0] = '\0';
}

void psi_chief_lost(struct psi_client *c, const char *why)
{
    struct psi_chief *h = &c->chief;
    psi_client_log(c, PSI_LOG_WARN, "chief_lost", PSI_KV("container", h->container), PSI_KV("number", h->number),
                   PSI_KV("why", why));
    psi_chief_move(h, PSI_CHIEF_WAITING, UINT64_MAX);
}

void psi_chief_not_granted(struct psi_client *c, const ps_v1_ChiefAnswer *m)
{
    struct psi_chief *h = &c->chief;
    uint64_t wait = m->left_ms > RETRY_MS ? m->left_ms : RETRY_MS;
    note_holder(h, (const pb_bytes_array_t *)(const void *)&m->holder);
    if (h->number != 0) {
        psi_chief_lost(c, h->holder);
    } else if (h->state != PSI_CHIEF_WAITING) {
        psi_chief_move(h, PSI_CHIEF_WAITING, UINT64_MAX);
    }
    h->until_ms = c->now_ms + wait;
}

void psi_chief_beaten(struct psi_client *c, const ps_v1_BeatAnswer *m)
{
    struct psi_chief *h = &c->chief;
    if (h->asked) {
        return; /* the answer to this session's claim is still to come, and is newer than this answer to a beat */
    }
    if (h->state == PSI_CHIEF_HELD && m->chief_number > h->number) {
        note_holder(h, (const pb_bytes_array_t *)(const void *)&m->chief);
        psi_chief_lost(c, h->holder);
    } else if (h->state == PSI_CHIEF_HELD && (m->chief_left_ms == 0 || m->chief_number < h->number)) {
        h->until_ms = c->now_ms; /* the directory has forgotten the lease: claim now */
    }
    if (h->state != PSI_CHIEF_WAITING) {
        return;
    }
    /* true: the last answer said too that no session holds the lease, and the time of this session's claim is set */
    bool told = h->holder[0] == '\0' && h->until_ms != UINT64_MAX;
    note_holder(h, (const pb_bytes_array_t *)(const void *)&m->chief);
    if (m->chief_left_ms > 0) {
        h->until_ms = c->now_ms + m->chief_left_ms;
    } else if (!told) {
        h->until_ms = c->now_ms;
    }
}

void psi_chief_confirm(struct psi_client *c)
{
    struct psi_chief *h = &c->chief;
    if (h->state == PSI_CHIEF_HELD) {
        h->until_ms = c->now_ms;
    }
}

void psi_chief_doubt(struct psi_client *c)
{
    struct psi_chief *h = &c->chief;
    if (h->state == PSI_CHIEF_HELD) {
        psi_chief_move(h, PSI_CHIEF_ASKING, c->now_ms);
    }
}

void psi_chief_seen(struct psi_client *c, uint64_t number)
{
    c->chief.seen = number > c->chief.seen ? number : c->chief.seen;
}

void psi_chief_refused(struct psi_client *c, uint64_t number)
{
    struct psi_chief *h = &c->chief;
    if (h->state == PSI_CHIEF_HELD && h->number == number) {
        h->renew = true;
        psi_chief_doubt(c);
    }
}

void psi_chief_leave(struct psi_client *c)
{
    if (c->chief_mode == PSI_CHIEF_LEASE && c->chief.state != PSI_CHIEF_NEVER) {
        psi_chief_move(&c->chief, PSI_CHIEF_NEVER, UINT64_MAX);
    }
}
