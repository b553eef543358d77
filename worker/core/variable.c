/* SPDX-License-Identifier: Apache-2.0 */
/* Variables as this session knows them: get-or-create, OPEN at the owner, OPEN again after a restart of the owner, loss.
 *
 * Happy path: GET chooses the task (define.c); CREATE goes to the directory, in one frame with other names that wait; the answer
 * names the owner; OPEN at the owner gives handle and state. Failure: if directory or owner is not ready, the session tries again
 * while a request waits. If the owner was restarted and does not have the name, CREATE is sent again.
 *
 * When OPEN is sent again after a restart of the owner, the variable has another incarnation and creation number, even if its
 * value comes from a checkpoint. So on_reopen() ends the variable's mutations (psi_window_lose()), and psi_var_lost() decides: a
 * variable that this session has used, or that must exist (LOOKUP), is lost for good; another variable is got again when a
 * request needs it. Used: a mutation, a read or a READY of the variable has ended with PS_OK; a queue: it was opened. */
#include "client.h"

#include "common/mem.h"
#include "common/optimizer.h"
#include "common/shape.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define VAR_RETRY_MS 50u
#define VAR_RETRY_MAX_MS 1000u
#define BATCH_ITEMS_MAX 4096u
#define CREATE_ITEM_BYTES_MAX 700u /* room for names of full length, and for every number of the optimizer */

#define TO(step) (1u << PSI_VAR_##step)
static const uint8_t WAYS[PSI_VAR_STEPS] = {
    [PSI_VAR_NEW] = TO(CREATE),
    [PSI_VAR_CREATE] = TO(CREATING) | TO(NEW), /* to NEW: no task could be chosen */
    [PSI_VAR_CREATING] = TO(OPEN) | TO(DELAYED) | TO(NEW),
    [PSI_VAR_OPEN] = TO(OPENING),
    [PSI_VAR_OPENING] = TO(NEW) | TO(DELAYED),
    [PSI_VAR_DELAYED] = TO(CREATE) | TO(NEW),
};

void psi_var_move(struct psi_var *var, enum psi_var_step step, struct psi_list *list)
{
    PSI_ASSERT((WAYS[var->step] >> step & 1u) != 0);
    psi_list_remove(&var->step_link);
    var->step = (uint8_t)step;
    if (list != NULL) {
        psi_list_push_back(list, &var->step_link);
    }
}

void psi_var_want(struct psi_client *c, struct psi_var *var)
{
    if (var->step == PSI_VAR_NEW && !var->open && !var->lost) {
        var->tries = 0;
        var->held_by = UINT32_MAX;
        psi_var_move(var, PSI_VAR_CREATE, &c->want_create);
        psi_peer_want(psi_client_directory(c));
    }
}

/* Getting or creating the variable has failed: end all requests that wait for it. */
static void give_up(struct psi_var *var, ps_status st, ps_reason reason, const struct psi_peer *at, const char *text)
{
    char where[PSI_WHERE_MAX];
    psi_var_move(var, PSI_VAR_NEW, NULL);
    bool again = true;
    while (again) {
        struct psi_list *link = psi_list_first(&var->getters);
        link = link != NULL ? link : psi_list_first(&var->waiting);
        again = link != NULL;
        if (again) {
            struct psi_request *req = PSI_CONTAINER_OF(link, struct psi_request, link);
            psi_request_end_as(req, st, reason, psi_request_applied(req), "%s of '%s'%s%s: %s", psi_request_name(req), var->name,
                               at != NULL ? " at " : "", at != NULL ? psi_peer_where(at, where, sizeof(where)) : "", text);
        }
    }
}

ps_status psi_var_check_get(const struct psi_request *req, struct psi_err *err)
{
    bool fits = req->var != NULL && req->var->must_exist == (req->kind == PSI_REQ_LOOKUP);
    return fits ? PS_OK : psi_fail(err, PS_INVALID_ARGUMENT, "a get without a variable, or a find of one that need not exist");
}

void psi_var_get(struct psi_request *req)
{
    struct psi_var *var = req->var;
    if (var->open) {
        psi_request_end(req, PS_OK, PS_NOTHING_APPLIED, NULL);
        return;
    }
    if (var->lost) {
        psi_request_end_as(req, PS_ABORTED, PS_REASON_LOST, PS_NOTHING_APPLIED,
                           "variable '%s' is gone for this session: it was reset or deleted, or its task was restarted",
                           var->name);
        return;
    }
    if (!psi_list_empty(&var->getters)) { /* if an earlier request has a reason for its wait, req gets a copy */
        const struct psi_request *first = PSI_CONTAINER_OF(psi_list_first(&var->getters), struct psi_request, link);
        if (first->why != NULL) {
            psi_request_refused(req, first->why->code, first->why->reason, first->why->text);
        }
    }
    psi_request_move(req, PSI_STAGE_GETTING);
    psi_var_want(req->owner, var);
}

/* Note why requests wait for var, for the error at their deadline: task `at` refused (st, text), or did not answer (PS_OK). */
static void hold(struct psi_client *c, struct psi_var *var, uint32_t at, ps_status st, ps_reason reason, const char *text)
{
    var->held_by = at != c->directory ? at : UINT32_MAX;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &var->getters) {
        psi_request_refused(PSI_CONTAINER_OF(it, struct psi_request, link), st, reason, text);
    }
}

static void put_off(struct psi_client *c, struct psi_var *var, uint32_t retry_ms)
{
    uint32_t wait = VAR_RETRY_MS << (var->tries < 5 ? var->tries : 5);
    wait = wait > VAR_RETRY_MAX_MS ? VAR_RETRY_MAX_MS : wait;
    wait = retry_ms > wait ? retry_ms : wait;
    wait = wait > 10000 ? 10000 : wait;
    if (retry_ms > 0 && retry_ms < VAR_RETRY_MS) { /* no back-off: the task itself limits the rate */
        wait = retry_ms;
        var->tries = 0;
    } else {
        var->tries++;
    }
    var->again_ms = c->now_ms + wait;
    psi_var_move(var, PSI_VAR_DELAYED, &c->vars_delayed);
}

void psi_var_tick(struct psi_client *c)
{
    struct psi_list *it = NULL;
    struct psi_list *tmp = NULL;
    PSI_LIST_FOREACH_SAFE(it, tmp, &c->vars_delayed) {
        struct psi_var *var = PSI_CONTAINER_OF(it, struct psi_var, step_link);
        if (var->again_ms > c->now_ms) {
            continue;
        }
        if (psi_list_empty(&var->getters) && psi_list_empty(&var->waiting)) {
            psi_var_move(var, PSI_VAR_NEW, NULL);
        } else {
            psi_var_move(var, PSI_VAR_CREATE, &c->want_create);
        }
    }
}

static bool may_repeat(ps_status st)
{
    return st == PS_UNAVAILABLE || st == PS_RESOURCE_EXHAUSTED;
}

static void create_failed(struct psi_client *c, struct psi_var *var, const struct psi_peer *at, ps_status st, ps_reason reason,
                          const char *text, uint32_t retry_ms)
{
    if (may_repeat(st) && at->state != PSI_PEER_REFUSED) {
        hold(c, var, at->index, st, reason, text);
        put_off(c, var, retry_ms);
    } else {
        give_up(var, st, reason, at, text);
    }
}

static void create_answered(struct psi_client *c, struct psi_peer *peer, struct psi_var *var, const ps_v1_CreateAnswer *a)
{
    char text[PSI_ERR_TEXT_MAX];
    char job[PS_JOB_BYTES_MAX + 1];
    if (PSI_BYTES_TEXT(a->text, text, sizeof(text)) != PS_OK) {
        snprintf(text, sizeof(text), "(unreadable text)");
    }
    if (a->status > PS_UNAUTHENTICATED) {
        give_up(var, PS_INTERNAL, PS_REASON_NONE, peer, "an answer with an unknown status");
        return;
    }
    uint32_t owner = PSI_BYTES_TEXT(a->job, job, sizeof(job)) == PS_OK ? psi_client_find_task(c, job, a->task) : UINT32_MAX;
    /* try again: the owner has not answered the directory in time */
    if (a->status == PS_DEADLINE_EXCEEDED && owner != UINT32_MAX) {
        hold(c, var, owner, PS_OK, PS_REASON_NONE, "");
        put_off(c, var, 0);
        return;
    }
    if (a->status != PS_OK) {
        create_failed(c, var, peer, (ps_status)a->status, (ps_reason)a->reason, text, a->retry_after_ms);
        return;
    }
    if (owner == UINT32_MAX) {
        give_up(var, PS_INTERNAL, PS_REASON_NONE, peer, "it names an owner that is not in this session's cluster");
        return;
    }
    var->owner = owner;
    var->created = a->created;
    hold(c, var, owner, PS_OK, PS_REASON_NONE, "");
    psi_var_move(var, PSI_VAR_OPEN, &c->peers[owner]->want_open);
    psi_peer_want(c->peers[owner]);
}

static void on_create(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    const uint8_t *p = r->body;
    size_t n = r->body_bytes;
    ps_v1_CreateAnswer a;
    bool end = r->status != PS_OK;
    while (!end && psi_list_next(&p, &n, &ps_v1_CreateAnswer_msg, &a, &end, NULL) == PS_OK && !end) {
        struct psi_var *var = a.index >= 1 && a.index <= ask->var_count ? ask->vars[a.index - 1] : NULL;
        if (var != NULL) {
            ask->vars[a.index - 1] = NULL;
            create_answered(c, ask->peer, var, &a);
        }
    }
    if (r->more && r->status == PS_OK) {
        return;
    }
    c->create_asks--;
    for (uint32_t i = 0; i < ask->var_count; i++) {
        if (ask->vars[i] != NULL) {
            ps_status st = r->status != PS_OK ? r->status : PS_UNAVAILABLE;
            create_failed(c, ask->vars[i], ask->peer, st, r->reason, r->status != PS_OK ? r->text : "the answer lacks it",
                          r->retry_after_ms);
        }
    }
    /* send the OPENs only now that the whole answer is read, so that an OPEN names many variables of its owner */
    for (uint32_t i = 0; i < c->peer_count; i++) {
        if (!psi_list_empty(&c->peers[i]->want_open)) {
            psi_client_kick(c->peers[i]);
        }
    }
}

static ps_status append_create(struct psi_client *c, struct psi_ask *ask, const struct psi_var *var)
{
    if (var->must_exist) {
        ps_v1_NameItem m = ps_v1_NameItem_init_zero;
        PSI_BYTES_SET(m.container, var->container);
        PSI_BYTES_SET(m.name, var->name);
        PSI_GIVE_VAR_KEY(c, var, &m);
        return psi_list_append(&ask->body, &ps_v1_NameItem_msg, &m, NULL);
    }
    const struct psi_peer *at = c->peers[var->requested_task];
    ps_v1_CreateItem m = ps_v1_CreateItem_init_zero;
    PSI_BYTES_SET(m.container, var->container);
    PSI_BYTES_SET(m.name, var->name);
    PSI_GIVE_VAR_KEY(c, var, &m);
    if (var->queue != NULL) {
        m.has_queue = true;
        psi_queue_spec_to_msg(&var->queue->spec, &m.queue);
    } else {
        m.dtype = (uint32_t)var->dtype;
        m.dims_count = (pb_size_t)var->shape.rank;
        memcpy(m.dims, var->shape.dims, var->shape.rank * sizeof(m.dims[0]));
        m.has_optimizer = true;
        psi_optimizer_to_msg(&var->optimizer, &m.optimizer);
        m.has_part = var->part.count > 0;
        psi_part_to_msg(&var->part, &m.part);
    }
    PSI_BYTES_SET(m.job, at->job);
    m.task = at->task;
    m.pinned = var->pinned;
    m.atomic = var->atomic;
    return psi_list_append(&ask->body, &ps_v1_CreateItem_msg, &m, NULL);
}

static uint64_t deadline_of(struct psi_var *var)
{
    struct psi_list *lists[] = {&var->getters, &var->waiting};
    uint64_t earliest = UINT64_MAX;
    for (int i = 0; i < 2; i++) {
        struct psi_list *it = NULL;
        PSI_LIST_FOREACH(it, lists[i]) {
            uint64_t at = PSI_CONTAINER_OF(it, struct psi_request, link)->deadline_ms;
            earliest = at < earliest ? at : earliest;
        }
    }
    return earliest;
}

/* Write a timeout into the ask: the directory then answers before the deadline, and names the task that it waits for. */
static void give_time(struct psi_client *c, struct psi_ask *ask, uint64_t deadline_ms)
{
    ps_v1_Wait m = {.timeout_ms = deadline_ms == UINT64_MAX ? 0 : psi_time_to_give(c, deadline_ms)};
    ps_status st = psi_ask_meta(ask, &ps_v1_Wait_msg, &m, NULL);
    PSI_ASSERT(st == PS_OK); /* cannot fail: the message is one number */
}

/* Find part 0 of the variable of which var is a part. Each part has a psi_var; a variable's parts follow each other in
 * c->variables, by index. NULL: some are missing. */
static struct psi_var *first_part(const struct psi_client *c, struct psi_var *var)
{
    struct psi_list *it = &var->link;
    for (uint32_t i = 0; i < var->part.index && it != &c->variables; i++) {
        it = it->prev;
    }
    struct psi_var *first = it != &c->variables ? PSI_CONTAINER_OF(it, struct psi_var, link) : NULL;
    for (uint32_t i = 0; i < var->part.count; i++, it = it->next) {
        const struct psi_var *part = it != &c->variables ? PSI_CONTAINER_OF(it, struct psi_var, link) : NULL;
        if (part == NULL || part->part.index != i || part->part.count != var->part.count ||
            strcmp(part->container, var->container) != 0) {
            return NULL;
        }
    }
    return first;
}

/* Choose var's task. If var is a part of a variable, choose the tasks of all its parts: one CREATE names them all. */
static ps_status place_one(struct psi_client *c, struct psi_var *var, struct psi_err *err)
{
    const uint32_t count = var->part.count > 0 ? var->part.count : 1;
    struct psi_var *it = var->part.count > 0 ? first_part(c, var) : var;
    if (it == NULL) {
        return psi_fail(err, PS_INTERNAL, "its other parts are not there");
    }
    for (uint32_t i = 0; i < count; i++) {
        const ps_status st = it->placed ? PS_OK : psi_var_choose_task(c, it, err);
        if (st != PS_OK) {
            return st;
        }
        psi_peer_want(c->peers[it->requested_task]); /* connect to the future owner while the directory handles CREATE */
        it = i + 1 < count ? PSI_CONTAINER_OF(it->link.next, struct psi_var, link) : it;
    }
    return PS_OK;
}

static void place_all(struct psi_client *c)
{
    struct psi_list *it = NULL;
    struct psi_list *tmp = NULL;
    PSI_LIST_FOREACH_SAFE(it, tmp, &c->want_create) {
        struct psi_var *var = PSI_CONTAINER_OF(it, struct psi_var, step_link);
        struct psi_err err = {0};
        if (var->must_exist || var->placed) {
            continue;
        }
        ps_status st = place_one(c, var, &err);
        if (st != PS_OK) {
            give_up(var, st, err.reason, NULL, err.text);
        }
    }
}

/* Feature that a directory must have to create or find this variable; 0: every release can. */
static uint64_t needed_feature(const struct psi_var *var)
{
    return psi_container_is_session(var->container) ? PS_FEATURE_SESSION_CONTAINERS : var->part.count > 0 ? PS_FEATURE_PARTS : 0;
}

/* True if the request for the variable waits for the directory's HELLO, because only then it is known whether the directory has
 * the feature that the variable needs. */
static bool awaits_features(struct psi_client *c, const struct psi_var *var)
{
    return needed_feature(var) != 0 && psi_client_directory(c)->life == 0 && psi_client_directory(c)->state != PSI_PEER_REFUSED;
}

static void refuse_unknown_features(struct psi_client *c)
{
    struct psi_list *it = NULL, *tmp = NULL;
    PSI_LIST_FOREACH_SAFE(it, tmp, &c->want_create) {
        struct psi_var *var = PSI_CONTAINER_OF(it, struct psi_var, step_link);
        const uint64_t feature = needed_feature(var);
        struct psi_peer *directory = psi_client_directory(c);
        if (feature == 0) {
            continue;
        }
        if (directory->life != 0 && (directory->features & feature) == 0) {
            give_up(
                var, PS_UNIMPLEMENTED, PS_REASON_FEATURE, directory,
                feature == PS_FEATURE_PARTS
                    ? "the task is of a release without partitioned variables; upgrade the ps tasks"
                    : "the task is of a release without containers of sessions, which plans keep their values in; upgrade the "
                      "ps tasks");
        } else if (awaits_features(c, var)) {
            psi_peer_want(directory);
        }
    }
}

_Static_assert(PSI_PARTS_MAX *CREATE_ITEM_BYTES_MAX <= PSI_BATCH_BYTES_MAX, "a list has room for the parts of a variable");

static bool parts_fit(const struct psi_ask *ask, const struct psi_var *var)
{
    return ask->var_count + var->part.count <= BATCH_ITEMS_MAX &&
           ask->body.len + (size_t)var->part.count * CREATE_ITEM_BYTES_MAX <= PSI_BATCH_BYTES_MAX;
}

/* Append all parts of the variable of which var is a part to a CREATE, also open parts, because the list says which task has
 * which part. Parts that wait take the answer; *earliest is lowered to their first deadline. Error: nothing is appended. */
static ps_status append_parts(struct psi_client *c, struct psi_ask *ask, struct psi_var *var, uint64_t *earliest)
{
    struct psi_var *part = first_part(c, var);
    const size_t begun = ask->body.len;
    ps_status st = PS_OK; /* place_one() has found all parts */
    for (uint32_t i = 0; i < var->part.count && st == PS_OK; i++) {
        st = append_create(c, ask, part);
        part = PSI_CONTAINER_OF(part->link.next, struct psi_var, link);
    }
    if (st != PS_OK) {
        ask->body.len = begun;
        return st;
    }
    part = first_part(c, var);
    for (uint32_t i = 0; i < var->part.count; i++) {
        const bool waits = part->step == PSI_VAR_CREATE || part->step == PSI_VAR_DELAYED;
        const uint64_t deadline_ms = waits ? deadline_of(part) : UINT64_MAX;
        ask->vars[ask->var_count++] = waits ? part : NULL;
        if (part->step == PSI_VAR_DELAYED) {
            psi_var_move(part, PSI_VAR_CREATE, &c->want_create);
        }
        if (waits) {
            psi_var_move(part, PSI_VAR_CREATING, NULL);
        }
        *earliest = deadline_ms < *earliest ? deadline_ms : *earliest;
        part = PSI_CONTAINER_OF(part->link.next, struct psi_var, link);
    }
    return PS_OK;
}

void psi_var_pump(struct psi_client *c)
{
    place_all(c);
    refuse_unknown_features(c);
    while (!psi_list_empty(&c->want_create) && c->create_asks < PSI_BATCH_ASKS_MAX) {
        struct psi_list *it = psi_list_first(&c->want_create);
        bool find = PSI_CONTAINER_OF(it, struct psi_var, step_link)->must_exist;
        struct psi_ask *ask =
            psi_ask_new(psi_client_directory(c), find ? PS_OP_FIND : PS_OP_CREATE, NULL, on_create, BATCH_ITEMS_MAX);
        if (ask == NULL) {
            return; /* no memory: the next event tries again */
        }
        uint64_t earliest = UINT64_MAX;
        while ((it = psi_list_first(&c->want_create)) != NULL && ask->var_count < BATCH_ITEMS_MAX) {
            struct psi_var *var = PSI_CONTAINER_OF(it, struct psi_var, step_link);
            uint64_t deadline_ms = deadline_of(var);
            const bool parts = !find && var->part.count > 0;
            if (var->must_exist != find || awaits_features(c, var) || ask->body.len > PSI_BATCH_BYTES_MAX) {
                break;
            }
            if (parts && ask->var_count > 0 && !parts_fit(ask, var)) {
                break; /* one list must have all parts of a variable: parts that do not fit in this one begin the next */
            }
            ps_status st = parts ? append_parts(c, ask, var, &earliest) : append_create(c, ask, var);
            if (st != PS_OK) {
                break;
            }
            if (parts) {
                continue;
            }
            ask->vars[ask->var_count++] = var;
            psi_var_move(var, PSI_VAR_CREATING, NULL);
            earliest = deadline_ms < earliest ? deadline_ms : earliest;
        }
        if (!find) {
            give_time(c, ask, earliest);
        }
        if (ask->var_count == 0) {
            psi_ask_free(ask);
            return;
        }
        c->create_asks++;
        psi_ask_start(ask);
    }
}

uint32_t psi_var_fill(struct psi_ask *ask, struct psi_var *const *vars, uint32_t from, uint32_t count, bool handles,
                      struct psi_err *err)
{
    uint32_t i = from;
    for (; i < count && ask->body.len <= PSI_BATCH_BYTES_MAX; i++) {
        ps_status st = PS_OK;
        if (handles) {
            ps_v1_HandleItem m = {.handle = vars[i]->handle, .creation = vars[i]->creation};
            st = psi_list_append(&ask->body, &ps_v1_HandleItem_msg, &m, err);
        } else {
            ps_v1_NameItem m = ps_v1_NameItem_init_zero;
            PSI_BYTES_SET(m.container, vars[i]->container);
            PSI_BYTES_SET(m.name, vars[i]->name);
            PSI_GIVE_VAR_KEY(ask->peer->c, vars[i], &m);
            st = psi_list_append(&ask->body, &ps_v1_NameItem_msg, &m, err);
        }
        if (st != PS_OK) {
            break;
        }
        ask->vars[ask->var_count++] = vars[i];
    }
    return i;
}

static ps_status check_definition(const struct psi_peer *peer, const struct psi_var *var, ps_dtype dtype, const ps_shape *shape,
                                  const struct psi_part *part, const ps_optimizer *optimizer, bool atomic, struct psi_err *err)
{
    bool same_shape = var->dtype == dtype && psi_shape_equal(&var->shape, shape) && psi_part_equal(&var->part, part);
    bool same_optimizer = psi_optimizer_fits(&var->optimizer, optimizer);
    if (same_shape && same_optimizer && var->atomic == atomic) {
        return PS_OK;
    }
    char ours[PSI_SHAPE_TEXT_MAX];
    char theirs[PSI_SHAPE_TEXT_MAX];
    char part_of[PSI_PART_TEXT_MAX], is_of[PSI_PART_TEXT_MAX];
    char own[PSI_OPTIMIZER_SLOTS_TEXT_MAX], has[PSI_OPTIMIZER_SLOTS_TEXT_MAX];
    ps_reason reason = psi_mismatch(same_shape, same_optimizer);
    return psi_fail_as(
        err, PS_INVALID_ARGUMENT, reason,
        "%s: asked for as %s%s %s%s with optimizer %s, %s has it as %s%s %s%s with optimizer %s" PSI_MISMATCH_REMEDY,
        ps_reason_name(reason), var->atomic ? "atomic " : "", ps_dtype_name(var->dtype),
        psi_shape_format(&var->shape, ours, sizeof(ours)), psi_part_format(&var->part, &var->shape, part_of, sizeof(part_of)),
        psi_optimizer_slots_text(&var->optimizer, own, sizeof(own)), peer->name, atomic ? "atomic " : "", ps_dtype_name(dtype),
        psi_shape_format(shape, theirs, sizeof(theirs)), psi_part_format(part, shape, is_of, sizeof(is_of)),
        psi_optimizer_slots_text(optimizer, has, sizeof(has)));
}

/* Log, once for each pair of rates, that the learning rate in force is not the program's: `psctl set-lr` outlives programs. */
static void note_rate(const struct psi_peer *peer, const struct psi_var *var, double rate)
{
    struct psi_client *c = peer->c;
    const double own = var->optimizer.learning_rate;
    char in_force[32], definition[32], what[PS_CONTAINER_BYTES_MAX + 192];
    if (var->found_only || var->optimizer.kind == PS_OPT_NONE || !isfinite(rate) || rate <= 0 || rate == own) {
        return;
    }
    for (uint32_t i = 0; i < c->rates_told; i++) {
        if (c->told_rate[i].rate == rate && c->told_rate[i].own == own) {
            return;
        }
    }
    if (c->rates_told == PSI_RATES_TOLD_MAX) {
        return;
    }
    c->told_rate[c->rates_told].rate = rate;
    c->told_rate[c->rates_told++].own = own;
    const bool other = strcmp(var->container, PSI_CONTAINER_DEFAULT) != 0;
    (void)snprintf(in_force, sizeof(in_force), "%.15g", rate);
    (void)snprintf(definition, sizeof(definition), "%.15g", own);
    (void)snprintf(
        what, sizeof(what),
        "psctl set-lr has put it in force, here and perhaps at other variables; psctl set-lr --all --clear%s%s brings the "
        "program's own back",
        other ? " --container " : "", other ? var->container : "");
    psi_client_log(c, PSI_LOG_WARN, "rate_overridden", PSI_KV("var", var->name), PSI_KV("task", peer->name),
                   PSI_KV("rate", in_force), PSI_KV("definition", definition), PSI_KV("msg", what));
}

ps_status psi_var_update(struct psi_peer *peer, struct psi_var *var, const ps_v1_OpenAnswer *a, struct psi_err *err)
{
    char text[PSI_ERR_TEXT_MAX];
    if (a->status != PS_OK) {
        ps_status st = a->status <= PS_UNAUTHENTICATED ? (ps_status)a->status : PS_INTERNAL;
        bool readable = PSI_BYTES_TEXT(a->text, text, sizeof(text)) == PS_OK && text[0] != '\0';
        return psi_fail_as(err, st, (ps_reason)a->reason, "%s", readable ? text : ps_status_name(st));
    }
    if (var->queue != NULL || a->has_queue) {
        return psi_queue_update(peer, var, a, err);
    }
    ps_shape shape;
    ps_optimizer optimizer = {0};
    ps_status st = psi_shape_from_dims(a->dims, a->dims_count, &shape, err);
    st = st == PS_OK ? psi_variable_check((ps_dtype)a->dtype, &shape, a->atomic, err) : st;
    struct psi_part part;
    psi_part_from_msg(&a->part, a->has_part, &part);
    st = st == PS_OK ? psi_part_check(&part, (ps_dtype)a->dtype, &shape, var->name, err) : st;
    st = st == PS_OK && a->has_optimizer ? psi_optimizer_from_msg(&a->optimizer, &optimizer, err) : st;
    st = st == PS_OK ? psi_optimizer_check_shape(&optimizer, var->name, (ps_dtype)a->dtype, &shape, &part, err) : st;
    if (st == PS_OK && (a->handle == 0 || a->creation == 0)) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "OPEN's answer has a field out of range");
    }
    if (st != PS_OK) {
        return st;
    }
    if (var->open && (a->incarnation != var->incarnation || a->creation != var->creation)) {
        return psi_fail(err, PS_NOT_FOUND, "another variable of that name is there now, made anew or loaded from a checkpoint");
    }
    if (!var->found_only) {
        st = check_definition(peer, var, (ps_dtype)a->dtype, &shape, &part, &optimizer, a->atomic, err);
        if (st != PS_OK) {
            return st;
        }
    } else if (!var->open) {
        var->dtype = (ps_dtype)a->dtype;
        var->atomic = a->atomic;
        st = psi_var_wire(peer->c, var, var->dtype == PS_F32 ? var->wire_asked : PS_DTYPE_NONE, err);
        if (st != PS_OK) {
            return st;
        }
        var->shape = shape;
        var->part = part;
        var->elements = (uint64_t)ps_shape_elements(&shape);
        var->optimizer = optimizer;
    }
    var->handle = a->handle;
    var->life = peer->life;
    var->incarnation = a->incarnation;
    var->creation = a->creation;
    var->initialised = a->initialised;
    var->sealed = a->sealed;
    var->restored = a->restored;
    var->given = a->giver.size != 0 &&
                 (a->giver.size > sizeof(peer->c->session_id) || memcmp(a->giver.bytes, peer->c->session_id, a->giver.size) != 0);
    var->version = a->version;
    var->chief_number = a->chief_number;
    var->chief_seen = a->container_chief > a->chief_number ? a->container_chief : a->chief_number;
    psi_chief_seen(peer->c, var->chief_seen);
    var->seal_number = a->sealed ? a->seal_number : 0;
    var->provisional = a->provisional;
    var->assigned = a->giver.size != 0;
    var->checkpoint = a->checkpoint;
    var->checkpoint_version = a->checkpoint_version;
    var->in_force = optimizer;
    psi_sync_note(peer->c, var, a->rounds_mode <= PS_SYNC_STALENESS ? (ps_sync_mode)a->rounds_mode : PS_SYNC_NONE);
    note_rate(peer, var, a->rate);
    return PS_OK;
}

static void open_answered(struct psi_client *c, struct psi_peer *peer, struct psi_var *var, const ps_v1_OpenAnswer *a)
{
    struct psi_err err = {0};
    ps_status st = psi_var_update(peer, var, a, &err);
    if (st == PS_NOT_FOUND && var->must_exist) {
        give_up(var, st, PS_REASON_LOST, peer, "the directory knows it, its task has lost it");
    } else if (st == PS_NOT_FOUND || st == PS_ABORTED || may_repeat(st)) {
        hold(c, var, peer->index, PS_UNAVAILABLE, st == PS_NOT_FOUND ? PS_REASON_LOST : err.reason, err.text);
        put_off(c, var, 0); /* CREATE is sent again: the directory makes the variable anew if it is gone */
    } else if (st != PS_OK) {
        give_up(var, st, err.reason, peer, err.text);
    } else {
        var->open = true;
        /* a queue counts as used from its OPEN on: a queue that is made again under its name is another queue */
        var->used = var->used || var->queue != NULL;
        psi_var_move(var, PSI_VAR_NEW, NULL);
        struct psi_list *link = NULL;
        while ((link = psi_list_first(&var->getters)) != NULL) {
            struct psi_request *req = PSI_CONTAINER_OF(link, struct psi_request, link);
            req->version = var->version;
            psi_request_end(req, PS_OK, PS_NOTHING_APPLIED, NULL);
        }
        psi_var_next(var);
    }
}

static void on_open(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    const uint8_t *p = r->body;
    size_t n = r->body_bytes;
    ps_v1_OpenAnswer a;
    bool end = r->status != PS_OK;
    while (!end && psi_list_next(&p, &n, &ps_v1_OpenAnswer_msg, &a, &end, NULL) == PS_OK && !end) {
        struct psi_var *var = a.index >= 1 && a.index <= ask->var_count ? ask->vars[a.index - 1] : NULL;
        if (var != NULL) {
            ask->vars[a.index - 1] = NULL;
            open_answered(c, ask->peer, var, &a);
        }
    }
    if (r->more && r->status == PS_OK) {
        return;
    }
    ask->peer->open_asks--;
    for (uint32_t i = 0; i < ask->var_count; i++) {
        if (ask->vars[i] != NULL) {
            ps_status st = r->status != PS_OK ? r->status : PS_UNAVAILABLE;
            create_failed(c, ask->vars[i], ask->peer, st, r->reason, r->status != PS_OK ? r->text : "the answer lacks it",
                          r->retry_after_ms);
        }
    }
    psi_client_kick(ask->peer);
}

void psi_var_open_pump(struct psi_peer *peer)
{
    while (!psi_list_empty(&peer->want_open) && peer->open_asks < PSI_BATCH_ASKS_MAX) {
        struct psi_ask *ask = psi_ask_new(peer, PS_OP_OPEN, NULL, on_open, BATCH_ITEMS_MAX);
        if (ask == NULL) {
            return; /* no memory: the next event of the peer tries again */
        }
        struct psi_list *it = NULL;
        while ((it = psi_list_first(&peer->want_open)) != NULL && ask->var_count < BATCH_ITEMS_MAX) {
            struct psi_var *var = PSI_CONTAINER_OF(it, struct psi_var, step_link);
            if (psi_var_fill(ask, &var, 0, 1, false, NULL) != 1) {
                break;
            }
            psi_var_move(var, PSI_VAR_OPENING, NULL);
        }
        if (ask->var_count == 0) {
            psi_ask_free(ask);
            return;
        }
        peer->open_asks++;
        psi_ask_start(ask);
    }
}

static void on_reopen(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    struct psi_peer *peer = ask->peer;
    const uint8_t *p = r->body;
    size_t n = r->body_bytes;
    ps_v1_OpenAnswer a;
    bool end = r->status != PS_OK;
    struct psi_err err = {0};
    while (!end && psi_list_next(&p, &n, &ps_v1_OpenAnswer_msg, &a, &end, NULL) == PS_OK && !end) {
        struct psi_var *var = a.index >= 1 && a.index <= ask->var_count ? ask->vars[a.index - 1] : NULL;
        if (var == NULL) {
            continue;
        }
        ask->vars[a.index - 1] = NULL;
        ps_status st = psi_var_update(peer, var, &a, &err);
        if (st != PS_OK && may_repeat(st)) {
            psi_peer_fail(peer, "'%s' cannot be opened again: %s", var->name, err.text);
            return;
        }
        if (st != PS_OK) {
            char why[PSI_ERR_TEXT_MAX];
            snprintf(why, sizeof(why), "the task %s: the %s that this session had opened is gone (%s)",
                     var->life != peer->life ? "was restarted" : "has forgotten this session",
                     var->queue != NULL ? "queue" : "variable", err.text);
            psi_window_lose(peer, var, PS_REASON_LOST, why);
            psi_var_lost(c, var, why);
        }
    }
    if (r->more && r->status == PS_OK) {
        return;
    }
    for (uint32_t i = 0; i < ask->var_count; i++) {
        if (ask->vars[i] != NULL && peer->state == PSI_PEER_REOPEN) {
            psi_peer_fail(peer, "OPEN after its restart: %s", r->status != PS_OK ? r->text : "the answer lacks a variable");
        }
    }
    if (peer->state == PSI_PEER_REOPEN && --peer->reopen_asks == 0) {
        psi_client_kick(peer); /* the peer can become UP */
    }
}

void psi_var_lost(struct psi_client *c, struct psi_var *var, const char *why)
{
    if (!var->open) {
        return;
    }
    var->open = false;
    if (var->queue == NULL) {
        c->chief.readied = false; /* a part of the model is gone, so it is no longer ready */
        c->chief.ready = 0;
    }
    char where[PSI_WHERE_MAX];
    const struct psi_peer *peer = c->peers[var->owner];
    psi_lost_note(c, var, why);
    bool again = true;
    while (again) {
        again = false;
        struct psi_list *it = NULL;
        PSI_LIST_FOREACH(it, &c->all) {
            struct psi_request *req = PSI_CONTAINER_OF(it, struct psi_request, all);
            if (req->var != var || !psi_request_is(req, PSI_KIND_DATA) || psi_request_numbered(req)) {
                continue;
            }
            psi_var_release(req);
            psi_request_end_as(req, PS_ABORTED, PS_REASON_LOST, psi_request_applied(req), "%s of '%s' at %s: %s",
                               psi_request_name(req), var->name, psi_peer_where(peer, where, sizeof(where)), why);
            again = true;
            break;
        }
    }
    if (var->used || var->must_exist) {
        var->lost = true;
    } else {
        var->creation = 0; /* this session has not used the variable, so it may continue with a new one of that name */
    }
}

/* True if the task has forgotten the session, and the keys that the session sent: its record has another number. */
static bool is_unknown_there(const struct psi_peer *peer)
{
    return peer->record != 0 && peer->record != peer->record_next;
}

bool psi_var_reopen(struct psi_peer *peer)
{
    struct psi_client *c = peer->c;
    struct psi_ask *ask = NULL;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &c->variables) {
        struct psi_var *var = PSI_CONTAINER_OF(it, struct psi_var, link);
        bool known = var->life == peer->life && !(is_unknown_there(peer) && psi_container_is_session(var->container));
        if (!var->open || var->owner != peer->index || known) {
            continue;
        }
        bool full = ask != NULL && (ask->var_count == BATCH_ITEMS_MAX || ask->body.len > PSI_BATCH_BYTES_MAX);
        if (ask == NULL || full) {
            ask = psi_ask_new(peer, PS_OP_OPEN, NULL, on_reopen, BATCH_ITEMS_MAX);
            if (ask != NULL) {
                ask->reopen = true;
                peer->reopen_asks++;
                psi_ask_start(ask);
            }
        }
        if (ask == NULL || psi_var_fill(ask, &var, 0, 1, false, NULL) != 1) {
            psi_peer_fail(peer, "no memory for OPEN"); /* the next connection tries again */
            peer->reopen_asks += peer->reopen_asks == 0 ? 1 : 0;
            return true;
        }
    }
    return peer->reopen_asks > 0;
}
