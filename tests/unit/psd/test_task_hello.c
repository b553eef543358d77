/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HELLO and the record (docs/PROTOCOL.md §2): refusals that name both sides, what becomes of every listed number, two connections
 * of one session, records that end, GOODBYE, session_keep, the cap on sessions, draining.
 */
#include "task_test.h"

#include "common/cluster.h"

static float ones[40000];

/* A push in three frames, of which the first `frames` are sent; returns its number. */
static uint64_t begin_push(struct env *e, const ps_v1_OpenAnswer *v, uint32_t frames)
{
    struct fc_part part = {.op = PS_OP_PUSH, .dtype = PS_F32, .handle = v->handle, .total = 40000, .scale = 1};
    uint64_t number = e->c.next_number++;
    for (uint32_t i = 0; i < frames; i++) {
        part.number = number;
        part.offset = i * 16384;
        part.payload = filled(ones, 40000, 1);
        part.payload_bytes = i < 2 ? SEGMENT : 160000 - 2 * SEGMENT;
        part.first = i == 0;
        part.last = i == 2;
        fc_send_part(&e->c, &part);
    }
    return number;
}

static void continue_push(struct env *e, const ps_v1_OpenAnswer *v, uint64_t number, uint64_t from)
{
    struct fc_part whole = {.op = PS_OP_PUSH, .dtype = PS_F32, .handle = v->handle, .total = 40000, .scale = 1};
    whole.number = number;
    whole.payload = filled(ones, 40000, 1);
    fc_send_frames(&e->c, &whole, from, SEGMENT);
}

TEST(test_answer_says_who_and_what)
{
    struct env *e = env_new(NULL);
    const ps_v1_HelloAnswer *a = &e->c.hello;
    assert_int_equal(a->protocol, 1);
    assert_int_equal(a->life, psd_task_life(e->t->core));
    assert_int_not_equal(a->record, 0);
    assert_int_equal(a->window, PS_WINDOW);
    assert_int_equal(a->task_count, 1);
    assert_int_equal(a->lease_ms, PS_LEASE_MS);
    assert_int_equal(a->beat_ms, PS_BEAT_MS);
    assert_memory_equal(a->job.bytes, "ps", 2);
    assert_memory_equal(a->directory_job.bytes, "ps", 2);
    assert_memory_equal(a->cluster_name.bytes, "psd", 3);
    uint64_t record = a->record;
    fc_cut(&e->c);
    assert_int_equal(fc_connect(&e->c), PS_OK);
    assert_int_equal(e->c.hello.record, record); /* it outlives the connection */
}

static void assert_refused(struct env *e, const struct fc_hello *hello, ps_status st, const char *text)
{
    assert_int_equal(fc_hello(&e->c, hello), st);
    if (strstr(e->c.hello_reply.text, text) == NULL) {
        fail_msg("'%s' is not in '%s'", text, e->c.hello_reply.text);
    }
    assert_true(shell_is_closed(e->c.conn));
    assert_true(shell_logged(e->t, "hello_refused"));
}

TEST(test_refusals)
{
    struct fc_hello h;
    struct psi_cluster cluster;
    struct psi_err err;
    struct env *e = env_new_unconnected(NULL);
    fc_hello_default(&e->c, &h);
    h.m.protocol = 2;
    assert_refused(e, &h, PS_INVALID_ARGUMENT, "VERSION");
    fc_hello_default(&e->c, &h);
    h.m.role = 7;
    assert_refused(e, &h, PS_INVALID_ARGUMENT, "role 7");
    fc_hello_default(&e->c, &h);
    h.m.needs = PS_FEATURES_KNOWN | UINT64_C(1) << 40;
    assert_refused(e, &h, PS_UNIMPLEMENTED, "bits 0x10000000000");
    assert_int_equal(e->c.hello_reply.reason, PS_REASON_FEATURE);
    for (unsigned size = 0; size < 16; size += 5) {
        fc_hello_default(&e->c, &h);
        h.m.session.size = (pb_size_t)size;
        assert_refused(e, &h, PS_INVALID_ARGUMENT, "16");
    }
    fc_hello_default(&e->c, &h);
    PSI_IGNORE(PSI_BYTES_SET(h.m.believed_job, "ps")); /* fits */
    h.m.believed_task = 1;
    assert_refused(e, &h, PS_FAILED_PRECONDITION, "/job:ps/task:1");
    assert_non_null(strstr(e->c.hello_reply.text, "/job:ps/task:0"));
    PSI_IGNORE(PSI_BYTES_SET(h.m.believed_job, "worker")); /* fits */
    h.m.believed_task = 0;
    h.m.connection++;
    assert_refused(e, &h, PS_FAILED_PRECONDITION, "/job:worker/task:0");
    psi_cluster_init(&cluster);
    assert_int_equal(psi_cluster_parse(&cluster, "ps=127.0.0.1:1,127.0.0.1:2", &err), PS_OK);
    fc_hello_default(&e->c, &h);
    h.m.cluster_hash = psi_cluster_hash(&cluster);
    assert_refused(e, &h, PS_FAILED_PRECONDITION, "1 ps tasks");
    psi_cluster_fini(&cluster);
    psi_cluster_init(&cluster);
    assert_int_equal(psi_cluster_parse(&cluster, "ps=127.0.0.1:7", &err), PS_OK);
    fc_hello_default(&e->c, &h);
    h.m.cluster_hash = psi_cluster_hash(&cluster);
    PSI_IGNORE(PSI_BYTES_SET(h.m.believed_job, "ps")); /* fits */
    assert_int_equal(fc_hello(&e->c, &h), PS_OK);      /* the number of ps tasks counts, not their addresses */
    psi_cluster_fini(&cluster);
    assert_int_equal(psd_task_link_count(e->t->core), 1);
}

TEST(test_features_of_both)
{
    struct fc_hello h;
    struct env *e = env_new_unconnected(NULL);
    fc_hello_default(&e->c, &h);
    h.m.features = UINT64_MAX; /* of a newer version: ignored */
    h.m.needs = PS_FEATURE_REASONS;
    assert_int_equal(fc_hello(&e->c, &h), PS_OK);
    assert_int_equal(e->c.hello.features, PS_FEATURES_KNOWN);
    assert_int_equal(e->c.hello.needs, 0);
    fc_hello_default(&e->c, &h);
    h.m.features = 0;
    assert_int_equal(fc_hello(&e->c, &h), PS_OK);
    assert_int_equal(e->c.hello.features, 0);
}

TEST(test_unresolved_list_is_checked)
{
    static const struct {
        uint64_t numbers[3];
        uint32_t count;
    } bad[] = {{{0}, 1}, {{5, 5}, 2}, {{5, 4}, 2}, {{1, 2, 2}, 3}};
    struct fc_hello h;
    struct env *e = env_new_unconnected(NULL);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        fc_hello_default(&e->c, &h);
        memcpy(h.unresolved, bad[i].numbers, sizeof(bad[i].numbers));
        h.unresolved_count = bad[i].count;
        h.abandoned[0] = true; /* a message of default values only would end the list */
        assert_refused(e, &h, PS_INVALID_ARGUMENT, "rise");
    }
    fc_hello_default(&e->c, &h);
    for (uint32_t i = 0; i < PS_WINDOW; i++) { /* as many as there may be */
        h.unresolved[i] = UINT64_C(1) << 40 | i;
    }
    h.unresolved_count = PS_WINDOW;
    h.m.next_number = UINT64_C(1) << 41;
    assert_int_equal(fc_hello(&e->c, &h), PS_OK);
    assert_int_equal(e->c.number_items, PS_WINDOW);
}

/* One more than 256: the list does not fit struct fc_hello, so its frame is made here. */
TEST(test_too_many_unresolved)
{
    struct fc_hello h;
    uint8_t meta[PS_META_BYTES_MAX] = {0};
    size_t meta_bytes = 0;
    struct env *e = env_new_unconnected(NULL);
    struct wire *w = wire_new(), *body = wire_new();
    fc_hello_default(&e->c, &h);
    assert_int_equal(psi_msg_encode(&ps_v1_Hello_msg, &h.m, meta, sizeof(meta), &meta_bytes, NULL), PS_OK);
    for (uint32_t i = 0; i < PS_WINDOW + 1; i++) {
        ps_v1_UnresolvedItem item = {.number = i + 1};
        wire_item(body, &ps_v1_UnresolvedItem_msg, &item);
    }
    fc_frame(&e->c, w, PS_OP_HELLO, 0, 0, 0, meta, (uint32_t)meta_bytes, body);
    e->c.conn = shell_connect(e->t);
    shell_send(e->c.conn, w);
    assert_reply(fc_take(&e->c, NULL), PS_INVALID_ARGUMENT, "256");
    assert_true(shell_is_closed(e->c.conn));
}

/* The states that a listed number can have, all in one HELLO. */
TEST(test_every_state_of_a_number)
{
    struct fc_hello h;
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer w = fc_ready(&e->c, "w", PS_F32, 40000, ps_sgd(1), 0);            /* number 1 */
    ps_v1_OpenAnswer step = fc_ready(&e->c, "step", PS_I64, 1, ps_no_optimizer(), 41); /* 2 */
    int64_t one = 1;
    struct fc_reply add = fc_push(&e->c, PS_OP_ADD, &step, &one, 1, 0); /* 3 */
    assert_applied(add);
    assert_reply(fc_push(&e->c, PS_OP_PUSH, &step, &one, 1, 0), PS_FAILED_PRECONDITION, "no optimizer"); /* 4 */
    uint64_t torn = begin_push(e, &w, 1);                                                                /* 5 */
    uint64_t going = begin_push(e, &w, 2);                                                               /* 6 */
    assert_applied(fc_abandon(&e->c, torn));
    fc_cut(&e->c);
    fc_hello_default(&e->c, &h);
    h.m.next_number = 9;
    h.unresolved_count = 6;
    for (uint32_t i = 0; i < 6; i++) {
        h.unresolved[i] = 3 + i;
    }
    h.abandoned[5] = true; /* 8: never sent */
    assert_int_equal(fc_hello(&e->c, &h), PS_OK);
    assert_int_equal(e->c.number_items, 6);
    const ps_v1_NumberItem *n = e->c.numbers;
    assert_int_equal(n[0].number, 3);
    assert_int_equal(n[0].state, PS_NUMBER_APPLIED);
    assert_int_equal(n[0].position, add.position);
    assert_int_equal(n[0].version, add.version);
    assert_int_equal(n[0].result.size, 8);
    int64_t result = 0;
    memcpy(&result, n[0].result.bytes, 8);
    assert_int_equal(result, 42);
    assert_int_equal(n[0].incarnation, step.incarnation);
    assert_int_equal(n[1].state, PS_NUMBER_REFUSED);
    assert_int_equal(n[1].status, PS_FAILED_PRECONDITION);
    assert_int_equal(n[1].applied, PS_NOTHING_APPLIED);
    assert_non_null(memmem(n[1].text.bytes, n[1].text.size, "no optimizer", 12));
    assert_int_equal(n[2].state, PS_NUMBER_ABANDONED);
    assert_int_equal(n[3].number, going);
    assert_int_equal(n[3].state, PS_NUMBER_IN_PROGRESS);
    assert_int_equal(n[3].offset, 32768);
    assert_int_equal(n[4].state, PS_NUMBER_NOT_RECEIVED);
    assert_int_equal(n[5].state, PS_NUMBER_ABANDONED);
    /* 6 goes on where it stands, 7 is sent now, 8 never counts */
    continue_push(e, &w, going, 32768);
    assert_applied(fc_take(&e->c, NULL));
    continue_push(e, &w, 7, 0);
    assert_applied(fc_take(&e->c, NULL));
    continue_push(e, &w, 8, 0);
    assert_reply(fc_take(&e->c, NULL), PS_ABORTED, "abandoned");
    struct peek p = peek_at(e->t, "w");
    assert_floats(p.value, 0, 16384, -3); /* the torn one's prefix stays */
    assert_floats(p.value, 16384, 40000, -2);
    assert_int_equal(p.version, 3);
}

/* In progress and below `next` but not listed, or listed as abandoned: it ends there, its prefix counted as torn. */
TEST(test_torn_at_hello)
{
    for (int how = 0; how < 3; how++) {
        struct fc_hello h;
        ps_v1_InfoAnswer info;
        struct env *e = env_new(NULL);
        ps_v1_OpenAnswer w = fc_ready(&e->c, "w", PS_F32, 40000, ps_sgd(1), 0);
        uint64_t number = begin_push(e, &w, 1);
        fc_cut(&e->c);
        fc_hello_default(&e->c, &h);
        h.unresolved_count = how == 0 ? 0 : 1;
        h.unresolved[0] = number;
        h.abandoned[0] = how == 1;
        h.m.next_number = how == 2 ? number : number + 1; /* 2: listed, so it goes on whatever `next` says */
        assert_int_equal(fc_hello(&e->c, &h), PS_OK);
        assert_int_equal(fc_info(&e->c, &info), PS_OK);
        assert_int_equal(info.pushes_torn, how == 2 ? 0 : 1);
        assert_int_equal(peek_at(e->t, "w").version, how == 2 ? 0 : 1);
        if (how == 1) {
            assert_int_equal(e->c.numbers[0].state, PS_NUMBER_ABANDONED);
            assert_int_equal(e->c.numbers[0].offset, 16384);
        }
        if (how == 2) {
            continue_push(e, &w, number, 16384);
            assert_applied(fc_take(&e->c, NULL));
            assert_floats(peek_at(e->t, "w").value, 0, 40000, -1);
        }
    }
}

/* Another record name, or none: every listed number is UNKNOWN, what was in progress is torn, and the record goes on. */
TEST(test_unknown_when_the_record_has_another_name)
{
    for (int how = 0; how < 3; how++) {
        struct fc_hello h;
        struct env *e = env_new(NULL);
        ps_v1_OpenAnswer w = fc_ready(&e->c, "w", PS_F32, 40000, ps_sgd(1), 0);
        assert_applied(fc_push(&e->c, PS_OP_PUSH, &w, filled(ones, 40000, 1), 1, 0));
        uint64_t applied = e->c.next_number - 1;
        uint64_t going = begin_push(e, &w, 1);
        fc_cut(&e->c);
        fc_hello_default(&e->c, &h);
        h.m.record = how == 0 ? e->c.record + 1 : how == 1 ? 0 : e->c.record;
        if (how == 2) { /* a task that has never heard of this session */
            memset(h.m.session.bytes, 99, 16);
        }
        h.unresolved[0] = applied;
        h.unresolved[1] = going;
        h.abandoned[1] = how == 1;
        h.unresolved_count = 2;
        assert_int_equal(fc_hello(&e->c, &h), PS_OK);
        assert_int_equal(e->c.numbers[0].state, PS_NUMBER_UNKNOWN);
        assert_int_equal(e->c.numbers[1].state, PS_NUMBER_UNKNOWN);
        if (how < 2) {
            assert_int_equal(peek_at(e->t, "w").version, 2); /* torn */
        }
        assert_int_not_equal(e->c.hello.record, 0);
        assert_int_equal(e->c.hello.record == h.m.record, false);
    }
}

/* FAULTS 27: the higher connection number wins; what the older one had sent and was not applied is dropped. */
TEST(test_two_connections)
{
    struct fc_hello h;
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer w = fc_ready(&e->c, "w", PS_F32, 40000, ps_sgd(1), 0);
    struct shell_conn *first = e->c.conn;
    uint64_t number = begin_push(e, &w, 1);
    /* half a segment of the second frame is with the task, the rest on its way */
    struct fc_part part = {.op = PS_OP_PUSH, .dtype = PS_F32, .handle = w.handle, .total = 40000, .scale = 1};
    struct wire *bytes = wire_new();
    part.number = number;
    part.offset = 16384;
    part.payload = filled(ones, 40000, 1);
    part.payload_bytes = SEGMENT;
    fc_part_frame(&e->c, bytes, &part);
    first->piece = 1000;
    first->frozen = true;
    shell_send(first, bytes);
    first->frozen = false;
    struct wire half = {.data = bytes->data, .len = 30000};
    wire_clear(&first->in);
    shell_send(first, &half);
    fc_hello_default(&e->c, &h);
    h.unresolved[0] = number;
    h.unresolved_count = 1;
    assert_int_equal(fc_hello(&e->c, &h), PS_OK);
    assert_true(shell_is_closed(first));
    assert_int_equal(e->c.numbers[0].offset, 16384);
    continue_push(e, &w, number, 16384);
    assert_applied(fc_take(&e->c, NULL));
    assert_floats(peek_at(e->t, "w").value, 0, 40000, -1);
    /* a connection of the past is refused, and the living one does not notice */
    struct shell_conn *living = e->c.conn;
    uint64_t connection = e->c.connection;
    for (uint64_t old = 0; old <= connection; old += connection) {
        fc_hello_default(&e->c, &h);
        h.m.connection = old;
        assert_refused(e, &h, PS_ABORTED, "older");
        assert_false(shell_is_closed(living));
    }
    e->c.conn = living;
    e->c.connection = connection;
    ps_v1_InfoAnswer info;
    assert_int_equal(fc_info(&e->c, &info), PS_OK);
    assert_int_equal(info.sessions, 1);
}

/* Both bring the rest of a push; the older one's comes behind the HELLO. */
TEST(test_older_connection_is_carried_out_no_more)
{
    struct fc_hello h;
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer w = fc_ready(&e->c, "w", PS_F32, 40000, ps_sgd(1), 0);
    struct shell_conn *older = e->c.conn;
    uint64_t number = begin_push(e, &w, 1);
    older->frozen = true;
    continue_push(e, &w, number, 16384);
    fc_hello_default(&e->c, &h);
    h.unresolved[0] = number;
    h.unresolved_count = 1;
    assert_int_equal(fc_hello(&e->c, &h), PS_OK);
    assert_int_equal(e->c.numbers[0].offset, 16384);
    shell_thaw(older);
    assert_floats(peek_at(e->t, "w").value, 16384, 40000, 0);
    continue_push(e, &w, number, 16384);
    assert_applied(fc_take(&e->c, NULL));
    assert_floats(peek_at(e->t, "w").value, 0, 40000, -1);
    assert_int_equal(peek_at(e->t, "w").version, 1);
}

TEST(test_goodbye_forgets)
{
    struct fc_hello h;
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer w = fc_ready(&e->c, "w", PS_F32, 40000, ps_sgd(1), 0);
    uint64_t number = begin_push(e, &w, 1);
    uint64_t record = e->c.record;
    assert_applied(fc_call(&e->c, PS_OP_GOODBYE, 0, 77, 0, NULL, 0, NULL));
    assert_true(shell_is_closed(e->c.conn));
    assert_int_equal(peek_at(e->t, "w").version, 1); /* torn */
    fc_hello_default(&e->c, &h);
    h.unresolved[0] = number;
    h.unresolved_count = 1;
    assert_int_equal(fc_hello(&e->c, &h), PS_OK);
    assert_int_not_equal(e->c.hello.record, record);
    assert_int_equal(e->c.numbers[0].state, PS_NUMBER_UNKNOWN);
}

TEST(test_session_keep)
{
    ps_v1_InfoAnswer info;
    struct fc other;
    struct env *e = env_new(NULL);
    uint64_t record = e->c.record;
    fc_init(&other, e->t, 2);
    fc_cut(&e->c);
    shell_pass(&e->net, PS_SESSION_KEEP_MS - 200);
    assert_int_equal(fc_connect(&e->c), PS_OK);
    assert_int_equal(e->c.hello.record, record);
    fc_cut(&e->c);
    shell_pass(&e->net, PS_SESSION_KEEP_MS + 100); /* from the first tick after the cut on */
    assert_int_equal(fc_connect(&other), PS_OK);
    assert_int_equal(fc_info(&other, &info), PS_OK);
    assert_int_equal(info.sessions, 1);
    assert_int_equal(fc_connect(&e->c), PS_OK);
    assert_int_not_equal(e->c.hello.record, record);
}

static void few_sessions(struct psd_task_config *config)
{
    config->sessions_max = 3;
}

TEST(test_sessions_max)
{
    struct fc_hello h;
    struct fc clients[5];
    struct env *e = env_new_unconnected(few_sessions);
    for (uint8_t i = 0; i < 5; i++) {
        fc_init(&clients[i], e->t, (uint8_t)(i + 10));
        fc_hello_default(&clients[i], &h);
        PSI_IGNORE(PSI_BYTES_SET(h.m.job, "worker")); /* fits */
        h.m.task = i;
        assert_int_equal(fc_hello(&clients[i], &h), i < 3 ? PS_OK : PS_RESOURCE_EXHAUSTED);
        if (i >= 3) {
            assert_non_null(strstr(clients[i].hello_reply.text, "sessions_max 3, and 64 more of programs without a job"));
            assert_int_not_equal(clients[i].hello_reply.retry_after_ms, 0);
        }
    }
    /* psctl, which belongs to no job, still gets in; a session that is known always does */
    assert_int_equal(fc_connect(&e->c), PS_OK);
    fc_hello_default(&clients[0], &h);
    PSI_IGNORE(PSI_BYTES_SET(h.m.job, "worker")); /* fits */
    assert_int_equal(fc_hello(&clients[0], &h), PS_OK);
    assert_applied(fc_call(&clients[1], PS_OP_GOODBYE, 0, 1, 0, NULL, 0, NULL));
    assert_applied(fc_call(&e->c, PS_OP_GOODBYE, 0, 1, 0, NULL, 0, NULL));
    fc_hello_default(&clients[3], &h);
    PSI_IGNORE(PSI_BYTES_SET(h.m.job, "worker")); /* fits */
    assert_int_equal(fc_hello(&clients[3], &h), PS_OK);
}

TEST(test_draining)
{
    struct fc other;
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer w = fc_ready(&e->c, "w", PS_F32, 40000, ps_sgd(1), 0);
    uint64_t number = begin_push(e, &w, 2);
    fc_init(&other, e->t, 2);
    struct shell_conn *early = shell_connect(e->t);
    psd_task_drain(e->t->core);
    assert_false(psd_task_drained(e->t->core));
    assert_null(shell_connect(e->t));
    /* a connection that was there already: its HELLO is refused */
    struct fc_hello h;
    uint8_t meta[PS_META_BYTES_MAX] = {0};
    size_t n = 0;
    struct wire *bytes = wire_new();
    fc_hello_default(&other, &h);
    assert_int_equal(psi_msg_encode(&ps_v1_Hello_msg, &h.m, meta, sizeof(meta), &n, NULL), PS_OK);
    fc_frame(&other, bytes, PS_OP_HELLO, 0, 0, 0, meta, (uint32_t)n, NULL);
    other.conn = early;
    shell_send(early, bytes);
    assert_reply(fc_take(&other, NULL), PS_UNAVAILABLE, "shutting down");
    assert_reply(fc_push(&e->c, PS_OP_PUSH, &w, filled(ones, 40000, 1), 1, 0), PS_UNAVAILABLE, "shutting down");
    continue_push(e, &w, number, 32768); /* what is in progress may end */
    assert_applied(fc_take(&e->c, NULL));
    assert_true(psd_task_drained(e->t->core));
}
