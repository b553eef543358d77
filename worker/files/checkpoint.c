/* SPDX-License-Identifier: Apache-2.0 */
/* ps_checkpoint_verify(), ps_checkpoint_containers() and ps_checkpoint_export(): they read a checkpoint's files from the tasks
 * that have them (common/saved.h).
 *
 * Happy path: the manifest of one task lists the files, which are read in ranges, several at the same time. An export reads the
 * state files, which list the variables, makes the list of tensors, and writes the headers. It reads each file of values once,
 * and writes each piece to its place in the exported files. Then these files appear, the index last. Failure modes: a bad file,
 * a task that does not answer, a full disk: incomplete files do not appear. */
#include "choice.h"
#include "files.h"

#include "common/abi.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/name.h"
#include "common/saved.h"
#include "common/shape.h"
#include "common/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANGES = 4, SHARDS_MAX = 1000 /* files of an export, all open at once */, SHARD_PATH_MAX = 4096, SHARD_NAME_MAX = 32 };

struct reading {
    ps_session *session;
    ps_checkpoint_options options;
    uint64_t number;
    struct psi_saved_io io;
    struct psi_saved saved;
    struct psi_saved_file *tasks;
    uint64_t done_bytes, total_bytes; /* bytes read so far; total of all files to read */
    /* the total that options.copied() gets: in a verify total_bytes, in an export the bytes of values; 0: not known yet */
    uint64_t told_bytes;
    /* for verify: */
    uint32_t faults, away;            /* number of bad files; number of files not read, because their task does not answer */
    struct psi_err first, first_away; /* error of the first bad file; error of the first file whose task does not answer */
};

static ps_status entry_of(const ps_session *s, const struct psi_saved_file *file, uint32_t *out, struct psi_err *err)
{
    for (uint32_t i = 0; i < s->task_count; i++) {
        if (s->tasks[i].task == file->task && strcmp(s->tasks[i].job, file->job) == 0) {
            *out = s->tasks[i].index;
            return PS_OK;
        }
    }
    return psi_fail(err, PS_UNAVAILABLE, "the cluster has no /job:%s/task:%u", file->job, file->task);
}

/* Read a range of the file from its task into dst, RANGES requests at once. *out_bytes: bytes read; fewer at the file's end. */
static ps_status read_range(void *ctx, const struct psi_saved_file *file, uint64_t offset, void *dst, size_t bytes,
                            size_t *out_bytes, struct psi_err *err)
{
    const struct reading *r = ctx;
    struct psi_api_call calls[RANGES];
    struct psi_saved_range ranges[RANGES];
    size_t started = 0;
    uint32_t task = 0;
    ps_status st = entry_of(r->session, file, &task, err);
    *out_bytes = 0;
    for (size_t at = 0; st == PS_OK && at < bytes && started < RANGES; at += PS_CONTROL_BODY_MAX) {
        size_t n = bytes - at < PS_CONTROL_BODY_MAX ? bytes - at : PS_CONTROL_BODY_MAX;
        ranges[started] = (struct psi_saved_range){.number = r->number,
                                                   .kind = file->kind,
                                                   .index = file->index,
                                                   .offset = offset + at,
                                                   .out = (uint8_t *)dst + at,
                                                   .bytes = n};
        calls[started] = (struct psi_api_call){.session = r->session,
                                               .req = {.kind = PSI_REQ_CHECKPOINT_READ, .task = task, .dst = &ranges[started]}};
        st = psi_api_call_start(&calls[started], err);
        started += st == PS_OK;
    }
    bool ended = false;
    for (size_t i = 0; i < started; i++) {
        struct psi_err one = {.code = PS_OK};
        ps_status got = psi_api_call_wait(&calls[i], &one);
        if (got != PS_OK && st == PS_OK) {
            st = got;
            *err = one;
        }
        *out_bytes += st == PS_OK && !ended ? ranges[i].out_bytes : 0;
        ended = ended || ranges[i].out_bytes < ranges[i].bytes;
    }
    return st;
}
_Static_assert((size_t)RANGES *PS_CONTROL_BODY_MAX >= (size_t)1 << 20, "a piece of common/saved.c");

static void progress(void *ctx, const struct psi_saved_file *file, uint64_t bytes)
{
    struct reading *r = ctx;
    char name[PSI_SAVED_FILE_TEXT_MAX];
    r->done_bytes += bytes;
    if (r->options.copied != NULL && r->told_bytes != 0) {
        double part = r->done_bytes >= r->total_bytes ? 1 : (double)r->done_bytes / (double)r->total_bytes;
        uint64_t told = part < 1 ? (uint64_t)(part * (double)r->told_bytes) : r->told_bytes;
        r->options.copied(r->options.ctx, psi_saved_file_text(file, name), told, r->told_bytes);
    }
}

void ps_checkpoint_options_init(ps_checkpoint_options *options)
{
    if (options == NULL) {
        return;
    }
    memset(options, 0, sizeof(*options));
    options->struct_bytes = sizeof(*options);
}

static ps_status take_options(struct reading *r, const ps_checkpoint_options *given, struct psi_err *err)
{
    ps_status st = psi_api_check(r->session, true, err);
    ps_checkpoint_options_init(&r->options);
    if (st == PS_OK && given != NULL) {
        st = psi_struct_take(given, &r->options, sizeof(r->options), "ps_checkpoint_options_init", err);
    }
    if (st == PS_OK && r->number == 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "checkpoints are numbered from 1 on");
    }
    if (st == PS_OK && r->options.container == NULL) {
        r->options.container = r->session->scopes.container;
    }
    return st == PS_OK ? psi_container_name_check(r->options.container, strlen(r->options.container), err) : st;
}

static ps_status reading_open(struct reading *r, struct psi_err *err)
{
    ps_session *s = r->session;
    r->io = (struct psi_saved_io){.read = read_range, .progress = progress, .ctx = r};
    psi_files_map_seed(r->io.map_seed);
    ps_status st = psi_api_know_tasks(s, 0, err);
    if (st != PS_OK) {
        return st;
    }
    r->tasks = psi_calloc((size_t)s->task_count + 1, sizeof(*r->tasks));
    if (r->tasks == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %u tasks", s->task_count);
    }
    for (uint32_t i = 0; i < s->task_count; i++) {
        (void)snprintf(r->tasks[i].job, sizeof(r->tasks[i].job), "%s", s->tasks[i].job);
        r->tasks[i].task = s->tasks[i].task;
    }
    st = psi_saved_open(&r->saved, r->number, &r->io, r->tasks, s->task_count, err);
    for (size_t i = 0; st == PS_OK && i < r->saved.file_count; i++) {
        r->total_bytes += r->saved.files[i].bytes;
    }
    return st;
}

static void reading_close(struct reading *r)
{
    psi_saved_close(&r->saved);
    psi_free(r->tasks);
}

/* Put task and file in front of an error: "/job:ps/task:1, state: block 3 is not as it was written". */
static void say_where(struct psi_err *err, const struct psi_saved_file *file)
{
    char name[PSI_SAVED_FILE_TEXT_MAX];
    psi_err_prefix(err, "/job:%s/task:%u, %s", file->job, file->task, psi_saved_file_text(file, name));
}

static void on_bad(void *ctx, const struct psi_saved_file *file, const struct psi_err *err)
{
    struct reading *r = ctx;
    if (psi_api_is_interrupt(err)) {
        return; /* the user has interrupted the reading, which says nothing about the file */
    }
    ps_checkpoint_fault fault = {.struct_bytes = sizeof(fault), .task = file->task, .status = err->code};
    bool away = psi_saved_is_away(err->code);
    uint32_t *count = away ? &r->away : &r->faults;
    if ((*count)++ == 0) {
        struct psi_err *first = away ? &r->first_away : &r->first;
        *first = *err;
        say_where(first, file);
    }
    (void)snprintf(fault.job, sizeof(fault.job), "%s", file->job);
    (void)psi_saved_file_text(file, fault.file);
    (void)snprintf(fault.text, sizeof(fault.text), "%s", err->text);
    if (r->options.fault != NULL) {
        r->options.fault(r->options.ctx, &fault);
    }
}
_Static_assert(sizeof(((ps_checkpoint_fault *)0)->file) >= PSI_SAVED_FILE_TEXT_MAX, "its name");

ps_status ps_checkpoint_verify(ps_session *s, uint64_t number, const ps_checkpoint_options *options, uint32_t *out_faults)
{
    PSI_API_VISIT(s);
    struct psi_err err = {0};
    struct reading r = {.session = s, .number = number};
    ps_status st = take_options(&r, options, &err);
    st = st == PS_OK ? psi_api_go_inside(s, &err) : st;
    if (st == PS_OK) {
        st = reading_open(&r, &err);
        r.told_bytes = r.total_bytes;
        const size_t bad = st == PS_OK ? psi_saved_verify(&r.saved, &r.io, on_bad, &r) : 0;
        st = st == PS_OK ? psi_api_interrupted(s, &err) : st;
        if (st == PS_OK && bad > 0) {
            st = psi_fail(&err, PS_DATA_LOSS, "checkpoint %llu: %u bad files, the first: %s", (unsigned long long)number,
                          r.faults, r.first.text);
        } else if (st == PS_OK && r.away > 0) {
            st = psi_fail_as(&err, r.first_away.code, r.first_away.reason,
                             "checkpoint %llu: no file is bad, but %u of its tasks could not be asked, the first: %s",
                             (unsigned long long)number, r.away, r.first_away.text);
        }
        psi_api_go_outside(s);
    }
    reading_close(&r);
    if (out_faults != NULL) {
        *out_faults = r.faults;
    }
    return psi_api_result(&err, st);
}

/* A tensor of the export: a variable's value or slot, the offsets or the bytes of strings, or an optimizer's power (beta1^t). */
struct part {
    char *name;
    uint32_t shard;
    bool ready; /* its bytes are in `power` */
    uint8_t power[8];
};

struct source {
    const struct psi_saved_file *files; /* [file_count], the state file first */
    size_t file_count;
    struct psi_saved_state state;
    size_t *first; /* [variables]: index + 1 of the variable's first tensor; 0: it is not exported */
};

struct shard {
    struct psi_file_target target;
    struct psi_buf header;
    char path[SHARD_PATH_MAX];
    size_t begin, end;         /* range of tensors */
    size_t var_begin, var_end; /* range of variables in it */
};

struct exporter {
    struct reading r;
    const char *path;
    struct psi_choice choice;
    struct psi_map names;
    struct source *sources;
    size_t source_count;
    struct psi_file_var *vars;
    size_t var_count, var_capacity;
    const char **slot_names; /* names of all variables' slots, one after the other */
    struct psi_tensor *tensors;
    struct part *parts;
    size_t tensor_count, tensor_capacity, part_capacity;
    struct shard *shards;
    uint32_t shard_count;
    /* a variable whose optimizer powers (beta1^t), which all others have too, are written once; NULL: each variable's are */
    const struct psi_saved_variable *shared;
};

static ps_status read_states(struct exporter *e, struct psi_err *err)
{
    const struct psi_saved *saved = &e->r.saved;
    e->sources = psi_calloc(saved->file_count + 1, sizeof(*e->sources));
    if (e->sources == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %zu files", saved->file_count);
    }
    for (size_t i = 0; i < saved->file_count; i++) {
        const struct psi_saved_file *file = &saved->files[i];
        if (file->kind != PS_FILE_STATE) {
            if (e->source_count == 0) {
                return psi_fail(err, PS_DATA_LOSS, "checkpoint %llu: its manifest begins without a state file",
                                (unsigned long long)e->r.number);
            }
            e->sources[e->source_count - 1].file_count++;
            continue;
        }
        struct source *source = &e->sources[e->source_count++];
        source->files = file;
        source->file_count = 1;
        ps_status st = psi_saved_state_read(saved, &e->r.io, file, &source->state, err);
        if (st != PS_OK) {
            say_where(err, file);
            return st;
        }
    }
    return PS_OK;
}

static bool is_meant(struct exporter *e, const struct psi_saved_variable *v)
{
    return strcmp(v->container, e->r.options.container) == 0 && psi_choice_takes(&e->choice, v->whole);
}

static ps_status add_tensor(struct exporter *e, const char *name, const char *ending, ps_dtype dtype, ps_shape shape,
                            struct psi_err *err)
{
    struct psi_tensor *tensors = psi_grow(e->tensors, e->tensor_count, &e->tensor_capacity, sizeof(*tensors));
    e->tensors = tensors != NULL ? tensors : e->tensors;
    struct part *parts = tensors != NULL ? psi_grow(e->parts, e->tensor_count, &e->part_capacity, sizeof(*parts)) : NULL;
    e->parts = parts != NULL ? parts : e->parts;
    size_t n = strlen(name) + strlen(ending) + 1;
    char *text = parts != NULL ? psi_malloc(n) : NULL;
    if (text == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the tensors");
    }
    (void)snprintf(text, n, "%s%s", name, ending);
    parts[e->tensor_count] = (struct part){.name = text};
    tensors[e->tensor_count] = (struct psi_tensor){.name = text, .type = psi_tensor_type_of(dtype), .shape = shape};
    e->tensor_count++;
    return tensors[e->tensor_count - 1].type != NULL
               ? PS_OK
               : psi_fail(err, PS_UNIMPLEMENTED, "variable '%s': safetensors has no %s", name, ps_dtype_name(dtype));
}

static ps_status add_power(struct exporter *e, const char *name, const char *ending, ps_dtype dtype, double power,
                           struct psi_err *err)
{
    float narrow = (float)power;
    ps_status st = add_tensor(e, name, ending, dtype, (ps_shape){.rank = 0}, err);
    if (st == PS_OK) {
        struct part *part = &e->parts[e->tensor_count - 1];
        part->ready = true;
        memcpy(part->power, dtype == PS_F32 ? (void *)&narrow : (void *)&power, dtype == PS_F32 ? sizeof(narrow) : sizeof(power));
    }
    return st;
}

/* Add the two tensors, offsets and bytes, of a string variable. name: the variable's name in the export. */
static ps_status add_strings(struct exporter *e, const struct psi_saved_variable *v, const char *name, struct psi_err *err)
{
    int64_t count = ps_shape_elements(&v->shape) + 1;
    ps_status st = add_tensor(e, name, PSI_FILES_OFFSETS, PS_I64, PS_SHAPE(count), err);
    return st == PS_OK ? add_tensor(e, name, PSI_FILES_BYTES, PS_U8, PS_SHAPE((int64_t)v->bytes - 8 * count), err) : st;
}

static ps_status add_slots(struct exporter *e, const struct psi_saved_variable *v, const char *name, struct psi_err *err)
{
    ps_status st = PS_OK;
    char ending[32];
    for (uint32_t i = 1; st == PS_OK && i < v->array_count; i++) {
        const struct psi_slot *slot = psi_optimizer_slot(&v->optimizer, i - 1);
        (void)snprintf(ending, sizeof(ending), "/%s", slot->tensorflow);
        st = add_tensor(e, name, ending, v->dtype, psi_slot_shape(slot, &v->shape), err);
    }
    for (uint32_t i = 1; st == PS_OK && e->shared == NULL && i < v->array_count; i++) {
        const struct psi_slot *slot = psi_optimizer_slot(&v->optimizer, i - 1);
        if (slot->power != NULL) {
            (void)snprintf(ending, sizeof(ending), "/%s", slot->power);
            st = add_power(e, name, ending, slot->wide ? PS_F64 : v->dtype, v->powers[i - 1], err);
        }
    }
    return st;
}

/* Add a variable with its tensors to the export. v: the variable, or the part whose optimizer powers are exported. */
static ps_status add_variable(struct exporter *e, const struct psi_saved_variable *v, struct psi_err *err)
{
    struct psi_file_var *vars = psi_grow(e->vars, e->var_count, &e->var_capacity, sizeof(*vars));
    if (vars == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the variables");
    }
    e->vars = vars;
    struct psi_file_var *var = &vars[e->var_count++];
    struct psi_saved_variable whole = *v;
    *var = (struct psi_file_var){.handle = (uint32_t)e->tensor_count};
    if (v->part.count > 0) {
        var->cut = psi_part_whole(&v->part, &v->shape);
        whole.shape = var->cut.shape;
    }
    (void)snprintf(var->info.name, sizeof(var->info.name), "%s", v->whole);
    var->info.dtype = v->dtype;
    var->info.shape = whole.shape;
    var->info.optimizer = v->optimizer;
    var->info.atomic = v->atomic;
    var->info.version = v->version;
    ps_status st = psi_choice_export(&e->choice, &e->names, v->whole, &var->as, err);
    if (st != PS_OK) {
        return st;
    }
    const char *name = psi_files_name(var);
    st = v->dtype == PS_STRING ? add_strings(e, v, name, err) : add_tensor(e, name, "", v->dtype, whole.shape, err);
    size_t own = e->tensor_count;
    st = st == PS_OK && e->r.options.slots ? add_slots(e, &whole, name, err) : st;
    var->slot_count = e->tensor_count - own;
    return st;
}

/* Set e->shared if all variables have equal powers: they are then written once, as in TensorFlow, where all variables of an
 * optimizer share them. NULL with options.shard_bytes: each of several files must be usable alone. */
static void compare_powers(struct exporter *e)
{
    const struct psi_saved_variable *first = NULL;
    bool same = e->r.options.shard_bytes == 0;
    for (size_t k = 0; k < e->source_count; k++) {
        for (size_t i = 0; i < e->sources[k].state.variable_count; i++) {
            const struct psi_saved_variable *v = &e->sources[k].state.variables[i];
            if (!is_meant(e, v) || !psi_optimizer_has_powers(v->optimizer.kind)) {
                continue;
            }
            first = first == NULL ? v : first;
            same = same && v->optimizer.kind == first->optimizer.kind && v->dtype == first->dtype &&
                   memcmp(v->powers, first->powers, sizeof(v->powers)) == 0;
        }
    }
    e->shared = same ? first : NULL;
}

/* A variable to export, or a part of one, and the task that has it. */
struct ordered {
    const struct psi_saved_variable *variable;
    struct source *from;
    uint32_t order;            /* rank by creation; all parts of a variable get the lowest rank among them */
    const struct source *task; /* the task that has given `order`: for a whole variable its own task */
};

static int by_whole(const void *a, const void *b)
{
    const struct ordered *x = a, *y = b;
    return strcmp(x->variable->whole, y->variable->whole);
}

/* qsort(): by order of creation, which keeps parts together; equal orders, possible at two tasks, by task. */
static int in_order(const void *a, const void *b)
{
    const struct ordered *x = a, *y = b;
    int order = (x->order > y->order) - (x->order < y->order);
    order = order != 0 ? order : (x->task > y->task) - (x->task < y->task);
    order = order != 0 ? order : by_whole(a, b);
    return order != 0 ? order
                      : (x->variable->part.index > y->variable->part.index) - (x->variable->part.index < y->variable->part.index);
}

/* Number of entries at the front of `all` that are of one variable: its number of parts, or 1. all: sorted by variable. */
static size_t together(const struct ordered *all, size_t count)
{
    size_t n = 1;
    while (n < count && by_whole(&all[0], &all[n]) == 0) {
        n++;
    }
    return n;
}

static void sort_all(struct ordered *all, size_t count)
{
    if (count == 0) {
        return;
    }
    qsort(all, count, sizeof(*all), by_whole);
    for (size_t at = 0, n = 0; at < count; at += n) {
        n = together(&all[at], count - at);
        struct ordered first = all[at];
        for (size_t i = at; i < at + n; i++) {
            first = all[i].order < first.order ? all[i] : first;
        }
        for (size_t i = at; i < at + n; i++) {
            all[i].order = first.order;
            all[i].task = first.task;
        }
    }
    qsort(all, count, sizeof(*all), in_order);
}

/* True if both may be parts of one variable: they have the same arrays, of the same dtype, cut from the same shape. */
static bool is_alike(const struct psi_saved_variable *a, const struct psi_saved_variable *b)
{
    const struct psi_parts x = psi_part_whole(&a->part, &a->shape), y = psi_part_whole(&b->part, &b->shape);
    return psi_part_alike(&a->part, &b->part) && a->dtype == b->dtype && psi_shape_equal(&x.shape, &y.shape) &&
           psi_optimizer_fits(&a->optimizer, &b->optimizer);
}

/* Add one variable to the export. all [count]: the variable itself, or all its parts. DATA_LOSS: a part is missing or differs. */
static ps_status add_together(struct exporter *e, const struct ordered *all, size_t count, struct psi_err *err)
{
    const struct psi_saved_variable *furthest = all[0].variable; /* the part with most updates; its powers are exported */
    for (size_t i = 0; i < count; i++) {
        const struct psi_saved_variable *v = all[i].variable;
        furthest = v->version > furthest->version ? v : furthest;
        if (!is_alike(v, all[0].variable)) {
            return psi_fail(err, PS_DATA_LOSS, "variable '%s' of the checkpoint: its parts differ, so that they are not of one",
                            v->whole);
        }
        const bool fits = v->part.count == 0 ? count == 1 : v->part.count == count && v->part.index == i;
        if (!fits) {
            return psi_fail(err, PS_DATA_LOSS, "variable '%s' of the checkpoint has %" PRIu32 " parts, of which %zu have a value",
                            v->whole, v->part.count, count);
        }
    }
    const size_t tensor = e->tensor_count;
    for (size_t i = 0; i < count; i++) {
        all[i].from->first[all[i].variable - all[i].from->state.variables] = tensor + 1;
    }
    return add_variable(e, furthest, err);
}

static ps_status add_all(struct exporter *e, struct psi_err *err)
{
    size_t count = 0, capacity = 0;
    struct ordered *all = NULL;
    ps_status st = PS_OK;
    for (size_t k = 0; st == PS_OK && k < e->source_count; k++) {
        struct source *from = &e->sources[k];
        from->first = psi_calloc(from->state.variable_count + 1, sizeof(*from->first));
        for (size_t i = 0; st == PS_OK && i < from->state.variable_count; i++) {
            struct ordered *more = psi_grow(all, count, &capacity, sizeof(*all));
            if (more == NULL || from->first == NULL) {
                st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the variables");
                break;
            }
            all = more;
            all[count] = (struct ordered){
                .variable = &from->state.variables[i], .from = from, .order = from->state.variables[i].order, .task = from};
            count += is_meant(e, all[count].variable);
        }
    }
    sort_all(all, count);
    for (size_t at = 0, n = 0; st == PS_OK && at < count; at += n) {
        n = together(&all[at], count - at);
        st = add_together(e, &all[at], n, err);
    }
    psi_free(all);
    return st;
}

static ps_status make_tensors(struct exporter *e, struct psi_err *err)
{
    compare_powers(e);
    ps_status st = add_all(e, err);
    st = st == PS_OK ? psi_choice_check(&e->choice, "the checkpoint", err) : st;
    if (st == PS_OK && e->var_count == 0) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "container '%s' has no variable with a value in checkpoint %llu",
                        e->r.options.container, (unsigned long long)e->r.number);
    }
    if (st != PS_OK || !e->r.options.slots) {
        return st;
    }
    for (uint32_t i = 0; st == PS_OK && e->shared != NULL && i + 1 < e->shared->array_count; i++) {
        const struct psi_slot *slot = psi_optimizer_slot(&e->shared->optimizer, i);
        if (slot->power != NULL) {
            st = add_power(e, slot->power, "", slot->wide ? PS_F64 : e->shared->dtype, e->shared->powers[i], err);
            e->vars[e->var_count - 1].slot_count++;
        }
    }
    return st;
}

static uint64_t tensor_bytes(const struct psi_tensor *t)
{
    return (uint64_t)ps_shape_elements(&t->shape) * t->type->bytes;
}

/* Distribute the tensors over files of options.shard_bytes at most. Slots stay with their variable, whose file may be larger. */
static ps_status deal_shards(struct exporter *e, struct psi_err *err)
{
    uint64_t most = e->r.options.shard_bytes;
    uint64_t bytes = 0;
    e->shards = psi_calloc(SHARDS_MAX, sizeof(*e->shards));
    if (e->shards == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for files");
    }
    for (size_t i = 0; i < e->var_count; i++) {
        size_t begin = e->vars[i].handle;
        size_t end = i + 1 < e->var_count ? e->vars[i + 1].handle : e->tensor_count;
        uint64_t own = 0;
        for (size_t k = begin; k < end; k++) {
            own += tensor_bytes(&e->tensors[k]);
        }
        if (e->shard_count == 0 || (most != 0 && bytes > 0 && own > most - (bytes < most ? bytes : most))) {
            if (e->shard_count == SHARDS_MAX) {
                return psi_fail(err, PS_INVALID_ARGUMENT, "files of %llu bytes: more than %d of them", (unsigned long long)most,
                                SHARDS_MAX);
            }
            struct shard *s = &e->shards[e->shard_count++];
            s->target = (struct psi_file_target){.fd = -1, .directory_fd = -1};
            psi_buf_init(&s->header, PSI_SAFETENSORS_PREFIX + PSI_SAFETENSORS_HEADER_MAX);
            s->begin = begin;
            s->var_begin = i;
            bytes = 0;
        }
        struct shard *s = &e->shards[e->shard_count - 1];
        bytes += own;
        s->end = end;
        s->var_end = i + 1;
        for (size_t k = begin; k < end; k++) {
            e->parts[k].shard = e->shard_count - 1;
        }
    }
    return PS_OK;
}

static int base_bytes(const char *path)
{
    static const char ending[] = ".safetensors";
    size_t n = strlen(path), k = sizeof(ending) - 1;
    return (int)(n > k && strcmp(path + n - k, ending) == 0 ? n - k : n);
}

static ps_status open_shards(struct exporter *e, struct psi_err *err)
{
    ps_status st = PS_OK;
    for (uint32_t i = 0; st == PS_OK && i < e->shard_count; i++) {
        struct shard *s = &e->shards[i];
        int n = e->r.options.shard_bytes == 0 ? snprintf(s->path, sizeof(s->path), "%s", e->path)
                                              : snprintf(s->path, sizeof(s->path), "%.*s-%05u-of-%05u.safetensors",
                                                         base_bytes(e->path), e->path, i + 1, e->shard_count);
        st = (size_t)n < sizeof(s->path) ? psi_file_target_open(&s->target, s->path, err)
                                         : psi_fail(err, PS_INVALID_ARGUMENT, "its path is too long");
    }
    return st;
}

static ps_status make_header(struct exporter *e, struct shard *s, struct psi_err *err)
{
    char cluster[PS_JOB_BYTES_MAX + 1] = "", container[PS_CONTAINER_BYTES_MAX + 1];
    char format[] = PSI_FILES_FORMAT, version[] = PS_VERSION;
    char keys[][sizeof(PSI_FILES_KEY_CONTAINER)] = {PSI_FILES_KEY_FORMAT, PSI_FILES_KEY_VERSION, PSI_FILES_KEY_CLUSTER,
                                                    PSI_FILES_KEY_CONTAINER, PSI_FILES_KEY_VARIABLES};
    /* cannot fail: no cluster has a name too long for `cluster` */
    PSI_IGNORE(PSI_BYTES_TEXT(e->r.saved.what.cluster_name, cluster, sizeof(cluster)));
    (void)snprintf(container, sizeof(container), "%s", e->r.options.container);
    char *variables = psi_files_describe(&e->vars[s->var_begin], s->var_end - s->var_begin);
    if (variables == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the header");
    }
    const struct psi_tensor_metadata metadata[] = {
        {keys[0], format}, {keys[1], version}, {keys[2], cluster}, {keys[3], container}, {keys[4], variables}};
    ps_status st = psi_safetensors_encode(&e->tensors[s->begin], s->end - s->begin, metadata,
                                          sizeof(metadata) / sizeof(metadata[0]), &s->header, err);
    free(variables);
    return st;
}

static ps_status write_at(struct exporter *e, size_t tensor, uint64_t at, const void *p, size_t n, struct psi_err *err)
{
    struct shard *s = &e->shards[e->parts[tensor].shard];
    return psi_file_target_write(&s->target, p, n, s->header.len + e->tensors[tensor].begin + at, err);
}

static ps_status make_headers(struct exporter *e, struct psi_err *err)
{
    ps_status st = PS_OK;
    e->slot_names = psi_calloc(e->tensor_count + 1, sizeof(*e->slot_names));
    if (e->slot_names == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the header");
    }
    for (size_t i = 0; i < e->tensor_count; i++) {
        e->slot_names[i] = e->parts[i].name;
    }
    for (size_t i = 0; i < e->var_count; i++) { /* a variable's value comes first in e->tensors, then its slots */
        size_t end = i + 1 < e->var_count ? e->vars[i + 1].handle : e->tensor_count;
        e->vars[i].slots = &e->slot_names[end - e->vars[i].slot_count];
    }
    for (uint32_t i = 0; st == PS_OK && i < e->shard_count; i++) {
        st = make_header(e, &e->shards[i], err);
    }
    for (uint32_t i = 0; st == PS_OK && i < e->shard_count; i++) {
        const struct psi_buf *header = &e->shards[i].header;
        st = psi_file_target_write(&e->shards[i].target, header->data, header->len, 0, err);
    }
    for (size_t i = 0; st == PS_OK && i < e->tensor_count; i++) {
        if (e->parts[i].ready) {
            st = write_at(e, i, 0, e->parts[i].power, (size_t)tensor_bytes(&e->tensors[i]), err);
        }
    }
    return st;
}

struct sink {
    struct exporter *exporter;
    const struct source *source;
};

static size_t first_of(const struct sink *sink, const struct psi_saved_variable *v)
{
    return sink->source->first[v - sink->source->state.variables];
}

static bool is_wanted(void *ctx, const struct psi_saved_variable *v, uint32_t which)
{
    const struct sink *sink = ctx;
    return first_of(sink, v) != 0 && (which == 0 || sink->exporter->r.options.slots);
}

/* Write bytes [at, at + bytes) of a variable's part to their places in the whole variable's tensor. */
static ps_status write_part(struct exporter *e, size_t tensor, const struct psi_saved_variable *v, uint32_t which, uint64_t at,
                            const uint8_t *p, size_t bytes, struct psi_err *err)
{
    const struct psi_parts own = psi_part_whole(&v->part, &v->shape);
    const struct psi_parts cut = which == 0 ? own : psi_files_slot_cut(&own, psi_optimizer_slot(&v->optimizer, which - 1));
    ps_status st = PS_OK;
    for (uint64_t done = 0, n = 0, to = 0; st == PS_OK && done < bytes; done += n) {
        n = psi_files_run(&cut, v->part.index, ps_dtype_bytes(v->dtype), at + done, bytes - done, &to);
        st = write_at(e, tensor, to, p + done, (size_t)n, err);
    }
    return st;
}

static ps_status on_values(void *ctx, const struct psi_saved_variable *v, uint32_t which, uint64_t at, const void *p, size_t n,
                           struct psi_err *err)
{
    const struct sink *sink = ctx;
    const size_t tensor = first_of(sink, v) - 1 + which;
    uint64_t offsets = ((uint64_t)ps_shape_elements(&v->shape) + 1) * 8;
    bool text = v->dtype == PS_STRING && at >= offsets; /* true: the piece has strings' bytes; false: their offsets */
    return v->part.count > 0 ? write_part(sink->exporter, tensor, v, which, at, p, n, err)
                             : write_at(sink->exporter, tensor + text, text ? at - offsets : at, p, n, err);
}

static ps_status copy_values(struct exporter *e, struct psi_err *err)
{
    ps_status st = PS_OK;
    for (size_t k = 0; st == PS_OK && k < e->source_count; k++) {
        struct source *source = &e->sources[k];
        struct sink sink = {.exporter = e, .source = source};
        for (size_t i = 1; st == PS_OK && i < source->file_count; i++) {
            const struct psi_saved_file *file = &source->files[i];
            if (strcmp(file->container, e->r.options.container) != 0) {
                progress(&e->r, file, file->bytes);
                continue;
            }
            st = psi_saved_values_read(&e->r.io, file, &source->state, is_wanted, on_values, &sink, err);
            if (st != PS_OK) {
                say_where(err, file);
            }
        }
    }
    return st;
}

static const char *name_in(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static char *index_text(const struct exporter *e)
{
    uint64_t bytes = 0;
    json_t *map = json_pack("{}");
    bool good = map != NULL;
    for (size_t i = 0; good && i < e->tensor_count; i++) {
        bytes += tensor_bytes(&e->tensors[i]);
        good = json_object_set_new(map, e->parts[i].name, json_string(name_in(e->shards[e->parts[i].shard].path))) == 0;
    }
    json_t *root = json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)bytes, "weight_map", map);
    char *text = good && root != NULL ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    return text;
}

static ps_status write_index(const struct exporter *e, struct psi_err *err)
{
    char path[SHARD_PATH_MAX + SHARD_NAME_MAX];
    struct psi_file_target target;
    char *text = index_text(e);
    if (text == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the index");
    }
    (void)snprintf(path, sizeof(path), "%.*s.safetensors.index.json", base_bytes(e->path), e->path);
    ps_status st = psi_file_target_open(&target, path, err);
    st = st == PS_OK ? psi_file_target_write(&target, text, strlen(text), 0, err) : st;
    st = st == PS_OK ? psi_file_target_commit(&target, err) : st;
    psi_file_target_close(&target);
    free(text);
    return st;
}

static ps_status run(struct exporter *e, struct psi_err *err)
{
    ps_status st = reading_open(&e->r, err);
    st = st == PS_OK ? read_states(e, err) : st;
    st = st == PS_OK ? make_tensors(e, err) : st;
    st = st == PS_OK ? deal_shards(e, err) : st;
    st = st == PS_OK ? open_shards(e, err) : st;
    st = st == PS_OK ? make_headers(e, err) : st;
    for (size_t i = 0; st == PS_OK && i < e->tensor_count; i++) {
        e->r.told_bytes += tensor_bytes(&e->tensors[i]);
    }
    st = st == PS_OK ? copy_values(e, err) : st;
    for (uint32_t i = 0; st == PS_OK && i < e->shard_count; i++) {
        st = psi_file_target_commit(&e->shards[i].target, err);
    }
    return st == PS_OK && e->r.options.shard_bytes != 0 ? write_index(e, err) : st;
}

static void exporter_fini(struct exporter *e)
{
    for (uint32_t i = e->shard_count; i > 0; i--) { /* the first shard last: its target has blocked SIGXFSZ, and unblocks it */
        psi_file_target_close(&e->shards[i - 1].target);
        psi_buf_fini(&e->shards[i - 1].header);
    }
    for (size_t i = 0; i < e->source_count; i++) {
        psi_saved_state_fini(&e->sources[i].state);
        psi_free(e->sources[i].first);
    }
    for (size_t i = 0; i < e->tensor_count; i++) {
        psi_free(e->parts[i].name);
    }
    for (size_t i = 0; i < e->var_count; i++) {
        psi_free(e->vars[i].as);
    }
    psi_map_fini(&e->names);
    psi_free(e->shards);
    psi_free(e->sources);
    psi_free(e->vars);
    psi_free(e->slot_names);
    psi_free(e->tensors);
    psi_free(e->parts);
    reading_close(&e->r);
}

ps_status ps_checkpoint_export(ps_session *s, uint64_t number, const char *path, const ps_checkpoint_options *options,
                               int *out_variables)
{
    PSI_API_VISIT(s);
    struct psi_err err = {0};
    struct exporter e = {.r = {.session = s, .number = number}, .path = path};
    psi_files_map_init(&e.names, false);
    ps_status st = take_options(&e.r, options, &err);
    st = st == PS_OK ? psi_choice_init(&e.choice, e.r.options.only, e.r.options.prefixes, &err) : st;
    if (st == PS_OK && (path == NULL || path[0] == '\0')) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "path is %s", path == NULL ? "NULL" : "empty");
    }
    st = st == PS_OK ? psi_api_go_inside(s, &err) : st;
    if (st == PS_OK) {
        st = run(&e, &err);
        psi_api_go_outside(s);
    }
    if (st == PS_OK && out_variables != NULL) {
        *out_variables = (int)e.var_count;
    }
    exporter_fini(&e);
    return psi_api_result(&err, st);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* All containers' names in the state files, sorted, with duplicates. The caller frees only the list. NULL: no memory. */
static const char **container_names(const struct exporter *e, size_t *out_count)
{
    size_t total = 0;
    *out_count = 0;
    for (size_t k = 0; k < e->source_count; k++) {
        total += e->sources[k].state.container_count;
    }
    const char **names = psi_calloc(total + 1, sizeof(*names));
    for (size_t k = 0; names != NULL && k < e->source_count; k++) {
        for (size_t i = 0; i < e->sources[k].state.container_count; i++) {
            names[(*out_count)++] = e->sources[k].state.containers[i].name;
        }
    }
    if (*out_count > 0) {
        qsort(names, *out_count, sizeof(*names), by_text);
    }
    return names;
}

ps_status ps_checkpoint_containers(ps_session *s, uint64_t number, ps_checkpoint_container_fn each, void *ctx)
{
    PSI_API_VISIT(s);
    struct psi_err err = {0};
    struct exporter e = {.r = {.session = s, .number = number}};
    const char **names = NULL;
    size_t count = 0;
    ps_status st = take_options(&e.r, NULL, &err);
    if (st == PS_OK && each == NULL) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "each is NULL");
    }
    st = st == PS_OK ? psi_api_go_inside(s, &err) : st;
    if (st == PS_OK) {
        st = reading_open(&e.r, &err);
        st = st == PS_OK ? read_states(&e, &err) : st;
        psi_api_go_outside(s);
    }
    if (st == PS_OK) {
        names = container_names(&e, &count);
        st = names != NULL ? PS_OK : psi_fail(&err, PS_RESOURCE_EXHAUSTED, "out of memory for the containers");
    }
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(names[i], names[i - 1]) != 0) {
            each(ctx, names[i]);
        }
    }
    psi_free(names);
    exporter_fini(&e);
    return psi_api_result(&err, st);
}
