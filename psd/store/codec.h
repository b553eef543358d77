/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of what a task remembers, in both directions: a function of one kind walks over its members and writes them, or reads and
 * resolves them in a task. Used for changes (change.c) and for the entries of a checkpoint (entry.c).
 *
 * Little-endian: numbers in their width, a text as u16 length (all ones: NULL), bytes and NUL, a record as its session's id, a
 * variable as its creation number; psd_code_align() fills up to a multiple of 8, in memory too where it is read.
 */
#ifndef PSD_CODEC_H
#define PSD_CODEC_H

#include "commit.h"

/* What is read may point to it. */
struct psd_code_storage {
    struct psd_definition definition;
    struct psi_queue_spec queue;
    struct psd_making making;
    struct psd_optim_scalars scalars;
    struct psd_rounds_def rounds;
};

struct psd_codec {
    struct psi_buf *out; /* NULL: it reads */
    const uint8_t *in;
    size_t left;
    struct psd_task *task; /* where it is resolved; NULL while it writes */
    struct psd_code_storage *storage;
    bool without_pins; /* format 1 of a state file, which it reads, has none */
    const char *what;  /* it is, for errors */
    ps_status st;
    struct psi_err *err;
};

/** DATA_LOSS, unless something was wrong before. */
void psd_code_wrong(struct psd_codec *k, const char *what);
void psd_code_raw(struct psd_codec *k, void *p, size_t n);
#define PSD_CODE(k, x) psd_code_raw(k, &(x), sizeof(x))
void psd_code_flag(struct psd_codec *k, bool *x);
void psd_code_align(struct psd_codec *k);
/** At most max bytes and a NUL; NULL is written as such. Read, it lies in the bytes, as what psd_code_array() gives. */
void psd_code_text(struct psd_codec *k, const char **s, size_t max);
/** The same, never NULL. */
void psd_code_name(struct psd_codec *k, const char **s, size_t max);
/** A record, a variable, a container that is there. */
void psd_code_record(struct psd_codec *k, struct psd_record **r);
void psd_code_variable(struct psd_codec *k, const struct psd_variable **v);
void psd_code_container(struct psd_codec *k, const struct psd_container **c);
/** n things of `each` bytes, aligned; read where they lie. */
const void *psd_code_array(struct psd_codec *k, const void *p, uint64_t n, size_t each);
/** Into k->storage where it is read; not checked. */
void psd_code_definition(struct psd_codec *k, const struct psd_definition **d);
void psd_code_queue_spec(struct psd_codec *k, const struct psi_queue_spec **spec);

#endif
