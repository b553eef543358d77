/* SPDX-License-Identifier: Apache-2.0 */
/* Which variables of a file or a checkpoint are selected, and under which names: ps_file_options.only and .prefixes. */
#ifndef PSI_WORKER_CHOICE_H
#define PSI_WORKER_CHOICE_H

#include "common/limits.h"
#include "common/map.h"
#include "common/status.h"

enum { PSI_CHOICE_MAX = 64 };

struct psi_choice {
    const char *const *only;           /* patterns of names, borrowed; NULL: every name is selected */
    const char *const *prefixes;       /* borrowed; NULL: names are unchanged */
    uint64_t only_seen, prefixes_seen; /* bit i: entry i has matched a name; psi_choice_check() wants all bits set */
};

/** Check and borrow the lists, ended by NULL. INVALID_ARGUMENT: too many entries, empty pattern, prefix without = or OLD twice */
ps_status psi_choice_init(struct psi_choice *c, const char *const *only, const char *const *prefixes,
                          struct psi_err *err) PSI_MUST;
/** True if c selects the variable: `only` is NULL or has a fitting pattern. Notes fitting patterns in only_seen. */
bool psi_choice_takes(struct psi_choice *c, const char *name);
/** Replace the longest prefix that fits name. Imports make the variable's name from the tensor's, exports the tensor's from the
 * variable's. INVALID_ARGUMENT: the result cannot be a name. */
ps_status psi_choice_rename(struct psi_choice *c, const char *name, char out[PS_NAME_BYTES_MAX + 1],
                            struct psi_err *err) PSI_MUST;
/** For an export: make the name that variable `name` has in the file, and check that no other variable gets it too.
 *
 * out_as  the name, psi_free(); NULL if there are no prefixes: the name is unchanged.
 * Errors  those of psi_choice_rename() and psi_choice_once(); RESOURCE_EXHAUSTED */
ps_status psi_choice_export(struct psi_choice *c, struct psi_map *names, const char *name, char **out_as,
                            struct psi_err *err) PSI_MUST;
/** Note in the map `names` that name `from` becomes `as`; the map keeps the pointer `from`. what: "tensors" or "variables", for
 * the error. INVALID_ARGUMENT: another name becomes `as` too; RESOURCE_EXHAUSTED. */
ps_status psi_choice_once(struct psi_map *names, const char *what, const char *from, const char *as,
                          struct psi_err *err) PSI_MUST;
/** Call after all names. NOT_FOUND names the first entry that has matched no name. where: what was searched, as "the file". */
ps_status psi_choice_check(const struct psi_choice *c, const char *where, struct psi_err *err) PSI_MUST;

#endif
