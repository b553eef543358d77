/* SPDX-License-Identifier: Apache-2.0 */
/* psctl: NumPy's .npy files, read and written. No session, no output of its own. */
#ifndef PSCTL_NPY_H
#define PSCTL_NPY_H

#include <ps.h>
#include <stdio.h>

enum { NPY_ERROR_MAX = 512 };

struct npy_header {
    char descr[16]; /* "<f4" */
    ps_dtype dtype; /* PS_DTYPE_NONE: no dtype of psd; error says why when it is read */
    bool fortran_order;
    ps_shape shape;
};

/** "<f4" of PS_F32, "<V2" of PS_BF16, as NumPy's ml_dtypes writes it; NULL for PS_STRING. */
const char *npy_descr(ps_dtype dtype);
/** Parse the dictionary, text [n] behind the length field, and a NUL behind that. false: error [NPY_ERROR_MAX] says what is wrong
 * where. */
bool npy_parse(const char *text, size_t n, struct npy_header *out, char *error);
/** Read magic, version and dictionary; the data comes next. */
bool npy_read_header(FILE *file, struct npy_header *out, char *error);
/** A whole file of this dtype and shape, nothing behind it, into dst [elements * ps_dtype_bytes()]. The error names both sides.
 */
bool npy_read(FILE *file, ps_dtype dtype, const ps_shape *shape, void *dst, char *error);
/** false: errno says why. */
bool npy_write(FILE *file, ps_dtype dtype, const ps_shape *shape, const void *data, size_t bytes);

#endif
