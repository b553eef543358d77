/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of containers session/..., each of which belongs to one session: requests that name such a container carry its key
 * (docs/PROTOCOL.md, section 3). Happy path: a session chooses its container and key at its start, and sends both in HELLO. A
 * task that executes operations for the session gets both, and sends the key in FIND and OPEN. Failure: the server refuses a
 * request without the right key with PERMISSION_DENIED; the client checks nothing. */
#include "client.h"

#include <string.h>

void psi_client_own_container(const struct psi_client *c, char out_name[PSI_SESSION_CONTAINER_BYTES],
                              uint8_t out_key[PSI_KEY_BYTES])
{
    memcpy(out_name, c->own_container, PSI_SESSION_CONTAINER_BYTES);
    memcpy(out_key, c->own_key, PSI_KEY_BYTES);
}

void psi_client_give_key(const struct psi_client *c, const char *container, pb_bytes_array_t *key)
{
    if (strcmp(container, c->own_container) == 0) {
        key->size = PSI_KEY_BYTES;
        memcpy(key->bytes, c->own_key, PSI_KEY_BYTES);
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
