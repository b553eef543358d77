/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of a task (variables, sessions and others) or of the directory (checkpoints, rounds). Happy path: the loop thread
 * gathers the entries of the whole answer; then the caller's function is called for each entry, on the caller's thread. Failure
 * modes: an error of the call, or no memory for the answer: the function is not called. */
#include "api.h"

#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

/* The entries of a list, which the loop thread collects. The caller's function gets them once the whole answer has come. */
struct gather {
    void *items;
    size_t count, capacity, item_bytes;
    bool no_memory;
};

static void gather_add(struct gather *g, const void *item)
{
    void *items = g->no_memory ? NULL : psi_grow(g->items, g->count, &g->capacity, g->item_bytes);
    g->no_memory = items == NULL;
    if (items != NULL) {
        g->items = items;
        memcpy((char *)items + g->count++ * g->item_bytes, item, g->item_bytes);
    }
}

typedef int (*order_fn)(const void *a, const void *b);

/* Ask a task for a list. sink adds each entry to its ctx, a struct gather; order: how to sort them; NULL: the task's order. */
static ps_status list(ps_session *s, enum psi_request_kind kind, struct psi_list_sink *sink, int task, int64_t timeout_ms,
                      order_fn order)
{
    struct psi_err err = {0};
    const struct gather *g = sink->ctx;
    ps_status st = psi_api_admin(s, &(struct psi_request){.kind = kind, .dst = sink}, task, timeout_ms, &err);
    if (st == PS_OK && g->no_memory) {
        st = psi_fail(&err, PS_RESOURCE_EXHAUSTED, "out of memory for the answer");
    }
    if (st == PS_OK && order != NULL && g->count > 0) {
        qsort(g->items, g->count, g->item_bytes, order);
    }
    return psi_api_result(&err, st);
}

static int queue_by_container_and_name(const void *a, const void *b)
{
    const ps_queue_info *x = a;
    const ps_queue_info *y = b;
    int order = strcmp(x->container, y->container);
    return order != 0 ? order : strcmp(x->name, y->name);
}

static int by_container(const void *a, const void *b)
{
    return strcmp(((const ps_container_info *)a)->name, ((const ps_container_info *)b)->name);
}

static int by_container_and_name(const void *a, const void *b)
{
    const ps_variable_info *x = a;
    const ps_variable_info *y = b;
    int order = strcmp(x->container, y->container);
    return order != 0 ? order : strcmp(x->name, y->name);
}

#define GATHER(entry, type)                                                                                                      \
    static void gather_##entry(void *ctx, const type *info)                                                                      \
    {                                                                                                                            \
        gather_add(ctx, info);                                                                                                   \
    }
/* Defines ps_task_<entry>s() for each public row of lists.h. */
#define LIST(kind, name, whom, entry, type, in_order, ...)                                                                       \
    GATHER(entry, type)                                                                                                          \
    ps_status ps_task_##entry##s(ps_session *s, int task, int64_t timeout_ms, type##_fn each, void *ctx)                         \
    {                                                                                                                            \
        struct gather g = {.item_bytes = sizeof(type)};                                                                          \
        struct psi_list_sink sink = {.entry = gather_##entry, .ctx = &g};                                                        \
        ps_status st = list(s, PSI_REQ_##kind, &sink, task, timeout_ms, in_order);                                               \
        type *items = g.items;                                                                                                   \
        for (size_t i = 0; st == PS_OK && each != NULL && i < g.count; i++) {                                                    \
            items[i].struct_bytes = sizeof(type);                                                                                \
            each(ctx, &items[i]);                                                                                                \
        }                                                                                                                        \
        psi_free(g.items);                                                                                                       \
        return st;                                                                                                               \
    }
#define OWN(...)
PSI_LISTS(LIST, OWN)

GATHER(config, struct psi_setting_seen)
ps_status ps_task_config(ps_session *s, int task, int64_t timeout_ms, ps_config_fn each, void *ctx)
{
    struct gather g = {.item_bytes = sizeof(struct psi_setting_seen)};
    struct psi_list_sink sink = {.config = gather_config, .ctx = &g};
    ps_status st = list(s, PSI_REQ_CONFIG, &sink, task, timeout_ms, NULL);
    const struct psi_setting_seen *rows = g.items;
    for (size_t i = 0; st == PS_OK && each != NULL && i < g.count; i++) {
        ps_config_info info = {.struct_bytes = sizeof(info),
                               .name = rows[i].name,
                               .value = rows[i].value,
                               .default_value = rows[i].default_value,
                               .help = rows[i].help,
                               .reloadable = rows[i].reloadable};
        each(ctx, &info);
    }
    psi_free(g.items);
    return st;
}

enum { EVENTS_WAIT_MS_MAX = 30000 }; /* longest wait of a task */

/* Move the program's place to the event after `of`. Events that were skipped count as missed: the task has overwritten them. */
static void pass(ps_event_place *place, const ps_event_info *of)
{
    const uint64_t expected = of->life != place->life ? (place->life == 0 ? of->number : 1) : place->next;
    place->missed += of->number > expected ? of->number - expected : 0;
    place->life = of->life;
    place->next = of->number + 1;
}

GATHER(event, ps_event_info)
ps_status ps_task_events(ps_session *s, int task, ps_event_place *place, int64_t timeout_ms, ps_event_info_fn each, void *ctx)
{
    struct psi_err err = {0};
    struct gather g = {.item_bytes = sizeof(ps_event_info)};
    struct psi_list_sink sink = {.event = gather_event, .ctx = &g};
    if (place == NULL || place->struct_bytes != sizeof(*place) || place->wait_ms < 0 || place->wait_ms > EVENTS_WAIT_MS_MAX) {
        return psi_api_result(&err, psi_fail(&err, PS_INVALID_ARGUMENT,
                                             "the place in the list of events: NULL, struct_bytes "
                                             "is not its size, or wait_ms is not 0 to %d",
                                             EVENTS_WAIT_MS_MAX));
    }
    const struct psi_events_from from = {.life = place->life, .next = place->next, .wait_ms = place->wait_ms};
    const struct psi_request req = {.kind = PSI_REQ_EVENTS, .src = &from, .dst = &sink};
    const int64_t whole_ms =
        timeout_ms > INT64_MAX - place->wait_ms || timeout_ms <= 0 ? timeout_ms : timeout_ms + place->wait_ms;
    ps_status st = psi_api_admin(s, &req, task, whole_ms, &err);
    if (st == PS_OK && g.no_memory) {
        st = psi_fail(&err, PS_RESOURCE_EXHAUSTED, "out of memory for the answer");
    }
    ps_event_info *items = g.items;
    place->missed = 0;
    for (size_t i = 0; st == PS_OK && i < g.count; i++) {
        items[i].struct_bytes = sizeof(items[i]);
        pass(place, &items[i]);
    }
    for (size_t i = 0; st == PS_OK && each != NULL && i < g.count; i++) {
        each(ctx, &items[i]);
    }
    psi_free(g.items);
    return psi_api_result(&err, st);
}

GATHER(checkpoint, ps_checkpoint_info)
ps_status ps_checkpoints(ps_session *s, int64_t timeout_ms, ps_checkpoint_info_fn each, void *ctx)
{
    struct gather g = {.item_bytes = sizeof(ps_checkpoint_info)};
    struct psi_list_sink sink = {.checkpoint = gather_checkpoint, .ctx = &g};
    ps_status st = list(s, PSI_REQ_CHECKPOINTS, &sink, PSI_API_DIRECTORY, timeout_ms, NULL);
    ps_checkpoint_info *items = g.items;
    for (size_t i = 0; st == PS_OK && each != NULL && i < g.count; i++) {
        items[i].struct_bytes = sizeof(items[i]);
        each(ctx, &items[i]);
    }
    psi_free(g.items);
    return st;
}

/* An entry of the answer to ROUNDS: a round, or a member of the round before it in the list. */
struct round_entry {
    bool is_member;
    union {
        ps_round_info round;
        ps_member_info member;
    } of;
};

static void gather_round(void *ctx, const ps_round_info *info)
{
    gather_add(ctx, &(struct round_entry){.of.round = *info});
}

static void gather_member(void *ctx, const ps_member_info *info)
{
    gather_add(ctx, &(struct round_entry){.is_member = true, .of.member = *info});
}

ps_status ps_rounds(ps_session *s, int64_t timeout_ms, ps_round_info_fn round, ps_member_info_fn member, void *ctx)
{
    struct gather g = {.item_bytes = sizeof(struct round_entry)};
    struct psi_list_sink sink = {.round = gather_round, .member = gather_member, .ctx = &g};
    ps_status st = list(s, PSI_REQ_ROUNDS, &sink, PSI_API_DIRECTORY, timeout_ms, NULL);
    struct round_entry *entries = g.items;
    for (size_t i = 0; st == PS_OK && i < g.count; i++) {
        if (entries[i].is_member && member != NULL) {
            entries[i].of.member.struct_bytes = sizeof(entries[i].of.member);
            member(ctx, &entries[i].of.member);
        } else if (!entries[i].is_member && round != NULL) {
            entries[i].of.round.struct_bytes = sizeof(entries[i].of.round);
            round(ctx, &entries[i].of.round);
        }
    }
    psi_free(g.items);
    return st;
}
