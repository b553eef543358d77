/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs: a list of things, as a table or as JSON, from one description of its columns. What a column says of a row comes from
 * a field of the row, or from a function.
 */
#ifndef CLI_LIST_H
#define CLI_LIST_H

#include "json.h"
#include "table.h"

enum cli_kind {
    CLI_TEXT,   /* char [] */
    CLI_STRING, /* const char * */
    CLI_BOOL,   /* "yes", "no" */
    CLI_INT,
    CLI_U32,
    CLI_U64,
    CLI_I64,
    CLI_RATE,  /* double, one digit behind the point */
    CLI_BYTES, /* uint64_t: "12.3 MiB" */
    CLI_TIME,  /* uint64_t in ms: "2.5s" */
    CLI_HEX,   /* uint64_t */
    CLI_OTHER  /* no field: the functions say it */
};
struct cli_column {
    const char *heading; /* NULL: not in tables */
    const char *key;     /* NULL: not in JSON */
    enum cli_kind kind;
    bool right;                   /* of CLI_OTHER: aligned to the right; numbers always are */
    size_t offset;                /* CLI_FIELD */
    bool (*has)(const void *row); /* NULL: yes; no: "-", and not in JSON */
    /** The cell in a table instead of the kind's, into buf [n]. */
    const char *(*cell)(const void *row, char *buf, size_t n);
    /** The value in JSON instead of the kind's; NULL: none. */
    json_t *(*value)(const void *row);
};
/** .CLI_FIELD(CLI_U64, struct row, bytes) inside a column. */
#define CLI_FIELD(kind_, type_, field_) .kind = (kind_), .offset = offsetof(type_, field_)

struct cli_list {
    const struct cli_column *columns;
    size_t column_count, count; /* count: rows so far */
    bool json;
    struct cli_table table;
};
/** key: of the list, in the object that is open. columns: keeps. */
void cli_list_begin(struct cli_list *l, const char *key, const struct cli_column *columns, size_t column_count, bool json);
/** One row, shown (JSON) or kept as text (table): borrows. */
void cli_list_add(struct cli_list *l, const void *row);
/** A row of the table alone, which sums up. */
void cli_list_total(struct cli_list *l, const void *row);
void cli_list_end(struct cli_list *l, const struct cli_room *room);
/** One row by itself as an object of JSON. */
json_t *cli_row(const struct cli_column *columns, size_t column_count, const void *row);

#define CLI_COUNT(array_) (sizeof(array_) / sizeof((array_)[0]))

#endif
