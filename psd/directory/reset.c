/* SPDX-License-Identifier: Apache-2.0 */
/* RESET of a container on all tasks, led by the directory. Nothing is created in the container meanwhile.
 *
 * Happy path: every task of the directory's job is connected. The reset becomes pending, and TASK_RESET goes to all connected
 * tasks. When all have answered, the directory forgets the container's names, and answers the client. Failure modes:
 * - A task is missing before the reset begins: UNAVAILABLE, and nothing is done.
 * - A task drops out later: the reset stays pending. When the task is back, it gets TASK_RESET before its list is answered. If
 *   the client's time is over first, DEADLINE_EXCEEDED names the tasks that have not answered.
 * - A task of another job was away for more than a lease: the reset does not wait for it. It gets TASK_RESET when it sends its
 *   list, and the directory ignores what the list has of the container.
 *
 * If tasks have disks, each answers TASK_RESET when its disk has noted the reset (psd/checkpoint/bars.h). The directory's disk
 * notes the reset as open before it begins, and as closed before it ends: a directory that restarts between the two does the
 * reset again. No checkpoint is begun meanwhile.
 * - A newer chief has come before the open note is written: the older chief's reset is taken back.
 * - The open note fails: nothing is reset. If it may be on disk, nothing is created until the disk has noted the opposite.
 * - A disk fails later: the client gets an error, and the disk is tried again each second. */
#include "directory.h"

#include "psd/checkpoint/saver.h"
#include "psd/rounds/groups.h"

#include "common/name.h"

#include <stdio.h>
#include <string.h>

enum { RETRY_MS = 100, AGAIN_MS = 1000 };

static struct psd_reset *find_pending(struct psd_task *t, const char *container)
{
    struct psd_reset *reset = psd_reset_record(&t->resets, container);
    return reset != NULL && reset->pending ? reset : NULL;
}

/* Find the reset of this container that the tasks carry out, or that waits for the directory's disk to note it. NULL: none. */
static const struct psd_reset *find_accepted(struct psd_task *t, const char *container)
{
    const struct psd_reset *reset = find_pending(t, container);
    return reset != NULL || t->saver == NULL ? reset : psd_reset_record(&t->saver->resets, container);
}

bool psd_reset_covers(struct psd_task *t, const struct psd_peer *peer, const char *container)
{
    const struct psd_reset *reset = psd_reset_record(&t->resets, container);
    return reset != NULL && (reset->pending || reset->owed[peer->index]);
}

/* Set what is still to do for task p. outstanding: the reset waits for p's answer. owed: TASK_RESET must still be sent to p. */
static void change_task(struct psd_task *t, const struct psd_peer *p, const struct psd_reset *reset, bool outstanding, bool owed)
{
    if (reset->outstanding[p->index] != outstanding || reset->owed[p->index] != owed) {
        struct psd_change c = {
            .kind = PSD_CHANGE_RESET_TASK,
            .reset = {.container = reset->container, .job = p->job, .task = p->task, .outstanding = outstanding, .owed = owed}};
        psd_commit(t, &c);
    }
}

void psd_reset_encode(const struct psd_task *t, const struct psd_peer *p, const struct psd_order *o, struct psd_list *l)
{
    const struct psd_reset *reset = o->what;
    ps_v1_ContainerItem m = ps_v1_ContainerItem_init_zero;
    (void)t;
    PSI_IGNORE(PSI_BYTES_SET(m.container, reset->container)); /* fits: checked name */
    PSI_IGNORE(PSI_BYTES_SET(m.by, reset->by));               /* fits: both hold 95 bytes */
    m.bar = p->own_job ? reset->bar : 0;
    psd_list_add(l, &ps_v1_ContainerItem_msg, &m);
}

static void send_reset(struct psd_task *t, struct psd_peer *p, const struct psd_reset *reset)
{
    (void)psd_order(t, p, &(struct psd_order){.op = PS_OP_TASK_RESET, .container = reset->container, .what = reset});
}

static bool is_answered(const struct psd_task *t, const struct psd_reset *reset)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (reset->outstanding[i]) {
            return false;
        }
    }
    return true;
}

/* Note why a disk write about the reset has failed, and when to try again. */
static void ask_later(const struct psd_task *t, struct psd_reset *reset, const struct psi_err *err)
{
    reset->again_ms = t->now_ms + AGAIN_MS;
    PSI_IGNORE(snprintf(reset->why, sizeof(reset->why), "%s", err->text)); /* cut is fine */
}

/* Answer the clients that wait for the reset with err, the failure of a disk. The reset itself goes on. */
static void tell_waiters(struct psd_task *t, struct psd_reset *reset, const struct psi_err *err)
{
    struct psd_wait *w = NULL;
    while ((w = psd_wait_first(&reset->waiters)) != NULL) {
        w->err = *err;
        psi_err_prefix(&w->err, "container '%s' is reset, and that is not noted yet", reset->container);
        w->err.applied = PS_MAYBE_PARTLY_APPLIED;
        psd_wait_done(t, w);
    }
}

static void finish(struct psd_task *t, struct psd_reset *reset)
{
    struct psi_list waiters;
    struct psd_change c = {.kind = PSD_CHANGE_RESET_END, .reset = {.container = reset->container}};
    psi_list_init(&waiters);
    reset->why[0] = '\0';
    psi_list_move_all(&waiters, &reset->waiters); /* the commit may free `reset` */
    psd_commit(t, &c);
    psd_wait_over(t, &waiters);
}

static void finish_if_done(struct psd_task *t, struct psd_reset *reset);

static void note_failed(struct psd_task *t, struct psd_reset *reset, const struct psi_err *err)
{
    /* the disk still says that the reset is open, so the record in memory says so again */
    PSI_IGNORE(psd_bars_set(t, reset->container, reset->bar, true, NULL));
    reset->noting = false;
    ask_later(t, reset, err);
    tell_waiters(t, reset, err);
}

static void over_noted(struct psd_task *t, void *ctx, uint64_t id, const struct psi_err *err)
{
    struct psd_reset *reset = ctx;
    (void)id;
    if (err != NULL) {
        note_failed(t, reset, err);
        return;
    }
    reset->noting = false;
    reset->noted = true;
    finish_if_done(t, reset);
}

/* True if the container has more names than one event may remove. Nothing is created in it until the reset is over. */
static bool has_many_names(const struct psd_task *t, const struct psd_reset *reset)
{
    const struct psd_names_in *in = psd_directory_names_in(&t->names, reset->container);
    return in != NULL && in->count > t->config.reset_slice_names;
}

/* Do the next step if all tasks have answered: remove the names, note on the directory's disk that the reset is over, end it. */
static void finish_if_done(struct psd_task *t, struct psd_reset *reset)
{
    struct psi_err err;
    if (!reset->pending || reset->noting || reset->emptying || !is_answered(t, reset)) {
        return;
    }
    reset->forgetting = has_many_names(t, reset);
    t->forgets_names = t->forgets_names || reset->forgetting;
    if (reset->forgetting) {
        return;
    }
    if (reset->bar == 0 || reset->noted) {
        finish(t, reset);
        return;
    }
    ps_status st = psd_bars_set(t, reset->container, reset->bar, false, &err);
    st = st == PS_OK ? psd_bars_wait(t, over_noted, reset, 0, &err) : st;
    reset->noting = st == PS_OK;
    if (st != PS_OK) {
        note_failed(t, reset, &err);
    }
}

static void part_done(struct psd_task *t, const struct psd_peer *peer, const char *container)
{
    const struct psd_reset *reset = psd_reset_record(&t->resets, container);
    if (reset != NULL) {
        change_task(t, peer, reset, false, false);
    }
    struct psd_reset *left =
        psd_reset_record(&t->resets, container); /* change_task() frees the record when all tasks have done their part */
    if (left != NULL) {
        finish_if_done(t, left);
    }
}

void psd_reset_join(struct psd_task *t, struct psd_peer *peer)
{
    struct psi_list *it = NULL, *tmp = NULL;
    PSI_LIST_FOREACH_SAFE(it, tmp, &t->resets.all) {
        struct psd_reset *reset = PSI_CONTAINER_OF(it, struct psd_reset, link);
        bool misses = reset->pending || reset->owed[peer->index];
        change_task(t, peer, reset, reset->pending, reset->owed[peer->index]);
        if (misses && peer->conn != NULL) {
            send_reset(t, peer, reset);
        }
    }
}

static void refused(struct psd_task *t, const struct psd_peer *peer, const char *container, const struct psi_err *err)
{
    struct psd_reset *reset = psd_reset_record(&t->resets, container);
    psd_log(t, PSI_LOG_WARN, "reset_not_noted", PSI_KV("container", container), PSI_KV("peer", peer->conn->text),
            PSI_KV("msg", err->text));
    if (reset != NULL) {
        ask_later(t, reset, err);
        tell_waiters(t, reset, err);
    }
}

void psd_reset_answered(struct psd_task *t, struct psd_peer *peer, struct psd_ask *ask, const struct psd_request *r,
                        const struct psi_err *err)
{
    if (err == NULL) {
        part_done(t, peer, ask->container);
    } else if (r != NULL) {
        refused(t, peer, ask->container, err);
    }
}

static struct psd_reset *at_reset(struct psi_list *link)
{
    return PSI_CONTAINER_OF(link, struct psd_reset, link);
}

bool psd_resets_have_work(const struct psd_task *t)
{
    return t->forgets_names;
}

static void forget_some(struct psd_task *t, const char *container)
{
    for (uint32_t left = t->config.reset_slice_names; left > 0; left--) {
        const struct psd_name *n = psd_names_in_first(psd_directory_names_in(&t->names, container));
        if (n == NULL) {
            return;
        }
        struct psd_change c = {.kind = PSD_CHANGE_NAME_FORGET, .name = {.container = n->container, .name = n->name}};
        psd_commit(t, &c);
    }
}

void psd_resets_work(struct psd_task *t)
{
    struct psi_list *it = NULL;
    t->forgets_names = false;
    PSI_LIST_FOREACH(it, &t->resets.all) {
        struct psd_reset *reset = at_reset(it);
        if (reset->forgetting && !t->forgets_names) {
            forget_some(t, reset->container);
            t->forgets_names = true;  /* another reset may have names to forget */
            finish_if_done(t, reset); /* may free `reset` */
            return;
        }
    }
}

static void note_taken_back(struct psd_task *t, struct psd_reset *made);

void psd_resets_tick(struct psd_task *t)
{
    struct psi_list *it = NULL, *tmp = NULL;
    if (t->saver != NULL) {
        PSI_LIST_FOREACH_SAFE(it, tmp, &t->saver->resets.all) {
            struct psd_reset *made = PSI_CONTAINER_OF(it, struct psd_reset, link);
            if (made->again_ms != 0 && t->now_ms >= made->again_ms) {
                note_taken_back(t, made);
            }
        }
    }
    PSI_LIST_FOREACH_SAFE(it, tmp, &t->resets.all) {
        struct psd_reset *reset = PSI_CONTAINER_OF(it, struct psd_reset, link);
        if (reset->again_ms == 0 || t->now_ms < reset->again_ms) {
            continue;
        }
        reset->again_ms = 0;
        for (uint32_t i = 0; i < t->peer_count; i++) {
            struct psd_peer *p = &t->peers[i];
            if ((reset->outstanding[i] || reset->owed[i]) && psd_peer_hears(p) &&
                psd_order_find(p, PS_OP_TASK_RESET, reset->container, NULL) == NULL) {
                send_reset(t, p, reset);
            }
        }
        finish_if_done(t, reset);
    }
}

static void add_task(const struct psd_task *t, struct psd_names *n, const struct psd_peer *p)
{
    char who[PS_ADDRESS_BYTES_MAX + PSI_TASK_NAME_MAX + 8];
    psd_names_add(n, "%s", psd_peer_text(t, p, who, sizeof(who)));
}

static void add_outstanding(const struct psd_task *t, struct psd_names *n, const struct psd_reset *reset)
{
    for (uint32_t i = 0; i < t->peer_count; i++) {
        if (reset->outstanding[i]) {
            add_task(t, n, &t->peers[i]);
        }
    }
}

/* Write what the reset waits for besides other tasks: this task, which drops content, or its disk. Returns buf. */
static const char *own_part(const struct psd_task *t, const struct psd_reset *reset, char *buf, size_t n)
{
    PSI_IGNORE(snprintf(buf, n, "%s%s", reset->emptying || reset->forgetting ? "" : "the disk of ", t->name)); /* fits */
    return buf;
}

/* Append to n the tasks that the reset waits for; if there are none, this task or its disk. */
static void add_missing(const struct psd_task *t, struct psd_names *n, const struct psd_reset *reset)
{
    char buf[PSI_TASK_NAME_MAX + 16];
    add_outstanding(t, n, reset);
    if (n->used == 0) {
        psd_names_add(n, "%s", own_part(t, reset, buf, sizeof(buf)));
    }
}

static void say_pending(const struct psd_task *t, const struct psd_reset *reset, char *buf, size_t n)
{
    char buffer[PSI_ERR_TEXT_MAX / 2];
    struct psd_names missing = PSD_NAMES_IN(buffer);
    add_missing(t, &missing, reset);
    PSI_IGNORE(snprintf(buf, n, "%s '%s' is being %s: no answer yet from %s%s%s",
                        reset->taken_back ? "a reset of container" : "container", reset->container,
                        reset->taken_back ? "taken back" : "reset", psd_names_text(&missing), reset->why[0] != '\0' ? ": " : "",
                        reset->why)); /* cut is fine */
}

void psd_reset_text(const struct psd_task *t, char *buf, size_t n)
{
    const struct psi_list *lists[] = {&t->resets.all, t->saver == NULL ? &t->resets.all : &t->saver->resets.all};
    struct psi_list *it = NULL;
    buf[0] = '\0';
    for (int i = 0; i < 2; i++) {
        PSI_LIST_FOREACH(it, lists[i]) {
            const struct psd_reset *reset = PSI_CONTAINER_OF(it, struct psd_reset, link);
            if (buf[0] == '\0' && reset->why[0] != '\0') {
                say_pending(t, reset, buf, n);
            }
        }
    }
}

ps_status psd_reset_check(struct psd_task *t, const char *container, struct psi_err *err)
{
    const struct psd_reset *reset = find_accepted(t, container);
    char text[PSI_ERR_TEXT_MAX];
    if (psd_saver_are_read(t, err) != PS_OK) {
        return err->code; /* the disk is not read yet, and may know an unfinished reset of the container */
    }
    if (reset == NULL) {
        return PS_OK;
    }
    say_pending(t, reset, text, sizeof(text));
    return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_RESET_PENDING, "%s", text);
}

/* Check that the tasks that a reset must reach are connected and have sent their lists: all tasks of the directory's job, and
 * other tasks that were lost less than a lease ago. UNAVAILABLE: one is missing. */
static ps_status check_present(const struct psd_task *t, struct psi_err *err)
{
    char buffer[PSI_ERR_TEXT_MAX / 2];
    struct psd_names missing = PSD_NAMES_IN(buffer);
    bool forgets = false; /* true: a missing task is of another job, and the reset can begin after a lease without it */
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        bool fresh_memory = p->heard && t->now_ms - p->missing_since_ms < t->config.lease_ms;
        if (!p->listed && (p->own_job || fresh_memory)) {
            add_task(t, &missing, p);
            forgets = forgets || !p->own_job;
        }
    }
    if (missing.used > 0) {
        char hint[96] = "";
        if (forgets) {
            PSI_IGNORE(
                snprintf(hint, sizeof(hint), "; a task of another job that has ended is missed for %u ms", t->config.lease_ms));
        }
        return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_NOT_CONNECTED, "reset refused: not connected to the directory: %s%s",
                           psd_names_text(&missing), hint);
    }
    return PS_OK;
}

static void describe_reset(const struct psd_task *t, const struct psd_wait *w, struct psd_wait_text *out)
{
    char of_here[PSD_NAMES_HALF], of_away[PSD_NAMES_HALF], own[PSI_TASK_NAME_MAX + 16];
    struct psd_names here = PSD_NAMES_IN(of_here), away = PSD_NAMES_IN(of_away);
    const struct psd_reset *reset = PSI_CONTAINER_OF(w->needs[0].of, struct psd_reset, waiters);
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        if (reset->outstanding[i]) {
            psd_names_add(p->listed ? &here : &away, "/job:%s/task:%u", p->job, p->task);
        }
    }
    if (here.used == 0 && away.used == 0) {
        psd_names_add(&here, "%s", own_part(t, reset, own, sizeof(own)));
    }
    const char *waits = psd_names_text(&here), *lost = psd_names_text(&away);
    PSI_IGNORE(snprintf(out->what, sizeof(out->what), "empty: %s", reset->container)); /* fits */
    PSI_IGNORE(snprintf(out->release, sizeof(out->release), "%s%s%s%s%s", waits, waits[0] != '\0' ? " answers" : "",
                        waits[0] != '\0' && lost[0] != '\0' ? "; " : "", lost,
                        lost[0] != '\0' ? " connects and answers" : "")); /* cut is fine */
}

/* Called when the client's timeout is over: the answer names the tasks that have not answered. The reset goes on. */
static void expire_reset(struct psd_task *t, struct psd_wait *w)
{
    const struct psd_reset *reset = PSI_CONTAINER_OF(w->needs[0].of, struct psd_reset, waiters);
    char buffer[PSI_ERR_TEXT_MAX / 2];
    struct psd_names missing = PSD_NAMES_IN(buffer);
    /* w->err says why the reset was taken back. A later directory process might still carry it out */
    if (reset->taken_back) {
        w->err.applied = PS_OUTCOME_UNKNOWN;
        return;
    }
    add_missing(t, &missing, reset);
    PSI_IGNORE(psi_fail_as(&w->err, PS_DEADLINE_EXCEEDED, PS_REASON_RESET_PENDING,
                           "reset of container '%s' goes on: no answer yet from %s", reset->container,
                           psd_names_text(&missing))); /* the caller answers with err */
    w->err.applied = PS_MAYBE_PARTLY_APPLIED;
}

static const struct psd_wait_kind of_reset = {.describe = describe_reset, .expire = expire_reset};

/* Check that a further reset of the container can be recorded. UNAVAILABLE: a reset goes on, or a task that is connected but has
 * not done an earlier one must do that first. RESOURCE_EXHAUSTED: PSD_RESETS_MAX resets are recorded. */
static ps_status check_record(const struct psd_task *t, const char *container, struct psi_err *err)
{
    const struct psd_reset *reset = psd_reset_record(&t->resets, container);
    bool begins = t->saver != NULL && psd_reset_record(&t->saver->resets, container) != NULL;
    struct psi_list *it = NULL;
    uint32_t kept = 0;
    for (uint32_t i = 0; (reset != NULL || begins) && i < t->peer_count; i++) {
        const struct psd_conn *conn = t->peers[i].conn;
        if (begins || reset->pending || (reset->owed[i] && conn != NULL && conn->list != PSD_LIST_NONE)) {
            const char *why = begins ? psd_reset_record(&t->saver->resets, container)->why : reset->why;
            return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_RESET_PENDING, "another reset of container '%s' is pending%s%s",
                               container, why[0] != '\0' ? ": " : "", why);
        }
    }
    PSI_LIST_FOREACH(it, &t->resets.all) {
        kept++;
    }
    if (t->saver != NULL) {
        PSI_LIST_FOREACH(it, &t->saver->resets.all) {
            kept++;
        }
    }
    if (reset == NULL && kept >= PSD_RESETS_MAX) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED,
                        "reset of container '%s': there are %u resets that tasks still miss, the most that the directory keeps: "
                        "start the tasks that are "
                        "down, psctl status names them",
                        container, kept);
    }
    return PS_OK;
}

/* If a chief asks for the reset: read and note its number. ABORTED: there is a newer chief, whose values must not be reset. */
static ps_status check_as_chief(struct psd_task *t, const struct psd_conn *c, const struct psd_request *r, const char *container,
                                uint64_t *out_number, struct psi_err *err)
{
    ps_v1_Wait m;
    ps_status st = psi_msg_decode(&ps_v1_Wait_msg, &m, r->meta, r->header.meta_bytes, err);
    if (st == PS_OK && m.chief_number != 0) {
        st = psd_chief_check(t, container, m.chief_number, err);
    }
    *out_number = m.chief_number;
    return st == PS_OK ? psd_chief_follow(t, container, m.chief_number, c->text, err) : st;
}

static void emptied(struct psd_task *t, const char *container, uint64_t id, uint64_t bar)
{
    struct psd_reset *reset = find_pending(t, container);
    (void)id;
    (void)bar;
    reset->emptying = false;
    finish_if_done(t, reset);
}

/* Send TASK_RESET to the tasks, and empty the container here. `made` belongs to t->resets from now on, or is freed. */
static void carry_out(struct psd_task *t, struct psd_reset *made)
{
    struct psd_reset *owed = psd_reset_record(&t->resets, made->container);
    char container[PS_CONTAINER_BYTES_MAX + 1];
    struct psd_change c = {.kind = PSD_CHANGE_RESET, .reset = {.container = container, .reserved = owed == NULL ? made : NULL}};
    memcpy(container, made->container, sizeof(container));
    /* true: a session's container, whose reset does not wait for tasks that are away (own.c) */
    bool own = psi_container_is_session(container);
    psd_commit(t, &c);
    struct psd_reset *reset = find_pending(t, container);
    if (owed != NULL) {
        struct psd_wait *w = psd_wait_first(&made->waiters);
        if (w != NULL) {
            psi_list_remove(&w->needs[0].at);
            psd_wait_hang(w, &w->needs[0], &reset->waiters);
        }
        reset->bar = made->bar;
        memcpy(reset->by, made->by, sizeof(reset->by));
        reset->noting = reset->noted = false;
        reset->again_ms = 0;
        reset->why[0] = '\0';
        psd_reset_free(made);
    }
    for (uint32_t i = 0; i < t->peer_count; i++) {
        struct psd_peer *p = &t->peers[i];
        bool lists = p->conn != NULL && p->conn->list != PSD_LIST_NONE;
        bool waits = !p->self && (p->listed || (own ? lists : p->own_job));
        change_task(t, p, reset, waits, !own && (reset->owed[i] || (!p->self && !waits)));
        if (psd_peer_hears(p) || (waits && lists)) {
            send_reset(t, p, reset);
        }
    }
    psd_groups_reset(t, container);
    if (psd_container_find(&t->store, container) != NULL) {
        psd_reset_log(t, container, reset->by[0] != '\0' ? reset->by : t->name);
    }
    reset->emptying = true;
    psd_emptying_begin(t, container, emptied, 0, 0);
}

static void taken_back(struct psd_task *t, void *ctx, uint64_t id, const struct psi_err *err)
{
    struct psd_reset *made = ctx;
    (void)id;
    made->noting = false;
    if (err != NULL) {
        ask_later(t, made, err);
        return;
    }
    psd_resets_remove(made);
    struct psd_wait *w = psd_wait_first(&made->waiters);
    if (w != NULL) {
        psd_wait_done(t, w); /* w->err says why */
    }
    psd_reset_free(made);
}

/* Write to this task's disk that the reset is cancelled, so no later process carries it out; psd_resets_tick() tries again. */
static void note_taken_back(struct psd_task *t, struct psd_reset *made)
{
    struct psi_err err;
    made->again_ms = 0;
    if (!psd_bars_pending(t)) { /* a later write has put the cancelled reset on disk already */
        taken_back(t, made, 0, NULL);
        return;
    }
    made->noting = psd_bars_wait(t, taken_back, made, 0, &err) == PS_OK;
    if (!made->noting) {
        ask_later(t, made, &err);
    }
}

/* Called when this task's disk has noted that the reset has begun (err NULL), or has failed. Carries the reset out if err is NULL
 * and no newer chief has come, otherwise takes it back. */
static void open_noted(struct psd_task *t, void *ctx, uint64_t id, const struct psi_err *err)
{
    struct psd_reset *made = ctx;
    struct psi_err why, none;
    (void)id;
    made->noting = false;
    if (err != NULL) {
        PSI_IGNORE(psi_fail(&why, err->code, "reset of container '%s' refused: %s", made->container,
                            err->text)); /* the waiting clients get `why` as their answer */
        /* unless NOTHING_APPLIED, the note may be on disk, and the next process would carry the reset out */
        why.applied = err->applied;
    } else if (made->chief_number == 0 || psd_chief_check(t, made->container, made->chief_number, &why) == PS_OK) {
        psd_resets_remove(made);
        carry_out(t, made);
        return;
    }
    psd_log(t, PSI_LOG_WARN, "reset_taken_back", PSI_KV("container", made->container), PSI_KV("msg", why.text));
    ps_status st = psd_bars_set(t, made->container, made->bar_before, false, &none);
    PSI_ASSERT(st == PS_OK); /* cannot fail: the entry exists, so no memory is needed */
    struct psd_wait *w = psd_wait_first(&made->waiters);
    if (w != NULL) {
        w->err = why;
        if (err != NULL) {
            psd_wait_done(t, w);
        }
    }
    if (err != NULL && err->applied == PS_NOTHING_APPLIED) {
        psd_reset_free(made); /* nothing to cancel: the reset is not on the disk */
        return;
    }
    if (err != NULL) {
        ask_later(t, made, err);
    }
    made->taken_back = true;
    note_taken_back(t, made);
}

static ps_status note_open(struct psd_task *t, struct psd_reset *made, struct psi_err *err)
{
    const struct psd_bar *before = psd_bars_find(t, made->container);
    made->bar_before = before == NULL ? 0 : before->number;
    ps_status st = psd_bars_set(t, made->container, made->bar, true, err);
    if (st != PS_OK) {
        return st;
    }
    st = psd_bars_wait(t, open_noted, made, 0, err);
    if (st != PS_OK) {
        struct psi_err none;
        PSI_IGNORE(psd_bars_set(t, made->container, made->bar_before, false, &none)); /* cannot fail: the bar exists */
        return st;
    }
    made->noting = true;
    psd_resets_add(&t->saver->resets, made);
    return PS_OK;
}

static struct psd_reset *make(struct psd_task *t, const char *container, struct psi_err *err)
{
    struct psd_reset *made = psd_reset_new(t->peer_count);
    if (made == NULL) {
        PSI_IGNORE(
            psi_fail(err, PS_RESOURCE_EXHAUSTED, "reset of container '%s': memory", container)); /* NULL tells the caller */
        return NULL;
    }
    memcpy(made->container, container, strlen(container) + 1);
    return made;
}

/* Continue the reset that the disk notes as unfinished in `bar`: an earlier process of this task began it. False: no memory. */
static bool begin_again(struct psd_task *t, const struct psd_bar *bar)
{
    struct psi_err err;
    struct psd_reset *made = make(t, bar->container, &err);
    if (made == NULL) {
        return false;
    }
    made->bar = bar->number;
    psd_log(t, PSI_LOG_WARN, "reset_again", PSI_KV("container", made->container));
    carry_out(t, made);
    return true;
}

void psd_resets_turn(struct psd_task *t)
{
    const struct psd_bar *bar = NULL;
    if (t->saver == NULL || t->saver->disk != PSD_SAVER_DISK_READ) {
        return;
    }
    while ((bar = psd_bars_next_open(t, bar)) != NULL) {
        if (psd_reset_record(&t->resets, bar->container) == NULL) {
            if (!begin_again(t, bar)) {
                return; /* no memory: a later event goes on; until then nothing is reset or created */
            }
            bar = NULL; /* search from the first bar again, because the list may have changed */
        }
    }
    t->saver->disk = PSD_SAVER_DISK_RESUMED;
}

void psd_reset_own(struct psd_task *t, const char *container)
{
    struct psi_err err;
    struct psd_reset *made = check_record(t, container, &err) == PS_OK ? make(t, container, &err) : NULL;
    if (made != NULL) {
        PSI_IGNORE(snprintf(made->by, sizeof(made->by), "the end of its session")); /* fits */
        carry_out(t, made);
    }
}

void psd_resets_lost(struct psd_task *t, struct psd_peer *peer)
{
    struct psi_list *it = NULL, *tmp = NULL;
    PSI_LIST_FOREACH_SAFE(it, tmp, &t->resets.all) {
        const struct psd_reset *reset = at_reset(it);
        if (reset->outstanding[peer->index] && psi_container_is_session(reset->container)) {
            part_done(t, peer, reset->container);
        }
    }
}

static ps_status begin_reset(struct psd_task *t, struct psd_wait *w, const char *container, uint64_t chief_number,
                             struct psi_err *err)
{
    ps_status st = psd_saver_are_read(t, err);
    bool own = psi_container_is_session(container);
    st = st == PS_OK && !own ? check_present(t, err) : st;
    st = st == PS_OK ? psd_peers_begun(t, err) : st;
    st = st == PS_OK ? check_record(t, container, err) : st;
    struct psd_need *need = st == PS_OK ? psd_wait_need(t, w, err) : NULL;
    struct psd_reset *made = need != NULL ? make(t, container, err) : NULL;
    if (made == NULL) {
        return st == PS_OK ? PS_RESOURCE_EXHAUSTED : st;
    }
    /* a session's container is in no checkpoint, so it needs no bar */
    if (!own) {
        psd_saver_reset(t, container);
        made->bar = psd_saver_highest(t);
    }
    made->chief_number = chief_number;
    PSI_IGNORE(psd_record_text(w->record, made->by, sizeof(made->by)));
    psd_wait_hang(w, need, &made->waiters);
    if (made->bar == 0) {
        carry_out(t, made);
        return PS_OK;
    }
    st = note_open(t, made, err);
    if (st != PS_OK) {
        psi_list_remove(&need->at);
        psd_reset_free(made);
    }
    return st;
}

void psd_rpc_reset(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    bool old = false;
    struct psd_wait *w = psd_wait_get(t, c, r, &of_reset, &old);
    if (w == NULL || old) {
        return;
    }
    ps_v1_ContainerItem item;
    char container[PS_CONTAINER_BYTES_MAX + 1];
    bool none = false;
    uint64_t chief_number = 0;
    struct psi_err err;
    ps_status st = psd_wait_meta(t, w, r, &err);
    if (st == PS_OK) {
        st = psd_item_only(r, &ps_v1_ContainerItem_msg, &item, "container", &none, &err);
    }
    if (st == PS_OK) {
        item.container.size = none ? 0 : item.container.size;
        st = psd_container_parse((const pb_bytes_array_t *)(const void *)&item.container, container, &err);
    }
    if (st == PS_OK) {
        st = check_as_chief(t, c, r, container, &chief_number, &err);
    }
    if (st == PS_OK) {
        st = begin_reset(t, w, container, chief_number, &err);
    }
    if (st != PS_OK) {
        psd_wait_refused(t, w, &err, st == PS_UNAVAILABLE ? RETRY_MS : 0);
    } else {
        psd_wait_open(t, w);
    }
}
