/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of the command-line programs, as a table or as JSON, from one description of the columns. A column shows a field of the
 * row's struct, or the result of a function. */
#ifndef CLI_LIST_H
#define CLI_LIST_H

#include "json.h"
#include "table.h"

enum cli_kind {
    CLI_TEXT,
    CLI_STRING,
    CLI_BOOL,
    CLI_INT,
    CLI_U32,
    CLI_U64,
    CLI_I64,
    CLI_RATE,  /* a double, shown with one digit behind the point */
    CLI_BYTES, /* a uint64_t, shown as "12.3 MiB" */
    CLI_TIME,  /* a uint64_t in ms, shown as "2.5s" */
    CLI_HEX,   /* a uint64_t, shown in hexadecimal */
    CLI_OTHER  /* no field: the functions `cell` and `value` make the texts and the values */
};
struct cli_column {
    const char *heading; /* heading in a table; NULL: only in JSON */
    const char *key;     /* name in JSON; NULL: only in tables */
    enum cli_kind kind;
    bool right; /* align the cells to the right; cells with numbers always are */
    size_t offset;
    /* Returns false if the row has no value in this column: a table shows "-", and JSON has no member. NULL: all rows have one */
    bool (*has)(const void *row);
    /** Returns the cell's text, which may lie in buf [n]. NULL: the cell shows the field. */
    const char *(*cell)(const void *row, char *buf, size_t n);
    /** Makes the JSON value; returns NULL if the row has none. NULL: the value is the field. */
    json_t *(*value)(const void *row);
};
/** Initialises kind and offset of a struct cli_column that shows a field: CLI_FIELD(CLI_U64, struct row, bytes). */
#define CLI_FIELD(kind_, type_, field_) .kind = (kind_), .offset = offsetof(type_, field_)

struct cli_list {
    const struct cli_column *columns;
    size_t column_count, count;
    bool json;
    struct cli_table table;
};
/** Begin a list. json: in JSON, by cli_json_list(key); else as a table. columns must stay valid until cli_list_end(). */
void cli_list_begin(struct cli_list *l, const char *key, const struct cli_column *columns, size_t column_count, bool json);
/** Add a row. JSON is written at once; a table copies the texts. row is not needed afterwards. */
void cli_list_add(struct cli_list *l, const void *row);
/** Add a row of sums as a table's last row. JSON gets no such row. */
void cli_list_total(struct cli_list *l, const void *row);
void cli_list_end(struct cli_list *l, const struct cli_room *room);
json_t *cli_row(const struct cli_column *columns, size_t column_count, const void *row);

#define CLI_COUNT(array_) (sizeof(array_) / sizeof((array_)[0]))

#endif
