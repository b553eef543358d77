/* SPDX-License-Identifier: Apache-2.0 */
/* worker/core/variable.c: get-or-create, batches, what a task that came back means, being lost, LOOKUP. */
#include "fake_test.h"

#include <stdlib.h>

#define SPEC "ps=a:1,b:2"

static struct psi_var *new_var(struct fake *f, const char *name, const char *device)
{
    ps_variable_spec spec = {
        .struct_bytes = sizeof(spec), .name = name, .dtype = PS_F32, .optimizer = ps_sgd(0.5), .device = device};
    spec.shape.rank = 1;
    spec.shape.dims[0] = 4;
    struct psi_var *var = NULL;
    struct psi_err err = {0};
    if (psi_client_variable(f->c, &spec, false, &var, &err) != PS_OK) {
        fail_msg("%s", err.text);
    }
    return var;
}

static uint32_t retry_after_ms; /* in answers */

/* Answer the CREATE that is next: item i lives at tasks[i], or has that status. Returns the number of items. */
static uint32_t answer_create(struct fake *f, const uint32_t *tasks, ps_status st, const char *text)
{
    struct fake_frame *frame = fake_take(f, 0, PS_OP_CREATE);
    const uint8_t *p = frame->payload;
    size_t n = frame->bytes;
    struct psi_buf body;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    uint32_t count = 0;
    for (;;) {
        ps_v1_CreateItem item;
        bool end = false;
        assert_int_equal(psi_list_next(&p, &n, &ps_v1_CreateItem_msg, &item, &end, NULL), PS_OK);
        if (end) {
            break;
        }
        ps_v1_CreateAnswer a = ps_v1_CreateAnswer_init_zero;
        a.index = ++count;
        a.retry_after_ms = retry_after_ms;
        a.status = (uint32_t)st;
        PSI_BYTES_SET(a.text, text);
        PSI_BYTES_SET(a.job, "ps");
        a.task = tasks != NULL ? tasks[count - 1] : item.task;
        assert_int_equal(psi_list_append(&body, &ps_v1_CreateAnswer_msg, &a, NULL), PS_OK);
    }
    struct fake_answer answer = {.body = &body};
    uint64_t id = frame->h.id;
    fake_reply(f, 0, PS_OP_CREATE, id, false, &answer);
    psi_buf_fini(&body);
    return count;
}

/* Three get-or-creates that are pending together: one CREATE, round robin, one OPEN per owner. */
TEST(test_batch)
{
    static struct fake_request get[3];
    struct psi_var *var[3];
    struct fake *f = fake_new(SPEC, "", 0, false);
    for (int i = 0; i < 3; i++) {
        char name[4] = {'v', (char)('0' + i), 0};
        var[i] = new_var(f, name, NULL);
        fake_start(f, &get[i], PSI_REQ_GET, var[i], NULL, NULL, 60000);
    }
    fake_hello(f, 0, 100, 200, NULL, NULL);
    uint32_t items = 0;
    while (items < 3) {
        items += answer_create(f, NULL, PS_OK, "");
    }
    assert_int_equal(var[0]->owner, 0);
    assert_int_equal(var[1]->owner, 1);
    assert_int_equal(var[2]->owner, 0);
    fake_open(f, 0, 9, 77, 1, var[0]);
    fake_hello(f, 1, 101, 201, NULL, NULL);
    fake_open(f, 1, 9, 77, 2, var[1]);
    if (get[2].dones == 0) {
        fake_open(f, 0, 10, 77, 3, var[2]);
    }
    for (int i = 0; i < 3; i++) {
        assert_done(&get[i], PS_OK);
    }
}

/* The parts of a variable are placed in turn and go in one CREATE; when one is sent away, all are named again, and the answers
 * for those that are open change nothing. */
TEST(test_parts_in_one_create)
{
    enum { PARTS = 3 };
    static struct fake_request get[PARTS];
    static const uint32_t tasks[PARTS] = {0, 1, 0};
    struct psi_var *var[PARTS];
    struct fake *f = fake_new(SPEC, "", 0, false);
    fake_begin(f, PSI_REQ_PING, NULL, NULL, NULL, 10);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    for (uint32_t i = 0; i < PARTS; i++) {
        char name[] = {'w', '/', 'p', 'a', 'r', 't', '_', (char)('0' + i), 0};
        const struct psi_part part = {.count = PARTS, .index = i, .rows = 7};
        const struct psi_var_scope scope = {.part = &part};
        ps_variable_spec spec = {.struct_bytes = sizeof(spec), .name = name, .dtype = PS_F32};
        struct psi_err err = {0};
        spec.shape = PS_SHAPE(i == 0 ? 3 : 2);
        assert_ok(psi_client_variable_in(f->c, &spec, &scope, false, &var[i], &err), &err);
    }
    fake_start(f, &get[0], PSI_REQ_GET, var[0], NULL, NULL, 60000);
    assert_int_equal(answer_create(f, tasks, PS_UNAVAILABLE, "the directory waits for /job:ps/task:1"), PARTS);
    fake_start(f, &get[1], PSI_REQ_GET, var[1], NULL, NULL, 60000);
    assert_int_equal(answer_create(f, tasks, PS_OK, ""), PARTS); /* part 0 goes along before its time */
    fake_open(f, 0, 9, 77, 1, var[0]);
    fake_hello(f, 1, 101, 201, NULL, NULL);
    fake_open(f, 1, 9, 77, 2, var[1]);
    assert_done(&get[0], PS_OK);
    assert_done(&get[1], PS_OK);
    assert_int_equal(var[0]->owner, 0);
    assert_int_equal(var[1]->owner, 1);
    fake_start(f, &get[2], PSI_REQ_GET, var[2], NULL, NULL, 60000);
    assert_int_equal(answer_create(f, tasks, PS_OK, ""), PARTS);
    fake_open(f, 0, 10, 77, 3, var[2]);
    assert_done(&get[2], PS_OK);
}

/* A part without the others, and a definition that cannot be. */
TEST(test_parts_that_cannot_be)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_part part = {.count = 3, .index = 1, .rows = 7};
    const struct psi_var_scope scope = {.part = &part};
    ps_variable_spec spec = {.struct_bytes = sizeof(spec), .name = "w/part_1", .dtype = PS_F32};
    struct psi_var *var = NULL;
    struct psi_err err = {0};
    spec.shape = PS_SHAPE(2);
    assert_ok(psi_client_variable_in(f->c, &spec, &scope, false, &var, &err), &err);
    fake_begin(f, PSI_REQ_PING, NULL, NULL, NULL, 10);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    struct fake_request *get = fake_begin(f, PSI_REQ_GET, var, NULL, NULL, 60000);
    assert_int_equal(get->req.status, PS_INTERNAL);
    assert_non_null(strstr(get->err.text, "its other parts are not there"));
    part.index = 2;
    assert_int_equal(psi_client_variable_in(f->c, &spec, &scope, false, &var, &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "its name ends in /part_2"));
    spec.shape = PS_SHAPE(3);
    assert_int_equal(psi_client_variable_in(f->c, &spec, &scope, false, &var, &err), PS_INVALID_ARGUMENT);
}

TEST(test_many_in_one_frame)
{
    enum { MANY = 100 };
    static struct fake_request get[MANY];
    struct fake *f = fake_new(SPEC, "", 0, false);
    fake_begin(f, PSI_REQ_PING, NULL, NULL, NULL, 10);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    for (int i = 0; i < MANY; i++) {
        char name[16];
        snprintf(name, sizeof(name), "v%d", i);
        struct psi_var *var = new_var(f, name, "/job:ps/task:0");
        fake_start(f, &get[i], PSI_REQ_GET, var, NULL, NULL, 60000);
    }
    /* four calls are out, the others wait and then go together */
    uint32_t items = 0;
    for (int i = 0; i < 5; i++) {
        uint32_t n = answer_create(f, NULL, PS_OK, "");
        items += n;
        if (i > 0 && n > 1) {
            assert_int_equal(n, MANY - 4);
        }
    }
    assert_int_equal(items, MANY);
}

/* A directory that says when to come again, and soon, is asked then, without back-off; else 50 ms, doubling. */
TEST(test_create_sent_away)
{
    static const uint32_t said[] = {20, 20, 49, 50, 50, 300, 20, 49, 0, 0};
    static const uint32_t waits[] = {20, 20, 49, 50, 100, 300, 20, 49, 50, 100};
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct fake_request *get = fake_begin(f, PSI_REQ_GET, new_var(f, "w", NULL), NULL, NULL, 60000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
        retry_after_ms = said[i];
        answer_create(f, NULL, PS_UNAVAILABLE, "the directory waits for /job:ps/task:0");
        fake_wait(f, waits[i] - 1);
        assert_null(fake_next(f, 0));
        fake_wait(f, 1);
    }
    retry_after_ms = 0;
    answer_create(f, NULL, PS_INVALID_ARGUMENT, "float32 (5,), asked for as float32 (4,)");
    assert_done(get, PS_INVALID_ARGUMENT);
}

TEST(test_conflict)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct fake_request *get = fake_begin(f, PSI_REQ_GET, new_var(f, "w", NULL), NULL, NULL, 60000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    answer_create(f, NULL, PS_INVALID_ARGUMENT, "float32 (5,), asked for as float32 (4,)");
    assert_int_equal(get->req.status, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(get->err.text, "(5,)"));
    assert_non_null(strstr(get->err.text, "'w'"));
}

/* Not ready: again, until the deadline; then the last answer is the error. */
TEST(test_not_ready)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct fake_request *get = fake_begin(f, PSI_REQ_GET, new_var(f, "w", NULL), NULL, NULL, 1000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    answer_create(f, NULL, PS_UNAVAILABLE, "/job:ps/task:1 is not connected");
    fake_wait(f, 100);
    answer_create(f, NULL, PS_UNAVAILABLE, "/job:ps/task:1 is not connected");
    assert_int_equal(get->dones, 0);
    fake_wait(f, 1000);
    assert_int_equal(get->req.status, PS_UNAVAILABLE);
    assert_non_null(strstr(get->err.text, "/job:ps/task:1 is not connected"));
}

/* A get that timed out names `where` and not the other task. */
static void assert_blamed(const struct fake_request *get, ps_status st, const char *where, const char *other)
{
    assert_int_equal(get->dones, 1);
    assert_int_equal(get->req.status, st);
    if (strstr(get->err.text, where) == NULL || strstr(get->err.text, other) != NULL) {
        fail_msg("not %s: %s", where, get->err.text);
    }
}

/* The owner has not answered the directory; or it has not answered us; or it refuses us: it is named, the directory is not. What
 * the directory said before it was well again is forgotten then. */
TEST(test_blames_the_owner)
{
    const uint32_t at1[] = {1};
    for (int how = 0; how < 3; how++) {
        struct fake *f = fake_new(SPEC, "", 0, false);
        struct psi_var *w = new_var(f, "w", NULL);
        struct fake_request *get = fake_begin(f, PSI_REQ_GET, w, NULL, NULL, 1000);
        fake_hello(f, 0, 100, 200, NULL, NULL);
        answer_create(f, NULL, PS_UNAVAILABLE, "the directory waits for /job:ps/task:0");
        fake_wait(f, 100);
        struct fake_request *late =
            fake_begin(f, PSI_REQ_GET, w, NULL, NULL, 100); /* joins, and is told what the first one was told */
        struct fake_frame *create = fake_next(f, 0);
        ps_v1_Wait m;
        assert_int_equal(psi_msg_decode(&ps_v1_Wait_msg, &m, create->meta, create->h.meta_bytes, NULL), PS_OK);
        assert_in_range(m.timeout_ms, 700, 880); /* enough for its answer to come before our deadline */
        fake_wait(f, 101);
        assert_int_equal(late->req.status, PS_UNAVAILABLE);
        assert_non_null(strstr(late->err.text, "get of 'w': refused for 100 ms: the directory waits for /job:ps/task:0"));
        fake_cut(f, 0);
        fake_hello(f, 0, 100, 200, NULL, NULL);
        answer_create(f, at1, how == 0 ? PS_DEADLINE_EXCEEDED : PS_OK, how == 0 ? "it has not answered" : "");
        if (how > 0) {
            fake_hello(f, 1, 101, 201, NULL, NULL);
        }
        if (how == 2) {
            fake_reply(f, 1, PS_OP_OPEN, fake_take(f, 1, PS_OP_OPEN)->h.id, false,
                       &(struct fake_answer){.status = PS_RESOURCE_EXHAUSTED, .text = "no room"});
        }
        fake_wait(f, 1000);
        assert_blamed(get, how == 2 ? PS_RESOURCE_EXHAUSTED : PS_DEADLINE_EXCEEDED, "get of 'w' at /job:ps/task:1 (b:2)",
                      "task:0");
    }
}

/* Likewise while it is the directory that does not answer, whoever has the variable. */
TEST(test_blames_the_directory)
{
    const uint32_t at1[] = {1};
    struct fake f;
    struct fake_request get;
    fake_init(&f, SPEC, "", 0, false);
    fake_start(&f, &get, PSI_REQ_GET, new_var(&f, "w", NULL), NULL, NULL, 1000);
    fake_hello(&f, 0, 100, 200, NULL, NULL);
    fake_wait(&f, 1000);
    assert_blamed(&get, PS_DEADLINE_EXCEEDED, "get of 'w' at the directory, /job:ps/task:0 (a:1): no answer", "task:1");
    fake_fini(&f);
    fake_init(&f, SPEC, "", 0, false);
    fake_start(&f, &get, PSI_REQ_GET, new_var(&f, "w", NULL), NULL, NULL, 1000);
    fake_hello(&f, 0, 100, 200, NULL, NULL);
    answer_create(&f, at1, PS_DEADLINE_EXCEEDED, "");
    fake_cut(&f, 0);
    fake_wait(&f, 1000);
    assert_blamed(&get, PS_UNAVAILABLE, "get of 'w' at the directory, /job:ps/task:0 (a:1): no connection", "task:1");
    fake_fini(&f);
}

/* A push to a variable that is got again waits for the directory, not for the task that had it. */
TEST(test_push_blames_the_directory)
{
    const float grad[4] = {1, 2, 3, 4};
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 1, "w", 4, 9, 1);
    fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 60000);
    fake_take(f, 1, PS_OP_PUSH);
    fake_reply(f, 1, PS_OP_PUSH, 1, true, &(struct fake_answer){.status = PS_ABORTED, .text = "the container was reset"});
    struct fake_request *again = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 1000);
    fake_take(f, 0, PS_OP_CREATE);
    fake_wait(f, 1000);
    assert_blamed(again, PS_DEADLINE_EXCEEDED, "push of 'w' at /job:ps/task:0 (a:1)", "task:1");
}

/* The owner came back empty between CREATE and OPEN: get-or-create is repeated. */
TEST(test_open_not_found)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = new_var(f, "w", NULL);
    struct fake_request *get = fake_begin(f, PSI_REQ_GET, w, NULL, NULL, 60000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    answer_create(f, NULL, PS_OK, "");
    fake_open(f, 0, 0, 0, 0, w);
    assert_int_equal(get->dones, 0);
    fake_wait(f, 100);
    answer_create(f, NULL, PS_OK, "");
    fake_open(f, 0, 4, 77, 5, w);
    assert_int_equal(get->req.status, PS_OK);
}

/* CREATE is waiting when the connection drops: the same number again. */
TEST(test_create_reconnect)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct fake_request *get = fake_begin(f, PSI_REQ_GET, new_var(f, "w", NULL), NULL, NULL, 60000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    uint64_t id = fake_take(f, 0, PS_OP_CREATE)->h.id;
    fake_cut(f, 0);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    assert_true(fake_take(f, 0, PS_OP_CREATE)->h.id == id);
    fake_reply(f, 0, PS_OP_CREATE, id, false, &(struct fake_answer){.status = PS_INVALID_ARGUMENT, .text = "no"});
    assert_int_equal(get->req.status, PS_INVALID_ARGUMENT);
    assert_null(fake_next(f, 0));
    assert_true(f->acks == 1 && f->acked == id); /* the task may forget it */
}

/* A new life, everything as before (a journal): OPEN comes first, then the push goes on with the new handle. */
TEST(test_new_life_same)
{
    const float grad[4] = {1, 2, 3, 4};
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", 4, 9, 1);
    struct fake_request *push = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 60000);
    fake_cut(f, 0);
    const struct fake_number states[] = {{1, PS_NUMBER_NOT_RECEIVED, 0, 0, 0}, {0}};
    fake_hello(f, 0, 101, 200, states, NULL);
    assert_int_equal(f->task[0].count, 1); /* OPEN and nothing else */
    fake_open(f, 0, 33, 77, 1, w);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_PUSH);
    assert_true(frame->h.handle == 33 && frame->h.id == 1);
    fake_reply(f, 0, PS_OP_PUSH, 1, true, &(struct fake_answer){0});
    assert_int_equal(push->req.status, PS_OK);
}

/* A new life, and the variable is another one: what was sent is unknown, what was not is not applied; then it is gone for good.
 */
static void new_life_other(uint64_t incarnation, uint64_t creation, uint32_t handle)
{
    struct fake f;
    struct fake_request used, sent, waits, later;
    const float grad[4] = {1, 2, 3, 4};
    fake_init(&f, SPEC, "", 0, false);
    struct psi_var *w = fake_get(&f, 0, "w", 4, 9, 1);
    struct psi_var *big = fake_get(&f, 0, "big", PS_FRAME_BODY_MAX / 4 + 4, 10, 2);
    float *src = calloc((size_t)big->elements, 4);
    struct fake_answer a = {0};
    fake_start(&f, &used, PSI_REQ_PUSH, w, grad, NULL, 60000);
    fake_take(&f, 0, PS_OP_PUSH);
    fake_reply(&f, 0, PS_OP_PUSH, 1, true, &a);
    f.task[0].take = 100;
    fake_start(&f, &sent, PSI_REQ_PUSH, w, grad, NULL, 60000);
    fake_cut(&f, 0);
    fake_start(&f, &waits, PSI_REQ_PUSH, w, grad, NULL, 60000);
    assert_int_equal(used.req.status, PS_OK);
    const struct fake_number states[] = {{2, PS_NUMBER_UNKNOWN, 0, 0, 0}, {0}};
    fake_hello(&f, 0, 101, 201, states, NULL);
    fake_open(&f, 0, handle, incarnation, creation, w);
    assert_int_equal(sent.req.status, PS_ABORTED);
    assert_int_equal(sent.req.applied, PS_OUTCOME_UNKNOWN);
    assert_int_equal(waits.req.status, PS_ABORTED);
    assert_int_equal(waits.req.applied, PS_NOTHING_APPLIED);
    assert_non_null(strstr(waits.err.text, "/job:ps/task:0"));
    fake_start(&f, &later, PSI_REQ_PUSH, w, grad, NULL, 60000);
    assert_int_equal(later.req.status, PS_ABORTED);
    assert_null(fake_next(&f, 0));
    free(src);
    fake_fini(&f);
}

TEST(test_new_life_other)
{
    new_life_other(78, 1, 9);
    new_life_other(77, 5, 9);
    new_life_other(0, 0, 0); /* NOT_FOUND */
}

/* The task restarts again while the first OPEN is under way: nothing is sent before a complete one. */
TEST(test_new_life_twice)
{
    const float grad[4] = {1, 2, 3, 4};
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", 4, 9, 1);
    fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 60000);
    fake_cut(f, 0);
    const struct fake_number states[] = {{1, PS_NUMBER_NOT_RECEIVED, 0, 0, 0}, {0}};
    fake_hello(f, 0, 101, 200, states, NULL);
    fake_take(f, 0, PS_OP_OPEN);
    fake_cut(f, 0);
    ps_v1_Hello hello;
    fake_hello(f, 0, 101, 200, states, &hello); /* the life that it has heard of, but nothing is open in it */
    assert_int_equal(f->task[0].count, 1);
    fake_open(f, 0, 33, 77, 1, w);
    assert_true(fake_take(f, 0, PS_OP_PUSH)->h.handle == 33);
}

/* Reset in the same life: the reply says ABORTED, what waits ends too. Before its first use the variable is got again. */
TEST(test_aborted)
{
    const float grad[4] = {1, 2, 3, 4};
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", 4, 9, 1);
    struct fake_request *push = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 60000);
    fake_take(f, 0, PS_OP_PUSH);
    struct fake_answer gone = {.status = PS_ABORTED, .text = "the container was reset"};
    fake_reply(f, 0, PS_OP_PUSH, 1, true, &gone);
    assert_int_equal(push->req.status, PS_ABORTED);
    assert_false(w->open);
    assert_false(w->lost);
    struct fake_request *again = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 60000);
    answer_create(f, NULL, PS_OK, "");
    fake_open(f, 0, 11, 78, 6, w);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_PUSH);
    assert_true(frame->h.handle == 11 && frame->h.id == 2);
    fake_reply(f, 0, PS_OP_PUSH, 2, true, &(struct fake_answer){0});
    assert_int_equal(again->req.status, PS_OK);
    again = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 60000);
    fake_take(f, 0, PS_OP_PUSH);
    fake_reply(f, 0, PS_OP_PUSH, 3, true, &gone);
    assert_int_equal(again->req.status, PS_ABORTED);
    assert_true(w->lost); /* it was in use: an error from now on */
}

/* A task that comes back without what it had is one line, however many variables that were. */
TEST(test_lost_variables_are_one_line)
{
    enum { MANY = 90 }; /* more than the client keeps lines */
    char name[16];
    struct fake *f = fake_new(SPEC, "", 0, false);
    ps_v1_OpenAnswer a = ps_v1_OpenAnswer_init_zero;
    struct psi_buf body;
    for (uint32_t i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "w%u", i);
        PSI_IGNORE(fake_get(f, 0, name, 4, 9 + i, 1 + i)); /* it is f's */
    }
    uint32_t before = f->logs;
    fake_cut(f, 0);
    fake_hello(f, 0, 101, 201, NULL, NULL); /* another life */
    struct fake_frame *open = fake_take(f, 0, PS_OP_OPEN);
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    for (uint32_t i = 0; i < MANY; i++) {
        a.index = i + 1;
        a.status = PS_NOT_FOUND;
        assert_int_equal(psi_list_append(&body, &ps_v1_OpenAnswer_msg, &a, NULL), PS_OK);
    }
    fake_reply(f, 0, PS_OP_OPEN, open->h.id, false, &(struct fake_answer){.body = &body});
    psi_buf_fini(&body);
    fake_run(f);
    assert_string_equal(f->last_event, "variable_lost");
    assert_non_null(strstr(f->last_log, "variables=90"));
    assert_non_null(strstr(f->last_log, "var=w"));
    assert_true(f->logs <= before + 3); /* the connection, the task, and that line */
    fake_wait(f, 2000);
    assert_string_equal(f->last_event, "variable_lost");
}

TEST(test_other_definition_at_open)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = new_var(f, "w", NULL);
    struct fake_request *get = fake_begin(f, PSI_REQ_GET, w, NULL, NULL, 60000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    answer_create(f, NULL, PS_OK, "");
    struct psi_var other = *w;
    other.shape.dims[0] = 5;
    fake_open(f, 0, 4, 77, 5, &other);
    assert_int_equal(get->req.status, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(get->err.text, "(4,)"));
    assert_non_null(strstr(get->err.text, "(5,)"));
}

TEST(test_lookup)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    ps_variable_spec spec = {.struct_bytes = sizeof(spec), .name = "w"};
    struct psi_var *w = NULL;
    struct psi_err err = {0};
    assert_int_equal(psi_client_variable(f->c, &spec, true, &w, &err), PS_OK);
    struct fake_request *find = fake_begin(f, PSI_REQ_LOOKUP, w, NULL, NULL, 60000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    uint64_t id = fake_take(f, 0, PS_OP_FIND)->h.id;
    struct psi_buf body;
    psi_buf_init(&body, 4096);
    ps_v1_CreateAnswer a = {.index = 1, .task = 0};
    PSI_BYTES_SET(a.job, "ps");
    assert_int_equal(psi_list_append(&body, &ps_v1_CreateAnswer_msg, &a, NULL), PS_OK);
    struct fake_answer answer = {.body = &body};
    fake_reply(f, 0, PS_OP_FIND, id, false, &answer);
    struct psi_var as = {.dtype = PS_F64, .shape = {.rank = 2, .dims = {3, 5}}};
    as.optimizer = *ps_adam(0.25);
    fake_open(f, 0, 4, 77, 5, &as);
    assert_int_equal(find->req.status, PS_OK);
    assert_true(w->dtype == PS_F64 && w->elements == 15 && w->optimizer.kind == PS_OPT_ADAM);
    assert_int_equal(psi_client_variable(f->c, &spec, true, &w, &err), PS_OK);
    struct fake_request *none = fake_begin(f, PSI_REQ_LOOKUP, w, NULL, NULL, 60000);
    psi_buf_clear(&body);
    a.status = PS_NOT_FOUND;
    assert_int_equal(psi_list_append(&body, &ps_v1_CreateAnswer_msg, &a, NULL), PS_OK);
    fake_reply(f, 0, PS_OP_FIND, fake_take(f, 0, PS_OP_FIND)->h.id, false, &answer);
    assert_int_equal(none->req.status, PS_NOT_FOUND);
    psi_buf_fini(&body);
}

/* A task says of a scalar that its optimizer has numbers for rows. */
TEST(test_lookup_of_what_cannot_be)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    ps_variable_spec spec = {.struct_bytes = sizeof(spec), .name = "w"};
    struct psi_var *w = NULL;
    assert_int_equal(psi_client_variable(f->c, &spec, true, &w, NULL), PS_OK);
    struct fake_request *find = fake_begin(f, PSI_REQ_LOOKUP, w, NULL, NULL, 60000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    struct psi_buf body;
    psi_buf_init(&body, 4096);
    ps_v1_CreateAnswer a = {.index = 1, .task = 0};
    PSI_BYTES_SET(a.job, "ps");
    assert_int_equal(psi_list_append(&body, &ps_v1_CreateAnswer_msg, &a, NULL), PS_OK);
    fake_reply(f, 0, PS_OP_FIND, fake_take(f, 0, PS_OP_FIND)->h.id, false, &(struct fake_answer){.body = &body});
    struct psi_var as = {.dtype = PS_F32,
                         .optimizer = {.struct_bytes = sizeof(as.optimizer), .kind = PS_OPT_ROWWISE_ADAGRAD, .learning_rate = 1}};
    fake_open(f, 0, 4, 77, 5, &as);
    assert_int_equal(find->req.status, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(find->err.text, "rowwise_adagrad"));
    psi_buf_fini(&body);
}

TEST(test_specs_are_checked)
{
    struct psi_var *var = NULL;
    struct psi_err err = {0};
    struct fake *f = fake_new(SPEC, "", 0, false);
    ps_variable_spec spec = {.struct_bytes = sizeof(spec), .name = "../w", .dtype = PS_F32};
    assert_int_equal(psi_client_variable(f->c, &spec, false, &var, &err), PS_INVALID_ARGUMENT);
    spec.name = "w";
    spec.dtype = PS_DTYPE_NONE;
    assert_int_equal(psi_client_variable(f->c, &spec, false, &var, &err), PS_INVALID_ARGUMENT);
    spec.dtype = PS_F32;
    spec.partitions = 2;
    assert_int_equal(psi_client_variable(f->c, &spec, false, &var, &err), PS_UNIMPLEMENTED);
    spec.partitions = 0;
    spec.device = "/job:ps/task:x";
    assert_int_equal(psi_client_variable(f->c, &spec, false, &var, &err), PS_INVALID_ARGUMENT);
    spec.device = "/job:ps/task:7";
    assert_int_equal(psi_client_variable(f->c, &spec, false, &var, &err), PS_OK);
    struct fake_request *get = fake_begin(f, PSI_REQ_GET, var, NULL, NULL, 1000);
    assert_int_equal(get->req.status, PS_INVALID_ARGUMENT);
}
