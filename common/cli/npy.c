/* SPDX-License-Identifier: Apache-2.0 */
/* A .npy file has: "\x93NUMPY"; the version (1 0: the length has 2 bytes; 2 0 and 3 0: 4 bytes); the length of the header; the
 * header, a Python dictionary with the keys descr, fortran_order and shape, then blanks and a newline up to a multiple of 64
 * bytes; the elements, little-endian, row-major. Failure: any other file is refused with a text, for example for another version,
 * column-major order, a dtype that psd does not have, too few or too many bytes, or a bool that is neither 0 nor 1. */
#include "npy.h"

#include "common/literal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_MAX = 65535, PREFIX = 10, WRITTEN_MAX = 512 };

static const struct {
    ps_dtype dtype;
    const char *descr;
} DTYPES[] = {
    {PS_F32, "<f4"}, {PS_F64, "<f8"},  {PS_I32, "<i4"}, {PS_I64, "<i8"}, {PS_BOOL, "|b1"},
    {PS_F16, "<f2"}, {PS_BF16, "<V2"}, {PS_I8, "|i1"},  {PS_U8, "|u1"},  {PS_BF16, "|V2"},
};
enum { DTYPE_COUNT = sizeof(DTYPES) / sizeof(DTYPES[0]) };

const char *cli_npy_descr(ps_dtype dtype)
{
    for (size_t i = 0; i < DTYPE_COUNT; i++) {
        if (DTYPES[i].dtype == dtype) {
            return DTYPES[i].descr;
        }
    }
    return NULL;
}

struct cursor {
    const char *text;
    struct psi_literal literal;
    struct psi_token next; /* the token to take next; its kind is 0 if the text is no valid token */
    char *error;
};

static bool bad(const struct cursor *c, const char *what)
{
    (void)snprintf(c->error, CLI_NPY_ERROR_MAX, "its header is no dictionary of .npy: before byte %zu %s",
                   (size_t)(c->literal.p - c->text), what);
    return false;
}

static void step(struct cursor *c)
{
    if (psi_literal_next(&c->literal, &c->next, NULL) != PS_OK) {
        memset(&c->next, 0, sizeof(c->next));
    }
}

static bool take(struct cursor *c, char wanted)
{
    bool is = c->next.kind == PSI_TOKEN_MARK && c->next.mark == wanted;
    if (is) {
        step(c);
    }
    return is;
}

static bool take_string(struct cursor *c, char *dst, size_t n)
{
    if (c->next.kind != PSI_TOKEN_STRING) {
        return bad(c, "a text in quotes must be");
    }
    if (c->next.len >= n) {
        return bad(c, "a text is too long");
    }
    memcpy(dst, c->next.text, c->next.len + 1);
    step(c);
    return true;
}

static bool take_bool(struct cursor *c, bool *out)
{
    *out = strcmp(c->next.text, "True") == 0;
    if (c->next.kind != PSI_TOKEN_NAME || (!*out && strcmp(c->next.text, "False") != 0)) {
        return bad(c, "True or False must be");
    }
    step(c);
    return true;
}

static bool take_dimension(struct cursor *c, int64_t *out)
{
    if (c->next.kind != PSI_TOKEN_NUMBER || strspn(c->next.text, "0123456789") != c->next.len) {
        return bad(c, "a dimension must be");
    }
    errno = 0;
    *out = strtoll(c->next.text, NULL, 10);
    if (errno != 0) {
        return bad(c, "a dimension is too large");
    }
    step(c);
    return true;
}

static bool take_shape(struct cursor *c, ps_shape *out)
{
    memset(out, 0, sizeof(*out));
    if (!take(c, '(')) {
        return bad(c, "a tuple must be");
    }
    bool comma = true;
    while (!take(c, ')')) {
        if (!comma) {
            return bad(c, "a comma or ) must be");
        }
        if (out->rank == PS_RANK_MAX) {
            return bad(c, "the shape has more than 8 dimensions");
        }
        if (!take_dimension(c, &out->dims[out->rank])) {
            return false;
        }
        out->rank++;
        comma = take(c, ',');
    }
    if (out->rank == 1 && !comma) {
        return bad(c, "a number in brackets is no shape: (3,) is one");
    }
    return ps_shape_elements(out) >= 0 || bad(c, "the shape has too many elements");
}

static bool take_entry(struct cursor *c, struct cli_npy_header *out, unsigned *seen)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    char key[32];
    unsigned which = 0;
    if (!take_string(c, key, sizeof(key))) {
        return false;
    }
    while (which < 3 && strcmp(keys[which], key) != 0) {
        which++;
    }
    if (which == 3 || (*seen & 1u << which) != 0) {
        return bad(c, which == 3 ? "a key is not descr, fortran_order or shape" : "a key is there twice");
    }
    *seen |= 1u << which;
    if (!take(c, ':')) {
        return bad(c, "a : must be");
    }
    if (which == 0 && (take(c, '[') || take(c, '('))) {
        return bad(c, "the dtype has fields; psd has plain dtypes only");
    }
    return which == 0   ? take_string(c, out->descr, sizeof(out->descr))
           : which == 1 ? take_bool(c, &out->fortran_order)
                        : take_shape(c, &out->shape);
}

static ps_dtype dtype_of(const char *descr)
{
    for (size_t i = 0; i < DTYPE_COUNT; i++) {
        bool byte = DTYPES[i].descr[0] == '|' && DTYPES[i].dtype != PS_BF16; /* '|': a dtype of one byte has no byte order */
        if (strcmp(descr, DTYPES[i].descr) == 0 ||
            (byte && strchr("<>=|", descr[0]) != NULL && descr[0] != '\0' && strcmp(descr + 1, DTYPES[i].descr + 1) == 0)) {
            return DTYPES[i].dtype;
        }
    }
    return PS_DTYPE_NONE;
}

bool cli_npy_parse(const char *text, size_t n, struct cli_npy_header *out, char *error)
{
    struct cursor c = {.text = text, .error = error};
    unsigned seen = 0;
    memset(out, 0, sizeof(*out));
    psi_literal_init(&c.literal, text);
    if (n == 0 || text[n - 1] != '\n') {
        return bad(&c, "a newline must end it");
    }
    step(&c);
    if (!take(&c, '{')) {
        return bad(&c, "a { must be");
    }
    bool comma = true;
    while (!take(&c, '}')) {
        if (!comma) {
            return bad(&c, "a comma or } must be");
        }
        if (!take_entry(&c, out, &seen)) {
            return false;
        }
        comma = take(&c, ',');
    }
    if (c.next.kind != PSI_TOKEN_END || strlen(text) != n) {
        return bad(&c, "something is behind its end");
    }
    if (seen != 7) {
        return bad(&c, "a key is missing: descr, fortran_order and shape must be there");
    }
    out->dtype = dtype_of(out->descr);
    return true;
}

static bool read_whole(FILE *file, void *dst, size_t n, const char *what, char *error)
{
    size_t got = fread(dst, 1, n, file);
    if (got == n) {
        return true;
    }
    if (ferror(file) != 0) {
        (void)snprintf(error, CLI_NPY_ERROR_MAX, "%s", strerror(errno));
    } else {
        (void)snprintf(error, CLI_NPY_ERROR_MAX, "it ends after %zu of the %zu bytes of its %s", got, n, what);
    }
    return false;
}

bool cli_npy_read_header(FILE *file, struct cli_npy_header *out, char *error)
{
    unsigned char head[12];
    if (!read_whole(file, head, PREFIX, "first fields", error)) {
        return false;
    }
    if (memcmp(head, "\x93NUMPY", 6) != 0) {
        (void)snprintf(error, CLI_NPY_ERROR_MAX, "it is no .npy file: numpy.save() makes one%s",
                       memcmp(head, "PK", 2) == 0 ? "; this is a zip file, an .npz perhaps" : "");
        return false;
    }
    if (head[6] < 1 || head[6] > 3 || head[7] != 0) {
        (void)snprintf(error, CLI_NPY_ERROR_MAX, "its version is %u.%u; 1.0, 2.0 and 3.0 are known", head[6], head[7]);
        return false;
    }
    size_t n = (size_t)head[8] | (size_t)head[9] << 8;
    if (head[6] > 1) {
        if (!read_whole(file, head + PREFIX, 2, "first fields", error)) {
            return false;
        }
        n |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
    }
    if (n > HEADER_MAX) {
        (void)snprintf(error, CLI_NPY_ERROR_MAX, "its header has %zu bytes, at most %d are read", n, HEADER_MAX);
        return false;
    }
    char *text = malloc(n + 1);
    bool ok = text != NULL && read_whole(file, text, n, "header", error);
    if (text == NULL) {
        (void)snprintf(error, CLI_NPY_ERROR_MAX, "out of memory");
    }
    if (ok) {
        text[n] = '\0';
        ok = cli_npy_parse(text, n, out, error);
    }
    free(text);
    return ok;
}

static bool check(const struct cli_npy_header *h, ps_dtype dtype, const ps_shape *shape, char *error)
{
    char have[192];
    char want[192];
    (void)psi_shape_format(&h->shape, have, sizeof(have));
    (void)psi_shape_format(shape, want, sizeof(want));
    if (h->dtype != dtype) {
        const char *why = h->descr[0] == '>'                ? ", big-endian"
                          : strchr(h->descr, 'O') != NULL   ? ", Python objects"
                          : strpbrk(h->descr, "SU") != NULL ? ", texts"
                                                            : "";
        (void)snprintf(error, CLI_NPY_ERROR_MAX, "its dtype is %s%s%s%s%s; the variable is %s, '%s' in .npy", h->descr, why,
                       h->dtype != PS_DTYPE_NONE ? " (" : "", h->dtype != PS_DTYPE_NONE ? ps_dtype_name(h->dtype) : "",
                       h->dtype != PS_DTYPE_NONE ? ")" : "", ps_dtype_name(dtype),
                       cli_npy_descr(dtype) != NULL ? cli_npy_descr(dtype) : "none");
        return false;
    }
    if (h->fortran_order && h->shape.rank > 1) {
        (void)snprintf(error, CLI_NPY_ERROR_MAX,
                       "its order is column-major (fortran_order), the variable's is row-major: "
                       "numpy.ascontiguousarray() turns it");
        return false;
    }
    if (strcmp(have, want) != 0) {
        (void)snprintf(error, CLI_NPY_ERROR_MAX, "its shape is %s; the variable's is %s", have, want);
        return false;
    }
    return true;
}

bool cli_npy_read(FILE *file, ps_dtype dtype, const ps_shape *shape, void *dst, char *error)
{
    struct cli_npy_header h;
    size_t count = (size_t)ps_shape_elements(shape);
    if (!cli_npy_read_header(file, &h, error) || !check(&h, dtype, shape, error) ||
        !read_whole(file, dst, count * ps_dtype_bytes(dtype), "data", error)) {
        return false;
    }
    if (fgetc(file) != EOF) {
        (void)snprintf(error, CLI_NPY_ERROR_MAX, "it has more than the %zu bytes of its data", count * ps_dtype_bytes(dtype));
        return false;
    }
    for (size_t i = 0; dtype == PS_BOOL && i < count; i++) {
        if (((const uint8_t *)dst)[i] > 1) {
            (void)snprintf(error, CLI_NPY_ERROR_MAX, "element %zu is %u; a bool is 0 or 1", i, ((const uint8_t *)dst)[i]);
            return false;
        }
    }
    return true;
}

bool cli_npy_write(FILE *file, ps_dtype dtype, const ps_shape *shape, const void *data, size_t bytes)
{
    char text[192];
    char header[WRITTEN_MAX];
    int used = snprintf(header + PREFIX, sizeof(header) - PREFIX, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                        cli_npy_descr(dtype), psi_shape_format(shape, text, sizeof(text)));
    size_t whole = (PREFIX + (size_t)used + 1 + 63) / 64 * 64;
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)((whole - PREFIX) & 0xff);
    header[9] = (char)((whole - PREFIX) >> 8);
    memset(header + PREFIX + used, ' ', whole - PREFIX - (size_t)used);
    header[whole - 1] = '\n';
    return fwrite(header, 1, whole, file) == whole && fwrite(data, 1, bytes, file) == bytes && fflush(file) == 0;
}
