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

/** Encode m, a message of type d, to dst. *out_bytes is its length without padding. Errors: PS_RESOURCE_EXHAUSTED (cap). */
PSI_MUST ps_status psi_msg_encode(const pb_msgdesc_t *d, const void *m, uint8_t *dst, size_t cap, size_t *out_bytes,
                                  struct psi_err *err);
/** Decode n bytes, with at most 7 of zero padding at their end. m is valid on PS_OK only. Errors: PS_INVALID_ARGUMENT. */
PSI_MUST ps_status psi_msg_decode(const pb_msgdesc_t *d, void *m, const uint8_t *src, size_t n, struct psi_err *err);

/** Append m with its length. Errors: PS_RESOURCE_EXHAUSTED (b is unchanged), PS_INTERNAL: m has default values only, so that its
 * length would be 0, which ends a list. */
PSI_MUST ps_status psi_list_append(struct psi_buf *b, const pb_msgdesc_t *d, const void *m, struct psi_err *err);
/** Take the next message out of *p, *n, which move on. *out_end: there is none (no bytes, or padding). Errors:
 * PS_INVALID_ARGUMENT naming the message: bad bytes, longer than PS_LIST_ITEM_BYTES_MAX, wrong padding. */
PSI_MUST ps_status psi_list_next(const uint8_t **p, size_t *n, const pb_msgdesc_t *d, void *m, bool *out_end,
                                 struct psi_err *err);

/** Measure, without decoding, the whole items at the front of a list that take `most` bytes at most: their number and bytes,
 * without padding. Errors: as psi_list_next(). */
PSI_MUST ps_status psi_list_measure(const uint8_t *p, size_t n, size_t most, size_t *out_bytes, uint32_t *out_count,
                                    struct psi_err *err);

/** Copy text s to a bytes field of at most cap bytes (PSI_BYTES_SET knows cap); a longer text is cut. Returns the bytes set. */
size_t psi_bytes_set(pb_bytes_array_t *field, size_t cap, const char *s);
/** Copy a bytes field to dst as text with a NUL. Errors: PS_INVALID_ARGUMENT: the field contains a NUL, or dst is too small; dst
 * is "" then. */
PSI_MUST ps_status psi_bytes_text(const pb_bytes_array_t *field, char *dst, size_t cap);
/* psi_bytes_set() and psi_bytes_text() for a named field of a generated struct. */
#define PSI_BYTES_SET(field, s) psi_bytes_set((pb_bytes_array_t *)(void *)&(field), sizeof((field).bytes), (s))
#define PSI_BYTES_TEXT(field, dst, cap) psi_bytes_text((const pb_bytes_array_t *)(const void *)&(field), (dst), (cap))

void psi_part_to_msg(const struct psi_part *from, ps_v1_PartOf *to);
/** All 0 where the message has none. The caller calls psi_part_check(). */
void psi_part_from_msg(const ps_v1_PartOf *from, bool there, struct psi_part *to);
void psi_optimizer_to_msg(const ps_optimizer *from, ps_v1_Optimizer *to);
/** struct_bytes becomes 0: within psd the struct has one size. Hyperparameters are not checked here: psi_optimizer_check().
 * Errors: PS_INVALID_ARGUMENT: unknown kind. */
PSI_MUST ps_status psi_optimizer_from_msg(const ps_v1_Optimizer *from, ps_optimizer *to, struct psi_err *err);
/** Dimensions of a message as a shape; unused ones are 0. The caller calls psi_shape_check(). Errors: PS_INVALID_ARGUMENT: count
 * > PS_RANK_MAX. */
PSI_MUST ps_status psi_shape_from_dims(const int64_t *dims, size_t count, ps_shape *out, struct psi_err *err);

#endif
