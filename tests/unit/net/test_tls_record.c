/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of an open TLS connection: against the published traces, against OpenSSL's own record layer, and what a peer may not
 * send.
 */
#include "tls_test.h"

#include <signal.h>

#include "common/net/tls/stream_internal.h"

#ifdef PSI_HAVE_TLS

BEFORE_ALL
{
    (void)signal(SIGPIPE, SIG_IGN);
#ifdef WITHOUT_IPSEC_MB
    assert_int_equal(setenv("PSD_IPSEC_MB", "0", 1), 0);
#endif
    psi_tls_wipe_freed();
}

static void needs_tls(void)
{
    psi_tls_unref(tls_keys(KEYS_SERVER, "ps", NULL)); /* skips where there is none */
}

/* Who encrypts: the library that is faster, where the machine has it and nobody forbids it. */
TEST(whose_cipher)
{
    needs_tls();
    const char *aes = psi_cipher_row(PSI_TLS_SUITE_AES)->name;
    assert_string_equal(psi_cipher_row(PSI_TLS_SUITE_CHACHA)->name, "openssl");
#ifdef WITHOUT_IPSEC_MB
    assert_string_equal(aes, "openssl");
#else
    assert_true(strcmp(aes, "openssl") == 0 || strcmp(aes, "ipsec-mb") == 0);
    print_message("AES by %s\n", aes);
#endif
}

/* RFC 8448, 3: {client} derive write traffic keys for application data, {client} send application_data record. */
static const uint8_t trace_secret[PSI_TLS_SECRET_BYTES] = {0x9e, 0x40, 0x64, 0x6c, 0xe7, 0x9a, 0x7f, 0x9d, 0xc0, 0x5a, 0xf8,
                                                           0x88, 0x9b, 0xce, 0x65, 0x52, 0x87, 0x5a, 0xfa, 0x0b, 0x06, 0xdf,
                                                           0x00, 0x87, 0xf7, 0x92, 0xeb, 0xb7, 0xc1, 0x75, 0x04, 0xa5};
static const uint8_t trace_record[] = {0x17, 0x03, 0x03, 0x00, 0x43, 0xa2, 0x3f, 0x70, 0x54, 0xb6, 0x2c, 0x94, 0xd0, 0xaf, 0xfa,
                                       0xfe, 0x82, 0x28, 0xba, 0x55, 0xcb, 0xef, 0xac, 0xea, 0x42, 0xf9, 0x14, 0xaa, 0x66, 0xbc,
                                       0xab, 0x3f, 0x2b, 0x98, 0x19, 0xa8, 0xa5, 0xb4, 0x6b, 0x39, 0x5b, 0xd5, 0x4a, 0x9a, 0x20,
                                       0x44, 0x1e, 0x2b, 0x62, 0x97, 0x4e, 0x1f, 0x5a, 0x62, 0x92, 0xa2, 0x97, 0x70, 0x14, 0xbd,
                                       0x1e, 0x3d, 0xea, 0xe6, 0x3a, 0xee, 0xbb, 0x21, 0x69, 0x49, 0x15, 0xe4};
enum { TRACE_BYTES = 50 };

TEST(a_published_record)
{
    needs_tls();
    uint8_t content[TRACE_BYTES];
    uint8_t out[sizeof(trace_record)];
    uint8_t type = 0;
    size_t n = 0;
    struct psi_tls_way sends = {.cipher = NULL};
    struct psi_tls_way gets = {.cipher = NULL};
    for (unsigned i = 0; i < TRACE_BYTES; i++) {
        content[i] = (uint8_t)i;
    }
    assert_true(psi_tls_way_begin(&sends, PSI_TLS_SUITE_AES, trace_secret, true));
    assert_true(psi_tls_way_begin(&gets, PSI_TLS_SUITE_AES, trace_secret, false));
    assert_true(psi_tls_record_seal(&sends, SSL3_RT_APPLICATION_DATA, content, TRACE_BYTES, out));
    assert_memory_equal(out, trace_record, sizeof(trace_record));
    assert_int_equal(psi_tls_record_whole(out, sizeof(out)), sizeof(out));
    assert_int_equal(psi_tls_record_open(&gets, out, sizeof(out), out + PSI_TLS_RECORD_HEAD_BYTES, &type, &n), 0);
    assert_int_equal(type, SSL3_RT_APPLICATION_DATA);
    assert_int_equal(n, TRACE_BYTES);
    assert_memory_equal(out + PSI_TLS_RECORD_HEAD_BYTES, content, TRACE_BYTES);
    psi_tls_way_end(&sends);
    psi_tls_way_end(&gets);
}

struct ways {
    struct psi_tls_way sends, gets;
};

static struct ways ways_begin(uint16_t suite)
{
    struct ways w = {.sends = {.cipher = NULL}};
    assert_true(psi_tls_way_begin(&w.sends, suite, trace_secret, true));
    assert_true(psi_tls_way_begin(&w.gets, suite, trace_secret, false));
    return w;
}

static void ways_end(struct ways *w)
{
    psi_tls_way_end(&w->sends);
    psi_tls_way_end(&w->gets);
}

/* Every length at the edges of a block, a step and a record, both suites, in place and from and to elsewhere; and under the next
 * key. */
TEST(what_is_sealed_opens)
{
    static const uint16_t suites[] = {PSI_TLS_SUITE_AES, PSI_TLS_SUITE_CHACHA};
    static const size_t lengths[] = {
        0, 1, 15, 16, 17, 287, 288, 289, 1023, 1024, 1025, 4096, PSI_TLS_RECORD_BYTES - 1, PSI_TLS_RECORD_BYTES};
    needs_tls();
    uint8_t *content = test_alloc(PSI_TLS_RECORD_BYTES);
    uint8_t *out = test_alloc(PSI_TLS_RECORD_BYTES + PSI_TLS_RECORD_MORE_BYTES);
    uint8_t *place = test_alloc(PSI_TLS_RECORD_BYTES);
    for (size_t i = 0; i < PSI_TLS_RECORD_BYTES; i++) {
        content[i] = (uint8_t)(i * 7 + 3);
    }
    for (int i = 0; i < 4; i++) {
        struct ways w = ways_begin(suites[i / 2]);
        for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
            size_t n = lengths[l];
            size_t got = SIZE_MAX;
            uint8_t type = 0;
            bool in_place = i % 2 == 1;
            if (in_place) {
                memcpy(out + PSI_TLS_RECORD_HEAD_BYTES, content, n);
            }
            assert_true(
                psi_tls_record_seal(&w.sends, SSL3_RT_HANDSHAKE, in_place ? out + PSI_TLS_RECORD_HEAD_BYTES : content, n, out));
            assert_int_equal(psi_tls_record_whole(out, n + PSI_TLS_RECORD_MORE_BYTES - 1), 0);
            assert_int_equal(psi_tls_record_whole(out, n + PSI_TLS_RECORD_MORE_BYTES), n + PSI_TLS_RECORD_MORE_BYTES);
            assert_int_equal(psi_tls_record_most(n + PSI_TLS_RECORD_MORE_BYTES), n);
            uint8_t *to = in_place ? out + PSI_TLS_RECORD_HEAD_BYTES : place;
            assert_int_equal(psi_tls_record_open(&w.gets, out, n + PSI_TLS_RECORD_MORE_BYTES, to, &type, &got), 0);
            assert_int_equal(type, SSL3_RT_HANDSHAKE);
            assert_int_equal(got, n);
            assert_memory_equal(to, content, n);
            if (l % 4 == 3) {
                assert_true(psi_tls_way_renew(&w.sends) && psi_tls_way_renew(&w.gets));
                assert_int_equal(w.sends.records, 0);
            }
        }
        ways_end(&w);
    }
}

/* A record that is repeated, left out, of the key before, or damaged anywhere does not open. */
TEST(what_was_tampered_with_does_not_open)
{
    enum { N = 20, WHOLE = N + PSI_TLS_RECORD_MORE_BYTES };
    static const uint8_t content[N] = "twenty bytes of text";
    uint8_t first[WHOLE];
    uint8_t second[WHOLE];
    uint8_t copy[WHOLE];
    uint8_t type = 0;
    size_t n = 0;
    needs_tls();
    for (int at = -3; at < WHOLE; at++) {
        struct ways w = ways_begin(PSI_TLS_SUITE_AES);
        assert_true(psi_tls_record_seal(&w.sends, SSL3_RT_APPLICATION_DATA, content, N, first));
        assert_true(psi_tls_record_seal(&w.sends, SSL3_RT_APPLICATION_DATA, content, N, second));
        memcpy(copy, first, sizeof(copy));
        if (at == -3) { /* left out */
            memcpy(copy, second, sizeof(copy));
        } else if (at == -2) { /* repeated */
            assert_int_equal(psi_tls_record_open(&w.gets, first, sizeof(first), first + PSI_TLS_RECORD_HEAD_BYTES, &type, &n), 0);
        } else if (at == -1) {
            assert_true(psi_tls_way_renew(&w.gets));
        } else {
            copy[at] ^= 1;
        }
        size_t whole = psi_tls_record_whole(copy, sizeof(copy));
        if (whole > 0) { /* a length that grew waits for more */
            assert_int_not_equal(psi_tls_record_open(&w.gets, copy, whole, copy + PSI_TLS_RECORD_HEAD_BYTES, &type, &n), 0);
        } else {
            assert_true(at == 3 || at == 4);
        }
        ways_end(&w);
    }
}

static void open_fails(const uint8_t *head, size_t bytes, int alert)
{
    struct ways w = ways_begin(PSI_TLS_SUITE_AES);
    uint8_t *record = test_alloc(bytes);
    uint8_t type = 0;
    size_t n = 0;
    memset(record, 0, bytes);
    memcpy(record, head, PSI_TLS_RECORD_HEAD_BYTES);
    size_t whole = psi_tls_record_whole(record, bytes);
    assert_true(whole > 0 && whole <= bytes);
    assert_int_equal(psi_tls_record_open(&w.gets, record, whole, record + PSI_TLS_RECORD_HEAD_BYTES, &type, &n), alert);
    ways_end(&w);
}

/* RFC 8446, 5.2 and 5.4. */
TEST(lengths_and_types_that_do_not_open)
{
    enum { MOST = PSI_TLS_RECORD_BYTES + 256 };
    needs_tls();
    open_fails((const uint8_t[]){0x15, 3, 3, 0, 2}, 7, SSL_AD_UNEXPECTED_MESSAGE); /* not encrypted */
    open_fails((const uint8_t[]){0x17, 3, 3, (MOST + 1) >> 8, (MOST + 1) & 0xff}, 5, SSL_AD_RECORD_OVERFLOW);
    open_fails((const uint8_t[]){0x17, 3, 3, MOST >> 8, MOST & 0xff}, 5 + MOST, SSL_AD_BAD_RECORD_MAC);
    open_fails((const uint8_t[]){0x17, 3, 3, 0, 0}, 5, SSL_AD_BAD_RECORD_MAC);
    open_fails((const uint8_t[]){0x17, 3, 3, 0, 15}, 20, SSL_AD_BAD_RECORD_MAC);
    open_fails((const uint8_t[]){0x17, 3, 3, 0, 16}, 21, SSL_AD_BAD_RECORD_MAC);
}

/* RFC 8448, 3: key and iv of the trace's secret. */
static const uint8_t trace_key[16] = {0x17, 0x42, 0x2d, 0xda, 0x59, 0x6e, 0xd5, 0xd9,
                                      0xac, 0xd8, 0x90, 0xe3, 0xc6, 0x3f, 0x50, 0x51};
static const uint8_t trace_iv[12] = {0x5b, 0x78, 0x92, 0x3d, 0xee, 0x08, 0x57, 0x90, 0x33, 0xe5, 0x23, 0xd9};

/* Record `number` under the trace's key, of an inner text [n] that has its type and padding, without common/net/tls/record.c. */
static size_t other_seal(uint64_t number, const uint8_t *inner, size_t n, uint8_t *out)
{
    enum { TAG = 16 };
    uint8_t nonce[sizeof(trace_iv)];
    uint8_t *body = out + PSI_TLS_RECORD_HEAD_BYTES;
    int done = 0;
    EVP_CIPHER_CTX *cipher = psi_openssl.EVP_CIPHER_CTX_new();
    memcpy(nonce, trace_iv, sizeof(nonce));
    for (int i = 11; i >= 4; i--, number >>= 8) {
        nonce[i] = (uint8_t)(nonce[i] ^ (number & 0xff));
    }
    memcpy(out, (const uint8_t[]){23, 3, 3, (uint8_t)((n + TAG) >> 8), (uint8_t)(n + TAG)}, PSI_TLS_RECORD_HEAD_BYTES);
    assert_int_equal(psi_openssl.EVP_CipherInit_ex2(cipher, psi_openssl.aes, trace_key, nonce, 1, NULL), 1);
    assert_int_equal(psi_openssl.EVP_CipherUpdate(cipher, NULL, &done, out, PSI_TLS_RECORD_HEAD_BYTES), 1);
    assert_int_equal(psi_openssl.EVP_CipherUpdate(cipher, body, &done, inner, (int)n), 1);
    assert_int_equal(psi_openssl.EVP_CipherFinal_ex(cipher, body + n, &done), 1);
    assert_int_equal(psi_openssl.EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_GET_TAG, TAG, body + n), 1);
    psi_openssl.EVP_CIPHER_CTX_free(cipher);
    return PSI_TLS_RECORD_HEAD_BYTES + n + TAG;
}

/* All 64 bits of a record's number are in its nonce: no two records of a key have the same one. */
TEST(each_record_has_a_nonce_of_its_own)
{
    static const uint64_t numbers[] = {
        0, 1, 255, 256, 65535, 0xffffffff, 0x100000000, 0x0102030405060708, 1 << 22, 1ull << 56, 1ull << 63, UINT64_MAX - 1};
    static const uint8_t inner[] = {'t', 'e', 'x', 't', SSL3_RT_APPLICATION_DATA};
    needs_tls();
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct ways w = ways_begin(PSI_TLS_SUITE_AES);
        uint8_t wanted[64];
        uint8_t out[64];
        uint8_t type = 0;
        size_t n = 0;
        size_t whole = other_seal(numbers[i], inner, sizeof(inner), wanted);
        w.sends.records = w.gets.records = numbers[i];
        assert_true(psi_tls_record_seal(&w.sends, SSL3_RT_APPLICATION_DATA, inner, 4, out));
        assert_memory_equal(out, wanted, whole);
        assert_int_equal(w.sends.records, numbers[i] + 1);
        assert_int_equal(psi_tls_record_open(&w.gets, wanted, whole, wanted + PSI_TLS_RECORD_HEAD_BYTES, &type, &n), 0);
        assert_int_equal(w.gets.records, numbers[i] + 1);
        ways_end(&w);
    }
}

/* Of an inner text of 2^14 + 1 bytes, its type among them, padding takes part; with one byte more it is refused, though its tag
 * is right, and it has not left its room. */
TEST(the_longest_records)
{
    enum { MOST = PSI_TLS_RECORD_BYTES + 1, LONGEST = PSI_TLS_RECORD_BYTES + 256 - 16, CANARY = 0xa5 };
    static const struct {
        size_t inner, type_at;
        int alert;
    } cases[] = {{MOST, MOST - 1, 0},
                 {MOST, 0, 0},
                 {MOST, 100, 0},
                 {MOST + 1, MOST, SSL_AD_RECORD_OVERFLOW},
                 {MOST + 1, 100, SSL_AD_RECORD_OVERFLOW},
                 {LONGEST, 100, SSL_AD_RECORD_OVERFLOW}};
    needs_tls();
    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        const size_t inner_bytes = cases[i / 2].inner;
        uint8_t *inner = test_alloc(inner_bytes);
        uint8_t *record = test_alloc(inner_bytes + PSI_TLS_RECORD_MORE_BYTES);
        uint8_t *place = test_alloc(inner_bytes);
        uint8_t *to = i % 2 == 0 ? record + PSI_TLS_RECORD_HEAD_BYTES : place;
        struct ways w = ways_begin(PSI_TLS_SUITE_AES);
        uint8_t type = 0;
        size_t n = 0;
        memset(inner, 0, inner_bytes);
        memset(inner, 'x', cases[i / 2].type_at);
        inner[cases[i / 2].type_at] = SSL3_RT_APPLICATION_DATA;
        memset(place, CANARY, inner_bytes);
        const size_t whole = other_seal(0, inner, inner_bytes, record);
        assert_int_equal(psi_tls_record_whole(record, whole), whole);
        assert_int_equal(psi_tls_record_open(&w.gets, record, whole, to, &type, &n), cases[i / 2].alert);
        assert_int_equal(place[psi_tls_record_most(whole)], CANARY);
        if (cases[i / 2].alert == 0) {
            assert_int_equal(n, cases[i / 2].type_at);
            assert_int_equal(type, SSL3_RT_APPLICATION_DATA);
            assert_memory_equal(to, inner, n);
        }
        ways_end(&w);
    }
}

/* Zeros behind the type do not count; nothing but zeros has no type. */
TEST(padding)
{
    enum { N = 2000 };
    needs_tls();
    for (int i = 0; i < 2; i++) {
        uint8_t content[N] = "text";
        uint8_t out[N + PSI_TLS_RECORD_MORE_BYTES];
        uint8_t place[N];
        uint8_t *to = i == 0 ? out + PSI_TLS_RECORD_HEAD_BYTES : place;
        uint8_t type = 0;
        size_t n = 0;
        struct ways w = ways_begin(PSI_TLS_SUITE_AES);
        content[4] = SSL3_RT_APPLICATION_DATA;
        assert_true(psi_tls_record_seal(&w.sends, 0, content, N, out));
        assert_int_equal(psi_tls_record_open(&w.gets, out, sizeof(out), to, &type, &n), 0);
        assert_int_equal(type, SSL3_RT_APPLICATION_DATA);
        assert_int_equal(n, 4);
        assert_memory_equal(to, "text", 4);
        memset(content, 0, sizeof(content));
        assert_true(psi_tls_record_seal(&w.sends, 0, content, N, out));
        assert_int_equal(psi_tls_record_open(&w.gets, out, sizeof(out), to, &type, &n), SSL_AD_UNEXPECTED_MESSAGE);
        ways_end(&w);
    }
}

/* ---- on a connection ---- */

/* Messages of TLS that have no business on an open connection, from a client that has a key. */
TEST(messages_that_end_a_connection)
{
    static const struct {
        uint8_t type, bytes[8];
        size_t n;
        unsigned times;
        enum psi_tls_reason reason;
        const char *says;
    } cases[] = {
        {SSL3_RT_HANDSHAKE, {SSL3_MT_KEY_UPDATE, 0, 0, 1, 2}, 5, 1, PSI_TLS_DAMAGED, "unexpected_message"},
        {SSL3_RT_HANDSHAKE, {SSL3_MT_KEY_UPDATE, 0, 0, 1}, 4, 1, PSI_TLS_DAMAGED, "unexpected_message"}, /* cut in two */
        {SSL3_RT_HANDSHAKE, {SSL3_MT_KEY_UPDATE, 0, 0, 1, 0, SSL3_MT_KEY_UPDATE}, 6, 1, PSI_TLS_DAMAGED, "unexpected_message"},
        {SSL3_RT_HANDSHAKE, {SSL3_MT_NEWSESSION_TICKET, 0, 0, 1, 0}, 5, 1, PSI_TLS_DAMAGED, "unexpected_message"},
        {SSL3_RT_HANDSHAKE, {SSL3_MT_CLIENT_HELLO, 0, 0, 0}, 4, 1, PSI_TLS_DAMAGED, "unexpected_message"},
        {SSL3_RT_HANDSHAKE, {0}, 0, 1, PSI_TLS_DAMAGED, "unexpected_message"},
        {SSL3_RT_CHANGE_CIPHER_SPEC, {1}, 1, 1, PSI_TLS_DAMAGED, "unexpected_message"},
        {SSL3_RT_ALERT, {SSL3_AL_FATAL}, 1, 1, PSI_TLS_DAMAGED, "decode error"},
        {SSL3_RT_ALERT, {SSL3_AL_FATAL, SSL_AD_INTERNAL_ERROR}, 2, 1, PSI_TLS_REFUSED_BY_PEER, "internal error"},
        {SSL3_RT_APPLICATION_DATA, {0}, 0, 33, PSI_TLS_FLOOD, "more than 32 records in a row"},
        {SSL3_RT_ALERT, {SSL3_AL_WARNING, SSL_AD_USER_CANCELLED}, 2, 33, PSI_TLS_FLOOD, "more than 32 records in a row"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pair p;
        pair_open(&p, tls_keys(KEYS_WORKER, NULL, NULL), tls_keys(KEYS_SERVER, "ps", NULL), NULL, false);
        pair_talk(&p);
        struct psi_tls_stream *s = p.c->conn->transport.stream;
        for (unsigned t = 0; t < cases[i].times; t++) {
            assert_string_equal(p.s->why, "");
            assert_int_equal(psi_tls_pipe_message(s, cases[i].type, cases[i].bytes, cases[i].n), 0);
        }
        assert_int_equal(psi_tls_pipe_flush(s), 0);
        PAIR_UNTIL(&p, p.client->released == 1 && p.server->released == 1);
        assert_string_equal(psi_tls_reason_name(p.server->refused_reason), psi_tls_reason_name(cases[i].reason));
        if (strstr(p.s->why, cases[i].says) == NULL) {
            fail_msg("%zu: %s", i, p.s->why);
        }
        pair_close(&p);
    }
}

/* What brings nothing is borne between what does, and a client bears tickets of a server that is not psd. */
TEST(messages_that_are_borne)
{
    static const uint8_t canceled[] = {SSL3_AL_WARNING, SSL_AD_USER_CANCELLED};
    static const uint8_t tickets[] = {SSL3_MT_NEWSESSION_TICKET, 0, 0, 2, 1, 2, SSL3_MT_NEWSESSION_TICKET, 0, 0, 0};
    struct pair p;
    pair_open(&p, tls_keys(KEYS_WORKER, NULL, NULL), tls_keys(KEYS_SERVER, "ps", NULL), NULL, false);
    pair_talk(&p);
    for (int i = 0; i < 60; i++) {
        struct psi_tls_stream *c = p.c->conn->transport.stream;
        struct psi_tls_stream *s = p.s->conn->transport.stream;
        assert_int_equal(psi_tls_pipe_message(c, SSL3_RT_APPLICATION_DATA, NULL, 0), 0);
        assert_int_equal(psi_tls_pipe_message(c, SSL3_RT_ALERT, canceled, sizeof(canceled)), 0);
        assert_int_equal(psi_tls_pipe_flush(c), 0);
        assert_int_equal(psi_tls_pipe_message(s, SSL3_RT_HANDSHAKE, tickets, sizeof(tickets)), 0);
        assert_int_equal(psi_tls_pipe_flush(s), 0);
        pair_talk(&p);
    }
    pair_close(&p);
}

/* Records that are long enough to be opened into the owner's place, and bring it nothing. */
TEST(long_records_of_tls_itself)
{
    enum { N = 2000 };
    uint8_t content[N] = {SSL3_RT_APPLICATION_DATA};
    struct pair p;
    pair_open(&p, tls_keys(KEYS_WORKER, NULL, NULL), tls_keys(KEYS_SERVER, "ps", NULL), NULL, false);
    pair_talk(&p);
    struct psi_tls_stream *s = p.c->conn->transport.stream;
    assert_int_equal(psi_tls_pipe_message(s, 0, content, N), 0); /* empty, and padded */
    assert_int_equal(psi_tls_pipe_flush(s), 0);
    pair_talk(&p);
    memcpy(content, (const uint8_t[]){SSL3_MT_KEY_UPDATE, 0, 0, 1, 0, SSL3_RT_HANDSHAKE}, 6);
    assert_int_equal(psi_tls_pipe_message(s, 0, content, N), 0);
    assert_true(psi_tls_way_renew(&s->to_peer));
    assert_int_equal(psi_tls_pipe_flush(s), 0);
    pair_talk(&p);
    assert_int_equal(p.s->conn->transport.stream->peer.key_updates, 1);
    memset(content, 0, sizeof(content));
    memcpy(content, (const uint8_t[]){SSL3_AL_FATAL, SSL_AD_INTERNAL_ERROR, SSL3_RT_ALERT}, 3);
    assert_int_equal(psi_tls_pipe_message(s, 0, content, N), 0);
    assert_int_equal(psi_tls_pipe_flush(s), 0);
    PAIR_UNTIL(&p, p.client->released == 1 && p.server->released == 1);
    assert_int_equal(p.server->refused_reason, PSI_TLS_REFUSED_BY_PEER);
    pair_close(&p);
}

/* What comes behind close_notify is nobody's, in the same write and later. */
TEST(nothing_counts_behind_the_end)
{
    static const uint8_t close_notify[] = {SSL3_AL_WARNING, SSL_AD_CLOSE_NOTIFY};
    for (int later = 0; later < 2; later++) {
        struct pair p;
        pair_open(&p, tls_keys(KEYS_WORKER, NULL, NULL), tls_keys(KEYS_SERVER, "ps", NULL), NULL, false);
        pair_talk(&p);
        struct psi_tls_stream *s = p.c->conn->transport.stream;
        assert_int_equal(psi_tls_pipe_message(s, SSL3_RT_ALERT, close_notify, sizeof(close_notify)), 0);
        if (later == 1) {
            assert_int_equal(psi_tls_pipe_flush(s), 0);
        }
        const unsigned frames = p.s->frames;
        const uint64_t bytes = p.s->bytes;
        small_push(p.c, "too late", 8);
        pair_settle(&p);
        PAIR_UNTIL(&p, p.client->released == 1 && p.server->released == 1);
        assert_int_equal(p.s->frames, frames);
        assert_int_equal(p.s->bytes, bytes);
        assert_string_equal(p.s->why, "closed by peer");
        pair_close(&p);
    }
}

enum { TURN = 0x55 };

/* How often bytes are in the process's writable memory, but for these. They are held with bits turned, or the test would find
 * its own copy. */
static unsigned count_in_memory(const uint8_t *turned, size_t n)
{
    char line[512];
    unsigned count = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    enum { ROOM = 1 << 16, BEFORE = 64 };
    static uint8_t part[BEFORE + ROOM];
    assert_true(maps != NULL && fd >= 0 && n <= BEFORE);
    while (fgets(line, sizeof(line), maps) != NULL) {
        char *at_dash = NULL;
        char *at_access = NULL;
        uint64_t from = strtoull(line, &at_dash, 16); /* "FROM-TO rw-p ..." */
        uint64_t to = *at_dash == '-' ? strtoull(at_dash + 1, &at_access, 16) : 0;
        if (to == 0 || strncmp(at_access, " rw", 3) != 0) {
            continue;
        }
        memset(part, 0, BEFORE);
        for (; from < to; from += ROOM) {
            ssize_t got = pread(fd, part + BEFORE, to - from < ROOM ? (size_t)(to - from) : ROOM, (off_t)from);
            const uintptr_t here = (uintptr_t)part;
            if (got <= 0 || (from < here + sizeof(part) && from + ROOM > here)) {
                break;
            }
            for (size_t at = 0; at + n <= BEFORE + (size_t)got; at++) {
                size_t same = 0;
                while (same < n && (part[at + same] ^ TURN) == turned[same]) {
                    same++;
                }
                count += same == n ? 1 : 0;
            }
            memcpy(part, part + ROOM, BEFORE);
        }
    }
    (void)fclose(maps);
    (void)close(fd);
    return count;
}

/* Who takes a core of a task cannot read what was recorded of connections that ended before. */
TEST(traffic_secrets_go_with_their_connection)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their shadow memory is writable and large */
#endif
    uint8_t turned[4][PSI_TLS_SECRET_BYTES];
    struct pair p;
    pair_open(&p, tls_keys(KEYS_WORKER, NULL, NULL), tls_keys(KEYS_SERVER, "ps", NULL), NULL, false);
    pair_talk(&p);
    struct psi_tls_stream *s = p.s->conn->transport.stream;
    for (size_t i = 0; i < PSI_TLS_SECRET_BYTES; i++) {
        turned[0][i] = s->from_peer.secret[i] ^ TURN;
        turned[1][i] = s->to_peer.secret[i] ^ TURN;
    }
    assert_int_equal(count_in_memory(turned[0], PSI_TLS_SECRET_BYTES), 2); /* at both ends, which are in this process */
    assert_int_equal(psi_tls_pipe_key_update(s, true), 0);                 /* the secrets before go, and others come */
    assert_int_equal(psi_tls_pipe_flush(s), 0);
    pair_talk(&p);
    assert_int_equal(s->peer.key_updates, 1);
    for (size_t i = 0; i < PSI_TLS_SECRET_BYTES; i++) {
        turned[2][i] = s->from_peer.secret[i] ^ TURN;
        turned[3][i] = s->to_peer.secret[i] ^ TURN;
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(count_in_memory(turned[i], PSI_TLS_SECRET_BYTES), i < 2 ? 0 : 2);
    }
    pair_close(&p);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(count_in_memory(turned[i], PSI_TLS_SECRET_BYTES), 0);
    }
}

/* OpenSSL's own record layer at the other end: it changes its key and asks for another of ours, then reads what we send. */
TEST(openssl_at_the_other_end)
{
    static const char *const suites[] = {"TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"};
    needs_tls();
    needs_openssl();
    for (int i = 0; i < 2; i++) {
        const char *const words[10] = {"-psk",  SECRET_A, "-psk_identity", "psd1:psd:worker:w0:00000001",
                                       "-alpn", "psd/1",  "-ciphersuites", suites[i]};
        struct bed *bed = bed_new();
        struct psi_tls *tls = tls_keys(KEYS_SERVER, "ps", "psd");
        char said[8192];
        size_t have = 0;
        int status = 0;
        int talk[2];
        assert_int_equal(psi_net_set_tls(&bed->net, tls, false, NULL), PS_OK);
        psi_tls_unref(tls);
        pid_t pid = s_client(bed, words, talk);
        RUN_UNTIL(bed, bed->released == 1 || psi_conn_identity(bed->b.conn)->kind == PSI_IDENTITY_KEY);
        const struct psi_tls_stream *s = bed->b.conn->transport.stream;
        assert_int_equal(s->to_peer.suite, i == 0 ? PSI_TLS_SUITE_AES : PSI_TLS_SUITE_CHACHA);
        assert_int_equal(write(talk[1], "K\n", 2), 2);
        RUN_UNTIL(bed, bed->released == 1 || s->peer.key_updates == 1);
        small_push(&bed->b, "under the next key", 18);
        psi_net_settle(&bed->net);
        while (memmem(said, have, "under the next key", 18) == NULL) {
            (void)uv_run(&bed->loop, UV_RUN_NOWAIT);
            struct pollfd poll_fd = {.fd = talk[0], .events = POLLIN};
            if (poll(&poll_fd, 1, 10) == 1) {
                ssize_t n = read(talk[0], said + have, sizeof(said) - have); /* behind what it says of the handshake */
                assert_true(n > 0);
                have += (size_t)n;
            }
            assert_false(bed->timed_out);
        }
        assert_int_equal(write(talk[1], "no frame of psd's\n", 18), 18); /* it decrypts: the frame is what is wrong */
        RUN_UNTIL(bed, bed->b.bad || bed->released == 1);
        assert_true(bed->b.bad);
        assert_int_equal(bed->refusals, 0);
        if (bed->b.link != NULL) {
            end_close(&bed->b, true);
            psi_net_settle(&bed->net);
        }
        RUN_UNTIL(bed, bed->released == 1);
        assert_int_equal(close(talk[0]), 0);
        assert_int_equal(close(talk[1]), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        bed_free(bed);
    }
}

#else

TEST(tls)
{
    print_message("[  SKIPPED ] this build has no TLS\n");
    skip();
}

#endif
