/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and seals blocks of a state file. The CRC of a block is compared, its payload is appended to the incomplete entry of the
 * blocks before, and whole entries go to the caller. DATA_LOSS says what is wrong where. */
#include "state_file.h"

#include "crc32c.h"

#include <string.h>

ps_status psi_state_begin(struct psi_state_reader *r, uint64_t file_bytes, struct psi_err *err)
{
    memset(r, 0, sizeof(*r));
    r->file_bytes = file_bytes;
    psi_buf_init(&r->stream, SIZE_MAX);
    if (file_bytes == 0 || file_bytes % PSI_STATE_BLOCK_BYTES != 0 || file_bytes / PSI_STATE_BLOCK_BYTES > UINT32_MAX) {
        return psi_fail(err, PS_DATA_LOSS, "it has been cut, or is none: its length is not a multiple of 64 KiB");
    }
    return PS_OK;
}

void psi_state_fini(struct psi_state_reader *r)
{
    psi_buf_fini(&r->stream);
}

bool psi_state_is_over(const struct psi_state_reader *r)
{
    return r->ended && r->block_number * PSI_STATE_BLOCK_BYTES == r->file_bytes;
}

static ps_status take_end(struct psi_state_reader *r, const struct psi_state_entry *e, struct psi_err *err)
{
    struct psi_code k = {.in = e->data, .bytes_left = e->bytes};
    struct psi_state_end end = {.count = 0};
    psi_state_end(&k, &end);
    psi_code_over(&k);
    if (k.st != PS_OK) {
        return psi_fail(err, PS_DATA_LOSS, "its end is none");
    }
    r->ended = true;
    return end.count == r->entry_count && end.sum == r->entry_sum ? PS_OK : psi_fail(err, PS_DATA_LOSS, "entries are missing");
}

/* Check that HEAD and TASK, which say whose state it is, are the first two entries, and no others. */
static ps_status check_order(const struct psi_state_reader *r, uint32_t kind, struct psi_err *err)
{
    bool good = (r->entry_count == 0) == (kind == PSI_STATE_HEAD) && (r->entry_count == 1) == (kind == PSI_STATE_TASK);
    return good ? PS_OK : psi_fail(err, PS_DATA_LOSS, "it does not begin with whose state it is");
}

static ps_status entries(struct psi_state_reader *r, psi_state_entry_fn fn, void *ctx, struct psi_err *err)
{
    size_t at = 0;
    ps_status st = PS_OK;
    while (st == PS_OK && !r->ended && r->stream.len - at >= PSI_STATE_ENTRY_HEAD_BYTES) {
        const uint8_t *p = r->stream.data + at;
        struct psi_code k = {.in = p, .bytes_left = PSI_STATE_ENTRY_HEAD_BYTES};
        struct psi_state_entry_head head = {.bytes = 0};
        psi_state_entry_head(&k, &head);
        const struct psi_state_entry e = {.kind = head.kind, .data = k.in, .bytes = head.bytes};
        if (e.bytes % 8 != 0 || e.bytes > r->file_bytes || head.zero != 0) {
            return psi_fail(err, PS_DATA_LOSS, "an entry that does not begin as one");
        }
        if (e.bytes > r->stream.len - at - PSI_STATE_ENTRY_HEAD_BYTES) {
            break;
        }
        st = check_order(r, e.kind, err);
        if (st == PS_OK) {
            st = e.kind == PSI_STATE_END ? take_end(r, &e, err) : fn(ctx, &e, err);
        }
        r->entry_count++;
        r->entry_sum = psi_crc32c(r->entry_sum, p, PSI_STATE_ENTRY_HEAD_BYTES + e.bytes);
        at += PSI_STATE_ENTRY_HEAD_BYTES + e.bytes;
    }
    if (at > 0) {
        memmove(r->stream.data, r->stream.data + at, r->stream.len - at);
        r->stream.len -= at;
    }
    return st;
}

static ps_status check_end(const struct psi_state_reader *r, struct psi_err *err)
{
    if (!r->ended) {
        return psi_fail(err, PS_DATA_LOSS, "it has no end");
    }
    for (size_t i = 0; i < r->stream.len; i++) {
        if (r->stream.data[i] != 0) {
            return psi_fail(err, PS_DATA_LOSS, "there is something behind its end");
        }
    }
    return PS_OK;
}

bool psi_state_is(const struct psi_state_reader *r, uint32_t sum)
{
    return r->file_sum == sum || r->count_sum == sum;
}

ps_status psi_state_block(struct psi_state_reader *r, const uint8_t *block, psi_state_entry_fn fn, void *ctx, struct psi_err *err)
{
    struct psi_code k = {.in = block + PSI_STATE_PAYLOAD_BYTES, .bytes_left = PSI_STATE_BLOCK_BYTES - PSI_STATE_PAYLOAD_BYTES};
    struct psi_state_block_end end = {.number = 0};
    psi_state_block_end(&k, &end);
    if (end.sum != psi_crc32c(0, block, PSI_STATE_BLOCK_BYTES - sizeof(end.sum)) || end.number != r->block_number) {
        return psi_fail(err, PS_DATA_LOSS, "block %llu is not as it was written", (unsigned long long)r->block_number);
    }
    if (r->ended) {
        return psi_fail(err, PS_DATA_LOSS, "there is something behind its end");
    }
    if (psi_buf_append(&r->stream, block, PSI_STATE_PAYLOAD_BYTES, NULL) != PS_OK) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory for its entries");
    }
    r->file_sum = psi_crc32c(r->file_sum, block, PSI_STATE_BLOCK_BYTES - sizeof(end.sum));
    r->count_sum = psi_crc32c(r->count_sum, block, PSI_STATE_BLOCK_BYTES);
    r->block_number++;
    ps_status st = entries(r, fn, ctx, err);
    return st == PS_OK && r->block_number * PSI_STATE_BLOCK_BYTES == r->file_bytes ? check_end(r, err) : st;
}

static struct psi_code code_into(struct psi_buf *b)
{
    return (struct psi_code){.out = b, .version = PSI_STATE_VERSION};
}

void psi_state_seal(uint8_t *block, uint32_t number)
{
    struct psi_state_block_end end = {.number = number};
    for (int i = 0; i < 2; i++) { /* two passes: the first writes the block's number, the second the CRC, which covers it */
        struct psi_buf b = {
            .data = block, .len = PSI_STATE_PAYLOAD_BYTES, .capacity = PSI_STATE_BLOCK_BYTES, .max = PSI_STATE_BLOCK_BYTES};
        struct psi_code k = code_into(&b);
        psi_state_block_end(&k, &end);
        end.sum = i > 0 ? 0 : psi_crc32c(0, block, PSI_STATE_BLOCK_BYTES - sizeof(end.sum));
    }
}

void psi_state_entry_begin(uint8_t *entry, uint64_t bytes, enum psi_state_kind kind)
{
    struct psi_state_entry_head head = {.bytes = bytes, .kind = kind};
    struct psi_buf b = {.data = entry, .capacity = PSI_STATE_ENTRY_HEAD_BYTES, .max = PSI_STATE_ENTRY_HEAD_BYTES};
    struct psi_code k = code_into(&b);
    psi_state_entry_head(&k, &head);
}
