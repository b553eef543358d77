/* SPDX-License-Identifier: Apache-2.0 */
/* The form of each operation: which flags, header fields, meta and body its frames have. Anything else that is set in a frame is
 * reserved: the connection of a peer that sets it is closed, because we do not understand that peer. One table for both sides;
 * docs/PROTOCOL.md shows it (scripts/protocol writes it there). */
#ifndef PSI_FORM_H
#define PSI_FORM_H

#include "../proto/frame.h"
#include "status.h"

/* Header fields that a request may use, and marks of an operation. */
enum {
    PSI_FORM_HANDLE = 1,
    PSI_FORM_DTYPE = 2,
    PSI_FORM_OFFSET = 4,
    PSI_FORM_NO_ID = 8,   /* id is 0 */
    PSI_FORM_LIST = 16,   /* the list of a reply may continue in further frames (MORE) */
    PSI_FORM_VALUES = 32, /* the good reply, or a VALUE frame, has values: dtype, pull reply meta, trailer */
    PSI_FORM_UNASKED = 64 /* neither request nor reply; offset may be used */
};

struct psi_form {
    uint8_t op; /* enum ps_op */
    const char *name;
    uint8_t has;
    uint16_t must, may; /* flags of a request. CRC is allowed for all, REPLY and VALUE for none */
    const char *meta;   /* of a request: a message, or a struct of proto/frame.h; NULL: none */
    const char *body;   /* of a request: items of a list, or "values", "input"; NULL: none */
    const char *answer; /* body of a good reply, in the words of `body` */
};

/** NULL: no such operation. Any thread, as all functions here. */
const struct psi_form *psi_form_find(uint8_t op);
/** Name of an operation for people; "?": no such operation. */
const char *psi_op_name(uint8_t op);
/**
 * Check that a frame, of header h and a meta of h->meta_bytes, has the form of its operation. The caller checks whose turn it is
 * to send one. A good reply's meta is complete: its fields are in range and their lengths fit.
 * Errors: INVALID_ARGUMENT naming the operation and what does not belong there: close the connection. A fixed meta of another
 * length in a request passes: the operation's handler refuses it.
 */
PSI_MUST ps_status psi_form_check(const struct ps_frame_header *h, const uint8_t *meta, struct psi_err *err);

/** Check the features that `who` needs, by HELLO. Errors: UNIMPLEMENTED, reason FEATURE, naming the unknown bits. */
PSI_MUST ps_status psi_features_check(uint64_t needs, const char *who, struct psi_err *err);

#endif
