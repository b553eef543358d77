/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on host memory, and their default device. psk_host_check() checks the arguments. A device with host_memory computes
 * in the caller's memory; for others inputs and outputs are copied. Failure modes: a failed check, no plugin, a failed device. */
#include "host.h"

#include "block.h"
#include "ops.h"

#include <pthread.h>
#include <string.h>

static struct psk_place *host_place; /* atomic; NULL: not opened yet */
static pthread_mutex_t host_mutex = PTHREAD_MUTEX_INITIALIZER;

ps_status psk_host_open(const char *device, struct psi_err *err)
{
    struct psk_place *place = NULL;
    const ps_status st = psk_place_open(device, 0, &place, err);
    if (st != PS_OK) {
        return st;
    }
    (void)pthread_mutex_lock(&host_mutex);
    struct psk_place *old = host_place;
    __atomic_store_n(&host_place, place, __ATOMIC_RELEASE);
    (void)pthread_mutex_unlock(&host_mutex);
    psk_place_close(old);
    return PS_OK;
}

struct psk_place *psk_host_place_now(void)
{
    return __atomic_load_n(&host_place, __ATOMIC_ACQUIRE);
}

ps_status psk_host_place(struct psk_place **out, struct psi_err *err)
{
    const ps_status st = psk_host_place_now() != NULL ? PS_OK : psk_host_open("cpu", err);
    *out = psk_host_place_now();
    return st;
}

struct submission {
    psk_op op;
    const struct psk_tensor *args;
    const struct psk_attrs *attrs;
};

static ps_status submit(const struct psk_plugin *plugin, struct psk_device *device, struct psk_stream *stream, const void *arg,
                        struct psi_err *err)
{
    const struct submission *s = arg;
    return plugin->run[s->op](device, stream, s->args, s->attrs, err);
}

/* Compute in the caller's memory, on a device with host_memory. */
static ps_status run_here(struct psk_place *place, psk_op op, const struct psk_tensor *args, const struct psk_attrs *attrs,
                          struct psi_err *err)
{
    const struct submission s = {op, args, attrs};
    const struct psk_work work = {.stream = PSK_COMPUTE, .submit = submit, .arg = &s};
    return psk_place_submit(place, &work, err);
}

static size_t bytes_of(const struct psk_tensor *t)
{
    return t->address != 0 ? psk_tensor_bytes(t) : 0;
}

/* Copy the inputs to the device, run op there, and copy the outputs back. Arguments in the same memory share a device block. */
static ps_status run_there(struct psk_place *place, psk_op op, const struct psk_tensor *args, const struct psk_attrs *attrs,
                           struct psi_err *err)
{
    struct psk_block blocks[PSK_ARGS_MAX] = {0};
    struct psk_use uses[PSK_ARGS_MAX] = {0};
    void *memory = NULL;
    ps_status st = PS_OK;
    const size_t count = psk_arg_count(op);
    for (size_t i = 0; i < count && st == PS_OK; i++) {
        size_t same = 0;
        const size_t bytes = bytes_of(&args[i]);
        while (args[same].address != args[i].address || bytes_of(&args[same]) != bytes) {
            same++;
        }
        uses[i] = (struct psk_use){args[i].dtype != PS_DTYPE_NONE ? &blocks[same] : NULL, args[i].shape, args[i].dtype};
        if (bytes > 0 && !psk_rows[op].args[i].output && same == i) {
            st = psk_block_write(&blocks[i], place, bytes, &memory, err);
            if (st == PS_OK) {
                memcpy(memory, (const void *)(uintptr_t)args[i].address, bytes);
            }
        }
    }
    st = st == PS_OK ? psk_block_run(place, op, uses, attrs, NULL, err) : st;
    for (size_t i = 0; i < count && st == PS_OK; i++) {
        const size_t bytes = bytes_of(&args[i]);
        if (bytes > 0 && psk_rows[op].args[i].output) {
            st = psk_block_read(uses[i].block, bytes, &memory, err);
            if (st == PS_OK) {
                memcpy((void *)(uintptr_t)args[i].address, memory, bytes);
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        psk_block_fini(&blocks[i]);
    }
    return st;
}

ps_status psk_host_check(psk_op op, const struct psk_tensor *args, const struct psk_attrs *attrs, struct psi_err *err)
{
    ps_status st = psk_op_check(op, args, attrs, NULL, err);
    st = st == PS_OK ? psk_op_check_overlap(op, args, NULL, err) : st;
    st = st == PS_OK ? psk_op_check_labels(op, args, err) : st;
    st = st == PS_OK ? psk_op_check_indices(op, args, attrs, err) : st;
    return st == PS_OK ? psk_op_check_rows(op, args, err) : st;
}

ps_status psk_host_compute(struct psk_place *place, psk_op op, const struct psk_tensor *args, const struct psk_attrs *attrs,
                           struct psi_err *err)
{
    return psk_place_has_host_memory(place) ? run_here(place, op, args, attrs, err) : run_there(place, op, args, attrs, err);
}

ps_status psk_host_run(struct psk_place *place, psk_op op, const struct psk_tensor *args, const struct psk_attrs *attrs,
                       struct psi_err *err)
{
    static const struct psk_attrs none;
    const struct psk_attrs *all = attrs != NULL ? attrs : &none;
    ps_status st = psk_host_check(op, args, all, err);
    st = st == PS_OK && place == NULL ? psk_host_place(&place, err) : st;
    return st == PS_OK ? psk_host_compute(place, op, args, all, err) : st;
}
