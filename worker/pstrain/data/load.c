/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the reader of a data set by its name. Failure modes: an unknown name, no digits file, errors of readers, no memory. */
#include "data.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIGITS_FILE "digits/digits.csv.gz"
#define PLACES_MAX 3

/* Write the path BASE/relative + DIGITS_FILE into path [PATH_MAX]. Returns 1; 0: it is too long. */
static int join(char *path, const char *base, const char *relative)
{
    int length = snprintf(path, PATH_MAX, "%s/%s%s", base, relative, DIGITS_FILE);
    return length > 0 && length < PATH_MAX;
}

/* Write the directory of this program's file into dir. Returns 1; 0: unknown, for example because /proc is not mounted. */
static int program_dir(char *dir)
{
    ssize_t length = readlink("/proc/self/exe", dir, PATH_MAX - 1);
    dir[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(dir, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    return slash != NULL;
}

static int find_digits(char *path, char *err)
{
    char dir[PATH_MAX];
    char places[PLACES_MAX][PATH_MAX];
    size_t count = 0;
    const char *chosen = getenv("PS_DATA_DIR");
    if (chosen != NULL && chosen[0] != '\0') {
        /* the user has named a directory: look nowhere else */
        return join(path, chosen, "") ? 0 : cli_error(err, "PS_DATA_DIR: path too long: %.200s...", chosen);
    }
    if (program_dir(dir)) {
        count += join(places[count], dir, "../share/psd/data/") ? 1 : 0;
        count += join(places[count], dir, "../../../data/") ? 1 : 0;
    }
#ifdef PSI_DATADIR
    count += join(places[count], PSI_DATADIR, "") ? 1 : 0;
#endif
    size_t used = (size_t)snprintf(err, CLI_ERR_BYTES, "digits: no %s in PS_DATA_DIR (not set)", DIGITS_FILE);
    for (size_t i = 0; i < count; i++) {
        if (access(places[i], F_OK) == 0) {
            memcpy(path, places[i], PATH_MAX);
            return 0;
        }
        if (used < CLI_ERR_BYTES) {
            used += (size_t)snprintf(err + used, CLI_ERR_BYTES - used, ", %s", places[i]);
        }
    }
    return -1;
}

static int load_digits(const char *const *paths, size_t count, const struct data_options *options, struct dataset *out, char *err)
{
    char path[PATH_MAX];
    (void)paths, (void)count, (void)options;
    return find_digits(path, err) == 0 ? data_load_digits(path, out, err) : -1;
}

static int load_mnist(const char *const *paths, size_t count, const struct data_options *options, struct dataset *out, char *err)
{
    (void)count, (void)options;
    return data_load_mnist(paths[0], out, err);
}

static int load_libsvm(const char *const *paths, size_t count, const struct data_options *options, struct dataset *out, char *err)
{
    return data_load_libsvm(paths[0], count > 1 ? paths[1] : NULL, options, out, err);
}

static int load_libffm(const char *const *paths, size_t count, const struct data_options *options, struct dataset *out, char *err)
{
    struct data_options with_fields = *options;
    with_fields.fields = true;
    return load_libsvm(paths, count, &with_fields, out, err);
}

enum { FILES_MAX = 4 };

/* The formats of --data NAME:FILES: the name, and which files follow, separated by commas. */
static const struct format {
    const char *name, *files;
    size_t files_min, files_max;
    bool pairs; /* the files come in pairs, one with examples and one with their labels */
    bool sparse;
    bool numbers;
    int (*load)(const char *const *paths, size_t count, const struct data_options *options, struct dataset *out, char *err);
} formats[] = {
    {.name = "digits", .load = load_digits},
    {.name = "mnist", .files = "DIR", .files_min = 1, .files_max = 1, .load = load_mnist},
    {.name = "libsvm",
     .files = "TRAIN[,TEST]",
     .files_min = 1,
     .files_max = 2,
     .sparse = true,
     .numbers = true,
     .load = load_libsvm},
    {.name = "libffm",
     .files = "TRAIN[,TEST]",
     .files_min = 1,
     .files_max = 2,
     .sparse = true,
     .numbers = true,
     .load = load_libffm},
    {.name = "csv", .files = "TRAIN[,TEST]", .files_min = 1, .files_max = 2, .numbers = true, .load = data_load_csv},
    {.name = "npy",
     .files = "X,Y[,XT,YT]",
     .files_min = 2,
     .files_max = 4,
     .pairs = true,
     .numbers = true,
     .load = data_load_npy},
    {.name = "npz", .files = "FILE", .files_min = 1, .files_max = 1, .numbers = true, .load = data_load_npz},
};
enum { FORMATS = sizeof(formats) / sizeof(formats[0]) };

/* Split spec into format and paths [*out_count]. The paths point into *out_copy, which the caller frees. NULL: see err. */
static const struct format *parse(const char *spec, char **out_copy, const char *paths[FILES_MAX], size_t *out_count, char *err)
{
    const size_t n = strcspn(spec, ":");
    const struct format *format = NULL;
    *out_copy = NULL;
    *out_count = 0;
    for (size_t i = 0; i < FORMATS; i++) {
        format = strlen(formats[i].name) == n && strncmp(spec, formats[i].name, n) == 0 ? &formats[i] : format;
    }
    if (format == NULL) {
        size_t used = (size_t)snprintf(err, CLI_ERR_BYTES, "'%.100s': must be ", spec);
        for (size_t i = 0; i < FORMATS; i++) {
            used += (size_t)snprintf(err + used, CLI_ERR_BYTES - used, "%s%s%s%s",
                                     i == 0            ? ""
                                     : i + 1 < FORMATS ? ", "
                                                       : " or ",
                                     formats[i].name, formats[i].files != NULL ? ":" : "",
                                     formats[i].files != NULL ? formats[i].files : "");
        }
        return NULL;
    }
    *out_copy = strdup(spec[n] == ':' ? spec + n + 1 : "");
    if (*out_copy == NULL) {
        (void)cli_error(err, "no memory");
        return NULL;
    }
    bool whole = spec[n] == '\0' || format->files != NULL;
    for (char *p = *out_copy; spec[n] == ':' && p != NULL && *out_count < format->files_max;) {
        char *comma = *out_count + 1 < format->files_max ? strchr(p, ',') : NULL;
        paths[(*out_count)++] = p;
        if (comma != NULL) {
            *comma++ = '\0';
        }
        whole = whole && *p != '\0';
        p = comma;
    }
    whole = whole && *out_count >= format->files_min && (!format->pairs || *out_count % 2 == 0);
    if (!whole) {
        (void)cli_error(err, "'%.100s': must be %s%s%s", spec, format->name, format->files != NULL ? ":" : "",
                        format->files != NULL ? format->files : "");
    }
    return whole ? format : NULL;
}

int data_spec_check(const char *spec, bool *out_dense, bool *out_numbers, char *err)
{
    const char *paths[FILES_MAX];
    char *copy = NULL;
    size_t count = 0;
    const struct format *format = parse(spec, &copy, paths, &count, err);
    free(copy);
    if (format != NULL && out_dense != NULL) {
        *out_dense = !format->sparse;
    }
    if (format != NULL && out_numbers != NULL) {
        *out_numbers = format->numbers;
    }
    return format != NULL ? 0 : -1;
}

int data_load(const char *spec, const struct data_options *options, struct dataset *out, char *err)
{
    static const struct data_options plain = {.base = DATA_BASE_FOUND};
    const struct data_options *o = options != NULL ? options : &plain;
    const char *paths[FILES_MAX];
    char *copy = NULL;
    size_t count = 0;
    memset(out, 0, sizeof(*out));
    const struct format *format = parse(spec, &copy, paths, &count, err);
    int result = format != NULL ? format->load(paths, count, o, out, err) : -1;
    if (result == 0 && out->test_count == 0) {
        result = data_split(out, paths[0], err);
    }
    if (result == 0 && !data_is_sparse(out) && (o->standardize || o->form != NULL)) {
        result = data_standardize(out, o, err);
    }
    free(copy);
    if (result != 0) {
        data_free(out);
    }
    return result;
}
