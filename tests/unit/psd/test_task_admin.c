/* SPDX-License-Identifier: Apache-2.0 */
/* What operators ask of a task: INFO's devices, TASKS, CONTAINERS. */
#include "cluster_test.h"

static bool is(const void *field, const char *text)
{
    const pb_bytes_array_t *f = field;
    return f->size == strlen(text) && memcmp(f->bytes, text, f->size) == 0;
}

static void two_devices(struct psd_task_config *config)
{
    memcpy(config->devices, "CPU:0,GPU:0", sizeof("CPU:0,GPU:0"));
}

static void test_devices(void **state)
{
    (void)state;
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

static void test_tasks(void **state)
{
    (void)state;
    struct cl cl;
    ps_v1_TaskAnswer t[4];
    ps_status st = PS_OK;
    cl_start(&cl);
    shell_task_free(cl.ps1);
    cl.ps1 = shell_task_new(&cl.net, SPEC, "ps", 1, 77, cl.net.tasks[0]->now, named, &st);
    assert_int_equal(tasks(&cl.c, t), 3);
    assert_true(is(&t[0].job, "ps") && t[0].task == 0 && t[0].connected && t[0].heard && t[0].missing_ms == 0);
    assert_true(t[0].life == psd_task_life(cl.ps0->core));
    assert_true(is(&t[1].job, "ps") && t[1].task == 1 && !t[1].connected && !t[1].heard && t[1].life == 0);
    assert_true(is(&t[1].address, "10.0.0.2:2") && t[1].conflict.size == 0);
    assert_true(is(&t[2].job, "worker") && !t[2].connected && !t[2].heard);
    struct shell_conn *end = cl_join(&cl, cl.ps1);
    assert_int_equal(tasks(&cl.c, t), 3);
    assert_true(t[1].connected && t[1].heard && t[1].missing_ms == 0);
    assert_true(t[1].life == psd_task_life(cl.ps1->core) && t[1].pid == 4711 && is(&t[1].host, "machine"));
    cl.ps1->dials = 0;
    shell_cut(end);
    cl_pass(&cl, 300);
    assert_int_equal(tasks(&cl.c, t), 3);
    assert_true(!t[1].connected && t[1].heard && t[1].missing_ms == 300 && t[1].pid == 4711); /* who it was */
    struct wire back;
    wire_init(&back);
    assert_reply(fc_list(&cl.atw, PS_OP_TASKS, NULL, NULL, &back), PS_FAILED_PRECONDITION, "/job:ps/task:0");
    wire_fini(&back);
    cl_fini(&cl);
}

/* ---- CONTAINERS ---- */

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
    return count;
}

static void test_containers(void **state)
{
    (void)state;
    struct env e;
    ps_v1_ContainerAnswer a[4];
    env_init(&e, NULL);
    assert_int_equal(containers(&e.c, a), 0);
    PSI_IGNORE(fc_ready(&e.c, "w", PS_F32, 100, ps_adagrad(1), 1)); /* its handle is of no use here */
    ps_v1_CreateItem m;
    fc_create_item(&m, "b", PS_F32, 100, ps_sgd(1));
    assert_int_equal(fc_create(&e.c, &m, NULL), PS_OK);
    PSI_IGNORE(PSI_BYTES_SET(m.container, "a")); /* fits */
    assert_int_equal(fc_create(&e.c, &m, NULL), PS_OK);
    assert_int_equal(containers(&e.c, a), 2);
    assert_true(is(&a[0].container, "a") && a[0].variables == 1 && a[0].initialised == 0 && a[0].bytes == 0);
    assert_true(is(&a[1].container, "localhost") && a[1].variables == 2 && a[1].initialised == 1);
    assert_int_equal(a[1].bytes, 2 * 400); /* the value and Adagrad's slot */
    assert_int_equal(a[1].level, 0);
    uint64_t before = a[1].incarnation;
    assert_applied(fc_reset(&e.c, 900, "localhost"));
    assert_int_equal(containers(&e.c, a), 2); /* empty, but there */
    assert_true(a[1].variables == 0 && a[1].bytes == 0 && a[1].incarnation != before && a[0].variables == 1);
    env_fini(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_tasks),
        cmocka_unit_test(test_containers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
