/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables and short texts for people. Happy path: headings, cells, print. On a terminal the widest columns give way until a row
 * fits a line, in --watch also rows that have no room; what goes into a pipe or a file is whole. Failure modes: no memory ends
 * the program with a message.
 */
#include "psctl.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void add(struct out_table *t, const char *text)
{
    if (t->count == t->capacity) {
        t->capacity = t->capacity == 0 ? 64 : t->capacity * 2;
        char **cells = (char **)realloc((void *)t->cells, t->capacity * sizeof(*cells));
        if (cells == NULL) {
            (void)fprintf(stderr, "psctl: out of memory\n");
            exit(PSCTL_FAILED);
        }
        t->cells = cells;
    }
    t->cells[t->count] = strdup(text);
    if (t->cells[t->count] == NULL) {
        (void)fprintf(stderr, "psctl: out of memory\n");
        exit(PSCTL_FAILED);
    }
    text_printable(t->cells[t->count]);
    t->count++;
}

void out_table_init(struct out_table *t, int columns, uint32_t right, const char *const *headings)
{
    memset(t, 0, sizeof(*t));
    t->columns = columns;
    t->right = right;
    for (int i = 0; i < columns; i++) {
        add(t, headings[i]);
    }
}

void out_cell(struct out_table *t, const char *format, ...)
{
    char text[OUT_CELL_MAX];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    add(t, text);
}

enum { COLUMN_LEAST = 8 }; /* characters that a column keeps when it gives way */

/* Characters of a text that is printable. */
static int width_of(const char *text)
{
    int count = 0;
    for (const char *p = text; *p != '\0'; p++) {
        count += ((unsigned char)*p & 0xc0) != 0x80;
    }
    return count;
}

int out_terminal_columns(void)
{
    struct winsize size;
    return isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* The widest text columns become narrower until a row has room in so many characters. */
static void give_way(const struct out_table *t, int *width, int columns)
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

/* Cut, with "..." at its end, where it is longer; padded on the left or, unless it ends its line, on the right. */
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

void out_table_print(struct out_table *t, const struct out_room *room)
{
    int width[OUT_COLUMNS_MAX] = {0};
    size_t columns = (size_t)t->columns;
    for (size_t i = 0; i < t->count; i++) {
        int len = width_of(t->cells[i]);
        width[i % columns] = len > width[i % columns] ? len : width[i % columns];
    }
    if (room->columns > 0) {
        give_way(t, width, room->columns);
    }
    size_t rows = t->count / columns - 1; /* headings apart */
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
    out_table_free(t);
}

void out_table_free(struct out_table *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free(t->cells[i]);
    }
    free((void *)t->cells);
    memset(t, 0, sizeof(*t));
}

void out_quoted(const char *text, size_t n)
{
    (void)putchar('"');
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)text[i];
        size_t one = text_utf8(text + i, n - i);
        if (c == '"' || c == '\\') {
            (void)printf("\\%c", c);
        } else if (c == '\n' || c == '\t' || c == '\r') {
            (void)printf("\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
        } else if (one == 0) {
            (void)printf("\\x%02x", c);
        } else if (c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)text[i + 1] < 0xa0)) {
            (void)printf("\\u%04x", one == 2 ? (unsigned char)text[i + 1] : c);
        } else {
            (void)fwrite(text + i, 1, one, stdout);
        }
        i += one == 0 ? 1 : one;
    }
    (void)putchar('"');
}

const char *out_duration(uint64_t ms, char *buf, size_t n)
{
    unsigned long long s = ms / 1000;
    if (s < 60) {
        (void)snprintf(buf, n, "%llu.%llus", s, (unsigned long long)(ms % 1000 / 100));
    } else if (s < 3600) {
        (void)snprintf(buf, n, "%llumin %llus", s / 60, s % 60);
    } else if (s < 86400) {
        (void)snprintf(buf, n, "%lluh %llumin", s / 3600, s % 3600 / 60);
    } else {
        (void)snprintf(buf, n, "%llud %lluh", s / 86400, s % 86400 / 3600);
    }
    return buf;
}

const char *out_bytes(double bytes, char *buf, size_t n)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        bytes /= 1024;
        unit++;
    }
    (void)snprintf(buf, n, "%.*f %s", unit == 0 || bytes >= 100 ? 0 : 1, bytes, units[unit]);
    return buf;
}

const char *out_optimizer_name(const ps_optimizer *o)
{
    switch (o->kind) {
    case PS_OPT_NONE:
        return "none";
    case PS_OPT_SGD:
        return "sgd";
    case PS_OPT_MOMENTUM:
        return "momentum";
    case PS_OPT_ADAGRAD:
        return "adagrad";
    case PS_OPT_ADAM:
        return "adam";
    default:
        return "unknown";
    }
}

const char *out_optimizer(const ps_optimizer *o, char *buf, size_t n)
{
    const char *name = out_optimizer_name(o);
    switch (o->kind) {
    case PS_OPT_SGD:
        (void)snprintf(buf, n, "%s(learning_rate=%.9g)", name, o->learning_rate);
        break;
    case PS_OPT_MOMENTUM:
        (void)snprintf(buf, n, "%s(learning_rate=%.9g, momentum=%.9g%s)", name, o->learning_rate, o->momentum,
                       o->nesterov != 0 ? ", nesterov" : "");
        break;
    case PS_OPT_ADAGRAD:
        (void)snprintf(buf, n, "%s(learning_rate=%.9g, initial_accumulator=%.9g)", name, o->learning_rate,
                       o->initial_accumulator);
        break;
    case PS_OPT_ADAM:
        (void)snprintf(buf, n, "%s(learning_rate=%.9g, beta1=%.9g, beta2=%.9g, epsilon=%.9g)", name, o->learning_rate, o->beta1,
                       o->beta2, o->epsilon);
        break;
    default:
        (void)snprintf(buf, n, "%s", name);
        break;
    }
    return buf;
}
