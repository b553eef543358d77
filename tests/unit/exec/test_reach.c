/* SPDX-License-Identifier: Apache-2.0 */
/* The carrier of transfers (worker/exec/reach.c) over a session that the test plays: look-ups and requests end when the test says
 * so. */
#define ps_session_open fake_open
#define ps_session_close fake_close
#define psi_api_deadline_ms fake_deadline
#define psi_api_found_start fake_found_start
#define psi_api_found_drop fake_found_drop
#define psi_api_start fake_start
#include "test.h"

#include "worker/exec/reach.c" /* NOLINT(bugprone-suspicious-include): the library's, over another session */

enum { MOVES_MAX = 8, TIMEOUT_MS = 60000 };

static struct {
    struct psi_api_found *look_ups[MOVES_MAX], *dropped[MOVES_MAX];
    struct {
        ps_done_fn done;
        void *ctx;
    } requests[MOVES_MAX];
    int look_up_count, dropped_count, request_count;
} world;

ps_status fake_open(const ps_session_options *options, ps_session **out_session, char *error, size_t error_bytes)
{
    (void)options, (void)error, (void)error_bytes;
    *out_session = psi_calloc(1, sizeof(**out_session));
    return *out_session != NULL ? PS_OK : PS_RESOURCE_EXHAUSTED;
}

int fake_close(ps_session *s)
{
    psi_free(s);
    return 0;
}

uint64_t fake_deadline(const ps_session *s, int64_t timeout_ms)
{
    (void)s;
    return psi_io_now_ms() + (uint64_t)timeout_ms;
}

ps_status fake_found_start(ps_session *s, const char *container, const uint8_t *key, const char *name, int64_t timeout_ms,
                           struct psi_api_found *found, struct psi_err *err)
{
    (void)s, (void)container, (void)key, (void)name, (void)timeout_ms, (void)err;
    world.look_ups[world.look_up_count++] = found;
    return PS_OK;
}

ps_status fake_found_drop(struct psi_api_found *found, struct psi_err *err)
{
    (void)err;
    world.dropped[world.dropped_count++] = found;
    return PS_OK;
}

ps_status fake_start(ps_variable *v, const struct psi_request *what, int64_t timeout_ms, ps_request *req, ps_done_fn done,
                     void *ctx)
{
    (void)v, (void)what, (void)timeout_ms, (void)req;
    world.requests[world.request_count].done = done;
    world.requests[world.request_count++].ctx = ctx;
    return PS_OK;
}

static const struct psi_type TYPE = {.dtype = PS_F32, .shape = {.rank = 1, .dims = {2}}};
static const struct psi_run_variable VARIABLE = {.container = "c", .name = "v", .job = "ps"};
static int ended;

static void on_ended(struct psi_exec_transfer *t)
{
    (void)t;
    ended++;
}

static struct psi_exec_transfer *begun(ps_ops *ops, struct psi_exec_transfer *t, float data[2])
{
    struct psi_err err = {0};
    *t = (struct psi_exec_transfer){.kind = PSI_EXEC_READ,
                                    .variable = &VARIABLE,
                                    .type = &TYPE,
                                    .data = data,
                                    .bytes = 2 * sizeof(data[0]),
                                    .timeout_ms = TIMEOUT_MS,
                                    .done = on_ended};
    assert_int_equal(ops->reach.start(ops->reach.ctx, t, &err), PS_OK);
    return t;
}

/* The look-up ends: there is a variable of so many elements. */
static void found(int look_up, int64_t elements)
{
    const struct psi_err none = {0};
    struct psi_api_found *f = world.look_ups[look_up];
    f->variable.dtype = PS_F32;
    f->variable.shape = (ps_shape){.rank = 1, .dims = {elements}};
    f->done(f, &none);
}

static void answered(int request)
{
    const ps_result fine = {.status = PS_OK};
    world.requests[request].done(world.requests[request].ctx, NULL, &fine);
}

static void lost(int request)
{
    const ps_result gone = {.status = PS_ABORTED, .reason = PS_REASON_LOST, .applied = PS_NOTHING_APPLIED, .text = "it is gone"};
    world.requests[request].done(world.requests[request].ctx, NULL, &gone);
}

static ps_ops *ops_new(void)
{
    ps_ops *ops = psi_calloc(1, sizeof(*ops));
    struct psi_err err;
    assert_non_null(ops);
    memset(&world, 0, sizeof(world));
    ended = 0;
    assert_int_equal(psi_exec_carrier_new(ops, &err), PS_OK);
    return ops;
}

static void ops_free(ps_ops *ops)
{
    for (int i = 0; i < world.dropped_count; i++) {
        world.dropped[i]->dropped(world.dropped[i], true);
    }
    psi_exec_carrier_free(ops->carrier);
    psi_free(ops);
}

/* Two transfers use a variable that is known, and both find it gone; the second one when the first has looked it up again. The
 * variable that has the name now has so many elements. */
static void second_finds_it_late(int64_t elements, ps_status expected)
{
    ps_ops *ops = ops_new();
    float data[3][2];
    struct psi_exec_transfer t[3];
    begun(ops, &t[0], data[0]);
    found(0, 2);
    answered(0);
    assert_int_equal(ended, 1);
    begun(ops, &t[1], data[1]);
    begun(ops, &t[2], data[2]);
    assert_int_equal(world.request_count, 3);
    assert_int_equal(world.look_up_count, 1);
    lost(1);
    assert_int_equal(world.look_up_count, 2);
    found(1, elements);
    lost(2);
    assert_int_equal(world.look_up_count, 2); /* the look-up of the first serves both */
    for (int i = 3; i < world.request_count; i++) {
        answered(i);
    }
    assert_int_equal(ended, 3);
    assert_int_equal(t[1].err.code, expected);
    assert_int_equal(t[2].err.code, expected);
    assert_int_equal(world.dropped_count, 1); /* the variable that is gone */
    ops_free(ops);
}

TEST(test_a_variable_that_another_transfer_has_looked_up_again)
{
    second_finds_it_late(2, PS_OK);
}

TEST(test_a_variable_of_another_shape)
{
    second_finds_it_late(3, PS_INVALID_ARGUMENT);
}

/* A variable that is gone again and again is looked up each time by who had it from another transfer, and once by who looked. */
TEST(test_a_variable_that_is_gone_again)
{
    ps_ops *ops = ops_new();
    float data[3][2];
    struct psi_exec_transfer t[3];
    begun(ops, &t[0], data[0]);
    found(0, 2);
    answered(0);
    begun(ops, &t[1], data[1]);
    begun(ops, &t[2], data[2]);
    lost(1);
    found(1, 2);
    lost(2);
    assert_int_equal(world.request_count, 5);
    lost(3); /* of the first, which has looked it up itself: it ends */
    assert_int_equal(ended, 2);
    assert_int_equal(t[1].err.code, PS_ABORTED);
    lost(4);
    assert_int_equal(world.look_up_count, 3);
    found(2, 2);
    answered(5);
    assert_int_equal(ended, 3);
    assert_int_equal(t[2].err.code, PS_OK);
    ops_free(ops);
}
