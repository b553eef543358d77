/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders: what the directory has asked of another task (struct psd_ask, psd_ask_once() and psd_ask_level()), from the answer on.
 * orders.c has a row for each kind of order: who hears the answer, whether the answer takes time, and what an order that the
 * connection's end has cut off may have done.
 */
#ifndef PSD_ORDERS_H
#define PSD_ORDERS_H

#include "psd/rpc/rpc.h"

/** The connection of p is gone: its orders end, oldest first. */
void psd_orders_lost(struct psd_task *t, struct psd_peer *p);

#endif
