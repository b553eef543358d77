/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common/auth/key_file.c: which file is found, which is refused, changes that keep what they do not name, a full disk, processes
 * that change one file at once, and memory without a secret afterwards.
 */
#include "test.h"

#include "common/auth/key_file.h"
#include "common/mem.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define A "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const char *dir, *path;

BEFORE_EACH
{
    dir = test_dir();
    path = test_path(dir, "psd.keys");
}

static void put(const char *at, const char *text, mode_t mode)
{
    const int fd = open(at, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(close(fd), 0);
}

static const char *text_of(const char *at)
{
    static char text[8192];
    const int fd = open(at, O_RDONLY);
    assert_true(fd >= 0);
    const ssize_t n = read(fd, text, sizeof(text) - 1);
    assert_true(n >= 0);
    text[n] = '\0';
    assert_int_equal(close(fd), 0);
    return text;
}

static mode_t mode_of(const char *at)
{
    struct stat st;
    assert_int_equal(stat(at, &st), 0);
    return st.st_mode & 07777;
}

/* Names in the directory, "." and ".." apart. */
static int names_in_dir(void)
{
    int count = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    while (readdir(d) != NULL) {
        count++;
    }
    assert_int_equal(closedir(d), 0);
    return count - 2;
}

static struct psi_key key_of(const char *name, const char *key_id)
{
    struct psi_key key = {.role = "worker", .use = true};
    (void)snprintf(key.name, sizeof(key.name), "%s", name);
    (void)snprintf(key.key_id, sizeof(key.key_id), "%s", key_id);
    memset(key.secret, 0xa5, sizeof(key.secret));
    return key;
}

/* How many keys it has; the file is good. */
static size_t count_of(const char *at)
{
    struct psi_keys *keys = NULL;
    struct psi_err err = {0};
    assert_ok(psi_key_file_read(at, &keys, &err), &err);
    const size_t n = psi_keys_count(keys);
    psi_keys_free(keys);
    return n;
}

static void assert_refused(const char *at, ps_status status, const char *says)
{
    struct psi_err err;
    struct psi_keys *keys = NULL;
    assert_fails(psi_key_file_read(at, &keys, &err), status, &err, says);
    assert_null(keys);
    assert_memory_equal(err.text, "key file: ", 10);
    assert_non_null(strstr(err.text, at));
}

/* ---- which file ---- */

TEST(test_found_by)
{
    char found[PATH_MAX], own[PATH_MAX];
    const bool in_etc = access("/etc/psd/psd.keys", R_OK) == 0;
    assert_int_equal(setenv("HOME", dir, 1), 0);
    assert_int_equal(psi_key_file_find(NULL, NULL, found), in_etc);
    assert_true(psi_key_file_find("given", "env", found));
    assert_string_equal(found, "given");
    assert_true(psi_key_file_find("", "env", found));
    assert_string_equal(found, "env"); /* also where it is not there */
    snprintf(own, sizeof(own), "%s/.config", dir);
    assert_int_equal(mkdir(own, 0700), 0);
    snprintf(own, sizeof(own), "%s/.config/psd", dir);
    assert_int_equal(mkdir(own, 0700), 0);
    assert_int_equal(psi_key_file_find(NULL, "", found), in_etc);
    snprintf(own, sizeof(own), "%s/.config/psd/key", dir);
    put(own, "", 0644); /* there is one, and reading it says what is wrong */
    assert_true(psi_key_file_find(NULL, NULL, found));
    assert_string_equal(found, own);
    assert_true(psi_key_file_find(NULL, "env", found));
    assert_string_equal(found, "env");
    assert_int_equal(unsetenv("HOME"), 0);
    assert_int_equal(psi_key_file_find(NULL, NULL, found), in_etc);
}

/* ---- reading ---- */

TEST(test_modes)
{
    static const struct {
        mode_t mode;
        const char *says; /* NULL: good */
    } rows[] = {{0600, NULL},
                {0400, NULL},
                {0700, NULL},
                {0644, "mode 0644 lets others read it, and it holds secrets: chmod 600 '"},
                {0604, "mode 0604 lets others read it"},
                {0602, "mode 0602 lets others write it"},
                {0620, "mode 0620 lets others write it"},
                {0666, "mode 0666 lets others write it"},
                {0660, "mode 0660 lets others write it"}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        put(path, "w0 00000001 worker " A " use\n", rows[i].mode);
        if (rows[i].says == NULL) {
            assert_int_equal(count_of(path), 1);
        } else {
            assert_refused(path, PS_PERMISSION_DENIED, rows[i].says);
        }
    }
}

static void root_again(void *unused)
{
    (void)unused;
    PSI_IGNORE(seteuid(0));
    PSI_IGNORE(setegid(0));
}

/* Root's file may be read by the group of the service; anybody else's file by nobody else. */
TEST(test_owners)
{
    if (geteuid() != 0) {
        skip(); /* only root can give files away */
    }
    test_later(root_again, NULL);
    put(path, "w0 00000001 worker " A " use\n", 0640);
    assert_int_equal(chown(path, 0, 12345), 0);
    assert_int_equal(count_of(path), 1);
    assert_int_equal(chmod(dir, 0755), 0);
    assert_int_equal(setegid(12345), 0);
    assert_int_equal(seteuid(12346), 0);
    assert_int_equal(count_of(path), 1); /* as the service reads it */
    root_again(NULL);
    put(path, "", 0660);
    assert_refused(path, PS_PERMISSION_DENIED, "lets others write it");
    put(path, "", 0644);
    assert_int_equal(seteuid(12346), 0);
    assert_refused(path, PS_PERMISSION_DENIED, "chmod 640 '");
    root_again(NULL);
    put(path, "", 0600);
    assert_int_equal(chown(path, 12346, 12345), 0);
    assert_refused(path, PS_PERMISSION_DENIED,
                   "belongs to uid 12346; a file with secrets belongs to root or to who uses it: chown 0 '");
    assert_int_equal(seteuid(12346), 0);
    assert_int_equal(count_of(path), 0);
    assert_int_equal(chmod(path, 0640), 0);
    assert_refused(path, PS_PERMISSION_DENIED, "mode 0640 lets others read it, and it holds secrets: chmod 600 '");
}

TEST(test_files_that_are_none)
{
    const char *pipe_path = test_path(dir, "pipe");
    assert_refused("/nonexistent/k", PS_NOT_FOUND, "open: No such file");
    assert_refused(dir, PS_INVALID_ARGUMENT, "is a directory");
    assert_refused("/dev/null", PS_INVALID_ARGUMENT, "is a pipe or a device, and no regular file");
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_refused(pipe_path, PS_INVALID_ARGUMENT, "is a pipe or a device"); /* at once: nobody writes to it */
    put(path, "", 0600);
    assert_int_equal(truncate(path, PSI_KEY_FILE_BYTES_MAX + 1), 0);
    assert_refused(path, PS_INVALID_ARGUMENT, "has more than 1048576 bytes");
    put(path, "\nw0\n", 0600);
    assert_refused(path, PS_INVALID_ARGUMENT, ":2: a key has 5 to 7 words");
}

/* What a link leads to is judged, as Kubernetes and configuration managers link files. */
TEST(test_links)
{
    const char *link_path = test_path(dir, "link");
    assert_int_equal(symlink("psd.keys", link_path), 0);
    assert_refused(link_path, PS_NOT_FOUND, "No such file");
    put(path, "w0 00000001 worker " A " use\n", 0600);
    assert_int_equal(count_of(link_path), 1);
    assert_int_equal(chmod(path, 0644), 0);
    assert_refused(link_path, PS_PERMISSION_DENIED, "mode 0644");
}

/* ---- changing ---- */

TEST(test_made)
{
    struct psi_key key = key_of("w0", "00000001"), other = key_of("w1", "00000002");
    struct psi_err err = {0};
    const mode_t before = umask(0);
    assert_ok(psi_key_file_add(path, &key, &err), &err);
    PSI_IGNORE(umask(before));
    assert_int_equal(mode_of(path), 0600);
    assert_ok(psi_key_file_add(path, &other, &err), &err);
    assert_int_equal(count_of(path), 2);
    assert_int_equal(names_in_dir(), 1);
    struct psi_key_change change = {.added = &other, .added_count = 1, .make = true, .only_new = true};
    assert_fails(psi_key_file_change(path, &change, &err), PS_ALREADY_EXISTS, &err, "it is not overwritten");
    assert_int_equal(count_of(path), 2);
    change.make = false;
    change.only_new = false;
    assert_fails(psi_key_file_change(test_path(dir, "none"), &change, &err), PS_NOT_FOUND, &err, "No such file");
    assert_fails(psi_key_file_add(test_path(dir, "none/k"), &key, &err), PS_NOT_FOUND, &err, "none/k");
    assert_int_equal(names_in_dir(), 1);
}

/* What is there stays byte for byte: comments, CRLF, the order; a last line without its end gets one. */
TEST(test_added_behind)
{
    static const char *const texts[] = {"", "# c\r\nw0 00000001 worker " A " use # mine\r\n", "\n\tw0 00000001 worker " A " use",
                                        "\xef\xbb\xbfw0 00000001 worker " A " use\n# end"};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        struct psi_key key = key_of("w1", "00000002");
        struct psi_err err = {0};
        char want[4096], line[PSI_KEY_LINE_BYTES];
        const size_t n = strlen(texts[i]);
        put(path, texts[i], 0400);
        assert_ok(psi_key_file_add(path, &key, &err), &err);
        psi_key_format(&key, line);
        snprintf(want, sizeof(want), "%s%s%s", texts[i], n > 0 && texts[i][n - 1] != '\n' ? "\n" : "", line);
        assert_string_equal(text_of(path), want);
        assert_int_equal(mode_of(path), 0400);
        assert_int_equal(unlink(path), 0);
    }
}

TEST(test_added_to_others)
{
    struct psi_key key = key_of("w1", "00000002"), chief = key_of("w0", "00000003");
    struct psi_err err = {0};
    const char *link_path = test_path(dir, "link");
    struct stat st;
    put(path, "w0 00000001 worker " A " use\n", 0600);
    assert_int_equal(symlink("psd.keys", link_path), 0);
    assert_ok(psi_key_file_add(link_path, &key, &err), &err);
    assert_int_equal(lstat(link_path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(count_of(path), 2);
    assert_int_equal(unlink(path), 0);
    assert_fails(psi_key_file_add(link_path, &key, &err), PS_NOT_FOUND, &err, "No such file"); /* a link to nothing */
    /* nothing is added where something is wrong, and the file stays as it is */
    static const struct {
        const char *text;
        mode_t mode;
        ps_status status;
        const char *says;
    } rows[] = {
        {"w1 00000001 worker " A " use\n", 0644, PS_PERMISSION_DENIED, "chmod 600"},
        {"w1 00000001 worker\n", 0600, PS_INVALID_ARGUMENT, "psd.keys:1: a key has 5 to 7 words"},
        {"w9 00000002 worker " A " use\n", 0600, PS_INVALID_ARGUMENT, "psd.keys:2: key id 00000002 stands in line 1 too"}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        put(path, rows[i].text, rows[i].mode);
        assert_fails(psi_key_file_add(path, &key, &err), rows[i].status, &err, rows[i].says);
        assert_string_equal(text_of(path), rows[i].text);
        assert_int_equal(names_in_dir(), 2);
    }
    strcpy(chief.role, "admin");
    put(path, "w0 00000001 worker " A " use\n", 0600);
    assert_fails(psi_key_file_add(path, &chief, &err), PS_INVALID_ARGUMENT, &err,
                 "the same name has role admin here and role worker in line 1: give one of them another name");
    assert_fails(psi_key_file_add(dir, &key, &err), PS_INVALID_ARGUMENT, &err, "directory");
}

TEST(test_owner_stays)
{
    struct psi_key key = key_of("w1", "00000002");
    struct psi_err err = {0};
    struct stat st;
    if (geteuid() != 0) {
        skip(); /* only root can give files away */
    }
    put(path, "w0 00000001 worker " A " use\n", 0640);
    assert_int_equal(chown(path, 0, 12345), 0);
    assert_ok(psi_key_file_add(path, &key, &err), &err);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_uid == 0 && st.st_gid == 12345);
    assert_int_equal(mode_of(path), 0640);
}

struct wish {
    const char *key_id;
    enum psi_key_becomes becomes;
    ps_status status;
};

static ps_status wished(void *ctx, const struct psi_keys *keys, const struct psi_key *key, enum psi_key_becomes *out,
                        struct psi_err *err)
{
    const struct wish *wish = ctx;
    assert_ptr_equal(psi_keys_find(keys, key->name, key->key_id), key);
    if (strcmp(key->key_id, wish->key_id) != 0) {
        return PS_OK;
    }
    *out = wish->becomes;
    return wish->status == PS_OK ? PS_OK : psi_fail(err, wish->status, "no");
}

TEST(test_lines_that_change)
{
#define FIRST "# first\n\tw0 00000001  worker\t" A "  use   until=2027-01-01 # one\r\n"
#define SECOND "w0 00000002 worker " A " accept\n"
#define THIRD "w0 00000003 worker " A " use"
    static const struct {
        struct wish wish;
        const char *text;
    } rows[] = {
        {{"00000001", PSI_KEY_STAYS, PS_OK}, FIRST SECOND THIRD},
        {{"00000001", PSI_KEY_IS_USED, PS_OK}, FIRST SECOND THIRD},
        {{"00000001", PSI_KEY_IS_ACCEPTED, PS_OK},
         "# first\n\tw0 00000001  worker\t" A "  accept   until=2027-01-01 # one\r\n" SECOND THIRD},
        {{"00000001", PSI_KEY_GOES, PS_OK}, "# first\n" SECOND THIRD},
        {{"00000002", PSI_KEY_IS_USED, PS_OK}, FIRST "w0 00000002 worker " A " use\n" THIRD},
        {{"00000003", PSI_KEY_IS_ACCEPTED, PS_OK}, FIRST SECOND "w0 00000003 worker " A " accept"},
        {{"00000003", PSI_KEY_GOES, PS_OK}, FIRST SECOND},
        {{"00000002", PSI_KEY_GOES, PS_ABORTED}, FIRST SECOND THIRD},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_err err = {0};
        struct wish wish = rows[i].wish;
        const struct psi_key_change change = {.line = wished, .ctx = &wish};
        put(path, FIRST SECOND THIRD, 0600);
        assert_int_equal(psi_key_file_change(path, &change, &err), wish.status);
        assert_string_equal(text_of(path), rows[i].text);
        assert_int_equal(names_in_dir(), 1);
    }
}

/* ---- what goes wrong ---- */

TEST(test_full_disk)
{
    struct psi_key key = key_of("w1", "00000002");
    struct psi_err err;
    struct rlimit before;
    static const char text[] = "w0 00000001 worker " A " use\n";
    put(path, text, 0600);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small = {.rlim_cur = 40, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const ps_status st = psi_key_file_add(path, &key, &err);
    const ps_status made = psi_key_file_add(test_path(dir, "new"), &key, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, old);
    assert_int_equal(st, PS_RESOURCE_EXHAUSTED);
    assert_int_equal(made, PS_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(err.text, "write: "));
    assert_string_equal(text_of(path), text);
    assert_int_equal(names_in_dir(), 1);
}

/* What a process that was killed left behind goes with the next change of the file, or when it is made; what a process that
 * lives is writing stays. */
TEST(test_left_behind)
{
    struct psi_key key = key_of("w0", "00000001");
    struct psi_err err;
    char left[PATH_MAX];
    snprintf(left, sizeof(left), "%s.new.%ld", path, (long)getpid());
    put(left, "x", 0600);
    const pid_t killed = fork();
    assert_true(killed >= 0);
    if (killed == 0) {
        _exit(0);
    }
    assert_int_equal(waitpid(killed, NULL, 0), killed);
    char of_killed[PATH_MAX], of_live[PATH_MAX];
    snprintf(of_killed, sizeof(of_killed), "%s.new.%ld", path, (long)killed);
    snprintf(of_live, sizeof(of_live), "%s.new.%ld", path, (long)getppid());
    put(of_killed, "secret", 0600);
    put(of_live, "secret", 0600);
    assert_ok(psi_key_file_add(path, &key, &err), &err);
    assert_int_equal(names_in_dir(), 2);
    assert_string_equal(text_of(of_live), "secret");
    assert_int_equal(unlink(of_live), 0);
    put(of_killed, "secret", 0600);
    struct psi_key other = key_of("w2", "00000003");
    assert_ok(psi_key_file_add(path, &other, &err), &err);
    assert_int_equal(names_in_dir(), 1);
    struct psi_key second = key_of("w1", "00000002");
    snprintf(left, sizeof(left), "%s.psctl-new", path);
    put(left, "x", 0600);
    assert_ok(psi_key_file_add(path, &second, &err), &err);
    assert_int_equal(names_in_dir(), 1);
}

/* Processes that make and change one file at once: each line of each is there at the end, and a reader never sees half of it. */
TEST(test_many_at_once)
{
    enum { PROCESSES = 4, KEYS = 25 };
    pid_t children[PROCESSES];
    for (int p = 0; p < PROCESSES; p++) {
        children[p] = fork();
        assert_true(children[p] >= 0);
        if (children[p] == 0) {
            int failed = 0;
            for (int i = 0; i < KEYS && failed == 0; i++) {
                char id[PSI_KEY_ID_BYTES + 1];
                snprintf(id, sizeof(id), "%04x%04x", p, i);
                struct psi_key key = key_of("w0", id);
                failed = psi_key_file_add(path, &key, NULL) == PS_OK ? 0 : 1;
            }
            _exit(failed);
        }
    }
    int running = PROCESSES;
    size_t seen = 0;
    while (running > 0) {
        int status = 0;
        const pid_t one = waitpid(-1, &status, WNOHANG);
        assert_true(one >= 0);
        assert_true(one == 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
        running -= one != 0 ? 1 : 0;
        if (access(path, F_OK) == 0) {
            const size_t n = count_of(path);
            assert_true(n >= seen);
            seen = n;
        }
    }
    assert_int_equal(count_of(path), PROCESSES * KEYS);
    assert_int_equal(names_in_dir(), 1);
}

static void add_one(int pipe_end, int p)
{
    char id[PSI_KEY_ID_BYTES + 1], go;
    snprintf(id, sizeof(id), "%08x", (unsigned)p);
    struct psi_key key = key_of("w0", id);
    _exit(read(pipe_end, &go, 1) == 0 && psi_key_file_add(path, &key, NULL) == PS_OK ? 0 : 1);
}

/* The file is not there, and all begin when a pipe is closed. */
TEST(test_many_make_it)
{
    enum { PROCESSES = 4, TURNS = 300 };
    for (int turn = 0; turn < TURNS; turn++) {
        int gate[2];
        assert_int_equal(pipe(gate), 0);
        for (int p = 0; p < PROCESSES; p++) {
            const pid_t child = fork();
            assert_true(child >= 0);
            if (child == 0) {
                (void)close(gate[1]);
                add_one(gate[0], p);
            }
        }
        (void)close(gate[0]);
        (void)close(gate[1]);
        for (int p = 0; p < PROCESSES; p++) {
            int status = 0;
            assert_true(wait(&status) > 0);
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
        assert_int_equal(count_of(path), PROCESSES);
        assert_int_equal(unlink(path), 0);
    }
}

/* Does a process wait for the lock of this file? */
static bool is_waited_for(const struct stat *st)
{
    char inode[32], line[256];
    bool found = false;
    FILE *locks = fopen("/proc/locks", "re");
    assert_non_null(locks);
    snprintf(inode, sizeof(inode), ":%llu ", (unsigned long long)st->st_ino);
    while (fgets(line, sizeof(line), locks) != NULL) {
        found = found || (strstr(line, "-> FLOCK") != NULL && strstr(line, inode) != NULL);
    }
    assert_int_equal(fclose(locks), 0);
    return found;
}

/* Who waits for the lock of a file that is replaced meanwhile reads the new one: no line is lost. */
TEST(test_replaced_while_waiting)
{
    enum { SECONDS_MAX = 60 };
    const char *other = test_path(dir, "other");
    struct stat st;
    put(path, "w0 00000001 worker " A " use\n", 0600);
    put(other, "w0 00000001 worker " A " use\nw1 00000002 worker " A " use\n", 0600);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &st) == 0 && flock(fd, LOCK_EX) == 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct psi_key key = key_of("w2", "00000003");
        PSI_IGNORE(close(fd)); /* the lock is the parent's */
        _exit(psi_key_file_add(path, &key, NULL) == PS_OK ? 0 : 1);
    }
    const time_t end = time(NULL) + SECONDS_MAX;
    while (!is_waited_for(&st) && time(NULL) < end) {
        PSI_IGNORE(sched_yield());
    }
    assert_true(is_waited_for(&st));
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(close(fd), 0);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(count_of(path), 3);
}

/* ---- secrets ---- */

/* Is it in this process's memory: the bytes, each of them changed by ^ 0x5a so that the test itself does not hold them. */
static bool in_memory(const uint8_t *changed, size_t n)
{
    static uint8_t page[65536];
    FILE *maps = fopen("/proc/self/maps", "re");
    const int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    char line[512];
    bool found = false;
    assert_true(maps != NULL && mem >= 0);
    while (fgets(line, sizeof(line), maps) != NULL) {
        char *rest = NULL; /* "FROM-TO rw-p ..." */
        const unsigned long from = strtoul(line, &rest, 16);
        const unsigned long to = strtoul(rest + 1, &rest, 16);
        if (strncmp(rest, " rw", 3) != 0 || to - from > 64ul << 20) {
            continue; /* a sanitizer's shadow is larger, and has no byte of ours */
        }
        for (unsigned long at = from; at < to; at += sizeof(page) - n) {
            const size_t bytes = to - at < sizeof(page) ? to - at : sizeof(page);
            const ssize_t have = pread(mem, page, bytes, (off_t)at);
            for (ssize_t i = 0; i + (ssize_t)n <= have; i++) {
                size_t same = 0;
                while (same < n && page[i + (ssize_t)same] == (changed[same] ^ 0x5a)) {
                    same++;
                }
                found = found || same == n;
            }
            memset(page, 0, sizeof(page));
        }
    }
    assert_int_equal(close(mem), 0);
    assert_int_equal(fclose(maps), 0);
    return found;
}

TEST(test_secrets_are_zeroed)
{
    enum { BYTES = 12 }; /* of the secret, and of its digits: registers that were saved may hold 16 */
    struct psi_key key = key_of("w0", "00000001"), other = key_of("w1", "00000002");
    struct psi_keys *keys = NULL, *copy = NULL;
    struct psi_err err = {0};
    uint8_t raw[BYTES], hex[2 * BYTES];
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < PSI_SECRET_BYTES; i++) {
        key.secret[i] = (uint8_t)(i * 7 + 0x31);
        if (i < BYTES) {
            raw[i] = key.secret[i] ^ 0x5a;
            hex[2 * i] = (uint8_t)(digits[key.secret[i] >> 4] ^ 0x5a);
            hex[2 * i + 1] = (uint8_t)(digits[key.secret[i] & 15] ^ 0x5a);
        }
    }
    assert_true(in_memory(raw, BYTES)); /* the look itself finds it */
    assert_ok(psi_key_file_add(path, &key, &err), &err);
    explicit_bzero(&key, sizeof(key));
    assert_ok(psi_key_file_add(path, &other, &err), &err); /* reads it and writes it anew */
    assert_ok(psi_key_file_read(path, &keys, &err), &err);
    assert_ok(psi_keys_copy(keys, &copy, &err), &err);
    psi_keys_free(keys);
    assert_true(in_memory(raw, BYTES));
    psi_keys_free(copy);
    assert_false(in_memory(raw, BYTES));
    assert_false(in_memory(hex, 2 * BYTES));
    /* a file that is refused behind it */
    int fd = open(path, O_WRONLY | O_APPEND);
    assert_int_equal(write(fd, "w2\n", 3), 3);
    assert_int_equal(close(fd), 0);
    assert_fails(psi_key_file_read(path, &keys, &err), PS_INVALID_ARGUMENT, &err, ":3: ");
    assert_false(in_memory(raw, BYTES));
    assert_false(in_memory(hex, 2 * BYTES));
}

TEST(test_out_of_memory)
{
    struct psi_key key = key_of("w1", "00000002");
    static const char text[] = "w0 00000001 worker " A " use\n";
    for (int64_t n = 0;; n++) {
        struct psi_err err = {0};
        put(path, text, 0600);
        psi_mem_fail_after(n);
        const ps_status st = psi_key_file_add(path, &key, &err);
        const bool fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        assert_int_equal(names_in_dir(), 1);
        if (!fired) {
            assert_int_equal(st, PS_OK);
            return;
        }
        assert_int_equal(st, PS_RESOURCE_EXHAUSTED);
        assert_string_equal(text_of(path), text);
    }
}
