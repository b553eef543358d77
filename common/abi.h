/* SPDX-License-Identifier: Apache-2.0 */
/* Copies public structs between programs and libraries of different releases: later releases append fields. Their first field,
 * `size_t struct_bytes`, is the size of the struct in the caller's header. Pure. */
#ifndef PSI_ABI_H
#define PSI_ABI_H

#include "status.h"

/** Take over a caller's struct, which may be of an older or a newer header than the library.
 *
 * from     begins with its struct_bytes; borrows. Fields that the caller's header does not have keep their defaults.
 * to       [to_bytes] filled with the defaults; unchanged after an error. After success its own struct_bytes is to_bytes.
 * init     name of the function that fills `from` in, as "ps_x_init"; the error's text quotes it.
 *
 * Errors   PS_INVALID_ARGUMENT   struct_bytes is impossible: the caller did not call the function `init`
 *          PS_UNIMPLEMENTED      a field that only the caller's header has is not zero */
PSI_MUST ps_status psi_struct_take(const void *from, void *to, size_t to_bytes, const char *init, struct psi_err *err);

/** Copy `item` [own_bytes] to element `index` of a caller's array. item_bytes: size of the struct in the caller's header, which
 * may be older or newer. Fields that the caller's header lacks are left out; fields that only this header has become zero. */
void psi_struct_give(void *items, size_t item_bytes, size_t index, const void *item, size_t own_bytes);
PSI_MUST ps_status psi_struct_bytes_check(size_t item_bytes, const char *call, struct psi_err *err);

#endif
