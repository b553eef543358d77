/* SPDX-License-Identifier: Apache-2.0 */
/* EVENTS: what has happened at this task, kept in a bounded list.
 *
 * Happy path: psd_log() or psd_event() with a name of the table appends an entry; entries have consecutive numbers. A client asks
 * for the entries from a number on. If there are none yet, the client waits, and is answered as soon as an entry is noted.
 * Failure: a slow client sees from the numbers how many entries it has missed. An event that peers cause often is noted at most
 * PSD_EVENTS_A_SECOND times a second; its next entry says how many were left out. Without memory an event is left out. The list
 * is lost with the process; the client sees that because `life` differs. */
#include "events.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

/* Names of the events that are kept. docs/OPERATIONS.md describes the events of the log. */
static const char *const names[] = {
    /* tasks */
    "started", "serving", "shutdown_asked", "task_connected", "task_lost", "task_refused", "task_displaced", "name_elsewhere",
    "directory_connected", "directory_lost", "directory_refused", "fenced",
    /* workers */
    "worker_up", "worker_away", "worker_back", "worker_left", "worker_displaced", "worker_refused", "session_gave_way",
    "stop_asked", "trainer_done", "job_done", "job_end",
    /* chiefs and rounds */
    "chief", "chief_forgotten", "rounds_set", "rounds_end",
    /* recoveries */
    "checkpoint_loads", "checkpoint_spreads", "checkpoint_restored", "checkpoint_partial", "checkpoint_left_out",
    "checkpoint_passed_over", "checkpoint_not_placed", "part_adopted", "start_empty", "start_refused", "container_replaced",
    "restore_asked",
    /* checkpoints */
    "checkpoint_asked", "checkpoint_saved", "checkpoint_failed", "checkpoint_deleted", "checkpoint_gives_way",
    "checkpoint_unusable", "checkpoint_refused",
    /* containers that were emptied, and other changes by operators */
    "container_reset", "reset_again", "reset_taken_back", "reset_not_noted", "delete_asked", "config_set",
    /* denials */
    "denied", "hello_refused"};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

struct event {
    struct psi_list link; /* events->kept */
    uint64_t number, at_ms;
    uint32_t level;
    const char *name;
    char container[PS_CONTAINER_BYTES_MAX + 1]; /* container of the event; "": none */
    char text[];
};

struct psd_events {
    struct psi_list kept; /* the oldest first */
    uint32_t count;
    uint64_t next; /* number of the next event; the first one is 1 */
    bool news;     /* an entry was added since the last psd_events_turn() */
    struct {
        uint64_t until_ms;       /* end of the second in which `said` counts */
        uint32_t said, left_out; /* said: entries noted in this second; left_out: events left out since the last entry */
    } of[NAMES];
};

static void drop_oldest(struct psd_events *e)
{
    psi_free(PSI_CONTAINER_OF(psi_list_pop_front(&e->kept), struct event, link));
    e->count--;
}

static struct psd_events *get(struct psd_task *t)
{
    if (t->events == NULL) {
        t->events = psi_calloc(1, sizeof(*t->events));
        if (t->events != NULL) {
            psi_list_init(&t->events->kept);
            t->events->next = 1;
        }
    }
    return t->events;
}

/* Find the index of the name in `names`; NAMES: events of this name are not kept. */
static size_t find(const char *name)
{
    size_t i = 0;
    while (i < NAMES && strcmp(names[i], name) != 0) {
        i++;
    }
    return i;
}

/* Write the fields into text [n]. The text of a denial is left out: it may name containers that readers of events may not see. */
static void write_text(const char *name, const struct psi_kv *kv, size_t count, uint32_t left_out, char *text, size_t n)
{
    struct psi_kv fields[16];
    size_t used = 0;
    if (left_out > 0) {
        fields[used++] = PSI_KV("left_out_before", left_out);
    }
    for (size_t i = 0; i < count && used < sizeof(fields) / sizeof(fields[0]); i++) {
        if (strcmp(name, "denied") != 0 || strcmp(kv[i].key, "msg") != 0) {
            fields[used++] = kv[i];
        }
    }
    PSI_IGNORE(psi_log_format(text, n, fields, used)); /* a cut text is fine */
}

void psd_event_fields(struct psd_task *t, enum psi_log_level level, const char *event, const struct psi_kv *kv, size_t count)
{
    const size_t i = find(event);
    struct psd_events *e = i == NAMES || t->config.events_max == 0 ? NULL : get(t);
    if (e == NULL) {
        return;
    }
    if (t->now_ms >= e->of[i].until_ms) {
        e->of[i].until_ms = t->now_ms + 1000;
        e->of[i].said = 0;
    }
    if (e->of[i].said == PSD_EVENTS_A_SECOND) {
        e->of[i].left_out++;
        return;
    }
    char text[PSD_EVENT_TEXT_MAX + 1];
    write_text(names[i], kv, count, e->of[i].left_out, text, sizeof(text));
    const size_t bytes = strlen(text) + 1;
    struct event *new = psi_calloc(1, sizeof(*new) + bytes);
    if (new == NULL) {
        e->of[i].left_out++;
        return;
    }
    e->of[i].said++;
    e->of[i].left_out = 0;
    new->number = e->next++;
    new->at_ms = t->now_ms;
    new->level = (uint32_t)level;
    new->name = names[i];
    memcpy(new->text, text, bytes);
    for (size_t k = 0; k < count; k++) {
        if (strcmp(kv[k].key, "container") == 0) {
            PSI_IGNORE(
                snprintf(new->container, sizeof(new->container), "%.*s", (int)kv[k].len, kv[k].text)); /* fits: checked name */
        }
    }
    psi_list_push_back(&e->kept, &new->link);
    e->count++;
    while (e->count > t->config.events_max) {
        drop_oldest(e);
    }
    e->news = true;
}

static void add(struct psd_task *t, const struct psd_conn *c, const struct event *event, struct psd_list *l)
{
    const bool told = t->rights == NULL || event->container[0] == '\0' || psd_rights_read_on(t, c, event->container);
    ps_v1_EventAnswer a = ps_v1_EventAnswer_init_zero;
    a.number = event->number;
    a.life = t->life;
    a.age_ms = t->now_ms - event->at_ms;
    a.level = event->level;
    PSI_IGNORE(PSI_BYTES_SET(a.event, event->name)); /* fits: of the table */
    PSI_IGNORE(PSI_BYTES_SET(a.text, told ? event->text : "msg=\"in a container that you may not read\"")); /* fits */
    psd_list_add(l, &ps_v1_EventAnswer_msg, &a);
}

static void answer(struct psd_task *t, struct psd_conn *c, uint64_t id, uint64_t next)
{
    struct psd_list l;
    uint32_t left = PSD_EVENTS_AN_ANSWER;
    psd_list_begin(&l, t, c, PS_OP_EVENTS, PS_FLAG_REPLY, id);
    struct psi_list *it = NULL;
    if (t->events != NULL) {
        PSI_LIST_FOREACH(it, &t->events->kept) {
            const struct event *event = PSI_CONTAINER_OF(it, struct event, link);
            if (event->number >= next && left > 0) {
                left--;
                add(t, c, event, &l);
            }
        }
    }
    psd_list_end(&l);
}

static bool has(const struct psd_task *t, uint64_t next)
{
    const struct psd_events *e = t->events;
    return e != NULL && e->count > 0 && e->next > next;
}

static void answer_waiting(struct psd_task *t, struct psd_conn *c)
{
    psi_list_remove(&c->following);
    answer(t, c, c->following_id, c->following_next);
}

void psd_events_ask(struct psd_task *t, struct psd_conn *c, uint64_t id, const ps_v1_Events *m)
{
    if (psi_list_linked(&c->following)) {
        answer_waiting(t, c);
    }
    /* each psd process (life) numbers its events anew. If m->next is of another life, the answer begins with the oldest event */
    const bool ours = m->life == t->life && t->events != NULL && m->next <= t->events->next;
    const uint64_t next = ours ? m->next : 0;
    if (c->closing || m->wait_ms == 0 || has(t, next)) {
        answer(t, c, id, next);
        return;
    }
    c->following_id = id;
    c->following_next = next;
    c->following_until_ms = t->now_ms + (m->wait_ms < PSD_EVENTS_WAIT_MS_MAX ? m->wait_ms : PSD_EVENTS_WAIT_MS_MAX);
    psi_list_push_back(&t->followers, &c->following);
}

void psd_events_turn(struct psd_task *t)
{
    struct psi_list *it = NULL, *tmp = NULL;
    if (t->events == NULL || !t->events->news) {
        return;
    }
    t->events->news = false;
    PSI_LIST_FOREACH_SAFE(it, tmp, &t->followers) {
        answer_waiting(t, PSI_CONTAINER_OF(it, struct psd_conn, following));
    }
}

void psd_events_tick(struct psd_task *t)
{
    struct psi_list *it = NULL, *tmp = NULL;
    PSI_LIST_FOREACH_SAFE(it, tmp, &t->followers) {
        struct psd_conn *c = PSI_CONTAINER_OF(it, struct psd_conn, following);
        if (t->now_ms >= c->following_until_ms) {
            answer_waiting(t, c);
        }
    }
    while (t->events != NULL && t->events->count > t->config.events_max) {
        drop_oldest(t->events); /* the setting events_max was lowered */
    }
}

void psd_events_free(struct psd_task *t)
{
    while (t->events != NULL && t->events->count > 0) {
        drop_oldest(t->events);
    }
    psi_free(t->events);
}

void psd_events_check_invariants(const struct psd_task *t)
{
    const struct psd_events *e = t->events;
    struct psi_list *it = NULL;
    uint32_t count = 0;
    uint64_t before = 0;
    if (e == NULL) {
        return;
    }
    PSI_LIST_FOREACH(it, &e->kept) {
        const struct event *event = PSI_CONTAINER_OF(it, struct event, link);
        PSI_ASSERT(event->number > before && event->number < e->next);
        before = event->number;
        count++;
    }
    PSI_ASSERT(count == e->count);
}
