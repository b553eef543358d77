/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A state file of any entries, whose CRCs are all right, in each format: loaded into a task (psd/store/load.h) and read by who is
 * no task (common/saved.h). Whatever the entries say, they are refused with a text, or the task's invariants hold.
 * Input: a byte for the format; then of each entry behind the head its kind, u8, its length in units of 8 bytes, u16, and its
 * bytes.
 */
#include "common/cluster.h"
#include "common/crc32c.h"
#include "common/mem.h"
#include "common/msg.h"
#include "common/saved.h"
#include "common/state_file.h"
#include "psd/state.h"
#include "psd/store/load.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { NUMBER = 12, UNIT = 8 };

struct state {
    uint8_t *block;
    size_t used;
    uint32_t count, file_sum;
};

static void put_entry(struct state *s, uint32_t kind, const void *p, size_t n)
{
    size_t padded = (n + UNIT - 1) / UNIT * UNIT;
    if (padded <= PSI_STATE_PAYLOAD_BYTES - s->used - 2 * PSI_STATE_ENTRY_HEAD_BYTES - 2 * UNIT || kind == PSI_STATE_END) {
        psi_state_entry_begin(s->block + s->used, padded, (enum psi_state_kind)kind);
        if (n > 0) {
            memcpy(s->block + s->used + PSI_STATE_ENTRY_HEAD_BYTES, p, n);
        }
        s->used += PSI_STATE_ENTRY_HEAD_BYTES + padded;
        s->count++;
    }
}

static void put_head(struct state *s, uint32_t format)
{
    struct psi_state_head head = {.magic = PSI_STATE_MAGIC, .version = format, .number = NUMBER, .cluster = "psd", .job = "ps"};
    struct psi_buf b;
    struct psi_code k = {.out = &b, .version = PSI_STATE_VERSION};
    psi_buf_init(&b, SIZE_MAX);
    psi_state_head(&k, &head);
    PSI_ASSERT(k.st == PS_OK);
    put_entry(s, PSI_STATE_HEAD, b.data, b.len);
    psi_buf_fini(&b);
}

static void put_end(struct state *s)
{
    uint8_t end[2 * UNIT] = {0};
    uint64_t count = s->count;
    uint32_t sum = psi_crc32c(0, s->block, s->used);
    memcpy(end, &count, sizeof(count));
    memcpy(end + sizeof(count), &sum, sizeof(sum));
    put_entry(s, PSI_STATE_END, end, sizeof(end));
    psi_state_seal(s->block, 0);
    s->file_sum = psi_crc32c(0, s->block, PSI_STATE_BLOCK_BYTES - sizeof(sum));
}

/* Only the state is there: what is wanted of another file is zeros. */
static void load(const struct state *s, struct psd_task *t)
{
    struct psd_load_options o = {.number = NUMBER, .state_bytes = PSI_STATE_BLOCK_BYTES, .state_sum = s->file_sum};
    struct psd_load *l = NULL;
    struct psd_load_read r;
    struct psi_err err = {.code = PS_OK};
    ps_status st = psd_load_new(t, &o, &l, &err);
    while (st == PS_OK && psd_load_want(l, &r)) {
        uint64_t there = r.file == 0 && r.offset < PSI_STATE_BLOCK_BYTES ? PSI_STATE_BLOCK_BYTES - r.offset : 0;
        uint64_t n = r.bytes < there ? r.bytes : there;
        if (n > 0) {
            memcpy(r.to, s->block + r.offset, n);
        }
        st = psd_load_got(l, n, &err);
    }
    PSI_ASSERT(st == PS_OK || (err.code == st && err.text[0] != '\0'));
    if (st == PS_OK) {
        psd_store_check_invariants(&t->store);
    }
    psd_load_free(l);
}

static ps_status read_block(void *ctx, const struct psi_saved_file *file, uint64_t offset, void *dst, size_t bytes,
                            size_t *out_bytes, struct psi_err *err)
{
    const struct state *s = ctx;
    uint64_t left = offset < PSI_STATE_BLOCK_BYTES ? PSI_STATE_BLOCK_BYTES - offset : 0;
    (void)file, (void)err;
    *out_bytes = bytes < left ? bytes : (size_t)left;
    if (*out_bytes > 0) {
        memcpy(dst, s->block + offset, *out_bytes);
    }
    return PS_OK;
}

static void read_by_others(struct state *s)
{
    const struct psi_saved_io io = {.read = read_block, .ctx = s};
    const struct psi_saved_file file = {.job = "ps", .kind = PS_FILE_STATE, .bytes = PSI_STATE_BLOCK_BYTES, .sum = s->file_sum};
    struct psi_saved saved = {.what = {.number = NUMBER}};
    struct psi_saved_state state;
    struct psi_err err = {.code = PS_OK};
    PSI_IGNORE(PSI_BYTES_SET(saved.what.cluster_name, "psd")); /* fits */
    ps_status st = psi_saved_state_read(&saved, &io, &file, &state, &err);
    PSI_ASSERT(st == PS_OK || (err.code == st && err.text[0] != '\0'));
    psi_saved_state_fini(&state);
}

static struct psd_task *new_task(struct psi_cluster *cluster)
{
    static const uint8_t seed[32] = {1};
    struct psd_task_config config;
    struct psd_task *t = NULL;
    psi_cluster_init(cluster);
    psd_task_config_init(&config);
    PSI_ASSERT(psi_cluster_parse(cluster, "ps=10.0.0.1:1;worker=10.0.0.3:3", NULL) == PS_OK);
    config.cluster = cluster;
    config.memory_budget_bytes = 4 << 20;
    memcpy(config.job, "ps", 3);
    PSI_ASSERT(psd_task_new(&config, seed, 1000, &t, NULL) == PS_OK);
    return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct state s = {.block = psi_calloc(1, PSI_STATE_BLOCK_BYTES)};
    struct psi_cluster cluster;
    PSI_ASSERT(s.block != NULL);
    put_head(&s, bytes > 0 ? 1 + data[0] % PSI_STATE_VERSION : PSI_STATE_VERSION);
    for (size_t at = 1; at + 3 <= bytes;) {
        size_t n = ((size_t)data[at + 1] | (size_t)data[at + 2] << 8) * UNIT;
        uint32_t kind = data[at];
        at += 3;
        n = n < bytes - at ? n : bytes - at;
        put_entry(&s, kind, data + at, n);
        at += n;
    }
    put_end(&s);
    struct psd_task *t = new_task(&cluster);
    load(&s, t);
    psd_task_free(t);
    psi_cluster_fini(&cluster);
    read_by_others(&s);
    psi_free(s.block);
    return 0;
}
