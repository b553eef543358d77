/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of containers session/...: requests that name such a container carry its key (docs/PROTOCOL.md, section 3).
 *
 * Happy path: a session has a container and its key from the start, and sends both in HELLO -> an executor that works for the
 * session gets both, and adds them to its own session -> CREATE, FIND, OPEN and DELETE carry the key. Failure: the server refuses
 * a request without the right key with PERMISSION_DENIED; the client checks nothing.
 */
#include "client.h"

#include "common/mem.h"

#include <string.h>

static struct psi_client_key *key_find(const struct psi_client *c, const char *container)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &c->keys) {
        struct psi_client_key *k = PSI_CONTAINER_OF(it, struct psi_client_key, link);
        if (strcmp(k->container, container) == 0) {
            return k;
        }
    }
    return NULL;
}

void psi_client_own_container(const struct psi_client *c, char out_name[PSI_SESSION_CONTAINER_BYTES],
                              uint8_t out_key[PSI_KEY_BYTES])
{
    memcpy(out_name, c->own_container, PSI_SESSION_CONTAINER_BYTES);
    memcpy(out_key, c->own_key, PSI_KEY_BYTES);
}

void psi_client_add_key(struct psi_client *c, struct psi_client_key *key)
{
    struct psi_client_key *before = key_find(c, key->container);
    if (before == NULL) {
        key->uses = 1;
        psi_list_push_front(&c->keys, &key->link);
        return;
    }
    before->uses++;
    memcpy(before->key, key->key, sizeof(before->key)); /* the key may have changed since: the newest one is valid */
    psi_free(key);
}

void psi_client_drop_key(struct psi_client *c, const char *container)
{
    struct psi_client_key *k = key_find(c, container);
    if (k != NULL && --k->uses == 0) {
        psi_list_remove(&k->link);
        psi_free(k);
    }
}

void psi_client_give_key(const struct psi_client *c, const char *container, pb_bytes_array_t *key)
{
    if (!psi_container_is_session(container)) {
        return;
    }
    const struct psi_client_key *k = strcmp(container, c->own_container) == 0 ? NULL : key_find(c, container);
    const uint8_t *from = k != NULL ? k->key : strcmp(container, c->own_container) == 0 ? c->own_key : NULL;
    if (from != NULL) {
        key->size = PSI_KEY_BYTES;
        memcpy(key->bytes, from, PSI_KEY_BYTES);
    }
}

void psi_var_give_key(const struct psi_client *c, const struct psi_var *var, pb_bytes_array_t *key)
{
    if (var->keyed) {
        key->size = PSI_KEY_BYTES;
        memcpy(key->bytes, var->key, PSI_KEY_BYTES);
    } else {
        psi_client_give_key(c, var->container, key);
    }
}
