/* SPDX-License-Identifier: Apache-2.0 */
/* BARRIER, at the directory: sessions wait at a named barrier until enough sessions have arrived there.
 *
 * The first BARRIER request with a name makes the barrier, and says how many must arrive. The last arrival releases all and frees
 * the name. Each arrival is a waiting request (wait.h): a client that reconnects finds its arrival or its answer again. A
 * restarted directory knows no barriers: it tells a client that had arrived that the outcome is unknown.
 *
 * Barriers are checked at each arrival, and at the end of each event in which a session has become a member of the cluster or has
 * ceased to be one. They are not checked within such an event: a session that sends HELLO again is no member for a moment.
 * Failure: another count than in the first request: INVALID_ARGUMENT. No memory: RESOURCE_EXHAUSTED. Deadline over:
 * DEADLINE_EXCEEDED, with the names of missing sessions. */
#include "rpc.h"

#include "common/mem.h"
#include "common/name.h"

#include <stdio.h>
#include <string.h>

#define WORKERS "worker"
enum { KEY_MAX = PS_CONTAINER_BYTES_MAX + 1 + PS_NAME_BYTES_MAX, RETRY_MS = 100 };

struct psd_barrier {
    struct psi_list waiters; /* struct psd_need of the arrivals */
    uint32_t arrivals;       /* number of waiting requests at the barrier */
    uint32_t count;          /* how many arrivals release it; 0: all workers must arrive */
    bool named;              /* true: the barrier is in task->barriers; false: it was released */
    uint32_t key_bytes;
    char key[KEY_MAX]; /* container, a NUL byte, name; key_bytes in all */
};
_Static_assert(sizeof(struct psd_barrier) + 16 + PSI_MAP_ENTRY_BYTES <= PSD_BARRIER_BYTES, "as malloc gives it");

static struct psd_barrier *barrier_of(const struct psd_wait *w)
{
    return PSI_CONTAINER_OF(w->needs[0].of, struct psd_barrier, waiters);
}

static struct psd_barrier *barrier_get(struct psd_task *t, const char *key, uint32_t key_bytes, uint32_t count)
{
    struct psd_barrier *b = psi_map_find(&t->barriers, key, key_bytes);
    if (b != NULL) {
        return b;
    }
    b = psd_room(t, PSD_ROOM_LISTS, PSD_BARRIER_BYTES) ? psi_calloc(1, sizeof(*b)) : NULL;
    if (b == NULL) {
        return NULL;
    }
    memcpy(b->key, key, key_bytes);
    if (psi_map_put(&t->barriers, b->key, key_bytes, b, NULL, NULL) != PS_OK) {
        psi_free(b);
        return NULL;
    }
    psd_store_count(&t->store, PSD_MEMORY_REQUESTS, PSD_BARRIER_BYTES);
    psi_list_init(&b->waiters);
    b->count = count;
    b->named = true;
    b->key_bytes = key_bytes;
    return b;
}

static void unname(struct psd_task *t, struct psd_barrier *b)
{
    if (b->named) {
        b->named = false;
        PSI_IGNORE(psi_map_remove(&t->barriers, b->key, b->key_bytes)); /* returns b */
    }
}

/* Remove the arrival w from its barrier; the barrier is freed with its last arrival. */
static void leave(struct psd_task *t, struct psd_wait *w)
{
    if (w->need_count == 0 || w->needs[0].of == NULL) {
        return; /* the request was refused, so it never arrived */
    }
    struct psd_barrier *b = barrier_of(w);
    psi_list_remove(&w->needs[0].at);
    /* without w, the first waiting worker, whose program all workers must have (program_of()), may be another one: look again */
    t->barriers_stale = t->barriers_stale || b->named;
    if (--b->arrivals == 0) {
        unname(t, b);
        psd_store_uncount(&t->store, PSD_MEMORY_REQUESTS, PSD_BARRIER_BYTES);
        psi_free(b);
    }
}

static bool is_worker(const struct psd_record *r)
{
    return r->member && strcmp(r->job, WORKERS) == 0;
}

/* Find the default container of the first worker that waits; all workers with it must arrive. NULL: no worker waits. */
static const char *program_of(const struct psd_barrier *b)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &b->waiters) {
        const struct psd_record *r = PSI_CONTAINER_OF(it, struct psd_need, at)->wait->record;
        if (is_worker(r)) {
            return r->container;
        }
    }
    return NULL;
}

static bool is_worker_of(const struct psd_record *r, const char *program)
{
    return is_worker(r) && (program == NULL || strcmp(r->container, program) == 0);
}

/* True if r has no connection, and a living session that began later has the same job, task and container. */
static bool is_replaced(const struct psd_task *t, const struct psd_record *r)
{
    uint64_t cursor = 0;
    void *value = NULL;
    bool later = false;
    while (r->conn == NULL && r->job[0] != '\0' && psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        const struct psd_record *other = value;
        bool same = other->task == r->task && strcmp(other->job, r->job) == 0 && strcmp(other->container, r->container) == 0;
        if (later && other->member && same) {
            return true;
        }
        later = later || other == r; /* the map has the records in the order in which their sessions began */
    }
    return false;
}

static bool has_come(const struct psd_barrier *b, const struct psd_record *r)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_u64_map_next(&r->waits, &cursor, NULL, &value)) {
        const struct psd_wait *w = value;
        if (w->op == PS_OP_BARRIER && w->need_count > 0 && w->needs[0].of == &b->waiters) {
            return true;
        }
    }
    return false;
}

/* Count the sessions that have arrived at b, except replaced ones (is_replaced()). *out_of: how many arrivals release b. */
static uint32_t come(const struct psd_task *t, const struct psd_barrier *b, uint32_t *out_of)
{
    uint32_t count = 0;
    if (b->count > 0) {
        struct psi_list *it = NULL;
        PSI_LIST_FOREACH(it, &b->waiters) {
            count += !is_replaced(t, PSI_CONTAINER_OF(it, struct psd_need, at)->wait->record);
        }
        *out_of = b->count;
        return count;
    }
    const char *program = program_of(b);
    uint64_t cursor = 0;
    void *value = NULL;
    *out_of = 0;
    while (psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        const struct psd_record *r = value;
        bool counts = is_worker_of(r, program);
        *out_of += counts;
        count += counts && has_come(b, r);
    }
    return count;
}

static bool is_complete(const struct psd_task *t, const struct psd_barrier *b)
{
    uint32_t of = 0;
    return come(t, b, &of) >= of;
}

static void look(struct psd_task *t, struct psd_barrier *b)
{
    if (is_complete(t, b)) {
        struct psi_list all;
        psi_list_init(&all);
        psi_list_move_all(&all, &b->waiters); /* b is freed when the last of its arrivals ends */
        unname(t, b);
        psd_wait_over(t, &all);
    }
}

void psd_barriers_look(struct psd_task *t)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (t->barriers_stale && psi_map_next(&t->barriers, &cursor, NULL, NULL, &value)) {
        look(t, value);
    }
    t->barriers_stale = false;
}

void psd_barrier_lease_ended(struct psd_task *t, struct psd_record *r)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_u64_map_next(&r->waits, &cursor, NULL, &value)) {
        struct psd_wait *w = value;
        if (w->op == PS_OP_BARRIER && w->stage == PSD_WAIT_OPEN) {
            PSI_IGNORE(psi_fail(&w->err, PS_ABORTED,
                                "the lease of this session at %s ended while it waited: it has not been counted any more since",
                                t->name));
            psd_wait_done(t, w);
        }
    }
}

void psd_barriers_check_invariants(const struct psd_task *t)
{
    uint64_t cursor = 0;
    void *value = NULL;
    PSI_ASSERT(!t->barriers_stale);
    while (psi_map_next(&t->barriers, &cursor, NULL, NULL, &value)) {
        const struct psd_barrier *b = value;
        uint32_t arrivals = 0;
        struct psi_list *it = NULL;
        PSI_LIST_FOREACH(it, &b->waiters) {
            arrivals++;
        }
        PSI_ASSERT(b->named && arrivals == b->arrivals && arrivals > 0);
        PSI_ASSERT(!is_complete(t, b)); /* a complete barrier is released in the event that completes it */
    }
}

struct missing {
    char of_here[PSD_NAMES_HALF], of_away[PSD_NAMES_HALF], of_come[PSD_NAMES_HALF];
    /* here: workers with a lease that have not arrived; away: workers without a lease; come: sessions that have arrived */
    const char *here, *away, *come;
};

/* Add the workers of the cluster spec that have not arrived: to `here` if they hold a lease, else to `away`. */
static void add_listed(const struct psd_task *t, const struct psd_barrier *b, struct psd_names *here, struct psd_names *away)
{
    enum { HERE = 1, COME = 2 };
    uint8_t *state = psi_calloc(t->peer_count, 1);
    uint64_t cursor = 0;
    void *value = NULL;
    while (state != NULL && psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        const struct psd_record *r = value;
        uint32_t i = psi_cluster_task_number(&t->cluster, r->job, r->task);
        if (is_worker(r) && i < t->peer_count) {
            state[i] = (uint8_t)(state[i] | HERE | (has_come(b, r) ? COME : 0));
        }
    }
    for (uint32_t i = 0; state != NULL && i < t->peer_count; i++) {
        if (strcmp(t->peers[i].job, WORKERS) == 0 && (state[i] & COME) == 0) {
            psd_names_add((state[i] & HERE) != 0 ? here : away, "/job:" WORKERS "/task:%u", t->peers[i].task);
        }
    }
    psi_free(state);
}

static void find_missing(const struct psd_task *t, const struct psd_barrier *b, struct missing *m)
{
    struct psd_names here = PSD_NAMES_IN(m->of_here), away = PSD_NAMES_IN(m->of_away), there = PSD_NAMES_IN(m->of_come);
    const char *program = program_of(b);
    char who[96];
    uint64_t cursor = 0;
    void *value = NULL;
    if (b->count > 0) {
        add_listed(t, b, &here, &away);
    }
    while (psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        const struct psd_record *r = value;
        bool has = has_come(b, r);
        if (has || (b->count == 0 && is_worker_of(r, program))) {
            psd_names_add(has ? &there : &here, "%s", psd_record_text(r, who, sizeof(who)));
        }
    }
    m->here = psd_names_text(&here);
    m->away = psd_names_text(&away);
    m->come = psd_names_text(&there);
}

static void describe(const struct psd_task *t, const struct psd_wait *w, struct psd_wait_text *out)
{
    const struct psd_barrier *b = barrier_of(w);
    struct missing m;
    uint32_t of = 0, count = come(t, b, &of);
    const char *name = b->key + strlen(b->key) + 1;
    find_missing(t, b, &m);
    PSI_IGNORE(snprintf(out->what, sizeof(out->what), "barrier %.*s: %u of %u have come", (int)(b->key_bytes - (name - b->key)),
                        name, count, of)); /* cut is fine */
    if (m.here[0] == '\0' && m.away[0] == '\0') {
        PSI_IGNORE(snprintf(out->release, sizeof(out->release), "%u more come to it", of - count)); /* fits */
    } else {
        PSI_IGNORE(snprintf(out->release, sizeof(out->release), "%s%s%s%s%s", m.here, m.here[0] != '\0' ? " to come" : "",
                            m.here[0] != '\0' && m.away[0] != '\0' ? "; " : "", m.away,
                            m.away[0] != '\0' ? " to open a session and come" : "")); /* fits */
    }
}

static void expire(struct psd_task *t, struct psd_wait *w)
{
    const struct psd_barrier *b = barrier_of(w);
    struct missing m;
    uint32_t of = 0, count = come(t, b, &of);
    find_missing(t, b, &m);
    bool named = m.here[0] != '\0' || m.away[0] != '\0';
    PSI_IGNORE(psi_fail_as(&w->err, PS_DEADLINE_EXCEEDED, PS_REASON_NOT_READY, "%u of %u have come, as seen at %s%s%s%s%s%s%s",
                           count, of, t->name, named ? "" : ": ", named ? "" : m.come, m.here[0] != '\0' ? "; not yet: " : "",
                           m.here, m.away[0] != '\0' ? "; without a session: " : "", m.away)); /* answered by the caller */
}

static const struct psd_wait_kind of_barrier = {.describe = describe, .expire = expire, .drop = leave};

static ps_status come_to(struct psd_task *t, struct psd_wait *w, const struct psd_request *r, struct psi_err *err)
{
    ps_v1_Barrier m;
    ps_v1_NameItem item;
    char key[KEY_MAX + 2], name[PS_NAME_BYTES_MAX + 1];
    ps_status st = psi_msg_decode(&ps_v1_Barrier_msg, &m, r->meta, r->header.meta_bytes, err);
    if (st == PS_OK) {
        st = psd_item_only(r, &ps_v1_NameItem_msg, &item, "barrier", NULL, err);
    }
    if (st == PS_OK) {
        st = psd_name_parse(&item, key, name, err);
    }
    st = st == PS_OK ? psd_session_refuse(key, "barriers", err) : st;
    struct psd_need *need = st == PS_OK ? psd_wait_need(t, w, err) : NULL;
    if (need == NULL) {
        return st == PS_OK ? PS_RESOURCE_EXHAUSTED : st;
    }
    size_t head = strlen(key) + 1;
    memcpy(key + head, name, strlen(name));
    struct psd_barrier *b = barrier_get(t, key, (uint32_t)(head + strlen(name)), m.count);
    if (b == NULL) {
        return psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED, "%s: no memory for barrier '%s'", t->name, name);
    }
    if (b->count != m.count) {
        char theirs[32], ours[32];
        PSI_IGNORE(snprintf(theirs, sizeof(theirs), b->count == 0 ? "all workers" : "%u", b->count)); /* fits */
        PSI_IGNORE(snprintf(ours, sizeof(ours), m.count == 0 ? "all workers" : "%u", m.count));       /* fits */
        return psi_fail(err, PS_INVALID_ARGUMENT, "it is to wait for %s, and who has come before waits there for %s", ours,
                        theirs);
    }
    w->deadline_ms = psd_wait_deadline(t, m.timeout_ms);
    psd_wait_hang(w, need, &b->waiters);
    b->arrivals++;
    return PS_OK;
}

void psd_rpc_barrier(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    bool old = false;
    struct psi_err err;
    struct psd_wait *w = psd_wait_get(t, c, r, &of_barrier, &old);
    if (w == NULL || old) {
        return;
    }
    ps_status st = come_to(t, w, r, &err);
    if (st != PS_OK) {
        psd_wait_refused(t, w, &err, st == PS_RESOURCE_EXHAUSTED ? RETRY_MS : 0);
        return;
    }
    psd_wait_open(t, w);
    look(t, barrier_of(w));
}
