/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: files that are written whole or not at all. */
#ifndef CLI_FILE_H
#define CLI_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

struct cli_file {
    FILE *stream;
    const char *path;
    char name[PATH_MAX]; /* the file that is being written */
    bool beside;         /* rename the file to path at the end */
};
/** Open a file beside path, to be renamed to path at the end. A device, a pipe or a link is written to directly. path: keeps.
 * Returns 0, or -1 with errno and nothing open. */
int cli_file_open(struct cli_file *file, const char *path);
/** good: all was written, and the file becomes path; otherwise it is removed. Returns 0, or -1 with errno. */
int cli_file_close(struct cli_file *file, bool good);
/** Returns 0 if path can be written to, as far as that can be known now; otherwise -1 with errno. */
int cli_file_check(const char *path);

#endif
