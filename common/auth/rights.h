/* SPDX-License-Identifier: Apache-2.0 */
/* Who may do what: a table of rows WHO WHERE RIGHTS. The rights of an identity on a container, or on the cluster, are the union
 * of the rights of all matching rows. The order of rows has no meaning, and no row takes a right away. An identity without a row
 * has no rights, except the process's own user. Pure: text in, text out; a table never changes, so any thread may read it.
 *
 *   WHO     role:R, key:NAME, cert:URI or uid:N; the name of a key and a URI may end in *, which stands for any rest
 *   WHERE   names of containers, separated by commas, each exact or with a final *; @cluster, which no * matches
 *   RIGHTS  words, separated by blanks or commas: the names of enum psi_right, and three words that give several rights:
 *             train   on containers read write create chief, on @cluster read write call save
 *             look    read
 *             all     every right
 *
 * A right has a meaning on containers, on the cluster, or on both (PSI_RIGHTS_OF_CONTAINER, PSI_RIGHTS_OF_CLUSTER). A word gives
 * its rights in the places of its row; a word that gives no right in any of these places is refused. */
#ifndef PSI_RIGHTS_H
#define PSI_RIGHTS_H

#include "common/limits.h"
#include "identity.h"

enum psi_right {
    PSI_RIGHT_READ = 1,  /* read values, names and lists */
    PSI_RIGHT_WRITE = 2, /* push, use queues and synchronous rounds; together with MEMBER also wait at barriers and end the job */
    PSI_RIGHT_CREATE = 4,
    PSI_RIGHT_CHIEF = 8, /* initialise variables, declare them ready (SEAL), become chief, reset the container */
    PSI_RIGHT_CALL = 16,
    PSI_RIGHT_SAVE = 32,
    PSI_RIGHT_ADMINISTER = 64, /* an operator's requests: delete, restore, settings, rates, shutdown */
    PSI_RIGHT_MEMBER = 128,    /* say in HELLO that the session belongs to a task; ask which rights another identity has */
    PSI_RIGHTS_ALL = 255
};
enum {
    PSI_RIGHTS_OF_CONTAINER = PSI_RIGHT_READ | PSI_RIGHT_WRITE | PSI_RIGHT_CREATE | PSI_RIGHT_CHIEF | PSI_RIGHT_ADMINISTER,
    PSI_RIGHTS_OF_CLUSTER =
        PSI_RIGHT_READ | PSI_RIGHT_WRITE | PSI_RIGHT_CALL | PSI_RIGHT_SAVE | PSI_RIGHT_ADMINISTER | PSI_RIGHT_MEMBER,
    PSI_RIGHTS_ROWS_MAX = 4096,
    PSI_RIGHTS_ROW_BYTES_MAX = 1023 /* longest row in bytes, without its comment */
};
/** Size of a buffer for psi_rights_row_for() with any identity and container. */
#define PSI_RIGHTS_ROW_FOR_BYTES (PSI_IDENTITY_TEXT_BYTES + PS_CONTAINER_BYTES_MAX + 24)
#define PSI_RIGHTS_NAMES_BYTES 64

struct psi_rights;

/** Read a table: rows are separated by newlines or ';'. The word `allow` before a row may be left out. A # begins a comment.
 *
 * text       n bytes, without NUL; borrows.
 * what       source of the text, for errors: a path, or the name of a setting.
 * out        owns: free with psi_rights_free(). Written only on success.
 *
 * Errors     PS_INVALID_ARGUMENT     a bad row: source, line, word, and the nearest known word
 *            PS_RESOURCE_EXHAUSTED   memory */
PSI_MUST ps_status psi_rights_parse(const char *text, size_t n, const char *what, struct psi_rights **out, struct psi_err *err);
void psi_rights_free(struct psi_rights *rights);
/** The rights (bits of enum psi_right) of an identity on a container; container NULL: on the cluster. The user of this process
 * itself (kind UID, role "admin") has all rights. rights NULL: an empty table. */
unsigned psi_rights_of(const struct psi_rights *rights, const struct psi_identity *who, const char *container);
/** True if some row gives the right PSI_RIGHT_ADMINISTER on the cluster to a role, a key or a certificate. */
bool psi_rights_administered(const struct psi_rights *rights);
/** Iterate over the rows that match an identity. *cursor is 0 at first; *out_text belongs to the table. False: no more. */
bool psi_rights_next(const struct psi_rights *rights, const struct psi_identity *who, size_t *cursor, const char **out_text);
/** Write the names of rights, as "read write create". n >= PSI_RIGHTS_NAMES_BYTES. Returns buf. */
const char *psi_rights_names(unsigned rights, char *buf, size_t n);
/** Write a row that would give an identity the first missing right, the lowest bit of `rights`, on the container (NULL: on the
 * cluster), as "allow key:w0 model read". For a peer without an identity: a text that says how to get one. Returns buf; n >=
 * PSI_RIGHTS_ROW_FOR_BYTES. */
const char *psi_rights_row_for(const struct psi_identity *who, const char *container, unsigned rights, char *buf, size_t n);
/* The task that a peer says it is, whether the cluster spec lists the task or not. */
struct psi_rights_task {
    const char *cluster, *job;
    uint32_t task;
    bool of_directory_job; /* the task is in the directory's job, normally "ps", so it holds variables */
};
/** Check that an identity may act as this task. It needs PSI_RIGHT_MEMBER on the cluster. A task's certificate is good for that
 * task only. For a task of the directory's job it must be a key of role ps, that task's certificate, or this process's user.
 *
 * Errors     PS_PERMISSION_DENIED    the text says what is missing; for a missing right, the row that would give it */
PSI_MUST ps_status psi_rights_member(const struct psi_rights *rights, const struct psi_identity *who,
                                     const struct psi_rights_task *task, struct psi_err *err);

#endif
