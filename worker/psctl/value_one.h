/* SPDX-License-Identifier: Apache-2.0 */
/* psctl: what value.c and value_list.c share. */
#ifndef PSCTL_VALUE_ONE_H
#define PSCTL_VALUE_ONE_H

#include "value.h"

/** text [n] as one element of a dtype that is not PS_STRING. false: error [VALUE_ERROR_MAX]. */
bool value_parse_one(const char *text, size_t n, ps_dtype dtype, void *dst, char *error);

#endif
