/* SPDX-License-Identifier: Apache-2.0 */
/* One log line for what one call of a program does to many variables, such as new optimizers for a million of them. The line has
 * the name of the first variable, and how many there are.
 *
 * The first variable is kept; further variables of the same event, peer and detail are counted. The line is written when no
 * variable has come for QUIET_MS, at the end of a session, or before a variable of another event, peer or detail. While variables
 * keep coming, a line is written every MOST_MS. */
#include "base.h"

#include <stdio.h>
#include <string.h>

enum { QUIET_MS = 500, MOST_MS = 60000 };

void psd_batch_end(struct psd_task *t)
{
    struct psd_batch *b = &t->batch;
    if (b->count == 0) {
        return;
    }
    psd_log(t, (enum psi_log_level)b->level, b->event, PSI_KV("peer", b->peer), PSI_KV("var", b->var),
            PSI_KV("variables", b->count), PSI_KV(b->key, b->detail));
    b->count = 0;
}

void psd_log_batch(struct psd_task *t, enum psi_log_level level, const char *event, const char *peer, const char *var,
                   struct psi_kv detail)
{
    struct psd_batch *b = &t->batch;
    const size_t n = detail.len < sizeof(b->detail) ? detail.len : sizeof(b->detail) - 1;
    bool same = b->count > 0 && strcmp(b->event, event) == 0 && strcmp(b->peer, peer) == 0 && strlen(b->detail) == n &&
                memcmp(b->detail, detail.text, n) == 0;
    if (!same) {
        psd_batch_end(t);
        b->level = (int)level;
        b->event = event;
        b->key = detail.key;
        b->begun_ms = t->now_ms;
        PSI_IGNORE(snprintf(b->peer, sizeof(b->peer), "%s", peer)); /* fits: a peer's text */
        PSI_IGNORE(snprintf(b->var, sizeof(b->var), "%s", var));    /* fits: a checked name */
        memcpy(b->detail, detail.text, n);
        b->detail[n] = '\0';
    }
    b->count++;
    b->last_ms = t->now_ms;
}

void psd_batch_tick(struct psd_task *t)
{
    const struct psd_batch *b = &t->batch;
    if (b->count > 0 && (t->now_ms - b->last_ms >= QUIET_MS || t->now_ms - b->begun_ms >= MOST_MS)) {
        psd_batch_end(t);
    }
}
