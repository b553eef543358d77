/* SPDX-License-Identifier: Apache-2.0 */
/* test-transport: plain (it speaks the protocol itself) */
/*
 * Sessions that vanish, and peers that do not read, in numbers that took everything a psd had: a real psd, raw sockets, the real
 * client and psctl. The lease is short, so that what must wait for its end does not take long; session_keep is ten minutes, so
 * that nothing but giving way makes room.
 */
#include "common/limits.h"
#include "daemon.h"
#include "ps.h"
#include "wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SESSIONS = 4096 + 64,
    PUSHERS = 512,
    PUSHES = 8, /* of a session: all that it may */
    ASSIGNERS = 20,
    READERS = 4,
    TWO_SEGMENTS = 32768,
    LARGE = 2 << 20, /* 8 MiB */
    ATOMIC = 1 << 20 /* 4 MiB */
};

static struct test_cluster cluster;
static char *const flags[] = {"--lease", "1s", "--beat", "200ms", "--memory_budget", "220M", NULL};
static uint8_t zeros[PS_SEGMENT_BYTES];

static int start(void **state)
{
    (void)state;
    test_cluster_init(&cluster, 1, "");
    cluster.flags = flags;
    test_cluster_start_all(&cluster);
    return 0;
}

static int end(void **state)
{
    (void)state;
    test_cluster_fini(&cluster);
    return 0;
}

/* ---- a session made of bytes ---- */

static int dial(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    const char *port = strrchr(cluster.address[0], ':');
    a.sin_port = htons((uint16_t)strtoul(port + 1, NULL, 10));
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    int one = 1;
    assert_int_equal(connect(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), 0);
    return fd;
}

static void send_all(int fd, struct wire *w)
{
    for (size_t at = 0; at < w->len;) {
        ssize_t n = send(fd, w->data + at, w->len - at, MSG_NOSIGNAL);
        assert_true(n > 0);
        at += (size_t)n;
    }
    wire_clear(w);
}

static void take(int fd, uint8_t *p, size_t n)
{
    while (n > 0) {
        ssize_t got = recv(fd, p, n, 0);
        assert_true(got > 0);
        p += got;
        n -= (size_t)got;
    }
}

/* The next frame, which must be a good reply to op. */
static void take_reply(int fd, uint8_t op)
{
    static uint8_t rest[1 << 20];
    struct ps_frame_header h;
    take(fd, (uint8_t *)&h, sizeof(h));
    assert_true(h.op == op && (h.flags & PS_FLAG_REPLY) != 0);
    assert_int_equal(h.offset, PS_OK);
    assert_true(h.meta_bytes + h.body_bytes <= sizeof(rest));
    take(fd, rest, h.meta_bytes + h.body_bytes);
}

/* A new session, of no job; as an import that is interrupted or a trainer without a list of workers. */
static int hello(void)
{
    static uint64_t sessions;
    struct wire w;
    uint8_t meta[PS_META_BYTES_MAX] = {0};
    size_t meta_bytes = 0;
    ps_v1_Hello m = {.protocol = PS_FRAME_VERSION, .connection = 1, .next_number = 1, .pid = (uint32_t)getpid()};
    m.session.size = sizeof(m.session.bytes);
    sessions++;
    memcpy(m.session.bytes, &sessions, sizeof(sessions));
    memcpy(m.program.bytes, "ghost", 5);
    m.program.size = 5;
    assert_int_equal(psi_msg_encode(&ps_v1_Hello_msg, &m, meta, sizeof(meta), &meta_bytes, NULL), PS_OK);
    int fd = dial();
    wire_init(&w);
    (void)wire_frame(&w, &(struct wire_frame){.op = PS_OP_HELLO, .meta = meta, .meta_bytes = (uint32_t)meta_bytes});
    send_all(fd, &w);
    take_reply(fd, PS_OP_HELLO);
    wire_fini(&w);
    return fd;
}

/* The first segment of a mutation of `elements` float32. */
static void begin(int fd, uint8_t op, uint64_t number, uint32_t handle, uint64_t elements)
{
    struct wire w;
    struct ps_push_meta m = {.total_elements = elements, .scale = 1};
    wire_init(&w);
    (void)wire_frame(&w, &(struct wire_frame){.op = op,
                                              .dtype = PS_F32,
                                              .flags = PS_FLAG_SEQ | PS_FLAG_FIRST,
                                              .id = number,
                                              .handle = handle,
                                              .meta = &m,
                                              .meta_bytes = sizeof(m),
                                              .payload = zeros,
                                              .payload_bytes = sizeof(zeros)});
    send_all(fd, &w);
    wire_fini(&w);
}

/* What was sent has been taken in: an answer to what was asked behind it. */
static void beat(int fd)
{
    struct wire w;
    wire_init(&w);
    (void)wire_frame(&w, &(struct wire_frame){.op = PS_OP_BEAT, .id = 1});
    send_all(fd, &w);
    take_reply(fd, PS_OP_BEAT);
    wire_fini(&w);
}

/* ---- those who must get on ---- */

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static ps_session *worker(void)
{
    ps_session_options o;
    ps_session *s = NULL;
    char error[512], spec[600];
    ps_session_options_init(&o);
    (void)snprintf(spec, sizeof(spec), "%s;worker=127.0.0.1:1", cluster.spec);
    o.cluster_spec = spec;
    o.job = "worker";
    o.log = no_log;
    assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_OK);
    return s;
}

static ps_variable *ready(ps_session *s, const char *name, int64_t elements, bool atomic)
{
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(elements);
    spec.optimizer = ps_sgd(1);
    spec.atomic = atomic;
    assert_int_equal(ps_variable_get(s, &spec, &v), PS_OK);
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    return v;
}

/* psctl says this of the cluster. */
static void status_says(const char *text)
{
    static char out[1 << 16];
    char path[512];
    char *argv[] = {(char *)(uintptr_t)test_build_path("bin/psctl", path, sizeof(path)), "status", NULL};
    int code = test_run(argv, cluster.address[0], out, sizeof(out));
    if (code != 0 || strstr(out, text) == NULL) {
        fail_msg("psctl status: %d, without '%s': %s", code, text, out);
    }
}

/* ---- the cases: all of these held everybody up for ten minutes ---- */

static void test_vanished_sessions(void **state)
{
    (void)state;
    for (int i = 0; i < SESSIONS; i++) {
        (void)close(hello());
    }
    status_says(" silent, records ");
    ps_session *s = worker();
    ps_variable *v = ready(s, "v", 10, false);
    float grad[10] = {0};
    assert_int_equal(ps_variable_push(v, grad, sizeof(grad), 1), PS_OK);
    assert_int_equal(ps_session_close(s), 0);
}

static void test_vanished_pushes(void **state)
{
    (void)state;
    ps_session *s = worker();
    ps_variable *v = ready(s, "v", TWO_SEGMENTS, false);
    for (int i = 0; i < PUSHERS; i++) {
        int fd = hello();
        for (uint64_t k = 0; k < PUSHES; k++) {
            begin(fd, PS_OP_PUSH, 1 + k, 1, TWO_SEGMENTS);
        }
        beat(fd);
        (void)close(fd);
    }
    float *grad = calloc(TWO_SEGMENTS, sizeof(*grad));
    assert_non_null(grad);
    assert_int_equal(ps_variable_push(v, grad, TWO_SEGMENTS * sizeof(*grad), 1), PS_OK);
    free(grad);
    assert_int_equal(ps_session_close(s), 0);
}

static void test_vanished_assigns(void **state)
{
    (void)state;
    ps_session *s = worker();
    ps_variable *v = ready(s, "v", LARGE, false);
    for (int i = 0; i < ASSIGNERS + 2; i++) { /* the last ones find no room */
        int fd = hello();
        begin(fd, PS_OP_ASSIGN, 1, 1, LARGE);
        if (i < ASSIGNERS) {
            beat(fd);
        }
        (void)close(fd);
    }
    status_says("most: ghost@");
    float *values = calloc(LARGE, sizeof(*values));
    assert_non_null(values);
    values[LARGE - 1] = 3;
    ps_variable *other = ready(s, "w", LARGE * 3, false); /* nothing fits any more but over what they have */
    (void)other;
    assert_int_equal(ps_variable_assign(v, values, LARGE * sizeof(*values)), PS_OK);
    free(values);
    assert_int_equal(ps_session_close(s), 0);
}

static atomic_bool beats_end;

static void *beats(void *fds)
{
    struct wire w;
    wire_init(&w);
    for (uint64_t id = 10000; !atomic_load(&beats_end); id++) {
        for (int i = 0; i < READERS; i++) {
            wire_clear(&w);
            (void)wire_frame(&w, &(struct wire_frame){.op = PS_OP_BEAT, .id = id});
            (void)send(((const int *)fds)[i], w.data, w.len, MSG_NOSIGNAL | MSG_DONTWAIT); /* it may be closed by now */
        }
        (void)usleep(100000); /* sleep: the pace of beats, nothing is waited for */
    }
    wire_fini(&w);
    return NULL;
}

static void test_readers_that_do_not_read(void **state)
{
    int fds[READERS];
    pthread_t thread;
    struct wire w;
    struct ps_pull_meta m = {.elements = ATOMIC};
    (void)state;
    ps_session *s = worker();
    ps_variable *v = ready(s, "v", ATOMIC, true);
    wire_init(&w);
    for (int i = 0; i < READERS; i++) {
        fds[i] = hello();
        for (uint64_t k = 0; k < 16; k++) {
            (void)wire_frame(
                &w, &(struct wire_frame){
                        .op = PS_OP_PULL, .dtype = PS_F32, .id = 1 + k, .handle = 1, .meta = &m, .meta_bytes = sizeof(m)});
        }
        send_all(fds[i], &w);
    }
    assert_int_equal(pthread_create(&thread, NULL, beats, fds), 0);
    float *values = calloc(ATOMIC, sizeof(*values));
    assert_non_null(values);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(ps_variable_read(v, values, ATOMIC * sizeof(*values)), PS_OK);
    }
    free(values);
    atomic_store(&beats_end, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (int i = 0; i < READERS; i++) {
        (void)close(fds[i]);
    }
    wire_fini(&w);
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- names that were deleted ---- */

static void control(struct wire *w, uint8_t op, uint64_t id, const struct wire *body)
{
    (void)wire_frame(
        w, &(struct wire_frame){
               .op = op, .id = id, .payload = body == NULL ? NULL : body->data, .payload_bytes = body == NULL ? 0 : body->len});
}

/* Names [first, first + count): made by one request, deleted by one each. */
static void make_and_delete(int fd, uint32_t first, uint32_t count, bool delete, uint64_t *id)
{
    struct wire w, body;
    wire_init(&w);
    wire_init(&body);
    for (uint32_t i = 0; i < count; i++) {
        ps_v1_CreateItem create = ps_v1_CreateItem_init_zero;
        ps_v1_NameItem item = ps_v1_NameItem_init_zero;
        int n = snprintf((char *)item.name.bytes, sizeof(item.name.bytes), "model/layer_%u/kernel", first + i);
        item.name.size = (pb_size_t)n;
        if (delete) {
            wire_clear(&body);
            wire_item(&body, &ps_v1_NameItem_msg, &item);
            control(&w, PS_OP_DELETE, ++*id, &body);
            continue;
        }
        memcpy(create.name.bytes, item.name.bytes, (size_t)n);
        create.name.size = (pb_size_t)n;
        create.dtype = PS_F32;
        create.dims_count = 1;
        create.dims[0] = 4;
        memcpy(create.job.bytes, "ps", 2);
        create.job.size = 2;
        wire_item(&body, &ps_v1_CreateItem_msg, &create);
    }
    if (!delete) {
        control(&w, PS_OP_CREATE, ++*id, &body);
    }
    send_all(fd, &w);
    uint32_t replies = delete ? count : 1;
    for (uint32_t i = 0; i < replies; i++) {
        take_reply(fd, delete ? PS_OP_DELETE : PS_OP_CREATE);
        control(&w, PS_OP_ACK, *id - replies + 1 + i, NULL);
    }
    send_all(fd, &w);
    wire_fini(&w);
    wire_fini(&body);
}

static void test_deleted_names(void **state)
{
    enum { NAMES = 200000, CREATED = 1000, DELETED = 50 };
    uint64_t id = 0;
    const char *build = getenv("PSD_BUILD");
    (void)state;
    if (build != NULL && (strstr(build, "asan") != NULL || strstr(build, "tsan") != NULL)) {
        print_message("skipped: the sanitizer's allocator keeps what is freed\n");
        skip();
    }
    int fd = hello();
    make_and_delete(fd, 0, CREATED, false, &id); /* what is made once and kept is there before */
    size_t before = test_resident_bytes(cluster.pid[0]);
    for (uint32_t i = CREATED; i < NAMES; i += CREATED) {
        make_and_delete(fd, i, CREATED, false, &id);
    }
    size_t full = test_resident_bytes(cluster.pid[0]);
    for (uint32_t i = 0; i < NAMES; i += DELETED) {
        make_and_delete(fd, i, DELETED, true, &id);
    }
    (void)close(fd);
    size_t after = test_resident_bytes(cluster.pid[0]);
    for (int i = 0; i < 600 && after > before + (full - before) / 8; i++) { /* it goes back at a tick */
        (void)usleep(50000);                                                /* sleep: nothing tells of memory that goes back */
        after = test_resident_bytes(cluster.pid[0]);
    }
    print_message("resident: %zu MiB, with the names %zu, without them %zu\n", before >> 20, full >> 20, after >> 20);
    assert_true(full - before > 100u << 20 && after <= before + (full - before) / 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_deleted_names, start, end),
        cmocka_unit_test_setup_teardown(test_vanished_sessions, start, end),
        cmocka_unit_test_setup_teardown(test_vanished_pushes, start, end),
        cmocka_unit_test_setup_teardown(test_vanished_assigns, start, end),
        cmocka_unit_test_setup_teardown(test_readers_that_do_not_read, start, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
