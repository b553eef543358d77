/* SPDX-License-Identifier: Apache-2.0 */
/* Values on the host, on a device, or on both, and operations on them. Happy path: psk_block_run() checks the shapes, copies the
 * inputs that the device lacks to it, and submits the operation; the outputs are then on the device only. Marks (device.h) keep
 * copies and operations in order. psk_block_read() copies values back and waits. Failure modes: no memory, or the device refuses:
 * the values stay where they were; the device fails: its values are lost, and every later call says so. */
#include "block.h"

#include "common/mem.h"

#include <stdatomic.h>
#include <string.h>

enum { ALIGN_BYTES = 64 };

static void host_drop(struct psk_block *b)
{
    if (b->pinned != NULL) {
        psk_place_pinned_free(b->pinned, b->host);
        psk_place_close(b->pinned);
    } else {
        psi_free(b->host);
    }
    b->pinned = NULL;
    b->host = NULL;
    b->host_bytes = 0;
}

static ps_status host_new(struct psk_place *place, size_t bytes, void **out, struct psi_err *err)
{
    if (place != NULL && !psk_place_has_host_memory(place)) {
        return psk_place_pinned(place, bytes, out, err);
    }
    *out = bytes <= SIZE_MAX - ALIGN_BYTES
               ? psi_aligned_malloc(ALIGN_BYTES, (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES)
               : NULL;
    return *out != NULL ? PS_OK : psi_fail(err, PS_RESOURCE_EXHAUSTED, "no memory for %zu bytes", bytes);
}

/* Size of a new buffer for `bytes`: at least b->room_bytes, the owner's hint of how many bytes later calls may need. */
static size_t whole(const struct psk_block *b, size_t bytes)
{
    return bytes > b->room_bytes ? bytes : b->room_bytes;
}

/* The device that must pin host memory so that copies are direct: `place`; NULL: there is no device, or it uses host memory. */
static struct psk_place *pinner(struct psk_place *place)
{
    return place != NULL && !psk_place_has_host_memory(place) ? place : NULL;
}

/* Make b->host at least `bytes` pinned for place, and copy the host's values there. No submitted work may use the old memory. */
static ps_status host_room(struct psk_block *b, struct psk_place *place, size_t bytes, struct psi_err *err)
{
    void *memory = NULL;
    if (b->host != NULL && b->host_bytes >= bytes && b->pinned == pinner(place)) {
        return PS_OK;
    }
    const ps_status st = host_new(place, bytes, &memory, err);
    if (st != PS_OK) {
        return st;
    }
    if (b->on_host && b->host != NULL) {
        memcpy(memory, b->host, b->host_bytes < bytes ? b->host_bytes : bytes);
    }
    host_drop(b);
    b->host = memory;
    b->host_bytes = bytes;
    b->pinned = pinner(place) != NULL ? psk_place_ref(place) : NULL;
    return PS_OK;
}

/* Wait for the copies from and to b->host that were submitted. Afterwards the host may read and write b->host. */
static ps_status settle(struct psk_block *b, struct psi_err *err)
{
    struct psk_marks copies = {.at = {[PSK_IN] = b->marks.at[PSK_IN], [PSK_OUT] = b->marks.at[PSK_OUT]}};
    return b->place != NULL ? psk_place_wait(b->place, &copies, err) : PS_OK;
}

static void device_drop(struct psk_block *b)
{
    if (b->place == NULL) {
        return;
    }
    PSI_IGNORE(psk_place_wait(b->place, &b->marks, NULL)); /* an error is ignored: no caller needs the values any more */
    psk_place_buffer_free(b->place, b->address);
    psk_place_close(b->place);
    b->place = NULL;
    b->address = 0;
    b->device_bytes = 0;
    b->on_device = false;
    memset(&b->marks, 0, sizeof(b->marks));
}

void psk_block_fini(struct psk_block *b)
{
    device_drop(b);
    host_drop(b);
    memset(b, 0, sizeof(*b));
}

struct copy {
    const struct psk_block *block;
    size_t bytes;
};

static ps_status submit_in(const struct psk_plugin *plugin, struct psk_device *device, struct psk_stream *stream, const void *arg,
                           struct psi_err *err)
{
    const struct copy *c = arg;
    return plugin->copy_in(device, stream, c->block->address, c->block->host, c->bytes, err);
}

static ps_status submit_out(const struct psk_plugin *plugin, struct psk_device *device, struct psk_stream *stream,
                            const void *arg, struct psi_err *err)
{
    const struct copy *c = arg;
    return plugin->copy_out(device, stream, c->block->host, c->block->address, c->bytes, err);
}

static ps_status copy(struct psk_block *b, int stream, size_t bytes, struct psi_err *err)
{
    const struct copy c = {b, bytes};
    struct psk_marks *const marks[] = {&b->marks};
    const struct psk_work work = {
        .stream = stream, .submit = stream == PSK_IN ? submit_in : submit_out, .arg = &c, .marks = marks, .mark_count = 1};
    return psk_place_submit(b->place, &work, err);
}

/* If only the device has the values, start a copy to b->host, which ends with the submissions in b->marks. Unwritten: zeros. */
static ps_status to_host(struct psk_block *b, size_t bytes, struct psi_err *err)
{
    ps_status st = PS_OK;
    if (b->on_host) {
        return PS_OK;
    }
    st = settle(b, err);
    st = st == PS_OK ? host_room(b, b->place, bytes, err) : st;
    if (st != PS_OK) {
        return st;
    }
    if (b->on_device) {
        st = copy(b, PSK_OUT, bytes, err);
    } else {
        memset(b->host, 0, b->host_bytes);
    }
    b->on_host = st == PS_OK;
    return st;
}

static _Atomic(const struct psk_watch *) watch;

void psk_watch(const struct psk_watch *w)
{
    atomic_store(&watch, w);
}

ps_status psk_block_read(struct psk_block *b, size_t bytes, void **out, struct psi_err *err)
{
    const struct psk_watch *w = b->on_host ? NULL : atomic_load_explicit(&watch, memory_order_relaxed);
    const uint64_t begun_ns = w != NULL ? w->now_ns() : 0;
    ps_status st = to_host(b, whole(b, bytes), err);
    st = st == PS_OK ? settle(b, err) : st;
    if (w != NULL) {
        w->ran("read", begun_ns, w->now_ns());
    }
    if (st == PS_OK) {
        *out = b->host;
    }
    return st;
}

ps_status psk_block_write(struct psk_block *b, struct psk_place *place, size_t bytes, void **out, struct psi_err *err)
{
    struct psk_place *pin = place != NULL ? place : b->pinned;
    ps_status st = settle(b, err);
    st = st == PS_OK ? host_room(b, b->place != NULL ? b->place : pin, whole(b, bytes), err) : st;
    if (st != PS_OK) {
        return st;
    }
    b->on_host = true;
    b->on_device = false;
    *out = b->host;
    return PS_OK;
}

ps_status psk_block_fetch(struct psk_block *b, size_t bytes, struct psk_call *call, psk_done_fn done, void *ctx,
                          struct psi_err *err)
{
    const ps_status st = to_host(b, whole(b, bytes), err);
    if (st == PS_OK && b->place == NULL) {
        done(ctx, NULL);
    }
    return st == PS_OK && b->place != NULL ? psk_place_call(b->place, PSK_OUT, call, done, ctx, err) : st;
}

const struct psk_place *psk_block_where(const struct psk_block *b)
{
    return b->on_device || (b->place != NULL && psk_place_has_host_memory(b->place)) ? b->place : NULL;
}

/* Make `place` the block's device. values: keep the values; if another device has them, copy them to the host first. */
static ps_status move(struct psk_block *b, struct psk_place *place, size_t bytes, bool values, struct psi_err *err)
{
    void *host = NULL;
    if (b->place == place) {
        return PS_OK;
    }
    const ps_status st = values && bytes > 0 ? psk_block_read(b, bytes, &host, err) : PS_OK;
    if (st == PS_OK) {
        device_drop(b);
        b->place = psk_place_ref(place);
    }
    return st;
}

/* Allocate a device buffer of `bytes`, and free the block's present one. With `values` its content is copied to the host before;
 * else it is lost. On failure the block has no buffer, or still the present one. */
static ps_status device_room(struct psk_block *b, size_t bytes, bool values, struct psi_err *err)
{
    ps_status st = values && b->on_device ? to_host(b, b->device_bytes, err) : PS_OK;
    st = st == PS_OK ? psk_place_wait(b->place, &b->marks, err) : st;
    if (st != PS_OK) {
        return st;
    }
    psk_place_buffer_free(b->place, b->address);
    b->address = 0;
    b->device_bytes = 0;
    b->on_device = false;
    st = psk_place_buffer(b->place, bytes, &b->address, err);
    b->device_bytes = st == PS_OK ? bytes : 0;
    return st;
}

/* Make sure that the block has a buffer of `bytes` on its device; with `values` also start to copy the values there. */
static ps_status bring(struct psk_block *b, size_t bytes, bool values, struct psi_err *err)
{
    ps_status st = PS_OK;
    if (psk_place_has_host_memory(b->place)) {
        return values ? to_host(b, bytes, err) : host_room(b, b->place, bytes, err);
    }
    if (b->device_bytes < bytes) {
        st = device_room(b, bytes, values, err);
    }
    if (st != PS_OK || !values || b->on_device) {
        return st;
    }
    st = to_host(b, bytes, err); /* makes zeros if no values were written */
    if (st == PS_OK && b->pinned != b->place) {
        st = settle(b, err);
        st = st == PS_OK ? host_room(b, b->place, bytes, err) : st;
    }
    st = st == PS_OK ? copy(b, PSK_IN, bytes, err) : st;
    b->on_device = st == PS_OK;
    return st;
}

static size_t use_bytes(const struct psk_use *use)
{
    return (size_t)ps_shape_elements(&use->shape) * ps_dtype_bytes(use->dtype);
}

/* Check labels that are on the host. Labels that only a device has are checked by the kernel that uses them. */
static ps_status labels_check(psk_op op, const struct psk_use *uses, struct psk_tensor *args, struct psi_err *err)
{
    for (size_t i = 0; i < psk_arg_count(op); i++) {
        if (psk_rows[op].args[i].below == 0 || uses[i].dtype != PS_I32 || uses[i].block == NULL || !uses[i].block->on_host) {
            continue;
        }
        ps_status st = settle(uses[i].block, err);
        args[i].address = (psk_address)(uintptr_t)uses[i].block->host;
        st = st == PS_OK ? psk_op_check_labels(op, args, err) : st;
        args[i].address = 0;
        if (st != PS_OK) {
            return st;
        }
    }
    return PS_OK;
}

/* Check indices and ends of bags. The host has their values: they are always inputs from the program. */
static ps_status indices_check(psk_op op, const struct psk_use *uses, struct psk_tensor *args, const struct psk_attrs *attrs,
                               struct psi_err *err)
{
    struct psk_tensor here[PSK_ARGS_MAX];
    memcpy(here, args, sizeof(here));
    for (size_t i = 0; i < psk_arg_count(op); i++) {
        void *memory = NULL;
        if (psk_rows[op].args[i].dtype != PS_I64 || psk_rows[op].args[i].output || use_bytes(&uses[i]) == 0) {
            continue;
        }
        const ps_status st = psk_block_read(uses[i].block, use_bytes(&uses[i]), &memory, err);
        if (st != PS_OK) {
            return st;
        }
        here[i].address = (psk_address)(uintptr_t)memory;
    }
    return psk_op_check_indices(op, here, attrs, err);
}

/* Check that no output shares its block with another argument, except where the operation may work in place. */
static ps_status overlap_check(psk_op op, const struct psk_use *uses, const char *const *names, struct psi_err *err)
{
    const struct psk_arg *args = psk_rows[op].args;
    for (size_t o = 0; o < psk_arg_count(op); o++) {
        const bool looks = args[o].output && uses[o].block != NULL && use_bytes(&uses[o]) > 0;
        for (size_t i = 0; looks && i < psk_arg_count(op); i++) {
            if (i != o && uses[i].block == uses[o].block && (args[o].in_place & (1u << i)) == 0) {
                return psi_fail(err, PS_INVALID_ARGUMENT, "%s overlaps %s", psk_op_name_of(op, names, o),
                                psk_op_name_of(op, names, i));
            }
        }
    }
    return PS_OK;
}

struct run {
    psk_op op;
    const struct psk_tensor *args;
    const struct psk_attrs *attrs;
};

static ps_status submit_run(const struct psk_plugin *plugin, struct psk_device *device, struct psk_stream *stream,
                            const void *arg, struct psi_err *err)
{
    const struct run *r = arg;
    if (plugin->run[r->op] == NULL) {
        return psi_fail(err, PS_UNIMPLEMENTED, "the plugin %s does not have the operation %s", plugin->name,
                        psk_rows[r->op].name);
    }
    return plugin->run[r->op](device, stream, r->args, r->attrs, err);
}

/* Give the block of each argument memory on the device `place`, and copy the values of inputs there if they are elsewhere. Sets
 * args[].address, and appends the marks of each block to marks. Empty blocks are left out. */
static ps_status gather(struct psk_place *place, psk_op op, const struct psk_use *uses, struct psk_tensor *args,
                        struct psk_marks **marks, size_t *out_mark_count, struct psi_err *err)
{
    for (size_t i = 0; i < psk_arg_count(op); i++) {
        struct psk_block *b = uses[i].block;
        const size_t bytes = b != NULL ? use_bytes(&uses[i]) : 0;
        const bool values = !psk_rows[op].args[i].output;
        if (bytes == 0) {
            continue;
        }
        ps_status st = move(b, place, bytes, values, err);
        st = st == PS_OK ? bring(b, whole(b, bytes), values, err) : st;
        if (st != PS_OK) {
            return st;
        }
        args[i].address = psk_place_has_host_memory(place) ? (psk_address)(uintptr_t)b->host : b->address;
        marks[(*out_mark_count)++] = &b->marks;
    }
    return PS_OK;
}

ps_status psk_block_run(struct psk_place *place, psk_op op, const struct psk_use *uses, const struct psk_attrs *attrs,
                        const char *const *names, struct psi_err *err)
{
    static const struct psk_attrs none;
    const struct psk_watch *w = atomic_load_explicit(&watch, memory_order_relaxed);
    const uint64_t begun_ns = w != NULL ? w->now_ns() : 0;
    struct psk_tensor args[PSK_ARGS_MAX] = {0};
    struct psk_marks *marks[PSK_ARGS_MAX];
    const struct run run = {op, args, attrs != NULL ? attrs : &none};
    struct psk_work work = {.stream = PSK_COMPUTE, .submit = submit_run, .arg = &run, .marks = marks};
    for (size_t i = 0; i < psk_arg_count(op); i++) {
        if (uses[i].block != NULL) {
            args[i] = (struct psk_tensor){.shape = uses[i].shape, .dtype = uses[i].dtype};
        }
    }
    ps_status st = psk_op_check(op, args, run.attrs, names, err);
    st = st == PS_OK ? overlap_check(op, uses, names, err) : st;
    st = st == PS_OK ? labels_check(op, uses, args, err) : st;
    st = st == PS_OK ? indices_check(op, uses, args, run.attrs, err) : st;
    if (st == PS_OK && psk_rows[op].sparse && !psk_place_has_host_memory(place)) {
        st = psi_fail(err, PS_UNIMPLEMENTED, "%s does not multiply sparse rows: compute on the CPU, or make them dense",
                      psk_place_name(place));
    }
    st = st == PS_OK ? gather(place, op, uses, args, marks, &work.mark_count, err) : st;
    st = st == PS_OK ? psk_op_check_rows(op, args, err) : st;
    st = st == PS_OK ? psk_place_submit(place, &work, err) : st;
    for (size_t i = 0; i < psk_arg_count(op) && st == PS_OK; i++) {
        if (psk_rows[op].args[i].output && args[i].address != 0) {
            uses[i].block->on_device = !psk_place_has_host_memory(place);
            uses[i].block->on_host = !uses[i].block->on_device;
        }
    }
    if (w != NULL) {
        w->ran(psk_rows[op].name, begun_ns, w->now_ns());
    }
    return st;
}
