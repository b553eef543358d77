/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may do what: a table of rows WHO WHERE RIGHTS. The rights of an identity on a container, or on the cluster, are the union
 * of all rows that match. The order of rows has no meaning, and no row takes a right away. An identity without a row has no
 * rights; an empty table gives rights only to the process's own user. Pure: text in, text out; a table never changes, so any
 * thread may read it.
 *
 *   WHO     role:R, key:NAME, cert:URI or uid:N; the name of a key and a URI may end in *, which stands for any rest
 *   WHERE   containers, by comma, exact or with a final *; @cluster, which no * stands for
 *   RIGHTS  words by blank or comma: those of enum psi_right, and three that stand for several of them:
 *             train   on containers read write create chief, on @cluster read write call save
 *             look    read
 *             all     every right
 *
 * A right has a meaning on containers, on the cluster, or on both (PSI_RIGHTS_OF_CONTAINER, PSI_RIGHTS_OF_CLUSTER). A word gives
 * its rights in the places of its row; a word without any right there is refused.
 */
#ifndef PSI_RIGHTS_H
#define PSI_RIGHTS_H

#include "common/limits.h"
#include "identity.h"

enum psi_right {
    PSI_RIGHT_READ = 1,        /* values, names, lists */
    PSI_RIGHT_WRITE = 2,       /* pushes, queues, rounds; barriers of the cluster */
    PSI_RIGHT_CREATE = 4,      /* variables and queues */
    PSI_RIGHT_CHIEF = 8,       /* first values, seals, the number of the chief, a reset of the container */
    PSI_RIGHT_CALL = 16,       /* calls and plans */
    PSI_RIGHT_SAVE = 32,       /* a checkpoint */
    PSI_RIGHT_ADMINISTER = 64, /* what operators do: delete, restore, settings, rates, shutdown */
    PSI_RIGHT_MEMBER = 128,    /* to be a task of the cluster spec, and to ask what another identity may */
    PSI_RIGHTS_ALL = 255
};
enum {
    PSI_RIGHTS_OF_CONTAINER = PSI_RIGHT_READ | PSI_RIGHT_WRITE | PSI_RIGHT_CREATE | PSI_RIGHT_CHIEF | PSI_RIGHT_ADMINISTER,
    PSI_RIGHTS_OF_CLUSTER =
        PSI_RIGHT_READ | PSI_RIGHT_WRITE | PSI_RIGHT_CALL | PSI_RIGHT_SAVE | PSI_RIGHT_ADMINISTER | PSI_RIGHT_MEMBER,
    PSI_RIGHTS_ROWS_MAX = 4096,     /* of a table */
    PSI_RIGHTS_ROW_BYTES_MAX = 1023 /* of a row, without its comment */
};
/** Room for psi_rights_row_for() of any identity and container. */
#define PSI_RIGHTS_ROW_FOR_BYTES (PSI_IDENTITY_TEXT_BYTES + PS_CONTAINER_BYTES_MAX + 24)
/** Room for psi_rights_names() of all rights. */
#define PSI_RIGHTS_NAMES_BYTES 64

struct psi_rights;

/**
 * Read a table: rows are separated by newlines or ';'. The word `allow` before a row may be left out. A # begins a comment.
 *
 * text       n bytes, need not end in NUL; borrows.
 * what       source of the text, for errors: a path, or the name of a setting.
 * out        owns: free with psi_rights_free(). Written only on success.
 *
 * Errors     PS_INVALID_ARGUMENT     a bad row: source, line, word, and the nearest known word
 *            PS_RESOURCE_EXHAUSTED   memory
 */
PSI_MUST ps_status psi_rights_parse(const char *text, size_t n, const char *what, struct psi_rights **out, struct psi_err *err);
void psi_rights_free(struct psi_rights *rights);
/** The rights of an identity on a container, bits of enum psi_right; container NULL: on the cluster. The process's own user
 * (kind UID, role "admin") has all. rights NULL: an empty table. */
unsigned psi_rights_of(const struct psi_rights *rights, const struct psi_identity *who, const char *container);
/** The next row that matches an identity, in order. *cursor starts at 0; *out_text belongs to the table. False: no more. */
bool psi_rights_next(const struct psi_rights *rights, const struct psi_identity *who, size_t *cursor, const char **out_text);
/** The names of rights, as "read write create". Returns buf; n >= PSI_RIGHTS_NAMES_BYTES. */
const char *psi_rights_names(unsigned rights, char *buf, size_t n);
/** The row that would give an identity the lowest of `rights` on the container (NULL: the cluster), as "allow key:w0 model
 * read". Without an identity: what would give the peer one. Returns buf; n >= PSI_RIGHTS_ROW_FOR_BYTES. */
const char *psi_rights_row_for(const struct psi_identity *who, const char *container, unsigned rights, char *buf, size_t n);
/* A task of the cluster spec that a peer says it is. */
struct psi_rights_task {
    const char *cluster, *job;
    uint32_t task;
    bool of_directory_job; /* its job's tasks hold the variables */
};
/**
 * Check that an identity may be this task. It needs PSI_RIGHT_MEMBER on the cluster. A certificate is good for its own task
 * only. A task of the directory's job needs a key of role ps, the certificate of that task, or the process's own user.
 *
 * Errors     PS_PERMISSION_DENIED    which of these is missing; for a missing right, the row that would give it
 */
PSI_MUST ps_status psi_rights_member(const struct psi_rights *rights, const struct psi_identity *who,
                                     const struct psi_rights_task *task, struct psi_err *err);

#endif
