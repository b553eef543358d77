/* SPDX-License-Identifier: Apache-2.0 */
/* What tests and the simulator's oracles look at in a task, and nothing of psd asks for. */
#ifndef TASK_LOOK_H
#define TASK_LOOK_H

#include "psd/state.h"

static inline uint64_t psd_task_life(const struct psd_task *t)
{
    return t->life;
}

/** Of variables, slots and staging. */
static inline uint64_t psd_task_memory_bytes(const struct psd_task *t)
{
    return t->store.arena.used_bytes;
}

static inline uint32_t psd_task_link_count(const struct psd_task *t)
{
    return t->conn_count;
}

typedef void (*psd_task_variable_cb)(void *ctx, const char *container, const char *name, uint64_t creation, bool initialised,
                                     bool sealed, uint64_t version, const void *value, size_t value_bytes);

/** Call back for each variable that a request finds. */
static inline void psd_task_variables(const struct psd_task *t, psd_task_variable_cb cb, void *ctx)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->store.containers, &cursor, NULL, NULL, &value)) {
        const struct psd_container *c = value;
        uint64_t inner = 0;
        void *item = NULL;
        while (psi_map_next(&c->variables, &inner, NULL, NULL, &item)) {
            const struct psd_variable *v = item;
            if (v->queue == NULL && !psd_variable_is_gone(v)) {
                cb(ctx, c->name, v->name, v->creation, v->initialised, v->sealed, v->version, v->value,
                   v->initialised ? v->bytes : 0);
            }
        }
    }
}

#endif
