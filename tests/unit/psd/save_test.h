/* SPDX-License-Identifier: Apache-2.0 */
/* Two ps tasks with disks, the directory and another one, in memory (or three); their disks are directories of the test. */
#ifndef TESTS_UNIT_PSD_SAVE_TEST_H
#define TESTS_UNIT_PSD_SAVE_TEST_H

#include "cluster_test.h"
#include "fs_fault.h"

#include "common/mem.h"
#include "psd/checkpoint/saver.h"
#include "psd/durable/files.h"
#include "psd/shell/place.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define SAVE_SPEC "ps=10.0.0.1:1,10.0.0.2:2"

struct sv_disk {
    struct psd_place place;
    struct fs_fault fault;
    struct psd_files files;
    bool open, held; /* held: it does nothing */
};

enum { SV_TASKS = 3, SV_TURNS_MAX = 10000 };

struct sv {
    struct shell_net net;
    struct shell_task *t[SV_TASKS]; /* NULL: it is down */
    struct sv_disk disks[SV_TASKS];
    struct fc c;
    const char *dir, *spec;
    uint64_t seed;
    uint64_t ids;        /* of CHECKPOINTs */
    bool bare[SV_TASKS]; /* without a disk */
};

static inline void sv_with_disk(struct psd_task_config *config)
{
    config->has_disk = true;
    config->checkpoint_seconds = 0;
    config->unix_ms = 1700000000000;
}

static inline void sv_disk_open(struct sv *sv, uint32_t i)
{
    struct sv_disk *d = &sv->disks[i];
    struct psd_fs fs;
    struct psi_err err;
    if (sv->bare[i]) {
        return;
    }
    assert_ok(psd_place_open(&d->place, sv->dir, "ps", i, "a task", &err), &err);
    psd_place_fs(&d->place, &fs);
    fs_fault_init(&d->fault, &fs, &fs);
    assert_ok(psd_files_open(&d->files, &fs, &err), &err);
    d->open = true;
    d->held = false;
}

static inline void sv_disk_close(struct sv *sv, uint32_t i)
{
    struct sv_disk *d = &sv->disks[i];
    if (d->open) {
        psd_files_close(&d->files);
        psd_place_close(&d->place);
        d->open = false;
    }
}

/* The oldest operation of task i; false: there is none, or the disk is held. */
static inline bool sv_disk_step(struct sv *sv, uint32_t i)
{
    struct shell_task *t = sv->t[i];
    struct sv_disk *d = &sv->disks[i];
    struct psi_err err;
    size_t bytes = 0;
    if (t == NULL || d->held || t->disk_count == 0) {
        return false;
    }
    struct psd_disk_op op = t->disk[0];
    ps_status st = psd_files_run(&d->files, &op, &bytes, &err);
    shell_disk_over(t, st, st == PS_OK ? PS_REASON_NONE : err.reason, bytes, st == PS_OK ? "" : err.text);
    shell_run(&sv->net);
    return true;
}

/* What task i dials to read there is up; false: it dials nobody. A task that is down does not answer. */
static inline bool sv_dial_step(struct sv *sv, uint32_t i)
{
    struct shell_task *t = sv->t[i];
    if (t == NULL || t->source[0] == '\0') {
        return false;
    }
    uint32_t to = strcmp(t->source, "10.0.0.1:1") == 0 ? 0 : 1;
    PSI_IGNORE(shell_dial_source(t, sv->t[to])); /* it stays with the tasks */
    return true;
}

/* Only the disk of this task works. */
static inline void sv_run_one(struct sv *sv, uint32_t i)
{
    shell_run(&sv->net);
    while (sv_disk_step(sv, i)) {
    }
}

/* Until nothing moves. A task that begins the same work over and over fails the test. */
static inline void sv_run(struct sv *sv)
{
    bool moved = true;
    shell_run(&sv->net);
    for (uint32_t turns = 0; moved; turns++) {
        assert_in_range(turns, 0, SV_TURNS_MAX);
        moved = false;
        for (uint32_t i = 0; i < SV_TASKS; i++) {
            moved = sv_disk_step(sv, i) || moved;
            moved = sv_dial_step(sv, i) || moved;
        }
    }
}

static inline void sv_boot(struct sv *sv, uint32_t i, shell_tweak tweak)
{
    ps_status st = PS_OK;
    uint64_t now = sv->net.task_count == 0 ? START_MS : sv->net.tasks[0]->now;
    sv_disk_open(sv, i);
    sv->t[i] = shell_task_new(&sv->net, sv->spec, "ps", i, ++sv->seed, now, sv->bare[i] ? NULL : tweak, &st);
    assert_int_equal(st, PS_OK);
    if (i == 0) { /* the first place is the directory's */
        sv->net.tasks[sv->net.task_count - 1] = sv->net.tasks[0];
        sv->net.tasks[0] = sv->t[0];
    }
    sv_run(sv);
}

/* Its process is gone, and what its disk had not done. */
static inline void sv_kill(struct sv *sv, uint32_t i)
{
    shell_task_free(sv->t[i]);
    sv->t[i] = NULL;
    sv_disk_close(sv, i);
    shell_run(&sv->net);
    if (i == 0) {
        sv->c.conn = NULL;
    }
}

/* Task i is connected with the directory, and all is settled. */
static inline struct shell_conn *sv_join_task(struct sv *sv, uint32_t i)
{
    for (int k = 0; sv->t[i]->dials == 0; k++) {
        assert_in_range(k, 0, 50);
        shell_pass(&sv->net, 100);
        sv_run(sv);
    }
    struct shell_conn *c = shell_dial(sv->t[i], sv->t[0]);
    assert_non_null(c);
    sv_run(sv);
    return c;
}

/* The other task is. */
static inline struct shell_conn *sv_join(struct sv *sv)
{
    return sv_join_task(sv, 1);
}

static inline void sv_connect(struct sv *sv)
{
    fc_init(&sv->c, sv->t[0], 1);
    assert_int_equal(fc_connect(&sv->c), PS_OK);
}

static inline void sv_end(void *arg)
{
    struct sv *sv = arg;
    shell_net_fini(&sv->net);
    for (uint32_t i = 0; i < SV_TASKS; i++) {
        sv_disk_close(sv, i);
    }
}

static inline struct sv *sv_new_bare(bool first, bool second, shell_tweak tweak)
{
    struct sv *sv = test_alloc(sizeof(*sv));
    memset(sv, 0, sizeof(*sv));
    sv->dir = test_dir();
    sv->spec = SAVE_SPEC;
    sv->bare[0] = first;
    sv->bare[1] = second;
    shell_net_init(&sv->net);
    test_later(sv_end, sv);
    sv_boot(sv, 0, tweak);
    sv_boot(sv, 1, tweak);
    sv_connect(sv);
    return sv;
}

/* Both have disks and are connected. */
static inline struct sv *sv_new(void)
{
    struct sv *sv = sv_new_bare(false, false, sv_with_disk);
    PSI_IGNORE(sv_join(sv)); /* the connection stays with the tasks */
    return sv;
}

/* There is memory again; all are connected, with a client of a new session. */
static inline void sv_settle(struct sv *sv)
{
    psi_mem_fail_after(-1);
    for (int i = 0; i < 3; i++) {
        shell_pass(&sv->net, 1000);
        sv_run(sv);
    }
    if (sv->t[1]->core->peers[0].conn == NULL) {
        PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    }
    shell_pass(&sv->net, 1000); /* what was asked for before, and waited for a task */
    sv_run(sv);
    fc_init(&sv->c, sv->t[0], 77);
    assert_int_equal(fc_connect(&sv->c), PS_OK);
    for (uint32_t i = 0; i < 2; i++) {
        psd_task_check_invariants(sv->t[i]->core);
    }
}

/* CHECKPOINT is sent, and nothing is done to the model before it. */
static inline void sv_ask_as_it_is(struct sv *sv)
{
    uint8_t meta[PS_META_BYTES_MAX];
    struct wire *w = wire_new();
    uint16_t bytes = wait_meta(60000, meta);
    fc_frame(&sv->c, w, PS_OP_CHECKPOINT, 0, 100 + ++sv->ids, 0, meta, bytes, NULL);
    shell_send(sv->c.conn, w);
}

/* Ask for a checkpoint of a model that has changed since the last one. */
static inline void sv_ask(struct sv *sv)
{
    sv->t[0]->core->store.changes++;
    sv_ask_as_it_is(sv);
}

static inline void sv_ask_by_name(struct sv *sv, uint8_t op, uint64_t number, bool force)
{
    uint8_t meta[PS_META_BYTES_MAX];
    ps_v1_SavedNameItem item = {.number = number, .force = force};
    struct wire *w = wire_new(), *body = wire_new();
    uint16_t bytes = wait_meta(60000, meta);
    wire_item(body, &ps_v1_SavedNameItem_msg, &item);
    fc_frame(&sv->c, w, op, 0, 100 + ++sv->ids, 0, meta, bytes, body);
    shell_send(sv->c.conn, w);
}

static inline void sv_ask_delete(struct sv *sv, uint64_t number, bool force)
{
    sv_ask_by_name(sv, PS_OP_CHECKPOINT_DELETE, number, force);
}

/* ... and decided: the other task has the manifest before it, and its disk is held. */
static inline void sv_decide(struct sv *sv)
{
    sv_ask(sv);
    sv_run_one(sv, 1);
    sv->disks[1].held = true;
    sv_run(sv);
}

static inline struct fc_reply sv_save(struct sv *sv)
{
    sv_ask(sv);
    sv_run(sv);
    return fc_take(&sv->c, NULL);
}

/* CHECKPOINT_READ is sent. */
static inline void sv_ask_range(const struct fc *c, uint64_t id, const ps_v1_CheckpointRead *m)
{
    uint8_t meta[PS_META_BYTES_MAX];
    size_t bytes = 0;
    struct wire *w = wire_new();
    PSI_IGNORE(psi_msg_encode(&ps_v1_CheckpointRead_msg, m, meta, sizeof(meta), &bytes, NULL)); /* it fits */
    fc_frame(c, w, PS_OP_CHECKPOINT_READ, 0, id, 0, meta, (uint32_t)bytes, NULL);
    shell_send(c->conn, w);
}

static inline uint64_t sv_number(const struct fc_reply *r)
{
    uint64_t number = 0;
    assert_int_equal(r->status, PS_OK);
    assert_int_equal(r->result_bytes, sizeof(number));
    memcpy(&number, r->result, sizeof(number));
    return number;
}

/* What CHECKPOINTS says. */
static inline uint32_t sv_list(struct sv *sv, ps_v1_CheckpointAnswer *out, uint32_t most)
{
    struct wire *w = wire_new();
    uint32_t count = 0;
    assert_reply(fc_list(&sv->c, PS_OP_CHECKPOINTS, NULL, NULL, w), PS_OK, "");
    const uint8_t *p = w->data;
    size_t n = w->len;
    ps_v1_CheckpointAnswer a;
    while (fc_item(&p, &n, &ps_v1_CheckpointAnswer_msg, &a)) {
        if (a.failed) { /* no checkpoint: sv_failed() */
            continue;
        }
        assert_in_range(count, 0, most - 1);
        out[count++] = a;
    }
    return count;
}

/* What CHECKPOINTS says of the last attempt; false: the attempt has not failed. */
static inline bool sv_failed(struct sv *sv, ps_v1_CheckpointAnswer *out)
{
    struct wire *w = wire_new();
    bool failed = false;
    *out = (ps_v1_CheckpointAnswer)ps_v1_CheckpointAnswer_init_zero;
    assert_reply(fc_list(&sv->c, PS_OP_CHECKPOINTS, NULL, NULL, w), PS_OK, "");
    const uint8_t *p = w->data;
    size_t n = w->len;
    ps_v1_CheckpointAnswer a;
    while (fc_item(&p, &n, &ps_v1_CheckpointAnswer_msg, &a)) {
        assert_false(failed); /* it is the last item */
        failed = a.failed;
        *out = a;
    }
    return failed;
}

/* Task i has this file of a checkpoint. */
static inline bool sv_has(const struct sv *sv, uint32_t i, uint64_t number, enum psd_disk_file_kind kind)
{
    char path[512], name[PSD_DISK_NAME_BYTES_MAX];
    struct psd_disk_file file = {.number = number, .kind = kind};
    (void)snprintf(path, sizeof(path), "%s/ps-%u/%s", sv->dir, i, psd_files_path(&file, name));
    return access(path, F_OK) == 0;
}

/* ... has nothing of it. */
static inline bool sv_has_nothing(const struct sv *sv, uint32_t i, uint64_t number)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/ps-%u/%020llu", sv->dir, i, (unsigned long long)number);
    return access(path, F_OK) != 0;
}

/* It is there, and decided, on both. */
static inline bool sv_is_whole(const struct sv *sv, uint64_t number)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (!sv_has(sv, i, number, PSD_DISK_STATE) || !sv_has(sv, i, number, PSD_DISK_MANIFEST)) {
            return false;
        }
    }
    return true;
}

/* What psctl status says of checkpoints, in words. Returns buf [n]. */
static inline const char *sv_status(const struct sv *sv, char *buf, size_t n)
{
    ps_v1_SavesState state;
    buf[0] = '\0';
    if (psd_saver_state(sv->t[0]->core, &state)) {
        psd_saver_text(sv->t[0]->core, &state, buf, n);
    }
    return buf;
}

#endif
