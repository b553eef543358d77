/* SPDX-License-Identifier: Apache-2.0 */
/* common/auth/rights.c: the table of rights. Every word at both kinds of places, patterns, the union of rows, what is refused
 * and its text, who may be a task. */
#include "test.h"

#include "common/auth/rights.h"
#include "common/mem.h"

enum {
    READ = PSI_RIGHT_READ,
    WRITE = PSI_RIGHT_WRITE,
    CREATE = PSI_RIGHT_CREATE,
    CHIEF = PSI_RIGHT_CHIEF,
    CALL = PSI_RIGHT_CALL,
    SAVE = PSI_RIGHT_SAVE,
    ADMINISTER = PSI_RIGHT_ADMINISTER,
    MEMBER = PSI_RIGHT_MEMBER
};

static void free_rights(void *rights)
{
    psi_rights_free(rights);
}

static struct psi_rights *rights_of(const char *text)
{
    struct psi_rights *rights = NULL;
    struct psi_err err;
    assert_ok(psi_rights_parse(text, strlen(text), "psd.conf", &rights, &err), &err);
    test_later(free_rights, rights);
    return rights;
}

static struct psi_identity who(const char *text, const char *role)
{
    struct psi_identity id;
    struct psi_err err;
    assert_ok(psi_identity_parse(text, &id, &err), &err);
    (void)snprintf(id.role, sizeof(id.role), "%s", role);
    return id;
}

/* The rights of one identity on a container, NULL: the cluster, in this table. */
static unsigned given(const char *text, const char *identity, const char *role, const char *container)
{
    const struct psi_identity id = who(identity, role);
    return psi_rights_of(rights_of(text), &id, container);
}

TEST(test_words)
{
    static const struct {
        const char *word;
        unsigned of_container, of_cluster;
    } rows[] = {
        {"read", READ, READ},
        {"write", WRITE, WRITE},
        {"create", CREATE, 0},
        {"chief", CHIEF, 0},
        {"call", 0, CALL},
        {"save", 0, SAVE},
        {"administer", ADMINISTER, ADMINISTER},
        {"member", 0, MEMBER},
        {"look", READ, READ},
        {"train", READ | WRITE | CREATE | CHIEF, READ | WRITE | CALL | SAVE},
        {"all", PSI_RIGHTS_OF_CONTAINER, PSI_RIGHTS_OF_CLUSTER},
        {"read,write call", READ | WRITE, READ | WRITE | CALL},
        {"read , write,,call", READ | WRITE, READ | WRITE | CALL},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char text[128];
        (void)snprintf(text, sizeof(text), "allow key:w0 model,@cluster %s", rows[i].word);
        assert_int_equal(given(text, "key:w0", "worker", "model"), rows[i].of_container);
        assert_int_equal(given(text, "key:w0", "worker", NULL), rows[i].of_cluster);
        assert_int_equal(given(text, "key:w1", "worker", "model"), 0);
    }
}

TEST(test_who)
{
    static const char one[] =
        "allow role:worker a read\nallow key:w0 b read\nallow key:w* c read\nallow cert:psd://psd/ps/0 d read\n"
        "allow cert:psd://psd/ps/* e read\nallow uid:1000 f read\nallow uid:10 g read\nallow key:* h read\n";
    static const struct {
        const char *text, *role, *containers;
    } rows[] = {
        {"key:w0", "worker", "abch"},
        {"key:w00", "worker", "ach"},
        {"key:w0", "admin", "bch"}, /* the name, whatever its role */
        {"key:W0", "worker", "ah"},
        {"key:worker", "ps", "ch"},
        {"cert:psd://psd/ps/0", "", "de"},
        {"cert:psd://psd/ps/01x", "", "e"},
        {"cert:psd://psd/worker/0", "", ""},
        {"uid:1000", "", "f"},
        {"uid:100", "", ""},
        {"uid:0", "", ""},
        {"uid:7", "admin", "abcdefgh"}, /* the user of the process itself */
    };
    const struct psi_rights *rights = rights_of(one);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_identity id = {.kind = PSI_IDENTITY_CERT};
        if (strncmp(rows[i].text, "cert:", 5) == 0) {
            (void)snprintf(id.name, sizeof(id.name), "%s", rows[i].text + 5);
        } else {
            id = who(rows[i].text, rows[i].role);
        }
        for (const char *container = "a\0b\0c\0d\0e\0f\0g\0h\0"; *container != '\0'; container += 2) {
            const bool has = strchr(rows[i].containers, container[0]) != NULL;
            assert_int_equal((psi_rights_of(rights, &id, container) & READ) != 0, has);
        }
    }
    /* nobody in particular has nothing, whatever the table says */
    const struct psi_identity anybody = {.kind = PSI_IDENTITY_ANYBODY};
    assert_int_equal(psi_rights_of(rights_of("allow key:* *,@cluster all"), &anybody, "a"), 0);
    assert_int_equal(psi_rights_of(rights_of("allow cert:* *,@cluster all"), &anybody, NULL), 0);
}

TEST(test_where)
{
    static const struct {
        const char *where, *container; /* NULL: the cluster */
        bool has;
    } rows[] = {
        {"*", "a", true},
        {"*", "session/0000000000000001", true},
        {"*", NULL, false},
        {"@cluster", NULL, true},
        {"@cluster", "cluster", false},
        {"*,@cluster", NULL, true},
        {"a", "a", true},
        {"a", "ab", false},
        {"ab", "a", false},
        {"a*", "a", true},
        {"a*", "ab", true},
        {"a*", "ba", false},
        {"team/*", "team/a/b", true},
        {"team/*", "team", false},
        {"a,b*,@cluster", "b1", true},
        {"a,b*,@cluster", "c", false},
        {"a,b*,@cluster", NULL, true},
        {",a,,b,", "b", true},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char text[128];
        (void)snprintf(text, sizeof(text), "allow key:k %s read", rows[i].where);
        assert_int_equal(given(text, "key:k", "", rows[i].container), rows[i].has ? READ : 0);
    }
}

/* The order of rows has no meaning, and a second row takes nothing away. */
TEST(test_union)
{
    assert_int_equal(given("allow key:k a all\nallow key:k a read", "key:k", "", "a"), PSI_RIGHTS_OF_CONTAINER);
    assert_int_equal(given("allow key:k a read\nallow key:k a all", "key:k", "", "a"), PSI_RIGHTS_OF_CONTAINER);
    assert_int_equal(given("allow key:k a read\nallow role:worker *,@cluster write", "key:k", "worker", "a"), READ | WRITE);
    assert_int_equal(given("allow key:k a read\nallow role:worker *,@cluster write", "key:k", "worker", NULL), WRITE);
}

TEST(test_empty_denies)
{
    static const char *const texts[] = {"", "\n\n", "# allow key:k *,@cluster all", " # ; allow key:k * all", ";;"};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        assert_int_equal(given(texts[i], "key:k", "admin", "a"), 0);
        assert_int_equal(given(texts[i], "key:k", "admin", NULL), 0);
    }
    const struct psi_identity key = who("key:k", "admin"), own = who("uid:5", "admin");
    assert_int_equal(psi_rights_of(NULL, &key, "a"), 0);
    assert_int_equal(psi_rights_of(NULL, &own, NULL), PSI_RIGHTS_ALL);
}

TEST(test_forms)
{
    static const char *const texts[] = {
        "allow key:k a read",
        "key:k a read",
        "\t allow\tkey:k  a   read  ",
        "allow key:k a read\r\n",
    };
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        assert_int_equal(given(texts[i], "key:k", "", "a"), READ);
    }
    assert_int_equal(given("allow key:k a read # allow key:k a all\nallow key:k a write", "key:k", "", "a"), READ | WRITE);
    assert_int_equal(given("allow key:k a read; allow key:k a write", "key:k", "", "a"), READ | WRITE);
    /* only n bytes are read, and no NUL is needed behind them */
    static const char bytes[] = "key:k a readwrite";
    struct psi_rights *rights = NULL;
    struct psi_err err;
    assert_ok(psi_rights_parse(bytes, 12, "x", &rights, &err), &err);
    test_later(free_rights, rights);
}

TEST(test_refused)
{
    static const struct {
        const char *text, *fault;
    } rows[] = {
        {"allow", "psd.conf:1: a row is WHO WHERE RIGHTS"},
        {"allow key:k", "a row is WHO WHERE RIGHTS"},
        {"allow key:k a", "a row is WHO WHERE RIGHTS"},
        {"\n# x\n\nallow key:k a raed", "psd.conf:4: 'raed' is no right: did you mean 'read'?"},
        {"allow key:k a read, push", "'push' is no right; rights are read write create chief call save administer member"},
        {"allow key:k a administor", "'administor' is no right: did you mean 'administer'?"},
        {"allow key:k a Read", "'Read' is no right: did you mean 'read'?"},
        {"allow k a read", "'k' is nobody: role:ROLE, key:NAME, cert:URI or uid:NUMBER is needed"},
        {"allow key: a read", "'key:' is nobody"},
        {"allow anybody a read", "'anybody' is nobody"},
        {"allow gid:7 a read", "'gid:7' is nobody"},
        {"allow role:work* a read", "a * may be the last byte of key:NAME* and of cert:URI* only"},
        {"allow uid:* a read", "a * may be the last byte"},
        {"allow key:a*b a read", "a * may be the last byte"},
        {"allow role:wrker a read", "wrker"},
        {"allow uid:me a read", "uid: needs a number"},
        {"allow uid:007 a read", "uid: needs a number"},
        {"allow uid:4294967296 a read", "uid: needs a number"},
        {"allow key:k,l a read", "key:k,l"},
        {"allow cert:http://x a read", "cert:http://x"},
        {"allow cert:psd://psd a read", "cert:psd://psd"},
        {"allow cert:psd://psd/ps/00 a read", "cert:psd://psd/ps/00"},
        {"allow cert:ps/* a read", "'cert:ps/*' is no certificate: its URI begins with psd://"},
        {"allow key:k @clutser read", "'@clutser' is no place: @cluster or the name of a container is needed"},
        {"allow key:k @cluster* read", "'@cluster*' is no place"},
        {"allow key:k a*b read", "byte 1 is '*'"},
        {"allow key:k /a read", "begins with '/'"},
        {"allow key:k a//* read", "ends with '/'"},
        {"allow key:k a member", "'member' is a right of @cluster: the row names none"},
        {"allow key:k a save", "'save' is a right of @cluster: the row names none"},
        {"allow key:k @cluster create", "'create' is a right of containers: the row names none"},
        {"allow key:k @cluster read chief", "'chief' is a right of containers: the row names none"},
        {"allow key:k a read\x01", "a byte that is no text"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_rights *rights = NULL;
        struct psi_err err;
        assert_fails(psi_rights_parse(rows[i].text, strlen(rows[i].text), "psd.conf", &rights, &err), PS_INVALID_ARGUMENT, &err,
                     rows[i].fault);
        assert_null(rights);
    }
}

TEST(test_limits)
{
    struct psi_rights *rights = NULL;
    struct psi_err err;
    char row[PSI_RIGHTS_ROW_BYTES_MAX + 2];
    for (size_t n = PSI_RIGHTS_ROW_BYTES_MAX - 1; n <= PSI_RIGHTS_ROW_BYTES_MAX + 1; n++) {
        memset(row, ' ', sizeof(row));
        memcpy(row, "key:k a read", 12);
        memcpy(row + n - 5, "write", 5);
        if (n <= PSI_RIGHTS_ROW_BYTES_MAX) {
            assert_ok(psi_rights_parse(row, n, "x", &rights, &err), &err);
            psi_rights_free(rights);
        } else {
            assert_fails(psi_rights_parse(row, n, "x", &rights, &err), PS_INVALID_ARGUMENT, &err, "at most 1023 bytes");
        }
    }
    static char many[(PSI_RIGHTS_ROWS_MAX + 1) * 13];
    for (size_t i = 0; i <= PSI_RIGHTS_ROWS_MAX; i++) {
        memcpy(many + i * 13, "key:k a read\n", 13);
    }
    assert_ok(psi_rights_parse(many, sizeof(many) - 13, "x", &rights, &err), &err);
    psi_rights_free(rights);
    assert_fails(psi_rights_parse(many, sizeof(many), "x", &rights, &err), PS_INVALID_ARGUMENT, &err, "more than 4096 rows");
    /* a name of an identity that is as long as one may be, and longer */
    char text[PSI_IDENTITY_BYTES_MAX + 32];
    for (int n = PSI_IDENTITY_BYTES_MAX - 1; n <= PSI_IDENTITY_BYTES_MAX + 1; n++) {
        (void)snprintf(text, sizeof(text), "cert:psd://%0*d* a read", n - 6, 0);
        ps_status st = psi_rights_parse(text, strlen(text), "x", &rights, &err);
        assert_int_equal(st, n <= PSI_IDENTITY_BYTES_MAX ? PS_OK : PS_INVALID_ARGUMENT);
        if (st == PS_OK) {
            psi_rights_free(rights);
        }
    }
}

TEST(test_rows_of_somebody)
{
    const struct psi_rights *rights =
        rights_of("allow   role:worker *,@cluster   train, member # all of them\nallow key:w0 a read\n"
                  "allow key:w1 b read");
    const struct psi_identity w0 = who("key:w0", "worker");
    size_t cursor = 0;
    const char *text = NULL;
    assert_true(psi_rights_next(rights, &w0, &cursor, &text));
    assert_string_equal(text, "role:worker *,@cluster train, member");
    assert_true(psi_rights_next(rights, &w0, &cursor, &text));
    assert_string_equal(text, "key:w0 a read");
    assert_false(psi_rights_next(rights, &w0, &cursor, &text));
    cursor = 0;
    assert_false(psi_rights_next(NULL, &w0, &cursor, &text));
}

TEST(test_texts)
{
    char buf[PSI_RIGHTS_ROW_FOR_BYTES], names[PSI_RIGHTS_NAMES_BYTES];
    const struct psi_identity w0 = who("key:w0", "worker"), anybody = {.kind = PSI_IDENTITY_ANYBODY};
    assert_string_equal(psi_rights_row_for(&w0, "model", READ, buf, sizeof(buf)), "allow key:w0 model read");
    assert_string_equal(psi_rights_row_for(&w0, NULL, ADMINISTER | MEMBER, buf, sizeof(buf)), "allow key:w0 @cluster administer");
    assert_non_null(strstr(psi_rights_row_for(&anybody, NULL, READ, buf, sizeof(buf)), "needs a key"));
    /* what is shown is a row that can be read and that gives the right */
    for (unsigned right = 1; right <= PSI_RIGHTS_ALL; right <<= 1) {
        const char *container = (right & PSI_RIGHTS_OF_CONTAINER) != 0 ? "model" : NULL;
        psi_rights_row_for(&w0, container, right, buf, sizeof(buf));
        assert_int_equal(psi_rights_of(rights_of(buf), &w0, container), right);
    }
    assert_string_equal(psi_rights_names(0, names, sizeof(names)), "");
    assert_string_equal(psi_rights_names(READ | MEMBER, names, sizeof(names)), "read member");
    assert_string_equal(psi_rights_names(PSI_RIGHTS_ALL, names, sizeof(names)),
                        "read write create chief call save administer member");
}

TEST(test_member)
{
    static const char table[] =
        "allow role:ps @cluster member\nallow role:worker *,@cluster train member\n"
        "allow role:admin *,@cluster all\nallow cert:psd://psd/* @cluster member\nallow uid:9 @cluster member\n"
        "allow role:monitor *,@cluster look\n";
    static const struct {
        const char *text, *role, *job;
        uint32_t task;
        const char *fault; /* NULL: it may */
    } rows[] = {
        {"key:ps0", "ps", "ps", 0, NULL},
        {"key:ps0", "ps", "ps", 1, NULL},
        {"key:ps0", "ps", "worker", 0, NULL},
        {"key:w0", "worker", "worker", 1, NULL},
        {"key:w0", "worker", "ps", 0, "key:w0 may not be /job:ps/task:0: a task of this job needs a key of role ps"},
        {"key:root", "admin", "ps", 0, "needs a key of role ps"},
        {"key:root", "admin", "evaluator", 0, NULL},
        {"key:m", "monitor", "worker", 0,
         "key:m may not be /job:worker/task:0: it has no right 'member' on @cluster (allow key:m @cluster member)"},
        {"cert:psd://psd/ps/0", "", "ps", 0, NULL},
        {"cert:psd://psd/ps/0", "", "ps", 1, "a certificate is that of its own task alone, cert:psd://psd/ps/1"},
        {"cert:psd://psd/worker/0", "", "ps", 0, "its own task alone"},
        {"cert:psd://psd/worker/0", "", "worker", 0, NULL},
        {"cert:psd://psd/user/ps", "", "ps", 0, "needs a key of role ps, or its certificate"},
        {"cert:psd://psd/user/ps", "", "worker", 0, NULL},
        {"cert:psd://other/ps/0", "", "ps", 0, "no right 'member'"},
        {"uid:9", "", "worker", 0, NULL},
        {"uid:9", "", "ps", 0, "needs a key of role ps"},
        {"uid:8", "admin", "ps", 0, NULL},
        {"anybody", "", "worker", 0, "anybody may not be /job:worker/task:0"},
    };
    const struct psi_rights *rights = rights_of(table);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const struct psi_identity id = who(rows[i].text, rows[i].role);
        const struct psi_rights_task task = {
            .cluster = "psd", .job = rows[i].job, .task = rows[i].task, .of_directory_job = strcmp(rows[i].job, "ps") == 0};
        struct psi_err err;
        if (rows[i].fault == NULL) {
            assert_ok(psi_rights_member(rights, &id, &task, &err), &err);
        } else {
            assert_fails(psi_rights_member(rights, &id, &task, &err), PS_PERMISSION_DENIED, &err, rows[i].fault);
        }
    }
}

/* Every allocation may fail: nothing is kept, and the next call works. */
TEST(test_no_memory)
{
    static const char text[] =
        "allow key:a a read\nallow key:b b read\nallow key:c c read\nallow key:d d read\nallow key:e e read";
    for (int64_t n = 0;; n++) {
        struct psi_rights *rights = NULL;
        struct psi_err err;
        psi_mem_fail_after(n);
        ps_status st = psi_rights_parse(text, sizeof(text) - 1, "x", &rights, &err);
        const bool fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        if (!fired) {
            assert_ok(st, &err);
            psi_rights_free(rights);
            assert_true(n > 5);
            return;
        }
        assert_int_equal(st, PS_RESOURCE_EXHAUSTED);
        assert_null(rights);
    }
}
