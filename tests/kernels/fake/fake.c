/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake device of fake.h.
 *
 * Happy path: a submission is put into its stream's queue; the stream's thread takes it, waits for an event or sleeps, does the
 * work on the alias of the device's memory, counts it as finished. An event is a number of a stream. Failure modes: those that
 * the settings ask for; labels that are no classes. After a failure of work nothing is computed any more, and all is still
 * finished.
 */
#include "fake.h"

#include "common/mem.h"
#include "worker/nn/kernels/cpu/cpu.h"
#include "worker/nn/kernels/ops.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define POISON 0xff
enum { ALIGN_BYTES = 256, STREAMS_MAX = 8 };

enum kind { RUN, COPY_IN, COPY_OUT, WAIT, CALL };

struct work {
    struct work *next;
    enum kind kind;
    uint32_t delay_us;
    psk_op op; /* RUN */
    struct psk_tensor args[PSK_ARGS_MAX];
    struct psk_attrs attrs;
    bool fails;
    psk_address address; /* copies */
    void *host;
    size_t bytes;
    struct psk_stream *other; /* WAIT, until this one has finished number */
    uint64_t number;
    psk_done_fn done; /* CALL */
    void *ctx;
};

/* A piece of memory: of the device (at is its address) or pinned. */
struct piece {
    struct piece *next;
    uintptr_t at;
    size_t bytes;
};

struct psk_stream {
    struct psk_device *device;
    pthread_t thread;
    struct work *first, **last;
    uint64_t submitted, finished;
    bool ending;
    uint64_t random;
};

struct psk_event {
    struct psk_stream *stream; /* NULL: never recorded */
    uint64_t number;
};

struct psk_device {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char *guarded; /* addresses; PROT_NONE */
    char *alias;   /* the memory */
    size_t bytes;
    uint32_t index;
    struct piece *buffers, *pinned; /* buffers by rising address */
    struct psk_stream *streams[STREAMS_MAX];
    struct psi_err error; /* the first failure of work */
};

static struct psk_fake_settings settings = {.delay_us_max = 200, .devices = 1, .memory_bytes = 64 << 20};
static pthread_once_t settings_once = PTHREAD_ONCE_INIT;

static void settings_read(void)
{
    const struct {
        const char *name;
        uint64_t value;
    } defaults[] = {{"PSK_FAKE_SEED", 1},
                    {"PSK_FAKE_DELAY_US", settings.delay_us_max},
                    {"PSK_FAKE_DEVICES", settings.devices},
                    {"PSK_FAKE_MEMORY", settings.memory_bytes},
                    {"PSK_FAKE_FAIL_AT", 0}};
    uint64_t value[5];
    for (size_t i = 0; i < 5; i++) {
        const char *text = getenv(defaults[i].name);
        value[i] = text != NULL ? strtoull(text, NULL, 10) : defaults[i].value;
    }
    settings.seed = value[0];
    settings.delay_us_max = (uint32_t)value[1];
    settings.devices = (uint32_t)value[2];
    settings.memory_bytes = (size_t)value[3];
    settings.fail_at = (int64_t)value[4];
}

__attribute__((visibility("default"))) struct psk_fake_settings *psk_fake(void)
{
    (void)pthread_once(&settings_once, settings_read);
    return &settings;
}

/* The host broke the contract. */
static void broken(const char *what)
{
    (void)fprintf(stderr, "ERROR: fake device: %s\n", what);
    abort();
}

/* ---- memory ---- */

static const struct piece *piece_of(const struct piece *list, uintptr_t at, size_t bytes)
{
    for (; list != NULL; list = list->next) {
        if (at >= list->at && at + bytes <= list->at + list->bytes) {
            return list;
        }
    }
    return NULL;
}

static char *alias_of(const struct psk_device *d, psk_address address)
{
    return d->alias + ((char *)(uintptr_t)address - d->guarded);
}

static bool overlaps(uintptr_t a, size_t a_bytes, uintptr_t b, size_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

static bool work_uses(const struct work *w, uintptr_t at, size_t bytes)
{
    if (w->kind == COPY_IN || w->kind == COPY_OUT) {
        return overlaps((uintptr_t)w->address, w->bytes, at, bytes) || overlaps((uintptr_t)w->host, w->bytes, at, bytes);
    }
    for (size_t i = 0; w->kind == RUN && i < psk_arg_count(w->op); i++) {
        if (w->args[i].address != 0 && overlaps((uintptr_t)w->args[i].address, psk_tensor_bytes(&w->args[i]), at, bytes)) {
            return true;
        }
    }
    return false;
}

/* Under the lock: nothing that is queued or runs uses it. */
static void check_unused(const struct psk_device *d, const struct piece *p)
{
    for (size_t s = 0; s < STREAMS_MAX; s++) {
        for (const struct work *w = d->streams[s] != NULL ? d->streams[s]->first : NULL; w != NULL; w = w->next) {
            if (work_uses(w, p->at, p->bytes)) {
                broken("memory is freed that work uses");
            }
        }
    }
}

static void piece_free(struct psk_device *d, struct piece **list, uintptr_t at, bool pinned)
{
    (void)pthread_mutex_lock(&d->lock);
    struct piece **p = list;
    while (*p != NULL && (*p)->at != at) {
        p = &(*p)->next;
    }
    struct piece *found = *p;
    if (found == NULL) {
        broken("memory is freed that is not its own");
    } else {
        check_unused(d, found);
        *p = found->next;
        memset(pinned ? (char *)at : alias_of(d, at), POISON, found->bytes);
    }
    (void)pthread_mutex_unlock(&d->lock);
    psi_free(found);
}

static ps_status buffer_new(struct psk_device *d, size_t bytes, psk_address *out, struct psi_err *err)
{
    struct piece *new = psi_calloc(1, sizeof(*new));
    const size_t room = (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    uintptr_t at = (uintptr_t)d->guarded;
    (void)pthread_mutex_lock(&d->lock);
    struct piece **p = &d->buffers;
    while (*p != NULL && (*p)->at - at < room) { /* the gap before this one is too small */
        at = (*p)->at + (*p)->bytes;
        p = &(*p)->next;
    }
    const bool fits = room >= bytes && (uintptr_t)d->guarded + d->bytes - at >= room;
    if (fits && new != NULL) {
        *new = (struct piece){*p, at, room};
        *p = new;
        memset(alias_of(d, at), POISON, room);
        *out = at;
    }
    (void)pthread_mutex_unlock(&d->lock);
    if (!fits || new == NULL) {
        psi_free(new);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "fake:%u has no memory for %zu bytes", d->index, bytes);
    }
    return PS_OK;
}

static void buffer_free(struct psk_device *d, psk_address address)
{
    piece_free(d, &d->buffers, (uintptr_t)address, false);
}

static ps_status pinned_new(struct psk_device *d, size_t bytes, void **out, struct psi_err *err)
{
    struct piece *new = psi_calloc(1, sizeof(*new));
    const size_t room = (bytes + 63) / 64 * 64;
    void *memory = room >= bytes && !settings.no_pinned ? psi_aligned_malloc(64, room) : NULL;
    if (new == NULL || memory == NULL) {
        psi_free(new);
        psi_free(memory);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "fake:%u cannot pin %zu bytes", d->index, bytes);
    }
    memset(memory, POISON, room);
    (void)pthread_mutex_lock(&d->lock);
    *new = (struct piece){d->pinned, (uintptr_t)memory, room};
    d->pinned = new;
    (void)pthread_mutex_unlock(&d->lock);
    *out = memory;
    return PS_OK;
}

static void pinned_free(struct psk_device *d, void *memory)
{
    piece_free(d, &d->pinned, (uintptr_t)memory, true);
    psi_free(memory);
}

/* ---- the threads ---- */

static void fail_work(struct psk_device *d, ps_status st, const char *name, const char *why)
{
    (void)pthread_mutex_lock(&d->lock);
    if (d->error.code == PS_OK) {
        PSI_IGNORE(psi_fail(&d->error, st, "fake:%u: %s: %s", d->index, name, why)); /* told by whoever waits */
    }
    (void)pthread_mutex_unlock(&d->lock);
}

static void run(struct psk_device *d, const struct work *w)
{
    struct psk_tensor args[PSK_ARGS_MAX];
    struct psi_err err = {0};
    const char *name = psk_rows[w->op].name;
    for (size_t i = 0; i < psk_arg_count(w->op); i++) {
        args[i] = w->args[i];
        args[i].address = args[i].address != 0 ? (psk_address)(uintptr_t)alias_of(d, args[i].address) : 0;
    }
    if (w->fails) {
        fail_work(d, PS_INTERNAL, name, "the device failed");
    } else if (psk_op_check_labels(w->op, args, &err) != PS_OK || psk_op_check_indices(w->op, args, &w->attrs, &err) != PS_OK) {
        fail_work(d, err.code, name, err.text);
    } else if (psk_cpu_run[w->op](NULL, NULL, args, &w->attrs, &err) != PS_OK) {
        fail_work(d, err.code, name, err.text);
    }
}

static void sleep_us(uint32_t us)
{
    const struct timespec t = {.tv_nsec = (long)us * 1000};
    if (us > 0) {
        (void)nanosleep(&t, NULL); /* sleep: the delay is what the fake is for */
    }
}

/* Without the lock, but for WAIT. */
static void execute(struct psk_device *d, const struct work *w)
{
    struct psi_err error = {0};
    (void)pthread_mutex_lock(&d->lock);
    while (w->kind == WAIT && w->other->finished < w->number) {
        (void)pthread_cond_wait(&d->changed, &d->lock);
    }
    error = d->error;
    (void)pthread_mutex_unlock(&d->lock);
    sleep_us(w->delay_us);
    if (w->kind == CALL) {
        w->done(w->ctx, error.code != PS_OK ? &error : NULL);
    } else if (error.code != PS_OK) {
        return;
    } else if (w->kind == RUN) {
        run(d, w);
    } else if (w->kind == COPY_IN) {
        memcpy(alias_of(d, w->address), w->host, w->bytes);
    } else if (w->kind == COPY_OUT) {
        memcpy(w->host, alias_of(d, w->address), w->bytes);
    }
}

static void *stream_main(void *arg)
{
    struct psk_stream *s = arg;
    struct psk_device *d = s->device;
    (void)pthread_mutex_lock(&d->lock);
    for (;;) {
        while (s->first == NULL && !s->ending) {
            (void)pthread_cond_wait(&d->changed, &d->lock);
        }
        struct work *w = s->first;
        if (w == NULL) {
            break;
        }
        (void)pthread_mutex_unlock(&d->lock);
        execute(d, w);
        (void)pthread_mutex_lock(&d->lock);
        s->first = w->next;
        s->last = s->first == NULL ? &s->first : s->last;
        s->finished++;
        (void)pthread_cond_broadcast(&d->changed);
        psi_free(w);
    }
    (void)pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* ---- submissions ---- */

static ps_status submit(struct psk_device *d, struct psk_stream *s, const struct work *what, struct psi_err *err)
{
    struct work *w = psi_malloc(sizeof(*w));
    (void)pthread_mutex_lock(&d->lock);
    const bool refused = settings.refuse_at > 0 && what->kind != WAIT && --settings.refuse_at == 0;
    if (w == NULL || refused) {
        (void)pthread_mutex_unlock(&d->lock);
        psi_free(w);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "fake:%u: work is refused", d->index);
    }
    *w = *what;
    w->next = NULL;
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    w->delay_us = settings.delay_us_max > 0 ? (uint32_t)((s->random >> 33) % (settings.delay_us_max + 1)) : 0;
    w->delay_us = (s->random >> 60) < 8 ? 0 : w->delay_us; /* half of it at once */
    w->fails = w->kind == RUN && settings.fail_at > 0 && --settings.fail_at == 0;
    settings.runs += w->kind == RUN;
    settings.copies_in += w->kind == COPY_IN;
    settings.copies_out += w->kind == COPY_OUT;
    *s->last = w;
    s->last = &w->next;
    s->submitted++;
    (void)pthread_cond_broadcast(&d->changed);
    (void)pthread_mutex_unlock(&d->lock);
    return PS_OK;
}

static ps_status submit_copy(struct psk_device *d, struct psk_stream *s, enum kind kind, psk_address address, void *host,
                             size_t bytes, struct psi_err *err)
{
    (void)pthread_mutex_lock(&d->lock);
    if (piece_of(d->buffers, (uintptr_t)address, bytes) == NULL) {
        broken("a copy reaches outside of buffers");
    }
    if (bytes == 0 || piece_of(d->pinned, (uintptr_t)host, bytes) == NULL) {
        broken("a copy's host memory is not pinned");
    }
    (void)pthread_mutex_unlock(&d->lock);
    return submit(d, s, &(struct work){.kind = kind, .address = address, .host = host, .bytes = bytes}, err);
}

static ps_status copy_in(struct psk_device *d, struct psk_stream *s, psk_address to, const void *from, size_t bytes,
                         struct psi_err *err)
{
    return submit_copy(d, s, COPY_IN, to, (void *)(uintptr_t)from, bytes, err);
}

static ps_status copy_out(struct psk_device *d, struct psk_stream *s, void *to, psk_address from, size_t bytes,
                          struct psi_err *err)
{
    return submit_copy(d, s, COPY_OUT, from, to, bytes, err);
}

static ps_status submit_run(psk_op op, struct psk_device *d, struct psk_stream *s, const struct psk_tensor *args,
                            const struct psk_attrs *attrs, struct psi_err *err)
{
    struct work w = {.kind = RUN, .op = op, .attrs = *attrs};
    if (psk_op_check(op, args, attrs, NULL, err) != PS_OK || psk_op_check_overlap(op, args, NULL, err) != PS_OK) {
        broken("an operation's arguments do not fit");
    }
    (void)pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < psk_arg_count(op); i++) {
        w.args[i] = args[i];
        const size_t bytes = args[i].dtype != PS_DTYPE_NONE ? psk_tensor_bytes(&args[i]) : 0;
        if (bytes > 0 && piece_of(d->buffers, (uintptr_t)args[i].address, bytes) == NULL) {
            broken("an operation reaches outside of buffers");
        }
    }
    (void)pthread_mutex_unlock(&d->lock);
    return submit(d, s, &w, err);
}

#define RUN_OF(op)                                                                                                               \
    static ps_status run_##op(struct psk_device *d, struct psk_stream *s, const struct psk_tensor *args,                         \
                              const struct psk_attrs *attrs, struct psi_err *err)                                                \
    {                                                                                                                            \
        return submit_run(op, d, s, args, attrs, err);                                                                           \
    }
RUN_OF(PSK_DENSE)
RUN_OF(PSK_DENSE_DX)
RUN_OF(PSK_DENSE_DW)
RUN_OF(PSK_ACT)
RUN_OF(PSK_ACT_BACKWARD)
RUN_OF(PSK_DROPOUT)
RUN_OF(PSK_SOFTMAX_XENT)
RUN_OF(PSK_ARGMAX_COUNT)
RUN_OF(PSK_SGD)
RUN_OF(PSK_LOSS)
RUN_OF(PSK_GELU)
RUN_OF(PSK_GELU_BACKWARD)
RUN_OF(PSK_ADD)
RUN_OF(PSK_LAYER_NORM)
RUN_OF(PSK_LAYER_NORM_BACKWARD)
RUN_OF(PSK_EMBEDDING)
RUN_OF(PSK_EMBEDDING_BACKWARD)
RUN_OF(PSK_EMBEDDING_BAG)
RUN_OF(PSK_EMBEDDING_BAG_BACKWARD)
RUN_OF(PSK_FM)
RUN_OF(PSK_FM_BACKWARD)
RUN_OF(PSK_DOT)
RUN_OF(PSK_DOT_BACKWARD)

static const psk_run_fn runs[PSK_OPS] = {[PSK_DENSE] = run_PSK_DENSE,
                                         [PSK_DENSE_DX] = run_PSK_DENSE_DX,
                                         [PSK_DENSE_DW] = run_PSK_DENSE_DW,
                                         [PSK_ACT] = run_PSK_ACT,
                                         [PSK_ACT_BACKWARD] = run_PSK_ACT_BACKWARD,
                                         [PSK_DROPOUT] = run_PSK_DROPOUT,
                                         [PSK_SOFTMAX_XENT] = run_PSK_SOFTMAX_XENT,
                                         [PSK_ARGMAX_COUNT] = run_PSK_ARGMAX_COUNT,
                                         [PSK_SGD] = run_PSK_SGD,
                                         [PSK_LOSS] = run_PSK_LOSS,
                                         [PSK_GELU] = run_PSK_GELU,
                                         [PSK_GELU_BACKWARD] = run_PSK_GELU_BACKWARD,
                                         [PSK_ADD] = run_PSK_ADD,
                                         [PSK_LAYER_NORM] = run_PSK_LAYER_NORM,
                                         [PSK_LAYER_NORM_BACKWARD] = run_PSK_LAYER_NORM_BACKWARD,
                                         [PSK_EMBEDDING] = run_PSK_EMBEDDING,
                                         [PSK_EMBEDDING_BACKWARD] = run_PSK_EMBEDDING_BACKWARD,
                                         [PSK_EMBEDDING_BAG] = run_PSK_EMBEDDING_BAG,
                                         [PSK_EMBEDDING_BAG_BACKWARD] = run_PSK_EMBEDDING_BAG_BACKWARD,
                                         [PSK_FM] = run_PSK_FM,
                                         [PSK_FM_BACKWARD] = run_PSK_FM_BACKWARD,
                                         [PSK_DOT] = run_PSK_DOT,
                                         [PSK_DOT_BACKWARD] = run_PSK_DOT_BACKWARD};

/* ---- streams and events ---- */

static ps_status stream_new(struct psk_device *d, struct psk_stream **out, struct psi_err *err)
{
    struct psk_stream *s = psi_calloc(1, sizeof(*s));
    size_t i = 0;
    while (i < STREAMS_MAX && d->streams[i] != NULL) {
        i++;
    }
    if (s == NULL || i == STREAMS_MAX) {
        psi_free(s);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "fake:%u: no stream", d->index);
    }
    s->device = d;
    s->last = &s->first;
    s->random = settings.seed * 0x9e3779b97f4a7c15u + i;
    (void)pthread_mutex_lock(&d->lock);
    const bool started = pthread_create(&s->thread, NULL, stream_main, s) == 0;
    d->streams[i] = started ? s : NULL;
    (void)pthread_mutex_unlock(&d->lock);
    if (!started) {
        psi_free(s);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "fake:%u: no thread", d->index);
    }
    *out = s;
    return PS_OK;
}

/* As CUDA's: what another stream has still to do, maybe to wait for this one, stays in order. Work that was refused may leave the
 * wait before it behind, which no event stands for. */
static void stream_free(struct psk_device *d, struct psk_stream *s)
{
    (void)pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < STREAMS_MAX; i++) {
        while (d->streams[i] != NULL && d->streams[i]->finished < d->streams[i]->submitted) {
            (void)pthread_cond_wait(&d->changed, &d->lock);
        }
    }
    s->ending = true;
    (void)pthread_cond_broadcast(&d->changed);
    (void)pthread_mutex_unlock(&d->lock);
    (void)pthread_join(s->thread, NULL);
    for (size_t i = 0; i < STREAMS_MAX; i++) {
        d->streams[i] = d->streams[i] == s ? NULL : d->streams[i];
    }
    psi_free(s);
}

static ps_status event_new(struct psk_device *d, struct psk_event **out, struct psi_err *err)
{
    struct psk_event *e = psi_calloc(1, sizeof(*e));
    if (e == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "fake:%u: no event", d->index);
    }
    *out = e;
    return PS_OK;
}

static void event_free(struct psk_device *d, struct psk_event *e)
{
    (void)d;
    psi_free(e);
}

static ps_status event_record(struct psk_device *d, struct psk_stream *s, struct psk_event *e, struct psi_err *err)
{
    (void)pthread_mutex_lock(&d->lock);
    const bool refused = settings.unmarked_at > 0 && --settings.unmarked_at == 0;
    if (!refused) {
        *e = (struct psk_event){s, s->submitted};
    }
    (void)pthread_mutex_unlock(&d->lock);
    return refused ? psi_fail(err, PS_RESOURCE_EXHAUSTED, "fake:%u: an event is refused", d->index) : PS_OK;
}

static ps_status stream_wait(struct psk_device *d, struct psk_stream *s, struct psk_event *e, struct psi_err *err)
{
    (void)pthread_mutex_lock(&d->lock);
    const struct psk_event now = *e;
    (void)pthread_mutex_unlock(&d->lock);
    return now.stream == NULL ? PS_OK
                              : submit(d, s, &(struct work){.kind = WAIT, .other = now.stream, .number = now.number}, err);
}

static ps_status event_wait(struct psk_device *d, struct psk_event *e, struct psi_err *err)
{
    (void)pthread_mutex_lock(&d->lock);
    const struct psk_event now = *e;
    while (now.stream != NULL && now.stream->finished < now.number) {
        (void)pthread_cond_wait(&d->changed, &d->lock);
    }
    const ps_status st = d->error.code;
    if (st != PS_OK && err != NULL) {
        *err = d->error;
    }
    (void)pthread_mutex_unlock(&d->lock);
    return st;
}

static ps_status stream_call(struct psk_device *d, struct psk_stream *s, psk_done_fn done, void *ctx, struct psi_err *err)
{
    return submit(d, s, &(struct work){.kind = CALL, .done = done, .ctx = ctx}, err);
}

/* ---- devices ---- */

static uint32_t device_count(struct psi_err *why)
{
    if (psk_fake()->devices == 0) {
        PSI_IGNORE(psi_fail(why, PS_NOT_FOUND, "the settings give none")); /* the count says it */
    }
    return psk_fake()->devices;
}

static ps_status device_open(uint32_t index, struct psk_device **out, struct psi_err *err)
{
    struct psk_device *d = psi_calloc(1, sizeof(*d));
    const size_t bytes = psk_fake()->memory_bytes;
    char *guarded = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *alias = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (d == NULL || guarded == MAP_FAILED || alias == MAP_FAILED) {
        psi_free(d);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "fake:%u: no memory", index);
    }
    (void)pthread_mutex_init(&d->lock, NULL);
    (void)pthread_cond_init(&d->changed, NULL);
    d->guarded = guarded;
    d->alias = alias;
    d->bytes = bytes;
    d->index = index;
    *out = d;
    return PS_OK;
}

static void device_close(struct psk_device *d)
{
    for (size_t i = 0; i < STREAMS_MAX; i++) {
        if (d->streams[i] != NULL) {
            broken("a device is closed that has a stream");
        }
    }
    if (d->buffers != NULL || d->pinned != NULL) {
        broken("a device is closed whose memory is not all freed");
    }
    (void)munmap(d->guarded, d->bytes);
    (void)munmap(d->alias, d->bytes);
    (void)pthread_cond_destroy(&d->changed);
    (void)pthread_mutex_destroy(&d->lock);
    psi_free(d);
}

static void properties(struct psk_device *d, struct psk_properties *out)
{
    memset(out, 0, sizeof(*out));
    (void)snprintf(out->name, sizeof(out->name), "fake");
    (void)snprintf(out->warning, sizeof(out->warning), "%s", settings.warning != NULL ? settings.warning : "");
    out->index = d->index;
    out->memory_bytes = d->bytes;
}

static const struct psk_plugin plugin = {
    .abi = PSK_ABI,
    .struct_bytes = sizeof(struct psk_plugin),
    .name = "fake",
    .type = "FAKE",
    .device_count = device_count,
    .device_open = device_open,
    .device_close = device_close,
    .properties = properties,
    .buffer_new = buffer_new,
    .buffer_free = buffer_free,
    .pinned_new = pinned_new,
    .pinned_free = pinned_free,
    .stream_new = stream_new,
    .stream_free = stream_free,
    .event_new = event_new,
    .event_free = event_free,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .event_record = event_record,
    .stream_wait = stream_wait,
    .event_wait = event_wait,
    .stream_call = stream_call,
    .run = runs,
};

const struct psk_plugin *psk_open(uint32_t abi)
{
    (void)abi; /* the host compares */
    return &plugin;
}
