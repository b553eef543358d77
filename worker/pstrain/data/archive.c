/* SPDX-License-Identifier: Apache-2.0 */
/* Reads entries of zip archives by libzip, which verifies checksums. Failures: no archive, damaged entry, no memory or libzip. */
#include "data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef PSI_ZIP
#include <zip.h>

/* Read an opened entry of `bytes` bytes, uncompressed, into out->text. */
static int read_entry(zip_file_t *entry, uint64_t bytes, struct data_text *out, char *err)
{
    char more = 0;
    out->text = bytes < SIZE_MAX ? malloc((size_t)bytes + 1) : NULL;
    if (out->text == NULL) {
        return cli_error(err, "%s: no memory for %llu bytes", out->path, (unsigned long long)bytes);
    }
    const zip_int64_t got = zip_fread(entry, out->text, bytes);
    if (got < 0 || (uint64_t)got != bytes || zip_fread(entry, &more, 1) != 0) { /* the last read makes libzip check the CRC */
        const char *why = zip_error_strerror(zip_file_get_error(entry));
        (void)cli_error(err, "%s: damaged: %s", out->path, got >= 0 && (uint64_t)got != bytes ? "it ends too early" : why);
        data_text_free(out);
        return -1;
    }
    out->bytes = (size_t)bytes;
    out->text[bytes] = '\0';
    return 0;
}

int data_entry_read(struct data_text *out, const char *archive, const char *name, char *err)
{
    int code = 0, result = -1;
    struct zip_stat stat;
    zip_t *zip = zip_open(archive, ZIP_RDONLY, &code);
    if (zip == NULL) {
        zip_error_t error;
        zip_error_init_with_code(&error, code);
        (void)cli_error(err, "%s: %s", archive, zip_error_strerror(&error));
        zip_error_fini(&error);
        return -1;
    }
    if (zip_stat(zip, name, 0, &stat) != 0) {
        result = 1;
    } else {
        zip_file_t *entry = zip_fopen(zip, name, 0);
        result = entry != NULL ? read_entry(entry, stat.size, out, err)
                               : cli_error(err, "%s: %s", out->path, zip_error_strerror(zip_get_error(zip)));
        if (entry != NULL) {
            (void)zip_fclose(entry);
        }
    }
    zip_discard(zip);
    return result;
}
#else
int data_entry_read(struct data_text *out, const char *archive, const char *name, char *err)
{
    (void)out, (void)name;
    return cli_error(
        err, "%s: this build reads no .npz (it was made without libzip): unzip it, and give the .npy files to npy:", archive);
}
#endif
