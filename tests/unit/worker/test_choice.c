/* SPDX-License-Identifier: Apache-2.0 */
/* Which variables are meant, and under which names: patterns, prefixes, and what is wrong with them. */
#include "test.h"
#include "common/mem.h"
#include "worker/files/choice.h"

static struct psi_err err;

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct psi_choice make(const char *const *only, const char *const *prefixes)
{
    struct psi_choice c;
    assert_ok(psi_choice_init(&c, only, prefixes, &err), &err);
    return c;
}

static void becomes(struct psi_choice *c, const char *name, const char *want)
{
    char out[PS_NAME_BYTES_MAX + 1];
    assert_ok(psi_choice_rename(c, name, out, &err), &err);
    assert_string_equal(out, want);
}

TEST(test_all)
{
    struct psi_choice c = make(NULL, NULL);
    assert_true(psi_choice_takes(&c, "a/w"));
    becomes(&c, "a/w", "a/w");
    assert_ok(psi_choice_check(&c, "the file", &err), &err);
}

TEST(test_patterns)
{
    struct psi_choice c = make(LIST("encoder/*", "*/bias", "w[0-4]", "x?"), NULL);
    assert_true(psi_choice_takes(&c, "encoder/layer_1/w")); /* a star is for a slash, too */
    assert_false(psi_choice_takes(&c, "encoder"));
    assert_false(psi_choice_takes(&c, "my/encoder/w"));
    assert_true(psi_choice_takes(&c, "head/bias"));
    assert_true(psi_choice_takes(&c, "w3"));
    assert_false(psi_choice_takes(&c, "w5"));
    assert_fails(psi_choice_check(&c, "the file", &err), PS_NOT_FOUND, &err, "the pattern 'x?' fits no variable of the file");
    assert_true(psi_choice_takes(&c, "x1"));
    assert_ok(psi_choice_check(&c, "the file", &err), &err);
    c = make(LIST("*", "a/*"), NULL); /* one that fits only what another fits, too, is seen */
    assert_true(psi_choice_takes(&c, "a/w"));
    assert_ok(psi_choice_check(&c, "the file", &err), &err);
}

TEST(test_prefixes)
{
    struct psi_choice c = make(NULL, LIST("enc/=encoder/", "enc/old/=", "enc/w=u", "none/=x/"));
    becomes(&c, "enc/b", "encoder/b");
    becomes(&c, "enc/old/b", "b"); /* the longest */
    becomes(&c, "enc/w", "u");
    becomes(&c, "encoder/b", "encoder/b");
    assert_fails(psi_choice_check(&c, "the file", &err), PS_NOT_FOUND, &err,
                 "the prefix 'none/=x/' fits no variable of the file");
    c = make(LIST("enc/*"), LIST("none/=x/"));
    assert_true(psi_choice_takes(&c, "enc/b"));
    assert_fails(psi_choice_check(&c, "the file", &err), PS_NOT_FOUND, &err,
                 "'none/=x/' fits no variable of the file that is meant");
    c = make(NULL, LIST("=all/", "global_step=global_step"));
    becomes(&c, "a/w", "all/a/w");
    becomes(&c, "global_step", "global_step");
    assert_ok(psi_choice_check(&c, "the file", &err), &err);
    c = make(NULL, LIST("global_step=global_step", "=all/")); /* in any order */
    becomes(&c, "global_step", "global_step");
    becomes(&c, "a/w", "all/a/w");
}

TEST(test_no_names)
{
    char out[PS_NAME_BYTES_MAX + 1], longest[PS_NAME_BYTES_MAX + 1], prefix[PS_NAME_BYTES_MAX + 3];
    struct psi_choice c = make(NULL, LIST("a/w=", "b/=/"));
    assert_fails(psi_choice_rename(&c, "a/w", out, &err), PS_INVALID_ARGUMENT, &err, "variable 'a/w' under the prefix 'a/w='");
    assert_fails(psi_choice_rename(&c, "b/w", out, &err), PS_INVALID_ARGUMENT, &err, "variable 'b/w' under the prefix 'b/=/'");
    memset(longest, 'n', PS_NAME_BYTES_MAX);
    longest[PS_NAME_BYTES_MAX] = '\0';
    becomes(&c, longest, longest);
    for (int more = -1; more <= 1; more++) { /* a new name of as many bytes as are allowed, one less and one more */
        (void)snprintf(prefix, sizeof(prefix), "n=%.*s", PS_NAME_BYTES_MAX - 2 + more, longest);
        c = make(NULL, LIST(prefix));
        if (more <= 0) {
            assert_ok(psi_choice_rename(&c, "nxy", out, &err), &err);
            assert_int_equal(strlen(out), PS_NAME_BYTES_MAX + more);
        } else {
            assert_fails(psi_choice_rename(&c, "nxy", out, &err), PS_INVALID_ARGUMENT, &err, "under the prefix");
        }
    }
}

TEST(test_lists)
{
    struct psi_choice c;
    const char *many[PSI_CHOICE_MAX + 2] = {NULL};
    char texts[PSI_CHOICE_MAX + 1][8], longer[PS_NAME_BYTES_MAX + 4];
    assert_fails(psi_choice_init(&c, LIST("a", ""), NULL, &err), PS_INVALID_ARGUMENT, &err, "pattern '': is empty");
    assert_fails(psi_choice_init(&c, NULL, LIST("a"), &err), PS_INVALID_ARGUMENT, &err, "prefix 'a': is not of the form OLD=NEW");
    assert_fails(psi_choice_init(&c, NULL, LIST("a=b", "a=c"), &err), PS_INVALID_ARGUMENT, &err, "prefix 'a=c': another one");
    memset(longer, 'n', sizeof(longer));
    longer[0] = '=';
    longer[sizeof(longer) - 1] = '\0';
    assert_fails(psi_choice_init(&c, NULL, LIST(longer), &err), PS_INVALID_ARGUMENT, &err, "longer than any name");
    for (int i = 0; i <= PSI_CHOICE_MAX; i++) {
        (void)snprintf(texts[i], sizeof(texts[i]), "a%d=", i);
        many[i] = texts[i];
    }
    assert_fails(psi_choice_init(&c, many, NULL, &err), PS_INVALID_ARGUMENT, &err, "too many");
    assert_fails(psi_choice_init(&c, NULL, many, &err), PS_INVALID_ARGUMENT, &err, "too many");
    many[PSI_CHOICE_MAX] = NULL;
    c = make(many, many);
    for (int i = 0; i < PSI_CHOICE_MAX; i++) { /* the last bit, too */
        assert_int_equal(psi_choice_check(&c, "the file", &err), PS_NOT_FOUND);
        assert_true(psi_choice_takes(&c, texts[i]));
    }
    assert_fails(psi_choice_check(&c, "the file", &err), PS_NOT_FOUND, &err, "the prefix 'a0='");
}

/* Names in the file of an export: none where nothing is said, else each once. */
TEST(test_export_names)
{
    static const uint64_t seed[2] = {0, 0};
    static const char *const prefixes[] = {"a/=x/", "b=x", NULL};
    struct psi_choice none = make(NULL, NULL), some = make(NULL, prefixes);
    struct psi_map names;
    char *as = NULL;
    psi_map_init(&names, seed);
    assert_ok(psi_choice_export(&none, &names, "a/w", &as, &err), &err);
    assert_null(as);
    assert_ok(psi_choice_export(&some, &names, "a/w", &as, &err), &err);
    assert_string_equal(as, "x/w");
    psi_free(as);
    assert_fails(psi_choice_export(&some, &names, "b/w", &as, &err), PS_INVALID_ARGUMENT, &err,
                 "variables 'a/w' and 'b/w' would both be tensor 'x/w'");
    assert_null(as);
    assert_fails(psi_choice_export(&some, &names, "x/w", &as, &err), PS_INVALID_ARGUMENT, &err, "would both be tensor 'x/w'");
    assert_fails(psi_choice_export(&some, &names, "a//", &as, &err), PS_INVALID_ARGUMENT, &err, "variable 'a//' under");
    psi_map_fini(&names);
}
