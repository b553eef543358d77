/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages (proto/control.proto) as both sides read and write them: plain messages (a meta), control lists (messages,
 * each preceded by its length as a varint), text in `bytes` fields, optimizers. Pure, any thread. */
#ifndef PSI_MSG_H
#define PSI_MSG_H

#include "buf.h"
#include "control.pb.h"
#include "partition.h"

/** The container of a program that names none. */
#define PSI_CONTAINER_DEFAULT "localhost"

/** Encode m, a message of type d, to dst. *out_bytes: length without padding. Errors: RESOURCE_EXHAUSTED (longer than cap). */
PSI_MUST ps_status psi_msg_encode(const pb_msgdesc_t *d, const void *m, uint8_t *dst, size_t cap, size_t *out_bytes,
                                  struct psi_err *err);
/** Decode n bytes, of which at most 7 at the end are zero padding. m is valid on PS_OK only. Errors: PS_INVALID_ARGUMENT. */
PSI_MUST ps_status psi_msg_decode(const pb_msgdesc_t *d, void *m, const uint8_t *src, size_t n, struct psi_err *err);

/** Append m with its length. PS_RESOURCE_EXHAUSTED: b is unchanged; PS_INTERNAL: m is longer than PS_LIST_ITEM_BYTES_MAX, or has
 * length 0 (all its fields have their defaults), which would end the list. */
PSI_MUST ps_status psi_list_append(struct psi_buf *b, const pb_msgdesc_t *d, const void *m, struct psi_err *err);
/** psi_list_append() of a message that has the fields of m and, behind them, the encoded fields at more [more_bytes]. */
PSI_MUST ps_status psi_list_append_with(struct psi_buf *b, const pb_msgdesc_t *d, const void *m, const uint8_t *more,
                                        size_t more_bytes, struct psi_err *err);
/** Take the next message out of *p, *n, which move on. *out_end true: the list has ended (no bytes are left, or padding). Errors:
 * PS_INVALID_ARGUMENT naming the message: bad bytes, longer than PS_LIST_ITEM_BYTES_MAX, wrong padding. */
PSI_MUST ps_status psi_list_next(const uint8_t **p, size_t *n, const pb_msgdesc_t *d, void *m, bool *out_end,
                                 struct psi_err *err);

/* A walk over the items of a list, which must not change meanwhile. */
struct psi_items {
    const uint8_t *at;
    size_t bytes_left;
    ps_status st; /* PS_OK, or why the walk has ended before the end of the list; the caller may set it, to end the walk */
};
/** Take the next item. False: the list has ended, or items->st is not PS_OK; errors as psi_list_next(). */
bool psi_items_next(struct psi_items *items, const pb_msgdesc_t *d, void *m, struct psi_err *err);

/** Count the items at the front of a list that lie whole within `most` bytes, without decoding them. *out_bytes: their length
 * together. Errors: as psi_list_next(). */
PSI_MUST ps_status psi_list_measure(const uint8_t *p, size_t n, size_t most, size_t *out_bytes, uint32_t *out_count,
                                    struct psi_err *err);

/** Copy text s, cut to cap bytes, to a bytes field (PSI_BYTES_SET() takes cap from the field). Returns the bytes copied. */
size_t psi_bytes_set(pb_bytes_array_t *field, size_t cap, const char *s);
/** A bytes field as text with a NUL. PS_INVALID_ARGUMENT, and dst is "": the field contains a NUL, or dst is too small. */
PSI_MUST ps_status psi_bytes_text(const pb_bytes_array_t *field, char *dst, size_t cap);
#define PSI_BYTES_SET(field, s) psi_bytes_set((pb_bytes_array_t *)(void *)&(field), sizeof((field).bytes), (s))
#define PSI_BYTES_TEXT(field, dst, cap) psi_bytes_text((const pb_bytes_array_t *)(const void *)&(field), (dst), (cap))

void psi_part_to_msg(const struct psi_part *from, ps_v1_PartOf *to);
/** Read which part of a variable a message is about. `there` false: none, *to becomes 0. The caller calls psi_part_check(). */
void psi_part_from_msg(const ps_v1_PartOf *from, bool there, struct psi_part *to);
void psi_optimizer_to_msg(const ps_optimizer *from, ps_v1_Optimizer *to);
/** Read an optimizer from a message. Its struct_bytes becomes 0. The caller checks the hyperparameters by psi_optimizer_check().
 * PS_INVALID_ARGUMENT: unknown kind. */
PSI_MUST ps_status psi_optimizer_from_msg(const ps_v1_Optimizer *from, ps_optimizer *to, struct psi_err *err);
/** Make a shape of dims [count] in a message. The caller does psi_shape_check(). PS_INVALID_ARGUMENT: count > PS_RANK_MAX. */
PSI_MUST ps_status psi_shape_from_dims(const int64_t *dims, size_t count, ps_shape *out, struct psi_err *err);

#endif
