/* SPDX-License-Identifier: Apache-2.0 */
/* Partitioned variables: ps tasks have the parts, but a file has the variable as one tensor under its own name, with elements
 * parts in the order of the whole variable.
 *
 * Happy path: psi_files_join() makes one entry of the parts that the tasks have listed; an import of a variable that no task has
 * makes its parts by psi_files_cut(). psi_files_run() says where a part's bytes are in the tensor. Failure mode: a part that no
 * task has: DATA_LOSS names it. */
#include "files.h"

#include "common/mem.h"
#include "common/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct psi_part psi_files_part(const ps_variable_info *info)
{
    return (struct psi_part){.count = info->parts,
                             .index = info->part,
                             .axis = info->part_axis,
                             .layout = info->part_layout,
                             .rows = info->whole_rows};
}

void ps_variable_info_whole(ps_variable_info *info)
{
    if (info == NULL || info->parts == 0) {
        return;
    }
    char name[PS_NAME_BYTES_MAX + 1];
    const struct psi_part part = psi_files_part(info);
    psi_part_whole_name(&part, info->name, name);
    info->shape = psi_part_whole(&part, &info->shape).shape;
    memcpy(info->name, name, sizeof(name));
    info->parts = info->part = 0;
    info->whole_rows = 0;
    info->part_axis = info->part_layout = 0;
}
_Static_assert(sizeof(((ps_variable_info *)0)->name) == PS_NAME_BYTES_MAX + 1, "a name");

static ps_status whole_new(const struct psi_file_var *v, struct psi_file_var *out, struct psi_err *err)
{
    const struct psi_part part = psi_files_part(&v->info);
    *out = (struct psi_file_var){.info = v->info, .task = v->task, .cut = psi_part_whole(&part, &v->info.shape)};
    ps_variable_info_whole(&out->info);
    out->info.bytes = 0;
    out->parts = psi_calloc(out->cut.count, sizeof(*out->parts));
    return out->parts != NULL
               ? PS_OK
               : psi_fail(err, PS_RESOURCE_EXHAUSTED, "variable '%s': out of memory for its parts", out->info.name);
}

static ps_status part_put(struct psi_file_var *whole, const struct psi_file_var *v, struct psi_err *err)
{
    const struct psi_part part = psi_files_part(&v->info), like = {.count = whole->cut.count,
                                                                   .axis = whole->cut.axis,
                                                                   .layout = whole->cut.layout,
                                                                   .rows = psi_parts_rows(&whole->cut)};
    if (!psi_part_alike(&part, &like) || whole->parts[part.index].info.parts > 0) {
        return psi_fail(err, PS_DATA_LOSS, "the tasks do not agree about the parts of variable '%s': psctl vars '%s/*'",
                        whole->info.name, whole->info.name);
    }
    whole->parts[part.index] = *v;
    whole->info.bytes += v->info.bytes;
    whole->info.version = v->info.version < whole->info.version ? v->info.version : whole->info.version;
    whole->info.order = v->info.order < whole->info.order ? v->info.order : whole->info.order;
    return PS_OK;
}

/* Check that no part is missing. Sets whole->info.initialised if all parts have values, whole->torn if only some have. */
static ps_status whole_check(struct psi_file_var *whole, struct psi_err *err)
{
    uint32_t with = 0;
    for (uint32_t i = 0; i < whole->cut.count; i++) {
        if (whole->parts[i].info.parts == 0) {
            return psi_fail(err, PS_DATA_LOSS, "variable '%s' has %" PRIu32 " parts, and part %" PRIu32 " is at no task",
                            whole->info.name, whole->cut.count, i);
        }
        with += whole->parts[i].info.initialised;
    }
    whole->info.initialised = with == whole->cut.count;
    whole->torn = with > 0 && with < whole->cut.count;
    return PS_OK;
}

ps_status psi_files_join(struct psi_file_var *vars, size_t *count, struct psi_err *err)
{
    const size_t all = *count;
    struct psi_map wholes;
    ps_status st = PS_OK;
    size_t kept = 0;
    psi_files_map_init(&wholes, false);
    for (size_t i = 0; st == PS_OK && i < all; i++) {
        const struct psi_file_var v = vars[i];
        if (v.info.parts == 0) {
            vars[kept++] = v;
            continue;
        }
        ps_variable_info info = v.info;
        ps_variable_info_whole(&info);
        struct psi_file_var *whole = psi_map_find(&wholes, info.name, strlen(info.name));
        if (whole == NULL) {
            whole = &vars[kept++];
            st = whole_new(&v, whole, err);
            st = st == PS_OK ? psi_map_put(&wholes, info.name, strlen(info.name), whole, NULL, err) : st;
        }
        st = st == PS_OK ? part_put(whole, &v, err) : st;
    }
    psi_map_fini(&wholes);
    *count = kept;
    for (size_t i = 0; st == PS_OK && i < kept; i++) {
        st = vars[i].parts != NULL ? whole_check(&vars[i], err) : PS_OK;
    }
    return st;
}

ps_status psi_files_cut(struct psi_file_var *v, struct psi_err *err)
{
    const struct psi_parts cut = {
        .shape = v->spec.shape, .axis = v->spec.partition_axis, .count = v->spec.partitions, .layout = v->spec.partition_layout};
    ps_status st =
        v->spec.dtype != PS_STRING ? psi_parts_check(&cut, err) : psi_fail(err, PS_INVALID_ARGUMENT, "strings are in no parts");
    if (st != PS_OK) {
        return st;
    }
    v->cut = cut;
    v->parts = psi_calloc(cut.count, sizeof(*v->parts));
    if (v->parts == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for its parts");
    }
    for (uint32_t i = 0; st == PS_OK && i < cut.count; i++) {
        struct psi_file_var *part = &v->parts[i];
        *part = (struct psi_file_var){.missing = true, .info = v->info, .spec = v->spec};
        part->spec.shape = psi_part_shape(&cut, i);
        part->info.parts = cut.count;
        part->info.part = i;
        part->info.whole_rows = psi_parts_rows(&cut);
        part->info.part_axis = (uint8_t)cut.axis;
        part->info.part_layout = (uint8_t)cut.layout;
        st = psi_part_name(part->info.name, v->info.name, i, err);
    }
    return st;
}

uint64_t psi_files_run(const struct psi_parts *cut, uint32_t index, size_t each, uint64_t at, uint64_t bytes, uint64_t *out_whole)
{
    const struct psi_part_run run = psi_part_run(cut, index, at / each, bytes / each + 1);
    const uint64_t together = run.count * each - at % each;
    *out_whole = run.whole * each + at % each;
    return together < bytes ? together : bytes;
}

struct psi_parts psi_files_slot_cut(const struct psi_parts *cut, const struct psi_slot *slot)
{
    struct psi_parts own = *cut;
    own.shape = psi_slot_shape(slot, &cut->shape);
    return own;
}

void psi_files_vars_free(struct psi_file_var *vars, size_t count)
{
    for (size_t i = 0; vars != NULL && i < count; i++) {
        psi_free(vars[i].as);
        psi_free(vars[i].slot_of);
        psi_free(vars[i].parts);
    }
    psi_free(vars);
}
