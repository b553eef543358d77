/* SPDX-License-Identifier: Apache-2.0 */
/* What a cut writes: entries into blocks of the state file, values and headers into files of values (docs/DURABILITY.md has the
 * bytes). Happy path: bytes that follow the newest write are copied to its end, other bytes into a new write. Failure: without
 * memory the cut fails, and from then on nothing is copied. */
#include "cut_internal.h"

#include "common/crc32c.h"
#include "common/mem.h"
#include "common/safetensors.h"
#include "psd/state.h"

#include <stdio.h>
#include <string.h>

#define ENTRY_KEPT_BYTES ((size_t)1 << 20) /* the buffer is reused for the next entry, unless it has grown beyond this */
#define TENSORS_MAX ((uint64_t)90000)      /* most tensors of a file: with at most 500 bytes of text each, they fit in a header */

void psd_cut_fail(struct psd_cut *cut, ps_status st, const char *why)
{
    if (cut->st == PS_OK) {
        cut->st = psi_fail(&cut->err, st, "checkpoint %llu of %s: %s", (unsigned long long)cut->o.number, cut->task->name, why);
    }
}

static struct psd_cut_write *write_new(struct psd_cut *cut, uint32_t file, enum psd_cut_place place, uint64_t at, size_t capacity)
{
    struct psd_cut_write *w = psd_cut_write_new(cut, file, (uint32_t)capacity);
    if (w == NULL) {
        psd_cut_fail(cut, PS_RESOURCE_EXHAUSTED, "no memory for copies");
        return NULL;
    }
    w->place = place;
    w->at = at;
    psd_cut_hold(cut, capacity);
    return w;
}

/* Make room for n more bytes in w, and return w. NULL: no memory, and w is unchanged. */
static struct psd_cut_write *grown(struct psd_cut *cut, struct psd_cut_write *w, size_t n)
{
    size_t want = w->bytes + n;
    if (want <= w->capacity) {
        return w;
    }
    size_t capacity = 2 * want < PSD_CUT_BLOCK_BYTES ? 2 * want : PSD_CUT_BLOCK_BYTES;
    size_t before = w->capacity;
    if (!psd_cut_write_grow(cut, w, (uint32_t)capacity)) {
        return NULL;
    }
    psd_cut_hold(cut, capacity - before);
    return w;
}

/* The newest write, grown by n bytes, if the bytes at `at` follow it in the file. NULL: they do not follow it, or no memory. */
static struct psd_cut_write *followed(struct psd_cut *cut, uint32_t file, enum psd_cut_place place, uint64_t at, uint64_t n)
{
    struct psi_list *link = psi_list_last(&cut->writes);
    struct psd_cut_write *w = link == NULL ? NULL : PSI_CONTAINER_OF(link, struct psd_cut_write, link);
    bool follows = w != NULL && w->file == file && w->place == place && w->at + w->bytes == at && file != 0 &&
                   w->bytes + n <= PSD_CUT_BLOCK_BYTES;
    return follows ? grown(cut, w, n) : NULL;
}

void psd_cut_put(struct psd_cut *cut, uint32_t file, enum psd_cut_place place, uint64_t at, const void *p, uint64_t n)
{
    if (cut->st != PS_OK || n == 0) {
        return;
    }
    struct psd_cut_write *w = followed(cut, file, place, at, n);
    if (w == NULL) {
        w = write_new(cut, file, place, at, n);
        if (w == NULL) {
            return;
        }
        psi_list_push_back(&cut->writes, &w->link);
    }
    memcpy(w->data + w->bytes, p, n);
    w->bytes += (uint32_t)n;
}

void psd_cut_writes_free(struct psd_cut *cut, struct psi_list *head)
{
    struct psi_list *link = NULL;
    while ((link = psi_list_pop_front(head)) != NULL) {
        struct psd_cut_write *w = PSI_CONTAINER_OF(link, struct psd_cut_write, link);
        psd_cut_let_go(cut, w->capacity);
        psd_cut_write_free(cut, w);
    }
    if (cut->block != NULL) {
        psd_cut_let_go(cut, cut->block->capacity);
        psd_cut_write_free(cut, cut->block);
        cut->block = NULL;
    }
}

static void seal(struct psd_cut *cut)
{
    struct psd_cut_write *w = cut->block;
    psi_state_seal(w->data, (uint32_t)cut->block_count);
    w->bytes = (uint32_t)PSI_STATE_BLOCK_BYTES;
    cut->state_sum = psi_crc32c(cut->state_sum, w->data, PSI_STATE_BLOCK_BYTES - sizeof(uint32_t));
    cut->block_count++;
    cut->block = NULL;
    cut->state_bytes += w->capacity;
    psi_list_push_back(&cut->sealed, &w->link);
}

static void stream(struct psd_cut *cut, const uint8_t *p, size_t n)
{
    while (n > 0 && cut->st == PS_OK) {
        if (cut->block == NULL) {
            cut->block = write_new(cut, 0, PSD_CUT_IN_FILE, cut->block_count * PSI_STATE_BLOCK_BYTES, PSI_STATE_BLOCK_BYTES);
            continue;
        }
        size_t room = PSI_STATE_PAYLOAD_BYTES - cut->block->bytes;
        size_t take = n < room ? n : room;
        memcpy(cut->block->data + cut->block->bytes, p, take);
        cut->block->bytes += (uint32_t)take;
        p += take;
        n -= take;
        if (cut->block->bytes == PSI_STATE_PAYLOAD_BYTES) {
            seal(cut);
        }
    }
}

void psd_cut_state_end(struct psd_cut *cut)
{
    if (cut->st == PS_OK && cut->block != NULL) {
        memset(cut->block->data + cut->block->bytes, 0, PSI_STATE_PAYLOAD_BYTES - cut->block->bytes);
        seal(cut);
    }
}

void psd_cut_entry_begin(struct psd_cut *cut, struct psi_code *k)
{
    psi_buf_clear(&cut->entry);
    *k = (struct psi_code){.out = &cut->entry, .version = PSI_STATE_VERSION, .what = "state", .st = cut->st, .err = &cut->err};
    if (k->st == PS_OK) { /* leave room for the entry's head: psd_cut_entry_end() writes it, with the entry's length */
        k->st = psi_buf_reserve(&cut->entry, PSI_STATE_ENTRY_HEAD_BYTES, k->err);
        cut->entry.len = k->st == PS_OK ? PSI_STATE_ENTRY_HEAD_BYTES : 0;
    }
}

void psd_cut_entry_end(struct psd_cut *cut, struct psi_code *k, enum psi_state_kind kind)
{
    psi_code_over(k);
    if (k->st != PS_OK) {
        psd_cut_fail(cut, PS_RESOURCE_EXHAUSTED, "no memory for an entry");
        return;
    }
    psi_state_entry_begin(cut->entry.data, cut->entry.len - PSI_STATE_ENTRY_HEAD_BYTES, kind);
    if (kind != PSI_STATE_END) {
        cut->entry_count++;
        cut->entry_sum = psi_crc32c(cut->entry_sum, cut->entry.data, cut->entry.len);
    }
    stream(cut, cut->entry.data, cut->entry.len);
    cut->allowance -= cut->entry.len < cut->allowance ? cut->entry.len : cut->allowance;
    if (cut->entry.capacity > ENTRY_KEPT_BYTES) {
        psi_buf_fini(&cut->entry);
        psi_buf_init(&cut->entry, SIZE_MAX);
    }
}

uint32_t psd_cut_model_for(struct psd_cut *cut, struct psd_container *container, uint64_t tensors)
{
    if (container->cut_file != 0 && cut->models[container->cut_file - 1].tensors + tensors <= TENSORS_MAX) {
        cut->models[container->cut_file - 1].tensors += tensors;
        return container->cut_file;
    }
    if (cut->model_count > PSD_DISK_INDEX_MAX) {
        psd_cut_fail(cut, PS_RESOURCE_EXHAUSTED, "more containers with values than a checkpoint has files");
        return 0;
    }
    struct psd_cut_model *models = psi_grow(cut->models, cut->model_count, &cut->model_capacity, sizeof(*models));
    if (models == NULL) {
        psd_cut_fail(cut, PS_RESOURCE_EXHAUSTED, "no memory for its files");
        return 0;
    }
    cut->models = models;
    struct psd_cut_model *m = &models[cut->model_count++];
    *m = (struct psd_cut_model){.container = container->name, .tensors = tensors};
    psi_buf_init(&m->header, PSI_SAFETENSORS_HEADER_MAX);
    if (psi_buf_printf(&m->header, NULL,
                       "%8s{\"__metadata__\":{\"format\":\"psd checkpoint\",\"psd_cluster\":\"%s\",\"psd_container\":\"%s\"}", "",
                       cut->task->cluster.name, container->name) != PS_OK) {
        psd_cut_fail(cut, PS_RESOURCE_EXHAUSTED, "no memory for a header");
    }
    container->cut_file = (uint32_t)cut->model_count;
    return container->cut_file;
}

uint64_t psd_cut_place_at(const struct psd_cut_model *m, enum psd_cut_place place)
{
    uint64_t at = 0;
    for (int i = 0; i < (int)place; i++) {
        at += m->place_bytes[i];
    }
    return at;
}

static void add_tensor(struct psd_cut *cut, struct psd_cut_model *m, const char *name, const char *suffix, const char *type,
                       const ps_shape *shape, uint64_t begin, uint64_t bytes)
{
    ps_status st = psi_buf_printf(&m->header, NULL, ",\"%s%s\":{\"dtype\":\"%s\",\"shape\":[", name, suffix, type);
    for (uint32_t i = 0; st == PS_OK && i < shape->rank; i++) {
        st = psi_buf_printf(&m->header, NULL, "%s%lld", i > 0 ? "," : "", (long long)shape->dims[i]);
    }
    if (st == PS_OK) {
        st = psi_buf_printf(&m->header, NULL, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin,
                            (unsigned long long)(begin + bytes));
    }
    if (st != PS_OK) {
        psd_cut_fail(cut, PS_RESOURCE_EXHAUSTED, "no memory for a header");
    }
}

void psd_cut_header_add(struct psd_cut *cut, const struct psd_kept *k)
{
    struct psd_cut_model *m = &cut->models[k->file - 1];
    const struct psd_variable *v = k->variable;
    uint64_t begin = psd_cut_place_at(m, k->place) + k->at;
    if (k->split != 0) {
        ps_shape offsets = {.rank = 1, .dims = {(int64_t)(k->split / 8)}};
        ps_shape bytes = {.rank = 1, .dims = {(int64_t)(k->bytes - k->split)}};
        add_tensor(cut, m, v->name, ":offsets", "I64", &offsets, begin, k->split);
        add_tensor(cut, m, v->name, ":bytes", "U8", &bytes, psd_cut_place_at(m, PSD_CUT_IN_1) + k->split_at, k->bytes - k->split);
        return;
    }
    char suffix[32] = "";
    ps_shape shape = psd_variable_shape(v);
    if (k->which > 0) {
        const struct psi_slot *slot = psi_optimizer_slot(&v->optimizer, k->which - 1);
        PSI_IGNORE(snprintf(suffix, sizeof(suffix), ":%s", slot->name)); /* cannot be cut: slots have short names */
        shape = psi_slot_shape(slot, &shape);
    }
    add_tensor(cut, m, v->name, suffix, psi_tensor_type_of(v->dtype)->name, &shape, begin, k->bytes);
}

void psd_cut_headers_end(struct psd_cut *cut)
{
    for (size_t i = 0; i < cut->model_count && cut->st == PS_OK; i++) {
        struct psd_cut_model *m = &cut->models[i];
        ps_status st = psi_buf_append_text(&m->header, "}", NULL);
        while (st == PS_OK && m->header.len % 8 != 0) {
            st = psi_buf_append_text(&m->header, " ", NULL);
        }
        if (st != PS_OK) {
            psd_cut_fail(cut, PS_RESOURCE_EXHAUSTED, "no memory for a header");
            return;
        }
        uint64_t length = m->header.len - PSI_SAFETENSORS_PREFIX;
        memcpy(m->header.data, &length, sizeof(length)); /* little-endian */
        m->data_start = m->header.len;
    }
}

void psd_cut_put_staged(struct psd_kept *k, uint64_t at, const uint8_t *p, uint64_t n)
{
    struct psi_state_staged x = {.number = k->number, .offset = at, .bytes = n, .data = p};
    struct psi_code code;
    memcpy(x.session, k->session, sizeof(x.session));
    psd_cut_entry_begin(k->cut, &code);
    psi_state_staged(&code, &x);
    psd_cut_entry_end(k->cut, &code, PSI_STATE_STAGED);
}

/* Copy a piece of a value or slot to its place in the file. A value of strings (k->split != 0) fills two tensors: the table of
 * offsets, of k->split bytes, and the texts. */
void psd_cut_put_values(struct psd_kept *k, uint64_t at, const uint8_t *p, uint64_t n)
{
    uint64_t first = k->split == 0 ? n : at >= k->split ? 0 : k->split - at < n ? k->split - at : n;
    psd_cut_put(k->cut, k->file, k->place, k->at + at, p, first);
    psd_cut_put(k->cut, k->file, PSD_CUT_IN_1, k->split_at + at + first - k->split, p + first, n - first);
}
