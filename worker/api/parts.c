/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow's partitioners, which choose the number of parts of a variable. parts_get.c gets the parts, parts_op.c operates on
 * them. Failure mode: if the variable cannot be cut in this way, an error says what is allowed, and the spec is not changed. */
#include "api.h"

#include "common/shape.h"

static ps_status partition(const char *call, ps_variable_spec *spec, uint32_t kind, uint32_t parts, uint64_t bytes)
{
    struct psi_err err = {0};
    const bool known = spec != NULL && spec->struct_bytes > offsetof(ps_variable_spec, partition_layout);
    ps_status st = known ? psi_shape_check(&spec->shape, &err)
                         : psi_fail(&err, PS_INVALID_ARGUMENT, "the spec is not filled by ps_variable_spec_init()");
    if (st == PS_OK) {
        const struct psi_partitioner p = {.kind = kind, .axis = spec->partition_axis, .parts = parts, .bytes = bytes};
        st = psi_partition_count(&p, spec->dtype, &spec->shape, &spec->partitions, &err);
    }
    psi_err_prefix(st == PS_OK ? NULL : &err, "%s", call);
    return psi_api_result(&err, st);
}

ps_status ps_partition(ps_variable_spec *spec, uint32_t parts)
{
    return partition("ps_partition", spec, PSI_PARTITION_EXACT, parts, 0);
}

ps_status ps_partition_fixed_size(ps_variable_spec *spec, uint32_t parts)
{
    return partition("ps_partition_fixed_size", spec, PSI_PARTITION_FIXED, parts, 0);
}

ps_status ps_partition_axis_size(ps_variable_spec *spec, uint64_t part_bytes_max, uint32_t parts_max)
{
    return partition("ps_partition_axis_size", spec, PSI_PARTITION_AXIS_SIZE, parts_max, part_bytes_max);
}

ps_status ps_partition_min_max(ps_variable_spec *spec, uint32_t parts_max, uint64_t part_bytes_min)
{
    return partition("ps_partition_min_max", spec, PSI_PARTITION_MIN_MAX, parts_max, part_bytes_min);
}

uint32_t ps_variable_partitions(const ps_variable *v)
{
    return v != NULL && v->parts != NULL ? v->cut.count : 0;
}

ps_variable *ps_variable_partition(const ps_variable *v, uint32_t index)
{
    return index < ps_variable_partitions(v) ? v->parts[index] : NULL;
}
