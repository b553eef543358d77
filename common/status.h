/* SPDX-License-Identifier: Apache-2.0 */
/* Status and error detail. A function that can fail returns ps_status and fills in a caller's psi_err (may be NULL). A caller may
 * put its context before the text (psi_err_prefix()), and changes nothing else. A task sends its errors to clients. */
#ifndef PSI_STATUS_H
#define PSI_STATUS_H

#include "ps_types.h"

#include <stdarg.h>

#define PSI_ERR_TEXT_MAX 512

struct psi_err {
    ps_status code;
    ps_applied applied;
    ps_reason reason;            /* 0: no more is known than `code` says; psi_reason() reads this field */
    bool unreached;              /* set when a session's start has timed out and a task that it needs was never reached */
    char text[PSI_ERR_TEXT_MAX]; /* NUL-terminated, UTF-8, no newline */
};

/** Clear err. Faster than `= {0}`, which writes all PSI_ERR_TEXT_MAX bytes; for code that runs for each request. */
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

/* For a function whose result must be used: otherwise the compiler warns in the build of the libraries and psd. */
#define PSI_MUST __attribute__((warn_unused_result))

/** Fill err (code st, PS_NOTHING_APPLIED, printf text, cut if too long) and return st. err may be NULL. Any thread. */
ps_status psi_fail(struct psi_err *err, ps_status st, const char *format, ...) __attribute__((format(printf, 3, 4)));
/** psi_fail() with a reason that says more than st. */
ps_status psi_fail_as(struct psi_err *err, ps_status st, ps_reason reason, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/** Fill err for a system call `what` ("open") that failed with errno `why`, and return the fitting status. path: the file, for
 * the text; NULL: the caller will name it. Any thread. */
ps_status psi_fail_errno(struct psi_err *err, int why, const char *what, const char *path);
/** The reason to show with status st: NONE if st is PS_OK; st's number if `reason` is NONE; otherwise `reason`, even if it is
 * unknown here. Any thread. */
ps_reason psi_reason(ps_reason reason, ps_status st);
/** Put "context: " before the text. Does nothing when err is NULL or PS_OK. */
void psi_err_prefix(struct psi_err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Text for what a failed call has changed: "nothing applied", "may be partly applied" or "outcome unknown". */
const char *psi_applied_name(ps_applied applied);

/** For mistakes in our own code: prints file, line and expression, and aborts, also in release builds. No peer can cause it. */
#define PSI_ASSERT(x) ((x) ? (void)0 : psi_assert_failed(#x, __FILE__, __LINE__))
void psi_assert_failed(const char *expression, const char *file, int line) __attribute__((noreturn));

#endif
