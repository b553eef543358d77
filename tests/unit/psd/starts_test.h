/* SPDX-License-Identifier: Apache-2.0 */
/* Two ps tasks with a variable each that are killed and come back. Real disks beneath tasks in a fake shell. */
#ifndef TESTS_UNIT_PSD_STARTS_TEST_H
#define TESTS_UNIT_PSD_STARTS_TEST_H

#include "save_test.h"

#include "psd/checkpoint/saver.h"
#include "psd/checkpoint/loader.h"

#include <fcntl.h>

#ifndef STARTS_N
#define STARTS_N 40000 /* of w and v: several blocks */
#endif
enum { N = STARTS_N };

struct st {
    struct sv *sv;
    struct fc at1;
    shell_tweak tweak;
    ps_v1_OpenAnswer w, v; /* at task 0; at task 1 */
};

static inline void connect_1(struct st *s)
{
    fc_init(&s->at1, s->sv->t[1], 2);
    assert_int_equal(fc_connect(&s->at1), PS_OK);
}

static inline ps_v1_OpenAnswer made_of(struct st *s, struct fc *at, const char *name, uint32_t task, uint64_t elements)
{
    ps_v1_CreateItem m;
    ps_v1_OpenAnswer a;
    fc_create_item(&m, name, PS_F32, elements, ps_adagrad(0.1));
    m.task = task;
    assert_int_equal(fc_create(&s->sv->c, &m, NULL), PS_OK);
    assert_int_equal(fc_open(at, name, &a), PS_OK);
    assert_applied(fc_init_var(at, a.handle, ps_zeros(), ps_adagrad(0.1), 0, false));
    assert_reply(fc_seal(at, a.handle, a.creation, 0), PS_OK, "");
    return a;
}

static inline ps_v1_OpenAnswer made_at(struct st *s, struct fc *at, const char *name, uint32_t task)
{
    return made_of(s, at, name, task, N);
}

static inline struct st *st_new(shell_tweak tweak)
{
    struct st *s = test_alloc(sizeof(*s));
    memset(s, 0, sizeof(*s));
    s->tweak = tweak;
    s->sv = sv_new_bare(false, false, tweak);
    PSI_IGNORE(sv_join(s->sv)); /* it stays with the tasks */
    connect_1(s);
    s->w = made_at(s, &s->sv->c, "w", 0);
    s->v = made_at(s, &s->at1, "v", 1);
    return s;
}

static inline void set_one(struct fc *at, const ps_v1_OpenAnswer *a, float value)
{
    static float values[N];
    for (int i = 0; i < N; i++) {
        values[i] = value + (float)i;
    }
    assert_applied(fc_push(at, PS_OP_ASSIGN, a, values, 1, 0));
}

/* w is `value` everywhere, from one assignment; v as well. */
static inline void set(struct st *s, float value)
{
    set_one(&s->sv->c, &s->w, value);
    set_one(&s->at1, &s->v, value);
}

static inline void assert_is(struct fc *at, const char *name, float value, ps_v1_OpenAnswer *a)
{
    static float values[N];
    assert_int_equal(fc_open(at, name, a), PS_OK);
    assert_true(a->initialised && a->sealed);
    assert_int_equal(fc_pull(at, a, 0, N, values).status, PS_OK);
    for (int i = 0; i < N; i++) {
        assert_true(values[i] == value + (float)i);
    }
}

static inline void assert_both(struct st *s, float w, float v)
{
    assert_is(&s->sv->c, "w", w, &s->w);
    assert_is(&s->at1, "v", v, &s->v);
}

/* There is no v. */
static inline void assert_w_alone(struct st *s, float w)
{
    assert_is(&s->sv->c, "w", w, &s->w);
    assert_int_equal(fc_open(&s->at1, "v", &s->v), PS_NOT_FOUND);
}

/* It comes back, and what follows is settled. */
static inline void boot(struct st *s, bool zero, bool one)
{
    if (zero) {
        sv_boot(s->sv, 0, s->tweak);
    }
    if (one) {
        sv_boot(s->sv, 1, s->tweak);
    }
    PSI_IGNORE(sv_join(s->sv)); /* it stays with the tasks */
}

static inline void connect(struct st *s, bool zero, bool one)
{
    if (zero) {
        sv_connect(s->sv);
    }
    if (one) {
        connect_1(s);
    }
}

static inline void kill_both(struct st *s)
{
    sv_kill(s->sv, 1);
    sv_kill(s->sv, 0);
}

static inline uint64_t save(struct st *s)
{
    struct fc_reply r = sv_save(s->sv);
    return sv_number(&r);
}

/* This byte of a file beneath the test's directory is another one; twice: it is what it was. */
static inline void spoil_at(const struct st *s, const char *path, off_t at)
{
    char whole[512];
    uint8_t byte = 0;
    (void)snprintf(whole, sizeof(whole), "%s/%s", s->sv->dir, path);
    int fd = open(whole, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    assert_int_equal(close(fd), 0);
}

/* ... of this file of task i. */
static inline void spoil(const struct st *s, uint32_t i, uint64_t number, enum psd_disk_file_kind kind)
{
    char path[64], name[PSD_DISK_NAME_BYTES_MAX];
    struct psd_disk_file file = {.number = number, .kind = kind};
    (void)snprintf(path, sizeof(path), "ps-%u/%s", i, psd_files_path(&file, name));
    spoil_at(s, path, kind == PSD_DISK_MANIFEST ? 40 : 1000);
}

static inline ps_status hello_of_a_worker(struct shell_task *t)
{
    static uint8_t others = 50; /* sessions */
    struct fc c;
    struct fc_hello hello;
    fc_init(&c, t, others++);
    fc_hello_default(&c, &hello);
    PSI_IGNORE(PSI_BYTES_SET(hello.m.job, "worker")); /* fits */
    return fc_hello(&c, &hello);
}

static inline void reset_container(struct st *s, const char *container)
{
    struct wire *w = wire_new(), *body = wire_new();
    ps_v1_ContainerItem m = ps_v1_ContainerItem_init_zero;
    PSI_BYTES_SET(m.container, container);
    wire_item(body, &ps_v1_ContainerItem_msg, &m);
    fc_frame(&s->sv->c, w, PS_OP_RESET, 0, 100 + ++s->sv->ids, 0, NULL, 0, body);
    shell_send(s->sv->c.conn, w);
    sv_run(s->sv);
    assert_reply(fc_take(&s->sv->c, NULL), PS_OK, "");
}

static inline void reset(struct st *s)
{
    reset_container(s, "localhost");
}

static inline void with_latest(struct psd_task_config *config)
{
    sv_with_disk(config);
    config->restore = PSD_RESTORE_LATEST;
}

static inline void with_none(struct psd_task_config *config)
{
    sv_with_disk(config);
    config->restore = PSD_RESTORE_NONE;
}

static inline void with_one(struct psd_task_config *config)
{
    sv_with_disk(config);
    config->restore = -1;
}

static inline void with_cut(struct psd_task_config *config)
{
    sv_with_disk(config);
    config->recover = (psd_text){"cut"};
}

static inline void pass(const struct st *s)
{
    shell_pass(&s->sv->net, 3000);
    sv_run(s->sv);
}

/* Task i is lost, the directory or the other one. */
static inline void lose(struct st *s, uint32_t i)
{
    sv_kill(s->sv, i);
    boot(s, i == 0, i == 1);
    connect(s, i == 0, i == 1);
}

/* Their chief puts w and v in a group of that mode; 0: out of it. */
static inline void sync_both(struct st *s, uint32_t mode)
{
    static const char *const NAMES[] = {"global_step", "w", "v"};
    ps_v1_Sync m = {.timeout_ms = 20000, .has_options = true, .options = {.mode = mode, .workers = 1, .on_loss = 0}};
    uint8_t meta[PS_META_BYTES_MAX] = {0};
    size_t bytes = 0;
    struct wire *body = wire_new();
    m.options.staleness = mode == 2;
    m.chief_number = fc_chief(&s->sv->c);
    for (size_t k = 0; k < 3; k++) {
        ps_v1_NameItem name = ps_v1_NameItem_init_zero;
        PSI_IGNORE(psi_bytes_set((pb_bytes_array_t *)(void *)&name.name, PS_NAME_BYTES_MAX, NAMES[k])); /* fits */
        wire_item(body, &ps_v1_NameItem_msg, &name);
    }
    assert_int_equal(psi_msg_encode(&ps_v1_Sync_msg, &m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    assert_reply(fc_call(&s->sv->c, PS_OP_SYNC, 0, s->sv->c.next_id++, 0, meta, psi_pad8((uint32_t)bytes), body), PS_OK, "");
    sv_run(s->sv);
}

static inline void hold_saves(const struct st *s)
{
    s->sv->t[0]->core->saver->again_ms = UINT64_MAX;
}

/* For one of w and v with its slot, not for two. */
static inline void with_little_memory(struct psd_task_config *config)
{
    sv_with_disk(config);
    config->memory_budget_bytes = (uint64_t)N * 8 + (64 << 10);
}

/* What of task i's budget a checkpoint of it takes again. */
static inline uint64_t kept_bytes(const struct st *s, uint32_t i)
{
    const struct psd_store *of = &s->sv->t[i]->core->store;
    return psd_store_taken(of) - of->counted[PSD_MEMORY_PUSHES];
}

/* What task i says that would have so much. */
static inline const char *why_little(uint32_t i, uint64_t bytes)
{
    static char why[200];
    (void)snprintf(why, sizeof(why),
                   "/job:ps/task:%u would have %llu bytes with what it gets of it; its memory budget is %d bytes", i,
                   (unsigned long long)bytes, N * 8 + (64 << 10));
    return why;
}

/* psctl config set memory_budget. */
static inline void give_memory(const struct st *s)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (s->sv->t[i] != NULL) {
            s->sv->t[i]->core->config.memory_budget_bytes = 1 << 30;
        }
    }
}

/* Task 0 alone, with a checkpoint that says 1; then both, the other one with a disk or without. */
static inline struct st *grown(shell_tweak tweak, bool bare)
{
    struct st *s = st_new(tweak);
    kill_both(s);
    s->sv->spec = "ps=10.0.0.1:1";
    sv_boot(s->sv, 0, tweak);
    pass(s);
    sv_connect(s->sv);
    s->w = made_at(s, &s->sv->c, "w", 0);
    set_one(&s->sv->c, &s->w, 1);
    assert_int_equal(save(s), 1);
    sv_kill(s->sv, 0);
    s->sv->spec = SAVE_SPEC;
    s->sv->bare[1] = bare;
    boot(s, true, true);
    connect(s, true, true);
    assert_w_alone(s, 1);
    s->v = made_at(s, &s->at1, "v", 1);
    set(s, 2);
    return s;
}

/* Saves are held: who asked for it has no answer when it is placed. */
static inline void restore_held(struct st *s, uint64_t number)
{
    assert_true(s->sv->t[0]->core->saver->again_ms == UINT64_MAX);
    sv_ask_by_name(s->sv, PS_OP_CHECKPOINT_RESTORE, number, false);
    sv_run(s->sv);
    assert_int_equal(fc_take(&s->sv->c, NULL).status, FC_NONE);
    assert_true(shell_logged(s->sv->t[0], "checkpoint_restored"));
}

/* The client hears that the model which was to be saved has gone back to checkpoint `number`. */
static inline void assert_not_saved(struct st *s, uint64_t number)
{
    char why[200];
    (void)snprintf(why, sizeof(why),
                   "checkpoint 1 was restored, and is not saved so: what was to be saved is lost: tasks have gone back to "
                   "checkpoint %llu, of step 0, which is what holds now",
                   (unsigned long long)number);
    struct fc_reply r = fc_take(&s->sv->c, NULL);
    assert_reply(r, PS_UNAVAILABLE, why);
    assert_int_equal(r.applied, PS_MAYBE_PARTLY_APPLIED);
}

/* Nothing holds them any more: the restore that waits is answered. */
static inline uint64_t release_saves(struct st *s)
{
    s->sv->t[0]->core->saver->again_ms = 0;
    sv_run(s->sv);
    shell_pass(&s->sv->net, 1000);
    sv_run(s->sv);
    struct fc_reply r = fc_take(&s->sv->c, NULL);
    return sv_number(&r);
}

static inline void restore(struct st *s, uint64_t number, ps_status st, const char *why)
{
    uint64_t next = psd_saver_highest(s->sv->t[0]->core) + 1;
    sv_ask_by_name(s->sv, PS_OP_CHECKPOINT_RESTORE, number, false);
    sv_run(s->sv);
    struct fc_reply r = fc_take(&s->sv->c, NULL);
    assert_reply(r, st, why);
    if (st == PS_OK) {
        assert_int_equal(sv_number(&r), next);
    }
}

/* It is asked for, and not waited for longer than that. */
static inline void ask_restore(struct st *s, uint64_t number, uint32_t timeout_ms)
{
    uint8_t meta[PS_META_BYTES_MAX];
    ps_v1_SavedNameItem item = {.number = number};
    struct wire *w = wire_new(), *body = wire_new();
    uint16_t bytes = wait_meta(timeout_ms, meta);
    wire_item(body, &ps_v1_SavedNameItem_msg, &item);
    fc_frame(&s->sv->c, w, PS_OP_CHECKPOINT_RESTORE, 0, 100 + ++s->sv->ids, 0, meta, bytes, body);
    shell_send(s->sv->c.conn, w);
}

static inline void move(const struct st *s, const char *from, const char *to)
{
    char a[512], b[512];
    (void)snprintf(a, sizeof(a), "%s/%s", s->sv->dir, from);
    (void)snprintf(b, sizeof(b), "%s/%s", s->sv->dir, to);
    assert_int_equal(rename(a, b), 0);
}

/* The directory of task 1 goes aside, or comes back. */
static inline void move_1(const struct st *s, bool back)
{
    move(s, back ? "aside" : "ps-1", back ? "ps-1" : "aside");
}

#endif
