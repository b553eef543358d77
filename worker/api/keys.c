/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The container of a session, and the keys of other sessions' containers, for plans and for executors.
 *
 * Happy path: requests to the loop thread, in the order of the calls: what is got after psi_session_add_key() carries the key.
 * Failure modes: the session is closed: FAILED_PRECONDITION; no memory: RESOURCE_EXHAUSTED. Errors do not stick to the session.
 */
#include "lock.h"

#include "common/mem.h"
#include "common/name.h"

#include <stdio.h>
#include <string.h>

struct key_work {
    struct psi_io_work work;
    ps_session *session;
    struct psi_client_key *key;                  /* ADD: gives */
    char container[PSI_SESSION_CONTAINER_BYTES]; /* DROP: the container; OWN: the answer */
    uint8_t own_key[PSI_KEY_BYTES];              /* OWN: the answer */
    bool over;                                   /* OWN: the answer is there; under the lock */
};

/* False: the session has no loop any more. */
static bool submit(ps_session *s, struct key_work *w)
{
    w->session = s;
    return psi_api_hand_over(s, &w->work);
}

static void say_own(struct psi_io_work *work, struct psi_client *c)
{
    struct key_work *w = PSI_CONTAINER_OF(work, struct key_work, work);
    psi_client_own_container(c, w->container, w->own_key);
    psi_api_landed(w->session, &w->over);
}

static void add(struct psi_io_work *work, struct psi_client *c)
{
    struct key_work *w = PSI_CONTAINER_OF(work, struct key_work, work);
    psi_client_add_key(c, w->key);
    psi_api_landed(w->session, &w->over);
    psi_free(w);
}

static void drop(struct psi_io_work *work, struct psi_client *c)
{
    struct key_work *w = PSI_CONTAINER_OF(work, struct key_work, work);
    psi_client_drop_key(c, w->container);
    psi_api_landed(w->session, &w->over);
    psi_free(w);
}

static ps_status closed(struct psi_err *err)
{
    return psi_fail(err, PS_FAILED_PRECONDITION, "the session is closed");
}

ps_status psi_session_container(ps_session *s, char out_name[PSI_SESSION_CONTAINER_BYTES], uint8_t out_key[PSI_KEY_BYTES],
                                struct psi_err *err)
{
    struct key_work w = {.work.run = say_own};
    if (!submit(s, &w)) {
        return closed(err);
    }
    psi_api_await_over(s, &w.over);
    memcpy(out_name, w.container, sizeof(w.container));
    memcpy(out_key, w.own_key, sizeof(w.own_key));
    return PS_OK;
}

static ps_status tell(ps_session *s, struct key_work *w, struct psi_err *err)
{
    if (submit(s, w)) {
        return PS_OK;
    }
    psi_free(w->key);
    psi_free(w);
    return closed(err);
}

ps_status psi_session_add_key(ps_session *s, const char *container, const uint8_t key[PSI_KEY_BYTES], struct psi_err *err)
{
    if (!psi_container_is_session(container) || strlen(container) >= PSI_SESSION_CONTAINER_BYTES) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "container '%.63s' belongs to no session", container);
    }
    struct key_work *w = psi_calloc(1, sizeof(*w));
    struct psi_client_key *k = psi_calloc(1, sizeof(*k));
    if (w == NULL || k == NULL) {
        psi_free(w);
        psi_free(k);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the key of container '%s'", container);
    }
    memcpy(k->container, container, strlen(container) + 1);
    memcpy(k->key, key, sizeof(k->key));
    w->key = k;
    w->work.run = add;
    return tell(s, w, err);
}

ps_status psi_session_drop_key(ps_session *s, const char *container, struct psi_err *err)
{
    struct key_work *w = psi_calloc(1, sizeof(*w));
    if (w == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory");
    }
    PSI_IGNORE(snprintf(w->container, sizeof(w->container), "%s", container)); /* a longer name cannot have been added */
    w->work.run = drop;
    return tell(s, w, err);
}
