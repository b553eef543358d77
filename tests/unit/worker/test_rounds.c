/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/core/rounds.c, and what ready.c, push.c and window.c do for rounds.
 */
#include "fake_test.h"
#include "worker/core/client.h"

#include <stdlib.h>

#define SPEC "ps=a:1,b:2;worker=c:1,c:2,c:3"
enum { SMALL = 16, FRAME = PS_VALUES_FRAME_BYTES / 4 };

struct team {
    struct fake f;
    struct psi_var *w, *step; /* at tasks 0 and 1 */
    struct psi_sync sync;
    struct psi_stepped stepped;
};

static struct psi_var *get_step(struct fake *f)
{
    const ps_variable_spec spec = {.struct_bytes = sizeof(spec), .name = "global_step", .dtype = PS_I64};
    return fake_get_spec(f, 1, &spec, 8, 2);
}

static struct team *team_new(uint32_t worker, ps_sync_mode mode, int64_t elements)
{
    struct team *t = test_alloc(sizeof(*t));
    fake_init(&t->f, SPEC, "worker", worker, false);
    test_later(fake_end, &t->f);
    t->w = fake_get(&t->f, 0, "w", elements, 9, 1);
    t->step = get_step(&t->f);
    t->sync = (struct psi_sync){.mode = mode, .step = t->step};
    return t;
}

/* The owners say what they have. */
static void statuses(struct team *t, bool sealed, ps_sync_mode rounds)
{
    t->w->rounds = rounds;
    t->w->initialised = t->w->sealed = t->step->initialised = t->step->sealed = sealed;
    fake_open(&t->f, 0, 9, 77, 1, t->w);
    fake_open(&t->f, 1, 8, 77, 2, t->step);
}

static void ok(struct team *t, uint32_t task, uint8_t op, bool seq)
{
    fake_reply(&t->f, task, op, fake_take(&t->f, task, op)->h.id, seq, &(struct fake_answer){0});
}

static void number(struct team *t)
{
    const ps_v1_ChiefAnswer m = {.number = 7};
    fake_reply_item(&t->f, 0, PS_OP_CHIEF, fake_take(&t->f, 0, PS_OP_CHIEF)->h.id, &ps_v1_ChiefAnswer_msg, &m);
}

/* The chief's way to SYNC, behind its number; looks: behind a fence first, because nothing is sealed. */
static void to_sync(struct team *t, bool looks)
{
    for (uint32_t task = 0; looks && task < 2; task++) {
        ok(t, task, PS_OP_SEAL, false);
    }
    if (looks) {
        statuses(t, false, PS_SYNC_NONE);
    }
    ok(t, 0, PS_OP_INIT, true);
    ok(t, 1, PS_OP_INIT, true);
}

static void join_answer(struct team *t, uint64_t member, uint64_t round, uint64_t steps)
{
    const ps_v1_JoinAnswer m = {.member = member, .round = round, .step = round - 1, .steps = steps, .training = 77};
    fake_reply_item(&t->f, 0, PS_OP_JOIN, fake_take(&t->f, 0, PS_OP_JOIN)->h.id, &ps_v1_JoinAnswer_msg, &m);
}

/* A directory of before limits on norms names none. */
TEST(test_limit_unknown)
{
    struct team *t = team_new(1, PS_SYNC_ROUNDS, SMALL);
    t->sync.max_norm = 2;
    const struct fake_request *ready = fake_begin(&t->f, PSI_REQ_READY, NULL, &t->sync, NULL, 60000);
    statuses(t, true, PS_SYNC_ROUNDS);
    assert_done(ready, PS_OK);
    const struct fake_request *join = fake_begin(&t->f, PSI_REQ_JOIN, NULL, NULL, NULL, 60000);
    join_answer(t, 55, 1, 0);
    assert_done(join, PS_UNIMPLEMENTED);
    assert_int_equal(psi_client_member(t->f.c)->mode, PS_SYNC_NONE);
}

/* A worker that is ready and a member. */
static struct team *member_new(ps_sync_mode mode, int64_t elements, uint64_t round, uint64_t steps)
{
    struct team *t = team_new(1, mode, elements);
    const struct fake_request *ready = fake_begin(&t->f, PSI_REQ_READY, NULL, &t->sync, NULL, 60000);
    statuses(t, true, mode);
    assert_done(ready, PS_OK);
    const struct fake_request *join = fake_begin(&t->f, PSI_REQ_JOIN, NULL, NULL, NULL, 60000);
    join_answer(t, 55, round, steps);
    assert_done(join, PS_OK);
    assert_int_equal(psi_client_member(t->f.c)->training, 77);
    return t;
}

static struct fake_request *step_begin(struct team *t)
{
    return fake_begin(&t->f, PSI_REQ_STEP, NULL, NULL, &t->stepped, 60000);
}

static ps_v1_Step step_meta(const struct fake_frame *frame)
{
    ps_v1_Step m;
    assert_int_equal(psi_msg_decode(&ps_v1_Step_msg, &m, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    return m;
}

static void step_answer(struct team *t, uint64_t id, struct ps_step_result result)
{
    const struct fake_answer a = {.result = &result, .result_bytes = sizeof(result)};
    fake_reply(&t->f, 0, PS_OP_STEP, id, false, &a);
}

static struct ps_contribute_meta contribution(const struct fake_frame *frame)
{
    struct ps_contribute_meta m;
    assert_int_equal(frame->h.meta_bytes, sizeof(m));
    memcpy(&m, frame->meta, sizeof(m));
    return m;
}

static void contributed(struct team *t, uint64_t number, uint64_t dropped)
{
    const struct fake_answer a = {.result = &dropped, .result_bytes = sizeof(dropped)};
    fake_reply(&t->f, 0, PS_OP_CONTRIBUTE, number, true, &a);
}

static float *gradient(uint64_t n)
{
    float *p = test_alloc(n * sizeof(float));
    for (uint64_t i = 0; i < n; i++) {
        p[i] = (float)i;
    }
    return p;
}

static void add(struct psi_buf *body, const pb_msgdesc_t *d, const void *m)
{
    assert_int_equal(psi_list_append(body, d, m, NULL), PS_OK);
}

/* ---- ready ---- */

static void expect_name(const uint8_t **p, size_t *n, const char *name)
{
    ps_v1_NameItem item = ps_v1_NameItem_init_zero;
    bool end = false;
    char got[PS_NAME_BYTES_MAX + 1] = "";
    assert_int_equal(psi_list_next(p, n, &ps_v1_NameItem_msg, &item, &end, NULL), PS_OK);
    assert_true(end == (name == NULL));
    if (name != NULL) {
        assert_int_equal(PSI_BYTES_TEXT(item.name, got, sizeof(got)), PS_OK);
        assert_string_equal(got, name);
    }
}

/* All INITs, then SYNC with the step first and what is trained, then the SEALs. */
TEST(test_chief)
{
    struct team *t = team_new(0, PS_SYNC_ROUNDS, SMALL);
    t->sync.replicas = 2;
    t->sync.on_loss = PS_LOSS_SHRINK;
    t->sync.training = 77;
    const struct fake_request *ready = fake_begin(&t->f, PSI_REQ_READY, NULL, &t->sync, NULL, 60000);
    statuses(t, false, PS_SYNC_NONE);
    number(t);
    to_sync(t, true);
    struct fake_frame *sync = fake_take(&t->f, 0, PS_OP_SYNC);
    ps_v1_Sync m;
    assert_int_equal(psi_msg_decode(&ps_v1_Sync_msg, &m, sync->meta, sync->h.meta_bytes, NULL), PS_OK);
    assert_true(m.chief_number == 7 && m.timeout_ms > 50000 && m.timeout_ms < 60000);
    assert_true(m.options.mode == 1 && m.options.workers == 3 && m.options.replicas == 2 && m.options.on_loss == 1);
    assert_int_equal(m.training, 77);
    const uint8_t *p = sync->payload;
    size_t n = sync->bytes;
    expect_name(&p, &n, "global_step");
    expect_name(&p, &n, "w");
    expect_name(&p, &n, NULL);
    assert_null(fake_next(&t->f, 1)); /* no SEAL before its answer */
    fake_reply(&t->f, 0, PS_OP_SYNC, sync->h.id, false, &(struct fake_answer){0});
    ok(t, 0, PS_OP_SEAL, false);
    ok(t, 1, PS_OP_SEAL, false);
    assert_done(ready, PS_OK);
    assert_true(t->w->rounds == PS_SYNC_ROUNDS && t->step->rounds == PS_SYNC_NONE);
}

/* What the directory refuses is READY's error; what it cannot do yet is tried again from the start. */
TEST(test_sync_refused)
{
    struct team *t = team_new(0, PS_SYNC_ROUNDS, SMALL);
    const struct fake_request *ready = fake_begin(&t->f, PSI_REQ_READY, NULL, &t->sync, NULL, 60000);
    statuses(t, false, PS_SYNC_NONE);
    number(t);
    to_sync(t, true);
    const struct fake_answer later = {.status = PS_UNAVAILABLE, .text = "a ps is away"};
    fake_reply(&t->f, 0, PS_OP_SYNC, fake_take(&t->f, 0, PS_OP_SYNC)->h.id, false, &later);
    fake_wait(&t->f, 200);
    to_sync(t, true);
    const struct fake_answer never = {.status = PS_FAILED_PRECONDITION, .reason = PS_REASON_IN_ROUNDS, .text = "worker 1 lives"};
    fake_reply(&t->f, 0, PS_OP_SYNC, fake_take(&t->f, 0, PS_OP_SYNC)->h.id, false, &never);
    assert_done(ready, PS_FAILED_PRECONDITION);
    assert_int_equal(ready->err.reason, PS_REASON_IN_ROUNDS);
    assert_non_null(strstr(ready->err.text, "worker 1 lives"));
    assert_null(fake_next(&t->f, 0)); /* no SEAL */
}

TEST(test_sync_finds_a_name_gone) /* a ps came back empty between CREATE and SYNC: READY begins again, six times at most */
{
    struct team *t = team_new(0, PS_SYNC_ROUNDS, SMALL);
    const struct fake_request *r = fake_begin(&t->f, PSI_REQ_READY, NULL, &t->sync, NULL, 60000);
    statuses(t, false, PS_SYNC_NONE);
    number(t);
    for (int i = 0; i < 6; i++) {
        to_sync(t, true);
        fake_reply(&t->f, 0, PS_OP_SYNC, fake_take(&t->f, 0, PS_OP_SYNC)->h.id, false,
                   &(struct fake_answer){.status = PS_NOT_FOUND});
    }
    assert_done(r, PS_NOT_FOUND);
}

/* A chief on its own ends the rounds that it finds; without any there is no SYNC. */
TEST(test_chief_without_rounds)
{
    struct team *t = team_new(0, PS_SYNC_NONE, SMALL);
    const struct fake_request *ready = fake_begin(&t->f, PSI_REQ_READY, NULL, &t->sync, NULL, 60000);
    statuses(t, true, PS_SYNC_ROUNDS);
    number(t);
    to_sync(t, false);
    struct fake_frame *sync = fake_take(&t->f, 0, PS_OP_SYNC);
    ps_v1_Sync m;
    assert_int_equal(psi_msg_decode(&ps_v1_Sync_msg, &m, sync->meta, sync->h.meta_bytes, NULL), PS_OK);
    assert_true(m.options.mode == 0 && m.options.workers == 0);
    fake_reply(&t->f, 0, PS_OP_SYNC, sync->h.id, false, &(struct fake_answer){0});
    ok(t, 0, PS_OP_SEAL, false);
    ok(t, 1, PS_OP_SEAL, false);
    assert_done(ready, PS_OK);
    assert_int_equal(t->w->rounds, PS_SYNC_NONE);
    const struct fake_request *again = fake_begin(&t->f, PSI_REQ_READY, NULL, NULL, NULL, 60000);
    statuses(t, true, PS_SYNC_NONE);
    number(t);
    to_sync(t, false);
    ok(t, 0, PS_OP_SEAL, false);
    ok(t, 1, PS_OP_SEAL, false);
    assert_done(again, PS_OK);
}

/* The directory's answer to a beat: who is chief, and under which number it has made the model ready. */
static void beat(struct team *t, uint64_t number, uint64_t ready)
{
    const ps_v1_BeatAnswer m = {
        .flags = 2u | (number != 0), .chief_number = number, .chief_left_ms = number != 0 ? 9000 : 0, .chief_ready = ready};
    fake_reply_item(&t->f, 0, PS_OP_BEAT, 1, &ps_v1_BeatAnswer_msg, &m);
    fake_wait(&t->f, 300);
}

/* What the last beat to the directory says; no frame but beats has come since. */
static ps_v1_Beat last_beat(struct team *t)
{
    const struct fake_task *to = &t->f.task[0];
    const struct fake_frame *last = &to->frames[(to->first + to->count - 1) % FAKE_FRAMES];
    ps_v1_Beat m;
    assert_true(to->count > 0 && last->h.op == PS_OP_BEAT);
    assert_int_equal(psi_msg_decode(&ps_v1_Beat_msg, &m, last->meta, last->h.meta_bytes, NULL), PS_OK);
    return m;
}

/* The chief, which asks for no rounds, makes the model ready, and its beats say so. */
static void made_ready(struct team *t, const struct fake_request *ready)
{
    statuses(t, true, PS_SYNC_NONE);
    number(t);
    to_sync(t, false);
    ok(t, 0, PS_OP_SEAL, false);
    ok(t, 1, PS_OP_SEAL, false);
    assert_done(ready, PS_OK);
    assert_int_equal(last_beat(t).ready, 7);
}

/* The chief says at once that the model is ready, and under which number; not before. */
TEST(test_the_chief_says_ready)
{
    struct team *t = team_new(0, PS_SYNC_NONE, SMALL);
    const struct fake_request *ready = fake_begin(&t->f, PSI_REQ_READY, NULL, &t->sync, NULL, 60000);
    fake_wait(&t->f, PS_BEAT_MS + 50);
    assert_int_equal(last_beat(t).ready, 0);
    assert_int_equal(last_beat(t).container.size, strlen(PSI_CONTAINER_DEFAULT));
    made_ready(t, ready);
    (void)fake_begin(&t->f, PSI_REQ_READY, NULL, &t->sync, NULL, 60000);
    statuses(t, true, PS_SYNC_NONE);
    fake_wait(&t->f, PS_BEAT_MS + 50);
    (void)fake_take(&t->f, 0, PS_OP_CHIEF);
    assert_int_equal(last_beat(t).ready, 0); /* it asks for another number */
}

/* A ps task has lost the model: the chief's word was of the one before. Who comes then would take what a checkpoint has brought
 * back, which is in no rounds, for what this chief asks for. */
TEST(test_the_chief_says_ready_no_more)
{
    struct team *t = team_new(0, PS_SYNC_NONE, SMALL);
    const struct fake_request *ready = fake_begin(&t->f, PSI_REQ_READY, NULL, &t->sync, NULL, 60000);
    made_ready(t, ready);
    fake_cut(&t->f, 1);
    fake_wait(&t->f, 100);
    fake_hello(&t->f, 1, 555, 556, NULL, NULL);
    fake_open(&t->f, 1, 8, 78, 2, t->step);
    fake_wait(&t->f, PS_BEAT_MS + 50);
    assert_int_equal(last_beat(t).ready, 0);
}

/* What an earlier training has left is nobody's word: it waits for the chief, who comes later and asks for the same. */
TEST(test_waits_for_its_chief)
{
    for (int async = 0; async <= 1; async++) {
        ps_sync_mode ours = async ? PS_SYNC_NONE : PS_SYNC_ROUNDS, theirs = async ? PS_SYNC_ROUNDS : PS_SYNC_NONE;
        struct team *t = team_new(1, ours, SMALL);
        const struct fake_request *ready = fake_begin(&t->f, PSI_REQ_READY, NULL, &t->sync, NULL, 60000);
        statuses(t, true, theirs);
        assert_null(fake_next(&t->f, 1));
        beat(t, 0, 0); /* nobody is chief */
        beat(t, 6, 0); /* somebody is, and has not said anything */
        statuses(t, true, theirs);
        beat(t, 6, 0);
        assert_null(fake_next(&t->f, 1));
        assert_int_equal(ready->dones, 0);
        beat(t, 6, 6);
        statuses(t, true, ours);
        assert_done(ready, PS_OK);
    }
}

/* The chief that had spoken is gone before the status is here: what it asked for is of no use. */
TEST(test_the_chief_changes_meanwhile)
{
    struct team *t = team_new(1, PS_SYNC_ROUNDS, SMALL);
    const struct fake_request *ready = fake_begin(&t->f, PSI_REQ_READY, NULL, &t->sync, NULL, 60000);
    statuses(t, true, PS_SYNC_NONE);
    beat(t, 6, 6);
    beat(t, 7, 0);
    statuses(t, true, PS_SYNC_NONE);
    fake_wait(&t->f, 100);
    statuses(t, true, PS_SYNC_NONE);
    assert_int_equal(ready->dones, 0);
    beat(t, 7, 7);
    statuses(t, true, PS_SYNC_ROUNDS);
    assert_done(ready, PS_OK);
}

/* The chief's word was of what a task had that has begun anew before the status was here: it is waited for again. */
TEST(test_a_ps_begins_anew_meanwhile)
{
    struct team *t = team_new(1, PS_SYNC_ROUNDS, SMALL);
    const struct fake_request *ready = fake_begin(&t->f, PSI_REQ_READY, NULL, &t->sync, NULL, 60000);
    statuses(t, true, PS_SYNC_NONE);
    beat(t, 6, 6);
    fake_cut(&t->f, 1);
    fake_wait(&t->f, 100);
    fake_hello(&t->f, 1, 555, 556, NULL, NULL);
    fake_open(&t->f, 1, 8, 77, 2, t->step); /* its handle */
    statuses(t, true, PS_SYNC_NONE);
    assert_int_equal(ready->dones, 0);
    beat(t, 7, 7);
    statuses(t, true, PS_SYNC_ROUNDS);
    assert_done(ready, PS_OK);
}

/* It has come, made the model ready and gone between two beats. */
TEST(test_a_chief_that_is_gone_again)
{
    struct team *t = team_new(1, PS_SYNC_NONE, SMALL);
    const struct fake_request *ready = fake_begin(&t->f, PSI_REQ_READY, NULL, &t->sync, NULL, 60000);
    statuses(t, true, PS_SYNC_ROUNDS);
    ps_v1_BeatAnswer m = {.flags = 2, .chief_number = 6}; /* of the training before */
    fake_reply_item(&t->f, 0, PS_OP_BEAT, 1, &ps_v1_BeatAnswer_msg, &m);
    fake_wait(&t->f, 300);
    statuses(t, true, PS_SYNC_ROUNDS);
    assert_int_equal(ready->dones, 0);
    m.chief_number = 7;
    fake_reply_item(&t->f, 0, PS_OP_BEAT, 1, &ps_v1_BeatAnswer_msg, &m);
    fake_wait(&t->f, 300);
    statuses(t, true, PS_SYNC_NONE);
    assert_done(ready, PS_OK);
}

TEST(test_no_chief_comes)
{
    struct team *t = team_new(1, PS_SYNC_ROUNDS, SMALL);
    const struct fake_request *ready = fake_begin(&t->f, PSI_REQ_READY, NULL, &t->sync, NULL, 6000);
    statuses(t, true, PS_SYNC_NONE);
    beat(t, 0, 0);
    fake_wait(&t->f, 5000);
    assert_string_equal(t->f.last_event, "waiting");
    fake_wait(&t->f, 1000);
    assert_done(ready, PS_DEADLINE_EXCEEDED);
    assert_int_equal(ready->err.reason, PS_REASON_NO_CHIEF);
    assert_non_null(strstr(ready->err.text,
                           "waiting for a chief that asks for rounds (--sync): 'w' is in no rounds since an earlier "
                           "training; no chief is connected"));
}

static void other_side(ps_sync_mode ours, ps_sync_mode theirs, const char *text)
{
    struct team *t = team_new(1, ours, SMALL);
    const struct fake_request *ready = fake_begin(&t->f, PSI_REQ_READY, NULL, &t->sync, NULL, 60000);
    statuses(t, true, theirs);
    assert_int_equal(ready->dones, 0);
    beat(t, 6, 6);
    statuses(t, true, theirs); /* the chief is there, and so it is */
    assert_done(ready, PS_FAILED_PRECONDITION);
    assert_true((ready->err.reason == PS_REASON_IN_ROUNDS) == (theirs == PS_SYNC_ROUNDS));
    assert_true((ready->err.reason == PS_REASON_NO_ROUNDS) == (theirs == PS_SYNC_NONE));
    assert_non_null(strstr(ready->err.text, "'w' at /job:ps/task:0"));
    assert_non_null(strstr(ready->err.text, text));
}

TEST(test_both_sides_must_agree)
{
    other_side(PS_SYNC_NONE, PS_SYNC_ROUNDS, "the chief has asked for rounds");
    other_side(PS_SYNC_ROUNDS, PS_SYNC_NONE, "this program asks for rounds");
    other_side(PS_SYNC_STALENESS, PS_SYNC_ROUNDS, "this program asks for bounded staleness");
}

TEST(test_evaluator_looks_on)
{
    struct fake *f = fake_new("ps=a:1;worker=c:1", "evaluator", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", SMALL, 9, 1);
    const struct fake_request *ready = fake_begin(f, PSI_REQ_READY, NULL, NULL, NULL, 60000);
    w->rounds = PS_SYNC_ROUNDS;
    w->initialised = w->sealed = true;
    fake_open(f, 0, 9, 77, 1, w);
    assert_done(ready, PS_OK);
}

TEST(test_one_container)
{
    struct team *t = team_new(0, PS_SYNC_ROUNDS, SMALL);
    const struct fake_request *ready = fake_begin(&t->f, PSI_REQ_READY, NULL, &t->sync, NULL, 60000);
    snprintf(t->step->container, sizeof(t->step->container), "elsewhere");
    statuses(t, false, PS_SYNC_NONE);
    assert_done(ready, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ready->err.text, "'w' is in container 'localhost' and the global step in 'elsewhere'"));
}

/* ---- members ---- */

TEST(test_join)
{
    struct team *t = team_new(1, PS_SYNC_ROUNDS, SMALL);
    t->sync.workers = 5;
    t->sync.training = 78; /* of an earlier session of this process */
    const struct fake_request *ready = fake_begin(&t->f, PSI_REQ_READY, NULL, &t->sync, NULL, 60000);
    statuses(t, true, PS_SYNC_ROUNDS);
    assert_done(ready, PS_OK);
    const struct fake_request *join = fake_begin(&t->f, PSI_REQ_JOIN, NULL, NULL, NULL, 60000);
    struct fake_frame *frame = fake_take(&t->f, 0, PS_OP_JOIN);
    ps_v1_Join m;
    assert_int_equal(psi_msg_decode(&ps_v1_Join_msg, &m, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    assert_true(m.options.mode == 1 && m.options.workers == 5 && m.timeout_ms > 50000 && m.training == 78);
    const uint64_t id = frame->h.id;
    fake_cut(&t->f, 0);
    fake_hello(&t->f, 0, 100, 200, NULL, NULL);
    assert_true(fake_take(&t->f, 0, PS_OP_JOIN)->h.id == id); /* the same request */
    fake_cut(&t->f, 0);
    fake_hello(&t->f, 0, 300, 301, NULL, NULL); /* another life: asked again, not outcome unknown */
    fake_open(&t->f, 0, 9, 77, 1, t->w);
    join_answer(t, 55, 3, 0);
    assert_done(join, PS_OK);
    const struct psi_member *member = psi_client_member(t->f.c);
    assert_true(member->mode == PS_SYNC_ROUNDS && member->id == 55 && member->round == 3 && member->dropped == 0);
}

TEST(test_nobody_steps_before_it_has_joined)
{
    struct team *t = team_new(1, PS_SYNC_ROUNDS, SMALL);
    assert_done(step_begin(t), PS_FAILED_PRECONDITION);
    assert_done(fake_begin(&t->f, PSI_REQ_LEAVE, NULL, NULL, NULL, 1000), PS_FAILED_PRECONDITION);
    assert_done(fake_begin(&t->f, PSI_REQ_JOIN, NULL, NULL, NULL, 1000), PS_FAILED_PRECONDITION);
}

/* A push contributes to the member's round, STEP says the next one. */
TEST(test_round)
{
    struct team *t = member_new(PS_SYNC_ROUNDS, SMALL, 3, 0);
    const float *grad = gradient(SMALL);
    const struct fake_request *push = fake_begin(&t->f, PSI_REQ_PUSH, t->w, grad, NULL, 60000);
    struct fake_frame *frame = fake_take(&t->f, 0, PS_OP_CONTRIBUTE);
    assert_int_equal(frame->h.flags, PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST);
    struct ps_contribute_meta m = contribution(frame);
    assert_true(m.total_elements == SMALL && m.scale == 1.0f && m.member == 55 && m.round == 3 && m.reserved == 0);
    assert_memory_equal(frame->payload, grad, SMALL * 4);
    contributed(t, frame->h.id, 0);
    assert_done(push, PS_OK);
    const struct fake_request *step = step_begin(t);
    frame = fake_take(&t->f, 0, PS_OP_STEP);
    ps_v1_Step s = step_meta(frame);
    assert_true(s.member == 55 && s.round == 3 && s.steps == 0 && s.timeout_ms > 50000 && s.open_timeout_ms == 0);
    step_answer(t, frame->h.id, (struct ps_step_result){.round = 4, .step = 103, .taken = 1});
    assert_done(step, PS_OK);
    assert_true(t->stepped.step == 103 && t->stepped.taken && !t->stepped.lost);
    assert_true(psi_client_member(t->f.c)->round == 4 && psi_client_member(t->f.c)->dropped == 0);
    assert_true((int64_t)t->f.c->step - 1 == 103);
    (void)fake_begin(&t->f, PSI_REQ_PUSH, t->w, grad, NULL, 60000);
    frame = fake_take(&t->f, 0, PS_OP_CONTRIBUTE);
    assert_true(contribution(frame).round == 4);
    contributed(t, frame->h.id, 0);
    const float *other = gradient(SMALL);
    (void)fake_begin(&t->f, PSI_REQ_ASSIGN, t->w, other, NULL, 60000); /* what is no gradient goes as ever */
    ok(t, 0, PS_OP_ASSIGN, true);
}

/* A gradient that waits is of the round whose values it was computed from. */
TEST(test_a_late_push_stays_in_its_round)
{
    struct team *t = member_new(PS_SYNC_ROUNDS, SMALL, 3, 0);
    const float *grad = gradient(SMALL);
    const struct fake_request *push = fake_begin(&t->f, PSI_REQ_PUSH, t->w, grad, NULL, 60000);
    const struct fake_answer later = {.status = PS_UNAVAILABLE, .text = "not now"};
    fake_reply(&t->f, 0, PS_OP_CONTRIBUTE, fake_take(&t->f, 0, PS_OP_CONTRIBUTE)->h.id, true, &later);
    (void)step_begin(t);
    step_answer(t, fake_take(&t->f, 0, PS_OP_STEP)->h.id, (struct ps_step_result){.round = 5, .step = 4});
    fake_wait(&t->f, 2000);
    struct fake_frame *frame = fake_take(&t->f, 0, PS_OP_CONTRIBUTE);
    assert_true(contribution(frame).round == 3);
    contributed(t, frame->h.id, 1);
    assert_done(push, PS_OK);
    uint64_t dropped = 0;
    memcpy(&dropped, push->req.result, sizeof(dropped));
    assert_true(dropped == 1 && psi_client_member(t->f.c)->dropped == 1); /* once: by the STEP */
}

/* The end of the round is the end of a contribution that is half there. */
TEST(test_dropped_halfway)
{
    struct team *t = member_new(PS_SYNC_ROUNDS, 3 * FRAME, 3, 0);
    const float *grad = gradient(3 * FRAME);
    t->f.task[0].stopped = true;
    t->f.task[0].take = PS_VALUES_FRAME_BYTES + 1000;
    const struct fake_request *push = fake_begin(&t->f, PSI_REQ_PUSH, t->w, grad, NULL, 60000);
    contributed(t, 1, 1);
    fake_flow(&t->f, 0);
    assert_done(push, PS_OK);
    struct fake_frame *frame = NULL;
    uint32_t frames = 0;
    while ((frame = fake_next(&t->f, 0)) != NULL) {
        assert_int_equal(frame->h.op, PS_OP_CONTRIBUTE);
        frames++;
    }
    assert_true(frames < 3); /* what was not on its way stays here */
    t->f.task[0].stopped = true;
    t->f.task[0].take = PS_VALUES_FRAME_BYTES + 1000;
    (void)fake_begin(&t->f, PSI_REQ_PUSH, t->w, grad, NULL, 60000);
    assert_true(contribution(fake_take(&t->f, 0, PS_OP_CONTRIBUTE)).total_elements == 3 * FRAME);
    contributed(t, 2, 0); /* taken in before it is there: nonsense, the connection goes */
    assert_int_equal(t->f.task[0].closes, 1);
}

/* Rounds that have ended meanwhile: the STEP says why, not the push. */
TEST(test_rounds_that_have_ended)
{
    struct team *t = member_new(PS_SYNC_ROUNDS, SMALL, 3, 0);
    const struct fake_request *push = fake_begin(&t->f, PSI_REQ_PUSH, t->w, gradient(SMALL), NULL, 60000);
    const struct fake_answer ended = {.status = PS_FAILED_PRECONDITION, .reason = PS_REASON_LOST, .text = "not in rounds"};
    fake_reply(&t->f, 0, PS_OP_CONTRIBUTE, fake_take(&t->f, 0, PS_OP_CONTRIBUTE)->h.id, true, &ended);
    assert_done(push, PS_OK);
    uint64_t dropped = 0;
    memcpy(&dropped, push->req.result, sizeof(dropped));
    assert_true(dropped == 1 && t->w->open);
    const struct fake_answer twice = {.status = PS_FAILED_PRECONDITION, .text = "the second one"};
    push = fake_begin(&t->f, PSI_REQ_PUSH, t->w, gradient(SMALL), NULL, 60000);
    fake_reply(&t->f, 0, PS_OP_CONTRIBUTE, fake_take(&t->f, 0, PS_OP_CONTRIBUTE)->h.id, true, &twice);
    assert_done(push, PS_FAILED_PRECONDITION);
    const struct fake_request *step = step_begin(t);
    const struct fake_answer why = {.status = PS_ABORTED, .text = "/job:worker/task:2 was lost"};
    fake_reply(&t->f, 0, PS_OP_STEP, fake_take(&t->f, 0, PS_OP_STEP)->h.id, false, &why);
    assert_done(step, PS_ABORTED);
}

/* READY of a member learns that the rounds have ended, and is given up: no push of the member is applied alone. */
TEST(test_ready_is_given_up_when_rounds_have_ended)
{
    struct team *t = member_new(PS_SYNC_ROUNDS, SMALL, 3, 0);
    const struct fake_request *ready = fake_begin(&t->f, PSI_REQ_READY, NULL, &t->sync, NULL, 3000);
    statuses(t, true, PS_SYNC_NONE);
    fake_wait(&t->f, 4000);
    assert_done(ready, PS_DEADLINE_EXCEEDED);
    PSI_IGNORE(fake_begin(&t->f, PSI_REQ_PUSH, t->w, gradient(SMALL), NULL, 60000)); /* its frame counts */
    assert_true(contribution(fake_take(&t->f, 0, PS_OP_CONTRIBUTE)).round == 3);
}

/* It goes on where the owner has it, and a deadline in its middle leaves nothing of it. */
TEST(test_resumed_and_given_up)
{
    struct team *t = member_new(PS_SYNC_ROUNDS, 2 * FRAME, 3, 0);
    const struct fake_request *push = fake_begin(&t->f, PSI_REQ_PUSH, t->w, gradient(2 * FRAME), NULL, 5000);
    assert_true(contribution(fake_take(&t->f, 0, PS_OP_CONTRIBUTE)).round == 3);
    fake_cut(&t->f, 0);
    const struct fake_number half[] = {{.number = 1, .state = PS_NUMBER_IN_PROGRESS, .offset = FRAME}, {0}};
    t->f.task[0].stopped = true;
    t->f.task[0].take = 4096; /* HELLO, and a little of the rest */
    fake_hello(&t->f, 0, 100, 200, half, NULL);
    fake_wait(&t->f, 6000);
    assert_done(push, PS_DEADLINE_EXCEEDED);
    assert_int_equal(push->err.applied, PS_NOTHING_APPLIED);
}

/* ---- steps ---- */

TEST(test_too_late)
{
    struct team *t = member_new(PS_SYNC_ROUNDS, SMALL, 3, 0);
    const struct fake_request *step = step_begin(t);
    step_answer(t, fake_take(&t->f, 0, PS_OP_STEP)->h.id, (struct ps_step_result){.round = 6, .step = 5});
    assert_done(step, PS_OK);
    assert_true(!t->stepped.taken && !t->stepped.lost && t->stepped.step == 5);
    assert_true(psi_client_member(t->f.c)->dropped == 1 && psi_client_member(t->f.c)->round == 6);
    assert_string_equal(t->f.last_event, "step_dropped");
}

static void lost_place(uint32_t taken)
{
    struct team *t = member_new(PS_SYNC_ROUNDS, SMALL, 3, 0);
    const struct fake_request *step = step_begin(t);
    step_answer(t, fake_take(&t->f, 0, PS_OP_STEP)->h.id, (struct ps_step_result){.flags = PS_STEP_LOST_PLACE, .taken = taken});
    assert_int_equal(step->dones, 0);
    const struct fake_answer later = {.status = PS_UNAVAILABLE, .text = "not all have listed"};
    const struct fake_frame *frame = fake_take(&t->f, 0, PS_OP_JOIN);
    ps_v1_Join m;
    assert_int_equal(psi_msg_decode(&ps_v1_Join_msg, &m, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    assert_int_equal(m.training, 77);
    fake_reply(&t->f, 0, PS_OP_JOIN, frame->h.id, false, &later);
    fake_wait(&t->f, 100); /* it goes on as a JOIN */
    join_answer(t, 66, 9, 0);
    assert_done(step, PS_OK);
    assert_true(t->stepped.taken == (taken != 0) && t->stepped.lost && t->stepped.step == 8);
    const struct psi_member *member = psi_client_member(t->f.c);
    assert_true(member->id == 66 && member->round == 9 && member->dropped == 1 - taken);
    assert_string_equal(t->f.last_event, "place_lost");
}

TEST(test_lost_place)
{
    lost_place(0);
    lost_place(1); /* it was gone only after its contribution had been taken */
}

/* Another life of the directory is told how long the request may still wait, not how long it might at first: so it ends it in
 * time, and says who is missing. */
TEST(test_time_that_has_passed)
{
    struct team *t = member_new(PS_SYNC_ROUNDS, SMALL, 3, 0);
    const struct fake_request *step = step_begin(t);
    const ps_v1_Step first = step_meta(fake_take(&t->f, 0, PS_OP_STEP));
    for (uint32_t passed_ms = 6000; passed_ms <= 12000; passed_ms += 6000) {
        fake_wait(&t->f, 6000);
        fake_cut(&t->f, 0);
        fake_wait(&t->f, 100);
        fake_hello(&t->f, 0, 300 + passed_ms, 301 + passed_ms, NULL, NULL);
        fake_open(&t->f, 0, 9, 77, 1, t->w);
        const ps_v1_Step again = step_meta(fake_take(&t->f, 0, PS_OP_STEP));
        assert_true(again.timeout_ms <= first.timeout_ms - passed_ms && again.timeout_ms > first.timeout_ms - passed_ms - 2000);
        assert_true(again.round == 3 && again.member == first.member && again.open_timeout_ms == first.open_timeout_ms);
    }
    assert_int_equal(step->dones, 0);
}

/* A STEP is sent again after a reconnect, also to another life of the directory. */
TEST(test_step_survives_the_directory)
{
    struct team *t = member_new(PS_SYNC_ROUNDS, SMALL, 3, 0);
    const struct fake_request *step = step_begin(t);
    const uint64_t id = fake_take(&t->f, 0, PS_OP_STEP)->h.id;
    fake_cut(&t->f, 0);
    fake_hello(&t->f, 0, 100, 200, NULL, NULL);
    assert_true(fake_take(&t->f, 0, PS_OP_STEP)->h.id == id);
    fake_cut(&t->f, 0);
    fake_hello(&t->f, 0, 300, 301, NULL, NULL);
    fake_open(&t->f, 0, 9, 77, 1, t->w);
    struct fake_frame *frame = fake_take(&t->f, 0, PS_OP_STEP);
    assert_true(step_meta(frame).round == 3);
    step_answer(t, frame->h.id, (struct ps_step_result){.round = 4, .step = 3, .taken = 1});
    assert_done(step, PS_OK);
    assert_true(t->stepped.taken);
}

TEST(test_step_errors)
{
    struct team *t = member_new(PS_SYNC_ROUNDS, SMALL, 3, 0);
    const struct fake_request *step = step_begin(t);
    const struct fake_answer late = {.status = PS_DEADLINE_EXCEEDED, .text = "/job:worker/task:2 is missing for 50 s"};
    fake_reply(&t->f, 0, PS_OP_STEP, fake_take(&t->f, 0, PS_OP_STEP)->h.id, false, &late);
    assert_done(step, PS_DEADLINE_EXCEEDED);
    assert_string_equal(step->err.text, "step: /job:worker/task:2 is missing for 50 s");
    step = step_begin(t);
    step_answer(t, fake_take(&t->f, 0, PS_OP_STEP)->h.id, (struct ps_step_result){.round = 3, .step = 2}); /* not the next one */
    assert_done(step, PS_INTERNAL);
    step = step_begin(t);
    fake_reply(&t->f, 0, PS_OP_STEP, fake_take(&t->f, 0, PS_OP_STEP)->h.id, false, &(struct fake_answer){0});
    assert_done(step, PS_INTERNAL);
    assert_true(psi_client_member(t->f.c)->round == 3 && psi_client_member(t->f.c)->dropped == 0);
}

/* The first step may wait for workers that are yet to start; when all are there it is given what a request has. */
TEST(test_first_step)
{
    struct team *t = member_new(PS_SYNC_ROUNDS, SMALL, 1, 0);
    (void)fake_begin(&t->f, PSI_REQ_STEP, NULL, NULL, &t->stepped, 600000);
    ps_v1_Step s = step_meta(fake_take(&t->f, 0, PS_OP_STEP));
    assert_true(s.timeout_ms > 590000 && s.open_timeout_ms > PS_OPERATION_TIMEOUT_MS - 1000 &&
                s.open_timeout_ms < PS_OPERATION_TIMEOUT_MS);
}

/* After 5 s it asks who is missing, and says so. */
TEST(test_slow_step)
{
    struct team *t = member_new(PS_SYNC_ROUNDS, SMALL, 3, 0);
    struct psi_buf body;
    ps_v1_RoundAnswer r = ps_v1_RoundAnswer_init_zero;
    ps_v1_MemberAnswer m = ps_v1_MemberAnswer_init_zero;
    (void)step_begin(t);
    const uint64_t id = fake_take(&t->f, 0, PS_OP_STEP)->h.id;
    fake_wait(&t->f, 5100);
    psi_buf_init(&body, 16384);
    PSI_BYTES_SET(r.container, "elsewhere");
    PSI_BYTES_SET(r.text, "somebody else");
    r.member_count = 1;
    add(&body, &ps_v1_RoundAnswer_msg, &r);
    m.state = 1;
    add(&body, &ps_v1_MemberAnswer_msg, &m);
    PSI_BYTES_SET(r.container, PSI_CONTAINER_DEFAULT);
    PSI_BYTES_SET(r.text, "/job:worker/task:2 (lost for 3.0 s)");
    r.member_count = 0;
    add(&body, &ps_v1_RoundAnswer_msg, &r);
    fake_reply(&t->f, 0, PS_OP_ROUNDS, fake_take(&t->f, 0, PS_OP_ROUNDS)->h.id, false, &(struct fake_answer){.body = &body});
    assert_string_equal(t->f.last_event, "waiting");
    assert_non_null(strstr(t->f.last_log, "/job:worker/task:2 (lost for 3.0 s)"));
    assert_null(strstr(t->f.last_log, "somebody else"));
    step_answer(t, id, (struct ps_step_result){.round = 4, .step = 3, .taken = 1});
    psi_buf_fini(&body);
}

/* Its beats say how many of its steps were answered, the first one to a directory that was restarted at once. */
TEST(test_beats_of_staleness)
{
    struct team *t = member_new(PS_SYNC_STALENESS, SMALL, 1, 5);
    (void)fake_begin(&t->f, PSI_REQ_PULL, t->w, NULL, gradient(SMALL), 60000);
    fake_wait(&t->f, PS_BEAT_MS + 50);
    (void)fake_take(&t->f, 0, PS_OP_PULL);
    assert_true(last_beat(t).member == 55 && last_beat(t).member_steps == 5);
    fake_cut(&t->f, 0);
    fake_hello(&t->f, 0, 300, 301, NULL, NULL);
    fake_open(&t->f, 0, 9, 77, 1, t->w);
    fake_wait(&t->f, 10);
    const struct fake_task *to = &t->f.task[0];
    ps_v1_Beat m = ps_v1_Beat_init_zero;
    for (uint32_t i = 0; i < to->count; i++) { /* the PULL comes again as well */
        const struct fake_frame *frame = &to->frames[(to->first + i) % FAKE_FRAMES];
        if (frame->h.op == PS_OP_BEAT) {
            assert_int_equal(psi_msg_decode(&ps_v1_Beat_msg, &m, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
        }
    }
    assert_true(m.member == 55 && m.member_steps == 5);
}

TEST(test_staleness)
{
    struct team *t = member_new(PS_SYNC_STALENESS, SMALL, 1, 5);
    const float *grad = gradient(SMALL);
    (void)fake_begin(&t->f, PSI_REQ_PUSH, t->w, grad, NULL, 60000);
    ok(t, 0, PS_OP_PUSH, true); /* as on its own */
    for (uint64_t own = 6; own <= 7; own++) {
        const struct fake_request *step = step_begin(t);
        struct fake_frame *frame = fake_take(&t->f, 0, PS_OP_STEP);
        assert_true(step_meta(frame).steps == own);
        step_answer(t, frame->h.id, (struct ps_step_result){.round = 5});
        assert_done(step, PS_OK);
        assert_true(t->stepped.taken);
    }
    assert_true(psi_client_member(t->f.c)->steps == 7 && psi_client_member(t->f.c)->dropped == 0);
}

TEST(test_leave)
{
    struct team *t = member_new(PS_SYNC_ROUNDS, SMALL, 3, 0);
    struct fake_request *leave = test_alloc(sizeof(*leave));
    leave->req =
        (struct psi_request){.kind = PSI_REQ_LEAVE, .bytes = 1, .deadline_ms = t->f.now + 1000, .done = fake_request_done};
    struct psi_err err = {0};
    assert_int_equal(psi_client_start(t->f.c, &leave->req, &err), PS_OK);
    fake_run(&t->f);
    struct fake_frame *frame = fake_take(&t->f, 0, PS_OP_LEAVE);
    ps_v1_Leave m;
    assert_int_equal(psi_msg_decode(&ps_v1_Leave_msg, &m, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    assert_true(m.member == 55 && m.finished);
    fake_reply(&t->f, 0, PS_OP_LEAVE, frame->h.id, false, &(struct fake_answer){0});
    assert_done(leave, PS_OK);
    assert_int_equal(psi_client_member(t->f.c)->mode, PS_SYNC_NONE);
}
