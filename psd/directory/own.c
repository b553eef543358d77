/* SPDX-License-Identifier: Apache-2.0 */
/* The containers of sessions (tests/models/own_model.py; docs/PROTOCOL.md, section 3): who may create there, and their end.
 *
 * Happy path: HELLO names the session's own container and its key (psd_record.own, t->owners), and each CREATE repeats the key.
 * When the session has said GOODBYE, or its lease is over, the next tick that examines the container resets it on the connected
 * tasks, and waits for no other task. Then the container's names are forgotten. Failure:
 * - A task that was away lists a container whose session has ended: a later tick resets it, because no session claims it.
 * - A restarted directory knows no session yet: a container that no session claims is kept for a lease and GRACE_MS.
 * - A task was restarted: its names in sessions' containers are forgotten, because no checkpoint has them. */
#include "directory.h"

#include "common/name.h"

#include <string.h>

/* ms within which a client that has lost the directory connects again: two attempts, with their jitter */
enum { GRACE_MS = 3 * PS_RECONNECT_MAX_MS };

static struct psd_own own_of(const char *container, const uint8_t key[PSI_KEY_BYTES])
{
    struct psd_own own;
    memset(&own, 0, sizeof(own));
    memcpy(own.container, container, strnlen(container, sizeof(own.container)));
    memcpy(own.key, key, sizeof(own.key));
    return own;
}

bool psd_own_lives(const struct psd_task *t, const char *container, const uint8_t key[PSI_KEY_BYTES])
{
    const struct psd_own own = own_of(container, key);
    const struct psd_record *r = psi_map_find(&t->owners, &own, sizeof(own));
    return r != NULL && r->lease_until_ms > t->now_ms;
}

ps_status psd_own_create_check(const struct psd_task *t, const struct psd_create *item, struct psi_err *err)
{
    if (!psi_container_is_session(item->container)) {
        return PS_OK;
    }
    const struct psd_names_in *in = psd_directory_names_in(&t->names, item->container);
    bool other = in != NULL && memcmp(in->key, item->key, sizeof(in->key)) != 0;
    if (!other && psd_own_lives(t, item->container, item->key)) {
        return PS_OK;
    }
    ps_status st = psd_key_denied(item->container, err);
    psi_err_prefix(err, "variable '%s'", item->name);
    return st;
}

ps_status psd_own_owner_check(const struct psd_peer *owner, const struct psd_create *item, struct psi_err *err)
{
    if ((owner->features & PS_FEATURE_SESSION_CONTAINERS) != 0 || !psi_container_is_session(item->container)) {
        return PS_OK;
    }
    return psi_fail_as(err, PS_UNIMPLEMENTED, PS_REASON_FEATURE,
                       "variable '%s': /job:%s/task:%u is of a release without containers of sessions; upgrade it", item->name,
                       owner->job, owner->task);
}

ps_status psd_own_name_check(const struct psd_task *t, const ps_v1_NameItem *item, const char *container, struct psi_err *err)
{
    uint8_t key[PSI_KEY_BYTES];
    ps_status st = psd_key_parse((const pb_bytes_array_t *)(const void *)&item->key, container, key, err);
    if (st != PS_OK || !psi_container_is_session(container)) {
        return st;
    }
    const struct psd_names_in *in = psd_directory_names_in(&t->names, container);
    return in == NULL || memcmp(in->key, key, sizeof(key)) == 0 ? PS_OK : psd_key_denied(container, err);
}

/* Looks at tasks of all jobs, because variables in a session's container may be pinned to a task of any job. */
bool psd_own_lists_missing(const struct psd_task *t, const char *container, struct psd_names *names)
{
    if (!psi_container_is_session(container) || t->now_ms - t->started_ms >= (uint64_t)t->config.lease_ms + GRACE_MS) {
        return false;
    }
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        if (!p->own_job && !p->heard) {
            psd_names_add(names, "/job:%s/task:%u", p->job, p->task);
        }
    }
    return names->used > 0;
}

void psd_own_list_end(struct psd_task *t, const struct psd_peer *peer)
{
    for (uint32_t left = t->names.of_sessions; left > 0; left--) {
        const struct psd_names_in *in = psd_names_next_session(&t->names);
        const struct psd_name *n = psd_names_in_first(in);
        while (n != NULL) {
            const struct psd_name *next =
                psd_names_in_next(in, n); /* read before the commit, which frees `in` when its last name is forgotten */
            if (n->owner == peer->index && n->life != peer->life && n->asked != peer->life) {
                struct psd_change c = {.kind = PSD_CHANGE_NAME_FORGET, .name = {.container = n->container, .name = n->name}};
                psd_commit(t, &c);
            }
            n = next;
        }
    }
}

/* True if the container's session has ended, as far as this directory process knows. */
static bool is_over(const struct psd_task *t, struct psd_names_in *in)
{
    if (psd_own_lives(t, in->container, in->key)) {
        in->claimed = true;
        in->unclaimed_ms = 0;
        return false;
    }
    in->unclaimed_ms = in->unclaimed_ms == 0 ? t->now_ms : in->unclaimed_ms;
    return in->claimed || t->now_ms - in->unclaimed_ms >= (uint64_t)t->config.lease_ms + GRACE_MS;
}

void psd_own_tick(struct psd_task *t)
{
    const uint32_t looks = t->config.tick_looks, all = t->is_directory ? t->names.of_sessions : 0;
    for (uint32_t left = all < looks ? all : looks; left > 0 && t->names.of_sessions > 0; left--) {
        struct psd_names_in *in = psd_names_next_session(&t->names);
        if (is_over(t, in)) {
            psd_reset_own(t, in->container); /* may free `in` with its last name */
        }
    }
}
