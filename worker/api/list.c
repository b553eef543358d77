/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists that a task gives of itself: variables, settings, containers, sessions, waits.
 *
 * Happy path: the loop thread gathers the entries of the whole answer, then the caller's function gets them on the caller's
 * thread.
 * Failure modes: an error of the call, or no memory for the answer; then no entry is given out.
 */
#include "api.h"

#include "common/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Entries as they come, on the loop thread; given to the caller's function when the answer is complete. */
struct gather {
    void *items;
    size_t count, capacity, item_bytes;
    bool no_memory;
};

static void *gather_next(struct gather *g)
{
    if (g->count == g->capacity) {
        size_t capacity = g->capacity == 0 ? 64 : g->capacity * 2;
        void *items = g->no_memory ? NULL : psi_realloc(g->items, capacity * g->item_bytes);
        if (items == NULL) {
            g->no_memory = true;
            return NULL;
        }
        g->items = items;
        g->capacity = capacity;
    }
    return (char *)g->items + g->count++ * g->item_bytes;
}

/* item_bytes of item. */
static void gather_add(struct gather *g, const void *item)
{
    void *next = gather_next(g);
    if (next != NULL) {
        memcpy(next, item, g->item_bytes);
    }
}

struct config_row {
    char name[64], value[512], default_value[512], help[512];
    bool reloadable;
};

static void gather_config(void *ctx, const ps_config_info *info)
{
    struct config_row *next = gather_next(ctx);
    if (next != NULL) {
        (void)snprintf(next->name, sizeof(next->name), "%s", info->name);
        (void)snprintf(next->value, sizeof(next->value), "%s", info->value);
        (void)snprintf(next->default_value, sizeof(next->default_value), "%s", info->default_value);
        (void)snprintf(next->help, sizeof(next->help), "%s", info->help);
        next->reloadable = info->reloadable;
    }
}

static ps_status list(ps_session *s, enum psi_request_kind kind, struct psi_list_sink sink, int task, int64_t timeout_ms)
{
    struct psi_err err = {0};
    const struct gather *g = sink.ctx;
    struct psi_api_admin a = {.kind = kind, .dst = &sink};
    ps_status st = psi_api_admin(s, &a, task, timeout_ms, &err);
    if (st == PS_OK && g->no_memory) {
        st = psi_fail(&err, PS_RESOURCE_EXHAUSTED, "out of memory for the answer");
    }
    return psi_api_result(&err, st);
}

/* A list whose entries are structs without pointers: name(), and what gathers it. */
#define LIST(name, list_kind, member, info, in_order)                                                                            \
    static void gather_##member(void *ctx, const info *entry)                                                                    \
    {                                                                                                                            \
        gather_add(ctx, entry);                                                                                                  \
    }                                                                                                                            \
    ps_status name(ps_session *s, int task, int64_t timeout_ms, info##_fn each, void *ctx)                                       \
    {                                                                                                                            \
        struct gather g = {.item_bytes = sizeof(info)};                                                                          \
        struct psi_list_sink sink = {.member = gather_##member, .ctx = &g};                                                      \
        ps_status st = list(s, list_kind, sink, task, timeout_ms);                                                               \
        int (*order)(const void *, const void *) = (in_order);                                                                   \
        if (st == PS_OK && order != NULL && g.count > 0) {                                                                       \
            qsort(g.items, g.count, sizeof(info), order);                                                                        \
        }                                                                                                                        \
        const info *items = g.items;                                                                                             \
        for (size_t i = 0; st == PS_OK && each != NULL && i < g.count; i++) {                                                    \
            each(ctx, &items[i]);                                                                                                \
        }                                                                                                                        \
        psi_free(g.items);                                                                                                       \
        return st;                                                                                                               \
    }

static int by_container_and_name(const void *a, const void *b)
{
    const ps_variable_info *x = a;
    const ps_variable_info *y = b;
    int order = strcmp(x->container, y->container);
    return order != 0 ? order : strcmp(x->name, y->name);
}

LIST(ps_task_variables, PSI_REQ_VARS, variable, ps_variable_info, by_container_and_name)
LIST(ps_task_containers, PSI_REQ_CONTAINERS, container, ps_container_info, NULL) /* sorted by the task */
LIST(ps_task_sessions, PSI_REQ_SESSIONS, session, ps_session_info, NULL)
LIST(ps_task_waits, PSI_REQ_WAITS, wait, ps_wait_info, NULL)

ps_status ps_task_config(ps_session *s, int task, int64_t timeout_ms, ps_config_fn each, void *ctx)
{
    struct gather g = {.item_bytes = sizeof(struct config_row)};
    struct psi_list_sink sink = {.config = gather_config, .ctx = &g};
    ps_status st = list(s, PSI_REQ_CONFIG, sink, task, timeout_ms);
    const struct config_row *rows = g.items;
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
