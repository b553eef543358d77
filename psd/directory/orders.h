/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of orders (psd/base/orders.h), by their operation. */
#ifndef PSD_DIRECTORY_ORDERS_H
#define PSD_DIRECTORY_ORDERS_H

#include "psd/base/orders.h"

extern const struct psd_order_kind psd_order_kinds[UINT8_MAX + 1];

#endif
