/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a key file: text in, text out. A line is a key:
 *
 *     NAME     KEYID ROLE SECRET use|accept [until=YYYY-MM-DD] [cluster=NAME]
 *
 * NAME     holder of the key. Two lines of one name are a rotation, and one identity. All lines of a name have one role.
 * KEYID    8 hexadecimal digits that no other line of the file has.
 * ROLE     ps, worker, monitor or admin.
 * SECRET   64 hexadecimal digits: 256 random bits, the pre-shared key of TLS.
 * use      a client dials with the first `use` line; a server accepts `use` and `accept` lines.
 * until    the last day, UTC, on which the key is good.
 * cluster  the cluster that the key is for; without it, the cluster of the program's setting.
 *
 * Words are separated by spaces and tabs; a '#' at the start of a word begins a comment. Secrets are zeroed before their memory
 * is freed, and stand in no error's text. Pure: the time is an argument. A parsed struct psi_keys does not change: any thread. */
#ifndef PSI_KEYS_H
#define PSI_KEYS_H

#include "identity.h"

#include <stddef.h>

enum {
    PSI_SECRET_BYTES = 32,
    PSI_KEY_LINE_BYTES = 512,         /* longest line of a file, newline and NUL included */
    PSI_KEY_FILE_BYTES_MAX = 1 << 20, /* room for some 8,000 keys */
    PSI_KEY_WIRE_BYTES_MAX = PSI_IDENTITY_BYTES_MAX
};
#define PSI_KEY_WIRE_PREFIX "psd1:"

struct psi_key {
    char name[PS_KEY_NAME_BYTES_MAX + 1];
    char key_id[PSI_KEY_ID_BYTES + 1];
    char role[PSI_ROLE_BYTES_MAX + 1];
    char cluster[PS_JOB_BYTES_MAX + 1]; /* "": the line names no cluster */
    uint8_t secret[PSI_SECRET_BYTES];
    bool use;        /* the line says `use`: a client may dial with this key; false: `accept`, only a server accepts the key */
    int64_t until_s; /* Unix time in s when the key expires, the end of its last day in UTC; 0: never */
    unsigned line;   /* number of the line in the file, from 1; 0: the key was not read from a file */
};
struct psi_keys;

/** Read the text of a key file.
 *
 * text       [n] bytes; borrows; the caller zeroes it. A byte order mark, CRLF and a last line without a newline are fine.
 * file_name  begins the texts of errors, "NAME:LINE: ..."; copied; a very long name is shortened.
 * out        written only on success; the caller frees it with psi_keys_free(). An empty file gives no keys.
 *
 * Errors  PS_INVALID_ARGUMENT    a bad line: its number, what is wrong, what to do
 *         PS_RESOURCE_EXHAUSTED  memory */
PSI_MUST ps_status psi_keys_parse(const char *text, size_t n, const char *file_name, struct psi_keys **out, struct psi_err *err);
PSI_MUST ps_status psi_keys_copy(const struct psi_keys *keys, struct psi_keys **out, struct psi_err *err);
/** Zero the secrets and free the keys. NULL is allowed. */
void psi_keys_free(struct psi_keys *keys);

size_t psi_keys_count(const struct psi_keys *keys);
/** Key i (below psi_keys_count()), in file order; valid as long as keys. */
const struct psi_key *psi_keys_at(const struct psi_keys *keys, size_t i);
/** The file_name given to psi_keys_parse(); valid as long as keys. */
const char *psi_keys_file(const struct psi_keys *keys);
/** Find the key with this name and key id. NULL: there is none. The key may have expired. */
const struct psi_key *psi_keys_find(const struct psi_keys *keys, const char *name, const char *key_id);
/** The first key marked `use` with this role (NULL: any role) that has not expired at now_s (Unix time). NULL: none. */
const struct psi_key *psi_keys_first_use(const struct psi_keys *keys, const char *role, int64_t now_s);
/** Fail with FAILED_PRECONDITION because psi_keys_first_use() found no key. The text names expired keys marked `use`. */
ps_status psi_keys_no_use(const struct psi_keys *keys, const char *role, int64_t now_s, struct psi_err *err);

bool psi_key_is_expired(const struct psi_key *key, int64_t now_s);
void psi_key_identity(const struct psi_key *key, struct psi_identity *out);
/** Write the key's line with its newline; the caller zeroes buf, which has the secret. Returns the length without NUL. */
size_t psi_key_format(const struct psi_key *key, char buf[PSI_KEY_LINE_BYTES]);

/** Read a day such as "2027-03-31" as the Unix time of its end in UTC. False: not a date from 1970 to 9999. */
bool psi_day_end_parse(const char *text, size_t n, int64_t *out_s);
const char *psi_day_end_text(int64_t until_s, char buf[11]);

/* ---- a key's name as a client sends it in its ClientHello, unencrypted: psd1:CLUSTER:ROLE:NAME:KEYID ---- */
struct psi_key_wire {
    char cluster[PS_JOB_BYTES_MAX + 1]; /* "": the client names no cluster */
    char role[PSI_ROLE_BYTES_MAX + 1];
    char name[PS_KEY_NAME_BYTES_MAX + 1];
    char key_id[PSI_KEY_ID_BYTES + 1];
};
/** Write psd1:CLUSTER:ROLE:NAME:KEYID. cluster: the program's; NULL or "": the one in the key's line. Returns the length. */
size_t psi_key_wire(const struct psi_key *key, const char *cluster, char buf[PSI_KEY_WIRE_BYTES_MAX + 1]);
/** Parse bytes [n] from the network. True if psi_key_wire() could have written them; *out then has the parts. */
bool psi_key_wire_parse(const uint8_t *bytes, size_t n, struct psi_key_wire *out);

#endif
