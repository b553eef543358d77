/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: tables on standard output. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room for a table; 0: unbounded. */
struct cli_room {
    int rows, columns;
};

enum { CLI_COLUMNS_MAX = 16, CLI_CELL_MAX = 512 };
struct cli_table {
    int columns;
    uint32_t right; /* bit i: column i is aligned to the right, and never cut */
    bool total;     /* the last row has sums, and is always shown */
    char **cells;   /* rows * columns, owned */
    size_t count, capacity;
};
/** Add the next cell. The first cells are headings; rows fill from the left. Bytes that are not printable are shown as '?'. */
void cli_cell(struct cli_table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Print and free; or only free. */
void cli_table_print(struct cli_table *t, const struct cli_room *room);
void cli_table_free(struct cli_table *t);
/** Columns of the terminal on standard output; 0: it is no terminal. */
int cli_terminal_columns(void);
/** Make room for one more of count items. Returns items, which may have moved. No memory ends the program with a message. */
void *cli_grow(void *items, size_t count, size_t *capacity, size_t item_bytes);

#endif
