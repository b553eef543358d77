/* SPDX-License-Identifier: Apache-2.0 */
/* Reasons on the client: what a task says reaches the request, also a number that this version does not know; and its own. */
#include "fake_test.h"

#include "worker/core/client.h"

#define SPEC "ps=a:1,b:2"

enum { NEWER = 999 /* a reason of a newer task */ };

#define assert_reason(request_, status_, reason_)                                                                                \
    do {                                                                                                                         \
        assert_int_equal((request_)->dones, 1);                                                                                  \
        assert_int_equal((request_)->req.status, status_);                                                                       \
        assert_int_equal((request_)->err.reason, reason_);                                                                       \
    } while (0)

TEST(test_push_refused)
{
    static struct fake_request push[2];
    const float g = 1;
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", 1, 5, 9);
    fake_start(f, &push[0], PSI_REQ_PUSH, w, &g, NULL, 60000);
    struct fake_answer a = {.status = PS_INVALID_ARGUMENT, .reason = PS_REASON_NOT_FINITE, .text = "NaN"};
    fake_reply(f, 0, PS_OP_PUSH, fake_take(f, 0, PS_OP_PUSH)->h.id, true, &a);
    assert_reason(&push[0], PS_INVALID_ARGUMENT, PS_REASON_NOT_FINITE);
    fake_start(f, &push[1], PSI_REQ_PUSH, w, &g, NULL, 60000);
    a.reason = (ps_reason)NEWER;
    fake_reply(f, 0, PS_OP_PUSH, fake_take(f, 0, PS_OP_PUSH)->h.id, true, &a);
    assert_reason(&push[1], PS_INVALID_ARGUMENT, NEWER);
}

/* It is treated as its status says: repeated, and told at the deadline. */
TEST(test_unknown_goes_by_its_status)
{
    float v = 0;
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", 1, 5, 9);
    struct fake_request *pull = fake_begin(f, PSI_REQ_PULL, w, NULL, &v, 2000);
    struct fake_answer a = {.status = PS_UNAVAILABLE, .reason = (ps_reason)NEWER, .text = "not now"};
    uint32_t asked = 0;
    while (pull->dones == 0) {
        struct fake_frame *frame = fake_next(f, 0);
        if (frame != NULL) {
            asked++;
            fake_reply(f, 0, PS_OP_PULL, frame->h.id, false, &a);
        }
        fake_wait(f, 25);
    }
    assert_true(asked > 1);
    assert_reason(pull, PS_UNAVAILABLE, NEWER);
}

TEST(test_told_by_hello)
{
    const float g = 1;
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", 1, 5, 9);
    struct fake_request *push = fake_begin(f, PSI_REQ_PUSH, w, &g, NULL, 60000);
    fake_cut(f, 0);
    const struct fake_number refused[] = {{1, PS_NUMBER_REFUSED, 0, PS_FAILED_PRECONDITION, 0}, {0}};
    f->told_reason = PS_REASON_UNINITIALIZED;
    fake_hello(f, 0, 100, 200, refused, NULL);
    assert_reason(push, PS_FAILED_PRECONDITION, PS_REASON_UNINITIALIZED);
}

TEST(test_its_own)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct fake_request *ping = fake_begin(f, PSI_REQ_PING, NULL, NULL, NULL, 1000);
    fake_wait(f, 1100);
    assert_reason(ping, PS_UNAVAILABLE, PS_REASON_NOT_CONNECTED);
    struct fake_request *other = fake_begin(f, PSI_REQ_PING, NULL, NULL, NULL, 1000);
    fake_connect(f, 0);
    fake_reply(f, 0, PS_OP_HELLO, fake_take(f, 0, PS_OP_HELLO)->h.id, false,
               &(struct fake_answer){.status = PS_FAILED_PRECONDITION, .reason = PS_REASON_OTHER_CLUSTER, .text = "another"});
    assert_reason(other, PS_FAILED_PRECONDITION, PS_REASON_OTHER_CLUSTER);
}

TEST(test_lost)
{
    float v = 0;
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", 1, 5, 9);
    w->used = true;
    struct fake_request *pull = fake_begin(f, PSI_REQ_PULL, w, NULL, &v, 60000);
    fake_reply(f, 0, PS_OP_PULL, fake_take(f, 0, PS_OP_PULL)->h.id, false,
               &(struct fake_answer){.status = PS_ABORTED, .reason = PS_REASON_LOST, .text = "reset"});
    assert_reason(pull, PS_ABORTED, PS_REASON_LOST);
    struct fake_request *again = fake_begin(f, PSI_REQ_PULL, w, NULL, &v, 60000);
    assert_reason(again, PS_ABORTED, PS_REASON_LOST);
}

/* Pushes to a variable that was lost before the connection broke: HELLO's answer does not know their numbers, or knows that the
 * task has abandoned them. The variable is gone, so each ends with reason LOST. A push of which no byte was sent changed nothing.
 */
TEST(test_numbers_of_a_lost_variable)
{
    const int64_t n = PS_VALUES_FRAME_BYTES / 4 / sizeof(float);
    const float *grad = test_alloc((size_t)n * sizeof(float));
    for (uint32_t state = PS_NUMBER_ABANDONED; state <= PS_NUMBER_UNKNOWN; state++) {
        for (int restart = 0; restart < 2; restart++) {
            static struct fake_request push[4];
            struct fake *f = fake_new(SPEC, "", 0, false);
            struct psi_var *w = fake_get(f, 0, "w", n, 5, 9);
            w->used = true;
            fake_start(f, &push[0], PSI_REQ_PUSH, w, grad, NULL, 60000);
            fake_start(f, &push[1], PSI_REQ_PUSH, w, grad, NULL, 60000);
            fake_take(f, 0, PS_OP_PUSH);
            fake_take(f, 0, PS_OP_PUSH);
            f->task[0].take = 100;
            fake_start(f, &push[2], PSI_REQ_PUSH, w, grad, NULL, 60000); /* 100 bytes of it leave */
            fake_start(f, &push[3], PSI_REQ_PUSH, w, grad, NULL, 60000);
            fake_reply(f, 0, PS_OP_PUSH, 1, true,
                       &(struct fake_answer){.status = PS_ABORTED, .reason = PS_REASON_LOST, .text = "reset"});
            assert_reason(&push[0], PS_ABORTED, PS_REASON_LOST);
            assert_true(w->lost && push[1].dones + push[2].dones + push[3].dones == 0);
            fake_cut(f, 0);
            f->told_applied = PS_OUTCOME_UNKNOWN;
            const struct fake_number numbers[] = {
                {2, state, 0, 0, 0}, {3, PS_NUMBER_UNKNOWN, 0, 0, 0}, {4, PS_NUMBER_UNKNOWN, 0, 0, 0}, {0}};
            fake_hello(f, 0, restart ? 101 : 100, 201, numbers, NULL);
            assert_reason(&push[1], PS_ABORTED, PS_REASON_LOST);
            assert_int_equal(push[1].req.applied, PS_OUTCOME_UNKNOWN);
            assert_reason(&push[2], PS_ABORTED, PS_REASON_LOST);
            assert_int_equal(push[2].req.applied, PS_OUTCOME_UNKNOWN);
            assert_reason(&push[3], PS_ABORTED, PS_REASON_LOST);
            assert_int_equal(push[3].req.applied, PS_NOTHING_APPLIED);
            assert_null(fake_next(f, 0));
        }
    }
}

/* A task that needs what this version lacks is refused for good; what is known it may need. */
TEST(test_features)
{
    static struct fake_request ping[2];
    ps_v1_Hello hello;
    struct fake *f = fake_new(SPEC, "", 0, false);
    fake_start(f, &ping[0], PSI_REQ_PING, NULL, NULL, NULL, 60000);
    f->told_needs = PS_FEATURES_KNOWN;
    fake_hello(f, 0, 100, 200, NULL, &hello);
    assert_int_equal(hello.features, PS_FEATURES_KNOWN);
    assert_int_equal(ping[0].dones, 0);
    fake_cut(f, 0);
    f->told_needs = UINT64_C(1) << 40;
    fake_hello(f, 0, 100, 200, NULL, NULL);
    assert_reason(&ping[0], PS_UNIMPLEMENTED, PS_REASON_FEATURE);
    assert_non_null(strstr(ping[0].err.text, "bits 0x10000000000"));
    fake_start(f, &ping[1], PSI_REQ_PING, NULL, NULL, NULL, 60000);
    assert_reason(&ping[1], PS_UNIMPLEMENTED, PS_REASON_FEATURE);
}
