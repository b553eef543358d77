/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the data of a run, and stores facts about them with the model. Happy path: load the files. If a model exists, number the
 * set's classes and columns as the model does; if not, the chief stores the set's labels and base beside the new model. Failure
 * modes, each printed: errors in the files; a file that does not fit the model; a task that does not answer. */
#include "source.h"

#include "say.h"
#include "session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABELS_NAME "data/labels"
#define BASE_NAME "data/index_base"
#define FORM_NAME "data/form"

enum { NOTE_EVERY_MS = 5000 };

struct loading {
    int64_t note_at_ms;
};

static void on_progress(void *ctx, const char *path, int64_t rows, double part)
{
    struct loading *l = ctx;
    if (cli_clock_ms() >= l->note_at_ms) {
        l->note_at_ms = cli_clock_ms() + NOTE_EVERY_MS;
        say_note("reading %s: %.0f %%, %" PRId64 " examples so far", path, 100 * part, rows);
    }
}

/* Load the files of --data into *out. form: dataset.form of an existing model; NULL: not known. Returns the exit status. */
static int load_data(const struct flags *f, bool quiet, const char *form, struct dataset *out)
{
    char err[CLI_ERR_BYTES];
    struct loading l = {.note_at_ms = cli_clock_ms() + NOTE_EVERY_MS};
    const struct data_options o = {.numbers = f->task != 0,
                                   .label = f->label,
                                   .header = (enum data_header)f->header,
                                   .standardize = f->standardize,
                                   .form = form,
                                   .base = f->base - 1,
                                   .duplicates = (enum data_duplicates)f->duplicates,
                                   .features = f->features,
                                   .progress = quiet ? NULL : on_progress,
                                   .ctx = &l};
    if (data_load(f->data, &o, out, err) != 0) {
        return say_error("--data: %s", err);
    }
    if (f->patience > 0 && data_validate(out, err) != 0) {
        data_free(out);
        return say_error("--patience: %s", err);
    }
    return EXIT_DONE;
}

int source_load(const struct flags *f, bool quiet, struct dataset *out)
{
    return load_data(f, quiet, NULL, out);
}

void source_say(const struct dataset *data)
{
    if (data->note[0] != '\0') {
        say_result("%s\n", data->note);
    }
}

int source_model(const struct flags *f, const struct dataset *data, struct model_spec *out)
{
    char name[MODEL_NAME_BYTES];
    if (model_spec_parse(f->model, data->features, data->classes, out) != 0) {
        return say_error("--model %s is not understood", f->model);
    }
    out->predicts = data->predicts;
    out->by_rows = out->by_rows || f->rows || f->partition > 1;
    out->parts = (uint32_t)f->partition;
    if (out->machine && data->classes != 2) {
        return say_error("--model %s is for two classes, --data %s has %" PRId64, f->model, f->data, data->classes);
    }
    if (f->partition > out->units[0]) {
        return say_error("--partition %" PRId64 ": the data have %" PRId64 " features, a part has at least one", f->partition,
                         out->units[0]);
    }
    if (!data_is_sparse(data) || out->by_rows) {
        return EXIT_DONE;
    }
    const double bytes = (double)out->units[0] * (double)out->units[1] * (double)sizeof(float);
    return bytes <= (double)INPUT_BYTES_MAX
               ? EXIT_DONE
               : say_error("--data %s: %s would be %" PRId64 " x %" PRId64 " float32, %.0f bytes; the most is %" PRId64
                           " (1 GiB), since every step sends all of them: --rows sends those that a batch has; fewer features "
                           "(hash the indices), fewer classes or a "
                           "smaller first layer make them less",
                           f->data, model_variable_name(out, 0, false, name), out->units[0], out->units[1], bytes,
                           INPUT_BYTES_MAX);
}

static bool is_absent(ps_status st)
{
    return st == PS_NOT_FOUND || st == PS_FAILED_PRECONDITION;
}

static ps_status read_labels(ps_session *s, double **out_labels, int64_t *out_count)
{
    ps_variable *v = NULL;
    *out_labels = NULL;
    ps_status st = ps_variable_find(s, LABELS_NAME, &v);
    if (st != PS_OK || ps_variable_dtype(v) != PS_F64 || ps_variable_shape(v)->rank != 1 || ps_variable_bytes(v) == 0) {
        return st;
    }
    double *labels = malloc(ps_variable_bytes(v));
    if (labels == NULL) {
        return PS_RESOURCE_EXHAUSTED;
    }
    st = ps_variable_read(v, labels, ps_variable_bytes(v));
    if (st != PS_OK) {
        free(labels);
        return st;
    }
    *out_labels = labels;
    *out_count = ps_variable_shape(v)->dims[0];
    return PS_OK;
}

static ps_status read_base(ps_session *s, int *out)
{
    ps_variable *v = NULL;
    int64_t base = DATA_BASE_FOUND;
    ps_status st = ps_variable_find(s, BASE_NAME, &v);
    if (st != PS_OK || ps_variable_dtype(v) != PS_I64 || ps_variable_bytes(v) != sizeof(base)) {
        return st;
    }
    st = ps_variable_read(v, &base, sizeof(base));
    *out = st == PS_OK && (base == 0 || base == 1) ? (int)base : DATA_BASE_FOUND;
    return st;
}

static ps_status read_features(const struct flags *f, ps_session *s, int64_t *out)
{
    struct model_spec spec;
    char name[MODEL_NAME_BYTES];
    ps_variable *v = NULL;
    if (model_spec_parse(f->model, 1, 1, &spec) != 0) {
        return PS_OK; /* source_model() reports a bad --model */
    }
    ps_status st = ps_variable_find(s, model_variable_name(&spec, 0, false, name), &v);
    *out = st == PS_OK && ps_variable_shape(v)->rank == 2 ? ps_variable_shape(v)->dims[0] : 0;
    return st;
}

/* True if the labels ascend, as pstrain stores them; false: another program has stored them. */
static bool labels_rise(const double *labels, int64_t count)
{
    bool rise = true;
    for (int64_t i = 1; i < count && rise; i++) {
        rise = labels[i] > labels[i - 1];
    }
    return rise;
}

static int adopt(const struct flags *f, struct dataset *data, const struct data_known *known)
{
    char err[CLI_ERR_BYTES];
    if (known->labels != NULL && !labels_rise(known->labels, known->classes)) {
        return say_error(LABELS_NAME " of the model does not rise: it is not what pstrain writes");
    }
    if (known->features > 0 && f->features > 0 && known->features != f->features) {
        return say_error("--libsvm_features %" PRId64 ": the model has %" PRId64 "; leave the flag out, or --fresh starts over",
                         f->features, known->features);
    }
    return data_adopt(data, known, err) == 0
               ? EXIT_DONE
               : say_error("--data %s: %s; --container NAME keeps another model apart, --fresh starts over", f->data, err);
}

static ps_status read_form(ps_session *s, char **out)
{
    ps_variable *v = NULL;
    size_t offsets[2], bytes = 0;
    *out = NULL;
    ps_status st = ps_variable_find(s, FORM_NAME, &v);
    if (st != PS_OK || ps_variable_dtype(v) != PS_STRING || ps_variable_shape(v)->rank != 0) {
        return st;
    }
    char *text = malloc(PS_STRING_BYTES_MAX + 1);
    st = text != NULL ? ps_variable_read_strings(v, text, PS_STRING_BYTES_MAX + 1, offsets, 1, &bytes) : PS_RESOURCE_EXHAUSTED;
    if (st != PS_OK) {
        free(text);
        return st;
    }
    *out = text;
    return PS_OK;
}

static int adopt_form(const struct flags *f, ps_session *s, struct dataset *data, struct source_match *out)
{
    char *form = NULL;
    int status = EXIT_DONE;
    const ps_status st = read_form(s, &form);
    if (st != PS_OK && !is_absent(st)) {
        (void)session_call_failed(st, "what the model was trained on (" FORM_NAME ")");
        status = EXIT_FAILED;
    }
    out->known = form != NULL;
    if (form != NULL && (data->form == NULL || strcmp(form, data->form) != 0)) {
        struct dataset again;
        status = load_data(f, true, form, &again);
        if (status == EXIT_DONE) {
            data_free(data);
            *data = again;
            out->changed = true;
        } else {
            say_note(
                "the model in this container was made with these columns; --container NAME keeps another model apart, --fresh "
                "starts over");
        }
    }
    free(form);
    return status;
}

int source_adopt(const struct flags *f, ps_session *s, struct dataset *data, struct source_match *out)
{
    const struct dataset before = *data;
    struct data_known known = {.base = DATA_BASE_FOUND};
    double *labels = NULL;
    *out = (struct source_match){.known = false};
    if (!data_is_sparse(data)) {
        return adopt_form(f, s, data, out);
    }
    ps_status st = read_labels(s, &labels, &known.classes);
    known.labels = labels;
    st = st == PS_OK || is_absent(st) ? read_base(s, &known.base) : st;
    st = st == PS_OK || is_absent(st) ? read_features(f, s, &known.features) : st;
    int status = EXIT_DONE;
    if (st != PS_OK && !is_absent(st)) {
        (void)session_call_failed(st, "what the model was trained on (" LABELS_NAME ", " BASE_NAME ")");
        status = EXIT_FAILED;
    }
    const bool same = labels == NULL || (known.classes == data->classes &&
                                         memcmp(labels, data->labels, (size_t)data->classes * sizeof(*labels)) == 0);
    status = status == EXIT_DONE ? adopt(f, data, &known) : status;
    out->known = labels != NULL && known.base != DATA_BASE_FOUND;
    free(labels);
    if (status == EXIT_DONE && data->classes < 2 && !data->predicts) {
        status =
            say_error("--data %s: all labels are %.15g: there is nothing to tell apart, and no model that knows other labels",
                      f->data, data->labels[0]);
    }
    out->changed = !same || before.base != data->base || before.features != data->features;
    return status;
}

int source_adopt_aside(const struct flags *f, const struct cluster *c, struct dataset *data, struct source_match *out)
{
    *out = (struct source_match){.known = false};
    ps_session *aside = session_open_aside(f, c);
    int status = aside != NULL ? source_adopt(f, aside, data, out) : EXIT_FAILED;
    session_close_aside(aside);
    return status;
}

static ps_status keep_variable(ps_session *s, const char *name, ps_dtype dtype, ps_shape shape, const void *value, size_t bytes)
{
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = dtype;
    spec.shape = shape;
    ps_status st = ps_variable_get(s, &spec, &v);
    return st != PS_OK          ? st
           : dtype == PS_STRING ? ps_variable_init_strings(v, (const char *const *)&value, &bytes, 1)
                                : ps_variable_init_from(v, value, bytes);
}

int source_keep(const struct flags *f, const struct cluster *c, const struct dataset *data)
{
    if (!data_keeps(data)) {
        return EXIT_DONE;
    }
    const int64_t base = data->base;
    ps_session *aside = session_open_aside(f, c);
    if (aside == NULL) {
        return EXIT_FAILED;
    }
    ps_status st = PS_OK;
    if (data_is_sparse(data)) {
        st = keep_variable(aside, LABELS_NAME, PS_F64, PS_SHAPE(data->classes), data->labels,
                           (size_t)data->classes * sizeof(*data->labels));
        st = st == PS_OK ? keep_variable(aside, BASE_NAME, PS_I64, PS_SCALAR, &base, sizeof(base)) : st;
    } else {
        st = keep_variable(aside, FORM_NAME, PS_STRING, PS_SCALAR, data->form, strlen(data->form));
    }
    if (st != PS_OK) {
        (void)session_call_failed(st, data_is_sparse(data) ? "to keep the labels with the model (" LABELS_NAME ", " BASE_NAME ")"
                                                           : "to keep the columns with the model (" FORM_NAME ")");
    }
    session_close_aside(aside);
    return st == PS_OK ? EXIT_DONE : EXIT_FAILED;
}
