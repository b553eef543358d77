/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/api/scope.c and reset.c against servers in this process: prefixes, automatic and unique names, reuse, containers,
 * delete and resets.
 */
#include "scope_test.h"

/* ---- names ---- */

TEST(scopes_make_prefixes)
{
    ps_session *s = open_plain();
    ps_variable *found = NULL;
    assert_string_equal(ps_variable_name(get(s, "x")), "x");
    assert_int_equal(ps_variable_scope_push(s, "my_problem_1", PS_REUSE_AUTO), PS_OK);
    assert_string_equal(ps_variable_name(get(s, "x")), "my_problem_1/x");
    assert_int_equal(ps_variable_scope_push(s, "a/b", PS_REUSE_AUTO), PS_OK);
    assert_string_equal(ps_variable_name(get(s, "x")), "my_problem_1/a/b/x");
    assert_int_equal(ps_variable_scope_push(s, NULL, PS_REUSE_AUTO), PS_OK);
    assert_string_equal(ps_variable_name(get(s, "y")), "my_problem_1/a/b/y");
    assert_int_equal(ps_variable_find(s, "x", &found), PS_OK);
    assert_string_equal(ps_variable_name(found), "my_problem_1/a/b/x");
    assert_int_equal(ps_variable_scope_pop(s), PS_OK);
    assert_int_equal(ps_variable_scope_pop(s), PS_OK);
    ps_param *p = ps_param_get(s, "p", PS_SHAPE(2), ps_zeros(), ps_sgd(1));
    assert_string_equal(ps_param_name(p), "my_problem_1/p");
    ps_variable *step = NULL;
    assert_int_equal(ps_global_step_get(s, &step), PS_OK);
    assert_string_equal(ps_variable_name(step), "global_step");
    assert_int_equal(ps_variable_delete(s, "x"), PS_OK); /* my_problem_1/x */
    assert_int_equal(ps_variable_scope_pop(s), PS_OK);
    assert_int_equal(ps_variable_find(s, "my_problem_1/x", &found), PS_NOT_FOUND);
    assert_int_equal(ps_variable_find(s, "my_problem_1/a/b/x", &found), PS_OK);
    assert_int_equal(ps_variable_find(s, "x", &found), PS_OK);
    close_ok(s);
}

TEST(automatic_names)
{
    ps_session *s = open_plain();
    assert_string_equal(ps_variable_name(get(s, NULL)), "Variable");
    assert_string_equal(ps_variable_name(get(s, "")), "Variable_1");
    assert_string_equal(ps_variable_name(get(s, "Variable_3")), "Variable_3");
    assert_string_equal(ps_variable_name(get(s, NULL)), "Variable_2");
    assert_string_equal(ps_variable_name(get(s, NULL)), "Variable_4");
    assert_int_equal(ps_variable_scope_push(s, "scope", PS_REUSE_AUTO), PS_OK);
    assert_string_equal(ps_variable_name(get(s, NULL)), "scope/Variable");
    assert_string_equal(ps_variable_name(get(s, NULL)), "scope/Variable_1");
    assert_int_equal(ps_container_push(s, "other"), PS_OK);
    assert_string_equal(ps_variable_name(get(s, NULL)), "scope/Variable"); /* no name of this container is got yet */
    assert_int_equal(ps_container_pop(s), PS_OK);
    assert_int_equal(ps_variable_scope_pop(s), PS_OK);
    ps_variable_spec spec = spec_of("w");
    spec.unique = true;
    assert_string_equal(ps_variable_name(get_spec(s, &spec)), "w");
    assert_string_equal(ps_variable_name(get_spec(s, &spec)), "w_1");
    assert_string_equal(ps_variable_name(get_spec(s, &spec)), "w_2");
    spec.unique = false;
    assert_string_equal(ps_variable_name(get_spec(s, &spec)), "w");
    close_ok(s);
}

/* The next try gets the automatic name that the failed one had, as other workers do. */
TEST(a_failed_get_gives_its_name_back)
{
    ps_session *s = open_plain();
    ps_session *other = open_plain();
    ps_variable_spec bad = spec_of(NULL);
    bad.shape = PS_SHAPE(5);
    (void)get(other, "Variable_1");
    assert_string_equal(ps_variable_name(get(s, NULL)), "Variable");
    refused(s, &bad, PS_INVALID_ARGUMENT, "'Variable_1'");
    assert_string_equal(ps_variable_name(get(s, NULL)), "Variable_1");
    assert_string_equal(ps_variable_name(get(s, NULL)), "Variable_2");
    bad.shape.dims[0] = -1;
    refused(s, &bad, PS_INVALID_ARGUMENT, "'Variable_3'");
    bad.name = "Variable";
    assert_int_equal(ps_variable_scope_push(s, "never", PS_REUSE_NEVER), PS_OK);
    refused(s, &bad, PS_INVALID_ARGUMENT, "'never/Variable'");
    assert_string_equal(ps_variable_name(get(s, "Variable")), "never/Variable"); /* not got: the first failed */
    close_ok(s);
    close_ok(other);
}

TEST(names_are_checked_with_their_prefix)
{
    ps_session *s = open_plain();
    char scope[300], name[300];
    memset(scope, 's', sizeof(scope));
    memset(name, 'n', sizeof(name));
    scope[200] = '\0';
    name[55] = '\0'; /* 200 + 1 + 55 = 256: one too many */
    assert_int_equal(ps_variable_scope_push(s, scope, PS_REUSE_AUTO), PS_OK);
    ps_variable_spec spec = spec_of(name);
    refused(s, &spec, PS_INVALID_ARGUMENT, "256 bytes");
    name[54] = '\0';
    assert_int_equal(strlen(ps_variable_name(get(s, name))), 255);
    spec.unique = true;
    refused(s, &spec, PS_INVALID_ARGUMENT, "257 bytes");
    spec = spec_of("../x");
    refused(s, &spec, PS_INVALID_ARGUMENT, "'..'");
    spec = spec_of("/x");
    refused(s, &spec, PS_INVALID_ARGUMENT, "empty");
    assert_int_equal(ps_session_status(s), PS_OK);
    close_ok(s);
    for (size_t bytes = 252; bytes <= 255; bytes++) { /* scope + '/' + one byte fit up to 253 */
        memset(scope, 's', sizeof(scope));
        scope[bytes] = '\0';
        s = open_plain();
        assert_int_equal(ps_variable_scope_push(s, scope, PS_REUSE_AUTO), bytes <= 253 ? PS_OK : PS_INVALID_ARGUMENT);
        assert_int_equal(ps_session_close(s), bytes <= 253 ? 0 : PS_INVALID_ARGUMENT); /* sticky */
    }
}

TEST(reuse)
{
    ps_session *s = open_plain();
    ps_session *other = open_plain();
    ps_variable_spec spec = spec_of("v");
    (void)get(other, "m/there");
    assert_int_equal(ps_variable_scope_push(s, "m", PS_REUSE_NEVER), PS_OK);
    (void)get_spec(s, &spec);
    refused(s, &spec, PS_ALREADY_EXISTS, "'m/v'");
    spec.name = "there"; /* the cluster has it, this session has not got it */
    (void)get_spec(s, &spec);
    assert_int_equal(ps_variable_scope_push(s, NULL, PS_REUSE_AUTO), PS_OK); /* inherits */
    refused(s, &spec, PS_ALREADY_EXISTS, "PS_REUSE_NEVER");
    spec.unique = true;
    assert_string_equal(ps_variable_name(get_spec(s, &spec)), "m/there_1");
    spec.unique = false;
    assert_int_equal(ps_variable_scope_push(s, NULL, PS_REUSE_ALWAYS), PS_OK); /* the innermost that is not AUTO */
    ps_variable *there = get_spec(s, &spec);
    assert_string_equal(ps_variable_name(there), "m/there");
    assert_string_equal(ps_variable_requested_device(there), "");
    spec.name = "nowhere";
    refused(s, &spec, PS_NOT_FOUND, "PS_REUSE_ALWAYS");
    spec.name = "v";
    spec.shape = PS_SHAPE(3);
    refused(s, &spec, PS_INVALID_ARGUMENT, "SHAPE_MISMATCH");
    assert_int_equal(ps_variable_scope_pop(s), PS_OK);
    assert_int_equal(ps_variable_scope_pop(s), PS_OK);
    assert_int_equal(ps_variable_scope_pop(s), PS_OK);
    assert_int_equal(ps_variable_find(s, "m/nowhere", &there), PS_NOT_FOUND); /* nothing was created */
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_int_equal(ps_variable_scope_push(s, "m", (ps_reuse)7), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_close(s), PS_INVALID_ARGUMENT);
    close_ok(other);
}

/* What must exist belongs to the session as what it created: READY initialises it. */
TEST(reused_variables_become_ready)
{
    ps_session *a = open_plain();
    ps_session *b = open_plain();
    ps_variable_spec spec = spec_of("w");
    float value[2] = {0};
    spec.init = ps_constant(2.5);
    (void)get_spec(a, &spec);
    assert_int_equal(ps_variable_scope_push(b, NULL, PS_REUSE_ALWAYS), PS_OK);
    ps_variable *w = get_spec(b, &spec);
    assert_int_equal(ps_session_ready(b), PS_OK); /* global_step is created all the same */
    assert_int_equal(ps_variable_read(w, value, sizeof(value)), PS_OK);
    assert_true(value[0] == 2.5f && value[1] == 2.5f);
    close_ok(a);
    close_ok(b);
}

TEST(pops_without_pushes)
{
    ps_status (*const pops[])(ps_session *) = {ps_variable_scope_pop, ps_container_pop, ps_device_pop};
    for (size_t i = 0; i < sizeof(pops) / sizeof(pops[0]); i++) {
        ps_session *s = open_plain();
        assert_int_equal(pops[i](s), PS_FAILED_PRECONDITION);
        assert_non_null(strstr(ps_last_error(), "pop"));
        assert_int_equal(ps_session_status(s), PS_FAILED_PRECONDITION);
        assert_int_equal(ps_session_close(s), PS_FAILED_PRECONDITION);
        assert_int_equal(pops[i](NULL), PS_INVALID_ARGUMENT);
    }
}

/* ---- containers ---- */

TEST(containers_do_not_meet)
{
    ps_session_options o = options_now();
    o.container = "experiment_2";
    ps_session *s = open_with(&o);
    ps_session *plain = open_plain();
    const float one[2] = {1, 1}, two[2] = {2, 2}, three[2] = {3, 3};
    float value[2] = {0};
    ps_variable_spec spec = spec_of("x");
    ps_variable *a = get_spec(s, &spec);
    ps_variable *c = get_spec(plain, &spec);
    assert_int_equal(ps_container_push(s, "inner/c"), PS_OK);
    spec.shape = PS_SHAPE(2, 1); /* another definition is no conflict */
    ps_variable *b = get_spec(s, &spec);
    assert_string_equal(ps_variable_container(a), "experiment_2");
    assert_string_equal(ps_variable_container(b), "inner/c");
    assert_string_equal(ps_variable_container(c), "localhost");
    assert_int_equal(ps_variable_assign(a, one, sizeof(one)), PS_OK);
    assert_int_equal(ps_variable_assign(b, two, sizeof(two)), PS_OK);
    assert_int_equal(ps_variable_assign(c, three, sizeof(three)), PS_OK);
    assert_int_equal(ps_variable_read(a, value, sizeof(value)), PS_OK);
    assert_true(value[0] == 1);
    assert_int_equal(ps_variable_read(b, value, sizeof(value)), PS_OK);
    assert_true(value[0] == 2);
    assert_int_equal(ps_variable_read(c, value, sizeof(value)), PS_OK);
    assert_true(value[0] == 3);
    ps_variable *found = NULL;
    assert_int_equal(ps_variable_find(s, "x", &found), PS_OK);
    assert_string_equal(ps_variable_container(found), "inner/c");
    assert_int_equal(ps_variable_shape(found)->rank, 2);
    assert_int_equal(ps_reset(s), PS_OK); /* of the session's default one, whatever scope is open */
    assert_int_equal(ps_variable_read(a, value, sizeof(value)), PS_ABORTED);
    assert_int_equal(ps_variable_read(b, value, sizeof(value)), PS_OK);
    assert_int_equal(ps_variable_read(c, value, sizeof(value)), PS_OK);
    assert_int_equal(ps_variable_delete(s, "x"), PS_OK); /* in the scope */
    assert_int_equal(ps_variable_read(b, value, sizeof(value)), PS_ABORTED);
    assert_int_equal(ps_variable_read(c, value, sizeof(value)), PS_OK);
    assert_int_equal(ps_variable_delete(s, "x"), PS_NOT_FOUND);
    assert_non_null(strstr(ps_last_error(), "inner/c"));
    close_ok(s);
    close_ok(plain);
}

TEST(a_failed_session_reports_what_was_put_aside)
{
    ps_session *s = open_plain();
    const char *names[8] = {NULL};
    (void)ps_param_get(s, "aside", PS_SHAPE(2), ps_zeros(), ps_sgd(1));
    assert_int_equal(ps_session_fail(s, PS_INVALID_ARGUMENT, "by the test"), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_report_uninitialized(s, names, 8), 1);
    assert_string_equal(names[0], "aside");
    assert_int_equal(ps_session_close(s), PS_INVALID_ARGUMENT);
}

TEST(ready_and_reports_see_all_containers)
{
    ps_session *s = open_plain();
    const char *names[8] = {NULL};
    float value[2];
    (void)get(s, "x");
    assert_int_equal(ps_container_push(s, "c2"), PS_OK);
    ps_variable *x2 = get(s, "x");
    assert_int_equal(ps_variable_scope_push(s, "sub", PS_REUSE_AUTO), PS_OK);
    (void)get(s, "y");
    assert_int_equal(ps_report_uninitialized(s, names, 8), 3);
    assert_string_equal(names[0], "x");
    assert_string_equal(names[1], "x");
    assert_string_equal(names[2], "sub/y");
    assert_int_equal(ps_variable_read(x2, value, sizeof(value)), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(ps_report_uninitialized(s, names, 8), 0);
    assert_int_equal(ps_variable_read(x2, value, sizeof(value)), PS_OK);
    ps_variable *step = NULL;
    assert_int_equal(ps_global_step_get(s, &step), PS_OK);
    assert_string_equal(ps_variable_container(step), "localhost");
    close_ok(s);
}

/* Lost values are named with the container that they were in. */
TEST(half_a_model_names_the_container)
{
    static const char *const lost[] = {"c2"};
    ps_session *s = open_plain();
    (void)get(s, "x");
    assert_int_equal(ps_container_push(s, "c2"), PS_OK);
    (void)get(s, "y");
    assert_int_equal(ps_session_ready(s), PS_OK);
    close_ok(s);
    s = open_plain();
    assert_int_equal(ps_reset_containers(s, lost, 1), PS_OK);
    (void)get(s, "x");
    assert_int_equal(ps_container_push(s, "c2"), PS_OK);
    (void)get(s, "y");
    assert_int_equal(ps_session_ready(s), PS_DATA_LOSS);
    assert_non_null(strstr(ps_session_error(s), "'y' in container 'c2' at /job:ps/task:"));
    assert_null(strstr(ps_session_error(s), "'x' at")); /* it is trained */
    assert_int_equal(ps_session_close(s), PS_DATA_LOSS);
}

TEST(bad_container_names)
{
    static const char *const bad[] = {"", "a b", "../x", "/etc", "a//b", "x\n", "\xc3\xa4"};
    char text[70];
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ps_session_options o = options_now();
        ps_session *s = NULL;
        char error[512] = "";
        o.container = bad[i];
        assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_INVALID_ARGUMENT);
        assert_non_null(strstr(error, "container"));
        s = open_plain();
        const char *const row[] = {"fine", bad[i]};
        ps_variable *v = NULL;
        assert_int_equal(ps_container_push(s, "fine"), PS_OK);
        v = get(s, "v");
        assert_int_equal(ps_reset_containers(s, row, 2), PS_INVALID_ARGUMENT); /* nothing is reset */
        assert_non_null(strstr(ps_last_error(), "allowed are"));
        bool initialised = true;
        assert_int_equal(ps_variable_is_initialized(v, &initialised), PS_OK);
        assert_int_equal(ps_session_status(s), PS_OK);
        assert_int_equal(ps_container_push(s, bad[i]), PS_INVALID_ARGUMENT);
        assert_int_equal(ps_session_close(s), PS_INVALID_ARGUMENT);
    }
    for (size_t n = 62; n <= 64; n++) {
        memset(text, 'c', n);
        text[n] = '\0';
        ps_session *s = open_plain();
        assert_int_equal(ps_container_push(s, text), n <= 63 ? PS_OK : PS_INVALID_ARGUMENT);
        if (n <= 63) {
            assert_string_equal(ps_variable_container(get(s, "v")), text);
        }
        (void)ps_session_close(s);
    }
    ps_session *s = open_plain();
    assert_int_equal(ps_container_push(s, NULL), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_close(s), PS_INVALID_ARGUMENT);
}

TEST(resets)
{
    static const char *const containers[] = {"a", "b", "localhost", "c"};
    ps_session *s = open_plain();
    ps_variable *v[4];
    const float value[2] = {1, 2};
    float got[2];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ps_container_push(s, containers[i]), PS_OK);
        v[i] = get(s, "x");
        assert_int_equal(ps_variable_init_from(v[i], value, sizeof(value)), PS_OK);
        assert_int_equal(ps_container_pop(s), PS_OK);
    }
    const char *const two[] = {"a", "nobody_has_it", "c"};
    assert_int_equal(ps_reset_containers(s, two, 3), PS_OK); /* an absent one is fine */
    assert_int_equal(ps_variable_read(v[0], got, sizeof(got)), PS_ABORTED);
    assert_int_equal(ps_variable_read(v[1], got, sizeof(got)), PS_OK);
    assert_int_equal(ps_variable_read(v[2], got, sizeof(got)), PS_OK);
    assert_int_equal(ps_variable_read(v[3], got, sizeof(got)), PS_ABORTED);
    assert_int_equal(ps_reset_containers(s, NULL, 0), PS_OK); /* localhost only */
    assert_int_equal(ps_variable_read(v[1], got, sizeof(got)), PS_OK);
    assert_int_equal(ps_variable_read(v[2], got, sizeof(got)), PS_ABORTED);
    assert_int_equal(ps_reset_containers(s, NULL, 2), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_reset_all(s), PS_OK);
    assert_int_equal(ps_variable_read(v[1], got, sizeof(got)), PS_ABORTED);
    assert_int_equal(ps_reset_all(NULL), PS_INVALID_ARGUMENT);
    close_ok(s);
}
