/* SPDX-License-Identifier: Apache-2.0 */
/* CHIEF: which session is the chief of a container, and so may make its variables ready. The chief holds the container's lease.
 *
 * Happy path: a session claims the lease, which no session holds. It gets a number above all numbers given before, and holds the
 * lease while it is heard. Its INITs and SEALs carry the number; an owner refuses numbers below the highest that it has seen. A
 * CHIEF request without `claim` gets a number although another session holds the lease; owners then refuse the other session.
 *
 * Failure: while a session of another task holds the lease, a new session does not get it, and a former chief, which sends its
 * number, gets ABORTED. UNAVAILABLE while a task has not sent its list, because it may know a higher number.
 *
 * A restarted directory does not know the present chief. If the container has had a chief, the lease is first granted one lease
 * time after the start: until then this chief can send its number. If it has had none, or only a checkpoint tells of one
 * (psd_chief.saved), a session with `preferred` gets the lease at once, another session one lease time after the first claim. */
#include "directory.h"

#include "common/mem.h"
#include "common/name.h"

#include <stdio.h>
#include <string.h>

enum { LISTS_RETRY_MS = 100, FIRST_NUMBER_BITS = 20 };

/* True if both sessions are of the same task (job and index), and so count as one chief. */
static bool is_same(const struct psd_record *a, const struct psd_record *b)
{
    return a == b || (a->job[0] != '\0' && a->task == b->task && strcmp(a->job, b->job) == 0);
}

/* Set *out to a number above `floor` and all known ones: the wall-clock time in ms, which is probably also above numbers of
 * earlier directory processes. If the clock is behind the highest known number, *out is that number + 1. If another process gave
 * that number, a random count is added, because it may have given the next numbers, too. */
static ps_status next_number(struct psd_task *t, uint64_t floor, uint64_t *out, struct psi_err *err)
{
    uint64_t highest = floor > t->chief_number ? floor : t->chief_number;
    uint64_t unix_ms = t->config.unix_ms == 0 ? 0 : t->config.unix_ms + (t->now_ms - t->started_ms);
    uint64_t skip = highest == t->chief_own && highest != 0 ? 0 : psd_random(t) >> (64 - FIRST_NUMBER_BITS);
    *out = unix_ms > highest ? unix_ms : highest + 1 + skip;
    return *out <= PS_CHIEF_NUMBER_MAX
               ? PS_OK
               : psi_fail(err, PS_RESOURCE_EXHAUSTED, "there is no chief number above %llu", (unsigned long long)highest);
}

static ps_status grant(struct psd_task *t, struct psd_conn *c, const char *container, uint64_t number, ps_v1_ChiefAnswer *a,
                       struct psi_err *err)
{
    ps_status st = psd_chief_set(t, container, c->record, number, c->text, err);
    if (st == PS_OK) {
        a->granted = true;
        a->number = number;
        psd_log(t, PSI_LOG_INFO, "chief", PSI_KV("peer", c->text), PSI_KV("container", container), PSI_KV("number", number));
    }
    return st;
}

static ps_status grant_next(struct psd_task *t, struct psd_conn *c, const char *container, uint64_t floor, ps_v1_ChiefAnswer *a,
                            struct psi_err *err)
{
    uint64_t number = 0;
    ps_status st = next_number(t, floor, &number, err);
    st = st == PS_OK ? grant(t, c, container, number, a, err) : st;
    t->chief_own = st == PS_OK ? number : t->chief_own;
    return st;
}

static ps_status fail_newer(const struct psd_task *t, const struct psd_chief *chief, const ps_v1_Chief *m, struct psi_err *err)
{
    /* with `renew` m->number may be another session's, so the text leaves it out */
    char own[48] = "";
    if (!m->renew) {
        (void)snprintf(own, sizeof(own), ", this session %llu", (unsigned long long)m->number);
    }
    return psi_fail_as(err, PS_ABORTED, PS_REASON_NEWER_CHIEF,
                       "another session is the chief of container '%s' now: %s has number %llu%s (%s)", chief->container,
                       chief->text[0] == '\0' ? "one" : chief->text, (unsigned long long)chief->number, own, t->name);
}

static ps_status check_known(uint64_t number, struct psi_err *err)
{
    return number <= PS_CHIEF_NUMBER_MAX
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT, "chief number %llu: no directory has given it", (unsigned long long)number);
}

/* Handle a claim by a session that was chief before; m->number is the chief number that it had then. */
static ps_status claim_again(struct psd_task *t, struct psd_conn *c, const char *container, const ps_v1_Chief *m,
                             ps_v1_ChiefAnswer *a, struct psi_err *err)
{
    const struct psd_chief *chief = psd_chief_find(&t->chiefs, container);
    const struct psd_record *holder = chief == NULL ? NULL : psd_chief_holder(t, chief);
    bool other = holder != NULL && !is_same(holder, c->record);
    if (m->number > t->chief_number) {
        struct psd_change known = {.kind = PSD_CHANGE_CHIEF, .chief = {.number = m->number}};
        psd_commit(t, &known);
    }
    if (other || (chief != NULL && m->number < chief->number)) {
        return fail_newer(t, chief, m, err);
    }
    return m->renew ? grant_next(t, c, container, m->number, a, err) : grant(t, c, container, m->number, a, err);
}

/* Compute the time in ms until this free lease may be granted; 0: now. */
static uint64_t too_early_ms(const struct psd_task *t, const struct psd_chief *chief, bool preferred)
{
    bool first = chief == NULL || chief->number == 0 || chief->saved;
    if (chief != NULL && psd_chief_is_given(chief)) { /* this process has granted the lease before: older chiefs are refused */
        return 0;
    }
    if (first && preferred) {
        return 0;
    }
    uint64_t since_ms = !first ? t->started_ms : chief == NULL || chief->asked_ms == 0 ? t->now_ms : chief->asked_ms;
    uint64_t free_ms = since_ms + t->config.lease_ms;
    return free_ms > t->now_ms ? free_ms - t->now_ms : 0;
}

/* Handle a claim by a session that was not chief before. */
static ps_status claim_first(struct psd_task *t, struct psd_conn *c, const char *container, const ps_v1_Chief *m,
                             ps_v1_ChiefAnswer *a, struct psi_err *err)
{
    const struct psd_chief *chief = psd_chief_find(&t->chiefs, container);
    const struct psd_record *holder = chief == NULL ? NULL : psd_chief_holder(t, chief);
    bool same = holder != NULL && is_same(holder, c->record);
    if (holder != NULL && !same) {
        a->left_ms = holder->lease_until_ms - t->now_ms;
        PSI_IGNORE(PSI_BYTES_SET(a->holder, chief->text)); /* fits */
        return PS_OK;
    }
    a->left_ms = same ? 0 : too_early_ms(t, chief, m->preferred);
    if (a->left_ms == 0) {
        return grant_next(t, c, container, 0, a, err);
    }
    if (chief == NULL) {
        ps_status st = psd_chief_set(t, container, NULL, 0, "", err);
        if (st != PS_OK) {
            return st;
        }
    }
    chief = psd_chief_find(&t->chiefs, container);
    if (chief->asked_ms == 0) {
        psd_chief_asked(chief, t->now_ms);
    }
    return PS_OK;
}

static ps_status claim(struct psd_task *t, struct psd_conn *c, const char *container, const ps_v1_Chief *m, ps_v1_ChiefAnswer *a,
                       struct psi_err *err)
{
    char buffer[PSI_ERR_TEXT_MAX / 2];
    struct psd_names missing = PSD_NAMES_IN(buffer);
    if (psd_lists_missing(t, &missing)) {
        return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_NOT_CONNECTED,
                           "the directory waits for %s: there may be a chief of container '%s' already", psd_names_text(&missing),
                           container);
    }
    return m->number != 0 ? claim_again(t, c, container, m, a, err) : claim_first(t, c, container, m, a, err);
}

void psd_rpc_chief(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    ps_v1_Chief m;
    ps_v1_ContainerItem item;
    ps_v1_ChiefAnswer a = ps_v1_ChiefAnswer_init_zero;
    char container[PS_CONTAINER_BYTES_MAX + 1];
    bool none = false;
    struct psi_err err;
    ps_status st = psi_msg_decode(&ps_v1_Chief_msg, &m, r->meta, r->header.meta_bytes, &err);
    if (st == PS_OK) {
        st = psd_item_only(r, &ps_v1_ContainerItem_msg, &item, "container", &none, &err);
    }
    if (st == PS_OK) {
        item.container.size = none ? 0 : item.container.size;
        st = psd_container_parse((const pb_bytes_array_t *)(const void *)&item.container, container, &err);
        st = st == PS_OK ? psd_session_refuse(container, "chief", &err) : st;
    }
    if (st == PS_OK) {
        st = check_known(m.number, &err);
    }
    if (st == PS_OK) {
        st = m.claim ? claim(t, c, container, &m, &a, &err) : grant_next(t, c, container, m.number, &a, &err);
    }
    if (st != PS_OK) {
        psd_reply(t, c, PS_OP_CHIEF, 0, r->header.id, 0, &err, st == PS_UNAVAILABLE ? LISTS_RETRY_MS : 0, NULL, NULL);
    } else {
        psd_list_one(t, c, PS_OP_CHIEF, PS_FLAG_REPLY, r->header.id, &ps_v1_ChiefAnswer_msg, &a);
    }
}
