/* SPDX-License-Identifier: Apache-2.0 */
/* The scopes of a session (ps.h): variable scopes, containers, devices, and the names that the session has got. The session's
 * lock, which psi_api_scope_*() take, protects everything here. */
#ifndef PSI_WORKER_SCOPE_H
#define PSI_WORKER_SCOPE_H

#include "worker/core/core.h"

#include "common/map.h"

struct psi_scopes {
    char container[PS_CONTAINER_BYTES_MAX + 1]; /* container where no ps_container_push() is in effect; constant */
    struct psi_list variable_scopes;            /* struct level (scope.c), the innermost last */
    struct psi_list containers;                 /* struct level, the innermost last */
    struct psi_map names;                       /* "container\0full name" -> struct got */
    struct psi_placer placer;                   /* device scopes */
};

/* How a program names a variable. */
enum psi_scope_how {
    PSI_SCOPE_GET,   /* get or create, by a spec */
    PSI_SCOPE_FIND,  /* look up, by its name in the scopes */
    PSI_SCOPE_GLOBAL /* get or create, by a spec; no prefix, and the session's default container */
};

/* Container, name and requested device of a variable, as the scopes give them. */
struct psi_scoped {
    char container[PS_CONTAINER_BYTES_MAX + 1];
    char name[PS_NAME_BYTES_MAX + 1];
    struct psi_request_place place;
    bool must_exist;   /* a look-up, or the scope says PS_REUSE_ALWAYS: nothing is created */
    bool first;        /* the session has not got a variable of this name before */
    size_t base_bytes; /* if a number was appended to make the name unique: length without it; otherwise 0 */
};

void psi_scopes_init(struct psi_scopes *scopes);
void psi_scopes_fini(struct psi_scopes *scopes);

#endif
