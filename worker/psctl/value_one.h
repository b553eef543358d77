/* SPDX-License-Identifier: Apache-2.0 */
/* psctl: what value.c (one element) and value_list.c (lists) share. */
#ifndef PSCTL_VALUE_ONE_H
#define PSCTL_VALUE_ONE_H

#include "value.h"

/** Parse text [n] as one element of a dtype other than PS_STRING. False: error [VALUE_ERROR_MAX] says why. */
bool value_parse_one(const char *text, size_t n, ps_dtype dtype, void *dst, char *error);

#endif
