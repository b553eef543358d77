/* SPDX-License-Identifier: Apache-2.0 */
/* Starts at the directory (psd/checkpoint/loader.c) where `recover` differs by container: w and v are of the default one, x at
 * task 0 and y at task 1 of another. */
#include "queue_test.h"
#include "starts_test.h"

static const char *recover;

static void with_recover(struct psd_task_config *config)
{
    sv_with_disk(config);
    (void)snprintf(config->recover.text, sizeof(config->recover.text), "%s", recover);
}

static void make_in_model(struct st *s, struct fc *at, const char *name, uint32_t task, double value)
{
    ps_v1_CreateItem m;
    ps_v1_OpenAnswer a;
    fc_create_item(&m, name, PS_F32, 1, ps_sgd(0.1));
    PSI_BYTES_SET(m.container, "model");
    m.task = task;
    assert_int_equal(fc_create(&s->sv->c, &m, NULL), PS_OK);
    assert_int_equal(fc_open_in(at, "model", name, &a), PS_OK);
    assert_applied(fc_init_var(at, a.handle, ps_constant(value), ps_sgd(0.1), 0, false));
    assert_reply(fc_seal(at, a.handle, a.creation, 0), PS_OK, "");
}

static void set_in_model(struct fc *at, const char *name, float value)
{
    ps_v1_OpenAnswer a;
    assert_int_equal(fc_open_in(at, "model", name, &a), PS_OK);
    assert_applied(fc_push(at, PS_OP_ASSIGN, &a, &value, 1, 0));
}

static float is_in_model(struct fc *at, const char *name)
{
    ps_v1_OpenAnswer a;
    float value = 0;
    assert_int_equal(fc_open_in(at, "model", name, &a), PS_OK);
    assert_int_equal(fc_pull(at, &a, 0, 1, &value).status, PS_OK);
    return value;
}

/* All are 1 in the checkpoint, and 2 since. */
static struct st *saved_at_1(const char *text)
{
    recover = text;
    struct st *s = st_new(with_recover);
    make_in_model(s, &s->sv->c, "x", 0, 1);
    make_in_model(s, &s->at1, "y", 1, 1);
    set(s, 1);
    assert_int_equal(save(s), 1);
    set(s, 2);
    set_in_model(&s->sv->c, "x", 2);
    set_in_model(&s->at1, "y", 2);
    return s;
}

/* What the task that lived has. */
static void assert_lived(struct st *s, uint32_t lost, bool of_default, bool of_model)
{
    float other = of_default ? 1 : 2;
    assert_both(s, lost == 0 ? 1 : other, lost == 0 ? other : 1);
    assert_true(is_in_model(&s->sv->c, "x") == (lost == 0 || of_model ? 1.0F : 2.0F));
    assert_true(is_in_model(&s->at1, "y") == (lost == 1 || of_model ? 1.0F : 2.0F));
}

TEST(test_each_container_its_way)
{
    static const struct {
        const char *recover;
        bool of_default, of_model; /* goes back everywhere */
        const char *partly;        /* what the log says of containers that do not */
    } rows[] = {
        {"partial", false, false, "containers=\"localhost, model\" msg=\"restored at"},
        {"cut", true, true, NULL},
        {"partial,model=cut", false, true, "containers=localhost msg=\"restored at"},
        {"model=cut", false, true, "containers=localhost msg=\"restored at"},
        {"cut,model=partial", true, false, "containers=model msg=\"restored at"},
        {"localhost=cut,eval=cut", true, false, "containers=model msg=\"restored at"},
        {"cut,localhost=partial,model=partial", false, false, "containers=\"localhost, model\" msg=\"restored at"},
    };
    for (size_t i = 0; i < 2 * ARRAY_COUNT(rows); i++) {
        uint32_t lost = i % 2;
        struct st *s = saved_at_1(rows[i / 2].recover);
        lose(s, lost);
        assert_lived(s, lost, rows[i / 2].of_default, rows[i / 2].of_model);
        assert_true(shell_logged(s->sv->t[0], "checkpoint_partial") == (rows[i / 2].partly != NULL));
        assert_true(rows[i / 2].partly == NULL || shell_logged(s->sv->t[0], rows[i / 2].partly));
        bool cut = rows[i / 2].of_default || rows[i / 2].of_model, partial = rows[i / 2].partly != NULL;
        assert_true(shell_logged(s->sv->t[0], cut && partial ? "recover=mixed" : cut ? "recover=cut" : "recover=partial"));
        assert_int_equal(save(s), 2);
    }
}

/* Only what the task that comes back had a part of: who has nothing of that container leaves it alone everywhere. */
TEST(test_a_container_that_nobody_lacks)
{
    recover = "partial,model=cut";
    struct st *s = st_new(with_recover);
    make_in_model(s, &s->sv->c, "x", 0, 1);
    set(s, 1);
    assert_int_equal(save(s), 1);
    set(s, 2);
    set_in_model(&s->sv->c, "x", 2);
    lose(s, 1);
    assert_both(s, 2, 1);
    assert_true(is_in_model(&s->sv->c, "x") == 2);
    assert_true(shell_logged(s->sv->t[0], "recover=partial"));
}

/* Nothing of who comes back is in it: nothing is restored, whatever lives elsewhere. */
TEST(test_nothing_is_lacked)
{
    static const char *const ways[] = {"partial", "cut", "model=cut"};
    for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
        recover = ways[i];
        struct st *s = st_new(with_recover);
        reset(s);
        make_in_model(s, &s->sv->c, "x", 0, 1);
        assert_int_equal(save(s), 1);
        set_in_model(&s->sv->c, "x", 2);
        lose(s, 1);
        assert_true(is_in_model(&s->sv->c, "x") == 2);
        assert_false(shell_logged(s->sv->t[0], "checkpoint_restored"));
        assert_true(shell_logged(s->sv->t[0], "start_empty"));
    }
}

/* What lives cannot be read, and is to go back: refused, until `recover` has it otherwise. */
TEST(test_refused_and_changed)
{
    struct st *s = saved_at_1("model=cut");
    spoil(s, 0, 1, PSD_DISK_MODEL);
    sv_kill(s->sv, 1);
    boot(s, false, true);
    assert_int_equal(hello_of_a_worker(s->sv->t[1]), PS_FAILED_PRECONDITION);
    s->sv->t[0]->core->config.recover = (psd_text){"partial"}; /* psctl config set */
    pass(s);
    connect_1(s);
    assert_lived(s, 1, false, false);
}

/* Nobody lacks what would go back: that who lives cannot read its part does no harm, also with an older one to be had. */
TEST(test_spoilt_where_nobody_needs_it)
{
    for (uint32_t older = 0; older < 2; older++) {
        recover = "late=cut,model=cut";
        struct st *s = st_new(with_recover);
        make_in_model(s, &s->sv->c, "x", 0, 1);
        if (older) {
            assert_int_equal(save(s), 1);
        }
        set(s, 1);
        const uint64_t number = save(s);
        set(s, 2);
        set_in_model(&s->sv->c, "x", 2);
        spoil(s, 0, number, PSD_DISK_MODEL);
        lose(s, 1);
        assert_both(s, 2, 1);
        assert_true(is_in_model(&s->sv->c, "x") == 2);
        assert_false(shell_logged(s->sv->t[0], "checkpoint_unusable")); /* the task that lives is not asked */
        assert_true(shell_logged(s->sv->t[0], "recover=partial"));
        assert_true(s->v.checkpoint == number);
    }
}

/* Somebody lacks it: the one before is loaded, by all. */
TEST(test_spoilt_where_it_is_needed)
{
    struct st *s = saved_at_1("model=cut");
    assert_int_equal(save(s), 2);
    spoil(s, 0, 2, PSD_DISK_MODEL);
    lose(s, 1);
    assert_lived(s, 1, false, true);
}

/* It is changed while they load: the task that lives has not loaded then, and does. */
TEST(test_changed_while_it_loads)
{
    struct st *s = saved_at_1("partial");
    sv_kill(s->sv, 1);
    sv_boot(s->sv, 1, s->tweak);
    s->sv->disks[1].held = true;
    PSI_IGNORE(sv_join(s->sv)); /* it stays with the tasks */
    sv_run(s->sv);
    assert_int_equal(s->sv->t[0]->core->loader->phase, PSD_LOADER_LOADING);
    s->sv->t[0]->core->config.recover = (psd_text){"model=cut"}; /* psctl config set */
    s->sv->disks[1].held = false;
    sv_run(s->sv);
    pass(s);
    connect(s, false, true);
    assert_lived(s, 1, false, true);
}

/* ---- first values beside a trained model ---- */

enum { TRAINED_NOT, TRAINED_ELSEWHERE, TRAINED_STEP, GIVEN_ELSEWHERE, STEP_OF_ANOTHER, TRAINED_WAYS };

static void push_in_model(struct fc *at, const char *name)
{
    static const float gradient = 1;
    ps_v1_OpenAnswer a;
    assert_int_equal(fc_open_in(at, "model", name, &a), PS_OK);
    assert_applied(fc_push(at, PS_OP_PUSH, &a, &gradient, 1, 0));
}

static void give_step(struct st *s, const char *container, int64_t step)
{
    ps_v1_CreateItem m;
    ps_v1_OpenAnswer a;
    fc_create_item(&m, "global_step", PS_I64, 1, ps_no_optimizer());
    PSI_BYTES_SET(m.container, container);
    assert_int_equal(fc_create(&s->sv->c, &m, NULL), PS_OK);
    assert_int_equal(fc_open_in(&s->sv->c, container, "global_step", &a), PS_OK);
    assert_applied(fc_init_var(&s->sv->c, a.handle, ps_constant((double)step), ps_no_optimizer(), 0, false));
    assert_reply(fc_seal(&s->sv->c, a.handle, a.creation, 0), PS_OK, "");
}

/* x at task 0 is trained, y at task 1 is a constant of version 0. y is saved, lost and restored while x goes on: y is what it was
 * if the container had been trained at the cut, on whatever task; otherwise y counts as lost, and a chief may give it a value. */
TEST(test_a_constant_is_restored)
{
    static const bool lost[TRAINED_WAYS] = {[TRAINED_NOT] = true, [GIVEN_ELSEWHERE] = true, [STEP_OF_ANOTHER] = true};
    for (uint32_t way = 0; way < TRAINED_WAYS; way++) {
        recover = "partial";
        struct st *s = st_new(with_recover);
        ps_v1_OpenAnswer y;
        make_in_model(s, &s->sv->c, "x", 0, 1);
        make_in_model(s, &s->at1, "y", 1, 1);
        set(s, 1);
        if (way == TRAINED_ELSEWHERE) {
            push_in_model(&s->sv->c, "x");
        }
        if (way == GIVEN_ELSEWHERE) { /* what a program gives before it trains */
            set_in_model(&s->sv->c, "x", 2);
        }
        if (way == TRAINED_STEP || way == GIVEN_ELSEWHERE) {
            give_step(s, "model", way == GIVEN_ELSEWHERE ? 0 : 7);
        }
        if (way == STEP_OF_ANOTHER) {
            give_step(s, "localhost", 7);
        }
        assert_int_equal(save(s), 1);
        set_in_model(&s->sv->c, "x", 3);
        lose(s, 1);
        assert_true(shell_logged(s->sv->t[0], "recover=partial"));
        assert_int_equal(fc_open_in(&s->at1, "model", "y", &y), PS_OK);
        assert_true(y.initialised && y.sealed == !lost[way] && y.version == 0 && y.checkpoint == 1);
        assert_true(y.restored == lost[way]);
    }
}

/* The directory's manifest of checkpoint 1 as a psd wrote it that said nothing of containers. */
static void age_manifest(const struct st *s)
{
    char path[512];
    uint8_t bytes[4096];
    struct psi_buf aged;
    ps_v1_SaveItem what;
    ps_v1_FileItem file;
    size_t left = 0;
    bool end = false;
    (void)snprintf(path, sizeof(path), "%s/ps-0/00000000000000000001/manifest", s->sv->dir);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    ssize_t n = read(fd, bytes, sizeof(bytes));
    assert_in_range(n, 1, sizeof(bytes) - 1);
    psi_manifest_init(&aged);
    const uint8_t *at = psi_manifest_items(bytes, (size_t)n, &left);
    assert_int_equal(psi_list_next(&at, &left, &ps_v1_SaveItem_msg, &what, &end, NULL), PS_OK);
    const uint8_t *files = at;
    size_t files_left = left;
    for (end = false; !end;) {
        assert_int_equal(psi_list_next(&files, &files_left, &ps_v1_FileItem_msg, &file, &end, NULL), PS_OK);
        what.file_count -= !end && file.kind == PS_FILE_NOTE;
    }
    assert_int_equal(psi_manifest_add(&aged, &ps_v1_SaveItem_msg, &what, NULL), PS_OK);
    for (;;) {
        assert_int_equal(psi_list_next(&at, &left, &ps_v1_FileItem_msg, &file, &end, NULL), PS_OK);
        if (end) {
            break;
        }
        if (file.kind == PS_FILE_NOTE) {
            continue;
        }
        file.notes = 0;
        file.step = 0;
        assert_int_equal(psi_manifest_add(&aged, &ps_v1_FileItem_msg, &file, NULL), PS_OK);
    }
    assert_int_equal(psi_manifest_end(&aged, NULL), PS_OK);
    assert_true(aged.len < (size_t)n);
    assert_int_equal(pwrite(fd, aged.data, aged.len, 0), aged.len);
    assert_int_equal(ftruncate(fd, (off_t)aged.len), 0);
    assert_int_equal(close(fd), 0);
    psi_buf_fini(&aged);
}

/* Of a container that is to go back everywhere task 1 has a queue alone: all go back when task 1 has lost the queue. An older
 * psd's manifest does not say who has which queue, so all go back there as well. */
TEST(test_a_queue_is_lacked)
{
    for (uint32_t aged = 0; aged < 2; aged++) {
        recover = "model=cut";
        struct st *s = st_new(with_recover);
        const ps_v1_Queue q = queue_like(PSI_QUEUE_FIFO, 4);
        ps_v1_CreateItem m = queue_item("q", &q);
        PSI_BYTES_SET(m.container, "model");
        m.task = 1;
        assert_int_equal(fc_create(&s->sv->c, &m, NULL), PS_OK);
        make_in_model(s, &s->sv->c, "x", 0, 1);
        set(s, 1);
        assert_int_equal(save(s), 1);
        if (aged) {
            sv_kill(s->sv, 1);
            sv_kill(s->sv, 0);
            age_manifest(s);
            boot(s, true, true);
            connect(s, true, true);
        }
        set(s, 2);
        set_in_model(&s->sv->c, "x", 2);
        lose(s, 1);
        assert_both(s, 2, 1);
        assert_true(is_in_model(&s->sv->c, "x") == 1);
    }
}

/* An older psd's manifest has one step for all: it counts where there is one container; of several it is not known which one had
 * been trained, and the part of the task that is lost decides, as it did then. */
TEST(test_a_constant_of_an_older_manifest)
{
    for (uint32_t several = 0; several < 2; several++) {
        recover = "partial";
        struct st *s = st_new(with_recover);
        ps_v1_OpenAnswer y;
        reset(s);
        make_in_model(s, &s->sv->c, "x", 0, 1);
        make_in_model(s, &s->at1, "y", 1, 1);
        give_step(s, several ? "localhost" : "model", 7);
        assert_int_equal(save(s), 1);
        sv_kill(s->sv, 1);
        sv_kill(s->sv, 0);
        age_manifest(s);
        boot(s, true, true);
        connect(s, true, true);
        set_in_model(&s->sv->c, "x", 3);
        lose(s, 1);
        assert_true(shell_logged(s->sv->t[0], "recover=partial"));
        assert_int_equal(fc_open_in(&s->at1, "model", "y", &y), PS_OK);
        assert_true(y.initialised && y.sealed == !y.restored && y.version == 0 && y.checkpoint == 1);
        assert_true(y.restored == (several == 1));
    }
}

/* ---- requests for a checkpoint, and a task that is lost ---- */

/* A checkpoint is asked for when all are 2; before it is cut, or decided, task 1 is lost, and comes back with 1. No other one is
 * made in its place: what was asked for is nowhere. */
TEST(test_asked_to_save_and_lost)
{
    static const char WHY[] =
        "what was to be saved is lost: tasks have gone back to checkpoint 1, of step 0, which is what holds now";
    for (uint32_t written = 0; written < 2; written++) {
        struct st *s = saved_at_1("partial");
        s->sv->disks[1].held = written == 1;
        if (written == 0) {
            hold_saves(s);
        }
        sv_ask(s->sv);
        sv_run(s->sv);
        assert_int_equal(fc_take(&s->sv->c, NULL).status, FC_NONE);
        s->sv->disks[1].held = false;
        sv_kill(s->sv, 1);
        boot(s, false, true);
        pass(s); /* the attempt has gone from the disks */
        connect_1(s);
        struct fc_reply r = fc_take(&s->sv->c, NULL);
        assert_reply(r, PS_UNAVAILABLE, WHY);
        assert_int_equal(r.applied, PS_OUTCOME_UNKNOWN); /* the client does not ask again by itself */
        assert_lived(s, 1, false, false);
        s->sv->t[0]->core->saver->again_ms = 0;
        r = sv_save(s->sv);
        assert_reply(r, PS_OK, ""); /* of what is there now */
    }
}

/* A checkpoint is asked for while task 1 is away. The client is not told to ask again: by then the task may have gone back. */
TEST(test_asked_to_save_while_a_task_is_away)
{
    struct st *s = saved_at_1("partial");
    sv_kill(s->sv, 1);
    sv_ask(s->sv);
    sv_run(s->sv);
    assert_int_equal(fc_take(&s->sv->c, NULL).status, FC_NONE);
    boot(s, false, true);
    connect_1(s);
    assert_reply(fc_take(&s->sv->c, NULL), PS_UNAVAILABLE, "what was to be saved is lost");
}

/* One that is decided has what was asked for: its number is the answer, also when the task has lost what lived there. */
TEST(test_asked_to_save_and_lost_when_decided)
{
    struct st *s = saved_at_1("partial");
    sv_decide(s->sv);
    assert_int_equal(fc_take(&s->sv->c, NULL).status, FC_NONE);
    s->sv->disks[1].held = false;
    lose(s, 1);
    struct fc_reply r = fc_take(&s->sv->c, NULL);
    assert_int_equal(sv_number(&r), 2);
    assert_both(s, 2, 2);
}

/* A restore, and a request for a checkpoint that waited: all go back as somebody asked, and what was to be saved is lost. */
TEST(test_asked_to_save_and_restored)
{
    struct st *s = saved_at_1("partial");
    hold_saves(s);
    sv_ask(s->sv);
    sv_run(s->sv);
    ask_restore(s, 1, 60000);
    sv_run(s->sv);
    struct fc_reply r = fc_take(&s->sv->c, NULL);
    assert_reply(r, PS_UNAVAILABLE, "what was to be saved is lost: tasks have gone back to checkpoint 1");
    assert_int_equal(release_saves(s), 2);
}

/* A container is reset while its save is waited for: the client hears that it is not saved. */
TEST(test_asked_to_save_and_reset)
{
    struct st *s = saved_at_1("partial");
    struct fc other;
    hold_saves(s);
    fc_init(&other, s->sv->t[0], 77);
    assert_int_equal(fc_connect(&other), PS_OK);
    sv_ask(s->sv);
    sv_run(s->sv);
    struct fc own = s->sv->c;
    s->sv->c = other;
    reset_container(s, "model");
    s->sv->c = own;
    assert_reply(fc_take(&s->sv->c, NULL), PS_ABORTED, "container 'model' was reset meanwhile");
}
