/* SPDX-License-Identifier: Apache-2.0 */
/* A file of events for TensorBoard: events.out.tfevents.SECONDS.HOST.PID.N. Its records are those of a TFRecord file: a length
 * (u64, little-endian), the masked CRC32C of these 8 bytes (u32), an Event (event.proto), and the masked CRC32C of the Event
 * (u32). Masked: rotated right by 15 bits, plus 0xa282ead8. The first Event is the version, "brain.Event:2". A buffer gathers
 * records for one write. Failure modes: the disk is full, or a limit on file sizes is reached; then a record that was written in
 * part is cut off. */
#include "events.h"

#include "common/crc32c.h"
#include "common/mem.h"
#include "common/msg.h"
#include "worker/files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 64 << 10, FRAME_BYTES = 16, MODE_DIR = 0777, MODE_FILE = 0666 };
_Static_assert(psi_events_Event_size + FRAME_BYTES <= BUFFER_BYTES, "the largest record fits the buffer");

static uint32_t masked_crc(const uint8_t *p, size_t n)
{
    const uint32_t crc = psi_crc32c(0, p, n);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static void put_le(uint8_t *dst, uint64_t v, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        dst[i] = (uint8_t)(v >> (8 * i));
    }
}

static ps_status make_dir(const char *dir, struct psi_err *err)
{
    char path[PSI_EVENTS_DIR_BYTES_MAX + 1];
    (void)snprintf(path, sizeof(path), "%s", dir);
    for (char *at = path + 1;; at++) {
        const char was = *at;
        if (was != '/' && was != '\0') {
            continue;
        }
        *at = '\0';
        if (mkdir(path, MODE_DIR) != 0 && errno != EEXIST && (was == '\0' || (errno != EACCES && errno != EROFS))) {
            return psi_fail_errno(err, errno, "mkdir", path);
        }
        *at = was;
        if (was == '\0') {
            return PS_OK;
        }
    }
}

ps_status psi_events_open(struct psi_events *e, const char *dir, uint64_t unix_ms, struct psi_err *err)
{
    static atomic_uint count;
    char host[64] = "localhost";
    ps_status st = make_dir(dir, err);
    if (st != PS_OK) {
        return st;
    }
    (void)gethostname(host, sizeof(host) - 1); /* on failure the name stays "localhost" */
    (void)snprintf(e->path, sizeof(e->path), "%s/events.out.tfevents.%010llu.%s.%ld.%u", dir,
                   (unsigned long long)(unix_ms / 1000), host, (long)getpid(), atomic_fetch_add(&count, 1));
    e->fd = open(e->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, MODE_FILE);
    if (e->fd < 0) {
        return psi_fail_errno(err, errno, "open", e->path);
    }
    e->open = true;
    e->used = 0;
    e->written = 0;
    e->buffer = psi_malloc(BUFFER_BYTES);
    psi_events_Event version = {.wall_time = (double)unix_ms / 1000,
                                .which_what = psi_events_Event_file_version_tag,
                                .what.file_version = "brain.Event:2"};
    st = e->buffer == NULL ? psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the records of %s", e->path)
                           : psi_events_put(e, &version, err);
    st = st == PS_OK ? psi_events_flush(e, err) : st;
    if (st != PS_OK) {
        psi_events_close(e);
    }
    return st;
}

ps_status psi_events_put(struct psi_events *e, const psi_events_Event *event, struct psi_err *err)
{
    size_t bytes = 0;
    if (e->used > BUFFER_BYTES - FRAME_BYTES - psi_events_Event_size) {
        const ps_status st = psi_events_flush(e, err);
        if (st != PS_OK) {
            return st;
        }
    }
    uint8_t *at = e->buffer + e->used;
    const ps_status st = psi_msg_encode(psi_events_Event_fields, event, at + 12, psi_events_Event_size, &bytes, err);
    if (st != PS_OK) {
        return st;
    }
    put_le(at, bytes, 8);
    put_le(at + 8, masked_crc(at, 8), 4);
    put_le(at + 12 + bytes, masked_crc(at + 12, bytes), 4);
    e->used += bytes + FRAME_BYTES;
    return PS_OK;
}

ps_status psi_events_flush(struct psi_events *e, struct psi_err *err)
{
    size_t done = 0;
    int why = 0;
    const bool held = psi_files_hold_signal();
    while (done < e->used && why == 0) {
        const ssize_t n = pwrite(e->fd, e->buffer + done, e->used - done, (off_t)(e->written + done));
        why = n < 0 && errno != EINTR ? errno : n == 0 ? ENOSPC : 0;
        done += n > 0 ? (size_t)n : 0;
    }
    psi_files_release_signal(held);
    e->used = 0;
    if (why != 0) {
        PSI_IGNORE(ftruncate(e->fd, (off_t)e->written)); /* cuts off half a record: readers would wait for its rest */
        return psi_fail_errno(err, why, "write", e->path);
    }
    e->written += done;
    return PS_OK;
}

void psi_events_close(struct psi_events *e)
{
    if (e->open) {
        (void)close(e->fd); /* no check: psi_events_flush() has reported errors of writes */
        psi_free(e->buffer);
        e->buffer = NULL;
        e->open = false;
    }
}
