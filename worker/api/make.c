/* SPDX-License-Identifier: Apache-2.0 */
/* Short forms for programs. ps_variable_make() gets a variable and initialises it even if it has a value, as in TensorFlow; its
 * errors stick to the session. ps_optimizer_*() make an optimizer from a text; their errors do not stick. */
#include "api.h"
#include "common/abi.h"
#include "common/optimizer.h"
#include "common/schedule.h"

#include <stddef.h>
#include <string.h>

ps_status ps_optimizer_parse(const char *text, double rate, ps_optimizer *optimizer, size_t optimizer_bytes)
{
    struct psi_err err = {0};
    ps_optimizer made = {.learning_rate = rate};
    ps_status st = psi_struct_bytes_check(optimizer_bytes, "ps_optimizer_parse", &err);
    if (st == PS_OK && (text == NULL || optimizer == NULL)) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "ps_optimizer_parse(): text and optimizer must not be NULL");
    }
    st = st == PS_OK ? psi_optimizer_parse(text, &made, &err) : st;
    st = st == PS_OK ? psi_optimizer_check(&made, PS_F32, &err) : st;
    if (st == PS_OK) {
        made.struct_bytes = optimizer_bytes;
        psi_struct_give(optimizer, optimizer_bytes, 0, &made, sizeof(made));
    }
    return psi_api_result(&err, st);
}

ps_status ps_optimizer_schedule(const char *text, ps_optimizer *optimizer, size_t optimizer_bytes)
{
    struct psi_err err = {0};
    ps_optimizer made = {.kind = PS_OPT_NONE};
    ps_status st = psi_struct_bytes_check(optimizer_bytes, "ps_optimizer_schedule", &err);
    if (st == PS_OK && (text == NULL || optimizer == NULL || optimizer_bytes < sizeof(made))) {
        st = psi_fail(
            &err, PS_INVALID_ARGUMENT,
            "ps_optimizer_schedule(): text and optimizer must not be NULL, and optimizer_bytes must be sizeof(ps_optimizer)");
    }
    if (st == PS_OK) {
        memcpy(&made, optimizer, sizeof(made));
        st = psi_schedule_parse(text, &made, &err);
    }
    st = st == PS_OK ? psi_optimizer_check(&made, PS_F32, &err) : st;
    if (st == PS_OK) {
        memcpy(optimizer, &made, sizeof(made));
        optimizer->struct_bytes = optimizer_bytes;
    }
    return psi_api_result(&err, st);
}

ps_variable *ps_variable_make(ps_session *s, const char *name, ps_shape shape, const ps_initializer *init,
                              const ps_optimizer *optimizer)
{
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_F32;
    spec.shape = shape;
    spec.init = init;
    spec.optimizer = optimizer;
    ps_status st = ps_variable_get(s, &spec, &v);
    st = st == PS_OK ? ps_variable_init(v, true) : st;
    if (st != PS_OK) {
        PSI_IGNORE(ps_session_fail(s, st, ps_last_error())); /* NULL tells the caller */
    }
    return st == PS_OK ? v : NULL;
}
