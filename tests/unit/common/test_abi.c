/* SPDX-License-Identifier: Apache-2.0 */
/* Structs that grow: those of callers with an older, the same, a newer header, and ones that nobody filled in. */
#include "test.h"

#include "common/abi.h"

struct ours {
    size_t struct_bytes;
    uint32_t first;
    uint32_t second;
    uint64_t third;
};

struct newer {
    struct ours known;
    uint8_t more[24];
};

static const struct ours defaults = {.struct_bytes = sizeof(struct ours), .first = 1, .second = 2, .third = 3};

static ps_status take(const void *from, struct ours *to, struct psi_err *err)
{
    *to = defaults;
    memset(err, 0, sizeof(*err));
    return psi_struct_take(from, to, sizeof(*to), "ours_init", err);
}

TEST(an_older_caller_keeps_the_defaults_of_what_it_does_not_have)
{
    struct ours to;
    struct psi_err err;
    for (size_t bytes = sizeof(size_t); bytes <= sizeof(struct ours); bytes++) {
        struct ours from;
        memset(&from, 0x55, sizeof(from));
        from.struct_bytes = bytes;
        assert_int_equal(take(&from, &to, &err), PS_OK);
        assert_int_equal(to.struct_bytes, sizeof(to));
        const uint8_t *got = (const uint8_t *)&to;
        const uint8_t *standard = (const uint8_t *)&defaults;
        for (size_t i = sizeof(size_t); i < sizeof(to); i++) {
            assert_int_equal(got[i], i < bytes ? 0x55 : standard[i]);
        }
    }
}

TEST(a_newer_caller_may_not_set_what_is_not_known)
{
    struct ours to;
    struct psi_err err;
    struct newer from = {.known = {.struct_bytes = sizeof(from), .first = 7}};
    assert_int_equal(take(&from, &to, &err), PS_OK);
    assert_int_equal(to.first, 7);
    assert_int_equal(to.struct_bytes, sizeof(to));
    for (size_t i = 0; i < sizeof(from.more); i++) {
        memset(from.more, 0, sizeof(from.more));
        from.more[i] = 1;
        assert_int_equal(take(&from, &to, &err), PS_UNIMPLEMENTED);
        assert_non_null(strstr(err.text, "ours_init"));
        assert_memory_equal(&to, &defaults, sizeof(to));
    }
}

TEST(what_nobody_filled_in_is_refused)
{
    static uint64_t large[4104 / sizeof(uint64_t)]; /* zeros */
    static const size_t sizes[] = {0, 1, sizeof(size_t) - 1, 4097, SIZE_MAX};
    struct ours to;
    struct psi_err err;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        memcpy(large, &sizes[i], sizeof(sizes[i]));
        assert_int_equal(take(large, &to, &err), PS_INVALID_ARGUMENT);
        assert_non_null(strstr(err.text, "not initialised by ours_init()"));
        assert_memory_equal(&to, &defaults, sizeof(to));
    }
    size_t most = 4096;
    memcpy(large, &most, sizeof(most));
    assert_int_equal(take(large, &to, &err), PS_OK);
    assert_int_equal(to.first, 0);
}

/* A program of an older header hears what it knows, one of a newer header zeros behind it; neighbours stay as they are. */
TEST(test_give)
{
    static const uint8_t item[4] = {1, 2, 3, 4};
    struct psi_err err;
    for (size_t bytes = 1; bytes <= 6; bytes++) {
        uint8_t array[18];
        memset(array, 9, sizeof(array));
        psi_struct_give(array, bytes, 1, item, sizeof(item));
        for (size_t i = 0; i < sizeof(array); i++) {
            size_t at = i - bytes;
            assert_int_equal(array[i], i < bytes || at >= bytes ? 9 : at < sizeof(item) ? item[at] : 0);
        }
        assert_int_equal(psi_struct_bytes_check(bytes, "ps_x", &err), PS_OK);
    }
    assert_fails(psi_struct_bytes_check(0, "ps_x", &err), PS_INVALID_ARGUMENT, &err, "ps_x(): item_bytes is 0");
    assert_fails(psi_struct_bytes_check(SIZE_MAX, "ps_x", &err), PS_INVALID_ARGUMENT, &err, "item_bytes");
}
