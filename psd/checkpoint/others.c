/* SPDX-License-Identifier: Apache-2.0 */
/* Files of other tasks, whose directories are on this task's disk too.
 *
 * Happy path: each file of another task that the disk finds is noted. Files `bars`, which say what a checkpoint must not bring
 * back, are read one after the other. In its report to the directory this task offers to load the parts that have a state file.
 * From its manifests the directory knows which of these parts are whole. Failure: if a task's bars are unreadable, its parts are
 * not offered. */
#include "others.h"

#include "shards.h"

#include "common/mem.h"

#include <string.h>

void psd_others_init(struct psd_task *t, struct psd_others *o)
{
    psd_bars_init(t, &o->bars);
}

void psd_others_fini(struct psd_others *o)
{
    psi_free(o->parts);
    psi_free(o->files);
    psd_bars_fini(&o->bars);
}

static bool list_bars(struct psd_others *o, const struct psd_disk_entry *e)
{
    struct psd_others_bars *more = psi_grow(o->files, o->file_count, &o->file_capacity, sizeof(*more));
    if (more == NULL) {
        return false;
    }
    o->files = more;
    more[o->file_count++] = (struct psd_others_bars){.bytes = e->bytes, .writer = e->file.writer};
    return true;
}

bool psd_others_list(struct psd_task *t, const struct psd_disk_entry *e)
{
    struct psd_others *o = &t->shards->others;
    const struct psd_disk_file *file = &e->file;
    if (file->kind == PSD_DISK_BARS) {
        return list_bars(o, e);
    }
    struct psd_other *last = o->count == 0 ? NULL : &o->parts[o->count - 1];
    if (last == NULL || last->number != file->number ||
        last->writer != file->writer) { /* a new part begins: files come sorted by writer and number */
        if (o->count == PSD_OTHERS_MAX) {
            return true;
        }
        struct psd_other *more = psi_grow(o->parts, o->count, &o->capacity, sizeof(*more));
        if (more == NULL) {
            return false;
        }
        o->parts = more;
        last = &o->parts[o->count++];
        *last = (struct psd_other){.number = file->number, .writer = file->writer};
    }
    last->state = last->state || file->kind == PSD_DISK_STATE;
    /* a new checkpoint must get a number above those of all files on this disk */
    t->shards->highest = file->number > t->shards->highest ? file->number : t->shards->highest;
    return true;
}

bool psd_others_has(const struct psd_task *t, uint64_t number, uint32_t writer)
{
    const struct psd_others *o = t->shards == NULL ? NULL : &t->shards->others;
    for (size_t i = 0; o != NULL && i < o->count; i++) {
        const struct psd_other *p = &o->parts[i];
        if (p->number == number && p->writer == writer) {
            return p->state;
        }
    }
    return false;
}

uint64_t psd_others_oldest(const struct psd_task *t)
{
    const struct psd_others *o = &t->shards->others;
    uint64_t oldest = UINT64_MAX;
    for (size_t i = 0; i < o->count; i++) {
        oldest = o->parts[i].number < oldest ? o->parts[i].number : oldest;
    }
    return oldest;
}

const struct psd_other *psd_others_orphan(const struct psd_task *t)
{
    const struct psd_others *o = &t->shards->others;
    for (size_t i = 0; i < o->count; i++) {
        if (o->parts[i].state && psd_peer_find(t, t->config.job, o->parts[i].writer - 1) == NULL) {
            return &o->parts[i];
        }
    }
    return NULL;
}

ps_status psd_others_gone(struct psd_task *t, const char *container, const char *name, uint64_t number, struct psi_err *err)
{
    bool known = t->shards == NULL || psd_bars_deleted(t, container, name, number);
    return known ? PS_OK : psd_bars_note(t, &t->shards->others.bars, container, name, number, err);
}

const struct psd_bar *psd_others_next_gone(const struct psd_task *t, const struct psd_bar *behind)
{
    if (t->shards == NULL) {
        return NULL;
    }
    struct psi_list *own = &t->shards->bars.all, *others = &t->shards->others.bars.all;
    struct psi_list *it = behind == NULL ? own->next : behind->link.next;
    while (it != others) {
        const struct psd_bar *bar = PSI_CONTAINER_OF(it, struct psd_bar, link);
        if (it != own && bar->name[0] != '\0') {
            return bar;
        }
        it = it == own ? others->next : it->next;
    }
    return NULL;
}

void psd_others_list_add(const struct psd_task *t, struct psd_list *l)
{
    const struct psd_others *o = &t->shards->others;
    const struct psd_bar *bar = NULL;
    while ((bar = psd_others_next_gone(t, bar)) != NULL) {
        ps_v1_ListItem item = ps_v1_ListItem_init_zero;
        PSI_IGNORE(PSI_BYTES_SET(item.container, bar->container)); /* fits: checked names */
        PSI_IGNORE(PSI_BYTES_SET(item.name, bar->name));           /* fits: checked names */
        item.has_start = true;
        item.start.number = bar->number;
        item.start.waits = t->peers[t->self].waits;
        psd_list_add(l, &ps_v1_ListItem_msg, &item);
    }
    for (size_t i = 0; i < o->count; i++) {
        ps_v1_ListItem item = ps_v1_ListItem_init_zero;
        const struct psd_other *p = &o->parts[i];
        if (p->state) {
            item.has_start = true;
            item.start.number = p->number;
            item.start.writer = p->writer;
            item.start.waits = t->peers[t->self].waits;
            psd_list_add(l, &ps_v1_ListItem_msg, &item);
        }
    }
}

static void unreadable(struct psd_task *t, uint32_t writer, const char *why)
{
    struct psd_others *o = &t->shards->others;
    char name[PSI_TASK_NAME_MAX];
    size_t kept = 0;
    for (size_t i = 0; i < o->count; i++) {
        if (o->parts[i].writer != writer) {
            o->parts[kept++] = o->parts[i];
        }
    }
    o->count = kept;
    psd_log(t, PSI_LOG_WARN, "parts_unreadable",
            PSI_KV("writer", psi_task_name_format(name, sizeof(name), t->config.job, writer - 1)), PSI_KV("msg", why));
}

static void read_next(struct psd_task *t);

static void read_done(struct psd_task *t, void *ctx, uint64_t id, const struct psi_err *err)
{
    const struct psd_others *o = &t->shards->others;
    (void)ctx;
    (void)id;
    if (err != NULL) {
        unreadable(t, o->files[o->file_at - 1].writer, err->text);
    }
    read_next(t);
}

static void read_next(struct psd_task *t)
{
    struct psd_others *o = &t->shards->others;
    struct psi_err err;
    while (o->file_at < o->file_count) {
        const struct psd_others_bars *f = &o->files[o->file_at++];
        if (psd_bars_read(t, &o->bars, f->writer, f->bytes, read_done, &err) == PS_OK) {
            return;
        }
        unreadable(t, f->writer, err.text);
    }
    o->done(t, NULL, 0, NULL);
}

void psd_others_read(struct psd_task *t, psd_bars_fn done)
{
    t->shards->others.done = done;
    read_next(t);
}
