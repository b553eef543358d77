/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of partitioned variables, and their asynchronous calls, beside whole variables of the same name: equal bit for bit after
 * 100 sparse pushes of every optimizer, after every scatter, for every layout and axis. Parts without rows take each push. A row
 * outside is refused before anything is sent; a task that is gone: the error says which parts were changed.
 */
#define API_TASKS 3
#include "api_test.h"

#include "common/mem.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 11, COLS = 6, ELEMENTS = ROWS * COLS, STEPS = 100, NAMED = 9 };

static uint32_t random_state = 12345;

static uint32_t draw(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

/* How a variable is cut; parts 0: whole. */
struct cut {
    uint32_t parts;
    uint8_t axis;
    uint8_t layout;
};
static const struct cut cuts[] = {{4, 0, PS_LAYOUT_DIV}, {3, 0, PS_LAYOUT_MOD},  {4, 1, PS_LAYOUT_DIV},
                                  {5, 1, PS_LAYOUT_MOD}, {11, 0, PS_LAYOUT_DIV}, {2, 0, PS_LAYOUT_MOD}};
enum { CUTS = sizeof(cuts) / sizeof(cuts[0]) };

static void must(ps_status st)
{
    if (st != PS_OK) {
        fail_msg("%s", ps_last_error());
    }
}

static ps_variable *get_as(ps_session *s, const char *container, const char *name, const struct cut *cut, ps_shape shape,
                           const ps_optimizer *optimizer)
{
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_F32;
    spec.shape = shape;
    spec.init = ps_normal(0, 1);
    spec.optimizer = optimizer;
    spec.partitions = cut->parts;
    spec.partition_axis = cut->axis;
    spec.partition_layout = cut->layout;
    must(ps_container_push(s, container));
    must(ps_variable_get(s, &spec, &v));
    must(ps_container_pop(s));
    must(ps_variable_init(v, false));
    return v;
}

static void pair(ps_session *s, const char *name, const struct cut *cut, ps_shape shape, const ps_optimizer *optimizer,
                 ps_variable **whole, ps_variable **parts)
{
    *whole = get_as(s, "whole", name, &(struct cut){0}, shape, optimizer);
    *parts = get_as(s, "parts", name, cut, shape, optimizer);
}

static void same(ps_variable *whole, ps_variable *parts, const char *what)
{
    float a[ELEMENTS], b[ELEMENTS];
    must(ps_variable_read(whole, a, sizeof(a)));
    must(ps_variable_read(parts, b, sizeof(b)));
    if (memcmp(a, b, sizeof(a)) != 0) {
        fail_msg("%s: the parts are not as the whole", what);
    }
}

static int64_t indices[NAMED];
static float rows[NAMED * COLS];

/* Up to NAMED rows in any order, some of them several times. */
static size_t draw_rows(void)
{
    const size_t count = draw() % (NAMED + 1);
    for (size_t i = 0; i < count; i++) {
        indices[i] = draw() % ROWS;
        for (size_t k = 0; k < COLS; k++) {
            rows[i * COLS + k] = (float)draw() / 8388608.0f - 1.0f;
        }
    }
    return count;
}

static void same_rows(ps_variable *whole, ps_variable *parts, size_t count)
{
    float a[NAMED * COLS], b[NAMED * COLS];
    memset(a, 1, sizeof(a));
    memset(b, 1, sizeof(b));
    must(ps_gather(whole, indices, count, a, count * COLS * sizeof(float)));
    must(ps_gather(parts, indices, count, b, count * COLS * sizeof(float)));
    assert_memory_equal(a, b, sizeof(a));
}

static void every_optimizer(void **state)
{
    (void)state;
    static const char *const optimizers[] = {
        "sgd",     "momentum",         "adagrad", "lazy_adam",  "adagrad_v2",    "adagrad_da",    "adadelta",
        "rmsprop", "rmsprop_centered", "adamw",   "adamax",     "ftrl",          "proximal_gd",   "proximal_adagrad",
        "addsign", "powersign",        "lion",    "torch_adam", "torch_adagrad", "torch_rmsprop", "torch_rmsprop_centered"};
    ps_session *s = open_session(60000);
    for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++) {
        ps_optimizer optimizer;
        ps_variable *whole = NULL, *parts = NULL;
        must(ps_optimizer_parse(optimizers[i], 0.01, &optimizer, sizeof(optimizer)));
        pair(s, optimizers[i], &cuts[i % CUTS], PS_SHAPE(ROWS, COLS), &optimizer, &whole, &parts);
        for (int step = 0; step < STEPS; step++) {
            const size_t count = draw_rows(), bytes = count * COLS * sizeof(float);
            if (step % 2 == 0) {
                must(ps_push_rows(whole, indices, count, rows, bytes, 0.5f));
                must(ps_push_rows(parts, indices, count, rows, bytes, 0.5f));
                continue;
            }
            float a[NAMED * COLS] = {0}, b[NAMED * COLS] = {0};
            must(ps_push_pull_rows(whole, indices, count, rows, bytes, a, bytes, 0.5f));
            must(ps_push_pull_rows(parts, indices, count, rows, bytes, b, bytes, 0.5f));
            assert_memory_equal(a, b, sizeof(a));
        }
        same(whole, parts, optimizers[i]);
        same_rows(whole, parts, draw_rows());
        for (uint32_t k = 0; k < cuts[i % CUTS].parts; k++) {
            float value[ELEMENTS];
            ps_variable *part = ps_variable_partition(parts, k);
            must(ps_variable_read(part, value, ps_variable_bytes(part)));
            assert_int_equal(ps_variable_version(part, NULL), STEPS); /* each push reaches each part */
        }
    }
    assert_int_equal(ps_session_close(s), 0);
}

static void every_layout(void **state)
{
    (void)state;
    ps_session *s = open_session(60000);
    for (size_t i = 0; i < CUTS; i++) {
        char name[32];
        ps_variable *whole = NULL, *parts = NULL;
        snprintf(name, sizeof(name), "layout_%zu", i);
        pair(s, name, &cuts[i], cuts[i].axis == 0 ? PS_SHAPE(ROWS, 2, 3) : PS_SHAPE(ROWS, COLS), ps_sgd(1), &whole, &parts);
        for (int step = 0; step < 20; step++) {
            const size_t count = draw_rows(), bytes = count * COLS * sizeof(float);
            same_rows(whole, parts, count);
            must(ps_scatter_add(whole, indices, count, rows, bytes));
            must(ps_scatter_add(parts, indices, count, rows, bytes));
            must(ps_scatter_update(whole, indices, count / 2, rows, count / 2 * COLS * sizeof(float)));
            must(ps_scatter_update(parts, indices, count / 2, rows, count / 2 * COLS * sizeof(float)));
            must(ps_scatter_sub(whole, indices, count, rows, bytes));
            must(ps_scatter_sub(parts, indices, count, rows, bytes));
            same(whole, parts, "scatter");
        }
        /* all rows, the last one first */
        for (int64_t k = 0; k < NAMED; k++) {
            indices[k] = ROWS - 1 - k;
        }
        same_rows(whole, parts, NAMED);
    }
    assert_int_equal(ps_session_close(s), 0);
}

struct ends {
    atomic_int count;
    ps_status status[16];
    uint64_t version[16];
    ps_request requests[16];
};

static void ended(void *ctx, ps_request *req, const ps_result *result)
{
    struct ends *e = ctx;
    const size_t i = (size_t)(req - e->requests);
    e->status[i] = result->status;
    e->version[i] = result->version;
    atomic_fetch_add(&e->count, 1);
}

static void wait_for(struct ends *e, int count)
{
    for (int i = 0; atomic_load(&e->count) < count; i++) {
        assert_true(i < 60000);
        usleep(1000); /* sleep: until callbacks on another thread have come */
    }
    for (int i = 0; i < count; i++) {
        assert_int_equal(e->status[i], PS_OK);
    }
}

/* Whoever does not know how a variable is cut finds it by its name. */
static void found(void **state)
{
    (void)state;
    ps_session *s = open_session(60000);
    for (size_t i = 0; i < CUTS; i++) {
        char name[32];
        ps_variable *whole = NULL, *parts = NULL, *again = NULL;
        snprintf(name, sizeof(name), "found_%zu", i);
        pair(s, name, &cuts[i], PS_SHAPE(ROWS, COLS), ps_sgd(1), &whole, &parts);
        ps_session *other = open_session(60000);
        must(ps_container_push(other, "parts"));
        must(ps_variable_find(other, name, &again));
        assert_string_equal(ps_variable_name(again), name);
        assert_int_equal(ps_variable_partitions(again), cuts[i].parts);
        assert_int_equal(ps_variable_bytes(again), ps_variable_bytes(whole));
        same(whole, again, "found");
        same_rows(whole, again, draw_rows());
        must(ps_push_rows(again, indices, 1, rows, COLS * sizeof(float), 1));
        must(ps_push_rows(whole, indices, 1, rows, COLS * sizeof(float), 1));
        same(whole, parts, "pushed by whoever has found it");
        assert_int_equal(ps_variable_find(other, "nothing", &again), PS_NOT_FOUND);
        assert_non_null(strstr(ps_last_error(), "nothing"));
        assert_null(strstr(ps_last_error(), "part_0"));
        assert_int_equal(ps_session_close(other), 0);
    }
    assert_int_equal(ps_session_close(s), 0);
}

/* Requests in flight at the same time are carried out in call order at every part. Behind those that read values, which may be
 * sent later, nothing changes them. */
static void asynchronous(void **state)
{
    (void)state;
    static struct ends e[2];
    ps_session *s = open_session(60000);
    for (size_t i = 0; i < CUTS; i++) {
        char name[32];
        float value[ELEMENTS], read[2][ELEMENTS], came[2][ELEMENTS], before[2][NAMED * COLS];
        ps_variable *v[2] = {NULL, NULL};
        snprintf(name, sizeof(name), "async_%zu", i);
        pair(s, name, &cuts[i], PS_SHAPE(ROWS, COLS), ps_momentum(0.1, 0.9), &v[0], &v[1]);
        for (int k = 0; k < ELEMENTS; k++) {
            value[k] = (float)k;
        }
        const size_t count = 1 + draw_rows() % NAMED, bytes = count * COLS * sizeof(float);
        for (int w = 0; w < 2; w++) {
            ps_request *r = e[w].requests;
            atomic_store(&e[w].count, 0);
            must(ps_assign_start(v[w], value, sizeof(value), 0, &r[0], ended, &e[w]));
            must(ps_push_start(v[w], value, sizeof(value), 0.5f, 0, &r[1], ended, &e[w]));
            must(ps_assign_add_start(v[w], value, sizeof(value), 0, &r[2], ended, &e[w]));
            must(ps_push_rows_start(v[w], indices, count, rows, bytes, 1, 0, &r[3], ended, &e[w]));
            must(ps_gather_start(v[w], indices, count, before[w], bytes, 0, &r[4], ended, &e[w]));
            must(ps_scatter_update_start(v[w], indices, count, rows, bytes, 0, &r[5], ended, &e[w]));
            must(ps_scatter_add_start(v[w], indices, count, rows, bytes, 0, &r[6], ended, &e[w]));
            must(ps_push_pull_start(v[w], value, sizeof(value), read[w], sizeof(read[w]), 1, 0, &r[7], ended, &e[w]));
            must(ps_pull_start(v[w], came[w], sizeof(came[w]), 0, &r[8], ended, &e[w]));
            wait_for(&e[w], 9);
        }
        assert_memory_equal(read[0], read[1], sizeof(read[0]));
        assert_memory_equal(came[0], came[1], sizeof(came[0]));
        assert_memory_equal(before[0], before[1], bytes);
        assert_int_equal(e[0].version[8], e[1].version[8]);
    }
    assert_int_equal(ps_session_close(s), 0);
}

/* A request is one at a time, and may be used again after its end. The session makes progress only where it is told to. */
static void one_request(void **state)
{
    (void)state;
    static struct ends e;
    static float value[ELEMENTS];
    ps_session_options o;
    ps_session *s = NULL;
    char error[512];
    ps_session_options_init(&o);
    o.target = cluster.address[0];
    o.log = no_log;
    o.progress = PS_PROGRESS_CALLER;
    assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_OK);
    ps_variable *v = get_as(s, "parts", "again", &cuts[1], PS_SHAPE(ROWS, COLS), ps_sgd(1));
    for (int turn = 1; turn <= 2; turn++) {
        must(ps_push_start(v, value, sizeof(value), 1, 0, &e.requests[0], ended, &e));
        assert_int_equal(ps_push_start(v, value, sizeof(value), 1, 0, &e.requests[0], ended, &e), PS_FAILED_PRECONDITION);
        assert_non_null(strstr(ps_last_error(), "the request is in flight"));
        for (int i = 0; atomic_load(&e.count) < turn; i++) {
            assert_true(i < 60000);
            must(ps_progress_run(s, 100));
        }
        assert_int_equal(e.status[0], PS_OK);
        assert_int_equal(e.version[0], turn);
    }
    assert_int_equal(ps_session_close(s), 0);
}

static void refused(void **state)
{
    (void)state;
    static struct ends e;
    float memory[NAMED * COLS] = {0};
    const int64_t over[] = {3, ROWS}, below[] = {-1};
    ps_session *s = open_session(20000);
    ps_variable *v = get_as(s, "parts", "refused", &cuts[1], PS_SHAPE(ROWS, COLS), ps_sgd(1));
    assert_int_equal(ps_push_rows(v, over, 2, memory, 2 * COLS * sizeof(float), 1), PS_OUT_OF_RANGE);
    assert_non_null(strstr(ps_last_error(), "push_rows: 'refused': index 11, number 1 of 2, is outside [0, 11)"));
    assert_int_equal(ps_last_applied(), PS_NOTHING_APPLIED);
    assert_int_equal(ps_gather_start(v, below, 1, memory, COLS * sizeof(float), 0, &e.requests[0], ended, &e), PS_OUT_OF_RANGE);
    assert_int_equal(ps_gather(v, over, 1, memory, 4), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_push_rows(v, over, 1, memory, COLS * sizeof(float), -1), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_push_start(v, memory, 4, 1, 0, &e.requests[0], ended, &e), PS_INVALID_ARGUMENT);
    must(ps_gather(v, NULL, 0, NULL, 0));
    assert_int_equal(atomic_load(&e.count), 0);
    assert_int_equal(ps_session_close(s), 0);
}

/* Each allocation of the calling thread fails once: a status, nothing is freed twice, and the next call works. */
static void no_memory(void **state)
{
    (void)state;
    static const int64_t named[] = {7, 2, 7};
    static const float grads[3 * COLS];
    float came[3 * COLS];
    ps_session *s = open_session(20000);
    for (uint8_t axis = 0; axis < 2; axis++) {
        ps_variable *v = get_as(s, "parts", axis == 0 ? "no_memory_0" : "no_memory_1", &(struct cut){2, axis, PS_LAYOUT_DIV},
                                PS_SHAPE(ROWS, COLS), ps_sgd(1));
        for (int both = 0; both < 2; both++) {
            ps_status st = PS_RESOURCE_EXHAUSTED;
            int64_t n = 0;
            for (; st != PS_OK; n++) {
                psi_mem_fail_after(n);
                st = both != 0 ? ps_push_pull_rows(v, named, 3, grads, sizeof(grads), came, sizeof(came), 1)
                               : ps_gather(v, named, 3, came, sizeof(came));
                psi_mem_fail_after(-1);
                assert_true(st == PS_OK || st == PS_RESOURCE_EXHAUSTED);
            }
            assert_true(n > 5);
        }
    }
    assert_int_equal(ps_session_close(s), 0);
}

/* The last test: a task dies. */
static void a_task_is_gone(void **state)
{
    (void)state;
    static struct ends e;
    float memory[COLS] = {0};
    ps_session *s = open_session(2000);
    ps_variable *v = get_as(s, "parts", "last", &(struct cut){3, 0, PS_LAYOUT_DIV}, PS_SHAPE(ROWS, COLS), ps_sgd(1));
    const int gone = 1;
    uint32_t part = 0;
    while (ps_variable_task(ps_variable_partition(v, part)) != gone) {
        part++;
    }
    test_cluster_kill(&cluster, gone);
    const int64_t first = 0;
    assert_int_not_equal(ps_push_rows(v, &first, 1, memory, sizeof(memory), 1), PS_OK);
    assert_int_equal(ps_last_applied(), PS_MAYBE_PARTLY_APPLIED);
    char says[64];
    snprintf(says, sizeof(says), "part %u of 3 of 'last'", part);
    assert_non_null(strstr(ps_last_error(), says));
    assert_non_null(strstr(ps_last_error(), part == 0   ? "; applied to parts 1, 2, not or not surely to 0"
                                            : part == 1 ? "; applied to parts 0, 2, not or not surely to 1"
                                                        : "; applied to parts 0, 1, not or not surely to 2"));
    must(ps_push_rows_start(v, &first, 1, memory, sizeof(memory), 1, 0, &e.requests[0], ended, &e));
    for (int i = 0; atomic_load(&e.count) < 1; i++) {
        assert_true(i < 60000);
        usleep(1000); /* sleep: until the callback on another thread has come */
    }
    assert_int_not_equal(e.status[0], PS_OK);
    /* rows of parts that are there are read */
    const int64_t index = part == 0 ? ROWS - 1 : 0;
    must(ps_gather(v, &index, 1, memory, sizeof(memory)));
    (void)ps_session_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_optimizer), cmocka_unit_test(every_layout),   cmocka_unit_test(asynchronous),
        cmocka_unit_test(found),           cmocka_unit_test(one_request),    cmocka_unit_test(refused),
        cmocka_unit_test(no_memory),       cmocka_unit_test(a_task_is_gone),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
