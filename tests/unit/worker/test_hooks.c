/* SPDX-License-Identifier: Apache-2.0 */
/* worker/hooks, and adding hooks when memory runs out: when it is time, what is kept of values. Nothing answers at the target. */
#include "test.h"
#include "ps.h"

#include "hooks/counted.h"
#include "hooks/hooks.h"
#include "mem.h"

#include <math.h>

enum { ALLOCATIONS_MAX = 20 };

TEST(every_so_many_steps_or_milliseconds)
{
    struct psi_err err = {0};
    struct psi_every e;
    assert_ok(psi_every_init(&e, 10, 0, &err), &err);
    assert_true(psi_every_due(&e, 5, 0)); /* the first time */
    assert_false(psi_every_due(&e, 14, 1000000));
    assert_true(psi_every_due(&e, 15, 1000000));
    assert_false(psi_every_due(&e, 15, 1000000));
    assert_true(psi_every_due(&e, 99, 1000000)); /* others have made some */
    assert_false(psi_every_due(&e, 108, 1000000));
    assert_true(psi_every_due(&e, 3, 1000000)); /* it has gone back */
    assert_false(psi_every_due(&e, 12, 1000000));
    assert_ok(psi_every_init(&e, 0, 1.5, &err), &err);
    psi_every_begin(&e, 0, 100);
    assert_false(psi_every_due(&e, 1000, 1599));
    assert_true(psi_every_due(&e, 1000, 1600));
    assert_false(psi_every_due(&e, 1000, 3099));
    assert_ok(psi_every_init(&e, 10, 0.0001, &err), &err); /* both: what comes first; never less than a millisecond */
    psi_every_begin(&e, 0, 0);
    assert_false(psi_every_due(&e, 9, 0));
    assert_true(psi_every_due(&e, 9, 1));
    assert_true(psi_every_due(&e, 19, 1));
    assert_ok(psi_every_init(&e, INT64_MAX, 1e9, &err), &err);
    psi_every_begin(&e, 0, 0);
    assert_false(psi_every_due(&e, INT64_MAX - 1, 999999999999));
    assert_fails(psi_every_init(&e, 0, 0, &err), PS_INVALID_ARGUMENT, &err, "never be time");
    assert_fails(psi_every_init(&e, -1, 1, &err), PS_INVALID_ARGUMENT, &err, "every_steps: -1");
    assert_fails(psi_every_init(&e, 1, -0.5, &err), PS_INVALID_ARGUMENT, &err, "every_seconds: -0.5");
    assert_fails(psi_every_init(&e, 1, (double)NAN, &err), PS_INVALID_ARGUMENT, &err, "every_seconds: nan");
    assert_fails(psi_every_init(&e, 1, 1.1e9, &err), PS_INVALID_ARGUMENT, &err, "every_seconds: 1.1e+09");
}

TEST(the_last_value_is_kept)
{
    struct psi_kept k = {.count = 0};
    for (int i = 0; i < PS_STEP_VALUES_MAX; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "v%d", i);
        assert_true(psi_kept_take(&k, name, i, i, 0));
    }
    assert_false(psi_kept_take(&k, "more", 1, 1, 1));
    assert_true(psi_kept_take(&k, "v3", 7, 100, 9));
    assert_int_equal(k.count, PS_STEP_VALUES_MAX);
    assert_string_equal(k.of[3].name, "v3");
    assert_true(k.of[3].value == 7);
    assert_int_equal(k.of[3].step, 100);
    assert_int_equal(k.of[3].time_ms, 9);
    assert_int_equal(k.of[4].step, 4);
}

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static ps_session *open_session(void)
{
    ps_session_options o;
    ps_session *s = NULL;
    ps_session_options_init(&o);
    o.cluster_spec = "ps=127.0.0.1:1";
    o.log = no_log;
    assert_int_equal(ps_session_open(&o, &s, NULL, 0), PS_OK);
    return s;
}

static ps_status all_calls(ps_session *s)
{
    ps_hook hook;
    ps_status st = PS_OK;
    ps_hook_init(&hook);
    st = st == PS_OK ? ps_add_hook(s, &hook) : st;
    st = st == PS_OK ? ps_add_stop_at_step_hook(s, 1, 0) : st;
    st = st == PS_OK ? ps_add_step_counter_hook(s, 1, 0) : st;
    st = st == PS_OK ? ps_add_logging_hook(s, NULL, 0, 1, 0) : st;
    st = st == PS_OK ? ps_add_nan_hook(s, NULL, PS_NAN_STOP) : st;
    st = st == PS_OK ? ps_add_summary_hook(s, "dir", 1) : st;
    return st == PS_OK ? ps_step_value(s, "loss", 1) : st;
}

TEST(memory_runs_out)
{
    ps_status st = PS_UNKNOWN;
    int n = 0;
    for (; n < ALLOCATIONS_MAX && st != PS_OK; n++) {
        ps_session *s = open_session();
        psi_mem_fail_after(n);
        st = all_calls(s);
        psi_mem_fail_after(-1);
        assert_int_equal(ps_session_status(s), st);
        assert_true(st == PS_OK || (st == PS_RESOURCE_EXHAUSTED && strstr(ps_session_error(s), "out of memory for ") != NULL));
        assert_int_equal(ps_session_close(s), st);
    }
    assert_int_equal(st, PS_OK);
    assert_true(n > 10); /* an allocation of each failed before */
}

TEST(the_mean_of_what_was_counted_since)
{
    struct psi_counted c = {.counts = {0}};
    uint64_t now[PS_HISTOGRAM] = {0};
    double mean = -1;
    assert_false(psi_counted_mean(&c, now, &mean));
    now[0] = 3;
    now[4] = 1;
    assert_true(psi_counted_mean(&c, now, &mean));
    assert_true(mean == 1);
    assert_false(psi_counted_mean(&c, now, &mean)); /* nothing since */
    now[PS_HISTOGRAM - 1] = 2;
    assert_true(psi_counted_mean(&c, now, &mean));
    assert_true(mean == PS_HISTOGRAM - 1);
    now[0] = 1; /* a task has begun to count from 0 again */
    now[4] = 0;
    now[PS_HISTOGRAM - 1] = 1;
    assert_true(psi_counted_mean(&c, now, &mean));
    assert_true(mean == (PS_HISTOGRAM - 1) / 2.0);
}

TEST(request_stop)
{
    ps_session *s = open_session();
    assert_false(ps_should_stop(s));
    assert_int_equal(ps_request_stop(s), PS_OK);
    assert_true(ps_should_stop(s));
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(ps_request_stop(NULL), PS_INVALID_ARGUMENT);
}
