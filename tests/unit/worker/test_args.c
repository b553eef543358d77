/* SPDX-License-Identifier: Apache-2.0 */
/* worker/api/args.c: flags, TF_CONFIG, jobs. No task is needed: a session dials on first use only. */
#include "test.h"
#include "ps.h"

#include <stdlib.h>
#include <unistd.h>

enum { ARGS_MAX = 24 };

struct line {
    int argc;
    char *argv[ARGS_MAX + 1];
    char text[2048];
};

/* Words separated by blanks; '' is an empty one. */
static void split(struct line *l, const char *text)
{
    (void)snprintf(l->text, sizeof(l->text), "program %s", text);
    l->argc = 0;
    for (char *word = strtok(l->text, " "); word != NULL; word = strtok(NULL, " ")) {
        char *equals = strchr(word, '=');
        assert_true(l->argc < ARGS_MAX);
        if (strcmp(word, "''") == 0) {
            word[0] = '\0';
        } else if (equals != NULL && strcmp(equals, "=''") == 0) {
            equals[1] = '\0';
        }
        l->argv[l->argc++] = word;
    }
    l->argv[l->argc] = NULL;
}

static ps_session *open_line(struct line *l, const char *text)
{
    split(l, text);
    ps_session *s = ps_session_open_args(&l->argc, l->argv, "about this program");
    assert_non_null(s);
    return s;
}

BEFORE_ALL
{
    (void)unsetenv("TF_CONFIG");
    (void)unsetenv("PSD_TARGET");
}

TEST(flags_are_taken_out)
{
    struct line l;
    ps_session *s =
        open_line(&l, "a --ps_hosts h:1,h:2 --data x --worker-hosts=h:3,h:4 --job_name worker b --task-index=1 --seed 9 "
                      "--steps 5 --timeout 2s --log_level error --verbose");
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_int_equal(l.argc, 6);
    assert_string_equal(l.argv[1], "a");
    assert_string_equal(l.argv[2], "--data");
    assert_string_equal(l.argv[3], "x");
    assert_string_equal(l.argv[4], "b");
    assert_string_equal(l.argv[5], "--verbose");
    assert_null(l.argv[6]);
    assert_int_equal(ps_task_index(s), 1);
    assert_int_equal(ps_task_count(s), 2);
    assert_int_equal(ps_ps_count(s), 2);
    assert_int_equal(ps_cluster_tasks(s), 2);
    assert_string_equal(ps_cluster_task_name(s, 1), "/job:ps/task:1");
    assert_false(ps_is_chief(s));
    assert_int_equal(ps_seed(s), 9);
    assert_false(ps_should_stop(s));
    assert_int_equal(ps_session_close(s), 0);
}

/* A job without tasks is as if it were not listed. */
TEST(a_job_without_tasks)
{
    static const char *const lines[] = {"a --ps_hosts h:1 --worker_hosts '' --job_name worker --task_index 3",
                                        "a --cluster ps=h:1;worker= --job_name worker --task_index 3",
                                        "a --cluster ps=h:1;chief="};
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        struct line l;
        ps_session *s = open_line(&l, lines[i] + 2);
        if (ps_session_status(s) != PS_OK) {
            fail_msg("%s: %s", lines[i], ps_session_error(s));
        }
        assert_int_equal(ps_task_count(s), i < 2 ? 4 : 1); /* a worker that is not listed is one */
        assert_int_equal(ps_ps_count(s), 1);
        assert_int_equal(ps_session_close(s), 0);
    }
}

/* psctl tries one target after the other; a session takes one, and says so instead of what is no address in the list. */
TEST(several_targets)
{
    struct line l;
    ps_session *s = open_line(&l, "--target h:1,h:2 --log_level error");
    assert_int_equal(ps_session_status(s), PS_INVALID_ARGUMENT);
    assert_string_equal(ps_session_error(s), "target: 'h:1,h:2' is several; a session takes one, any task of the cluster (psctl "
                                             "alone takes the first of several that answers)");
    assert_int_equal(ps_session_close(s), PS_INVALID_ARGUMENT);
    assert_int_equal(setenv("PSD_TARGET", "h:1,h:2", 1), 0);
    s = open_line(&l, "--log_level error");
    assert_string_equal(ps_session_error(s), "PSD_TARGET: 'h:1,h:2' is several; a session takes one, any task of the cluster "
                                             "(psctl alone takes the first of several that answers)");
    assert_int_equal(ps_session_close(s), PS_INVALID_ARGUMENT);
    assert_int_equal(unsetenv("PSD_TARGET"), 0);
}

/* What the flags ask of the cluster at once fails softly where there is none, and sticks. */
TEST(flags_that_ask_the_cluster)
{
    struct line l;
    ps_session *s = open_line(&l, "--ps_hosts h:1,h:2 --cluster_name foo --placement balanced --log_level error");
    assert_int_equal(l.argc, 1);
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_int_equal(ps_session_close(s), 0);
    s = open_line(&l, "--placement heaviest --log_level error");
    assert_int_equal(ps_session_status(s), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_session_error(s), "balanced"));
    assert_int_equal(ps_session_close(s), PS_INVALID_ARGUMENT);
    s = open_line(&l, "--ps_hosts 127.0.0.1:1 --fresh --timeout 300ms --log_level error");
    assert_int_equal(ps_session_status(s), PS_UNAVAILABLE);
    assert_non_null(strstr(ps_session_error(s), "127.0.0.1:1"));
    assert_int_equal(ps_session_close(s), PS_UNAVAILABLE);
}

TEST(the_roles_of_tf_config)
{
    struct line l;
    static const struct {
        const char *type;
        bool chief;
    } rows[] = {{"master", true}, {"evaluator", false}, {"worker", false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[256];
        (void)snprintf(
            text, sizeof(text),
            "{\"cluster\":{\"ps\":[\"h:1\"],\"master\":[\"h:2\"],\"worker\":[\"h:3\"]},\"task\":{\"type\":\"%s\",\"index\":0}}",
            rows[i].type);
        (void)setenv("TF_CONFIG", text, 1);
        ps_session *s = open_line(&l, "--log_level error");
        assert_int_equal(ps_session_status(s), PS_OK);
        assert_int_equal(ps_is_chief(s), rows[i].chief);
        assert_int_equal(ps_session_close(s), 0);
    }
    (void)unsetenv("TF_CONFIG");
}

TEST(a_cluster_in_any_form)
{
    struct line l;
    (void)setenv("TF_CONFIG", "not looked at", 1);
    ps_session *s = open_line(&l, "--cluster {'ps':['h:1','h:2'],'worker':{1:'h:3',3:'h:4'},} --job_name worker --task_index 1");
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_int_equal(ps_ps_count(s), 2);
    assert_int_equal(ps_task_index(s), 1);
    assert_int_equal(ps_task_count(s), 4); /* the same for 1 and 3 */
    assert_false(ps_is_chief(s));          /* that is worker 0, which is not listed */
    assert_int_equal(ps_session_close(s), 0);
    s = open_line(&l, "--cluster=ps=2@h:1,5@h:2 --seed 3");
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_string_equal(ps_cluster_task_name(s, 1), "/job:ps/task:5");
    assert_int_equal(ps_session_close(s), 0);
    (void)unsetenv("TF_CONFIG");
}

TEST(without_flags_there_is_no_job)
{
    struct line l;
    ps_session *s = open_line(&l, "");
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_int_equal(ps_task_index(s), 0);
    assert_int_equal(ps_task_count(s), 1);
    assert_true(ps_is_chief(s));
    assert_int_equal(ps_session_close(s), 0);
    s = open_line(&l, "--ps_hosts h:1");
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_true(ps_is_chief(s));
    assert_int_equal(ps_session_close(s), 0);
}

TEST(the_chief_is_task_0_or_job_chief)
{
    struct line l;
    ps_session *s = open_line(&l, "--ps_hosts h:1 --worker_hosts h:2,h:3 --job_name worker");
    assert_true(ps_is_chief(s));
    assert_int_equal(ps_session_close(s), 0);
    (void)setenv("TF_CONFIG",
                 "{\"cluster\":{\"ps\":[\"h:1\"],\"chief\":[\"h:2\"],\"worker\":[\"h:3\"]},"
                 "\"task\":{\"type\":\"worker\",\"index\":0}}",
                 1);
    s = open_line(&l, "");
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_false(ps_is_chief(s));
    assert_int_equal(ps_session_close(s), 0);
    s = open_line(&l, "--job_name chief"); /* a flag wins over the environment */
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_true(ps_is_chief(s));
    assert_int_equal(ps_session_close(s), 0);
    s = open_line(&l, "--ps_hosts h:1,h:2,h:3"); /* cluster flags: TF_CONFIG does not count at all */
    assert_int_equal(ps_ps_count(s), 3);
    assert_int_equal(ps_session_close(s), 0);
    (void)unsetenv("TF_CONFIG");
}

TEST(tf_config_gives_the_task)
{
    struct line l;
    (void)setenv("TF_CONFIG",
                 "{\"cluster\":{\"ps\":[\"h:1\",\"h:2\"],\"worker\":[\"h:3\",\"h:4\",\"h:5\"]},"
                 "\"task\":{\"type\":\"worker\",\"index\":\"2\"},\"environment\":\"cloud\"}",
                 1);
    ps_session *s = open_line(&l, "");
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_int_equal(ps_task_index(s), 2);
    assert_int_equal(ps_task_count(s), 3);
    assert_int_equal(ps_ps_count(s), 2);
    assert_int_equal(ps_session_close(s), 0);
    (void)unsetenv("TF_CONFIG");
}

static void bad(const char *text, const char *tf_config, const char *word1, const char *word2)
{
    struct line l;
    if (tf_config != NULL) {
        (void)setenv("TF_CONFIG", tf_config, 1);
    }
    ps_session *s = open_line(&l, text);
    (void)unsetenv("TF_CONFIG");
    if (ps_session_status(s) != PS_INVALID_ARGUMENT || strstr(ps_session_error(s), word1) == NULL ||
        strstr(ps_session_error(s), word2) == NULL) {
        fail_msg("'%s' gives %s '%s', not '%s' and '%s'", text, ps_status_name(ps_session_status(s)), ps_session_error(s), word1,
                 word2);
    }
    assert_true(ps_should_stop(s));
    ps_param *p = ps_param_get(s, "w", PS_SHAPE(2, 3), ps_zeros(), ps_sgd(1));
    ((float *)ps_param_value(p))[5] = 1;
    assert_int_equal(ps_pull(s), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_step_done(s), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_close(s), PS_INVALID_ARGUMENT);
}

TEST(errors_name_the_flag_and_the_jobs)
{
    bad("--ps_hosts h:1 --worker_hosts h:2", NULL, "--job_name is missing", "ps, worker");
    bad("--ps_hosts h:1 --worker_hosts h:2 --job_name ''", NULL, "--job_name is empty", "ps, worker");
    bad("--ps_hosts h:1 --worker_hosts h:2 --job_name=''", NULL, "--job_name is empty", "ps, worker");
    bad("--ps_hosts h:1 --worker_hosts h:2 --job_name wroker", NULL, "wroker", "ps, worker");
    bad("--ps_hosts h:1 --worker_hosts h:2 --job_name ps", NULL, "psd", "jobs for it: worker, evaluator");
    bad("--ps_hosts h:1 --worker_hosts h:2 --job_name worker --task_index 1", NULL, "task_index", "1 tasks");
    bad("--ps_hosts h:1 --job_name chief", NULL, "chief", "ps, worker");
    bad("--ps_hosts ''", NULL, "--ps_hosts is empty", "where are the ps tasks");
    bad("--cluster ps=;worker=", NULL, "--cluster: it has no tasks", "");
    bad("--cluster ps=;worker=h:1 --job_name worker", NULL, "job ps has no tasks", "give the target");
    bad("--worker_hosts h:2 --job_name worker", NULL, "--worker_hosts", "--ps_hosts");
    bad("--ps_hosts h:1,h:1", NULL, "--ps_hosts", "h:1");
    bad("--ps_hosts h:1 --worker_hosts h:1 --job_name worker", NULL, "--worker_hosts", "h:1");
    bad("--task_index x", NULL, "--task_index", "x");
    bad("--target h:1:2", NULL, "target", "h:1:2");
    bad("--log_level loud", NULL, "--log_level", "debug");
    bad("", "{\"cluster\":{\"ps\":[\"h:1\"],\"worker\":[\"h:2\"]}}", "--job_name is missing", "ps, worker");
    bad("", "{\"cluster\":{\"ps\":[\"h:1\"]},\"task\":{\"type\":\"ps\",\"index\":0}}", "TF_CONFIG", "psd");
    bad("", "[]", "TF_CONFIG", "");
    bad("--cluster ps=h:1 --ps_hosts h:2", NULL, "--cluster", "--ps_hosts");
    bad("--cluster ps=h:1,x:y", NULL, "--cluster: cluster spec: line 1, column 8", "/job:ps/task:1");

    bad("--cluster {}", NULL, "--cluster", "no jobs");
    bad("--cluster ps=h:1;worker=1@h:2,3@h:3 --job_name worker --task_index 2", NULL, "--task_index 2", "2 tasks: 1, 3");
}

#define TWO_WORKERS "--ps_hosts h:1 --worker_hosts h:2,h:3 --job_name worker "

TEST(flags_of_rounds)
{
    static const char *const good[] = {"--sync", "--sync --sync_workers 5 --replicas_to_aggregate 4 --on_worker_loss shrink",
                                       "--staleness 0", "--staleness=3 --sync_workers 2 --on_worker_loss=fail --prefetch",
                                       "--sync --replicas_to_aggregate 2"};
    struct line l;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        char text[256];
        (void)snprintf(text, sizeof(text), TWO_WORKERS "%s", good[i]);
        ps_session *s = open_line(&l, text);
        assert_string_equal(ps_session_error(s), "");
        assert_int_equal(l.argc, 1);
        assert_true(ps_dropped(s) == 0);
        assert_int_equal(ps_session_close(s), 0);
    }
    bad(TWO_WORKERS "--sync --staleness 0", NULL, "--sync", "--staleness");
    bad(TWO_WORKERS "--replicas_to_aggregate 1", NULL, "--replicas_to_aggregate", "without --sync");
    bad(TWO_WORKERS "--staleness 1 --replicas_to_aggregate 1", NULL, "--replicas_to_aggregate", "without --sync");
    bad(TWO_WORKERS "--sync_workers 2", NULL, "--sync_workers", "without --sync or --staleness");
    bad(TWO_WORKERS "--on_worker_loss fail", NULL, "--on_worker_loss", "without --sync or --staleness");
    bad(TWO_WORKERS "--sync --prefetch", NULL, "--sync", "--prefetch");
    bad(TWO_WORKERS "--sync --replicas_to_aggregate 3", NULL, "3 of 2 workers", "as the cluster lists them");
    bad(TWO_WORKERS "--sync --replicas_to_aggregate 3 --sync_workers 2", NULL, "3 of 2 workers", "no round");
    bad(TWO_WORKERS "--sync --on_worker_loss cry", NULL, "--on_worker_loss", "shrink");
    bad(TWO_WORKERS "--staleness -1", NULL, "--staleness", "-1");
}

TEST(help_prints_and_stops)
{
    struct line l;
    char path[] = "/tmp/test_args_XXXXXX";
    char text[16384] = "";
    int file = mkstemp(path);
    assert_true(file >= 0);
    (void)fflush(stdout);
    int saved = dup(STDOUT_FILENO);
    assert_true(saved >= 0 && dup2(file, STDOUT_FILENO) >= 0);
    ps_session *s = open_line(&l, "--help");
    ps_param *p = ps_param_get(s, "w", PS_SHAPE(4), ps_zeros(), ps_sgd(1));
    assert_true(((float *)ps_param_value(p))[3] == 0);
    assert_true(ps_should_stop(s));
    assert_int_not_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(ps_session_close(s), 0);
    assert_true(dup2(saved, STDOUT_FILENO) >= 0);
    assert_true(pread(file, text, sizeof(text) - 1, 0) > 0);
    (void)close(saved);
    (void)close(file);
    (void)unlink(path);
    assert_non_null(strstr(text, "usage: program"));
    assert_non_null(strstr(text, "about this program"));
    static const char *const flags[] = {
        "--cluster",        "--ps_hosts",       "--worker_hosts", "--job_name",      "--task_index",
        "--target",         "--steps",          "--seed",         "--timeout",       "--log_level",
        "--prefetch",       "--help",           "--sync",         "--sync_workers",  "--replicas_to_aggregate",
        "grpc://HOST:PORT", "--on_worker_loss", "--staleness",    "--checkpoint_dir"};
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        assert_non_null(strstr(text, flags[i]));
    }
}

static ps_role *role_of(struct line *l, const char *text)
{
    char *before[ARGS_MAX + 1];
    split(l, text);
    memcpy(before, l->argv, sizeof(before));
    ps_role *role = ps_role_from_args(l->argc, l->argv);
    assert_non_null(role);
    assert_memory_equal(l->argv, before, (size_t)(l->argc + 1) * sizeof(before[0])); /* nothing is taken out */
    return role;
}

/* A program that serves in one role and trains in another asks first which it has. */
TEST(who_this_process_is)
{
    struct line l;
    ps_role *r =
        role_of(&l, "a --ps_hosts=h:1,h:2 --worker_hosts=h:3 --job_name=ps --task_index=1 --checkpoint_dir /tmp/d --more x");
    assert_string_equal(ps_role_job(r), "ps");
    assert_int_equal(ps_role_task(r), 1);
    assert_string_equal(ps_role_cluster_spec(r), "ps=h:1,h:2;worker=h:3");
    assert_string_equal(ps_role_cluster_name(r), "psd");
    assert_string_equal(ps_role_checkpoint_dir(r), "/tmp/d");
    ps_role_free(r);
    r = role_of(&l, "a --cluster ps=h:1 --cluster_name theirs --job_name worker");
    assert_string_equal(ps_role_job(r), "worker");
    assert_int_equal(ps_role_task(r), 0);
    assert_string_equal(ps_role_cluster_name(r), "theirs");
    assert_string_equal(ps_role_checkpoint_dir(r), "");
    ps_role_free(r);
    assert_int_equal(setenv("TF_CONFIG",
                            "{\"cluster\": {\"ps\": [\"h:1\", \"h:2\"], \"worker\": [\"h:3\"]}, "
                            "\"task\": {\"type\": \"ps\", \"index\": 1}}",
                            1),
                     0);
    r = role_of(&l, "a --x y");
    assert_string_equal(ps_role_job(r), "ps");
    assert_int_equal(ps_role_task(r), 1);
    assert_string_equal(ps_role_cluster_spec(r), "ps=h:1,h:2;worker=h:3");
    ps_role_free(r);
    r = ps_role_from_args(0, NULL);
    assert_string_equal(ps_role_job(r), "ps");
    ps_role_free(r);
    r = role_of(&l, "a --job_name worker"); /* a flag counts more */
    assert_string_equal(ps_role_job(r), "worker");
    ps_role_free(r);
    assert_int_equal(unsetenv("TF_CONFIG"), 0);
}

/* Then the program opens a session, which prints the help or says what is wrong. */
TEST(a_role_that_nobody_says)
{
    static const char *const lines[] = {"a --x y", "a --ps_hosts h:1 --job_name ps --help", "a --job_name ps --task_index -1",
                                        "a --job_name ps --cluster ps="};
    struct line l;
    for (size_t i = 0; i < ARRAY_COUNT(lines); i++) {
        ps_role *r = role_of(&l, lines[i]);
        assert_string_equal(ps_role_job(r), "");
        assert_int_equal(ps_role_task(r), 0);
        assert_null(ps_role_cluster_spec(r));
        assert_string_equal(ps_role_cluster_name(r), "psd");
        assert_string_equal(ps_role_checkpoint_dir(r), "");
        ps_role_free(r);
    }
    assert_string_equal(ps_role_job(NULL), "");
    assert_int_equal(ps_role_task(NULL), 0);
    assert_null(ps_role_cluster_spec(NULL));
    assert_string_equal(ps_role_cluster_name(NULL), "psd");
    assert_string_equal(ps_role_checkpoint_dir(NULL), "");
    ps_role_free(NULL);
}

TEST(containers_and_placement)
{
    struct line l;
    ps_session *s = open_line(&l, "--ps_hosts h:1 --container my_problem/2 x --allow_soft_placement --log-device-placement y");
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_int_equal(l.argc, 3);
    assert_string_equal(l.argv[1], "x");
    assert_string_equal(l.argv[2], "y");
    assert_int_equal(ps_session_close(s), 0);
    s = open_line(&l, "--ps_hosts h:1 --log_device_placement=false --allow_soft_placement=true --prefetch");
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_int_equal(l.argc, 1);
    assert_int_equal(ps_session_close(s), 0);
    static const char *const bad[] = {"--container=''", "--container ../x", "--container a//b", "--allow_soft_placement=maybe"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[128];
        (void)snprintf(text, sizeof(text), "--ps_hosts h:1 %s", bad[i]);
        s = open_line(&l, text);
        assert_int_equal(ps_session_status(s), PS_INVALID_ARGUMENT);
        assert_non_null(strstr(ps_session_error(s), i < 3 ? "container" : "allow_soft_placement"));
        assert_int_equal(ps_session_close(s), PS_INVALID_ARGUMENT);
    }
}
