/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of variables of the executor's own task that seldom change: a run that reads such a variable needs no new copy.
 *
 * Happy path: the first exact read of a variable records its creation number and version. If the next read finds both unchanged,
 * its value is kept as a copy, which no row overwrites. Later reads ask the server whether the variable still has that value, and
 * then use the copy. The server checks rights and keys at each read, also of a copied variable. Failure modes: none; without
 * memory nothing is kept.
 *
 * The copies need at most KEPT_BYTES_MAX and a quarter of the executor's memory, in addition to that memory. Copies that no run
 * uses are freed in the order of their last use. */
#include "exec.h"

#include "common/mem.h"

#include <string.h>

enum { KEPT_MAX = 64 };                                        /* most records (psi_exec_kept), with or without a copy */
enum { KEPT_BYTES_MIN = 64 << 10, KEPT_BYTES_MAX = 16 << 20 }; /* least bytes of a value to be copied; most bytes of all copies */

struct psi_exec_kept {
    struct psi_list link; /* ops->kept */
    uint64_t creation, version;
    void *memory; /* the copy; NULL: only creation and version are known */
    uint64_t bytes;
    uint32_t users;
    char container[PS_CONTAINER_BYTES_MAX + 1], name[PS_NAME_BYTES_MAX + 1];
};

static uint64_t bytes_max(const ps_ops *ops)
{
    return ops->memory_bytes / 4 < KEPT_BYTES_MAX ? ops->memory_bytes / 4 : KEPT_BYTES_MAX;
}

static bool may_be_kept(const struct psi_exec_transfer *t)
{
    return t->own_task && t->kind == PSI_EXEC_READ && t->bytes >= KEPT_BYTES_MIN && t->bytes <= bytes_max(t->run->ops);
}

/* The functions from find() to keep() are called with ops->lock held; the public functions behind them run on any thread. */

static struct psi_exec_kept *find(const ps_ops *ops, const struct psi_run_variable *v)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &ops->kept) {
        struct psi_exec_kept *k = PSI_CONTAINER_OF(it, struct psi_exec_kept, link);
        if (strcmp(k->name, v->name) == 0 && strcmp(k->container, v->container) == 0) {
            return k;
        }
    }
    return NULL;
}

static void touch(ps_ops *ops, struct psi_exec_kept *k)
{
    psi_list_remove(&k->link);
    psi_list_push_back(&ops->kept, &k->link);
}

static void memory_free(ps_ops *ops, struct psi_exec_kept *k)
{
    ops->kept_bytes -= k->memory != NULL ? k->bytes : 0;
    psi_free(k->memory);
    k->memory = NULL;
}

static void drop(ps_ops *ops, struct psi_exec_kept *k)
{
    memory_free(ops, k);
    psi_list_remove(&k->link);
    ops->kept_count--;
    psi_free(k);
}

/* Free copies that no run uses, the longest unused first, until `bytes` more bytes fit. False: they do not fit. */
static bool make_room(ps_ops *ops, uint64_t bytes)
{
    struct psi_list *it = NULL, *tmp = NULL;
    PSI_LIST_FOREACH_SAFE(it, tmp, &ops->kept) {
        struct psi_exec_kept *k = PSI_CONTAINER_OF(it, struct psi_exec_kept, link);
        if (ops->kept_bytes + bytes > bytes_max(ops) && k->users == 0) {
            memory_free(ops, k);
        }
    }
    return ops->kept_bytes + bytes <= bytes_max(ops);
}

static struct psi_exec_kept *note(ps_ops *ops, const struct psi_run_variable *v)
{
    struct psi_list *it = NULL, *tmp = NULL;
    PSI_LIST_FOREACH_SAFE(it, tmp, &ops->kept) {
        struct psi_exec_kept *k = PSI_CONTAINER_OF(it, struct psi_exec_kept, link);
        if (ops->kept_count >= KEPT_MAX && k->users == 0) {
            drop(ops, k);
        }
    }
    struct psi_exec_kept *k = ops->kept_count < KEPT_MAX ? psi_calloc(1, sizeof(*k)) : NULL;
    if (k != NULL) {
        memcpy(k->container, v->container, strlen(v->container) + 1);
        memcpy(k->name, v->name, strlen(v->name) + 1);
        psi_list_init(&k->link);
        psi_list_push_back(&ops->kept, &k->link);
        ops->kept_count++;
    }
    return k;
}

/* Record creation number and version of the value that t has read into `memory`. If the last read found the same ones, keep the
 * value. True: kept, so ops owns `memory` from now on, and t uses it. */
static bool keep(ps_ops *ops, struct psi_exec_transfer *t, void *memory)
{
    struct psi_exec_kept *k = find(ops, t->variable);
    k = k != NULL ? k : note(ops, t->variable);
    if (k == NULL || k->users > 0) {
        return false;
    }
    const bool again = k->creation == t->creation && k->version == t->version;
    touch(ops, k);
    memory_free(ops, k);
    k->creation = t->creation;
    k->version = t->version;
    if (!again || !make_room(ops, t->bytes)) {
        return false;
    }
    k->memory = memory;
    k->bytes = t->bytes;
    k->users = 1;
    t->kept = k;
    ops->kept_bytes += k->bytes;
    return true;
}

void psi_exec_kept_find(struct psi_exec_transfer *t)
{
    ps_ops *ops = t->run->ops;
    if (!may_be_kept(t)) {
        return;
    }
    (void)pthread_mutex_lock(&ops->lock);
    struct psi_exec_kept *k = find(ops, t->variable);
    if (k != NULL && k->memory != NULL && k->bytes == t->bytes) {
        touch(ops, k);
        k->users++;
        t->kept = k;
        t->creation = k->creation;
        t->version = k->version;
    }
    (void)pthread_mutex_unlock(&ops->lock);
}

void psi_exec_kept_release(struct psi_exec_transfer *t)
{
    if (t->kept != NULL) {
        (void)pthread_mutex_lock(&t->run->ops->lock);
        t->kept->users--;
        (void)pthread_mutex_unlock(&t->run->ops->lock);
        t->kept = NULL;
    }
}

void psi_exec_kept_use(struct psi_exec_transfer *t)
{
    struct psi_exec_run *r = t->run;
    struct psi_exec_slot *slot = &r->slots[t->value];
    if (!may_be_kept(t)) {
        return;
    }
    if (t->same) {
        psi_exec_memory_free(r->ops, slot->memory, t->bytes); /* not needed: the variable still has the value of the copy */
        r->values[t->value].data = t->kept->memory;
    } else {
        psi_exec_kept_release(t);
        (void)pthread_mutex_lock(&r->ops->lock);
        const bool kept = t->creation != 0 && keep(r->ops, t, slot->memory);
        (void)pthread_mutex_unlock(&r->ops->lock);
        if (!kept) {
            return;
        }
    }
    slot->memory = NULL;
    slot->own = false; /* no row may overwrite the copy */
    slot->live = false;
}

void psi_exec_kept_free(ps_ops *ops)
{
    struct psi_list *link = NULL;
    while ((link = psi_list_first(&ops->kept)) != NULL) {
        drop(ops, PSI_CONTAINER_OF(link, struct psi_exec_kept, link));
    }
}
