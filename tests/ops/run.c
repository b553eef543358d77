/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs operations for tests/system/test_operations.py, and says what the table has.
 *
 *   run --table   the table as Markdown, for docs/TF_MAP.md (make docs-operations)
 *   run --rows    a line a row: name, dtypes, kind of bound and its factor, what may be in place
 *   run [DEVICE]  a case after the other from stdin: a line `NAME KEY=VALUE... in=DTYPE:DIMS...`, then the bytes of each input.
 *                 The answer is `ok DTYPE:DIMS...` and the bytes of each output, or `error STATUS TEXT`. The row runs once more
 *                 with its output in the memory of each input that it may be in place of: the bytes must be the same.
 *
 * DIMS are numbers between commas; nothing for a scalar. Values have guards behind them, which must stay.
 */
#include "worker/nn/kernels/device.h"
#include "worker/ops/ops.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTES = 64, LINE_BYTES_MAX = 1 << 16 };

static void die(const char *why)
{
    (void)fprintf(stderr, "run: %s\n", why);
    exit(1);
}

/* ---- what the table has ---- */

static const char *const bounds[] = {"exact", "result", "terms", "product"};

static void list_dtypes(uint32_t dtypes, const char *between)
{
    const char *before = "";
    for (ps_dtype d = PS_F32; d <= PS_STRING; d = (ps_dtype)(d + 1)) {
        if ((dtypes & (1u << d)) != 0) {
            (void)printf("%s%s", before, ps_dtype_name(d));
            before = between;
        }
    }
}

static void list_rows(void)
{
    const struct psi_op *op = NULL;
    for (size_t i = 0; (op = psi_op_at(i)) != NULL; i++) {
        (void)printf("%s ", op->name);
        list_dtypes(op->dtypes, ",");
        (void)printf(" %s %g %d\n", bounds[op->bound], op->bound_factor, op->in_place);
    }
}

static void print_bound(const struct psi_op *op)
{
    static const char *const of[] = {"", "\\|result\\|", "Σ\\|terms\\|", "√n Σ\\|terms\\|"};
    if (op->bound == PSI_BOUND_EXACT) {
        (void)printf("exact");
    } else {
        (void)printf("%g eps %s", op->bound_factor, of[op->bound]);
    }
}

static void print_table(void)
{
    const struct psi_op *op = NULL;
    (void)printf("| Operation | TensorFlow's type | Inputs | dtypes | Integers | Error at most | Reference (NumPy) |\n"
                 "|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; (op = psi_op_at(i)) != NULL; i++) {
        (void)printf("| `%s` | %s", op->name, op->type);
        if (op->type_integers != NULL) {
            (void)printf(", of integers %s", op->type_integers);
        }
        (void)printf(" | %d", op->inputs_min);
        if (op->inputs_max != op->inputs_min) {
            (void)printf(" to %d", op->inputs_max);
        }
        (void)printf(" | ");
        list_dtypes(op->dtypes, " ");
        (void)printf(" | %s | ", op->integers != NULL ? op->integers : "");
        print_bound(op);
        (void)printf(" | `%s` |\n", op->reference);
    }
}

/* ---- values ---- */

static ps_dtype dtype_of(const char *name, size_t len)
{
    for (ps_dtype d = PS_F32; d <= PS_STRING; d = (ps_dtype)(d + 1)) {
        if (strlen(ps_dtype_name(d)) == len && strncmp(ps_dtype_name(d), name, len) == 0) {
            return d;
        }
    }
    die("no such dtype");
    return PS_DTYPE_NONE;
}

static ps_shape shape_of(const char *text)
{
    ps_shape shape = {0};
    while (*text != '\0') {
        char *end = NULL;
        shape.dims[shape.rank++] = strtoll(text, &end, 10);
        text = *end == ',' ? end + 1 : end;
    }
    return shape;
}

static struct psi_value value_new(ps_dtype dtype, ps_shape shape, size_t bytes)
{
    char *data = malloc(bytes + GUARD_BYTES);
    if (data == NULL) {
        die("no memory");
    }
    memset(data, 0x5a, bytes + GUARD_BYTES);
    return (struct psi_value){dtype, shape, data, bytes};
}

static void value_free(struct psi_value *v)
{
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        if (((const char *)v->data)[v->bytes + i] != 0x5a) {
            die("the memory behind a value was written to");
        }
    }
    free(v->data);
}

/* "float32:2,3", of strings "string:2:BYTES" */
static struct psi_value value_read(char *text)
{
    char *dims = strchr(text, ':');
    if (dims == NULL) {
        die("an input without a shape");
    }
    char *count = strchr(dims + 1, ':');
    if (count != NULL) {
        *count++ = '\0';
    }
    const ps_dtype dtype = dtype_of(text, (size_t)(dims - text));
    const ps_shape shape = shape_of(dims + 1);
    const size_t bytes = count != NULL ? strtoull(count, NULL, 10) : (size_t)ps_shape_elements(&shape) * ps_dtype_bytes(dtype);
    struct psi_value v = value_new(dtype, shape, bytes);
    if (bytes > 0 && fread(v.data, bytes, 1, stdin) != 1) {
        die("an input ends early");
    }
    return v;
}

/* ---- a case ---- */

struct run_case {
    const struct psi_op *op;
    struct psi_op_attrs attrs;
    struct psi_value in[PSI_OP_INPUTS_MAX];
    struct psi_value out[PSI_OP_OUTPUTS_MAX];
    struct psi_type types[PSI_OP_OUTPUTS_MAX];
    uint32_t in_count, out_count;
    char message[1024];
};

static void read_attr(struct run_case *c, char *word)
{
    char *text = strchr(word, '=');
    struct psi_op_attrs *a = &c->attrs;
    if (text == NULL) {
        die("a word without a value");
    }
    *text++ = '\0';
    const long long number = strtoll(text, NULL, 10);
    if (strcmp(word, "in") == 0) {
        c->in[c->in_count++] = value_read(text);
    } else if (strcmp(word, "dtype") == 0) {
        a->dtype = dtype_of(text, strlen(text));
    } else if (strcmp(word, "axis") == 0) {
        a->has_axis = true;
        a->axis = (int32_t)number;
    } else if (strcmp(word, "keep_dims") == 0) {
        a->keep_dims = number != 0;
    } else if (strcmp(word, "transpose_a") == 0) {
        a->transpose_a = number != 0;
    } else if (strcmp(word, "transpose_b") == 0) {
        a->transpose_b = number != 0;
    } else if (strcmp(word, "outputs") == 0) {
        a->outputs = (uint32_t)number;
    } else if (strcmp(word, "activation") == 0) {
        a->activation = (uint32_t)number;
    } else if (strcmp(word, "seed") == 0) {
        a->seed = (uint64_t)number;
    } else if (strcmp(word, "step") == 0) {
        a->step = (uint64_t)number;
    } else if (strcmp(word, "keep") == 0) {
        a->keep = strtof(text, NULL);
    } else if (strcmp(word, "summarize") == 0) {
        a->summarize = (int32_t)number;
    } else if (strcmp(word, "message") == 0) {
        (void)snprintf(c->message, sizeof(c->message), "%s", text);
        a->message = c->message;
    } else {
        die("no such attribute");
    }
}

static ps_status allocate(struct run_case *c, struct psi_err *err)
{
    struct psi_type in[PSI_OP_INPUTS_MAX];
    for (uint32_t i = 0; i < c->in_count; i++) {
        in[i] = (struct psi_type){c->in[i].dtype, c->in[i].shape};
    }
    const ps_status st = psi_op_infer(c->op, &c->attrs, in, c->in_count, c->types, &c->out_count, err);
    for (uint32_t i = 0; st == PS_OK && i < c->out_count; i++) {
        c->out[i] = value_new(c->types[i].dtype, c->types[i].shape,
                              psi_op_output_bytes(c->op, &c->attrs, c->in, c->in_count, &c->types[i], i));
    }
    c->out_count = st == PS_OK ? c->out_count : 0;
    return st;
}

/* With output 0 in the memory of input i, all as before. */
static void run_in_place(const struct run_case *c, const struct psi_op_context *ctx, uint32_t i)
{
    struct psi_value in[PSI_OP_INPUTS_MAX], out[PSI_OP_OUTPUTS_MAX];
    struct psi_err err = {0};
    memcpy(in, c->in, sizeof(in));
    memcpy(out, c->out, sizeof(out));
    if (c->in[i].dtype != c->out[0].dtype || c->in[i].bytes != c->out[0].bytes ||
        memcmp(&c->in[i].shape, &c->out[0].shape, sizeof(ps_shape)) != 0) {
        return;
    }
    struct psi_value both = value_new(c->in[i].dtype, c->in[i].shape, c->in[i].bytes);
    memcpy(both.data, c->in[i].data, both.bytes);
    in[i] = both;
    out[0] = both;
    if (psi_op_run(c->op, &c->attrs, ctx, in, c->in_count, out, c->out_count, &err) != PS_OK) {
        die(err.text);
    }
    if (both.bytes > 0 && memcmp(both.data, c->out[0].data, both.bytes) != 0) {
        (void)fprintf(stderr, "%s: in place of input %" PRIu32 " ", c->op->name, i);
        die("the result is another one");
    }
    value_free(&both);
}

static void answer(const struct run_case *c, ps_status st, const struct psi_err *err)
{
    if (st != PS_OK) {
        (void)printf("error %s %s\n", ps_status_name(st), err->text);
        return;
    }
    (void)printf("ok");
    for (uint32_t i = 0; i < c->out_count; i++) {
        (void)printf(" %s:", ps_dtype_name(c->out[i].dtype));
        for (uint32_t d = 0; d < c->out[i].shape.rank; d++) {
            (void)printf("%s%" PRId64, d > 0 ? "," : "", c->out[i].shape.dims[d]);
        }
    }
    (void)printf("\n");
    for (uint32_t i = 0; i < c->out_count; i++) {
        (void)fwrite(c->out[i].data, 1, c->out[i].bytes, stdout);
    }
}

static void run_case(char *line, const struct psi_op_context *ctx)
{
    static struct run_case c;
    struct psi_err err = {0};
    char *rest = NULL;
    const char *name = strtok_r(line, " \n", &rest);
    memset(&c, 0, sizeof(c));
    c.op = name != NULL ? psi_op_find(name, NULL) : NULL;
    if (c.op == NULL) {
        die("no such operation");
    }
    for (char *word = strtok_r(NULL, " \n", &rest); word != NULL; word = strtok_r(NULL, " \n", &rest)) {
        read_attr(&c, word);
    }
    ps_status st = allocate(&c, &err);
    st = st == PS_OK ? psi_op_run(c.op, &c.attrs, ctx, c.in, c.in_count, c.out, c.out_count, &err) : st;
    for (uint32_t i = 0; i < c.in_count && st == PS_OK; i++) {
        if ((c.op->in_place & (1u << i)) != 0 && strcmp(c.op->name, "print") != 0) { /* print would print twice */
            run_in_place(&c, ctx, i);
        }
    }
    answer(&c, st, &err);
    for (uint32_t i = 0; i < c.in_count; i++) {
        value_free(&c.in[i]);
    }
    for (uint32_t i = 0; i < c.out_count; i++) {
        value_free(&c.out[i]);
    }
}

int main(int argc, char **argv)
{
    static char line[LINE_BYTES_MAX];
    if (argc == 2 && strcmp(argv[1], "--table") == 0) {
        print_table();
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--rows") == 0) {
        list_rows();
        return 0;
    }
    struct psi_op_context ctx = {0};
    struct psi_err err = {0};
    if (argc == 2 && psk_place_open(argv[1], 0, &ctx.place, &err) != PS_OK) {
        die(err.text);
    }
    while (fgets(line, sizeof(line), stdin) != NULL) {
        run_case(line, &ctx);
        (void)fflush(stdout);
    }
    psk_place_close(ctx.place);
    return 0;
}
