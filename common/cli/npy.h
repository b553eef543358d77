/* SPDX-License-Identifier: Apache-2.0 */
/* For the command-line programs: read and write NumPy's .npy files. Needs no session, and prints nothing. */
#ifndef CLI_NPY_H
#define CLI_NPY_H

#include "common/shape.h"
#include <stdio.h>

enum { CLI_NPY_ERROR_MAX = 512 };

struct cli_npy_header {
    char descr[16]; /* dtype as NumPy writes it, e.g. "<f4" */
    ps_dtype dtype; /* PS_DTYPE_NONE: psd has no such dtype, so cli_npy_read() fails */
    bool fortran_order;
    ps_shape shape;
};

/** NumPy's text for a dtype: "<f4" for PS_F32, "<V2" for PS_BF16 as ml_dtypes writes it; NULL for PS_STRING. */
const char *cli_npy_descr(ps_dtype dtype);
/** Parse the dictionary in text [n], which a NUL must follow. False: error [CLI_NPY_ERROR_MAX] says what is wrong, and where. */
bool cli_npy_parse(const char *text, size_t n, struct cli_npy_header *out, char *error);
/** Read all that comes before the first element, at which the file then stands. False: error as for cli_npy_parse(). */
bool cli_npy_read_header(FILE *file, struct cli_npy_header *out, char *error);
/** Read a whole file of this dtype and shape into dst [elements * ps_dtype_bytes()]. Bytes behind the data are an error. False:
 * error [CLI_NPY_ERROR_MAX] says what dtype and shape the file has, or what else is wrong. */
bool cli_npy_read(FILE *file, ps_dtype dtype, const ps_shape *shape, void *dst, char *error);
bool cli_npy_write(FILE *file, ps_dtype dtype, const ps_shape *shape, const void *data, size_t bytes);

#endif
