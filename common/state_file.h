/* SPDX-License-Identifier: Apache-2.0 */
/* The framing of a checkpoint's state file: what a task remembered, as entries in blocks (docs/DURABILITY.md, section 3). The
 * readers are psd, which loads it (psd/store/load.c), and programs that verify it or read its values (saved.h). Happy path:
 * psi_state_begin(), then psi_state_block() for each block, until psi_state_is_over(). CRC and number of a block are checked
 * before its entries are used. Whole entries go to the caller, in order, without the last one, which has their count and CRC.
 * Failure: DATA_LOSS says what is wrong where. */
#ifndef PSI_STATE_FILE_H
#define PSI_STATE_FILE_H

#include "state_code.h"

/* A block is its payload and a BLOCK_END (state_rows.h). An entry is an ENTRY_HEAD and as many bytes as this head says. */
#define PSI_STATE_BLOCK_BYTES ((size_t)64 << 10)
#define PSI_STATE_PAYLOAD_BYTES (PSI_STATE_BLOCK_BYTES - 8)
#define PSI_STATE_ENTRY_HEAD_BYTES ((size_t)16)
#define PSI_STATE_MAGIC UINT64_C(0x6574617473647370) /* "psdstate" */

enum psi_state_kind {
#define PSI_STATE_KIND(name, number, text) PSI_STATE_##name = (number),
    PSI_STATE_ENTRIES(PSI_STATE_KIND)
#undef PSI_STATE_KIND
};

static inline bool psi_state_kind_known(uint32_t kind)
{
    return kind >= PSI_STATE_HEAD && kind <= PSI_STATE_END;
}

struct psi_state_entry {
    uint32_t kind;
    const uint8_t *data; /* 8-aligned; owned by the reader, valid during the call */
    uint64_t bytes;
};
typedef ps_status (*psi_state_entry_fn)(void *ctx, const struct psi_state_entry *e, struct psi_err *err);

struct psi_state_reader {
    uint64_t file_bytes, block_number;
    struct psi_buf stream; /* bytes of an entry that is not whole yet */
    uint64_t entry_count;
    uint32_t entry_sum; /* CRC32C of all entries so far */
    uint32_t file_sum;  /* CRC32C of all blocks, each without its own CRC */
    uint32_t count_sum; /* CRC32C of all blocks with their own CRCs, so it depends on their number only */
    bool ended;
};

/** Begin to read a state file of file_bytes. After a failure, too, call psi_state_fini(). DATA_LOSS: an impossible size. */
ps_status psi_state_begin(struct psi_state_reader *r, uint64_t file_bytes, struct psi_err *err) PSI_MUST;
void psi_state_fini(struct psi_state_reader *r);
/** True if the file, which was read whole before, has this CRC from the manifest. psd's first releases wrote a CRC that fits
 * every file with this number of blocks. */
bool psi_state_is(const struct psi_state_reader *r, uint32_t sum);
/** Check the next PSI_STATE_BLOCK_BYTES; call fn for each entry now whole. Errors: DATA_LOSS, RESOURCE_EXHAUSTED, fn's. */
ps_status psi_state_block(struct psi_state_reader *r, const uint8_t *block, psi_state_entry_fn fn, void *ctx,
                          struct psi_err *err) PSI_MUST;
/** Finish a block whose payload has been written: write its number and its CRC behind the payload. */
void psi_state_seal(uint8_t *block, uint32_t number);
/** Write an entry's head to `entry` [PSI_STATE_ENTRY_HEAD_BYTES]. bytes: length of what follows the head. */
void psi_state_entry_begin(uint8_t *entry, uint64_t bytes, enum psi_state_kind kind);
/** True if all blocks of the file were read, and were good. */
bool psi_state_is_over(const struct psi_state_reader *r);

#endif
