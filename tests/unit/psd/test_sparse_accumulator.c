/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse accumulators at a task: rows that are applied and taken, stale ones dropped, what is refused, memory. */
#include "queue_test.h"

#include "psd/state.h"

#include "common/sparse.h"

#include <math.h>

enum { ROWS = 5, COLUMNS = 2 };

static const struct psi_queue_spec SPEC = {
    .kind = PSI_QUEUE_SPARSE_ACCUMULATOR,
    .component_count = 1,
    .capacity = -1,
    .reduction = PSI_REDUCTION_MEAN,
    .components = {{.dtype = PS_F64, .shaped = true, .shape = {.rank = 2, .dims = {ROWS, COLUMNS}}}},
};

static ps_v1_OpenAnswer made(struct fc *c)
{
    ps_v1_Queue m;
    psi_queue_spec_to_msg(&SPEC, &m);
    return queue_as(c, "q", &m);
}

struct gradient {
    uint64_t count;
    int64_t indices[ROWS], counts[ROWS];
    double rows[ROWS][COLUMNS];
};

static struct fc_reply apply(struct fc *c, uint64_t id, const ps_v1_OpenAnswer *q, const struct gradient *g, int64_t local_step)
{
    uint64_t element[64] = {0};
    const struct psi_sparse s = psi_sparse_lay_out(&SPEC, g->count, (uint8_t *)element);
    memcpy(s.indices, g->indices, g->count * sizeof(g->indices[0]));
    memcpy(s.counts, g->counts, g->count * sizeof(g->counts[0]));
    memcpy(s.rows, g->rows, g->count * sizeof(g->rows[0]));
    const ps_v1_Enqueue m = {.count = 1, .bytes = psi_sparse_bytes(&SPEC, g->count), .apply = true, .local_step = local_step};
    return ask(c, PS_OP_ENQUEUE, id, q->handle, &ps_v1_Enqueue_msg, &m, element, m.bytes, NULL);
}

static struct fc_reply take(struct fc *c, uint64_t id, const ps_v1_OpenAnswer *q, uint32_t n, struct wire *out)
{
    const ps_v1_Dequeue m = {.count = n};
    return take_for(c, id, q, &m, out);
}

static void assert_counts(const struct fc_reply *r, uint64_t counts)
{
    assert_applied(*r);
    assert_int_equal(result_u64(r), counts);
}

TEST(test_rows_are_taken)
{
    static const struct gradient one = {2, {1, 4}, {1, 1}, {{1, 2}, {3, 4}}}, two = {2, {0, 4}, {1, 1}, {{5, 6}, {1, 0}}},
                                 none = {.count = 0}, mean = {3, {0, 1, 4}, {1, 1, 2}, {{5, 6}, {1, 2}, {2, 2}}};
    struct env *e = env_new(NULL);
    struct wire *out = wire_new();
    const ps_v1_OpenAnswer q = made(&e->c);
    struct fc_reply r = take(&e->c, 50, &q, 3, NULL);
    assert_waits(r);
    r = apply(&e->c, 1, &q, &one, 0);
    assert_counts(&r, 1);
    r = apply(&e->c, 2, &q, &two, 0);
    assert_counts(&r, 1);
    assert_int_equal(listed(&e->c).size, 2);
    r = apply(&e->c, 3, &q, &none, 0); /* counts, and lets the take go on */
    struct fc_reply last = fc_take(&e->c, out);
    struct fc_reply *taken = r.h.op == PS_OP_DEQUEUE ? &r : &last;
    assert_applied(*taken);
    assert_int_equal(result_of(taken).serial, 3);
    fc_ack(&e->c, 50);
    r = apply(&e->c, 4, &q, &one, 0); /* the step is 1 now */
    assert_counts(&r, 0);
    assert_int_equal(listed(&e->c).dropped, 1);
    r = apply(&e->c, 5, &q, &one, 1);
    assert_counts(&r, 1);
    r = apply(&e->c, 6, &q, &two, 1);
    assert_counts(&r, 1);
    r = take(&e->c, 51, &q, 2, out);
    assert_applied(r);
    assert_int_equal(result_of(&r).serial, 2);
    assert_int_equal(out->len, psi_sparse_bytes(&SPEC, 3));
    assert_int_equal(psi_sparse_check(&SPEC, out->data, out->len, 2, NULL), PS_OK);
    const struct psi_sparse s = psi_sparse_of(&SPEC, out->data);
    assert_memory_equal(s.indices, mean.indices, 3 * sizeof(int64_t));
    assert_memory_equal(s.counts, mean.counts, 3 * sizeof(int64_t));
    assert_memory_equal(s.rows, mean.rows, 3 * sizeof(mean.rows[0]));
    fc_ack(&e->c, 51);
    assert_int_equal(psd_task_memory_bytes(e->t->core), sizeof(struct psd_queue));
}

TEST(test_what_is_refused)
{
    static const struct {
        struct gradient g;
        const char *text;
    } bad[] = {
        {{2, {4, 1}, {1, 1}, {{0}}}, "index 1 of row 1 does not rise within [0, 5)"},
        {{2, {1, 1}, {1, 1}, {{0}}}, "index 1 of row 1 does not rise"},
        {{1, {5}, {1}, {{0}}}, "index 5 of row 0"},
        {{1, {-1}, {1}, {{0}}}, "index -1 of row 0"},
        {{2, {1, 2}, {1, 2}, {{0}}}, "row 1 counts 2 gradients; 1 to 1"},
        {{2, {1, 3}, {1, 1}, {{0, 1}, {0, NAN}}}, "element 1 of the row with index 3 is NaN or infinite"},
    };
    const double dense[ROWS * COLUMNS] = {0};
    struct env *e = env_new(NULL);
    const ps_v1_OpenAnswer q = made(&e->c);
    for (uint64_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_reply(apply(&e->c, 200 + i, &q, &bad[i].g, 0), PS_INVALID_ARGUMENT, bad[i].text);
    }
    ps_v1_Enqueue m = {.count = 1, .bytes = sizeof(dense), .apply = true};
    assert_reply(ask(&e->c, PS_OP_ENQUEUE, 210, q.handle, &ps_v1_Enqueue_msg, &m, dense, sizeof(dense), NULL),
                 PS_INVALID_ARGUMENT, "component 0");
    m.apply = false;
    assert_reply(ask(&e->c, PS_OP_ENQUEUE, 211, q.handle, &ps_v1_Enqueue_msg, &m, dense, sizeof(dense), NULL),
                 PS_INVALID_ARGUMENT, "elements are not put in");
    assert_reply(take(&e->c, 212, &q, 0, NULL), PS_INVALID_ARGUMENT, "a take of 0 gradients");
    assert_reply(close_queue(&e->c, 213, &q, false), PS_FAILED_PRECONDITION, "never closed");
    assert_int_equal(listed(&e->c).size, 0);
    assert_int_equal(psd_task_memory_bytes(e->t->core), sizeof(struct psd_queue));
}

/* A silent session has staged an assign, past its lease it gives way. left: bytes of the budget that nobody has; lacks: what they
 * are not enough for. */
static void gives_way(uint64_t left, const char *lacks)
{
    enum { STAGED = 40000 };
    static float values[STAGED];
    static const struct gradient one = {2, {1, 4}, {1, 1}, {{1, 2}, {3, 4}}}, two = {2, {0, 2}, {1, 1}, {{5, 6}, {1, 0}}};
    struct env *e = env_new(NULL);
    struct psd_store *store = &e->t->core->store;
    const ps_v1_OpenAnswer q = made(&e->c), v = fc_ready(&e->c, "v", PS_F32, STAGED, ps_no_optimizer(), 0);
    struct fc *ghost = fc_new(e->t, 2);
    struct fc_reply r = apply(&e->c, 1, &q, &one, 0);
    assert_counts(&r, 1);
    const struct fc_part part = {.op = PS_OP_ASSIGN,
                                 .dtype = PS_F32,
                                 .number = ghost->next_number++,
                                 .handle = v.handle,
                                 .total = STAGED,
                                 .payload = values,
                                 .payload_bytes = SEGMENT,
                                 .scale = 1,
                                 .first = true};
    fc_send_part(ghost, &part);
    fc_cut(ghost);
    psd_store_set_budget(store, psd_store_taken(store) + left);
    shell_pass(&e->net, PS_LEASE_MS - 100);
    assert_applied(fc_beat(&e->c, -1, NULL));
    assert_reply(apply(&e->c, 2, &q, &two, 0), PS_RESOURCE_EXHAUSTED, lacks);
    shell_pass(&e->net, 200);
    r = apply(&e->c, 3, &q, &two, 0);
    assert_counts(&r, 1);
    assert_true(shell_logged(e->t, "session_gave_way"));
}

TEST(test_a_silent_session_gives_way)
{
    const uint64_t bytes = psd_element_memory_bytes(psi_sparse_bytes(&SPEC, 2));
    assert_true(bytes < psd_arena_bytes(bytes));
    gives_way(bytes, "no room for an element"); /* its piece of memory is a little longer */
    gives_way(psd_arena_bytes(bytes), "no memory for a sum of 4 rows");
}
