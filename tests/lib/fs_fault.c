/* SPDX-License-Identifier: Apache-2.0 */
/* fs_fault.h. */
#include "fs_fault.h"

/* 0: the call goes on. */
static int fault(struct fs_fault *f, enum fs_call call)
{
    if (f->before != NULL) {
        f->before(f->ctx, call);
    }
    if ((f->kinds & (unsigned)call) == 0) {
        return 0;
    }
    f->calls++;
    return f->fail_at != 0 && (f->calls == f->fail_at || (f->stays && f->calls > f->fail_at)) ? -f->why : 0;
}

static int fault_make_dir(void *ctx, const char *name)
{
    struct fs_fault *f = ctx;
    int rc = fault(f, FS_MAKE_DIR);
    return rc != 0 ? rc : f->real.make_dir(f->real.ctx, name);
}

static int fault_open_dir(void *ctx, int dir, const char *name)
{
    struct fs_fault *f = ctx;
    int rc = fault(f, FS_OPEN_DIR);
    return rc != 0 ? rc : f->real.open_dir(f->real.ctx, dir, name);
}

static int fault_open_task(void *ctx, uint32_t task)
{
    struct fs_fault *f = ctx;
    return f->real.open_task(f->real.ctx, task); /* what goes wrong there is passed over */
}

static int fault_open_file(void *ctx, int dir, const char *name, bool make)
{
    struct fs_fault *f = ctx;
    int rc = fault(f, FS_OPEN_FILE);
    return rc != 0 ? rc : f->real.open_file(f->real.ctx, dir, name, make);
}

static void fault_close(void *ctx, int fd)
{
    const struct fs_fault *f = ctx;
    f->real.close(f->real.ctx, fd);
}

static int64_t fault_write(void *ctx, int fd, const void *p, size_t n, uint64_t offset)
{
    struct fs_fault *f = ctx;
    int rc = fault(f, FS_WRITE);
    return rc != 0 ? rc : f->real.write(f->real.ctx, fd, p, f->write_most != 0 && f->write_most < n ? f->write_most : n, offset);
}

static int64_t fault_read(void *ctx, int fd, void *p, size_t n, uint64_t offset)
{
    struct fs_fault *f = ctx;
    int rc = fault(f, FS_READ);
    return rc != 0 ? rc : f->real.read(f->real.ctx, fd, p, f->write_most != 0 && f->write_most < n ? f->write_most : n, offset);
}

static int fault_sync(void *ctx, int fd)
{
    struct fs_fault *f = ctx;
    int rc = fault(f, FS_SYNC);
    return rc != 0 || f->sync_not ? rc : f->real.sync(f->real.ctx, fd);
}

static int fault_rename(void *ctx, int dir, const char *from, const char *to)
{
    struct fs_fault *f = ctx;
    int rc = fault(f, FS_RENAME);
    return rc != 0 ? rc : f->real.rename(f->real.ctx, dir, from, to);
}

static int fault_remove(void *ctx, int dir, const char *name, bool is_dir)
{
    struct fs_fault *f = ctx;
    int rc = fault(f, FS_REMOVE);
    return rc != 0 ? rc : f->real.remove(f->real.ctx, dir, name, is_dir);
}

static int fault_each(void *ctx, int dir, psd_fs_entry_cb cb, void *arg)
{
    struct fs_fault *f = ctx;
    int rc = fault(f, FS_EACH);
    return rc != 0 ? rc : f->real.each(f->real.ctx, dir, cb, arg);
}

static int fault_each_task(void *ctx, psd_fs_task_cb cb, void *arg)
{
    struct fs_fault *f = ctx;
    return f->real.each_task(f->real.ctx, cb, arg);
}

void fs_fault_init(struct fs_fault *f, const struct psd_fs *real, struct psd_fs *out)
{
    *f = (struct fs_fault){.real = *real, .kinds = FS_ALL};
    *out = (struct psd_fs){.ctx = f,
                           .make_dir = fault_make_dir,
                           .open_dir = fault_open_dir,
                           .open_task = fault_open_task,
                           .open_file = fault_open_file,
                           .close = fault_close,
                           .write = fault_write,
                           .read = fault_read,
                           .sync = fault_sync,
                           .rename = fault_rename,
                           .remove = fault_remove,
                           .each = fault_each,
                           .each_task = fault_each_task};
}
