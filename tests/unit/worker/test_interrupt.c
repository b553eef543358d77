/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/core/closing.c: what threads wait for ends when they are interrupted, and is withdrawn at the task at once; what nobody
 * waits for goes on, and so do calls that began after the interrupt.
 */
#include "fake_test.h"
#include "worker/core/client.h"

#include <stdlib.h>

#define SPEC "ps=a:1,b:2;worker=c:1,c:2"

enum { FRAME = PS_VALUES_FRAME_BYTES / (int)sizeof(float), SMALL = 1000 };

static const struct psi_queue_spec INT64 = {
    .kind = PSI_QUEUE_FIFO, .component_count = 1, .capacity = 10, .components = {{.dtype = PS_I64, .shaped = true}}};

/* A request that a thread waits for since before the first interrupt. */
static struct fake_request *wait_for(struct fake *f, enum psi_request_kind kind, struct psi_var *var, const void *src, void *dst)
{
    struct fake_request *r = fake_begin(f, kind, var, src, dst, 60000);
    r->req.waited = true;
    return r;
}

static void interrupt(struct fake *f)
{
    psi_client_interrupt(f->c, 1, PS_REASON_INTERRUPTED, "interrupted");
    fake_run(f);
}

static void assert_interrupted(const struct fake_request *r, ps_applied applied)
{
    assert_done(r, PS_CANCELLED);
    assert_int_equal(r->req.applied, applied);
    assert_int_equal(r->err.reason, PS_REASON_INTERRUPTED);
    assert_ptr_equal(strstr(r->err.text, "interrupted: "), r->err.text);
}

static ps_status room(struct psi_dequeue *d, const struct ps_dequeue_result *got, uint8_t **out, struct psi_err *err)
{
    (void)d;
    (void)err;
    *out = test_alloc(got->bytes + 1);
    return PS_OK;
}

/* The task hears at once that nothing was taken; what it has sent meanwhile is nobody's here. */
TEST(test_dequeue_is_given_up)
{
    const int64_t element = 7;
    const struct ps_dequeue_result got = {.count = 1, .bytes = sizeof(element)};
    struct psi_buf body;
    struct psi_dequeue d = {.count = 1, .room = room}, async = {.count = 1, .room = room};
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *q = fake_get_queue(f, 0, "q", &INT64, 5, 1);
    const struct fake_request *waits = wait_for(f, PSI_REQ_DEQUEUE, q, NULL, &d);
    const struct fake_request *goes_on = fake_begin(f, PSI_REQ_DEQUEUE, q, NULL, &async, 60000);
    const uint64_t id = fake_take(f, 0, PS_OP_DEQUEUE)->h.id, other = fake_take(f, 0, PS_OP_DEQUEUE)->h.id;
    const uint32_t acks = f->acks;
    interrupt(f);
    assert_interrupted(waits, PS_NOTHING_APPLIED);
    assert_int_equal(goes_on->dones, 0);
    assert_null(fake_next(f, 0));
    assert_true(f->acks == acks + 1 && f->acked == id && f->given_up == 1);
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    assert_int_equal(psi_buf_append(&body, &element, sizeof(element), NULL), PS_OK);
    const struct fake_answer answer = {.result = &got, .result_bytes = sizeof(got), .body = &body};
    fake_reply(f, 0, PS_OP_DEQUEUE, id, false, &answer);
    assert_true(waits->dones == 1 && d.data == NULL);
    fake_reply(f, 0, PS_OP_DEQUEUE, other, false, &answer);
    assert_done(goes_on, PS_OK);
    psi_buf_fini(&body);
}

/* An ENQUEUE that waits for room, left at the task, would be carried out behind the back of a program that was told otherwise. */
TEST(test_enqueue_is_withdrawn_at_once)
{
    const int64_t value = 42;
    struct psi_enqueue put = {.data = &value, .bytes = 8, .count = 1};
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *q = fake_get_queue(f, 0, "q", &INT64, 5, 1);
    const struct fake_request *waits = wait_for(f, PSI_REQ_ENQUEUE, q, &put, NULL);
    const uint64_t id = fake_take(f, 0, PS_OP_ENQUEUE)->h.id;
    const uint32_t acks = f->acks;
    interrupt(f);
    assert_interrupted(waits, PS_OUTCOME_UNKNOWN);
    assert_null(fake_next(f, 0));
    assert_true(f->acks == acks + 1 && f->acked == id);
}

/* Of the same thread, or another one: whoever comes after the interrupt is not meant. */
TEST(test_later_calls_are_not_meant)
{
    struct psi_dequeue d = {.count = 1, .room = room};
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *q = fake_get_queue(f, 0, "q", &INT64, 5, 1);
    struct fake_request *later = wait_for(f, PSI_REQ_DEQUEUE, q, NULL, &d);
    later->req.interrupts = 1;
    interrupt(f);
    assert_int_equal(later->dones, 0);
    psi_client_interrupt(f->c, 2, PS_REASON_CLOSING, "the session is closing");
    fake_run(f);
    assert_done(later, PS_CANCELLED);
    assert_int_equal(later->err.reason, PS_REASON_CLOSING);
}

/* Its outcome is not known: the number stays with the session, and the connection. One that nobody waits for goes on. */
TEST(test_push_is_abandoned)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", SMALL, 9, 1), *v = fake_get(f, 0, "v", SMALL, 8, 2);
    float *grad = test_alloc(SMALL * sizeof(*grad));
    const struct fake_request *waits = wait_for(f, PSI_REQ_PUSH, w, grad, NULL);
    const struct fake_request *behind = wait_for(f, PSI_REQ_PUSH, w, grad, NULL);
    const struct fake_request *goes_on = fake_begin(f, PSI_REQ_PUSH, v, grad, NULL, 60000);
    fake_take(f, 0, PS_OP_PUSH);
    fake_take(f, 0, PS_OP_PUSH);
    fake_take(f, 0, PS_OP_PUSH);
    interrupt(f);
    assert_interrupted(waits, PS_OUTCOME_UNKNOWN);
    assert_interrupted(behind, PS_OUTCOME_UNKNOWN);
    assert_int_equal(fake_take(f, 0, PS_OP_ABANDON)->h.id, 1);
    assert_int_equal(fake_take(f, 0, PS_OP_ABANDON)->h.id, 2);
    assert_int_equal(f->task[0].closes, 0);
    fake_reply(f, 0, PS_OP_PUSH, 3, true, &(struct fake_answer){.version = 1});
    assert_done(goes_on, PS_OK);
}

/* The caller's memory is free at once, so the connection must go. */
TEST(test_half_a_frame)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", FRAME / 2, 9, 1);
    float *grad = calloc(FRAME / 2, sizeof(*grad)); /* not by test_alloc(): it goes while the case runs */
    f->task[0].take = PS_SEGMENT_BYTES * 2 + 100;
    const struct fake_request *waits = wait_for(f, PSI_REQ_PUSH, w, grad, NULL);
    interrupt(f);
    assert_interrupted(waits, PS_MAYBE_PARTLY_APPLIED);
    free(grad); /* the library may not touch it again */
    assert_int_equal(f->task[0].closes, 1);
    const struct fake_number states[] = {{1, PS_NUMBER_ABANDONED, 0, 0, 0}, {0}};
    fake_hello(f, 0, 100, 200, states, NULL);
    assert_int_equal(fake_listed[0].state, 1);
}

/* Its outcome has come while half of its frame was out: that is what it ends with. */
TEST(test_outcome_that_is_there_counts)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", FRAME / 2, 9, 1);
    float *grad = test_alloc(FRAME / 2 * sizeof(*grad));
    f->task[0].take = PS_SEGMENT_BYTES * 2 + 100;
    const struct fake_request *waits = wait_for(f, PSI_REQ_PUSH, w, grad, NULL);
    fake_reply(f, 0, PS_OP_PUSH, 1, true, &(struct fake_answer){.status = PS_FAILED_PRECONDITION, .text = "not today"});
    assert_int_equal(waits->dones, 0);
    interrupt(f);
    assert_done(waits, PS_FAILED_PRECONDITION);
}

/* Nothing is connected, the cluster is not known, or a variable is being got. */
TEST(test_before_anything_is_known)
{
    struct fake *f = fake_new(NULL, "", 0, false);
    const struct fake_request *cluster = wait_for(f, PSI_REQ_CLUSTER, NULL, NULL, NULL);
    interrupt(f);
    assert_interrupted(cluster, PS_NOTHING_APPLIED);

    struct psi_var *v = NULL;
    struct psi_err err = {0};
    const ps_variable_spec spec = {.struct_bytes = sizeof(spec), .name = "v", .dtype = PS_F32};
    assert_ok(psi_client_variable(f->c, &spec, false, &v, &err), &err);
    const struct fake_request *got = wait_for(f, PSI_REQ_GET, v, NULL, NULL);
    interrupt(f);
    assert_interrupted(got, PS_NOTHING_APPLIED);
}

/* With all that it has asked for; and the next one begins anew. */
TEST(test_ready_and_a_barrier)
{
    const struct psi_barrier at = {.at = {.name = "all"}, .count = 2};
    struct fake *f = fake_new(SPEC, "worker", 1, false);
    struct psi_var *v = fake_get(f, 0, "v", 4, 9, 1);
    const struct fake_request *barrier = wait_for(f, PSI_REQ_BARRIER, NULL, &at, NULL);
    const uint64_t id = fake_take(f, 0, PS_OP_BARRIER)->h.id;
    const struct fake_request *ready = wait_for(f, PSI_REQ_READY, NULL, NULL, NULL);
    fake_open(f, 0, 9, 77, 1, v);
    fake_take(f, 0, PS_OP_WAIT);
    const uint32_t acks = f->acks;
    interrupt(f);
    assert_interrupted(barrier, PS_OUTCOME_UNKNOWN); /* as after a directory that was lost: the others may have gone on */
    assert_interrupted(ready, PS_NOTHING_APPLIED);
    assert_null(fake_next(f, 0));
    assert_true(f->acks == acks + 2 && f->acked != id);
    const struct fake_request *again = wait_for(f, PSI_REQ_READY, NULL, NULL, NULL);
    v->initialised = v->sealed = true;
    fake_open(f, 0, 9, 77, 1, v);
    assert_done(again, PS_OK);
}

/* One request of several is cancelled: those beside it go on, whether a thread waits for them or not. */
TEST(test_one_is_cancelled)
{
    static float grad[SMALL], dst[SMALL];
    const struct fake_answer ok = {.version = 3, .position = 5};
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", SMALL, 9, 1);
    struct fake_request *first = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 60000);
    struct fake_request *second = wait_for(f, PSI_REQ_PUSH, w, grad, NULL);
    struct fake_request *read = fake_begin(f, PSI_REQ_PULL, w, NULL, dst, 60000);
    psi_client_cancel(f->c, &first->req, "interrupted");
    fake_run(f);
    assert_interrupted(first, PS_OUTCOME_UNKNOWN);
    assert_true(second->dones == 0 && read->dones == 0);
    psi_client_cancel(f->c, &read->req, "interrupted");
    fake_run(f);
    assert_interrupted(read, PS_NOTHING_APPLIED);
    fake_reply(f, 0, PS_OP_PUSH, 1, true, &ok); /* the task says it all the same */
    fake_reply(f, 0, PS_OP_PUSH, 2, true, &ok);
    assert_done(second, PS_OK);
    assert_int_equal(first->dones, 1);
    psi_client_check_invariants(f->c);
}
