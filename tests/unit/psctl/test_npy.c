/* SPDX-License-Identifier: Apache-2.0 */
/* common/cli/npy.c: what is written is read; every prefix, every flipped bit of a header, and each wrong thing by name. */
#include "test.h"
#include "common/cli/npy.h"

#include <stdlib.h>

static char error[CLI_NPY_ERROR_MAX];

/* A file in memory: version 1.0 with this dictionary, then data. */
static FILE *file_of(const char *dictionary, const void *data, size_t data_bytes)
{
    FILE *file = tmpfile();
    size_t n = strlen(dictionary);
    assert_non_null(file);
    assert_int_equal(fwrite("\x93NUMPY\x01\x00", 1, 8, file), 8);
    (void)fputc((int)(n & 0xff), file);
    (void)fputc((int)(n >> 8), file);
    assert_int_equal(fwrite(dictionary, 1, n, file), n);
    assert_int_equal(fwrite(data, 1, data_bytes, file), data_bytes);
    rewind(file);
    return file;
}

static FILE *file_of_bytes(const void *bytes, size_t n)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    rewind(file);
    return file;
}

TEST(test_round_trip)
{
    static const ps_dtype dtypes[] = {PS_F32, PS_F64, PS_I32, PS_I64, PS_BOOL, PS_F16, PS_BF16, PS_I8, PS_U8};
    ps_shape shapes[] = {PS_SCALAR, PS_SHAPE(5), PS_SHAPE(2, 3), PS_SHAPE(0), PS_SHAPE(1, 2, 1, 2, 1, 2, 1, 2)};
    uint8_t data[256];
    uint8_t back[256];
    memset(data, 1, sizeof(data));
    for (size_t d = 0; d < sizeof(dtypes) / sizeof(dtypes[0]); d++) {
        for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
            size_t bytes = (size_t)ps_shape_elements(&shapes[s]) * ps_dtype_bytes(dtypes[d]);
            FILE *file = tmpfile();
            assert_non_null(file);
            assert_true(cli_npy_write(file, dtypes[d], &shapes[s], data, bytes));
            assert_int_equal(((size_t)ftell(file) - bytes) % 64, 0);
            rewind(file);
            memset(back, 0, sizeof(back));
            if (!cli_npy_read(file, dtypes[d], &shapes[s], back, error)) {
                fail_msg("%s", error);
            }
            assert_memory_equal(back, data, bytes);
            (void)fclose(file);
        }
    }
    assert_null(cli_npy_descr(PS_STRING));
}

static bool parse(const char *text, struct cli_npy_header *out)
{
    error[0] = '\0';
    return cli_npy_parse(text, strlen(text), out, error);
}

TEST(test_dictionaries)
{
    struct cli_npy_header h;
    assert_true(parse("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", &h));
    assert_true(h.dtype == PS_F32 && !h.fortran_order && h.shape.rank == 2 && h.shape.dims[1] == 3);
    assert_true(parse("{\"shape\":(7,),\"fortran_order\":True,\"descr\":\"|b1\"}   \n", &h));
    assert_true(h.dtype == PS_BOOL && h.fortran_order && h.shape.rank == 1 && h.shape.dims[0] == 7);
    assert_true(parse("{'descr':'<i8','fortran_order':False,'shape':()}\n", &h));
    assert_true(h.dtype == PS_I64 && h.shape.rank == 0);
    assert_true(parse("{'descr':'>f4','fortran_order':False,'shape':(1,2,)}\n", &h));
    assert_true(h.dtype == PS_DTYPE_NONE);
    assert_true(parse("{'descr':'<i1','fortran_order':False,'shape':(1,)}\n", &h));
    assert_true(h.dtype == PS_I8);
    assert_true(parse("{'descr':'=i1','fortran_order':False,'shape':(1,)}\n", &h) && h.dtype == PS_I8);
    assert_true(parse("{'descr':'','fortran_order':False,'shape':(1,)}\n", &h) && h.dtype == PS_DTYPE_NONE);
    assert_true(parse("{'descr':'<f4','fortran_order':False,'shape':(1,1,1,1,1,1,1,1)}\n", &h) && h.shape.rank == 8);
    assert_true(parse("{'descr':'<f4','fortran_order':False,'shape':(9223372036854775807,)}\n", &h));
}

TEST(test_wrong_dictionaries)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        {"", "a newline must end it"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "a newline must end it"},
        {"\n", "a { must be"},
        {"[]\n", "a { must be"},
        {"{}\n", "a key is missing"},
        {"{'descr': '<f4', 'fortran_order': False}\n", "a key is missing"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}\n", "twice"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (), 'more': 1}\n", "a key is not"},
        {"{'descr': '<f4' 'fortran_order': False, 'shape': ()}\n", "a comma or } must be"},
        {"{'descr' '<f4', 'fortran_order': False, 'shape': ()}\n", "a : must be"},
        {"{'descr': <f4, 'fortran_order': False, 'shape': ()}\n", "a text in quotes must be"},
        {"{'descr': '<f4, 'fortran_order': False, 'shape': ()}\n", "a"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}\n", "the dtype has fields"},
        {"{'descr': '<f4', 'fortran_order': false, 'shape': ()}\n", "True or False must be"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': ()}\n", "True or False must be"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 3}\n", "a tuple must be"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3)}\n", "is no shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}\n", "a dimension must be"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3 4)}\n", "a comma or ) must be"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,,4)}\n", "a dimension must be"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}\n", "too large"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 2)}\n", "too many elements"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}\n", "more than 8"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': ()} x\n", "something is behind its end"},
        {"{'descr': '<f4<f4<f4<f4<f4<f4', 'fortran_order': False, 'shape': ()}\n", "too long"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cli_npy_header h;
        if (parse(rows[i].text, &h) || strstr(error, rows[i].says) == NULL) {
            fail_msg("%s: '%s' instead of '%s'", rows[i].text, error, rows[i].says);
        }
    }
}

#define GOOD "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"

TEST(test_wrong_files)
{
    static const struct {
        const char *dictionary;
        size_t bytes;
        const char *says;
    } rows[] = {
        {GOOD, 24, NULL},
        {GOOD, 23, "it ends after 23 of the 24 bytes of its data"},
        {GOOD, 25, "more than the 24 bytes"},
        {GOOD, 0, "it ends after 0 of the 24 bytes"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }\n", 48,
         "its dtype is <f8 (float64); the variable is float32, '<f4' in .npy"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }\n", 24, "its dtype is >f4, big-endian"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (2, 3), }\n", 24, "Python objects"},
        {"{'descr': '<U3', 'fortran_order': False, 'shape': (2, 3), }\n", 24, "texts"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (2, 3), }\n", 48, "its dtype is <c8; the variable is float32"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", 24, "column-major"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }\n", 24, "its shape is (3, 2); the variable's is (2, 3)"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }\n", 24, "its shape is (6,); the variable's is (2, 3)"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (), }\n", 4, "its shape is (); the variable's is (2, 3)"},
    };
    ps_shape shape = PS_SHAPE(2, 3);
    const uint8_t data[64] = {0};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        float dst[6];
        FILE *file = file_of(rows[i].dictionary, data, rows[i].bytes);
        bool ok = cli_npy_read(file, PS_F32, &shape, dst, error);
        if (ok != (rows[i].says == NULL) || (!ok && strstr(error, rows[i].says) == NULL)) {
            fail_msg("%s: '%s' instead of '%s'", rows[i].dictionary, error, rows[i].says);
        }
        (void)fclose(file);
    }
    /* column-major says nothing about one dimension */
    ps_shape line = PS_SHAPE(6);
    float dst[6];
    FILE *file = file_of("{'descr': '<f4', 'fortran_order': True, 'shape': (6,), }\n", data, 24);
    assert_true(cli_npy_read(file, PS_F32, &line, dst, error));
    (void)fclose(file);
    uint8_t bools[6] = {0, 1, 0, 2, 1, 0};
    file = file_of("{'descr': '|b1', 'fortran_order': False, 'shape': (6,), }\n", bools, 6);
    assert_false(cli_npy_read(file, PS_BOOL, &line, bools, error));
    assert_non_null(strstr(error, "element 3 is 2"));
    (void)fclose(file);
}

TEST(test_versions)
{
    struct cli_npy_header h;
    uint8_t bytes[12 + sizeof(GOOD) - 1];
    for (uint8_t major = 0; major <= 4; major++) {
        size_t n = sizeof(GOOD) - 1;
        size_t head = major == 1 ? 10 : 12;
        memcpy(bytes, "\x93NUMPY", 6);
        memcpy(bytes + 6, (uint8_t[]){major, 0, (uint8_t)n, 0, 0, 0}, 6);
        memcpy(bytes + head, GOOD, n);
        FILE *file = file_of_bytes(bytes, head + n);
        assert_true(cli_npy_read_header(file, &h, error) == (major >= 1 && major <= 3));
        (void)fclose(file);
    }
    static const struct {
        const char *bytes;
        size_t n;
        const char *says;
    } rows[] = {
        {"PK\x03\x04 a zip file", 16, "an .npz perhaps"},
        {"not numpy's at all", 18, "numpy.save()"},
        {"\x93NUMPY\x01\x01\x00\x00", 10, "its version is 1.1"},
        {"\x93NUMPY\x02\x00\x00\x00\x01\x00", 12, "its header has 65536 bytes, at most 65535"},
        {"\x93NUMPY\x02\x00\xff\xff\x00\x00", 12, "it ends after 0 of the 65535 bytes of its header"},
        {"\x93NUMPY\x02\x00\xff\xff\xff\xff", 12, "at most 65535"},
        {"\x93NUM", 4, "it ends after 4 of the 10 bytes"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        FILE *file = file_of_bytes(rows[i].bytes, rows[i].n);
        if (cli_npy_read_header(file, &h, error) || strstr(error, rows[i].says) == NULL) {
            fail_msg("row %zu: '%s' instead of '%s'", i, error, rows[i].says);
        }
        (void)fclose(file);
    }
}

/* Cut at each byte: refused. Each bit of the header flipped: refused or read, never outside its memory. */
TEST(test_cut_and_flipped)
{
    ps_shape shape = PS_SHAPE(2, 3);
    uint8_t data[24] = {0};
    char *whole = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&whole, &n);
    assert_true(out != NULL && cli_npy_write(out, PS_F32, &shape, data, sizeof(data)) && fclose(out) == 0);
    for (size_t cut = 0; cut <= n; cut++) {
        FILE *file = file_of_bytes(whole, cut);
        assert_true(cli_npy_read(file, PS_F32, &shape, data, error) == (cut == n));
        (void)fclose(file);
    }
    size_t refusals = 0;
    for (size_t bit = 0; bit < (n - sizeof(data)) * 8; bit++) {
        whole[bit / 8] = (char)(whole[bit / 8] ^ (1 << bit % 8));
        FILE *file = file_of_bytes(whole, n);
        refusals += cli_npy_read(file, PS_F32, &shape, data, error) ? 0 : 1;
        (void)fclose(file);
        whole[bit / 8] = (char)(whole[bit / 8] ^ (1 << bit % 8));
    }
    assert_true(refusals > 400);
    free(whole);
}
