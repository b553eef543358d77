/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accumulators at a task: what is counted and what is dropped, takes in their order, the mean of all that is there; what comes
 * back, what ends otherwise; gradients in parts, and memory.
 */
#include "queue_test.h"

#include "psd/state.h"

#include <math.h>

static ps_v1_OpenAnswer accumulator(struct fc *c, uint32_t reduction, int64_t elements)
{
    ps_v1_Queue like = queue_like(PSI_QUEUE_ACCUMULATOR, -1);
    like.components[0].dtype = PS_F64;
    like.components[0].dims_count = 1;
    like.components[0].dims[0] = elements;
    like.reduction = reduction;
    return queue_as(c, "q", &like);
}

static ps_v1_OpenAnswer mean(struct fc *c)
{
    return accumulator(c, PSI_REDUCTION_MEAN, 2);
}

static struct fc_reply apply_as(struct fc *c, uint64_t id, const ps_v1_OpenAnswer *q, const ps_v1_Enqueue *m,
                                const double *values)
{
    return ask(c, PS_OP_ENQUEUE, id, q->handle, &ps_v1_Enqueue_msg, m, values, m->bytes, NULL);
}

/* A gradient (value, -value); 1: it counts, 0: it came too late. */
static uint64_t apply(struct fc *c, uint64_t id, const ps_v1_OpenAnswer *q, double value, int64_t local_step)
{
    const double values[2] = {value, -value};
    const ps_v1_Enqueue m = {.count = 1, .bytes = sizeof(values), .apply = true, .local_step = local_step};
    struct fc_reply r = apply_as(c, id, q, &m, values);
    assert_applied(r);
    return result_u64(&r);
}

static struct fc_reply take(struct fc *c, uint64_t id, const ps_v1_OpenAnswer *q, uint32_t n, struct wire *out)
{
    const ps_v1_Dequeue m = {.count = n};
    return take_for(c, id, q, &m, out);
}

/* The answer of a take: (value, -value), of so many gradients. */
static void assert_mean(const struct fc_reply *r, const struct wire *out, double value, uint64_t gradients, uint32_t deliveries)
{
    double have[2];
    assert_applied(*r);
    struct ps_dequeue_result m = result_of(r);
    assert_int_equal(m.count, 1);
    assert_int_equal(m.bytes, sizeof(have));
    assert_int_equal(m.serial, gradients);
    assert_int_equal(m.epoch, 0);
    assert_int_equal(m.deliveries, deliveries);
    assert_int_equal(out->len, sizeof(have));
    memcpy(have, out->data, sizeof(have));
    assert_true(have[0] == value);
    assert_true(have[1] == -value);
}

static struct fc_reply set_step(struct fc *c, uint64_t number, const ps_v1_OpenAnswer *q, int64_t step)
{
    const ps_v1_SetStep m = {.step = step};
    _Alignas(8) uint8_t meta[64] = {0};
    size_t n = 0;
    assert_int_equal(psi_msg_encode(&ps_v1_SetStep_msg, &m, meta, sizeof(meta), &n, NULL), PS_OK);
    return fc_call(c, PS_OP_SET_STEP, PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST, number, q->handle, meta, psi_pad8((uint32_t)n),
                   NULL);
}

static void assert_set(struct fc *c, const ps_v1_OpenAnswer *q, int64_t step, int64_t before)
{
    struct fc_reply r = set_step(c, c->next_number++, q, step);
    assert_applied(r);
    assert_int_equal(result_u64(&r), before);
}

static void assert_memory(const struct env *e, uint64_t elements, uint64_t bytes)
{
    assert_int_equal(psd_task_memory_bytes(e->t->core), sizeof(struct psd_queue) + elements * psd_element_memory_bytes(bytes));
}

/* A take divides by what was there, and begins the next step. */
TEST(test_mean_of_all_that_is_there)
{
    struct env *e = env_new(NULL);
    struct wire *out = wire_new();
    ps_v1_OpenAnswer q = mean(&e->c);
    for (uint64_t i = 1; i <= 3; i++) {
        assert_int_equal(apply(&e->c, i, &q, (double)i * 2, 0), 1);
        assert_int_equal(size_of(&e->c, NULL), i);
    }
    struct fc_reply r = take(&e->c, 10, &q, 2, out); /* 3 are there */
    assert_mean(&r, out, 4, 3, 0);
    fc_ack(&e->c, 10);
    assert_int_equal(size_of(&e->c, NULL), 0);
    assert_int_equal(listed(&e->c).step, 1);
    assert_memory(e, 0, 0);
    assert_int_equal(apply(&e->c, 4, &q, 5, 1), 1);
    r = take(&e->c, 11, &q, 1, out);
    assert_mean(&r, out, 5, 1, 0);
    assert_int_equal(listed(&e->c).taken, 1);
}

TEST(test_sum)
{
    struct env *e = env_new(NULL);
    struct wire *out = wire_new();
    ps_v1_OpenAnswer q = accumulator(&e->c, PSI_REDUCTION_SUM, 2);
    assert_int_equal(apply(&e->c, 1, &q, 3, 0), 1);
    assert_int_equal(apply(&e->c, 2, &q, 4, 9), 1); /* a later step counts too */
    assert_int_equal(listed(&e->c).queue.reduction, PSI_REDUCTION_SUM);
    struct fc_reply r = take(&e->c, 10, &q, 1, out);
    assert_mean(&r, out, 7, 2, 0);
}

/* local_step < global step: OK, 0, and nothing else. */
TEST(test_stale_gradients_are_dropped)
{
    struct env *e = env_new(NULL);
    struct wire *out = wire_new();
    ps_v1_OpenAnswer q = mean(&e->c);
    assert_set(&e->c, &q, 5, 0);
    assert_int_equal(apply(&e->c, 1, &q, 1, 4), 0);
    assert_int_equal(apply(&e->c, 2, &q, 1, -1), 0);
    assert_int_equal(size_of(&e->c, NULL), 0);
    assert_memory(e, 0, 0);
    assert_int_equal(apply(&e->c, 3, &q, 2, 5), 1);
    assert_int_equal(apply(&e->c, 4, &q, 4, 6), 1);
    ps_v1_QueueAnswer a = listed(&e->c);
    assert_int_equal(a.dropped, 2);
    assert_int_equal(a.step, 5);
    assert_int_equal(a.size, 2);
    struct fc_reply r = take(&e->c, 10, &q, 2, out);
    assert_mean(&r, out, 3, 2, 0);
    assert_int_equal(apply(&e->c, 5, &q, 2, 5), 0); /* its step is over */
    assert_int_equal(apply(&e->c, 6, &q, 2, 6), 1);
}

/* The step may go back, and says from where; what has been accumulated stays. */
TEST(test_set_step)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer q = mean(&e->c), v = fc_ready(&e->c, "w", PS_F32, 4, &(ps_optimizer){.kind = PS_OPT_NONE}, 0);
    assert_int_equal(apply(&e->c, 1, &q, 1, 0), 1);
    assert_set(&e->c, &q, 7, 0);
    assert_int_equal(size_of(&e->c, NULL), 1);
    assert_set(&e->c, &q, 3, 7);
    assert_int_equal(apply(&e->c, 2, &q, 1, 3), 1);
    uint64_t number = e->c.next_number++;
    assert_applied(set_step(&e->c, number, &q, PSI_STEP_MAX));
    struct fc_reply r = set_step(&e->c, number, &q, PSI_STEP_MAX); /* the same number: its outcome */
    assert_int_equal(result_u64(&r), 3);
    assert_reply(set_step(&e->c, e->c.next_number++, &q, -1), PS_INVALID_ARGUMENT, "global step -1");
    assert_reply(set_step(&e->c, e->c.next_number++, &q, PSI_STEP_MAX + 1), PS_INVALID_ARGUMENT, "0 to 4611686018427387904");
    assert_reply(set_step(&e->c, e->c.next_number++, &v, 1), PS_INVALID_ARGUMENT, "");
    assert_applied(fc_delete(&e->c, 101, "q"));
    assert_reply(set_step(&e->c, e->c.next_number++, &q, 1), PS_ABORTED, "reset or deleted");
    q = fifo(&e->c, 3);
    assert_reply(set_step(&e->c, e->c.next_number++, &q, 1), PS_INVALID_ARGUMENT, "is no accumulator");
}

/* Takes wait for as many as they ask for, the first one first, also where a later one asks for less. */
TEST(test_takes_wait_in_their_order)
{
    struct env *e = env_new(NULL);
    struct wire *out = wire_new();
    struct fc *a = fc_new(e->t, 2), *b = fc_new(e->t, 3);
    ps_v1_OpenAnswer q = mean(&e->c);
    assert_waits(take(a, 1, &q, 3, NULL));
    assert_waits(take(b, 1, &q, 1, NULL));
    assert_int_equal(listed(&e->c).dequeuers, 2);
    assert_int_equal(apply(&e->c, 1, &q, 1, 0), 1);
    assert_int_equal(apply(&e->c, 2, &q, 2, 0), 1);
    assert_waits(came(b, out));
    assert_int_equal(apply(&e->c, 3, &q, 6, 0), 1);
    struct fc_reply r = came(a, out);
    assert_mean(&r, out, 3, 3, 0);
    assert_waits(came(b, out));
    assert_int_equal(apply(&e->c, 4, &q, 8, 0), 0); /* of the step before */
    assert_int_equal(apply(&e->c, 5, &q, 8, 1), 1);
    r = came(b, out);
    assert_mean(&r, out, 8, 1, 0);
    assert_int_equal(listed(&e->c).step, 2);
}

/* A take that is given up before it has anything leaves what is there to the next one. */
TEST(test_takes_that_end)
{
    struct env *e = env_new(NULL);
    struct wire *out = wire_new();
    struct fc *a = fc_new(e->t, 2);
    ps_v1_OpenAnswer q = mean(&e->c);
    const ps_v1_Dequeue timed = {.count = 3, .timeout_ms = 500};
    assert_int_equal(apply(&e->c, 1, &q, 1, 0), 1);
    assert_waits(take_for(a, 1, &q, &timed, NULL));
    assert_waits(take(&e->c, 10, &q, 1, out));
    shell_pass(&e->net, 600);
    struct fc_reply r = came(a, out);
    assert_reply(r, PS_DEADLINE_EXCEEDED, "1 of 3 gradients of global step 0 were there, and stay");
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    r = came(&e->c, out);
    assert_mean(&r, out, 1, 1, 0);
    assert_waits(take(a, 2, &q, 1, NULL));
    assert_applied(fc_delete(&e->c, 101, "q"));
    assert_reply(came(a, out), PS_CANCELLED, "reset or deleted");
}

/* A result that its client never acknowledged is the next take's, whatever that asks for; its step is over. */
TEST(test_a_dead_taker)
{
    struct env *e = env_new(NULL);
    struct wire *out = wire_new();
    struct fc *a = fc_new(e->t, 2);
    ps_v1_OpenAnswer q = mean(&e->c);
    assert_int_equal(apply(&e->c, 1, &q, 1, 0), 1);
    assert_int_equal(apply(&e->c, 2, &q, 2, 0), 1);
    struct fc_reply r = take(a, 1, &q, 2, out);
    assert_mean(&r, out, 1.5, 2, 0);
    r = take(a, 1, &q, 2, out); /* asked for again */
    assert_mean(&r, out, 1.5, 2, 0);
    assert_int_equal(apply(&e->c, 3, &q, 7, 1), 1);
    assert_waits(take(&e->c, 10, &q, 5, NULL));
    fc_cut(a);
    shell_pass(&e->net, 5000);
    assert_applied(fc_beat(&e->c, -1, NULL));
    shell_pass(&e->net, 5500);
    r = came(&e->c, out);
    assert_mean(&r, out, 1.5, 2, 1);
    assert_int_equal(listed(&e->c).step, 1);
    assert_int_equal(listed(&e->c).size, 1);
    fc_ack(&e->c, 10);
    assert_int_equal(fc_connect(a), PS_OK);
    assert_reply(take(a, 1, &q, 2, out), PS_ABORTED, "away for longer than its lease");
    fc_ack(a, 1);
    r = take(a, 2, &q, 1, out);
    assert_mean(&r, out, 7, 1, 0);
    assert_applied(fc_call(a, PS_OP_GOODBYE, 0, 77, 0, NULL, 0, NULL)); /* without an ACK */
    ps_v1_QueueAnswer l = listed(&e->c);
    assert_int_equal(l.items, 1);
    assert_int_equal(l.size, 0);
    assert_int_equal(l.taken, 0);
    assert_memory(e, 1, 16);
}

static double *ramp(int64_t elements)
{
    double *values = test_alloc((size_t)elements * sizeof(*values));
    for (int64_t i = 0; i < elements; i++) {
        values[i] = (double)i;
    }
    return values;
}

static struct fc_reply apply_part(struct fc *c, uint64_t id, uint64_t of, const double *values, uint64_t first, uint64_t n)
{
    const ps_v1_Part m = {.of = of, .offset = first * 8, .bytes = (uint32_t)(n * 8)};
    return ask(c, PS_OP_PUT_PART, id, 0, &ps_v1_Part_msg, &m, values + first, n * 8, NULL);
}

/* A gradient in parts is nowhere until it is whole, and its step is looked at then; torn, it was never there. */
TEST(test_torn_gradients)
{
    enum { ELEMENTS = 30000, FIRST = 10000 };
    struct env *e = env_new(NULL);
    struct wire *out = wire_new();
    struct fc *a = fc_new(e->t, 2);
    const double *values = ramp(ELEMENTS);
    ps_v1_OpenAnswer q = accumulator(&e->c, PSI_REDUCTION_SUM, ELEMENTS);
    const ps_v1_Enqueue m = {.count = 1, .bytes = ELEMENTS * 8, .apply = true};
    for (uint64_t id = 100; id < 600; id += 100) {
        bool torn = id == 100 || id == 300;
        struct fc_reply r = ask(a, PS_OP_ENQUEUE, id, q.handle, &ps_v1_Enqueue_msg, &m, values, FIRST * 8, NULL);
        assert_waits(r);
        assert_applied(apply_part(a, id + 1, id, values, FIRST, FIRST));
        assert_int_equal(size_of(&e->c, NULL), (id > 200) + (id > 400));
        if (torn) {
            fc_cut(a);
            assert_int_equal(fc_connect(a), PS_OK);
            continue;
        }
        if (id == 500) {
            assert_set(&e->c, &q, 1, 0); /* while it was on its way */
        }
        assert_applied(apply_part(a, id + 2, id, values, (uint64_t)2 * FIRST, FIRST));
        r = fc_take(a, NULL);
        assert_applied(r);
        assert_int_equal(result_u64(&r), id != 500);
        fc_ack(a, id);
    }
    assert_int_equal(size_of(&e->c, NULL), 2);
    assert_applied(take(&e->c, 900, &q, 2, out));
    for (uint64_t at = 0; at < out->len; at += 8) {
        double have = 0;
        memcpy(&have, out->data + at, 8);
        assert_true(have == 2 * values[at / 8]);
    }
    fc_ack(&e->c, 900);
    fc_cut(a);
    assert_memory(e, 0, 0);
}

/* An apply that comes again by its number counts once. */
TEST(test_sent_again)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer q = mean(&e->c);
    assert_int_equal(apply(&e->c, 1, &q, 1, 0), 1);
    fc_cut(&e->c);
    assert_int_equal(fc_connect(&e->c), PS_OK);
    assert_int_equal(apply(&e->c, 1, &q, 1, 0), 1);
    assert_int_equal(size_of(&e->c, NULL), 1);
    assert_set(&e->c, &q, 4, 0);
    assert_int_equal(apply(&e->c, 2, &q, 1, 3), 0);
    assert_set(&e->c, &q, 2, 4);
    assert_int_equal(apply(&e->c, 2, &q, 1, 3), 0); /* its outcome, not another try */
    assert_int_equal(size_of(&e->c, NULL), 1);
}

TEST(test_what_is_refused)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer q = mean(&e->c);
    const double values[3] = {1, NAN, 2}, infinite[2] = {1, -INFINITY};
    ps_v1_Enqueue m = {.count = 1, .bytes = 16};
    assert_reply(apply_as(&e->c, 201, &q, &m, values), PS_INVALID_ARGUMENT, "elements are not put in");
    m.apply = true;
    assert_reply(apply_as(&e->c, 202, &q, &m, values), PS_INVALID_ARGUMENT, "element 1 is NaN or infinite");
    assert_reply(apply_as(&e->c, 203, &q, &m, infinite), PS_INVALID_ARGUMENT, "element 1 is NaN or infinite");
    m.bytes = 24;
    assert_reply(apply_as(&e->c, 204, &q, &m, values), PS_INVALID_ARGUMENT, "24 bytes; those of its");
    m = (ps_v1_Enqueue){.count = 1, .bytes = 24, .many = true, .apply = true};
    assert_reply(apply_as(&e->c, 205, &q, &m, values), PS_INVALID_ARGUMENT, "one by one");
    assert_reply(take(&e->c, 206, &q, 0, NULL), PS_INVALID_ARGUMENT, "a take of 0 gradients");
    assert_reply(take_n(&e->c, 207, &q, 2, NULL), PS_INVALID_ARGUMENT, "one by one");
    assert_reply(take_up_to(&e->c, 208, &q, 1, NULL), PS_INVALID_ARGUMENT, "one by one");
    assert_reply(close_queue(&e->c, 209, &q, false), PS_FAILED_PRECONDITION, "never closed");
    assert_reply(close_queue(&e->c, 210, &q, true), PS_FAILED_PRECONDITION, "never closed");
    assert_int_equal(size_of(&e->c, NULL), 0);
    assert_int_equal(e->t->core->count.nonfinite, 2);
    assert_memory(e, 0, 0);
    assert_applied(fc_delete(&e->c, 101, "q"));
    q = fifo(&e->c, 3);
    m = (ps_v1_Enqueue){.count = 1, .bytes = 8, .apply = true};
    assert_reply(apply_as(&e->c, 211, &q, &m, values), PS_INVALID_ARGUMENT, "and this is a queue");
}

static void with_any_numbers(struct psd_task_config *config)
{
    config->refuse_nonfinite = false;
}

TEST(test_nan_where_it_is_allowed)
{
    struct env *e = env_new(with_any_numbers);
    struct wire *out = wire_new();
    ps_v1_OpenAnswer q = mean(&e->c);
    double have[2];
    assert_int_equal(apply(&e->c, 1, &q, NAN, 0), 1);
    assert_applied(take(&e->c, 10, &q, 1, out));
    memcpy(have, out->data, sizeof(have));
    assert_true(isnan(have[0]) && isnan(have[1]));
}

enum { BIG = 1 << 17 /* elements: 1 MiB */, FIRST_MAX = 24000 };

static void with_little_memory(struct psd_task_config *config)
{
    config->memory_budget_bytes = 3 << 20;
}

/* The sum, and gradients on their way, are within the budget; who finds no room is refused, and what is there stays. */
TEST(test_budget)
{
    struct env *e = env_new(with_little_memory);
    struct wire *out = wire_new();
    const double *values = ramp(BIG);
    ps_v1_OpenAnswer q = accumulator(&e->c, PSI_REDUCTION_MEAN, BIG);
    const ps_v1_Enqueue m = {.count = 1, .bytes = BIG * 8, .apply = true};
    for (uint64_t id = 1; id <= 3; id++) { /* the first becomes the sum, the second is on its way, the third has no room */
        struct fc_reply r = ask(&e->c, PS_OP_ENQUEUE, id * 1000, q.handle, &ps_v1_Enqueue_msg, &m, values, FIRST_MAX * 8, NULL);
        if (id == 3) {
            assert_reply(r, PS_RESOURCE_EXHAUSTED, "no room for an element");
            break;
        }
        for (uint64_t at = FIRST_MAX; at < BIG && id == 1; at += FIRST_MAX) {
            uint64_t n = BIG - at < FIRST_MAX ? BIG - at : FIRST_MAX;
            assert_applied(apply_part(&e->c, id * 1000 + at, id * 1000, values, at, n));
        }
        r = fc_take(&e->c, NULL);
        assert_int_equal(r.status, id == 1 ? PS_OK : FC_NONE);
    }
    assert_int_equal(size_of(&e->c, NULL), 1);
    struct fc_reply r = take(&e->c, 9, &q, 1, out);
    assert_applied(r);
    assert_int_equal(result_of(&r).bytes, BIG * 8);
}
