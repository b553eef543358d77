/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs do to gradients before they push them, with two psd processes: sums of micro-batches, limits on norms. By
 * gradient descent with a rate of 1 from zeros, a value is minus what was pushed; the numbers are exact.
 */
#include "api_test.h"

#include <math.h>
#include <string.h>

enum { N = 19, TIMEOUT_MS = 20000 }; /* two rounds of lanes and a remainder */

static ps_session *s;
static ps_param *w, *b;

static void begin(void)
{
    s = open_session(TIMEOUT_MS);
    w = ps_param_get(s, "w", PS_SHAPE(N), ps_zeros(), ps_sgd(1));
    b = ps_param_get(s, "b", PS_SHAPE(2), ps_zeros(), ps_sgd(1));
    assert_int_equal(ps_session_ready(s), PS_OK);
}

static void fill(ps_param *p, int n, float value)
{
    float *grad = ps_param_grad(p);
    for (int i = 0; i < n; i++) {
        grad[i] = value;
    }
}

/* Push p; all its values have moved by -step since. */
static void push(ps_param *p, int n, float step)
{
    float before[N];
    assert_int_equal(ps_pull(s), PS_OK);
    memcpy(before, ps_param_value(p), (size_t)n * sizeof(float));
    assert_int_equal(ps_push(s, p), PS_OK);
    (void)ps_param_grad(p); /* waits until the push is acknowledged */
    assert_int_equal(ps_pull(s), PS_OK);
    const float *after = ps_param_value(p);
    for (int i = 0; i < n; i++) {
        if (after[i] != before[i] - step) {
            fail_msg("element %d: from %g to %g, not by %g", i, (double)before[i], (double)after[i], (double)step);
        }
    }
}

static void test_sums(void **unused)
{
    (void)unused;
    begin();
    fill(w, N, 1);
    assert_int_equal(ps_accumulate(w, 0.5), PS_OK);
    fill(w, N, 3);
    assert_int_equal(ps_accumulate(w, 0.5), PS_OK);
    fill(w, N, 1000); /* the push sends the sum in place of it */
    push(w, N, 2);
    fill(w, N, 4); /* and the sum has gone with it */
    push(w, N, 4);
    fill(w, N, 8);
    assert_int_equal(ps_accumulate(w, 1), PS_OK);
    push(w, N, 8);
    assert_int_equal(ps_session_close(s), PS_OK);
}

static void test_norms(void **unused)
{
    (void)unused;
    double norm = 0;
    begin();
    fill(b, 2, 3);
    ((float *)ps_param_grad(b))[1] = 3;
    assert_int_equal(ps_clip_norm(b, sqrt(18) / 2, &norm), PS_OK);
    assert_true(fabs(norm - sqrt(18)) < 1e-12);
    push(b, 2, 1.5F);
    push(b, 2, 3); /* the limit was that push's */
    assert_int_equal(ps_clip_norm(b, 100, NULL), PS_OK);
    push(b, 2, 3); /* small enough */
    fill(w, N, 4);
    fill(b, 2, 4);
    ps_param *const both[] = {w, b};
    const double together = 4 * sqrt(N + 2);
    assert_int_equal(ps_clip_global_norm(both, 2, together / 8, &norm), PS_OK);
    assert_true(fabs(norm - together) < 1e-12 * together);
    push(w, N, 0.5F);
    push(b, 2, 0.5F);
    fill(w, N, 2); /* of a sum */
    assert_int_equal(ps_accumulate(w, 1), PS_OK);
    assert_int_equal(ps_accumulate(w, 1), PS_OK);
    assert_int_equal(ps_clip_norm(w, sqrt(N), &norm), PS_OK);
    assert_true(fabs(norm - 4 * sqrt(N)) < 1e-12 * norm);
    push(w, N, 1);
    assert_int_equal(ps_session_close(s), PS_OK);
}

static void refused(ps_status (*call)(void), const char *text)
{
    begin();
    fill(w, N, 1);
    assert_int_equal(call(), PS_INVALID_ARGUMENT);
    if (strstr(ps_session_error(s), text) == NULL) {
        fail_msg("'%s' lacks '%s'", ps_session_error(s), text);
    }
    assert_int_equal(ps_session_close(s), PS_INVALID_ARGUMENT); /* it sticks */
}

static ps_status no_share(void)
{
    return ps_accumulate(w, (double)NAN);
}

static ps_status no_limit(void)
{
    return ps_clip_norm(w, 0, NULL);
}

static ps_status nobody(void)
{
    ps_param *const params[] = {w, NULL};
    return ps_clip_global_norm(params, 2, 1, NULL);
}

/* The program's own memory is sent, once; sums and limits count as they do for the buffer. */
static void test_lent(void **unused)
{
    (void)unused;
    float lent[N], other[2] = {3, 3};
    for (int i = 0; i < N; i++) {
        lent[i] = 5;
    }
    begin();
    fill(w, N, 1);
    assert_int_equal(ps_param_lend(w, lent), PS_OK);
    push(w, N, 5);
    push(w, N, 1); /* the buffer again */
    assert_int_equal(ps_param_lend(w, lent), PS_OK);
    assert_int_equal(ps_param_lend(w, NULL), PS_OK);
    push(w, N, 1);
    assert_int_equal(ps_param_lend(w, lent), PS_OK);
    assert_int_equal(ps_accumulate(w, 2), PS_OK); /* adds the buffer */
    push(w, N, 2);
    push(w, N, 2); /* the memory has gone with the sum, which is in the buffer now */
    fill(b, 2, 1);
    assert_int_equal(ps_param_lend(b, other), PS_OK);
    assert_int_equal(ps_clip_norm(b, sqrt(18) / 2, NULL), PS_OK);
    push(b, 2, 1.5F);
    const float before = ((float *)ps_param_value(b))[1];
    assert_int_equal(ps_param_lend(b, other), PS_OK);
    assert_int_equal(ps_push_pull(s, b), PS_OK);
    assert_int_equal(ps_step_done(s), PS_OK);
    other[0] = other[1] = 100; /* it is the program's again */
    assert_int_equal(ps_pull(s), PS_OK);
    assert_true(((float *)ps_param_value(b))[1] == before - 3);
    assert_int_equal(ps_session_close(s), PS_OK);
}

static void test_refused(void **unused)
{
    (void)unused;
    refused(no_share, "share nan; allowed: finite");
    refused(no_limit, "max_norm 0; allowed: finite and > 0");
    refused(nobody, "parameter 1 is NULL");
    assert_int_not_equal(ps_accumulate(NULL, 1), PS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums), cmocka_unit_test(test_norms), cmocka_unit_test(test_lent),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
