/* SPDX-License-Identifier: Apache-2.0 */
/* Status and error detail. A function that can fail returns ps_status and fills a caller's psi_err (may be NULL). Layers prefix
 * context, they never replace it. The detail travels on the wire unchanged. */
#ifndef PSI_STATUS_H
#define PSI_STATUS_H

#include "ps_types.h"

#include <stdarg.h>

#define PSI_ERR_TEXT_MAX 512

struct psi_err {
    ps_status code; /* PS_OK: no error */
    ps_applied applied;
    ps_reason reason;            /* 0: the code says all; read it by psi_reason() */
    bool unreached;              /* the session was never connected to a task that it needs, and the start timeout is over */
    char text[PSI_ERR_TEXT_MAX]; /* NUL-terminated, UTF-8, no newline */
};

/** Set err to no error. For code that runs per request: `= {0}` writes all of the text. */
static inline void psi_err_none(struct psi_err *err)
{
    err->code = PS_OK;
    err->applied = PS_NOTHING_APPLIED;
    err->reason = PS_REASON_NONE;
    err->unreached = false;
    err->text[0] = '\0';
}

#define PSI_IGNORE(x)                                                                                                            \
    do {                                                                                                                         \
        __typeof__(x) psi_ignored_ = (x);                                                                                        \
        (void)psi_ignored_;                                                                                                      \
    } while (0)

/* The result must be used, in our own build (libraries and psd). */
#define PSI_MUST __attribute__((warn_unused_result))

/** Set err (code, PS_NOTHING_APPLIED, printf text cut at the limit) and return st. err may be NULL. Any thread. */
ps_status psi_fail(struct psi_err *err, ps_status st, const char *format, ...) __attribute__((format(printf, 3, 4)));
/** psi_fail() with a reason that says more than st. */
ps_status psi_fail_as(struct psi_err *err, ps_status st, ps_reason reason, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/** Fail for a failed system call on path (NULL: the caller names it): its status, and a text for people. why: errno; what:
 * "open", "write". Any thread. */
ps_status psi_fail_errno(struct psi_err *err, int why, const char *what, const char *path);
/** The reason of an end with status st: if `reason` is 0, what st says; NONE if st is PS_OK. A number that this version does not
 * know stays. Any thread. */
ps_reason psi_reason(ps_reason reason, ps_status st);
/** Put "context: " before the text. Does nothing when err is NULL or PS_OK. */
void psi_err_prefix(struct psi_err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** "nothing applied", "may be partly applied" or "outcome unknown". */
const char *psi_applied_name(ps_applied applied);

/** For bugs of our own: prints file, line, expression, and aborts. Kept in release builds; never reached by a peer's bytes. */
#define PSI_ASSERT(x) ((x) ? (void)0 : psi_assert_failed(#x, __FILE__, __LINE__))
void psi_assert_failed(const char *expression, const char *file, int line) __attribute__((noreturn));

#endif
