/* SPDX-License-Identifier: Apache-2.0 */
/* worker/core/trace.c: what a traced client notes of its exchanges with tasks, and that no other client asks for times. */
#include "test.h"
#include "fake_test.h"

#include "common/mem.h"

#define SPEC "ps=a:1,b:2"
enum { ELEMENTS = 10 };

static const struct ps_times TIMES = {.queue_ns = 1, .wait_ns = 20, .apply_ns = 300, .kernel_ns = 4000};
static float values[ELEMENTS];

static void free_exchanges(void *exchanges)
{
    psi_free(((struct psi_exchanges *)exchanges)->at);
}

static struct psi_exchanges *exchanges_new(void)
{
    struct psi_exchanges *x = test_alloc(sizeof(*x));
    test_later(free_exchanges, x);
    return x;
}

static bool asks(const struct fake_frame *frame)
{
    return (frame->h.flags & PS_FLAG_TIMES) != 0;
}

static void answer(struct fake *f, uint8_t op, uint64_t id, ps_status status)
{
    const struct fake_answer a = {.status = status, .text = status == PS_OK ? NULL : "refused"};
    fake_reply(f, 0, op, id, true, &a);
}

/* Requests of a client that is not traced, and of one whose trace is over. */
TEST(test_nobody_asks)
{
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_var *w = fake_get(f, 0, "w", ELEMENTS, 9, 1);
    struct psi_exchanges *x = exchanges_new();
    for (int i = 0; i < 2; i++) {
        PSI_IGNORE(fake_begin(f, PSI_REQ_PUSH, w, values, NULL, 1000));
        const struct fake_frame *push = fake_take(f, 0, PS_OP_PUSH);
        assert_false(asks(push));
        answer(f, PS_OP_PUSH, push->h.id, PS_OK);
        PSI_IGNORE(fake_begin(f, PSI_REQ_PULL, w, NULL, values, 1000));
        const struct fake_frame *pull = fake_take(f, 0, PS_OP_PULL);
        assert_false(asks(pull));
        fake_values(f, 0, pull, false, 0, values, sizeof(values), 1, 0);
        psi_client_trace(f->c, x);
        psi_client_trace(f->c, NULL);
    }
    assert_int_equal(x->count, 0);
}

/* The second push of a variable has its turn when the first is on the wire: both are sent at once, and each has its own times. */
TEST(test_what_is_noted)
{
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_var *w = fake_get(f, 0, "w", ELEMENTS, 9, 1);
    struct psi_exchanges *x = exchanges_new();
    psi_client_time(f->c, 1000);
    psi_client_trace(f->c, x);
    psi_client_time(f->c, 1100);
    PSI_IGNORE(fake_begin(f, PSI_REQ_PUSH, w, values, NULL, 1000));
    const struct fake_frame *push = fake_take(f, 0, PS_OP_PUSH);
    assert_true(asks(push));
    psi_client_time(f->c, 1500);
    f->told_times = &TIMES;
    answer(f, PS_OP_PUSH, push->h.id, PS_OK);
    struct fake_request *pull = fake_begin(f, PSI_REQ_PULL, w, NULL, values, 1000);
    const struct fake_frame *chunk = fake_take(f, 0, PS_OP_PULL);
    assert_true(asks(chunk));
    psi_client_time(f->c, 1900);
    fake_values(f, 0, chunk, false, 0, values, sizeof(values), 1, 0);
    assert_int_equal(pull->req.status, PS_OK);
    assert_int_equal(x->count, 2);
    assert_string_equal(x->at[0].name, "w");
    assert_true(x->at[0].op == PS_OP_PUSH && x->at[0].task == 0 && x->at[0].bytes == sizeof(values));
    assert_true(x->at[0].begun_ns == 1100 && x->at[0].sent_ns == 1100 && x->at[0].ended_ns == 1500);
    assert_true(x->at[0].part_names != NULL && x->at[0].status == PS_OK);
    assert_string_equal(x->at[0].part_names[3], "kernel");
    assert_string_equal(x->at[0].task_name, "/job:ps/task:0");
    assert_memory_equal(x->at[0].parts_ns, &TIMES, sizeof(TIMES));
    assert_true(x->at[1].op == PS_OP_PULL && x->at[1].begun_ns == 1500 && x->at[1].ended_ns == 1900 &&
                x->at[1].part_names != NULL);
    assert_memory_equal(x->at[1].parts_ns, &TIMES, sizeof(TIMES));
}

/* An ask, refused. */
TEST(test_a_refusal)
{
    struct fake *f = fake_new(SPEC, "", 0, true);
    PSI_IGNORE(fake_get(f, 0, "w", ELEMENTS, 9, 1));
    struct psi_exchanges *x = exchanges_new();
    psi_client_time(f->c, 1000);
    psi_client_trace(f->c, x);
    PSI_IGNORE(fake_begin(f, PSI_REQ_RESET, NULL, NULL, NULL, 1000));
    const struct fake_frame *reset = fake_take(f, 0, PS_OP_RESET);
    assert_true(asks(reset));
    psi_client_time(f->c, 1700);
    f->told_times = &TIMES;
    const struct fake_answer a = {.status = PS_INVALID_ARGUMENT, .text = "no"};
    fake_reply(f, 0, PS_OP_RESET, reset->h.id, false, &a);
    assert_int_equal(x->count, 1);
    assert_true(x->at[0].op == PS_OP_RESET && x->at[0].status == PS_INVALID_ARGUMENT && x->at[0].ended_ns == 1700);
    assert_true(x->at[0].part_names != NULL && x->at[0].parts_ns[3] == TIMES.kernel_ns);
}

/* A push that is refused for load: its repetition is an exchange of its own, from the refusal on. */
TEST(test_a_repetition)
{
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_var *w = fake_get(f, 0, "w", ELEMENTS, 9, 1);
    struct psi_exchanges *x = exchanges_new();
    psi_client_time(f->c, 1000);
    psi_client_trace(f->c, x);
    PSI_IGNORE(fake_begin(f, PSI_REQ_PUSH, w, values, NULL, 5000));
    psi_client_time(f->c, 2000);
    const struct fake_answer a = {.status = PS_RESOURCE_EXHAUSTED, .text = "later", .retry_after_ms = 20};
    fake_reply(f, 0, PS_OP_PUSH, fake_take(f, 0, PS_OP_PUSH)->h.id, true, &a);
    psi_client_time(f->c, 3000);
    fake_wait(f, 100);
    const struct fake_frame *again = fake_take(f, 0, PS_OP_PUSH);
    psi_client_time(f->c, 4000);
    answer(f, PS_OP_PUSH, again->h.id, PS_OK);
    assert_int_equal(x->count, 2);
    assert_true(x->at[0].ended_ns == 2000 && x->at[0].status == PS_RESOURCE_EXHAUSTED && x->at[0].part_names == NULL);
    assert_true(x->at[1].begun_ns == 2000 && x->at[1].sent_ns == 3000 && x->at[1].ended_ns == 4000);
}

/* An older task is not asked: it would close the connection. What the client sees by itself is noted all the same. */
TEST(test_an_older_task)
{
    struct fake *f = fake_new(SPEC, "", 0, true);
    f->told_lacks = PS_FEATURE_TIMES;
    struct psi_var *w = fake_get(f, 0, "w", ELEMENTS, 9, 1);
    struct psi_exchanges *x = exchanges_new();
    psi_client_time(f->c, 1000);
    psi_client_trace(f->c, x);
    PSI_IGNORE(fake_begin(f, PSI_REQ_PUSH, w, values, NULL, 1000));
    const struct fake_frame *push = fake_take(f, 0, PS_OP_PUSH);
    assert_false(asks(push));
    psi_client_time(f->c, 1200);
    answer(f, PS_OP_PUSH, push->h.id, PS_OK);
    assert_true(x->count == 1 && x->at[0].ended_ns == 1200 && x->at[0].part_names == NULL);
}

/* The answer to a request of an earlier trace comes during a later one, and after the client's memory is another trace's. */
TEST(test_a_late_answer)
{
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_var *w = fake_get(f, 0, "w", ELEMENTS, 9, 1);
    struct psi_var *b = fake_get(f, 0, "b", ELEMENTS, 10, 2);
    struct psi_exchanges *first = exchanges_new(), *second = exchanges_new();
    psi_client_time(f->c, 1000);
    psi_client_trace(f->c, first);
    PSI_IGNORE(fake_begin(f, PSI_REQ_PUSH, w, values, NULL, 1000));
    const uint64_t late = fake_take(f, 0, PS_OP_PUSH)->h.id;
    psi_client_trace(f->c, NULL);
    psi_client_time(f->c, 2000);
    psi_client_trace(f->c, second);
    PSI_IGNORE(fake_begin(f, PSI_REQ_PUSH, b, values, NULL, 1000));
    psi_client_time(f->c, 3000);
    answer(f, PS_OP_PUSH, late, PS_OK);
    assert_true(first->count == 1 && first->at[0].ended_ns == 0);
    assert_true(second->count == 1 && second->at[0].ended_ns == 0 && strcmp(second->at[0].name, "b") == 0);
}

/* A request that began before the trace, and is sent in it, began with it as far as it shows. */
TEST(test_a_request_that_was_there)
{
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_var *w = fake_get(f, 0, "w", ELEMENTS, 9, 1);
    fake_cut(f, 0);
    psi_client_time(f->c, 500);
    PSI_IGNORE(fake_begin(f, PSI_REQ_PUSH, w, values, NULL, 5000));
    struct psi_exchanges *x = exchanges_new();
    psi_client_time(f->c, 1000);
    psi_client_trace(f->c, x);
    psi_client_time(f->c, 2000);
    fake_wait(f, 1000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    assert_true(asks(fake_take(f, 0, PS_OP_PUSH)));
    assert_true(x->count >= 1 && x->at[x->count - 1].begun_ns == 1000 && x->at[x->count - 1].sent_ns == 2000);
}
