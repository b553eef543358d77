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

static void gather_variable(void *ctx, const ps_variable_info *info)
{
    gather_add(ctx, info);
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

static void gather_container(void *ctx, const ps_container_info *info)
{
    gather_add(ctx, info);
}

static void gather_session(void *ctx, const ps_session_info *info)
{
    gather_add(ctx, info);
}

static void gather_wait(void *ctx, const ps_wait_info *info)
{
    gather_add(ctx, info);
}

static ps_status list(ps_session *s, enum psi_request_kind kind, int task, int64_t timeout_ms, struct gather *g)
{
    struct psi_err err = {0};
    struct psi_list_sink sink = {.variable = gather_variable,
                                 .config = gather_config,
                                 .container = gather_container,
                                 .session = gather_session,
                                 .wait = gather_wait,
                                 .ctx = g};
    struct psi_api_admin a = {.kind = kind, .dst = &sink};
    ps_status st = psi_api_admin(s, &a, task, timeout_ms, &err);
    if (st == PS_OK && g->no_memory) {
        st = psi_fail(&err, PS_RESOURCE_EXHAUSTED, "out of memory for the answer");
    }
    return psi_api_result(&err, st);
}

static int by_container_and_name(const void *a, const void *b)
{
    const ps_variable_info *x = a;
    const ps_variable_info *y = b;
    int order = strcmp(x->container, y->container);
    return order != 0 ? order : strcmp(x->name, y->name);
}

ps_status ps_task_variables(ps_session *s, int task, int64_t timeout_ms, ps_variable_info_fn each, void *ctx)
{
    struct gather g = {.item_bytes = sizeof(ps_variable_info)};
    ps_status st = list(s, PSI_REQ_VARS, task, timeout_ms, &g);
    if (st == PS_OK && g.count > 0) {
        const ps_variable_info *items = g.items;
        qsort(g.items, g.count, sizeof(ps_variable_info), by_container_and_name);
        for (size_t i = 0; each != NULL && i < g.count; i++) {
            each(ctx, &items[i]);
        }
    }
    psi_free(g.items);
    return st;
}

ps_status ps_task_config(ps_session *s, int task, int64_t timeout_ms, ps_config_fn each, void *ctx)
{
    struct gather g = {.item_bytes = sizeof(struct config_row)};
    ps_status st = list(s, PSI_REQ_CONFIG, task, timeout_ms, &g);
    const struct config_row *rows = g.items;
    for (size_t i = 0; st == PS_OK && each != NULL && i < g.count; i++) {
        ps_config_info info = {.name = rows[i].name,
                               .value = rows[i].value,
                               .default_value = rows[i].default_value,
                               .help = rows[i].help,
                               .reloadable = rows[i].reloadable};
        each(ctx, &info);
    }
    psi_free(g.items);
    return st;
}

ps_status ps_task_containers(ps_session *s, int task, int64_t timeout_ms, ps_container_info_fn each, void *ctx)
{
    struct gather g = {.item_bytes = sizeof(ps_container_info)};
    ps_status st = list(s, PSI_REQ_CONTAINERS, task, timeout_ms, &g);
    const ps_container_info *items = g.items;
    for (size_t i = 0; st == PS_OK && each != NULL && i < g.count; i++) {
        each(ctx, &items[i]); /* sorted by the task */
    }
    psi_free(g.items);
    return st;
}

ps_status ps_task_sessions(ps_session *s, int task, int64_t timeout_ms, ps_session_info_fn each, void *ctx)
{
    struct gather g = {.item_bytes = sizeof(ps_session_info)};
    ps_status st = list(s, PSI_REQ_SESSIONS, task, timeout_ms, &g);
    const ps_session_info *items = g.items;
    for (size_t i = 0; st == PS_OK && each != NULL && i < g.count; i++) {
        each(ctx, &items[i]);
    }
    psi_free(g.items);
    return st;
}

ps_status ps_task_waits(ps_session *s, int task, int64_t timeout_ms, ps_wait_info_fn each, void *ctx)
{
    struct gather g = {.item_bytes = sizeof(ps_wait_info)};
    ps_status st = list(s, PSI_REQ_WAITS, task, timeout_ms, &g);
    const ps_wait_info *items = g.items;
    for (size_t i = 0; st == PS_OK && each != NULL && i < g.count; i++) {
        each(ctx, &items[i]);
    }
    psi_free(g.items);
    return st;
}
