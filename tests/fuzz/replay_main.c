/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target over its committed corpus without libFuzzer, so that `make check` replays what fuzzing once found:
 *   REPLAYER CORPUS_DIRECTORY
 * Each file is given as it is, cut after each of its first bytes, and with each single bit of its first bytes flipped; without
 * the address sanitizer, which sees more, with one bit of each byte. Inputs are heap blocks of the exact size, so that the
 * sanitizer sees a read past the end. Fails on an unreadable or empty corpus; a target that finds something aborts.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX (1 << 20)
#define CUT_BYTES_MAX 4096
#define FLIP_BYTES_MAX 256
#if defined(__SANITIZE_ADDRESS__)
#define FLIP_EVERY 1
#else
#define FLIP_EVERY 9 /* another one in the next byte */
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static unsigned long runs;

static void one(const uint8_t *data, size_t bytes)
{
    uint8_t *exact = malloc(bytes > 0 ? bytes : 1);
    if (exact == NULL) {
        perror("malloc");
        exit(2);
    }
    if (bytes > 0) {
        memcpy(exact, data, bytes);
    }
    (void)LLVMFuzzerTestOneInput(exact, bytes);
    free(exact);
    runs++;
}

static void variants(uint8_t *data, size_t bytes)
{
    one(data, bytes);
    for (size_t cut = 0; cut < bytes && cut < CUT_BYTES_MAX; cut++) {
        one(data, cut);
    }
    for (size_t bit = 0; bit < bytes * 8 && bit < (size_t)FLIP_BYTES_MAX * 8; bit += FLIP_EVERY) {
        data[bit / 8] = (uint8_t)(data[bit / 8] ^ (1U << (bit % 8)));
        one(data, bytes);
        data[bit / 8] = (uint8_t)(data[bit / 8] ^ (1U << (bit % 8)));
    }
}

static int replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    uint8_t *data = malloc(FILE_BYTES_MAX);
    if (data == NULL) {
        perror("malloc");
        exit(2);
    }
    size_t bytes = fread(data, 1, FILE_BYTES_MAX, file);
    int bad = ferror(file) || fgetc(file) != EOF;
    (void)fclose(file);
    if (bad) {
        fprintf(stderr, "%s: unreadable or larger than %d bytes\n", path, FILE_BYTES_MAX);
    } else {
        variants(data, bytes);
    }
    free(data);
    return bad;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s CORPUS_DIRECTORY\n", argv[0]);
        return 2;
    }
    struct dirent **entries = NULL;
    int count = scandir(argv[1], &entries, NULL, alphasort);
    if (count < 0) {
        fprintf(stderr, "%s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    int files = 0;
    int bad = 0;
    for (int i = 0; i < count; i++) {
        char path[4096];
        int length = snprintf(path, sizeof(path), "%s/%s", argv[1], entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && length > 0 && (size_t)length < sizeof(path)) {
            fprintf(stderr, "%s\n", path); /* the last one named is the one that aborted */
            bad |= replay(path);
            files++;
        }
        free(entries[i]);
    }
    free(entries);
    if (files == 0) {
        fprintf(stderr, "%s: no file to replay\n", argv[1]);
        return 1;
    }
    printf("%d corpus files, %lu inputs\n", files, runs);
    return bad;
}
