/* SPDX-License-Identifier: Apache-2.0 */
/* Slurm's lists: names of nodes, tasks per node, ports and ranks. Names: commas outside of brackets separate parts. In brackets
 * stand numbers and ranges; the width of a range's first number pads all of it ("[08-10]" is 08 09 10). Several brackets give all
 * combinations; the last bracket changes fastest. Order and duplicates stay. Text behind the last bracket is refused, as Slurm
 * 22.05 does. Failure: a list that is cut, nested, empty or too long. */
#include "resolve.h"

#include "common/name.h"

#include <stdio.h>
#include <string.h>

enum { NUMBER_MAX = 999999999, NUMBER_DIGITS = 9 };

struct range {
    uint32_t first, last;
    int width;
};

static ps_status refuse(struct psi_err *err, const char *why, const char *at, size_t len)
{
    char quoted[64];
    return psi_fail(err, PS_INVALID_ARGUMENT, "%s at %s", why, psi_quote(quoted, sizeof(quoted), at, len));
}

static ps_status range_read(const char *p, size_t len, struct range *out, struct psi_err *err)
{
    const char *dash = memchr(p, '-', len);
    size_t digits = dash != NULL ? (size_t)(dash - p) : len;
    struct range r = {.width = (int)digits};
    bool good = digits <= NUMBER_DIGITS && psi_digits_read(p, digits, NUMBER_MAX, &r.first);
    r.last = r.first;
    if (good && dash != NULL) {
        size_t rest = len - digits - 1;
        good = rest <= NUMBER_DIGITS && psi_digits_read(dash + 1, rest, NUMBER_MAX, &r.last);
    }
    if (!good) {
        return refuse(err, "a number or a range is expected", p, len);
    }
    if (r.last < r.first) {
        return refuse(err, "the range runs backwards", p, len);
    }
    *out = r;
    return PS_OK;
}

/* A part of Slurm's list of nodes, from text to end, and the host name that is being made from it. */
struct part {
    struct psi_nodes *out;
    const char *text, *end;
    char name[PS_HOST_BYTES_MAX + 1];
    struct psi_err *err;
};

static ps_status name_add(struct part *p, size_t len)
{
    if (len == 0) {
        return refuse(p->err, "a name is empty", p->text, (size_t)(p->end - p->text));
    }
    if (p->out->count == PS_TASKS_MAX) {
        return psi_fail(p->err, PS_INVALID_ARGUMENT, "more than %d names", PS_TASKS_MAX);
    }
    memcpy(p->out->name[p->out->count], p->name, len);
    p->out->name[p->out->count++][len] = '\0';
    return PS_OK;
}

static ps_status name_put(struct part *p, size_t *len, const char *text, size_t bytes)
{
    if (bytes > PS_HOST_BYTES_MAX - *len) {
        return refuse(p->err, "a name has more than 255 bytes", p->text, (size_t)(p->end - p->text));
    }
    memcpy(p->name + *len, text, bytes);
    *len += bytes;
    return PS_OK;
}
_Static_assert(PS_HOST_BYTES_MAX == 255, "name_put names it");

/* Make all names of the part from `at` on; p->name has len bytes so far. A bracket recurses: at most PS_HOST_BYTES_MAX deep. */
static ps_status part_expand(struct part *p, const char *at, size_t len)
{
    size_t plain = 0;
    while (at + plain < p->end && at[plain] != '[') {
        char c = at[plain++];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!alnum && c != '-' && c != '.' && c != '_') {
            return refuse(p->err, "a name has letters, digits and . - _ only", at + plain - 1, (size_t)(p->end - at) - plain + 1);
        }
    }
    const char *open = at + plain;
    if (open == p->end && plain > 0 && at > p->text) {
        return refuse(p->err, "text behind the last bracket", at, plain);
    }
    ps_status st = name_put(p, &len, at, plain);
    if (st != PS_OK || open == p->end) {
        return st == PS_OK ? name_add(p, len) : st;
    }
    const char *close = memchr(open, ']', (size_t)(p->end - open));
    if (close == NULL) {
        return refuse(p->err, "a bracket does not end", open, (size_t)(p->end - open));
    }
    for (const char *item = open + 1; st == PS_OK && item <= close;) {
        const char *comma = memchr(item, ',', (size_t)(close - item));
        const char *item_end = comma != NULL ? comma : close;
        struct range range = {.width = 0};
        st = range_read(item, (size_t)(item_end - item), &range, p->err);
        for (uint32_t v = range.first; st == PS_OK && v <= range.last; v++) {
            char digits[16];
            size_t with = len;
            size_t bytes = (size_t)snprintf(digits, sizeof(digits), "%0*u", range.width, v);
            st = name_put(p, &with, digits, bytes);
            st = st == PS_OK ? part_expand(p, close + 1, with) : st;
        }
        item = item_end + 1;
    }
    return st;
}

ps_status psi_nodes_expand(const char *list, struct psi_nodes *out, struct psi_err *err)
{
    ps_status st = PS_OK;
    out->count = 0;
    for (const char *at = list; st == PS_OK && at != NULL;) {
        struct part part = {.out = out, .text = at, .err = err};
        bool inside = false;
        part.end = at;
        while (*part.end != '\0' && (inside || *part.end != ',')) {
            inside = (inside || *part.end == '[') && *part.end != ']';
            part.end++;
        }
        st = part_expand(&part, at, 0);
        at = *part.end == ',' ? part.end + 1 : NULL;
    }
    return st;
}

ps_status psi_counts_expand(const char *text, uint32_t counts[PS_TASKS_MAX], uint32_t *out_count, struct psi_err *err)
{
    uint32_t count = 0;
    for (const char *at = text; at != NULL;) {
        size_t len = strcspn(at, ",");
        size_t digits = strspn(at, "0123456789");
        uint32_t tasks = 0, times = 1;
        bool good = digits <= len && psi_digits_read(at, digits, NUMBER_MAX, &tasks);
        if (good && digits < len) {
            good = len > digits + 3 && memcmp(at + digits, "(x", 2) == 0 && at[len - 1] == ')' &&
                   psi_digits_read(at + digits + 2, len - digits - 3, NUMBER_MAX, &times) && times > 0;
        }
        if (!good) {
            return refuse(err, "COUNT or COUNT(xTIMES) is expected", at, len);
        }
        if (times > PS_TASKS_MAX - count) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "more than %d nodes", PS_TASKS_MAX);
        }
        for (; times > 0; times--) {
            counts[count++] = tasks;
        }
        at = at[len] == ',' ? at + len + 1 : NULL;
    }
    *out_count = count;
    return PS_OK;
}

ps_status psi_numbers_expand(const char *text, uint32_t most, uint32_t *out, uint32_t max, uint32_t *out_count,
                             struct psi_err *err)
{
    uint32_t count = 0;
    for (const char *at = text; at != NULL;) {
        struct range range;
        size_t len = strcspn(at, ",");
        ps_status st = range_read(at, len, &range, err);
        if (st != PS_OK) {
            return st;
        }
        if (range.last > most) {
            return refuse(err, "a number is too high", at, len);
        }
        for (uint32_t v = range.first; v <= range.last; v++) {
            if (count == max) {
                return psi_fail(err, PS_INVALID_ARGUMENT, "more than %u numbers", max);
            }
            out[count++] = v;
        }
        at = at[len] == ',' ? at + len + 1 : NULL;
    }
    *out_count = count;
    return PS_OK;
}
