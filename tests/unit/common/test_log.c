/* SPDX-License-Identifier: Apache-2.0 */
/* common/log.c: levels, every conversion, quoting that no value can break out of, cut lines, time. */
#include "test.h"

#include "common/log.h"

#include <inttypes.h>

static char last[PSI_LOG_LINE_MAX + 16];
static int lines;
static enum psi_log_level last_level;

static void write_line(void *data, enum psi_log_level level, const char *line)
{
    assert_ptr_equal(data, &lines);
    lines++;
    last_level = level;
    assert_true(strlen(line) < PSI_LOG_LINE_MAX);
    memcpy(last, line, strlen(line) + 1);
}

static void stamp(void *data, char *buf, size_t n)
{
    (void)data;
    PSI_IGNORE(psi_log_format_time(1709210096789, buf, n));
}

static struct psi_log plain = {.write = write_line, .data = &lines, .level = PSI_LOG_DEBUG};

TEST(test_line)
{
    struct psi_log log = plain;
    log.stamp = stamp;
    psi_log_event(&log, PSI_LOG_WARN, "push_rejected", PSI_KV("conn", 7u), PSI_KV("var", "w3"), PSI_KV("st", "INVALID_ARGUMENT"),
                  PSI_KV("msg", "bad shape"));
    assert_string_equal(last, "ts=2024-02-29T12:34:56.789Z lvl=warn ev=push_rejected conn=7 var=w3 st=INVALID_ARGUMENT "
                              "msg=\"bad shape\"");
    assert_int_equal(last_level, PSI_LOG_WARN);
    psi_log_event(&plain, PSI_LOG_INFO, "started", PSI_KV("k", 1)); /* without a stamp */
    assert_string_equal(last, "lvl=info ev=started k=1");
}

TEST(test_levels)
{
    struct psi_log log = plain;
    lines = 0;
    log.level = PSI_LOG_WARN;
    psi_log_event(&log, PSI_LOG_DEBUG, "a", PSI_KV("k", 1));
    psi_log_event(&log, PSI_LOG_INFO, "a", PSI_KV("k", 1));
    assert_int_equal(lines, 0);
    psi_log_event(&log, PSI_LOG_WARN, "a", PSI_KV("k", 1));
    psi_log_event(&log, PSI_LOG_ERROR, "a", PSI_KV("k", 1));
    assert_int_equal(lines, 2);
    log.level = PSI_LOG_OFF;
    psi_log_event(&log, PSI_LOG_ERROR, "a", PSI_KV("k", 1));
    psi_log_event(&log, PSI_LOG_OFF, "a", PSI_KV("k", 1));
    log.level = PSI_LOG_DEBUG;
    log.write = NULL;
    psi_log_event(&log, PSI_LOG_ERROR, "a", PSI_KV("k", 1));
    psi_log_event(NULL, PSI_LOG_ERROR, "a", PSI_KV("k", 1));
    assert_int_equal(lines, 2);
    static const char *const names[] = {"debug", "info", "warn", "error", "off"};
    for (int i = PSI_LOG_DEBUG; i <= PSI_LOG_OFF; i++) {
        assert_string_equal(psi_log_level_name((enum psi_log_level)i), names[i]);
    }
    assert_string_equal(psi_log_level_name((enum psi_log_level)9), "invalid");
}

TEST(test_types)
{
    const char *volatile nothing = NULL; /* the compiler must not see it */
    unsigned char small = 200;
    psi_log_event(&plain, PSI_LOG_INFO, "e", PSI_KV("a", -5), PSI_KV("b", INT32_MIN), PSI_KV("c", UINT32_MAX), PSI_KV("d", -1L),
                  PSI_KV("e", ~0UL), PSI_KV("f", INT64_MIN), PSI_KV("g", ~0ULL), PSI_KV("h", (size_t)3), PSI_KV("i", small),
                  PSI_KV("j", (bool)(small > 3)));
    assert_string_equal(last, "lvl=info ev=e a=-5 b=-2147483648 c=4294967295 d=-1 e=18446744073709551615 f=-9223372036854775808 "
                              "g=18446744073709551615 h=3 i=200 j=1");
    psi_log_event(&plain, PSI_LOG_INFO, "e", PSI_KV_BYTES("a", "abcdef", 3), PSI_KV("b", nothing));
    assert_string_equal(last, "lvl=info ev=e a=abc b=\"\"");
}

TEST(test_fields_alone)
{
    char buf[80];
    assert_string_equal(psi_log_format(buf, sizeof(buf), PSI_KVS(PSI_KV("a", 1), PSI_KV("b", "two words"))),
                        "a=1 b=\"two words\"");
    psi_log_fields(&plain, PSI_LOG_INFO, "e", PSI_KVS(PSI_KV("task", "t")), buf);
    assert_string_equal(last, "lvl=info ev=e task=t a=1 b=\"two words\"");
    psi_log_fields(&plain, PSI_LOG_INFO, "e", NULL, 0, "");
    assert_string_equal(last, "lvl=info ev=e");
    char in[200];
    memset(in, 'x', sizeof(in) - 1);
    in[sizeof(in) - 1] = '\0';
    assert_string_equal(psi_log_format(buf, sizeof(buf), PSI_KVS(PSI_KV("a", in))) + strlen(buf) - 10, "x cut=true");
}

TEST(test_quoting)
{
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"plain-1.2/3:4", "plain-1.2/3:4"},
        {"", "\"\""},
        {"two words", "\"two words\""},
        {"a=b", "\"a=b\""},
        {"say \"hi\"", "\"say \\\"hi\\\"\""},
        {"back\\slash", "\"back\\\\slash\""},
        {"x\ny\tz\r", "\"x\\ny\\tz\\r\""},
        {"\x01\x1b[31m\x7f", "\"\\x01\\x1b[31m\\x7f\""},
        {"\xff\xc3\xbc", "\"\\xff\\xc3\\xbc\""},
        {"v lvl=error ev=forged", "\"v lvl=error ev=forged\""},
        {"\" ev=forged x=\"", "\"\\\" ev=forged x=\\\"\""},
        {"\x1f%s%n", "\"\\x1f%s%n\""},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char expected[128];
        psi_log_event(&plain, PSI_LOG_INFO, "e", PSI_KV("k", rows[i].in), PSI_KV("n", 1));
        PSI_IGNORE(snprintf(expected, sizeof(expected), "lvl=info ev=e k=%s n=1", rows[i].out));
        assert_string_equal(last, expected);
    }
}

TEST(test_long_lines_are_cut)
{
    char in[3000];
    static const char fill[] = {'x', '"', '\x01', ' ', '\x7f'};
    for (size_t f = 0; f < ARRAY_COUNT(fill); f++) {
        for (size_t n = 400; n < sizeof(in); n++) {
            memset(in, fill[f], n);
            in[n] = '\0';
            memset(in, 'x', n % 4); /* what is escaped to four bytes ends at each of four places */
            psi_log_event(&plain, PSI_LOG_INFO, "e", PSI_KV("k", in), PSI_KV("n", 1));
            size_t len = strlen(last);
            bool whole = strcmp(last + len - 4, " n=1") == 0;
            bool cut = strcmp(last + len - 9, " cut=true") == 0;
            assert_true(whole != cut);
            /* quotes are balanced: a '"' that is not escaped opens and one closes */
            unsigned int quotes = 0;
            for (size_t i = 0; i < len; i++) {
                quotes += last[i] == '"' && last[i - 1] != '\\';
            }
            assert_int_equal(quotes, fill[f] == 'x' ? 0 : 2);
            if (f == 0 && n <= 1900) {
                assert_true(whole);
            }
            if (n > 2048) {
                assert_true(cut && len > PSI_LOG_LINE_MAX - 16);
            }
        }
    }
}

TEST(test_time)
{
    char buf[32];
    static const struct {
        uint64_t ms;
        const char *text;
    } rows[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {951782399999, "2000-02-28T23:59:59.999Z"},
        {951782400000, "2000-02-29T00:00:00.000Z"},
        {951868800000, "2000-03-01T00:00:00.000Z"},
        {1709210096789, "2024-02-29T12:34:56.789Z"},
        {1735689599000, "2024-12-31T23:59:59.000Z"},
        {4107542400000, "2100-03-01T00:00:00.000Z"}, /* no leap year */
        {253402300799999, "9999-12-31T23:59:59.999Z"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        assert_string_equal(psi_log_format_time(rows[i].ms, buf, sizeof(buf)), rows[i].text);
    }
    psi_log_format_time(UINT64_MAX, buf, sizeof(buf));
    assert_true(strlen(buf) < sizeof(buf));
}
