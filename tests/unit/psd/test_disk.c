/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psd/durable/files.c on the system's files, psd/shell/place.c: the layout of a task's directory, who may have it, what a failure
 * at any call leaves, disks that are full.
 */
#include "fs_fault.h"
#include "test.h"

#include "common/crc32c.h"
#include "common/mem.h"
#include "psd/durable/files.h"
#include "psd/shell/place.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct psd_disk_file bars = {.kind = PSD_DISK_BARS};

struct disk {
    const char *dir; /* checkpoint_dir */
    struct psd_place place;
    struct fs_fault fault;
    struct psd_files files;
    bool open;
};

static void disk_close(void *disk)
{
    struct disk *d = disk;
    if (d->open) {
        psd_files_close(&d->files);
        psd_place_close(&d->place);
        d->open = false;
    }
}

static ps_status disk_open(struct disk *d, struct psi_err *err)
{
    struct psd_fs fs;
    ps_status st = psd_place_open(&d->place, d->dir, "ps", 0, "/job:ps/task:0", err);
    if (st != PS_OK) {
        return st;
    }
    psd_place_fs(&d->place, &fs);
    fs_fault_init(&d->fault, &fs, &fs);
    d->fault.sync_not = true;
    st = psd_files_open(&d->files, &fs, err);
    if (st != PS_OK) {
        psd_place_close(&d->place);
    }
    d->open = st == PS_OK;
    return st;
}

static struct disk *disk_at(const char *dir)
{
    struct psi_err err;
    struct disk *d = test_alloc(sizeof(*d));
    d->dir = dir;
    assert_ok(disk_open(d, &err), &err);
    test_later(disk_close, d);
    return d;
}

static struct disk *disk_new(void)
{
    return disk_at(test_path(test_dir(), "checkpoints"));
}

static ps_status reopen(struct disk *d, struct psi_err *err)
{
    disk_close(d);
    return disk_open(d, err);
}

static ps_status run(struct disk *d, enum psd_disk_kind kind, const struct psd_disk_file *file, const char *text,
                     struct psi_err *err)
{
    struct psd_disk_op op = {.id = 1, .kind = kind, .file = *file, .in = text, .bytes = text != NULL ? strlen(text) : 0};
    size_t bytes = 0;
    return psd_files_run(&d->files, &op, &bytes, err);
}

static struct psd_disk_file file_of(uint64_t number, enum psd_disk_file_kind kind, uint32_t index)
{
    return (struct psd_disk_file){.number = number, .kind = kind, .index = index};
}

/* The file has the text; the first error. */
static ps_status put(struct disk *d, const struct psd_disk_file *file, const char *text, struct psi_err *err)
{
    struct psi_err own = {.code = PS_OK};
    ps_status st = run(d, PSD_DISK_BEGIN, file, NULL, &own);
    ps_status wrote = run(d, PSD_DISK_WRITE, file, text, st == PS_OK ? &own : err);
    assert_int_equal(st != PS_OK ? st : PS_OK, st != PS_OK ? wrote : PS_OK); /* it stays failed, as it was */
    ps_status published = run(d, PSD_DISK_PUBLISH, file, NULL, wrote == PS_OK ? &own : err);
    if (wrote != PS_OK) {
        assert_int_equal(published, wrote);
    }
    if (err != NULL) {
        *err = own;
    }
    return published;
}

static void expect_put(struct disk *d, const struct psd_disk_file *file, const char *text)
{
    struct psi_err err;
    assert_ok(put(d, file, text, &err), &err);
}

/* What is in the file, NULL: there is none. */
static const char *text_of(struct disk *d, const struct psd_disk_file *file)
{
    char *text = test_alloc(256);
    struct psd_disk_op op = {.id = 1, .kind = PSD_DISK_READ, .file = *file, .out = text, .bytes = 255};
    struct psi_err err;
    size_t bytes = 0;
    ps_status st = psd_files_run(&d->files, &op, &bytes, &err);
    if (st == PS_NOT_FOUND) {
        return NULL;
    }
    assert_ok(st, &err);
    assert_int_equal(strlen(text), bytes);
    return text;
}

static void expect_text(struct disk *d, const struct psd_disk_file *file, const char *text)
{
    const char *is = text_of(d, file);
    assert_non_null(is);
    assert_string_equal(is, text);
}

/* All that is listed, a few at a time: "path:bytes path:bytes". */
static const char *listed(struct disk *d, size_t page)
{
    char *all = test_alloc(2048);
    struct psd_disk_entry got[8];
    struct psd_disk_op op = {.id = 1, .kind = PSD_DISK_LIST, .out = got, .bytes = page * sizeof(got[0])};
    struct psi_err err;
    size_t bytes = 0, used = 0;
    do {
        assert_ok(psd_files_run(&d->files, &op, &bytes, &err), &err);
        for (size_t i = 0; i < bytes / sizeof(got[0]); i++) {
            char path[PSD_DISK_NAME_BYTES_MAX];
            used += (size_t)snprintf(all + used, 2048 - used, "%s%s:%llu", used > 0 ? " " : "",
                                     psd_files_path(&got[i].file, path), (unsigned long long)got[i].bytes);
            op.file = got[i].file;
        }
    } while (bytes == page * sizeof(got[0]));
    return all;
}

static const char *path_of(const struct disk *d, const char *name)
{
    return test_path(test_path(d->dir, "ps-0"), name);
}

static void make_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0);
}

#define TWELVE "00000000000000000012/"

static void put_twelve(struct disk *d)
{
    struct psd_disk_file file = file_of(12, PSD_DISK_STATE, 0);
    expect_put(d, &file, "state of 12");
    file = file_of(12, PSD_DISK_MODEL, 3);
    expect_put(d, &file, "three");
    file = file_of(12, PSD_DISK_MODEL, 0);
    expect_put(d, &file, "zero");
    file = file_of(12, PSD_DISK_MANIFEST, 0);
    expect_put(d, &file, "manifest of 12");
}
#define LIST_OF_TWELVE                                                                                                           \
    TWELVE "model-00000.safetensors:4 " TWELVE "model-00003.safetensors:5 " TWELVE "state:11 " TWELVE "manifest:14"

TEST(test_layout)
{
    struct disk *d = disk_new();
    struct stat st;
    assert_string_equal(listed(d, 4), "");
    expect_put(d, &bars, "no bars");
    put_twelve(d);
    struct psd_disk_file file = file_of(9, PSD_DISK_STATE, 0);
    expect_put(d, &file, "");
    for (size_t page = 1; page <= 7; page++) {
        assert_string_equal(listed(d, page), "bars:7 00000000000000000009/state:0 " LIST_OF_TWELVE);
    }
    file = file_of(12, PSD_DISK_MODEL, 3);
    expect_text(d, &file, "three");
    assert_int_equal(stat(path_of(d, TWELVE "model-00003.safetensors"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(stat(path_of(d, ""), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    expect_put(d, &bars, "other bars");
    expect_text(d, &bars, "other bars");
    assert_int_equal(run(d, PSD_DISK_REMOVE, &file, NULL, NULL), PS_OK);
    assert_string_equal(listed(d, 8), "bars:10 00000000000000000009/state:0");
    assert_int_equal(access(path_of(d, TWELVE), F_OK), -1);
    assert_int_equal(run(d, PSD_DISK_REMOVE, &file, NULL, NULL), PS_OK); /* there is none */
}

TEST(test_parts_of_a_file)
{
    struct disk *d = disk_new();
    const struct psd_disk_file file = file_of(1, PSD_DISK_STATE, 0);
    char got[8] = "";
    struct psd_disk_op op = {.id = 1, .kind = PSD_DISK_WRITE, .file = file, .offset = 3, .in = "defg", .bytes = 4};
    size_t bytes = 0;
    d->fault.write_most = 2; /* the system takes and gives as much as it likes */
    assert_int_equal(run(d, PSD_DISK_BEGIN, &file, NULL, NULL), PS_OK);
    assert_int_equal(psd_files_run(&d->files, &op, &bytes, NULL), PS_OK);
    assert_int_equal(run(d, PSD_DISK_WRITE, &file, "abc", NULL), PS_OK);
    assert_int_equal(run(d, PSD_DISK_PUBLISH, &file, NULL, NULL), PS_OK);
    op = (struct psd_disk_op){.id = 1, .kind = PSD_DISK_READ, .file = file, .offset = 1, .out = got, .bytes = 5};
    assert_int_equal(psd_files_run(&d->files, &op, &bytes, NULL), PS_OK);
    assert_int_equal(bytes, 5);
    assert_memory_equal(got, "bcdef", 5);
    op.offset = 5;
    assert_int_equal(psd_files_run(&d->files, &op, &bytes, NULL), PS_OK);
    assert_int_equal(bytes, 2); /* there were no more */
    op.offset = 7;
    assert_int_equal(psd_files_run(&d->files, &op, &bytes, NULL), PS_OK);
    assert_int_equal(bytes, 0);
}

/* Each block has the CRC of what is there now, however the bytes come, and nothing behind them is written. */
TEST(test_sums)
{
    enum { BLOCKS = 5, BYTES = BLOCKS * PSD_DISK_SUM_BYTES - 100 };
    static const size_t most[] = {0, 1000, PSD_DISK_SUM_BYTES, PSD_DISK_SUM_BYTES + 1};
    struct disk *d = disk_new();
    const struct psd_disk_file file = file_of(1, PSD_DISK_MODEL, 0);
    uint8_t *in = test_alloc(BYTES), *out = test_alloc(BYTES);
    uint32_t sums[BLOCKS + 1];
    size_t bytes = 0;
    for (size_t i = 0; i < BYTES; i++) {
        in[i] = (uint8_t)(i * 7 + i / 251);
    }
    struct psd_disk_op op = {.id = 1, .kind = PSD_DISK_WRITE, .file = file, .in = in, .bytes = BYTES};
    assert_int_equal(run(d, PSD_DISK_BEGIN, &file, NULL, NULL), PS_OK);
    assert_int_equal(psd_files_run(&d->files, &op, &bytes, NULL), PS_OK);
    assert_int_equal(run(d, PSD_DISK_PUBLISH, &file, NULL, NULL), PS_OK);
    for (size_t k = 0; k < 2 * sizeof(most) / sizeof(most[0]); k++) {
        uint64_t from = k % 2 == 0 ? 0 : 77; /* blocks count from there */
        size_t n = BYTES - from;
        d->fault.write_most = most[k / 2];
        memset(sums, 0, sizeof(sums));
        op = (struct psd_disk_op){
            .id = 1, .kind = PSD_DISK_READ, .file = file, .offset = from, .out = out, .sums = sums, .bytes = n};
        assert_int_equal(psd_files_run(&d->files, &op, &bytes, NULL), PS_OK);
        assert_int_equal(bytes, n);
        for (size_t at = 0, i = 0; at < n; at += PSD_DISK_SUM_BYTES, i++) {
            size_t left = n - at < PSD_DISK_SUM_BYTES ? n - at : PSD_DISK_SUM_BYTES;
            assert_int_equal(sums[i], psi_crc32c(0, in + from + at, left));
        }
        assert_int_equal(sums[BLOCKS], 0);
    }
}

TEST(test_what_is_not_whole_goes)
{
    struct disk *d = disk_new();
    struct psi_err err;
    struct psd_disk_file file = file_of(13, PSD_DISK_STATE, 0);
    put_twelve(d);
    assert_int_equal(run(d, PSD_DISK_BEGIN, &file, NULL, NULL), PS_OK);
    assert_int_equal(run(d, PSD_DISK_WRITE, &file, "half", NULL), PS_OK);
    file = file_of(12, PSD_DISK_MODEL, 1);
    assert_int_equal(run(d, PSD_DISK_BEGIN, &file, NULL, NULL), PS_OK);
    assert_int_equal(run(d, PSD_DISK_BEGIN, &bars, NULL, NULL), PS_OK);
    assert_int_equal(access(path_of(d, "00000000000000000013/state.tmp"), F_OK), 0);
    assert_string_equal(listed(d, 8), LIST_OF_TWELVE);
    assert_int_equal(mkdir(path_of(d, "00000000000000000004.tmp"), 0700), 0);
    make_file(path_of(d, "00000000000000000004.tmp/state"));
    make_file(path_of(d, "notes.tmp")); /* not ours, nor the next one */
    make_file(path_of(d, TWELVE "notes"));
    assert_ok(reopen(d, &err), &err);
    assert_string_equal(listed(d, 8), LIST_OF_TWELVE);
    assert_int_equal(access(path_of(d, "00000000000000000013"), F_OK), -1);
    assert_int_equal(access(path_of(d, "00000000000000000004.tmp"), F_OK), -1);
    assert_int_equal(access(path_of(d, TWELVE "model-00001.safetensors.tmp"), F_OK), -1);
    assert_int_equal(access(path_of(d, "bars.tmp"), F_OK), -1);
    assert_int_equal(access(path_of(d, "notes.tmp"), F_OK), 0);
    assert_int_equal(access(path_of(d, TWELVE "notes"), F_OK), 0);
}

TEST(test_what_is_not_ours_in_a_checkpoint)
{
    struct disk *d = disk_new();
    struct psi_err err;
    const struct psd_disk_file file = file_of(12, PSD_DISK_NO_FILE, 0);
    const char *name = TWELVE "a-directory-of-somebody";
    put_twelve(d);
    assert_int_equal(mkdir(path_of(d, name), 0700), 0);
    make_file(path_of(d, TWELVE "a-name-that-is-longer-than-any-of-ours-can-be-and-that-nobody-is-to-remove"));
    make_file(path_of(d, TWELVE "notes"));
    assert_ok(run(d, PSD_DISK_REMOVE, &file, NULL, &err), &err);
    assert_string_equal(listed(d, 8), "");
    assert_ok(reopen(d, &err), &err); /* it starts all the same */
    assert_string_equal(listed(d, 8), "");
    assert_int_equal(access(path_of(d, "00000000000000000012.tmp/a-directory-of-somebody"), F_OK), 0);
    assert_int_equal(access(path_of(d, "00000000000000000012.tmp/notes"), F_OK), -1);
    assert_int_equal(access(path_of(d, "00000000000000000012.tmp/state"), F_OK), -1);
}

TEST(test_out_of_order)
{
    struct disk *d = disk_new();
    struct psi_err err;
    struct psd_disk_file file = file_of(2, PSD_DISK_STATE, 0);
    assert_fails(run(d, PSD_DISK_WRITE, &file, "x", &err), PS_FAILED_PRECONDITION, &err,
                 "00000000000000000002/state was not begun");
    assert_fails(run(d, PSD_DISK_PUBLISH, &file, NULL, &err), PS_FAILED_PRECONDITION, &err, "not begun");
    assert_fails(run(d, PSD_DISK_READ, &file, NULL, &err), PS_NOT_FOUND, &err, "00000000000000000002/state");
    for (uint32_t i = 0; i < PSD_DISK_BEGUN_MAX; i++) {
        file = file_of(2, PSD_DISK_MODEL, i);
        assert_ok(run(d, PSD_DISK_BEGIN, &file, NULL, &err), &err);
    }
    assert_fails(run(d, PSD_DISK_BEGIN, &bars, NULL, &err), PS_RESOURCE_EXHAUSTED, &err, "64 other files");
    assert_ok(run(d, PSD_DISK_BEGIN, &file, NULL, &err), &err); /* the same again: from the beginning */
    assert_ok(run(d, PSD_DISK_REMOVE, &file, NULL, &err), &err);
    expect_put(d, &bars, "room again");
    assert_fails(run(d, PSD_DISK_PUBLISH, &file, NULL, &err), PS_FAILED_PRECONDITION, &err, "not begun");
}

/* A new state and manifest, new bars; the old checkpoint goes. The first error. */
static ps_status change_all(struct disk *d, struct psi_err *err)
{
    struct psd_disk_file file = file_of(13, PSD_DISK_STATE, 0);
    ps_status st = put(d, &file, "new state", err);
    file = file_of(13, PSD_DISK_MANIFEST, 0);
    st = st == PS_OK ? put(d, &file, "new manifest", err) : st;
    st = st == PS_OK ? put(d, &bars, "new bars", err) : st;
    file = file_of(12, PSD_DISK_NO_FILE, 0);
    return st == PS_OK ? run(d, PSD_DISK_REMOVE, &file, NULL, err) : st;
}

static void expect_whole(struct disk *d)
{
    const struct psd_disk_file state = file_of(13, PSD_DISK_STATE, 0), manifest = file_of(13, PSD_DISK_MANIFEST, 0);
    const char *is_bars = text_of(d, &bars), *is_state = text_of(d, &state), *is_manifest = text_of(d, &manifest);
    assert_non_null(is_bars);
    assert_true(strcmp(is_bars, "old bars") == 0 || strcmp(is_bars, "new bars") == 0);
    assert_true(is_state == NULL || strcmp(is_state, "new state") == 0);
    assert_true(is_manifest == NULL || strcmp(is_manifest, "new manifest") == 0);
    const char *list = listed(d, 8);
    bool twelve = strstr(list, LIST_OF_TWELVE) != NULL;
    assert_true(twelve || strstr(list, TWELVE) == NULL); /* all of it or nothing */
    assert_true(twelve || is_manifest != NULL);          /* it went when the new one was there */
}

TEST(test_each_failure)
{
    static const struct {
        int why;
        ps_status st;
        const char *text;
    } faults[] = {{EIO, PS_DATA_LOSS, "Input/output"},
                  {ENOSPC, PS_RESOURCE_EXHAUSTED, "disk is full"},
                  {EROFS, PS_PERMISSION_DENIED, "Read-only"},
                  {EMFILE, PS_RESOURCE_EXHAUSTED, "open files"}};
    for (size_t f = 0; f < ARRAY_COUNT(faults); f++) {
        bool fired = true;
        for (uint64_t n = 1; fired; n++) {
            struct disk *d = disk_new();
            struct psi_err err;
            put_twelve(d);
            expect_put(d, &bars, "old bars");
            d->fault.calls = 0;
            d->fault.fail_at = n;
            d->fault.why = faults[f].why;
            ps_status st = change_all(d, &err);
            fired = d->fault.calls >= n;
            d->fault.fail_at = 0;
            if (fired) {
                assert_int_equal(st, faults[f].st);
                assert_non_null(strstr(err.text, faults[f].text));
            } else {
                assert_int_equal(st, PS_OK);
                assert_true(n > 20); /* that many calls there are, and each has failed once */
            }
            expect_whole(d);
            if (n % 2 == 0) {
                assert_ok(reopen(d, &err), &err);
                expect_whole(d);
            }
            assert_ok(change_all(d, &err), &err); /* the next attempt */
            assert_string_equal(listed(d, 8), "bars:8 00000000000000000013/state:9 00000000000000000013/manifest:12");
            disk_close(d);
        }
    }
}

TEST(test_each_failure_of_an_open)
{
    bool fired = true;
    for (uint64_t n = 1; fired; n++) {
        struct disk *d = disk_new();
        struct psi_err err;
        struct psd_files files;
        struct psd_fs fs = d->files.fs;
        const struct psd_disk_file file = file_of(13, PSD_DISK_STATE, 0);
        put_twelve(d);
        assert_ok(run(d, PSD_DISK_BEGIN, &file, NULL, &err), &err);
        assert_int_equal(mkdir(path_of(d, "00000000000000000004.tmp"), 0700), 0);
        make_file(path_of(d, "00000000000000000004.tmp/state"));
        psd_files_close(&d->files);
        d->fault.calls = 0;
        d->fault.fail_at = n;
        d->fault.why = EIO;
        ps_status st = psd_files_open(&files, &fs, &err);
        fired = d->fault.calls >= n;
        d->fault.fail_at = 0;
        assert_int_equal(st, fired ? PS_DATA_LOSS : PS_OK);
        assert_ok(psd_files_open(&d->files, &fs, &err), &err);
        assert_string_equal(listed(d, 8), LIST_OF_TWELVE);
        disk_close(d);
    }
}

TEST(test_each_shortage_of_memory)
{
    bool fired = true;
    for (int64_t n = 0; fired; n++) {
        struct disk *d = disk_new();
        struct psi_err err;
        struct psd_disk_entry got[8];
        struct psd_disk_op op = {.id = 1, .kind = PSD_DISK_LIST, .out = got, .bytes = sizeof(got)};
        size_t bytes = 0;
        put_twelve(d);
        expect_put(d, &bars, "old bars");
        psi_mem_fail_after(n);
        ps_status st = psd_files_run(&d->files, &op, &bytes, &err);
        st = st == PS_OK ? change_all(d, &err) : st;
        fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        assert_int_equal(st, fired ? PS_RESOURCE_EXHAUSTED : PS_OK);
        assert_true(fired || n > 5);
        expect_whole(d);
        assert_ok(change_all(d, &err), &err);
        disk_close(d);
    }
}

/* An fsync that has failed is not tried again, even where the core asks for it. */
TEST(test_failed_sync_stays)
{
    struct disk *d = disk_new();
    struct psi_err err;
    expect_put(d, &bars, "old bars");
    assert_ok(run(d, PSD_DISK_BEGIN, &bars, NULL, &err), &err);
    assert_ok(run(d, PSD_DISK_WRITE, &bars, "new bars", &err), &err);
    d->fault.kinds = FS_SYNC;
    d->fault.calls = 0;
    d->fault.fail_at = 1;
    d->fault.why = EIO;
    assert_fails(run(d, PSD_DISK_PUBLISH, &bars, NULL, &err), PS_DATA_LOSS, &err, "bars: fsync: Input/output error");
    for (int i = 0; i < 2; i++) {
        assert_fails(run(d, PSD_DISK_PUBLISH, &bars, NULL, &err), PS_DATA_LOSS, &err, "bars: fsync: Input/output error");
    }
    assert_int_equal(d->fault.calls, 1);
    expect_text(d, &bars, "old bars");
    expect_put(d, &bars, "newer bars"); /* another file */
    expect_text(d, &bars, "newer bars");
}

/* ---- whose directory it is ---- */

TEST(test_in_use)
{
    struct disk *d = disk_new();
    struct disk other = {.dir = d->dir};
    struct psi_err err;
    char pid[32];
    (void)snprintf(pid, sizeof(pid), "process %ld (/job:ps/task:0)", (long)getpid());
    assert_fails(disk_open(&other, &err), PS_ALREADY_EXISTS, &err, pid);
    assert_non_null(strstr(err.text, "another checkpoint_dir"));
    disk_close(d);
    assert_ok(disk_open(&other, &err), &err);
    disk_close(&other);
}

TEST(test_somebody_elses)
{
    struct disk *d = disk_new();
    struct psi_err err;
    assert_int_equal(chmod(path_of(d, ""), 0770), 0);
    assert_fails(reopen(d, &err), PS_PERMISSION_DENIED, &err, "can be written by others (mode 0770): chmod 700 it");
    assert_int_equal(chmod(path_of(d, ""), 0755), 0); /* as a copy of it may be */
    assert_ok(reopen(d, &err), &err);
    if (geteuid() != 0) {
        print_message("the owner is not tested: that takes root\n");
        return;
    }
    assert_int_equal(chown(path_of(d, ""), 1234, (gid_t)-1), 0);
    assert_fails(reopen(d, &err), PS_PERMISSION_DENIED, &err, "belongs to user 1234, and psd runs as user 0");
}

TEST(test_wrong_places)
{
    const char *dir = test_dir();
    struct disk d = {.dir = test_path(dir, "missing/checkpoints")};
    struct psi_err err;
    assert_fails(disk_open(&d, &err), PS_NOT_FOUND, &err, "missing/checkpoints: mkdir: No such file");
    d.dir = test_path(dir, "file");
    make_file(d.dir);
    assert_fails(disk_open(&d, &err), PS_INVALID_ARGUMENT, &err, "file: open: Not a directory");
    d.dir = dir;
    make_file(test_path(dir, "ps-0"));
    assert_fails(disk_open(&d, &err), PS_INVALID_ARGUMENT, &err, "ps-0 is a symbolic link or no directory");
    assert_int_equal(unlink(test_path(dir, "ps-0")), 0);
    char *far = test_alloc(2000);
    memset(far, 'x', 1999);
    d.dir = far;
    assert_fails(disk_open(&d, &err), PS_INVALID_ARGUMENT, &err, "checkpoint_dir: File name too long");
}

TEST(test_symbolic_links)
{
    struct disk *d = disk_new();
    struct psi_err err;
    const char *elsewhere = test_dir();
    struct psd_disk_file file = file_of(5, PSD_DISK_STATE, 0);
    put_twelve(d);
    make_file(test_path(elsewhere, "state"));
    assert_int_equal(symlink(elsewhere, path_of(d, "00000000000000000005")), 0);
    assert_fails(run(d, PSD_DISK_READ, &file, NULL, &err), PS_INVALID_ARGUMENT, &err, "00000000000000000005/state");
    assert_fails(put(d, &file, "away", &err), PS_INVALID_ARGUMENT, &err, "00000000000000000005/state");
    assert_string_equal(listed(d, 8), LIST_OF_TWELVE);
    assert_fails(reopen(d, &err), PS_INVALID_ARGUMENT, &err, "00000000000000000005 is a symbolic link");
    assert_int_equal(unlink(path_of(d, "00000000000000000005")), 0);
    assert_ok(reopen(d, &err), &err);
    file = file_of(12, PSD_DISK_MODEL, 7);
    assert_int_equal(symlink(test_path(elsewhere, "state"), path_of(d, TWELVE "model-00007.safetensors")), 0);
    assert_fails(run(d, PSD_DISK_READ, &file, NULL, &err), PS_INVALID_ARGUMENT, &err, TWELVE "model-00007.safetensors");
    assert_string_equal(listed(d, 8), LIST_OF_TWELVE);
    assert_fails(reopen(d, &err), PS_INVALID_ARGUMENT, &err, TWELVE "model-00007.safetensors is a symbolic link");
    assert_int_equal(unlink(path_of(d, TWELVE "model-00007.safetensors")), 0);
    assert_int_equal(mkfifo(path_of(d, TWELVE "model-00007.safetensors"), 0600), 0);
    assert_fails(reopen(d, &err), PS_INVALID_ARGUMENT, &err, "or something else");
    assert_int_equal(unlink(path_of(d, TWELVE "model-00007.safetensors")), 0);
    assert_ok(reopen(d, &err), &err);
    assert_int_equal(mkfifo(path_of(d, TWELVE "model-00007.safetensors"), 0600), 0);
    assert_fails(run(d, PSD_DISK_READ, &file, NULL, &err), PS_INVALID_ARGUMENT, &err, TWELVE "model-00007.safetensors");
    assert_int_equal(unlink(path_of(d, TWELVE "model-00007.safetensors")), 0);
    assert_int_equal(symlink(test_path(elsewhere, "bars"), path_of(d, "bars.tmp")), 0);
    expect_put(d, &bars, "here");
    assert_int_equal(access(test_path(elsewhere, "bars"), F_OK), -1);
    disk_close(d);
    assert_int_equal(unlink(path_of(d, "lock")), 0);
    assert_int_equal(symlink(test_path(elsewhere, "lock"), path_of(d, "lock")), 0);
    assert_fails(disk_open(d, &err), PS_INVALID_ARGUMENT, &err, "lock");
    assert_int_equal(access(test_path(elsewhere, "lock"), F_OK), -1);
    assert_int_equal(rename(path_of(d, ""), test_path(elsewhere, "ps-0")), 0);
    assert_int_equal(symlink(test_path(elsewhere, "ps-0"), test_path(d->dir, "ps-0")), 0);
    assert_fails(disk_open(d, &err), PS_INVALID_ARGUMENT, &err, "ps-0 is a symbolic link");
}

static void go_back(void *fd)
{
    assert_int_equal(fchdir(*(int *)fd), 0);
    (void)close(*(int *)fd);
}

static void expect_stale(struct disk *d)
{
    struct psi_err err;
    struct psd_disk_file file = file_of(12, PSD_DISK_MANIFEST, 0);
    assert_fails(put(d, &bars, "nowhere", &err), PS_FAILED_PRECONDITION, &err, "bars");
    assert_fails(put(d, &file, "nowhere", &err), PS_FAILED_PRECONDITION, &err, "moved, removed or replaced");
}

/* Nothing is said to be on the disk that the next start would not find: at the begin of a file, and at its end. */
TEST(test_moved_away)
{
    struct disk *d = disk_new();
    struct psi_err err;
    struct psd_disk_file file = file_of(12, PSD_DISK_MANIFEST, 0);
    const char *away = test_path(test_dir(), "ps-0"), *top = test_path(d->dir, "ps-0"), *above = test_path(test_dir(), "all");
    d->fault.sync_not = false;
    expect_put(d, &bars, "here");
    assert_int_equal(rename(top, away), 0);
    expect_stale(d);
    assert_int_equal(mkdir(top, 0700), 0); /* another one in its place */
    expect_stale(d);
    assert_int_equal(rmdir(top), 0);
    assert_int_equal(symlink(away, top), 0); /* which the next start would refuse */
    expect_stale(d);
    assert_int_equal(unlink(top), 0);
    assert_int_equal(rename(away, top), 0);
    expect_text(d, &bars, "here");
    assert_int_equal(rename(d->dir, above), 0);
    expect_stale(d);
    assert_int_equal(rename(above, d->dir), 0);
    assert_ok(run(d, PSD_DISK_BEGIN, &file, NULL, &err), &err);
    assert_int_equal(rename(top, away), 0);
    assert_fails(run(d, PSD_DISK_PUBLISH, &file, NULL, &err), PS_FAILED_PRECONDITION, &err, "moved, removed or replaced");
    assert_int_equal(rename(away, top), 0);
    expect_put(d, &file, "there");
    expect_text(d, &file, "there");
}

/* A relative path is looked up once: where the process stands later, and what becomes of the path, is the same to it. */
TEST(test_looked_up_once)
{
    const char *dir = test_dir();
    int *here = test_alloc(sizeof(*here));
    *here = open(".", O_RDONLY | O_DIRECTORY);
    assert_true(*here >= 0);
    assert_int_equal(chdir(dir), 0);
    test_later(go_back, here);
    struct disk *d = disk_at("relative");
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(rename(test_path(dir, "relative"), test_path(dir, "moved")), 0);
    expect_put(d, &bars, "here");
    assert_int_equal(access(test_path(dir, "moved/ps-0/bars"), F_OK), 0);
}

/* ---- disks that are full ---- */

static void no_limit(void *limit)
{
    sigset_t one;
    PSI_IGNORE(setrlimit(RLIMIT_FSIZE, limit)); /* the soft limit rises again */
    sigemptyset(&one);
    sigaddset(&one, SIGXFSZ);
    const struct timespec now = {0};
    while (sigtimedwait(&one, NULL, &now) == SIGXFSZ) {
    }
    (void)pthread_sigmask(SIG_UNBLOCK, &one, NULL);
}

TEST(test_file_too_large)
{
    struct disk *d = disk_new();
    struct psi_err err;
    struct rlimit *before = test_alloc(sizeof(*before));
    sigset_t one;
    expect_put(d, &bars, "old");
    sigemptyset(&one);
    sigaddset(&one, SIGXFSZ);
    (void)pthread_sigmask(SIG_BLOCK, &one, NULL); /* as the disk thread has it */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, before), 0);
    test_later(no_limit, before);
    struct rlimit small = {.rlim_cur = 4, .rlim_max = before->rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_fails(put(d, &bars, "longer than that", &err), PS_RESOURCE_EXHAUSTED, &err, "bars: write: File too large");
    expect_text(d, &bars, "old");
}

static void unmount(void *path)
{
    (void)umount2(path, MNT_DETACH);
}

/* A small file system in memory, until the case's end; false: this user may not mount. */
static bool mount_small(const char *dir, const char *options)
{
    if (mount("psd-test", dir, "tmpfs", 0, options) != 0) {
        assert_true(errno == EPERM || errno == EACCES || errno == ENODEV);
        print_message("no file system of our own: mount: %s\n", strerror(errno));
        return false;
    }
    test_later(unmount, (void *)(uintptr_t)dir);
    return true;
}

TEST(test_disk_full)
{
    const char *dir = test_dir();
    if (!mount_small(dir, "size=64k,mode=0700")) {
        skip();
    }
    struct disk *d = disk_at(dir);
    struct psi_err err;
    char *much = test_alloc(128 << 10);
    memset(much, 'x', (128 << 10) - 1);
    put_twelve(d);
    expect_put(d, &bars, "old");
    const struct psd_disk_file file = file_of(13, PSD_DISK_STATE, 0);
    assert_fails(put(d, &file, much, &err), PS_RESOURCE_EXHAUSTED, &err, "disk is full");
    expect_text(d, &bars, "old");
    assert_int_equal(run(d, PSD_DISK_REMOVE, &file, NULL, NULL), PS_OK);
    assert_string_equal(listed(d, 8), "bars:3 " LIST_OF_TWELVE);
    expect_put(d, &bars, "newer"); /* what the failed one had taken is free again */
}

TEST(test_no_inode)
{
    const char *dir = test_dir();
    if (!mount_small(dir, "size=1m,nr_inodes=8,mode=0700")) {
        skip();
    }
    struct disk *d = disk_at(dir);
    struct psi_err err;
    ps_status st = PS_OK;
    expect_put(d, &bars, "old");
    struct psd_disk_file file = file_of(13, PSD_DISK_MODEL, 0);
    for (uint32_t i = 0; st == PS_OK && i < 8; i++) {
        file.index = i;
        st = put(d, &file, "", &err);
    }
    assert_int_equal(st, PS_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(err.text, "out of inodes"));
    assert_int_equal(run(d, PSD_DISK_REMOVE, &file, NULL, NULL), PS_OK);
    expect_text(d, &bars, "old");
    expect_put(d, &bars, "newer");
}

TEST(test_read_only)
{
    const char *dir = test_dir();
    if (!mount_small(dir, "size=64k,mode=0700")) {
        skip();
    }
    struct disk d = {.dir = dir};
    struct psi_err err;
    assert_int_equal(mount(NULL, dir, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
    assert_fails(disk_open(&d, &err), PS_PERMISSION_DENIED, &err, "Read-only file system");
}
