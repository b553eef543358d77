/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of a key file: text in, text out. A line is a key:
 *
 *     NAME KEYID ROLE SECRET use|accept [until=YYYY-MM-DD] [cluster=NAME]
 *
 * NAME     who holds it; two lines of one name are a rotation, and one identity. All lines of a name have one role.
 * KEYID    8 hexadecimal digits that no other line of the file has.
 * ROLE     ps, worker, monitor or admin.
 * SECRET   64 hexadecimal digits: 256 random bits, the key of TLS.
 * use      a client dials with the first such line; a server accepts both kinds.
 * until    the last day, UTC, on which the key is good.
 * cluster  the cluster that it is for; without it the program's own setting says.
 *
 * Words are separated by spaces and tabs; what is behind a '#' at the start of a word is a comment. Secrets are zeroed where they
 * are given back, and stand in no error's text. Pure: the time is an argument. A struct psi_keys does not change once it is
 * parsed: any thread.
 */
#ifndef PSI_KEYS_H
#define PSI_KEYS_H

#include "identity.h"

#include <stddef.h>

enum {
    PSI_SECRET_BYTES = 32,
    PSI_KEY_LINE_BYTES = 512,         /* psi_key_format() with its newline and NUL; the most that a line of a file has */
    PSI_KEY_FILE_BYTES_MAX = 1 << 20, /* some 8,000 keys */
    PSI_KEY_WIRE_BYTES_MAX = PSI_IDENTITY_BYTES_MAX
};
#define PSI_KEY_WIRE_PREFIX "psd1:"

struct psi_key {
    char name[PS_KEY_NAME_BYTES_MAX + 1];
    char key_id[PSI_KEY_ID_BYTES + 1]; /* lower case */
    char role[PSI_ROLE_BYTES_MAX + 1];
    char cluster[PS_JOB_BYTES_MAX + 1]; /* "": not stated */
    uint8_t secret[PSI_SECRET_BYTES];
    bool use;        /* false: accept */
    int64_t until_s; /* Unix time from which on it is no longer good: the end of its last day, UTC; 0: always good */
    unsigned line;   /* of the file, from 1; 0: no line */
};
struct psi_keys;

/**
 * Read the text of a key file.
 *
 * text       [n] bytes; borrows; the caller zeroes it. A byte order mark, CRLF and a last line without a newline are fine.
 * file_name  for texts, "NAME:LINE: ..."; copied, shortened where it is very long.
 * out        written only on success; an empty file gives no keys. psi_keys_free().
 *
 * Errors  PS_INVALID_ARGUMENT    a bad line: its number, what is wrong, what to do
 *         PS_RESOURCE_EXHAUSTED  memory
 */
PSI_MUST ps_status psi_keys_parse(const char *text, size_t n, const char *file_name, struct psi_keys **out, struct psi_err *err);
PSI_MUST ps_status psi_keys_copy(const struct psi_keys *keys, struct psi_keys **out, struct psi_err *err);
/** Zeroes the secrets. NULL is fine. */
void psi_keys_free(struct psi_keys *keys);

size_t psi_keys_count(const struct psi_keys *keys);
/** Key i of psi_keys_count(), in the order of the file; owned by keys. */
const struct psi_key *psi_keys_at(const struct psi_keys *keys, size_t i);
/** The file_name that was parsed; owned by keys. */
const char *psi_keys_file(const struct psi_keys *keys);
/** The line of this name and key id, even if it has expired. NULL: none. Logarithmic in the number of lines. */
const struct psi_key *psi_keys_find(const struct psi_keys *keys, const char *name, const char *key_id);
/** The first line with `use` that is good at now_s (Unix time). role NULL: of any role. NULL: none. */
const struct psi_key *psi_keys_first_use(const struct psi_keys *keys, const char *role, int64_t now_s);
/** Why psi_keys_first_use() has none: FAILED_PRECONDITION, with the lines that say `use` and have expired. */
ps_status psi_keys_no_use(const struct psi_keys *keys, const char *role, int64_t now_s, struct psi_err *err);

bool psi_key_is_expired(const struct psi_key *key, int64_t now_s);
/** The identity of the key's holder: name, role and key id of the line. */
void psi_key_identity(const struct psi_key *key, struct psi_identity *out);
/** Write the key's line, with a newline. buf has the secret afterwards: the caller zeroes it. Returns its length without NUL. */
size_t psi_key_format(const struct psi_key *key, char buf[PSI_KEY_LINE_BYTES]);

/** "2027-03-31" gives the end of that day, UTC, as Unix time: the first second of the next day. False: not a date from 1970 to
 * 9999. */
bool psi_day_end_parse(const char *text, size_t n, int64_t *out_s);
/** The day that ends at until_s. Returns buf. */
const char *psi_day_end_text(int64_t until_s, char buf[11]);

/* ---- the identity in a ClientHello: psd1:CLUSTER:ROLE:NAME:KEYID, in clear ---- */
struct psi_key_wire {
    char cluster[PS_JOB_BYTES_MAX + 1]; /* "": the client does not state one */
    char role[PSI_ROLE_BYTES_MAX + 1];
    char name[PS_KEY_NAME_BYTES_MAX + 1];
    char key_id[PSI_KEY_ID_BYTES + 1];
};
/** Write the identity. cluster: the program's; NULL or "": that of the key's line, or "". Returns the length without NUL. */
size_t psi_key_wire(const struct psi_key *key, const char *cluster, char buf[PSI_KEY_WIRE_BYTES_MAX + 1]);
/** Read bytes [n] from the network. True: they have exactly the form of psi_key_wire(), and *out has the parts. */
bool psi_key_wire_parse(const uint8_t *bytes, size_t n, struct psi_key_wire *out);

#endif
