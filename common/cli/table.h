/* SPDX-License-Identifier: Apache-2.0 */
/* For the command-line programs: tables on standard output. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room for a table on the screen, in lines and characters; 0: no limit. */
struct cli_room {
    int rows, columns;
};

enum { CLI_COLUMNS_MAX = 16, CLI_CELL_MAX = 512 };
struct cli_table {
    int columns;
    uint32_t right; /* bit i set: column i is aligned to the right, and never becomes narrower */
    bool total;     /* the last row has sums and is always shown */
    char **cells;   /* [rows * columns], owned */
    size_t count, capacity;
};
/** Add the next cell, row by row from the left. The first row has the headings. Bytes that are not printable are shown as '?'. */
void cli_cell(struct cli_table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cli_table_print(struct cli_table *t, const struct cli_room *room);
void cli_table_free(struct cli_table *t);
/** Width of the terminal on standard output, in characters; 0: standard output is no terminal. */
int cli_terminal_columns(void);
/** End the program with a message: there is no memory. */
_Noreturn void cli_no_memory(void);
/** psi_grow() (common/mem.h) that ends the program with a message if there is no memory. */
void *cli_grow(void *items, size_t count, size_t *capacity, size_t item_bytes);

#endif
