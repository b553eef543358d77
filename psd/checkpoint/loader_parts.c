/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which parts a checkpoint has, and which task loads a part: its writer, if that is a task of the job and has the part; otherwise
 * one of the tasks that offer the part, because the writer's directory lies beside theirs (docs/DURABILITY.md §8). The choice
 * follows from the lists alone, so it stays while the lists stay. Tasks that offer the same parts share them by number.
 */
#include "loader.h"

#include "saver.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

/* ---- parts of a checkpoint ---- */

void psd_loader_parts_begin(const struct psd_checkpoint *c, struct psd_loader_parts *out)
{
    *out = (struct psd_loader_parts){.number = c->what.number, .walk = psi_manifest_files(&c->manifest)};
}

bool psd_loader_parts_next(struct psd_loader_parts *parts, struct psd_loader_part *out)
{
    ps_v1_FileItem file;
    while (psi_manifest_next(&parts->walk, &file)) {
        if (file.kind == PS_FILE_STATE && PSI_BYTES_TEXT(file.job, out->job, sizeof(out->job)) == PS_OK) {
            out->number = parts->number;
            out->task = file.task;
            out->bytes = file.bytes;
            out->sum = file.sum;
            return true;
        }
    }
    return false;
}

bool psd_loader_part_of(const struct psd_checkpoint *c, const struct psd_peer *p, struct psd_loader_part *out)
{
    struct psd_loader_parts parts;
    psd_loader_parts_begin(c, &parts);
    while (psd_loader_parts_next(&parts, out)) {
        if (out->task == p->task && strcmp(out->job, p->job) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- who loads them ---- */

bool psd_loader_is_here(const struct psd_peer *p)
{
    return p->listed && (p->conn == NULL || !p->conn->closing);
}

void psd_loader_offer(struct psd_loader_peer *of, uint64_t number, uint32_t writer)
{
    struct psd_loader_offer *more =
        of->offer_count < PSD_OTHERS_MAX ? psi_grow(of->offers, of->offer_count, &of->offer_capacity, sizeof(*more)) : NULL;
    if (more != NULL) { /* without memory the offer counts as absent */
        of->offers = more;
        more[of->offer_count++] = (struct psd_loader_offer){.number = number, .writer = writer};
    }
}

static bool offers(const struct psd_task *t, const struct psd_peer *p, const struct psd_loader_part *part)
{
    const struct psd_loader_peer *of = &t->loader->peers[p->index];
    if (!p->own_job || !psd_loader_is_here(p) || strcmp(p->job, part->job) != 0) {
        return false;
    }
    if (p->self) {
        return psd_others_has(t, part->number, part->task + 1);
    }
    for (size_t i = 0; i < of->offer_count; i++) {
        if (of->offers[i].number == part->number && of->offers[i].writer == part->task + 1) {
            return true;
        }
    }
    return false;
}

static const struct psd_peer *writer_of(const struct psd_task *t, const struct psd_loader_part *part)
{
    const struct psd_peer *p = psd_peer_find(t, part->job, part->task);
    return p != NULL && p->own_job ? p : NULL;
}

const struct psd_peer *psd_loader_reader(const struct psd_task *t, const struct psd_loader_part *part)
{
    const struct psd_peer *writer = writer_of(t, part);
    uint32_t count = 0;
    if (writer != NULL && psd_saver_has(t, writer, part->number)) {
        return writer;
    }
    for (uint32_t i = 0; i < t->peer_count; i++) {
        count += offers(t, &t->peers[i], part);
    }
    uint32_t skip = count == 0 ? 0 : part->task % count;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (offers(t, &t->peers[i], part) && skip-- == 0) {
            return &t->peers[i];
        }
    }
    return NULL;
}

bool psd_loader_have_disks(const struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (t->peers[i].own_job && !t->saver->peers[i].has_disk) {
            return false;
        }
    }
    return true;
}

bool psd_loader_is_of_others(const struct psd_task *t, const struct psd_checkpoint *c)
{
    struct psd_loader_parts parts;
    struct psd_loader_part part;
    bool of_others = false;
    if (!psd_loader_have_disks(t)) {
        return false;
    }
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        of_others = of_others || (p->own_job && !psd_loader_part_of(c, p, &part));
    }
    psd_loader_parts_begin(c, &parts);
    while (psd_loader_parts_next(&parts, &part)) {
        of_others = of_others || writer_of(t, &part) == NULL;
    }
    return of_others;
}

bool psd_loader_has_others(const struct psd_task *t, const struct psd_checkpoint *c)
{
    struct psd_loader_parts parts;
    struct psd_loader_part part;
    psd_loader_parts_begin(c, &parts);
    while (psd_loader_parts_next(&parts, &part)) {
        const struct psd_peer *writer = writer_of(t, &part), *reader = psd_loader_reader(t, &part);
        bool loads = writer != NULL && psd_loader_takes_part(&t->loader->peers[writer->index]);
        if (writer == NULL || (loads && reader != NULL && reader != writer)) {
            return true;
        }
    }
    return false;
}

bool psd_loader_is_adopting(const struct psd_loader *s)
{
    return s->from == PSD_LOADER_FROM_OTHERS || psd_loader_strays(s);
}

bool psd_loader_adopts(const struct psd_task *t, const struct psd_checkpoint *c)
{
    return psd_loader_moved_most(t) >= c->what.number || psd_loader_has_others(t, c);
}

bool psd_loader_missing(const struct psd_task *t, const struct psd_checkpoint *c, struct psd_loader_part *out, bool *out_gone)
{
    struct psd_loader_parts parts;
    struct psd_loader_part part;
    bool adopts = psd_loader_adopts(t, c), missing = false;
    *out_gone = false;
    psd_loader_parts_begin(c, &parts);
    while (!*out_gone && psd_loader_parts_next(&parts, &part)) {
        const struct psd_peer *writer = writer_of(t, &part);
        bool needed = adopts || writer == NULL || psd_loader_takes_part(&t->loader->peers[writer->index]);
        if (needed && psd_loader_reader(t, &part) == NULL && (!missing || writer == NULL)) {
            missing = true;
            *out = part;
            *out_gone = writer == NULL; /* people are told of a part of a task that is gone first */
        }
    }
    return missing;
}

/* How many tasks of the job have a lower index than `end`. Values are dealt over the tasks of the job, in this order. */
static uint32_t job_tasks(const struct psd_task *t, uint32_t end)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < end; i++) {
        count += t->peers[i].own_job;
    }
    return count;
}

/* Bytes of all files of a part. */
static uint64_t all_bytes(const struct psd_checkpoint *c, const struct psd_loader_part *part)
{
    struct psi_manifest_walk walk = psi_manifest_files(&c->manifest);
    ps_v1_FileItem file;
    char job[PS_JOB_BYTES_MAX + 1];
    uint64_t sum = 0;
    while (psi_manifest_next(&walk, &file)) {
        bool own = file.task == part->task && PSI_BYTES_TEXT(file.job, job, sizeof(job)) == PS_OK && strcmp(job, part->job) == 0;
        sum += own ? file.bytes : 0;
    }
    return sum;
}

bool psd_loader_parts_for(struct psd_task *t, const struct psd_checkpoint *c, const struct psd_peer *p, ps_v1_StartItem *what,
                          ps_v1_StartItem **out, size_t *out_count)
{
    char who[PSI_TASK_NAME_MAX], by[PSI_TASK_NAME_MAX];
    struct psd_loader_parts parts;
    struct psd_loader_part part;
    size_t capacity = 0;
    bool spreads = t->loader->from == PSD_LOADER_FROM_ALL;
    *out = NULL;
    *out_count = 0;
    what->state_bytes = what->state_sum = 0;
    what->all_bytes = 0;
    psd_loader_parts_begin(c, &parts);
    while (psd_loader_parts_next(&parts, &part)) {
        const struct psd_peer *loader = psd_loader_reader(t, &part);
        bool own = !spreads && part.task == p->task &&
                   strcmp(part.job, p->job) == 0; /* where values are dealt, p's own part is among *out */
        if (loader == NULL || (!spreads && (loader != p || (!own && !psd_loader_is_adopting(t->loader))))) {
            continue;
        }
        ps_v1_StartItem item = ps_v1_StartItem_init_zero,
                        *more = own ? what : psi_grow(*out, *out_count, &capacity, sizeof(item));
        if (more == NULL) {
            return false;
        }
        if (!own) {
            *out = more;
            more = &more[(*out_count)++];
            item.writer = part.task + 1;
        }
        if (!own && !spreads) {
            psd_log(t, PSI_LOG_INFO, "part_adopted", PSI_KV("checkpoint", c->what.number),
                    PSI_KV("writer", psi_task_name_format(who, sizeof(who), part.job, part.task)),
                    PSI_KV("peer", psi_task_name_format(by, sizeof(by), p->job, p->task)));
        }
        if (own) {
            item = *what;
        }
        item.from = loader == p ? 0 : loader->task + 1;
        item.tasks = spreads ? job_tasks(t, t->peer_count) : 0;
        item.place = spreads ? job_tasks(t, p->index) : 0;
        item.home = spreads ? job_tasks(t, loader->index) : 0;
        item.state_bytes = part.bytes;
        item.state_sum = part.sum;
        item.all_bytes = all_bytes(c, &part) / (spreads ? item.tasks : 1);
        *more = item;
    }
    return true;
}

static void mark_trained(const struct psd_containers *of, const char *container)
{
    struct psd_containers_entry *found = psd_containers_find(of, container);
    if (found != NULL) {
        found->trained = true;
    }
}

void psd_loader_mark_trained(const struct psd_checkpoint *c, const struct psd_containers *of)
{
    struct psi_manifest_walk walk = psi_manifest_files(&c->manifest);
    char container[PS_CONTAINER_BYTES_MAX + 1], only[PS_CONTAINER_BYTES_MAX + 1] = "";
    bool says = false, several = false;
    ps_v1_FileItem file;
    while (psi_manifest_next(&walk, &file)) {
        if (file.kind != PS_FILE_VALUES || PSI_BYTES_TEXT(file.container, container, sizeof(container)) != PS_OK) {
            continue;
        }
        says = says || file.notes != 0 || file.step != 0;
        several = several || (only[0] != '\0' && strcmp(only, container) != 0);
        memcpy(only, container, sizeof(only));
        if ((file.notes & PS_NOTE_TRAINED) != 0 || file.step > 1) {
            mark_trained(of, container);
        }
    }
    if (!says && !several && c->what.step > 1) {
        mark_trained(of, only);
    }
}

const char *psd_loader_missing_text(const struct psd_task *t, const struct psd_checkpoint *c, uint64_t older, char *buf, size_t n)
{
    struct psd_loader_part part;
    bool gone = false;
    char instead[64] = "";
    buf[0] = '\0';
    if (!psd_loader_missing(t, c, &part, &gone)) {
        return buf;
    }
    if (older != 0) {
        PSI_IGNORE(
            snprintf(instead, sizeof(instead), "restore = %llu loads an older one; ", (unsigned long long)older)); /* fits */
    }
    PSI_IGNORE(
        snprintf(buf, n,
                 "checkpoint %llu has a part of /job:%s/task:%u, which no task has: %s, or copy its directory %s-%u beside "
                 "%s-%u and start that one again; %swith restore = none, or with another checkpoint_dir, all begin empty",
                 (unsigned long long)part.number, part.job, part.task,
                 gone ? "start that task" : "put its directory back and start that task again", part.job, part.task,
                 t->config.job, t->config.task, instead)); /* cut is fine */
    return buf;
}
