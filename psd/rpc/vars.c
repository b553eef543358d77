/* SPDX-License-Identifier: Apache-2.0 */
/* VARS: the variables of a task, in slices (listing.c). Failure: refused while the task may still load a checkpoint. */
#include "rpc.h"

#include "common/optimizer.h"

#include <pb_encode.h>
#include <string.h>

/* Encode the optimizer of v as a field of VarAnswer into l->optimizer_field, unless it is there already. */
static void encode_optimizer(struct psd_list *l, const struct psd_variable *v)
{
    if (l->optimizer != NULL && memcmp(l->optimizer, &v->optimizer, sizeof(v->optimizer)) == 0) {
        return;
    }
    ps_v1_Optimizer m = ps_v1_Optimizer_init_zero;
    psi_optimizer_to_msg(&v->optimizer, &m);
    pb_ostream_t stream = pb_ostream_from_buffer(l->optimizer_field, sizeof(l->optimizer_field));
    l->failed = l->failed || !pb_encode_tag(&stream, PB_WT_STRING, ps_v1_VarAnswer_optimizer_tag) ||
                !pb_encode_submessage(&stream, &ps_v1_Optimizer_msg, &m);
    l->optimizer_bytes = stream.bytes_written;
    l->optimizer = &v->optimizer;
}

static void add_variable(struct psd_list *l, const struct psd_variable *v)
{
    if (v->queue != NULL) {
        return;
    }
    ps_v1_VarAnswer a = ps_v1_VarAnswer_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(a.container, v->container->name)); /* fits: checked names */
    PSI_IGNORE(PSI_BYTES_SET(a.name, v->name));                 /* fits: checked names */
    a.dtype = (uint32_t)v->dtype;
    const ps_shape shape = psd_variable_shape(v);
    a.dims_count = (pb_size_t)shape.rank;
    memcpy(a.dims, shape.dims, shape.rank * sizeof(int64_t));
    a.version = v->version;
    a.initialised = v->initialised;
    a.sealed = v->sealed;
    a.pushes = v->pushes;
    a.in_progress = v->in_progress;
    a.handle = v->handle;
    a.atomic = v->atomic;
    const struct psi_part part = psd_variable_part_of(v);
    a.has_part = v->is_part;
    psi_part_to_msg(&part, &a.part);
    a.rate = psd_variable_rate(v);
    a.step = v->step;
    a.rate_now = v->optimizer.schedule != PS_SCHEDULE_NONE ? psd_variable_rate_at(v, 0, a.rate) : 0;
    a.bytes = v->initialised ? v->bytes : 0;
    a.order = v->order;
    encode_optimizer(l, v);
    psd_list_add_with(l, &ps_v1_VarAnswer_msg, &a, l->optimizer_field, l->optimizer_bytes);
}

void psd_rpc_vars(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    static const struct psd_listing vars = {.op = PS_OP_VARS, .flags = PS_FLAG_REPLY, .add = add_variable};
    if (!psd_peers_refuse(t, c, r)) {
        psd_listing_begin(t, c, &vars, r->header.id);
    }
}
