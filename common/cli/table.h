/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: tables on standard output. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a table may take; 0: no bound. */
struct cli_room {
    int rows, columns;
};

enum { CLI_COLUMNS_MAX = 16, CLI_CELL_MAX = 512 };
struct cli_table {
    int columns;
    uint32_t right; /* bit i: column i is aligned to the right, and never cut */
    bool total;     /* the last row sums up: it is always shown */
    char **cells;   /* rows * columns, owned */
    size_t count, capacity;
};
/** Next cell; the first ones are the headings, rows fill up from the left. What is no printable text is shown as '?'. */
void cli_cell(struct cli_table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Print and free; free alone. */
void cli_table_print(struct cli_table *t, const struct cli_room *room);
void cli_table_free(struct cli_table *t);
/** Characters in a line of the terminal that standard output is; 0: it is none. */
int cli_terminal_columns(void);
/** Room for one more of count items; ends the program with a message where there is none. Returns items, which may have moved. */
void *cli_grow(void *items, size_t count, size_t *capacity, size_t item_bytes);

#endif
