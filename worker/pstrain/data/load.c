/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A data set by its name on the command line: chooses the reader. Failure modes: an unknown name (the known ones are listed), no
 * digits file (the places are listed), errors of the readers, no memory.
 */
#include "data.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIGITS_FILE "digits/digits.csv.gz"
#define PLACES_MAX 3

/* Write BASE/relative/digits/digits.csv.gz; 0: it does not fit. */
static int join(char *path, const char *base, const char *relative)
{
    int length = snprintf(path, PATH_MAX, "%s/%s%s", base, relative, DIGITS_FILE);
    return length > 0 && length < PATH_MAX;
}

/* Directory of the running program; 0: /proc is not mounted. */
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
        /* a directory that the user names is used, or an error */
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

/* files: "TRAIN" or "TRAIN,TEST". */
static int load_libsvm(const char *files, const struct data_options *options, struct dataset *out, char *err)
{
    size_t n = strcspn(files, ",");
    if (n == 0 || (files[n] == ',' && files[n + 1] == '\0')) {
        return cli_error(err, "libsvm:%.200s: expected libsvm:TRAIN or libsvm:TRAIN,TEST", files);
    }
    char *train = strndup(files, n);
    if (train == NULL) {
        return cli_error(err, "libsvm: no memory");
    }
    int result = data_load_libsvm(train, files[n] == ',' ? files + n + 1 : NULL, options, out, err);
    free(train);
    return result;
}

int data_load(const char *spec, const struct data_options *options, struct dataset *out, char *err)
{
    static const struct data_options plain = {.base = DATA_BASE_FOUND};
    char path[PATH_MAX];
    memset(out, 0, sizeof(*out));
    if (strcmp(spec, "digits") == 0) {
        return find_digits(path, err) == 0 ? data_load_digits(path, out, err) : -1;
    }
    if (strncmp(spec, "mnist:", 6) == 0 && spec[6] != '\0') {
        return data_load_mnist(spec + 6, out, err);
    }
    if (strncmp(spec, "libsvm:", 7) == 0 && spec[7] != '\0') {
        return load_libsvm(spec + 7, options != NULL ? options : &plain, out, err);
    }
    return cli_error(err, "unknown data '%.200s': expected digits, mnist:DIR or libsvm:TRAIN[,TEST]", spec);
}
