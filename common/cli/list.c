/* SPDX-License-Identifier: Apache-2.0 */
/* Write the rows of a list. Happy path: cli_list_begin(), cli_list_add() for each row, cli_list_end(). Failure: without memory
 * the program ends (table.h), because JSON that lacks a row or a member cannot be told from whole JSON. */
#include "list.h"

#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static json_int_t number_of(enum cli_kind kind, const void *field)
{
    if (kind == CLI_BOOL) {
        return *(const bool *)field;
    }
    if (kind == CLI_INT) {
        return *(const int *)field;
    }
    return kind == CLI_U32 ? *(const uint32_t *)field : *(const json_int_t *)field;
}

static json_t *value_of(const struct cli_column *c, const void *row)
{
    const void *field = (const char *)row + c->offset;
    if (c->value != NULL) {
        return c->value(row);
    }
    switch (c->kind) {
    case CLI_TEXT:
        return cli_json_text(field);
    case CLI_STRING:
        return cli_json_text(*(const char *const *)field);
    case CLI_BOOL:
        return json_boolean(number_of(c->kind, field) != 0);
    case CLI_RATE:
        return cli_json_f64(*(const double *)field);
    case CLI_HEX:
        return cli_json_hex(*(const uint64_t *)field);
    case CLI_OTHER:
        return NULL;
    case CLI_INT:
    case CLI_U32:
    case CLI_U64:
    case CLI_I64:
    case CLI_BYTES:
    case CLI_TIME:
        break;
    }
    return json_integer(number_of(c->kind, field));
}

static const char *cell_of(const struct cli_column *c, const void *row, char *buf, size_t n)
{
    const void *field = (const char *)row + c->offset;
    if (c->has != NULL && !c->has(row)) {
        return "-";
    }
    if (c->cell != NULL) {
        return c->cell(row, buf, n);
    }
    switch (c->kind) {
    case CLI_TEXT:
        return field;
    case CLI_STRING:
        return *(const char *const *)field;
    case CLI_BOOL:
        return number_of(c->kind, field) != 0 ? "yes" : "no";
    case CLI_RATE:
        (void)snprintf(buf, n, "%.1f", *(const double *)field);
        break;
    case CLI_BYTES:
        return cli_bytes((double)number_of(c->kind, field), buf, n);
    case CLI_TIME:
        return cli_duration((uint64_t)number_of(c->kind, field), buf, n);
    case CLI_HEX:
        (void)snprintf(buf, n, "%016" PRIx64, *(const uint64_t *)field);
        break;
    case CLI_U64:
        (void)snprintf(buf, n, "%" PRIu64, *(const uint64_t *)field);
        break;
    case CLI_OTHER:
        return "";
    case CLI_INT:
    case CLI_U32:
    case CLI_I64:
        (void)snprintf(buf, n, "%lld", (long long)number_of(c->kind, field));
        break;
    }
    return buf;
}

static bool is_right(const struct cli_column *c)
{
    return c->right ||
           (c->kind != CLI_TEXT && c->kind != CLI_STRING && c->kind != CLI_BOOL && c->kind != CLI_HEX && c->kind != CLI_OTHER);
}

void cli_list_begin(struct cli_list *l, const char *key, const struct cli_column *columns, size_t column_count, bool json)
{
    *l = (struct cli_list){.columns = columns, .column_count = column_count, .json = json};
    if (json) {
        cli_json_list(key);
        return;
    }
    for (size_t i = 0; i < column_count; i++) {
        l->table.columns += columns[i].heading != NULL ? 1 : 0;
    }
    for (size_t i = 0, shown = 0; i < column_count; i++) {
        if (columns[i].heading != NULL) {
            l->table.right |= is_right(&columns[i]) ? 1u << shown : 0;
            cli_cell(&l->table, "%s", columns[i].heading);
            shown++;
        }
    }
}

json_t *cli_row(const struct cli_column *columns, size_t column_count, const void *row)
{
    json_t *object = json_object();
    if (object == NULL) {
        cli_no_memory();
    }
    for (size_t i = 0; i < column_count; i++) {
        const struct cli_column *c = &columns[i];
        if (c->key == NULL || (c->has != NULL && !c->has(row))) {
            continue;
        }
        json_t *value = value_of(c, row);
        const bool optional = c->value != NULL || c->kind == CLI_OTHER; /* NULL: this row has no such member */
        if ((value == NULL && !optional) || (value != NULL && json_object_set_new(object, c->key, value) != 0)) {
            cli_no_memory();
        }
    }
    return object;
}

static void add_cells(struct cli_list *l, const void *row)
{
    for (size_t i = 0; i < l->column_count; i++) {
        char buf[CLI_CELL_MAX];
        if (l->columns[i].heading != NULL) {
            cli_cell(&l->table, "%s", cell_of(&l->columns[i], row, buf, sizeof(buf)));
        }
    }
}

void cli_list_add(struct cli_list *l, const void *row)
{
    if (l->json) {
        cli_json_put(NULL, cli_row(l->columns, l->column_count, row));
    } else {
        add_cells(l, row);
    }
    l->count++;
}

void cli_list_total(struct cli_list *l, const void *row)
{
    if (!l->json) {
        add_cells(l, row);
        l->table.total = true;
    }
}

void cli_list_end(struct cli_list *l, const struct cli_room *room)
{
    if (l->json) {
        cli_json_end();
    } else {
        cli_table_print(&l->table, room);
    }
}
