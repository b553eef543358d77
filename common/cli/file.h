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
    bool beside; /* true: `name` is a temporary file, renamed to path at the end; false: it is path */
};
/** Open a temporary file beside path, which cli_file_close() renames to path. A device, a pipe or a link is opened itself. path
 * must stay valid until then. Returns 0, or -1 with errno and nothing open. */
int cli_file_open(struct cli_file *file, const char *path);
/** Close the file. good: the caller has written all; the temporary file is then renamed to path, and 0 is returned. If good is
 * false or a write has failed, the temporary file is removed, path stays as it was, and -1 is returned with errno. A device, a
 * pipe or a link is only closed. */
int cli_file_close(struct cli_file *file, bool good);
/** Returns 0 if path can be written, as a trial with a temporary file beside path shows; otherwise -1 with errno. */
int cli_file_check(const char *path);

#endif
