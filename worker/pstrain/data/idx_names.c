/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the four IDX files of a set, such as [PREFIX-]train-images-idx3-ubyte. A name may have `.` or `_` for `-`, t10k or test
 * for the test files, any number of dimensions and any type behind idx, and .gz at its end. It may also be a directory with a
 * file of that name in it, as some archives unpack. If several names fit one of the four files, the most usual name is taken.
 * Failure modes, with names: no such directory, a file is missing, there are several prefixes and none was given. */
#include "idx.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { PREFIX_BYTES = 256 /* Linux allows 255 bytes in a file name */ };
/* A file name's rank is the sum of its unusual properties; the lowest rank is taken. NONE: no name was found yet. */
enum { OTHER_SEPARATOR = 1, COMPRESSED = 2, DIRECTORY = 4, NONE = 8 };

struct name {
    char prefix[PREFIX_BYTES];
    enum idx_file file;
    int rank;
};

static bool is_separator(char c)
{
    return c == '-' || c == '.' || c == '_';
}

/* If text begins with word: returns what follows word and the separator behind it, or "" if nothing follows. Otherwise NULL. */
static const char *behind(const char *text, const char *word)
{
    size_t n = strlen(word);
    if (strncasecmp(text, word, n) != 0 || (text[n] != '\0' && !is_separator(text[n]))) {
        return NULL;
    }
    return text[n] == '\0' ? text + n : text + n + 1;
}

static bool is_idx(const char *text, struct name *out)
{
    static const char *const types[] = {"ubyte", "byte", "short", "int", "float", "double"};
    if (strncasecmp(text, "idx", 3) != 0 || text[3] < '1' || text[3] > '9' || !is_separator(text[4])) {
        return false;
    }
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        const char *end = behind(text + 5, types[i]);
        if (end != NULL && (*end == '\0' || strcasecmp(end, "gz") == 0)) {
            out->rank += *end != '\0' ? COMPRESSED : 0;
            return true;
        }
    }
    return false;
}

static bool is_content(const char *text, bool trains, struct name *out)
{
    static const char *const contents[] = {"images", "labels"};
    for (int i = 0; i < 2; i++) {
        const char *idx = behind(text, contents[i]);
        if (idx != NULL && is_idx(idx, out)) {
            out->file = (enum idx_file)((trains ? IDX_TRAIN_IMAGES : IDX_TEST_IMAGES) + i);
            out->rank += idx[-1] != '-' ? OTHER_SEPARATOR : 0;
            return true;
        }
    }
    return false;
}

static bool take_apart(const char *text, struct name *out)
{
    static const char *const parts[] = {"train", "t10k", "test"};
    for (const char *p = text; *p != '\0'; p++) {
        for (int i = 0; i < 3 && (p == text || is_separator(p[-1])); i++) {
            const char *content = behind(p, parts[i]);
            *out = (struct name){.rank = 0};
            if (content != NULL && is_content(content, i == 0, out)) {
                (void)snprintf(out->prefix, sizeof(out->prefix), "%.*s", p == text ? 0 : (int)(p - text - 1), text);
                return true;
            }
        }
    }
    return false;
}

struct search {
    const char *dir;
    const char *prefix; /* prefix that all files must have; NULL: not given, any prefix will do */
    struct idx_paths *out;
    int rank[IDX_FILES];
    char first[PREFIX_BYTES];
    bool found;
};

/* If `text` names one of the four files, of the lowest rank so far: take its path. -1: two prefixes occur; path too long. */
static int look_at(struct search *s, const char *text, char *err)
{
    struct name name;
    struct stat st;
    char path[PATH_MAX];
    if (!take_apart(text, &name) || (s->prefix != NULL && strcmp(s->prefix, name.prefix) != 0)) {
        return 0;
    }
    if (s->found && strcmp(s->first, name.prefix) != 0) {
        return cli_error(err, "mnist: %s has files of several sets ('%s' and '%s'): name one, as in mnist:%s/%s", s->dir,
                         s->first, name.prefix, s->dir, s->first);
    }
    s->found = true;
    memcpy(s->first, name.prefix, sizeof(s->first));
    if (snprintf(path, sizeof(path), "%s/%s", s->dir, text) >= (int)sizeof(path)) {
        return cli_error(err, "mnist: path too long: %.200s", s->dir);
    }
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        size_t n = strlen(path);
        name.rank += DIRECTORY;
        if (snprintf(path + n, sizeof(path) - n, "/%s", text) >= (int)(sizeof(path) - n) || stat(path, &st) != 0) {
            path[n] = '\0'; /* only the directory is there: data_file_open() will refuse it */
        }
    }
    /* readdir() gives names in any order, so of equal ranks the first by strcmp() is taken: t10k before test */
    char *best = s->out->path[name.file];
    if (name.rank < s->rank[name.file] || (name.rank == s->rank[name.file] && strcmp(path, best) < 0)) {
        s->rank[name.file] = name.rank;
        memcpy(best, path, sizeof(path));
    }
    return 0;
}

/* Look at all file names in the directory that have the prefix s->prefix (NULL: any). */
static int look_once(struct search *s, DIR *dir, char *err)
{
    int result = 0;
    rewinddir(dir);
    for (const struct dirent *d = readdir(dir); d != NULL && result == 0; d = readdir(dir)) {
        result = look_at(s, d->d_name, err);
    }
    return result;
}

/* Find the files. If no prefix is given, names without one come first: for other files the user can give their prefix. */
static int look_everywhere(struct search *s, DIR *dir, char *err)
{
    if (s->prefix != NULL) {
        return look_once(s, dir, err);
    }
    s->prefix = "";
    int result = look_once(s, dir, err);
    s->prefix = NULL;
    return result != 0 || s->found ? result : look_once(s, dir, err);
}

int idx_find(const char *where, struct idx_paths *out, char *err)
{
    static const char *const names[IDX_FILES] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                                 "t10k-labels-idx1-ubyte"};
    static const char *const others[IDX_FILES] = {"train-images.idx3-ubyte", "train-labels.idx1-ubyte",
                                                  "t10k-images.idx3-ubyte, test-images-idx3-ubyte",
                                                  "t10k-labels.idx1-ubyte, test-labels-idx1-ubyte"};
    char dir[PATH_MAX];
    struct stat st;
    struct search s = {.dir = dir, .out = out, .rank = {NONE, NONE, NONE, NONE}};
    if (snprintf(dir, sizeof(dir), "%s", where) >= (int)sizeof(dir)) {
        return cli_error(err, "mnist: path too long: %.200s", where);
    }
    char *slash = strrchr(dir, '/');
    const bool is_there = stat(where, &st) == 0;
    const bool is_file = is_there && !S_ISDIR(st.st_mode);
    if (is_there ? is_file : slash != NULL && slash != dir) {
        s.prefix = slash != NULL ? where + (slash - dir) + 1 : where;
        (void)snprintf(slash != NULL ? slash : dir, 2, "%s", slash != NULL ? "" : ".");
    }
    DIR *open = opendir(dir);
    if (open == NULL) {
        return cli_error(err, "mnist: %s: %s: expected mnist:DIR or mnist:DIR/PREFIX", dir, strerror(errno));
    }
    int result = look_everywhere(&s, open, err);
    closedir(open);
    if (result == 0 && is_file && !s.found) {
        result = cli_error(err, "mnist: %s is a file: expected mnist:DIR, its directory, or mnist:DIR/PREFIX", where);
    }
    for (int i = 0; i < IDX_FILES && result == 0; i++) {
        if (s.rank[i] == NONE) {
            result =
                cli_error(err, "mnist: %s/%s: no such file, neither plain nor with .gz, nor by another usual name of it (%s)",
                          where, names[i], others[i]);
        }
    }
    return result;
}
