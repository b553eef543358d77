/* SPDX-License-Identifier: Apache-2.0 */
/* worker/core/ready.c: chief and others, half a model, newer chiefs, other hyperparameters, the deadline's text. */
#include "test.h"
#include "worker/core/client.h"
#include "fake_test.h"

#include <stdlib.h>

#define CHIEF_SPEC "ps=a:1,b:2;worker=c:1,c:2"

struct two {
    struct fake f;
    struct psi_var *v[2]; /* at tasks 0 and 1 */
    uint8_t giver[2][8];  /* what STATUS says, where not 0 */
    double rate[2];       /* that psctl set-lr has put in force; 0: none */
    struct fake_request ready;
};

static struct two *two_named(uint32_t worker, const char *first, const char *second)
{
    struct two *t = test_alloc(sizeof(*t));
    fake_init(&t->f, CHIEF_SPEC, "worker", worker, false);
    test_later(fake_end, &t->f);
    t->v[0] = fake_get(&t->f, 0, first, 4, 9, 1);
    t->v[1] = fake_get(&t->f, 1, second, 4, 8, 2);
    return t;
}

static struct two *two_new(uint32_t worker)
{
    return two_named(worker, "a", "b");
}

/* Answer STATUS of variable i with this state. */
static void status(struct two *t, int i, bool initialised, bool sealed, uint64_t version, double rate, uint64_t chief)
{
    struct fake_frame *open = fake_take(&t->f, (uint32_t)i, PS_OP_OPEN);
    const struct psi_var *v = t->v[i];
    ps_v1_OpenAnswer a = ps_v1_OpenAnswer_init_zero;
    a.index = 1;
    a.handle = i == 0 ? 9 : 8;
    a.incarnation = 77;
    a.creation = (uint64_t)i + 1;
    a.dtype = PS_F32;
    a.dims_count = 1;
    a.dims[0] = v->shape.dims[0];
    a.has_optimizer = true;
    psi_optimizer_to_msg(ps_sgd(rate), &a.optimizer);
    a.rate = t->rate[i];
    a.initialised = initialised;
    a.sealed = sealed;
    a.version = version;
    a.chief_number = chief;
    a.giver.size = t->giver[i][0] != 0 ? sizeof(t->giver[i]) : 0;
    memcpy(a.giver.bytes, t->giver[i], a.giver.size);
    fake_reply_item(&t->f, (uint32_t)i, PS_OP_OPEN, open->h.id, &ps_v1_OpenAnswer_msg, &a);
}

static void chief_number(struct two *t, uint64_t number)
{
    ps_v1_ChiefAnswer m = {.number = number};
    fake_reply_item(&t->f, 0, PS_OP_CHIEF, fake_take(&t->f, 0, PS_OP_CHIEF)->h.id, &ps_v1_ChiefAnswer_msg, &m);
}

static void init_answer(struct two *t, uint32_t task, uint64_t want_chief, ps_status st)
{
    struct fake_frame *frame = fake_take(&t->f, task, PS_OP_INIT);
    ps_v1_Init m;
    assert_int_equal(psi_msg_decode(&ps_v1_Init_msg, &m, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    assert_true(m.chief_number == want_chief);
    struct fake_answer a = {.status = st, .text = st == PS_OK ? "" : "chief 9 is newer"};
    fake_reply(&t->f, task, PS_OP_INIT, frame->h.id, true, &a);
}

static void ok(struct two *t, uint32_t task, uint8_t op)
{
    struct fake_answer a = {0};
    fake_reply(&t->f, task, op, fake_take(&t->f, task, op)->h.id, false, &a);
}

static void fence(struct two *t, uint32_t task, uint64_t number)
{
    struct fake_frame *seal = fake_take(&t->f, task, PS_OP_SEAL);
    ps_v1_Seal m;
    assert_int_equal(psi_msg_decode(&ps_v1_Seal_msg, &m, seal->meta, seal->h.meta_bytes, NULL), PS_OK);
    assert_true(m.fence && m.chief_number == number);
    fake_reply(&t->f, task, PS_OP_SEAL, seal->h.id, false, &(struct fake_answer){0});
}

/* The chief gets its number, and looks again behind a fence; first: a has a value. */
static void numbered(struct two *t, uint64_t number, bool first)
{
    chief_number(t, number);
    fence(t, 0, number);
    fence(t, 1, number);
    status(t, 0, first, false, 0, 0.5, 0);
    status(t, 1, false, false, 0, 0.5, 0);
}

/* The chief gets number 4, gives both their first values and seals them; then it is ready. first: a has one. */
static void initialises_both(struct two *t, bool first)
{
    numbered(t, 4, first);
    init_answer(t, 0, 4, PS_OK);
    init_answer(t, 1, 4, PS_OK);
    ok(t, 0, PS_OP_SEAL);
    ok(t, 1, PS_OP_SEAL);
    assert_int_equal(t->ready.req.status, PS_OK);
}

/* STATUS, number, INITs, and SEAL only when every INIT is answered. */
TEST(test_chief)
{
    struct two *t = two_new(0);
    assert_true(psi_client_is_chief(t->f.c));
    fake_start(&t->f, &t->ready, PSI_REQ_READY, NULL, NULL, NULL, 60000);
    status(t, 0, true, true, 0, 0.5, 0);
    assert_null(fake_next(&t->f, 0));
    status(t, 1, true, false, 0, 0.5, 0);
    chief_number(t, 7);
    fence(t, 0, 7);
    fence(t, 1, 7);
    status(t, 0, true, true, 0, 0.5, 0);
    status(t, 1, true, false, 0, 0.5, 0);
    init_answer(t, 0, 7, PS_OK);
    assert_null(fake_next(&t->f, 0)); /* no SEAL before the other's INIT */
    init_answer(t, 1, 7, PS_OK);
    struct fake_frame *seal = fake_take(&t->f, 0, PS_OP_SEAL);
    ps_v1_Seal m;
    assert_int_equal(psi_msg_decode(&ps_v1_Seal_msg, &m, seal->meta, seal->h.meta_bytes, NULL), PS_OK);
    assert_true(m.chief_number == 7);
    const uint8_t *p = seal->payload;
    size_t n = seal->bytes;
    ps_v1_HandleItem item;
    bool end = false;
    assert_int_equal(psi_list_next(&p, &n, &ps_v1_HandleItem_msg, &item, &end, NULL), PS_OK);
    assert_true(!end && item.handle == 9 && item.creation == 1);
    fake_reply(&t->f, 0, PS_OP_SEAL, seal->h.id, false, &(struct fake_answer){0});
    assert_int_equal(t->ready.dones, 0);
    ok(t, 1, PS_OP_SEAL);
    assert_int_equal(t->ready.dones, 1);
    assert_int_equal(t->ready.req.status, PS_OK);
    uint32_t found = 0;
    uint32_t total = 0;
    psi_client_found(t->f.c, &found, &total);
    assert_int_equal(found, 2);
    assert_int_equal(total, 2);
}

/* One trained, one uninitialised: DATA_LOSS for everybody, and the chief sends no INIT. */
static void data_loss(uint32_t worker, bool sealed, uint64_t version)
{
    struct two *t = two_new(worker);
    fake_start(&t->f, &t->ready, PSI_REQ_READY, NULL, NULL, NULL, 60000);
    status(t, 0, true, sealed, version, 0.5, 3);
    status(t, 1, false, false, 0, 0.5, 3);
    assert_int_equal(t->ready.dones, 0); /* the two answers are of different moments: asked again to be sure */
    fake_wait(&t->f, 200);
    status(t, 0, true, sealed, version, 0.5, 3);
    status(t, 1, false, false, 0, 0.5, 3);
    assert_int_equal(t->ready.req.status, PS_DATA_LOSS);
    assert_non_null(strstr(t->ready.err.text, "'b' at /job:ps/task:1"));
    assert_non_null(strstr(t->ready.err.text,
                           "; the rest is trained, as 'a' is; start over or restore all of it; if this is another model, "));
    assert_null(fake_next(&t->f, 0));
    assert_null(fake_next(&t->f, 1));
}

TEST(test_data_loss)
{
    data_loss(0, false, 5);
    data_loss(0, true, 0);
    data_loss(1, false, 5);
    data_loss(1, true, 0);
}

/* The longest name is whole in the text, and so is what is said behind it. */
TEST(test_long_names)
{
    char lost[PS_NAME_BYTES_MAX + 1], says[PS_NAME_BYTES_MAX + 64];
    memset(lost, 'x', PS_NAME_BYTES_MAX);
    lost[PS_NAME_BYTES_MAX] = '\0';
    struct two *t = two_named(0, "a", lost);
    fake_start(&t->f, &t->ready, PSI_REQ_READY, NULL, NULL, NULL, 60000);
    for (int look = 0; look < 2; look++) {
        status(t, 0, true, false, 5, 0.5, 0);
        status(t, 1, false, false, 0, 0.5, 0);
        fake_wait(&t->f, 200);
    }
    assert_int_equal(t->ready.req.status, PS_DATA_LOSS);
    snprintf(says, sizeof(says), ": '%s' at /job:ps/task:1 (b:2); the rest", lost);
    assert_non_null(strstr(t->ready.err.text, says));
    assert_non_null(strstr(t->ready.err.text, "give it a container of its own"));
    /* two such: one is named, the other is counted */
    char both[PS_NAME_BYTES_MAX + 1];
    memset(both, 'y', PS_NAME_BYTES_MAX);
    both[PS_NAME_BYTES_MAX] = '\0';
    t = two_named(1, both, lost);
    fake_start(&t->f, &t->ready, PSI_REQ_READY, NULL, NULL, NULL, 9000);
    status(t, 0, true, false, 0, 0.5, 0);
    status(t, 1, true, false, 0, 0.5, 0);
    fake_wait(&t->f, 5001);
    snprintf(says, sizeof(says), "initialise '%s' at /job:ps/task:0 (a:1) and 1 more; no chief", both);
    assert_non_null(strstr(t->f.last_log, says));
    fake_wait(&t->f, 60000);
}

/* One was given its value by another session, which sealed nothing, and the other has none: what an import left of which a task
 * came back empty, or that did not end. The chief sends no INIT. */
TEST(test_given_is_live)
{
    struct two *t = two_new(0);
    memcpy(t->giver[0], "importer", 8);
    fake_start(&t->f, &t->ready, PSI_REQ_READY, NULL, NULL, NULL, 60000);
    for (int look = 0; look < 2; look++) {
        status(t, 0, true, false, 0, 0.5, 0);
        status(t, 1, false, false, 0, 0.5, 0);
        assert_int_equal(t->ready.dones, look);
        fake_wait(&t->f, 200);
    }
    assert_int_equal(t->ready.req.status, PS_DATA_LOSS);
    assert_non_null(strstr(t->ready.err.text, "is lost: 'b' at /job:ps/task:1"));
    assert_non_null(
        strstr(t->ready.err.text, "; the rest is there by an import or assign, as 'a' is; start over or restore all"));
    assert_null(fake_next(&t->f, 0));
    assert_null(fake_next(&t->f, 1));
}

/* What this session gave itself is no sign of a loss: the chief initialises the rest. */
TEST(test_given_by_itself)
{
    struct two *t = two_new(0);
    memcpy(t->giver[0], t->f.c->session_id, 8);
    fake_start(&t->f, &t->ready, PSI_REQ_READY, NULL, NULL, NULL, 60000);
    status(t, 0, true, false, 0, 0.5, 0);
    status(t, 1, false, false, 0, 0.5, 0);
    initialises_both(t, true);
}

/* The other workers cannot tell whether it was the chief, which then initialises the rest: they wait for its seal. */
TEST(test_given_is_waited_for)
{
    struct two *t = two_new(1);
    memcpy(t->giver[0], "thechief", 8);
    fake_start(&t->f, &t->ready, PSI_REQ_READY, NULL, NULL, NULL, 60000);
    status(t, 0, true, false, 0, 0.5, 0);
    status(t, 1, false, false, 0, 0.5, 0);
    ok(t, 0, PS_OP_WAIT);
    ok(t, 1, PS_OP_WAIT);
    status(t, 0, true, true, 0, 0.5, 4);
    status(t, 1, true, true, 0, 0.5, 4);
    assert_int_equal(t->ready.req.status, PS_OK);
}

/* The second answer was older than the first: between the two a chief initialised and sealed. No loss. */
TEST(test_no_data_loss)
{
    struct two *t = two_new(1);
    fake_start(&t->f, &t->ready, PSI_REQ_READY, NULL, NULL, NULL, 60000);
    status(t, 0, true, true, 1, 0.5, 3);
    status(t, 1, false, false, 0, 0.5, 3);
    fake_wait(&t->f, 200);
    status(t, 0, true, true, 1, 0.5, 3);
    status(t, 1, true, true, 0, 0.5, 3);
    assert_int_equal(t->ready.req.status, PS_OK);
}

/* Some at version 0 and nothing sealed: an earlier chief died midway. The chief goes on, the others wait. */
TEST(test_half_initialised)
{
    struct two *t = two_new(0);
    fake_start(&t->f, &t->ready, PSI_REQ_READY, NULL, NULL, NULL, 60000);
    status(t, 0, true, false, 0, 0.5, 3);
    status(t, 1, false, false, 0, 0.5, 3);
    initialises_both(t, true);
}

TEST(test_worker_waits)
{
    struct two *t = two_new(1);
    assert_false(psi_client_is_chief(t->f.c));
    fake_start(&t->f, &t->ready, PSI_REQ_READY, NULL, NULL, NULL, 60000);
    status(t, 0, false, false, 0, 0.5, 0);
    status(t, 1, false, false, 0, 0.5, 0);
    struct fake_frame *wait = fake_take(&t->f, 0, PS_OP_WAIT);
    ps_v1_Wait m;
    assert_int_equal(psi_msg_decode(&ps_v1_Wait_msg, &m, wait->meta, wait->h.meta_bytes, NULL), PS_OK);
    assert_true(m.condition == 2 && m.timeout_ms > 50000 && m.timeout_ms <= 60000);
    fake_reply(&t->f, 0, PS_OP_WAIT, wait->h.id, false, &(struct fake_answer){0});
    assert_null(fake_next(&t->f, 0)); /* the other owner has not answered */
    ok(t, 1, PS_OP_WAIT);
    status(t, 0, true, true, 0, 0.5, 7);
    status(t, 1, true, true, 3, 0.5, 7);
    assert_int_equal(t->ready.req.status, PS_OK);
}

/* The directory says who is chief, and under which number the model is ready. */
static void beat(struct two *t, uint64_t number, uint64_t ready)
{
    const ps_v1_BeatAnswer m = {
        .flags = 2u | (number != 0), .chief_number = number, .chief_left_ms = number != 0 ? 9000 : 0, .chief_ready = ready};
    fake_reply_item(&t->f, 0, PS_OP_BEAT, 1, &ps_v1_BeatAnswer_msg, &m);
    fake_wait(&t->f, 300);
}

static void statuses(struct two *t, double a, double b)
{
    status(t, 0, true, true, 3, a, 7);
    status(t, 1, true, true, 3, b, 7);
}

/* The chief that is there has put others in force. */
TEST(test_other_hyperparameters)
{
    struct two *t = two_new(1);
    fake_start(&t->f, &t->ready, PSI_REQ_READY, NULL, NULL, NULL, 60000);
    statuses(t, 0.5, 0.25);
    assert_int_equal(t->ready.dones, 0);
    beat(t, 7, 7);
    statuses(t, 0.5, 0.25);
    assert_int_equal(t->ready.req.status, PS_FAILED_PRECONDITION);
    assert_int_equal(t->ready.err.reason, PS_REASON_OPTIMIZER_MISMATCH);
    assert_non_null(strstr(t->ready.err.text, "0.5"));
    assert_non_null(strstr(t->ready.err.text, "0.25"));
    assert_non_null(strstr(t->ready.err.text, "; another --container"));
    assert_non_null(strstr(t->ready.err.text, "'b'"));
}

/* What an earlier training has left in force is no chief's word: the chief comes later, and asks for what this program asks for.
 */
TEST(test_hyperparameters_of_an_earlier_training)
{
    struct two *t = two_new(1);
    fake_start(&t->f, &t->ready, PSI_REQ_READY, NULL, NULL, NULL, 60000);
    statuses(t, 0.25, 0.25);
    assert_null(fake_next(&t->f, 1));
    beat(t, 0, 0); /* nobody is chief */
    beat(t, 8, 0); /* somebody is, and has not made the model ready */
    statuses(t, 0.5, 0.25);
    beat(t, 8, 0);
    assert_null(fake_next(&t->f, 1));
    assert_int_equal(t->ready.dones, 0);
    beat(t, 8, 8);
    statuses(t, 0.5, 0.5);
    assert_int_equal(t->ready.req.status, PS_OK);
}

TEST(test_no_chief_brings_its_hyperparameters)
{
    struct two *t = two_new(1);
    fake_start(&t->f, &t->ready, PSI_REQ_READY, NULL, NULL, NULL, 6000);
    statuses(t, 0.5, 0.25);
    beat(t, 0, 0);
    fake_wait(&t->f, 5000);
    assert_string_equal(t->f.last_event, "waiting");
    assert_non_null(strstr(t->f.last_log, "sgd(learning_rate=0.25)"));
    fake_wait(&t->f, 1000);
    assert_int_equal(t->ready.req.status, PS_DEADLINE_EXCEEDED);
    assert_int_equal(t->ready.err.reason, PS_REASON_NO_CHIEF);
    assert_non_null(strstr(t->ready.err.text,
                           "waiting for a chief that asks for sgd(learning_rate=0.5): 'b' at /job:ps/task:1 (b:2) "
                           "has sgd(learning_rate=0.25) in force since an earlier training; no chief is "
                           "connected"));
}

/* One line for each rate that is in force in the place of this program's, not one a variable, nor one a look. */
TEST(test_a_forgotten_set_lr)
{
    struct two *t = two_new(1);
    for (int look = 0; look < 2; look++) {
        t->f.last_event[0] = '\0';
        t->rate[0] = t->rate[1] = 0.01;
        fake_start(&t->f, &t->ready, PSI_REQ_READY, NULL, NULL, NULL, 60000);
        status(t, 0, true, true, 3, 0.5, 7);
        assert_string_equal(t->f.last_event, look == 0 ? "rate_overridden" : "");
        assert_true(look == 1 || strstr(t->f.last_log, "var=a task=/job:ps/task:0 rate=0.01 definition=0.5 ") != NULL);
        assert_true(look == 1 || strstr(t->f.last_log, "psctl set-lr --all --clear") != NULL);
        t->f.last_event[0] = '\0';
        status(t, 1, true, true, 3, 0.5, 7);
        assert_string_equal(t->f.last_event, "");
        assert_int_equal(t->ready.req.status, PS_OK);
        memset(&t->ready, 0, sizeof(t->ready));
    }
    t->rate[0] = t->rate[1] = 0.02; /* another one */
    fake_start(&t->f, &t->ready, PSI_REQ_READY, NULL, NULL, NULL, 60000);
    statuses(t, 0.5, 0.5);
    assert_string_equal(t->f.last_event, "rate_overridden");
}

TEST(test_a_set_lr_that_says_the_same)
{
    struct two *t = two_new(1);
    t->rate[0] = 0.5;
    fake_start(&t->f, &t->ready, PSI_REQ_READY, NULL, NULL, NULL, 60000);
    statuses(t, 0.5, 0.5);
    assert_int_equal(t->ready.req.status, PS_OK);
    assert_string_equal(t->f.last_event, "");
}

TEST(test_newer_chief)
{
    struct two *t = two_new(0);
    fake_start(&t->f, &t->ready, PSI_REQ_READY, NULL, NULL, NULL, 60000);
    status(t, 0, false, false, 0, 0.5, 0);
    status(t, 1, false, false, 0, 0.5, 0);
    numbered(t, 7, false);
    init_answer(t, 0, 7, PS_ABORTED);
    init_answer(t, 1, 7, PS_OK);
    fence(t, 0, 7);
    fence(t, 1, 7);
    status(t, 0, false, false, 0, 0.5, 9);
    status(t, 1, true, false, 0, 0.5, 7);
    assert_int_equal(t->ready.req.status, PS_ABORTED);
    assert_non_null(strstr(t->ready.err.text, "newer chief (number 9"));
}

/* The owner of variable i answers a WAIT that its time is over. */
static void late(struct two *t, uint32_t i)
{
    struct fake_answer a = {.status = PS_DEADLINE_EXCEEDED, .text = "1 of 1 not made ready by a chief"};
    fake_reply(&t->f, i, PS_OP_WAIT, fake_take(&t->f, i, PS_OP_WAIT)->h.id, false, &a);
}

TEST(test_deadline_names_all)
{
    struct two *t = two_new(1);
    fake_start(&t->f, &t->ready, PSI_REQ_READY, NULL, NULL, NULL, 9000);
    status(t, 0, true, true, 0, 0.5, 0);
    status(t, 1, true, false, 0, 0.5, 0);
    ok(t, 0, PS_OP_WAIT);
    fake_wait(&t->f, 5001);
    assert_string_equal(t->f.last_event, "waiting");
    assert_non_null(strstr(t->f.last_log, "'b' at /job:ps/task:1"));
    fake_wait(&t->f, 3750);
    for (int i = 0; i < 2; i++) { /* it says so itself, and is asked again for the little time that is left */
        late(t, 1);
        ok(t, 0, PS_OP_WAIT);
        fake_wait(&t->f, 130);
    }
    assert_int_equal(t->ready.dones, 1);
    assert_int_equal(t->ready.req.status, PS_DEADLINE_EXCEEDED);
    assert_non_null(strstr(t->ready.err.text, "'b' at /job:ps/task:1 (b:2)"));
    assert_null(strstr(t->ready.err.text, "'a'"));
    assert_non_null(strstr(t->ready.err.text, "no chief is connected"));
    assert_int_equal(t->ready.err.reason, PS_REASON_NO_CHIEF);
}

/* Its deadline is over while these tasks, bits of `silent`, have not answered what they were sent: they are named and no other.
 */
static void assert_blamed(struct two *t, const struct fake_request *req, uint32_t silent)
{
    assert_int_equal(req->dones, 1);
    assert_int_equal(req->req.status, PS_DEADLINE_EXCEEDED);
    for (uint32_t i = 0; i < 2; i++) {
        const char *where = i == 0 ? "/job:ps/task:0 (a:1" : "/job:ps/task:1 (b:2";
        if ((strstr(req->err.text, where) != NULL) != ((silent >> i & 1) != 0)) {
            fail_msg("silent is %u, the error is: %s", silent, req->err.text);
        }
    }
    assert_int_equal(psi_client_pending(t->f.c), 0);
}

TEST(test_deadline_blames_the_silent)
{
    for (uint32_t silent = 1; silent <= 3; silent++) {
        struct two *t = two_new(1);
        fake_start(&t->f, &t->ready, PSI_REQ_WAIT_READY, NULL, NULL, NULL, 1000); /* in its first step */
        for (int i = 0; i < 2; i++) {
            if ((silent >> i & 1) == 0) {
                status(t, i, false, false, 0, 0.5, 0);
            }
        }
        fake_wait(&t->f, 1001);
        assert_blamed(t, &t->ready, silent);
        t = two_new(1);
        fake_start(&t->f, &t->ready, PSI_REQ_READY, NULL, NULL, NULL, 1000); /* in its wait */
        status(t, 0, false, false, 0, 0.5, 0);
        status(t, 1, false, false, 0, 0.5, 0);
        fake_wait(&t->f, 900);
        for (uint32_t i = 0; i < 2; i++) {
            if ((silent >> i & 1) == 0) {
                late(t, i);
            }
        }
        fake_wait(&t->f, 101);
        assert_blamed(t, &t->ready, silent);
        t = two_new(0);
        fake_start(&t->f, &t->ready, PSI_REQ_READY, NULL, NULL, NULL, 1000); /* a chief, in its INITs */
        status(t, 0, false, false, 0, 0.5, 0);
        status(t, 1, false, false, 0, 0.5, 0);
        numbered(t, 7, false);
        for (uint32_t i = 0; i < 2; i++) {
            if ((silent >> i & 1) == 0) {
                init_answer(t, i, 7, PS_OK);
            }
        }
        fake_wait(&t->f, 1001);
        assert_blamed(t, &t->ready, silent);
    }
}

/* A task of the session that has not been asked for anything is not blamed, in whatever state its connection is. */
TEST(test_status_blames_the_silent)
{
    struct two *t = two_new(1);
    struct fake_request *stat = fake_begin(&t->f, PSI_REQ_STATUS, t->v[1], NULL, NULL, 1000);
    fake_cut(&t->f, 0);
    fake_wait(&t->f, 1001);
    assert_non_null(strstr(stat->err.text, "status of 'b': "));
    assert_blamed(t, stat, 2);
    t = two_new(1);
    fake_cut(&t->f, 1);
    fake_connect(&t->f, 1); /* connected; HELLO is not answered */
    stat = fake_begin(&t->f, PSI_REQ_STATUS, t->v[1], NULL, NULL, 1000);
    fake_wait(&t->f, 1001);
    assert_non_null(strstr(stat->err.text, "stopped, or not a psd"));
    assert_blamed(t, stat, 2);
}

/* The deadline while INITs are out: they end with it, nothing is left over. */
TEST(test_deadline_in_init)
{
    struct two *t = two_new(0);
    fake_start(&t->f, &t->ready, PSI_REQ_READY, NULL, NULL, NULL, 1000);
    status(t, 0, false, false, 0, 0.5, 0);
    status(t, 1, false, false, 0, 0.5, 0);
    numbered(t, 7, false);
    fake_take(&t->f, 0, PS_OP_INIT);
    fake_wait(&t->f, 1001);
    assert_int_equal(t->ready.dones, 1);
    assert_int_equal(t->ready.req.status, PS_DEADLINE_EXCEEDED);
    assert_int_equal(psi_client_pending(t->f.c), 0);
    fake_take(&t->f, 0, PS_OP_ABANDON);
}

/* A task restarts before this session has used anything: its variables are got again. */
TEST(test_restart_before_use)
{
    struct two *t = two_new(0);
    fake_start(&t->f, &t->ready, PSI_REQ_READY, NULL, NULL, NULL, 60000);
    status(t, 0, false, false, 0, 0.5, 0);
    fake_cut(&t->f, 1);
    fake_hello(&t->f, 1, 555, 556, NULL, NULL);
    fake_open(&t->f, 1, 0, 0, 0, t->v[1]); /* the reopening: lost */
    fake_open(&t->f, 1, 0, 0, 0, t->v[1]); /* STATUS, asked again */
    struct fake_frame *create = fake_take(&t->f, 0, PS_OP_CREATE);
    ps_v1_CreateAnswer m = {.index = 1, .task = 1};
    PSI_BYTES_SET(m.job, "ps");
    fake_reply_item(&t->f, 0, PS_OP_CREATE, create->h.id, &ps_v1_CreateAnswer_msg, &m);
    fake_open(&t->f, 1, 8, 78, 2, t->v[1]);
    t->v[1]->incarnation = 77; /* as status() answers */
    status(t, 0, false, false, 0, 0.5, 0);
    status(t, 1, false, false, 0, 0.5, 0);
    chief_number(t, 1);
    assert_int_equal(t->ready.dones, 0);
}

TEST(test_status)
{
    struct two *t = two_new(1);
    fake_start(&t->f, &t->ready, PSI_REQ_STATUS, t->v[1], NULL, NULL, 60000);
    assert_null(fake_next(&t->f, 0));
    status(t, 1, true, false, 6, 0.5, 0);
    assert_int_equal(t->ready.req.status, PS_OK);
    assert_true(t->v[1]->initialised && t->v[1]->version == 6 && !t->v[0]->initialised);
}

TEST(test_nothing_to_do)
{
    struct fake *f = fake_new(CHIEF_SPEC, "worker", 1, false);
    struct fake_request *ready = fake_begin(f, PSI_REQ_READY, NULL, NULL, NULL, 60000);
    assert_done(ready, PS_OK);
}
