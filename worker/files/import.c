/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ps_import(): values of a safetensors file into the variables of a container, and slots where they are asked for.
 *
 * Happy path: what is meant of the file is checked whole (source.c, choice.c); of the rest nothing but the names is looked at ->
 * VARS of all tasks: slots are told from variables, which get their names of here -> each tensor's variable exists with the same
 * dtype and shape, or is missing -> records of those that exist -> the missing ones are created, in the order of the header ->
 * ASSIGN, several on their way. An assign to a variable without a value is its initialisation (version 0, fresh slots), so nobody
 * else's can come in between. Slots and Adam's powers are found by the names that export gives them, compared before anything
 * changes, and go behind all values; where the metadata says nothing of a tensor, a name such as w/Adagrad is a slot of the w in
 * the file or the container. Failure modes: before the first ASSIGN nothing has a new value; afterwards the error says how many
 * have.
 */
#include "choice.h"
#include "files.h"
#include "source.h"

#include "common/abi.h"
#include "common/map.h"
#include "common/mem.h"
#include "common/optimizer.h"
#include "common/saved.h"
#include "common/shape.h"
#include "common/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 4 };

enum { OF_OPTIMIZER_MAX = 2 /* slots */ };

/* Slots of one variable in the file. */
struct slots {
    struct psi_file_item items[OF_OPTIMIZER_MAX]; /* a slot that the file lacks has no name */
    double powers[OF_OPTIMIZER_MAX];              /* of Adam; below 0: the file lacks it */
};

/* One ASSIGN. */
struct gift {
    const struct psi_file_item *item;
    struct psi_file_var *var;
    uint32_t slot; /* 0: its value */
    double power;
};

struct slot {
    struct psi_api_call call;
    const struct gift *gift;
    uint64_t bytes;
    uint8_t *memory;
    uint64_t capacity;
};

struct importer {
    ps_session *session;
    const char *path;
    ps_file_options options;
    struct psi_file_source source;
    struct psi_choice choice;
    struct psi_file_var *there; /* what the container has; given: it is in the file */
    size_t there_count;
    struct psi_map there_names;
    struct psi_file_var *vars; /* [source.item_count], in the order of the header */
    struct slots *of_vars;     /* likewise; NULL: they are not asked for */
    struct gift *gifts;        /* values first */
    size_t gift_count, value_count;
    uint64_t total_bytes;
    struct slot slots[SLOTS];
    size_t head, flying;
    uint64_t flying_bytes, done_bytes;
    size_t done;
};

/* ---- what is to be done ---- */

static ps_status compare(const char *tensor, const struct psi_file_var *v, const ps_variable_info *there, struct psi_err *err)
{
    char a[PSI_SHAPE_TEXT_MAX];
    char b[PSI_SHAPE_TEXT_MAX];
    const ps_variable_spec *item = &v->spec;
    bool as_many = v->any_shape && ps_shape_elements(&item->shape) == ps_shape_elements(&there->shape);
    if (item->dtype == there->dtype && (as_many || psi_shape_equal(&item->shape, &there->shape))) {
        return PS_OK;
    }
    char name[PS_NAME_BYTES_MAX + 3] = "of that name";
    if (strcmp(tensor, there->name) != 0) {
        (void)snprintf(name, sizeof(name), "'%s'", there->name);
    }
    return psi_fail(err, PS_INVALID_ARGUMENT, "tensor '%s' is %s %s, the variable %s on /job:%s/task:%u is %s %s", tensor,
                    ps_dtype_name(item->dtype), psi_shape_format(&item->shape, a, sizeof(a)), name, there->job, there->task,
                    ps_dtype_name(there->dtype), psi_shape_format(&there->shape, b, sizeof(b)));
}

/* Where all must be there. */
static ps_status check_existing(const struct importer *m, struct psi_err *err)
{
    size_t count = 0, first = 0;
    for (size_t i = m->source.item_count; i-- > 0;) {
        count += m->vars[i].missing;
        first = m->vars[i].missing ? i : first;
    }
    return count == 0 || !m->options.existing
               ? PS_OK
               : psi_fail(err, PS_NOT_FOUND, "container '%s' has no variable '%s', which is to have the values of tensor '%s'%s",
                          m->options.container, m->vars[first].info.name, m->source.items[first].name,
                          count > 1 ? "; it is not the only one" : "");
}

static ps_status list_there(struct importer *m, struct psi_err *err)
{
    ps_status st = psi_files_list(m->session, m->options.container, &m->there, &m->there_count, err);
    for (size_t i = 0; st == PS_OK && i < m->there_count; i++) {
        st = psi_map_put(&m->there_names, m->there[i].info.name, strlen(m->there[i].info.name), &m->there[i], NULL, err);
    }
    return st;
}

/* Which of them exist, and are they the same? */
static ps_status match(struct importer *m, struct psi_err *err)
{
    ps_status st = PS_OK;
    for (size_t i = 0; st == PS_OK && i < m->source.item_count; i++) {
        struct psi_file_var *v = &m->vars[i];
        struct psi_file_var *old = psi_map_find(&m->there_names, v->info.name, strlen(v->info.name));
        v->missing = old == NULL;
        if (old != NULL) {
            old->given = true;
            v->info = old->info;
            v->task = old->task;
            st = compare(m->source.items[i].name, v, &old->info, err);
        }
    }
    return st == PS_OK ? check_existing(m, err) : st;
}

/* What the file says of each. */
static ps_status define(struct importer *m, struct psi_err *err)
{
    ps_status st = PS_OK;
    for (size_t i = 0; i < m->source.item_count; i++) {
        const struct psi_file_item *item = &m->source.items[i];
        struct psi_file_var *v = &m->vars[i];
        ps_variable_spec_init(&v->spec);
        v->spec.dtype = item->dtype;
        v->spec.shape = item->shape;
        v->any_shape = item->dtype == PS_STRING;
        (void)snprintf(v->info.name, sizeof(v->info.name), "%s", item->name);
        (void)snprintf(v->info.container, sizeof(v->info.container), "%s", m->options.container);
    }
    for (size_t k = 0; st == PS_OK && k < m->source.part_count; k++) {
        const struct psi_file_part *part = &m->source.parts[k];
        const char *format = psi_safetensors_metadata(&part->table, PSI_FILES_KEY_FORMAT);
        const char *text = psi_safetensors_metadata(&part->table, PSI_FILES_KEY_VARIABLES);
        if (text != NULL && format != NULL && strcmp(format, PSI_FILES_FORMAT) == 0) {
            st = psi_files_understand(text, &m->vars[part->item_begin], part->item_end - part->item_begin, err);
        }
    }
    return st;
}

/* What is left of the file's variables: the kept-th is the i-th. */
static void keep(struct importer *m, size_t kept, size_t i)
{
    m->source.items[kept] = m->source.items[i];
    m->vars[kept] = m->vars[i];
    m->vars[kept].spec.optimizer = m->vars[i].spec.optimizer != NULL ? &m->vars[kept].optimizer : NULL;
    if (m->of_vars != NULL) {
        m->of_vars[kept] = m->of_vars[i];
    }
}

/* Those that are slots, and are not asked for, are passed over. */
static ps_status leave_slots(struct importer *m, struct psi_err *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < m->source.item_count; i++) {
        if (m->vars[i].slot) {
            psi_free(m->vars[i].slot_of);
            continue;
        }
        keep(m, kept++, i);
    }
    m->source.item_count = kept;
    return kept > 0 || psi_map_count(&m->source.left_out) > 0 ? PS_OK
                                                              : psi_fail(err, PS_INVALID_ARGUMENT, "the file has slots only");
}

/* No two become one. */
static ps_status check_names(const struct importer *m, struct psi_err *err)
{
    static const uint64_t seed[2] = {0, 0}; /* names of one model; two equal ones are an error */
    struct psi_map names;
    ps_status st = PS_OK;
    psi_map_init(&names, seed);
    for (size_t i = 0; st == PS_OK && i < m->source.item_count; i++) {
        st = psi_choice_once(&names, "tensors", m->source.items[i].name, m->vars[i].info.name, err);
    }
    psi_map_fini(&names);
    return st;
}

/* Which of them are meant, and as what. Slots have found their variables before. */
static ps_status choose(struct importer *m, struct psi_err *err)
{
    size_t kept = 0;
    ps_status st = PS_OK;
    for (size_t i = 0; st == PS_OK && i < m->source.item_count; i++) {
        const char *name = m->source.items[i].name;
        if (psi_choice_takes(&m->choice, name)) {
            st = psi_choice_rename(&m->choice, name, m->vars[i].info.name, err);
            keep(m, kept++, i);
        } else {
            st = psi_map_put(&m->source.left_out, name, strlen(name), m, NULL, err);
        }
    }
    m->source.item_count = kept;
    st = st == PS_OK ? psi_choice_check(&m->choice, "the file", err) : st;
    return st == PS_OK ? check_names(m, err) : st;
}

/* ---- slots ---- */

/* 1, 2: beta1_power, beta2_power; 0: another name. */
static uint32_t power_of(const char *name)
{
    return strcmp(name, "beta1_power") == 0 ? 1 : strcmp(name, "beta2_power") == 0 ? 2 : 0;
}

/* What the container has under the name that the first n bytes of this one of the file get; NULL: nothing. */
static const struct psi_file_var *there_as(const struct importer *m, const char *name, size_t n)
{
    struct psi_choice choice = m->choice; /* a copy: a question about a slot does not count as a use of a prefix */
    struct psi_err err;
    char own[PS_NAME_BYTES_MAX + 1], as[PS_NAME_BYTES_MAX + 1];
    (void)snprintf(own, sizeof(own), "%.*s", (int)n, name);
    return psi_choice_rename(&choice, own, as, &err) == PS_OK ? psi_map_find(&m->there_names, as, strlen(as)) : NULL;
}

/* Of "w/Adagrad" and the like: the bytes of "w"; 0: no slot is called so. */
static size_t owner_bytes(const char *name)
{
    const char *slash = strrchr(name, '/');
    bool is = slash != NULL && power_of(slash + 1) != 0;
    for (uint32_t kind = PS_OPT_NONE; slash != NULL && kind <= PS_OPT_ADAM; kind++) {
        for (uint32_t k = 0; k < OF_OPTIMIZER_MAX; k++) {
            const char *slot = psi_saved_slot_tf_name(kind, k);
            is = is || (slot != NULL && strcmp(slot, slash + 1) == 0);
        }
    }
    return is ? (size_t)(slash - name) : 0;
}

/* True of a tensor that is left out and is a slot: its variable is in the file or in the container. */
static bool left_out_is_slot(const struct importer *m, const char *name)
{
    size_t n = owner_bytes(name);
    if (n == 0 || n > PS_NAME_BYTES_MAX) {
        return false;
    }
    bool owned = psi_file_source_has(&m->source, name, n) || there_as(m, name, n) != NULL;
    return owned && there_as(m, name, strlen(name)) == NULL;
}

/* vars[i], of which the file says nothing, is a slot by its name. names: of the file's variables. */
static ps_status guess_slot(struct importer *m, size_t i, const struct psi_map *names, struct psi_err *err)
{
    struct psi_file_var *v = &m->vars[i];
    size_t n = owner_bytes(v->info.name);
    struct psi_file_var *of = n > 0 ? psi_map_find(names, v->info.name, n) : NULL;
    const struct psi_file_var *there = n > 0 ? there_as(m, v->info.name, n) : NULL;
    bool beside = n > 0 && psi_file_source_left_out(&m->source, v->info.name, n);
    if ((of == NULL && there == NULL && !beside) || there_as(m, v->info.name, strlen(v->info.name)) != NULL) {
        return PS_OK;
    }
    v->slot = true;
    v->slot_of = psi_malloc(n + 1);
    if (v->slot_of == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the names of the slots");
    }
    (void)snprintf(v->slot_of, n + 1, "%s", v->info.name);
    if (of != NULL && there != NULL && !of->told) {
        of->optimizer = there->info.optimizer;
    }
    return PS_OK;
}

/* Of files of others, and of tensors that were added. */
static ps_status guess_slots(struct importer *m, struct psi_err *err)
{
    static const uint64_t seed[2] = {0, 0}; /* each name is in the file once */
    struct psi_map names;
    bool adam = false;
    ps_status st = PS_OK;
    psi_map_init(&names, seed);
    for (size_t i = 0; st == PS_OK && i < m->source.item_count; i++) {
        const char *name = m->vars[i].info.name;
        st = m->vars[i].slot ? PS_OK : psi_map_put(&names, name, strlen(name), &m->vars[i], NULL, err);
    }
    for (size_t i = 0; st == PS_OK && i < m->source.item_count; i++) {
        const struct psi_file_var *v = &m->vars[i];
        if (!v->told && !v->slot) {
            st = guess_slot(m, i, &names, err);
            adam = adam || (v->slot && strcmp(v->info.name + strlen(v->slot_of), "/Adam") == 0);
        }
    }
    for (size_t i = 0; i < m->source.item_count; i++) { /* those of all variables of an optimizer */
        struct psi_file_var *v = &m->vars[i];
        bool power = adam && !v->told && power_of(v->info.name) != 0;
        v->slot = v->slot || (power && there_as(m, v->info.name, strlen(v->info.name)) == NULL);
    }
    psi_map_fini(&names);
    return st;
}

static ps_status read_power(struct importer *m, const struct psi_file_item *item, double *out, struct psi_err *err)
{
    union {
        float narrow;
        double wide;
    } value = {.wide = 0};
    bool fits = item->shape.rank == 0 && (item->dtype == PS_F32 || item->dtype == PS_F64);
    ps_status st = fits ? psi_file_source_read(&m->source, item, &value, err)
                        : psi_fail(err, PS_INVALID_ARGUMENT, "tensor '%s': a power is one F32 or F64", item->name);
    *out = item->dtype == PS_F32 ? (double)value.narrow : value.wide;
    return st;
}

/* Tensor i is a slot, or a power, of v. */
static ps_status note_slot(struct importer *m, size_t i, const struct psi_file_var *v, struct slots *of, struct psi_err *err)
{
    const struct psi_file_item *item = &m->source.items[i];
    size_t n = strlen(v->info.name);
    const char *ending = strncmp(item->name, v->info.name, n) == 0 && item->name[n] == '/' ? item->name + n + 1 : "";
    uint32_t slot = 0;
    if (power_of(ending) != 0 && v->optimizer.kind == PS_OPT_ADAM) {
        return read_power(m, item, &of->powers[power_of(ending) - 1], err);
    }
    for (uint32_t k = 0; k < OF_OPTIMIZER_MAX && slot == 0; k++) {
        const char *name = psi_saved_slot_tf_name(v->optimizer.kind, k);
        slot = name != NULL && strcmp(name, ending) == 0 ? k + 1 : 0;
    }
    if (slot == 0 && !v->told) {
        bool there = there_as(m, v->info.name, n) != NULL;
        return psi_fail(err, PS_INVALID_ARGUMENT, "tensor '%s' is a slot by its name, and %s '%s'%s%s", item->name,
                        there ? "the optimizer of" : "neither the file nor the cluster says the optimizer of", v->info.name,
                        there ? " is " : "", there ? psi_optimizer_name(v->optimizer.kind) : "");
    }
    if (slot == 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "tensor '%s' is no slot of %s, the optimizer that the file says of '%s'",
                        item->name, psi_optimizer_name(v->optimizer.kind), v->info.name);
    }
    if (item->dtype != v->spec.dtype || !psi_shape_equal(&item->shape, &v->spec.shape)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "tensor '%s': a slot has the dtype and the shape of its variable, '%s'",
                        item->name, v->info.name);
    }
    of->items[slot - 1] = *item;
    return PS_OK;
}

/* A slot of a variable without elements has no bytes, and is there. */
static bool is_there(const struct psi_file_item *slot)
{
    return slot->name[0] != '\0';
}

static bool has_slots(const struct slots *of)
{
    bool any = false;
    for (uint32_t k = 0; k < OF_OPTIMIZER_MAX; k++) {
        any = any || is_there(&of->items[k]);
    }
    return any;
}

/* Powers of the file that are those of all its Adam variables; a file without slots of Adam may have them of any form. */
static ps_status share_powers(struct importer *m, const struct psi_file_item *const items[OF_OPTIMIZER_MAX], struct psi_err *err)
{
    double shared[OF_OPTIMIZER_MAX] = {-1, -1};
    ps_status st = PS_OK;
    for (size_t i = 0; i < m->source.item_count; i++) {
        for (uint32_t k = 0; m->vars[i].optimizer.kind == PS_OPT_ADAM && has_slots(&m->of_vars[i]) && k < OF_OPTIMIZER_MAX; k++) {
            double *power = &m->of_vars[i].powers[k];
            if (st == PS_OK && *power < 0 && shared[k] < 0 && items[k] != NULL) {
                st = read_power(m, items[k], &shared[k], err);
            }
            *power = *power < 0 ? shared[k] : *power;
        }
    }
    return st;
}

/* All of what the optimizer of v has, or nothing. */
static ps_status check_slots(const struct psi_file_var *v, const struct slots *of, struct psi_err *err)
{
    bool any = has_slots(of);
    for (uint32_t k = 0; any && k < OF_OPTIMIZER_MAX; k++) {
        const char *name = psi_saved_slot_tf_name(v->optimizer.kind, k);
        if (name != NULL && !is_there(&of->items[k])) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "the file has slots of '%s', and lacks '%s/%s'", v->info.name, v->info.name,
                            name);
        }
    }
    for (uint32_t k = 0; any && k < OF_OPTIMIZER_MAX; k++) {
        if (v->optimizer.kind == PS_OPT_ADAM && of->powers[k] < 0) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "the file has slots of '%s', and lacks beta%u_power", v->info.name, k + 1);
        }
    }
    return PS_OK;
}

static ps_status find_slots(struct importer *m, struct psi_err *err)
{
    static const uint64_t seed[2] = {0, 0}; /* each name is in the file once */
    const struct psi_file_item *shared[OF_OPTIMIZER_MAX] = {NULL};
    size_t count = m->source.item_count;
    struct psi_map names;
    ps_status st = PS_OK;
    m->of_vars = psi_calloc(count + 1, sizeof(*m->of_vars));
    if (m->of_vars == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the slots of %zu tensors", count);
    }
    psi_map_init(&names, seed);
    for (size_t i = 0; st == PS_OK && i < count; i++) {
        const char *name = m->vars[i].info.name;
        m->of_vars[i].powers[0] = m->of_vars[i].powers[1] = -1;
        if (!m->vars[i].slot) {
            st = psi_map_put(&names, name, strlen(name), &m->vars[i], NULL, err);
        } else if (power_of(name) != 0) {
            shared[power_of(name) - 1] = &m->source.items[i];
        }
    }
    for (size_t i = 0; st == PS_OK && i < count; i++) {
        const char *of = m->vars[i].slot_of;
        if (!m->vars[i].slot || power_of(m->vars[i].info.name) != 0 || psi_file_source_left_out(&m->source, of, strlen(of))) {
            continue;
        }
        const struct psi_file_var *v = psi_map_find(&names, of, strlen(of));
        st = v == NULL ? psi_fail(err, PS_INVALID_ARGUMENT, "tensor '%s' is a slot of '%s', which the file does not have",
                                  m->source.items[i].name, of)
                       : note_slot(m, i, v, &m->of_vars[v - m->vars], err);
    }
    psi_map_fini(&names);
    st = st == PS_OK ? share_powers(m, shared, err) : st;
    for (size_t i = 0; st == PS_OK && i < count; i++) {
        st = check_slots(&m->vars[i], &m->of_vars[i], err);
    }
    return st;
}

/* Those of a variable that is there fit its optimizer. */
static ps_status compare_optimizers(const struct importer *m, struct psi_err *err)
{
    for (size_t i = 0; m->of_vars != NULL && i < m->source.item_count; i++) {
        const struct psi_file_var *v = &m->vars[i];
        if (!v->missing && is_there(&m->of_vars[i].items[0]) && v->info.optimizer.kind != v->optimizer.kind) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "the file has slots of %s for '%s'; the variable on /job:%s/task:%u has %s",
                            psi_optimizer_name(v->optimizer.kind), v->info.name, v->info.job, v->info.task,
                            psi_optimizer_name(v->info.optimizer.kind));
        }
    }
    return PS_OK;
}

/* What is given, in this order. */
static ps_status list_gifts(struct importer *m, struct psi_err *err)
{
    size_t count = m->source.item_count;
    m->gifts = psi_calloc(count * (1 + OF_OPTIMIZER_MAX) + 1, sizeof(*m->gifts));
    if (m->gifts == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %zu tensors", count);
    }
    for (size_t i = 0; i < count; i++) {
        m->gifts[m->gift_count++] = (struct gift){.item = &m->source.items[i], .var = &m->vars[i]};
    }
    m->value_count = m->gift_count;
    for (size_t i = 0; m->of_vars != NULL && i < count; i++) {
        for (uint32_t k = 0; k < OF_OPTIMIZER_MAX; k++) {
            const struct slots *of = &m->of_vars[i];
            if (is_there(&of->items[k])) {
                bool adam = m->vars[i].optimizer.kind == PS_OPT_ADAM;
                m->gifts[m->gift_count++] =
                    (struct gift){.item = &of->items[k], .var = &m->vars[i], .slot = k + 1, .power = adam ? of->powers[k] : 0};
            }
        }
    }
    for (size_t i = 0; i < m->gift_count; i++) {
        m->total_bytes += m->gifts[i].item->bytes + m->gifts[i].item->text_bytes;
    }
    return PS_OK;
}

/* The definitions of those that are to be created, all before the first is. */
static ps_status check_missing(struct importer *m, struct psi_err *err)
{
    ps_status st = PS_OK;
    for (size_t i = 0; st == PS_OK && i < m->source.item_count; i++) {
        if (m->vars[i].missing) {
            m->vars[i].spec.name = m->vars[i].info.name;
            st = psi_client_definition_check(&m->vars[i].spec, err);
            if (st != PS_OK) {
                psi_err_prefix(err, "tensor '%s'", m->source.items[i].name);
            }
        }
    }
    return st;
}

/* Records of those that exist; nothing is created before they all are as they were listed. */
static ps_status open_all(struct importer *m, struct psi_err *err)
{
    size_t count = m->source.item_count;
    size_t found = 0;
    struct psi_file_var *there = psi_calloc(count + 1, sizeof(*there));
    if (there == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %zu variables", count);
    }
    for (size_t i = 0; i < count; i++) {
        if (!m->vars[i].missing) {
            there[found++] = m->vars[i];
        }
    }
    ps_status st = psi_files_open(m->session, there, found, err);
    found = 0;
    for (size_t i = 0; i < count && st == PS_OK; i++) {
        if (!m->vars[i].missing) {
            m->vars[i].var = there[found].var;
            m->vars[i].handle = there[found].handle;
            st = compare(m->source.items[i].name, &m->vars[i], &there[found++].info, err);
        }
    }
    psi_free(there);
    return st == PS_OK ? psi_files_open(m->session, m->vars, count, err) : st;
}

/* ---- the values ---- */

static ps_status room(struct slot *slot, const struct psi_file_item *item, struct psi_err *err)
{
    uint64_t bytes = item->bytes + item->text_bytes;
    if (slot->capacity >= bytes) {
        return PS_OK;
    }
    psi_free(slot->memory);
    slot->capacity = 0;
    slot->memory = psi_aligned_malloc(PSI_PARAM_ALIGN, (size_t)bytes);
    if (slot->memory == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "tensor '%s': out of memory for its %llu bytes", item->name,
                        (unsigned long long)bytes);
    }
    slot->capacity = bytes;
    return PS_OK;
}

static ps_status give(struct importer *m, size_t i, struct psi_err *err)
{
    const struct gift *gift = &m->gifts[i];
    const struct psi_file_item *item = gift->item;
    struct slot *slot = &m->slots[(m->head + m->flying) % SLOTS];
    ps_status st = room(slot, item, err);
    st = st == PS_OK ? psi_file_source_read(&m->source, item, slot->memory, err) : st;
    if (st != PS_OK) {
        return st;
    }
    slot->gift = gift;
    slot->bytes = item->bytes + item->text_bytes;
    slot->call = (struct psi_api_call){.session = m->session,
                                       .timeout_ms = psi_files_timeout_ms(m->session, slot->bytes),
                                       .req = {.kind = PSI_REQ_ASSIGN,
                                               .var = gift->var->var,
                                               .src = slot->memory,
                                               .bytes = slot->bytes,
                                               .scale = 1,
                                               .slot = gift->slot}};
    memcpy(&slot->call.req.from, &gift->power, sizeof(gift->power));
    st = psi_api_call_start(&slot->call, err);
    if (st == PS_OK) {
        m->flying++;
        m->flying_bytes += slot->bytes;
    }
    return st;
}

/* The oldest one's end. */
static ps_status take(struct importer *m, struct psi_err *err)
{
    struct slot *slot = &m->slots[m->head];
    ps_status st = psi_api_call_wait(&slot->call, err);
    m->flying--;
    m->flying_bytes -= slot->bytes;
    m->head = m->flying == 0 ? 0 : (m->head + 1) % SLOTS; /* one large value after the other uses the same memory */
    if (st == PS_OK) {
        m->done += slot->gift->slot == 0;
        slot->gift->var->given = true;
        m->done_bytes += slot->bytes;
        if (m->options.copied != NULL) {
            m->options.copied(m->options.ctx, slot->gift->item->name, m->done_bytes, m->total_bytes);
        }
    }
    return st;
}

static bool fits(const struct importer *m, size_t i)
{
    const struct psi_file_item *item = m->gifts[i].item;
    return m->flying == 0 || (m->flying < SLOTS && i != m->value_count && /* all values are there before the first slot */
                              m->flying_bytes + item->bytes + item->text_bytes <= PSI_FILES_FLIGHT_BYTES);
}

static ps_status assign_all(struct importer *m, struct psi_err *err)
{
    ps_status st = PS_OK;
    size_t next = 0;
    while (st == PS_OK && (next < m->gift_count || m->flying > 0)) {
        bool more = next < m->gift_count && fits(m, next);
        st = more ? give(m, next, err) : take(m, err);
        next += more ? 1 : 0;
    }
    while (m->flying > 0) {
        PSI_IGNORE(take(m, NULL)); /* the first error counts */
    }
    if (st != PS_OK) {
        psi_err_prefix(err, "%zu of %zu variables had been given their values", m->done, m->value_count);
        err->applied = m->done > 0 && err->applied == PS_NOTHING_APPLIED ? PS_MAYBE_PARTLY_APPLIED : err->applied;
    }
    return st;
}

/* ---- are the imported values still there? ---- */

static void finish_look(struct psi_api_call *call)
{
    struct psi_file_var *v = call->arg;
    v->lost = v->var->lost || !v->var->initialised;
}

/* A task may have been lost since, or have gone back to a checkpoint. Its values are then older than those that the other tasks
 * have from the file. */
static ps_status look_again(struct importer *m, struct psi_err *err)
{
    ps_status st = PS_OK;
    const char *first = NULL;
    for (size_t from = 0; st == PS_OK && from < m->source.item_count; from += SLOTS) {
        size_t n = m->source.item_count - from < SLOTS ? m->source.item_count - from : SLOTS, started = 0;
        for (; st == PS_OK && started < n; started += st == PS_OK) {
            struct psi_file_var *v = &m->vars[from + started];
            m->slots[started].call = (struct psi_api_call){
                .session = m->session, .finish = finish_look, .arg = v, .req = {.kind = PSI_REQ_STATUS, .var = v->var}};
            st = psi_api_call_start(&m->slots[started].call, err);
        }
        for (size_t i = 0; i < started; i++) {
            struct psi_err one = {0};
            ps_status ended = psi_api_call_wait(&m->slots[i].call, &one);
            const struct psi_file_var *v = &m->vars[from + i];
            first = first == NULL && (v->lost || ended == PS_ABORTED) ? v->info.name : first;
            if (ended != PS_OK && st == PS_OK) {
                st = ended;
                *err = one;
            }
        }
    }
    if (first != NULL) {
        char shown[128];
        st = psi_fail_as(err, PS_ABORTED, PS_REASON_LOST,
                         "'%s' has not the value of the file any more: its task was lost meanwhile, or has gone back to a "
                         "checkpoint, and others have theirs; import again",
                         psi_utf8_shorten(first, shown, sizeof(shown)));
    }
    if (st != PS_OK) {
        err->applied = PS_MAYBE_PARTLY_APPLIED;
    }
    return st;
}

/* ---- all of it ---- */

static void tell_taken(const struct importer *m)
{
    for (size_t i = 0; i < m->source.item_count; i++) {
        m->options.taken(m->options.ctx, m->source.items[i].name, m->vars[i].info.name);
    }
    uint64_t cursor = 0;
    const char *name = NULL;
    void *unused = NULL;
    while (psi_map_next(&m->source.left_out, &cursor, &name, NULL, &unused)) {
        if (!left_out_is_slot(m, name)) {
            m->options.taken(m->options.ctx, name, NULL);
        }
    }
    for (size_t i = 0; i < m->there_count; i++) {
        if (!m->there[i].given) {
            m->options.taken(m->options.ctx, NULL, m->there[i].info.name);
        }
    }
}

/* What a failure leaves behind besides values: variables that it has created. They are not deleted: somebody else may have found
 * them meanwhile. */
static void tell_created(const struct importer *m, struct psi_err *err)
{
    size_t count = 0;
    const char *first = "";
    for (size_t i = 0; m->vars != NULL && i < m->source.item_count; i++) {
        const struct psi_file_var *v = &m->vars[i];
        if (v->missing && v->handle != 0 && !v->given) {
            first = count++ == 0 ? v->info.name : first;
        }
    }
    if (count > 0) {
        char shown[128]; /* why it failed matters more */
        psi_err_prefix(err, "%zu variable%s that it created, '%s'%s, ha%s no value", count, count > 1 ? "s" : "",
                       psi_utf8_shorten(first, shown, sizeof(shown)), count > 1 ? " the first" : "", count > 1 ? "ve" : "s");
    }
}

/* What is a choice of an import, without a cluster. */
struct meant {
    const struct psi_choice *choice;
    bool slots;
};

/* Slots follow their variable, and the powers are those of all. */
static bool is_meant(void *ctx, const char *name)
{
    const struct meant *meant = ctx;
    struct psi_choice choice =
        *meant->choice; /* it notes which patterns have fitted: a tensor that turns out to be a slot is none */
    char owner[PS_NAME_BYTES_MAX + 1];
    size_t n = meant->slots ? owner_bytes(name) : 0;
    if (psi_choice_takes(&choice, name) || (meant->slots && power_of(name) != 0)) {
        return true;
    }
    if (n == 0 || n > PS_NAME_BYTES_MAX) {
        return false;
    }
    (void)snprintf(owner, sizeof(owner), "%.*s", (int)n, name);
    return psi_choice_takes(&choice, owner);
}

static ps_status open_source(struct psi_file_source *source, const char *path, const ps_file_options *options,
                             const struct psi_choice *choice, struct psi_err *err)
{
    struct meant meant = {.choice = choice, .slots = options->slots};
    const struct psi_file_wants wants = {.takes = is_meant, .ctx = &meant};
    return psi_file_source_open(source, path, options->only != NULL ? &wants : NULL, err);
}

static ps_status run(struct importer *m, struct psi_err *err)
{
    ps_status st = open_source(&m->source, m->path, &m->options, &m->choice, err);
    if (st != PS_OK) {
        return st;
    }
    m->vars = psi_calloc(m->source.item_count + 1, sizeof(*m->vars));
    if (m->vars == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for %zu tensors", m->source.item_count);
    }
    st = define(m, err);
    st = st == PS_OK ? list_there(m, err) : st;
    st = st == PS_OK ? guess_slots(m, err) : st;
    st = st == PS_OK && m->options.slots ? find_slots(m, err) : st;
    st = st == PS_OK ? leave_slots(m, err) : st;
    st = st == PS_OK ? choose(m, err) : st;
    st = st == PS_OK ? match(m, err) : st;
    st = st == PS_OK ? compare_optimizers(m, err) : st;
    st = st == PS_OK ? check_missing(m, err) : st;
    st = st == PS_OK ? open_all(m, err) : st;
    st = st == PS_OK ? list_gifts(m, err) : st;
    st = st == PS_OK ? assign_all(m, err) : st;
    return st == PS_OK ? look_again(m, err) : st;
}

ps_status ps_file_check(const char *path, const ps_file_options *options, int *out_variables)
{
    struct psi_err err = {0};
    struct psi_file_source source = {.fd = -1};
    struct psi_choice choice;
    ps_file_options o;
    ps_file_options_init(&o);
    ps_status st = options == NULL ? PS_OK : psi_struct_take(options, &o, sizeof(o), "ps_file_options_init", &err);
    st = st == PS_OK ? psi_choice_init(&choice, o.only, o.prefixes, &err) : st;
    if (st == PS_OK && (path == NULL || path[0] == '\0')) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "path is %s", path == NULL ? "NULL" : "empty");
    }
    st = st == PS_OK ? open_source(&source, path, &o, &choice, &err) : st;
    if (st == PS_OK && out_variables != NULL) {
        *out_variables = (int)source.item_count;
    }
    psi_file_source_close(&source);
    if (st != PS_OK) {
        char shown[PSI_PATH_SHOWN];
        psi_err_prefix(&err, "%s", psi_utf8_shorten(path == NULL ? "a file" : path, shown, sizeof(shown)));
    }
    return psi_api_result(&err, st);
}

ps_status ps_import(ps_session *s, const char *path, const ps_file_options *options, int *out_variables)
{
    PSI_API_VISIT(s);
    struct psi_err err = {0};
    ps_status st = PS_RESOURCE_EXHAUSTED;
    struct importer *m = psi_calloc(1, sizeof(*m));
    if (m == NULL) {
        PSI_IGNORE(psi_fail(&err, st, "out of memory")); /* returned below */
        return psi_api_last_error_set(&err);
    }
    static const uint64_t seed[2] = {0, 0}; /* names that this cluster has taken already */
    *m = (struct importer){.session = s, .path = path, .source = {.fd = -1}};
    psi_map_init(&m->there_names, seed);
    st = psi_files_options(s, path, options, &m->options, &err);
    st = st == PS_OK ? psi_choice_init(&m->choice, m->options.only, m->options.prefixes, &err) : st;
    st = st == PS_OK ? psi_api_may_change(s, PSI_REQ_ASSIGN, &err) : st; /* before it makes variables */
    st = st == PS_OK ? psi_api_go_inside(s, &err) : st;
    if (st == PS_OK) {
        PSI_IGNORE(psi_api_settle(s)); /* parameters of the program before those of the file; a failure is the session's */
        st = run(m, &err);
        psi_api_go_outside(s);
    }
    if (st == PS_OK && m->options.taken != NULL) {
        tell_taken(m);
    }
    if (st == PS_OK && out_variables != NULL) {
        *out_variables = (int)m->done;
    }
    for (size_t i = 0; i < SLOTS; i++) {
        psi_free(m->slots[i].memory);
    }
    if (st != PS_OK) {
        tell_created(m, &err);
    }
    for (size_t i = 0; m->vars != NULL && i < m->source.item_count; i++) {
        psi_free(m->vars[i].slot_of);
    }
    psi_file_source_close(&m->source);
    psi_free(m->vars);
    psi_map_fini(&m->there_names);
    psi_free(m->there);
    psi_free(m->of_vars);
    psi_free(m->gifts);
    psi_free(m);
    if (st != PS_OK) {
        char shown[PSI_PATH_SHOWN];
        psi_err_prefix(&err, "%s", psi_utf8_shorten(path == NULL ? "import" : path, shown, sizeof(shown)));
        return psi_api_last_error_set(&err);
    }
    return PS_OK;
}
