/* SPDX-License-Identifier: Apache-2.0 */
/* ps_import(): values of a safetensors file into the variables of a container, and slots if asked for.
 *
 * Happy path: all selected tensors are checked, of others only the names (source.c, choice.c). run() lists the container's
 * variables and tells slots from variables in the file. A variable that exists must have the file's dtype and shape. run() opens
 * these, then creates missing variables in the order of the header, and assigns several values at a time. An ASSIGN to a variable
 * without a value also initialises it (version 0, fresh slots), so no other session can do so in between. Slots and Adam's powers
 * are checked before anything changes, and assigned after all values. Without metadata a tensor w/Adagrad is a slot of w, if w is
 * in the file or the container. Failure modes: before the first ASSIGN no value has changed; later the error says how many have.
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

/* The optimizer state (slots) of one variable in the file, by slot index. */
struct slots {
    struct psi_file_item items[PSI_OPTIMIZER_SLOTS_MAX]; /* name "": the file lacks this slot */
    double powers[PSI_OPTIMIZER_SLOTS_MAX];              /* Adam's beta power that belongs to the slot; < 0: the file lacks it */
};

/* One ASSIGN request: sets the value or a slot of a variable, or of one part of a variable. */
struct gift {
    const struct psi_file_item *item;
    struct psi_file_var *whole;
    struct psi_file_var *var; /* what the request changes: `whole`, or one of its parts */
    struct psi_parts cut;     /* for a part: how the item's tensor is cut */
    uint64_t bytes;           /* bytes of the request's value */
    uint32_t slot;            /* 0: the value */
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
    struct psi_file_var *there; /* the container's variables; .given: the file has a value for the variable */
    size_t there_count;
    struct psi_map there_names;
    struct psi_file_var *vars; /* [source.item_count]: the variable of each tensor in the file */
    struct slots *of_vars;     /* [source.item_count]; NULL: the options ask for no slots */
    struct gift *gifts;        /* the ASSIGN requests to send: first all values, then all slots */
    size_t gift_count, gift_capacity, value_count;
    uint64_t total_bytes;
    struct slot slots[SLOTS];
    size_t head, flying;
    uint64_t flying_bytes, done_bytes;
    size_t done, assigned; /* number of variables whose value is set; number of requests that succeeded */
};

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

/* With options.existing: an error if the container lacks a variable of the file. */
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
    st = st == PS_OK ? psi_files_join(m->there, &m->there_count, err) : st;
    for (size_t i = 0; st == PS_OK && i < m->there_count; i++) {
        st = psi_map_put(&m->there_names, m->there[i].info.name, strlen(m->there[i].info.name), &m->there[i], NULL, err);
    }
    return st;
}

/* Look for each of the file's variables in the container: if it is there, check dtype and shape; if not, mark it `missing`. */
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
            v->cut = old->cut;
            v->parts = old->parts;
            old->parts = NULL; /* v owns the parts from now on */
            st = compare(m->source.items[i].name, v, &old->info, err);
        }
    }
    return st == PS_OK ? check_existing(m, err) : st;
}

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

/* Move entry i of items, vars and of_vars to index kept (<= i). Callers keep some entries so, and drop the others. */
static void keep(struct importer *m, size_t kept, size_t i)
{
    m->source.items[kept] = m->source.items[i];
    m->vars[kept] = m->vars[i];
    m->vars[kept].spec.optimizer = m->vars[i].spec.optimizer != NULL ? &m->vars[kept].optimizer : NULL;
    if (m->of_vars != NULL) {
        m->of_vars[kept] = m->of_vars[i];
    }
}

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

static ps_status check_names(const struct importer *m, struct psi_err *err)
{
    struct psi_map names;
    ps_status st = PS_OK;
    psi_files_map_init(&names, false);
    for (size_t i = 0; st == PS_OK && i < m->source.item_count; i++) {
        st = psi_choice_once(&names, "tensors", m->source.items[i].name, m->vars[i].info.name, err);
    }
    psi_map_fini(&names);
    return st;
}

/* Remove the variables that the options do not select, and apply the options' prefixes to the other names. Comes after
 * find_slots(), which needs the file's names to tell whose slot a tensor is. */
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

/* Find a slot of any optimizer by its name ("Adagrad"), or with `power` by the name of its power ("beta1_power"). */
static const struct psi_slot *find_slot(const char *name, bool power)
{
    for (uint32_t kind = PS_OPT_NONE; kind < psi_optimizer_row_count; kind++) {
        for (const struct psi_slot *slot = psi_optimizer_rows[kind].slots; slot->name != NULL; slot++) {
            const char *own = power ? slot->power : slot->tensorflow;
            if (own != NULL && strcmp(own, name) == 0) {
                return slot;
            }
        }
    }
    return !power && strcmp(psi_average_slot.tensorflow, name) == 0 ? &psi_average_slot : NULL;
}

static bool is_power(const char *name)
{
    return find_slot(name, true) != NULL;
}

/* Find the container's variable that the file calls name [n]; prefixes are applied. NULL: there is none. */
static const struct psi_file_var *there_as(const struct importer *m, const char *name, size_t n)
{
    struct psi_choice choice = m->choice; /* a copy: psi_choice_rename() notes in it which prefixes were used */
    struct psi_err err;
    char own[PS_NAME_BYTES_MAX + 1], as[PS_NAME_BYTES_MAX + 1];
    (void)snprintf(own, sizeof(own), "%.*s", (int)n, name);
    return psi_choice_rename(&choice, own, as, &err) == PS_OK ? psi_map_find(&m->there_names, as, strlen(as)) : NULL;
}

/* Length of "w" in a slot's name "w/Adagrad"; 0: name is not that of a slot. */
static size_t owner_bytes(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash != NULL && (is_power(slash + 1) || find_slot(slash + 1, false) != NULL) ? (size_t)(slash - name) : 0;
}

/* For a tensor that the options leave out: true if it is a slot of a variable in the file or container, not itself a variable. */
static bool left_out_is_slot(const struct importer *m, const char *name)
{
    size_t n = owner_bytes(name);
    if (n == 0 || n > PS_NAME_BYTES_MAX) {
        return false;
    }
    bool owned = psi_file_source_has(&m->source, name, n) || there_as(m, name, n) != NULL;
    return owned && there_as(m, name, strlen(name)) == NULL;
}

/* For vars[i], which __metadata__ does not describe: decide by its name whether it is a slot. names: the file's variables. */
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

/* Find slots by their names, for tensors that __metadata__ does not describe: files of other programs, or with added tensors. */
static ps_status guess_slots(struct importer *m, struct psi_err *err)
{
    struct psi_map names;
    bool powers = false; /* some slot found by this function belongs to an optimizer with powers (such as beta1^t) */
    ps_status st = PS_OK;
    psi_files_map_init(&names, false);
    for (size_t i = 0; st == PS_OK && i < m->source.item_count; i++) {
        const char *name = m->vars[i].info.name;
        st = m->vars[i].slot ? PS_OK : psi_map_put(&names, name, strlen(name), &m->vars[i], NULL, err);
    }
    for (size_t i = 0; st == PS_OK && i < m->source.item_count; i++) {
        const struct psi_file_var *v = &m->vars[i];
        if (!v->told && !v->slot) {
            st = guess_slot(m, i, &names, err);
            const struct psi_slot *slot = v->slot ? find_slot(v->info.name + strlen(v->slot_of) + 1, false) : NULL;
            powers = powers || (slot != NULL && slot->power != NULL);
        }
    }
    /* a tensor called only "beta1_power" is one power for all variables, not a variable */
    for (size_t i = 0; i < m->source.item_count; i++) {
        struct psi_file_var *v = &m->vars[i];
        bool power = powers && !v->told && is_power(v->info.name);
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

static ps_status note_slot(struct importer *m, size_t i, const struct psi_file_var *v, struct slots *of, struct psi_err *err)
{
    const struct psi_file_item *item = &m->source.items[i];
    size_t n = strlen(v->info.name);
    const char *ending = strncmp(item->name, v->info.name, n) == 0 && item->name[n] == '/' ? item->name + n + 1 : "";
    uint32_t slot = 0;
    const struct psi_slot *row = NULL;
    for (uint32_t k = 0; (row = psi_optimizer_slot(&v->optimizer, k)) != NULL; k++) {
        if (row->power != NULL && strcmp(row->power, ending) == 0) {
            return read_power(m, item, &of->powers[k], err);
        }
        slot = strcmp(row->tensorflow, ending) == 0 ? k + 1 : slot;
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
    row = psi_optimizer_slot(&v->optimizer, slot - 1);
    const bool can_be = !row->by_row || v->spec.shape.rank > 0;
    const ps_shape shape = can_be ? psi_slot_shape(row, &v->spec.shape) : v->spec.shape;
    if (item->dtype != v->spec.dtype || !can_be || !psi_shape_equal(&item->shape, &shape)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "tensor '%s': a slot has the dtype of its variable, '%s', and %s", item->name,
                        v->info.name, row->by_row ? "one element for each row: the shape (rows, 1)" : "its shape");
    }
    of->items[slot - 1] = *item;
    return PS_OK;
}

/* True if the file has this slot. The name tells, not the size: a slot may have 0 bytes. */
static bool is_there(const struct psi_file_item *slot)
{
    return slot->name[0] != '\0';
}

static bool has_slots(const struct slots *of)
{
    bool any = false;
    for (uint32_t k = 0; k < PSI_OPTIMIZER_SLOTS_MAX; k++) {
        any = any || is_there(&of->items[k]);
    }
    return any;
}

/* Set the powers that the file stores once for all variables. items: tensors whose names are those of powers. A power that no
 * variable with slots in the file needs is not read. */
static ps_status share_powers(struct importer *m, const struct psi_map *items, struct psi_err *err)
{
    ps_status st = PS_OK;
    for (size_t i = 0; i < m->source.item_count; i++) {
        const struct psi_slot *slot = NULL;
        for (uint32_t k = 0; has_slots(&m->of_vars[i]) && (slot = psi_optimizer_slot(&m->vars[i].optimizer, k)) != NULL; k++) {
            double *power = &m->of_vars[i].powers[k];
            const struct psi_file_item *item =
                *power < 0 && slot->power != NULL ? psi_map_find(items, slot->power, strlen(slot->power)) : NULL;
            st = st == PS_OK && item != NULL ? read_power(m, item, power, err) : st;
        }
    }
    return st;
}

/* Check that the file has all slots of v's optimizer or none of them. */
static ps_status check_slots(const struct psi_file_var *v, const struct slots *of, struct psi_err *err)
{
    const struct psi_slot *slot = NULL;
    for (uint32_t k = 0; has_slots(of) && (slot = psi_optimizer_slot(&v->optimizer, k)) != NULL; k++) {
        if (!is_there(&of->items[k])) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "the file has slots of '%s', and lacks '%s/%s'", v->info.name, v->info.name,
                            slot->tensorflow);
        }
    }
    for (uint32_t k = 0; has_slots(of) && (slot = psi_optimizer_slot(&v->optimizer, k)) != NULL; k++) {
        if (slot->power != NULL && of->powers[k] < 0) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "the file has slots of '%s', and lacks %s", v->info.name, slot->power);
        }
    }
    return PS_OK;
}

static ps_status find_slots(struct importer *m, struct psi_err *err)
{
    size_t count = m->source.item_count;
    struct psi_map names, shared;
    ps_status st = PS_OK;
    m->of_vars = psi_calloc(count + 1, sizeof(*m->of_vars));
    if (m->of_vars == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the slots of %zu tensors", count);
    }
    psi_files_map_init(&names, false);
    psi_files_map_init(&shared, false);
    for (size_t i = 0; st == PS_OK && i < count; i++) {
        const char *name = m->vars[i].info.name;
        for (uint32_t k = 0; k < PSI_OPTIMIZER_SLOTS_MAX; k++) {
            m->of_vars[i].powers[k] = -1;
        }
        if (!m->vars[i].slot) {
            st = psi_map_put(&names, name, strlen(name), &m->vars[i], NULL, err);
        } else if (is_power(name)) {
            st = psi_map_put(&shared, name, strlen(name), &m->source.items[i], NULL, err);
        }
    }
    for (size_t i = 0; st == PS_OK && i < count; i++) {
        const char *of = m->vars[i].slot_of;
        if (!m->vars[i].slot || is_power(m->vars[i].info.name) || psi_file_source_left_out(&m->source, of, strlen(of))) {
            continue;
        }
        const struct psi_file_var *v = psi_map_find(&names, of, strlen(of));
        st = v == NULL ? psi_fail(err, PS_INVALID_ARGUMENT, "tensor '%s' is a slot of '%s', which the file does not have",
                                  m->source.items[i].name, of)
                       : note_slot(m, i, v, &m->of_vars[v - m->vars], err);
    }
    st = st == PS_OK ? share_powers(m, &shared, err) : st;
    psi_map_fini(&shared);
    psi_map_fini(&names);
    for (size_t i = 0; st == PS_OK && i < count; i++) {
        st = check_slots(&m->vars[i], &m->of_vars[i], err);
    }
    return st;
}

/* For each existing variable whose slots are in the file: check that its optimizer has the same slots. */
static ps_status compare_optimizers(const struct importer *m, struct psi_err *err)
{
    for (size_t i = 0; m->of_vars != NULL && i < m->source.item_count; i++) {
        const struct psi_file_var *v = &m->vars[i];
        if (!v->missing && has_slots(&m->of_vars[i]) && !psi_optimizer_fits(&v->info.optimizer, &v->optimizer)) {
            char own[PSI_OPTIMIZER_SLOTS_TEXT_MAX], has[PSI_OPTIMIZER_SLOTS_TEXT_MAX];
            return psi_fail(err, PS_INVALID_ARGUMENT, "the file has slots of %s for '%s'; the variable on /job:%s/task:%u has %s",
                            psi_optimizer_slots_text(&v->optimizer, own, sizeof(own)), v->info.name, v->info.job, v->info.task,
                            psi_optimizer_slots_text(&v->info.optimizer, has, sizeof(has)));
        }
    }
    return PS_OK;
}

/* Add the ASSIGN requests that set v from an item: one, or one for each part of v. slot: 0: value; else 1 + index of the slot. */
static ps_status list_gift(struct importer *m, const struct psi_file_item *item, struct psi_file_var *v, uint32_t slot,
                           double power, struct psi_err *err)
{
    struct psi_parts cut = v->cut;
    if (v->parts != NULL && slot > 0) {
        cut = psi_files_slot_cut(&v->cut, psi_optimizer_slot(&v->optimizer, slot - 1));
    }
    for (uint32_t i = 0; i < (v->parts != NULL ? cut.count : 1); i++) {
        struct gift *gifts = psi_grow(m->gifts, m->gift_count, &m->gift_capacity, sizeof(*gifts));
        if (gifts == NULL) {
            return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for the tensors");
        }
        m->gifts = gifts;
        struct gift *gift = &gifts[m->gift_count++];
        *gift = (struct gift){.item = item, .whole = v, .var = v, .cut = cut, .slot = slot, .power = power};
        gift->bytes = item->bytes + item->text_bytes;
        if (v->parts != NULL) {
            const ps_shape shape = psi_part_shape(&cut, i);
            gift->var = &v->parts[i];
            gift->bytes = (uint64_t)ps_shape_elements(&shape) * ps_dtype_bytes(item->dtype);
        }
        m->total_bytes += gift->bytes;
    }
    return PS_OK;
}

static ps_status list_gifts(struct importer *m, struct psi_err *err)
{
    size_t count = m->source.item_count;
    ps_status st = PS_OK;
    for (size_t i = 0; st == PS_OK && i < count; i++) {
        st = list_gift(m, &m->source.items[i], &m->vars[i], 0, 0, err);
    }
    m->value_count = m->gift_count;
    for (size_t i = 0; m->of_vars != NULL && i < count; i++) {
        for (uint32_t k = 0; st == PS_OK && k < PSI_OPTIMIZER_SLOTS_MAX; k++) {
            const struct slots *of = &m->of_vars[i];
            if (is_there(&of->items[k])) {
                bool power = psi_optimizer_slot(&m->vars[i].optimizer, k)->power != NULL;
                st = list_gift(m, &of->items[k], &m->vars[i], k + 1, power ? of->powers[k] : 0, err);
            }
        }
    }
    return st;
}

/* Before anything is created: check the definitions of all missing variables, and cut those in parts. */
static ps_status check_missing(struct importer *m, struct psi_err *err)
{
    ps_status st = PS_OK;
    for (size_t i = 0; st == PS_OK && i < m->source.item_count; i++) {
        if (m->vars[i].missing) {
            ps_variable_spec whole = m->vars[i].spec;
            whole.name = m->vars[i].info.name;
            whole.partitions = 0;
            st = psi_client_definition_check(&whole, err);
            st = st == PS_OK && m->vars[i].spec.partitions > 1 ? psi_files_cut(&m->vars[i], err) : st;
            if (st != PS_OK) {
                psi_err_prefix(err, "tensor '%s'", m->source.items[i].name);
            }
        }
    }
    return st;
}

/* Open the existing variables and check their dtype and shape once more; only then create the missing ones. */
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

static ps_status room(struct slot *slot, const struct gift *gift, struct psi_err *err)
{
    const uint64_t bytes = gift->bytes;
    if (slot->capacity >= bytes) {
        return PS_OK;
    }
    psi_free(slot->memory);
    slot->capacity = 0;
    slot->memory = psi_aligned_malloc(PSI_PARAM_ALIGN, (size_t)bytes);
    if (slot->memory == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "tensor '%s': out of memory for its %llu bytes", gift->item->name,
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
    ps_status st = room(slot, gift, err);
    if (st == PS_OK) {
        st = gift->whole->parts == NULL
                 ? psi_file_source_read(&m->source, item, slot->memory, err)
                 : psi_file_source_read_part(&m->source, item, &gift->cut, gift->var->info.part, slot->memory, err);
    }
    if (st != PS_OK) {
        return st;
    }
    slot->gift = gift;
    slot->bytes = gift->bytes;
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

static ps_status take(struct importer *m, struct psi_err *err)
{
    struct slot *slot = &m->slots[m->head];
    ps_status st = psi_api_call_wait(&slot->call, err);
    m->flying--;
    m->flying_bytes -= slot->bytes;
    m->head = m->flying == 0 ? 0 : (m->head + 1) % SLOTS; /* 0 when idle: large values, sent singly, reuse slot 0's memory */
    if (st == PS_OK) {
        const struct gift *gift = slot->gift;
        m->assigned++;
        if (gift->slot == 0 && (gift + 1 == m->gifts + m->value_count || gift[1].whole != gift->whole)) {
            m->done++; /* answers are taken in order: with the last part of a variable all of it is set */
            gift->whole->given = true;
        }
        m->done_bytes += slot->bytes;
        if (m->options.copied != NULL) {
            m->options.copied(m->options.ctx, slot->gift->item->name, m->done_bytes, m->total_bytes);
        }
    }
    return st;
}

static bool fits(const struct importer *m, size_t i)
{
    /* request value_count is the first that sets an optimizer's slot: it waits until all values are set */
    return m->flying == 0 ||
           (m->flying < SLOTS && i != m->value_count && m->flying_bytes + m->gifts[i].bytes <= PSI_FILES_FLIGHT_BYTES);
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
        PSI_IGNORE(take(m, NULL)); /* the first error is returned */
    }
    if (st != PS_OK) {
        psi_err_prefix(err, "%zu of %zu variables had been given their values", m->done, m->source.item_count);
        err->applied = m->assigned > 0 && err->applied == PS_NOTHING_APPLIED ? PS_MAYBE_PARTLY_APPLIED : err->applied;
    }
    return st;
}

static void finish_look(struct psi_api_call *call)
{
    struct psi_file_var *v = call->arg;
    v->lost = v->var->lost || !v->var->initialised;
}

/* After all requests: check that the imported values are still there. ABORTED: a ps task was lost meanwhile or has gone back to a
 * checkpoint, so that its variables are older than the others. */
static ps_status look_again(struct importer *m, struct psi_err *err)
{
    ps_status st = PS_OK;
    const char *first = NULL;
    for (size_t from = 0; st == PS_OK && from < m->value_count; from += SLOTS) {
        size_t n = m->value_count - from < SLOTS ? m->value_count - from : SLOTS, started = 0;
        for (; st == PS_OK && started < n; started += st == PS_OK) {
            struct psi_file_var *v = m->gifts[from + started].var;
            m->slots[started].call = (struct psi_api_call){
                .session = m->session, .finish = finish_look, .arg = v, .req = {.kind = PSI_REQ_STATUS, .var = v->var}};
            st = psi_api_call_start(&m->slots[started].call, err);
        }
        for (size_t i = 0; i < started; i++) {
            struct psi_err one = {0};
            ps_status ended = psi_api_call_wait(&m->slots[i].call, &one);
            const struct psi_file_var *v = m->gifts[from + i].var;
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

/* After an error: name in *err the variables that were created and have no value. They stay, because others may use them. */
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
        char shown[128]; /* short, so that the text has room for the reason too */
        psi_err_prefix(err, "%zu variable%s that it created, '%s'%s, ha%s no value", count, count > 1 ? "s" : "",
                       psi_utf8_shorten(first, shown, sizeof(shown)), count > 1 ? " the first" : "", count > 1 ? "ve" : "s");
    }
}

/* What is_meant() needs: the selection of names, and whether slots are imported. */
struct meant {
    const struct psi_choice *choice;
    bool slots;
};

/* True if the options select tensor `name`. If slots are imported, a slot goes with its variable. */
static bool is_meant(void *ctx, const char *name)
{
    const struct meant *meant = ctx;
    /* a copy, because psi_choice_takes() notes in it which patterns have fitted, and a slot's name must not count */
    struct psi_choice choice = *meant->choice;
    char owner[PS_NAME_BYTES_MAX + 1];
    size_t n = meant->slots ? owner_bytes(name) : 0;
    if (psi_choice_takes(&choice, name) || (meant->slots && is_power(name))) {
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
    *m = (struct importer){.session = s, .path = path, .source = {.fd = -1}};
    psi_files_map_init(&m->there_names, false);
    st = psi_files_options(s, path, options, &m->options, &err);
    st = st == PS_OK ? psi_choice_init(&m->choice, m->options.only, m->options.prefixes, &err) : st;
    st = st == PS_OK ? psi_api_may_change(s, PSI_REQ_ASSIGN, &err) : st; /* before variables are created */
    st = st == PS_OK ? psi_api_go_inside(s, &err) : st;
    if (st == PS_OK) {
        PSI_IGNORE(psi_api_settle(s, true)); /* runs the gets that were put off; an error stays in the session */
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
    psi_files_vars_free(m->vars, m->source.item_count);
    psi_file_source_close(&m->source);
    psi_map_fini(&m->there_names);
    psi_files_vars_free(m->there, m->there_count);
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
