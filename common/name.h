/* SPDX-License-Identifier: Apache-2.0 */
/* Names that users and peers give. A variable (container) name: 1 to 255 (63) letters, digits and . _ - /, no leading or trailing
 * '/', no empty, "." or ".." component; never a path. A variable is not called `__metadata__`, which safetensors files use. A job
 * name (TensorFlow's): a letter, then letters, digits, _. The bytes need no NUL at their end. Pure, any thread. */
#ifndef PSI_NAME_H
#define PSI_NAME_H

#include "status.h"

/** Room for psi_quote() of any 63 bytes (four for each), two quotes and NUL. psi_quote() cuts a longer name. */
#define PSI_QUOTE_MAX 256

/** Each check returns PS_OK, or PS_INVALID_ARGUMENT with a text that quotes the name and says what is allowed. */
PSI_MUST ps_status psi_variable_name_check(const char *name, size_t len, struct psi_err *err);
PSI_MUST ps_status psi_container_name_check(const char *name, size_t len, struct psi_err *err);
PSI_MUST ps_status psi_job_name_check(const char *name, size_t len, struct psi_err *err);
/** Check the name of a value that a program measures in a step, such as its loss. The rules are those of a container name. */
PSI_MUST ps_status psi_value_name_check(const char *name, size_t len, struct psi_err *err);
/** Check the name of a cluster: 1 to 63 bytes of letters, digits and . _ - */
PSI_MUST ps_status psi_cluster_name_check(const char *name, size_t len, struct psi_err *err);
/** Check the name of a key, or of a user in a certificate: a letter or a digit, then letters, digits, . _ -; 1 to 40 bytes. A
 * name that is too long is not quoted: it may be a secret in the wrong place. */
PSI_MUST ps_status psi_key_name_check(const char *name, size_t len, struct psi_err *err);

#define PSI_VARIABLE_DEF_MAX 1024
/** TensorFlow's VariableDef of a checked variable name, as text: three lines. Returns out [PSI_VARIABLE_DEF_MAX]. */
const char *psi_variable_def(const char *name, char out[PSI_VARIABLE_DEF_MAX]);

/* A session's containers are not saved, and end with the session (docs/PROTOCOL.md, section 4). Requests to them carry a key. */
#define PSI_SESSION_CONTAINER_PREFIX "session/"
enum { PSI_SESSION_CONTAINER_BYTES = 8 + 16 + 1 /* with NUL */, PSI_KEY_BYTES = 16 };
bool psi_container_is_session(const char *container);
/** Write session/ and the number as 16 hexadecimal digits. */
void psi_session_container_name(char out[PSI_SESSION_CONTAINER_BYTES], uint64_t number);

/** Parse len digits as a number of at most max. False: the bytes are no such number, and *out is unchanged. */
bool psi_number_read(const char *p, size_t len, uint64_t max, uint64_t *out);
bool psi_digits_read(const char *p, size_t len, uint32_t max, uint32_t *out);

/** Quote len bytes for a message: in single quotes; control bytes, DEL, bytes >= 0x80, ' and \ as \xNN; cut with "..." after the
 * closing quote if n is too small. Always NUL-terminated; n >= 8. Returns dst. */
const char *psi_quote(char *dst, size_t n, const char *src, size_t len);

#endif
