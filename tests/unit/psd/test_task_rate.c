/* SPDX-License-Identifier: Apache-2.0 */
/* SET_RATE: a learning rate beside the definition. SGD with gradients of 1: what a push subtracts is the rate that it captured.
 */
#include "change_code.h"
#include "task_test.h"

#include "psd/state.h"

#include "common/optimizer.h"

enum { LARGE = 20000 };

/* clear: no rate; name NULL: all of the container. */
static struct fc_reply set_rate_of(struct fc *c, const char *container, const char *name, double rate, bool clear,
                                   uint64_t *out_count)
{
    ps_v1_SetRate m = ps_v1_SetRate_init_zero;
    ps_v1_ContainerItem in = ps_v1_ContainerItem_init_zero;
    uint8_t meta[PS_META_BYTES_MAX];
    size_t meta_bytes = 0;
    PSI_IGNORE(PSI_BYTES_SET(m.name, name != NULL ? name : "")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(in.container, container));
    m.rate = rate;
    m.clear = clear;
    assert_int_equal(psi_msg_encode(&ps_v1_SetRate_msg, &m, meta, sizeof(meta), &meta_bytes, NULL), PS_OK);
    struct wire *body = wire_new();
    wire_item(body, &ps_v1_ContainerItem_msg, &in);
    struct fc_reply r = fc_call(c, PS_OP_SET_RATE, 0, c->next_id++, 0, meta, (uint32_t)meta_bytes, body);
    if (out_count != NULL) {
        assert_int_equal(r.result_bytes, 8);
        memcpy(out_count, r.result, sizeof(*out_count));
    }
    return r;
}

static struct fc_reply set_rate(struct fc *c, const char *name, double rate)
{
    return set_rate_of(c, "localhost", name, rate, false, NULL);
}

static struct fc_reply clear_rate(struct fc *c, const char *name)
{
    return set_rate_of(c, "localhost", name, 0, true, NULL);
}

/* What one push of ones subtracts from every element. */
static double step_of(struct fc *c, const ps_v1_OpenAnswer *v)
{
    static float grad[LARGE], before[LARGE], after[LARGE];
    uint32_t n = (uint32_t)fc_elements(v);
    assert_applied(fc_pull(c, v, 0, n, before));
    assert_applied(fc_push(c, PS_OP_PUSH, v, filled(grad, n, 1), 1, 0));
    assert_applied(fc_pull(c, v, 0, n, after));
    for (uint32_t i = 1; i < n; i++) {
        assert_true(before[i] - after[i] == before[0] - after[0]);
    }
    return (double)(before[0] - after[0]);
}

static double rate_in_vars(struct fc *c, const char *name, double *out_defined)
{
    struct wire *back = wire_new();
    ps_v1_VarAnswer a;
    assert_applied(fc_list(c, PS_OP_VARS, NULL, NULL, back));
    const uint8_t *p = back->data;
    size_t n = back->len;
    while (fc_item(&p, &n, &ps_v1_VarAnswer_msg, &a)) {
        if (a.name.size == strlen(name) && memcmp(a.name.bytes, name, a.name.size) == 0) {
            *out_defined = a.optimizer.learning_rate;
            return a.rate;
        }
    }
    fail_msg("no %s", name);
    return -1;
}

TEST(test_next_push_has_it)
{
    double defined = 0;
    ps_v1_OpenAnswer w;
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, 100, ps_sgd(0.5), 0);
    assert_true(step_of(&e->c, &v) == 0.5);
    assert_applied(set_rate(&e->c, "w", 0.25));
    assert_true(shell_logged(e->t, "rate_set") && shell_logged(e->t, "now=\"sgd(learning_rate=0.25)\""));
    assert_true(step_of(&e->c, &v) == 0.25);
    shell_log_clear(e->t);
    uint64_t position = e->t->core->position;
    assert_applied(set_rate(&e->c, "w", 0.25));
    assert_false(shell_logged(e->t, "rate_set")); /* again changes nothing */
    assert_int_equal(e->t->core->position, position);
    assert_int_equal(fc_open(&e->c, "w", &w), PS_OK);
    assert_true(w.rate == 0.25 && w.optimizer.learning_rate == 0.5);
    assert_true(rate_in_vars(&e->c, "w", &defined) == 0.25 && defined == 0.5);
    assert_applied(clear_rate(&e->c, "w"));
    assert_true(shell_logged(e->t, "rate_cleared") && shell_logged(e->t, "now=\"sgd(learning_rate=0.5)\""));
    assert_true(step_of(&e->c, &v) == 0.5);
    assert_true(rate_in_vars(&e->c, "w", &defined) == 0 && defined == 0.5);
}

/* A push in progress keeps what its first segment captured; an atomic one captures at its end. */
TEST(test_push_in_progress_keeps_its_own)
{
    static float grad[LARGE], values[LARGE];
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, LARGE, ps_sgd(0.5), 0);
    PSI_IGNORE(filled(grad, LARGE, 1));
    struct fc_part part = {.op = PS_OP_PUSH,
                           .dtype = PS_F32,
                           .number = e->c.next_number++,
                           .handle = v.handle,
                           .total = LARGE,
                           .payload = grad,
                           .payload_bytes = SEGMENT,
                           .scale = 1,
                           .first = true};
    fc_send_part(&e->c, &part);
    assert_applied(set_rate(&e->c, "w", 0.25));
    part.offset = SEGMENT / sizeof(float);
    part.payload = grad + part.offset;
    part.payload_bytes = (LARGE - part.offset) * sizeof(float);
    part.first = false;
    part.last = true;
    fc_send_part(&e->c, &part);
    assert_applied(fc_take(&e->c, NULL));
    assert_applied(fc_pull(&e->c, &v, 0, LARGE, values));
    assert_floats(values, 0, LARGE, -0.5F);
    assert_true(step_of(&e->c, &v) == 0.25);
}

/* A chief's INIT brings hyperparameters, and a forced one new values: the rate that was set stays. */
TEST(test_init_leaves_it)
{
    struct env *e = env_new(NULL);
    uint64_t chief = fc_chief(&e->c);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, 4, ps_sgd(0.5), 0);
    assert_applied(set_rate(&e->c, "w", 0.25));
    assert_applied(fc_init_var(&e->c, v.handle, ps_zeros(), ps_sgd(2), chief, false));
    assert_true(step_of(&e->c, &v) == 0.25);
    assert_applied(fc_init_var(&e->c, v.handle, ps_zeros(), ps_sgd(4), chief, true));
    assert_true(step_of(&e->c, &v) == 0.25);
    assert_applied(clear_rate(&e->c, "w"));
    assert_true(step_of(&e->c, &v) == 4);                                 /* what the chief has said meanwhile */
    assert_int_equal(fc_make(&e->c, "w", PS_F32, 4, ps_sgd(0.5)), PS_OK); /* the definition is what it was */
}

TEST(test_reset_loses_it)
{
    struct env *e = env_new(NULL);
    PSI_IGNORE(fc_ready(&e->c, "w", PS_F32, 4, ps_sgd(0.5), 0)); /* the next one is another */
    assert_applied(set_rate(&e->c, "w", 0.25));
    assert_applied(fc_reset(&e->c, 900, ""));
    ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, 4, ps_sgd(0.5), 0);
    assert_true(step_of(&e->c, &v) == 0.5);
}

TEST(test_all_of_a_container)
{
    uint64_t count = 99;
    ps_v1_CreateItem m;
    struct env *e = env_new(NULL);
    assert_applied(set_rate_of(&e->c, "localhost", NULL, 0.25, false, &count));
    assert_int_equal(count, 0);
    ps_v1_OpenAnswer w = fc_ready(&e->c, "w", PS_F32, 4, ps_sgd(0.5), 0);
    ps_v1_OpenAnswer b = fc_ready(&e->c, "b", PS_F64, 4, ps_sgd(0.5), 0);
    PSI_IGNORE(fc_ready(&e->c, "step", PS_I64, 1, ps_no_optimizer(), 0)); /* has no rate */
    fc_create_item(&m, "elsewhere", PS_F32, 4, ps_sgd(0.5));
    PSI_IGNORE(PSI_BYTES_SET(m.container, "other")); /* fits */
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
    assert_applied(set_rate_of(&e->c, "localhost", NULL, 0.25, false, &count));
    assert_int_equal(count, 2);
    assert_true(shell_logged(e->t, "container=localhost variables=2 rate=0.25"));
    assert_false(shell_logged(e->t, "var=")); /* one line for all */
    assert_true(step_of(&e->c, &w) == 0.25);
    /* 1e-50 is a rate for float64 only: none of the two has it */
    assert_reply(set_rate_of(&e->c, "localhost", NULL, 1e-50, false, NULL), PS_INVALID_ARGUMENT, "variable 'w'");
    double defined = 0;
    assert_true(rate_in_vars(&e->c, "b", &defined) == 0.25);
    assert_true(rate_in_vars(&e->c, "elsewhere", &defined) == 0);
    assert_applied(set_rate(&e->c, "b", 1e-50));
    assert_applied(set_rate_of(&e->c, "localhost", NULL, 0, true, &count));
    assert_int_equal(count, 2);
    assert_true(step_of(&e->c, &w) == 0.5);
    assert_true(rate_in_vars(&e->c, "b", &defined) == 0);
    PSI_IGNORE(b.handle);
}

TEST(test_bad_rates)
{
    double defined = 0;
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "layer1/weights", PS_F32, 4, ps_sgd(0.5), 0);
    PSI_IGNORE(fc_ready(&e->c, "step", PS_I64, 1, ps_no_optimizer(), 0)); /* has no rate */
    static const double bad[] = {NAN, -NAN, -1, INFINITY, -INFINITY, -0.0, 0, 1e-60, 1e60};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_reply(set_rate(&e->c, "layer1/weights", bad[i]), PS_INVALID_ARGUMENT, "must be");
        assert_reply(set_rate_of(&e->c, "localhost", NULL, bad[i], false, NULL), PS_INVALID_ARGUMENT, "must be");
    }
    assert_true(rate_in_vars(&e->c, "layer1/weights", &defined) == 0);
    assert_true(step_of(&e->c, &v) == 0.5);
    assert_reply(set_rate(&e->c, "step", 1), PS_FAILED_PRECONDITION, "'step' at /job:ps/task:0 has no optimizer");
    assert_reply(clear_rate(&e->c, "step"), PS_FAILED_PRECONDITION, "no optimizer");
    assert_reply(set_rate(&e->c, "layer1/weihgts", 1), PS_NOT_FOUND, "did you mean layer1/weights?");
    struct fc_reply r = set_rate(&e->c, "zzzz", 1);
    assert_reply(r, PS_NOT_FOUND, "no variable 'zzzz' in container 'localhost'");
    assert_null(strstr(r.text, "did you mean"));
    assert_reply(set_rate_of(&e->c, "elsewhere", "w", 1, false, NULL), PS_NOT_FOUND, "container 'elsewhere'");
    assert_reply(set_rate_of(&e->c, "a b", "w", 1, false, NULL), PS_INVALID_ARGUMENT, "container");
    assert_reply(set_rate(&e->c, "a//b", 1), PS_INVALID_ARGUMENT, "name");
    assert_reply(fc_call(&e->c, PS_OP_SET_RATE, 0, 900, 0, NULL, 0, NULL), PS_INVALID_ARGUMENT, "names no container");
}

/* ---- of many variables, in slices ---- */

enum { MANY = 20, SLICE = 6 };

static struct env *with_many(ps_v1_OpenAnswer opened[MANY], ps_dtype last)
{
    struct env *e = env_new(NULL);
    e->t->core->config.list_slice_rows = SLICE;
    e->t->work_held = true;
    for (int i = 0; i < MANY; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "v%02d", i);
        opened[i] = fc_ready(&e->c, name, i < MANY - 1 ? PS_F64 : last, 4, ps_sgd(0.5), 0);
    }
    PSI_IGNORE(fc_ready(&e->c, "step", PS_I64, 1, ps_no_optimizer(), 0)); /* has no rate */
    return e;
}

static const struct psd_container *container_of(const struct env *e)
{
    return psd_container_find(&e->t->core->store, "localhost");
}

/* So many variables have the rate in their records. */
static uint32_t written(const struct env *e, double rate)
{
    uint64_t cursor = 0;
    uint32_t count = 0;
    void *value = NULL;
    while (psi_map_next(&container_of(e)->variables, &cursor, NULL, NULL, &value)) {
        count += ((const struct psd_variable *)value)->rate == rate;
    }
    return count;
}

static double in_force(const struct env *e, const char *name)
{
    return psd_variable_rate(psd_variable_find(container_of(e), name));
}

static void work(struct env *e)
{
    assert_true(psd_task_has_work(e->t->core));
    psd_task_work(e->t->core);
    shell_settle(e->t);
    shell_run(&e->net);
}

/* Slices until the rate is in force. */
static void until_in_force(struct env *e)
{
    for (uint32_t slices = 1; container_of(e)->rated == 0; slices++) {
        assert_in_range(slices, 1, MANY / SLICE + 1);
        work(e);
    }
}

/* An event looks at so many variables and no more. All have the rate with one event, whatever their records say. */
TEST(test_many_in_slices)
{
    ps_v1_OpenAnswer v[MANY], w;
    double defined = 0;
    struct env *e = with_many(v, PS_F32);
    assert_int_equal(set_rate_of(&e->c, "localhost", NULL, 0.25, false, NULL).status, FC_NONE);
    assert_int_equal(container_of(e)->rated, 0);
    for (int i = 0; i < MANY / SLICE; i++) { /* the last of these finds the end of the check */
        assert_true(in_force(e, "v00") == 0 && in_force(e, "v19") == 0);
        work(e);
    }
    assert_int_not_equal(container_of(e)->rated, 0);
    while (psd_task_has_work(e->t->core)) {
        uint32_t before = written(e, 0.25);
        for (int i = 0; i < MANY; i++) {
            assert_true(psd_variable_rate(psd_variable_by_handle(&e->t->core->store, v[i].handle)) == 0.25);
        }
        assert_true(in_force(e, "step") == 0);
        assert_int_equal(fc_open(&e->c, "v19", &w), PS_OK);
        assert_true(w.rate == 0.25);
        assert_int_equal(fc_take(&e->c, NULL).status, FC_NONE);
        work(e);
        assert_in_range(written(e, 0.25) - before, 0, SLICE);
    }
    struct fc_reply r = fc_take(&e->c, NULL);
    uint64_t count = 0;
    assert_applied(r);
    memcpy(&count, r.result, sizeof(count));
    assert_int_equal(count, MANY);
    assert_true(shell_logged(e->t, "container=localhost variables=20 rate=0.25"));
    assert_false(psd_task_has_work(e->t->core));
    e->t->work_held = false; /* VARS is made in slices */
    assert_true(rate_in_vars(&e->c, "v07", &defined) == 0.25 && rate_in_vars(&e->c, "step", &defined) == 0);
}

/* Pushes between the slices: with the old rate until all are checked, with the new one from then on. */
TEST(test_pushes_between_slices)
{
    ps_v1_OpenAnswer v[MANY];
    struct env *e = with_many(v, PS_F32);
    assert_int_equal(set_rate_of(&e->c, "localhost", NULL, 0.25, false, NULL).status, FC_NONE);
    static float grad[4] = {1, 1, 1, 1};
    float is[4];
    assert_applied(fc_push(&e->c, PS_OP_PUSH, &v[MANY - 1], grad, 1, 0));
    until_in_force(e);
    assert_in_range(written(e, 0.25), 0, MANY - 1);
    assert_applied(fc_push(&e->c, PS_OP_PUSH, &v[MANY - 1], grad, 1, 0));
    assert_applied(fc_pull(&e->c, &v[MANY - 1], 0, 4, is));
    assert_true(is[0] == -0.75F);
}

/* The last variable cannot have it: none has, and nobody has seen it. */
TEST(test_many_or_none)
{
    ps_v1_OpenAnswer v[MANY];
    struct env *e = with_many(v, PS_F32);
    assert_int_equal(set_rate_of(&e->c, "localhost", NULL, 1e-50, false, NULL).status, FC_NONE);
    while (psd_task_has_work(e->t->core)) {
        assert_int_equal(container_of(e)->rated, 0);
        work(e);
    }
    assert_reply(fc_take(&e->c, NULL), PS_INVALID_ARGUMENT, "variable 'v19'");
    assert_int_equal(written(e, 0), MANY + 1);
}

/* What is made meanwhile came after the request. */
TEST(test_made_and_deleted_between_slices)
{
    ps_v1_OpenAnswer v[MANY];
    struct env *e = with_many(v, PS_F32);
    assert_int_equal(set_rate_of(&e->c, "localhost", NULL, 0.25, false, NULL).status, FC_NONE);
    assert_int_equal(fc_make(&e->c, "before", PS_F32, 4, ps_sgd(0.5)), PS_OK);
    assert_applied(fc_delete(&e->c, 900, "v03"));
    until_in_force(e);
    assert_int_equal(fc_make(&e->c, "after", PS_F32, 4, ps_sgd(0.5)), PS_OK);
    assert_true(in_force(e, "before") == 0 && in_force(e, "after") == 0 && in_force(e, "v19") == 0.25);
    while (psd_task_has_work(e->t->core)) {
        work(e);
    }
    struct fc_reply r = fc_take(&e->c, NULL);
    uint64_t count = 0;
    assert_applied(r);
    memcpy(&count, r.result, sizeof(count));
    assert_int_equal(count, MANY - 1);
    assert_true(in_force(e, "before") == 0 && in_force(e, "after") == 0);
}

/* Another one comes again, so that the later one holds: of one variable and of all. Other containers do not wait. */
TEST(test_another_between_slices)
{
    ps_v1_OpenAnswer v[MANY];
    struct env *e = with_many(v, PS_F32);
    struct fc *other = fc_new(e->t, 2);
    for (int i = 0; i < 2; i++) { /* while it checks, and while it is written */
        assert_int_equal(set_rate_of(&e->c, "localhost", NULL, i == 0 ? 0.25 : 0.125, false, NULL).status, FC_NONE);
        if (i == 1) {
            until_in_force(e);
        }
        struct fc_reply r = set_rate(other, "v03", 2);
        assert_reply(r, PS_UNAVAILABLE, "still sets another learning rate of all variables in container 'localhost'");
        assert_int_not_equal(r.retry_after_ms, 0);
        assert_reply(set_rate_of(other, "localhost", NULL, 2, false, NULL), PS_UNAVAILABLE, "still sets another");
        assert_applied(set_rate_of(other, "elsewhere", NULL, 2, false, NULL));
        while (psd_task_has_work(e->t->core)) {
            work(e);
        }
        assert_applied(fc_take(&e->c, NULL));
        assert_int_equal(written(e, i == 0 ? 0.25 : 0.125), MANY);
    }
    assert_applied(set_rate(other, "v03", 2));
    assert_true(in_force(e, "v03") == 2);
}

/* A reset takes all that it is for. */
TEST(test_reset_between_slices)
{
    for (int i = 0; i < 4; i++) {
        ps_v1_OpenAnswer v[MANY];
        uint64_t count = 99;
        struct env *e = with_many(v, PS_F32);
        e->t->core->config.reset_slice_names = i % 2 == 0 ? SLICE : MANY + 1;
        assert_int_equal(set_rate_of(&e->c, "localhost", NULL, 0.25, false, NULL).status, FC_NONE);
        if (i > 1) {
            until_in_force(e);
        }
        struct fc *other = fc_new(e->t, 2);
        PSI_IGNORE(fc_reset(other, 900, "")); /* its end is seen by what can be made */
        struct fc_reply r = fc_take(&e->c, NULL);
        assert_applied(r);
        memcpy(&count, r.result, sizeof(count));
        assert_int_equal(count, 0);
        while (psd_task_has_work(e->t->core)) {
            work(e);
        }
        ps_v1_OpenAnswer again = fc_ready(&e->c, "v19", PS_F32, 4, ps_sgd(0.5), 0);
        assert_true(again.rate == 0 && in_force(e, "v19") == 0);
    }
}

/* Who asked is gone: what nobody has seen is not done, what is in force is. */
TEST(test_connection_lost_between_slices)
{
    for (int i = 0; i < 2; i++) {
        ps_v1_OpenAnswer v[MANY];
        struct env *e = with_many(v, PS_F32);
        struct fc *other = fc_new(e->t, 2);
        assert_int_equal(set_rate_of(other, "localhost", NULL, 0.25, false, NULL).status, FC_NONE);
        if (i == 1) {
            until_in_force(e);
        }
        shell_cut(other->conn);
        while (psd_task_has_work(e->t->core)) {
            work(e);
        }
        assert_int_equal(written(e, 0.25), i == 0 ? 0 : MANY);
        assert_int_equal(container_of(e)->rated, 0);
    }
}

/* As bytes it is the change that it was, and no bytes bring a rate that an optimizer does not take. */
struct kept {
    struct psi_buf bytes;
    size_t last; /* where the last change begins */
};

static void keep(void *ctx, uint64_t position, const struct psd_change *c)
{
    struct kept *k = ctx;
    (void)position;
    k->last = k->bytes.len;
    assert_int_equal(psd_change_encode(c, &k->bytes, NULL), PS_OK);
}

TEST(test_replayed)
{
    struct kept kept = {.last = 0};
    struct shell_net net;
    ps_status st = PS_OK;
    struct fc c;
    psi_buf_init(&kept.bytes, 1 << 20);
    shell_net_init(&net);
    struct shell_task *a = shell_task_new(&net, "ps=127.0.0.1:2222", "ps", 0, 42, START_MS, NULL, &st);
    struct shell_task *b = shell_task_new(&net, "ps=127.0.0.1:2222", "ps", 0, 42, START_MS, NULL, &st);
    assert_int_equal(st, PS_OK);
    psd_task_consumer(a->core, keep, &kept);
    fc_init(&c, a, 1);
    assert_int_equal(fc_connect(&c), PS_OK);
    PSI_IGNORE(fc_ready(&c, "w", PS_F32, 4, ps_sgd(0.5), 0)); /* looked at in the other task */
    assert_applied(set_rate(&c, "w", 0.25));
    const uint8_t *p = kept.bytes.data;
    size_t n = kept.last;
    while (n > 0) {
        assert_int_equal(psd_replay(b->core, &p, &n, NULL), PS_OK);
    }
    static const double bad[] = {NAN, -1, 1e60};
    uint8_t *rate = kept.bytes.data + kept.last + 9; /* kind, creation */
    double is = 0;
    memcpy(&is, rate, sizeof(is));
    assert_true(is == 0.25);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        memcpy(rate, &bad[i], sizeof(bad[i]));
        p = kept.bytes.data + kept.last;
        n = kept.bytes.len - kept.last;
        assert_int_equal(psd_replay(b->core, &p, &n, NULL), PS_DATA_LOSS);
    }
    memcpy(rate, &is, sizeof(is));
    p = kept.bytes.data + kept.last;
    n = kept.bytes.len - kept.last;
    assert_int_equal(psd_replay(b->core, &p, &n, NULL), PS_OK);
    const struct psd_variable *w = psd_variable_find(psd_container_find(&b->core->store, "localhost"), "w");
    assert_true(w != NULL && w->rate == 0.25);
    shell_net_fini(&net);
    psi_buf_fini(&kept.bytes);
}
