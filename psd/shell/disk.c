/* SPDX-License-Identifier: Apache-2.0 */
/* The disk of a server (disk.h): two threads, one queue.
 *
 * Happy path: psd_disk_run() takes a record of the pool and queues it, and a thread carries it out (psd/durable/files.c).
 * Operations run one at a time, except that two READs may run together, so that a checkpoint is read with two CPUs. Ended
 * operations are reported to the loop in order. Ended writes are reported in batches: after a write the loop is woken if 16 ended
 * operations are unreported, 10 ms have passed since the last report, or the queue is empty. After any other operation the loop
 * is woken at once. on_wake() on the task's thread then gives the record back and tells the core. Failure modes: a disk's error
 * is the operation's error. A slow disk holds up only requests that wait for it: the loop never waits for the threads, except at
 * the end, for a bounded time. */
#include "disk.h"

#include "common/list.h"
#include "common/mem.h"
#include "place.h"
#include "psd/durable/files.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

enum {
    THREADS = 2,       /* threads to start; the disk also works if only one can be started */
    TOLD_MAX = 16,     /* the loop is woken when so many ended writes are unreported, or earlier */
    TOLD_NS = 10000000 /* the loop is also woken so many ns after the last report: requests may wait for memory to be freed */
};

struct job {
    struct psi_list link; /* link in free_list, queue, begun or `over` */
    struct psd_disk_op op;
    ps_status status;
    size_t bytes;
    struct psi_err err;
    bool over;
};

struct psd_disk {
    struct psd_place place; /* place.top -1: the caller of psd_disk_new_on() brought a file system, and `place` is not used */
    struct psd_files files; /* from psd_disk_start() on, only the disk threads use it */
    psd_disk_over_fn over_fn;
    void *ctx;
    uv_async_t wake;
    pthread_t threads[THREADS];
    uint32_t thread_count;
    pthread_mutex_t mutex;
    pthread_cond_t changed;    /* signalled when an operation may begin, `stopping` is set, or a thread has ended */
    struct psi_list free_list; /* task's thread only */
    struct psi_list queue;     /* operations that have not begun; from here on the fields are used under mutex */
    struct psi_list begun;     /* running READs, or one other operation. An ended READ stays until earlier READs have ended */
    struct psi_list over;      /* ended operations in the order of the queue, until on_wake() gives them to the core */
    uint32_t running;          /* threads that have not ended */
    bool wake_open, stopping;
    uint32_t untold; /* ended operations for which the loop was not woken yet */
    uint64_t told_ns;
    void (*release)(void *arg); /* frees what the threads use, if psd_disk_end() could not wait for them */
    void *release_arg;
    struct job pool[PSD_DISK_OPS_MAX];
};

static void destroy(struct psd_disk *d)
{
    psd_files_close(&d->files);
    psd_place_close(&d->place);
    (void)pthread_cond_destroy(&d->changed);
    (void)pthread_mutex_destroy(&d->mutex);
    psi_free(d);
}

static struct psd_disk *make_disk(struct psi_err *err)
{
    pthread_condattr_t clock;
    struct psd_disk *d = psi_calloc(1, sizeof(*d));
    if (d == NULL) {
        (void)psi_fail(err, PS_RESOURCE_EXHAUSTED, "memory for the operations of a disk");
        return NULL;
    }
    d->place.top = -1;
    d->place.lock = d->place.above = -1;
    (void)pthread_mutex_init(&d->mutex, NULL);
    (void)pthread_condattr_init(&clock);
    (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&d->changed, &clock);
    (void)pthread_condattr_destroy(&clock);
    psi_list_init(&d->free_list);
    psi_list_init(&d->queue);
    psi_list_init(&d->begun);
    psi_list_init(&d->over);
    for (size_t i = 0; i < PSD_DISK_OPS_MAX; i++) {
        psi_list_push_back(&d->free_list, &d->pool[i].link);
    }
    return d;
}

ps_status psd_disk_new_on(const struct psd_fs *fs, struct psd_disk **out_disk, struct psi_err *err)
{
    struct psd_disk *d = make_disk(err);
    ps_status st = d != NULL ? psd_files_open(&d->files, fs, err) : PS_RESOURCE_EXHAUSTED;
    if (st == PS_OK) {
        *out_disk = d;
    } else if (d != NULL) {
        destroy(d);
    }
    return st;
}

ps_status psd_disk_new(const char *dir, const char *job, uint32_t task, const char *who, struct psd_disk **out_disk,
                       struct psi_err *err)
{
    struct psd_fs fs;
    struct psd_disk *d = make_disk(err);
    ps_status st = d != NULL ? psd_place_open(&d->place, dir, job, task, who, err) : PS_RESOURCE_EXHAUSTED;
    if (st == PS_OK) {
        psd_place_fs(&d->place, &fs);
        st = psd_files_open(&d->files, &fs, err);
        psi_err_prefix(st == PS_OK ? NULL : err, "%s", d->place.path);
    }
    if (st == PS_OK) {
        *out_disk = d;
    } else if (d != NULL) {
        destroy(d);
    }
    return st;
}

static bool is_read(struct psi_list *link)
{
    return PSI_CONTAINER_OF(link, struct job, link)->op.kind == PSD_DISK_READ;
}

static bool may_begin(const struct psd_disk *d)
{
    struct psi_list *first = psi_list_first(&d->queue), *beside = psi_list_first(&d->begun);
    return first != NULL && (beside == NULL || (is_read(first) && is_read(beside)));
}

/* Begin the next operation. NULL: none may begin now. */
static struct psi_list *begin_next(struct psd_disk *d)
{
    if (!may_begin(d)) {
        return NULL;
    }
    struct psi_list *link = psi_list_pop_front(&d->queue);
    psi_list_push_back(&d->begun, link);
    if (is_read(link) && !psi_list_empty(&d->queue)) {
        (void)pthread_cond_signal(&d->changed); /* the other thread may begin the next READ */
    }
    return link;
}

static void carry_out(struct psd_disk *d, struct job *job)
{
    const struct psd_place *p = &d->place;
    uint32_t writer = job->op.file.writer;
    job->err = (struct psi_err){.code = PS_OK};
    job->status = psd_files_run(&d->files, &job->op, &job->bytes, &job->err);
    if (job->status != PS_OK && p->top >= 0) { /* name the directory, which may be that of another task */
        psi_err_prefix(&job->err, "%.*s/%s-%u", (int)(strrchr(p->path, '/') - p->path), p->path, p->job,
                       writer == 0 ? p->task : writer - 1);
    }
}

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* True if the loop must be woken now to report job's end. Ends of WRITEs that follow one another are reported together. */
static bool is_to_tell(const struct psd_disk *d, const struct job *job)
{
    return psi_list_empty(&d->queue) || job->op.kind != PSD_DISK_WRITE || d->untold == TOLD_MAX ||
           now_ns() - d->told_ns >= TOLD_NS;
}

/* Note that job has ended. Then move ended operations from the head of `begun` to `over`, so that they are reported in order. */
static void end_job(struct psd_disk *d, struct job *job)
{
    struct psi_list *link = psi_list_first(&d->begun);
    job->over = true;
    while (link != NULL && PSI_CONTAINER_OF(link, struct job, link)->over) {
        psi_list_push_back(&d->over, psi_list_pop_front(&d->begun));
        d->untold++;
        link = psi_list_first(&d->begun);
    }
    if (d->wake_open && d->untold > 0 && is_to_tell(d, job)) {
        d->untold = 0;
        d->told_ns = now_ns();
        PSI_IGNORE(uv_async_send(&d->wake)); /* fails for closing handles only */
    }
}

static void *run_jobs(void *arg)
{
    struct psd_disk *d = arg;
    (void)pthread_mutex_lock(&d->mutex);
    while (!d->stopping) {
        struct psi_list *link = begin_next(d);
        if (link == NULL) {
            (void)pthread_cond_wait(&d->changed, &d->mutex);
            continue;
        }
        struct job *job = PSI_CONTAINER_OF(link, struct job, link);
        (void)pthread_mutex_unlock(&d->mutex);
        carry_out(d, job);
        (void)pthread_mutex_lock(&d->mutex);
        end_job(d, job);
    }
    d->running--;
    bool ends_alone = d->running == 0 && d->release != NULL;
    (void)pthread_cond_broadcast(&d->changed);
    (void)pthread_mutex_unlock(&d->mutex);
    if (ends_alone) {
        d->release(d->release_arg);
        destroy(d);
    }
    return NULL;
}

static void on_wake(uv_async_t *async)
{
    struct psd_disk *d = async->data;
    for (;;) {
        (void)pthread_mutex_lock(&d->mutex);
        struct psi_list *link = d->wake_open ? psi_list_pop_front(&d->over) : NULL;
        (void)pthread_mutex_unlock(&d->mutex);
        if (link == NULL) {
            return;
        }
        struct job job = *PSI_CONTAINER_OF(link, struct job, link);
        /* before over_fn(), in which the core may begin new operations, and need all records */
        psi_list_push_back(&d->free_list, link);
        d->over_fn(d->ctx, job.op.id, job.status, job.err.reason, job.bytes, job.err.text);
    }
}

ps_status psd_disk_start(struct psd_disk *d, uv_loop_t *loop, psd_disk_over_fn over, void *ctx, struct psi_err *err)
{
    sigset_t all;
    sigset_t before;
    d->over_fn = over;
    d->ctx = ctx;
    int rc = uv_async_init(loop, &d->wake, on_wake);
    PSI_ASSERT(rc == 0); /* cannot fail: the loop has already opened the descriptor that uv_async_init() needs */
    d->wake.data = d;
    d->wake_open = true;
    sigfillset(&all); /* no signal on these threads; blocking SIGXFSZ makes a write beyond RLIMIT_FSIZE fail with EFBIG */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    (void)pthread_mutex_lock(&d->mutex);
    for (rc = 0; rc == 0 && d->thread_count < THREADS; d->thread_count += rc == 0) {
        rc = pthread_create(&d->threads[d->thread_count], NULL, run_jobs, d);
    }
    d->running = d->thread_count;
    (void)pthread_mutex_unlock(&d->mutex);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return d->thread_count > 0 ? PS_OK : psi_fail(err, PS_RESOURCE_EXHAUSTED, "no thread for the disk: %s", strerror(rc));
}

void psd_disk_run(struct psd_disk *d, const struct psd_disk_op *op)
{
    struct psi_list *link = psi_list_pop_front(&d->free_list);
    PSI_ASSERT(link != NULL); /* a record is free, because the core has at most PSD_DISK_OPS_MAX operations */
    PSI_CONTAINER_OF(link, struct job, link)->op = *op;
    PSI_CONTAINER_OF(link, struct job, link)->over = false;
    (void)pthread_mutex_lock(&d->mutex);
    psi_list_push_back(&d->queue, link);
    /* Wake a thread only if the operation may begin now. Otherwise the thread that is busy takes it afterwards: a wake-up for
     * each operation would cost as much as a small write. */
    if (may_begin(d)) {
        (void)pthread_cond_signal(&d->changed); /* before psd_disk_close(), only disk threads wait for `changed` */
    }
    (void)pthread_mutex_unlock(&d->mutex);
}

void psd_disk_close(struct psd_disk *d)
{
    if (d == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&d->mutex);
    bool open = d->wake_open;
    d->wake_open = false;
    d->stopping = true;
    (void)pthread_cond_broadcast(&d->changed);
    (void)pthread_mutex_unlock(&d->mutex);
    if (open) {
        uv_close((uv_handle_t *)&d->wake, NULL);
    }
}

bool psd_disk_end(struct psd_disk *d, uint32_t wait_ms, void (*release)(void *arg), void *arg)
{
    if (d == NULL) {
        return true;
    }
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += wait_ms / 1000;
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_mutex_lock(&d->mutex);
    while (d->running > 0 && pthread_cond_timedwait(&d->changed, &d->mutex, &until) == 0) {
    }
    bool threads_run = d->running > 0;
    if (threads_run) {
        d->release_arg = arg;
        d->release = release;
    }
    for (uint32_t i = 0; threads_run && i < d->thread_count; i++) {
        (void)pthread_detach(d->threads[i]);
    }
    (void)pthread_mutex_unlock(&d->mutex);
    if (!threads_run) {
        for (uint32_t i = 0; i < d->thread_count; i++) {
            (void)pthread_join(d->threads[i], NULL);
        }
        destroy(d);
    }
    return !threads_run;
}
