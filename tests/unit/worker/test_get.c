/* SPDX-License-Identifier: Apache-2.0 */
/* Variables that are got together (get.c): what fails has its own error, and parameters are got when they are needed. */
#include "scope_test.h"

enum { COUNT = 4 };

/* One of the four cannot be had; the others are got. */
TEST(one_of_many_fails)
{
    ps_session *s = open_plain();
    ps_variable *out[COUNT] = {NULL};
    ps_variable_spec specs[COUNT];
    (void)get(s, "many/b"); /* of two elements */
    for (int i = 0; i < COUNT; i++) {
        static const char *const names[COUNT] = {"many/a", "many/b", "many/c", "many//d"};
        specs[i] = spec_of(names[i]);
    }
    specs[1].shape = PS_SHAPE(3);
    assert_int_equal(ps_variables_get(s, specs, 3, out), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "'many/b'"));
    assert_non_null(strstr(ps_last_error(), "SHAPE_MISMATCH"));
    refused(s, &specs[1], PS_INVALID_ARGUMENT, "'many/b'"); /* alone it fails likewise */
    assert_string_equal(ps_variable_name(out[0]), "many/a");
    assert_null(out[1]);
    assert_string_equal(ps_variable_name(out[2]), "many/c");
    specs[1].shape = PS_SHAPE(2);
    assert_int_equal(ps_variables_get(s, specs, COUNT, out), PS_INVALID_ARGUMENT); /* the last one's name */
    assert_non_null(strstr(ps_last_error(), "spec 3: "));
    assert_true(out[0] != NULL && out[1] != NULL && out[2] != NULL && out[3] == NULL);
    assert_int_equal(ps_session_status(s), PS_OK); /* none is sticky */
    close_ok(s);
}

/* Specs of a newer header are larger; the step from one to the next is their own size. */
TEST(specs_of_a_newer_header)
{
    ps_session *s = open_plain();
    struct {
        ps_variable_spec spec;
        uint64_t more[2];
    } specs[2];
    ps_variable *out[2] = {NULL};
    memset(specs, 0, sizeof(specs));
    for (int i = 0; i < 2; i++) {
        specs[i].spec = spec_of(i == 0 ? "newer/a" : "newer/b");
        specs[i].spec.struct_bytes = sizeof(specs[0]);
    }
    assert_int_equal(ps_variables_get(s, &specs[0].spec, 2, out), PS_OK);
    assert_string_equal(ps_variable_name(out[1]), "newer/b");
    out[1] = NULL;
    specs[1].spec.struct_bytes = sizeof(ps_variable_spec);
    assert_int_equal(ps_variables_get(s, &specs[0].spec, 2, out), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "spec 1: struct_bytes"));
    specs[0].spec.struct_bytes = 0;
    assert_int_equal(ps_variables_get(s, &specs[0].spec, 2, out), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "ps_variable_spec_init"));
    assert_int_equal(ps_variables_get(s, NULL, 1, out), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_variables_get(s, &specs[0].spec, 1, NULL), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_variables_get(s, NULL, 0, NULL), PS_OK);
    close_ok(s);
}

/* The same name with another shape: the error comes when it is got, names the parameter, and is the session's. */
TEST(the_error_of_a_parameter_sticks)
{
    ps_session *s = open_plain();
    ps_variable *v = NULL;
    (void)get(s, "stick/w");
    ps_param *good = ps_param_get(s, "stick/v", PS_SHAPE(2), ps_zeros(), ps_sgd(1));
    ps_param *bad = ps_param_get(s, "stick/w", PS_SHAPE(5), ps_zeros(), ps_no_optimizer());
    assert_int_equal(ps_session_status(s), PS_OK);
    ps_variable_spec spec = spec_of("stick/other");
    assert_int_equal(ps_variable_get(s, &spec, &v), PS_OK); /* both go with it; it is not theirs to fail */
    assert_int_equal(ps_session_status(s), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_session_error(s), "ps_param_get: get of 'stick/w'"));
    assert_non_null(strstr(ps_session_error(s), "SHAPE_MISMATCH"));
    ((float *)ps_param_grad(good))[1] = 1; /* harmless */
    ((float *)ps_param_value(bad))[4] = 1; /* harmless */
    assert_int_equal(ps_push(s, bad), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_close(s), PS_INVALID_ARGUMENT);
}

/* What has to exist is found, also when this session's own parameters are yet to be created. */
TEST(shared_weights_are_looked_up)
{
    ps_session *s = open_plain();
    ps_param *first = ps_param_get(s, "shared/w", PS_SHAPE(2), ps_ones(), ps_sgd(1));
    assert_int_equal(ps_variable_scope_push(s, NULL, PS_REUSE_ALWAYS), PS_OK);
    ps_param *second = ps_param_get(s, "shared/w", PS_SHAPE(2), ps_ones(), ps_sgd(1));
    assert_int_equal(ps_variable_scope_pop(s), PS_OK);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(ps_pull(s), PS_OK);
    assert_true(((float *)ps_param_value(first))[1] == 1 && ((float *)ps_param_value(second))[1] == 1);
    assert_int_equal(ps_variable_scope_push(s, NULL, PS_REUSE_ALWAYS), PS_OK);
    (void)ps_param_get(s, "shared/nobody", PS_SHAPE(2), ps_ones(), ps_sgd(1));
    assert_int_equal(ps_session_status(s), PS_NOT_FOUND); /* at once */
    assert_int_equal(ps_session_close(s), PS_NOT_FOUND);
}
