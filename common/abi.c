/* SPDX-License-Identifier: Apache-2.0 */
/* psi_struct_take() copies those of the caller's fields that the library knows over the library's defaults. It fails if
 * struct_bytes is impossible, or if a field of a newer header is not zero: the library cannot do what this field asks for. */
#include "abi.h"

#include <string.h>

enum { STRUCT_BYTES_MAX = 4096 /* larger than every public struct: a larger struct_bytes is uninitialised memory */ };

ps_status psi_struct_take(const void *from, void *to, size_t to_bytes, const char *init, struct psi_err *err)
{
    const uint8_t *bytes = from;
    size_t from_bytes = 0;
    memcpy(&from_bytes, from, sizeof(from_bytes));
    if (from_bytes < sizeof(from_bytes) || from_bytes > STRUCT_BYTES_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "struct_bytes is %zu: the struct was not initialised by %s()", from_bytes,
                        init);
    }
    for (size_t i = to_bytes; i < from_bytes; i++) {
        if (bytes[i] != 0) {
            return psi_fail(err, PS_UNIMPLEMENTED,
                            "%s(): this library is older than its header and does not know one of the fields that are set", init);
        }
    }
    memcpy(to, from, from_bytes < to_bytes ? from_bytes : to_bytes);
    memcpy(to, &to_bytes, sizeof(to_bytes));
    return PS_OK;
}

void psi_struct_give(void *items, size_t item_bytes, size_t index, const void *item, size_t own_bytes)
{
    uint8_t *to = (uint8_t *)items + index * item_bytes;
    size_t both = own_bytes < item_bytes ? own_bytes : item_bytes;
    memcpy(to, item, both);
    memset(to + both, 0, item_bytes - both);
}

ps_status psi_struct_bytes_check(size_t item_bytes, const char *call, struct psi_err *err)
{
    return item_bytes > 0 && item_bytes <= STRUCT_BYTES_MAX
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT, "%s(): item_bytes is %zu: it must be the size of one entry", call,
                          item_bytes);
}
