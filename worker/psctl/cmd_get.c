/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psctl get: the value of a variable, as text, JSON or a NumPy file.
 *
 * .npy, version 1.0: "\x93NUMPY" 1 0, u16 length of the header, a Python dict as text, padded with blanks so that the data starts
 * at a multiple of 64 and the header ends in a newline; then the elements, little-endian, row-major.
 * Failure modes: no such variable, not initialised, a file that cannot be written (what was written is removed); exit 1.
 */
#include "psctl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VALUES_SHOWN = 1000, NPY_HEADER_MAX = 512 };

union element {
    float f32;
    double f64;
    int32_t i32;
    int64_t i64;
    uint8_t b;
};

static union element element_at(const void *data, ps_dtype dtype, uint64_t i)
{
    union element e = {.i64 = 0};
    size_t bytes = ps_dtype_bytes(dtype);
    memcpy(&e, (const char *)data + i * bytes, bytes);
    return e;
}

static void print_value(ps_dtype dtype, union element e)
{
    switch (dtype) {
    case PS_F32:
        (void)printf("%.9g", (double)e.f32);
        break;
    case PS_F64:
        (void)printf("%.17g", e.f64);
        break;
    case PS_I32:
        (void)printf("%" PRId32, e.i32);
        break;
    case PS_I64:
        (void)printf("%" PRId64, e.i64);
        break;
    default:
        (void)fputs(e.b != 0 ? "True" : "False", stdout);
        break;
    }
}

static void json_value(ps_dtype dtype, union element e)
{
    switch (dtype) {
    case PS_F32:
        json_f32(NULL, e.f32);
        break;
    case PS_F64:
        json_f64(NULL, e.f64);
        break;
    case PS_I32:
        json_i64(NULL, e.i32);
        break;
    case PS_I64:
        json_i64(NULL, e.i64);
        break;
    default:
        json_bool(NULL, e.b != 0);
        break;
    }
}

static void print_text(const ps_variable *v, const void *data)
{
    const ps_shape *shape = ps_variable_shape(v);
    ps_dtype dtype = ps_variable_dtype(v);
    uint64_t count = (uint64_t)ps_shape_elements(shape);
    uint64_t columns = shape->rank == 0 ? 1 : (uint64_t)shape->dims[shape->rank - 1];
    uint64_t shown = count < VALUES_SHOWN ? count : VALUES_SHOWN;
    for (uint64_t i = 0; i < shown; i++) {
        print_value(dtype, element_at(data, dtype, i));
        (void)putchar((i + 1) % columns == 0 || i + 1 == shown ? '\n' : ' ');
    }
    if (shown < count) {
        (void)printf("... %" PRIu64 " values in all; --npy FILE or --json gives them\n", count);
    }
}

static void print_json(const ps_variable *v, const void *data, bool values)
{
    const ps_shape *shape = ps_variable_shape(v);
    ps_dtype dtype = ps_variable_dtype(v);
    bool exact = false;
    json_object(NULL);
    json_text("name", ps_variable_name(v));
    json_text("device", ps_variable_device(v));
    json_text("dtype", ps_dtype_name(dtype));
    json_list("shape");
    for (uint32_t i = 0; i < shape->rank; i++) {
        json_i64(NULL, shape->dims[i]);
    }
    json_end();
    json_u64("version", ps_variable_version(v, &exact));
    json_bool("exact", exact);
    if (values) {
        json_list("values");
        for (uint64_t i = 0; i < (uint64_t)ps_shape_elements(shape); i++) {
            json_value(dtype, element_at(data, dtype, i));
        }
        json_end();
    }
    json_end();
}

static const char *npy_type(ps_dtype dtype)
{
    switch (dtype) {
    case PS_F32:
        return "<f4";
    case PS_F64:
        return "<f8";
    case PS_I32:
        return "<i4";
    case PS_I64:
        return "<i8";
    default:
        return "|b1";
    }
}

static bool npy_write(FILE *file, const ps_variable *v, const void *data)
{
    char shape[192];
    char header[NPY_HEADER_MAX];
    int used = snprintf(header + 10, sizeof(header) - 10, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                        npy_type(ps_variable_dtype(v)), out_shape(ps_variable_shape(v), shape, sizeof(shape)));
    size_t whole = (10 + (size_t)used + 1 + 63) / 64 * 64;
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)((whole - 10) & 0xff);
    header[9] = (char)((whole - 10) >> 8);
    memset(header + 10 + used, ' ', whole - 10 - (size_t)used);
    header[whole - 1] = '\n';
    size_t bytes = ps_variable_bytes(v);
    return fwrite(header, 1, whole, file) == whole && fwrite(data, 1, bytes, file) == bytes && fflush(file) == 0;
}

/* To a file beside it first, so that FILE is always whole; a device, a pipe or a link is written to as it is. */
static bool npy_save(const struct psctl *c, const ps_variable *v, const void *data)
{
    if (strcmp(c->npy, "-") == 0) {
        return npy_write(stdout, v, data);
    }
    char path[4096];
    struct stat st;
    bool beside = lstat(c->npy, &st) != 0 || S_ISREG(st.st_mode);
    int n =
        beside ? snprintf(path, sizeof(path), "%s.part.%ld", c->npy, (long)getpid()) : snprintf(path, sizeof(path), "%s", c->npy);
    FILE *file = n > 0 && (size_t)n < sizeof(path) ? fopen(path, "wbe") : NULL;
    bool ok = file != NULL && npy_write(file, v, data);
    int error = file == NULL && (n <= 0 || (size_t)n >= sizeof(path)) ? ENAMETOOLONG : errno;
    if (file != NULL && fclose(file) != 0) {
        error = ok ? errno : error;
        ok = false;
    }
    if (ok && beside && rename(path, c->npy) != 0) {
        error = errno;
        ok = false;
    }
    if (!ok) {
        if (file != NULL && beside) {
            (void)remove(path);
        }
        psctl_error(c, PS_UNKNOWN, "%s: %s", c->npy, strerror(error));
    }
    return ok;
}

static bool show(const struct psctl *c, const ps_variable *v, const void *data)
{
    bool exact = false;
    char shape[192];
    bool to_stdout = c->npy != NULL && strcmp(c->npy, "-") == 0;
    if (c->npy != NULL && (!npy_save(c, v, data) || to_stdout)) {
        return to_stdout; /* main sees whether standard output took it */
    }
    if (c->json) {
        print_json(v, data, c->npy == NULL);
        return true;
    }
    uint64_t version = ps_variable_version(v, &exact);
    (void)printf("%s %s %s on %s, version %" PRIu64 "%s%s%s\n", ps_variable_name(v), ps_dtype_name(ps_variable_dtype(v)),
                 out_shape(ps_variable_shape(v), shape, sizeof(shape)), ps_variable_device(v), version,
                 exact ? "" : ", read while it was changing", c->npy != NULL ? " -> " : "", c->npy != NULL ? c->npy : "");
    if (c->npy == NULL) {
        print_text(v, data);
    }
    return true;
}

enum psctl_exit psctl_get(struct psctl *c)
{
    ps_variable *v = NULL;
    if (c->argc != 1) {
        (void)fprintf(stderr, "psctl: get needs the NAME of a variable; psctl vars lists them\n");
        return PSCTL_USAGE;
    }
    if (!psctl_connect(c)) {
        return PSCTL_FAILED;
    }
    ps_status st = ps_variable_find(c->session, c->argv[0], &v);
    if (st != PS_OK) {
        psctl_error(c, st, "%s", ps_last_error());
        return PSCTL_FAILED;
    }
    size_t bytes = ps_variable_bytes(v);
    void *data = malloc(bytes > 0 ? bytes : 1);
    if (data == NULL) {
        psctl_error(c, PS_RESOURCE_EXHAUSTED, "out of memory for the %zu bytes of '%s'", bytes, c->argv[0]);
        return PSCTL_FAILED;
    }
    st = ps_variable_read(v, data, bytes);
    if (st != PS_OK) {
        psctl_error(c, st, "%s", ps_last_error());
    }
    bool shown = st == PS_OK && show(c, v, data);
    free(data);
    return shown ? PSCTL_OK : PSCTL_FAILED;
}
