/* SPDX-License-Identifier: Apache-2.0 */
/* Files that appear only when they are whole. Failure: if the file cannot be made or written, an older file stays as it was. */
#include "file.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

static int choose(struct cli_file *file, const char *path)
{
    struct stat st;
    bool there = lstat(path, &st) == 0;
    if (there && S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        return -1;
    }
    file->path = path;
    file->beside = !there || S_ISREG(st.st_mode);
    int n = file->beside ? snprintf(file->name, sizeof(file->name), "%s.part.%ld", path, (long)getpid())
                         : snprintf(file->name, sizeof(file->name), "%s", path);
    if (n < 0 || (size_t)n >= sizeof(file->name)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return 0;
}

int cli_file_open(struct cli_file *file, const char *path)
{
    file->stream = choose(file, path) == 0 ? fopen(file->name, "wbe") : NULL;
    return file->stream != NULL ? 0 : -1;
}

int cli_file_close(struct cli_file *file, bool good)
{
    int why = errno;
    bool ok = good && ferror(file->stream) == 0;
    if (fclose(file->stream) != 0 && ok) {
        why = errno;
        ok = false;
    }
    if (ok && file->beside && rename(file->name, file->path) != 0) {
        why = errno;
        ok = false;
    }
    if (!ok && file->beside) {
        (void)unlink(file->name);
    }
    errno = why;
    return ok ? 0 : -1;
}

int cli_file_check(const char *path)
{
    struct cli_file file;
    if (choose(&file, path) != 0) {
        return -1;
    }
    if (!file.beside) {
        return access(path, W_OK);
    }
    if (cli_file_open(&file, path) != 0) {
        return -1;
    }
    (void)cli_file_close(&file, false);
    return 0;
}
