/* SPDX-License-Identifier: Apache-2.0 */
/* What operators ask of a task: INFO's devices, TASKS, CONTAINERS, CONFIG_SET. */
#include "cluster_test.h"

#include <stdlib.h>

static bool is(const void *field, const char *text)
{
    const pb_bytes_array_t *f = field;
    return f->size == strlen(text) && memcmp(f->bytes, text, f->size) == 0;
}

static void two_devices(struct psd_task_config *config)
{
    memcpy(config->devices, "CPU:0,GPU:0", sizeof("CPU:0,GPU:0"));
}

TEST(test_devices)
{
    struct env e;
    ps_v1_InfoAnswer info;
    env_init(&e, NULL);
    assert_int_equal(fc_info(&e.c, &info), PS_OK);
    assert_true(is(&info.devices, "CPU:0"));
    env_fini(&e);
    env_init(&e, two_devices);
    assert_int_equal(fc_info(&e.c, &info), PS_OK);
    assert_true(is(&info.devices, "CPU:0,GPU:0"));
    env_fini(&e);
}

/* ---- TASKS ---- */

static uint32_t tasks(struct fc *c, ps_v1_TaskAnswer *out)
{
    struct wire back;
    wire_init(&back);
    assert_applied(fc_list(c, PS_OP_TASKS, NULL, NULL, &back));
    const uint8_t *p = back.data;
    size_t n = back.len;
    uint32_t count = 0;
    while (fc_item(&p, &n, &ps_v1_TaskAnswer_msg, &out[count])) {
        count++;
    }
    wire_fini(&back);
    return count;
}

static void named(struct psd_task_config *config)
{
    memcpy(config->host, "machine", sizeof("machine"));
    config->pid = 4711;
}

TEST(test_tasks)
{
    ps_v1_TaskAnswer t[4];
    ps_status st = PS_OK;
    struct cl *cl = cl_new_apart();
    shell_task_free(cl->ps1);
    cl->at1.conn = NULL;
    cl->ps1 = shell_task_new(&cl->net, SPEC, "ps", 1, 77, cl->net.tasks[0]->now, named, &st);
    assert_int_equal(tasks(&cl->c, t), 3);
    assert_true(is(&t[0].job, "ps") && t[0].task == 0 && t[0].connected && t[0].heard && t[0].missing_ms == 0);
    assert_true(t[0].life == psd_task_life(cl->ps0->core));
    assert_true(is(&t[1].job, "ps") && t[1].task == 1 && !t[1].connected && !t[1].heard && t[1].life == 0);
    assert_true(is(&t[1].address, "10.0.0.2:2") && t[1].conflict.size == 0);
    assert_true(is(&t[2].job, "worker") && !t[2].connected && !t[2].heard);
    struct shell_conn *end = cl_join(cl, cl->ps1);
    assert_int_equal(tasks(&cl->c, t), 3);
    assert_true(t[1].connected && t[1].heard && t[1].missing_ms == 0);
    assert_true(t[1].life == psd_task_life(cl->ps1->core) && t[1].pid == 4711 && is(&t[1].host, "machine"));
    cl->ps1->dials = 0;
    shell_cut(end);
    cl_pass(cl, 300);
    assert_int_equal(tasks(&cl->c, t), 3);
    assert_true(!t[1].connected && t[1].heard && t[1].missing_ms == 300 && t[1].pid == 4711); /* who it was */
    struct wire *back = wire_new();
    assert_reply(fc_list(&cl->atw, PS_OP_TASKS, NULL, NULL, back), PS_FAILED_PRECONDITION, "/job:ps/task:0");
}

/* A task that comes back empty: what it had is counted and named, until it is made again or given up. */
TEST(test_lost)
{
    ps_v1_TaskAnswer t[4];
    struct cl *cl = cl_new();
    assert_int_equal(cl_create(cl, "x", "ps", 1, true, NULL), PS_OK);
    assert_int_equal(cl_create(cl, "y", "ps", 1, true, NULL), PS_OK);
    assert_int_equal(cl_create(cl, "z", "ps", 0, true, NULL), PS_OK);
    assert_int_equal(tasks(&cl->c, t), 3);
    assert_true(t[1].restarts == 0 && t[1].lost == 0);
    shell_task_free(cl->ps1);
    shell_run(&cl->net);
    cl->at1.conn = NULL;
    assert_int_equal(tasks(&cl->c, t), 3);
    assert_true(!t[1].connected && t[1].restarts == 0 && t[1].lost == 0); /* it may have them still */
    cl->ps1 = cl_task(cl, "ps", 1);
    PSI_IGNORE(cl_join(cl, cl->ps1)); /* the connection stays with the tasks */
    assert_int_equal(tasks(&cl->c, t), 3);
    assert_true(t[1].connected && t[1].restarts == 1 && t[1].lost == 2);
    assert_true(is(&t[1].lost_names, "x, y") || is(&t[1].lost_names, "y, x"));
    assert_true(t[0].restarts == 0 && t[0].lost == 0 && t[2].restarts == 0 && t[2].lost == 0);
    assert_int_equal(cl_create(cl, "x", "ps", 1, true, NULL), PS_OK);
    assert_int_equal(tasks(&cl->c, t), 3);
    assert_true(t[1].restarts == 1 && t[1].lost == 1 && is(&t[1].lost_names, "y"));
    assert_applied(fc_reset(&cl->c, 900, "localhost"));
    assert_int_equal(tasks(&cl->c, t), 3);
    assert_true(t[1].restarts == 1 && t[1].lost == 0 && t[1].lost_names.size == 0);
    cl_restart_directory(cl);         /* it has it from the others that there was one before */
    PSI_IGNORE(cl_join(cl, cl->ps1)); /* likewise */
    assert_int_equal(tasks(&cl->c, t), 3);
    assert_true(t[0].restarts == 1 && t[0].lost == 0 && t[1].restarts == 0 && t[1].lost == 0);
}

/* ---- CONTAINERS ---- */

static int by_name(const void *a, const void *b)
{
    const ps_v1_ContainerAnswer *x = a, *y = b;
    return strncmp((const char *)x->container.bytes, (const char *)y->container.bytes, sizeof(x->container.bytes));
}

/* Sorted, as the library does. */
static uint32_t containers(struct fc *c, ps_v1_ContainerAnswer *out)
{
    struct wire back;
    wire_init(&back);
    assert_applied(fc_list(c, PS_OP_CONTAINERS, NULL, NULL, &back));
    const uint8_t *p = back.data;
    size_t n = back.len;
    uint32_t count = 0;
    while (fc_item(&p, &n, &ps_v1_ContainerAnswer_msg, &out[count])) {
        count++;
    }
    wire_fini(&back);
    qsort(out, count, sizeof(*out), by_name);
    return count;
}

TEST(test_containers)
{
    ps_v1_ContainerAnswer a[4];
    struct env *e = env_new(NULL);
    assert_int_equal(containers(&e->c, a), 0);
    PSI_IGNORE(fc_ready(&e->c, "w", PS_F32, 100, ps_adagrad(1), 1)); /* its handle is of no use here */
    ps_v1_CreateItem m;
    fc_create_item(&m, "b", PS_F32, 100, ps_sgd(1));
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
    PSI_IGNORE(PSI_BYTES_SET(m.container, "a")); /* fits */
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
    assert_int_equal(containers(&e->c, a), 2);
    assert_true(is(&a[0].container, "a") && a[0].variables == 1 && a[0].initialised == 0 && a[0].bytes == 0);
    assert_true(is(&a[1].container, "localhost") && a[1].variables == 2 && a[1].initialised == 1);
    assert_int_equal(a[1].bytes, 2 * 400);           /* the value and Adagrad's slot */
    assert_true(a[0].names == 1 && a[1].names == 2); /* it is the directory */
    uint64_t before = a[1].incarnation;
    assert_applied(fc_reset(&e->c, 900, "localhost"));
    assert_int_equal(containers(&e->c, a), 2); /* empty, but there */
    assert_true(a[1].variables == 0 && a[1].bytes == 0 && a[1].incarnation != before && a[0].variables == 1 && a[1].names == 0);
}

/* ---- CONFIG and CONFIG_SET ---- */

static struct {
    char limit[32];
    int calls;
} settings;

static bool rows(void *ctx, uint32_t i, const char **name, const char **value, const char **default_value, const char **help,
                 bool *reloadable)
{
    static const char *const names[] = {"push_limit", "address", "log_level"};
    (void)ctx;
    if (i >= 3) {
        return false;
    }
    *name = names[i];
    *value = i == 0 ? settings.limit : "x";
    *default_value = "10";
    *help = "help";
    *reloadable = i != 1;
    return true;
}

static ps_status change(void *shell, const char *name, const char *value, char *error, size_t error_bytes)
{
    (void)shell;
    assert_string_not_equal(name, "address");
    settings.calls++;
    if (strcmp(name, "push_limit") != 0 || strlen(value) >= sizeof(settings.limit) || value[0] < '0' || value[0] > '9') {
        PSI_IGNORE(snprintf(error, error_bytes, "%s must be a number", name)); /* fits */
        return PS_INVALID_ARGUMENT;
    }
    memcpy(settings.limit, value, strlen(value) + 1);
    return PS_OK;
}

static void with_settings(struct psd_task_config *config)
{
    memcpy(settings.limit, "10", 3);
    settings.calls = 0;
    config->config_row = rows;
    config->config_set = change;
}

static void with_fixed_settings(struct psd_task_config *config)
{
    with_settings(config);
    config->config_set = NULL;
}

static void with_sets_only(struct psd_task_config *config)
{
    with_settings(config);
    config->config_row = NULL;
}

static uint32_t reloadable(struct fc *c)
{
    struct wire back;
    ps_v1_ConfigAnswer a;
    uint32_t bits = 0, at = 1;
    wire_init(&back);
    assert_applied(fc_list(c, PS_OP_CONFIG, NULL, NULL, &back));
    const uint8_t *p = back.data;
    size_t n = back.len;
    while (fc_item(&p, &n, &ps_v1_ConfigAnswer_msg, &a)) {
        bits |= a.reloadable ? at : 0;
        at <<= 1;
    }
    wire_fini(&back);
    return bits;
}

static struct fc_reply config_set(struct fc *c, const char *name, const char *value)
{
    ps_v1_ConfigItem m = ps_v1_ConfigItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.name, name));   /* fits */
    PSI_IGNORE(PSI_BYTES_SET(m.value, value)); /* likewise */
    return fc_list(c, PS_OP_CONFIG_SET, &ps_v1_ConfigItem_msg, &m, NULL);
}

TEST(test_config_set)
{
    struct env *e = env_new(with_settings);
    assert_int_equal(reloadable(&e->c), 5);
    assert_applied(config_set(&e->c, "push_limit", "20"));
    assert_string_equal(settings.limit, "20");
    assert_true(shell_logged(e->t, "config_set") && shell_logged(e->t, "name=push_limit old=10 new=20"));
    assert_applied(config_set(&e->c, "push-limit", "20")); /* as flags; and again is harmless */
    shell_log_clear(e->t);
    assert_reply(config_set(&e->c, "push_limit", "many"), PS_INVALID_ARGUMENT, "push_limit must be a number");
    assert_reply(config_set(&e->c, "push_limit", ""), PS_INVALID_ARGUMENT, "push_limit must be a number");
    assert_int_equal(settings.calls, 4);
    /* the shell is not asked: */
    assert_reply(config_set(&e->c, "address", "y"), PS_FAILED_PRECONDITION, "address takes a restart of /job:ps/task:0");
    assert_reply(config_set(&e->c, "address", "y"), PS_FAILED_PRECONDITION, "push_limit, log_level");
    assert_reply(config_set(&e->c, "push_limt", "20"), PS_NOT_FOUND, "did you mean push_limit?");
    assert_reply(config_set(&e->c, "log", "20"), PS_NOT_FOUND, "did you mean log_level?");
    assert_reply(config_set(&e->c, "zzzzzz", "20"), PS_NOT_FOUND, "'zzzzzz'");
    assert_null(strstr(config_set(&e->c, "zzzzzz", "20").text, "did you mean"));
    assert_reply(config_set(&e->c, "", "20"), PS_NOT_FOUND, "''");
    assert_reply(config_set(&e->c, "push_limit", "2\n"), PS_INVALID_ARGUMENT, "control bytes");
    assert_reply(config_set(&e->c, "push_limit", "2\x7f"), PS_INVALID_ARGUMENT, "control bytes");
    assert_int_equal(settings.calls, 4);
    assert_string_equal(settings.limit, "20");
    assert_false(shell_logged(e->t, "config_set"));
}

TEST(test_config_set_bounds)
{
    char name[64], value[512];
    ps_v1_ConfigItem m = ps_v1_ConfigItem_init_zero;
    struct env *e = env_new(with_settings);
    memset(name, 'n', 63);
    name[63] = '\0';
    assert_reply(config_set(&e->c, name, "1"), PS_NOT_FOUND, "no setting");
    memset(value, '1', 511);
    value[511] = '\0';
    assert_reply(config_set(&e->c, "push_limit", value), PS_INVALID_ARGUMENT, "number");
    PSI_IGNORE(PSI_BYTES_SET(m.name, "push_limit")); /* fits */
    m.value.size = 2;
    m.value.bytes[0] = '1'; /* and a NUL */
    assert_reply(fc_list(&e->c, PS_OP_CONFIG_SET, &ps_v1_ConfigItem_msg, &m, NULL), PS_INVALID_ARGUMENT, "not understood");
    assert_reply(fc_list(&e->c, PS_OP_CONFIG_SET, NULL, NULL, NULL), PS_INVALID_ARGUMENT, "names no setting");
    struct wire *body = wire_new();
    wire_append(body, "\x45\x0a\x40", 3); /* 69 bytes: a name of 64 */
    wire_append(body, value, 64);
    wire_append(body, "\x12\x01\x31\0\0\0", 6);
    assert_reply(fc_call(&e->c, PS_OP_CONFIG_SET, 0, 900, 0, NULL, 0, body), PS_INVALID_ARGUMENT, "");
    assert_string_equal(settings.limit, "10");
}

TEST(test_config_set_without_a_shell_for_it)
{
    struct env *e = env_new(with_fixed_settings);
    assert_int_equal(reloadable(&e->c), 0);
    assert_reply(config_set(&e->c, "push_limit", "20"), PS_FAILED_PRECONDITION, "while it runs: none");
    e = env_new(with_sets_only); /* what is not listed cannot be set */
    assert_reply(config_set(&e->c, "push_limit", "20"), PS_NOT_FOUND, "push_limit");
    assert_int_equal(settings.calls, 0);
}
