/* SPDX-License-Identifier: Apache-2.0 */
/* psctl get: a variable's value as text, JSON or NumPy file. Exit 1: no such variable; no value; the file cannot be written. */
#include "psctl.h"

#include "common/cli/file.h"
#include "common/cli/npy.h"
#include "show.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool npy_save(const struct psctl *c, const ps_variable *v, const void *data)
{
    ps_dtype dtype = ps_variable_dtype(v);
    const ps_shape *shape = ps_variable_shape(v);
    size_t bytes = ps_variable_bytes(v);
    if (strcmp(c->npy, "-") == 0) {
        return cli_npy_write(stdout, dtype, shape, data, bytes);
    }
    struct cli_file file;
    bool ok =
        cli_file_open(&file, c->npy) == 0 && cli_file_close(&file, cli_npy_write(file.stream, dtype, shape, data, bytes)) == 0;
    if (!ok) {
        psctl_error(c, PS_UNKNOWN, "%s: %s", c->npy, strerror(errno));
    }
    return ok;
}

static void print_head(const struct psctl *c, const ps_variable *v)
{
    bool exact = false;
    char shape[192], where[PSCTL_WHERE_MAX];
    uint64_t version = ps_variable_version(v, &exact);
    if (c->json) {
        cli_json_put("name", json_string(ps_variable_name(v)));
        cli_json_put("device", json_string(ps_variable_device(v)));
        if (ps_variable_partitions(v) > 0) {
            cli_json_put("parts", psctl_parts(v));
        }
        cli_json_put("dtype", json_string(ps_dtype_name(ps_variable_dtype(v))));
        cli_json_put("shape", value_shape_json(ps_variable_shape(v)));
        cli_json_put("version", json_integer((json_int_t)version));
        cli_json_put("exact", json_boolean(exact));
        return;
    }
    (void)printf("%s %s %s %s, version %" PRIu64 "%s%s%s\n", ps_variable_name(v), ps_dtype_name(ps_variable_dtype(v)),
                 psi_shape_format(ps_variable_shape(v), shape, sizeof(shape)), psctl_where(v, where), version,
                 exact                           ? ""
                 : ps_variable_partitions(v) > 0 ? " or more"
                                                 : ", read while it was changing",
                 c->npy != NULL ? " -> " : "", c->npy != NULL ? c->npy : "");
}

static void show_values(const struct psctl *c, const ps_variable *v, const struct values *values)
{
    size_t left_out = values_show(c->json ? "values" : NULL, c->json, ps_variable_dtype(v), ps_variable_shape(v), values);
    if (left_out > 0) {
        (void)printf("... %zu values in all; %s--json gives them\n", left_out + VALUES_SHOWN,
                     values->offsets == NULL ? "--npy FILE or " : "");
    }
}

static bool show(const struct psctl *c, const ps_variable *v, const struct values *values)
{
    bool to_stdout = c->npy != NULL && strcmp(c->npy, "-") == 0;
    if (c->npy != NULL && (!npy_save(c, v, values->data) || to_stdout)) {
        return to_stdout;
    }
    psctl_answer(c);
    print_head(c, v);
    if (c->npy == NULL) {
        show_values(c, v, values);
    }
    psctl_answer_end(c);
    return true;
}

static enum psctl_exit get_numbers(const struct psctl *c, ps_variable *v)
{
    size_t bytes = ps_variable_bytes(v);
    void *data = malloc(bytes > 0 ? bytes : 1);
    if (data == NULL) {
        psctl_error(c, PS_RESOURCE_EXHAUSTED, "out of memory for the %zu bytes of '%s'", bytes, ps_variable_name(v));
        return PSCTL_FAILED;
    }
    ps_status st = ps_variable_read(v, data, bytes);
    if (st != PS_OK) {
        (void)psctl_last_failed(c, st);
    }
    bool shown = st == PS_OK && show(c, v, &(struct values){.data = data});
    free(data);
    return shown ? PSCTL_OK : PSCTL_FAILED;
}

static enum psctl_exit get_strings(const struct psctl *c, ps_variable *v)
{
    size_t count = (size_t)ps_shape_elements(ps_variable_shape(v));
    if (c->npy != NULL) {
        psctl_error(c, PS_INVALID_ARGUMENT, "'%s' is a string variable, for which .npy has no type; --json gives its values",
                    ps_variable_name(v));
        return PSCTL_FAILED;
    }
    char *data = malloc(PS_STRING_BYTES_MAX + 1);
    size_t *offsets = calloc(count + 1, sizeof(*offsets));
    ps_status st = PS_RESOURCE_EXHAUSTED;
    if (data == NULL || offsets == NULL) {
        psctl_error(c, st, "out of memory for the %zu texts of '%s'", count, ps_variable_name(v));
    } else {
        st = ps_variable_read_strings(v, data, PS_STRING_BYTES_MAX + 1, offsets, count, NULL);
        if (st != PS_OK) {
            (void)psctl_last_failed(c, st);
        } else {
            (void)show(c, v, &(struct values){data, offsets}); /* cannot fail: only a .npy file can, and has no strings */
        }
    }
    free(data);
    free(offsets);
    return st == PS_OK ? PSCTL_OK : PSCTL_FAILED;
}

static enum psctl_exit run_get(struct psctl *c)
{
    ps_variable *v = NULL;
    enum psctl_exit code = psctl_find_variable(c, &v);
    if (code != PSCTL_OK) {
        return code;
    }
    return ps_variable_dtype(v) == PS_STRING ? get_strings(c, v) : get_numbers(c, v);
}

const struct psctl_verb psctl_verb_get = {
    .name = "get",
    .arguments = "NAME",
    .summary = "value of a variable",
    .args_min = 1,
    .args_max = 1,
    .flags = PSCTL_FLAG(NPY) | PSCTL_FLAG(CONTAINER),
    .words = "variable",
    .run = run_get,
    .help = "Prints the variable's definition and its first 1,000 values; with --json all of them (NaN and infinities as\n"
            "null). --npy FILE writes all values for numpy.load(); with - they go to standard output and nothing else\n"
            "does.\n",
};
