/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The disks of tasks, in a world that has some: PSD_EFFECT_DISK is carried out by psd/durable/files.c on a simulated disk, which
 * outlives its task; slowly, with calls that fail, and with power cuts. Happy path: the core asks -> the operation waits for its
 * time, behind those before it -> done and answered. A task that ends drops what has not begun; what has may be half done.
 *
 * The directory is asked for a checkpoint now and then: what it says is saved is whole on the disks of
 * all tasks of its job, and stays so. Where it refuses to begin, somebody soon says that all may begin empty.
 */
#include "sim.h"

#include "disk.h"

#include "psd/base/disk.h"
#include "psd/checkpoint/saver.h"
#include "psd/durable/files.h"
#include "psd/checkpoint/beside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONG_MS = 10000 };

struct sim_task_disk {
    uint64_t rng; /* of its own: a world without disks is what it was */
    struct sim_disk *disk;
    struct psd_files files;
    struct psd_disk_op ops[PSD_DISK_OPS_MAX]; /* the oldest first */
    uint32_t count;
    uint64_t done_at; /* of the oldest */
    uint64_t saved;   /* checkpoint: the newest that was reported */
};

static uint64_t below(struct sim_task_disk *p, uint64_t bound)
{
    return psi_random_below(&p->rng, bound);
}

/* ---- operations ---- */

static void set_out(struct sim *s, struct sim_task_disk *p)
{
    bool longer = below(p, 50) == 0 && !s->healing && !s->k.quiet;
    p->done_at = s->now + (longer ? below(p, LONG_MS) : below(p, 3) == 0 ? below(p, 30) : 0);
}

void sim_disks_ask(struct sim *s, struct sim_task *t, const struct psd_disk_op *op)
{
    struct sim_task_disk *p = t->disk;
    if (p == NULL || p->count == PSD_DISK_OPS_MAX) {
        sim_fail(s, "/job:%s/task:%u asks for its disk, and %s", t->job, t->index, p == NULL ? "has none" : "too often");
    }
    p->ops[p->count++] = *op;
    if (p->count == 1) {
        set_out(s, p);
    }
}

bool sim_disks_due(const struct sim *s, const struct sim_task *t, uint64_t *out_next)
{
    const struct sim_task_disk *p = t->disk;
    if (p == NULL || p->count == 0) {
        return false;
    }
    if (p->done_at > s->now && p->done_at < *out_next) {
        *out_next = p->done_at;
    }
    return p->done_at <= s->now;
}

void sim_disks_done(struct sim *s, struct sim_task *t)
{
    struct sim_task_disk *p = t->disk;
    struct psi_err err = {.code = PS_OK};
    struct psd_disk_op op = p->ops[0];
    size_t bytes = 0;
    sim_disk_fail_one_in(p->disk, s->seed % 3 == 0 && !s->healing ? 60 : 0);
    ps_status st = psd_files_run(&p->files, &op, &bytes, &err);
    sim_disk_fail_one_in(p->disk, 0);
    memmove(&p->ops[0], &p->ops[1], --p->count * sizeof(p->ops[0]));
    set_out(s, p);
    s->count_disk_ops++;
    sim_trace(s, "%s:%u disk %d %s %s", t->job, t->index, (int)op.kind, ps_status_name(st), err.text);
    psd_task_disk_done(t->core, op.id, st, err.reason, bytes, err.text);
    sim_task_settle(s, t);
}

void sim_disks_tick(struct sim_task *t)
{
    struct sim_task_disk *p = t->disk;
    if (p != NULL) {
        const struct sim *s = t->sim;
        int as_told = s->older != 0 ? -(int)s->older : PSD_RESTORE_AUTO;
        t->core->config.restore = t->core->refused != NULL ? PSD_RESTORE_NONE : as_told;
    }
    if (p != NULL && t->core->saver != NULL && !(t->sim->k.fewer && t->sim->ending) && below(p, t->sim->k.save_in) == 0) {
        psd_saver_wants(t->core->saver, PSD_SAVER_IF_NEW);
    }
}

/* ---- checkpoints ---- */

/* It has its part of a checkpoint, and the manifest. */
static bool has_whole(struct sim_task_disk *p, uint64_t number)
{
    static const enum psd_disk_file_kind KINDS[] = {PSD_DISK_STATE, PSD_DISK_MANIFEST};
    for (size_t i = 0; i < sizeof(KINDS) / sizeof(KINDS[0]); i++) {
        uint8_t byte = 0;
        size_t bytes = 0;
        struct psi_err err;
        struct psd_disk_op op = {
            .kind = PSD_DISK_READ, .file = {.number = number, .kind = KINDS[i]}, .out = &byte, .bytes = sizeof(byte)};
        if (psd_files_run(&p->files, &op, &bytes, &err) != PS_OK || bytes == 0) {
            return false;
        }
    }
    return true;
}

uint64_t sim_disks_read(const struct sim_task *t, const struct psd_disk_file *file, uint64_t offset, void *to, uint64_t n)
{
    size_t bytes = 0;
    struct psi_err err;
    struct psd_disk_op op = {.kind = PSD_DISK_READ, .file = *file, .offset = offset, .out = to, .bytes = (size_t)n};
    return psd_files_run(&t->disk->files, &op, &bytes, &err) == PS_OK ? bytes : 0;
}

#define ENTRIES_MAX 256

/* The files of the disk of t: their count. */
static size_t list(struct sim *s, const struct sim_task *t, struct psd_disk_entry entries[ENTRIES_MAX])
{
    struct psd_disk_op op = {.kind = PSD_DISK_LIST, .out = entries, .bytes = ENTRIES_MAX * sizeof(entries[0])};
    size_t bytes = 0;
    struct psi_err err;
    if (psd_files_run(&t->disk->files, &op, &bytes, &err) != PS_OK) {
        sim_fail(s, "a disk that nothing is wrong with: %s", err.text);
    }
    return bytes / sizeof(entries[0]);
}

uint64_t sim_disks_size(struct sim *s, const struct sim_task *t, const struct psd_disk_file *file)
{
    struct psd_disk_entry entries[ENTRIES_MAX];
    size_t count = list(s, t, entries);
    for (size_t i = 0; i < count; i++) {
        if (entries[i].file.number == file->number && entries[i].file.kind == file->kind &&
            entries[i].file.index == file->index) {
            return entries[i].bytes;
        }
    }
    return 0;
}

/* One of the processes that are this task has it. */
static bool is_kept(const struct sim *s, const struct sim_task *of, uint64_t number)
{
    for (uint32_t i = 0; i < s->task_count; i++) {
        const struct sim_task *t = &s->task[i];
        if (strcmp(t->job, of->job) == 0 && t->index == of->index && t->disk != NULL && has_whole(t->disk, number)) {
            return true;
        }
    }
    return false;
}

/* All tasks of the job have a newer one. It may have become whole without a report: a task was told of it, and failed to write
 * its manifest until its next life (docs/DURABILITY.md 6). A full disk then takes the one that was reported. */
static bool newer_is_kept(struct sim *s, const struct sim_task *t)
{
    struct psd_disk_entry entries[ENTRIES_MAX];
    size_t count = list(s, t, entries);
    for (size_t i = 0; i < count; i++) {
        bool kept = entries[i].file.kind == PSD_DISK_MANIFEST && entries[i].file.number > t->disk->saved;
        for (uint32_t k = 0; k < s->task_count && kept; k++) {
            kept = strcmp(s->task[k].job, t->job) != 0 || is_kept(s, &s->task[k], entries[i].file.number);
        }
        if (kept) {
            return true;
        }
    }
    return false;
}

static void check_saved(struct sim *s, const struct sim_task *t)
{
    if (t->disk->saved != 0 && !has_whole(t->disk, t->disk->saved) && !newer_is_kept(s, t)) {
        sim_fail(s, "NOT SAVED: checkpoint %llu was reported, and %s:%u has lost it", (unsigned long long)t->disk->saved, t->job,
                 t->index);
    }
}

/* Of the processes that are this task one has it. */
static bool one_has(struct sim *s, const struct sim_task *of, uint64_t number)
{
    bool found = false;
    for (uint32_t i = 0; i < s->task_count; i++) {
        struct sim_task *t = &s->task[i];
        if (strcmp(t->job, of->job) == 0 && t->index == of->index && t->disk != NULL && has_whole(t->disk, number)) {
            t->disk->saved = number;
            sim_checkpoint_saved(s, t, number);
            found = true;
        }
    }
    return found;
}

/* Where nothing lives the newest that was reported comes back, or a newer one. A task may have gone on as another process, of
 * which the disk has an older one only: that is what all have then. */
static void check_restored(struct sim *s, const char *text, unsigned long long number)
{
    uint64_t of_all = UINT64_MAX;
    for (uint32_t i = 0; i < s->task_count; i++) {
        const struct sim_task *t = &s->task[i];
        if (t->core != NULL && t->disk != NULL && t->disk->saved < of_all) {
            of_all = t->disk->saved;
        }
    }
    if (strstr(text, " recover=start ") != NULL && s->older == 0 && !s->checkpoint_spoilt && of_all != UINT64_MAX &&
        number < of_all) {
        sim_fail(s, "NOT RESTORED: %llu was reported as saved, and all begin with %llu", (unsigned long long)of_all, number);
    }
}

void sim_disks_logged(struct sim *s, const struct psd_effect *log)
{
    static const char key[] = "checkpoint=";
    const char *digits = log->text + sizeof(key) - 1;
    char *end = NULL;
    s->checkpoint_spoilt = s->checkpoint_spoilt || strcmp(log->event, "checkpoint_unusable") == 0;
    s->start_refused = s->start_refused || strcmp(log->event, "start_refused") == 0;
    if (strncmp(log->text, key, sizeof(key) - 1) != 0) {
        return;
    }
    unsigned long long number = strtoull(digits, &end, 10);
    if (end == digits) {
        return;
    }
    sim_saves_logged(s, log->event, number);
    if (strcmp(log->event, "checkpoint_restored") == 0) {
        const char *of = strstr(log->text, " containers=");
        s->back_everywhere = strstr(log->text, " recover=partial ") == NULL;
        (void)snprintf(s->back_of, sizeof(s->back_of), "%s", of == NULL ? "" : of);
        sim_saves_restored(s, log->text, number);
        check_restored(s, log->text, number);
    }
    for (uint32_t i = 0; i < s->task_count && strcmp(log->event, "checkpoint_unchanged") == 0; i++) {
        if (strcmp(s->task[i].job, s->task[0].job) == 0) {
            sim_checkpoint_unchanged(s, &s->task[i], number);
        }
    }
    if (strcmp(log->event, "checkpoint_saved") != 0) {
        return;
    }
    s->count_checkpoints++;
    sim_back_saved(s, number);
    for (uint32_t i = 0; i < s->task_count; i++) {
        const struct sim_task *t = &s->task[i];
        if (strcmp(t->job, s->task[0].job) == 0 && !one_has(s, t, number)) {
            sim_fail(s, "NOT SAVED: checkpoint %llu is reported, and %s:%u has no part of it, or no manifest", number, t->job,
                     t->index);
        }
    }
}

static bool of_one_table(const struct sim_var *a, const struct sim_var *b)
{
    const char *end = strrchr(a->name, '/');
    return a->part.count > 0 && b->part.count > 0 && end != NULL && strcmp(a->container, b->container) == 0 &&
           strncmp(a->name, b->name, (size_t)(end - a->name)) == 0;
}

/* True if op makes v, when v is lost. A part of a table is made with all its parts, and where one is refused, all are. READY gets
 * again what was lost. */
static bool gets(const struct sim_op *op, const struct sim_var *v)
{
    return v == op->var || op->kind == PSI_REQ_READY || (op->var != NULL && of_one_table(op->var, v));
}

/* One that op gets came back where its part was loaded, with or without a value, which is not where its programs pin it
 * (docs/DURABILITY.md 8.4); or was made anew since by a program that leaves the device out for that. */
static bool loaded_elsewhere(const struct sim *s, const struct sim_op *op)
{
    for (size_t i = 0; i < s->birth_count; i++) {
        const struct sim_birth *b = &s->birth[i];
        const struct sim_task *t = &s->task[b->task];
        const char *device = b->var->device;
        char at[48];
        (void)snprintf(at, sizeof(at), "/job:%s/task:%u", t->job, t->index);
        if (gets(op, b->var) && (b->placed || b->var->unpinned) && b->died_event > op->started_event && device[0] != '\0' &&
            strcmp(at, device) != 0) {
            return true;
        }
    }
    return false;
}

bool sim_disks_cause(const struct sim *s, const struct sim_call *call)
{
    const struct sim_op *op = call->op;
    const char *why = call->req.err != NULL ? call->req.err->text : "";
    switch (op->status) {
    case PS_FAILED_PRECONDITION: /* nothing that may be loaded is there */
        return s->start_refused && strstr(why, " begin: ") != NULL;
    case PS_DATA_LOSS: /* it is not noted */
        return s->k.disks && (op->kind == PSI_REQ_RESET || op->kind == PSI_REQ_DELETE);
    case PS_INVALID_ARGUMENT:
        return (op->kind == PSI_REQ_GET || op->kind == PSI_REQ_READY) && loaded_elsewhere(s, op);
    default:
        return false;
    }
}

/* ---- starts and ends ---- */

static void open_files(struct sim *s, struct sim_task_disk *p)
{
    struct psd_fs fs;
    struct psi_err err;
    sim_disk_fs(p->disk, &fs);
    if (psd_files_open(&p->files, &fs, &err) != PS_OK) {
        sim_fail(s, "a disk that nothing is wrong with: %s", err.text);
    }
}

void sim_disks_open(struct sim *s, struct sim_task *t)
{
    struct sim_task_disk *p = t->disk;
    if (!s->k.disks) {
        return;
    }
    if (p == NULL) {
        p = sim_alloc(sizeof(*p));
        p->rng = s->seed * 64 + (uint64_t)(t - s->task);
        p->disk = sim_disk_new(p->rng);
        t->disk = p;
    }
    for (uint32_t i = 0; i < SIM_TASKS_MAX;
         i++) { /* all of a job are on one host but a twin, also those that have left the cluster */
        const struct sim_task *other = &s->task[i];
        if (other->index != t->index && other->disk != NULL && strcmp(other->job, t->job) == 0) {
            sim_disk_beside(p->disk, other->index, other->disk->disk);
        }
    }
    open_files(s, p);
    check_saved(s, t);
}

void sim_disks_end(struct sim *s, struct sim_task *t)
{
    struct sim_task_disk *p = t->disk;
    size_t bytes = 0;
    if (p == NULL) {
        return;
    }
    sim_saves_killed(s, t);
    if (p->count > 0 && below(p, 2) == 0) { /* in the middle of it */
        sim_disk_die_after(p->disk, (uint32_t)below(p, 8));
        PSI_IGNORE(psd_files_run(&p->files, &p->ops[0], &bytes, NULL)); /* nobody is there to be told */
    }
    psd_files_close(&p->files);
    p->count = 0;
    if (below(p, 2) == 0) {
        s->count_disk_cuts++;
        sim_disk_cut(p->disk);
    } else {
        sim_disk_kill(p->disk);
    }
}

void sim_disks_forget(struct sim *s, struct sim_task *t)
{
    for (uint32_t i = 0; i < s->task_count; i++) {
        sim_disk_beside(s->task[i].disk->disk, t->index, NULL);
    }
    sim_disks_free(t);
}

void sim_disks_free(struct sim_task *t)
{
    if (t->disk != NULL) {
        sim_disk_free(t->disk->disk);
        free(t->disk);
        t->disk = NULL;
    }
}
