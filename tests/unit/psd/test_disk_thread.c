/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psd/shell/disk.c: the disk threads of a server. What a core asks for is carried out and answered in order, reads two at a time;
 * the server that has a directory is the only one; a disk that hangs holds up neither the loop nor, for ever, the end.
 */
#include "fs_fault.h"
#include "test.h"

#include "psd/base/disk.h"
#include "psd/server.h"
#include "psd/shell/disk.h"
#include "psd/shell/place.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <sys/stat.h>

/* ---- through a whole server ---- */

enum { STEPS = 5 };

/* What the core of a server asks for as soon as it serves: one after the other, all at once. */
struct asked {
    struct psd_disk_op op[STEPS];
    ps_status st[STEPS];
    size_t bytes[STEPS];
    uint32_t answers;
    char error[PSI_ERR_TEXT_MAX];
    char read[16];
    uint32_t order[STEPS];
    bool keeps_on; /* ask again when all is answered, for ever ... */
    uint32_t rounds;
    sem_t goes; /* ... it does so */
};

static void on_answer(struct psd_task *t, void *ctx, ps_status st, size_t bytes, const char *error);

static void ask_all(struct psd_task *t, struct asked *a)
{
    a->answers = 0;
    for (uint32_t i = 0; i < STEPS; i++) {
        assert_int_equal(psd_disk_ask(t, &a->op[i], on_answer, a, NULL), PS_OK);
    }
}

static psd_server *asking; /* by one test at a time */

static void on_answer(struct psd_task *t, void *ctx, ps_status st, size_t bytes, const char *error)
{
    struct asked *a = ctx;
    a->st[a->answers] = st;
    a->bytes[a->answers] = bytes;
    if (st != PS_OK) {
        (void)snprintf(a->error, sizeof(a->error), "%s", error);
    }
    a->answers++;
    if (a->answers == STEPS && a->keeps_on) {
        ask_all(t, a);
        if (++a->rounds == 20) {
            assert_int_equal(sem_post(&a->goes), 0);
        }
    } else if (a->answers == STEPS) {
        psd_server_stop(asking, 1000);
    }
}

static void on_ready(void *ctx, psd_server *server)
{
    asking = server;
    ask_all(server->task, ctx);
}

static void free_server(void *server)
{
    psd_server_free(server);
}

static psd_server *start(const char *dir, psd_server_event_fn ready, void *ctx)
{
    psd_server_options o;
    psd_server *server = NULL;
    char error[512];
    psd_server_options_init(&o);
    o.listen = "127.0.0.1:0";
    o.checkpoint_dir = dir;
    o.ready = ready;
    o.ctx = ctx;
    if (psd_server_start(&o, &server, error, sizeof(error)) != PS_OK) {
        fail_msg("%s", error);
    }
    test_later(free_server, server);
    return server;
}

TEST(test_asked_by_a_core)
{
    const char *dir = test_dir();
    const struct psd_disk_file state = {.number = 3, .kind = PSD_DISK_STATE};
    struct asked *a = test_alloc(sizeof(*a));
    a->op[0] = (struct psd_disk_op){.kind = PSD_DISK_BEGIN, .file = state};
    a->op[1] = (struct psd_disk_op){.kind = PSD_DISK_WRITE, .file = state, .in = "written", .bytes = 7};
    a->op[2] = (struct psd_disk_op){.kind = PSD_DISK_PUBLISH, .file = state};
    a->op[3] = (struct psd_disk_op){.kind = PSD_DISK_READ, .file = state, .out = a->read, .bytes = sizeof(a->read)};
    a->op[4] =
        (struct psd_disk_op){.kind = PSD_DISK_READ, .file = {.number = 4, .kind = PSD_DISK_STATE}, .out = a->read, .bytes = 1};
    psd_server *server = start(dir, on_ready, a);
    psd_server_wait(server);
    assert_int_equal(a->answers, STEPS);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(a->st[i], PS_OK);
    }
    assert_int_equal(a->bytes[3], 7);
    assert_string_equal(a->read, "written");
    assert_int_equal(a->st[4], PS_NOT_FOUND);
    assert_non_null(strstr(a->error, test_path(dir, "ps-0: 00000000000000000004/state: open its directory: No such file")));
}

/* A file of another task, beside our own directory, that cannot be read: where it lies, and why. */
TEST(test_of_another_task)
{
    for (int open_to_all = 0; open_to_all < 2; open_to_all++) {
        const char *dir = test_dir();
        const char *theirs = test_path(dir, "ps-1");
        struct asked *a = test_alloc(sizeof(*a));
        assert_int_equal(mkdir(theirs, 0700), 0);
        assert_int_equal(mkdir(test_path(theirs, "bars"), 0700), 0);
        assert_int_equal(chmod(theirs, open_to_all ? 0777 : 0700), 0);
        for (uint32_t i = 0; i < STEPS; i++) {
            a->op[i] = (struct psd_disk_op){
                .kind = PSD_DISK_READ, .file = {.kind = PSD_DISK_BARS, .writer = 2}, .out = a->read, .bytes = 1};
        }
        psd_server_wait(start(dir, on_ready, a));
        assert_int_equal(a->st[0], open_to_all ? PS_PERMISSION_DENIED : PS_INVALID_ARGUMENT);
        const char *says =
            open_to_all ? "ps-1: bars: its directory is another user's" : "ps-1: bars is a symbolic link or something";
        assert_true(strncmp(a->error, test_path(dir, says), strlen(test_path(dir, says))) == 0);
    }
}

/* What is on its way at the end is not answered, and its memory is not touched any more. */
TEST(test_ended_while_it_works)
{
    struct asked *a = test_alloc(sizeof(*a));
    a->keeps_on = true;
    for (uint32_t i = 0; i < STEPS; i++) {
        a->op[i] = (struct psd_disk_op){.kind = i == 0 ? PSD_DISK_BEGIN : PSD_DISK_WRITE,
                                        .file = {.kind = PSD_DISK_BARS},
                                        .in = a,
                                        .bytes = i == 0 ? 0 : sizeof(a->op)};
    }
    assert_int_equal(sem_init(&a->goes, 0, 0), 0);
    (void)start(test_dir(), on_ready, a);
    while (sem_wait(&a->goes) != 0) {
    }
} /* and it ends at once, with operations on their way */

TEST(test_one_server_only)
{
    const char *dir = test_path(test_dir(), "new");
    psd_server_options o;
    psd_server *second = NULL;
    char error[512];
    psd_server *first = start(dir, NULL, NULL);
    psd_server_options_init(&o);
    o.listen = "127.0.0.1:0";
    o.checkpoint_dir = dir;
    assert_int_equal(psd_server_start(&o, &second, error, sizeof(error)), PS_ALREADY_EXISTS);
    assert_non_null(strstr(error, "checkpoint_dir: "));
    assert_non_null(strstr(error, "new/ps-0 is in use by process "));
    assert_non_null(strstr(error, "(/job:ps/task:0 of cluster psd)"));
    psd_server_stop(first, 0);
    psd_server_wait(first);
    assert_int_equal(psd_server_start(&o, &second, error, sizeof(error)), PS_OK);
    psd_server_free(second);
}

/* ---- a disk that hangs ---- */

struct hung {
    struct psd_place place;
    struct fs_fault fault;
    struct psd_disk *disk;
    uv_loop_t loop;
    uv_idle_t idle;
    sem_t hangs, go_on, left;
    uint64_t answers, last_id;
    uint32_t turns;
};

static void before_call(void *ctx, enum fs_call call)
{
    struct hung *h = ctx;
    if (call == FS_SYNC) {
        assert_int_equal(sem_post(&h->hangs), 0);
        while (sem_wait(&h->go_on) != 0) {
        }
    }
}

static void on_over(void *ctx, uint64_t id, ps_status st, ps_reason reason, size_t bytes, const char *error)
{
    struct hung *h = ctx;
    (void)reason;
    assert_int_equal(st, PS_OK);
    assert_int_equal(bytes, 0);
    assert_string_equal(error, "");
    assert_int_equal(id, h->last_id + 1); /* in order */
    h->last_id = id;
    h->answers++;
}

/* The loop turns while the disk hangs: some 100 times, then the disk goes on, or its end comes. */
static void on_idle(uv_idle_t *idle)
{
    struct hung *h = idle->data;
    int value = 0;
    assert_int_equal(sem_getvalue(&h->hangs, &value), 0);
    if (value > 0 && ++h->turns == 100) {
        uv_close((uv_handle_t *)idle, NULL);
        psd_disk_close(h->disk);
    }
}

static void on_left(void *ctx)
{
    struct hung *h = ctx;
    assert_int_equal(sem_post(&h->left), 0);
}

TEST(test_hangs)
{
    struct hung *h = test_alloc(sizeof(*h));
    struct psd_fs fs;
    struct psi_err err;
    struct psd_disk *other = NULL;
    const char *dir = test_dir();
    const struct psd_disk_file bars = {.kind = PSD_DISK_BARS};
    assert_int_equal(sem_init(&h->hangs, 0, 0) | sem_init(&h->go_on, 0, 0) | sem_init(&h->left, 0, 0), 0);
    assert_ok(psd_place_open(&h->place, dir, "ps", 0, "test", &err), &err);
    psd_place_fs(&h->place, &fs);
    fs_fault_init(&h->fault, &fs, &fs);
    assert_ok(psd_disk_new_on(&fs, &h->disk, &err), &err);
    h->fault.before = before_call;
    h->fault.ctx = h;
    assert_int_equal(uv_loop_init(&h->loop), 0);
    assert_ok(psd_disk_start(h->disk, &h->loop, on_over, h, &err), &err);
    uint64_t id = 0;
    for (int i = 0; i < 3; i++) {
        psd_disk_run(h->disk, &(struct psd_disk_op){.id = ++id, .kind = PSD_DISK_BEGIN, .file = bars});
    }
    psd_disk_run(h->disk, &(struct psd_disk_op){.id = ++id, .kind = PSD_DISK_PUBLISH, .file = bars});
    for (int i = 0; i < PSD_DISK_OPS_MAX - 4; i++) {
        psd_disk_run(h->disk, &(struct psd_disk_op){.id = ++id, .kind = PSD_DISK_BEGIN, .file = bars});
    }
    assert_int_equal(uv_idle_init(&h->loop, &h->idle), 0);
    h->idle.data = h;
    assert_int_equal(uv_idle_start(&h->idle, on_idle), 0);
    assert_int_equal(uv_run(&h->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(h->turns, 100);
    assert_int_equal(h->answers, 3); /* those before it; those behind never begin */
    assert_false(psd_disk_end(h->disk, 20, on_left, h));
    assert_int_equal(sem_trywait(&h->left), -1);
    assert_int_equal(psd_disk_new(dir, "ps", 0, "other", &other, &err), PS_ALREADY_EXISTS); /* still locked */
    assert_int_equal(sem_post(&h->go_on), 0); /* fsync of the file, then of the directory */
    assert_int_equal(sem_post(&h->go_on), 0);
    while (sem_wait(&h->left) != 0) {
    }
    psd_place_close(&h->place);
    assert_ok(psd_disk_new(dir, "ps", 0, "other", &other, &err), &err);
    assert_true(psd_disk_end(other, 0, NULL, NULL));
    assert_int_equal(uv_loop_close(&h->loop), 0);
}

/* ---- reads ---- */

enum { READS = 40 };

struct reads {
    struct psd_place place; /* first: it is what the calls are given */
    struct psd_fs real;
    struct psd_disk *disk;
    uv_loop_t loop;
    sem_t second, begun;
    _Atomic uint32_t reading;
    _Atomic bool together, wrong;
    uint64_t answers;
    char out[READS + 1][2];
};

/* The first one goes on when a second one is there, the last one when something else is, or it is sure that nothing will be. */
static int64_t read_beside(void *ctx, int fd, void *p, size_t n, uint64_t offset)
{
    struct reads *r = ctx;
    struct timespec until;
    uint32_t others = atomic_fetch_add(&r->reading, 1);
    if (others > 1) {
        atomic_store(&r->wrong, true);
    }
    if (others == 1 && !atomic_exchange(&r->together, true)) {
        (void)sem_post(&r->second);
    }
    while (!atomic_load(&r->together)) {
        (void)sem_wait(&r->second);
    }
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100000000; /* ns */
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (offset == READS - 1) { /* sleep: 0.1 s, unless what waits for it begins, which it must not */
        (void)sem_timedwait(&r->begun, &until);
    }
    int64_t done = r->real.read(ctx, fd, p, n, offset);
    (void)atomic_fetch_sub(&r->reading, 1);
    return done;
}

static int open_alone(void *ctx, int dir, const char *name, bool make)
{
    struct reads *r = ctx;
    if (make && atomic_load(&r->reading) > 0) {
        atomic_store(&r->wrong, true);
        (void)sem_post(&r->begun);
    }
    return r->real.open_file(ctx, dir, name, make);
}

static void on_read(void *ctx, uint64_t id, ps_status st, ps_reason reason, size_t bytes, const char *error)
{
    struct reads *r = ctx;
    (void)reason;
    assert_int_equal(st, PS_OK);
    assert_string_equal(error, "");
    assert_int_equal(id, ++r->answers); /* in order */
    if (id > 3 && id <= 3 + READS) {
        assert_int_equal(bytes, 1);
        assert_int_equal(r->out[id - 4][0], 'a' + (int)(id - 4) % 26);
    } else if (id == READS + 6) { /* of the new one, which is empty */
        assert_int_equal(bytes, 0);
        psd_disk_close(r->disk);
    }
}

/* Two at a time, answered in order, and nothing else beside them. */
TEST(test_reads_go_together)
{
    struct reads *r = test_alloc(sizeof(*r));
    struct psd_fs fs;
    struct psi_err err;
    char text[READS];
    struct psd_disk_op op = {.kind = PSD_DISK_BEGIN, .file = {.kind = PSD_DISK_BARS}};
    assert_int_equal(sem_init(&r->second, 0, 0) | sem_init(&r->begun, 0, 0), 0);
    assert_ok(psd_place_open(&r->place, test_dir(), "ps", 0, "test", &err), &err);
    psd_place_fs(&r->place, &r->real);
    fs = r->real;
    fs.read = read_beside;
    fs.open_file = open_alone;
    assert_ok(psd_disk_new_on(&fs, &r->disk, &err), &err);
    assert_int_equal(uv_loop_init(&r->loop), 0);
    assert_ok(psd_disk_start(r->disk, &r->loop, on_read, r, &err), &err);
    for (int i = 0; i < READS; i++) {
        text[i] = (char)('a' + i % 26);
    }
    static const enum psd_disk_kind kinds[] = {PSD_DISK_BEGIN, PSD_DISK_WRITE, PSD_DISK_PUBLISH};
    for (int i = 0; i < 3 + READS + 3; i++) {
        op.id++;
        op.kind = i < 3                                 ? kinds[i]
                  : i < 3 + READS || i == 3 + READS + 2 ? PSD_DISK_READ
                                                        : kinds[(i - 3 - READS) * 2]; /* BEGIN, PUBLISH */
        op.in = text;
        op.bytes = op.kind == PSD_DISK_WRITE ? READS : op.kind == PSD_DISK_READ ? 1 : 0;
        op.offset = op.kind == PSD_DISK_READ && i < 3 + READS ? (uint64_t)i - 3 : 0;
        op.out = op.kind == PSD_DISK_READ ? r->out[i < 3 + READS ? i - 3 : READS] : NULL;
        psd_disk_run(r->disk, &op);
    }
    assert_int_equal(uv_run(&r->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(r->answers, 3 + READS + 3);
    assert_true(psd_disk_end(r->disk, 1000, NULL, NULL));
    assert_true(atomic_load(&r->together) && !atomic_load(&r->wrong));
    psd_place_close(&r->place);
    assert_int_equal(uv_loop_close(&r->loop), 0);
}
