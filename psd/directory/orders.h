/* SPDX-License-Identifier: Apache-2.0 */
/* psd_order_kinds[op]: the kind of the order (psd/base/orders.h) whose operation is op. */
#ifndef PSD_DIRECTORY_ORDERS_H
#define PSD_DIRECTORY_ORDERS_H

#include "psd/base/orders.h"

extern const struct psd_order_kind psd_order_kinds[UINT8_MAX + 1];

#endif
