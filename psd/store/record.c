/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of PS_WINDOW outcomes. The client never has more than PS_WINDOW numbers unresolved, so what a new number pushes out was
 * resolved: the client has heard its outcome. */
#include "record.h"

#include "common/mem.h"

#include <string.h>

struct psd_record *psd_record_new(const uint8_t session[16], uint64_t name)
{
    struct psd_record *r = psi_calloc(1, sizeof(*r));
    if (r != NULL) {
        memcpy(r->session, session, sizeof(r->session));
        r->name = name;
        psi_list_init(&r->progress);
        psi_list_init(&r->waits);
    }
    return r;
}

void psd_record_free(struct psd_record *r)
{
    if (r == NULL) {
        return;
    }
    PSI_ASSERT(psi_list_empty(&r->progress) && psi_list_empty(&r->waits));
    for (uint32_t i = 0; i < PS_WINDOW; i++) {
        psi_free(r->numbers[i].text);
    }
    psi_free(r);
}

struct psd_number *psd_record_find(struct psd_record *r, uint64_t number)
{
    struct psd_number *n = &r->numbers[number % PS_WINDOW];
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

struct psd_number *psd_record_put(struct psd_record *r, uint64_t number)
{
    struct psd_number *n = &r->numbers[number % PS_WINDOW];
    PSI_ASSERT(n->progress == NULL);
    psi_free(n->text);
    memset(n, 0, sizeof(*n));
    n->number = number;
    if (number > r->highest) {
        r->highest = number;
    }
    return n;
}

void psd_number_refuse(struct psd_number *n, const struct psi_err *err)
{
    n->state = PS_NUMBER_REFUSED;
    n->status = (uint8_t)err->code;
    n->applied = (uint8_t)err->applied;
    psi_free(n->text);
    n->text = psi_strndup(err->text, strlen(err->text)); /* without memory the status alone must do */
}

void psd_record_check_invariants(const struct psd_record *r)
{
    uint32_t count = 0;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &r->progress) {
        const struct psd_progress *p = PSI_CONTAINER_OF(it, struct psd_progress, link);
        const struct psd_number *n = &r->numbers[p->number % PS_WINDOW];
        PSI_ASSERT(n->number == p->number && n->state == PS_NUMBER_IN_PROGRESS && n->progress == p);
        PSI_ASSERT(n->offset <= p->total);
        count++;
    }
    PSI_ASSERT(count == r->progress_count);
    for (uint32_t i = 0; i < PS_WINDOW; i++) {
        const struct psd_number *n = &r->numbers[i];
        PSI_ASSERT((n->number == 0 || n->number % PS_WINDOW == i) && n->number <= r->highest);
        PSI_ASSERT((n->progress != NULL) == (n->state == PS_NUMBER_IN_PROGRESS));
    }
}
