/* SPDX-License-Identifier: Apache-2.0 */
/* worker/core/window.c: what was called for one creation of a variable is not done to another one of its name. */
#include "fake_test.h"

#include <stdlib.h>

#define SPEC "ps=a:1,b:2"
enum { SMALL = 16 };

static float *numbers_from(uint64_t n, float first)
{
    float *p = test_alloc(n * sizeof(float));
    for (uint64_t i = 0; i < n; i++) {
        p[i] = first + (float)i;
    }
    return p;
}

/* Refused for load, and meanwhile the variable is reset: what was called for the old one is not done to a new one, also where
 * this session had not used it yet and so may get it again. */
TEST(test_refused_for_load_and_reset)
{
    static const enum psi_request_kind kinds[] = {PSI_REQ_PUSH,      PSI_REQ_PUSH_PULL, PSI_REQ_ASSIGN,
                                                  PSI_REQ_INIT_FROM, PSI_REQ_ADD,       PSI_REQ_INIT};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        float dst[SMALL];
        struct fake *f = fake_new(SPEC, "", 0, false);
        struct psi_var *w = fake_get(f, 0, "w", SMALL, 9, 1);
        float *src = numbers_from(SMALL, 1);
        struct fake_request *first = fake_begin(f, kinds[i], w, src, dst, 10000);
        struct fake_frame *frame = fake_next(f, 0);
        assert_true(frame->h.id == 1 && (frame->h.flags & PS_FLAG_SEQ) != 0);
        uint8_t op = frame->h.op;
        struct fake_request *pull = fake_begin(f, PSI_REQ_PULL, w, NULL, dst, 10000);
        fake_reply(f, 0, PS_OP_PULL, fake_take(f, 0, PS_OP_PULL)->h.id, false,
                   &(struct fake_answer){.status = PS_ABORTED, .text = "was reset"});
        assert_int_equal(pull->req.status, PS_ABORTED);
        assert_int_equal(first->dones, 0); /* its outcome is not known */
        fake_reply(f, 0, op, 1, true, &(struct fake_answer){.status = PS_RESOURCE_EXHAUSTED, .text = "TOO_BUSY"});
        assert_done(first, PS_ABORTED);
        assert_int_equal(first->req.applied, PS_NOTHING_APPLIED);
        assert_non_null(strstr(first->err.text, "'w' at /job:ps/task:0 (a:1): the variable was reset"));
        fake_wait(f, 2000);
        assert_null(fake_next(f, 0)); /* nor is a new one made for it */
    }
}

/* Applied, and its new values have not come when the variable is reset: they are not read from another one of that name. */
TEST(test_values_of_a_variable_that_is_gone)
{
    float dst[SMALL];
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", SMALL, 9, 1);
    float *grad = numbers_from(SMALL, 1);
    struct fake_request *both = fake_begin(f, PSI_REQ_PUSH_PULL, w, grad, dst, 10000);
    assert_true(fake_take(f, 0, PS_OP_PUSHPULL)->h.id == 1);
    fake_begin(f, PSI_REQ_PULL, w, NULL, dst, 10000);
    fake_reply(f, 0, PS_OP_PULL, fake_take(f, 0, PS_OP_PULL)->h.id, false,
               &(struct fake_answer){.status = PS_ABORTED, .text = "was reset"});
    fake_reply(f, 0, PS_OP_PUSHPULL, 1, true, &(struct fake_answer){.version = 3, .position = 5});
    assert_done(both, PS_ABORTED);
    assert_int_equal(both->req.applied, PS_MAYBE_PARTLY_APPLIED);
    assert_non_null(strstr(both->err.text, "the push was applied"));
    fake_wait(f, 2000);
    assert_null(fake_next(f, 0));
}
