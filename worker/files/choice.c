/* SPDX-License-Identifier: Apache-2.0 */
/* Which variables an export or import selects, and under which names.
 *
 * Happy path: psi_choice_init() checks the lists. Each name is compared with all patterns, then with all prefixes, of which the
 * longest that fits is replaced. psi_choice_check() checks that each pattern and prefix has fitted a name. Failure modes: a
 * pattern or prefix that fits no name, and is probably misspelt; a result that cannot be a name. */
#include "choice.h"

#include "common/mem.h"
#include "common/name.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

/* Length of OLD in an entry "OLD=NEW" of the prefixes. */
static size_t old_bytes(const char *prefix)
{
    return strcspn(prefix, "=");
}

static ps_status refuse(const char *what, const char *text, const char *why, struct psi_err *err)
{
    char quoted[PSI_QUOTE_MAX];
    return psi_fail(err, PS_INVALID_ARGUMENT, "%s %s: %s", what, psi_quote(quoted, sizeof(quoted), text, strlen(text)), why);
}

static ps_status check_prefix(const char *const *prefixes, size_t i, struct psi_err *err)
{
    const char *p = prefixes[i];
    size_t n = old_bytes(p);
    if (p[n] != '=') {
        return refuse("prefix", p, "is not of the form OLD=NEW", err);
    }
    if (strlen(p + n + 1) > PS_NAME_BYTES_MAX) {
        return refuse("prefix", p, "what comes behind the = is longer than any name", err);
    }
    for (size_t k = 0; k < i; k++) {
        if (old_bytes(prefixes[k]) == n && strncmp(prefixes[k], p, n) == 0) {
            return refuse("prefix", p, "another one begins with the same OLD", err);
        }
    }
    return PS_OK;
}

ps_status psi_choice_init(struct psi_choice *c, const char *const *only, const char *const *prefixes, struct psi_err *err)
{
    ps_status st = PS_OK;
    *c = (struct psi_choice){.only = only, .prefixes = prefixes};
    for (size_t i = 0; st == PS_OK && only != NULL && only[i] != NULL; i++) {
        st = i == PSI_CHOICE_MAX  ? refuse("pattern", only[i], "there are too many of them, 64 are allowed", err)
             : only[i][0] == '\0' ? refuse("pattern", only[i], "is empty", err)
                                  : PS_OK;
    }
    for (size_t i = 0; st == PS_OK && prefixes != NULL && prefixes[i] != NULL; i++) {
        st = i == PSI_CHOICE_MAX ? refuse("prefix", prefixes[i], "there are too many of them, 64 are allowed", err)
                                 : check_prefix(prefixes, i, err);
    }
    return st;
}
_Static_assert(PSI_CHOICE_MAX == 64, "the texts, and the bits");

bool psi_choice_takes(struct psi_choice *c, const char *name)
{
    bool takes = c->only == NULL;
    for (size_t i = 0; c->only != NULL && c->only[i] != NULL; i++) {
        if (fnmatch(c->only[i], name, 0) == 0) {
            c->only_seen |= UINT64_C(1) << i;
            takes = true;
        }
    }
    return takes;
}

ps_status psi_choice_rename(struct psi_choice *c, const char *name, char out[PS_NAME_BYTES_MAX + 1], struct psi_err *err)
{
    char text[2 * PS_NAME_BYTES_MAX + 1];
    const char *best = "=";
    for (size_t i = 0; c->prefixes != NULL && c->prefixes[i] != NULL; i++) {
        const char *p = c->prefixes[i];
        if (strncmp(name, p, old_bytes(p)) == 0) {
            c->prefixes_seen |= UINT64_C(1) << i;
            best = old_bytes(p) >= old_bytes(best) ? p : best;
        }
    }
    (void)snprintf(text, sizeof(text), "%s%s", best + old_bytes(best) + 1, name + old_bytes(best));
    ps_status st = psi_variable_name_check(text, strlen(text), err);
    if (st != PS_OK) {
        psi_err_prefix(err, "variable '%s' under the prefix '%.255s'", name, best);
        return st;
    }
    memcpy(out, text, strlen(text) + 1);
    return PS_OK;
}

ps_status psi_choice_once(struct psi_map *names, const char *what, const char *from, const char *as, struct psi_err *err)
{
    void *other = NULL;
    /* the cast drops const: the map only keeps the pointer */
    ps_status st = psi_map_put(names, as, strlen(as), (void *)(uintptr_t)from, &other, err);
    if (st != PS_OK || other == NULL) {
        return st;
    }
    return psi_fail(err, PS_INVALID_ARGUMENT, "%s '%s' and '%s' would both be %s '%s'", what, (const char *)other, from,
                    strcmp(what, "tensors") == 0 ? "variable" : "tensor", as);
}

ps_status psi_choice_export(struct psi_choice *c, struct psi_map *names, const char *name, char **out_as, struct psi_err *err)
{
    char as[PS_NAME_BYTES_MAX + 1];
    *out_as = NULL;
    if (c->prefixes == NULL) {
        return PS_OK;
    }
    ps_status st = psi_choice_rename(c, name, as, err);
    st = st == PS_OK ? psi_choice_once(names, "variables", name, as, err) : st;
    if (st != PS_OK) {
        return st;
    }
    *out_as = psi_strndup(as, strlen(as));
    return *out_as != NULL ? PS_OK : psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the names of the tensors");
}

static ps_status all_seen(const char *what, const char *const *list, uint64_t seen, const char *where, struct psi_err *err)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        if ((seen & UINT64_C(1) << i) == 0) {
            char quoted[PSI_QUOTE_MAX];
            return psi_fail(err, PS_NOT_FOUND, "%s %s fits no variable of %s", what,
                            psi_quote(quoted, sizeof(quoted), list[i], strlen(list[i])), where);
        }
    }
    return PS_OK;
}

ps_status psi_choice_check(const struct psi_choice *c, const char *where, struct psi_err *err)
{
    char meant[64];
    ps_status st = all_seen("the pattern", c->only, c->only_seen, where, err);
    (void)snprintf(meant, sizeof(meant), "%s%s", where, c->only != NULL ? " that is meant" : "");
    return st == PS_OK ? all_seen("the prefix", c->prefixes, c->prefixes_seen, meant, err) : st;
}
