/* SPDX-License-Identifier: Apache-2.0 */
/* Administration through the public API, and tasks that are dead: named with their address, within the deadline; back afterwards.
 */
#include "api_test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct seen {
    int count;
    char last[256];
    bool sorted;
};

static void see(void *ctx, const ps_variable_info *info)
{
    struct seen *seen = ctx;
    seen->sorted = seen->sorted && strcmp(seen->last, info->name) <= 0;
    (void)snprintf(seen->last, sizeof(seen->last), "%s", info->name);
    seen->count++;
}

static void see_config(void *ctx, const ps_config_info *info)
{
    int *count = ctx;
    assert_true(info->name[0] != '\0' && info->help[0] != '\0' && info->value != NULL && info->default_value != NULL);
    (*count)++;
}

static void tasks_can_be_asked(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_task_info infos[2];
    struct seen seen = {.sorted = true};
    int settings = 0;
    int64_t us = -1;
    (void)get(s, "admin/b", PS_F32, PS_SHAPE(4), NULL);
    (void)get(s, "admin/c", PS_F32, PS_SHAPE(4), NULL);
    (void)get(s, "admin/a", PS_F32, PS_SHAPE(4), NULL);
    assert_int_equal(ps_cluster_tasks(s), 2);
    assert_string_equal(ps_cluster_task_name(s, 1), "/job:ps/task:1");
    assert_null(ps_cluster_task_name(s, 2));
    assert_int_equal(ps_cluster_info(s, NULL, sizeof(*infos), 2, 5000), PS_INVALID_ARGUMENT);
    assert_string_equal(ps_last_error(), "infos, with room for 2 tasks, is NULL");
    assert_int_equal(ps_cluster_info(s, infos, sizeof(*infos), 3, 5000), PS_INVALID_ARGUMENT);
    assert_string_equal(ps_last_error(), "infos has 3 entries; the cluster has 2 tasks");
    assert_int_equal(ps_cluster_info(s, infos, sizeof(*infos), 2, 5000), PS_OK);
    assert_true(infos[0].up && infos[1].up && infos[0].directory && !infos[1].directory);
    assert_int_equal(infos[0].pid, cluster.pid[0]);
    assert_int_equal(infos[1].pid, cluster.pid[1]);
    assert_string_equal(infos[1].address, cluster.address[1]);
    assert_string_equal(infos[0].job, "ps");
    assert_int_equal(ps_task_variables(s, 0, 5000, see, &seen), PS_OK);
    assert_int_equal(seen.count, infos[0].variables);
    assert_true(seen.sorted);
    assert_int_equal(ps_task_config(s, 1, 5000, see_config, &settings), PS_OK);
    assert_true(settings > 3);
    assert_int_equal(ps_task_ping(s, 1, 5000, &us), PS_OK);
    assert_true(us >= 0);
    assert_int_equal(ps_task_ping(s, 7, 5000, &us), PS_OUT_OF_RANGE);
    assert_int_equal(ps_session_wait_cluster(s, "ps", 5000), PS_OK);
    assert_int_equal(ps_session_close(s), 0);
}

struct setting {
    const char *name;
    char value[64];
    bool reloadable;
};

static void count_round(void *ctx, const ps_round_info *info)
{
    (void)info;
    (*(int *)ctx)++;
}

static void count_checkpoint(void *ctx, const ps_checkpoint_info *info)
{
    (void)info;
    (*(int *)ctx)++;
}

/* What only the directory answers is asked there, whatever task the session was given. */
static void the_directory_is_found(void **state)
{
    (void)state;
    ps_session *s = NULL;
    ps_session_options o;
    int rounds = 0, checkpoints = 0;
    uint64_t number = 0;
    ps_session_options_init(&o);
    o.target = cluster.address[1];
    o.progress = API_PROGRESS;
    o.log = no_log;
    assert_int_equal(ps_session_open(&o, &s, NULL, 0), PS_OK);
    assert_int_equal(ps_rounds(s, 5000, count_round, NULL, &rounds), PS_OK);
    assert_int_equal(ps_checkpoints(s, 5000, count_checkpoint, &checkpoints), PS_OK);
    assert_true(rounds == 0 && checkpoints == 0);
    assert_int_equal(ps_checkpoint_save(s, 5000, &number), PS_FAILED_PRECONDITION);
    assert_int_not_equal(ps_last_reason(), PS_REASON_NOT_DIRECTORY);
    assert_int_equal(ps_barrier_within(s, "gate", 1, 5000), PS_OK);
    assert_int_equal(ps_session_wait_cluster(s, "ps", 5000), PS_OK);
    assert_int_equal(ps_session_close(s), 0);
}

static void see_setting(void *ctx, const ps_config_info *info)
{
    struct setting *setting = ctx;
    if (strcmp(info->name, setting->name) == 0) {
        (void)snprintf(setting->value, sizeof(setting->value), "%s", info->value);
        setting->reloadable = info->reloadable;
    }
}

static void assert_setting(ps_session *s, int task, const char *name, const char *value, bool reloadable)
{
    struct setting setting = {.name = name};
    assert_int_equal(ps_task_config(s, task, 5000, see_setting, &setting), PS_OK);
    assert_string_equal(setting.value, value);
    assert_int_equal(setting.reloadable, reloadable);
}

static void settings_change_while_it_runs(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    assert_setting(s, 1, "session_keep", "10min", true);
    assert_setting(s, 1, "lease", "10s", false);
    assert_int_equal(ps_task_config_set(s, 1, "session_keep", "1h", 5000), PS_OK);
    assert_setting(s, 1, "session_keep", "1h", true);
    assert_setting(s, 0, "session_keep", "10min", true); /* another task */
    assert_int_equal(ps_task_config_set(s, 1, "session_kep", "1h", 5000), PS_NOT_FOUND);
    assert_non_null(strstr(ps_last_error(), "session_keep"));
    assert_int_equal(ps_task_config_set(s, 1, "lease", "1h", 5000), PS_FAILED_PRECONDITION);
    assert_non_null(strstr(ps_last_error(), "restart"));
    assert_int_equal(ps_task_config_set(s, 1, "sessions_max", "0", 5000), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "1 to 4096"));
    assert_int_equal(ps_task_config_set(s, 1, NULL, "0", 5000), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_task_config_set(s, 9, "sessions_max", "9", 5000), PS_OUT_OF_RANGE);
    /* it is in force: less memory than is there refuses what is new, and takes nothing away */
    ps_task_info infos[2];
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable *old = get(s, "settings/v", PS_F32, PS_SHAPE(1024), NULL);
    int task = ps_variable_task(old);
    assert_int_equal(ps_variable_init(old, false), PS_OK);
    assert_int_equal(ps_task_config_set(s, task, "memory_budget", "9000", 5000), PS_OK);
    ps_variable_spec_init(&spec);
    spec.dtype = PS_F32;
    spec.device = task == 0 ? "/job:ps/task:0" : "/job:ps/task:1";
    spec.name = "settings/x";
    spec.shape = PS_SHAPE(4096);
    assert_int_equal(ps_variable_get(s, &spec, &v), PS_FAILED_PRECONDITION); /* larger than all of it */
    assert_int_equal(ps_cluster_info(s, infos, sizeof(*infos), 2, 5000), PS_OK);
    assert_int_equal(infos[task].budget_bytes, 9000);
    float value[1024];
    assert_int_equal(ps_variable_read(old, value, sizeof(value)), PS_OK);
    assert_int_equal(ps_task_config_set(s, task, "memory_budget", "0", 5000), PS_OK);
    assert_int_equal(ps_variable_get(s, &spec, &v), PS_OK);
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- learning rates, and how old gradients are ---- */

static void see_rate(void *ctx, const ps_variable_info *info)
{
    if (strncmp(info->name, "rate/", 5) == 0) {
        ((double *)ctx)[info->name[5] - 'a'] = info->rate;
    }
}

static void see_ages(void *ctx, const ps_age_info *info)
{
    uint64_t *sum = ctx;
    for (int i = 0; strcmp(info->container, "rates") == 0 && i < 17; i++) {
        sum[i] += info->ages[i];
    }
}

/* What a push of ones subtracts. */
static float step(ps_variable *v)
{
    float before[4], after[4];
    const float ones[4] = {1, 1, 1, 1};
    assert_int_equal(ps_variable_read(v, before, sizeof(before)), PS_OK);
    assert_int_equal(ps_variable_push(v, ones, sizeof(ones), 1), PS_OK);
    assert_int_equal(ps_variable_read(v, after, sizeof(after)), PS_OK);
    return before[0] - after[0];
}

static void a_rate_is_set_and_cleared(void **state)
{
    (void)state;
    const double half = 0.5, bad = -1, none = 0, odd = (double)NAN;
    double seen[3] = {0};
    uint64_t count = 99, age[17] = {0};
    const float ones[4] = {1, 1, 1, 1};
    float values[4];
    ps_session *s = open_session(20000);
    assert_int_equal(ps_container_push(s, "rates"), PS_OK);
    assert_int_equal(ps_set_rates(s, "rates", &half, 5000, &count), PS_NOT_FOUND);
    assert_non_null(strstr(ps_last_error(), "container 'rates' has no variable with an optimizer"));
    ps_variable *a = get(s, "rate/a", PS_F32, PS_SHAPE(4), ps_sgd(1));
    ps_variable *b = get(s, "rate/b", PS_F32, PS_SHAPE(4), ps_sgd(1)); /* at the other task */
    ps_variable *c = get(s, "rate/c", PS_F32, PS_SHAPE(4), NULL);
    assert_int_not_equal(ps_variable_task(a), ps_variable_task(b));
    assert_int_equal(ps_variable_init(a, false), PS_OK);
    assert_int_equal(ps_variable_init(b, false), PS_OK);
    assert_true(step(a) == 1);
    assert_int_equal(ps_variable_set_rate(a, &half), PS_OK);
    assert_true(step(a) == 0.5F && step(b) == 1);
    assert_int_equal(ps_set_rates(s, "rates", &half, 5000, &count), PS_OK);
    assert_int_equal(count, 2);
    assert_true(step(b) == 0.5F);
    assert_int_equal(ps_task_variables(s, 0, 5000, see_rate, seen), PS_OK);
    assert_int_equal(ps_task_variables(s, 1, 5000, see_rate, seen), PS_OK);
    assert_true(seen[0] == 0.5 && seen[1] == 0.5 && seen[2] == 0);
    assert_int_equal(ps_variable_set_rate(a, NULL), PS_OK);
    assert_true(step(a) == 1 && step(b) == 0.5F);
    assert_int_equal(ps_set_rates(s, "rates", NULL, 5000, NULL), PS_OK);
    assert_true(step(b) == 1);
    assert_int_equal(ps_variable_set_rate(a, &bad), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_variable_set_rate(a, &none), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_variable_set_rate(NULL, &half), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_set_rates(s, "rates", &odd, 5000, &count), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_set_rates(s, "a b", &half, 5000, &count), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_variable_set_rate(c, &half), PS_FAILED_PRECONDITION);
    assert_non_null(strstr(ps_last_error(), "has no optimizer"));
    /* every push so far had read just before; two more without a look are late by one and two */
    assert_int_equal(ps_task_ages(s, 0, 5000, see_ages, age), PS_OK);
    assert_int_equal(ps_task_ages(s, 1, 5000, see_ages, age), PS_OK);
    assert_int_equal(age[0], 7);
    assert_int_equal(ps_variable_read(a, values, sizeof(values)), PS_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ps_variable_push(a, ones, sizeof(ones), 1), PS_OK);
    }
    memset(age, 0, sizeof(age));
    assert_int_equal(ps_task_ages(s, 0, 5000, see_ages, age), PS_OK);
    assert_int_equal(ps_task_ages(s, 1, 5000, see_ages, age), PS_OK);
    assert_true(age[0] == 8 && age[1] == 1 && age[2] == 1 && age[3] == 0);
    assert_int_equal(ps_container_pop(s), PS_OK);
    assert_int_equal(ps_reset_containers(s, (const char *const[]){"rates"}, 1), PS_OK);
    assert_int_equal(ps_session_close(s), 0);
}

static void delete_and_reset(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_variable *v = get(s, "gone/v", PS_F32, PS_SHAPE(4), NULL);
    ps_variable *found = NULL;
    float value[4];
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    assert_int_equal(ps_variable_delete(s, "gone/v"), PS_OK);
    assert_int_not_equal(ps_variable_read(v, value, sizeof(value)), PS_OK);
    assert_int_equal(ps_variable_find(s, "gone/v", &found), PS_NOT_FOUND);
    assert_int_equal(ps_variable_delete(s, "gone/v"), PS_NOT_FOUND);
    v = get(s, "gone/w", PS_F32, PS_SHAPE(4), NULL);
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    assert_int_equal(ps_reset(s), PS_OK);
    assert_int_equal(ps_variable_read(v, value, sizeof(value)), PS_ABORTED);
    assert_int_equal(ps_variable_find(s, "gone/w", &found), PS_NOT_FOUND);
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- a task that is dead ---- */

static void a_dead_task_is_named_and_comes_back(void **state)
{
    (void)state;
    ps_session *s = open_session(3000);
    ps_variable *on0 = get(s, "dead/v0", PS_I64, PS_SCALAR, NULL);
    ps_variable *on1 = get(s, "dead/v1", PS_I64, PS_SCALAR, NULL);
    int64_t value = 3;
    ps_task_info infos[2];
    assert_int_equal(ps_variable_task(on1), 1);
    assert_int_equal(ps_variable_init(on0, false), PS_OK);
    assert_int_equal(ps_variable_init(on1, false), PS_OK);
    test_cluster_kill(&cluster, 1);
    ps_status st = ps_variable_assign_add(on1, &value, sizeof(value), &value, sizeof(value));
    assert_true(st == PS_DEADLINE_EXCEEDED || st == PS_UNAVAILABLE);
    assert_non_null(strstr(ps_last_error(), "/job:ps/task:1"));
    assert_non_null(strstr(ps_last_error(), cluster.address[1]));
    assert_int_equal(ps_variable_read(on0, &value, sizeof(value)), PS_OK); /* the others go on */
    assert_int_equal(ps_cluster_info(s, infos, sizeof(*infos), 2, 2000), PS_OK);
    assert_true(infos[0].up);
    assert_false(infos[1].up);
    assert_true(infos[1].error[0] != '\0');
    assert_string_equal(infos[1].address, cluster.address[1]);

    test_cluster_start(&cluster, 1);
    value = 3;
    assert_int_equal(ps_variable_assign_add(on1, &value, sizeof(value), &value, sizeof(value)),
                     PS_ABORTED); /* it came back empty */
    assert_non_null(strstr(ps_last_error(), "/job:ps/task:1"));
    assert_int_equal(ps_cluster_info(s, infos, sizeof(*infos), 2, 3000), PS_OK);
    assert_true(infos[1].up);
    ps_session *again = open_session(5000);
    on1 = get(again, "dead/v1", PS_I64, PS_SCALAR, NULL);
    assert_int_equal(ps_variable_task(on1), 1);
    assert_int_equal(ps_variable_read(on1, &value, sizeof(value)), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_session_close(again), 0);
    assert_int_equal(ps_session_close(s), 0);
}

static void nobody_at_the_target(void **state)
{
    (void)state;
    struct test_cluster none;
    ps_session_options o;
    ps_session *s = NULL;
    test_cluster_init(&none, 1, "");
    test_cluster_refuse(&none, 0);
    ps_session_options_init(&o);
    o.target = none.address[0];
    o.operation_timeout_ms = 3600000; /* it ends sooner: connections are refused */
    o.log = no_log;
    assert_int_equal(ps_session_open(&o, &s, NULL, 0), PS_OK);
    assert_int_equal(ps_cluster_tasks(s), -1);
    assert_non_null(strstr(ps_last_error(), none.address[0]));
    assert_int_equal(ps_session_close(s), 0);
    test_cluster_fini(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_can_be_asked),
        cmocka_unit_test(settings_change_while_it_runs),
        cmocka_unit_test(a_rate_is_set_and_cleared),
        cmocka_unit_test(delete_and_reset),
        cmocka_unit_test(a_dead_task_is_named_and_comes_back),
        cmocka_unit_test(the_directory_is_found),
        cmocka_unit_test(nobody_at_the_target),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
