/* SPDX-License-Identifier: Apache-2.0 */
/* The CRCs of a value's segments: right after any change that was told, kept until then, for values of any length. */
#include "test.h"
#include "common/crc32c.h"
#include "common/mem.h"
#include "psd/store/sums.h"

enum { LONG = 3 * PS_SEGMENT_BYTES + 1000 };

static void check(struct psd_sums *s, const uint8_t *value, uint64_t bytes, uint64_t offset)
{
    uint64_t left = bytes - offset;
    uint32_t part = left < PS_SEGMENT_BYTES ? (uint32_t)left : PS_SEGMENT_BYTES;
    assert_int_equal(psd_sums_get(s, value, bytes, offset, part), psi_crc32c(0, value + offset, part));
}

static void check_all(struct psd_sums *s, const uint8_t *value, uint64_t bytes)
{
    for (uint64_t offset = 0; offset < bytes; offset += PS_SEGMENT_BYTES) {
        check(s, value, bytes, offset);
    }
}

TEST(test_changes_that_are_told)
{
    static const uint64_t lengths[] = {4, 1000, PS_SEGMENT_BYTES, PS_SEGMENT_BYTES + 8, LONG};
    uint8_t *value = test_alloc(LONG);
    for (size_t k = 0; k < ARRAY_COUNT(lengths); k++) {
        struct psd_sums s = {0};
        uint64_t n = lengths[k];
        memset(value, (int)k, n);
        check_all(&s, value, n);
        /* one byte, a range that ends with a segment, one that begins with one, one over several, all */
        const struct {
            uint64_t first, bytes;
        } changes[] = {{n / 2, 1}, {PS_SEGMENT_BYTES - 8, 8}, {PS_SEGMENT_BYTES, 4}, {100, 2 * PS_SEGMENT_BYTES}, {0, n}};
        for (size_t c = 0; c < ARRAY_COUNT(changes); c++) {
            if (changes[c].first + changes[c].bytes > n) {
                continue;
            }
            memset(value + changes[c].first, (int)(17 + c), changes[c].bytes);
            psd_sums_changed(&s, value, n, changes[c].first, changes[c].bytes);
            psd_sums_changed(&s, value, n, changes[c].first, changes[c].bytes); /* it was not sent since */
            check_all(&s, value, n);
        }
        /* parts that are no segments */
        for (uint64_t offset = 0; offset + 4 <= n && offset < 20; offset += 4) {
            assert_int_equal(psd_sums_get(&s, value, n, offset, 4), psi_crc32c(0, value + offset, 4));
        }
        check_all(&s, value, n);
        psd_sums_reset(&s);
        memset(value, 99, LONG);
        check_all(&s, value, LONG); /* of another length now */
        psd_sums_reset(&s);
    }
}

/* Nobody has said that the value changed: the CRC is the one of before. Debug builds look. */
TEST(test_kept)
{
#ifdef PSI_DEBUG
    skip();
#endif
    static const uint64_t lengths[] = {1000, LONG};
    uint8_t *value = test_alloc(LONG);
    for (size_t k = 0; k < ARRAY_COUNT(lengths); k++) {
        struct psd_sums s = {0};
        uint32_t part = lengths[k] < PS_SEGMENT_BYTES ? (uint32_t)lengths[k] : PS_SEGMENT_BYTES;
        memset(value, 1, LONG);
        uint32_t before = psd_sums_get(&s, value, lengths[k], 0, part);
        value[3] = 2;
        assert_int_equal(psd_sums_get(&s, value, lengths[k], 0, part), before);
        psd_sums_changed(&s, value, lengths[k], 3, 1);
        check(&s, value, lengths[k], 0);
        psd_sums_reset(&s);
    }
}

TEST(test_without_memory)
{
    struct psd_sums s = {0};
    uint8_t *value = test_alloc(LONG);
    memset(value, 5, LONG);
    for (int i = 0; i < 3; i++) {
        psi_mem_fail_after(0);
        check(&s, value, LONG, PS_SEGMENT_BYTES);
        assert_null(s.many);
    }
    check_all(&s, value, LONG);
    assert_non_null(s.many);
    psd_sums_reset(&s);
}
