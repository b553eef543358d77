/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An executor without a server: the functions of a server, and whoever carries transfers, are the test's. One call at a time.
 * Everything happens when the test says so: a copy or a transfer ends, a call is entered once more, it is cancelled.
 */
#ifndef TESTS_EXEC_TEST_H
#define TESTS_EXEC_TEST_H

#include "test.h"

#include "worker/exec/exec.h"

#include "common/mem.h"

enum { FAKE_QUEUED_NS = 12345 };
enum { SLOTS_MAX = 16, OUT_BYTES = (int)PS_CALL_BYTES_MAX };

/* A copy, a draft, a publish or a transfer that the executor has asked for. */
struct fake_move {
    bool is_copy, is_draft, is_publish, open, cancelled;
    psd_call_read what;
    psd_call_read_fn done;
    psd_call_draft draft;
    psd_call_draft_fn drafted; /* of a draft and of a publish */
    void *ctx;
    struct psi_exec_transfer *t;
    _Alignas(64) float room[16]; /* of a draft */
    float *published;            /* of a publish: the room */
    /* of a copy: what its result says; set before it ends */
    uint64_t creation, version;
    bool exact, same;
};

struct psd_call {
    void *data;
    bool cancelled, pending, over;
    bool enters_at_end;   /* finish() enters run() before it ends the call */
    bool cancels_at_once; /* the call is cancelled when run() has asked for the first time whether it is */
    uint32_t agains, ends;
    ps_status st;
    size_t out_bytes;
    ps_reason reason;
    char error[512];
    int64_t left_ms;
    struct psi_buf in;
    size_t less; /* bytes of `in` that are still to come */
    uint8_t out[OUT_BYTES];
    struct fake_move moves[SLOTS_MAX]; /* in the order in which they were asked for */
    uint32_t move_count;
    ps_status refuses_copies, refuses_moves; /* not PS_OK: what read() and start() return */
    ps_status refuses_drafts, refuses_publishes;
    uint32_t refuses_from; /* the first move that read() or start() refuses */
};

struct fake_exec {
    ps_ops *ops;
    psd_call call;
};
static struct fake_exec *fake_of; /* of the case that runs: start() and cancel() have no call */

static bool fake_cancelled(const psd_call *call)
{
    const bool cancelled = call->cancelled;
    if (call->cancels_at_once) {
        fake_of->call.cancels_at_once = false;
        fake_of->call.cancelled = true;
    }
    return cancelled;
}

static ps_status fake_again(psd_call *call)
{
    assert_false(call->over);
    call->agains++;
    return PS_OK;
}

static ps_status fake_finish(psd_call *call, ps_status st, size_t out_bytes, const char *error)
{
    assert_false(call->over);
    assert_ptr_equal(call->data, fake_of->ops); /* run() and cancel() begin nothing, and find no run that is gone */
    if (call->enters_at_end) {
        size_t none = 0;
        const psd_call_row *row = &ps_ops_table(fake_of->ops)->rows[0];
        assert_int_equal(row->run(fake_of->ops, call, call->in.data, call->in.len, call->out, sizeof(call->out), &none,
                                  call->error, sizeof(call->error)),
                         PSD_CALL_PENDING);
    }
    call->over = true;
    call->ends++;
    call->st = st;
    call->out_bytes = out_bytes;
    (void)snprintf(call->error, sizeof(call->error), "%s", error);
    return PS_OK;
}

static void **fake_data(psd_call *call)
{
    return &call->data;
}

static const char *fake_asker(const psd_call *call)
{
    (void)call;
    return "a test";
}

static int64_t fake_left_ms(const psd_call *call)
{
    return call->left_ms;
}

static struct fake_move *fake_asked(psd_call *call)
{
    assert_true(call->move_count < SLOTS_MAX);
    struct fake_move *m = &call->moves[call->move_count++];
    m->open = true;
    return m;
}

static ps_status fake_read(psd_call *call, const psd_call_read *what, psd_call_read_fn done, void *ctx)
{
    if (call->refuses_copies != PS_OK && call->move_count >= call->refuses_from) {
        return call->refuses_copies;
    }
    struct fake_move *m = fake_asked(call);
    m->is_copy = true;
    m->what = *what;
    m->done = done;
    m->ctx = ctx;
    return PS_OK;
}

static ps_status fake_draft(psd_call *call, const psd_call_draft *what, psd_call_draft_fn done, void *ctx)
{
    if (call->refuses_drafts != PS_OK) {
        return call->refuses_drafts;
    }
    struct fake_move *m = fake_asked(call);
    m->is_draft = true;
    m->draft = *what;
    m->drafted = done;
    m->ctx = ctx;
    return PS_OK;
}

static ps_status fake_publish(psd_call *call, void *room, psd_call_draft_fn done, void *ctx)
{
    if (call->refuses_publishes != PS_OK) {
        return call->refuses_publishes;
    }
    struct fake_move *m = fake_asked(call);
    m->is_publish = true;
    m->published = room;
    m->drafted = done;
    m->ctx = ctx;
    return PS_OK;
}

static void fake_reason(psd_call *call, ps_reason reason)
{
    assert_false(call->over);
    call->reason = reason;
}

static uint64_t fake_queued_ns(const psd_call *call)
{
    (void)call;
    return FAKE_QUEUED_NS;
}

static size_t fake_come(const psd_call *call)
{
    return call->in.len - call->less;
}

static const char *fake_who; /* whose call it is; NULL: nobody is asked */
static const char *fake_identity(const psd_call *call, const char **role)
{
    (void)call;
    *role = fake_who != NULL ? "worker" : NULL;
    return fake_who;
}

static const psd_call_functions fake_functions = {.struct_bytes = sizeof(psd_call_functions),
                                                  .cancelled = fake_cancelled,
                                                  .again = fake_again,
                                                  .finish = fake_finish,
                                                  .data = fake_data,
                                                  .asker = fake_asker,
                                                  .left_ms = fake_left_ms,
                                                  .read = fake_read,
                                                  .reason = fake_reason,
                                                  .queued_ns = fake_queued_ns,
                                                  .identity = fake_identity,
                                                  .draft = fake_draft,
                                                  .publish = fake_publish,
                                                  .come = fake_come};
static const psd_call_task fake_task = {.struct_bytes = sizeof(psd_call_task),
                                        .target = "psd://127.0.0.1:1",
                                        .name = "/job:worker/task:0",
                                        .job = "worker",
                                        .call_threads = 1,
                                        .cluster_name = "psd",
                                        .cluster_spec = "ps=127.0.0.1:2;worker=127.0.0.1:1",
                                        .devices = "CPU:0"};

static ps_status fake_start(void *ctx, struct psi_exec_transfer *t, struct psi_err *err)
{
    psd_call *call = &((struct fake_exec *)ctx)->call;
    if (call->refuses_moves != PS_OK && call->move_count >= call->refuses_from) {
        return psi_fail(err, call->refuses_moves, "refused by the test");
    }
    fake_asked(call)->t = t;
    return PS_OK;
}

static void fake_cancel(void *ctx, struct psi_exec_transfer *t)
{
    psd_call *call = &((struct fake_exec *)ctx)->call;
    for (uint32_t i = 0; i < call->move_count; i++) {
        if (call->moves[i].t == t) {
            assert_true(call->moves[i].open);
            call->moves[i].cancelled = true;
        }
    }
}

static void fake_free(void *arg)
{
    struct fake_exec *f = arg;
    psi_buf_fini(&f->call.in);
    if (f->ops->functions != NULL) {
        f->ops->table.detach(f->ops);
    }
    ps_ops_free(f->ops);
}

/* memory_bytes: of the executor, 0: its default. */
static struct fake_exec *fake_exec_new(uint64_t memory_bytes)
{
    struct fake_exec *f = test_alloc(sizeof(*f));
    char error[256] = "";
    ps_ops_options o;
    ps_ops_options_init(&o);
    o.memory_bytes = memory_bytes;
    if (ps_ops_new(&o, &f->ops, error, sizeof(error)) != PS_OK) {
        fail_msg("%s", error);
    }
    const psd_call_table *table = ps_ops_table(f->ops);
    assert_true(table->count == 1 && table->row_bytes == sizeof(psd_call_row));
    assert_string_equal(table->rows[0].name, PS_OPS_CALL);
    table->attach(table->ctx, &fake_functions, &fake_task);
    f->ops->reach = (struct psi_exec_reach){.ctx = f, .start = fake_start, .cancel = fake_cancel};
    psi_buf_init(&f->call.in, PS_CALL_BYTES_MAX);
    f->call.left_ms = 60000;
    fake_of = f;
    test_later(fake_free, f);
    return f;
}

/* Enter run(), as a compute thread does. */
static void enter(struct fake_exec *f)
{
    psd_call *call = &f->call;
    size_t out_bytes = 0;
    assert_false(call->over);
    const psd_call_row *row = &ps_ops_table(f->ops)->rows[0];
    const ps_status st = row->run(ps_ops_table(f->ops)->ctx, call, call->in.data, call->in.len, call->out, sizeof(call->out),
                                  &out_bytes, call->error, sizeof(call->error));
    if (st != (ps_status)PSD_CALL_PENDING) {
        assert_null(call->data);
        assert_false(call->over);
        call->over = true;
        call->ends++;
        call->st = st;
        call->out_bytes = out_bytes;
    } else {
        call->pending = true;
    }
}

static inline void cancel_call(struct fake_exec *f)
{
    f->call.cancelled = true;
    ps_ops_table(f->ops)->rows[0].cancel(f->ops, &f->call);
}

/* A new call with this run, of which the last `less` bytes are still to come; the call before is over. */
static void begin_early(struct fake_exec *f, const struct psi_run *run, size_t less)
{
    psd_call *call = &f->call;
    struct psi_err err = {0};
    call->data = NULL;
    call->cancelled = call->pending = call->over = false;
    call->agains = call->ends = call->move_count = 0;
    call->st = PS_OK;
    call->out_bytes = 0;
    call->error[0] = '\0';
    memset(call->moves, 0, sizeof(call->moves));
    psi_buf_clear(&call->in);
    assert_ok(psi_run_encode(run, &call->in, &err), &err);
    call->less = less;
    enter(f);
}

static void begin(struct fake_exec *f, const struct psi_run *run)
{
    begin_early(f, run, 0);
}

/* The rest of the input has come: the server enters run() again. */
static inline void rest_comes(struct fake_exec *f)
{
    f->call.less = 0;
    enter(f);
}

/* Move i ends; a copy that succeeds brings these bytes, and so does a read. */
static void end_move(struct fake_exec *f, uint32_t i, ps_status st, ps_applied applied, const void *value)
{
    struct fake_move *m = &f->call.moves[i];
    assert_true(i < f->call.move_count && m->open);
    m->open = false;
    if (m->is_draft || m->is_publish) {
        const psd_call_draft_result result = {.struct_bytes = sizeof(result),
                                              .status = st,
                                              .room = m->is_draft && st == PS_OK ? m->room : NULL,
                                              .error = st == PS_OK ? "" : "so says the test"};
        for (size_t k = 0; m->is_publish && st == PS_OK && k < ARRAY_COUNT(m->room); k++) {
            assert_true(k > 0 || m->published[k] == *(const float *)value);
            m->published[k] = -1; /* the variable's from now on: it may change */
        }
        m->drafted(m->ctx, &result);
        return;
    }
    if (m->is_copy) {
        if (st == PS_OK && m->what.bytes > 0 && !m->same) {
            memcpy(m->what.dst, value, m->what.bytes);
        }
        const psd_call_read_result result = {.struct_bytes = sizeof(result),
                                             .status = st,
                                             .error = st == PS_OK ? "" : "so says the test",
                                             .creation = m->creation,
                                             .version = m->version,
                                             .exact = m->exact,
                                             .same = m->same};
        m->done(m->ctx, &result);
        return;
    }
    psi_err_none(&m->t->err);
    if (st != PS_OK) {
        PSI_IGNORE(psi_fail(&m->t->err, st, "so says the test"));
        m->t->err.applied = applied;
    } else if (m->t->kind == PSI_EXEC_READ && m->t->bytes > 0) {
        memcpy(m->t->data, value, m->t->bytes);
    }
    m->t->done(m->t);
}

/* The call is over, once, and nothing of it is left. */
static void assert_over(const struct fake_exec *f, ps_status st, const char *part)
{
    const psd_call *call = &f->call;
    if (!call->over || call->ends != 1 || call->st != st || strstr(call->error, part) == NULL) {
        fail_msg("the call %s with %s '%s', expected %s with '%s'", call->over ? "ended" : "goes on", ps_status_name(call->st),
                 call->error, ps_status_name(st), part);
    }
    assert_true(f->ops->used_bytes == 0);
    for (uint32_t i = 0; i < call->move_count; i++) {
        assert_false(call->moves[i].open); /* its memory is gone */
    }
}

/* Float32 result number i of the answer. */
static float result_of(const struct fake_exec *f, uint32_t i)
{
    struct psi_run_answer answer = {0};
    struct psi_err err = {0};
    float value = 0;
    assert_ok(psi_run_answer_decode(f->call.out, f->call.out_bytes, &answer, &err), &err);
    assert_true(i < answer.result_count && answer.results[i].bytes == sizeof(value));
    memcpy(&value, answer.results[i].data, sizeof(value));
    psi_run_answer_fini(&answer);
    return value;
}

static const struct psi_type scalar = {PS_F32, {.rank = 0}};
static const float TWO = 2;
static const struct psi_run_variable OWN = {"localhost", "own", "worker", 0};

static struct psi_run_input inline_of(const float *value)
{
    return (struct psi_run_input){.from = PSI_RUN_FROM_CALL, .type = scalar, .data = value, .bytes = sizeof(*value)};
}

static struct psi_run_output answer_of(uint32_t value)
{
    return (struct psi_run_output){.to = PSI_RUN_TO_ANSWER, .value = value, .variable = {"", "", "", 0}};
}

#endif
