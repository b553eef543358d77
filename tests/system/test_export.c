/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ps_export and ps_import against real psd processes: values, placement and optimizers go round through a file; an export that
 * fails leaves the older file and nothing else.
 */
#include "files_test.h"

#include "common/mem.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* Files in the folder, hidden ones too. */
static int files(void)
{
    int count = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    const struct dirent *e = NULL;
    while ((e = readdir(d)) != NULL) {
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    }
    (void)closedir(d);
    return count;
}

static bool text_is(const char *text)
{
    char got[64] = "";
    FILE *f = fopen(file_path, "r");
    if (f == NULL) {
        return false;
    }
    size_t n = fread(got, 1, sizeof(got) - 1, f);
    (void)fclose(f);
    return n == strlen(text) && memcmp(got, text, n) == 0;
}

struct expected {
    const char *name;
    int task;
    ps_dtype dtype;
};
static const struct expected model[] = {{"z/big", 0, PS_F32}, {"a/flags", 1, PS_BOOL}, {"m", 0, PS_F64},
                                        {"b", 1, PS_I32},     {"bias", 0, PS_F32},     {"global_step", 1, PS_I64}};
enum { MODEL = sizeof(model) / sizeof(model[0]) };

static void check_model(ps_session *s)
{
    float *values = malloc(BIG * sizeof(*values));
    int64_t step = 0;
    double exact[2] = {0};
    for (int i = 0; i < MODEL; i++) {
        ps_variable *v = NULL;
        good(ps_variable_find(s, model[i].name, &v));
        assert_int_equal(ps_variable_task(v), model[i].task);
        assert_int_equal(ps_variable_dtype(v), model[i].dtype);
        if (i == 0) {
            good(ps_variable_read(v, values, BIG * sizeof(*values)));
            for (int k = 0; k < BIG; k++) {
                if (values[k] != element(k)) {
                    fail_msg("element %d is %g", k, (double)values[k]);
                }
            }
        } else if (i == 2) {
            good(ps_variable_read(v, exact, sizeof(exact)));
            assert_memory_equal(exact, exact_value, sizeof(exact));
        } else if (i == 5) {
            good(ps_variable_read(v, &step, sizeof(step)));
            assert_true(step == 1234567890123);
        }
    }
    free(values);
}

static void count_up(void *ctx, const ps_variable_info *info)
{
    if (strcmp(info->container, "round") != 0) {
        return;
    }
    int *seen = ctx;
    const ps_optimizer *o = &info->optimizer;
    (*seen)++;
    if (strcmp(info->name, "z/big") == 0) {
        assert_true(o->kind == PS_OPT_ADAGRAD && o->learning_rate == 0.25 && o->initial_accumulator == 0.5);
    } else if (strcmp(info->name, "m") == 0) {
        assert_true(o->kind == PS_OPT_ADAM && o->beta1 == 0.8 && o->beta2 == 0.9 && o->epsilon == 1e-3);
    } else if (strcmp(info->name, "bias") == 0) {
        assert_true(o->kind == PS_OPT_MOMENTUM && o->nesterov == 1 && o->momentum == 0.9);
    } else {
        assert_int_equal(o->kind, PS_OPT_NONE);
    }
    assert_true(info->initialised && info->version == 0);
}

struct progress {
    uint64_t done, total;
    int calls;
};

static void copied(void *ctx, const char *name, uint64_t done_bytes, uint64_t total_bytes)
{
    struct progress *p = ctx;
    assert_true(name[0] != '\0' && done_bytes > p->done && (p->total == 0 || p->total == total_bytes));
    p->done = done_bytes;
    p->total = total_bytes;
    p->calls++;
}

/* Out of a container, into it again after a reset, and over what is there. */
static void test_round(void **state)
{
    (void)state;
    int count = 0;
    int seen = 0;
    struct progress p = {0};
    ps_file_options o;
    ps_file_options_init(&o);
    o.copied = copied;
    o.ctx = &p;
    ps_session *s = open_in("round");
    make_model(s);
    (void)get(s, "empty", PS_F32, PS_SHAPE(5), NULL); /* without a value: left out */
    good(ps_export(s, file_path, &o, &count));
    assert_int_equal(count, MODEL);
    assert_int_equal(files(), 1);
    assert_true(p.done == p.total && p.total == BIG * 4 + 3 + 16 + 16 + 12 + 8 && p.calls >= 3);
    good(ps_reset(s));
    assert_int_equal(ps_session_close(s), 0);
    s = open_in("round");
    memset(&p, 0, sizeof(p));
    good(ps_import(s, file_path, &o, &count));
    assert_int_equal(count, MODEL);
    assert_true(p.done == p.total && p.total == BIG * 4 + 3 + 16 + 16 + 12 + 8);
    check_model(s);
    for (int i = 0; i < 2; i++) {
        good(ps_task_variables(s, i, 0, count_up, &seen));
    }
    assert_int_equal(seen, MODEL);
    const float zero[3] = {0};
    ps_variable *bias = NULL;
    good(ps_variable_find(s, "bias", &bias));
    good(ps_variable_assign(bias, zero, sizeof(zero)));
    good(ps_import(s, file_path, NULL, &count)); /* over it: versions go on */
    float now[3];
    good(ps_variable_read(bias, now, sizeof(now)));
    assert_true(now[2] == 3 && ps_variable_version(bias, NULL) == 2);
    check_model(s);
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(unlink(file_path), 0);
}

/* The session's own variables are what they were: the same records, in call order, and ready looks at the model only. */
static void test_beside_a_model(void **state)
{
    (void)state;
    int count = 0;
    ps_session *s = open_in("beside");
    ps_param *w = ps_param_get(s, "w", PS_SHAPE(4), ps_ones(), ps_sgd(1));
    assert_int_equal(ps_session_ready(s), PS_OK);
    for (int round = 0; round < 3; round++) { /* a push that is not acknowledged yet is in the file */
        ((float *)ps_param_grad(w))[0] = 1;
        assert_int_equal(ps_push(s, w), PS_OK);
        good(ps_export(s, file_path, NULL, &count));
        assert_int_equal(count, 2); /* and global_step */
    }
    ps_session *other = open_in("after");
    good(ps_import(other, file_path, NULL, &count));
    ps_variable *copy = NULL;
    float value[4];
    good(ps_variable_find(other, "w", &copy));
    good(ps_variable_read(copy, value, sizeof(value)));
    assert_true(value[0] == -2 && value[1] == 1);
    assert_int_equal(ps_step_done(s), PS_OK);
    assert_int_equal(ps_pull(s), PS_OK);
    assert_int_equal(ps_session_close(other), 0);
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(unlink(file_path), 0);
}

static void test_export_refused(void **state)
{
    (void)state;
    char bad[512];
    ps_file_options o;
    ps_session *s = open_in("refused");
    refused(ps_export(s, file_path, NULL, NULL), PS_FAILED_PRECONDITION, "container 'refused' has no variable with a value");
    make_model(s);
    (void)snprintf(bad, sizeof(bad), "%s/none/x", folder);
    refused(ps_export(s, bad, NULL, NULL), PS_NOT_FOUND, bad);
    refused(ps_export(s, folder, NULL, NULL), PS_INVALID_ARGUMENT, folder);
    (void)snprintf(bad, sizeof(bad), "%s/", folder);
    refused(ps_export(s, bad, NULL, NULL), PS_INVALID_ARGUMENT, folder);
    refused(ps_export(s, "/dev/null", NULL, NULL), PS_INVALID_ARGUMENT, "no regular file");
    refused(ps_export(s, "", NULL, NULL), PS_INVALID_ARGUMENT, "empty");
    refused(ps_export(s, NULL, NULL, NULL), PS_INVALID_ARGUMENT, "NULL");
    (void)snprintf(bad, sizeof(bad), "%s/%0300d", folder, 1);
    refused(ps_export(s, bad, NULL, NULL), PS_INVALID_ARGUMENT, "too long");
    memset(&o, 0, sizeof(o));
    refused(ps_export(s, file_path, &o, NULL), PS_INVALID_ARGUMENT, "ps_file_options_init");
    ps_file_options_init(&o);
    o.container = "../x";
    refused(ps_export(s, file_path, &o, NULL), PS_INVALID_ARGUMENT, "container name");
    assert_int_equal(files(), 0);
    assert_int_equal(ps_session_close(s), 0);
}

/* A limit on the size of files stands for the full disk; SIGXFSZ has its default and must not end the test. */
static void test_full(void **state)
{
    (void)state;
    struct rlimit before;
    ps_session *s = open_in("refused"); /* the model of the test before it */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit little = {.rlim_cur = 5 << 20, .rlim_max = before.rlim_max};
    put_text("older");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    ps_status st = ps_export(s, file_path, NULL, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    refused(st, PS_RESOURCE_EXHAUSTED, "File too large");
    assert_true(text_is("older"));
    assert_int_equal(files(), 1);
    assert_int_equal(chmod(file_path, 0640), 0);
    good(ps_export(s, file_path, NULL, NULL)); /* over the older one, with its permissions */
    struct stat info;
    assert_int_equal(stat(file_path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    assert_int_equal(files(), 1);
    assert_int_equal(ps_session_close(s), 0);
}

/* A link stays a link; what it names is replaced. */
static void test_link(void **state)
{
    (void)state;
    char link_path[200];
    struct stat info;
    ps_session *s = open_in("refused");
    (void)snprintf(link_path, sizeof(link_path), "%s/link", folder);
    put_text("older");
    assert_int_equal(symlink(file_path, link_path), 0);
    good(ps_export(s, link_path, NULL, NULL));
    assert_int_equal(lstat(link_path, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_false(text_is("older"));
    assert_int_equal(files(), 2);
    assert_int_equal(unlink(file_path), 0);
    refused(ps_export(s, link_path, NULL, NULL), PS_NOT_FOUND, link_path); /* it names nothing */
    assert_int_equal(unlink(link_path), 0);
    assert_int_equal(ps_session_close(s), 0);
}

/* Each allocation of the calling thread fails once: a status, no file, and the next call works. */
static void test_no_memory(void **state)
{
    (void)state;
    ps_session *s = open_in("refused");
    int failures = 0;
    for (int64_t n = 0;; n++) {
        psi_mem_fail_after(n);
        ps_status st = ps_export(s, file_path, NULL, NULL);
        bool fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        if (!fired) {
            good(st);
            break;
        }
        assert_int_equal(st, PS_RESOURCE_EXHAUSTED);
        assert_int_equal(files(), 0);
        failures++;
    }
    assert_true(failures > 5);
    for (int64_t n = 0;; n++) {
        psi_mem_fail_after(n);
        ps_status st = ps_import(s, file_path, NULL, NULL);
        bool fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        if (!fired) {
            good(st);
            break;
        }
        assert_int_equal(st, PS_RESOURCE_EXHAUSTED);
    }
    check_model(s);
    assert_int_equal(unlink(file_path), 0);
    assert_int_equal(ps_session_close(s), 0);
}

/* A session without a thread: the calls drive it, also while the disk is at work. */
static void test_by_caller(void **state)
{
    (void)state;
    int count = 0;
    ps_session_options o;
    ps_session *s = NULL;
    char error[512];
    ps_session_options_init(&o);
    o.target = cluster.address[0];
    o.container = "caller";
    o.progress = PS_PROGRESS_CALLER;
    o.log = no_log;
    assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_OK);
    make_model(s);
    good(ps_export(s, file_path, NULL, &count));
    assert_int_equal(count, MODEL);
    good(ps_import(s, file_path, NULL, &count));
    assert_int_equal(count, MODEL);
    check_model(s);
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(unlink(file_path), 0);
}

/* A task that is down: UNAVAILABLE that names it, an older file stays. Last: it kills one. */
static void test_task_down(void **state)
{
    (void)state;
    ps_session *s = open_in("refused");
    good(ps_export(s, file_path, NULL, NULL));
    test_cluster_kill(&cluster, 1);
    test_cluster_refuse(&cluster, 1);
    struct stat before, after;
    assert_int_equal(stat(file_path, &before), 0);
    ps_file_options o;
    ps_file_options_init(&o);
    o.container = "refused";
    ps_session *late = open_session(2000);
    refused(ps_export(late, file_path, &o, NULL), PS_UNAVAILABLE, "/job:ps/task:1");
    refused(ps_import(late, file_path, &o, NULL), PS_UNAVAILABLE, "/job:ps/task:1");
    assert_int_equal(stat(file_path, &after), 0);
    assert_true(before.st_ino == after.st_ino && before.st_size == after.st_size);
    assert_int_equal(files(), 1);
    assert_int_equal(unlink(file_path), 0);
    (void)ps_session_close(late); /* a task of theirs is gone */
    (void)ps_session_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round),     cmocka_unit_test(test_beside_a_model), cmocka_unit_test(test_export_refused),
        cmocka_unit_test(test_full),      cmocka_unit_test(test_link),           cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_by_caller), cmocka_unit_test(test_task_down),
    };
    return cmocka_run_group_tests(tests, setup_files, teardown_files);
}
