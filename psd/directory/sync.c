/* SPDX-License-Identifier: Apache-2.0 */
/* SYNC: the chief makes the group of a container, changes it, or ends it. A group has the variables that are trained in
 * synchronous rounds, and the workers that take part (psd/rounds/groups.h).
 *
 * Happy path: names come in one frame or several, and the directory marks its records of these names. Each owner is told its
 * variables, and SYNC is answered when all owners have answered. An equal SYNC changes nothing, unless all members of a used
 * group have gone: then the group begins anew. Failure: other names or options while a member lives: FAILED_PRECONDITION. A round
 * is being closed: UNAVAILABLE. An owner refuses: the group is ended on all owners. */
#include "directory.h"

#include "psd/checkpoint/loader.h"
#include "psd/rounds/groups.h"

#include "common/mem.h"
#include "common/name.h"

#include <stdlib.h>
#include <string.h>

enum { RETRY_MS = 100 };

/* The variables that a SYNC names, all in one container. */
struct set {
    char container[PS_CONTAINER_BYTES_MAX + 1];
    const struct psd_name **names; /* records of the names, the global step's first; NULL: unknown name (only with mode_none) */
    uint8_t *roles;                /* enum psd_round_role */
    uint32_t count;
    bool mode_none;
};

static ps_status add_synced(const struct psd_task *t, struct set *s, const ps_v1_NameItem *item, struct psi_err *err)
{
    char container[PS_CONTAINER_BYTES_MAX + 1], name[PS_NAME_BYTES_MAX + 1];
    ps_status st = psd_name_parse(item, container, name, err);
    st = st == PS_OK ? psd_session_refuse(container, "rounds", err) : st;
    if (st != PS_OK) {
        return st;
    }
    if (s->count > 0 && strcmp(container, s->container) != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "SYNC names variables of two containers, '%s' and '%s'", s->container,
                        container);
    }
    memcpy(s->container, container, sizeof(container));
    const struct psd_name *n = psd_directory_find(&t->names, container, name);
    char buffer[PSI_ERR_TEXT_MAX / 2];
    struct psd_names missing = PSD_NAMES_IN(buffer);
    if (n == NULL && psd_lists_missing(t, &missing)) {
        return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_NOT_CONNECTED, "the directory waits for %s: variable '%s' may be there",
                           psd_names_text(&missing), name);
    }
    if (n == NULL && !s->mode_none) {
        return psi_fail(err, PS_NOT_FOUND, "there is no variable '%s' in container '%s'", name, container);
    }
    s->roles[s->count] = s->count == 0 ? PSD_IN_ROUNDS_STEP : item->rows ? PSD_IN_ROUNDS_ROWS : PSD_IN_ROUNDS;
    s->names[s->count++] = n;
    return PS_OK;
}

static int by_address(const void *a, const void *b)
{
    const struct psd_name *const *x = a, *const *y = b;
    return (uintptr_t)*x < (uintptr_t)*y ? -1 : (uintptr_t)*x > (uintptr_t)*y;
}

static ps_status check_twice(const struct set *s, struct psi_err *err)
{
    const struct psd_name **sorted = psi_calloc((size_t)s->count + 1, sizeof(*sorted));
    ps_status st = sorted == NULL ? psi_fail(err, PS_RESOURCE_EXHAUSTED, "SYNC: no memory for its names") : PS_OK;
    if (st == PS_OK) {
        memcpy(sorted, s->names, s->count * sizeof(*sorted));
        qsort(sorted, s->count, sizeof(*sorted), by_address);
    }
    for (uint32_t i = 1; st == PS_OK && i < s->count; i++) {
        if (sorted[i] != NULL && sorted[i] == sorted[i - 1]) {
            st = psi_fail(
                err, PS_INVALID_ARGUMENT,
                "'%s' is there twice: in rounds a session gets what it trains once, and pushes one gradient of it a step",
                sorted[i]->name);
        }
    }
    psi_free(sorted);
    return st;
}

static ps_status read_names(const struct psd_task *t, const uint8_t *p, size_t n, struct set *s, struct psi_err *err)
{
    size_t bytes = 0;
    uint32_t count = 0;
    ps_status st = psi_list_measure(p, n, n, &bytes, &count, err);
    if (st == PS_OK) {
        s->names = psi_calloc((size_t)count + 1, sizeof(const struct psd_name *));
        s->roles = psi_calloc((size_t)count + 1, sizeof(*s->roles));
        st = s->names == NULL || s->roles == NULL ? psi_fail(err, PS_RESOURCE_EXHAUSTED, "SYNC: no memory for its names") : PS_OK;
    }
    struct psi_items items = {.at = p, .bytes_left = n, .st = st};
    ps_v1_NameItem item;
    while (psi_items_next(&items, &ps_v1_NameItem_msg, &item, err)) {
        items.st = add_synced(t, s, &item, err);
    }
    st = items.st;
    if (st == PS_OK && s->count < (s->mode_none ? 1 : 2)) {
        st = psi_fail(err, PS_INVALID_ARGUMENT,
                      "no variable of the model has an optimizer: there is nothing to train in step with others");
    }
    return st == PS_OK ? check_twice(s, err) : st;
}

/* True if s names exactly the variables of the container's group. *out_marked: number of variables in the group. */
static bool is_same_set(const struct psd_task *t, const struct set *s, uint32_t *out_marked)
{
    const struct psd_names_in *in = psd_directory_names_in(&t->names, s->container);
    bool same = true;
    *out_marked = 0;
    for (const struct psd_name *n = psd_names_in_first(in); n != NULL; n = psd_names_in_next(in, n)) {
        *out_marked += n->rounds != 0;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        same = same && s->names[i] != NULL && s->names[i]->rounds == s->roles[i];
    }
    return same && *out_marked == s->count;
}

static void mark(const struct psd_task *t, const char *container, const struct set *s)
{
    const struct psd_names_in *in = psd_directory_names_in(&t->names, container);
    for (const struct psd_name *n = psd_names_in_first(in); n != NULL; n = psd_names_in_next(in, n)) {
        psd_name_in_rounds(n, PSD_IN_NO_ROUNDS);
    }
    for (uint32_t i = 0; s != NULL && i < s->count; i++) {
        psd_name_in_rounds(s->names[i], s->roles[i]);
    }
}

/* Write the names of members whose sessions are alive into buf, for an error. NULL: there are none. */
static const char *living(const struct psd_group *g, char *buf, size_t n)
{
    struct psd_names names = {.text = buf, .size = n};
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &g->members) {
        const struct psd_group_member *m = PSI_CONTAINER_OF(it, struct psd_group_member, link);
        if (!m->gone && !m->lost && !m->leaving) {
            psd_names_add(&names, "/job:%s/task:%u", m->job, m->task);
        }
    }
    return names.used == 0 ? NULL : psd_names_text(&names);
}

/* Check that g may be replaced or ended. UNAVAILABLE: it is closing a round, or the owners have not all reported after a
 * restart of the directory. FAILED_PRECONDITION: a member is alive. */
static ps_status check_free(const struct psd_group *g, const struct psd_sync_options *o, uint32_t had, uint32_t have,
                            struct psi_err *err)
{
    char who[128], ours[PSD_SYNC_TEXT_MAX], theirs[PSD_SYNC_TEXT_MAX];
    if (g->phase == PSD_GROUP_PREPARING || g->phase == PSD_GROUP_COMMITTING || g->phase == PSD_GROUP_RECOVERING) {
        return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_NOT_READY, "round %llu of container '%s' is being closed",
                           (unsigned long long)g->round, g->container);
    }
    const char *alive = g->phase == PSD_GROUP_FAILED || g->phase == PSD_GROUP_ENDING ? NULL : living(g, who, sizeof(who));
    if (alive != NULL) {
        return psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_IN_ROUNDS,
                           "the rounds of container '%s' have members (%s): they are %s, of %u names; asked for: %s, of %u names",
                           g->container, alive, psd_sync_options_text(&g->options, theirs, sizeof(theirs)), had,
                           psd_sync_options_text(o, ours, sizeof(ours)), have);
    }
    return PS_OK;
}

static ps_status end_group(struct psd_task *t, struct psd_group *g, const struct psd_sync_options *o, uint32_t had,
                           struct psi_err *err)
{
    ps_status st = check_free(g, o, had, 0, err);
    if (st == PS_OK) {
        mark(t, g->container, NULL);
        g->failing = false;
        g->phase = PSD_GROUP_ENDING;
    }
    return st;
}

/* Check that the psd of each owner (ps task with a variable of s) is new enough. UNIMPLEMENTED: an old one would ignore max_norm,
 * or expect whole gradients where members send rows. */
static ps_status check_owners(const struct psd_task *t, const struct set *s, const struct psd_sync_options *o,
                              struct psi_err *err)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const struct psd_peer *owner = &t->peers[s->names[i]->owner];
        const bool clip = o->max_norm > 0 && (owner->features & PS_FEATURE_CLIP) == 0;
        const bool rows = s->roles[i] == PSD_IN_ROUNDS_ROWS && (owner->features & PS_FEATURE_ROUND_ROWS) == 0;
        if (clip || rows) {
            return psi_fail_as(err, PS_UNIMPLEMENTED, PS_REASON_FEATURE,
                               "rounds of container '%s': /job:%s/task:%u is of a release without %s; upgrade it", s->container,
                               owner->job, owner->task, clip ? "max_norm" : "embeddings in rounds");
        }
    }
    return PS_OK;
}

/* Begin a group in place of *group (NULL: none). gone: number of workers that have finished this training for good. */
static ps_status begin_group(struct psd_task *t, const struct set *s, const struct psd_sync_options *o, uint32_t gone,
                             struct psd_group **group, struct psi_err *err)
{
    struct psd_group *g = *group != NULL ? *group : psd_group_new(t->peer_count, s->container, psd_random(t));
    uint32_t workers = o->workers != 0 ? o->workers : psi_cluster_workers(&t->cluster);
    if (g == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "rounds of container '%s': no memory", s->container);
    }
    if (*group == NULL) {
        psi_list_push_back(&t->groups, &g->link);
    }
    psd_group_begin(g, psd_random(t), o, workers == 0 ? 1 : workers);
    psd_group_without(g, gone);
    for (uint32_t i = 0; i < s->count; i++) {
        g->owners[s->names[i]->owner].part = true;
        psd_name_by_rounds(s->names[i], s->names[i]->by_rounds || o->mode == PSD_SYNC_ROUNDS);
    }
    if (o->mode == PSD_SYNC_ROUNDS) {
        psd_loader_by_rounds(t, s->container);
    }
    mark(t, s->container, s);
    psd_log(t, PSI_LOG_INFO, "rounds_set", PSI_KV("container", g->container), PSI_KV("mode", o->mode), PSI_KV("names", s->count));
    *group = g;
    return PS_OK;
}

static ps_status sync_set(struct psd_task *t, struct psd_wait *w, const struct set *s, const struct psd_sync_options *o,
                          const ps_v1_Sync *m, struct psi_err *err)
{
    struct psd_group *g = psd_group_find(t, s->container);
    uint32_t had = 0;
    ps_status st = psd_reset_check(t, s->container, err);
    if (st != PS_OK) {
        return st;
    }
    if (o->mode == PSD_SYNC_NONE) {
        if (g == NULL) {
            return psi_fail(err, PS_FAILED_PRECONDITION, "container '%s' has no variables in rounds", s->container);
        }
        PSI_IGNORE(is_same_set(t, s, &had));
        st = end_group(t, g, o, had, err);
        return st == PS_OK ? psd_group_hang(t, g, w, err) : st;
    }
    bool same = is_same_set(t, s, &had) && g != NULL && memcmp(&g->options, o, sizeof(*o)) == 0;
    bool goes_on = g != NULL && g->phase != PSD_GROUP_FAILED && g->phase != PSD_GROUP_ENDING;
    char who[128];
    /* true: the group that the SYNC asks for does not exist, or was used and has no living member */
    if (!(same && goes_on && (!g->used || living(g, who, sizeof(who)) != NULL))) {
        st = g == NULL ? PS_OK : check_free(g, o, had, s->count, err);
        st = st == PS_OK ? check_owners(t, s, o, err) : st;
        if (st == PS_OK) {
            st = begin_group(t, s, o, psd_training_begin(t, w, s->container, m->training, m->finished), &g, err);
        }
    }
    return st == PS_OK ? psd_group_hang(t, g, w, err) : st;
}

static ps_status sync_of(struct psd_task *t, struct psd_wait *w, const struct psd_request *r, struct psi_err *err)
{
    ps_v1_Sync m;
    struct psd_sync_options o;
    struct set s = {0};
    const struct psi_buf *list = &w->rounds.list;
    ps_status st = psi_msg_decode(&ps_v1_Sync_msg, &m, r->meta, r->header.meta_bytes, err);
    st = st == PS_OK ? psd_sync_options_parse(&m.options, &o, err) : st;
    if (st == PS_OK) {
        w->deadline_ms = psd_wait_deadline(t, m.timeout_ms);
        s.mode_none = o.mode == PSD_SYNC_NONE;
        st = list->len > 0 ? read_names(t, list->data, list->len, &s, err) : read_names(t, r->body, r->body_bytes, &s, err);
    }
    st = st == PS_OK ? psd_chief_check(t, s.container, m.chief_number, err) : st;
    st = st == PS_OK ? sync_set(t, w, &s, &o, &m, err) : st;
    psi_free(s.names);
    psi_free(s.roles);
    return st;
}

static void drop_list(struct psd_task *t, struct psd_wait *w)
{
    psd_wait_give_back(t, w, w->rounds.list.capacity);
    psi_buf_fini(&w->rounds.list);
}

/* Keep a frame of a SYNC that has several. The names are looked up when the last frame has come. */
static ps_status collect(struct psd_task *t, struct psd_wait *w, const struct psd_request *r, struct psi_err *err)
{
    struct psi_buf *list = &w->rounds.list;
    size_t bytes = 0, had = list->capacity;
    uint32_t count = 0;
    ps_status st = psi_list_measure(r->body, r->body_bytes, r->body_bytes, &bytes, &count, err);
    if (st == PS_OK && !psd_room(t, PSD_ROOM_LISTS, 2 * bytes)) {
        st = psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED, "SYNC: no room for its names behind %zu bytes of them",
                         list->len);
    }
    if (st == PS_OK) {
        list->max = psd_wait_lists_most(t);
        st = psi_buf_append(list, r->body, bytes, err);
        psd_wait_take(t, w, list->capacity - had);
    }
    return st;
}

static const struct psd_wait_kind of_sync = {.describe = psd_group_describe, .expire = psd_group_expire, .drop = drop_list};

void psd_rpc_sync(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    bool old = false;
    struct psi_err err;
    struct psd_wait *w = psd_wait_get(t, c, r, &of_sync, &old);
    if (w == NULL || old) {
        return;
    }
    bool more = (r->header.flags & PS_FLAG_MORE) != 0;
    ps_status st = more || w->rounds.list.len > 0 ? collect(t, w, r, &err) : PS_OK;
    if (st == PS_OK && more) {
        return;
    }
    st = st == PS_OK ? sync_of(t, w, r, &err) : st;
    drop_list(t, w);
    if (st != PS_OK) {
        psd_wait_refused(t, w, &err, st == PS_UNAVAILABLE || st == PS_RESOURCE_EXHAUSTED ? RETRY_MS : 0);
    } else {
        psd_wait_open(t, w);
    }
}
