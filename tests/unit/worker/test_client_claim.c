/* SPDX-License-Identifier: Apache-2.0 */
/* Another process has the place of this worker: the client says for how long it is kept out, and gives up all tasks in the end.
 */
#include "fake_test.h"

#include "worker/core/client.h"

#define SPEC "ps=a:1,b:2"

/* The directory answers HELLO so; what the HELLO said. */
static ps_v1_Hello refuse(struct fake *f, ps_status st)
{
    ps_v1_Hello m = ps_v1_Hello_init_zero;
    fake_connect(f, 0);
    struct fake_frame *hello = fake_take(f, 0, PS_OP_HELLO);
    assert_int_equal(psi_msg_decode(&ps_v1_Hello_msg, &m, hello->meta, hello->h.meta_bytes, NULL), PS_OK);
    assert_int_equal(m.container.size, strlen("models/one")); /* of fake_task.c */
    assert_memory_equal(m.container.bytes, "models/one", m.container.size);
    fake_reply(f, 0, PS_OP_HELLO, hello->h.id, false,
               &(struct fake_answer){.status = st, .reason = PS_REASON_CONFLICT, .text = "process 1 on h is /job:worker/task:0"});
    return m;
}

TEST(test_kept_out)
{
    struct fake *f = fake_new(SPEC, "worker", 0, false);
    struct fake_request *ping = fake_begin(f, PSI_REQ_PING, NULL, NULL, NULL, 60000);
    assert_int_equal(refuse(f, PS_UNAVAILABLE).kept_out_ms, 0);
    fake_wait(f, 2000);
    uint64_t first = refuse(f, PS_UNAVAILABLE).kept_out_ms;
    assert_in_range(first, 2000, 2999);
    fake_wait(f, 2000);
    assert_true(refuse(f, PS_UNAVAILABLE).kept_out_ms >= first + 2000);
    assert_int_equal(ping->dones, 0);
    fake_wait(f, 2000);
    ps_v1_Hello hello;
    fake_hello(f, 0, 100, 200, NULL, &hello); /* the other one is gone */
    assert_true(hello.kept_out_ms >= first + 4000);
    fake_cut(f, 0);
    fake_hello(f, 0, 100, 200, NULL, &hello);
    assert_int_equal(hello.kept_out_ms, 0);
}

/* What the last BEAT that a task was sent says of the challenge. */
static uint64_t challenge_at(struct fake *f, uint32_t task, uint64_t *out_id)
{
    ps_v1_Beat m = ps_v1_Beat_init_zero;
    const struct fake_task *to = &f->task[task];
    const struct fake_frame *beat = &to->frames[(to->first + to->count - 1) % FAKE_FRAMES];
    assert_true(to->count > 0 && beat->h.op == PS_OP_BEAT);
    assert_int_equal(psi_msg_decode(&ps_v1_Beat_msg, &m, beat->meta, beat->h.meta_bytes, NULL), PS_OK);
    *out_id = beat->h.id;
    assert_null(fake_next(f, task)); /* drops it */
    return m.challenge;
}

/* The directory answers a BEAT, and asks for this number to be brought back. */
static void ask_back(struct fake *f, uint64_t id, uint64_t challenge)
{
    const ps_v1_BeatAnswer a = {.flags = PS_BEAT_DIRECTORY, .challenge = challenge};
    fake_reply_item(f, 0, PS_OP_BEAT, id, &ps_v1_BeatAnswer_msg, &a);
}

/* The number that the directory's answer to a BEAT says comes back with the next ones, to the directory alone and on that
 * connection alone. */
TEST(test_challenge)
{
    uint64_t id = 0;
    struct fake *f = fake_new(SPEC, "worker", 0, false);
    fake_get(f, 1, "w", 1, 5, 9); /* at b; the directory is a */
    fake_wait(f, PS_BEAT_MS + 50);
    assert_int_equal(challenge_at(f, 1, &id), 0);
    assert_int_equal(challenge_at(f, 0, &id), 0);
    ask_back(f, id, 77);
    fake_wait(f, PS_BEAT_MS + 50);
    assert_int_equal(challenge_at(f, 1, &id), 0);
    assert_int_equal(challenge_at(f, 0, &id), 77);
    ask_back(f, id, 0);
    fake_wait(f, PS_BEAT_MS + 50);
    assert_int_equal(challenge_at(f, 1, &id), 0);
    assert_int_equal(challenge_at(f, 0, &id), 77); /* which was heard last */
    fake_cut(f, 0);
    ps_v1_Hello hello;
    fake_hello(f, 0, 100, 200, NULL, &hello);
    fake_wait(f, PS_BEAT_MS + 50);
    assert_int_equal(challenge_at(f, 0, &id), 0);
}

TEST(test_refused_everywhere)
{
    const float g = 1;
    static struct fake_request push[2];
    struct fake *f = fake_new(SPEC, "worker", 0, false);
    struct psi_var *w = fake_get(f, 1, "w", 1, 5, 9); /* at b; the directory is a */
    fake_start(f, &push[0], PSI_REQ_PUSH, w, &g, NULL, 60000);
    assert_non_null(fake_take(f, 1, PS_OP_PUSH));
    fake_cut(f, 0);
    assert_int_equal(refuse(f, PS_UNAVAILABLE).kept_out_ms, 0);
    assert_int_equal(push[0].dones, 0);
    fake_wait(f, 2000);
    PSI_IGNORE(refuse(f, PS_FAILED_PRECONDITION)); /* looked at above */
    assert_int_equal(push[0].dones, 1);
    assert_int_equal(push[0].req.applied, PS_OUTCOME_UNKNOWN);
    assert_int_equal(push[0].err.reason, PS_REASON_CONFLICT);
    fake_start(f, &push[1], PSI_REQ_PUSH, w, &g, NULL, 60000);
    assert_int_equal(push[1].dones, 1);
    assert_int_equal(push[1].req.status, PS_FAILED_PRECONDITION);
    assert_int_equal(push[1].req.applied, PS_NOTHING_APPLIED);
    assert_non_null(strstr(push[1].err.text, "process 1 on h"));
    fake_wait(f, 3000);
    assert_int_equal(f->c->dial_count, 0);
}

/* A push-pull whose push was applied and whose values are still being pulled when the session is refused for good: it is not told
 * that nothing was applied. */
TEST(test_refused_while_values_are_pulled)
{
    float values = 0;
    const float g = 1;
    struct fake *f = fake_new(SPEC, "worker", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", 1, 5, 9);
    const struct fake_request *both = fake_begin(f, PSI_REQ_PUSH_PULL, w, &g, &values, 60000);
    fake_reply(f, 0, PS_OP_PUSHPULL, fake_take(f, 0, PS_OP_PUSHPULL)->h.id, true,
               &(struct fake_answer){.version = 3, .position = 5});
    assert_int_equal(both->dones, 0); /* its values are asked for */
    fake_cut(f, 0);
    PSI_IGNORE(refuse(f, PS_FAILED_PRECONDITION)); /* looked at above */
    assert_int_equal(both->dones, 1);
    assert_int_equal(both->req.status, PS_FAILED_PRECONDITION);
    assert_int_equal(both->req.applied, PS_MAYBE_PARTLY_APPLIED);
}
