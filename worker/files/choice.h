/* SPDX-License-Identifier: Apache-2.0 */
/* Which variables of a file or a checkpoint are meant, and under which names: ps_file_options.only and .prefixes. */
#ifndef PSI_WORKER_CHOICE_H
#define PSI_WORKER_CHOICE_H

#include "common/limits.h"
#include "common/map.h"
#include "common/status.h"

enum { PSI_CHOICE_MAX = 64 }; /* limit of patterns, and of prefixes */

struct psi_choice {
    const char *const *only;           /* keeps; NULL: all variables are meant */
    const char *const *prefixes;       /* keeps; NULL: names are unchanged */
    uint64_t only_seen, prefixes_seen; /* bit i: entry i has fitted a name */
};

/** INVALID_ARGUMENT names the pattern or prefix: empty, without =, twice, too many. */
ps_status psi_choice_init(struct psi_choice *c, const char *const *only, const char *const *prefixes,
                          struct psi_err *err) PSI_MUST;
/** True if the variable is meant. */
bool psi_choice_takes(struct psi_choice *c, const char *name);
/** Apply the prefixes to a variable's name; the result is the variable's name for an import, the tensor's for an export.
 * INVALID_ARGUMENT: the result cannot be a name. */
ps_status psi_choice_rename(struct psi_choice *c, const char *name, char out[PS_NAME_BYTES_MAX + 1],
                            struct psi_err *err) PSI_MUST;
/**
 * The name of variable `name` in the file of an export, which no other name in `names` has (psi_choice_once()).
 *
 * out_as  NULL if there are no prefixes: the name is unchanged; psi_free().
 * Errors  those of psi_choice_rename() and psi_choice_once(); RESOURCE_EXHAUSTED
 */
ps_status psi_choice_export(struct psi_choice *c, struct psi_map *names, const char *name, char **out_as,
                            struct psi_err *err) PSI_MUST;
/**
 * Note that `from` becomes `as`. names: from each `as` to its `from`, which the caller keeps. what: "tensors", "variables".
 * Errors: INVALID_ARGUMENT names two that would become one; RESOURCE_EXHAUSTED.
 */
ps_status psi_choice_once(struct psi_map *names, const char *what, const char *from, const char *as,
                          struct psi_err *err) PSI_MUST;
/** After all names were tried: NOT_FOUND names the first pattern or prefix that has fitted no name of `where` ("the file"). */
ps_status psi_choice_check(const struct psi_choice *c, const char *where, struct psi_err *err) PSI_MUST;

#endif
