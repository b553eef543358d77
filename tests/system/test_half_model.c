/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Half a model is not taken for the whole, also where nobody has trained it since its values were given: by an import, by an
 * import that did not end, by assigns. Against real psd processes, one of which comes back empty.
 */
#include "files_test.h"

#include <signal.h>
#include <sys/wait.h>

enum { W = 4, B = (65 << 20) / 4 }; /* more than ps_import() has on its way beside another one */

static const float w_value[W] = {1, 2, 3, 4};

/* w on ps:0, b on ps:1, global_step on ps:0. */
static ps_session *open_model(int64_t b_elements, ps_variable **w, ps_variable **b)
{
    ps_session *s = open_session(20000);
    *w = get(s, "w", PS_F32, PS_SHAPE(W), ps_sgd(1));
    *b = get(s, "b", PS_F32, PS_SHAPE(b_elements), ps_sgd(1));
    return s;
}

static void restart(int task)
{
    test_cluster_kill(&cluster, task);
    test_cluster_start(&cluster, task);
}

/* A chief starts: what it is told, and that it has changed nothing. */
static void assert_half(int64_t b_elements, const char *lost)
{
    ps_variable *w = NULL;
    ps_variable *b = NULL;
    float value[W];
    bool initialised = true;
    ps_session *s = open_model(b_elements, &w, &b);
    assert_int_equal(ps_session_ready(s), PS_DATA_LOSS);
    if (strstr(ps_session_error(s), lost) == NULL ||
        strstr(ps_session_error(s), "there by an import or assign, as 'w' is") == NULL) {
        fail_msg("%s", ps_session_error(s));
    }
    assert_int_equal(ps_session_close(s), PS_DATA_LOSS);
    s = open_model(b_elements, &w, &b);
    good(ps_variable_is_initialized(b, &initialised));
    assert_false(initialised);
    good(ps_variable_read(w, value, sizeof(value)));
    assert_memory_equal(value, w_value, sizeof(value));
    assert_int_equal(ps_session_close(s), PS_OK);
}

static void start_over(void)
{
    ps_session *s = open_session(20000);
    good(ps_reset(s));
    assert_int_equal(ps_session_close(s), PS_OK);
}

/* The chief goes on with what is there, and trains it. */
static void assert_ready(bool fresh)
{
    ps_variable *w = NULL;
    ps_variable *b = NULL;
    float value[W];
    ps_session *s = open_model(2, &w, &b);
    assert_int_equal(ps_session_ready(s), PS_OK);
    good(ps_variable_read(w, value, sizeof(value)));
    assert_int_equal(memcmp(value, w_value, sizeof(value)) == 0, !fresh);
    good(ps_variable_push(b, w_value, 2 * sizeof(float), 1));
    assert_int_equal(ps_session_close(s), PS_OK);
}

static void test_after_an_import(void **state)
{
    (void)state;
    ps_variable *w = NULL;
    ps_variable *b = NULL;
    ps_session *s = open_model(2, &w, &b);
    good(ps_variable_init_from(w, w_value, sizeof(w_value)));
    assert_int_equal(ps_session_ready(s), PS_OK); /* its own: no sign of a loss */
    good(ps_export(s, file_path, NULL, NULL));
    assert_int_equal(ps_session_close(s), PS_OK);
    restart(0);
    restart(1);
    s = open_session(20000);
    good(ps_import(s, file_path, NULL, NULL));
    assert_int_equal(ps_session_close(s), PS_OK);
    restart(1);
    assert_half(2, "is lost: 'b' at /job:ps/task:1");
    s = open_session(20000);
    good(ps_import(s, file_path, NULL, NULL)); /* again, all of it */
    assert_int_equal(ps_session_close(s), PS_OK);
    assert_ready(false);
    start_over();
    assert_ready(true);
    start_over();
    assert_int_equal(unlink(file_path), 0);
}

static void interrupt(void *ctx, const char *name, uint64_t done, uint64_t total)
{
    (void)ctx;
    (void)name;
    (void)done;
    (void)total;
    (void)raise(SIGINT);
}

/* w, and b of B zeros. */
static void write_large(void)
{
    char header[512];
    uint64_t values = sizeof(w_value) + (uint64_t)B * 4;
    (void)snprintf(header, sizeof(header),
                   "{\"w\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[0,16]},"
                   "\"b\":{\"dtype\":\"F32\",\"shape\":[%d],\"data_offsets\":[16,%llu]}}",
                   W, B, (unsigned long long)values);
    uint64_t length = strlen(header);
    FILE *f = fopen(file_path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(&length, sizeof(length), 1, f), 1);
    assert_int_equal(fwrite(header, length, 1, f), 1);
    assert_int_equal(fwrite(w_value, sizeof(w_value), 1, f), 1);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(truncate(file_path, (off_t)(8 + length + values)), 0);
}

/* Ctrl-C once the first variable has its value. */
static void test_after_an_interrupted_import(void **state)
{
    (void)state;
    ps_variable *w = NULL;
    ps_variable *b = NULL;
    write_large();
    assert_int_equal(ps_session_close(open_model(B, &w, &b)), PS_OK); /* a file of others names no optimizer */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        ps_file_options o;
        ps_file_options_init(&o);
        o.copied = interrupt;
        (void)signal(SIGINT, SIG_DFL);
        _exit(ps_import(open_session(20000), file_path, &o, NULL) == PS_OK ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    assert_half(B, "is lost: 'b' at /job:ps/task:1");
    start_over();
    assert_int_equal(unlink(file_path), 0);
}

/* The task of the variable that has its value is lost, and back, before the other one is given its own. */
static void lose(void *ctx, const char *name, uint64_t done, uint64_t total)
{
    int *lost = ctx;
    (void)done;
    (void)total;
    if (*lost == 0 && strcmp(name, "w") == 0) {
        restart(0);
    }
    (*lost)++;
}

/* An import that could give all values, and of which one has gone again, is not done. */
static void test_lost_during_an_import(void **state)
{
    (void)state;
    ps_variable *w = NULL;
    ps_variable *b = NULL;
    int lost = 0;
    write_large();
    assert_int_equal(ps_session_close(open_model(B, &w, &b)), PS_OK);
    ps_session *s = open_session(20000);
    ps_file_options o;
    ps_file_options_init(&o);
    o.copied = lose;
    o.ctx = &lost;
    assert_int_equal(ps_import(s, file_path, &o, NULL), PS_ABORTED);
    assert_non_null(strstr(ps_last_error(), "'w' has not the value of the file any more"));
    assert_int_equal(ps_last_reason(), PS_REASON_LOST);
    assert_int_equal(ps_last_applied(), PS_MAYBE_PARTLY_APPLIED);
    assert_int_equal(lost, 2);
    (void)ps_session_close(s); /* what it had is lost */
    start_over();
    assert_int_equal(unlink(file_path), 0);
}

/* A program that restores by itself, and ends before ready. */
static void test_after_assigns(void **state)
{
    (void)state;
    for (int init_only = 0; init_only < 2; init_only++) {
        ps_variable *w = NULL;
        ps_variable *b = NULL;
        ps_session *s = open_model(2, &w, &b);
        good((init_only ? ps_variable_init_from : ps_variable_assign)(w, w_value, sizeof(w_value)));
        good((init_only ? ps_variable_init_from : ps_variable_assign)(b, w_value, 2 * sizeof(float)));
        assert_int_equal(ps_session_close(s), PS_OK);
        restart(1);
        assert_half(2, "is lost: 'b' at /job:ps/task:1");
        start_over();
    }
}

/* A chief that died between its INITs: nobody gave anything, the next one goes on. */
static void test_after_a_chief_that_died(void **state)
{
    (void)state;
    ps_variable *w = NULL;
    ps_variable *b = NULL;
    ps_session *s = open_model(2, &w, &b);
    good(ps_variable_init(w, false));
    assert_int_equal(ps_session_close(s), PS_OK);
    assert_ready(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_after_an_import),         cmocka_unit_test(test_after_an_interrupted_import),
        cmocka_unit_test(test_lost_during_an_import),   cmocka_unit_test(test_after_assigns),
        cmocka_unit_test(test_after_a_chief_that_died),
    };
    return cmocka_run_group_tests(tests, setup_files, teardown_files);
}
