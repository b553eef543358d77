/* SPDX-License-Identifier: Apache-2.0 */
/* A growable byte buffer with a mandatory maximum. Invariant: len <= capacity <= max. One thread at a time. */
#ifndef PSI_BUF_H
#define PSI_BUF_H

#include "status.h"

struct psi_buf {
    uint8_t *data; /* NULL while capacity is 0; not NUL-terminated */
    size_t len;
    size_t capacity;
    size_t max;
};

/** An empty buffer; allocates nothing. */
void psi_buf_init(struct psi_buf *b, size_t max);
/** Free the memory; the buffer is as after init. */
void psi_buf_fini(struct psi_buf *b);
void psi_buf_clear(struct psi_buf *b);
/** The following functions fail with PS_RESOURCE_EXHAUSTED at max or out of memory; the buffer is unchanged then. */
/** Make room for n further bytes at data + len. */
PSI_MUST ps_status psi_buf_reserve(struct psi_buf *b, size_t n, struct psi_err *err);
PSI_MUST ps_status psi_buf_append(struct psi_buf *b, const void *p, size_t n, struct psi_err *err);
PSI_MUST ps_status psi_buf_append_text(struct psi_buf *b, const char *text, struct psi_err *err);
/** Append what printf would write, without NUL. */
PSI_MUST ps_status psi_buf_printf(struct psi_buf *b, struct psi_err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** The bytes with a NUL behind them (not counted in len). NULL: no room for the NUL. */
const char *psi_buf_text(struct psi_buf *b);
/* Bytes that belong to a sequence and lie elsewhere than its other bytes, which are in one buffer. */
struct psi_lent {
    size_t at; /* offset of the first byte in the whole sequence */
    const void *data;
    size_t bytes; /* at least 1 */
};
/** The byte at `offset` of a sequence that has it: `plain` with lents [lent_count], in rising order, between its bytes.
 * *out_bytes: how many bytes of the sequence are in one piece from there on, as far as `end`, the length of the sequence. */
const uint8_t *psi_lent_find(const void *plain, const struct psi_lent *lents, uint32_t lent_count, size_t offset, size_t end,
                             size_t *out_bytes);
void psi_buf_check_invariants(const struct psi_buf *b);

#endif
