/* SPDX-License-Identifier: Apache-2.0 */
/* psd/base/disk.c: what a core asks of its disk is asked for in order and answered once; what cannot be asked for is refused at
 * once. */
#include "task_test.h"

#include "common/mem.h"
#include "psd/base/disk.h"

struct answer {
    uint32_t count;
    ps_status st;
    size_t bytes;
    char error[64];
    bool again; /* ask for another one from within */
};

static void with_disk(struct psd_task_config *config)
{
    config->has_disk = true;
}

/* A task has its disk listed at its start, once: there is nothing on it. */
static struct env *env_listed(void)
{
    struct env *e = env_new(with_disk);
    assert_int_equal(e->t->disk_count, 1);
    assert_int_equal(e->t->disk[0].kind, PSD_DISK_LIST);
    shell_disk_done(e->t, PS_OK, 0, "");
    assert_int_equal(e->t->disk_count, 0);
    return e;
}

static void answered(struct psd_task *t, void *ctx, ps_status st, size_t bytes, const char *error)
{
    struct answer *a = ctx;
    a->count++;
    a->st = st;
    a->bytes = bytes;
    (void)snprintf(a->error, sizeof(a->error), "%s", error);
    if (a->again) {
        struct psd_disk_op op = {.kind = PSD_DISK_REMOVE, .file.number = 9};
        a->again = false;
        assert_int_equal(psd_disk_ask(t, &op, answered, a, NULL), PS_OK);
    }
}

static ps_status ask(struct env *e, uint64_t number, struct answer *a, struct psi_err *err)
{
    struct psd_disk_op op = {.kind = PSD_DISK_REMOVE, .file.number = number};
    return psd_disk_ask(e->t->core, &op, answered, a, err);
}

TEST(test_order_and_answers)
{
    struct env *e = env_listed();
    struct answer first = {.again = true};
    struct answer second = {.count = 0};
    struct psi_err err;
    assert_ok(ask(e, 5, &first, &err), &err);
    assert_ok(ask(e, 6, &second, &err), &err);
    assert_int_equal(first.count, 0);
    shell_settle(e->t);
    assert_int_equal(e->t->disk_count, 2);
    assert_int_equal(e->t->disk[0].file.number, 5);
    assert_int_equal(e->t->disk[1].file.number, 6);
    assert_true(e->t->disk[0].id != 0 && e->t->disk[1].id > e->t->disk[0].id);
    shell_disk_done(e->t, PS_OK, 7, "");
    assert_int_equal(first.count, 1);
    assert_int_equal(first.st, PS_OK);
    assert_int_equal(first.bytes, 7);
    assert_int_equal(second.count, 0);
    assert_int_equal(e->t->disk_count, 2); /* what was asked for meanwhile is behind */
    assert_int_equal(e->t->disk[1].file.number, 9);
    shell_disk_done(e->t, PS_RESOURCE_EXHAUSTED, 0, "full");
    assert_int_equal(second.count, 1);
    assert_int_equal(second.st, PS_RESOURCE_EXHAUSTED);
    assert_string_equal(second.error, "full");
    shell_disk_done(e->t, PS_OK, 0, "");
    assert_int_equal(first.count, 2);
}

TEST(test_as_many_as_there_may_be)
{
    struct env *e = env_listed();
    struct answer a = {.count = 0};
    struct psi_err err;
    for (uint32_t i = 0; i < PSD_DISK_OPS_MAX; i++) {
        assert_ok(ask(e, i + 1, &a, &err), &err);
    }
    assert_fails(ask(e, 99, &a, &err), PS_RESOURCE_EXHAUSTED, &err, "waits for 128 operations");
    shell_settle(e->t);
    shell_disk_done(e->t, PS_OK, 0, "");
    assert_ok(ask(e, 99, &a, &err), &err);
    assert_int_equal(a.count, 1);
} /* the task ends with all on their way: nobody is told */

TEST(test_no_memory)
{
    struct env *e = env_listed();
    struct answer a = {.count = 0};
    struct psi_err err;
    for (int64_t n = 0; n < 2; n++) { /* the record, then the effect */
        psi_mem_fail_after(n);
        ps_status st = ask(e, 1, &a, &err);
        psi_mem_fail_after(-1);
        assert_int_equal(st, PS_RESOURCE_EXHAUSTED);
        shell_settle(e->t);
        assert_int_equal(e->t->disk_count, 0);
    }
    assert_ok(ask(e, 1, &a, &err), &err);
    shell_settle(e->t);
    shell_disk_done(e->t, PS_OK, 0, "");
    assert_int_equal(a.count, 1);
}

TEST(test_no_directory)
{
    struct env *e = env_new(NULL);
    struct answer a = {.count = 0};
    struct psi_err err;
    assert_fails(ask(e, 1, &a, &err), PS_FAILED_PRECONDITION, &err, "checkpoint_dir");
    shell_settle(e->t);
    assert_int_equal(e->t->disk_count, 0);
}
