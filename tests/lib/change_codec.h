/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoding and decoding of changes (change_code.c). A function per kind walks over the members of a change. It writes them, or
 * it reads them and looks up in a task what they name.
 *
 * Little-endian: numbers in their width; a text as u16 length (all ones: NULL), bytes and NUL; a record as its session's id;
 * a variable as its creation number. psd_code_align() fills up to a multiple of 8; bytes to be read are 8-aligned in memory.
 */
#ifndef CHANGE_CODEC_H
#define CHANGE_CODEC_H

#include "psd/store/commit.h"

/* What a decoded thing may point to. */
struct psd_code_storage {
    struct psd_definition definition;
    struct psi_queue_spec queue;
    struct psd_making making;
    struct psd_optim_scalars scalars;
    struct psd_rounds_def rounds;
};

struct psd_codec {
    struct psi_buf *out; /* NULL: decode */
    const uint8_t *in;
    size_t left;
    struct psd_task *task; /* task in which names are looked up; NULL while encoding */
    struct psd_code_storage *storage;
    const char *what;
    ps_status st;
    struct psi_err *err;
};

/** Fail with DATA_LOSS. An earlier failure stays. */
void psd_code_wrong(struct psd_codec *k, const char *what);
void psd_code_raw(struct psd_codec *k, void *p, size_t n);
#define PSD_CODE(k, x) psd_code_raw(k, &(x), sizeof(x))
void psd_code_flag(struct psd_codec *k, bool *x);
void psd_code_align(struct psd_codec *k);
/** At most max bytes and a NUL; NULL is encoded as such. A decoded text lies in the input. */
void psd_code_text(struct psd_codec *k, const char **s, size_t max);
/** As psd_code_text(), but NULL is refused. */
void psd_code_name(struct psd_codec *k, const char **s, size_t max);
/** Decoding looks up a record, variable or container that the task must have. */
void psd_code_record(struct psd_codec *k, struct psd_record **r);
void psd_code_variable(struct psd_codec *k, const struct psd_variable **v);
void psd_code_container(struct psd_codec *k, const struct psd_container **c);
/** n things of `each` bytes, aligned. A decoded array lies in the input. */
const void *psd_code_array(struct psd_codec *k, const void *p, uint64_t n, size_t each);
/** Decoded into k->storage, and not checked. */
void psd_code_definition(struct psd_codec *k, const struct psd_definition **d);
void psd_code_queue_spec(struct psd_codec *k, const struct psi_queue_spec **spec);

#endif
