/* SPDX-License-Identifier: Apache-2.0 */
/* Tables: cells are collected, then printed. On a terminal the widest columns of texts become narrower until a row fits a line;
 * --watch shows only as many rows as fit the screen. A file gets whole columns and rows. Failure: no memory ends the program. */
#include "table.h"

#include "common/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

void cli_no_memory(void)
{
    (void)fprintf(stderr, "%s: out of memory\n", program_invocation_short_name);
    exit(1);
}

void *cli_grow(void *items, size_t count, size_t *capacity, size_t item_bytes)
{
    if (count < *capacity) {
        return items;
    }
    *capacity = *capacity == 0 ? 64 : *capacity * 2;
    items = reallocarray(items, *capacity, item_bytes);
    if (items == NULL) {
        cli_no_memory();
    }
    return items;
}

static void add(struct cli_table *t, const char *text)
{
    t->cells = (char **)cli_grow((void *)t->cells, t->count, &t->capacity, sizeof(*t->cells));
    char *copy = strdup(text);
    if (copy == NULL) {
        cli_no_memory();
    }
    psi_utf8_printable(copy);
    t->cells[t->count++] = copy;
}

void cli_cell(struct cli_table *t, const char *format, ...)
{
    char text[CLI_CELL_MAX];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    add(t, text);
}

enum { COLUMN_LEAST = 8 };

static int width_of(const char *text)
{
    int count = 0;
    for (const char *p = text; *p != '\0'; p++) {
        count += ((unsigned char)*p & 0xc0) != 0x80;
    }
    return count;
}

int cli_terminal_columns(void)
{
    struct winsize size;
    return isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static void give_way(const struct cli_table *t, int *width, int columns)
{
    int total = 2 * (t->columns - 1);
    for (int i = 0; i < t->columns; i++) {
        total += width[i];
    }
    while (total > columns) {
        int widest = -1;
        for (int i = 0; i < t->columns; i++) {
            int heading = width_of(t->cells[i]);
            bool gives = (t->right >> i & 1u) == 0 && width[i] > COLUMN_LEAST && width[i] > heading;
            widest = gives && (widest < 0 || width[i] > width[widest]) ? i : widest;
        }
        if (widest < 0) {
            return;
        }
        width[widest]--;
        total--;
    }
}

/* Print a cell, cut with "..." if it is longer than width. right: blanks come before the text. last: no blanks come after it. */
static void print_cell(const char *text, int width, bool right, bool last)
{
    int have = width_of(text);
    if (have > width) {
        int keep = width - 3;
        const char *end = text;
        while (*end != '\0' && (((unsigned char)*end & 0xc0) == 0x80 || keep-- > 0)) {
            end++;
        }
        (void)printf("%.*s...", (int)(end - text), text);
        have = width;
    } else {
        (void)printf("%*s%s", right ? width - have : 0, "", text);
    }
    (void)printf("%*s%s", right || last ? 0 : width - have, "", last ? "\n" : "  ");
}

void cli_table_print(struct cli_table *t, const struct cli_room *room)
{
    int width[CLI_COLUMNS_MAX] = {0};
    size_t columns = (size_t)t->columns;
    for (size_t i = 0; i < t->count; i++) {
        int len = width_of(t->cells[i]);
        width[i % columns] = len > width[i % columns] ? len : width[i % columns];
    }
    if (room->columns > 0) {
        give_way(t, width, room->columns);
    }
    size_t rows = t->count / columns - 1; /* without the headings */
    size_t totals = t->total && rows > 0 ? 1 : 0;
    size_t shown = room->rows > 0 && rows - totals > (size_t)room->rows ? (size_t)room->rows : rows - totals;
    for (size_t i = 0; i < t->count; i++) {
        size_t row = i / columns;
        if (row <= shown || row > rows - totals) {
            size_t column = i % columns;
            print_cell(t->cells[i], width[column], (t->right >> column & 1u) != 0, column == columns - 1);
        }
    }
    if (rows - totals > shown) {
        (void)printf("%zu more have no room here\n", rows - totals - shown);
    }
    cli_table_free(t);
}

void cli_table_free(struct cli_table *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free(t->cells[i]);
    }
    free((void *)t->cells);
    memset(t, 0, sizeof(*t));
}
