/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/ops: what each operation says of inputs that do not fit, shapes of which dimensions are unknown, edges that NumPy does
 * not have. The values themselves are compared with NumPy's by tests/system/test_operations.py.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/blob.h"
#include "common/mem.h"
#include "worker/ops/ops.h"

#define TYPE(dtype, ...) ((struct psi_type){(dtype), PS_SHAPE(__VA_ARGS__)})
#define SCALAR(dtype) ((struct psi_type){(dtype), PS_SCALAR})
#define COUNT(a) ((uint32_t)(sizeof(a) / sizeof((a)[0])))
#define TYPES(...) (const struct psi_type[]){__VA_ARGS__}, COUNT(((const struct psi_type[]){__VA_ARGS__}))

static const struct psi_op_attrs none;

static const struct psi_op *find(const char *name)
{
    const struct psi_op *op = psi_op_find(name, NULL);
    assert_non_null(op);
    return op;
}

/* The operation refuses these inputs with this text. */
static void refused(const char *name, const struct psi_op_attrs *attrs, const struct psi_type *in, uint32_t count,
                    const char *text)
{
    struct psi_type out[PSI_OP_OUTPUTS_MAX];
    struct psi_err err = {0};
    uint32_t out_count = 77;
    assert_int_equal(psi_op_infer(find(name), attrs, in, count, out, &out_count, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, text);
    assert_int_equal(out_count, 77);
}

/* Its outputs, as a text: "(2, ?) float32 | () int64". */
static void infers(const char *name, const struct psi_op_attrs *attrs, const struct psi_type *in, uint32_t count,
                   const char *text)
{
    struct psi_type out[PSI_OP_OUTPUTS_MAX];
    struct psi_err err = {0};
    uint32_t out_count = 0;
    char all[2048] = "", one[PSI_TYPE_TEXT_MAX];
    if (psi_op_infer(find(name), attrs, in, count, out, &out_count, &err) != PS_OK) {
        fail_msg("%s", err.text);
    }
    for (uint32_t i = 0; i < out_count; i++) {
        const size_t used = strlen(all);
        (void)snprintf(all + used, sizeof(all) - used, "%s%s", i > 0 ? " | " : "", psi_type_format(&out[i], one, sizeof(one)));
    }
    assert_string_equal(all, text);
}

static void test_find(void **state)
{
    (void)state;
    const char *nearest = NULL;
    assert_null(psi_op_find("reduce_sun", &nearest));
    assert_string_equal(nearest, "reduce_sum");
    assert_null(psi_op_find("convolution", &nearest));
    assert_null(nearest);
    size_t count = 0;
    for (const struct psi_op *op = psi_op_at(0); op != NULL; op = psi_op_at(++count)) {
        assert_ptr_equal(psi_op_find(op->name, NULL), op);
        assert_non_null(op->infer);
        assert_non_null(op->type);
        assert_non_null(op->reference);
    }
    assert_int_equal(count, 34);
    assert_string_equal(psi_op_type(find("div"), PS_F32), "RealDiv");
    assert_string_equal(psi_op_type(find("div"), PS_I64), "FloorDiv");
    assert_string_equal(psi_op_type(find("stack"), PS_I64), "Pack");
}

static void test_arity_and_dtypes(void **state)
{
    (void)state;
    refused("add", &none, TYPES(TYPE(PS_F32, 2)), "add: 1 inputs, it takes 2");
    refused("dense", &none, TYPES(TYPE(PS_F32, 2)), "dense: 1 inputs, it takes 2 to 3");
    refused("add", &none, TYPES(TYPE(PS_F32, 2), TYPE(PS_I32, 2)),
            "add: (2,) float32 and (2,) int32: the dtypes must be the same; cast makes another one");
    refused("softmax", &none, TYPES(TYPE(PS_I32, 2)), "softmax: (2,) int32: it takes float32 float64");
    refused("add", &none, TYPES(TYPE(PS_BOOL, 2), TYPE(PS_BOOL, 2)),
            "add: (2,) bool and (2,) bool: it takes float32 float64 int32 int64");
    refused("relu", &none, TYPES(TYPE((ps_dtype)77, 2)), "relu: (2,) invalid: it takes float32 float64 int32 int64");
    refused("cast", &(struct psi_op_attrs){.dtype = PS_STRING}, TYPES(TYPE(PS_F32, 2)),
            "cast: (2,) float32: to string; allowed is float32, float64, int32 and int64");
    refused("placeholder", &(struct psi_op_attrs){.dtype = PS_F16}, NULL, 0,
            "placeholder: dtype float16; a placeholder is float32, float64, int32, int64, bool or string");
    refused("const", &none, NULL, 0, "const: it has no value");
}

static void test_shapes(void **state)
{
    (void)state;
    refused("matmul", &none, TYPES(TYPE(PS_F32, 2, 3), TYPE(PS_F32, 4, 5)),
            "matmul: (2, 3) float32 and (4, 5) float32: 3 columns and 4 rows");
    refused("matmul", &(struct psi_op_attrs){.transpose_b = true}, TYPES(TYPE(PS_F32, 2, 3), TYPE(PS_F32, 4, 5)),
            "matmul: (2, 3) float32 and (4, 5) float32: 3 columns and 5 rows (of b transposed)");
    refused("matmul", &none, TYPES(TYPE(PS_F32, 3), TYPE(PS_F32, 3, 5)),
            "matmul: (3,) float32 and (3, 5) float32: both must have two dimensions");
    refused("mul", &none, TYPES(TYPE(PS_F64, 2, 3), TYPE(PS_F64, 2)),
            "mul: (2, 3) float64 and (2,) float64: sizes of 3 and 2 in dimension -1; they must be the same, or one of them 1");
    refused("reduce_sum", &(struct psi_op_attrs){.has_axis = true, .axis = 2}, TYPES(TYPE(PS_F32, 2, 3)),
            "reduce_sum: (2, 3) float32: there is no axis 2, allowed is -2 to 1");
    refused("argmax", &none, TYPES(SCALAR(PS_F32)), "argmax: () float32: a scalar has no axis");
    refused("argmax", &none, TYPES(TYPE(PS_F32, 0, 3)), "argmax: (0, 3) float32: axis 0 has no elements, so none is the largest");
    refused("split", &(struct psi_op_attrs){.outputs = 3}, TYPES(TYPE(PS_I32, 1000)),
            "split: (1000,) int32: axis 0 has 1000 elements, which 3 equal parts cannot share");
    refused("split", &none, TYPES(TYPE(PS_I32, 1000)), "split: (1000,) int32: into 0 parts, allowed is 1 to 255");
    refused("concat", &none, TYPES(TYPE(PS_I32, 2, 3), TYPE(PS_I32, 5, 3), TYPE(PS_I32, 5, 4)),
            "concat: (2, 3) int32, (5, 3) int32 and (5, 4) int32: dimension 1 of input 2 is 4, that of the inputs before it 3");
    refused("stack", &none, TYPES(TYPE(PS_I32, 2), SCALAR(PS_I32)),
            "stack: (2,) int32 and () int32: input 1 has rank 0, input 0 has 1");
    refused("stack", &none, TYPES(TYPE(PS_I32, 1, 1, 1, 1, 1, 1, 1, 1)),
            "stack: (1, 1, 1, 1, 1, 1, 1, 1) int32: the result would have more than 8 dimensions");
    refused("softmax", &none, TYPES(SCALAR(PS_F32)), "softmax: () float32: a scalar has no last axis");
    refused("relu_backward", &none, TYPES(TYPE(PS_F32, 2), TYPE(PS_F32, 3)),
            "relu_backward: (2,) float32 and (3,) float32: the shapes must be the same");
    refused("dense", &none, TYPES(TYPE(PS_F32, 2, 3), TYPE(PS_F32, 3, 4), TYPE(PS_F32, 3)),
            "dense: (2, 3) float32, (3, 4) float32 and (3,) float32: b must have one dimension, as long as a row of w");
    refused("dense_backward", &none, TYPES(TYPE(PS_F32, 2, 3), TYPE(PS_F32, 3, 4), TYPE(PS_F32, 2, 3)),
            "dense_backward: (2, 3) float32, (3, 4) float32 and (2, 3) float32: dy must have the rows of x and the columns of w");
    refused("dense_act", &(struct psi_op_attrs){.activation = 4}, TYPES(TYPE(PS_F32, 2, 3), TYPE(PS_F32, 3, 4)),
            "dense_act: there is no activation 4, allowed is 0 (linear) to 3 (tanh)");
    refused("softmax_xent", &none, TYPES(TYPE(PS_F32, 2, 3), TYPE(PS_I64, 2)),
            "softmax_xent: (2, 3) float32 and (2,) int64: labels must be int32");
    refused("mean_squared_error", &none, TYPES(TYPE(PS_F32, 2), TYPE(PS_F32, 3)),
            "mean_squared_error: (2,) float32 and (3,) float32: the shapes must be the same");
    refused("dropout", &none, TYPES(TYPE(PS_F32, 2)), "dropout: keep is 0, allowed is 2^-20 to 1");
    refused("mul", &none, TYPES(TYPE(PS_F64, (int64_t)1 << 30, 1), TYPE(PS_F64, 1, (int64_t)1 << 30)),
            "mul: (1073741824, 1) float64 and (1, 1073741824) float64: shape (1073741824, 1073741824): more than 2199023255552 "
            "elements");
    refused("relu", &none, TYPES(TYPE(PS_F64, -2)), "relu: (-2,) float64: dimension 0 of input 0 is negative");
    refused("relu", &none, &(const struct psi_type){PS_F32, {.rank = 9}}, 1, "relu: input 0 has rank 9, at most 8 are allowed");
}

static void test_unknown_dimensions(void **state)
{
    (void)state;
    infers("placeholder", &(struct psi_op_attrs){.dtype = PS_I32, .shape = PS_SHAPE(-1, 3)}, NULL, 0, "(?, 3) int32");
    infers("add", &none, TYPES(TYPE(PS_F32, -1, 3), TYPE(PS_F32, 2, 1)), "(2, 3) float32");
    infers("add", &none, TYPES(TYPE(PS_F32, -1), TYPE(PS_F32, 1)), "(?,) float32");
    infers("add", &none, TYPES(TYPE(PS_F32, -1), TYPE(PS_F32, -1)), "(?,) float32");
    infers("add", &none, TYPES(SCALAR(PS_F32), TYPE(PS_F32, -1, 4)), "(?, 4) float32");
    infers("matmul", &none, TYPES(TYPE(PS_F32, -1, -1), TYPE(PS_F32, 4, 5)), "(?, 5) float32");
    infers("matmul", &(struct psi_op_attrs){.transpose_a = true}, TYPES(TYPE(PS_F32, 3, 2), TYPE(PS_F32, 3, 5)),
           "(2, 5) float32");
    infers("split", &(struct psi_op_attrs){.outputs = 2}, TYPES(TYPE(PS_F32, -1, 4)), "(?, 4) float32 | (?, 4) float32");
    infers("split", &(struct psi_op_attrs){.outputs = 2, .has_axis = true, .axis = -1}, TYPES(TYPE(PS_F32, -1, 4)),
           "(?, 2) float32 | (?, 2) float32");
    infers("concat", &none, TYPES(TYPE(PS_F32, -1, 4), TYPE(PS_F32, 3, -1)), "(?, 4) float32");
    infers("stack", &none, TYPES(TYPE(PS_F32, -1), TYPE(PS_F32, 3)), "(2, 3) float32");
    infers("stack", &(struct psi_op_attrs){.has_axis = true, .axis = -1}, TYPES(TYPE(PS_F32, 3), TYPE(PS_F32, 3)),
           "(3, 2) float32");
    infers("reduce_sum", &none, TYPES(TYPE(PS_I32, -1, 4)), "() int32");
    infers("reduce_sum", &(struct psi_op_attrs){.keep_dims = true}, TYPES(TYPE(PS_I32, -1, 4)), "(1, 1) int32");
    infers("reduce_mean", &(struct psi_op_attrs){.has_axis = true, .axis = -1, .keep_dims = true}, TYPES(TYPE(PS_I64, -1, 4)),
           "(?, 1) int64");
    infers("argmax", &(struct psi_op_attrs){.has_axis = true, .axis = 1}, TYPES(TYPE(PS_F32, -1, 4)), "(?,) int64");
    infers("argmax", &none, TYPES(TYPE(PS_F32, -1, 4)), "(4,) int64");
    infers("dense", &none, TYPES(TYPE(PS_F32, -1, 3), TYPE(PS_F32, 3, 4), TYPE(PS_F32, 4)), "(?, 4) float32");
    infers("dense_backward", &none, TYPES(TYPE(PS_F32, -1, 3), TYPE(PS_F32, 3, 4), TYPE(PS_F32, 8, 4)),
           "(3, 4) float32 | (4,) float32 | (8, 3) float32");
    infers("dense_act_backward", &(struct psi_op_attrs){.outputs = 2, .activation = 1},
           TYPES(TYPE(PS_F32, -1, 3), TYPE(PS_F32, 3, 4), TYPE(PS_F32, 8, 4)), "(3, 4) float32 | (4,) float32");
    infers("sigmoid_xent", &none, TYPES(TYPE(PS_F32, -1, 3), TYPE(PS_F32, 8, 3)), "() float64 | (8, 3) float32");
    infers("softmax_xent", &none, TYPES(TYPE(PS_F32, -1, 3), TYPE(PS_I32, 8)), "() float64 | (8, 3) float32");
    infers("print", &(struct psi_op_attrs){.message = "x is "}, TYPES(TYPE(PS_STRING, 2), TYPE(PS_BOOL, -1)), "(2,) string");
    infers("cast", &(struct psi_op_attrs){.dtype = PS_I64}, TYPES(TYPE(PS_F32, -1)), "(?,) int64");
}

/* ---- running ---- */

static struct psi_value value_of(ps_dtype dtype, ps_shape shape, void *data)
{
    return (struct psi_value){dtype, shape, data, (size_t)ps_shape_elements(&shape) * ps_dtype_bytes(dtype)};
}

static ps_status run(const char *name, const struct psi_op_attrs *attrs, const struct psi_value *in, uint32_t count,
                     struct psi_value *out, struct psi_err *err)
{
    return psi_op_run(find(name), attrs, &(struct psi_op_context){0}, in, count, out, 1, err);
}

static void test_integers(void **state)
{
    (void)state;
    struct psi_err err = {0};
    int32_t a[] = {7, -7, 7, -7, INT32_MIN, 6, 0}, b[] = {2, 2, -2, -2, -1, 3, 5}, c[7];
    const struct psi_value in[] = {value_of(PS_I32, PS_SHAPE(7), a), value_of(PS_I32, PS_SHAPE(7), b)};
    struct psi_value out = value_of(PS_I32, PS_SHAPE(7), c);
    assert_int_equal(run("div", &none, in, 2, &out, &err), PS_OK);
    const int32_t quotients[] = {3, -4, -4, 3, INT32_MIN, 2, 0};
    assert_memory_equal(c, quotients, sizeof(c));
    b[5] = 0;
    assert_int_equal(run("div", &none, in, 2, &out, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "div: an integer is divided by 0 (element 5)");
    a[0] = INT32_MAX;
    assert_int_equal(run("add", &none, in, 2, &out, &err), PS_OK);
    assert_int_equal(c[0], INT32_MIN + 1);
}

static void test_cast(void **state)
{
    (void)state;
    struct psi_err err = {0};
    double from[] = {1.9, -1.9, -0.5, 2147483647.9, -2147483648.9};
    int32_t to[5];
    const struct psi_value in = value_of(PS_F64, PS_SHAPE(5), from);
    struct psi_value out = value_of(PS_I32, PS_SHAPE(5), to);
    const struct psi_op_attrs attrs = {.dtype = PS_I32};
    assert_int_equal(run("cast", &attrs, &in, 1, &out, &err), PS_OK);
    const int32_t cut[] = {1, -1, 0, INT32_MAX, INT32_MIN};
    assert_memory_equal(to, cut, sizeof(to));
    from[3] = 2147483648.0;
    assert_int_equal(run("cast", &attrs, &in, 1, &out, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "cast: 2147483648 has no place in int32 (element 3)");
    from[2] = NAN;
    assert_int_equal(run("cast", &attrs, &in, 1, &out, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "cast: nan has no place in int32 (element 2)");
    int64_t wide[] = {INT32_MAX, (int64_t)INT32_MAX + 1};
    const struct psi_value longs = value_of(PS_I64, PS_SHAPE(2), wide);
    struct psi_value ints = value_of(PS_I32, PS_SHAPE(2), to);
    assert_int_equal(run("cast", &attrs, &longs, 1, &ints, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "cast: 2147483648 has no place in int32 (element 1)");
    double edge[] = {0x1p63};
    int64_t huge[1];
    const struct psi_value edges = value_of(PS_F64, PS_SHAPE(1), edge);
    struct psi_value huges = value_of(PS_I64, PS_SHAPE(1), huge);
    assert_int_equal(run("cast", &(struct psi_op_attrs){.dtype = PS_I64}, &edges, 1, &huges, &err), PS_INVALID_ARGUMENT);
    edge[0] = -0x1p63;
    assert_int_equal(run("cast", &(struct psi_op_attrs){.dtype = PS_I64}, &edges, 1, &huges, &err), PS_OK);
    assert_true(huge[0] == INT64_MIN);
}

/* What is given to run does not fit what the inputs say. */
static void test_rooms(void **state)
{
    (void)state;
    struct psi_err err = {0};
    float a[6] = {0}, b[6] = {0}, c[6];
    struct psi_value in[] = {value_of(PS_F32, PS_SHAPE(2, 3), a), value_of(PS_F32, PS_SHAPE(2, 1), b)};
    struct psi_value out = value_of(PS_F32, PS_SHAPE(3, 2), c);
    assert_int_equal(run("add", &none, in, 2, &out, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "add: room for (3, 2) float32 as output 0, which is (2, 3) float32");
    out.shape = PS_SHAPE(2, 3);
    out.bytes = 20;
    assert_int_equal(run("add", &none, in, 2, &out, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "add: output 0 has 20 bytes, its shape has 24");
    out.bytes = 24;
    in[1].bytes = 4;
    assert_int_equal(run("add", &none, in, 2, &out, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "add: input 1 has 4 bytes, its shape has 8");
    in[1].bytes = 8;
    in[1].data = NULL;
    assert_int_equal(run("add", &none, in, 2, &out, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "add: input 1 has no data");
    in[1].data = b;
    in[1].shape.dims[1] = -1;
    assert_int_equal(run("add", &none, in, 2, &out, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "add: input 1 has a dimension that is not known");
    in[1].shape.dims[1] = 1;
    assert_int_equal(psi_op_run(find("add"), &none, &(struct psi_op_context){0}, in, 2, &out, 0, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "add: room for 0 outputs, it has 1");
}

static void test_strings(void **state)
{
    (void)state;
    struct psi_err err = {0};
    struct {
        int64_t offsets[3];
        char text[8];
    } blob = {{0, 1, 3}, "abc"}, copy = {{0}, ""};
    const size_t bytes = sizeof(blob.offsets) + 3;
    struct psi_value in = {PS_STRING, PS_SHAPE(2), &blob, bytes};
    struct psi_value out = {PS_STRING, PS_SHAPE(2), &copy, bytes};
    assert_int_equal(run("identity", &none, &in, 1, &out, &err), PS_OK);
    assert_memory_equal(&copy, &blob, bytes);
    assert_int_equal(run("const", &(struct psi_op_attrs){.value = &in}, NULL, 0, &out, &err), PS_OK);
    out.bytes--;
    assert_int_equal(run("identity", &none, &in, 1, &out, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "identity: room of 26 bytes for output 0");
    out.bytes++;
    blob.offsets[1] = 4;
    assert_int_equal(run("identity", &none, &in, 1, &out, &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "identity: input 0: "));
}

static bool always(void *arg)
{
    ++*(int *)arg;
    return true;
}

static void test_cancelled(void **state)
{
    (void)state;
    struct psi_err err = {0};
    float a[2] = {1, 2}, c[2];
    int asked = 0;
    const struct psi_value in[] = {value_of(PS_F32, PS_SHAPE(2), a), value_of(PS_F32, PS_SHAPE(2), a)};
    struct psi_value out = value_of(PS_F32, PS_SHAPE(2), c);
    const struct psi_op_context ctx = {.cancelled = always, .arg = &asked};
    assert_int_equal(psi_op_run(find("add"), &none, &ctx, in, 2, &out, 1, &err), PS_CANCELLED);
    assert_string_equal(err.text, "add: the run was cancelled");
    assert_int_equal(asked, 1);
}

/* A row that takes long asks between slices, and leaves when it is told to. */
static bool on_the_third(void *arg)
{
    return ++*(int *)arg == 3;
}

static void test_cancelled_meanwhile(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    static const char *const names[] = {"add", "relu", "softmax", "reduce_sum", "reduce_mean", "cast"};
    static double a[N], c[N];
    struct psi_err err = {0};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        int asked = 0;
        const bool reduces = strncmp(names[i], "reduce", 6) == 0;
        const bool casts = strcmp(names[i], "cast") == 0;
        const struct psi_value in[] = {value_of(PS_F64, PS_SHAPE(1024, N / 1024), a), value_of(PS_F64, PS_SCALAR, a)};
        struct psi_value out = value_of(casts ? PS_F32 : PS_F64, reduces ? PS_SCALAR : PS_SHAPE(1024, N / 1024), c);
        const struct psi_op_context ctx = {.cancelled = on_the_third, .arg = &asked};
        const struct psi_op_attrs attrs = {.dtype = PS_F32};
        assert_int_equal(psi_op_run(find(names[i]), &attrs, &ctx, in, i == 0 ? 2 : 1, &out, 1, &err), PS_CANCELLED);
        assert_int_equal(asked, 3);
    }
    int asked = 0;
    const struct psi_value in[] = {value_of(PS_F64, PS_SHAPE(512, 512), a), value_of(PS_F64, PS_SHAPE(512, 512), a)};
    struct psi_value out = value_of(PS_F64, PS_SHAPE(512, 512), c);
    const struct psi_op_context ctx = {.cancelled = on_the_third, .arg = &asked};
    assert_int_equal(psi_op_run(find("matmul"), &none, &ctx, in, 2, &out, 1, &err), PS_CANCELLED);
}

/* ---- print ---- */

static char printed[2048];

static void keep_line(void *arg, const char *line, size_t bytes)
{
    const size_t used = strlen(printed);
    (void)arg;
    assert_true(used + bytes < sizeof(printed));
    memcpy(printed + used, line, bytes);
    printed[used + bytes] = '\0';
}

static void prints(const struct psi_op_attrs *attrs, const struct psi_value *data, uint32_t count, const char *text)
{
    struct psi_err err = {0};
    float x[] = {1, 2}, y[2] = {0};
    struct psi_value in[8] = {value_of(PS_F32, PS_SHAPE(2), x)};
    struct psi_value out = value_of(PS_F32, PS_SHAPE(2), y);
    memcpy(in + 1, data, count * sizeof(*data));
    printed[0] = '\0';
    assert_int_equal(psi_op_run(find("print"), attrs, &(struct psi_op_context){.print = keep_line}, in, count + 1, &out, 1, &err),
                     PS_OK);
    assert_memory_equal(x, y, sizeof(x));
    assert_string_equal(printed, text);
}

static void test_print(void **state)
{
    (void)state;
    int32_t i32[] = {500, -1, 1, 1, 1, 1};
    int64_t i64[] = {1, 2, 3, 4, 5, 6, 7, 8};
    float f32[] = {0.1f, 1.0f / 3, 1e10f};
    double f64[] = {0.1, 1.0 / 3, -INFINITY};
    uint8_t yes[] = {1, 0};
    struct {
        int64_t offsets[3];
        char text[8];
    } blob = {{0, 2, 5}, "a\n\x01\"z"};
    const struct psi_value values[] = {
        value_of(PS_I32, PS_SCALAR, i32),         value_of(PS_I32, PS_SHAPE(6), i32),     value_of(PS_I64, PS_SHAPE(2, 4), i64),
        value_of(PS_I64, PS_SHAPE(2, 2, 2), i64), value_of(PS_F32, PS_SHAPE(3), f32),     value_of(PS_F64, PS_SHAPE(3), f64),
        value_of(PS_BOOL, PS_SHAPE(2), yes),      value_of(PS_I32, PS_SHAPE(0, 3), NULL), {PS_STRING, PS_SHAPE(2), &blob, 29}};
    const struct psi_op_attrs attrs = {.message = "portion is"};
    prints(&attrs, &values[0], 1, "portion is[500]\n");
    prints(&attrs, &values[0], 2, "portion is[500][500 -1 1...]\n");
    prints(&none, &values[0], 0, "\n");
    prints(&none, &values[2], 2, "[[1 2 3...]...][[[1 2][3...]]...]\n");
    prints(&(struct psi_op_attrs){.summarize = 4}, &values[2], 2, "[[1 2 3 4]...][[[1 2][3 4]]...]\n");
    prints(&(struct psi_op_attrs){.summarize = -1}, &values[2], 2, "[[1 2 3 4][5 6 7 8]][[[1 2][3 4]][[5 6][7 8]]]\n");
    prints(&none, &values[4], 3, "[0.1 0.33333334 1e+10][0.1 0.33333333333333331 -inf][1 0]\n");
    prints(&none, &values[7], 2, "[][a\\n \\001\\\"z]\n");
    prints(&(struct psi_op_attrs){.message = "ts=1 lvl=error\nts=2"}, &values[0], 1, "ts=1 lvl=error\\nts=2[500]\n");
}

static void test_print_first_n(void **state)
{
    (void)state;
    struct psi_err err = {0};
    float x[] = {1}, y[1];
    uint64_t count = 0;
    const struct psi_value in[] = {value_of(PS_F32, PS_SCALAR, x), value_of(PS_F32, PS_SCALAR, x)};
    struct psi_value out = value_of(PS_F32, PS_SCALAR, y);
    const struct psi_op_context ctx = {.print = keep_line, .printed = &count};
    const struct psi_op_attrs attrs = {.first_n = 2};
    printed[0] = '\0';
    for (int i = 0; i < 5; i++) {
        y[0] = 0;
        assert_int_equal(psi_op_run(find("print"), &attrs, &ctx, in, 2, &out, 1, &err), PS_OK);
        assert_true(y[0] == 1);
    }
    assert_string_equal(printed, "[1]\n[1]\n");
    assert_int_equal(count, 2);
    char message[PSI_OP_MESSAGE_BYTES_MAX + 2];
    memset(message, 'm', sizeof(message) - 1);
    message[sizeof(message) - 1] = '\0';
    assert_int_equal(psi_op_run(find("print"), &(struct psi_op_attrs){.message = message}, &ctx, in, 2, &out, 1, &err),
                     PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "print: a message of 1025 bytes, at most 1024 are allowed");
    message[PSI_OP_MESSAGE_BYTES_MAX] = '\0';
    assert_int_equal(psi_op_run(find("print"), &(struct psi_op_attrs){.message = message}, &ctx, in, 2, &out, 1, &err), PS_OK);
}

/* Rules of numbers that a reader of the table relies on; the rest is compared with NumPy. */
static void test_numbers(void **state)
{
    (void)state;
    struct psi_err err = {0};
    double f64[] = {1e16, 1, 1, 1, 1, 1, 1, 1, 1, -1e16}, sum = 0;
    const struct psi_value large = value_of(PS_F64, PS_SHAPE(10), f64);
    struct psi_value total = value_of(PS_F64, PS_SCALAR, &sum);
    assert_int_equal(run("reduce_sum", &none, &large, 1, &total, &err), PS_OK);
    assert_true(sum == 8); /* as if with twice the digits */
    double pairs[2][10], sums[10];
    for (int i = 0; i < 10; i++) {
        pairs[0][i] = i;
        pairs[1][i] = 0.5;
    }
    const struct psi_value rows = value_of(PS_F64, PS_SHAPE(2, 10), pairs);
    struct psi_value columns = value_of(PS_F64, PS_SHAPE(10), sums);
    assert_int_equal(run("reduce_sum", &(struct psi_op_attrs){.has_axis = true}, &rows, 1, &columns, &err), PS_OK);
    assert_true(sums[9] == 9.5);
    f64[0] = INFINITY;
    assert_int_equal(run("reduce_sum", &none, &large, 1, &total, &err), PS_OK);
    assert_true(isinf(sum)); /* the error that is kept beside the sum is NaN then */

    int32_t i32[] = {-3, -4, INT32_MAX, INT32_MAX}, mean = 0;
    struct psi_value two = value_of(PS_I32, PS_SHAPE(2), i32);
    struct psi_value of_two = value_of(PS_I32, PS_SCALAR, &mean);
    assert_int_equal(run("reduce_mean", &none, &two, 1, &of_two, &err), PS_OK);
    assert_int_equal(mean, -3);
    two.data = i32 + 2;
    assert_int_equal(run("reduce_mean", &none, &two, 1, &of_two, &err), PS_OK);
    assert_int_equal(mean, INT32_MAX);
    assert_int_equal(run("reduce_sum", &none, &two, 1, &of_two, &err), PS_OK);
    assert_int_equal(mean, -2);

    float f32[] = {1, 3, 3, NAN, 5};
    int64_t at = 0;
    struct psi_value five = value_of(PS_F32, PS_SHAPE(5), f32);
    struct psi_value index = value_of(PS_I64, PS_SCALAR, &at);
    assert_int_equal(run("argmax", &none, &five, 1, &index, &err), PS_OK);
    assert_int_equal(at, 3);
    f32[3] = 0;
    f32[4] = 3;
    assert_int_equal(run("argmax", &none, &five, 1, &index, &err), PS_OK);
    assert_int_equal(at, 1);

    int64_t a[] = {10, 20}, b[] = {1, 2, 3}, c[6];
    const struct psi_value in[] = {value_of(PS_I64, PS_SHAPE(2, 1), a), value_of(PS_I64, PS_SHAPE(3), b)};
    struct psi_value out = value_of(PS_I64, PS_SHAPE(2, 3), c);
    assert_int_equal(run("sub", &none, in, 2, &out, &err), PS_OK);
    const int64_t differences[] = {9, 8, 7, 19, 18, 17};
    assert_memory_equal(c, differences, sizeof(c));
}

/* Larger than a block of each dimension, and of no multiple of a tile. */
static void test_matmul_blocks(void **state)
{
    (void)state;
    enum { M = 13, K = 300, N = 261 };
    static int64_t a[M][K], b[N][K], c[M][N];
    struct psi_err err = {0};
    for (int64_t i = 0; i < K; i++) {
        for (int64_t j = 0; j < N; j++) {
            a[j % M][i] = (j % M * 7 + i * 3) % 11 - 5;
            b[j][i] = (j * 5 + i) % 13 - 6;
        }
    }
    const struct psi_value in[] = {value_of(PS_I64, PS_SHAPE(M, K), a), value_of(PS_I64, PS_SHAPE(N, K), b)};
    struct psi_value out = value_of(PS_I64, PS_SHAPE(M, N), c);
    assert_int_equal(run("matmul", &(struct psi_op_attrs){.transpose_b = true}, in, 2, &out, &err), PS_OK);
    for (int64_t i = 0; i < M; i++) {
        for (int64_t j = 0; j < N; j++) {
            int64_t sum = 0;
            for (int64_t k = 0; k < K; k++) {
                sum += a[i][k] * b[j][k];
            }
            assert_true(c[i][j] == sum);
        }
    }
}

/* A shape from anybody may have very many rows of nothing: no row of the table counts them. */
static void test_rows_of_nothing(void **state)
{
    (void)state;
    struct psi_err err = {0};
    const int64_t many = (int64_t)1 << 40;
    const struct {
        const char *name;
        struct psi_op_attrs attrs;
        uint32_t count;
        ps_dtype dtype;
        ps_shape out;
    } cases[] = {
        {"argmax", {.has_axis = true, .axis = 1}, 1, PS_I64, PS_SHAPE(many, 0)},
        {"reduce_sum", {.has_axis = true, .axis = 1}, 1, PS_F32, PS_SHAPE(many, 0)},
        {"reduce_mean", {.has_axis = true, .axis = 1}, 1, PS_F32, PS_SHAPE(many, 0)},
        {"softmax", {0}, 1, PS_F32, PS_SHAPE(many, 1, 0)},
        {"concat", {.has_axis = true, .axis = 1}, 2, PS_F32, PS_SHAPE(many, 2, 0)},
        {"stack", {.has_axis = true, .axis = 1}, 1, PS_F32, PS_SHAPE(many, 1, 1, 0)},
        {"split", {.has_axis = true, .axis = 1, .outputs = 1}, 1, PS_F32, PS_SHAPE(many, 1, 0)},
        {"add", {0}, 2, PS_F32, PS_SHAPE(many, 1, 0)},
        {"cast", {.dtype = PS_F64}, 1, PS_F64, PS_SHAPE(many, 1, 0)},
        {"relu", {0}, 1, PS_F32, PS_SHAPE(many, 1, 0)},
        {"sigmoid_backward", {0}, 2, PS_F32, PS_SHAPE(many, 1, 0)},
        {"dropout", {.keep = 1}, 1, PS_F32, PS_SHAPE(many, 1, 0)},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct psi_value x = {PS_F32, PS_SHAPE(many, 1, 0), NULL, 0}, in[] = {x, x};
        struct psi_value out = {cases[i].dtype, cases[i].out, NULL, 0};
        if (run(cases[i].name, &cases[i].attrs, in, cases[i].count, &out, &err) != PS_OK) {
            fail_msg("%s", err.text);
        }
    }
    const struct psi_value wide[] = {{PS_F32, PS_SHAPE(0, many), NULL, 0}, {PS_F32, PS_SHAPE(many, 0), NULL, 0}};
    struct psi_value none_of = {PS_F32, PS_SHAPE(0, 0), NULL, 0};
    assert_int_equal(run("matmul", &none, wide, 2, &none_of, &err), PS_OK);
}

/* The n-th allocation fails: RESOURCE_EXHAUSTED, and the next call works. */
static void test_no_memory(void **state)
{
    (void)state;
    static const char *const names[] = {"matmul", "print", "add", "concat"};
    double a[4] = {1, 2, 3, 4}, c[8];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct psi_value in[] = {value_of(PS_F64, PS_SHAPE(2, 2), a), value_of(PS_F64, PS_SHAPE(2, 2), a)};
        struct psi_value out = value_of(PS_F64, strcmp(names[i], "concat") == 0 ? PS_SHAPE(4, 2) : PS_SHAPE(2, 2), c);
        ps_status st = PS_RESOURCE_EXHAUSTED;
        int64_t n = 0;
        for (; st != PS_OK; n++) {
            struct psi_err err = {0};
            printed[0] = '\0';
            psi_mem_fail_after(n);
            st = psi_op_run(find(names[i]), &none, &(struct psi_op_context){.print = keep_line}, in, 2, &out, 1, &err);
            psi_mem_fail_after(-1);
            assert_true(st == PS_OK || st == PS_RESOURCE_EXHAUSTED);
            assert_true(st == PS_OK || (err.text[0] != '\0' && printed[0] == '\0'));
        }
        assert_true(n >= 2);
    }
}

/* What only the data says. */
static void test_data(void **state)
{
    (void)state;
    struct psi_err err = {0};
    float logits[] = {1, 2, 3, 4};
    int32_t labels[] = {1, 2}, none_of[1];
    double loss = 0;
    const struct psi_value in[] = {value_of(PS_F32, PS_SHAPE(2, 2), logits), value_of(PS_I32, PS_SHAPE(2), labels)};
    struct psi_value out = value_of(PS_F64, PS_SCALAR, &loss);
    const struct psi_op_attrs attrs = {.outputs = 1};
    assert_int_equal(run("softmax_xent", &attrs, in, 2, &out, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "softmax_xent: label 2 of row 1 is not a class, allowed is 0 to 1");
    const struct psi_value empty = value_of(PS_I32, PS_SHAPE(0), NULL);
    struct psi_value mean = value_of(PS_I32, PS_SCALAR, none_of);
    assert_int_equal(run("reduce_mean", &none, &empty, 1, &mean, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "reduce_mean: (0,) int32: no integer is the mean of no elements");
    assert_int_equal(run("placeholder", &(struct psi_op_attrs){.dtype = PS_I32}, NULL, 0, &mean, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "placeholder: no value was fed to it");
    const struct psi_value cut = {PS_I32, PS_SCALAR, none_of, 3};
    assert_int_equal(run("const", &(struct psi_op_attrs){.value = &cut}, NULL, 0, &mean, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "const: its value has 3 bytes, its shape has 4");
}

/* ---- feeding ---- */

static ps_status feed(ps_dtype from, const void *data, ps_dtype to, void *room, struct psi_err *err)
{
    const ps_shape two = PS_SHAPE(2);
    const struct psi_value in = {from, two, (void *)(uintptr_t)data, 2 * ps_dtype_bytes(from)};
    struct psi_value out = value_of(to, two, room);
    return psi_value_feed("placeholder 'input'", &in, &out, err);
}

static void test_feed(void **state)
{
    (void)state;
    struct psi_err err = {0};
    union {
        float f32[2];
        double f64[2];
        int32_t i32[2];
        int64_t i64[2];
        uint8_t b[2];
    } out;
    assert_int_equal(feed(PS_F64, (double[]){1, -3}, PS_I32, &out, &err), PS_OK);
    assert_int_equal(out.i32[1], -3);
    assert_int_equal(feed(PS_F64, (double[]){1, 1.5}, PS_I32, &out, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "placeholder 'input' is int32, which cannot hold 1.5 (element 1)");
    assert_int_equal(feed(PS_F64, (double[]){NAN, 0}, PS_I64, &out, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "placeholder 'input' is int64, which cannot hold nan (element 0)");
    assert_int_equal(feed(PS_F64, (double[]){0x1p63, 0}, PS_I64, &out, &err), PS_INVALID_ARGUMENT);
    assert_int_equal(feed(PS_I64, (int64_t[]){0, (int64_t)1 << 31}, PS_I32, &out, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "placeholder 'input' is int32, which cannot hold 2147483648 (element 1)");
    assert_int_equal(feed(PS_F64, (double[]){0.1, INFINITY}, PS_F32, &out, &err), PS_OK);
    assert_true(out.f32[0] == 0.1f && isinf(out.f32[1]));
    assert_int_equal(feed(PS_F64, (double[]){1e39, 0}, PS_F32, &out, &err), PS_INVALID_ARGUMENT);
    assert_int_equal(feed(PS_I32, (int32_t[]){1 << 24, (1 << 24) + 1}, PS_F32, &out, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "placeholder 'input' is float32, which cannot hold 16777217 (element 1)");
    assert_int_equal(feed(PS_I64, (int64_t[]){INT64_MAX, 0}, PS_F64, &out, &err), PS_INVALID_ARGUMENT);
    assert_int_equal(feed(PS_I64, (int64_t[]){INT64_MIN, 5}, PS_F64, &out, &err), PS_OK);
    assert_true(out.f64[1] == 5);
    assert_int_equal(feed(PS_U8, (uint8_t[]){0, 255}, PS_F32, &out, &err), PS_OK);
    assert_true(out.f32[1] == 255);
    assert_int_equal(feed(PS_I32, (int32_t[]){0, 2}, PS_BOOL, &out, &err), PS_INVALID_ARGUMENT);
    assert_int_equal(feed(PS_F32, (float[]){0, 1}, PS_BOOL, &out, &err), PS_OK);
    assert_int_equal(out.b[1], 1);
    assert_int_equal(feed(PS_BOOL, (uint8_t[]){1, 2}, PS_BOOL, &out, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "placeholder 'input' is bool, which cannot hold 2 (element 1)");
    assert_int_equal(feed(PS_F32, (float[]){0, 1}, PS_STRING, &out, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "placeholder 'input' is string, a value of dtype float32 does not fit");
    const ps_shape declared = PS_SHAPE(-1, 3), good = PS_SHAPE(0, 3), bad = PS_SHAPE(3);
    assert_int_equal(psi_type_accepts("placeholder 'input'", &declared, &good, &err), PS_OK);
    assert_int_equal(psi_type_accepts("placeholder 'input'", &declared, &bad, &err), PS_INVALID_ARGUMENT);
    assert_string_equal(err.text, "placeholder 'input' has shape (?, 3), a value of shape (3,) does not fit");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),          cmocka_unit_test(test_arity_and_dtypes),
        cmocka_unit_test(test_shapes),        cmocka_unit_test(test_unknown_dimensions),
        cmocka_unit_test(test_integers),      cmocka_unit_test(test_cast),
        cmocka_unit_test(test_rooms),         cmocka_unit_test(test_strings),
        cmocka_unit_test(test_cancelled),     cmocka_unit_test(test_cancelled_meanwhile),
        cmocka_unit_test(test_print),         cmocka_unit_test(test_print_first_n),
        cmocka_unit_test(test_data),          cmocka_unit_test(test_rows_of_nothing),
        cmocka_unit_test(test_no_memory),     cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_matmul_blocks), cmocka_unit_test(test_feed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
