/* SPDX-License-Identifier: Apache-2.0 */
/* disk.h. Each file and directory has two sides: `now`, which calls see, and `disk`, which a cut leaves. */
#include "disk.h"

#include "common/list.h"
#include "common/rng.h"
#include "common/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SECTOR_BYTES = 512, NAME_BYTES = 64, ENTRIES_MAX = 64, CHANGES_MAX = 256, OPEN_MAX = 64, FIRST_FD = 100, BESIDE_MAX = 16 };

struct inode {
    struct psi_list link; /* of the disk */
    bool is_dir, reached;
    /* a file */
    struct side {
        uint8_t *p;
        size_t bytes, capacity;
    } now, disk;
    bool *dirty; /* [dirty_count]: sectors of now that were not synced */
    size_t dirty_count;
    bool length_dirty;
    /* a directory */
    struct names {
        struct name {
            char name[NAME_BYTES];
            struct inode *inode;
        } at[ENTRIES_MAX];
        size_t count;
    } * now_names, *disk_names;
    struct change { /* not synced: `from` is no more, `to` is inode */
        char from[NAME_BYTES], to[NAME_BYTES];
        struct inode *inode;
    } * changes;
    size_t change_count;
};

struct sim_disk {
    uint64_t rng;
    uint32_t fail_one_in;
    bool dies;
    uint32_t dies_after;
    struct psi_list inodes;
    struct inode *top;
    struct inode *open[OPEN_MAX];
    struct sim_disk *beside[BESIDE_MAX]; /* by task */
};

static void *must(void *p)
{
    if (p == NULL) {
        (void)fprintf(stderr, "tests/sim/lib/disk.c: no memory\n");
        abort();
    }
    return p;
}

static bool one_in(struct sim_disk *d, uint32_t n)
{
    return n > 0 && psi_random_below(&d->rng, n) == 0;
}

static struct inode *inode_new(struct sim_disk *d, bool is_dir)
{
    struct inode *i = must(calloc(1, sizeof(*i)));
    i->is_dir = is_dir;
    if (is_dir) {
        i->now_names = must(calloc(1, sizeof(*i->now_names)));
        i->disk_names = must(calloc(1, sizeof(*i->disk_names)));
        i->changes = must(calloc(CHANGES_MAX, sizeof(*i->changes)));
    }
    psi_list_push_back(&d->inodes, &i->link);
    return i;
}

static void inode_free(struct inode *i)
{
    psi_list_remove(&i->link);
    free(i->now.p);
    free(i->disk.p);
    free(i->dirty);
    free(i->now_names);
    free(i->disk_names);
    free(i->changes);
    free(i);
}

struct sim_disk *sim_disk_new(uint64_t seed)
{
    struct sim_disk *d = must(calloc(1, sizeof(*d)));
    d->rng = seed;
    psi_list_init(&d->inodes);
    d->top = inode_new(d, true);
    return d;
}

void sim_disk_free(struct sim_disk *d)
{
    struct psi_list *link = NULL;
    while (d != NULL && (link = psi_list_first(&d->inodes)) != NULL) {
        inode_free(PSI_CONTAINER_OF(link, struct inode, link));
    }
    free(d);
}

void sim_disk_beside(struct sim_disk *d, uint32_t task, struct sim_disk *other)
{
    PSI_ASSERT(task < BESIDE_MAX);
    d->beside[task] = other;
}

void sim_disk_fail_one_in(struct sim_disk *d, uint32_t calls)
{
    d->fail_one_in = calls;
}

void sim_disk_die_after(struct sim_disk *d, uint32_t calls)
{
    d->dies = true;
    d->dies_after = calls;
}

/* ---- names ---- */

static struct name *find(struct names *n, const char *name)
{
    for (size_t i = 0; i < n->count; i++) {
        if (strcmp(n->at[i].name, name) == 0) {
            return &n->at[i];
        }
    }
    return NULL;
}

static void unset(struct names *n, const char *name)
{
    struct name *at = find(n, name);
    if (at != NULL) {
        *at = n->at[--n->count];
    }
}

static void set(struct names *n, const char *name, struct inode *inode)
{
    struct name *at = find(n, name);
    if (at == NULL) {
        PSI_ASSERT(n->count < ENTRIES_MAX && strlen(name) < NAME_BYTES);
        at = &n->at[n->count++];
        (void)snprintf(at->name, sizeof(at->name), "%s", name);
    }
    at->inode = inode;
}

static void apply(struct names *n, const struct change *c)
{
    const struct name *from = find(n, c->from);
    if (from != NULL && from->inode == c->inode) {
        unset(n, c->from);
    }
    if (c->to[0] != '\0') {
        set(n, c->to, c->inode);
    }
}

static void change(struct inode *dir, const char *from, const char *to, struct inode *inode)
{
    if (dir->change_count == CHANGES_MAX) { /* the oldest is written behind everybody's back */
        apply(dir->disk_names, &dir->changes[0]);
        memmove(&dir->changes[0], &dir->changes[1], --dir->change_count * sizeof(dir->changes[0]));
    }
    struct change *c = &dir->changes[dir->change_count++];
    (void)snprintf(c->from, sizeof(c->from), "%s", from);
    (void)snprintf(c->to, sizeof(c->to), "%s", to);
    c->inode = inode;
    apply(dir->now_names, c);
}

/* ---- bytes ---- */

static void resize(struct side *s, size_t bytes)
{
    if (bytes > s->capacity) {
        s->capacity = bytes > 2 * s->capacity ? bytes : 2 * s->capacity; /* sectors come one by one */
        s->p = must(realloc(s->p, s->capacity));
    }
    if (bytes > s->bytes) {
        memset(s->p + s->bytes, 0, bytes - s->bytes);
    }
    s->bytes = bytes;
}

/* A sector of now is on the disk. */
static void sector_lands(struct inode *i, size_t sector)
{
    size_t at = sector * SECTOR_BYTES;
    size_t end = at + SECTOR_BYTES < i->now.bytes ? at + SECTOR_BYTES : i->now.bytes;
    if (end > i->disk.bytes) {
        resize(&i->disk, end);
    }
    memcpy(i->disk.p + at, i->now.p + at, end - at);
}

/* Each dirty sector, and the length, has landed or not. */
static void some_land(struct sim_disk *d, struct inode *i)
{
    size_t before = i->disk.bytes;
    for (size_t s = 0; s < i->dirty_count; s++) {
        if (i->dirty[s] && one_in(d, 2)) {
            sector_lands(i, s);
        }
        i->dirty[s] = false;
    }
    if (i->length_dirty) {
        size_t length = one_in(d, 2) ? i->now.bytes : before;
        if (length > i->disk.bytes) {
            resize(&i->disk, length);
        }
        i->disk.bytes = length;
    }
    i->length_dirty = false;
}

static void all_lands(struct inode *i)
{
    for (size_t s = 0; s < i->dirty_count; s++) {
        if (i->dirty[s]) {
            sector_lands(i, s);
        }
        i->dirty[s] = false;
    }
    if (i->length_dirty && i->now.bytes > i->disk.bytes) {
        resize(&i->disk, i->now.bytes);
    }
    i->length_dirty = false;
}

/* ---- what happens to it ---- */

void sim_disk_kill(struct sim_disk *d)
{
    memset(d->open, 0, sizeof(d->open));
    d->dies = false;
}

void sim_disk_cut(struct sim_disk *d)
{
    struct psi_list *it = NULL, *tmp = NULL;
    sim_disk_kill(d);
    PSI_LIST_FOREACH(it, &d->inodes) {
        struct inode *i = PSI_CONTAINER_OF(it, struct inode, link);
        i->reached = false;
        if (!i->is_dir) {
            some_land(d, i);
            i->now.bytes = 0;
            resize(&i->now, i->disk.bytes);
            if (i->disk.bytes > 0) {
                memcpy(i->now.p, i->disk.p, i->disk.bytes);
            }
            continue;
        }
        for (size_t c = 0; c < i->change_count; c++) {
            if (one_in(d, 2)) {
                apply(i->disk_names, &i->changes[c]);
            }
        }
        i->change_count = 0;
        *i->now_names = *i->disk_names;
    }
    d->top->reached = true;
    for (size_t n = 0; n < d->top->now_names->count; n++) { /* two levels, as psd has them */
        struct inode *i = d->top->now_names->at[n].inode;
        i->reached = true;
        for (size_t m = 0; i->is_dir && m < i->now_names->count; m++) {
            i->now_names->at[m].inode->reached = true;
        }
    }
    PSI_LIST_FOREACH_SAFE(it, tmp, &d->inodes) {
        struct inode *i = PSI_CONTAINER_OF(it, struct inode, link);
        if (!i->reached) {
            inode_free(i);
        }
    }
}

bool sim_disk_flip(struct sim_disk *d)
{
    struct inode *files[ENTRIES_MAX];
    size_t count = 0;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &d->inodes) {
        struct inode *i = PSI_CONTAINER_OF(it, struct inode, link);
        if (!i->is_dir && i->now.bytes > 0 && i->now.bytes == i->disk.bytes && count < ENTRIES_MAX) {
            files[count++] = i;
        }
    }
    if (count == 0) {
        return false;
    }
    struct inode *i = files[psi_random_below(&d->rng, count)];
    size_t bit = psi_random_below(&d->rng, i->now.bytes * 8);
    i->now.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
    i->disk.p[bit / 8] ^= (uint8_t)(1u << bit % 8);
    return true;
}

/* ---- calls ---- */

/* 0, or what a call that changes something says instead. */
static int trouble(struct sim_disk *d)
{
    if (d->dies && d->dies_after == 0) {
        return -EIO;
    }
    d->dies_after -= d->dies;
    return !one_in(d, d->fail_one_in) ? 0 : one_in(d, 2) ? -EIO : -ENOSPC;
}

static struct inode *at(struct sim_disk *d, int fd)
{
    if (fd == PSD_FS_TOP) {
        return d->top;
    }
    PSI_ASSERT(fd >= FIRST_FD && fd < FIRST_FD + OPEN_MAX && d->open[fd - FIRST_FD] != NULL);
    return d->open[fd - FIRST_FD];
}

static int open_inode(struct sim_disk *d, struct inode *i)
{
    for (int n = 0; n < OPEN_MAX; n++) {
        if (d->open[n] == NULL) {
            d->open[n] = i;
            return FIRST_FD + n;
        }
    }
    return -EMFILE;
}

static int sim_make_dir(void *ctx, const char *name)
{
    struct sim_disk *d = ctx;
    int rc = find(d->top->now_names, name) != NULL ? -EEXIST : trouble(d);
    if (rc == 0) {
        change(d->top, "", name, inode_new(d, true));
    }
    return rc;
}

static int sim_open_dir(void *ctx, int dir, const char *name)
{
    struct sim_disk *d = ctx;
    const struct name *n = find(at(d, dir)->now_names, name);
    return n == NULL ? -ENOENT : n->inode->is_dir ? open_inode(d, n->inode) : -ENOTDIR;
}

static int sim_open_task(void *ctx, uint32_t task)
{
    struct sim_disk *d = ctx;
    return task < BESIDE_MAX && d->beside[task] != NULL ? open_inode(d, d->beside[task]->top) : -ENOENT;
}

static int sim_each_task(void *ctx, psd_fs_task_cb cb, void *arg)
{
    const struct sim_disk *d = ctx;
    for (uint32_t i = 0; i < BESIDE_MAX; i++) {
        if (d->beside[i] != NULL) {
            cb(arg, i);
        }
    }
    return 0;
}

static int sim_open_file(void *ctx, int dir, const char *name, bool make)
{
    struct sim_disk *d = ctx;
    const struct name *n = find(at(d, dir)->now_names, name);
    if (!make) {
        return n == NULL ? -ENOENT : n->inode->is_dir ? -ELOOP : open_inode(d, n->inode);
    }
    int rc = n != NULL ? -EEXIST : trouble(d);
    if (rc != 0) {
        return rc;
    }
    struct inode *i = inode_new(d, false);
    change(at(d, dir), "", name, i);
    return open_inode(d, i);
}

static void sim_close(void *ctx, int fd)
{
    struct sim_disk *d = ctx;
    (void)at(d, fd);
    d->open[fd - FIRST_FD] = NULL;
}

static int64_t sim_write(void *ctx, int fd, const void *p, size_t n, uint64_t offset)
{
    struct sim_disk *d = ctx;
    struct inode *i = at(d, fd);
    int rc = trouble(d);
    if (rc != 0) {
        return rc;
    }
    size_t most = d->fail_one_in != 0 && n > 1 ? (size_t)psi_random_below(&d->rng, n) + 1 : n; /* a part of it is no error */
    size_t end = (size_t)offset + most;
    if (end > i->now.bytes) {
        resize(&i->now, end);
        i->length_dirty = true;
    }
    size_t sectors = (i->now.bytes + SECTOR_BYTES - 1) / SECTOR_BYTES;
    if (sectors > i->dirty_count) {
        i->dirty = must(realloc(i->dirty, sectors));
        memset(i->dirty + i->dirty_count, 0, sectors - i->dirty_count);
        i->dirty_count = sectors;
    }
    memcpy(i->now.p + offset, p, most);
    for (size_t s = (size_t)offset / SECTOR_BYTES; s * SECTOR_BYTES < end; s++) {
        i->dirty[s] = true;
    }
    return (int64_t)most;
}

static int64_t sim_read(void *ctx, int fd, void *p, size_t n, uint64_t offset)
{
    const struct inode *i = at(ctx, fd);
    size_t left = offset < i->now.bytes ? i->now.bytes - (size_t)offset : 0;
    size_t most = n < left ? n : left;
    if (most > 0) {
        memcpy(p, i->now.p + offset, most);
    }
    return (int64_t)most;
}

static int sim_sync(void *ctx, int fd)
{
    struct sim_disk *d = ctx;
    struct inode *i = at(d, fd);
    int rc = trouble(d);
    if (i->is_dir) { /* a directory that could not be written: its changes still wait, or the file system is no more */
        if (rc == 0) {
            *i->disk_names = *i->now_names;
            i->change_count = 0;
        }
    } else if (rc == 0) {
        all_lands(i);
    } else if (!d->dies) {
        some_land(d, i);
    }
    return rc;
}

static int sim_rename(void *ctx, int dir, const char *from, const char *to)
{
    struct sim_disk *d = ctx;
    struct inode *i = at(d, dir);
    const struct name *a = find(i->now_names, from);
    const struct name *b = find(i->now_names, to);
    if (a == NULL) {
        return -ENOENT;
    }
    if (b != NULL && b->inode->is_dir != a->inode->is_dir) {
        return a->inode->is_dir ? -ENOTDIR : -EISDIR;
    }
    if (b != NULL && b->inode->is_dir && b->inode->now_names->count > 0) {
        return -ENOTEMPTY;
    }
    int rc = trouble(d);
    if (rc == 0) {
        change(i, from, to, a->inode);
    }
    return rc;
}

static int sim_remove(void *ctx, int dir, const char *name, bool is_dir)
{
    struct sim_disk *d = ctx;
    struct inode *i = at(d, dir);
    const struct name *n = find(i->now_names, name);
    if (n == NULL) {
        return -ENOENT;
    }
    if (n->inode->is_dir != is_dir) {
        return is_dir ? -ENOTDIR : -EISDIR;
    }
    if (is_dir && n->inode->now_names->count > 0) {
        return -ENOTEMPTY;
    }
    int rc = trouble(d);
    if (rc == 0) {
        change(i, name, "", n->inode);
    }
    return rc;
}

static int sim_each(void *ctx, int dir, psd_fs_entry_cb cb, void *arg)
{
    const struct names *n = at(ctx, dir)->now_names;
    for (size_t i = 0; i < n->count; i++) {
        const struct inode *inode = n->at[i].inode;
        struct psd_fs_entry entry = {
            .name = n->at[i].name, .is_dir = inode->is_dir, .is_file = !inode->is_dir, .bytes = inode->now.bytes};
        cb(arg, &entry);
    }
    return 0;
}

void sim_disk_fs(struct sim_disk *d, struct psd_fs *fs)
{
    *fs = (struct psd_fs){.ctx = d,
                          .make_dir = sim_make_dir,
                          .open_dir = sim_open_dir,
                          .open_task = sim_open_task,
                          .open_file = sim_open_file,
                          .close = sim_close,
                          .write = sim_write,
                          .read = sim_read,
                          .sync = sim_sync,
                          .rename = sim_rename,
                          .remove = sim_remove,
                          .each = sim_each,
                          .each_task = sim_each_task};
}
