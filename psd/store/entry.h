/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of a state file: what a task remembers, thing by thing, by the codec of changes (codec.h). Each function goes in both
 * directions: it writes the thing given, or (k->out == NULL, the thing NULL) reads one and makes it in k->task, whatever its
 * bytes say. Who is referred to comes before: a variable before the records that have begun something there, or taken its
 * elements.
 *
 * Failure: DATA_LOSS, RESOURCE_EXHAUSTED in k->st; then k->task is to be freed.
 */
#ifndef PSD_ENTRY_H
#define PSD_ENTRY_H

#include "codec.h"

#include "common/state_file.h"

/* common/state_file.h says what each is */
enum psd_entry_kind {
    PSD_ENTRY_HEAD = PSI_STATE_HEAD,
    PSD_ENTRY_TASK = PSI_STATE_TASK,
    PSD_ENTRY_CONTAINER = PSI_STATE_CONTAINER,
    PSD_ENTRY_VARIABLE = PSI_STATE_VARIABLE,
    PSD_ENTRY_ELEMENT = PSI_STATE_ELEMENT,
    PSD_ENTRY_RECORD = PSI_STATE_RECORD,
    PSD_ENTRY_STAGED = PSI_STATE_STAGED,
    PSD_ENTRY_CHIEF = PSI_STATE_CHIEF,
    PSD_ENTRY_NAME = PSI_STATE_NAME,
    PSD_ENTRY_RESET = PSI_STATE_RESET,
    PSD_ENTRY_FILE = PSI_STATE_FILE,
    PSD_ENTRY_SUMS = PSI_STATE_SUMS,
    PSD_ENTRY_END = PSI_STATE_END
};

struct psd_entry_head {
    /* volatile: */
    uint64_t magic, number;
    uint32_t version, task;
    char cluster[PS_JOB_BYTES_MAX + 1], job[PS_JOB_BYTES_MAX + 1];
};

struct psd_entry_file {
    /* volatile: */
    uint32_t file; /* from 1 on */
    char container[PS_CONTAINER_BYTES_MAX + 1];
    uint64_t bytes, header_bytes; /* prefix and padding included */
    uint32_t header_sum;
};

struct psd_entry_sums {
    /* volatile: */
    uint64_t creation; /* of the variable */
    uint32_t which;    /* 0: its value; from 1 on: slots */
    uint32_t count;
    uint64_t first;       /* block */
    const uint32_t *sums; /* borrows */
};

struct psd_entry_end {
    /* volatile: */
    uint64_t count; /* of entries before it */
    uint32_t sum;   /* CRC32C of these */
};

void psd_entry_head(struct psd_codec *k, struct psd_entry_head *h);
void psd_entry_task(struct psd_codec *k, struct psd_task *t);
void psd_entry_container(struct psd_codec *k, const struct psd_container *c);
/** v, or the one that was read; NULL: it was wrong. Its values lie in `file`: with a value psd_entry_value() is to follow. */
const struct psd_variable *psd_entry_variable(struct psd_codec *k, const struct psd_variable *v, uint32_t *file);
/** Memory for its value and its slots, to be filled. RESOURCE_EXHAUSTED. */
ps_status psd_entry_value(struct psd_store *s, const struct psd_variable *v, struct psi_err *err) PSI_MUST;
/** index: its place in the queue, from 0 on; of an item that is done any. */
void psd_entry_element(struct psd_codec *k, const struct psd_variable *v, const struct psd_element *e, uint64_t index, bool done);
/** Attempts at queues that are gone are left out. */
void psd_entry_record(struct psd_codec *k, const struct psd_record *r);
/** Bytes [offset, offset + n) of what push `number` of `session` has staged, at p; read: into it. */
void psd_entry_staged(struct psd_codec *k, const uint8_t session[16], uint64_t number, uint64_t offset, const void *p,
                      uint64_t n);
void psd_entry_chief(struct psd_codec *k, const struct psd_chief *c);
/** t: whose peers owners are. Names and resets of tasks that its cluster does not have any more are read, and left out: nobody
 * lists them. */
void psd_entry_name(struct psd_codec *k, const struct psd_task *t, const struct psd_name *n);
void psd_entry_reset(struct psd_codec *k, const struct psd_task *t, const struct psd_reset *r);
void psd_entry_file(struct psd_codec *k, struct psd_entry_file *f);
void psd_entry_sums(struct psd_codec *k, struct psd_entry_sums *s);
void psd_entry_end(struct psd_codec *k, struct psd_entry_end *e);
/** All of a task is read: what it says of its queues fits what is in them. */
void psd_entry_complete(struct psd_codec *k);

#endif
