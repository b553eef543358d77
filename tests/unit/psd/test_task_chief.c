/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chief's lease: who is granted it and when, what a chief's number does at owners (INIT, SEAL and its fence, ASSIGN, RESET),
 * and what a directory that begins anew knows of it. tests/models/chief_model.py has the protocol.
 */
#include "change_code.h"
#include "cluster_test.h"

#include "psd/state.h"

enum { CLAIM = 1, PREFERRED = 2, RENEW = 4, N = 4 };

static struct wire *about(const char *container)
{
    ps_v1_ContainerItem item = ps_v1_ContainerItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(item.container, container)); /* fits */
    struct wire *body = wire_new();
    if (container[0] != '\0') {
        wire_item(body, &ps_v1_ContainerItem_msg, &item);
    }
    return body;
}

/* A request with this meta and body; out: the only item of its answer, or NULL. */
static struct fc_reply ask(struct fc *c, uint8_t op, const pb_msgdesc_t *d, const void *m, struct wire *body,
                           const pb_msgdesc_t *of, void *out)
{
    uint8_t meta[PS_META_BYTES_MAX] = {0};
    size_t bytes = 0;
    assert_int_equal(psi_msg_encode(d, m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    struct wire *w = wire_new(), *back = wire_new();
    fc_frame(c, w, op, 0, c->next_id++, 0, meta, (uint32_t)(bytes + 7) / 8 * 8, body);
    shell_send(c->conn, w);
    struct fc_reply r = fc_take(c, back);
    const uint8_t *p = back->data;
    size_t n = back->len;
    if (out != NULL && r.status == PS_OK) {
        assert_true(fc_item(&p, &n, of, out));
    }
    return r;
}

static ps_v1_ChiefAnswer answer; /* to the last claim */

static struct fc_reply claim(struct fc *c, const char *container, uint64_t number, int how)
{
    ps_v1_Chief m = {
        .claim = (how & CLAIM) != 0, .number = number, .preferred = (how & PREFERRED) != 0, .renew = (how & RENEW) != 0};
    answer = (ps_v1_ChiefAnswer)ps_v1_ChiefAnswer_init_zero;
    return ask(c, PS_OP_CHIEF, &ps_v1_Chief_msg, &m, about(container), &ps_v1_ChiefAnswer_msg, &answer);
}

static uint64_t granted(struct fc *c, const char *container, uint64_t number, int how)
{
    assert_applied(claim(c, container, number, how));
    assert_true(answer.granted && answer.number != 0);
    return answer.number;
}

static void assert_not_yet(struct fc *c, const char *container, int how, uint64_t left_ms, const char *holder)
{
    assert_applied(claim(c, container, 0, how));
    assert_false(answer.granted);
    assert_int_equal(answer.left_ms, left_ms);
    assert_int_equal(answer.holder.size, strlen(holder));
    assert_memory_equal(answer.holder.bytes, holder, strlen(holder));
}

static struct fc_reply beat_ready(struct fc *c, const char *container, uint64_t number, ps_v1_BeatAnswer *out)
{
    ps_v1_Beat m = ps_v1_Beat_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.container, container)); /* fits */
    m.ready = number;
    *out = (ps_v1_BeatAnswer)ps_v1_BeatAnswer_init_zero;
    return ask(c, PS_OP_BEAT, &ps_v1_Beat_msg, &m, NULL, &ps_v1_BeatAnswer_msg, out);
}

static struct fc_reply beat_about(struct fc *c, const char *container, ps_v1_BeatAnswer *out)
{
    return beat_ready(c, container, 0, out);
}

static struct fc_reply seal(struct fc *c, const ps_v1_OpenAnswer *v, uint64_t number, bool fence)
{
    ps_v1_Seal m = {.chief_number = number, .fence = fence};
    ps_v1_HandleItem item = {.handle = v->handle, .creation = v->creation};
    struct wire *body = wire_new();
    wire_item(body, &ps_v1_HandleItem_msg, &item);
    return ask(c, PS_OP_SEAL, &ps_v1_Seal_msg, &m, body, NULL, NULL);
}

static struct fc_reply reset_as(struct fc *c, const char *container, uint64_t number)
{
    ps_v1_Wait m = {.timeout_ms = 1000, .chief_number = number};
    return ask(c, PS_OP_RESET, &ps_v1_Wait_msg, &m, about(container), NULL, NULL);
}

static struct fc_reply assign_as(struct fc *c, const ps_v1_OpenAnswer *v, float value, uint64_t number)
{
    float values[N];
    struct fc_part whole = {.op = PS_OP_ASSIGN,
                            .dtype = PS_F32,
                            .number = c->next_number++,
                            .handle = v->handle,
                            .total = N,
                            .payload = filled(values, N, value),
                            .scale = 1,
                            .from = number};
    fc_send_frames(c, &whole, 0, 0);
    return fc_take(c, NULL);
}

static struct fc_reply init_as(struct fc *c, const ps_v1_OpenAnswer *v, double value, uint64_t number)
{
    return fc_init_var(c, v->handle, ps_constant(value), ps_sgd(1), number, false);
}

static ps_v1_OpenAnswer state(struct fc *c, const char *name)
{
    ps_v1_OpenAnswer a;
    assert_int_equal(fc_open(c, name, &a), PS_OK);
    return a;
}

static float value_of(struct fc *c, const ps_v1_OpenAnswer *v)
{
    float values[N];
    assert_applied(fc_pull(c, v, 0, N, values));
    return values[N - 1];
}

/* Time passes; this session is heard all the while. */
static void pass_heard(struct env *e, struct fc *c, uint64_t ms)
{
    for (uint64_t at = 0; at < ms; at += 1000) {
        assert_applied(fc_beat(c, -1, NULL));
        shell_pass(&e->net, ms - at < 1000 ? ms - at : 1000);
    }
}

/* A task that is its own directory, with two workers. */
struct duo {
    struct env *e;
    struct fc w0, w1;
};

static struct duo *duo_new(void)
{
    struct duo *d = test_alloc(sizeof(*d));
    d->e = env_new(NULL);
    fc_connect_as(&d->w0, d->e->t, 2, "worker", 0);
    fc_connect_as(&d->w1, d->e->t, 3, "worker", 1);
    return d;
}

/* ---- claims ---- */

TEST(test_lease_of_a_container)
{
    struct duo *d = duo_new();
    uint64_t first = granted(&d->w0, "a", 0, CLAIM | PREFERRED);
    shell_pass(&d->e->net, 1000);
    assert_applied(fc_beat(&d->w1, -1, NULL));
    assert_not_yet(&d->w1, "a", CLAIM, PS_LEASE_MS - 1000, "/job:worker/task:0@here:4000");
    assert_applied(fc_beat(&d->w0, -1, NULL)); /* it lives */
    assert_not_yet(&d->w1, "a", CLAIM | PREFERRED, PS_LEASE_MS, "/job:worker/task:0@here:4000");
    fc_cut(&d->w0);
    pass_heard(d->e, &d->w1, PS_LEASE_MS - 1); /* one ms is left of it */
    assert_not_yet(&d->w1, "a", CLAIM, 1, "/job:worker/task:0@here:4000");
    shell_pass(&d->e->net, 1);
    uint64_t second = granted(&d->w1, "a", 0, CLAIM);
    assert_true(second > first);
    /* it wakes up */
    fc_connect_as(&d->w0, d->e->t, 9, "worker", 0);
    assert_reply(claim(&d->w0, "a", first, CLAIM | PREFERRED), PS_ABORTED, "/job:worker/task:1@here:4001 has number");
    assert_int_equal(claim(&d->w0, "a", first, CLAIM).reason, PS_REASON_NEWER_CHIEF);
    assert_not_yet(&d->w0, "a", CLAIM | PREFERRED, PS_LEASE_MS - 1000, "/job:worker/task:1@here:4001");
    /* ... and whoever has the lease keeps it, with its number */
    assert_int_equal(granted(&d->w1, "a", second, CLAIM), second);
    /* other containers have other chiefs */
    assert_true(granted(&d->w0, "b", 0, CLAIM | PREFERRED) > second);
    assert_int_equal(granted(&d->w1, "a", second, CLAIM), second);
}

/* Nobody has taken it. */
TEST(test_lease_over_is_still_its_own)
{
    struct duo *d = duo_new();
    uint64_t first = granted(&d->w0, "a", 0, CLAIM | PREFERRED);
    fc_cut(&d->w0);
    pass_heard(d->e, &d->w1, PS_LEASE_MS + 1000);
    fc_connect_as(&d->w0, d->e->t, 9, "worker", 0); /* in another session */
    assert_int_equal(granted(&d->w0, "a", first, CLAIM), first);
    assert_not_yet(&d->w1, "a", CLAIM, PS_LEASE_MS, "/job:worker/task:0@here:4000");
}

TEST(test_same_task_again)
{
    struct duo *d = duo_new();
    struct fc again;
    uint64_t first = granted(&d->w1, "", 0, CLAIM | PREFERRED);
    fc_connect_as(&again, d->e->t, 4, "worker", 1);
    assert_true(granted(&again, "localhost", 0, CLAIM) > first);
    /* sessions of no task are each their own */
    struct fc *other = fc_new(d->e->t, 5);
    PSI_IGNORE(granted(&d->e->c, "b", 0, CLAIM | PREFERRED));                     /* that it is */
    assert_not_yet(other, "b", CLAIM | PREFERRED, PS_LEASE_MS, "@testhost:4711"); /* as its HELLO says */
}

TEST(test_goodbye_frees_the_lease)
{
    struct duo *d = duo_new();
    uint64_t first = granted(&d->w0, "a", 0, CLAIM | PREFERRED);
    assert_applied(fc_call(&d->w0, PS_OP_GOODBYE, 0, 900, 0, NULL, 0, NULL));
    assert_true(granted(&d->w1, "a", 0, CLAIM) > first); /* also in the directory's first lease */
}

TEST(test_never_a_chief)
{
    struct duo *d = duo_new();
    pass_heard(d->e, &d->w1, 2 * PS_LEASE_MS);
    assert_not_yet(&d->w1, "a", CLAIM, PS_LEASE_MS, "");
    pass_heard(d->e, &d->w1, PS_LEASE_MS - 1);
    assert_not_yet(&d->w1, "a", CLAIM, 1, "");
    shell_pass(&d->e->net, 1);
    PSI_IGNORE(granted(&d->w1, "a", 0, CLAIM)); /* that it is */
}

TEST(test_unconditional_and_renewed)
{
    struct duo *d = duo_new();
    uint64_t first = granted(&d->w0, "a", 0, CLAIM | PREFERRED);
    uint64_t second = granted(&d->w1, "a", 0, 0); /* no claim: from whoever has it */
    assert_true(second > first);
    assert_reply(claim(&d->w0, "a", first, CLAIM), PS_ABORTED, "worker/task:1");
    /* a number that this directory has not given takes nothing from who is heard; nor is one given below it */
    assert_reply(claim(&d->w0, "a", second + 1000, CLAIM), PS_ABORTED, "worker/task:1");
    struct fc_reply refused = claim(&d->w0, "a", second + 1000, CLAIM | RENEW);
    assert_reply(refused, PS_ABORTED, "worker/task:1");
    assert_null(strstr(refused.text, "this session")); /* that is no number of its own */
    assert_reply(claim(&d->w0, "a", first, CLAIM), PS_ABORTED, "this session");
    uint64_t third = granted(&d->w1, "a", second, CLAIM | RENEW);
    assert_true(third > second + 1000);
    assert_true(granted(&d->w1, "a", third + 7000, CLAIM | RENEW) > third + 7000);
    assert_true(granted(&d->w0, "a", third + 90000, 0) > third + 90000); /* an owner knew of that one */
    assert_reply(claim(&d->w1, "a", PS_CHIEF_NUMBER_MAX + 1, CLAIM), PS_INVALID_ARGUMENT, "chief number");
    assert_reply(claim(&d->w1, "a", PS_CHIEF_NUMBER_MAX + 1, 0), PS_INVALID_ARGUMENT, "chief number");
    assert_reply(claim(&d->w1, "a b", 0, CLAIM), PS_INVALID_ARGUMENT, "a b");
}

static void at_noon(struct psd_task_config *config)
{
    config->unix_ms = 1800000000000;
}

TEST(test_numbers_are_the_time)
{
    struct env *e = env_new(at_noon);
    shell_pass(&e->net, 70);
    uint64_t first = fc_chief(&e->c);
    assert_int_equal(first, UINT64_C(1800000000070));
    assert_int_equal(fc_chief(&e->c), first + 1);
    shell_pass(&e->net, 30);
    assert_int_equal(fc_chief(&e->c), first + 30);
}

TEST(test_beat_tells_the_chief)
{
    struct duo *d = duo_new();
    ps_v1_BeatAnswer a;
    assert_applied(beat_about(&d->w1, "a", &a));
    assert_true(a.flags == 2 && a.chief_number == 0 && a.chief_left_ms == 0 && a.chief.size == 0);
    uint64_t number = granted(&d->w0, "a", 0, CLAIM | PREFERRED);
    uint64_t other = granted(&d->w0, "b", 0, CLAIM | PREFERRED);
    shell_pass(&d->e->net, 1500);
    assert_applied(beat_about(&d->w1, "a", &a));
    assert_true(a.flags == 3 && a.chief_number == number && a.chief_left_ms == PS_LEASE_MS - 1500);
    assert_memory_equal(a.chief.bytes, "/job:worker/task:0@here:4000", a.chief.size);
    assert_int_equal(a.chief.size, 28);
    assert_applied(beat_about(&d->w1, "", &a)); /* of all */
    assert_true(a.flags == 3 && a.chief_number == other && a.chief_left_ms == 0);
    pass_heard(d->e, &d->w1, PS_LEASE_MS);
    assert_applied(beat_about(&d->w1, "a", &a));
    assert_true(a.flags == 2 && a.chief_number == number && a.chief_left_ms == 0 && a.chief.size == 0);
    assert_reply(beat_about(&d->w1, "a b", &a), PS_INVALID_ARGUMENT, "a b");
}

/* A number that this directory has not given comes to it as an owner: nobody holds the lease with a lower one. */
/* It is ready when its chief says so under the number that it has now, and as long as that one is there. */
TEST(test_beat_tells_that_the_chief_has_made_it_ready)
{
    struct duo *d = duo_new();
    ps_v1_BeatAnswer a;
    uint64_t number = granted(&d->w0, "a", 0, 0);
    assert_applied(beat_about(&d->w0, "a", &a));
    assert_applied(beat_about(&d->w1, "a", &a));
    assert_true(a.flags == 3 && a.chief_ready == 0);
    assert_applied(beat_ready(&d->w1, "a", number, &a)); /* it is not the chief */
    assert_int_equal(a.chief_ready, 0);
    assert_applied(beat_ready(&d->w0, "a", number - 1, &a)); /* under an older number */
    assert_int_equal(a.chief_ready, 0);
    assert_applied(beat_ready(&d->w0, "a", number, &a));
    assert_applied(beat_about(&d->w1, "a", &a));
    assert_int_equal(a.chief_ready, number);
    assert_applied(beat_about(&d->w1, "b", &a));
    assert_int_equal(a.chief_ready, 0);
    fc_cut(&d->w0); /* its lease goes on, but nobody knows whether it lives */
    assert_applied(beat_about(&d->w1, "a", &a));
    assert_true(a.flags == 3 && a.chief_ready == 0);
    assert_int_equal(fc_connect(&d->w0), PS_OK);
    assert_applied(beat_ready(&d->w0, "a", number, &a));
    assert_int_equal(a.chief_ready, number);
    number = granted(&d->w0, "a", 0, 0); /* it makes it ready again */
    assert_applied(beat_about(&d->w1, "a", &a));
    assert_true(a.flags == 3 && a.chief_number == number && a.chief_ready == 0);
    assert_applied(beat_ready(&d->w0, "a", number, &a));
    assert_int_equal(a.chief_ready, number);
    psd_chief_note_failure(psd_chief_find(&d->e->t->core->chiefs, "a")); /* its rounds have failed */
    assert_applied(beat_ready(&d->w0, "a", number, &a));
    assert_int_equal(a.chief_ready, 0);
}

TEST(test_higher_number_ends_the_lease)
{
    struct duo *d = duo_new();
    ps_v1_BeatAnswer a;
    ps_v1_OpenAnswer v = fc_created(&d->w0, "v", PS_F32, N, ps_sgd(1));
    uint64_t number = granted(&d->w0, "localhost", 0, CLAIM | PREFERRED);
    assert_applied(init_as(&d->w0, &v, 1, number)); /* its own */
    assert_applied(beat_about(&d->w0, "localhost", &a));
    assert_true(a.chief_number == number && a.chief_left_ms > 0);
    assert_applied(seal(&d->w1, &v, number + 5, true));
    pass_heard(d->e, &d->w0, PS_LEASE_MS);
    assert_applied(beat_about(&d->w0, "localhost", &a));
    assert_true(a.chief_number == number + 5 && a.chief_left_ms == 0 && a.chief.size == 0);
    assert_reply(claim(&d->w0, "localhost", number, CLAIM), PS_ABORTED, "has number");
    assert_true(granted(&d->w0, "localhost", 0, CLAIM) > number + 5);
}

/* ---- a directory that begins anew ---- */

TEST(test_directory_begins_anew)
{
    struct fc w0, w1;
    ps_v1_CreateAnswer made;
    ps_v1_OpenAnswer v;
    struct cl *cl = cl_new();
    fc_connect_as(&w0, cl->ps0, 20, "worker", 0);
    assert_int_equal(cl_create(cl, "x", "ps", 1, false, &made), PS_OK);
    assert_int_equal(fc_open(&cl->at1, "x", &v), PS_OK);
    uint64_t number = granted(&w0, "localhost", 0, CLAIM | PREFERRED);
    assert_applied(seal(&cl->at1, &v, number, true)); /* the owner has heard of it */
    assert_int_equal(state(&cl->at1, "x").container_chief, number);
    cl_restart_directory(cl);
    fc_connect_as(&w0, cl->ps0, 21, "worker", 0);
    fc_connect_as(&w1, cl->ps0, 22, "worker", 1);
    assert_reply(claim(&w1, "localhost", 0, CLAIM), PS_UNAVAILABLE, "/job:ps/task:1");
    assert_int_not_equal(claim(&w0, "localhost", number, CLAIM).retry_after_ms, 0);
    uint64_t before = cl->ps0->now;
    PSI_IGNORE(cl_join(cl, cl->ps1)); /* its end is of no use here */
    uint64_t left = PS_LEASE_MS - (cl->ps0->now - before);
    assert_not_yet(&w1, "localhost", CLAIM, left, "");
    assert_not_yet(&w1, "localhost", CLAIM | PREFERRED, left, "");
    assert_reply(claim(&w1, "localhost", number - 1, CLAIM), PS_ABORTED, "has number");
    assert_int_equal(granted(&w0, "localhost", number, CLAIM), number); /* it says so */
    for (int i = 0; i < 11; i++) {
        assert_applied(fc_beat(&w1, -1, NULL));
        cl_pass(cl, PS_LEASE_MS / 10);
    }
    assert_true(granted(&w1, "localhost", 0, CLAIM) > number); /* and is not heard any more */
}

/* ---- at owners ---- */

TEST(test_fence)
{
    struct duo *d = duo_new();
    ps_v1_OpenAnswer v = fc_created(&d->w0, "v", PS_F32, N, ps_sgd(1));
    uint64_t old = granted(&d->w0, "", 0, 0);
    uint64_t now = granted(&d->w1, "b", 0, 0);
    assert_applied(init_as(&d->w0, &v, 1, old)); /* a chief of another container is none here */
    assert_applied(seal(&d->w1, &v, now, true));
    v = state(&d->w0, "v");
    assert_true(!v.sealed && v.container_chief == now && v.provisional == old && v.chief_number == old && v.seal_number == 0);
    assert_reply(seal(&d->w0, &v, old, false), PS_ABORTED, "worker/task:1");
    assert_reply(seal(&d->w0, &v, old, true), PS_ABORTED, "worker/task:1");
    assert_reply(init_as(&d->w0, &v, 2, old), PS_ABORTED, "worker/task:1");
    assert_reply(assign_as(&d->w0, &v, 2, old), PS_ABORTED, "worker/task:1");
    assert_true(value_of(&d->w0, &v) == 1);
    ps_v1_OpenAnswer u = fc_created(&d->w0, "u", PS_F32, N, ps_sgd(1));
    assert_applied(seal(&d->w1, &u, now, true)); /* one without a value can be fenced, but not sealed */
    assert_reply(seal(&d->w1, &u, now, false), PS_FAILED_PRECONDITION, "UNINITIALIZED");
    assert_reply(seal(&d->w1, &u, PS_CHIEF_NUMBER_MAX + 1, true), PS_INVALID_ARGUMENT, "chief number");
    assert_applied(seal(&d->w1, &v, now, false));
    v = state(&d->w0, "v");
    assert_true(v.sealed && v.seal_number == now && v.provisional == 0);
    assert_applied(seal(&d->w1, &v, now + 5, false)); /* who was first counts */
    assert_int_equal(state(&d->w0, "v").seal_number, now);
}

TEST(test_what_a_chief_gives)
{
    struct duo *d = duo_new();
    ps_v1_OpenAnswer v = fc_created(&d->w0, "v", PS_F32, N, ps_sgd(1));
    assert_applied(assign_as(&d->w0, &v, 3, 30));
    v = state(&d->w0, "v");
    assert_true(v.provisional == 30 && v.container_chief == 30 && v.giver.size == 8);
    assert_memory_equal(v.giver.bytes, d->w0.session, 8);
    assert_applied(init_as(&d->w0, &v, 1, 30)); /* its own INIT leaves it */
    assert_true(value_of(&d->w0, &v) == 3);
    assert_applied(init_as(&d->w1, &v, 4, 40)); /* a newer chief's does not */
    assert_true(value_of(&d->w0, &v) == 4);
    v = state(&d->w0, "v");
    assert_true(v.provisional == 40 && v.giver.size == 0 && v.version == 1);
    assert_reply(assign_as(&d->w0, &v, 3, 30), PS_ABORTED, "worker/task:1");
    assert_applied(assign_as(&d->w1, &v, 5, 40));
    assert_applied(init_as(&d->w1, &v, 1, 40));
    assert_applied(assign_as(&d->w0, &v, 6, 60));
    assert_true(value_of(&d->w0, &v) == 6);
    assert_applied(seal(&d->w0, &v, 60, false));
    assert_reply(assign_as(&d->w1, &v, 7, 70), PS_FAILED_PRECONDITION, "the model is ready");
    assert_applied(init_as(&d->w1, &v, 7, 70)); /* its hyperparameters */
    assert_true(value_of(&d->w0, &v) == 6);
    assert_applied(assign_as(&d->w1, &v, 8, 0)); /* not as a chief */
    v = state(&d->w0, "v");
    assert_true(v.sealed && v.seal_number == 60 && v.provisional == 0);
    assert_memory_equal(v.giver.bytes, d->w0.session, 8);
}

/* A newer chief's INIT leaves an initial value and makes it its own: it is of one model with what that chief seals beside it. */
TEST(test_initial_value_of_an_older_chief)
{
    struct duo *d = duo_new();
    ps_v1_OpenAnswer v = fc_created(&d->w0, "v", PS_F32, N, ps_sgd(1));
    assert_applied(init_as(&d->w0, &v, 1, 30));
    assert_applied(init_as(&d->w1, &v, 2, 40));
    v = state(&d->w0, "v");
    assert_true(v.provisional == 40 && v.version == 0 && value_of(&d->w0, &v) == 1);
    assert_applied(init_as(&d->w0, &v, 3, 0)); /* not as a chief */
    assert_int_equal(state(&d->w0, "v").provisional, 40);
}

/* It is nobody's to replace once others have changed it. */
TEST(test_changed_by_others)
{
    float one[N];
    struct duo *d = duo_new();
    ps_v1_OpenAnswer v = fc_created(&d->w0, "v", PS_F32, N, ps_sgd(1));
    assert_applied(assign_as(&d->w0, &v, 3, 30));
    assert_applied(fc_push(&d->w1, PS_OP_PUSH, &v, filled(one, N, 1), 1, 0));
    assert_int_equal(state(&d->w0, "v").provisional, 0);
    assert_applied(init_as(&d->w1, &v, 1, 40));
    assert_true(value_of(&d->w0, &v) == 2);
    v = fc_created(&d->w0, "u", PS_F32, N, ps_sgd(1));
    assert_applied(assign_as(&d->w0, &v, 3, 40));
    assert_applied(assign_as(&d->w1, &v, 9, 0));
    assert_int_equal(state(&d->w0, "u").provisional, 0);
    assert_memory_equal(state(&d->w0, "u").giver.bytes, d->w1.session, 8);
    assert_applied(init_as(&d->w1, &v, 1, 50));
    assert_true(value_of(&d->w0, &v) == 9);
}

/* An ASSIGN in two frames, between which something happens; whether it takes effect is decided then. */
TEST(test_number_at_the_swap)
{
    enum { LARGE = PS_SEGMENT_BYTES / 4 + N };
    static float values[LARGE];
    for (int i = 0; i < 4; i++) {
        struct duo *d = duo_new();
        ps_v1_OpenAnswer v = fc_created(&d->w0, "v", PS_F32, LARGE, ps_sgd(1));
        assert_applied(init_as(&d->w0, &v, 1, 30));
        struct fc_part part = {.op = PS_OP_ASSIGN,
                               .dtype = PS_F32,
                               .number = d->w0.next_number++,
                               .handle = v.handle,
                               .total = LARGE,
                               .payload = filled(values, LARGE, 7),
                               .payload_bytes = PS_SEGMENT_BYTES,
                               .scale = 1,
                               .from = 30,
                               .first = true};
        if (i == 3) { /* late from the beginning: refused there */
            assert_applied(seal(&d->w1, &v, 31, true));
            fc_send_part(&d->w0, &part);
            assert_reply(fc_take(&d->w0, NULL), PS_ABORTED, "newer chief");
            continue;
        }
        fc_send_part(&d->w0, &part);
        if (i == 1) {
            assert_applied(seal(&d->w1, &v, 31, true));
        } else if (i == 2) {
            assert_applied(seal(&d->w0, &v, 30, false));
        }
        fc_send_frames(&d->w0, &part, PS_SEGMENT_BYTES / 4, 0);
        assert_reply(fc_take(&d->w0, NULL),
                     i == 0   ? PS_OK
                     : i == 1 ? PS_ABORTED
                              : PS_FAILED_PRECONDITION,
                     i == 0   ? ""
                     : i == 1 ? "newer chief"
                              : "is ready");
        assert_true(value_of(&d->w1, &v) == (i == 0 ? 7 : 1));
    }
}

TEST(test_reset_by_a_chief)
{
    struct duo *d = duo_new();
    ps_v1_OpenAnswer v = fc_ready(&d->w0, "v", PS_F32, N, ps_sgd(1), 1);
    uint64_t old = granted(&d->w0, "", 0, 0);
    uint64_t now = granted(&d->w1, "", 0, 0);
    assert_reply(reset_as(&d->w0, "", old), PS_ABORTED, "worker/task:1");
    assert_true(value_of(&d->w0, &v) == 1); /* nothing is done */
    assert_applied(reset_as(&d->w1, "", now));
    assert_int_equal(fc_open(&d->w0, "v", &v), PS_NOT_FOUND);
    v = fc_created(&d->w0, "v", PS_F32, N, ps_sgd(1));
    assert_int_equal(v.container_chief, now); /* it outlives that */
    assert_reply(init_as(&d->w0, &v, 1, old), PS_ABORTED, "newer chief");
    assert_applied(reset_as(&d->w0, "", now + 9)); /* of a directory before */
    assert_reply(reset_as(&d->w1, "", now), PS_ABORTED, "newer chief");
    assert_applied(reset_as(&d->w1, "", 0)); /* not as a chief */
}

TEST(test_containers_tell_the_chief)
{
    struct duo *d = duo_new();
    ps_v1_ContainerAnswer a = ps_v1_ContainerAnswer_init_zero;
    ps_v1_OpenAnswer v = fc_created(&d->w0, "v", PS_F32, N, ps_sgd(1));
    assert_applied(init_as(&d->w0, &v, 1, 30));
    for (int i = 0; i < 3; i++) {
        uint64_t number = i == 0 ? 30 : i == 1 ? granted(&d->w0, "", 30, CLAIM) : a.chief_number;
        for (uint64_t at = 0; i == 2 && at < PS_LEASE_MS; at += 1000) {
            assert_applied(fc_beat(&d->w1, -1, NULL));
            shell_pass(&d->e->net, 1000);
        }
        struct wire *back = wire_new();
        assert_applied(fc_list(&d->w1, PS_OP_CONTAINERS, NULL, NULL, back));
        const uint8_t *p = back->data;
        size_t n = back->len;
        assert_true(fc_item(&p, &n, &ps_v1_ContainerAnswer_msg, &a));
        assert_int_equal(a.chief_number, number);
        assert_int_equal(a.chief_left_ms, i == 1 ? PS_LEASE_MS : 0);
        assert_int_equal(a.chief.size, i == 1 ? strlen("/job:worker/task:0@here:4000") : 0);
    }
}

/* The changes of a task are carried out in another one as well. */
static void replay_too(void *ctx, uint64_t position, const struct psd_change *c)
{
    struct psd_task *t = ctx;
    struct psi_buf bytes;
    psi_buf_init(&bytes, 1 << 20);
    assert_int_equal(psd_change_encode(c, &bytes, NULL), PS_OK);
    const uint8_t *p = bytes.data;
    size_t n = bytes.len;
    assert_int_equal(psd_replay(t, &p, &n, NULL), PS_OK);
    assert_int_equal(t->position, position);
    psi_buf_fini(&bytes);
}

/* As many as are kept: one that has nothing makes room for another, also where the changes are replayed; what is there, or is
 * held, stays. */
TEST(test_very_many_containers)
{
    char name[32];
    struct duo *d = test_alloc(sizeof(*d));
    d->e = env_new(NULL);
    const struct env *replayed = env_new(NULL);
    psd_task_consumer(d->e->t->core, replay_too, replayed->t->core);
    fc_connect_as(&d->w0, d->e->t, 2, "worker", 0);
    fc_connect_as(&d->w1, d->e->t, 3, "worker", 1);
    ps_v1_OpenAnswer v = fc_created(&d->w0, "v", PS_F32, N, ps_sgd(1));
    assert_applied(init_as(&d->w0, &v, 1, 1));
    PSI_IGNORE(granted(&d->w0, "held", 0, CLAIM | PREFERRED));
    for (uint32_t i = 0; i < PS_CHIEFS_MAX; i++) {
        snprintf(name, sizeof(name), "c%u", i);
        assert_applied(claim(&d->w1, name, 0, CLAIM));
    }
    assert_int_equal(psi_map_count(&d->e->t->core->chiefs), PS_CHIEFS_MAX);
    assert_int_equal(psd_chief_number(&d->e->t->core->chiefs, "localhost"), 1);
    assert_int_not_equal(psd_chief_number(&d->e->t->core->chiefs, "held"), 0);
    assert_same_chiefs(d->e->t->core, replayed->t->core);
}
