/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that a frame has only the flags, header fields, meta and body that its operation's row allows. Failure: the frame has
 * anything else: INVALID_ARGUMENT, and the caller closes the connection. */
#include "form.h"

#include "limits.h"

#include <string.h>

#define SINGLE (PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST)
#define PARTS (PS_FLAG_FIRST | PS_FLAG_LAST)
#define HANDLE PSI_FORM_HANDLE
#define OFFSET PSI_FORM_OFFSET
#define DTYPE PSI_FORM_DTYPE
#define WHERE (PSI_FORM_HANDLE | PSI_FORM_DTYPE | PSI_FORM_OFFSET)
#define MORE PS_FLAG_MORE
#define NO_ID PSI_FORM_NO_ID
#define LIST PSI_FORM_LIST
#define VALUES PSI_FORM_VALUES
#define UNASKED PSI_FORM_UNASKED
#define SEQ PS_FLAG_SEQ
#define FORM(name_, number_, has_, must_, may_, meta_, body_, answer_, what_for_)                                                \
    [number_] = {.op = (number_),                                                                                                \
                 .name = #name_,                                                                                                 \
                 .has = (has_),                                                                                                  \
                 .must = (must_),                                                                                                \
                 .may = (may_),                                                                                                  \
                 .meta = (meta_),                                                                                                \
                 .body = (body_),                                                                                                \
                 .answer = (answer_)},

static const struct psi_form FORMS[] = {PS_OPERATIONS(FORM)};

const struct psi_form *psi_form_find(uint8_t op)
{
    return op < sizeof(FORMS) / sizeof(FORMS[0]) && FORMS[op].name != NULL ? &FORMS[op] : NULL;
}

const char *psi_op_name(uint8_t op)
{
    const struct psi_form *form = psi_form_find(op);
    return form == NULL ? "?" : form->name;
}

static const char *flag_name(uint32_t flags)
{
    static const char *const names[] = {"CRC", "FIRST", "LAST", "SEQ", "REPLY", "MORE", "VALUE", "TIMES"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if ((flags & (1u << i)) != 0) {
            return names[i];
        }
    }
    return "?";
}

static ps_status fail(struct psi_err *err, const struct psi_form *form, const char *which, const char *what)
{
    return psi_fail(err, PS_INVALID_ARGUMENT, "%s%s: %s", form->name, which, what);
}

static ps_status check_flags(const struct psi_form *form, const char *which, uint32_t flags, uint32_t must, uint32_t may,
                             struct psi_err *err)
{
    uint32_t more = flags & ~(must | may | PS_FLAG_CRC);
    if (more != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s%s: flag %s has no place there", form->name, which, flag_name(more));
    }
    if ((flags & must) != must) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s%s: flag %s is missing", form->name, which, flag_name(must & ~flags));
    }
    return PS_OK;
}

static ps_status check_rows_meta(const struct psi_form *form, const struct ps_frame_header *h, const uint8_t *meta,
                                 struct psi_err *err)
{
    struct ps_rows_meta m;
    if (h->meta_bytes < sizeof(m)) { /* the handler refuses a short meta */
        return PS_OK;
    }
    memcpy(&m, meta, sizeof(m));
    if (m.version != 0 && form->op == PS_OP_SCATTER) {
        return fail(err, form, "", "the version of its meta is set, which it does not use");
    }
    const bool known = form->op == PS_OP_SCATTER ? m.how >= PS_SCATTER_ADD && m.how <= PS_SCATTER_UPDATE : m.how == 0;
    return known ? PS_OK : psi_fail(err, PS_INVALID_ARGUMENT, "%s: how %u is not known", form->name, m.how);
}

/* Refuse reserved bits in a meta that is a struct of proto/frame.h. The handler refuses a meta of another length. */
static ps_status check_request_meta(const struct psi_form *form, const struct ps_frame_header *h, const uint8_t *meta,
                                    struct psi_err *err)
{
    struct ps_push_meta push;
    struct ps_contribute_meta contribute;
    bool parts = (form->must & PS_FLAG_SEQ) != 0 && (form->has & PSI_FORM_DTYPE) != 0;
    if (parts && (h->flags & PS_FLAG_FIRST) == 0) {
        return h->meta_bytes == 0 ? PS_OK : fail(err, form, "", "a continuation has no meta");
    }
    if (form->op == PS_OP_PUSH_ROWS || form->op == PS_OP_PUSHPULL_ROWS || form->op == PS_OP_SCATTER) {
        return check_rows_meta(form, h, meta, err);
    }
    if (form->op == PS_OP_CONTRIBUTE_ROWS) {
        struct ps_contribute_rows_meta rows = {.reserved = 0};
        if (h->meta_bytes == sizeof(rows)) {
            memcpy(&rows, meta, sizeof(rows));
        }
        return rows.reserved == 0 ? PS_OK : fail(err, form, "", "the reserved field of its meta is set");
    }
    if (form->op == PS_OP_CONTRIBUTE) {
        if (h->meta_bytes == sizeof(contribute)) {
            memcpy(&contribute, meta, sizeof(contribute));
        }
        return h->meta_bytes != sizeof(contribute) || contribute.reserved == 0
                   ? PS_OK
                   : fail(err, form, "", "the reserved field of its meta is set");
    }
    if (parts && h->meta_bytes >= sizeof(push)) { /* a longer meta ends in a ps_push_step, which has no reserved bits to check */
        memcpy(&push, meta, sizeof(push));
        if (push.version != 0 && form->op != PS_OP_PUSH && form->op != PS_OP_PUSHPULL && form->op != PS_OP_ASSIGN) {
            return fail(err, form, "", "the version of its meta is set, which it does not use");
        }
        uint32_t known = form->op == PS_OP_ASSIGN ? PS_ASSIGN_INIT_ONLY | PS_ASSIGN_SLOTS : 0;
        bool one = (push.assign_flags & (push.assign_flags - 1)) == 0;
        return one && (push.assign_flags & ~known) == 0 ? PS_OK
                                                        : psi_fail(err, PS_INVALID_ARGUMENT, "%s: %s assign flags 0x%x",
                                                                   form->name, one ? "unknown" : "several", push.assign_flags);
    }
    return PS_OK;
}

static ps_status check_request(const struct psi_form *form, const struct ps_frame_header *h, const uint8_t *meta,
                               struct psi_err *err)
{
    ps_status st = check_flags(form, "", h->flags, form->must, form->may, err);
    if (st != PS_OK) {
        return st;
    }
    bool no_id = (form->has & PSI_FORM_NO_ID) != 0;
    /* with SEQ the id is a sequence number, which is checked later */
    if (no_id ? h->id != 0 : h->id == 0 && (form->must & PS_FLAG_SEQ) == 0) {
        return fail(err, form, "", no_id ? "id is not 0" : "id is 0");
    }
    if ((h->handle != 0 && (form->has & PSI_FORM_HANDLE) == 0) || (h->dtype != 0 && (form->has & PSI_FORM_DTYPE) == 0) ||
        (h->offset != 0 && (form->has & (PSI_FORM_OFFSET | PSI_FORM_UNASKED)) == 0)) {
        return fail(err, form, "", "handle, dtype or offset is set, which it does not use");
    }
    if (h->meta_bytes != 0 && form->meta == NULL) {
        return fail(err, form, "", "it has no meta");
    }
    if (h->body_bytes != 0 && form->body == NULL) {
        return fail(err, form, "", "it has no body");
    }
    return check_request_meta(form, h, meta, err);
}

static ps_status check_values(const struct psi_form *form, const struct ps_frame_header *h, const uint8_t *meta,
                              struct psi_err *err)
{
    struct ps_pull_reply_meta m;
    if (h->meta_bytes != sizeof(m)) {
        return fail(err, form, " reply", "the meta of values has another length");
    }
    memcpy(&m, meta, sizeof(m));
    return m.reserved == 0 ? PS_OK : fail(err, form, " reply", "the reserved field of its meta is set");
}

static ps_status check_reply(const struct psi_form *form, const struct ps_frame_header *h, const uint8_t *meta,
                             struct psi_err *err)
{
    bool value = (h->flags & PS_FLAG_VALUE) != 0;
    uint32_t must = PS_FLAG_REPLY | (form->must & PS_FLAG_SEQ);
    const bool pulls = form->op == PS_OP_PUSHPULL || form->op == PS_OP_PUSHPULL_ROWS;
    uint32_t may = ((form->has & PSI_FORM_LIST) != 0 ? (uint32_t)MORE : 0) | (pulls ? PS_FLAG_VALUE : 0);
    ps_status st = check_flags(form, " reply", h->flags, must, may, err);
    if (st != PS_OK || (form->has & PSI_FORM_UNASKED) != 0) {
        return st != PS_OK ? st : fail(err, form, "", "it has no reply");
    }
    if ((form->has & PSI_FORM_NO_ID) != 0 && h->id != 0) {
        return fail(err, form, " reply", "id is not 0");
    }
    if (h->handle != 0 && (form->has & PSI_FORM_HANDLE) == 0) {
        return fail(err, form, " reply", "handle is set, which it does not use");
    }
    if (value || ((form->has & PSI_FORM_VALUES) != 0 && h->offset == PS_OK)) {
        return check_values(form, h, meta, err);
    }
    if (h->dtype != 0) {
        return fail(err, form, " reply", "dtype is set, which it does not use");
    }
    if (h->body_bytes != 0 && (form->answer == NULL || h->offset != PS_OK)) {
        return fail(err, form, " reply", "it has no body");
    }
    struct ps_reply_meta m;
    if (h->meta_bytes < sizeof(m)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s reply: meta of %u bytes", form->name, h->meta_bytes);
    }
    memcpy(&m, meta, sizeof(m));
    if (m.reserved != 0 || m.reserved1 != 0) {
        return fail(err, form, " reply", "a reserved field of its meta is set");
    }
    if (h->offset > PS_UNAUTHENTICATED || m.applied > PS_OUTCOME_UNKNOWN || m.result_bytes > PS_RESULT_BYTES_MAX ||
        sizeof(m) + ((m.result_bytes + 7u) & ~7u) + ((m.text_bytes + 7u) & ~7u) != h->meta_bytes) {
        return fail(err, form, " reply", "a field of it is out of range");
    }
    return PS_OK;
}

/* True if flag TIMES may be set on the frame: the first frame of a push, the last frame of a list or a reply, or any other
 * request that has a reply. The flag asks for the times that the request takes, or says that the reply has them. */
static bool has_place_for_times(const struct psi_form *form, const struct ps_frame_header *h)
{
    const bool in_parts = (form->must & PS_FLAG_SEQ) != 0 && (form->has & PSI_FORM_DTYPE) != 0;
    const bool answered = (form->has & (PSI_FORM_NO_ID | PSI_FORM_UNASKED)) == 0 && form->op != PS_OP_ACK;
    const bool reply = (h->flags & PS_FLAG_REPLY) != 0;
    const bool there = (h->flags & (MORE | PS_FLAG_VALUE)) == 0 && (reply || !in_parts || (h->flags & PS_FLAG_FIRST) != 0);
    return answered && there;
}

__attribute__((cold)) static ps_status take_times_off(const struct psi_form *form, const struct ps_frame_header *h,
                                                      struct ps_frame_header *out, struct psi_err *err)
{
    const bool reply = (h->flags & PS_FLAG_REPLY) != 0;
    const char *which = reply ? " reply" : "";
    if (!has_place_for_times(form, h)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s%s: flag TIMES has no place there", form->name, which);
    }
    if (reply && h->meta_bytes < sizeof(struct ps_times)) {
        return fail(err, form, which, "its meta has no times");
    }
    out->flags &= (uint16_t)~PS_FLAG_TIMES;
    out->meta_bytes = (uint16_t)(out->meta_bytes - (reply ? sizeof(struct ps_times) : 0));
    return PS_OK;
}

ps_status psi_form_check(const struct ps_frame_header *h, const uint8_t *meta, struct psi_err *err)
{
    const struct psi_form *form = psi_form_find(h->op);
    if (form == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "operation %u is not known", h->op);
    }
    struct ps_frame_header plain;
    if ((h->flags & PS_FLAG_TIMES) != 0) {
        plain = *h;
        const ps_status st = take_times_off(form, h, &plain, err);
        if (st != PS_OK) {
            return st;
        }
        h = &plain;
    }
    return (h->flags & PS_FLAG_REPLY) != 0 ? check_reply(form, h, meta, err) : check_request(form, h, meta, err);
}

ps_status psi_features_check(uint64_t needs, const char *who, struct psi_err *err)
{
    uint64_t unknown = needs & ~(uint64_t)PS_FEATURES_KNOWN;
    return unknown == 0 ? PS_OK
                        : psi_fail_as(err, PS_UNIMPLEMENTED, PS_REASON_FEATURE,
                                      "%s needs features of the protocol (bits 0x%llx) that this version lacks", who,
                                      (unsigned long long)unknown);
}
