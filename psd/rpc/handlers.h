/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers of the rows of rows.h. This is the one header of psd/rpc/ for rooms below it: the table of requests needs the
 * functions, and a room has those of its subject. A handler's body is the whole payload of the control frame, with padding. */
#ifndef PSD_HANDLERS_H
#define PSD_HANDLERS_H

#include "rows.h"

#include "psd/base/base.h"

#define PSD_HANDLER(op, rules, place, handler) void handler(struct psd_task *t, struct psd_conn *c, const struct psd_request *r);
PSD_REQUESTS(PSD_HANDLER)
#undef PSD_HANDLER

#endif
