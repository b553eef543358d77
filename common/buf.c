/* SPDX-License-Identifier: Apache-2.0 */
/* A growable buffer, which doubles its capacity up to max. A failed call leaves the buffer unchanged. */
#include "buf.h"

#include "mem.h"

#include <stdio.h>
#include <string.h>

enum { FIRST_CAPACITY = 64 };

void psi_buf_init(struct psi_buf *b, size_t max)
{
    *b = (struct psi_buf){.max = max};
}

void psi_buf_fini(struct psi_buf *b)
{
    psi_free(b->data);
    psi_buf_init(b, b->max);
}

void psi_buf_clear(struct psi_buf *b)
{
    b->len = 0;
}

ps_status psi_buf_reserve(struct psi_buf *b, size_t n, struct psi_err *err)
{
    if (n <= b->capacity - b->len) {
        return PS_OK;
    }
    if (n > b->max - b->len) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "buffer: %zu bytes and %zu more are over its maximum of %zu", b->len, n,
                        b->max);
    }
    size_t need = b->len + n;
    size_t capacity = b->capacity < FIRST_CAPACITY ? FIRST_CAPACITY : b->capacity;
    while (capacity < need) {
        capacity = capacity > b->max / 2 ? b->max : capacity * 2;
    }
    if (capacity > b->max) {
        capacity = b->max;
    }
    uint8_t *data = psi_realloc(b->data, capacity);
    if (data == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "buffer: out of memory for %zu bytes", capacity);
    }
    b->data = data;
    b->capacity = capacity;
    return PS_OK;
}

ps_status psi_buf_append(struct psi_buf *b, const void *p, size_t n, struct psi_err *err)
{
    if (n == 0) {
        return PS_OK;
    }
    ps_status st = psi_buf_reserve(b, n, err);
    if (st != PS_OK) {
        return st;
    }
    memcpy(b->data + b->len, p, n);
    b->len += n;
    return PS_OK;
}

ps_status psi_buf_append_text(struct psi_buf *b, const char *text, struct psi_err *err)
{
    return psi_buf_append(b, text, strlen(text), err);
}

ps_status psi_buf_printf(struct psi_buf *b, struct psi_err *err, const char *format, ...)
{
    char small[256];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(small, sizeof(small), format, ap);
    va_end(ap);
    if (n < 0) {
        return psi_fail(err, PS_INTERNAL, "buffer: text cannot be formatted");
    }
    size_t len = (size_t)n;
    if (len < sizeof(small)) {
        return psi_buf_append(b, small, len, err);
    }
    char *large = psi_malloc(len + 1); /* vsnprintf() writes a NUL, for which the buffer may have no room */
    if (large == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "buffer: out of memory for %zu bytes", len + 1);
    }
    va_start(ap, format);
    PSI_IGNORE(vsnprintf(large, len + 1, format, ap));
    va_end(ap);
    ps_status st = psi_buf_append(b, large, len, err);
    psi_free(large);
    return st;
}

const char *psi_buf_text(struct psi_buf *b)
{
    if (psi_buf_reserve(b, 1, NULL) != PS_OK) {
        return NULL;
    }
    b->data[b->len] = '\0';
    return (const char *)b->data;
}

const uint8_t *psi_lent_find(const void *plain, const struct psi_lent *lents, uint32_t lent_count, size_t offset, size_t end,
                             size_t *out_bytes)
{
    size_t before = 0; /* how many bytes before the offset lie in `lents`, and so not at `plain` */
    for (uint32_t i = 0; i < lent_count; i++) {
        const struct psi_lent *l = &lents[i];
        if (offset < l->at) {
            end = l->at;
            break;
        }
        if (offset - l->at < l->bytes) {
            *out_bytes = l->at + l->bytes - offset;
            return (const uint8_t *)l->data + (offset - l->at);
        }
        before += l->bytes;
    }
    *out_bytes = end - offset;
    return (const uint8_t *)plain + (offset - before);
}

void psi_buf_check_invariants(const struct psi_buf *b)
{
    PSI_ASSERT(b->len <= b->capacity && b->capacity <= b->max);
    PSI_ASSERT((b->data == NULL) == (b->capacity == 0));
}
