/* SPDX-License-Identifier: Apache-2.0 */
/* What each task has when a load is decided: containers, values that have moved, and parts of checkpoints.
 *
 * Containers: each task has reported its own. To find those created since, the directory goes through the names of all variables,
 * in slices, because there may be a million. Failure: without memory no load is decided.
 *
 * Values have moved if the newest checkpoint does not have them in the part of the task that uses them: they were distributed
 * anew over all tasks, or loaded by another task than their writer, or loaded from an older checkpoint. Each task reports up to
 * which checkpoint its values have moved (psd_store.moved). A task that reports less than the others has lost moved values. Each
 * container has such a number too, so that a container that was left out of a restore is not rolled back with the others.
 *
 * Parts: a part is loaded by the task that wrote it, if this task is in the job and has the part. Otherwise a task loads it whose
 * disk has a copy of the writer's directory (docs/DURABILITY.md §8); of several such tasks the writer's index chooses one. */
#include "saver.h"
#include "loader.h"

#include "common/mem.h"
#include "common/ways.h"

#include <stdio.h>
#include <string.h>

uint64_t psd_loader_bytes(const struct psd_task *t)
{
    uint64_t count = 0;
    for (uint32_t i = 0; t->loader != NULL && i < t->peer_count; i++) {
        count += t->loader->peers[i].held.count;
    }
    return count * PSD_CONTAINERS_ENTRY_BYTES;
}

void psd_loader_held_fini(struct psd_task *t, struct psd_loader_peer *of)
{
    psd_store_uncount(&t->store, PSD_MEMORY_CONTAINERS, of->held.count * PSD_CONTAINERS_ENTRY_BYTES);
    psd_containers_fini(&of->held);
}

static ps_status held_add(struct psd_task *t, struct psd_loader_peer *of, const char *container,
                          const struct psd_containers_entry *as, struct psi_err *err)
{
    const size_t before = of->held.count;
    struct psd_containers_entry *h = psd_containers_get(t, &of->held, container, err);
    if (h == NULL) {
        return PS_RESOURCE_EXHAUSTED;
    }
    psd_store_count(&t->store, PSD_MEMORY_CONTAINERS, (of->held.count - before) * PSD_CONTAINERS_ENTRY_BYTES);
    h->start = as->start;
    h->next = as->next;
    h->moved = as->moved;
    return PS_OK;
}

void psd_loader_list_begin(struct psd_task *t, const struct psd_peer *p)
{
    struct psd_loader_peer *of = &t->loader->peers[p->index];
    psd_loader_held_fini(t, of);
    of->offer_count = 0;
    of->moved = 0;
    of->will_wait = false;
}

/* Note that a task offers to load this part, which another task wrote. Ignored without memory, or beyond PSD_OTHERS_MAX
 * offers. */
static void add_offer(struct psd_loader_peer *of, uint64_t number, uint32_t writer)
{
    struct psd_loader_offer *more =
        of->offer_count < PSD_OTHERS_MAX ? psi_grow(of->offers, of->offer_count, &of->offer_capacity, sizeof(*more)) : NULL;
    if (more != NULL) {
        of->offers = more;
        more[of->offer_count++] = (struct psd_loader_offer){.number = number, .writer = writer};
    }
}

ps_status psd_loader_list_item(struct psd_task *t, const struct psd_peer *p, const ps_v1_ListItem *listed, struct psi_err *err)
{
    char container[PS_CONTAINER_BYTES_MAX + 1], name[PS_NAME_BYTES_MAX + 1];
    const ps_v1_StartItem *item = &listed->start;
    if (listed->name.size != 0) {
        ps_status st = PSI_BYTES_TEXT(listed->name, name, sizeof(name));
        st = st == PS_OK ? psd_container_parse((const pb_bytes_array_t *)(const void *)&listed->container, container, err) : st;
        return st == PS_OK && p->own_job ? psd_others_gone(t, container, name, item->number, err) : st;
    }
    if (item->container.size == 0 && item->writer != 0) {
        add_offer(&t->loader->peers[p->index], item->number, item->writer);
        return PS_OK;
    }
    if (item->container.size == 0) {
        t->loader->peers[p->index].will_wait = p->own_job && item->waits;
        t->loader->peers[p->index].moved = item->moved;
        return PS_OK;
    }
    ps_status st = psd_container_parse((const pb_bytes_array_t *)(const void *)&item->container, container, err);
    struct psd_loader_peer *of = &t->loader->peers[p->index];
    /* a task of an older version reports one `moved` for all its containers */
    struct psd_containers_entry as = {
        .start = item->start, .next = item->next, .moved = item->moved == 0 ? of->moved : item->moved - 1};
    return st == PS_OK ? held_add(t, of, container, &as, err) : st;
}

ps_status psd_loader_list_own(struct psd_task *t, struct psi_err *err)
{
    struct psd_loader_peer *of = &t->loader->peers[t->self];
    uint64_t cursor = 0;
    void *value = NULL;
    ps_status st = PS_OK;
    psd_loader_held_fini(t, of);
    while (st == PS_OK && psi_map_next(&t->store.containers, &cursor, NULL, NULL, &value)) {
        const struct psd_container *c = value;
        if (psd_container_count(c) > 0 && !c->of_session) {
            st = held_add(t, of, c->name, &(struct psd_containers_entry){.start = c->start, .next = c->next, .moved = c->moved},
                          err);
        }
    }
    return st;
}

/* Note that a task has this container, which was made after the task's report. */
static ps_status held_made(struct psd_task *t, struct psd_loader_peer *of, const char *container, struct psi_err *err)
{
    const struct psd_containers_entry as = {.moved = of->moved};
    return psd_containers_find(&of->held, container) != NULL ? PS_OK : held_add(t, of, container, &as, err);
}

/* Note that the task with variable n has n's container (psd_loader_peer.held). If rounds may have made n's value, add the
 * container to psd_loader.by_rounds. */
static ps_status list_made(struct psd_task *t, const struct psd_name *n, struct psi_err *err)
{
    const struct psd_peer *p = &t->peers[n->owner];
    struct psd_loader_peer *of = &t->loader->peers[n->owner];
    ps_status st = PS_OK;
    if (psi_container_is_session(n->container)) {
        return PS_OK;
    }
    if (n->life != 0 && n->life == p->life) {
        st = held_made(t, of, n->container, err);
    }
    return st == PS_OK && n->by_rounds ? psd_containers_put(t, &t->loader->by_rounds, n->container, 0, err) : st;
}

void psd_loader_look_begin(struct psd_task *t)
{
    psd_containers_fini(&t->loader->by_rounds);
    t->loader->names_cursor = 0;
}

ps_status psd_loader_look_at_names(struct psd_task *t, bool *out_over, struct psi_err *err)
{
    void *value = NULL;
    ps_status st = PS_OK;
    *out_over = false;
    for (uint32_t left = t->config.list_slice_rows; st == PS_OK && left > 0 && !*out_over; left--) {
        *out_over = !psi_map_next(&t->names.names, &t->loader->names_cursor, NULL, NULL, &value);
        st = *out_over ? PS_OK : list_made(t, value, err);
    }
    return st;
}

bool psd_loader_has_work(const struct psd_task *t)
{
    return t->loader != NULL && t->loader->phase == PSD_LOADER_CHOOSING;
}

/* True if new containers must be noted when they are created, because the walk over all names may have passed them. */
static bool follows(const struct psd_task *t)
{
    return t->loader != NULL && (t->loader->phase == PSD_LOADER_CHOOSING || psd_loader_is_on(t->loader));
}

void psd_loader_made(struct psd_task *t, const struct psd_peer *p, const char *container)
{
    struct psi_err err;
    if (follows(t) && held_made(t, &t->loader->peers[p->index], container, &err) != PS_OK) {
        psd_loader_again_later(t);
    }
}

void psd_loader_by_rounds(struct psd_task *t, const char *container)
{
    struct psi_err err;
    if (follows(t) && psd_containers_put(t, &t->loader->by_rounds, container, 0, &err) != PS_OK) {
        psd_loader_again_later(t);
    }
}

const struct psd_containers_entry *psd_loader_living(const struct psd_task *t, const char *container)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_containers_entry *h = psd_containers_find(&t->loader->peers[i].held, container);
        if (t->peers[i].own_job && h != NULL && !t->peers[i].waits) {
            return h;
        }
    }
    return NULL;
}

/* True if some task uses the content that the load with the random number `start` loaded for this container. */
static bool is_placed_by(const struct psd_task *t, const char *container, uint64_t start)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_containers_entry *h = psd_containers_find(&t->loader->peers[i].held, container);
        if (h != NULL && h->start == start) {
            return true;
        }
    }
    return false;
}

bool psd_loader_is_torn(const struct psd_task *t, const char *container)
{
    /* `next` of the last task that was examined; tasks with an equal `next` are skipped */
    uint64_t looked_for = 0;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_containers_entry *h = psd_containers_find(&t->loader->peers[i].held, container);
        if (h != NULL && h->next != looked_for && h->next != 0) {
            looked_for = h->next;
            if (is_placed_by(t, container, looked_for)) {
                return true;
            }
        }
    }
    return false;
}

/* True if no task before index `peer` has loaded a part of the container. psd_loader_any_torn() meets the container once for each
 * task that has, and examines it only the first time. */
static bool is_first_to_load(const struct psd_task *t, uint32_t peer, const char *container)
{
    for (uint32_t i = 0; i < peer; i++) {
        const struct psd_containers_entry *h = psd_containers_find(&t->loader->peers[i].held, container);
        if (h != NULL && h->next != 0) {
            return false;
        }
    }
    return true;
}

bool psd_loader_is_together(const struct psd_task *t, const char *container)
{
    return psi_way_of(psi_recover_ways, t->config.recover.text, container) == PSD_RECOVER_CUT ||
           psd_containers_find(&t->loader->by_rounds, container) != NULL;
}

bool psd_loader_any_together(const struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_loader_peer *of = &t->loader->peers[i];
        for (size_t k = 0; t->peers[i].own_job && !t->peers[i].waits && k < of->held.count; k++) {
            if (psd_loader_is_together(t, of->held.of[k].container)) {
                return true;
            }
        }
    }
    return false;
}

bool psd_loader_any_torn(const struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_loader_peer *of = &t->loader->peers[i];
        for (size_t k = 0; k < of->held.count; k++) {
            const char *container = of->held.of[k].container;
            if (of->held.of[k].next != 0 && is_first_to_load(t, i, container) && psd_loader_is_torn(t, container)) {
                return true;
            }
        }
    }
    return false;
}

/* ---- values that have moved ---- */

/* psd_store.moved of p: p's parts of checkpoints up to this number do not fit p's values. 0: all fit, or p is of another job. */
static uint64_t moved_on(const struct psd_task *t, const struct psd_peer *p)
{
    return !p->own_job ? 0 : p->self ? t->store.moved : t->loader->peers[p->index].moved;
}

uint64_t psd_loader_moved_most(const struct psd_task *t)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        uint64_t moved = moved_on(t, &t->peers[i]);
        most = moved > most ? moved : most;
    }
    return most;
}

bool psd_loader_is_moved(const struct psd_task *t, const char *container, uint64_t number)
{
    if (psd_loader_living(t, container) == NULL) {
        /* no task uses the container: a lost task may have had all its values, and no report says where they were */
        return true;
    }
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_containers_entry *h = psd_containers_find(&t->loader->peers[i].held, container);
        if (t->peers[i].own_job && h != NULL && h->moved >= number) {
            return true;
        }
    }
    return false;
}

static uint64_t newest(const struct psd_task *t)
{
    const struct psd_checkpoint *c = psd_saver_last_known(t);
    return c == NULL ? 0 : c->what.number;
}

static bool have_disks(const struct psd_task *t)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (t->peers[i].own_job && !t->saver->peers[i].has_disk) {
            return false;
        }
    }
    return true;
}

bool psd_loader_moves(const struct psd_task *t)
{
    const struct psd_loader *s = t->loader;
    bool all = s->reason == PSD_LOAD_ASKED || s->reason == PSD_LOAD_START || psd_loader_strays(s);
    return s->from != PSD_LOADER_FROM_OWN || (all && s->number < newest(t) && have_disks(t));
}

bool psd_loader_is_sealed(const struct psd_task *t)
{
    uint64_t most = psd_loader_moved_most(t);
    return most == 0 || newest(t) == 0 || newest(t) > most;
}

bool psd_loader_is_strayed(const struct psd_task *t)
{
    uint64_t most = psd_loader_moved_most(t);
    bool sealed = psd_loader_is_sealed(t);
    for (uint32_t i = 0; !sealed && i < t->peer_count; i++) {
        if (t->peers[i].own_job && moved_on(t, &t->peers[i]) != most) {
            return true;
        }
    }
    return false;
}

struct psd_loader_parts psd_loader_parts_of(const struct psd_checkpoint *c)
{
    return (struct psd_loader_parts){.number = c->what.number, .walk = psi_manifest_files(&c->manifest)};
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
    struct psd_loader_parts parts = psd_loader_parts_of(c);
    while (psd_loader_parts_next(&parts, out)) {
        if (out->task == p->task && strcmp(out->job, p->job) == 0) {
            return true;
        }
    }
    return false;
}

bool psd_loader_is_here(const struct psd_peer *p)
{
    return p->listed && (p->conn == NULL || !p->conn->closing);
}

bool psd_loader_all_here(const struct psd_task *t)
{
    bool here = true;
    for (uint32_t i = 0; here && i < t->peer_count; i++) {
        here = !t->peers[i].own_job || psd_loader_is_here(&t->peers[i]);
    }
    return here;
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

/* The number of tasks of the job with a peer index below `end`: for peer `end` this is its psd_deal.place, counted from 0. */
static uint32_t job_tasks(const struct psd_task *t, uint32_t end)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < end; i++) {
        count += t->peers[i].own_job;
    }
    return count;
}

bool psd_loader_is_of_others(const struct psd_task *t, const struct psd_checkpoint *c)
{
    struct psd_loader_parts parts = psd_loader_parts_of(c);
    struct psd_loader_part part;
    uint32_t own = 0, count = 0;
    while (psd_loader_parts_next(&parts, &part)) {
        own += writer_of(t, &part) != NULL;
        count++;
    }
    return have_disks(t) && (own != count || own != job_tasks(t, t->peer_count));
}

bool psd_loader_has_others(const struct psd_task *t, const struct psd_checkpoint *c)
{
    struct psd_loader_parts parts = psd_loader_parts_of(c);
    struct psd_loader_part part;
    while (psd_loader_parts_next(&parts, &part)) {
        const struct psd_peer *writer = writer_of(t, &part), *reader = psd_loader_reader(t, &part);
        bool loads = writer != NULL && psd_loader_takes_part(&t->loader->peers[writer->index]);
        if (writer == NULL || (loads && reader != NULL && reader != writer)) {
            return true;
        }
    }
    return false;
}

static bool is_adopting(const struct psd_loader *s)
{
    return s->from == PSD_LOADER_FROM_OTHERS || psd_loader_strays(s);
}

/* True if a task that waits has lost values of a container that other tasks use, and all tasks must have values of one instant of
 * this container: then all must load c. A part whose containers the manifest does not name counts as one with such values. */
static bool lacks_together(const struct psd_task *t, const struct psd_checkpoint *c)
{
    struct psi_items walk = psi_manifest_files(&c->manifest);
    ps_v1_FileItem file;
    char container[PS_CONTAINER_BYTES_MAX + 1], job[PS_JOB_BYTES_MAX + 1];
    bool lacks = false, matters = t->loader->reason == PSD_LOAD_RETURN && psd_loader_any_together(t);
    while (matters && !lacks && psi_manifest_next(&walk, &file)) {
        bool valid = PSI_BYTES_TEXT(file.job, job, sizeof(job)) == PS_OK &&
                     PSI_BYTES_TEXT(file.container, container, sizeof(container)) == PS_OK;
        const struct psd_peer *p = valid ? psd_peer_find(t, job, file.task) : NULL;
        bool named = file.kind != PS_FILE_STATE;
        lacks = p != NULL && p->own_job && p->waits &&
                (named ? psd_saver_bar(t, container) < c->what.number && psd_loader_living(t, container) != NULL &&
                             psd_loader_is_together(t, container)
                       : (file.notes & PS_NOTE_NAMED) == 0);
    }
    return lacks;
}

bool psd_loader_adopts(const struct psd_task *t, const struct psd_checkpoint *c)
{
    return psd_loader_moved_most(t) >= c->what.number || psd_loader_has_others(t, c) || lacks_together(t, c);
}

/* Find a part of c that is to be loaded and that no task has, if possible one whose writer has left the job (*out_gone). */
static bool find_missing(const struct psd_task *t, const struct psd_checkpoint *c, struct psd_loader_part *out, bool *out_gone)
{
    struct psd_loader_parts parts = psd_loader_parts_of(c);
    struct psd_loader_part part;
    bool adopts = psd_loader_adopts(t, c), missing = false;
    *out_gone = false;
    while (!*out_gone && psd_loader_parts_next(&parts, &part)) {
        const struct psd_peer *writer = writer_of(t, &part);
        bool needed = adopts || writer == NULL || psd_loader_takes_part(&t->loader->peers[writer->index]);
        if (needed && psd_loader_reader(t, &part) == NULL && (!missing || writer == NULL)) {
            missing = true;
            *out = part;
            *out_gone = writer == NULL; /* a part whose writer has left the job is reported before any other */
        }
    }
    return missing;
}

bool psd_loader_missing(const struct psd_task *t, const struct psd_checkpoint *c)
{
    struct psd_loader_part part;
    bool gone = false;
    return find_missing(t, c, &part, &gone);
}

static uint64_t all_bytes(const struct psd_checkpoint *c, const struct psd_loader_part *part)
{
    struct psi_items walk = psi_manifest_files(&c->manifest);
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
    struct psd_loader_parts parts = psd_loader_parts_of(c);
    struct psd_loader_part part;
    size_t capacity = 0;
    bool spreads = t->loader->from == PSD_LOADER_FROM_ALL;
    *out = NULL;
    *out_count = 0;
    what->state_bytes = what->state_sum = 0;
    what->all_bytes = 0;
    while (psd_loader_parts_next(&parts, &part)) {
        const struct psd_peer *loader = psd_loader_reader(t, &part);
        bool own = !spreads && part.task == p->task &&
                   strcmp(part.job, p->job) == 0; /* if values are distributed anew, *out gets p's own part too */
        if (loader == NULL || (!spreads && (loader != p || (!own && !is_adopting(t->loader))))) {
            continue;
        }
        ps_v1_StartItem item = ps_v1_StartItem_init_zero, *more = NULL;
        if (own) {
            item = *what;
        } else if ((more = psi_grow(*out, *out_count, &capacity, sizeof(item))) == NULL) {
            return false;
        }
        item.writer = own ? 0 : part.task + 1;
        item.from = loader == p ? 0 : loader->task + 1;
        item.tasks = spreads ? job_tasks(t, t->peer_count) : 0;
        item.place = spreads ? job_tasks(t, p->index) : 0;
        item.home = spreads ? job_tasks(t, loader->index) : 0;
        item.state_bytes = part.bytes;
        item.state_sum = part.sum;
        item.all_bytes = all_bytes(c, &part) / (spreads ? item.tasks : 1);
        if (own) {
            *what = item;
            continue;
        }
        *out = more;
        more[(*out_count)++] = item;
        if (!spreads) {
            psd_log(t, PSI_LOG_INFO, "part_adopted", PSI_KV("checkpoint", c->what.number),
                    PSI_KV("writer", psi_task_name_format(who, sizeof(who), part.job, part.task)),
                    PSI_KV("peer", psi_task_name_format(by, sizeof(by), p->job, p->task)));
        }
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
    struct psi_items walk = psi_manifest_files(&c->manifest);
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
    if (!find_missing(t, c, &part, &gone)) {
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
