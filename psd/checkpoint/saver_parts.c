/* SPDX-License-Identifier: Apache-2.0 */
/* Checks whether the parts of a checkpoint, as tasks have written them, make a whole model. Also the bars that tasks report.
 *
 * Half a model is not saved, because older whole checkpoints would be deleted for it. A model is half if a task has lost a
 * variable; if variables without a value are beside sealed (complete) ones; or if a task has no values of a container, but has
 * some in the newest checkpoint, and neither a reset nor a deletion explains that. */
#include "saver.h"
#include "loader.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

enum { BARS_MAX = 1 << 16 };

/* Bytes that the memory budget counts for a psd_saver_part with map entry and key. The budget never refuses a part. */
static uint64_t part_bytes(const struct psd_task *t)
{
    return (sizeof(struct psd_saver_part) + t->peer_count + 8 + 15) / 16 * 16 + PSI_MAP_ENTRY_BYTES + 32;
}

uint64_t psd_saver_bytes(const struct psd_task *t)
{
    const struct psd_saver *s = t->saver;
    return s == NULL ? 0
                     : psi_map_count(&s->parts) * part_bytes(t) + s->bars.count * (uint64_t)PSD_CONTAINERS_ENTRY_BYTES +
                           psd_resets_bytes(&s->resets);
}

void psd_saver_parts_free(struct psd_task *t)
{
    struct psi_map *parts = &t->saver->parts;
    uint64_t cursor = 0;
    void *value = NULL;
    psd_store_uncount(&t->store, PSD_MEMORY_CONTAINERS, psi_map_count(parts) * part_bytes(t));
    while (psi_map_next(parts, &cursor, NULL, NULL, &value)) {
        psi_free(value);
    }
    psi_map_fini(parts);
}

static struct psd_saver_part *find_part(const struct psd_saver *s, const char *container)
{
    return psi_map_find(&s->parts, container, strlen(container));
}

static struct psd_saver_part *get_part(struct psd_task *t, const char *container, struct psi_err *err)
{
    struct psd_saver_part *part = find_part(t->saver, container);
    if (part == NULL) {
        part = psi_calloc(1, sizeof(*part) + t->peer_count);
        if (part == NULL || psi_map_put(&t->saver->parts, container, strlen(container), part, NULL, NULL) != PS_OK) {
            psi_free(part);
            PSI_IGNORE(psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory for a checkpoint")); /* the caller sees NULL */
            return NULL;
        }
        psd_store_count(&t->store, PSD_MEMORY_CONTAINERS, part_bytes(t));
        memcpy(part->container, container, strlen(container) + 1);
    }
    return part;
}

ps_status psd_saver_take_part(struct psd_task *t, const struct psd_peer *p, const ps_v1_FileItem *item, struct psi_err *err)
{
    struct psd_saver *s = t->saver;
    struct psd_saver_part *part = NULL;
    char container[PS_CONTAINER_BYTES_MAX + 1];
    const bool note = item->kind == PS_FILE_NOTE;
    const uint32_t notes = note ? item->notes & ~(uint32_t)PS_NOTE_NAMED : 0;
    const uint64_t step = note && item->step <= INT64_MAX ? item->step : 0;
    ps_status st = psd_container_parse((const pb_bytes_array_t *)(const void *)&item->container, container, err);
    if (st == PS_OK && (!note || notes != 0 || step != 0)) {
        part = get_part(t, container, err);
        st = part == NULL ? PS_RESOURCE_EXHAUSTED : PS_OK;
    }
    if (part != NULL) {
        part->notes |= notes;
        part->step = step > part->step ? step : part->step;
        part->is_at[p->index] = part->is_at[p->index] || !note || (notes & PS_NOTE_DELETED) != 0;
        s->what.step = step > s->what.step ? step : s->what.step;
    }
    if (part != NULL && note && part->bare[0] == '\0') {
        part->bare_at = p->index;
        PSI_IGNORE(PSI_BYTES_TEXT(item->bare, part->bare, sizeof(part->bare))); /* a text that is not valid becomes "" */
    }
    return st;
}

ps_status psd_saver_put_files(const struct psd_saver *s, struct psi_buf *manifest, struct psi_err *err)
{
    struct psi_items items = {.at = s->files.data, .bytes_left = s->files.len};
    ps_v1_FileItem item;
    while (psi_items_next(&items, &ps_v1_FileItem_msg, &item, err)) {
        char container[PS_CONTAINER_BYTES_MAX + 1];
        bool values = item.kind == PS_FILE_VALUES && PSI_BYTES_TEXT(item.container, container, sizeof(container)) == PS_OK;
        const struct psd_saver_part *all = values ? find_part(s, container) : NULL;
        item.notes = all == NULL ? item.notes & PS_NOTE_NAMED : all->notes;
        item.step = all == NULL ? 0 : all->step;
        items.st = psi_manifest_add(manifest, &ps_v1_FileItem_msg, &item, err);
    }
    return items.st;
}

/* Check that the task that wrote this file of checkpoint c still has values of the file's container. If not, FAILED_PRECONDITION,
 * unless the task has left the job, or a reset, deletion, moved values or an empty start (psd_loader_anew()) explain it. */
static ps_status check_file(const struct psd_task *t, const struct psd_checkpoint *c, const ps_v1_FileItem *file,
                            struct psi_err *err)
{
    char container[PS_CONTAINER_BYTES_MAX + 1], job[PS_JOB_BYTES_MAX + 1];
    ps_status st = psd_container_parse((const pb_bytes_array_t *)(const void *)&file->container, container, err);
    st = st == PS_OK ? PSI_BYTES_TEXT(file->job, job, sizeof(job)) : st;
    const struct psd_peer *p = st == PS_OK ? psd_peer_find(t, job, file->task) : NULL;
    const struct psd_saver_part *part = p == NULL ? NULL : find_part(t->saver, container);
    if (p == NULL || psd_loader_moved_most(t) >= c->what.number || psd_saver_bar(t, container) >= c->what.number ||
        psd_loader_anew(t) >= c->what.number || (part != NULL && part->is_at[p->index])) {
        return PS_OK;
    }
    return psi_fail(err, PS_FAILED_PRECONDITION,
                    "/job:%s/task:%u has nothing of container '%s', of which checkpoint %llu has values there: restore it, or "
                    "reset the container",
                    job, file->task, container, (unsigned long long)c->what.number);
}

static ps_status check_values(const struct psd_task *t, const struct psd_saver_part *part, struct psi_err *err)
{
    char such[PS_NAME_BYTES_MAX + PSI_TASK_NAME_MAX + 32] = "", at[PSI_TASK_NAME_MAX];
    const struct psd_peer *p = &t->peers[part->bare_at];
    if ((part->notes & (PS_NOTE_SEALED | PS_NOTE_BARE)) != (PS_NOTE_SEALED | PS_NOTE_BARE)) {
        return PS_OK;
    }
    if (part->bare[0] != '\0') {
        PSI_IGNORE(snprintf(such, sizeof(such), ", such as '%s' at %s", part->bare,
                            psi_task_name_format(at, sizeof(at), p->job, p->task))); /* fits */
    }
    return psi_fail(err, PS_FAILED_PRECONDITION,
                    "container '%s' has variables without a value beside those of a model that was ready%s: give each one a "
                    "value, or take it away (psctl delete)",
                    part->container, such);
}

ps_status psd_saver_check_parts(const struct psd_task *t, struct psi_err *err)
{
    const struct psd_saver *s = t->saver;
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&s->parts, &cursor, NULL, NULL, &value)) {
        if (check_values(t, value, err) != PS_OK) {
            return err->code;
        }
    }
    const struct psd_checkpoint *c = psd_saver_last_known(t);
    if (c == NULL) {
        return PS_OK;
    }
    struct psi_items walk = psi_manifest_files(&c->manifest);
    ps_v1_FileItem file;
    ps_status st = PS_OK;
    while (st == PS_OK && psi_manifest_next(&walk, &file)) {
        st = file.kind == PS_FILE_VALUES ? check_file(t, c, &file, err) : PS_OK;
    }
    return st;
}

ps_status psd_saver_check_names(struct psd_task *t, struct psi_err *err)
{
    struct psd_saver *s = t->saver;
    void *value = NULL;
    for (uint32_t left = t->config.list_slice_rows; left > 0 && s->names != PSD_SAVER_NAMES_CHECKED; left--) {
        uint64_t after = s->names_cursor;
        if (!psi_map_next(&t->names.names, &after, NULL, NULL, &value)) {
            s->names = PSD_SAVER_NAMES_CHECKED;
            break;
        }
        const struct psd_name *n = value;
        const struct psd_peer *p = &t->peers[n->owner];
        if (p->own_job && !psi_container_is_session(n->container) && n->life != p->life && n->asked != p->life) {
            return psi_fail(err, PS_FAILED_PRECONDITION,
                            "no checkpoint: /job:%s/task:%u has lost variable '%s' of container '%s': restore it, or reset the "
                            "container",
                            p->job, p->task, n->name, n->container);
        }
        s->names_cursor = after;
    }
    return PS_OK;
}

ps_status psd_saver_take_bar(struct psd_task *t, const ps_v1_ListItem *item, struct psi_err *err)
{
    char container[PS_CONTAINER_BYTES_MAX + 1];
    struct psd_containers *bars = &t->saver->bars;
    const size_t before = bars->count;
    ps_status st = psd_container_parse((const pb_bytes_array_t *)(const void *)&item->container, container, err);
    if (st == PS_OK && before >= BARS_MAX && psd_containers_find(bars, container) == NULL) {
        st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "a list of barred containers: more than %d", BARS_MAX);
    }
    struct psd_containers_entry *bar = st == PS_OK ? psd_containers_get(t, bars, container, err) : NULL;
    if (bar == NULL) {
        return st == PS_OK ? PS_RESOURCE_EXHAUSTED : st;
    }
    psd_store_count(&t->store, PSD_MEMORY_CONTAINERS, (bars->count - before) * PSD_CONTAINERS_ENTRY_BYTES);
    bar->start = item->saved.number > bar->start ? item->saved.number : bar->start;
    return PS_OK;
}

void psd_saver_bars_free(struct psd_saver *s)
{
    psd_store_uncount(s->resets.store, PSD_MEMORY_CONTAINERS, s->bars.count * (uint64_t)PSD_CONTAINERS_ENTRY_BYTES);
    psd_containers_fini(&s->bars);
    psd_resets_fini(&s->resets);
}

uint64_t psd_saver_bar(const struct psd_task *t, const char *container)
{
    const struct psd_containers_entry *heard = t->saver == NULL ? NULL : psd_containers_find(&t->saver->bars, container);
    uint64_t a = psd_bars_number(t, container), b = heard == NULL ? 0 : heard->start;
    return a > b ? a : b;
}

uint64_t psd_saver_highest(const struct psd_task *t)
{
    if (t->saver == NULL || t->saver->disk == PSD_SAVER_DISK_READS) {
        return 0;
    }
    return t->saver->highest > t->shards->highest ? t->saver->highest : t->shards->highest;
}

bool psd_saver_in_reset(const struct psd_task *t)
{
    struct psi_list *it = NULL;
    if (t->saver != NULL && !psi_list_empty(&t->saver->resets.all)) {
        return true;
    }
    PSI_LIST_FOREACH(it, &t->resets.all) {
        if (PSI_CONTAINER_OF(it, struct psd_reset, link)->pending) {
            return true;
        }
    }
    return false;
}

ps_status psd_saver_are_read(const struct psd_task *t, struct psi_err *err)
{
    if (psd_saver_has_resumed(t)) {
        return PS_OK;
    }
    return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_NOT_READY, "%s reads what is on its disk", t->name);
}
