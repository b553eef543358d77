/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: files that are written whole or not at all. */
#ifndef CLI_FILE_H
#define CLI_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

struct cli_file {
    FILE *stream; /* to write to */
    const char *path;
    char name[PATH_MAX]; /* what is written to */
    bool beside;         /* it becomes path at the end */
};
/** Write to a file beside path, which is then renamed; a device, a pipe or a link is written to as it is. path: keeps. 0, or -1
 * and errno: then nothing is open. */
int cli_file_open(struct cli_file *file, const char *path);
/** good: everything was written, path is to be what was; else nothing is left of it. 0, or -1 and errno (of the write that
 *  failed). */
int cli_file_close(struct cli_file *file, bool good);
/** 0 if path can be written to, as far as that can be known now; else -1 and errno. */
int cli_file_check(const char *path);

#endif
