/* SPDX-License-Identifier: Apache-2.0 */
/* The form of each operation: flags, header fields, meta and body of its frames. A peer that uses anything else breaks the
 * protocol, and its connection is closed. One table for both sides; docs/PROTOCOL.md shows it. */
#ifndef PSI_FORM_H
#define PSI_FORM_H

#include "../proto/frame.h"
#include "status.h"

/* Bits of psi_form.has: header fields that a request may use, and properties of the operation. */
enum {
    PSI_FORM_HANDLE = 1,
    PSI_FORM_DTYPE = 2,
    PSI_FORM_OFFSET = 4,
    PSI_FORM_NO_ID = 8,
    PSI_FORM_LIST = 16,   /* a reply's list may go on in further frames (flag MORE) */
    PSI_FORM_VALUES = 32, /* a reply without error, or a frame with new values, has values: dtype, pull reply meta, trailer */
    PSI_FORM_UNASKED = 64 /* sent without a request and without an answer; offset may be used */
};

struct psi_form {
    uint8_t op; /* enum ps_op */
    const char *name;
    uint8_t has;
    /* flags that a request must have, and those that it may have; CRC is always allowed, REPLY and VALUE never are */
    uint16_t must, may;
    const char *meta;   /* meta of a request: a message, or a struct of proto/frame.h; NULL: none */
    const char *body;   /* body of a request: items of a list, or "values", "input"; NULL: none */
    const char *answer; /* body of a reply without error: items of a list, or what the bytes are; NULL: none */
};

/** The form of an operation; NULL: no such operation. Any thread, as for all functions here. */
const struct psi_form *psi_form_find(uint8_t op);
const char *psi_op_name(uint8_t op);
/** Check that a frame (header h, meta of h->meta_bytes) has the form of its operation, but not whether the peer may send it now.
 * After PS_OK a reply's meta is complete and in range. A request's fixed meta may still have a wrong length: the handler refuses
 * it. Errors: INVALID_ARGUMENT with the operation and what is wrong: close the connection. */
PSI_MUST ps_status psi_form_check(const struct ps_frame_header *h, const uint8_t *meta, struct psi_err *err);

/** Check that this side has all features that peer `who` requires in its HELLO. UNIMPLEMENTED names unknown ones. */
PSI_MUST ps_status psi_features_check(uint64_t needs, const char *who, struct psi_err *err);

#endif
