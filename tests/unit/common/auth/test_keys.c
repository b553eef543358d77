/* SPDX-License-Identifier: Apache-2.0 */
/* common/auth/keys.c: good lines there and back, each bad line by its number and remedy, no secret in a text, the wire. */
#include "test.h"

#include "common/auth/keys.h"
#include "common/mem.h"

#include <stdlib.h>

#define A "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define B "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

static void free_keys(void *keys)
{
    psi_keys_free(keys);
}

static struct psi_keys *parse_bytes(const char *text, size_t n)
{
    struct psi_keys *keys = NULL;
    struct psi_err err = {0};
    assert_ok(psi_keys_parse(text, n, "f.keys", &keys, &err), &err);
    test_later(free_keys, keys);
    return keys;
}

static struct psi_keys *parse(const char *text)
{
    return parse_bytes(text, strlen(text));
}

TEST(test_a_file)
{
    const struct psi_keys *keys = parse("# the cluster\n\n"
                                        "ps0 00000001 ps " A " use cluster=mine\n"
                                        "\tw0\t00000002  worker " B " accept until=2027-03-31 # old\r\n"
                                        "w0 00000003 worker " B " use cluster=psd until=2024-02-29\n"
                                        "look 0000000a monitor " A " use");
    assert_int_equal(psi_keys_count(keys), 4);
    assert_string_equal(psi_keys_file(keys), "f.keys");
    const struct psi_key *key = psi_keys_at(keys, 0);
    assert_string_equal(key->name, "ps0");
    assert_string_equal(key->key_id, "00000001");
    assert_string_equal(key->role, "ps");
    assert_string_equal(key->cluster, "mine");
    assert_true(key->use && key->until_s == 0 && key->line == 3);
    assert_int_equal(key->secret[0], 0x01);
    assert_int_equal(key->secret[31], 0xef);
    key = psi_keys_at(keys, 1);
    assert_false(key->use);
    assert_string_equal(key->cluster, "");
    assert_true(key->until_s == 1806537600); /* 2027-04-01 00:00 UTC */
    assert_int_equal(key->line, 4);
    assert_true(psi_keys_at(keys, 2)->until_s == 1709251200); /* 2024-03-01 */
    assert_int_equal(psi_keys_at(keys, 3)->line, 6);
}

TEST(test_nothing_in_it)
{
    static const char *const texts[] = {
        "", "\n", "\r\n", "# a comment", "\n\n  \t\n# b\n", "\xef\xbb\xbf", "\xef\xbb\xbf# c\r\n"};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        assert_int_equal(psi_keys_count(parse(texts[i])), 0);
    }
    assert_int_equal(psi_keys_count(parse("\xef\xbb\xbfps0 00000001 ps " A " use")), 1);
}

static const struct {
    const char *line, *says;
} bad[] = {
    {"w0", "a key has 5 to 7 words, NAME KEYID ROLE SECRET use|accept [until=YYYY-MM-DD] [cluster=NAME], and this line has 1"},
    {"w0 00000001 worker " A, "this line has 4: psctl key new makes such a line"},
    {"w0 00000001 worker " A " use a b c", "this line has more than 7"},
    {"w/0 00000001 worker " A " use", "key name 'w/0'"},
    {"w:0 00000001 worker " A " use", "key name 'w:0'"},
    {".w 00000001 worker " A " use", "a letter or a digit"},
    {"nnnnnnnnnnbbbbbbbbbbccccccccccdddddddddde 00000001 worker " A " use",
     "the first word is a name of at most 40 bytes, and this is a word of 41"},
    {A " 00000001 worker w0 use", "the first word is a name of at most 40 bytes, and this is a word of 64 bytes"},
    {"0123456789abcdef0 00000001 worker w0 use", "the fourth word is a secret, 64 hexadecimal digits, and this one has 2 bytes"},
    {"w0 0000001 worker " A " use", "a key id, 8 hexadecimal digits in lower case, and this is '0000001'"},
    {"w0 000000001 worker " A " use", "a key id"},
    {"w0 0000000A worker " A " use", "in lower case"},
    {"w0 " A " worker 00000001 use", "and this is a word of 64 bytes"},
    {"w0 00000001 wroker " A " use", "did you mean worker?"},
    {"w0 00000001 " A " worker use", "a role, ps, worker, monitor or admin, and this is a word of 64 bytes"},
    {"w0 00000001 worker 0123 use", "a secret, 64 hexadecimal digits, and this one has 4 bytes: copy the line again"},
    {"w0 00000001 worker " A "0 use", "this one has 65 bytes"},
    {"w0 00000001 worker g123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef use", "not all of them such digits"},
    {"w0 00000001 worker use " A, "use (a client dials with it) or accept (it does not), and this is a word of 64 bytes"},
    {"w0 00000001 worker " A " Use", "and this is 'Use'"},
    {"w0 00000001 worker " A " use until=2027-02-29", "'until=2027-02-29' is no day: write until=YYYY-MM-DD, the last day"},
    {"w0 00000001 worker " A " use until=2027-2-1", "is no day"},
    {"w0 00000001 worker " A " use until=2027-00-01", "is no day"},
    {"w0 00000001 worker " A " use until=2027-01-00", "is no day"},
    {"w0 00000001 worker " A " use until=2027-13-01", "is no day"},
    {"w0 00000001 worker " A " use until=1969-12-31", "is no day"},
    {"w0 00000001 worker " A " use until=never", "is no day"},
    {"w0 00000001 worker " A " use until=", "is no day"},
    {"w0 00000001 worker " A " use until=2027-01-01 until=2027-01-01", "until= stands there twice"},
    {"w0 00000001 worker " A " use cluster=", "'cluster=' is no cluster's name: 1 to 63 letters"},
    {"w0 00000001 worker " A " use cluster=a/b", "'cluster=a/b' is no cluster's name"},
    {"w0 00000001 worker " A " use cluster=/0123456789abcdef", "a word of 25 bytes is no cluster's name"},
    {"w0 00000001 worker " A " use cluster=a cluster=a", "cluster= stands there twice"},
    {"w0 00000001 worker " A " use hosts=a", "'hosts=a' is neither until=YYYY-MM-DD nor cluster=NAME"},
    {"w0 00000001 worker " A " use cluster=a " B, "a word of 64 bytes is neither"},
    {"w\x01 00000001 worker " A " use", "byte 1 is \\x01: a key file is plain text"},
    {"w0 00000001 worker " A " use\r\r", "is \\x0d"},
};

/* Each one is named by file and line, and no text has eight digits of a secret in a row. */
TEST(test_bad_lines)
{
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        for (int ending = 0; ending < 3; ending++) {
            static const char *const ends[] = {"", "\n", "\r\n"};
            char text[1024];
            struct psi_err err;
            struct psi_keys *keys = NULL;
            snprintf(text, sizeof(text), "# one\nps0 000000ff ps " A " use\n%s%s", bad[i].line, ends[ending]);
            if (ending == 0 && strchr(bad[i].line, '\r') != NULL) {
                continue; /* one of the two belongs to the end of the line */
            }
            assert_fails(psi_keys_parse(text, strlen(text), "dir/f.keys", &keys, &err), PS_INVALID_ARGUMENT, &err, bad[i].says);
            assert_null(keys);
            assert_memory_equal(err.text, "dir/f.keys:3: ", 14);
            for (size_t at = 0; at + 8 <= 64; at++) {
                char piece[2][9] = {{0}};
                memcpy(piece[0], &A[at], 8);
                memcpy(piece[1], &B[at], 8);
                assert_null(strstr(err.text, piece[0]));
                assert_null(strstr(err.text, piece[1]));
            }
        }
    }
}

TEST(test_bad_files)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"w0 00000001 worker " A " use\nw1 00000002 worker " A " use\nw1 00000001 worker " A " use\n",
         "f.keys:3: key id 00000001 stands in line 1 too: remove one of the two lines"},
        {"w0 00000001 worker " A " use\n\nw0 00000002 admin " A " use\n",
         "f.keys:3: the same name has role admin here and role worker in line 1: give one of them another name"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_err err;
        struct psi_keys *keys = NULL;
        assert_fails(psi_keys_parse(rows[i].text, strlen(rows[i].text), "f.keys", &keys, &err), PS_INVALID_ARGUMENT, &err,
                     rows[i].says);
    }
    struct psi_err err;
    struct psi_keys *keys = NULL;
    assert_fails(psi_keys_parse("\xff\xfew\0", 4, "f.keys", &keys, &err), PS_INVALID_ARGUMENT, &err, "is UTF-16 text");
    assert_fails(psi_keys_parse("w0\0 x\n", 6, "f.keys", &keys, &err), PS_INVALID_ARGUMENT, &err, "f.keys:1: byte 2 is \\x00");
}

/* A comment pads a good line up to the most that a line may have; 10 KiB are far too many. */
TEST(test_long_lines)
{
    static const size_t sizes[] = {PSI_KEY_LINE_BYTES - 3, PSI_KEY_LINE_BYTES - 2, PSI_KEY_LINE_BYTES - 1, 10240};
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        char *text = test_alloc(sizes[i] + 2);
        struct psi_err err = {0};
        struct psi_keys *keys = NULL;
        memset(text, '#', sizes[i]);
        const int n = sprintf(text, "w0 00000001 worker " A " use ");
        text[n] = '#';
        text[sizes[i]] = '\n';
        if (sizes[i] <= PSI_KEY_LINE_BYTES - 2) {
            assert_int_equal(psi_keys_count(parse(text)), 1);
        } else {
            assert_fails(psi_keys_parse(text, strlen(text), "f.keys", &keys, &err), PS_INVALID_ARGUMENT, &err,
                         "the most is 510: is the end of a line missing?");
        }
    }
    char *large = test_alloc(PSI_KEY_FILE_BYTES_MAX + 1);
    struct psi_err err = {0};
    struct psi_keys *keys = NULL;
    memset(large, '\n', PSI_KEY_FILE_BYTES_MAX + 1);
    assert_int_equal(psi_keys_count(parse_bytes(large, PSI_KEY_FILE_BYTES_MAX)), 0);
    assert_fails(psi_keys_parse(large, PSI_KEY_FILE_BYTES_MAX + 1, "f.keys", &keys, &err), PS_INVALID_ARGUMENT, &err,
                 "at most 1048576 bytes");
}

/* As many of the shortest lines as fit a file: all are found, whatever their order. */
TEST(test_many)
{
    enum { MOST = PSI_KEY_FILE_BYTES_MAX / 83 };
    char *text = test_alloc(PSI_KEY_FILE_BYTES_MAX + 1);
    size_t n = 0;
    for (unsigned i = 0; i < MOST; i++) {
        n += (size_t)sprintf(text + n, "a %08x ps " A " use\n", i * 2654435761u);
    }
    assert_true(n <= PSI_KEY_FILE_BYTES_MAX);
    const struct psi_keys *keys = parse_bytes(text, n);
    assert_int_equal(psi_keys_count(keys), MOST);
    for (unsigned i = 0; i < MOST; i++) {
        char id[9];
        sprintf(id, "%08x", i * 2654435761u);
        assert_ptr_equal(psi_keys_find(keys, "a", id), psi_keys_at(keys, i));
        assert_null(psi_keys_find(keys, "b", id));
    }
    assert_null(psi_keys_find(keys, "a", "zzzzzzzz"));
    assert_null(psi_keys_find(keys, "a", ""));
}

TEST(test_first_use)
{
    const struct psi_keys *keys = parse("w0 00000001 worker " A " accept\n"
                                        "w0 00000002 worker " A " use until=2027-01-01\n"
                                        "ps 00000003 ps " A " accept\n"
                                        "ps 00000004 ps " A " use\n"
                                        "w0 00000005 worker " A " use\n");
    const int64_t end = 1798848000; /* 2027-01-02 */
    assert_string_equal(psi_keys_first_use(keys, NULL, end - 1)->key_id, "00000002");
    assert_string_equal(psi_keys_first_use(keys, NULL, end)->key_id, "00000004");
    assert_string_equal(psi_keys_first_use(keys, "worker", end - 1)->key_id, "00000002");
    assert_string_equal(psi_keys_first_use(keys, "worker", end)->key_id, "00000005");
    assert_string_equal(psi_keys_first_use(keys, "ps", end)->key_id, "00000004");
    assert_null(psi_keys_first_use(keys, "admin", end));
    assert_null(psi_keys_first_use(parse(""), NULL, end));
    struct psi_err err = {.code = PS_OK};
    assert_int_equal(psi_keys_no_use(parse(""), "ps", end, &err), PS_FAILED_PRECONDITION);
    assert_string_equal(err.text, "f.keys: no line of role ps says 'use' and is still good");
    assert_true(psi_key_is_expired(psi_keys_at(keys, 1), end));
    assert_false(psi_key_is_expired(psi_keys_at(keys, 1), end - 1));
    assert_false(psi_key_is_expired(psi_keys_at(keys, 0), INT64_MAX));
}

TEST(test_days)
{
    static const struct {
        const char *day;
        int64_t end_s;
    } rows[] = {{"1970-01-01", 86400},
                {"1999-12-31", 946684800},
                {"2000-02-29", 951868800},
                {"2027-03-31", 1806537600},
                {"9999-12-31", 253402300800}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        int64_t end_s = 0;
        char buf[11];
        assert_true(psi_day_end_parse(rows[i].day, 10, &end_s));
        assert_true(end_s == rows[i].end_s);
        assert_string_equal(psi_day_end_text(end_s, buf), rows[i].day);
    }
    int64_t untouched = 7;
    assert_false(psi_day_end_parse("2100-02-29", 10, &untouched));
    assert_false(psi_day_end_parse("2027-04-31", 10, &untouched));
    assert_false(psi_day_end_parse("2027-04-3", 9, &untouched));
    assert_true(untouched == 7);
}

/* What is written reads back as the same. */
TEST(test_format)
{
    static const char text[] = "ps0 00000001 ps " A " use cluster=mine\n"
                               "w0 00000002 worker " B " accept until=2027-03-31\n"
                               "w0 00000003 worker " B " use until=2024-02-29 cluster=psd\n"
                               "look 0000000a monitor " A " use\n";
    const struct psi_keys *keys = parse(text);
    char all[sizeof(text)];
    size_t n = 0;
    for (size_t i = 0; i < psi_keys_count(keys); i++) {
        char line[PSI_KEY_LINE_BYTES];
        size_t bytes = psi_key_format(psi_keys_at(keys, i), line);
        assert_int_equal(bytes, strlen(line));
        assert_true(n + bytes < sizeof(all));
        memcpy(all + n, line, bytes + 1);
        n += bytes;
    }
    assert_string_equal(all, text);
    struct psi_key longest = {.key_id = "00000001", .role = "monitor", .use = false, .until_s = 253402300800};
    memset(longest.name, 'n', PS_KEY_NAME_BYTES_MAX);
    memset(longest.cluster, 'c', PS_JOB_BYTES_MAX);
    char line[PSI_KEY_LINE_BYTES];
    assert_true(psi_key_format(&longest, line) < PSI_KEY_LINE_BYTES - 1);
    assert_int_equal(psi_keys_count(parse(line)), 1);
}

TEST(test_copy)
{
    struct psi_keys *keys = NULL, *copy = NULL;
    struct psi_err err = {0};
    static const char text[] = "w0 00000002 worker " A " use\nps 00000001 ps " B " use\n";
    assert_ok(psi_keys_parse(text, strlen(text), "f.keys", &keys, &err), &err);
    assert_ok(psi_keys_copy(keys, &copy, &err), &err);
    psi_keys_free(keys);
    assert_int_equal(psi_keys_count(copy), 2);
    assert_string_equal(psi_keys_file(copy), "f.keys");
    assert_ptr_equal(psi_keys_find(copy, "w0", "00000002"), psi_keys_at(copy, 0));
    assert_ptr_equal(psi_keys_find(copy, "ps", "00000001"), psi_keys_at(copy, 1));
    assert_int_equal(psi_keys_at(copy, 1)->secret[0], 0xfe);
    psi_keys_free(copy);
    psi_keys_free(NULL);
}

TEST(test_identity)
{
    struct psi_identity identity;
    psi_key_identity(psi_keys_at(parse("w0 00000002 worker " A " use\n"), 0), &identity);
    assert_int_equal(identity.kind, PSI_IDENTITY_KEY);
    assert_string_equal(identity.name, "w0");
    assert_string_equal(identity.role, "worker");
    assert_string_equal(identity.key_id, "00000002");
}

TEST(test_wire)
{
    const struct psi_keys *keys = parse("w0 00000002 worker " A " use\nw1 00000003 worker " A " use cluster=line\n");
    char buf[PSI_KEY_WIRE_BYTES_MAX + 1];
    static const struct {
        size_t key;
        const char *cluster, *text;
    } rows[] = {{0, NULL, "psd1::worker:w0:00000002"},
                {0, "", "psd1::worker:w0:00000002"},
                {0, "mine", "psd1:mine:worker:w0:00000002"},
                {1, "", "psd1:line:worker:w1:00000003"},
                {1, "mine", "psd1:mine:worker:w1:00000003"}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_key_wire parts;
        const struct psi_key *key = psi_keys_at(keys, rows[i].key);
        size_t n = psi_key_wire(key, rows[i].cluster, buf);
        assert_string_equal(buf, rows[i].text);
        assert_int_equal(n, strlen(buf));
        assert_true(psi_key_wire_parse((const uint8_t *)buf, n, &parts));
        assert_string_equal(parts.name, key->name);
        assert_string_equal(parts.role, key->role);
        assert_string_equal(parts.key_id, key->key_id);
        for (size_t cut = 0; cut < n; cut++) { /* every prefix is none */
            assert_false(psi_key_wire_parse((const uint8_t *)buf, cut, &parts));
        }
    }
    struct psi_key longest = {.key_id = "00000001", .role = "monitor"};
    struct psi_key_wire parts;
    memset(longest.name, 'n', PS_KEY_NAME_BYTES_MAX);
    memset(longest.cluster, 'c', PS_JOB_BYTES_MAX);
    size_t n = psi_key_wire(&longest, NULL, buf);
    assert_int_equal(n, 126);
    assert_true(psi_key_wire_parse((const uint8_t *)buf, n, &parts));
    assert_string_equal(parts.cluster, longest.cluster);
}

TEST(test_wire_that_is_none)
{
    static const char *const rows[] = {"",
                                       "psd1",
                                       "psd1:",
                                       "psd1::worker:w0",
                                       "psd1::worker:w0:",
                                       "psd1::worker:w0:0000000",
                                       "psd1::worker:w0:0000000A",
                                       "psd1::worker:w0:00000001:",
                                       "psd1::worker:w0:00000001:x",
                                       "psd1:::w0:00000001",
                                       "psd1::chief:w0:00000001",
                                       "psd1::worker::00000001",
                                       "psd1::worker:w/0:00000001",
                                       "psd1:a/b:worker:w0:00000001",
                                       "psd2::worker:w0:00000001",
                                       "Client_identity"};
    struct psi_key_wire parts;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        assert_false(psi_key_wire_parse((const uint8_t *)rows[i], strlen(rows[i]), &parts));
    }
    assert_false(psi_key_wire_parse((const uint8_t *)"psd1::worker:w0:00000001\0", 25, &parts));
    char buf[200];
    int n = snprintf(buf, sizeof(buf), "psd1:%063d:monitor:%041d:00000001", 0, 0);
    assert_false(psi_key_wire_parse((const uint8_t *)buf, (size_t)n, &parts));
}

TEST(test_out_of_memory)
{
    static const char text[] = "w0 00000002 worker " A " use\n";
    for (int64_t n = 0;; n++) {
        struct psi_err err = {0};
        struct psi_keys *keys = NULL, *copy = NULL;
        psi_mem_fail_after(n);
        ps_status st = psi_keys_parse(text, strlen(text), "f.keys", &keys, &err);
        st = st == PS_OK ? psi_keys_copy(keys, &copy, &err) : st;
        bool fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        psi_keys_free(keys);
        psi_keys_free(copy);
        assert_int_equal(st, fired ? PS_RESOURCE_EXHAUSTED : PS_OK);
        if (!fired) {
            assert_int_equal(n, 4);
            return;
        }
    }
}
