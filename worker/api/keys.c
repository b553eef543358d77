/* SPDX-License-Identifier: Apache-2.0 */
/* The container of a session and its key, for plans. Happy path: the loop thread copies both. Failure modes: those of
 * psi_api_call_run(), which do not stick to the session. */
#include "api.h"

struct own {
    char *name;
    uint8_t *key;
};

static ps_status say_own(struct psi_api_call *call, struct psi_err *err)
{
    const struct own *own = call->arg;
    (void)err;
    psi_client_own_container(call->client, own->name, own->key);
    return PS_OK;
}

ps_status psi_session_container(ps_session *s, char out_name[PSI_SESSION_CONTAINER_BYTES], uint8_t out_key[PSI_KEY_BYTES],
                                struct psi_err *err)
{
    struct own own = {.name = out_name, .key = out_key};
    struct psi_api_call call = {.session = s, .prepare = say_own, .arg = &own};
    return psi_api_call_run(&call, err);
}
