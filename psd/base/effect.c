/* SPDX-License-Identifier: Apache-2.0 */
/* Effects: a task's orders to the code around it (its shell), log lines among them. Random numbers, made from the task's seed. */
#include "base.h"
#include "events.h"

#include "common/hash.h"
#include "common/mem.h"

#include <stdio.h>

uint64_t psd_random(struct psd_task *t)
{
    uint64_t v = 0;
    while (v == 0) {
        v = psi_siphash13_u64(t->random_key, t->random_count++);
    }
    return v;
}

struct psd_effect *psd_effect_new(struct psd_task *t, enum psd_effect_kind kind)
{
    struct psd_effect_node *node = psi_calloc(1, sizeof(*node));
    if (node == NULL) {
        return NULL; /* no memory: a log line is lost; the callers try other effects again */
    }
    node->effect.kind = kind;
    psi_list_push_back(&t->effects, &node->link);
    return &node->effect;
}

bool psd_effect(struct psd_task *t, enum psd_effect_kind kind, const char *text)
{
    struct psd_effect *e = psd_effect_new(t, kind);
    if (e != NULL) {
        PSI_IGNORE(snprintf(e->text, sizeof(e->text), "%s", text)); /* fits: no caller has a long text */
    }
    return e != NULL;
}

bool psd_effect_dial(struct psd_task *t, enum psd_dial dial, const struct psd_peer *peer)
{
    struct psd_effect *e = psd_effect_new(t, PSD_EFFECT_DIAL);
    if (e != NULL) {
        e->dial = dial;
        e->task = peer->task;
        PSI_IGNORE(snprintf(e->job, sizeof(e->job), "%s", peer->job));
        PSI_IGNORE(snprintf(e->text, sizeof(e->text), "%s", psd_peer_address(t, peer)));
    }
    return e != NULL;
}

void psd_log_fields(struct psd_task *t, enum psi_log_level level, const char *event, const struct psi_kv *kv, size_t count)
{
    psd_event_fields(t, level, event, kv, count);
    struct psd_effect *e = psd_effect_new(t, PSD_EFFECT_LOG);
    if (e != NULL) {
        e->level = (int)level;
        PSI_IGNORE(snprintf(e->event, sizeof(e->event), "%s", event)); /* a cut text is fine */
        PSI_IGNORE(psi_log_format(e->text, sizeof(e->text), kv, count));
    }
}

bool psd_task_next_effect(struct psd_task *t, struct psd_effect *out)
{
    struct psi_list *link = psi_list_pop_front(&t->effects);
    if (link == NULL) {
        return false;
    }
    struct psd_effect_node *node = PSI_CONTAINER_OF(link, struct psd_effect_node, link);
    *out = node->effect;
    psi_free(node);
    return true;
}
