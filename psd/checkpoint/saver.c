/* SPDX-License-Identifier: Apache-2.0 */
/* How the directory makes a checkpoint: see saver.h.
 *
 * Happy path, by phase:
 *   - LOOKING: TASK_SAVED asks all tasks whether the newest whole checkpoint has all that they have. If so, no new one is made.
 *   - CUTTING: TASK_CUT tells all tasks in one event to save. Each task answers with the sizes and CRCs of its files.
 *   - DECIDING: the manifest, which lists all files, is written to this task's disk. From then on the checkpoint counts.
 *   - TELLING: TASK_MANIFEST sends the manifest to the other tasks. When all have it, the checkpoint is saved.
 *
 * Failure:
 *   - A task is lost or a container is reset in CUTTING, or a disk fails before TELLING: TASK_DROP has all parts removed.
 *   - A task is lost later: it gets the manifest when it reports its part. If it has lost the part, the attempt has failed.
 *   - A task reports a part without manifest: it gets the manifest, or TASK_DROP if the directory has none either.
 *   - A task's disk does not take the manifest: the manifest is sent again. */
#include "saver.h"
#include "loader.h"

#include "psd/rounds/groups.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

enum { RETRY_MS = 1000, RETRY_LAST_MS = 200 };
#define SAME_UNKNOWN UINT64_MAX /* value of psd_saver.same while no task has said which checkpoint equals its part */

static void checkpoint_free(struct psd_checkpoint *c)
{
    psi_list_remove(&c->link);
    psi_buf_fini(&c->manifest);
    psi_free(c);
}

/* Append a checkpoint to psd_saver.known. Takes over the bytes of its manifest, on errors too. NULL: no memory. */
static struct psd_checkpoint *known_add(struct psd_saver *s, const ps_v1_SaveItem *what, struct psi_buf *manifest)
{
    struct psd_checkpoint *c = psi_calloc(1, sizeof(*c));
    if (c == NULL) {
        psi_buf_fini(manifest);
        return NULL;
    }
    c->what = *what;
    c->manifest = *manifest;
    psi_manifest_init(manifest);
    s->first = psi_list_empty(&s->known) && s->first == 0 ? what->number : s->first;
    s->last = what->number;
    psi_list_push_back(&s->known, &c->link); /* checkpoints are added in the order of their numbers */
    return c;
}

void psd_saver_encode_manifest(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l)
{
    const struct psd_checkpoint *c = o->what;
    struct psi_items walk = psi_manifest_files(&c->manifest);
    ps_v1_FileItem file;
    (void)t, (void)p;
    psd_list_add(l, &ps_v1_SaveItem_msg, &c->what);
    while (psi_manifest_next(&walk, &file)) {
        psd_list_add(l, &ps_v1_FileItem_msg, &file);
    }
}

static void tell_manifest(struct psd_task *t, struct psd_peer *p, const struct psd_checkpoint *c)
{
    (void)psd_order(t, p, &(struct psd_order){.op = PS_OP_TASK_MANIFEST, .number = c->what.number, .what = c});
}

/* ---- what peers have ---- */

static bool listed_add(struct psd_saver_peer *of, uint64_t number, bool whole)
{
    struct psd_saver_listed *l = psd_saver_listed_of(of, number);
    if (l == NULL) {
        struct psd_saver_listed *more = psi_grow(of->listed, of->listed_count, &of->listed_capacity, sizeof(*more));
        if (more == NULL) {
            return false;
        }
        of->listed = more;
        l = &of->listed[of->listed_count++];
        l->number = number;
    }
    l->whole = whole;
    return true;
}

static void listed_remove(struct psd_saver_peer *of, uint64_t number)
{
    struct psd_saver_listed *l = psd_saver_listed_of(of, number);
    if (l != NULL) {
        *l = of->listed[--of->listed_count];
    }
}

void psd_saver_list_begin(struct psd_task *t, const struct psd_peer *p)
{
    if (t->saver != NULL) {
        t->saver->names = PSD_SAVER_NAMES_OPEN;
        t->saver->names_cursor = 0;
        /* the task's report lacks these two facts; its next BEAT has them (psd_rpc_beat()) */
        t->peers[p->index].changed = false;
        t->peers[p->index].saved = 0;
        t->saver->peers[p->index].has_disk = false;
        t->saver->peers[p->index].listed_count = 0;
    }
}

ps_status psd_saver_list_item(struct psd_task *t, const struct psd_peer *p, const ps_v1_ListItem *listed, struct psi_err *err)
{
    struct psd_saver *s = t->saver;
    struct psd_saver_peer *of = s == NULL ? NULL : &s->peers[p->index];
    const ps_v1_SavedItem *item = &listed->saved;
    if (item->state < PS_SAVED_HEARD || item->state > PS_SAVED_BAR || item->number >= UINT64_MAX / 2) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "checkpoint %llu in state %u", (unsigned long long)item->number, item->state);
    }
    if (s == NULL || !p->own_job) {
        return PS_OK;
    }
    s->highest = item->number > s->highest ? item->number : s->highest;
    if (item->state == PS_SAVED_BAR) {
        return psd_saver_take_bar(t, listed, err);
    }
    of->has_disk = of->has_disk || item->state == PS_SAVED_HEARD;
    bool taken = item->state == PS_SAVED_HEARD || listed_add(of, item->number, item->state == PS_SAVED_WHOLE);
    return taken ? PS_OK : psi_fail(err, PS_RESOURCE_EXHAUSTED, "a list of checkpoints: no memory");
}

static void done_by(struct psd_task *t, uint32_t peer);
static void part_lost(struct psd_task *t, const struct psd_peer *p);

void psd_saver_settle(struct psd_task *t, struct psd_peer *p)
{
    struct psd_saver *s = t->saver;
    const struct psd_saver_peer *of = &s->peers[p->index];
    const struct psd_checkpoint *oldest = psi_list_empty(&s->known) ? NULL : psd_checkpoint_at(psi_list_first(&s->known));
    for (uint32_t i = 0; i < of->listed_count && !p->conn->closing; i++) {
        const struct psd_saver_listed *l = &of->listed[i];
        const struct psd_checkpoint *c = psd_saver_known(t, l->number);
        bool open = (s->phase == PSD_SAVER_CUTTING || s->phase == PSD_SAVER_DECIDING) && l->number == s->what.number;
        /* old: deleted while the task was away. A checkpoint below s->first may be of another cluster, and is left alone */
        bool old = c == NULL && oldest != NULL && l->number >= s->first && l->number < oldest->what.number;
        if (!l->whole && c != NULL) {
            tell_manifest(t, p, c);
        } else if (!open && ((!l->whole && c == NULL) || old)) {
            (void)psd_saver_tell(t, p, PS_OP_TASK_DROP, l->number, false);
        }
    }
    if (s->phase == PSD_SAVER_TELLING) {
        const struct psd_saver_listed *l = psd_saver_listed_of(of, s->what.number);
        if (l == NULL) {
            part_lost(t, p);
        } else if (l->whole) {
            done_by(t, p->index);
        }
    }
}

/* ---- the directory's own disk ---- */

static void read_next(struct psd_task *t);

static void read_bad(struct psd_task *t, struct psd_shard *shard, const char *why)
{
    psd_log(t, PSI_LOG_ERROR, "checkpoint_unusable", PSI_KV("checkpoint", shard->number), PSI_KV("msg", why));
    PSI_IGNORE(snprintf(shard->bad, sizeof(shard->bad), "its manifest at %s: %s", t->name, why)); /* cut is fine */
}

/* Settle this task's parts that have no manifest. If no task has the manifest, the checkpoint was never decided, and the part is
 * removed. If another task has it, the checkpoint was decided and the manifest here is lost, so the part counts as damaged. */
void psd_saver_settle_own(struct psd_task *t)
{
    struct psd_saver *s = t->saver;
    struct psi_list *it = NULL, *tmp = NULL;
    if (s->disk != PSD_SAVER_DISK_RESUMED || !psd_loader_all_here(t)) {
        return;
    }
    s->disk = PSD_SAVER_DISK_SETTLED;
    PSI_LIST_FOREACH_SAFE(it, tmp, &t->shards->list) {
        struct psd_shard *shard = PSI_CONTAINER_OF(it, struct psd_shard, link);
        const struct psd_peer *has = NULL;
        char name[PSI_TASK_NAME_MAX], why[PSI_TASK_NAME_MAX + 64];
        if (shard->manifest_bytes != 0 || shard->number > s->found) {
            continue;
        }
        for (uint32_t i = 0; i < t->peer_count; i++) {
            const struct psd_saver_listed *l = psd_saver_listed_of(&s->peers[i], shard->number);
            has = t->peers[i].own_job && l != NULL && l->whole ? &t->peers[i] : has;
        }
        if (has == NULL) {
            psd_shards_drop_here(t, shard->number);
            continue;
        }
        shard->damaged = true;
        PSI_IGNORE(snprintf(why, sizeof(why), "it is not there; %s has it, and a copy of that will do",
                            psi_task_name_format(name, sizeof(name), has->job, has->task))); /* fits */
        read_bad(t, shard, why);
    }
}

void psd_saver_list_end(struct psd_task *t, struct psd_peer *p)
{
    if (t->saver != NULL && t->saver->disk != PSD_SAVER_DISK_READS && p->own_job) {
        psd_saver_settle(t, p);
    }
}

static void ready(struct psd_task *t)
{
    struct psd_saver *s = t->saver;
    s->disk = PSD_SAVER_DISK_READ;
    s->found = t->shards->highest;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        struct psd_peer *p = &t->peers[i];
        if (p->own_job && psd_peer_hears(p)) {
            psd_saver_settle(t, p);
        }
    }
}

static void manifest_read(struct psd_task *t, void *ctx, ps_status st, size_t bytes, const char *error)
{
    struct psd_saver *s = t->saver;
    ps_v1_SaveItem what;
    struct psi_err err;
    (void)ctx;
    struct psd_shard *shard = psd_shards_find(t, s->reading);
    if (st != PS_OK) {
        read_bad(t, shard, error);
    } else if (psi_manifest_check(t->cluster.name, s->read.data, bytes, &what, &err) != PS_OK) {
        read_bad(t, shard, err.text);
        shard->damaged = err.code == PS_DATA_LOSS;
    } else if (what.number != s->reading) {
        PSI_IGNORE(psi_fail(&err, PS_DATA_LOSS, "it is of checkpoint %llu", (unsigned long long)what.number)); /* used below */
        read_bad(t, shard, err.text);
    } else {
        s->read.len = bytes;
        if (known_add(s, &what, &s->read) == NULL) {
            read_bad(t, shard, "no memory");
        }
    }
    psi_buf_fini(&s->read);
    psi_manifest_init(&s->read);
    read_next(t);
}

/* Read the next checkpoint's manifest, in the order of numbers. After the last one call ready(). */
static void read_next(struct psd_task *t)
{
    struct psd_saver *s = t->saver;
    struct psi_list *it = NULL;
    struct psi_err err;
    PSI_LIST_FOREACH(it, &t->shards->list) {
        struct psd_shard *shard = PSI_CONTAINER_OF(it, struct psd_shard, link);
        if (shard->manifest_bytes == 0 || shard->number <= s->reading) {
            continue;
        }
        s->reading = shard->number;
        ps_status st = shard->manifest_bytes <= PSI_MANIFEST_BYTES_MAX ? psi_buf_reserve(&s->read, shard->manifest_bytes, &err)
                                                                       : psi_fail(&err, PS_DATA_LOSS, "its manifest is too long");
        if (st == PS_OK) {
            struct psd_disk_op op = {.kind = PSD_DISK_READ,
                                     .file = {.number = shard->number, .kind = PSD_DISK_MANIFEST},
                                     .out = s->read.data,
                                     .bytes = shard->manifest_bytes};
            st = psd_disk_ask(t, &op, manifest_read, NULL, &err);
        }
        if (st == PS_OK) {
            return;
        }
        read_bad(t, shard, err.text);
    }
    ready(t);
}

/* ---- the attempt ---- */

static void idle(struct psd_task *t)
{
    struct psd_saver *s = t->saver;
    psd_saver_move(s, PSD_SAVER_IDLE);
    psi_buf_fini(&s->files);
    psi_buf_init(&s->files, PSI_MANIFEST_BYTES_MAX);
    psd_saver_parts_free(t);
    s->since_ms = t->now_ms;
}

static void give_up_attempt(struct psd_task *t, const struct psi_err *err)
{
    struct psd_saver *s = t->saver;
    uint64_t number = s->what.number;
    bool full = err->reason == PS_REASON_DISK_FULL;
    psd_log(t, PSI_LOG_WARN, "checkpoint_failed", PSI_KV("checkpoint", number), PSI_KV("st", ps_status_name(err->code)),
            PSI_KV("msg", err->text));
    idle(t);
    psd_saver_tell_all(t, PS_OP_TASK_DROP, number, false);
    /* after UNAVAILABLE makes_room does not change: tasks may still be removing checkpoints that an earlier attempt dropped */
    s->makes_room = full ? psd_saver_make_room(t) : s->makes_room && err->code == PS_UNAVAILABLE;
    struct psi_err said = *err;
    if (full && !s->makes_room) { /* the next attempt fails as well, unless somebody makes room */
        psi_err_prefix(&said, "no older checkpoint can go");
    }
    psd_saver_failed(t, number, &said);
    if (s->makes_room) {
        psd_saver_wants(s, PSD_SAVER_ANYWAY);
        s->again_ms = t->now_ms + (t->draining ? RETRY_LAST_MS : RETRY_MS);
        psd_saver_ask_again(s);
        return;
    }
    psd_saver_note_failed(t);
    /* after UNAVAILABLE the directory tries again by itself: if the client had to ask again, the values might be lost by then */
    if (err->code == PS_UNAVAILABLE && !t->draining) {
        s->again_ms = t->now_ms + RETRY_MS;
        psd_saver_ask_again(s);
        return;
    }
    psd_saver_fail(t, &s->served, &said);
}

/* Fail the attempt because p has lost its part. The checkpoint counted already, but no client was told that it is saved. */
static void part_lost(struct psd_task *t, const struct psd_peer *p)
{
    struct psi_err err;
    PSI_IGNORE(psi_fail(&err, PS_DATA_LOSS, "/job:%s/task:%u has lost its part", p->job, p->task)); /* used below */
    checkpoint_free(psd_saver_known(t, t->saver->what.number));
    give_up_attempt(t, &err);
}

/* Call when a task's disk could not write the manifest: clients that asked get err. The checkpoint counts nevertheless, and the
 * task is sent the manifest again. */
static void not_told(struct psd_task *t, const struct psi_err *err)
{
    psd_saver_failed(t, t->saver->what.number, err);
    idle(t);
    psd_saver_note_failed(t);
    psd_saver_fail(t, &t->saver->served, err);
}

/* Note the checkpoint's global step of each container (psd/session/steps.h). */
static void note_steps(struct psd_task *t)
{
    uint64_t cursor = 0;
    void *value = NULL;
    psd_steps_note_begin(t);
    while (psi_map_next(&t->saver->parts, &cursor, NULL, NULL, &value)) {
        const struct psd_saver_part *part = value;
        if (part->step != 0) {
            psd_steps_note(t, part->container, part->step);
        }
    }
    if (t->saver->what.step != 0) {
        psd_steps_note(t, "", t->saver->what.step); /* older clients do not say of which container their step is */
    }
}

static void saved(struct psd_task *t)
{
    struct psd_saver *s = t->saver;
    psd_log(t, PSI_LOG_INFO, "checkpoint_saved", PSI_KV("checkpoint", s->what.number),
            PSI_KV("step", s->what.step == 0 ? 0 : s->what.step - 1), PSI_KV("bytes", s->what.bytes),
            PSI_KV("ms", t->now_ms - s->begun_ms));
    note_steps(t);
    s->makes_room = false;
    idle(t);
    psd_saver_serve(t, s->what.number);
    psd_saver_retire(t);
}

static void decided(struct psd_task *t, const struct psi_err *err)
{
    struct psd_saver *s = t->saver;
    if (err != NULL || known_add(s, &s->what, &s->files) == NULL) {
        struct psi_err none;
        PSI_IGNORE(psi_fail(&none, PS_RESOURCE_EXHAUSTED, "%s: no memory for a manifest", t->name)); /* used below */
        give_up_attempt(t, err != NULL ? err : &none);
        return;
    }
    psd_saver_move(s, PSD_SAVER_TELLING);
    psd_saver_clear_done(t);
    for (uint32_t i = 0; i < t->peer_count; i++) {
        struct psd_peer *p = &t->peers[i];
        if (p->own_job && psd_peer_hears(p)) {
            tell_manifest(t, p, psd_saver_known(t, s->what.number));
        }
    }
    done_by(t, t->self);
}

/* Call when all parts are written: writes the manifest to this task's disk. Once it is there, the checkpoint counts. */
static void decide(struct psd_task *t)
{
    struct psd_saver *s = t->saver;
    struct psi_buf file, copy;
    struct psi_err err;
    psi_manifest_init(&file);
    psi_manifest_init(&copy);
    s->what.milliseconds = t->now_ms - s->begun_ms;
    const struct psd_checkpoint *before = psd_saver_known(t, s->same);
    s->what.same = before != NULL && before->what.task_count == s->what.task_count ? psd_saver_same_as(before) : 0;
    ps_status st = psi_manifest_add(&file, &ps_v1_SaveItem_msg, &s->what, &err);
    st = st == PS_OK ? psd_saver_put_files(s, &file, &err) : st;
    st = st == PS_OK ? psi_manifest_end(&file, &err) : st;
    st = st == PS_OK ? psi_buf_append(&copy, file.data, file.len, &err) : st;
    psi_buf_fini(&s->files);
    s->files = file;
    if (st == PS_OK) {
        psd_saver_move(s, PSD_SAVER_DECIDING);
        st = psd_shards_manifest_here(t, s->what.number, &copy, decided, &err);
    }
    psi_buf_fini(&copy);
    if (st != PS_OK) {
        give_up_attempt(t, &err);
    }
}

/* Note that the task at peer has done its part of the phase. When all tasks have done theirs, the attempt goes on. */
static void done_by(struct psd_task *t, uint32_t peer)
{
    struct psd_saver *s = t->saver;
    s->peers[peer].done = true;
    if (!psd_saver_all_done(t)) {
        return;
    }
    if (s->phase != PSD_SAVER_CUTTING) {
        saved(t);
        return;
    }
    struct psi_err err;
    if (psd_saver_check_parts(t, &err) != PS_OK) {
        give_up_attempt(t, &err);
    } else {
        decide(t);
    }
}

/* Take in an item of p's answer to TASK_CUT: the state file, a file of values or a note. */
static ps_status take_file(struct psd_task *t, const struct psd_peer *p, ps_v1_FileItem *item, struct psi_err *err)
{
    struct psd_saver *s = t->saver;
    ps_status st = item->kind == PS_FILE_STATE ? PS_OK : psd_saver_take_part(t, p, item, err);
    if (item->kind == PS_FILE_STATE) {
        s->same = s->same == SAME_UNKNOWN || s->same == item->same ? item->same : 0;
        item->same = 0; /* which older checkpoint has equal content is said once in the manifest, not for each file */
    }
    if (st != PS_OK || (item->kind == PS_FILE_NOTE && (item->notes & PS_NOTE_NAMED) == 0)) {
        return st;
    }
    item->bare.size = 0;                          /* no name of a variable without a value goes into the manifest */
    PSI_IGNORE(PSI_BYTES_SET(item->job, p->job)); /* fits: checked name */
    item->task = p->task;
    st = psi_list_append(&s->files, &ps_v1_FileItem_msg, item, err);
    s->what.file_count++;
    s->what.bytes += item->bytes;
    return st;
}

static void cut_answered(struct psd_task *t, struct psd_peer *p, const struct psd_request *r, const struct psi_err *err)
{
    struct psi_items items = psd_items_of(r);
    struct psi_err why;
    ps_v1_FileItem item;
    while (err == NULL && psi_items_next(&items, &ps_v1_FileItem_msg, &item, &why)) {
        items.st = take_file(t, p, &item, &why);
    }
    if (err != NULL || items.st != PS_OK) {
        give_up_attempt(t, err != NULL ? err : &why);
    } else if ((r->header.flags & PS_FLAG_MORE) == 0) {
        /* without memory p's part is unknown until p reports its parts again */
        PSI_IGNORE(listed_add(&t->saver->peers[p->index], t->saver->what.number, false));
        done_by(t, p->index);
    }
}

static void manifest_answered(struct psd_task *t, struct psd_peer *p, uint64_t number, const struct psi_err *err)
{
    struct psd_saver *s = t->saver;
    struct psd_saver_peer *of = &s->peers[p->index];
    bool now = s->phase == PSD_SAVER_TELLING && number == s->what.number;
    if (err != NULL) {
        psd_log(t, PSI_LOG_WARN, "checkpoint_not_told", PSI_KV("checkpoint", number), PSI_KV("peer", p->conn->text),
                PSI_KV("msg", err->text));
        if (err->reason == PS_REASON_DISK_FULL) {
            PSI_IGNORE(psd_saver_make_room(t)); /* ignored: the manifest is sent again with or without more room (again_ms) */
        }
        if (now && err->code == PS_FAILED_PRECONDITION) {
            part_lost(t, p);
        } else if (now) {
            not_told(t, err);
        }
        of->again_ms = t->now_ms + RETRY_MS;
        return;
    }
    PSI_IGNORE(listed_add(of, number, true)); /* without memory p's part is unknown until p reports its parts again */
    if (now) {
        done_by(t, p->index);
    } else if (number == s->what.number && psd_saver_whole_at(t, number) >= s->what.task_count) {
        s->failed_ms = 0; /* no failure is left to report: the last one was that this task lacked the manifest */
    }
}

void psd_saver_answered(struct psd_task *t, struct psd_peer *p, struct psd_ask *a, const struct psd_request *r,
                        const struct psi_err *err)
{
    struct psd_saver *s = t->saver;
    if (s == NULL || r == NULL) {
        return; /* psd_saver_lost() deals with a lost connection */
    }
    if (a->op == PS_OP_TASK_SAVED && s->phase == PSD_SAVER_LOOKING && a->number == s->looked_at) {
        psd_saver_looked(t, p->index, err);
    } else if (a->op == PS_OP_TASK_CUT && s->phase == PSD_SAVER_CUTTING && a->number == s->what.number) {
        cut_answered(t, p, r, err);
    } else if (a->op == PS_OP_TASK_MANIFEST) {
        manifest_answered(t, p, a->number, err);
    } else if (a->op == PS_OP_TASK_DROP && err == NULL) {
        listed_remove(&s->peers[p->index], a->number);
    }
}

void psd_saver_lost(struct psd_task *t, const struct psd_peer *p)
{
    struct psd_saver *s = t->saver;
    if (s == NULL || !p->own_job) {
        return;
    }
    struct psi_err err;
    char who[PS_ADDRESS_BYTES_MAX + PSI_TASK_NAME_MAX + 8];
    s->peers[p->index].again_ms = 0;
    PSI_IGNORE(
        psi_fail_as(&err, PS_UNAVAILABLE, PS_REASON_NOT_CONNECTED, "%s was lost before %s", psd_peer_text(t, p, who, sizeof(who)),
                    s->phase == PSD_SAVER_CUTTING ? "its part was written"
                                                  : "it had said whether it has changed")); /* the waiting clients get err */
    if (s->phase == PSD_SAVER_LOOKING) {
        psd_saver_look_lost(t, &err);
    } else if (s->phase == PSD_SAVER_CUTTING) {
        /* clients that asked wait for the next attempt; it is refused if the lost task comes back without its values */
        psi_list_move_all(&s->asked, &s->served);
        give_up_attempt(t, &err);
    }
}

void psd_saver_reset(struct psd_task *t, const char *container)
{
    struct psd_saver *s = t->saver;
    struct psi_err err;
    if (s == NULL) {
        return;
    }
    PSI_IGNORE(psi_fail(&err, PS_ABORTED, "container '%s' was reset meanwhile", container));
    if (s->phase == PSD_SAVER_CUTTING) {
        give_up_attempt(t, &err);
    }
    psd_saver_fail(t, &s->asked, &err);
}

void psd_saver_went_back(struct psd_task *t, const struct psd_checkpoint *c, uint64_t began_ms)
{
    struct psd_saver *s = t->saver;
    struct psi_list lost, *it = NULL, *tmp = NULL;
    struct psi_err err;
    PSI_IGNORE(psi_fail_as(&err, PS_UNAVAILABLE, PS_REASON_LOST,
                           "what was to be saved is lost: tasks have gone back to checkpoint %llu, of step %llu, which is what "
                           "holds now",
                           (unsigned long long)c->what.number,
                           (unsigned long long)(c->what.step == 0 ? 0 : c->what.step - 1))); /* err is the answer */
    err.applied = PS_OUTCOME_UNKNOWN; /* so the client library does not repeat the request, which would save other values now */
    psi_list_init(&lost);
    PSI_LIST_FOREACH_SAFE(it, tmp, &s->asked) {
        if (PSI_CONTAINER_OF(it, struct psd_need, at)->wait->begun_ms <= began_ms) {
            psi_list_remove(it);
            psi_list_push_back(&lost, it);
        }
    }
    psd_saver_fail(t, &lost, &err);
}

void psd_saver_attempt(struct psd_task *t)
{
    struct psd_saver *s = t->saver;
    s->want = PSD_SAVER_NOT_WANTED;
    s->same = SAME_UNKNOWN;
    psd_steps_begun(t); /* the setting checkpoint_steps counts from this attempt on, even if it fails */
    psi_list_move_all(&s->served, &s->asked);
    psd_saver_move(s, PSD_SAVER_CUTTING);
    s->begun_ms = t->now_ms;
    s->highest = psd_saver_highest(t) + 1;
    s->what = (ps_v1_SaveItem)ps_v1_SaveItem_init_zero;
    s->what.number = s->highest;
    s->what.moved = psd_loader_moved_most(t);
    s->what.time_ms = t->config.unix_ms == 0 ? 0 : t->config.unix_ms + (t->now_ms - t->started_ms);
    PSI_IGNORE(PSI_BYTES_SET(s->what.cluster_name, t->cluster.name)); /* fits: checked name */
    s->hurries = s->last_ms != 0 && t->now_ms - s->last_ms <= (uint64_t)t->config.drain_ms;
    psd_saver_clear_done(t);
    for (uint32_t i = 0; i < t->peer_count; i++) {
        s->what.task_count += t->peers[i].own_job;
    }
    psd_saver_tell_all(t, PS_OP_TASK_CUT, s->what.number, s->hurries);
}

void psd_saver_hurry(struct psd_task *t)
{
    struct psd_saver *s = t->saver;
    if (s->phase != PSD_SAVER_CUTTING || s->hurries) {
        return;
    }
    s->hurries = true;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        struct psd_peer *p = &t->peers[i];
        bool writes = p->own_job && !s->peers[i].done && psd_loader_is_here(p);
        struct psd_ask *a = writes ? psd_saver_tell(t, p, PS_OP_TASK_CUT, s->what.number, true) : NULL;
        if (a != NULL) {
            a->number = 0; /* psd_saver_answered() ignores the answer, because this order only hurries p */
        }
    }
}

void psd_saver_forget(struct psd_task *t, uint64_t number)
{
    struct psd_saver *s = t->saver;
    struct psd_checkpoint *c = psd_saver_known(t, number);
    if (c != NULL) {
        checkpoint_free(c);
    }
    for (uint32_t i = 0; i < t->peer_count; i++) {
        listed_remove(&s->peers[i], number);
    }
    psd_saver_tell_all(t, PS_OP_TASK_DROP, number, false);
}

ps_status psd_saver_begin(struct psd_task *t, struct psi_err *err)
{
    if (!t->is_directory || !t->config.has_disk) {
        return psd_shards_begin(t, NULL, err);
    }
    struct psd_saver *s = psi_calloc(1, sizeof(*s));
    t->saver = s;
    if (s != NULL) {
        psi_list_init(&s->known);
        psi_list_init(&s->asked);
        psi_list_init(&s->served);
        psi_list_init(&s->deleting);
        psi_map_init(&s->parts, t->store.map_seed);
        psd_resets_init(&s->resets, &t->store, t->store.map_seed);
        psi_manifest_init(&s->read);
        psi_buf_init(&s->files, PSI_MANIFEST_BYTES_MAX);
        s->peers = psi_calloc(t->peer_count, sizeof(*s->peers));
    }
    if (s == NULL || s->peers == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "task: memory for checkpoints");
    }
    s->peers[t->self].has_disk = true;
    s->since_ms = t->now_ms;
    return psd_shards_begin(t, read_next, err);
}

void psd_saver_fini(struct psd_task *t)
{
    struct psd_saver *s = t->saver;
    struct psi_list *it = NULL;
    psd_shards_fini(t);
    if (s == NULL) {
        return;
    }
    psd_saver_parts_free(t);
    psd_saver_bars_free(s);
    while ((it = psi_list_first(&s->known)) != NULL) {
        checkpoint_free(psd_checkpoint_at(it));
    }
    for (uint32_t i = 0; s->peers != NULL && i < t->peer_count; i++) {
        psi_free(s->peers[i].listed);
    }
    psi_free(s->peers);
    psi_buf_fini(&s->read);
    psi_buf_fini(&s->files);
    psi_free(s);
    t->saver = NULL;
}

void psd_saver_check_invariants(const struct psd_task *t)
{
    const struct psd_saver *s = t->saver;
    uint64_t before = 0;
    struct psi_list *it = NULL;
    if (s == NULL) {
        return;
    }
    PSI_LIST_FOREACH(it, &s->known) {
        PSI_ASSERT(psd_checkpoint_at(it)->what.number > before);
        before = psd_checkpoint_at(it)->what.number;
    }
    PSI_ASSERT(s->phase != PSD_SAVER_IDLE || psi_list_empty(&s->served));
    PSI_ASSERT(s->phase != PSD_SAVER_CUTTING || psd_saver_known(t, s->what.number) == NULL);
    PSI_ASSERT((s->phase == PSD_SAVER_TELLING) <= (psd_saver_known(t, s->what.number) != NULL));
}
