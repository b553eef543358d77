/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form of each operation: which flags, header fields, meta and body its frames have. Whatever else is set in a frame is
 * reserved, and a peer that sets it is one that we do not understand: the connection is closed. One table for both sides;
 * docs/PROTOCOL.md shows it (scripts/protocol writes it there).
 */
#ifndef PSI_FORM_H
#define PSI_FORM_H

#include "../proto/frame.h"
#include "status.h"

/* header fields that a request may use, and marks */
enum {
    PSI_FORM_HANDLE = 1,
    PSI_FORM_DTYPE = 2,
    PSI_FORM_OFFSET = 4,
    PSI_FORM_NO_ID = 8,   /* id is 0 */
    PSI_FORM_LIST = 16,   /* the reply's list may go on in further frames (MORE) */
    PSI_FORM_VALUES = 32, /* the good reply, or a VALUE frame, brings values: dtype, pull reply meta, trailer */
    PSI_FORM_UNASKED = 64 /* no request and no reply; offset may be used */
};

struct psi_form {
    uint8_t op; /* enum ps_op */
    const char *name;
    uint8_t has;
    uint16_t must, may; /* flags of a request; CRC may be set in all, REPLY and VALUE in none */
    const char *meta;   /* of a request: a message, or a structure of proto/frame.h; NULL: none */
    const char *body;   /* of a request: items of a list, or "values", "input"; NULL: none */
    const char *answer; /* body of a good reply, likewise */
};

/** NULL: no such operation. Any thread, as the rest. */
const struct psi_form *psi_form_find(uint8_t op);
/** Name of an operation for people; "?" where there is none. */
const char *psi_op_name(uint8_t op);
/**
 * The frame of header h, with its meta (h->meta_bytes of it), has the form of its operation; whose turn it is to send one is the
 * caller's. The meta of a reply is complete then: its fields are in range and their lengths fit.
 * Errors: INVALID_ARGUMENT naming the operation and what does not belong there: close. A fixed meta of another length in a
 * request is not looked at: the operation's handler refuses it.
 */
PSI_MUST ps_status psi_form_check(const struct ps_frame_header *h, const uint8_t *meta, struct psi_err *err);

/** Of HELLO: `who` needs these features of the protocol. Errors: UNIMPLEMENTED, reason FEATURE, naming the unknown bits. */
PSI_MUST ps_status psi_features_check(uint64_t needs, const char *who, struct psi_err *err);

#endif
