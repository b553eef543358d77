/* SPDX-License-Identifier: Apache-2.0 */
/* Structures and functions that are made from the rows of state_rows.h. Each group of rows has a structure psi_state_<group> and
 * a function of that name. The function appends the structure's members to k->out, in the order of the rows. If k->out is NULL,
 * it reads them from k->in. Names, texts, bytes and CRCs that are read are pointers into k->in. Failure: k->st keeps the first
 * error, DATA_LOSS or RESOURCE_EXHAUSTED, and nothing is written or read after it. A structure to be read must be zero; after an
 * error it has what was read. A number is compared only with its row's bound; the caller checks all else. Any thread. */
#ifndef PSI_STATE_CODE_H
#define PSI_STATE_CODE_H

#include "../proto/frame.h"
#include "buf.h"
#include "limits.h"
#include "partition.h"
#include "queue_spec.h"
#include "state_rows.h"

enum { PSI_STATE_WHO_MAX = 133, PSI_STATE_CHIEF_TEXT_MAX = 95 }; /* longest psd_record.who and psd_chief.text, without NUL */

struct psi_code {
    struct psi_buf *out; /* buffer that is written; NULL: `in` is read */
    const uint8_t *in;
    size_t bytes_left;
    uint32_t version; /* format of the state file */
    uint32_t numbers; /* how many of the NUMBERs that the last COUNTED counts are still to come */
    const char *what; /* name of the entry, for errors */
    ps_status st;
    struct psi_err *err;
};

#define PSI_HAS_U8(m, b) uint8_t m;
#define PSI_HAS_U16(m, b) uint16_t m;
#define PSI_HAS_U32(m, b) uint32_t m;
#define PSI_HAS_U64(m, b) uint64_t m;
#define PSI_HAS_I64(m, b) int64_t m;
#define PSI_HAS_F32(m, b) float m;
#define PSI_HAS_F64(m, b) double m;
#define PSI_HAS_FLAG(m, b) bool m;
#define PSI_HAS_NAME(m, b) const char *m;
#define PSI_HAS_TEXT(m, b) const char *m;
#define PSI_HAS_ID(m, b) uint8_t m[b];
#define PSI_HAS_COUNTED(m, b)
#define PSI_HAS_NUMBER(m, b) double m;
#define PSI_HAS_COUNTED_END(m, b)
#define PSI_HAS_NUMBERS(m, b) double m[b];
#define PSI_HAS_ALIGN(m, b)
#define PSI_HAS_BYTES(m, b) const uint8_t *m;
#define PSI_HAS_SUMS(m, b) const uint32_t *m;
#define PSI_HAS_COUNT(m, b) uint32_t m;
#define PSI_HAS_COUNT64(m, b) uint64_t m;
#define PSI_HAS_SHAPE(m, b) ps_shape m;
#define PSI_HAS_OPTIMIZER(m, b) ps_optimizer m;
#define PSI_HAS_INITIALIZER(m, b) ps_initializer m;
#define PSI_HAS_PART(m, b) struct psi_part m;
#define PSI_HAS_SPEC(m, b) struct psi_queue_spec m;
#define PSI_HAS_QUEUE(m, b) struct psi_state_queue m;
#define PSI_HAS_ELEMENT(m, b) struct psi_state_element m;
#define PSI_HAS_SCALARS(m, b) struct psi_state_scalars m;

#define PSI_STATE_MEMBER(type, member, bound, there, text) PSI_HAS_##type(member, bound)
#define PSI_STATE_GROUP(name, ROWS)                                                                                              \
    struct psi_state_##name {                                                                                                    \
        PSI_ROWS_##ROWS(PSI_STATE_MEMBER)                                                                                        \
    };                                                                                                                           \
    void psi_state_##name(struct psi_code *k, struct psi_state_##name *x);
PSI_STATE_GROUPS(PSI_STATE_GROUP)
#undef PSI_STATE_GROUP
#undef PSI_STATE_MEMBER

/** Make k fail with DATA_LOSS because of `what`, a text for people, unless k has failed already. */
void psi_code_wrong(struct psi_code *k, const char *what);
/** Check the end of an entry that was read: padding up to a multiple of 8, whose bytes are not compared, and no more. */
void psi_code_over(struct psi_code *k);

#endif
