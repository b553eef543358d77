/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that calls write into variables of their own task: nobody sees a draft; a publish is one whole version, once, or
 * nothing; what refuses an ASSIGN refuses both, also where it came between them; the memory is staged in the budget until the
 * call is over.
 */
#include "change_code.h"
#include "rounds_test.h"
#include "task_test.h"

#include "common/mem.h"
#include "psd/store/cut.h"

enum { N = 40000, BYTES = N * 4 };

static const char *name_of(void *shell, uint32_t row)
{
    (void)shell;
    return row == 0 ? "test.echo" : NULL;
}

static void identify(void *shell, const struct psi_link *link, struct psi_identity *out)
{
    (void)shell;
    (void)link;
    *out = (struct psi_identity){.kind = PSI_IDENTITY_KEY, .name = "w0"};
}

static void with_table(struct psd_task_config *config)
{
    config->call_name = name_of;
    config->identify = identify;
    config->calls_max = 4;
}

static void begin_call(struct fc *c, uint64_t id)
{
    ps_v1_Call m = ps_v1_Call_init_zero;
    _Alignas(8) uint8_t meta[96] = {0};
    size_t bytes = 0;
    PSI_IGNORE(PSI_BYTES_SET(m.name, "test.echo")); /* fits */
    assert_int_equal(psi_msg_encode(&ps_v1_Call_msg, &m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    assert_reply(fc_call(c, PS_OP_CALL, 0, id, 0, meta, psi_pad8((uint32_t)bytes), NULL), FC_NONE, "");
}

static struct env *env_with_call(void)
{
    struct env *e = env_new(with_table);
    begin_call(&e->c, 900);
    assert_int_equal(e->t->call_count, 1);
    return e;
}

static ps_status draft_of(struct env *e, const struct psd_draft_spec *what, void **room, struct psi_err *err)
{
    const ps_status st = psd_task_draft(e->t->core, e->t->calls[0].id, what, room, err);
    psd_task_check_invariants(e->t->core);
    return st;
}

static float *draft(struct env *e, const char *name, uint64_t elements)
{
    const struct psd_draft_spec what = {.container = "", .name = name, .dtype = PS_F32, .shape = PS_SHAPE((int64_t)elements)};
    struct psi_err err = {0};
    void *room = NULL;
    assert_ok(draft_of(e, &what, &room, &err), &err);
    assert_true(room != NULL && (uintptr_t)room % 64 == 0);
    return room;
}

struct publish {
    struct psd_publish p;
    uint32_t ended;
    struct psi_err err; /* code PS_OK without one */
};

static void published(struct psd_publish *p, const struct psi_err *err)
{
    struct publish *x = PSI_CONTAINER_OF(p, struct publish, p);
    x->ended++;
    x->err = err != NULL ? *err : (struct psi_err){.code = PS_OK};
}

/* The room, all of whose elements are this. */
static float *full(float *room, size_t n, float value)
{
    PSI_IGNORE(filled(room, n, value)); /* it is in room */
    return room;
}

static struct publish *publish(struct env *e, void *room)
{
    struct publish *x = test_alloc(sizeof(*x));
    x->p = (struct psd_publish){.call = e->t->calls[0].id, .room = room, .done = published};
    psd_task_publish(e->t->core, &x->p);
    shell_settle(e->t);
    psd_task_check_invariants(e->t->core);
    psd_store_check_invariants(&e->t->core->store);
    return x;
}

static void assert_ended(const struct publish *x, ps_status st, const char *word)
{
    assert_int_equal(x->ended, 1);
    if (x->err.code != st || (st != PS_OK && strstr(x->err.text, word) == NULL)) {
        fail_msg("%s: %s", ps_status_name(x->err.code), x->err.text);
    }
}

static void assert_all(const struct env *e, const char *name, uint64_t version, float want)
{
    const struct peek p = peek_at(e->t, name);
    assert_int_equal(p.version, version);
    assert_int_equal(p.bytes, BYTES);
    assert_floats(p.value, 0, N, want);
}

static uint64_t promised(const struct env *e)
{
    return e->t->core->store.promised_bytes;
}

static void finish_call(struct env *e)
{
    shell_finish(e->t, 0, PS_OK, NULL, 0, NULL);
    psd_store_check_invariants(&e->t->core->store);
}

TEST(test_published)
{
    static float ones[N];
    struct env *e = env_with_call();
    const ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 1);
    const uint64_t before = promised(e);
    float *room = draft(e, "v", N);
    assert_int_equal(promised(e), before + psd_arena_bytes(BYTES));
    PSI_IGNORE(full(room, N, 7));
    assert_all(e, "v", 0, 1);
    assert_applied(fc_push(&e->c, PS_OP_PUSH, &v, filled(ones, N, 1), 1, 0)); /* goes on meanwhile, and is replaced */
    const uint64_t changes = e->t->core->store.changes;
    struct publish *x = publish(e, room);
    assert_ended(x, PS_OK, "");
    assert_int_equal(x->p.version, 2);
    assert_all(e, "v", 2, 7);
    assert_int_equal(promised(e), before);
    assert_int_equal(e->t->core->store.changes, changes + 1);                    /* a checkpoint has something to save */
    assert_ended(publish(e, room), PS_INVALID_ARGUMENT, "no draft of the call"); /* not twice */
    assert_all(e, "v", 2, 7);
    assert_applied(fc_push(&e->c, PS_OP_PUSH, &v, ones, 1, 0));
    assert_all(e, "v", 3, 6);
    finish_call(e);
}

/* A first value, in the memory that was promised to the variable, given by the session whose call it is; who waits for it hears
 * of it. */
TEST(test_first_value)
{
    struct env *e = env_with_call();
    struct wire body;
    ps_v1_Wait m = {.timeout_ms = 0, .condition = 1};
    _Alignas(8) uint8_t meta[64] = {0};
    size_t bytes = 0;
    const ps_v1_OpenAnswer v = fc_created(&e->c, "v", PS_F32, N, ps_adam(1));
    const ps_v1_HandleItem item = {.handle = v.handle, .creation = v.creation};
    const uint64_t before = promised(e);
    assert_int_equal(psi_msg_encode(&ps_v1_Wait_msg, &m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    wire_init(&body);
    wire_item(&body, &ps_v1_HandleItem_msg, &item);
    assert_int_equal(fc_call(&e->c, PS_OP_WAIT, 0, 901, 0, meta, psi_pad8((uint32_t)bytes), &body).status, FC_NONE);
    wire_fini(&body);
    float *room = draft(e, "v", N), *other = draft(e, "v", N);
    assert_int_equal(promised(e), before + psd_arena_bytes(BYTES)); /* of the second one */
    assert_ended(publish(e, full(room, N, 3)), PS_OK, "");
    assert_all(e, "v", 0, 3);
    assert_applied(fc_take(&e->c, NULL));
    const struct psd_variable *is = psd_variable_by_creation(&e->t->core->store, v.creation);
    assert_true(is->given);
    assert_memory_equal(is->giver, e->c.session, sizeof(is->giver));
    assert_ended(publish(e, full(other, N, 4)), PS_OK, "");
    assert_all(e, "v", 1, 4);
    assert_int_equal(promised(e), before);
    finish_call(e);
}

TEST(test_refusals)
{
    static const struct {
        const char *name;
        ps_dtype dtype;
        ps_shape shape;
        ps_status st;
        const char *word;
    } cases[] = {
        {"w", PS_F32, {.rank = 1, .dims = {N}}, PS_NOT_FOUND, "/job:ps/task:0 has no variable 'w'"},
        {"v", PS_F64, {.rank = 1, .dims = {N}}, PS_INVALID_ARGUMENT, "is float32 (40000,), the new value is to be float64"},
        {"v", PS_F32, {.rank = 1, .dims = {N - 1}}, PS_INVALID_ARGUMENT, "(39999,)"},
        {"v", PS_F32, {.rank = 2, .dims = {N / 4, 4}}, PS_INVALID_ARGUMENT, "(10000, 4)"},
        {"s", PS_STRING, {.rank = 1, .dims = {2}}, PS_INVALID_ARGUMENT, "is string"}};
    struct env *e = env_with_call();
    struct psi_err err;
    void *room = NULL;
    PSI_IGNORE(fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 1));           /* it is found by name */
    PSI_IGNORE(fc_created(&e->c, "s", PS_STRING, 2, ps_no_optimizer())); /* it is found by name */
    const uint64_t before = promised(e);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        const struct psd_draft_spec what = {
            .container = "", .name = cases[i].name, .dtype = cases[i].dtype, .shape = cases[i].shape};
        if (draft_of(e, &what, &room, &err) != cases[i].st || strstr(err.text, cases[i].word) == NULL) {
            fail_msg("%s: %s", cases[i].name, err.text);
        }
    }
    const struct psd_draft_spec v = {.container = "", .name = "v", .dtype = PS_F32, .shape = PS_SHAPE(N)};
    assert_int_equal(psd_task_draft(e->t->core, 12345, &v, &room, &err), PS_CANCELLED);
    psd_store_set_budget(&e->t->core->store, psd_store_taken(&e->t->core->store) + psd_arena_bytes(BYTES) - 1);
    assert_int_equal(draft_of(e, &v, &room, &err), PS_RESOURCE_EXHAUSTED);
    assert_int_equal(err.reason, PS_REASON_OVERLOADED);
    psd_task_drain(e->t->core);
    assert_int_equal(draft_of(e, &v, &room, &err), PS_UNAVAILABLE);
    assert_true(promised(e) == before && room == NULL);
    finish_call(e);
}

/* In the container of a session a draft needs its key. */
TEST(test_of_a_session)
{
    static const char own[] = "session/00112233445566aa";
    static const uint8_t keys[2][PSI_KEY_BYTES] = {{7, 7, 7}, {7, 7, 8}};
    struct env *e = env_with_call();
    struct fc *c = test_alloc(sizeof(*c));
    struct fc_hello hello;
    ps_v1_CreateItem m;
    fc_init(c, e->t, 2);
    fc_hello_default(c, &hello);
    PSI_IGNORE(PSI_BYTES_SET(hello.m.session_container, own)); /* fits */
    hello.m.key.size = PSI_KEY_BYTES;
    memcpy(hello.m.key.bytes, keys[0], PSI_KEY_BYTES);
    assert_int_equal(fc_hello(c, &hello), PS_OK);
    fc_create_item(&m, "v", PS_F32, 2, ps_sgd(1));
    PSI_IGNORE(PSI_BYTES_SET(m.container, own)); /* fits */
    m.key = (ps_v1_CreateItem_key_t){.size = PSI_KEY_BYTES};
    memcpy(m.key.bytes, keys[0], PSI_KEY_BYTES);
    assert_int_equal(fc_create(c, &m, NULL), PS_OK);
    const uint8_t *given[] = {NULL, keys[1], keys[0]};
    const uint64_t changes = e->t->core->store.changes;
    for (size_t i = 0; i < 3; i++) {
        const struct psd_draft_spec what = {
            .container = own, .key = given[i], .name = "v", .dtype = PS_F32, .shape = PS_SHAPE(2)};
        struct psi_err err;
        void *room = NULL;
        assert_int_equal(draft_of(e, &what, &room, &err), i < 2 ? PS_PERMISSION_DENIED : PS_OK);
        if (i == 2) {
            assert_ended(publish(e, full(room, 2, 5)), PS_OK, "");
        }
    }
    assert_int_equal(e->t->core->store.changes, changes); /* of which checkpoints have nothing */
}

/* Where the variable goes away nothing is published, and the memory is the call's until it is over: somebody may write there. */
TEST(test_a_variable_that_goes_away)
{
    struct env *e = env_with_call();
    PSI_IGNORE(fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 3)); /* it is found by name */
    float *deleted = draft(e, "v", N);
    assert_applied(fc_delete(&e->c, 901, "v"));
    fc_ack(&e->c, 901);
    assert_ended(publish(e, full(deleted, N, 4)), PS_ABORTED, "was reset or deleted");
    PSI_IGNORE(fc_created(&e->c, "v", PS_F32, N, ps_sgd(1))); /* it is found by name */
    float *reset = draft(e, "v", N);
    assert_applied(fc_reset(&e->c, 902, ""));
    assert_ended(publish(e, full(reset, N, 4)), PS_ABORTED, "was reset or deleted");
    PSI_IGNORE(fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 5)); /* it is found by name */
    assert_ended(publish(e, full(reset, N, 4)), PS_ABORTED, "was reset or deleted");
    assert_all(e, "v", 0, 5);
    PSI_IGNORE(filled(deleted, N, 1)); /* still ours */
    const uint64_t before = promised(e);
    finish_call(e);
    assert_true(promised(e) < before);
}

TEST(test_a_call_that_goes_away)
{
    struct env *e = env_with_call();
    PSI_IGNORE(fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 3)); /* it is found by name */
    const uint64_t before = promised(e);
    float *room = draft(e, "v", N);
    fc_ack(&e->c, 900);
    assert_true(e->t->calls[0].cancelled);
    assert_ended(publish(e, full(room, N, 4)), PS_CANCELLED, "cancelled");
    const uint64_t call = e->t->calls[0].id;
    const struct psd_draft_spec v = {.container = "", .name = "v", .dtype = PS_F32, .shape = PS_SHAPE(N)};
    void *none = NULL;
    struct psi_err err;
    assert_int_equal(draft_of(e, &v, &none, &err), PS_CANCELLED);
    finish_call(e);
    assert_in_range(promised(e), 0, before);
    struct publish late = {.p = {.call = call, .room = room, .done = published}};
    psd_task_publish(e->t->core, &late.p);
    assert_ended(&late, PS_CANCELLED, "cancelled");
    assert_all(e, "v", 0, 3);
}

/* A call writes what its client may write, by the table of that moment: at the draft, and again when it is published. */
TEST(test_written_with_the_rights_of_the_client)
{
    static const char *const tables[] = {"allow key:w0 @cluster call; allow key:w0 localhost write",
                                         "allow key:w0 @cluster call; allow key:w0 localhost read"};
    struct env *e = env_with_call();
    const struct psd_draft_spec v = {.container = "", .name = "v", .dtype = PS_F32, .shape = PS_SHAPE(N)};
    void *room = NULL, *none = NULL;
    PSI_IGNORE(fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 3)); /* it is found by name */
    for (size_t i = 0; i < ARRAY_COUNT(tables); i++) {
        struct psi_rights *rights = NULL;
        struct psi_err err;
        assert_ok(psi_rights_parse(tables[i], strlen(tables[i]), "test", &rights, &err), &err);
        psd_task_rights_set(e->t->core, rights);
        assert_int_equal(draft_of(e, &v, i == 0 ? &room : &none, &err), i == 0 ? PS_OK : PS_PERMISSION_DENIED);
    }
    assert_ended(publish(e, full(room, N, 4)), PS_PERMISSION_DENIED, "(allow key:w0 localhost write)");
    assert_all(e, "v", 0, 3);
}

/* ---- beside a checkpoint ---- */

static void begin_cut(struct env *e, uint64_t memory_bytes)
{
    const struct psd_cut_options o = {.number = 1, .memory_bytes = memory_bytes};
    assert_int_equal(psd_cut_begin(e->t->core, &o, NULL), PS_OK);
}

/* Writes what the cut has; how many elements of values it wrote that are 1, and 7. */
static void write_cut(struct env *e, uint64_t *out_ones, uint64_t *out_sevens)
{
    const struct psd_cut_write *w = NULL;
    shell_run(&e->net);
    while ((w = psd_cut_next(e->t->core)) != NULL) {
        for (uint32_t at = 0; w->file > 0 && at + 4 <= w->bytes; at += 4) {
            float x = 0;
            memcpy(&x, w->data + at, sizeof(x));
            *out_ones += x == 1;
            *out_sevens += x == 7;
        }
        psd_cut_written(e->t->core, w);
        shell_run(&e->net);
    }
}

/* A checkpoint has the value of its instant, whole, whatever was published since. */
TEST(test_cut_keeps_the_old_value)
{
    struct env *e = env_with_call();
    uint64_t ones = 0, sevens = 0;
    PSI_IGNORE(fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 1)); /* it is found by name */
    float *room = draft(e, "v", N);
    e->t->work_held = true;
    begin_cut(e, 64 << 20);
    assert_ended(publish(e, full(room, N, 7)), PS_OK, "");
    assert_all(e, "v", 1, 7);
    e->t->work_held = false;
    write_cut(e, &ones, &sevens);
    assert_int_equal(psd_cut_status(e->t->core), PSD_CUT_WRITTEN);
    assert_true(ones == N && sevens == 0);
    psd_cut_end(e->t->core);
    finish_call(e);
}

/* While a cut holds as much memory as it may, a publish waits for it as a push does: the old value would come on top. The end of
 * its call, and that of the task, end it. */
TEST(test_cut_that_is_full)
{
    enum { LARGE = 1 << 20 };
    for (int ends = 0; ends < 3; ends++) {
        struct env *e = env_with_call();
        uint64_t ones = 0, sevens = 0;
        static float some[LARGE];
        struct fc *other = fc_new(e->t, 2);
        const ps_v1_OpenAnswer w = fc_ready(&e->c, "w", PS_F32, LARGE, ps_sgd(1), 3);
        PSI_IGNORE(fc_ready(&e->c, "v", PS_F32, LARGE, ps_sgd(1), 1)); /* it is found by name */
        float *room = draft(e, "v", LARGE);
        begin_cut(e, 1 << 20);
        shell_run(&e->net); /* the walk goes as far as it may */
        assert_int_equal(fc_push(other, PS_OP_PUSH, &w, filled(some, LARGE, 1), 1, 0).status, FC_NONE);
        assert_true(psd_cut_is_full(&e->t->core->store));
        struct publish *x = publish(e, full(room, LARGE, 7));
        assert_int_equal(x->ended, 0);
        assert_false(psd_task_has_work(e->t->core)); /* the loop may sleep */
        assert_int_equal(peek_at(e->t, "v").version, 0);
        if (ends == 0) {
            write_cut(e, &ones, &sevens);
            assert_ended(x, PS_OK, "");
            assert_true(ones == LARGE && sevens == 0);
            assert_int_equal(peek_at(e->t, "v").version, 1);
        } else {
            if (ends == 1) {
                psd_task_end_copies(e->t->core);
                assert_ended(x, PS_CANCELLED, "/job:ps/task:0 ends");
            } else {
                fc_ack(&e->c, 900); /* nobody waits for the call any more */
                assert_ended(x, PS_CANCELLED, "the call that writes it is cancelled");
                assert_true(psd_cut_is_full(&e->t->core->store));
            }
            psd_cut_cancel(e->t->core);
            shell_run(&e->net);
            assert_int_equal(peek_at(e->t, "v").version, 0);
        }
        psd_cut_end(e->t->core);
        finish_call(e);
    }
}

/* ---- as a change ---- */

/* A publish waits for a push that moves the value in slices (moves.c); its call may be cancelled meanwhile. */
TEST(test_value_that_is_moved)
{
    enum { LARGE = 40000, SLICES = 3 };
    for (int ends = 0; ends < 2; ends++) {
        static float some[LARGE];
        struct env *e = env_with_call();
        struct fc *other = fc_new(e->t, 2);
        e->t->core->config.round_slice_bytes = 1; /* a slice is a segment of the value */
        const ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, LARGE, ps_optimizer_standard(PS_OPT_LAMB, 0.5), 1);
        float *room = draft(e, "v", LARGE);
        e->t->work_held = true;
        assert_int_equal(fc_push(other, PS_OP_PUSH, &v, filled(some, LARGE, 1), 1, 0).status, FC_NONE);
        struct publish *x = publish(e, full(room, LARGE, 7));
        for (int i = 0; i < SLICES - 1; i++) {
            psd_task_work(e->t->core);
            assert_int_equal(x->ended, 0);
            assert_int_equal(peek_at(e->t, "v").version, 0);
        }
        if (ends == 1) {
            fc_ack(&e->c, 900); /* nobody waits for the call any more */
            assert_ended(x, PS_CANCELLED, "the call that writes it is cancelled");
        }
        e->t->work_held = false;
        shell_run(&e->net);
        assert_applied(fc_take(other, NULL));
        assert_int_equal(peek_at(e->t, "v").version, ends == 0 ? 2 : 1);
        if (ends == 0) {
            assert_ended(x, PS_OK, "");
            assert_floats(peek_at(e->t, "v").value, 0, LARGE, 7);
        }
        finish_call(e);
    }
}

static void hear(void *ctx, uint64_t position, const struct psd_change *c)
{
    (void)position;
    assert_int_equal(psd_change_encode(c, ctx, NULL), PS_OK);
}

/* What a task remembers is the fold of its changes, this one included; no bytes that are cut off are taken for one. */
TEST(test_replayed)
{
    struct env *e = env_new_unconnected(with_table);
    struct psi_buf log;
    ps_status st = PS_OK;
    psi_buf_init(&log, 1 << 24);
    psd_task_consumer(e->t->core, hear, &log);
    assert_int_equal(fc_connect(&e->c), PS_OK);
    begin_call(&e->c, 900);
    const ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 1), w = fc_created(&e->c, "w", PS_F32, N, ps_adam(1));
    assert_ended(publish(e, full(draft(e, "v", N), N, 7)), PS_OK, "");
    const size_t last = log.len;
    assert_ended(publish(e, full(draft(e, "w", N), N, 8)), PS_OK, "");
    psd_task_consumer(e->t->core, NULL, NULL);
    struct shell_net net;
    shell_net_init(&net);
    struct shell_task *t = shell_task_new(&net, "ps=10.0.0.1:1", "ps", 0, 42, START_MS, NULL, &st);
    assert_int_equal(st, PS_OK);
    const uint8_t *p = log.data;
    size_t n = last;
    while (n > 0) {
        assert_int_equal(psd_replay(t->core, &p, &n, NULL), PS_OK);
    }
    for (size_t cut = 0; cut < log.len - last; cut += cut < 64 ? 1 : 997) {
        n = cut;
        assert_int_equal(psd_replay(t->core, &p, &n, NULL), PS_DATA_LOSS);
    }
    n = log.len - last;
    assert_int_equal(psd_replay(t->core, &p, &n, NULL), PS_OK);
    assert_int_equal(n, 0);
    psd_store_check_invariants(&t->core->store);
    const uint64_t creations[] = {v.creation, w.creation};
    for (size_t i = 0; i < 2; i++) {
        const struct psd_variable *a = psd_variable_by_creation(&e->t->core->store, creations[i]);
        const struct psd_variable *b = psd_variable_by_creation(&t->core->store, creations[i]);
        assert_true(b->initialised && b->version == a->version && b->given == a->given);
        assert_memory_equal(a->value, b->value, BYTES);
        assert_memory_equal(a->giver, b->giver, sizeof(a->giver));
    }
    shell_net_fini(&net);
    psi_buf_fini(&log);
}

/* A variable that is in rounds changes with a round only. */
TEST(test_in_rounds)
{
    struct env *e = env_with_call();
    static const char *const names[] = {"v"};
    static const struct psd_owner owners[] = {{.job = "ps", .task = 0}};
    const struct psd_rounds_spec group = {.container = PSI_CONTAINER_DEFAULT,
                                          .generation = 7,
                                          .options = {.mode = PSD_SYNC_ROUNDS, .workers = 2, .replicas = 1},
                                          .names = names,
                                          .name_count = 1,
                                          .owners = owners,
                                          .owner_count = 1};
    const struct psd_draft_spec v = {.container = "", .name = "v", .dtype = PS_F32, .shape = PS_SHAPE(N)};
    struct psi_err err;
    void *none = NULL;
    PSI_IGNORE(fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 1)); /* it is found by name */
    float *room = draft(e, "v", N);
    const struct psd_member_spec member = {.id = 1, .session = e->c.session, .job = "worker", .task = 0};
    assert_int_equal(psd_rounds_set_here(e->t->core, &group, NULL), PS_OK);
    assert_int_equal(psd_rounds_join_here(e->t->core, group.container, group.generation, &member, NULL), PS_OK);
    assert_int_equal(draft_of(e, &v, &none, &err), PS_FAILED_PRECONDITION);
    assert_int_equal(err.reason, PS_REASON_IN_ROUNDS);
    assert_ended(publish(e, full(room, N, 7)), PS_FAILED_PRECONDITION, "IN_ROUNDS");
    assert_all(e, "v", 0, 1);
    psd_rounds_leave_here(e->t->core, group.container, group.generation, 1, 0, false);
    assert_ended(publish(e, room), PS_OK, "");
    assert_all(e, "v", 1, 7);
    finish_call(e);
}

/* Memory that is short at each place: nothing is published, or all of it is. */
TEST(test_torture)
{
    struct env *e = env_with_call();
    PSI_IGNORE(fc_created(&e->c, "v", PS_F32, N, ps_adam(1))); /* it is found by name */
    const struct psd_draft_spec v = {.container = "", .name = "v", .dtype = PS_F32, .shape = PS_SHAPE(N)};
    bool fails = true;
    for (int64_t n = 0; fails; n++) {
        struct psi_err err;
        void *room = NULL;
        psi_mem_fail_after(n);
        const ps_status st = psd_task_draft(e->t->core, e->t->calls[0].id, &v, &room, &err);
        fails = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        assert_int_equal(st, fails ? PS_RESOURCE_EXHAUSTED : PS_OK);
        assert_false(peek_at(e->t, "v").initialised);
        if (!fails) {
            assert_ended(publish(e, full(room, N, 7)), PS_OK, "");
        }
    }
    assert_all(e, "v", 0, 7);
    finish_call(e);
}
