/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structs of the public headers that grow: their first field is `size_t struct_bytes`, the size that the caller's header gave
 * them. Pure, any thread.
 */
#ifndef PSI_ABI_H
#define PSI_ABI_H

#include "status.h"

/**
 * Take over a caller's struct, which may be of an older or a newer header than the library.
 *
 * from     begins with its struct_bytes; borrows. What the caller's header does not have keeps its default.
 * to       [to_bytes] filled with the defaults; unchanged after an error. Afterwards its own struct_bytes is to_bytes.
 * init     "ps_x_init", the function that fills `from` in; for the error's text.
 *
 * Errors   PS_INVALID_ARGUMENT   struct_bytes is no size: it was not filled in
 *          PS_UNIMPLEMENTED      a field that only the caller's header has is not zero
 */
PSI_MUST ps_status psi_struct_take(const void *from, void *to, size_t to_bytes, const char *init, struct psi_err *err);

/** Copy a struct to element `index` of a caller's array, whose elements have item_bytes, of an older or a newer header than the
 * library. Fields that the caller's header lacks are left out; fields that only it has become zero. */
void psi_struct_give(void *items, size_t item_bytes, size_t index, const void *item, size_t own_bytes);
/** Check that item_bytes can be the size of a struct. Errors: INVALID_ARGUMENT naming the call. */
PSI_MUST ps_status psi_struct_bytes_check(size_t item_bytes, const char *call, struct psi_err *err);

#endif
