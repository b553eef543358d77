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
void psi_buf_check_invariants(const struct psi_buf *b);

#endif
