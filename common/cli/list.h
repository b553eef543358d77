/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: a list of things, as a table or as JSON, from one description of its columns. The value of a column comes from a
 * field of the row, or from a function. */
#ifndef CLI_LIST_H
#define CLI_LIST_H

#include "json.h"
#include "table.h"

enum cli_kind {
    CLI_TEXT,
    CLI_STRING,
    CLI_BOOL, /* "yes", "no" */
    CLI_INT,
    CLI_U32,
    CLI_U64,
    CLI_I64,
    CLI_RATE,  /* double, one digit behind the point */
    CLI_BYTES, /* uint64_t: "12.3 MiB" */
    CLI_TIME,  /* uint64_t in ms: "2.5s" */
    CLI_HEX,   /* uint64_t */
    CLI_OTHER  /* no field: functions give the values */
};
struct cli_column {
    const char *heading; /* NULL: not in tables */
    const char *key;     /* NULL: not in JSON */
    enum cli_kind kind;
    bool right; /* CLI_OTHER: align to the right; numbers always are */
    size_t offset;
    bool (*has)(const void *row); /* false: the cell is "-", and JSON has no member; NULL: all rows have it */
    /** Gives the cell of a table, into buf [n], in place of the kind's text. */
    const char *(*cell)(const void *row, char *buf, size_t n);
    /** Gives the value in JSON, in place of the kind's; NULL: none. */
    json_t *(*value)(const void *row);
};
/** Members of a struct cli_column, as CLI_FIELD(CLI_U64, struct row, bytes). */
#define CLI_FIELD(kind_, type_, field_) .kind = (kind_), .offset = offsetof(type_, field_)

struct cli_list {
    const struct cli_column *columns;
    size_t column_count, count;
    bool json;
    struct cli_table table;
};
/** key: name of the list in the open object. columns: keeps. */
void cli_list_begin(struct cli_list *l, const char *key, const struct cli_column *columns, size_t column_count, bool json);
/** Add a row: written at once (JSON), or kept as text (table). row: borrows. */
void cli_list_add(struct cli_list *l, const void *row);
/** Add a row of sums, which only the table shows. */
void cli_list_total(struct cli_list *l, const void *row);
void cli_list_end(struct cli_list *l, const struct cli_room *room);
json_t *cli_row(const struct cli_column *columns, size_t column_count, const void *row);

#define CLI_COUNT(array_) (sizeof(array_) / sizeof((array_)[0]))

#endif
