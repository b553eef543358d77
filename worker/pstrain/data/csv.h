/* SPDX-License-Identifier: Apache-2.0 */
/* Read records of CSV (RFC 4180) from a text in memory, field by field. */
#ifndef PSTRAIN_CSV_H
#define PSTRAIN_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct csv {
    const char *path;                 /* name of the file, for messages */
    const char *p, *end, *line_start; /* next byte to read; end of the text; where the line of p begins */
    int64_t line;                     /* line of p, from 1 */
    char *field;                      /* the last field read, and a NUL */
    size_t room;                      /* bytes allocated for `field` */
    int64_t field_line, field_byte;   /* where `field` begins: line, and byte in the line, both from 1 */
    bool last;                        /* `field` is the last field of its record */
};

/** Begin to read text [bytes], which must outlive c. Skips a byte order mark. Call csv_close() at the end. */
void csv_open(struct csv *c, const char *path, const char *text, size_t bytes);
void csv_close(struct csv *c);
/** True if no record is left. Skips empty lines. */
bool csv_over(struct csv *c);
/** Read the next field into c->field, with its spaces. A quoted field may have commas, newlines and doubled quotes. 0, or -1 with
 * a line in err: an unclosed quote, text behind a closing quote, a quote in an unquoted field, a NUL, no memory. */
int csv_next(struct csv *c, char *err);
/** Write "FILE:LINE:BYTE: " (where the last field begins) and the formatted text into err (CLI_ERR_BYTES). Returns -1. */
int csv_error(const struct csv *c, char *err, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
