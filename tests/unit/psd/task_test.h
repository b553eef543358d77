/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of psd_task share: one task (or several) in a fake shell and sessions with it. */
#ifndef TESTS_UNIT_PSD_TASK_TEST_H
#define TESTS_UNIT_PSD_TASK_TEST_H

#include "fake_client.h"
#include "task_look.h"
#include "test.h"
#include "wire_test.h"

#include "psd/state.h"

#include <math.h>

#define SEGMENT ((size_t)PS_SEGMENT_BYTES)
#define START_MS 1000000u

/* The reply has this status and its text contains part. */
#define assert_reply(reply_, status_, part_)                                                                                     \
    do {                                                                                                                         \
        struct fc_reply reply_tmp_ = (reply_);                                                                                   \
        if (reply_tmp_.status != (status_) || strstr(reply_tmp_.text, (part_)) == NULL) {                                        \
            fail_msg("%s gave %s '%s', expected %s with '%s'", #reply_,                                                          \
                     reply_tmp_.status == FC_NONE ? "no reply" : ps_status_name(reply_tmp_.status), reply_tmp_.text,             \
                     ps_status_name(status_), (part_));                                                                          \
        }                                                                                                                        \
    } while (0)
#define assert_applied(reply_) assert_reply(reply_, PS_OK, "")

/* Two tasks remember the same chiefs. */
static inline void assert_same_chiefs(const struct psd_task *a, const struct psd_task *b)
{
    uint64_t cursor = 0;
    void *value = NULL;
    assert_int_equal(a->chief_number, b->chief_number);
    assert_int_equal(psi_map_count(&a->chiefs), psi_map_count(&b->chiefs));
    while (psi_map_next(&a->chiefs, &cursor, NULL, NULL, &value)) {
        const struct psd_chief *of_a = value;
        const struct psd_chief *of_b = psd_chief_find(&b->chiefs, of_a->container);
        assert_non_null(of_b);
        assert_int_equal(of_a->number, of_b->number);
        assert_string_equal(of_a->text, of_b->text);
        assert_memory_equal(of_a->session, of_b->session, sizeof(of_a->session));
    }
}

/* Of the budget, what a few variables, names, containers and pushes take beside values: more than that, and less than any value
 * that a test lets a budget refuse. */
enum { TEST_RECORDS_BYTES = 10 << 10 };

struct env {
    struct shell_net net;
    struct shell_task *t;
    struct fc c;
};

static inline void env_start(struct env *e, shell_tweak tweak)
{
    ps_status st = PS_OK;
    shell_net_init(&e->net);
    e->t = shell_task_new(&e->net, "ps=127.0.0.1:2222", "ps", 0, 42, START_MS, tweak, &st);
    assert_int_equal(st, PS_OK);
    assert_true(e->t->ready || e->t->core->config.has_disk); /* then when that is read */
    fc_init(&e->c, e->t, 1);
}

/* One task that is its own directory, and a session with it. */
static inline void env_init(struct env *e, shell_tweak tweak)
{
    env_start(e, tweak);
    assert_int_equal(fc_connect(&e->c), PS_OK);
}

static inline void env_fini(struct env *e)
{
    shell_net_fini(&e->net);
}

static inline void env_end(void *e)
{
    env_fini(e);
}

/* env_init(), until the case's end. */
static inline struct env *env_new(shell_tweak tweak)
{
    struct env *e = test_alloc(sizeof(*e));
    env_init(e, tweak);
    test_later(env_end, e);
    return e;
}

/* Likewise, but the session has not said HELLO. */
static inline struct env *env_new_unconnected(shell_tweak tweak)
{
    struct env *e = test_alloc(sizeof(*e));
    env_start(e, tweak);
    test_later(env_end, e);
    return e;
}

/* A session of a named task. */
static inline void fc_connect_as(struct fc *c, struct shell_task *t, uint8_t id, const char *job, uint32_t task)
{
    struct fc_hello hello;
    fc_init(c, t, id);
    fc_hello_default(c, &hello);
    PSI_IGNORE(PSI_BYTES_SET(hello.m.job, job));           /* fits */
    PSI_IGNORE(PSI_BYTES_SET(hello.m.host, "here"));       /* likewise */
    PSI_IGNORE(PSI_BYTES_SET(hello.m.program, "trainer")); /* likewise */
    hello.m.task = task;
    hello.m.pid = 4000 + task;
    assert_int_equal(fc_hello(c, &hello), PS_OK);
}

/* One more session with the task, connected. */
static inline struct fc *fc_new(struct shell_task *t, uint8_t id)
{
    struct fc *c = test_alloc(sizeof(*c));
    fc_init(c, t, id);
    assert_int_equal(fc_connect(c), PS_OK);
    return c;
}

/* n floats of one value; the caller's buffer */
static inline const float *filled(float *v, size_t n, float value)
{
    for (size_t i = 0; i < n; i++) {
        v[i] = value;
    }
    return v;
}

static inline void assert_floats(const float *v, size_t from, size_t to, float value)
{
    for (size_t i = from; i < to; i++) {
        if (v[i] != value) {
            fail_msg("element %zu is %g, expected %g", i, (double)v[i], (double)value);
        }
    }
}

/* The value of the variable, whole, from the core itself. */
struct peek {
    const char *name;
    const void *value;
    size_t bytes;
    uint64_t version, creation;
    bool found, initialised, sealed;
    uint32_t count;
};
static inline void peek_cb(void *ctx, const char *container, const char *name, uint64_t creation, bool initialised, bool sealed,
                           uint64_t version, const void *value, size_t value_bytes)
{
    struct peek *p = ctx;
    (void)container;
    p->count++;
    if (strcmp(name, p->name) == 0) {
        p->found = true;
        p->value = value;
        p->bytes = value_bytes;
        p->version = version;
        p->creation = creation;
        p->initialised = initialised;
        p->sealed = sealed;
    }
}
static inline struct peek peek_at(const struct shell_task *t, const char *name)
{
    struct peek p = {.name = name};
    psd_task_variables(t->core, peek_cb, &p);
    return p;
}

#endif
