/* SPDX-License-Identifier: Apache-2.0 */
/* Which sessions have shown the key of a session's container, and so may use its handles. All notes are volatile: they end with
 * the container or with the session's record, and the session then shows the key again. */
#ifndef PSD_SHOWN_H
#define PSD_SHOWN_H

#include "record.h"
#include "variable.h"

struct psd_shown {
    struct psi_list of_container; /* in psd_container.shown */
    struct psi_list of_record;    /* in psd_record.shown */
    const struct psd_record *record;
};
/* bytes that a struct psd_shown takes in the budget (PSD_MEMORY_CONTAINERS), with malloc's overhead */
enum { PSD_SHOWN_BYTES = sizeof(struct psd_shown) + 16 };

/** True if r has shown the key of c. */
bool psd_shown_by(const struct psd_container *c, const struct psd_record *r);
/** Note that r has shown the key of c. False: no memory. The caller has checked that PSD_SHOWN_BYTES fit into the budget. */
bool psd_shown_add(struct psd_store *s, const struct psd_container *c, struct psd_record *r) PSI_MUST;
void psd_shown_forget_container(struct psd_store *s, struct psd_container *c);
void psd_shown_forget_record(struct psd_store *s, struct psd_record *r);

#endif
