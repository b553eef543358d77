/* SPDX-License-Identifier: Apache-2.0 */
/* The transports of plain TCP and Unix sockets, both streams of libuv. Reading: libuv could read into one piece of memory only.
 * So on_alloc() gives it none, and libuv reports that to on_read() as UV_ENOBUFS. on_read() then reads into all places (pieces of
 * the owner's memory) with one readv(). Writing: write() is one sendmsg(); hold() is uv_write(), which sends the rest by itself.
 * Failure modes: libuv's errors, unchanged; the owner decides what they mean. */
#include "transport.h"

#include "../status.h"
#include "fds.h"

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { READS_MAX = 32 }; /* most reads of a connection in a turn of the loop; the owner limits the bytes */

static struct psi_transport *of(void *handle)
{
    return ((uv_handle_t *)handle)->data;
}

static int noted(int rc, int fd)
{
    if (rc == 0) {
        psi_fds_note(fd);
    }
    return rc;
}

static int tcp_open(struct psi_transport *tr, uv_loop_t *loop, int fd)
{
    int rc = uv_tcp_init(loop, &tr->u.tcp);
    PSI_ASSERT(rc == 0); /* cannot fail: no socket is made here */
    tr->u.handle.data = tr;
    return noted(uv_tcp_open(&tr->u.tcp, fd), fd);
}

static int unix_open(struct psi_transport *tr, uv_loop_t *loop, int fd)
{
    int rc = uv_pipe_init(loop, &tr->u.pipe, 0);
    PSI_ASSERT(rc == 0); /* cannot fail: no socket is made here */
    tr->u.handle.data = tr;
    return noted(uv_pipe_open(&tr->u.pipe, fd), fd);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)handle;
    (void)suggested;
    *buf = uv_buf_init(NULL, 0);
}

static int error_of(int number)
{
    return number == EWOULDBLOCK ? UV_EAGAIN : uv_translate_sys_error(number);
}

/* Read once, into all places of the owner. UV_EAGAIN: no bytes have come, or the owner has no place. *out_full: all are full. */
static ssize_t read_once(struct psi_transport *tr, int fd, bool *out_full)
{
    struct psi_space places[PSI_READ_PLACES_MAX];
    struct iovec iov[PSI_READ_PLACES_MAX];
    size_t room = 0;
    ssize_t n;
    size_t count = tr->events->space(tr, places);
    for (size_t i = 0; i < count; i++) {
        iov[i] = (struct iovec){.iov_base = places[i].base, .iov_len = places[i].bytes};
        room += places[i].bytes;
    }
    if (count == 0) {
        return UV_EAGAIN;
    }
    do {
        n = readv(fd, iov, (int)count);
    } while (n < 0 && errno == EINTR);
    *out_full = n > 0 && (size_t)n == room;
    return n > 0 ? n : n == 0 ? UV_EOF : error_of(errno);
}

static void on_read(uv_stream_t *stream, ssize_t status, const uv_buf_t *buf)
{
    struct psi_transport *tr = of(stream);
    uv_os_fd_t fd;
    (void)buf;
    if (status != UV_ENOBUFS || uv_fileno(&tr->u.handle, &fd) != 0) {
        tr->events->arrived(tr, status != UV_ENOBUFS && status < 0 ? status : UV_EBADF);
        return;
    }
    bool full = true;
    for (int i = 0; i < READS_MAX && full && tr->reading; i++) { /* a read that does not fill the places has emptied the socket */
        ssize_t n = read_once(tr, fd, &full);
        if (n == UV_EAGAIN) {
            return;
        }
        tr->events->arrived(tr, n);
    }
}

static int stream_read(struct psi_transport *tr, bool on)
{
    tr->reading = on;
    return on ? uv_read_start(&tr->u.stream, on_alloc, on_read) : uv_read_stop(&tr->u.stream);
}

_Static_assert(sizeof(struct psi_iov) == sizeof(struct iovec) &&
                   offsetof(struct psi_iov, base) == offsetof(struct iovec, iov_base) &&
                   offsetof(struct psi_iov, bytes) == offsetof(struct iovec, iov_len),
               "pieces of a queue are what the system takes");

static ssize_t stream_write(struct psi_transport *tr, const struct psi_iov *iov, size_t count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = count};
    uv_os_fd_t fd;
    ssize_t n;
    int rc = uv_fileno(&tr->u.handle, &fd);
    if (rc != 0) {
        return rc;
    }
    do {
        n = sendmsg(fd, &message, MSG_NOSIGNAL); /* uv_try_write() would raise SIGPIPE */
    } while (n < 0 && errno == EINTR);
    return n >= 0 ? n : errno == ENOBUFS ? UV_EAGAIN : error_of(errno); /* ENOBUFS: the system has no memory now; try later */
}

static void on_written(uv_write_t *req, int status)
{
    struct psi_transport *tr = req->data;
    tr->events->holds(tr, false);
    tr->events->written(tr, status);
}

static int stream_hold(struct psi_transport *tr, const void *bytes, size_t n)
{
    uv_buf_t buf = {.base = (char *)(uintptr_t)bytes, .len = n};
    tr->write.data = tr;
    tr->events->holds(tr, true);
    int rc = uv_write(&tr->write, &tr->u.stream, &buf, 1, on_written);
    if (rc != 0) {
        tr->events->holds(tr, false);
    }
    return rc;
}

static size_t stream_held(const struct psi_transport *tr)
{
    return uv_stream_get_write_queue_size(&tr->u.stream);
}

static int stream_end(struct psi_transport *tr)
{
    uv_os_fd_t fd;
    int rc = uv_fileno(&tr->u.handle, &fd);
    return rc == 0 && shutdown(fd, SHUT_WR) != 0 ? UV_ENOTCONN : rc;
}

static void on_closed(uv_handle_t *handle)
{
    struct psi_transport *tr = of(handle);
    tr->events->closed(tr);
}

static void stream_close(struct psi_transport *tr)
{
    uv_os_fd_t fd;
    tr->reading = false;
    if (uv_fileno(&tr->u.handle, &fd) == 0) {
        psi_fds_drop(fd);
    }
    uv_close(&tr->u.handle, on_closed);
}

#define STREAM                                                                                                                   \
    .try_bytes = PS_SEND_TRY_BYTES, .read = stream_read, .write = stream_write, .hold = stream_hold, .held = stream_held,        \
    .end = stream_end, .close = stream_close

static const struct psi_transport_row tcp = {.name = "tcp", .crc = true, .open = tcp_open, STREAM};
static const struct psi_transport_row local = {
    .name = "unix", .crc = false, .open = unix_open, STREAM}; /* no CRC, because the bytes stay within one machine */

const struct psi_transport_row *psi_transport_row_of(int family)
{
    return family == AF_UNIX ? &local : &tcp;
}
