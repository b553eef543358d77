/* SPDX-License-Identifier: Apache-2.0 */
/* common/ways.c: what is one, and which word is for a container. */
#include "test.h"

#include "common/ways.h"

static const char *const words[] = {"partial", "cut", NULL};

TEST(test_what_is_one)
{
    static const struct {
        const char *text, *kept;
    } good[] = {{"cut", "cut"},
                {"Partial", "partial"},
                {" cut ", "cut"},
                {"model=cut", "model=cut"},
                {"partial,model=cut", "partial,model=cut"},
                {"model=cut,partial", "model=cut,partial"},
                {"a=cut, a/b = partial ,c=CUT,", "a=cut,a/b=partial,c=cut"},
                {",,cut", "cut"},
                {"cut,cut=partial", "cut,cut=partial"}};
    static const char *const bad[] = {"",
                                      " ",
                                      ",",
                                      ", ,",
                                      "cu",
                                      "cutt",
                                      "cut cut",
                                      "cut,partial",
                                      "cut,cut",
                                      "=cut",
                                      "model=",
                                      "model=none",
                                      "model==cut",
                                      "a=cut,a=cut",
                                      "a=cut,cut,a=partial",
                                      "a b=cut",
                                      "/a=cut",
                                      "cut;a=partial",
                                      "a:cut",
                                      "="};
    char kept[64];
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        const size_t n = strlen(good[i].kept);
        if (!psi_ways_read(words, good[i].text, kept, n + 1) || strcmp(kept, good[i].kept) != 0) {
            fail_msg("'%s' is refused, or kept as '%s'", good[i].text, kept);
        }
        assert_false(psi_ways_read(words, good[i].text, kept, n)); /* no room */
        assert_true(psi_ways_read(words, good[i].kept, kept, sizeof(kept)));
        assert_string_equal(kept, good[i].kept);
    }
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        if (psi_ways_read(words, bad[i], kept, sizeof(kept))) {
            fail_msg("'%s' is taken", bad[i]);
        }
    }
}

TEST(test_which_word)
{
    static const struct {
        const char *text, *container;
        int word;
    } rows[] = {
        {"cut", "a", 1},
        {"partial", "a", 0},
        {"a=cut", "a", 1},
        {"a=cut", "b", 0},
        {"a=cut", "a/b", 0},
        {"a/b=cut", "a", 0},
        {"cut,a=partial", "a", 0},
        {"cut,a=partial", "b", 1},
        {"a = PARTIAL , CUT", "a", 0},
        {"a = PARTIAL , CUT", "A", 1}, /* names have a case */
        {"partial,cut=cut", "cut", 1},
        {"partial,cut=cut", "a", 0},
        {"b=cut,a=cut,c=partial", "c", 0},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (psi_way_of(words, rows[i].text, rows[i].container) != rows[i].word) {
            fail_msg("'%s' of '%s'", rows[i].text, rows[i].container);
        }
    }
}
