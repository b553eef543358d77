/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of ps_export and ps_import share: a folder, a model, what a call must have said. Included by one .c file each.
 */
#ifndef FILES_TEST_H
#define FILES_TEST_H

#include "api_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BIG = (9 << 20) / 4 + 3 }; /* elements of float32: many pieces, all but the last of 256 KiB */

static char folder[128];
static char file_path[160];

static inline ps_session *open_in(const char *container)
{
    ps_session_options o;
    ps_session *s = NULL;
    char error[512];
    ps_session_options_init(&o);
    o.target = cluster.address[1];
    o.operation_timeout_ms = 5000;
    o.container = container;
    o.log = no_log;
    assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_OK);
    return s;
}

static void good(ps_status st)
{
    if (st != PS_OK) {
        fail_msg("%s: %s", ps_status_name(st), ps_last_error());
    }
}

static inline void refused(ps_status st, ps_status expected, const char *says)
{
    if (st != expected || strstr(ps_last_error(), says) == NULL) {
        fail_msg("%s: %s; expected %s: %s", ps_status_name(st), ps_last_error(), ps_status_name(expected), says);
    }
}

static inline void put_text(const char *text)
{
    FILE *f = fopen(file_path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static inline float element(int i)
{
    return (float)(i % 4093) - 7.5F;
}

static const bool flags_value[3] = {true, false, true};
static const double exact_value[2] = {1.0 / 3, -1e300};

/* Six variables in this order, so on tasks 0 1 0 1 0 1. */
static inline void make_model(ps_session *s)
{
    float *values = malloc(BIG * sizeof(*values));
    const int32_t few[4] = {1, -2, INT32_MAX, INT32_MIN};
    const float bias[3] = {-0.0F, 1e-42F, 3};
    const int64_t step = 1234567890123;
    for (int i = 0; i < BIG; i++) {
        values[i] = element(i);
    }
    good(
        ps_variable_init_from(get(s, "z/big", PS_F32, PS_SHAPE(BIG), ps_adagrad_from(0.25, 0.5)), values, BIG * sizeof(*values)));
    good(ps_variable_init_from(get(s, "a/flags", PS_BOOL, PS_SHAPE(3), NULL), flags_value, sizeof(flags_value)));
    good(ps_variable_init_from(get(s, "m", PS_F64, PS_SHAPE(1, 2), ps_adam_with(0.1, 0.8, 0.9, 1e-3)), exact_value, 16));
    good(ps_variable_init_from(get(s, "b", PS_I32, PS_SHAPE(2, 2), NULL), few, sizeof(few)));
    good(ps_variable_init_from(get(s, "bias", PS_F32, PS_SHAPE(3), ps_nesterov(0.5, 0.9)), bias, sizeof(bias)));
    good(ps_variable_init_from(get(s, "global_step", PS_I64, PS_SCALAR, NULL), &step, sizeof(step)));
    free(values);
}

static int setup_files(void **state)
{
    const char *base = getenv("TMPDIR");
    (void)snprintf(folder, sizeof(folder), "%.80s/psd-files-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    (void)snprintf(file_path, sizeof(file_path), "%s/m.safetensors", folder);
    return setup(state);
}

static int teardown_files(void **state)
{
    return rmdir(folder) != 0 ? -1 : teardown(state);
}

#endif
