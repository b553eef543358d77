/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/core/chief.c and what it has in ready.c: who claims the lease of the chief and when, what a READY does with it, a stop
 * where nothing is live, values given as the chief, a successor, a new directory.
 */
#include "test.h"
#include "worker/core/client.h"
#include "fake_test.h"

#define SPEC "ps=a:1,b:2;worker=c:1,c:2"

struct lease {
    struct fake f;
    struct psi_var *v[2]; /* at tasks 0 and 1 */
    struct fake_request ready, give;
    struct psi_readied readied;
};

static struct lease *lease_new(const char *job, uint32_t task)
{
    struct lease *t = test_alloc(sizeof(*t));
    fake_init(&t->f, SPEC, job, task, false);
    test_later(fake_end, &t->f);
    t->f.c->chief_mode = PSI_CHIEF_LEASE;
    t->v[0] = fake_get(&t->f, 0, "a", 4, 9, 1);
    t->v[1] = fake_get(&t->f, 1, "b", 4, 8, 2);
    return t;
}

static void start(struct lease *t, struct fake_request *r, struct psi_request what)
{
    struct psi_err err = {.code = PS_OK};
    memset(r, 0, sizeof(*r));
    r->req = what;
    r->req.done = fake_request_done;
    assert_ok(psi_client_start(t->f.c, &r->req, &err), &err);
    fake_run(&t->f);
}

static void start_ready(struct lease *t, bool stops, uint64_t number, uint32_t timeout_ms)
{
    start(t, &t->ready,
          (struct psi_request){.kind = PSI_REQ_READY,
                               .dst = &t->readied,
                               .bytes = stops,
                               .chief_number = number,
                               .deadline_ms = t->f.now + timeout_ms});
}

/* ASSIGN as chief. */
static void start_giving(struct lease *t, int i, uint64_t number)
{
    static const float values[4] = {1, 2, 3, 4};
    start(t, &t->give,
          (struct psi_request){.kind = PSI_REQ_ASSIGN,
                               .var = t->v[i],
                               .src = values,
                               .bytes = sizeof(values),
                               .chief_number = number,
                               .deadline_ms = t->f.now + 5000});
}

/* ---- the directory, task 0 ---- */

static uint64_t claim_id;

/* The next frame claims the lease. */
static ps_v1_Chief claimed(struct lease *t)
{
    struct fake_frame *frame = fake_take(&t->f, 0, PS_OP_CHIEF);
    ps_v1_Chief m;
    ps_v1_ContainerItem in;
    char container[PS_CONTAINER_BYTES_MAX + 1];
    const uint8_t *p = frame->payload;
    size_t n = frame->bytes;
    bool end = false;
    assert_int_equal(psi_msg_decode(&ps_v1_Chief_msg, &m, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    assert_int_equal(psi_list_next(&p, &n, &ps_v1_ContainerItem_msg, &in, &end, NULL), PS_OK);
    assert_int_equal(PSI_BYTES_TEXT(in.container, container, sizeof(container)), PS_OK);
    assert_string_equal(container, PSI_CONTAINER_DEFAULT);
    assert_true(m.claim);
    claim_id = frame->h.id;
    return m;
}

static void grant(struct lease *t, uint64_t number)
{
    const ps_v1_ChiefAnswer m = {.number = number, .granted = true};
    fake_reply_item(&t->f, 0, PS_OP_CHIEF, claim_id, &ps_v1_ChiefAnswer_msg, &m);
}

static void deny(struct lease *t, uint64_t left_ms, const char *holder)
{
    ps_v1_ChiefAnswer m = {.number = 3, .left_ms = left_ms};
    PSI_BYTES_SET(m.holder, holder);
    fake_reply_item(&t->f, 0, PS_OP_CHIEF, claim_id, &ps_v1_ChiefAnswer_msg, &m);
}

static void refuse_claim(struct lease *t, ps_status st, ps_reason reason, const char *text)
{
    struct fake_answer a = {.status = st, .reason = reason, .text = text};
    fake_reply(&t->f, 0, PS_OP_CHIEF, claim_id, false, &a);
}

/* Answers of both tasks to beats; what the directory's says of the chief. */
static void beat(struct lease *t, uint64_t number, uint64_t left_ms, const char *chief)
{
    ps_v1_BeatAnswer m = {.flags = 2u | (left_ms > 0), .chief_number = number, .chief_left_ms = left_ms};
    PSI_BYTES_SET(m.chief, chief);
    fake_reply_item(&t->f, 0, PS_OP_BEAT, 1, &ps_v1_BeatAnswer_msg, &m);
    fake_reply(&t->f, 1, PS_OP_BEAT, 1, false, &(struct fake_answer){0});
}

/* ---- owners ---- */

static void ok(struct lease *t, uint32_t task, uint8_t op, bool seq)
{
    fake_reply(&t->f, task, op, fake_take(&t->f, task, op)->h.id, seq, &(struct fake_answer){0});
}

/* SEAL with this number, a fence or not; answered with st. */
static void seal(struct lease *t, uint32_t task, uint64_t number, bool fence, ps_status st)
{
    struct fake_frame *frame = fake_take(&t->f, task, PS_OP_SEAL);
    ps_v1_Seal m;
    assert_int_equal(psi_msg_decode(&ps_v1_Seal_msg, &m, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    assert_true(m.chief_number == number);
    assert_int_equal(m.fence, fence);
    const struct fake_answer a = {.status = st,
                                  .reason = st == PS_ABORTED ? PS_REASON_NEWER_CHIEF : PS_REASON_NONE,
                                  .text = st != PS_OK ? "w1 has number 50" : ""};
    fake_reply(&t->f, task, PS_OP_SEAL, frame->h.id, false, &a);
}

/* What an owner says of its variable. */
struct state {
    bool initialised, sealed, restored;
    uint64_t version, provisional, sealed_by, seen;
    const char *giver;
};
static const struct state EMPTY, HAS = {.initialised = true}, SEALED = {.initialised = true, .sealed = true};

static void status(struct lease *t, uint32_t i, struct state s)
{
    struct fake_frame *open = fake_take(&t->f, i, PS_OP_OPEN);
    ps_v1_OpenAnswer a = ps_v1_OpenAnswer_init_zero;
    a.index = 1;
    a.handle = i == 0 ? 9 : 8;
    a.incarnation = 77;
    a.creation = (uint64_t)i + 1;
    a.dtype = PS_F32;
    a.dims_count = 1;
    a.dims[0] = 4;
    a.has_optimizer = true;
    psi_optimizer_to_msg(&t->v[i]->optimizer, &a.optimizer);
    a.initialised = s.initialised;
    a.sealed = s.sealed;
    a.restored = s.restored;
    a.version = s.version;
    a.provisional = s.provisional;
    a.seal_number = s.sealed_by;
    a.container_chief = s.seen;
    if (s.giver != NULL) {
        a.giver.size = sizeof(a.giver.bytes) < 8 ? sizeof(a.giver.bytes) : 8;
        memcpy(a.giver.bytes, s.giver, a.giver.size);
    }
    fake_reply_item(&t->f, i, PS_OP_OPEN, open->h.id, &ps_v1_OpenAnswer_msg, &a);
}

static void statuses(struct lease *t, struct state a, struct state b)
{
    status(t, 0, a);
    status(t, 1, b);
}

static void fence(struct lease *t, uint64_t number)
{
    seal(t, 0, number, true, PS_OK);
    seal(t, 1, number, true, PS_OK);
}

static void init(struct lease *t, uint32_t task, uint64_t number)
{
    struct fake_frame *frame = fake_take(&t->f, task, PS_OP_INIT);
    ps_v1_Init m;
    assert_int_equal(psi_msg_decode(&ps_v1_Init_msg, &m, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    assert_true(m.chief_number == number);
    fake_reply(&t->f, task, PS_OP_INIT, frame->h.id, true, &(struct fake_answer){0});
}

static void init_and_seal(struct lease *t, uint64_t number)
{
    init(t, 0, number);
    init(t, 1, number);
    seal(t, 0, number, false, PS_OK);
    seal(t, 1, number, false, PS_OK);
    assert_done(&t->ready, PS_OK);
    assert_true(t->readied.chief_number == number && !t->readied.nothing);
}

static void assert_quiet(struct lease *t)
{
    assert_null(fake_next(&t->f, 0));
    assert_null(fake_next(&t->f, 1));
}

/* The preferred one is the chief with this number, and its READY is at its look. */
static struct lease *chief_looks(bool stops, uint64_t number)
{
    struct lease *t = lease_new("worker", 0);
    start_ready(t, stops, 0, 60000);
    (void)claimed(t);
    grant(t, number);
    fence(t, number);
    return t;
}

/* ... and is ready. */
static struct lease *chief_ready(uint64_t number)
{
    struct lease *t = chief_looks(false, number);
    statuses(t, EMPTY, EMPTY);
    init_and_seal(t, number);
    return t;
}

/* A worker whose READY waits for the seals. */
static struct lease *worker_waits(void)
{
    struct lease *t = lease_new("worker", 1);
    start_ready(t, false, 0, 60000);
    statuses(t, EMPTY, EMPTY);
    (void)fake_take(&t->f, 0, PS_OP_WAIT);
    (void)fake_take(&t->f, 1, PS_OP_WAIT);
    return t;
}

/* ---- cases ---- */

/* It claims first; no other task hears of a chief before it is one; the fence is ahead of the look. */
TEST(test_preferred)
{
    struct lease *t = lease_new("worker", 0);
    assert_false(psi_client_is_chief(t->f.c));
    start_ready(t, false, 0, 60000);
    const ps_v1_Chief m = claimed(t);
    assert_true(m.preferred && m.number == 0 && !m.renew);
    assert_quiet(t);
    grant(t, 40);
    assert_true(psi_client_is_chief(t->f.c));
    assert_string_equal(t->f.last_event, "chief");
    assert_non_null(strstr(t->f.last_log, "number=40"));
    fence(t, 40);
    statuses(t, EMPTY, EMPTY);
    init_and_seal(t, 40);
}

/* Somebody else has it: the preferred one waits like any other, and says who the chief is. */
TEST(test_preferred_comes_late)
{
    struct lease *t = lease_new("worker", 0);
    start_ready(t, false, 0, 60000);
    (void)claimed(t);
    deny(t, 9000, "worker 1");
    assert_false(psi_client_is_chief(t->f.c));
    statuses(t, EMPTY, HAS);
    fake_wait(&t->f, 5001);
    assert_string_equal(t->f.last_event, "waiting");
    assert_non_null(strstr(t->f.last_log, "the chief is worker 1"));
    ok(t, 0, PS_OP_WAIT, false);
    ok(t, 1, PS_OP_WAIT, false);
    statuses(t, SEALED, SEALED);
    assert_done(&t->ready, PS_OK);
    assert_true(t->readied.chief_number == 0);
}

/* The others claim when the lease is over, not before, and not again and again. */
TEST(test_others_wait_for_the_end_of_the_lease)
{
    struct lease *t = worker_waits();
    assert_quiet(t);
    beat(t, 40, 3000, "worker 0");
    fake_wait(&t->f, 2500);
    beat(t, 40, 2000, "worker 0"); /* it has been heard since */
    fake_wait(&t->f, 1975);
    assert_quiet(t);
    fake_wait(&t->f, 50);
    const ps_v1_Chief m = claimed(t);
    assert_true(!m.preferred && m.number == 0 && !m.renew);
    deny(t, 700, "worker 0");
    fake_wait(&t->f, 675);
    assert_quiet(t);
    fake_wait(&t->f, 50);
    (void)claimed(t);
    grant(t, 41);
    assert_string_equal(t->f.last_event, "chief");
    assert_non_null(strstr(t->f.last_log, "after=\"worker 0\""));
    fence(t, 41); /* it waits for nobody's seal any more */
    statuses(t, EMPTY, HAS);
    init_and_seal(t, 41);
}

/* Nobody ever was chief: the first beat says so. The directory gives the preferred one time, which no beat shortens. */
TEST(test_others_where_there_was_none)
{
    struct lease *t = worker_waits();
    beat(t, 0, 0, "");
    (void)claimed(t);
    deny(t, 4000, "");
    fake_wait(&t->f, 2000);
    beat(t, 0, 0, "");
    assert_quiet(t);
    fake_wait(&t->f, 2025);
    (void)claimed(t);
    grant(t, 41);
    assert_true(psi_client_is_chief(t->f.c));
}

/* The chief has left in order: its lease is over before its time. */
TEST(test_others_when_it_is_given_up)
{
    struct lease *t = worker_waits();
    beat(t, 40, 9000, "worker 0");
    fake_wait(&t->f, 1000);
    assert_quiet(t);
    beat(t, 40, 0, "");
    (void)claimed(t);
}

TEST(test_beats_say_the_container)
{
    struct lease *t = worker_waits();
    fake_wait(&t->f, PS_BEAT_MS + 50);
    for (uint32_t task = 0; task < 2; task++) {
        const struct fake_task *to = &t->f.task[task];
        const struct fake_frame *last = &to->frames[(to->first + to->count - 1) % FAKE_FRAMES];
        ps_v1_Beat m;
        char container[PS_CONTAINER_BYTES_MAX + 1];
        assert_true(to->count > 0 && last->h.op == PS_OP_BEAT);
        assert_int_equal(psi_msg_decode(&ps_v1_Beat_msg, &m, last->meta, last->h.meta_bytes, NULL), PS_OK);
        assert_int_equal(PSI_BYTES_TEXT(m.container, container, sizeof(container)), PS_OK);
        assert_string_equal(container, task == 0 ? PSI_CONTAINER_DEFAULT : ""); /* to the directory alone */
    }
}

TEST(test_evaluator)
{
    struct lease *t = lease_new("evaluator", 0);
    start_ready(t, true, 0, 60000);
    statuses(t, EMPTY, EMPTY);
    beat(t, 0, 0, "");
    (void)fake_take(&t->f, 0, PS_OP_WAIT);
    (void)fake_take(&t->f, 1, PS_OP_WAIT);
    assert_quiet(t);
    assert_false(psi_client_is_chief(t->f.c));
    struct fake *f = fake_new("ps=a:1", "evaluator", 0, false); /* nor where nobody else is listed */
    assert_false(psi_client_is_chief(f->c));
}

/* Where the cluster lists no trainers it is task 0, before the cluster is known and after. */
TEST(test_nobody_is_listed)
{
    static const char *const specs[] = {NULL, "ps=a:1", "ps=a:1;reader=c:1"};
    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        for (uint32_t task = 0; task < 3; task++) {
            struct fake *f = fake_new(specs[i], "worker", task, false);
            assert_int_equal(psi_client_is_chief(f->c), task == 0);
        }
        struct fake *f = fake_new(specs[i], "", 0, false);
        assert_true(psi_client_is_chief(f->c));
    }
}

/* ---- a stop ---- */

/* Nothing is live: it stops before any INIT; then the rest is initialised. */
TEST(test_stop)
{
    struct lease *t = chief_looks(true, 40);
    statuses(t, EMPTY, (struct state){.initialised = true}); /* a chief died in its INITs */
    assert_done(&t->ready, PS_OK);
    assert_true(t->readied.nothing && t->readied.chief_number == 40);
    assert_quiet(t);
    start_giving(t, 0, 40);
    struct fake_frame *frame = fake_take(&t->f, 0, PS_OP_ASSIGN);
    struct ps_push_meta meta;
    memcpy(&meta, frame->meta, sizeof(meta));
    assert_true(meta.version == 40);
    fake_reply(&t->f, 0, PS_OP_ASSIGN, frame->h.id, true, &(struct fake_answer){0});
    assert_done(&t->give, PS_OK);
    start_ready(t, true, 40, 60000);
    fence(t, 40);
    statuses(t, (struct state){.initialised = true, .version = 2, .provisional = 40}, HAS); /* its own: no half of a model */
    init_and_seal(t, 40);
}

/* What shows that a model is live, or that it is not. */
TEST(test_what_stops)
{
    static const struct {
        struct state a, b;
        bool stops;
    } rows[] = {
        {{.initialised = true, .provisional = 39, .giver = "somebody"}, {.initialised = false}, true},
        {{.initialised = true, .provisional = 39, .version = 3, .giver = "somebody"}, {.initialised = true}, true},
        {{.initialised = true, .sealed = true}, {.initialised = true}, false},
        {{.initialised = true, .version = 1}, {.initialised = true}, false},
        {{.initialised = true, .giver = "importer"}, {.initialised = true}, false},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct lease *t = chief_looks(true, 40);
        statuses(t, rows[i].a, rows[i].b);
        assert_int_equal(t->ready.dones == 1 && t->readied.nothing, rows[i].stops);
        if (!rows[i].stops) {
            init_and_seal(t, 40);
        }
    }
}

/* A variable that is lost after the stop is not made anew behind the back of who gives values. */
TEST(test_lost_after_a_stop)
{
    struct lease *t = chief_looks(true, 40);
    statuses(t, EMPTY, EMPTY);
    assert_true(t->readied.nothing);
    fake_cut(&t->f, 1);
    fake_wait(&t->f, 100);
    fake_hello(&t->f, 1, 555, 556, NULL, NULL);
    fake_open(&t->f, 1, 0, 0, 0, t->v[1]);
    start_giving(t, 1, 40);
    assert_done(&t->give, PS_ABORTED);
    start_ready(t, true, 40, 60000);
    assert_done(&t->ready, PS_ABORTED);
    assert_int_equal(t->ready.err.reason, PS_REASON_LOST);
}

/* The number that it began to give values under is not its number any more. */
TEST(test_go_on_under_another_number)
{
    struct lease *t = chief_looks(true, 40);
    statuses(t, EMPTY, EMPTY);
    assert_true(t->readied.nothing);
    beat(t, 41, 9000, "worker 1");
    assert_string_equal(t->f.last_event, "chief_lost");
    assert_non_null(strstr(t->f.last_log, "worker 1"));
    start_ready(t, true, 40, 60000);
    assert_done(&t->ready, PS_ABORTED);
    assert_int_equal(t->ready.err.reason, PS_REASON_NEWER_CHIEF);
    assert_non_null(strstr(t->ready.err.text, "worker 1"));
    assert_quiet(t);
    beat(t, 41, 0, ""); /* nor when it is the chief again */
    (void)claimed(t);
    grant(t, 42);
    start_ready(t, true, 40, 60000);
    assert_done(&t->ready, PS_ABORTED);
    assert_true(t->readied.chief_number == 42);
    assert_quiet(t);
}

/* ---- values of another chief ---- */

/* What an earlier chief has given is sealed as it is. INIT then takes this chief's hyperparameters, and leaves the values. */
static void seals_the_rest(struct lease *t, uint64_t number)
{
    seal(t, 0, number, false, PS_OK);
    seal(t, 1, number, false, PS_OK);
    fence(t, number);
    statuses(t, SEALED, SEALED);
    init_and_seal(t, number);
}

/* It had begun to seal: its values are all there. They are sealed as they are, and nothing is put in their place. */
TEST(test_half_sealed)
{
    struct lease *t = chief_looks(true, 40);
    statuses(t, (struct state){.initialised = true, .sealed = true, .sealed_by = 39},
             (struct state){.initialised = true, .provisional = 39, .giver = "somebody"});
    seals_the_rest(t, 40);
}

/* Beside what others have given, or another chief than theirs has sealed, they are half of another model. */
TEST(test_half_of_another)
{
    static const struct state beside[] = {{.initialised = true, .giver = "importer"},
                                          {.initialised = true, .sealed = true, .sealed_by = 38}};
    for (size_t i = 0; i < ARRAY_COUNT(beside); i++) {
        struct lease *t = chief_looks(true, 40);
        for (int look = 0; look < 2; look++) {
            statuses(t, beside[i], (struct state){.initialised = true, .provisional = 39, .giver = "somebody"});
            if (look == 0) {
                fence(t, 40);
            }
        }
        assert_done(&t->ready, PS_DATA_LOSS);
        assert_non_null(strstr(t->ready.err.text, "is lost: 'b' at"));
        assert_true(t->readied.chief_number == 40 && !t->readied.nothing); /* RESET says it */
    }
}

/* STATIC: first values of a newer chief than the first that has sealed: it looked before that seal, which no fence kept from
 * coming, and its INIT made the older one's values its own. Those of an older chief are of another life of their task. */
TEST(test_static_first_values_beside_a_seal)
{
    for (uint64_t sealed_by = 38; sealed_by <= 40; sealed_by++) {
        struct lease *t = lease_new("worker", 0);
        struct state sealed = {.initialised = true, .sealed = true, .sealed_by = sealed_by};
        t->f.c->chief_mode = PSI_CHIEF_STATIC;
        start_ready(t, false, 0, 60000);
        statuses(t, sealed, (struct state){.initialised = true, .provisional = 39});
        if (sealed_by <= 39) {
            claim_id = fake_take(&t->f, 0, PS_OP_CHIEF)->h.id;
            grant(t, 41);
            fence(t, 41);
            statuses(t, sealed, (struct state){.initialised = true, .provisional = 39});
            seals_the_rest(t, 41);
        } else {
            statuses(t, sealed, (struct state){.initialised = true, .provisional = 39});
            assert_done(&t->ready, PS_DATA_LOSS);
        }
    }
}

/* STATIC, beside one that claims the lease and restores: what that one has sealed between the look and the number is seen behind
 * the fence, and what it has only given beside that is sealed and not replaced. */
TEST(test_static_looks_again)
{
    struct lease *t = lease_new("worker", 0);
    const struct state given = {.initialised = true, .provisional = 39, .giver = "restorer"};
    t->f.c->chief_mode = PSI_CHIEF_STATIC;
    start_ready(t, false, 0, 60000);
    statuses(t, given, given);
    claim_id = fake_take(&t->f, 0, PS_OP_CHIEF)->h.id;
    grant(t, 41);
    fence(t, 41);
    statuses(t, (struct state){.initialised = true, .sealed = true, .sealed_by = 39}, given);
    seals_the_rest(t, 41);
}

/* ... with nothing to give it needs no second look. */
TEST(test_static_finds_all_sealed)
{
    struct lease *t = lease_new("worker", 0);
    t->f.c->chief_mode = PSI_CHIEF_STATIC;
    start_ready(t, false, 0, 60000);
    statuses(t, SEALED, SEALED);
    claim_id = fake_take(&t->f, 0, PS_OP_CHIEF)->h.id;
    grant(t, 41);
    init_and_seal(t, 41);
}

/* An INIT of a chief before it is no half of a model: this one's comes in its place. */
TEST(test_initialised_beside_given)
{
    struct lease *t = chief_looks(true, 40);
    statuses(t, (struct state){.initialised = true, .giver = "importer"}, (struct state){.initialised = true, .provisional = 39});
    init_and_seal(t, 40);
}

/* A worker waits: their chief may be between two SEALs. */
TEST(test_half_sealed_is_waited_for)
{
    struct lease *t = lease_new("worker", 1);
    start_ready(t, false, 0, 60000);
    statuses(t, SEALED, (struct state){.initialised = true, .provisional = 39, .giver = "somebody"});
    ok(t, 0, PS_OP_WAIT, false);
    ok(t, 1, PS_OP_WAIT, false);
    statuses(t, SEALED, SEALED);
    assert_done(&t->ready, PS_OK);
}

/* Half of a model: the chief may mend it, so the others wait, and one that becomes the chief is told. */
TEST(test_half_a_model)
{
    static const struct state TRAINED = {.initialised = true, .sealed = true, .version = 9};
    struct lease *t = lease_new("worker", 1);
    start_ready(t, true, 0, 8000);
    statuses(t, TRAINED, EMPTY);
    fake_wait(&t->f, 100);
    statuses(t, TRAINED, EMPTY); /* it looks again before it believes that */
    (void)fake_take(&t->f, 0, PS_OP_WAIT);
    (void)fake_take(&t->f, 1, PS_OP_WAIT);
    assert_int_equal(t->ready.dones, 0);
    beat(t, 40, 500, "worker 0");
    fake_wait(&t->f, 550);
    (void)claimed(t);
    grant(t, 41);
    fence(t, 41);
    statuses(t, TRAINED, EMPTY);
    assert_done(&t->ready, PS_DATA_LOSS);
    assert_true(t->readied.chief_number == 41 && !t->readied.nothing);
    t = lease_new("worker", 1);
    start_ready(t, true, 0, 8000);
    statuses(t, TRAINED, EMPTY);
    fake_wait(&t->f, 100);
    statuses(t, TRAINED, EMPTY);
    fake_wait(&t->f, 8001); /* nobody mends it */
    assert_done(&t->ready, PS_DATA_LOSS);
    assert_non_null(strstr(t->ready.err.text, "is lost: 'b' at"));
}

/* All are sealed, and one of them came back out of a checkpoint in which nothing had been done to it: nobody's seal is to be
 * waited for. It looks again now and then. */
TEST(test_half_restored)
{
    static const struct state TRAINED = {.initialised = true, .sealed = true, .version = 9};
    static const struct state BACK = {.initialised = true, .sealed = true, .restored = true};
    struct lease *t = lease_new("worker", 1);
    start_ready(t, true, 0, 8000);
    statuses(t, TRAINED, BACK);
    fake_wait(&t->f, 100);
    for (int looks = 0; looks < 5; looks++) {
        statuses(t, TRAINED, BACK);
        ok(t, 0, PS_OP_WAIT, false);
        ok(t, 1, PS_OP_WAIT, false);
        assert_quiet(t);
        fake_wait(&t->f, 150);
    }
    statuses(t, TRAINED, SEALED);
    assert_done(&t->ready, PS_OK);
}

/* What is sealed while it waits is no half of a model: it is between two answers. */
TEST(test_half_answered)
{
    struct lease *t = lease_new("worker", 1);
    start_ready(t, true, 0, 2000);
    statuses(t, EMPTY, EMPTY);
    ok(t, 0, PS_OP_WAIT, false);
    fake_wait(&t->f, 2001);
    assert_done(&t->ready, PS_DEADLINE_EXCEEDED);
}

/* ---- a successor ---- */

/* An owner follows a newer chief, the directory names it: this session goes on as a worker. */
TEST(test_refused)
{
    struct lease *t = lease_new("worker", 0);
    start_ready(t, false, 0, 60000);
    (void)claimed(t);
    grant(t, 40);
    seal(t, 0, 40, true, PS_ABORTED);
    seal(t, 1, 40, true, PS_OK);
    statuses(t, EMPTY, EMPTY);
    const ps_v1_Chief m = claimed(t);
    assert_true(m.number == 40 && m.renew);
    assert_quiet(t);
    refuse_claim(t, PS_ABORTED, PS_REASON_NEWER_CHIEF, "worker 1 has number 50");
    assert_string_equal(t->f.last_event, "chief_lost");
    assert_non_null(strstr(t->f.last_log, "worker 1 has number 50"));
    assert_false(psi_client_is_chief(t->f.c));
    statuses(t, SEALED, SEALED); /* no fence is ahead of it */
    assert_done(&t->ready, PS_OK);
    assert_true(t->readied.chief_number == 0);
}

/* The directory does not know that one: it gives a number above what the owner has said. */
TEST(test_renewed)
{
    struct lease *t = chief_looks(false, 40);
    statuses(t, EMPTY, (struct state){.seen = 50});
    const ps_v1_Chief m = claimed(t);
    assert_true(m.number == 50 && m.renew);
    grant(t, 51);
    fence(t, 51);
    statuses(t, EMPTY, (struct state){.seen = 51});
    init_and_seal(t, 51);
}

/* A session that was the chief before it was lost is so again at once, whoever is preferred, under another number. */
TEST(test_made_anew)
{
    struct lease *t = lease_new("worker", 1);
    t->f.c->chief.number = 40;
    assert_false(psi_client_is_chief(t->f.c));
    assert_false(psi_client_leads(t->f.c));
    start_ready(t, false, 0, 60000);
    const ps_v1_Chief m = claimed(t);
    assert_true(!m.preferred && m.number == 40 && m.renew);
    assert_quiet(t);
    grant(t, 41);
    fence(t, 41);
    statuses(t, EMPTY, EMPTY);
    init_and_seal(t, 41);
    assert_true(psi_client_leads(t->f.c));
}

/* ... unless another one is. */
TEST(test_made_anew_too_late)
{
    struct lease *t = lease_new("worker", 0);
    t->f.c->chief.number = 40;
    assert_true(psi_client_leads(t->f.c));
    start_ready(t, false, 0, 60000);
    (void)claimed(t);
    refuse_claim(t, PS_ABORTED, PS_REASON_NEWER_CHIEF, "worker 1 has number 50");
    assert_string_equal(t->f.last_event, "chief_lost");
    assert_false(psi_client_leads(t->f.c));
    statuses(t, EMPTY, HAS);
    ok(t, 0, PS_OP_WAIT, false);
    ok(t, 1, PS_OP_WAIT, false);
    statuses(t, SEALED, SEALED);
    assert_done(&t->ready, PS_OK);
    assert_true(t->readied.chief_number == 0);
}

/* An ASSIGN that is refused for a newer chief loses no variable. */
TEST(test_assign_refused)
{
    struct lease *t = chief_looks(true, 40);
    statuses(t, EMPTY, EMPTY);
    start_giving(t, 1, 40);
    const struct fake_answer a = {.status = PS_ABORTED, .reason = PS_REASON_NEWER_CHIEF, .text = "w1 has number 50"};
    fake_reply(&t->f, 1, PS_OP_ASSIGN, fake_take(&t->f, 1, PS_OP_ASSIGN)->h.id, true, &a);
    assert_done(&t->give, PS_ABORTED);
    assert_true(t->v[1]->open && !t->v[1]->lost);
    const ps_v1_Chief m = claimed(t);
    assert_true(m.number == 40 && m.renew);
}

TEST(test_reset_says_the_number)
{
    struct lease *t = chief_ready(40);
    start(t, &t->give, (struct psi_request){.kind = PSI_REQ_RESET, .chief_number = 40, .deadline_ms = t->f.now + 5000});
    struct fake_frame *frame = fake_take(&t->f, 0, PS_OP_RESET);
    ps_v1_Wait m;
    assert_int_equal(psi_msg_decode(&ps_v1_Wait_msg, &m, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    assert_true(m.chief_number == 40 && m.timeout_ms > 0);
    const struct fake_answer a = {.status = PS_ABORTED, .reason = PS_REASON_NEWER_CHIEF, .text = "w1 has number 50"};
    fake_reply(&t->f, 0, PS_OP_RESET, frame->h.id, false, &a);
    assert_done(&t->give, PS_ABORTED);
    assert_true(claimed(t).renew);
}

/* ---- the directory ---- */

/* A new connection, maybe to a new life: it is told; nothing waits for that. */
TEST(test_new_directory)
{
    struct lease *t = chief_ready(40);
    fake_cut(&t->f, 0);
    fake_wait(&t->f, 100);
    assert_true(psi_client_is_chief(t->f.c));
    fake_hello(&t->f, 0, 555, 556, NULL, NULL);
    fake_open(&t->f, 0, 9, 77, 1, t->v[0]);
    const ps_v1_Chief m = claimed(t);
    assert_true(m.number == 40 && !m.renew);
    refuse_claim(t, PS_UNAVAILABLE, PS_REASON_NONE, "/job:ps/task:1 has not told what it has"); /* again */
    assert_true(psi_client_is_chief(t->f.c));
    fake_wait(&t->f, 75);
    assert_quiet(t);
    fake_wait(&t->f, 50);
    assert_true(claimed(t).number == 40);
    uint32_t logs = t->f.logs;
    grant(t, 40);
    assert_int_equal(t->f.logs, logs); /* no news */
    assert_true(psi_client_is_chief(t->f.c));
}

/* It does not know of any chief: the same. */
TEST(test_forgotten)
{
    struct lease *t = chief_ready(40);
    beat(t, 40, 9000, "worker 0");
    assert_quiet(t);
    beat(t, 0, 0, "");
    assert_true(claimed(t).number == 40);
}

/* This process stood still for a lease: it is not chief before it has asked. */
TEST(test_stood_still)
{
    struct lease *t = chief_ready(40);
    t->f.now += PS_LEASE_MS;
    psi_client_tick(t->f.c, t->f.now);
    fake_run(&t->f);
    assert_false(psi_client_is_chief(t->f.c));
    assert_true(claimed(t).number == 40);
    start_ready(t, false, 0, 60000);
    assert_quiet(t);
    refuse_claim(t, PS_ABORTED, PS_REASON_NEWER_CHIEF, "worker 1 has number 41");
    statuses(t, SEALED, SEALED);
    assert_done(&t->ready, PS_OK);
    beat(t, 41, 0, ""); /* and that one is dead: it comes back */
    assert_true(claimed(t).number == 0);
}

/* While the directory cannot say, READY says what it waits for. */
TEST(test_not_told)
{
    struct lease *t = lease_new("worker", 0);
    start_ready(t, false, 0, 1000);
    (void)claimed(t);
    refuse_claim(t, PS_UNAVAILABLE, PS_REASON_NONE, "/job:ps/task:1 has not told what it has");
    fake_wait(&t->f, 90);
    assert_quiet(t);
    t->f.now += 1000;
    psi_client_tick(t->f.c, t->f.now);
    fake_run(&t->f);
    assert_done(&t->ready, PS_DEADLINE_EXCEEDED);
    assert_non_null(strstr(t->ready.err.text, "who is the chief: /job:ps/task:1 has not told"));
    t = lease_new("worker", 0);
    start_ready(t, false, 0, 1000);
    (void)claimed(t);
    fake_wait(&t->f, 1001);
    assert_done(&t->ready, PS_DEADLINE_EXCEEDED);
    assert_non_null(strstr(t->ready.err.text, "no answer from /job:ps/task:0"));
}

/* A session that may not be chief is a worker. */
TEST(test_not_allowed)
{
    struct lease *t = lease_new("worker", 0);
    start_ready(t, false, 0, 60000);
    (void)claimed(t);
    refuse_claim(t, PS_PERMISSION_DENIED, PS_REASON_NONE, "no right to write");
    assert_string_equal(t->f.last_event, "chief_refused");
    assert_non_null(strstr(t->f.last_log, "no right to write"));
    statuses(t, SEALED, SEALED);
    assert_done(&t->ready, PS_OK);
    beat(t, 0, 0, "");
    assert_quiet(t);
}

/* Who leaves claims nothing. */
TEST(test_goodbye)
{
    struct lease *t = lease_new("worker", 1);
    start_ready(t, false, 0, 60000);
    statuses(t, SEALED, SEALED);
    assert_done(&t->ready, PS_OK);
    beat(t, 40, 100, "worker 0");
    (void)fake_begin(&t->f, PSI_REQ_GOODBYE, NULL, NULL, NULL, 500);
    (void)fake_take(&t->f, 0, PS_OP_GOODBYE);
    fake_wait(&t->f, 200);
    assert_null(fake_next(&t->f, 0));
}

/* A chief that the cluster spec names stops as well, with the number that it takes. */
TEST(test_stop_of_a_static_chief)
{
    struct lease *t = lease_new("worker", 0);
    t->f.c->chief_mode = PSI_CHIEF_STATIC;
    start_ready(t, true, 0, 60000);
    statuses(t, EMPTY, EMPTY);
    struct fake_frame *frame = fake_take(&t->f, 0, PS_OP_CHIEF);
    ps_v1_Chief m;
    assert_int_equal(psi_msg_decode(&ps_v1_Chief_msg, &m, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    assert_false(m.claim);
    claim_id = frame->h.id;
    grant(t, 7);
    fence(t, 7);
    statuses(t, EMPTY, EMPTY);
    assert_done(&t->ready, PS_OK);
    assert_true(t->readied.nothing && t->readied.chief_number == 7);
    start_ready(t, true, 7, 60000);
    statuses(t, HAS, HAS);
    init_and_seal(t, 7); /* the same number */
}
