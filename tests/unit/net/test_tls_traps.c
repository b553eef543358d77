/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common/net/tls against what OpenSSL does when it is not told otherwise, where no other test of this folder meets it.
 * docs/TESTING.md lists all of these traps, each with its test.
 */
#include "tls_test.h"

#include <signal.h>

#include "common/net/tls/stream_internal.h"

#ifdef PSI_HAVE_TLS

#define DIR TEST_CERTIFICATES

BEFORE_ALL
{
    (void)setenv("OPENSSL_CONF", DIR "openssl.cnf", 1); /* a machine whose settings are bad for psd: none of them counts */
}

static const uint8_t *bytes_in(const uint8_t *p, size_t n, const void *what, size_t bytes)
{
    return memmem(p, n, what, bytes);
}

/* What a server answers to a ClientHello, and what it sends when the handshake is over and it has nothing to say. */
static size_t answer_of(uint8_t *out, size_t room)
{
    struct pair p;
    pair_open(&p, tls_keys(KEYS_WORKER, NULL, NULL), tls_keys(KEYS_SERVER, "ps", NULL), NULL, true);
    p.way[TO_CLIENT].step = 0; /* it stays in the wire */
    PAIR_UNTIL(&p, p.way[TO_CLIENT].count > 0);
    const size_t n = p.way[TO_CLIENT].count;
    assert_true(n <= room);
    memcpy(out, p.way[TO_CLIENT].bytes, n);
    p.way[TO_CLIENT].step = SIZE_MAX;
    small_push(p.c, "to the server", 13);
    pair_settle(&p);
    PAIR_UNTIL(&p, p.s->frames == 1);
    for (int i = 0; i < 10; i++) {
        pair_turn(&p);
    }
    assert_int_equal(p.way[TO_CLIENT].moved, n); /* no tickets: they would come now */
    pair_close(&p);
    return n;
}

TEST(each_handshake_has_an_exchange_and_no_ticket)
{
    static const uint8_t x25519[] = {0x00, 0x33, 0x00, 0x24, 0x00, 0x1d, 0x00, 0x20}; /* a key share of 32 bytes */
    static const uint8_t compatible[] = {0x14, 3, 3, 0, 1, 1};                        /* change of cipher, for middle boxes */
    uint8_t answers[2][512];
    const uint8_t *shares[2];
    for (int i = 0; i < 2; i++) {
        const size_t n = answer_of(answers[i], sizeof(answers[i]));
        shares[i] = bytes_in(answers[i], n, x25519, sizeof(x25519));
        assert_non_null(shares[i]);
        assert_true(shares[i] + sizeof(x25519) + 32 <= answers[i] + n);
        assert_null(bytes_in(answers[i], n, compatible, sizeof(compatible)));
    }
    assert_memory_not_equal(shares[0] + sizeof(x25519), shares[1] + sizeof(x25519), 32);
}

/* Options of a context that are on, and those that must not be. */
TEST(options_are_those_that_were_chosen)
{
    struct psi_tls *tls = tls_keys(KEYS_SERVER, "ps", NULL);
    const uint64_t on = psi_openssl.SSL_CTX_set_options(tls->ctx, 0);
    const uint64_t wanted = SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION;
    assert_true((on & wanted) == wanted);
    assert_true((on & (SSL_OP_ENABLE_MIDDLEBOX_COMPAT | SSL_OP_ALLOW_NO_DHE_KEX | SSL_OP_ENABLE_KTLS)) == 0);
    assert_int_equal(psi_openssl.SSL_CTX_ctrl(tls->ctx, SSL_CTRL_GET_SESS_CACHE_MODE, 0, NULL), SSL_SESS_CACHE_OFF);
    assert_int_equal(psi_openssl.SSL_CTX_ctrl(tls->ctx, SSL_CTRL_GET_READ_AHEAD, 0, NULL), 0);
    assert_int_equal(psi_openssl.SSL_CTX_ctrl(tls->ctx, SSL_CTRL_GET_MAX_CERT_LIST, 0, NULL), PSI_TLS_CERT_LIST_BYTES_MAX);
    psi_tls_unref(tls);
}

/* OpenSSL takes names of keys of any length, and of any bytes. */
TEST(names_of_keys_have_a_bound)
{
    char name[2000];
    psi_tls_unref(tls_keys(KEYS_SERVER, "ps", NULL)); /* skips where there is no TLS */
    needs_openssl();
    static const size_t counts[] = {1, PSI_KEY_WIRE_BYTES_MAX, PSI_KEY_WIRE_BYTES_MAX + 1, 257, 1500};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        memset(name, 'x', counts[i]);
        memcpy(name, "psd1:psd:worker:w0:00000001", counts[i] < 27 ? counts[i] : 27);
        name[counts[i]] = '\0';
        const char *const words[10] = {"-psk", SECRET_A, "-psk_identity", name, "-alpn", "psd/1"};
        struct bed *bed = bed_new();
        struct psi_tls *tls = tls_keys(KEYS_SERVER, "ps", "psd");
        int status = 0;
        assert_int_equal(psi_net_set_tls(&bed->net, tls, false, NULL), PS_OK);
        psi_tls_unref(tls);
        pid_t pid = s_client(bed, words, NULL);
        RUN_UNTIL(bed, bed->released == 1);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WEXITSTATUS(status) == 127 || bed->refused_reason == PSI_TLS_NO_IDENTITY) {
            fail_msg("openssl did not show a name of %zu bytes", counts[i]);
        }
        assert_string_equal(psi_tls_reason_name(bed->refused_reason), psi_tls_reason_name(PSI_TLS_UNKNOWN_KEY));
        bed_free(bed);
    }
}

/* A chain of certificates that has no end is not kept: 16 KiB are a certificate and all that stand above it. */
TEST(a_long_chain_is_refused)
{
    char authority[4096], folder[] = "/tmp/psd-chain-XXXXXX", chain[64], key[64], line[256];
    FILE *f = fopen(DIR "authority.pem", "re");
    assert_non_null(f);
    authority[fread(authority, 1, sizeof(authority) - 1, f)] = '\0';
    (void)fclose(f);
    assert_non_null(mkdtemp(folder));
    (void)snprintf(chain, sizeof(chain), "%s/chain.pem", folder);
    (void)snprintf(key, sizeof(key), "%s/leaf.key", folder);
    (void)snprintf(line, sizeof(line), "cp " DIR "leaf.key %s && chmod 600 %s && cp " DIR "worker0.pem %s", key, key, chain);
    assert_int_equal(system(line), 0);
    f = fopen(chain, "ae");
    assert_non_null(f);
    for (int i = 0; i < 60; i++) {
        assert_true(fputs(authority, f) >= 0);
    }
    assert_int_equal(fclose(f), 0);
    struct psi_tls_config config = {.cert_file = chain, .key_file = key, .ca_file = DIR "authority.pem", .now_s = test_now_s};
    struct pair p;
    struct psi_tls *client = tls_of(&config);
    config.cert_file = DIR "ps0.pem";
    pair_open(&p, client, tls_of(&config), NULL, false);
    small_push(p.c, "to the server", 13);
    pair_settle(&p);
    PAIR_UNTIL(&p, p.client->released == 1 && p.server->released == 1);
    assert_int_equal(p.s->bytes, 0);
    if (strstr(p.s->why, "too long") == NULL && strstr(p.s->why, "excessive") == NULL) {
        fail_msg("server: %s: %s", psi_tls_reason_name(p.server->refused_reason), p.s->why);
    }
    pair_close(&p);
    (void)unlink(chain);
    (void)unlink(key);
    (void)rmdir(folder);
}

/* OpenSSL's own BIO of a socket writes without MSG_NOSIGNAL: a peer that is gone would end the process. */
TEST(a_peer_that_is_gone_ends_no_process)
{
    struct pair p;
    assert_true(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    pair_open(&p, tls_keys(KEYS_WORKER, NULL, NULL), tls_keys(KEYS_SERVER, "ps", NULL), NULL, true);
    pair_talk(&p);
    wire_cut(&p);
    for (int i = 0; i < 4 && p.s->closed_events == 0; i++) {
        small_push(p.s, "to the client", 13);
        psi_net_settle(&p.server->net); /* writes, before the end of the peer is read */
    }
    PAIR_UNTIL(&p, p.client->released == 1 && p.server->released == 1);
    assert_int_equal(p.s->closed_events, 1);
    pair_close(&p);
}

#else

TEST(tls)
{
    print_message("[  SKIPPED ] this build has no TLS\n");
    skip();
}

#endif
