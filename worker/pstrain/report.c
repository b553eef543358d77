/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the report: to a file beside it, which is then renamed; a device, a pipe or a link is written to as it is. Failure
 * modes: the file cannot be made or written; an older report is then untouched.
 */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file to write to; -1: errno. *out_beside: it is to be renamed to path. */
static int target(const char *path, char *out, bool *out_beside)
{
    struct stat st;
    bool there = lstat(path, &st) == 0;
    if (there && S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        return -1;
    }
    *out_beside = !there || S_ISREG(st.st_mode);
    int n = *out_beside ? snprintf(out, PATH_MAX, "%s.part.%ld", path, (long)getpid()) : snprintf(out, PATH_MAX, "%s", path);
    if (n < 0 || n >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return 0;
}

static void number(FILE *f, const char *key, double value)
{
    if (isfinite(value)) {
        (void)fprintf(f, "  \"%s\": %.9g,\n", key, value);
    } else {
        (void)fprintf(f, "  \"%s\": null,\n", key);
    }
}

static void write_all(FILE *f, const struct report *r)
{
    uint64_t total = 0;
    (void)fprintf(f, "{\n");
    number(f, "test_accuracy", r->test_accuracy);
    number(f, "test_auc", r->test_auc);
    number(f, "test_loss", r->test_loss);
    number(f, "train_loss", r->train_loss);
    (void)fprintf(f, "  \"global_step\": %" PRId64 ",\n", r->global_step);
    number(f, "epochs", r->epochs);
    number(f, "samples_per_second", r->samples_per_second);
    number(f, "seconds", r->seconds);
    (void)fprintf(f, "  \"ps\": %d,\n  \"workers\": %d,\n  \"variables\": %d,\n  \"values\": %" PRId64 ",\n", r->ps, r->workers,
                  r->variables, r->values);
    (void)fprintf(f, "  \"pushes_applied\": {");
    for (int i = 0; i < r->ps; i++) {
        (void)fprintf(f, "%s\"/job:%s/task:%u\": %" PRIu64, i > 0 ? ", " : "", r->tasks[i].job, (unsigned)r->tasks[i].task,
                      r->tasks[i].pushes_applied);
        total += r->tasks[i].pushes_applied;
    }
    (void)fprintf(f, "},\n  \"pushes_applied_total\": %" PRIu64 "\n}\n", total);
}

int report_check(const char *path)
{
    char name[PATH_MAX];
    bool beside = false;
    if (target(path, name, &beside) != 0) {
        return -1;
    }
    if (!beside) {
        return access(name, W_OK);
    }
    FILE *f = fopen(name, "we");
    if (f == NULL) {
        return -1;
    }
    int result = fclose(f);
    return unlink(name) == 0 ? result : -1;
}

int report_write(const char *path, const struct report *r)
{
    char name[PATH_MAX];
    bool beside = false;
    if (target(path, name, &beside) != 0) {
        return -1;
    }
    FILE *f = fopen(name, "we");
    if (f == NULL) {
        return -1;
    }
    write_all(f, r);
    bool bad = ferror(f) != 0;
    bad = fclose(f) != 0 || bad;
    if (!bad && (!beside || rename(name, path) == 0)) {
        return 0;
    }
    int why = errno;
    if (beside) {
        (void)unlink(name);
    }
    errno = why;
    return -1;
}
