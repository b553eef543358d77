/* SPDX-License-Identifier: Apache-2.0 */
/* Records of CSV (RFC 4180) in memory. */
#ifndef PSTRAIN_CSV_H
#define PSTRAIN_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct csv {
    const char *path; /* in messages */
    const char *p, *end, *line_start;
    int64_t line; /* of p, from 1 */
    char *field;  /* the field read last, with a NUL behind it */
    size_t room;
    int64_t field_line, field_byte; /* where it begins, from 1 */
    bool last;                      /* it is the last one of its record */
};

/** Read text [bytes], which must outlive it, from its beginning; a byte order mark is skipped. csv_close() at the end. */
void csv_open(struct csv *c, const char *path, const char *text, size_t bytes);
void csv_close(struct csv *c);
/** True if no record is left; empty lines are none. */
bool csv_over(struct csv *c);
/**
 * Read the next field into c->field. Spaces belong to it. In quotes it may have commas, newlines and doubled quotes.
 * 0, or -1 with a line in err (CLI_ERR_BYTES): a quote that is not closed, something behind a closing quote, a quote in a field
 * without quotes, a NUL, no memory.
 */
int csv_next(struct csv *c, char *err);
/** "FILE:LINE:BYTE: " and the text into err. Returns -1. */
int csv_error(const struct csv *c, char *err, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
