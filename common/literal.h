/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of JSON and of Python literals, each with its line and column. Pure; allocates nothing, no recursion. */
#ifndef PSI_LITERAL_H
#define PSI_LITERAL_H

#include "limits.h"
#include "status.h"

/** Most bytes of a token: more than PS_ADDRESS_BYTES_MAX, so that errors can quote addresses that are too long. */
#define PSI_LITERAL_TEXT_MAX 511

enum psi_token_kind { PSI_TOKEN_END = 1, PSI_TOKEN_STRING, PSI_TOKEN_NUMBER, PSI_TOKEN_NAME, PSI_TOKEN_MARK };
struct psi_token {
    enum psi_token_kind kind;
    char mark;             /* PSI_TOKEN_MARK: one of { } [ ] ( ) , : */
    uint32_t line, column; /* from 1, bytes */
    size_t len;
    char text[PSI_LITERAL_TEXT_MAX + 1]; /* STRING: the characters that it stands for; NUMBER, NAME: as written */
};

struct psi_literal {
    const char *p, *line_start;
    uint32_t line;
};

/** Read text from its beginning; borrows it. */
void psi_literal_init(struct psi_literal *l, const char *text);
/** The next token. Spaces, newlines and comments (# to the end of the line) are skipped. Strings are in ' or ", may have u before
 * them, and are on one line. \\ \' \" \/ and \u0020 to \u007e stand for their characters; other escapes are refused.
 * Errors  PS_INVALID_ARGUMENT with line and column. */
PSI_MUST ps_status psi_literal_next(struct psi_literal *l, struct psi_token *out, struct psi_err *err);
const char *psi_token_describe(const struct psi_token *t, char *buf, size_t n);

#endif
