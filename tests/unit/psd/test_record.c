/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a session: what it admits, what it forgets, what a refusal keeps; against a plain model of the last 256 numbers.
 */
#include "task_test.h"

#include "common/mem.h"
#include "psd/store/mutate.h"

static const uint8_t session[16] = {1, 2, 3};

static void begin(struct psd_record *r, struct psd_progress *p, uint64_t number)
{
    struct psd_number *n = psd_record_put(r, number);
    memset(p, 0, sizeof(*p));
    psi_list_init(&p->link);
    psi_list_init(&p->moves);
    p->number = number;
    p->total = 10;
    n->state = PS_NUMBER_IN_PROGRESS;
    n->progress = p;
    psi_list_push_back(&r->progress, &p->link);
    r->progress_count++;
}

static void end(struct psd_record *r, struct psd_progress *p)
{
    struct psd_number *n = psd_number_own(psd_record_find(r, p->number));
    n->progress = NULL;
    n->state = PS_NUMBER_APPLIED;
    psi_list_remove(&p->link);
    r->progress_count--;
}

TEST(test_find_put_admit)
{
    struct psd_record *r = psd_record_new(session, 99);
    assert_non_null(r);
    assert_int_equal(r->name, 99);
    assert_memory_equal(r->session, session, 16);
    assert_null(psd_record_find(r, 0));
    assert_null(psd_record_find(r, 1));
    assert_false(psd_record_admits(r, 0));
    assert_false(psd_record_admits(r, UINT64_MAX));
    assert_true(psd_record_admits(r, UINT64_MAX - 1));
    struct psd_number *n = psd_record_put(r, 1);
    n->state = PS_NUMBER_APPLIED;
    n->version = 7;
    assert_ptr_equal(psd_record_find(r, 1), n);
    assert_null(psd_record_find(r, 257)); /* the same place, another number */
    n = psd_record_put(r, 257);
    assert_int_equal(n->version, 0); /* fresh */
    assert_int_equal(n->state, PS_NUMBER_NOT_RECEIVED);
    assert_null(psd_record_find(r, 1));
    assert_false(psd_record_admits(r, 1));
    assert_true(psd_record_admits(r, 2));
    psd_record_check_invariants(r);
    psd_record_free(r);
    psd_record_free(NULL);
}

TEST(test_progress_holds_the_window)
{
    struct psd_record *r = psd_record_new(session, 1);
    struct psd_progress p, q;
    begin(r, &p, 10);
    begin(r, &q, 20);
    assert_true(psd_record_admits(r, 10 + 255));
    assert_false(psd_record_admits(r, 10 + 256));
    assert_false(psd_record_admits(r, UINT64_C(1) << 60));
    end(r, &p);
    assert_true(psd_record_admits(r, 10 + 256));
    assert_false(psd_record_admits(r, 20 + 256));
    psd_record_check_invariants(r);
    end(r, &q);
    psd_record_free(r);
}

/* Numbers in any order a client may send them: admitted and known exactly as the model says, no number twice. */
TEST(test_against_a_model)
{
    struct wire_random random = {.state = 11};
    struct psd_record *r = psd_record_new(session, 1);
    static bool taken[20000];
    uint64_t highest = 0;
    memset(taken, 0, sizeof(taken));
    for (int i = 0; i < 50000 && highest < 19000; i++) {
        uint64_t base = highest > 400 ? highest - 400 : 0;
        uint64_t number = 1 + base + wire_below(&random, 430);
        bool in_window = highest < 256 || number > highest - 256;
        bool known = psd_record_find(r, number) != NULL;
        assert_true(!known || taken[number]);
        assert_true(known || !taken[number] || !in_window); /* what is in the window is never forgotten */
        if (known) {
            continue;
        }
        assert_int_equal(psd_record_admits(r, number), in_window);
        if (in_window) {
            assert_false(taken[number]); /* never again */
            psd_record_put(r, number)->state = PS_NUMBER_APPLIED;
            taken[number] = true;
            highest = number > highest ? number : highest;
        }
        if (i % 100 == 0) {
            psd_record_check_invariants(r);
        }
    }
    assert_int_equal(r->highest, highest);
    psd_record_free(r);
}

TEST(test_refusal)
{
    struct psd_record *r = psd_record_new(session, 1);
    struct psi_err err;
    struct psd_number *n = psd_record_put(r, 5);
    PSI_IGNORE(psi_fail(&err, PS_INVALID_ARGUMENT, "element 7 is bad")); /* kept below */
    err.applied = PS_MAYBE_PARTLY_APPLIED;
    psd_number_refuse(r, n, err.code, err.reason, err.applied, psi_strndup(err.text, strlen(err.text)));
    assert_int_equal(n->state, PS_NUMBER_REFUSED);
    assert_int_equal(n->status, PS_INVALID_ARGUMENT);
    assert_int_equal(n->applied, PS_MAYBE_PARTLY_APPLIED);
    assert_string_equal(n->text, "element 7 is bad");
    psi_mem_fail_after(0); /* without memory for the text the status stays */
    psd_number_refuse(r, n, err.code, err.reason, err.applied, psi_strndup(err.text, strlen(err.text)));
    assert_null(n->text);
    assert_int_equal(n->status, PS_INVALID_ARGUMENT);
    psd_number_refuse(r, n, err.code, err.reason, err.applied, psi_strndup(err.text, strlen(err.text)));
    assert_non_null(n->text);
    n = psd_record_put(r, 5 + 256); /* frees it */
    assert_null(n->text);
    psd_record_free(r);
    psi_mem_fail_after(0);
    assert_null(psd_record_new(session, 1));
}
