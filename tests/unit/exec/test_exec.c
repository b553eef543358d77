/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/exec: one call from its first compute thread to its end. Every order in which transfers end, fail and are cancelled;
 * what is refused before anything is read; memory that is short at each place.
 */
#include "exec_test.h"

static const float THREE = 3, FIVE = 5;
static const uint16_t BOTH[] = {0, 1};
static const struct psi_run_variable OTHER = {"localhost", "other", "worker", 1}, ON_PS = {"localhost", "w", "ps", 0};

/* add(a, b) with inputs and outputs as they are given. */
static struct psi_run run_of(struct psi_run_input *inputs, struct psi_run_row *row, struct psi_run_output *outputs,
                             uint32_t output_count)
{
    *row =
        (struct psi_run_row){.op = "add", .name = "scope/sum", .device = "", .inputs = BOTH, .input_count = 2, .output_count = 1};
    return (struct psi_run){.container = "",
                            .inputs = inputs,
                            .input_count = 2,
                            .rows = row,
                            .row_count = 1,
                            .outputs = outputs,
                            .output_count = output_count};
}

static struct psi_run_input variable_of(const struct psi_run_variable *v)
{
    return (struct psi_run_input){.from = PSI_RUN_FROM_VARIABLE, .type = scalar, .variable = *v};
}

static struct psi_run_output to(enum psi_run_to how, uint32_t value, const struct psi_run_variable *v)
{
    return (struct psi_run_output){.to = how, .value = value, .variable = *v, .scale = 1};
}

TEST(test_no_rows)
{
    const struct psi_run run = {.container = ""};
    struct fake_exec *f = fake_exec_new(0);
    begin(f, &run);
    assert_over(f, PS_OK, "");
    assert_false(f->call.pending);
}

/* Nothing to wait for: one entry. */
TEST(test_values_of_the_call)
{
    struct psi_run_input in[] = {inline_of(&TWO), inline_of(&THREE)};
    struct psi_run_output out[] = {answer_of(2), answer_of(0)};
    struct psi_run_row row;
    const struct psi_run run = run_of(in, &row, out, 2);
    struct fake_exec *f = fake_exec_new(0);
    begin(f, &run);
    assert_over(f, PS_OK, "");
    assert_false(f->call.pending);
    assert_true(result_of(f, 0) == 5 && result_of(f, 1) == 2);
}

/* The server says how long the call waited for a thread. Of a run that is not traced nobody asks. */
TEST(test_times_of_a_traced_run)
{
    struct psi_run_input in[] = {inline_of(&TWO), inline_of(&THREE)};
    struct psi_run_output out[] = {answer_of(2)};
    struct psi_run_row row;
    struct psi_run run = run_of(in, &row, out, 1);
    struct fake_exec *f = fake_exec_new(0);
    for (int traced = 0; traced < 2; traced++) {
        struct psi_run_answer answer = {0};
        struct psi_err err = {0};
        run.trace = traced != 0;
        begin(f, &run);
        assert_over(f, PS_OK, "");
        assert_ok(psi_run_answer_decode(f->call.out, f->call.out_bytes, &answer, &err), &err);
        assert_int_equal(answer.times.queue_ns, traced != 0 ? FAKE_QUEUED_NS : 0);
        assert_true((answer.times.rows_ns > 0) == (traced != 0));
        psi_run_answer_fini(&answer);
    }
}

/* Inputs are at any alignment in the call's bytes, strings as well. */
TEST(test_alignment)
{
    static const struct {
        int64_t offsets[2];
        char text[4];
    } blob = {{0, 3}, "abc"};
    static const double a = 1.5, b = 0.25;
    for (size_t pad = 0; pad < 9; pad++) {
        char name[16] = "xxxxxxxxxxxx";
        name[pad + 1] = '\0';
        struct psi_run_input in[] = {{.from = PSI_RUN_FROM_CALL, .type = {PS_STRING, {.rank = 0}}, .data = &blob, .bytes = 19},
                                     {.from = PSI_RUN_FROM_CALL, .type = {PS_F64, {.rank = 0}}, .data = &a, .bytes = 8},
                                     {.from = PSI_RUN_FROM_CALL, .type = {PS_F64, {.rank = 0}}, .data = &b, .bytes = 8}};
        static const uint16_t numbers[] = {1, 2};
        struct psi_run_row row = {
            .op = "add", .name = name, .device = "", .inputs = numbers, .input_count = 2, .output_count = 1};
        struct psi_run_output out[] = {answer_of(3), answer_of(0)};
        const struct psi_run run = {
            .container = name, .inputs = in, .input_count = 3, .rows = &row, .row_count = 1, .outputs = out, .output_count = 2};
        struct fake_exec *f = fake_exec_new(0);
        struct psi_run_answer answer = {0};
        struct psi_err err = {0};
        double sum = 0;
        begin(f, &run);
        assert_over(f, PS_OK, "");
        assert_ok(psi_run_answer_decode(f->call.out, f->call.out_bytes, &answer, &err), &err);
        memcpy(&sum, answer.results[0].data, sizeof(sum));
        assert_true(sum == 1.75 && answer.results[1].bytes == 19);
        assert_memory_equal(answer.results[1].data, &blob, 19);
        psi_run_answer_fini(&answer);
    }
}

/* ---- every order ---- */

/* What may happen next, chosen by a number that counts through all choices of all steps: the digits of `path`. */
struct choices {
    uint32_t digit[32], count[32], used;
};

static uint32_t choose(struct choices *c, uint32_t count)
{
    assert_true(count > 0 && c->used < 32);
    const uint32_t at = c->used++;
    c->count[at] = count;
    return c->digit[at];
}

/* The next path; false: there is none. */
static bool next_path(struct choices *c)
{
    uint32_t at = c->used;
    while (at > 0 && c->digit[at - 1] + 1 == c->count[at - 1]) {
        at--;
    }
    if (at == 0) {
        return false;
    }
    c->digit[at - 1]++;
    for (uint32_t i = at; i < 32; i++) {
        c->digit[i] = 0;
    }
    c->used = 0;
    return true;
}

struct story {
    bool read_failed, cancelled, refused, unknown;
    uint32_t delivered;
};

/* One of the open moves ends, in one of the ways that it can. */
static void end_one(struct fake_exec *f, struct choices *c, struct story *s, uint32_t i)
{
    const struct fake_move *m = &f->call.moves[i];
    if (m->is_draft || m->is_publish) { /* what is not published goes by the session */
        const bool works = choose(c, 2) == 0;
        s->delivered += works && m->is_publish ? 1 : 0;
        end_move(f, i, works ? PS_OK : f->call.cancelled ? PS_CANCELLED : PS_RESOURCE_EXHAUSTED, PS_NOTHING_APPLIED, &FIVE);
        return;
    }
    const bool read = m->is_copy || m->t->kind == PSI_EXEC_READ;
    const bool own = m->is_copy || (m->t != NULL && m->t->variable->task == 0);
    const bool stopped = f->call.cancelled || m->cancelled;
    const uint32_t how = choose(c, read ? 2 : 3);
    const float *value = own ? &TWO : &THREE;
    if (how == 0) {
        s->delivered += read ? 0 : 1;
        end_move(f, i, PS_OK, PS_NOTHING_APPLIED, value);
    } else if (read) {
        s->read_failed = true;
        end_move(f, i, stopped ? PS_CANCELLED : PS_NOT_FOUND, PS_NOTHING_APPLIED, NULL);
    } else if (how == 1) {
        s->refused = true;
        end_move(f, i, stopped ? PS_CANCELLED : PS_INVALID_ARGUMENT, PS_NOTHING_APPLIED, NULL);
    } else {
        s->unknown = true;
        end_move(f, i, stopped ? PS_CANCELLED : PS_UNAVAILABLE, PS_OUTCOME_UNKNOWN, NULL);
    }
}

/* Go on with the call until it is over, by the path in c. */
static void play(struct fake_exec *f, struct choices *c, struct story *s)
{
    uint32_t entered = 0;
    while (!f->call.over) {
        uint32_t open[SLOTS_MAX], count = 0;
        for (uint32_t i = 0; i < f->call.move_count; i++) {
            if (f->call.moves[i].open) {
                open[count++] = i;
            }
        }
        const bool again = f->call.agains > entered, may_cancel = !s->cancelled;
        assert_true(count > 0 || again); /* it waits for something */
        const uint32_t what = choose(c, count + (again ? 1 : 0) + (may_cancel ? 1 : 0));
        if (what < count) {
            end_one(f, c, s, open[what]);
        } else if (what == count && again) {
            entered++;
            enter(f);
        } else {
            s->cancelled = true;
            cancel_call(f);
            for (uint32_t i = 0; i < f->call.move_count; i++) { /* the executor has passed it on; the server ends copies itself */
                const struct fake_move *m = &f->call.moves[i];
                assert_true(!m->open || m->is_copy || m->is_draft || m->is_publish || m->cancelled);
            }
        }
    }
}

static void check_story(const struct fake_exec *f, const struct story *s)
{
    const psd_call *call = &f->call;
    const uint32_t deliveries = call->move_count > 3 ? call->move_count - 3 : 0;
    assert_over(f, call->st, "");
    if (s->read_failed) {
        assert_true(deliveries == 0 && call->st != PS_OK); /* nothing has been changed */
        assert_true(s->cancelled || strstr(call->error, "input '") != NULL);
    } else if (s->unknown) {
        assert_int_equal(call->st, PS_ABORTED);
        assert_non_null(strstr(call->error, "outcome unknown"));
        assert_non_null(strstr(call->error, "'scope/sum'"));
    } else if (s->refused) {
        assert_true(call->st == PS_INVALID_ARGUMENT || (s->cancelled && call->st == PS_CANCELLED));
        assert_non_null(strstr(call->error, "'scope/sum' did not arrive"));
    } else if (s->cancelled) {
        assert_int_equal(call->st, PS_CANCELLED);
    } else {
        assert_int_equal(call->st, PS_OK);
        assert_true(s->delivered == 2 && result_of(f, 0) == 5);
    }
}

/* Two inputs, a draft, one row, two deliveries: each order of their ends, each way to end, and a cancel at each place. */
TEST(test_every_order)
{
    struct psi_run_input in[] = {variable_of(&OWN), variable_of(&OTHER)};
    struct psi_run_output out[] = {to(PSI_RUN_TO_ASSIGN, 2, &OWN), to(PSI_RUN_TO_PUSH, 2, &ON_PS), answer_of(2)};
    struct psi_run_row row;
    const struct psi_run run = run_of(in, &row, out, 3);
    struct fake_exec *f = fake_exec_new(0);
    struct choices c = {0};
    uint32_t paths = 0, oks = 0;
    do {
        struct story s = {0};
        begin(f, &run);
        assert_true(f->call.pending && f->call.move_count == 3); /* two inputs and a draft */
        play(f, &c, &s);
        check_story(f, &s);
        paths++;
        oks += f->call.st == PS_OK ? 1 : 0;
    } while (next_path(&c));
    /* six orders of what comes first; then two deliveries by the session, or two with a publish, or three where that is refused
     */
    assert_true(paths == 1110 && oks == 6 * (2 + 2 + 3));
}

/* ---- what is asked for ---- */

/* Copies of the own task, requests for the others; the deadline's text comes from the transfer, so it ends a bit earlier. */
TEST(test_reads)
{
    struct psi_run_input in[] = {variable_of(&OWN), variable_of(&OTHER)};
    struct psi_run_output out[] = {answer_of(2)};
    struct psi_run_row row;
    const struct psi_run run = run_of(in, &row, out, 1);
    struct fake_exec *f = fake_exec_new(0);
    f->call.left_ms = 1000;
    begin(f, &run);
    const struct fake_move *own = &f->call.moves[0], *other = &f->call.moves[1];
    assert_true(own->is_copy && own->what.dtype == PS_F32 && own->what.bytes == 4 && own->what.key == NULL);
    assert_string_equal(own->what.name, "own");
    assert_true(!other->is_copy && other->t->kind == PSI_EXEC_READ && other->t->bytes == 4 && other->t->key == NULL);
    assert_true(other->t->timeout_ms == 750);
    assert_string_equal(other->t->variable->name, "other");
    end_move(f, 0, PS_OK, PS_NOTHING_APPLIED, &TWO);
    end_move(f, 1, PS_OK, PS_NOTHING_APPLIED, &FIVE);
    assert_int_equal(f->call.agains, 1);
    enter(f);
    assert_over(f, PS_OK, "");
    assert_true(result_of(f, 0) == 7);
}

TEST(test_deliveries)
{
    static const struct psi_run_variable mine = {"session/0123456789abcdef", "v", "worker", 1};
    struct psi_run_input in[] = {inline_of(&TWO), inline_of(&THREE)};
    struct psi_run_output out[] = {to(PSI_RUN_TO_ASSIGN, 2, &mine), to(PSI_RUN_TO_ADD, 2, &OTHER),
                                   to(PSI_RUN_TO_PUSH, 0, &ON_PS)};
    struct psi_run_row row;
    struct psi_run run = run_of(in, &row, out, 3);
    run.container = mine.container;
    memset(run.key, 7, sizeof(run.key));
    out[1].answers = true;
    out[2].scale = 0.5f;
    struct fake_exec *f = fake_exec_new(0);
    begin(f, &run);
    assert_true(f->call.pending && f->call.move_count == 3);
    const struct psi_exec_transfer *assign = f->call.moves[0].t, *push = f->call.moves[2].t;
    struct psi_exec_transfer *add = f->call.moves[1].t;
    assert_true(assign->kind == PSI_EXEC_ASSIGN && add->kind == PSI_EXEC_ADD && push->kind == PSI_EXEC_PUSH);
    assert_memory_equal(assign->key, run.key, sizeof(run.key));
    assert_true(add->key == NULL && push->scale == 0.5f && *(float *)add->data == 5 && *(float *)push->data == 2);
    memcpy(add->result, &FIVE, sizeof(FIVE));
    add->result_bytes = sizeof(FIVE);
    end_move(f, 2, PS_OK, PS_NOTHING_APPLIED, NULL);
    end_move(f, 0, PS_OK, PS_NOTHING_APPLIED, NULL);
    assert_false(f->call.over);
    end_move(f, 1, PS_OK, PS_NOTHING_APPLIED, NULL);
    assert_over(f, PS_OK, "");
    assert_true(result_of(f, 0) == 5);
}

/* The server enters run() once more than the run has asked for, as it does when the rest of the input comes while run() is
 * entered for the first time: nothing begins a second time, also while the call ends. */
TEST(test_entered_once_too_often)
{
    struct psi_run_input in[] = {variable_of(&ON_PS), inline_of(&THREE)};
    struct psi_run_output out[] = {to(PSI_RUN_TO_ASSIGN, 2, &OTHER)};
    struct psi_run_row row;
    const struct psi_run run = run_of(in, &row, out, 1);
    struct fake_exec *f = fake_exec_new(0);
    begin(f, &run);
    enter(f);
    assert_int_equal(f->call.move_count, 1);
    end_move(f, 0, PS_OK, PS_NOTHING_APPLIED, &TWO);
    enter(f);
    assert_int_equal(f->call.move_count, 2);
    enter(f);
    assert_true(f->call.move_count == 2 && !f->call.over);
    f->call.enters_at_end = true; /* between the end of the run and that of the call */
    end_move(f, 1, PS_OK, PS_NOTHING_APPLIED, NULL);
    assert_over(f, PS_OK, "");
    assert_int_equal(f->call.move_count, 2);
}

/* ---- what is refused before anything is read ---- */

static void refused(struct fake_exec *f, const struct psi_run *run, ps_status st, const char *part)
{
    begin(f, run);
    assert_over(f, st, part);
    assert_true(f->call.move_count == 0 && !f->call.pending);
}

TEST(test_refusals)
{
    static const struct psi_run_variable theirs = {"session/fedcba9876543210", "v", "worker", 0};
    struct psi_run_input in[] = {variable_of(&OWN), variable_of(&OTHER)};
    struct psi_run_output out[] = {answer_of(2)};
    struct psi_run_row row;
    struct psi_run run = run_of(in, &row, out, 1);
    struct fake_exec *f = fake_exec_new(0);
    row.op = "ad";
    refused(f, &run, PS_UNIMPLEMENTED, "row 'scope/sum': /job:worker/task:0 has no operation 'ad'; did you mean 'add'?");
    row.op = "add";
    in[1].type.dtype = PS_I32;
    refused(f, &run, PS_INVALID_ARGUMENT, "row 'scope/sum'");
    in[1].type.dtype = PS_F32;
    row.output_count = 2;
    refused(f, &run, PS_INVALID_ARGUMENT, "add has 1 outputs here, and the run says 2");
    row.output_count = 1;
    row.device = "GPU:0";
    refused(f, &run, PS_INVALID_ARGUMENT, "has no device GPU:0, it has CPU:0");
    row.device = "CPU:0";
    in[1].variable = theirs;
    refused(f, &run, PS_PERMISSION_DENIED, "'session/fedcba9876543210' belongs to another session");
    run.container = "session/0123456789abcdef";
    refused(f, &run, PS_PERMISSION_DENIED, "belongs to another session");
    in[1] = variable_of(&OTHER);
    out[0] = to(PSI_RUN_TO_ASSIGN, 2, &theirs);
    refused(f, &run, PS_PERMISSION_DENIED, "belongs to another session");
    f->call.in.len = 0;
    f->call.over = false;
    f->call.ends = 0;
    enter(f);
    assert_true(f->call.over && f->call.st == PS_INVALID_ARGUMENT);
}

/* What a run takes beside its values. */
static uint64_t own_bytes_of(const struct psi_run *run)
{
    struct fake_exec *f = fake_exec_new(0);
    begin(f, run);
    const uint64_t bytes = ((const struct psi_exec_run *)f->call.data)->own_bytes;
    for (uint32_t i = 0; i < f->call.move_count; i++) {
        end_move(f, i, PS_NOT_FOUND, PS_NOTHING_APPLIED, NULL);
    }
    assert_over(f, PS_NOT_FOUND, "");
    return bytes;
}

/* Two inputs of 64 bytes and their sum in place of one of them: 128 bytes at a time. */
TEST(test_memory)
{
    static const struct psi_type sixteen = {PS_F32, {.rank = 1, .dims = {16}}};
    static const float zeros[16];
    struct psi_run_input in[] = {variable_of(&OWN), variable_of(&OTHER)};
    struct psi_run_output out[] = {answer_of(2)};
    struct psi_run_row row;
    const struct psi_run run = run_of(in, &row, out, 1);
    in[0].type = in[1].type = sixteen;
    const uint64_t own = own_bytes_of(&run);
    assert_true(own > 2 * PSI_EXEC_ERRAND_BYTES);
    refused(fake_exec_new(own - 1), &run, PS_RESOURCE_EXHAUSTED, "a run takes");
    refused(fake_exec_new(own + 127), &run, PS_RESOURCE_EXHAUSTED, "a run takes 128 bytes");
    struct fake_exec *f = fake_exec_new(own + 128);
    begin(f, &run);
    assert_true(f->ops->used_bytes == own + 128);
    end_move(f, 0, PS_OK, PS_NOTHING_APPLIED, zeros);
    end_move(f, 1, PS_OK, PS_NOTHING_APPLIED, zeros);
    enter(f);
    assert_over(f, PS_OK, "");
}

/* A chain of rows takes the memory of two of its values, however long it is; broadcasting that would take all there is is
 * refused. */
TEST(test_memory_of_a_chain)
{
    enum { ROWS = 40 };
    static const struct psi_type sixteen = {PS_F32, {.rank = 1, .dims = {16}}};
    static const float zeros[16];
    struct psi_run_input in[] = {variable_of(&OWN)};
    struct psi_run_row rows[ROWS];
    uint16_t numbers[ROWS][2];
    struct psi_run_output out[] = {answer_of(ROWS)};
    for (size_t i = 0; i < ROWS; i++) {
        numbers[i][0] = numbers[i][1] = (uint16_t)i;
        rows[i] = (struct psi_run_row){
            .op = "add", .name = "add", .device = "", .inputs = numbers[i], .input_count = 2, .output_count = 1};
    }
    const struct psi_run run = {
        .container = "", .inputs = in, .input_count = 1, .rows = rows, .row_count = ROWS, .outputs = out, .output_count = 1};
    in[0].type = sixteen;
    in[0] = variable_of(&OWN);
    in[0].type = sixteen;
    const uint64_t own = own_bytes_of(&run);
    refused(fake_exec_new(own + 127), &run, PS_RESOURCE_EXHAUSTED, "128 bytes");
    struct fake_exec *f = fake_exec_new(own + 128);
    begin(f, &run);
    end_move(f, 0, PS_OK, PS_NOTHING_APPLIED, zeros);
    enter(f);
    assert_over(f, PS_OK, "");
}

TEST(test_answer_too_large)
{
    static const struct psi_type large = {PS_F32, {.rank = 1, .dims = {16384}}};
    struct psi_run_input in[] = {variable_of(&OWN), variable_of(&OTHER)};
    struct psi_run_output out[] = {answer_of(2)};
    struct psi_run_row row;
    const struct psi_run run = run_of(in, &row, out, 1);
    in[0].type = large;
    refused(fake_exec_new(0), &run, PS_RESOURCE_EXHAUSTED, "larger ones go to a variable");
}

/* ---- what the server or the session refuses ---- */

TEST(test_starts_that_are_refused)
{
    struct psi_run_input in[] = {variable_of(&OWN), variable_of(&OTHER)};
    struct psi_run_output out[] = {to(PSI_RUN_TO_ASSIGN, 2, &OWN), to(PSI_RUN_TO_PUSH, 2, &ON_PS)};
    struct psi_run_row row;
    const struct psi_run run = run_of(in, &row, out, 2);
    struct fake_exec *f = fake_exec_new(0);
    f->call.refuses_copies = PS_RESOURCE_EXHAUSTED;
    begin(f, &run);
    assert_over(f, PS_RESOURCE_EXHAUSTED, "input 'own' at /job:worker/task:0");
    f->call.refuses_copies = PS_OK;
    f->call.refuses_moves = PS_INVALID_ARGUMENT;
    f->call.refuses_drafts = PS_CANCELLED; /* no error of the run */
    begin(f, &run);
    assert_true(f->call.pending); /* the copy of its own task is on its way */
    end_move(f, 0, PS_OK, PS_NOTHING_APPLIED, &TWO);
    assert_over(f, PS_INVALID_ARGUMENT, "input 'other' at /job:worker/task:1: refused by the test");
    f->call.refuses_from = 3; /* the second delivery */
    begin(f, &run);
    end_move(f, 0, PS_OK, PS_NOTHING_APPLIED, &TWO);
    end_move(f, 1, PS_OK, PS_NOTHING_APPLIED, &TWO);
    enter(f);
    end_move(f, 2, PS_OK, PS_NOTHING_APPLIED, NULL);
    assert_over(f, PS_INVALID_ARGUMENT, "did not arrive in 'w' at /job:ps/task:0; 1 of the run's 2 deliveries has arrived");
}

/* A plan that assigns a fed value has no row that makes the value. */
TEST(test_an_input_that_does_not_arrive_is_named)
{
    struct psi_run_input in[] = {inline_of(&TWO), inline_of(&THREE)};
    struct psi_run_output out[] = {to(PSI_RUN_TO_ASSIGN, 1, &ON_PS)};
    struct psi_run_row row;
    const struct psi_run run = run_of(in, &row, out, 1);
    struct fake_exec *f = fake_exec_new(0);
    begin(f, &run);
    end_move(f, 0, PS_NOT_FOUND, PS_NOTHING_APPLIED, NULL);
    assert_over(f, PS_NOT_FOUND, "the value of input 1 did not arrive in 'w' at /job:ps/task:0; 0 of the run's 1 deliveries");
    out[0] = to(PSI_RUN_TO_ASSIGN, 2, &ON_PS);
    begin(f, &run);
    end_move(f, 0, PS_UNAVAILABLE, PS_OUTCOME_UNKNOWN, NULL);
    assert_over(f, PS_ABORTED,
                "the value of row 'scope/sum' may or may not have arrived in 'w' at /job:ps/task:0, outcome unknown");
}

/* A cancel while the rows are computed ends the run between two of them; nothing is delivered. */
TEST(test_cancel_before_the_rows)
{
    struct psi_run_input in[] = {variable_of(&OWN), variable_of(&OWN)};
    struct psi_run_output out[] = {to(PSI_RUN_TO_ASSIGN, 2, &OWN)};
    struct psi_run_row row;
    const struct psi_run run = run_of(in, &row, out, 1);
    struct fake_exec *f = fake_exec_new(0);
    begin(f, &run);
    end_move(f, 0, PS_OK, PS_NOTHING_APPLIED, &TWO);
    end_move(f, 1, PS_OK, PS_NOTHING_APPLIED, &TWO);
    end_move(f, 2, PS_OK, PS_NOTHING_APPLIED, NULL);
    f->call.cancelled = true; /* cancel() comes a moment later */
    enter(f);
    assert_over(f, PS_CANCELLED, "nobody waits");
    assert_int_equal(f->call.move_count, 3); /* no publish */
}

/* The error of a row: its name, what is wrong, nothing delivered. */
/* ---- runs that begin before all of their input has come ---- */

/* The variable of an early run is read while the value of the call is still to come, whichever of the two comes first. */
TEST(test_early_reads)
{
    struct psi_run_input in[] = {variable_of(&ON_PS), inline_of(&THREE)};
    struct psi_run_output out[] = {answer_of(2)};
    struct psi_run_row row;
    const struct psi_run run = run_of(in, &row, out, 1);
    struct fake_exec *f = fake_exec_new(0);
    for (int read_first = 0; read_first < 2; read_first++) {
        begin_early(f, &run, sizeof(float));
        assert_true(f->call.pending && f->call.move_count == 1 && f->call.moves[0].open);
        enter(f); /* for no reason */
        if (read_first) {
            end_move(f, 0, PS_OK, PS_NOTHING_APPLIED, &TWO);
            enter(f);
            assert_true(!f->call.over && f->call.agains == 0);
            rest_comes(f);
        } else {
            rest_comes(f);
            enter(f);
            assert_true(!f->call.over && f->call.agains == 0);
            end_move(f, 0, PS_OK, PS_NOTHING_APPLIED, &TWO);
            assert_int_equal(f->call.agains, 1);
            enter(f);
        }
        assert_over(f, PS_OK, "");
        assert_true(result_of(f, 0) == 5);
    }
}

/* Nothing begins before all messages are there, and before strings are. An error is said when all of the input has come. */
TEST(test_early_input_that_is_too_short)
{
    struct psi_run_input in[] = {variable_of(&ON_PS), inline_of(&THREE)};
    struct psi_run_output out[] = {answer_of(2)};
    struct psi_run_row row;
    const struct psi_run run = run_of(in, &row, out, 1);
    struct fake_exec *f = fake_exec_new(0);
    begin(f, &run);
    end_move(f, 0, PS_OK, PS_NOTHING_APPLIED, &TWO);
    enter(f);
    const size_t bytes = f->call.in.len;
    for (size_t come = 0; come < bytes - 2 * sizeof(float); come++) { /* the value, and the padding before it */
        begin_early(f, &run, bytes - come);
        assert_true(f->call.pending && f->call.data == NULL && f->call.move_count == 0 && f->ops->used_bytes == 0);
        rest_comes(f);
        assert_int_equal(f->call.move_count, 1);
        end_move(f, 0, PS_OK, PS_NOTHING_APPLIED, &TWO);
        enter(f);
        assert_over(f, PS_OK, "");
    }
    row.op = "ad";
    begin_early(f, &run, sizeof(float));
    assert_true(f->call.pending && f->call.move_count == 0);
    rest_comes(f);
    assert_over(f, PS_UNIMPLEMENTED, "'ad'");
}

TEST(test_early_read_that_fails)
{
    struct psi_run_input in[] = {variable_of(&ON_PS), inline_of(&THREE)};
    struct psi_run_output out[] = {answer_of(2)};
    struct psi_run_row row;
    const struct psi_run run = run_of(in, &row, out, 1);
    struct fake_exec *f = fake_exec_new(0);
    begin_early(f, &run, sizeof(float));
    end_move(f, 0, PS_NOT_FOUND, PS_NOTHING_APPLIED, NULL);
    assert_false(f->call.over);
    rest_comes(f);
    assert_over(f, PS_NOT_FOUND, "input 'w' at /job:ps/task:0: so says the test");
}

/* The rest of the input does not come: the run is cancelled, and ends when its reads have ended. */
TEST(test_early_run_that_is_cancelled)
{
    struct psi_run_input in[] = {variable_of(&ON_PS), inline_of(&THREE)};
    struct psi_run_output out[] = {answer_of(2)};
    struct psi_run_row row;
    const struct psi_run run = run_of(in, &row, out, 1);
    struct fake_exec *f = fake_exec_new(0);
    begin_early(f, &run, sizeof(float));
    cancel_call(f);
    assert_true(f->call.moves[0].cancelled && !f->call.over);
    enter(f); /* the rest had come a moment before */
    assert_false(f->call.over);
    end_move(f, 0, PS_CANCELLED, PS_NOTHING_APPLIED, NULL);
    assert_over(f, PS_CANCELLED, "");
    begin_early(f, &run, sizeof(float));
    end_move(f, 0, PS_OK, PS_NOTHING_APPLIED, &TWO);
    cancel_call(f);
    assert_over(f, PS_CANCELLED, "nobody waits");
    begin_early(f, &run, sizeof(float));
    rest_comes(f);
    cancel_call(f);
    assert_false(f->call.over);
    end_move(f, 0, PS_CANCELLED, PS_NOTHING_APPLIED, NULL);
    assert_over(f, PS_CANCELLED, "");
    begin_early(f, &run, f->call.in.len);
    f->call.cancelled = true;
    rest_comes(f); /* a run that has not begun */
    assert_over(f, PS_CANCELLED, "nobody waits");
    begin_early(f, &run, f->call.in.len);
    cancel_call(f); /* the rest of its input never comes */
    assert_int_equal(f->call.agains, 1);
    enter(f);
    assert_over(f, PS_CANCELLED, "nobody waits");
    f->call.cancels_at_once = true;
    begin_early(f, &run, sizeof(float)); /* cancel() comes before it can find the run */
    assert_over(f, PS_CANCELLED, "");
}

TEST(test_row_that_fails)
{
    static const int32_t one = 1, none = 0;
    struct psi_run_input in[] = {{.from = PSI_RUN_FROM_CALL, .type = {PS_I32, {.rank = 0}}, .data = &one, .bytes = 4},
                                 {.from = PSI_RUN_FROM_CALL, .type = {PS_I32, {.rank = 0}}, .data = &none, .bytes = 4}};
    struct psi_run_output out[] = {to(PSI_RUN_TO_ASSIGN, 2, &OTHER)};
    struct psi_run_row row;
    const struct psi_run run = run_of(in, &row, out, 1);
    row.op = "div";
    refused(fake_exec_new(0), &run, PS_INVALID_ARGUMENT, "row 'scope/sum': ");
    out[0] = to(PSI_RUN_TO_ASSIGN, 2, &OWN);
    struct fake_exec *f = fake_exec_new(0);
    begin(f, &run);
    end_move(f, 0, PS_OK, PS_NOTHING_APPLIED, NULL);
    enter(f);
    assert_over(f, PS_INVALID_ARGUMENT, "row 'scope/sum': ");
    assert_int_equal(f->call.move_count, 1); /* the draft, which is not published */
}

/* ---- what is assigned to variables of the own task ---- */

/* The row writes into the draft; the publish is the delivery. The shape goes along, so that [1] is not taken for a scalar. */
TEST(test_draft)
{
    struct psi_run_input in[] = {inline_of(&TWO), inline_of(&THREE)};
    struct psi_run_output out[] = {to(PSI_RUN_TO_ASSIGN, 2, &OWN)};
    struct psi_run_row row;
    const struct psi_run run = run_of(in, &row, out, 1);
    struct fake_exec *f = fake_exec_new(0);
    begin(f, &run);
    const struct fake_move *draft = &f->call.moves[0], *publish = &f->call.moves[1];
    assert_true(f->call.pending && f->call.move_count == 1 && draft->is_draft);
    assert_true(draft->draft.dtype == PS_F32 && draft->draft.shape.rank == 0 && draft->draft.key == NULL);
    assert_true(strcmp(draft->draft.name, "own") == 0 && strcmp(draft->draft.container, "localhost") == 0);
    end_move(f, 0, PS_OK, PS_NOTHING_APPLIED, NULL);
    enter(f);
    assert_true(f->call.move_count == 2 && publish->is_publish && publish->published == draft->room);
    end_move(f, 1, PS_OK, PS_NOTHING_APPLIED, &FIVE);
    assert_over(f, PS_OK, "");
}

/* A value that goes elsewhere as well is copied into the draft, which is the variable's afterwards; so is one that no row makes.
 */
TEST(test_drafts_of_values_with_two_places)
{
    struct psi_run_input in[] = {inline_of(&TWO), inline_of(&THREE)};
    struct psi_run_output out[] = {to(PSI_RUN_TO_ASSIGN, 2, &OWN), answer_of(2)};
    struct psi_run_row row;
    struct psi_run run = run_of(in, &row, out, 2);
    struct fake_exec *f = fake_exec_new(0);
    for (int i = 0; i < 2; i++) {
        begin(f, &run);
        end_move(f, 0, PS_OK, PS_NOTHING_APPLIED, NULL);
        enter(f);
        end_move(f, 1, PS_OK, PS_NOTHING_APPLIED, i == 0 ? &FIVE : &TWO);
        assert_over(f, PS_OK, "");
        assert_true(result_of(f, 0) == 5);
        out[0].value = 0;
    }
}

/* Outputs to one variable are delivered in their order: by the session, both. */
TEST(test_two_outputs_to_one_variable)
{
    struct psi_run_input in[] = {inline_of(&TWO), inline_of(&THREE)};
    struct psi_run_output out[] = {to(PSI_RUN_TO_ASSIGN, 2, &OWN), to(PSI_RUN_TO_ADD, 0, &OWN)};
    struct psi_run_row row;
    const struct psi_run run = run_of(in, &row, out, 2);
    struct fake_exec *f = fake_exec_new(0);
    begin(f, &run);
    assert_true(f->call.move_count == 2 && f->call.moves[0].t->kind == PSI_EXEC_ASSIGN &&
                f->call.moves[1].t->kind == PSI_EXEC_ADD);
    end_move(f, 0, PS_OK, PS_NOTHING_APPLIED, NULL);
    end_move(f, 1, PS_OK, PS_NOTHING_APPLIED, NULL);
    assert_over(f, PS_OK, "");
}

/* So many drafts at most; what is behind them goes by the session. */
TEST(test_more_outputs_than_drafts)
{
    enum { OUTPUTS = PSI_EXEC_DRAFTS_MAX + 3 };
    static char names[OUTPUTS][8];
    static struct psi_run_output out[OUTPUTS];
    struct psi_run_input in[] = {inline_of(&TWO), inline_of(&THREE)};
    struct psi_run_row row;
    struct fake_exec *f = fake_exec_new(0);
    f->call.refuses_drafts = PS_CANCELLED;
    f->call.refuses_moves = PS_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < OUTPUTS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "v%u", i);
        out[i] = to(PSI_RUN_TO_ASSIGN, 2, &OWN);
        out[i].variable.name = names[i];
    }
    const struct psi_run run = run_of(in, &row, out, OUTPUTS);
    struct psi_exec_run *r = NULL;
    struct psi_err err = {0};
    begin(f, &run);
    assert_over(f, PS_INVALID_ARGUMENT, "0 of the run's 67 deliveries");
    assert_ok(psi_exec_prepare(f->ops, &f->call, f->call.in.data, f->call.in.len, f->call.in.len, f->call.out,
                               sizeof(f->call.out), &r, &err),
              &err);
    for (uint32_t i = 0; i < OUTPUTS; i++) {
        assert_true(r->moves[i].own_task == (i < PSI_EXEC_DRAFTS_MAX));
    }
    psi_exec_run_free(r);
}

/* A publish that is refused has changed nothing, and what the session says then counts. */
TEST(test_publish_that_is_refused)
{
    struct psi_run_input in[] = {inline_of(&TWO), inline_of(&THREE)};
    struct psi_run_output out[] = {to(PSI_RUN_TO_ASSIGN, 2, &OWN)};
    struct psi_run_row row;
    const struct psi_run run = run_of(in, &row, out, 1);
    struct fake_exec *f = fake_exec_new(0);
    for (int i = 0; i < 3; i++) {
        f->call.refuses_publishes = i == 2 ? PS_RESOURCE_EXHAUSTED : PS_OK;
        begin(f, &run);
        end_move(f, 0, PS_OK, PS_NOTHING_APPLIED, NULL);
        enter(f);
        if (i < 2) {
            end_move(f, 1, PS_ABORTED, PS_NOTHING_APPLIED, NULL);
        }
        const uint32_t at = i < 2 ? 2 : 1;
        assert_true(f->call.move_count == at + 1 && f->call.moves[at].t->kind == PSI_EXEC_ASSIGN);
        assert_true(*(const float *)f->call.moves[at].t->data == 5);
        end_move(f, at, i == 1 ? PS_NOT_FOUND : PS_OK, PS_NOTHING_APPLIED, NULL);
        assert_over(f, i == 1 ? PS_NOT_FOUND : PS_OK, i == 1 ? "did not arrive in 'own' at /job:worker/task:0" : "");
    }
}

/* ---- memory that is short at each place ---- */

/* All that the call waits for ends well: copies bring 2, what is published is 5. */
static void end_open(struct fake_exec *f)
{
    for (uint32_t i = 0; i < f->call.move_count; i++) {
        if (f->call.moves[i].open) {
            end_move(f, i, PS_OK, PS_NOTHING_APPLIED, f->call.moves[i].is_publish ? &FIVE : &TWO);
        }
    }
}

TEST(test_torture)
{
    struct psi_run_input in[] = {variable_of(&OWN), inline_of(&THREE)};
    struct psi_run_output out[] = {to(PSI_RUN_TO_ASSIGN, 2, &OWN), answer_of(2)};
    struct psi_run_row row;
    const struct psi_run run = run_of(in, &row, out, 2);
    struct fake_exec *f = fake_exec_new(0);
    bool fails = true;
    for (int64_t n = 0; fails; n++) {
        struct psi_err err = {0};
        begin(f, &run); /* once whole, so that the call's bytes are there */
        end_open(f);
        enter(f);
        end_open(f);
        assert_over(f, PS_OK, "");
        f->call.data = NULL;
        f->call.over = f->call.pending = false;
        f->call.ends = f->call.agains = f->call.move_count = 0;
        psi_mem_fail_after(n);
        enter(f);
        end_open(f);
        if (!f->call.over) {
            enter(f);
        }
        end_open(f);
        fails = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        assert_over(f, fails ? PS_RESOURCE_EXHAUSTED : PS_OK, "");
        (void)err;
    }
}

/* An input that a later row reads, or that is delivered, stays as it is, though the row could work in place. */
TEST(test_value_that_is_read_again)
{
    struct psi_run_input in[] = {variable_of(&OWN), variable_of(&OTHER)};
    static const uint16_t first[] = {0, 1}, second[] = {2, 0}, third[] = {3, 1};
    struct psi_run_row rows[] = {
        {.op = "add", .name = "sum", .device = "", .inputs = first, .input_count = 2, .output_count = 1},
        {.op = "mul", .name = "product", .device = "", .inputs = second, .input_count = 2, .output_count = 1},
        {.op = "sub", .name = "rest", .device = "", .inputs = third, .input_count = 2, .output_count = 1}};
    struct psi_run_output out[] = {answer_of(4), answer_of(3), answer_of(1)};
    const struct psi_run run = {
        .container = "", .inputs = in, .input_count = 2, .rows = rows, .row_count = 3, .outputs = out, .output_count = 3};
    struct fake_exec *f = fake_exec_new(0);
    begin(f, &run);
    end_move(f, 0, PS_OK, PS_NOTHING_APPLIED, &THREE);
    end_move(f, 1, PS_OK, PS_NOTHING_APPLIED, &TWO);
    enter(f);
    assert_over(f, PS_OK, "");
    assert_true(result_of(f, 0) == 13 && result_of(f, 1) == 15 && result_of(f, 2) == 2); /* (3 + 2) 3 - 2 */
}
