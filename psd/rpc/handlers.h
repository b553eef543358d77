/* SPDX-License-Identifier: Apache-2.0 */
/* Prototypes of the handlers in rows.h. The body that a handler gets is the whole payload of its frame, with padding. */
#ifndef PSD_HANDLERS_H
#define PSD_HANDLERS_H

#include "rows.h"

#include "psd/base/base.h"

#define PSD_HANDLER(op, rules, place, handler) void handler(struct psd_task *t, struct psd_conn *c, const struct psd_request *r);
PSD_REQUESTS(PSD_HANDLER)
#undef PSD_HANDLER

#endif
