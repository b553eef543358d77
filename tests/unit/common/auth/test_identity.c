/* SPDX-License-Identifier: Apache-2.0 */
/* common/auth/identity.c: texts of identities there and back, the URIs of certificates, roles. */
#include "test.h"

#include "common/auth/identity.h"

static struct psi_identity parsed(const char *text)
{
    struct psi_identity identity;
    struct psi_err err = {0};
    assert_ok(psi_identity_parse(text, &identity, &err), &err);
    return identity;
}

TEST(test_texts_there_and_back)
{
    static const char *const texts[] = {"anybody", "key:w0",   "key:0.a_b-c",   "cert:psd://psd/ps/0", "cert:psd://a.b/user/ada",
                                        "uid:0",   "uid:1000", "uid:4294967295"};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        char buf[PSI_IDENTITY_TEXT_BYTES];
        struct psi_identity identity = parsed(texts[i]);
        assert_string_equal(psi_identity_text(&identity, buf, sizeof(buf)), texts[i]);
        assert_string_equal(identity.role, "");
        assert_string_equal(identity.key_id, "");
    }
}

TEST(test_text_of_the_longest)
{
    struct psi_identity identity = {.kind = PSI_IDENTITY_CERT};
    char buf[PSI_IDENTITY_TEXT_BYTES];
    memset(identity.name, 'x', PSI_IDENTITY_BYTES_MAX);
    assert_int_equal(strlen(psi_identity_text(&identity, buf, sizeof(buf))), 5 + PSI_IDENTITY_BYTES_MAX);
    assert_string_equal(psi_identity_text(&identity, buf, 8), "cert:xx");
}

TEST(test_texts_that_are_none)
{
    static const struct {
        const char *text, *says;
    } rows[] = {{"", "one is key:NAME, cert:psd://"},
                {"w0", "identity 'w0': one is key:NAME"},
                {"role:worker", "one is key:NAME"},
                {"KEY:w0", "one is key:NAME"},
                {"anybody:", "nothing may stand behind"},
                {"key:", "key name ''"},
                {"key:a b", "key name 'a b'"},
                {"key:a:b", "key name 'a:b'"},
                {"key:-a", "a letter or a digit"},
                {"cert:psd://psd/ps", "has not three parts"},
                {"uid:", "a uid is a number"},
                {"uid:-1", "a uid is a number"},
                {"uid:01", "a uid is a number"},
                {"uid:4294967296", "a uid is a number"}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_err err;
        struct psi_identity untouched = {.kind = PSI_IDENTITY_UID, .name = "7"};
        assert_fails(psi_identity_parse(rows[i].text, &untouched, &err), PS_INVALID_ARGUMENT, &err, rows[i].says);
        assert_string_equal(untouched.name, "7");
    }
}

TEST(test_who_is_the_same)
{
    struct psi_identity a = parsed("key:w0"), b = parsed("key:w0"), other = parsed("key:w1"), uid = parsed("uid:1");
    struct psi_identity digit = parsed("key:1");
    strcpy(a.key_id, "0123abcd"); /* two lines of one name */
    strcpy(a.role, "worker");
    assert_true(psi_identity_equal(&a, &b));
    assert_false(psi_identity_equal(&a, &other));
    assert_false(psi_identity_equal(&uid, &digit)); /* another kind */
}

TEST(test_uris)
{
    static const struct {
        const char *text, *cluster, *job, *user;
        uint32_t index;
    } rows[] = {{"psd://psd/ps/0", "psd", "ps", "", 0},
                {"psd://my.cluster-1/worker/1023", "my.cluster-1", "worker", "", 1023},
                {"psd://psd/user/ada.l", "psd", "", "ada.l", 0},
                {"psd://psd/users/7", "psd", "users", "", 7}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_uri uri;
        struct psi_err err = {0};
        char buf[PSI_IDENTITY_BYTES_MAX + 1];
        bool fits = false;
        assert_ok(psi_uri_parse(rows[i].text, strlen(rows[i].text), &uri, &err), &err);
        assert_string_equal(uri.cluster, rows[i].cluster);
        assert_string_equal(uri.job, rows[i].job);
        assert_string_equal(uri.user, rows[i].user);
        assert_int_equal(uri.index, rows[i].index);
        assert_int_equal(uri.is_user, rows[i].user[0] != '\0');
        assert_string_equal(psi_uri_text(&uri, buf, &fits), rows[i].text);
        assert_true(fits);
    }
}

TEST(test_uris_that_are_none)
{
    static const struct {
        const char *text, *says;
        size_t n;
    } rows[] = {{"", "begins not with psd://", 0},
                {"http://psd/ps/0", "begins not with psd://", 0},
                {"PSD://psd/ps/0", "begins not with psd://", 0},
                {"psd://", "has not three parts", 0},
                {"psd://psd", "has not three parts", 0},
                {"psd://psd/ps", "has not three parts", 0},
                {"psd://psd/ps/0/", "has not three parts", 0},
                {"psd://psd/ps/0/1", "has not three parts", 0},
                {"psd:///ps/0", "cluster name ''", 0},
                {"psd://psd//0", "job name ''", 0},
                {"psd://psd/ps/", "an index is a number", 0},
                {"psd://psd/ps/00", "an index is a number", 0},
                {"psd://psd/ps/+1", "an index is a number", 0},
                {"psd://psd/ps/1024", "from 0 to 1023", 0},
                {"psd://psd/p%73/0", "job name 'p%73'", 0},
                {"psd://psd/ps/0?", "an index is a number", 0},
                {"psd://psd/ps/0\0.evil", "an index is a number", 20},
                {"psd://psd/user/", "key name ''", 0},
                {"psd://psd/user/a\0b", "key name 'a\\x00b'", 18}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_uri uri;
        struct psi_err err;
        size_t n = rows[i].n > 0 ? rows[i].n : strlen(rows[i].text);
        assert_fails(psi_uri_parse(rows[i].text, n, &uri, &err), PS_INVALID_ARGUMENT, &err, rows[i].says);
    }
}

/* The most that fits an identity, and one byte more: by parts, and in bytes. */
TEST(test_long_uris)
{
    struct psi_uri uri = {.index = 1023};
    struct psi_err err = {0};
    char buf[PSI_IDENTITY_BYTES_MAX + 1], text[200];
    bool fits = false;
    memset(uri.cluster, 'c', 63);
    memset(uri.job, 'j', 53);
    assert_int_equal(strlen(psi_uri_text(&uri, buf, &fits)), PSI_IDENTITY_BYTES_MAX);
    assert_true(fits);
    assert_ok(psi_uri_parse(buf, strlen(buf), &uri, &err), &err);
    uri.job[53] = 'j';
    psi_uri_text(&uri, buf, &fits);
    assert_false(fits);
    snprintf(text, sizeof(text), "psd://%s/%s/%u", uri.cluster, uri.job, uri.index);
    assert_fails(psi_uri_parse(text, strlen(text), &uri, &err), PS_INVALID_ARGUMENT, &err, "more than 128 bytes");
}

TEST(test_roles)
{
    static const char *const good[] = {"ps", "worker", "monitor", "admin"};
    static const struct {
        const char *role, *says;
    } bad[] = {{"", "a key is one of ps, worker, monitor, admin"},
               {"workers", "did you mean worker?"},
               {"Worker", "one of ps, worker"},
               {"chief", "role 'chief': a key is one of"},
               {"averyveryverylongrole", "role of too many bytes"}};
    struct psi_err err = {0};
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        assert_ok(psi_role_check(good[i], strlen(good[i]), &err), &err);
        assert_true(psi_role_is(good[i], strlen(good[i])));
        assert_false(psi_role_is(good[i], strlen(good[i]) - 1));
    }
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_fails(psi_role_check(bad[i].role, strlen(bad[i].role), &err), PS_INVALID_ARGUMENT, &err, bad[i].says);
    }
}
