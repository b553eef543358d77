/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers for all files of the core: lists of links and peers that may have something to send, log lines, errors, tasks by name.
 * Failure: without memory for an error, c->no_memory is the error. Log lines that do not fit the ring are counted and lost. */
#include "client.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

void psi_client_dirty(struct psi_client *c, struct psi_link *link)
{
    if (!psi_list_linked(&link->dirty)) {
        psi_list_push_back(&c->dirty, &link->dirty);
    }
}

void psi_client_kick(struct psi_peer *peer)
{
    if (!psi_list_linked(&peer->pump)) {
        psi_list_push_back(&peer->c->pumps, &peer->pump);
    }
}

void psi_client_log_fields(struct psi_client *c, enum psi_log_level level, const char *event, const struct psi_kv *kv,
                           size_t count)
{
    if (c->log_count == PSI_LOGS_MAX) {
        c->log_lost++;
        return;
    }
    struct psi_client_effect *e = &c->logs[(c->log_first + c->log_count) % PSI_LOGS_MAX];
    c->log_count++;
    memset(e, 0, sizeof(*e));
    e->kind = PSI_CLIENT_LOG;
    e->level = (int)level;
    snprintf(e->event, sizeof(e->event), "%s", event);
    PSI_IGNORE(psi_log_format(e->text, sizeof(e->text), kv, count));
}

uint32_t psi_client_find_task(const struct psi_client *c, const char *job, uint32_t task)
{
    /* peers are in the cluster's order, so a task's number in the cluster is its index here */
    return c->known ? psi_cluster_task_number(&c->cluster, job, task) : UINT32_MAX;
}

struct psi_peer *psi_client_directory(struct psi_client *c)
{
    PSI_ASSERT(c->known);
    return c->peers[c->directory];
}

static struct psi_err *new_err(struct psi_client *c)
{
    if (c->err_count > 0) {
        return c->errs[--c->err_count];
    }
    if (c->err_capacity < 64) {
        struct psi_err **more = psi_realloc(c->errs, (c->err_capacity + 16) * sizeof(*more));
        if (more != NULL) {
            c->errs = more;
            c->err_capacity += 16;
        }
    }
    return psi_malloc(sizeof(struct psi_err));
}

void psi_client_err_free(struct psi_client *c, struct psi_err *e)
{
    if (e == NULL || e == &c->no_memory) {
        return;
    }
    if (c->err_count < c->err_capacity) {
        c->errs[c->err_count++] = e;
    } else {
        psi_free(e);
    }
}

struct psi_err *psi_client_verr(struct psi_client *c, ps_status st, ps_reason reason, ps_applied applied, const char *format,
                                va_list ap)
{
    struct psi_err *e = new_err(c);
    if (e == NULL) {
        return &c->no_memory;
    }
    e->code = st;
    e->applied = applied;
    e->reason = reason;
    e->unreached = false;
    vsnprintf(e->text, sizeof(e->text), format, ap);
    return e;
}

struct psi_err *psi_client_err(struct psi_client *c, ps_status st, ps_reason reason, ps_applied applied, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    struct psi_err *e = psi_client_verr(c, st, reason, applied, format, ap);
    va_end(ap);
    return e;
}

size_t psi_list_strip(const uint8_t *p, size_t n)
{
    size_t at = 0;
    while (at < n && p[at] != 0) {
        size_t head = (p[at] & 0x80u) != 0 ? 2 : 1;
        if (at + head > n) {
            return n;
        }
        size_t length = (p[at] & 0x7fu) | (head == 2 ? (size_t)p[at + 1] << 7 : 0);
        if (length > n - at - head) {
            return n;
        }
        at += head + length;
    }
    return at;
}
