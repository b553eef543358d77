/* SPDX-License-Identifier: Apache-2.0 */
/* Open devices, and the order of their submissions.
 *
 * Happy path: psk_place_open() finds the plugin, and opens the device and three streams. psk_place_submit() makes the work's
 * stream wait for the events of the last uses of its memory on other streams, submits the work, and records the next event of the
 * ring. Failure modes: no such device; a refused submission (no memory, an operation that the device lacks) fails alone; a failed
 * device, or work that fails after its submission, ends the device for all its users (place->error).
 *
 * Two locks: open_mutex for the list of open devices, before a device's own lock for its streams. No lock is held during a wait,
 * except when the last user closes a device. */
#include "device.h"

#include "common/list.h"
#include "common/mem.h"
#include "plugin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* RING: events per stream, each used again after RING more submissions. A wait for an older submission then lasts until the newer
 * one is done, so RING is larger than the number of operations of several steps. */
enum { RING = 128, NAME_BYTES = 32 };

struct track {
    struct psk_stream *stream;
    struct psk_event *ring[RING];
    uint64_t last;                /* number of the last submission; 0: nothing was submitted yet */
    uint64_t waited[PSK_STREAMS]; /* new work of this stream starts only after submission waited[t] of stream t */
    uint64_t done;                /* atomic: number of the newest submission that is known to be done, with all before it */
    uint64_t unmarked;            /* number of the submission whose event could not be recorded; 0: each has its event */
};

struct psk_place {
    struct psi_list link;
    uint32_t refs; /* under open_mutex */
    char name[NAME_BYTES];
    const struct psk_plugin *plugin;
    struct psk_device *device;
    uint32_t index;
    bool host_memory;
    pthread_mutex_t lock; /* protects the fields below, and the order of submissions */
    struct track tracks[PSK_STREAMS];
    struct psi_err error; /* the first failure */
};

static struct psi_list open_places = {&open_places, &open_places};
static pthread_mutex_t open_mutex = PTHREAD_MUTEX_INITIALIZER;

/* True for an error of one submission, after which the device can still be used. */
static bool is_refusal(ps_status st)
{
    return st == PS_RESOURCE_EXHAUSTED || st == PS_UNIMPLEMENTED || st == PS_INVALID_ARGUMENT;
}

static ps_status check_locked(const struct psk_place *place, struct psi_err *err)
{
    if (place->error.code != PS_OK && err != NULL) {
        *err = place->error;
    }
    return place->error.code;
}

static ps_status check(struct psk_place *place, struct psi_err *err)
{
    (void)pthread_mutex_lock(&place->lock);
    const ps_status st = check_locked(place, err);
    (void)pthread_mutex_unlock(&place->lock);
    return st;
}

static void place_free(struct psk_place *place)
{
    const struct psk_plugin *plugin = place->plugin;
    for (size_t s = 0; s < PSK_STREAMS && place->device != NULL; s++) {
        struct track *t = &place->tracks[s];
        for (size_t i = 0; i < RING && t->ring[i] != NULL; i++) {
            plugin->event_free(place->device, t->ring[i]);
        }
        if (t->stream != NULL) {
            plugin->stream_free(place->device, t->stream);
        }
    }
    if (place->device != NULL) {
        plugin->device_close(place->device);
    }
    (void)pthread_mutex_destroy(&place->lock);
    psi_free(place);
}

static ps_status tracks_open(struct psk_place *place, struct psi_err *err)
{
    ps_status st = PS_OK;
    for (size_t s = 0; s < PSK_STREAMS && st == PS_OK; s++) {
        st = place->plugin->stream_new(place->device, &place->tracks[s].stream, err);
        for (size_t i = 0; i < RING && st == PS_OK; i++) {
            st = place->plugin->event_new(place->device, &place->tracks[s].ring[i], err);
        }
    }
    return st;
}

static ps_status device_open(struct psk_place *place, uint32_t index, struct psi_err *err)
{
    struct psi_err why = {0};
    const uint32_t count = place->plugin->device_count(&why);
    if (index >= count && count > 0) {
        return psi_fail(err, PS_NOT_FOUND, "there is no %s: this machine has %u of them", place->name, count);
    }
    if (index >= count) {
        return psi_fail(err, PS_NOT_FOUND, "there is no %s: %.400s", place->name, why.text);
    }
    return place->plugin->device_open(index, &place->device, err);
}

static ps_status place_new(const char *device, const char *plugin_name, uint32_t index, struct psk_place **out,
                           struct psi_err *err)
{
    struct psk_place *place = psi_calloc(1, sizeof(*place));
    if (place == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "device %s: record", device);
    }
    (void)pthread_mutex_init(&place->lock, NULL);
    (void)snprintf(place->name, sizeof(place->name), "%s", device);
    place->refs = 1;
    ps_status st = psk_plugin_get(plugin_name, &place->plugin, err);
    st = st == PS_OK ? device_open(place, index, err) : st;
    st = st == PS_OK ? tracks_open(place, err) : st;
    if (st != PS_OK) {
        place_free(place);
        return st;
    }
    struct psk_properties properties;
    place->plugin->properties(place->device, &properties);
    place->index = properties.index;
    place->host_memory = properties.host_memory;
    psi_list_push_back(&open_places, &place->link);
    *out = place;
    return PS_OK;
}

/* Parse "gpu:1" as device 1 of plugin cuda; without a number device 0. name gets the full name, which has no number for "cpu". */
static ps_status name_parse(const char *device, char name[NAME_BYTES], char plugin[NAME_BYTES], uint32_t *out_index,
                            struct psi_err *err)
{
    const size_t word = device != NULL ? strcspn(device, ":") : 0;
    char *end = NULL;
    const bool numbered = device != NULL && device[word] == ':';
    const bool digit = numbered && device[word + 1] >= '0' && device[word + 1] <= '9';
    const unsigned long index = digit ? strtoul(device + word + 1, &end, 10) : 0;
    if (word == 0 || word >= NAME_BYTES - 8 || (numbered && (!digit || *end != '\0' || index > 999))) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "'%.80s' names no device: it must be cpu, or gpu:N",
                        device != NULL ? device : "");
    }
    (void)snprintf(plugin, NAME_BYTES, "%.*s", (int)word, device);
    const bool cpu = strcmp(plugin, "cpu") == 0;
    (void)snprintf(name, NAME_BYTES, cpu && index == 0 ? "%.*s" : "%.*s:%lu", (int)word, device, index);
    if (strcmp(plugin, "gpu") == 0) {
        (void)snprintf(plugin, NAME_BYTES, "cuda");
    }
    *out_index = (uint32_t)index;
    return PS_OK;
}

static struct psk_place *place_find(const char *name)
{
    for (struct psi_list *it = open_places.next; it != &open_places; it = it->next) {
        struct psk_place *place = PSI_CONTAINER_OF(it, struct psk_place, link);
        if (strcmp(place->name, name) == 0) {
            return place;
        }
    }
    return NULL;
}

ps_status psk_place_open(const char *device, uint32_t threads, struct psk_place **out, struct psi_err *err)
{
    char name[NAME_BYTES];
    char plugin[NAME_BYTES];
    uint32_t index = 0;
    ps_status st = name_parse(device, name, plugin, &index, err);
    if (st != PS_OK) {
        return st;
    }
    (void)pthread_mutex_lock(&open_mutex);
    struct psk_place *place = place_find(name);
    if (place != NULL) {
        st = check(place, err);
        if (st != PS_OK) {
            psi_err_prefix(err, "%s failed, and is open as long as others use it", name);
        }
        place->refs += st == PS_OK;
    } else {
        st = place_new(name, plugin, index, &place, err);
    }
    if (st == PS_OK && threads > 0 && place->plugin->set_threads != NULL) {
        place->plugin->set_threads(place->device, threads);
    }
    (void)pthread_mutex_unlock(&open_mutex);
    if (st == PS_OK) {
        *out = place;
    }
    return st;
}

struct psk_place *psk_place_ref(struct psk_place *place)
{
    (void)pthread_mutex_lock(&open_mutex);
    place->refs++;
    (void)pthread_mutex_unlock(&open_mutex);
    return place;
}

void psk_place_close(struct psk_place *place)
{
    if (place == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&open_mutex);
    const bool last = --place->refs == 0;
    if (last) { /* closes under open_mutex: a thread that opens the device now waits, and opens it anew */
        struct psk_marks all;
        for (size_t s = 0; s < PSK_STREAMS; s++) {
            all.at[s] = place->tracks[s].last;
        }
        PSI_IGNORE(psk_place_wait(place, &all, NULL)); /* an error is ignored: no caller is left to get it */
        psi_list_remove(&place->link);
        place_free(place);
    }
    (void)pthread_mutex_unlock(&open_mutex);
}

const char *psk_place_name(const struct psk_place *place)
{
    return place->name;
}

const char *psk_place_plugin(const struct psk_place *place)
{
    return place->plugin->name;
}

const char *psk_place_type(const struct psk_place *place)
{
    return place->plugin->type;
}

void psk_place_properties(const struct psk_place *place, struct psk_properties *out)
{
    (void)pthread_mutex_lock(&open_mutex); /* psk_place_open() of another thread may change the number of CPU threads */
    place->plugin->properties(place->device, out);
    (void)pthread_mutex_unlock(&open_mutex);
}

uint32_t psk_place_index(const struct psk_place *place)
{
    return place->index;
}

bool psk_place_has_host_memory(const struct psk_place *place)
{
    return place->host_memory;
}

ps_status psk_place_buffer(struct psk_place *place, size_t bytes, psk_address *out, struct psi_err *err)
{
    return place->plugin->buffer_new(place->device, bytes, out, err);
}

void psk_place_buffer_free(struct psk_place *place, psk_address address)
{
    if (address != 0) {
        place->plugin->buffer_free(place->device, address);
    }
}

ps_status psk_place_pinned(struct psk_place *place, size_t bytes, void **out, struct psi_err *err)
{
    return place->plugin->pinned_new(place->device, bytes, out, err);
}

void psk_place_pinned_free(struct psk_place *place, void *memory)
{
    if (memory != NULL) {
        place->plugin->pinned_free(place->device, memory);
    }
}

/* Make work that is submitted to stream s from now on start after submission n of stream t. */
static ps_status order(struct psk_place *place, size_t s, size_t t, uint64_t n, struct psi_err *err)
{
    struct track *mine = &place->tracks[s];
    if (s == t || n <= mine->waited[t] || n <= __atomic_load_n(&place->tracks[t].done, __ATOMIC_RELAXED)) {
        return PS_OK;
    }
    const ps_status st = place->plugin->stream_wait(place->device, mine->stream, place->tracks[t].ring[n % RING], err);
    mine->waited[t] = st == PS_OK ? n : mine->waited[t];
    return st;
}

static ps_status submit_locked(struct psk_place *place, const struct psk_work *work, struct psi_err *err)
{
    struct track *t = &place->tracks[work->stream];
    ps_status st = check_locked(place, err);
    for (size_t m = 0; m < work->mark_count; m++) {
        for (size_t s = 0; s < PSK_STREAMS && st == PS_OK; s++) {
            st = order(place, (size_t)work->stream, s, work->marks[m]->at[s], err);
        }
    }
    st = st == PS_OK ? work->submit(place->plugin, place->device, t->stream, work->arg, err) : st;
    if (st != PS_OK) {
        return st;
    }
    const uint64_t n = ++t->last; /* counted at once: the work is submitted, even if no event can be recorded for it */
    for (size_t m = 0; m < work->mark_count; m++) {
        work->marks[m]->at[work->stream] = n;
    }
    st = place->plugin->event_record(place->device, t->stream, t->ring[n % RING], err);
    if (st != PS_OK) { /* without an event the end of the work cannot be seen, so the device takes no further work */
        t->unmarked = n;
        place->error = *err;
    }
    return st;
}

ps_status psk_place_submit(struct psk_place *place, const struct psk_work *work, struct psi_err *err)
{
    struct psi_err why = {0};
    if (place->host_memory) { /* submit() does the work at once: there is no order to keep, so no lock */
        return work->submit(place->plugin, place->device, place->tracks[work->stream].stream, work->arg, err);
    }
    (void)pthread_mutex_lock(&place->lock);
    const ps_status st = submit_locked(place, work, &why);
    if (st != PS_OK && !is_refusal(st) && place->error.code == PS_OK) {
        place->error = why;
    }
    (void)pthread_mutex_unlock(&place->lock);
    if (st != PS_OK && err != NULL) {
        *err = why;
    }
    return st;
}

ps_status psk_place_wait(struct psk_place *place, const struct psk_marks *marks, struct psi_err *err)
{
    /* wait for all streams, also after a failure, because the caller may free the memory that they use */
    for (size_t s = 0; s < PSK_STREAMS; s++) {
        struct psi_err why = {0};
        struct track *t = &place->tracks[s];
        const uint64_t n = marks->at[s];
        if (n <= __atomic_load_n(&t->done, __ATOMIC_ACQUIRE)) {
            continue;
        }
        (void)pthread_mutex_lock(&place->lock);
        ps_status st = PS_OK;
        if (n == t->unmarked) { /* submission n has no event, because recording failed: record it now */
            st = place->plugin->event_record(place->device, t->stream, t->ring[n % RING], &why);
            t->unmarked = st == PS_OK ? 0 : n;
        }
        (void)pthread_mutex_unlock(&place->lock);
        st = st == PS_OK ? place->plugin->event_wait(place->device, t->ring[n % RING], &why) : st;
        (void)pthread_mutex_lock(&place->lock);
        if (st != PS_OK && place->error.code == PS_OK) {
            place->error = why;
        } else if (st == PS_OK && n > t->done) {
            __atomic_store_n(&t->done, n, __ATOMIC_RELEASE);
        }
        (void)pthread_mutex_unlock(&place->lock);
    }
    return check(place, err);
}

static void on_called(void *ctx, const struct psi_err *error)
{
    const struct psk_call call = *(struct psk_call *)ctx;
    if (error != NULL) {
        (void)pthread_mutex_lock(&call.place->lock);
        if (call.place->error.code == PS_OK) {
            call.place->error = *error;
        }
        (void)pthread_mutex_unlock(&call.place->lock);
    }
    call.done(call.ctx, error);
}

ps_status psk_place_call(struct psk_place *place, int stream, struct psk_call *call, psk_done_fn done, void *ctx,
                         struct psi_err *err)
{
    const ps_status st = check(place, err);
    *call = (struct psk_call){place, done, ctx};
    return st == PS_OK ? place->plugin->stream_call(place->device, place->tracks[stream].stream, on_called, call, err) : st;
}
