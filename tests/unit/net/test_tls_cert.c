/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common/net/tls with certificates: a chain alone lets nobody in, a client reaches the task that it dialled and no other, and
 * what was good in the handshake is judged again. tests/unit/net/tls/make.sh makes the certificates when the tests are built.
 */
#include "tls_test.h"

#include <signal.h>
#include <sys/stat.h>

#define DIR TEST_CERTIFICATES

static const char leaf_key[] = DIR "leaf.key";
static char refused[256];

static void file_write(char path[256], const char *name, const char *text)
{
    (void)snprintf(path, 256, "%s/%s", test_dir(), name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, 0600), 0);
}

BEFORE_ALL
{
    (void)signal(SIGPIPE, SIG_IGN);
}

static int64_t late_now_s(void)
{
    return 5000000000;
}

static int64_t turned_s; /* what a clock that a test turns shows */

static int64_t turned_now_s(void)
{
    return turned_s;
}

static struct psi_tls_config config_of(const char *cert)
{
    return (struct psi_tls_config){.cert_file = cert, .key_file = leaf_key, .ca_file = DIR "authority.pem", .now_s = test_now_s};
}

static struct psi_tls *tls_cert(const char *cert)
{
    const struct psi_tls_config config = config_of(cert);
    return tls_of(&config);
}

TEST(certificates_get_in_and_name_both_ends)
{
    struct pair p;
    pair_open(&p, tls_cert(DIR "worker0.pem"), tls_cert(DIR "ps0.pem"), "psd://psd/ps/0", false);
    pair_talk(&p);
    assert_int_equal(psi_conn_identity(p.s->conn)->kind, PSI_IDENTITY_CERT);
    assert_string_equal(psi_conn_identity(p.s->conn)->name, "psd://psd/worker/0");
    assert_string_equal(psi_conn_identity(p.c->conn)->name, "psd://psd/ps/0");
    pair_close(&p);
}

/* expect NULL: any task's, but no user's. */
TEST(a_client_checks_whom_it_reached)
{
    static const struct {
        const char *cert, *expect;
        bool good;
    } cases[] = {
        {DIR "ps0.pem", NULL, true},
        {DIR "ps0.pem", "psd://psd/ps/*", true},
        {DIR "ps1.pem", "psd://psd/ps/0", false},
        {DIR "worker0.pem", "psd://psd/ps/0", false}, /* a worker plays a ps */
        {DIR "worker0.pem", "psd://psd/ps/*", false},
        {DIR "ann.pem", NULL, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pair p;
        pair_open(&p, tls_cert(DIR "worker0.pem"), tls_cert(cases[i].cert), cases[i].expect, false);
        if (cases[i].good) {
            pair_talk(&p);
        } else {
            pair_fails(&p, PSI_TLS_REFUSED_BY_PEER, "it does not accept this side", "its certificate is psd://psd/");
        }
        pair_close(&p);
    }
}

/* The client's certificate is looked at when the client has finished: it learns of it with its first bytes, and is told so. */
TEST(certificates_that_do_not_get_in)
{
    static const struct {
        const char *cert;
        enum psi_tls_reason reason;
        const char *server_says;
    } cases[] = {
        {DIR "foreign.pem", PSI_TLS_OTHER_AUTHORITY, "authority.pem"},
        {DIR "elsewhere.pem", PSI_TLS_OTHER_CLUSTER, "is for psd://elsewhere/ps/0, and this cluster is psd"},
        {DIR "server_only.pem", PSI_TLS_CERT_BAD, "purpose"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pair p;
        struct psi_tls_config server = config_of(DIR "ps0.pem");
        server.cluster_name = "psd";
        pair_open(&p, tls_cert(cases[i].cert), tls_of(&server), NULL, false);
        pair_fails(&p, cases[i].reason, cases[i].server_says, "/unit/net/tls/");
        assert_non_null(strstr(p.c->why, "was refused by 127.0.0.1:"));
        pair_close(&p);
    }
}

/* A context refuses its own bad certificate: of a peer they are refused by the same function. */
TEST(a_certificate_names_one_task_or_user)
{
    static const char *const cases[][2] = {{DIR "two_uris.pem", "more than one psd: URI"},
                                           {DIR "no_uri.pem", "no psd: URI"},
                                           {DIR "nul.pem", "names neither a task"},
                                           {DIR "bad_form.pem", "names neither a task"},
                                           {DIR "missing.pem", "No such file"},
                                           {"tests/unit/net/tls/make.sh", "no start line"}};
    psi_tls_unref(tls_cert(DIR "ps0.pem"));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct psi_tls_config config = config_of(cases[i][0]);
        struct psi_tls *tls = NULL;
        struct psi_err err = {.code = PS_OK};
        assert_int_equal(psi_tls_new(&config, &tls, &err), PS_INVALID_ARGUMENT);
        assert_non_null(strstr(err.text, cases[i][0]));
        if (strstr(err.text, cases[i][1]) == NULL) {
            fail_msg("%s", err.text);
        }
    }
}

TEST(files_that_cannot_work_are_named)
{
    struct psi_tls *tls = tls_cert(DIR "ps0.pem");
    struct psi_err err = {.code = PS_OK};
    char bad[256];
    assert_string_equal(psi_tls_uri(tls), "psd://psd/ps/0");
    char what[128];
    size_t at = 0;
    int64_t end_s = 0;
    assert_true(psi_tls_next_end(tls, &at, &end_s, what, sizeof(what)));
    assert_true(end_s > NOW_S);
    assert_string_equal(what, "certificate " DIR "ps0.pem");
    assert_false(psi_tls_next_end(tls, &at, &end_s, what, sizeof(what)));
    psi_tls_unref(tls);
    struct psi_tls_config config = config_of(DIR "ps0.pem");
    config.ca_file = NULL;
    assert_int_equal(psi_tls_new(&config, &tls, &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "the authority (tls_ca) is missing"));
    config = config_of(DIR "ps0.pem");
    config.now_s = late_now_s;
    assert_int_equal(psi_tls_new(&config, &tls, &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "it ended on 21"));
    config = config_of(DIR "ps0.pem");
    config.cluster_name = "elsewhere";
    assert_int_equal(psi_tls_new(&config, &tls, &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "it is for psd://psd/ps/0, and this cluster is elsewhere"));
    config = config_of(DIR "ps0.pem");
    static const mode_t modes[] = {0644, 0604, 0660, 0640};
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]) - (geteuid() == 0 ? 1 : 0); i++) { /* root:GROUP 0640 is fine */
        assert_int_equal(chmod(leaf_key, modes[i]), 0);
        assert_int_equal(psi_tls_new(&config, &tls, &err), PS_PERMISSION_DENIED);
        assert_int_equal(chmod(leaf_key, 0600), 0);
        assert_non_null(strstr(err.text, "chmod 600"));
    }
    if (geteuid() == 0) {
        assert_int_equal(chown(leaf_key, 12345, (gid_t)-1), 0);
        assert_int_equal(psi_tls_new(&config, &tls, &err), PS_PERMISSION_DENIED);
        assert_int_equal(chown(leaf_key, 0, (gid_t)-1), 0);
        assert_non_null(strstr(err.text, "belongs to uid 12345"));
    }
    file_write(bad, "bad", "1001\n\n# ps1\nps1\n");
    config.refused_file = bad;
    assert_int_equal(psi_tls_new(&config, &tls, &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "bad:4: neither a URI"));
}

TEST(refused_ones_stay_outside_and_go)
{
    static const char *const lists[] = {"# gone\npsd://psd/worker/0 # the host was stolen\n", "00:10:03\n", " 1003 "};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        struct pair p;
        struct psi_tls_config config = config_of(DIR "ps0.pem");
        file_write(refused, "refused", lists[i]);
        pair_open(&p, tls_cert(DIR "worker0.pem"), tls_cert(DIR "ps0.pem"), NULL, false);
        pair_talk(&p);
        assert_int_equal(psi_net_recheck(&p.server->net), 0);
        config.refused_file = refused;
        struct psi_tls *now = tls_of(&config);
        assert_int_equal(psi_net_set_tls(&p.server->net, now, false, NULL), PS_OK);
        assert_int_equal(psi_net_recheck(&p.server->net), 1);
        assert_non_null(strstr(p.s->why, "psd://psd/worker/0 with serial 1003 is in the list of refused ones"));
        pair_close(&p);
        pair_open(&p, tls_cert(DIR "worker0.pem"), now, NULL, false);
        pair_fails(&p, PSI_TLS_CERT_REFUSED, "is in the list of refused ones", "was refused by");
        pair_close(&p);
    }
}

/* A connection outlives its certificate, until somebody looks. */
TEST(another_authority_or_a_date_ends_a_connection)
{
    struct pair p;
    struct psi_tls_config config = config_of(DIR "foreign.pem");
    pair_open(&p, tls_cert(DIR "worker0.pem"), tls_cert(DIR "ps0.pem"), NULL, false);
    pair_talk(&p);
    config.ca_file = DIR "other_authority.pem";
    struct psi_tls *now = tls_of(&config);
    assert_int_equal(psi_net_set_tls(&p.server->net, now, false, NULL), PS_OK);
    psi_tls_unref(now);
    assert_int_equal(psi_net_recheck(&p.server->net), 1);
    assert_non_null(strstr(p.s->why, "revoked: its certificate is refused"));
    pair_close(&p);
}

/* The server's clock goes past the end of all certificates: who comes is refused, and who is there goes when somebody looks. */
TEST(a_certificate_ends)
{
    struct pair before;
    struct pair p;
    struct psi_tls_config config = config_of(DIR "ps0.pem");
    turned_s = NOW_S;
    config.now_s = turned_now_s;
    struct psi_tls *server = tls_of(&config);
    pair_open(&before, tls_cert(DIR "worker0.pem"), psi_tls_ref(server), NULL, false);
    pair_talk(&before);
    assert_int_equal(psi_net_recheck(&before.server->net), 0);
    turned_s = late_now_s();
    pair_open(&p, tls_cert(DIR "worker0.pem"), server, NULL, false);
    pair_fails(&p, PSI_TLS_CERT_EXPIRED, "expired", "was refused by");
    pair_close(&p);
    pair_talk(&before);
    assert_int_equal(psi_net_recheck(&before.server->net), 1);
    assert_non_null(strstr(before.s->why, "revoked: its certificate"));
    pair_close(&before);
}

/* ---- keys and certificates together ---- */

static struct psi_tls *tls_both(const char *keys, const char *cert)
{
    struct psi_tls_config config = config_of(cert);
    struct psi_keys *parsed = keys_of(keys);
    config.keys = parsed;
    struct psi_tls *tls = tls_of(&config);
    psi_keys_free(parsed);
    return tls;
}

TEST(a_peer_is_judged_by_what_ran)
{
    struct pair p;
    pair_open(&p, tls_both(KEYS_WORKER, DIR "worker0.pem"), tls_both(KEYS_SERVER, DIR "ps0.pem"), NULL, false);
    pair_talk(&p);
    assert_int_equal(psi_conn_identity(p.s->conn)->kind, PSI_IDENTITY_KEY);
    pair_close(&p);
    pair_open(&p, tls_both(KEYS_WORKER, DIR "worker0.pem"), tls_cert(DIR "ps0.pem"), NULL, false); /* the server has no keys */
    pair_talk(&p);
    assert_int_equal(psi_conn_identity(p.s->conn)->kind, PSI_IDENTITY_CERT);
    assert_int_equal(psi_conn_identity(p.c->conn)->kind, PSI_IDENTITY_CERT);
    pair_close(&p);
    pair_open(&p, tls_cert(DIR "worker0.pem"), tls_both(KEYS_SERVER, DIR "ps0.pem"), NULL, false);
    pair_talk(&p);
    assert_int_equal(psi_conn_identity(p.s->conn)->kind, PSI_IDENTITY_CERT);
    pair_close(&p);
    /* a wrong key does not fall back to the good certificate */
    pair_open(&p, tls_both("w0 00000001 worker " SECRET_B " use\n", DIR "worker0.pem"), tls_both(KEYS_SERVER, DIR "ps0.pem"),
              NULL, false);
    pair_fails(&p, PSI_TLS_WRONG_KEY, "has another secret", "test.keys:1: key w0 was refused");
    pair_close(&p);
}

/* Whoever does not know the key answers with a certificate, a good one even: nothing is sent to it. */
TEST(a_client_with_a_key_believes_no_certificate)
{
    struct pair p;
    pair_open(&p, tls_keys(KEYS_WORKER, NULL, NULL), tls_cert(DIR "ps0.pem"), NULL, false);
    pair_fails(&p, PSI_TLS_REFUSED_BY_PEER, "it does not accept this side", "answered with a certificate instead of the key");
    assert_int_equal(p.s->bytes, 0);
    pair_close(&p);
}

TEST(a_certificate_where_keys_are_wanted)
{
    struct pair p;
    pair_open(&p, tls_cert(DIR "worker0.pem"), tls_keys(KEYS_SERVER, "ps", NULL), NULL, false);
    pair_fails(&p, PSI_TLS_NO_IDENTITY, "it showed no key, and this side has no certificates", "was refused by");
    pair_close(&p);
}

/* ---- peers that are no psd ---- */

TEST(peers_that_openssl_would_let_in)
{
    static const struct {
        const char *cert, *words[4];
        enum psi_tls_reason reason;
    } cases[] = {
        {DIR "two_uris.pem", {"-alpn", "psd/1"}, PSI_TLS_CERT_NAME},
        {DIR "no_uri.pem", {"-alpn", "psd/1"}, PSI_TLS_CERT_NAME},
        {DIR "nul.pem", {"-alpn", "psd/1"}, PSI_TLS_CERT_NAME},
        {DIR "bad_form.pem", {"-alpn", "psd/1"}, PSI_TLS_CERT_NAME},
        {DIR "ps0.pem", {NULL}, PSI_TLS_OTHER_SERVICE},
        {DIR "ps0.pem", {"-alpn", "h2"}, PSI_TLS_OTHER_SERVICE},
        {DIR "ps0.pem", {"-alpn", "psd/1", "-tls1_2"}, PSI_TLS_TLS_VERSION},
        {NULL, {"-alpn", "psd/1"}, PSI_TLS_NO_IDENTITY},
    };
    needs_openssl();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct bed *bed = bed_new();
        struct psi_tls *tls = tls_cert(DIR "ps0.pem");
        const char *words[10] = {NULL};
        int status = 0;
        size_t count = 0;
        if (cases[i].cert != NULL) {
            const char *const shown[4] = {"-key", leaf_key, "-cert", cases[i].cert};
            memcpy(words, shown, sizeof(shown));
            count = 4;
        }
        memcpy(words + count, cases[i].words, sizeof(cases[i].words));
        assert_int_equal(psi_net_set_tls(&bed->net, tls, false, NULL), PS_OK);
        psi_tls_unref(tls);
        pid_t pid = s_client(bed, words, NULL);
        RUN_UNTIL(bed, bed->released == 1);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_string_equal(psi_tls_reason_name(bed->refused_reason), psi_tls_reason_name(cases[i].reason));
        assert_int_equal(bed->b.bytes, 0);
        bed_free(bed);
    }
}
