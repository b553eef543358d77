/* SPDX-License-Identifier: Apache-2.0 */
/* For the command-line programs: files that are written whole or not at all. */
#ifndef CLI_FILE_H
#define CLI_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

struct cli_file {
    FILE *stream;
    const char *path;
    char name[PATH_MAX];
    bool beside; /* true: `name` is a temporary file, which is renamed to path at the end; false: `name` is path */
};
/** Open a temporary file beside path, which cli_file_close() renames to path. A device, a pipe or a link is opened itself. path
 * must stay valid until cli_file_close(). Returns 0, or -1 with errno and nothing open. */
int cli_file_open(struct cli_file *file, const char *path);
/** Close the file. good: the caller has written all. Returns 0 when the temporary file was renamed to path. If good is false, or
 * a write or the rename fails, removes the temporary file, leaves path as it was, and returns -1 with errno. A device, a pipe or
 * a link is only closed. */
int cli_file_close(struct cli_file *file, bool good);
/** Returns 0 if cli_file_open() can open path for writing, otherwise -1 with errno. path stays as it is. */
int cli_file_check(const char *path);

#endif
