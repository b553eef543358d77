/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a session: a ring of PS_WINDOW outcomes. A client has at most PS_WINDOW numbers whose outcomes it does not know,
 * so it knows each outcome that a newer number replaces. */
#include "mutate.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

struct psd_record *psd_record_new(const uint8_t session[16], uint64_t name)
{
    struct psd_record *r = psi_calloc(1, sizeof(*r));
    if (r != NULL) {
        memcpy(r->session, session, sizeof(r->session));
        r->name = name;
        psi_list_init(&r->silent);
        psi_list_init(&r->place);
        psi_list_init(&r->shown);
        psi_list_init(&r->progress);
        psi_list_init(&r->attempts);
        /* a client may guess this seed, but numbers that collide slow down only its own waiting requests */
        psi_u64_map_init(&r->waits, (const uint64_t[2]){name, 0});
    }
    return r;
}

void psd_record_free(struct psd_record *r)
{
    if (r == NULL) {
        return;
    }
    PSI_ASSERT(psi_list_empty(&r->progress) && psi_list_empty(&r->attempts) && psi_u64_map_count(&r->waits) == 0);
    PSI_ASSERT(psi_list_empty(&r->shown));
    psi_u64_map_fini(&r->waits);
    psi_list_remove(&r->silent);
    psi_list_remove(&r->place);
    for (uint32_t i = 0; i < PS_WINDOW; i++) {
        psi_free(r->numbers[i].text);
    }
    psi_free(r);
}

const struct psd_number *psd_record_find(const struct psd_record *r, uint64_t number)
{
    const struct psd_number *n = &r->numbers[number % PS_WINDOW];
    return number != 0 && n->number == number ? n : NULL;
}

bool psd_record_admits(const struct psd_record *r, uint64_t number)
{
    if (number == 0 || number == UINT64_MAX || (r->highest >= PS_WINDOW && number <= r->highest - PS_WINDOW)) {
        return false;
    }
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &r->progress) {
        const struct psd_progress *p = PSI_CONTAINER_OF(it, struct psd_progress, link);
        if (number > p->number && number - p->number >= PS_WINDOW) {
            return false;
        }
    }
    return true;
}

static void forget_text(struct psd_record *r, struct psd_number *n)
{
    if (n->text != NULL) {
        r->text_bytes -= (uint32_t)strlen(n->text) + 1;
        psi_free(n->text);
        n->text = NULL;
    }
}

struct psd_number *psd_record_put(struct psd_record *r, uint64_t number)
{
    struct psd_number *n = &r->numbers[number % PS_WINDOW];
    PSI_ASSERT(n->progress == NULL);
    forget_text(r, n);
    memset(n, 0, sizeof(*n));
    n->number = number;
    if (number > r->highest) {
        r->highest = number;
    }
    return n;
}

struct psd_number *psd_record_take(struct psd_record *r, uint64_t number)
{
    struct psd_number *n = &r->numbers[number % PS_WINDOW];
    return n->number == number ? n : psd_record_put(r, number);
}

void psd_number_refuse(struct psd_record *r, struct psd_number *n, ps_status st, ps_reason reason, ps_applied applied, char *text)
{
    size_t bytes = text == NULL ? 0 : strlen(text) + 1;
    n->state = PS_NUMBER_REFUSED;
    n->status = (uint8_t)st;
    n->applied = (uint8_t)applied;
    n->reason = (uint16_t)reason;
    forget_text(r, n);
    for (uint32_t i = 1; i < PS_WINDOW && r->text_bytes + bytes > PSD_RECORD_TEXT_BYTES; i++) {
        forget_text(r, &r->numbers[(r->highest + i) % PS_WINDOW]); /* the oldest number first */
    }
    n->text = text;
    r->text_bytes += (uint32_t)bytes;
}

const char *psd_record_text(const struct psd_record *r, char *buf, size_t n)
{
    if (r->job[0] != '\0') {
        PSI_IGNORE(snprintf(buf, n, "/job:%.40s/task:%u@%.24s:%u", r->job, r->task, r->host, r->pid)); /* a cut text is fine */
    } else {
        PSI_IGNORE(snprintf(buf, n, "%.40s@%.40s:%u", r->program, r->host, r->pid)); /* a cut text is fine */
    }
    return buf;
}

void psd_record_beat(struct psd_record *r, uint64_t now_ms, uint64_t step, const char *container)
{
    if (strcmp(r->step_of, container) != 0) {
        r->step_count = 0;
        memcpy(r->step_of, container, strlen(container) + 1);
    }
    struct psd_step *last = r->step_count == 0 ? NULL : &r->steps[r->step_count - 1];
    if (last != NULL && step < last->step) {
        r->step_count = 0; /* the step was set back, or another variable is the step now: older reports do not count */
    } else if (last != NULL && last->at_ms == now_ms) {
        last->step = step;
        return;
    } else if (r->step_count == PSD_STEPS_KEPT) {
        memmove(&r->steps[0], &r->steps[1], (PSD_STEPS_KEPT - 1) * sizeof(r->steps[0]));
        r->step_count--;
    }
    r->steps[r->step_count++] = (struct psd_step){.at_ms = now_ms, .step = step};
}

uint64_t psd_record_step(const struct psd_record *r, uint64_t since_ms)
{
    bool counts = r->step_count > 0 && (r->begun_ms >= since_ms || (r->step_count > 1 && r->steps[0].at_ms > since_ms));
    return counts ? r->steps[r->step_count - 1].step + 1 : 0;
}

double psd_record_steps_per_second(const struct psd_record *r, uint64_t now_ms, uint64_t stale_ms)
{
    if (r->step_count < 2) {
        return 0;
    }
    const struct psd_step *first = &r->steps[0], *last = &r->steps[r->step_count - 1];
    if (now_ms - last->at_ms > stale_ms) {
        return 0;
    }
    return (double)(last->step - first->step) * 1000.0 / (double)(last->at_ms - first->at_ms);
}

void psd_record_check_invariants(const struct psd_record *r)
{
    PSI_ASSERT(r->step_count <= PSD_STEPS_KEPT);
    for (uint32_t i = 1; i < r->step_count; i++) {
        PSI_ASSERT(r->steps[i].at_ms > r->steps[i - 1].at_ms && r->steps[i].step >= r->steps[i - 1].step);
    }
    uint32_t count = 0;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &r->progress) {
        const struct psd_progress *p = PSI_CONTAINER_OF(it, struct psd_progress, link);
        const struct psd_number *n = &r->numbers[p->number % PS_WINDOW];
        PSI_ASSERT(n->number == p->number && n->state == PS_NUMBER_IN_PROGRESS && n->progress == p);
        PSI_ASSERT(n->offset <= p->total);
        PSI_ASSERT(psd_number_moves(n) ? psd_progress_left(p) > 0 : psd_progress_passed(p) == 0 && !psi_list_linked(&p->moves));
        count++;
    }
    PSI_ASSERT(count == r->progress_count);
    size_t text_bytes = 0;
    for (uint32_t i = 0; i < PS_WINDOW; i++) {
        const struct psd_number *n = &r->numbers[i];
        PSI_ASSERT((n->number == 0 || n->number % PS_WINDOW == i) && n->number <= r->highest);
        PSI_ASSERT((n->progress != NULL) == (n->state == PS_NUMBER_IN_PROGRESS));
        text_bytes += n->text == NULL ? 0 : strlen(n->text) + 1;
    }
    PSI_ASSERT(text_bytes == r->text_bytes && text_bytes <= PSD_RECORD_TEXT_BYTES);
}
