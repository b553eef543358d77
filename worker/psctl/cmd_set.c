/* SPDX-License-Identifier: Apache-2.0 */
/* psctl set: give a variable new values, from the command line or from a .npy file: parse them by its dtype and shape, ask for
 * the present version, assign, print both versions. The user, who has named variable and values, is not asked. Failure modes:
 * values that do not fit are refused before anything is sent, and the element is named; exit 1. */
#include "psctl.h"

#include "common/cli/npy.h"
#include "value.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct before {
    const char *container, *name;
    bool found, initialised;
    uint64_t version;
};

static void each_variable(void *ctx, const ps_variable_info *info)
{
    struct before *b = ctx;
    ps_variable_info whole = *info;
    ps_variable_info_whole(&whole);
    if (strcmp(whole.name, b->name) == 0 && strcmp(info->container, b->container) == 0) {
        b->initialised = info->initialised && (b->initialised || !b->found);
        b->version = !b->found || info->version < b->version ? info->version : b->version;
        b->found = true;
    }
}

/* Ask the variable's task for its present version and state; if the variable is cut into parts, ask all tasks. */
static bool look_up(struct psctl *c, const ps_variable *v, struct before *out)
{
    const char *device = ps_variable_device(v);
    memset(out, 0, sizeof(*out));
    out->container = ps_variable_container(v);
    out->name = ps_variable_name(v);
    for (int i = 0; i < c->task_count; i++) {
        const char *task = ps_cluster_task_name(c->session, i);
        size_t n = strlen(task);
        const bool has = strncmp(device, task, n) == 0 && (device[n] == '/' || device[n] == '\0');
        if (!has && ps_variable_partitions(v) == 0) {
            continue;
        }
        ps_status st = ps_task_variables(c->session, i, psctl_left_ms(c), each_variable, out);
        if (st != PS_OK) {
            (void)psctl_last_failed(c, st);
            return false;
        }
    }
    if (!out->found) {
        psctl_error(c, PS_NOT_FOUND, "variable '%s' is no longer at %s", out->name, device);
    }
    return out->found;
}

static bool read_file(const struct psctl *c, const ps_variable *v, void *data)
{
    char error[CLI_NPY_ERROR_MAX] = "";
    bool standard = strcmp(c->npy, "-") == 0;
    FILE *file = standard ? stdin : fopen(c->npy, "rbe");
    if (file == NULL) {
        psctl_error(c, errno == ENOENT ? PS_NOT_FOUND : PS_UNKNOWN, "%s: %s", c->npy, strerror(errno));
        return false;
    }
    bool ok = cli_npy_read(file, ps_variable_dtype(v), ps_variable_shape(v), data, error);
    if (!ok) {
        psctl_error(c, PS_INVALID_ARGUMENT, "%s for variable '%s': %s", standard ? "standard input" : c->npy, ps_variable_name(v),
                    error);
    }
    if (!standard) {
        (void)fclose(file);
    }
    return ok;
}

static bool read_values(const struct psctl *c, const ps_variable *v, void *data)
{
    char error[VALUE_ERROR_MAX] = "";
    if (c->npy != NULL) {
        return read_file(c, v, data);
    }
    bool ok = value_parse(c->argv[1], ps_variable_dtype(v), ps_variable_shape(v), c->fill, data, error);
    if (!ok) {
        psctl_error(c, PS_INVALID_ARGUMENT, "variable '%s': %s", ps_variable_name(v), error);
    }
    return ok;
}

/* Print old and new values and versions. saved: number of the checkpoint made afterwards; 0: no checkpoint was made. */
static void show(const struct psctl *c, const ps_variable *v, const struct before *before, const void *old, const void *new,
                 uint64_t version, uint64_t saved)
{
    ps_dtype dtype = ps_variable_dtype(v);
    char was[VALUE_TEXT_MAX], is[VALUE_TEXT_MAX], where[PSCTL_WHERE_MAX];
    if (c->json) {
        cli_json_print(json_pack("{s:s, s:s, s:s, s:o*, s:b, s:I, s:I, s:o*}", "name", ps_variable_name(v), "container",
                                 ps_variable_container(v), "device", ps_variable_device(v), "parts", psctl_parts(v),
                                 "was_initialised", before->initialised, "old_version", (json_int_t)before->version,
                                 "new_version", (json_int_t)version, "saved",
                                 saved != 0 ? json_integer((json_int_t)saved) : NULL));
        return;
    }
    (void)printf("%s %s: ", ps_variable_name(v), psctl_where(v, where));
    if (old != NULL) {
        (void)printf("%s, ", value_text(dtype, old, was, sizeof(was)));
    }
    if (before->initialised) {
        (void)printf("version %" PRIu64, before->version);
    } else {
        (void)printf("uninitialised");
    }
    if (new != NULL) {
        (void)printf(" -> %s, version %" PRIu64 "\n", value_text(dtype, new, is, sizeof(is)), version);
    } else {
        (void)printf(" -> version %" PRIu64 "\n", version);
    }
    if (saved != 0) {
        (void)printf("saved as checkpoint %" PRIu64 "\n", saved);
    }
}

static enum psctl_exit set_numbers(struct psctl *c, ps_variable *v)
{
    size_t bytes = ps_variable_bytes(v);
    struct before before;
    uint64_t old = 0;
    void *data = malloc(bytes > 0 ? bytes : 1);
    bool single = ps_shape_elements(ps_variable_shape(v)) == 1;
    bool done = false;
    if (data == NULL) {
        psctl_error(c, PS_RESOURCE_EXHAUSTED, "out of memory for the %zu bytes of '%s'", bytes, ps_variable_name(v));
        return PSCTL_FAILED;
    }
    if (read_values(c, v, data) && look_up(c, v, &before)) {
        bool show_old = single && before.initialised && ps_variable_read(v, &old, bytes) == PS_OK;
        ps_status st = ps_variable_assign(v, data, bytes);
        uint64_t version = st == PS_OK ? ps_variable_version(v, NULL) : 0, saved = 0;
        done = st == PS_OK;
        if (!done) {
            (void)psctl_change_failed(c, st);
        } else if (c->imports) {
            done = psctl_save_imported(c, &saved) == PSCTL_OK;
        }
        if (done) {
            show(c, v, &before, show_old ? &old : NULL, single ? data : NULL, version, saved);
        }
    }
    free(data);
    return done ? PSCTL_OK : PSCTL_FAILED;
}

static enum psctl_exit set_strings(struct psctl *c, ps_variable *v)
{
    char error[VALUE_ERROR_MAX] = "";
    struct value_strings values;
    struct before before;
    if (c->npy != NULL) {
        psctl_error(c, PS_INVALID_ARGUMENT, "'%s' is a string variable, for which .npy has no type", ps_variable_name(v));
        return PSCTL_FAILED;
    }
    bool ok = value_parse_strings(c->argv[1], ps_variable_shape(v), c->fill, &values, error);
    if (!ok) {
        psctl_error(c, PS_INVALID_ARGUMENT, "variable '%s': %s", ps_variable_name(v), error);
    }
    if (ok && look_up(c, v, &before)) {
        ps_status st = ps_variable_assign_strings(v, values.texts, values.lengths, values.count);
        if (st != PS_OK) {
            (void)psctl_change_failed(c, st);
        }
        ok = st == PS_OK;
        if (ok) {
            show(c, v, &before, NULL, NULL, ps_variable_version(v, NULL), 0);
        }
    } else {
        ok = false;
    }
    value_strings_free(&values);
    return ok ? PSCTL_OK : PSCTL_FAILED;
}

static enum psctl_exit run_set(struct psctl *c)
{
    ps_variable *v = NULL;
    if ((c->npy != NULL) == (c->argc == 2) || (c->npy != NULL && c->fill)) {
        return psctl_misused(c, "set needs a VALUE or --npy FILE%s; see psctl set --help",
                             c->npy != NULL ? ", not both; --fill goes with a VALUE" : "");
    }
    enum psctl_exit code = psctl_find_variable(c, &v);
    if (code != PSCTL_OK) {
        return code;
    }
    return ps_variable_dtype(v) == PS_STRING ? set_strings(c, v) : set_numbers(c, v);
}

const struct psctl_verb psctl_verb_set = {
    .name = "set",
    .look = "vars",
    .arguments = "NAME [VALUE]",
    .summary = "give a variable new values",
    .args_min = 1,
    .args_max = 2,
    .flags = PSCTL_FLAG(NPY) | PSCTL_FLAG(FILL) | PSCTL_FLAG(CONTAINER),
    .words = "variable",
    .run = run_set,
    .help = "VALUE is one value for a scalar, else a list as deep as the shape, [[1, 2], [3, 4]], or flat, [1, 2, 3, 4];\n"
            "--fill takes one value for all elements. Texts of a string variable stand in double quotes in a list, and as\n"
            "they are without one. --npy FILE reads what numpy.save() wrote. Dtype and shape must be the variable's own.\n"
            "Slots of its optimizer stay. Prints the version before and after; does not ask.\n",
};
