/* SPDX-License-Identifier: Apache-2.0 */
/* psd/checkpoint/plan.c: the rules of a start, row by row (DURABILITY 7.2), and what holds of all combinations of facts. */
#include "test.h"

#include "psd/checkpoint/plan.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *when;
    struct psd_plan_facts facts;
    struct psd_plan plan;
} starts[] = {
    {"nobody waits, all is well", {.lives = true}, {.reason = PSD_LOAD_RETURN}},
    {"nobody waits, nothing is there", {0}, {.reason = PSD_LOAD_START}},
    {"nothing lives: all load", {.waits = true}, {.due = true, .reason = PSD_LOAD_START}},
    {"others live: for those who came back", {.waits = true, .lives = true}, {.due = true, .reason = PSD_LOAD_RETURN}},
    {"torn: all go back, though nobody waits",
     {.lives = true, .torn = true},
     {.due = true, .mends = true, .reason = PSD_LOAD_MENDS}},
    {"torn, and a task came back",
     {.waits = true, .lives = true, .torn = true},
     {.due = true, .mends = true, .reason = PSD_LOAD_MENDS}},
    {"torn, and nothing could mend it", {.lives = true, .torn = true, .torn_stays = true}, {.reason = PSD_LOAD_RETURN}},
    {"torn, nothing could mend it, and a task came back",
     {.waits = true, .lives = true, .torn = true, .torn_stays = true},
     {.due = true, .reason = PSD_LOAD_RETURN}},
};

TEST(test_starts)
{
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        const struct psd_plan p = psd_plan_start(&starts[i].facts), *want = &starts[i].plan;
        if (p.due != want->due || p.mends != want->mends || p.reason != want->reason) {
            fail_msg("%s: due %d, mends %d, reason %d", starts[i].when, p.due, p.mends, (int)p.reason);
        }
    }
}

/* A table of docs/DURABILITY.md, 7.2. Each row: facts (no, yes, any), and then what holds. */
enum { ROWS_MAX = 16, CELLS = 9, CELL_BYTES = 64 };

struct table {
    char rows[ROWS_MAX][CELLS][CELL_BYTES];
    size_t count;
};

/* Read the table behind the line `<!-- what: ...`. */
static void read_table(const char *what, struct table *out)
{
    char line[512], mark[64];
    bool found = false;
    FILE *f = fopen("docs/DURABILITY.md", "r");
    assert_non_null(f);
    out->count = 0;
    PSI_IGNORE(snprintf(mark, sizeof(mark), "<!-- %s: ", what)); /* fits */
    while (fgets(line, sizeof(line), f) != NULL) {
        if (found && strncmp(line, "<!-- ", 5) == 0) {
            break;
        }
        found = found || strncmp(line, mark, strlen(mark)) == 0;
        if (!found || (strncmp(line, "| no |", 6) != 0 && strncmp(line, "| yes |", 7) != 0 && strncmp(line, "| any |", 7) != 0)) {
            continue;
        }
        assert_in_range(out->count, 0, ROWS_MAX - 1);
        char *at = line + 1;
        for (size_t i = 0; i < CELLS; i++) {
            const char *cell = at == NULL ? "" : strsep(&at, "|\n");
            cell += strspn(cell, " ");
            size_t n = strlen(cell);
            while (n > 0 && cell[n - 1] == ' ') {
                n--;
            }
            PSI_IGNORE(snprintf(out->rows[out->count][i], CELL_BYTES, "%.*s", (int)n, cell)); /* fits */
        }
        out->count++;
    }
    PSI_IGNORE(fclose(f)); /* was only read */
    assert_true(out->count > 0);
}

/* The first row that fits these facts, by the bits of `facts`: the cells behind those of the facts. */
static char (*row_of(struct table *table, unsigned facts, size_t count))[CELL_BYTES]
{
    for (size_t i = 0; i < table->count; i++) {
        bool fits = true;
        for (size_t k = 0; k < count; k++) {
            const char *cell = table->rows[i][k];
            fits = fits && (strcmp(cell, "any") == 0 || strcmp(cell, (facts >> k & 1) != 0 ? "yes" : "no") == 0);
        }
        if (fits) {
            return &table->rows[i][count];
        }
    }
    fail_msg("facts %x are in no row of docs/DURABILITY.md", facts);
    return NULL;
}

TEST(test_who_loads_as_the_page_says)
{
    struct table table;
    read_table("who loads", &table);
    for (unsigned n = 0; n < 16; n++) {
        const struct psd_plan p =
            psd_plan_start(&(struct psd_plan_facts){.waits = n & 1, .lives = n >> 1 & 1, .torn = n >> 2 & 1});
        const bool all = psd_plan_is_of_all(p.reason, n >> 3 & 1);
        const char *because = p.reason == PSD_LOAD_START   ? "nothing lives"
                              : p.reason == PSD_LOAD_MENDS ? "it mends"
                              : all                        ? "all of one instant"
                                                           : "others live";
        char(*said)[CELL_BYTES] = row_of(&table, n, 4);
        assert_string_equal(said[0], !p.due ? "nobody" : all ? "all" : "those who wait");
        assert_string_equal(said[1], p.due ? because : "");
    }
}

TEST(test_what_goes_back_as_the_page_says)
{
    struct table table;
    read_table("what goes back", &table);
    for (unsigned n = 0; n < 128; n++) {
        const struct psd_plan_container c = {.asked = n & 1,
                                             .total = (n >> 1 & 1) == 0,
                                             .torn = n >> 2 & 1,
                                             .strays = n >> 3 & 1,
                                             .lacked = n >> 4 & 1,
                                             .lives = n >> 5 & 1,
                                             .together = n >> 6 & 1};
        assert_string_equal(row_of(&table, n, 7)[0], psd_plan_goes_back(&c) ? "yes" : "no");
    }
}

TEST(test_every_combination)
{
    for (unsigned n = 0; n < 16; n++) {
        const struct psd_plan_facts f = {.waits = n & 1, .lives = n >> 1 & 1, .torn = n >> 2 & 1, .torn_stays = n >> 3 & 1};
        const struct psd_plan p = psd_plan_start(&f);
        assert_true(p.reason > PSD_LOAD_NONE && p.reason < PSD_LOAD_ASKED);      /* a client's wish is no fact of the tasks */
        assert_true((p.reason == PSD_LOAD_START) == !f.lives);                   /* what all have lost all load */
        assert_true(!p.mends || (psd_plan_is_of_all(p.reason, false) && p.due)); /* what is torn is torn everywhere */
        assert_true(!f.waits || p.due);                                          /* nobody waits unseen */
    }
}

static const struct {
    const char *when;
    struct psd_plan_container container;
    bool goes_back;
} containers[] = {
    {"nobody lacks it", {.lives = true}, false},
    {"nobody lacks it, and it is of one instant", {.lives = true, .together = true}, false},
    {"those who came back lack it, the others keep theirs", {.lacked = true, .lives = true}, false},
    {"those who came back lack it, and it is of one instant", {.lacked = true, .lives = true, .together = true}, true},
    {"it lives nowhere", {.lacked = true}, true},
    {"it lives nowhere, and nobody who waits has a part", {0}, false},
    {"nothing lives", {.total = true}, true},
    {"somebody asked for it", {.asked = true, .lives = true}, true},
    {"it is torn", {.torn = true, .lives = true}, true},
    {"it lies elsewhere than in the checkpoint", {.strays = true, .lives = true}, true},
};

TEST(test_what_goes_back)
{
    for (size_t i = 0; i < sizeof(containers) / sizeof(containers[0]); i++) {
        if (psd_plan_goes_back(&containers[i].container) != containers[i].goes_back) {
            fail_msg("%s: it goes back everywhere: %d", containers[i].when, !containers[i].goes_back);
        }
    }
}

TEST(test_who_places)
{
    static const struct {
        struct psd_plan_part part;
        bool places;
    } parts[] = {
        {{.goes_back = true}, true}, /* also who has no part of it: what it has of the container goes */
        {{.goes_back = true, .loaded = true, .unfinished = true}, true},
        {{.loaded = true, .waits = true}, true},
        {{.loaded = true}, false},                                    /* it lives: it keeps what it has */
        {{.loaded = true, .unfinished = true, .waits = true}, false}, /* half a model beside what was trained */
        {{.waits = true}, false},
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        assert_int_equal(psd_plan_places(&parts[i].part), parts[i].places);
    }
}
