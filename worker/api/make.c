/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A variable that a program makes as TensorFlow's: got, and initialised even if it has a value. Errors stick to the session.
 */
#include "common/status.h"
#include "worker/ps.h"

#include <stddef.h>

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
