/* SPDX-License-Identifier: Apache-2.0 */
/* A growable byte buffer with a mandatory maximum. Invariant: len <= capacity <= max. One thread at a time. */
#ifndef PSI_BUF_H
#define PSI_BUF_H

#include "status.h"

struct psi_buf {
    uint8_t *data; /* NULL while capacity is 0; has no NUL at its end */
    size_t len;
    size_t capacity;
    size_t max;
};

void psi_buf_init(struct psi_buf *b, size_t max);
/** Free the memory; the buffer is empty afterwards and can be used again. */
void psi_buf_fini(struct psi_buf *b);
void psi_buf_clear(struct psi_buf *b);
/** The following functions fail with PS_RESOURCE_EXHAUSTED at max or without memory. A failure leaves the buffer unchanged. */
PSI_MUST ps_status psi_buf_reserve(struct psi_buf *b, size_t n, struct psi_err *err);
PSI_MUST ps_status psi_buf_append(struct psi_buf *b, const void *p, size_t n, struct psi_err *err);
PSI_MUST ps_status psi_buf_append_text(struct psi_buf *b, const char *text, struct psi_err *err);
PSI_MUST ps_status psi_buf_printf(struct psi_buf *b, struct psi_err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** The bytes with a NUL behind them, which len does not count. NULL: no memory for the NUL. */
const char *psi_buf_text(struct psi_buf *b);
/* A piece of a byte sequence that lies outside the buffer which has the rest of the sequence. */
struct psi_lent {
    size_t at; /* offset of the piece in the sequence */
    const void *data;
    size_t bytes; /* at least 1 */
};
/** Return the address of the byte at `offset` of a sequence of `end` bytes. The pieces lents [lent_count], in rising order of
 * `at`, are parts of the sequence; all its other bytes lie at `plain` without gaps. *out_bytes: how many bytes of the sequence,
 * from this byte on, lie side by side in memory. */
const uint8_t *psi_lent_find(const void *plain, const struct psi_lent *lents, uint32_t lent_count, size_t offset, size_t end,
                             size_t *out_bytes);
void psi_buf_check_invariants(const struct psi_buf *b);

#endif
