/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that users and peers give. A variable or container name: letters, digits and . _ - /, bounded, no leading or
 * trailing '/', no empty, "." or ".." component; never a path. A variable is not `__metadata__`, which safetensors files have
 * for themselves. A job name (TensorFlow's): a letter, then letters, digits, _.
 * The bytes need not be NUL-terminated; a NUL, a control byte or UTF-8 is outside the grammar. Pure, any thread.
 */
#ifndef PSI_NAME_H
#define PSI_NAME_H

#include "status.h"

/** Room for psi_quote() of the longest name: four bytes each, two quotes, NUL. */
#define PSI_QUOTE_MAX 256

/** Errors of the five: PS_INVALID_ARGUMENT that quotes the name and says what is allowed. */
PSI_MUST ps_status psi_variable_name_check(const char *name, size_t len, struct psi_err *err);
PSI_MUST ps_status psi_container_name_check(const char *name, size_t len, struct psi_err *err);
PSI_MUST ps_status psi_job_name_check(const char *name, size_t len, struct psi_err *err);
/** Of what a step has measured; as that of a container. */
PSI_MUST ps_status psi_value_name_check(const char *name, size_t len, struct psi_err *err);
/** Letters, digits, . _ -; 1 to 63 bytes. */
PSI_MUST ps_status psi_cluster_name_check(const char *name, size_t len, struct psi_err *err);

/** len bytes that are all digits, of a number up to max: true, and *out has it; otherwise *out is as it was. */
bool psi_number_read(const char *p, size_t len, uint64_t max, uint64_t *out);
/** The same, of 32 bits. */
bool psi_digits_read(const char *p, size_t len, uint32_t max, uint32_t *out);

/**
 * len bytes as text that is safe in a message: in single quotes; control bytes, DEL, bytes >= 0x80, ' and \ as \xNN; cut
 * with "..." after the closing quote where n is too small. Always NUL-terminated; n >= 8. Returns dst.
 */
const char *psi_quote(char *dst, size_t n, const char *src, size_t len);

#endif
