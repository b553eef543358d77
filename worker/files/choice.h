/* SPDX-License-Identifier: Apache-2.0 */
/* Which variables of a file or a checkpoint are meant, and under which names: ps_file_options.only and .prefixes. */
#ifndef PSI_WORKER_CHOICE_H
#define PSI_WORKER_CHOICE_H

#include "common/limits.h"
#include "common/map.h"
#include "common/status.h"

enum { PSI_CHOICE_MAX = 64 }; /* patterns, and prefixes */

struct psi_choice {
    const char *const *only;           /* keeps; NULL: all are meant */
    const char *const *prefixes;       /* keeps; NULL: all keep their names */
    uint64_t only_seen, prefixes_seen; /* bit i: the i-th has fitted something */
};

/** Errors: INVALID_ARGUMENT naming the pattern or the prefix: empty, without a =, twice, too many. */
ps_status psi_choice_init(struct psi_choice *c, const char *const *only, const char *const *prefixes,
                          struct psi_err *err) PSI_MUST;
/** Is this variable meant? */
bool psi_choice_takes(struct psi_choice *c, const char *name);
/** The name of this variable behind the prefixes: of the variable for an import, of the tensor for an export; with NUL. Errors:
 * INVALID_ARGUMENT where the result cannot be a name. */
ps_status psi_choice_rename(struct psi_choice *c, const char *name, char out[PS_NAME_BYTES_MAX + 1],
                            struct psi_err *err) PSI_MUST;
/**
 * The name of variable `name` in the file of an export, which no other in `names` has (psi_choice_once()). *out_as: NULL where
 * the choice has no prefixes: the variable keeps its name; psi_free. Errors: those of psi_choice_rename() and
 * psi_choice_once(); RESOURCE_EXHAUSTED.
 */
ps_status psi_choice_export(struct psi_choice *c, struct psi_map *names, const char *name, char **out_as,
                            struct psi_err *err) PSI_MUST;
/**
 * `from` becomes `as`, which nothing in `names` has become so far. names: by `as`, each with its `from`, which stays the
 * caller's. what: "tensors", "variables". Errors: INVALID_ARGUMENT naming the two that would be one; RESOURCE_EXHAUSTED.
 */
ps_status psi_choice_once(struct psi_map *names, const char *what, const char *from, const char *as,
                          struct psi_err *err) PSI_MUST;
/** Every name was asked for before. Errors: NOT_FOUND naming the first pattern, or the first prefix, that has fitted nothing of
 * `where` ("the file"). */
ps_status psi_choice_check(const struct psi_choice *c, const char *where, struct psi_err *err) PSI_MUST;

#endif
