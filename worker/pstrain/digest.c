/* SPDX-License-Identifier: Apache-2.0 */
/* The SHA-256 of a model's variables and slots (digest.h). Failure, which is printed: no memory, or a variable cannot be read. */
#include "digest.h"

#include "say.h"
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ps_status add_variable(ps_session *s, const char *name, struct sha256 *sum)
{
    ps_variable *v = NULL;
    ps_status st = ps_variable_find(s, name, &v);
    size_t bytes = st == PS_OK ? ps_variable_bytes(v) : 0;
    void *data = malloc(bytes + 1);
    if (data == NULL) {
        return PS_RESOURCE_EXHAUSTED;
    }
    st = st == PS_OK ? ps_variable_read(v, data, bytes) : st;
    sha256_add(sum, name, strlen(name) + 1);
    for (uint32_t slot = 0; st == PS_OK && bytes > 0; slot++) {
        sha256_add(sum, data, bytes);
        bytes = ps_variable_slot_bytes(v, slot);
        st = bytes > 0 ? ps_variable_read_slot(v, slot, data, bytes) : PS_OK; /* bytes is 0: the variable has no more slots */
    }
    free(data);
    return st;
}

int digest_params(ps_session *s, const struct model_spec *spec, char hex[SHA256_HEX_BYTES])
{
    struct sha256 sum;
    char name[MODEL_NAME_BYTES];
    char what[MODEL_NAME_BYTES + 64];
    sha256_init(&sum);
    for (int i = 0; i < model_variable_count(spec); i++) {
        ps_status st = add_variable(s, model_variable_name(spec, i / 2, i % 2 != 0, name), &sum);
        if (st != PS_OK) {
            (void)snprintf(what, sizeof(what), "params_sha256: %s cannot be read", name);
            return session_call_failed(st, what);
        }
    }
    sha256_end(&sum, hex);
    return 0;
}
