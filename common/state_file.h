/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state file of a checkpoint: what a task remembered, as entries in blocks (docs/DURABILITY.md, section 3). Its framing, for
 * all who read one: psd that loads it (psd/store/load.c), and who only verifies it or wants its values (saved.h).
 *
 * Happy path: psi_state_begin() -> block after block, each compared with its CRC and its number; entries that are whole go to
 * the caller, in their order, without the last one, which says how many there are and what their CRC is -> psi_state_is_over().
 * Failure: DATA_LOSS says what is wrong where. Nothing is believed before its block's CRC is right.
 */
#ifndef PSI_STATE_FILE_H
#define PSI_STATE_FILE_H

#include "buf.h"

/* A block: payload, its number from 0 on u32, CRC32C of all before u32. */
#define PSI_STATE_BLOCK_BYTES ((size_t)64 << 10)
#define PSI_STATE_PAYLOAD_BYTES (PSI_STATE_BLOCK_BYTES - 8)
#define PSI_STATE_ENTRY_HEAD_BYTES ((size_t)16)      /* bytes of what follows u64, a multiple of 8; kind u32; 0 u32 */
#define PSI_STATE_MAGIC UINT64_C(0x6574617473647370) /* "psdstate" */
enum { PSI_STATE_VERSION = 2 };

enum psi_state_kind {
    PSI_STATE_HEAD = 1, /* the first one: whose state it is */
    PSI_STATE_TASK,     /* the second one: its numbers */
    PSI_STATE_CONTAINER,
    PSI_STATE_VARIABLE, /* or a queue, without what is in it */
    PSI_STATE_ELEMENT,  /* of a queue, in the queue's order */
    PSI_STATE_RECORD,   /* of a session, with what it has taken */
    PSI_STATE_STAGED,   /* bytes of a push in progress */
    PSI_STATE_CHIEF,
    PSI_STATE_NAME,
    PSI_STATE_RESET,
    PSI_STATE_FILE, /* of values */
    PSI_STATE_SUMS, /* CRCs of a variable's values or slots there */
    PSI_STATE_END   /* the last one */
};

struct psi_state_entry {
    uint32_t kind;
    const uint8_t *data; /* aligned to 8; the reader's, during the call */
    uint64_t bytes;
};
typedef ps_status (*psi_state_entry_fn)(void *ctx, const struct psi_state_entry *e, struct psi_err *err);

struct psi_state_reader {
    uint64_t file_bytes, block_number;
    struct psi_buf stream; /* of an entry that is not whole */
    uint64_t entry_count;
    uint32_t entry_sum; /* CRC32C of all entries so far */
    uint32_t
        file_sum; /* ... of all blocks without their own CRCs: with them it would say how many blocks they are, and no more */
    uint32_t count_sum; /* ... with them */
    bool ended;
};

/** r is set in any case: psi_state_fini(). DATA_LOSS for a size that no state file has. */
ps_status psi_state_begin(struct psi_state_reader *r, uint64_t file_bytes, struct psi_err *err) PSI_MUST;
void psi_state_fini(struct psi_state_reader *r);
/** All of it was read: it is the file of this CRC, that of a manifest. One of those that psd wrote first fits every file of so
 * many blocks. */
bool psi_state_is(const struct psi_state_reader *r, uint32_t sum);
/** The next PSI_STATE_BLOCK_BYTES. DATA_LOSS, RESOURCE_EXHAUSTED, and what fn returns. */
ps_status psi_state_block(struct psi_state_reader *r, const uint8_t *block, psi_state_entry_fn fn, void *ctx,
                          struct psi_err *err) PSI_MUST;
/** All blocks were there, and good. */
bool psi_state_is_over(const struct psi_state_reader *r);

#endif
