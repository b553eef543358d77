/* SPDX-License-Identifier: Apache-2.0 */
/* CHECKPOINT_READ: a client that verifies or exports a checkpoint, or another task that loads it, reads a range of a file.
 *
 * Happy path: the request names a file by numbers. The range is read into memory of its own (PSD_DISK_READ), and sent if the
 * connection is still open then. Failure: FAILED_PRECONDITION (this task has no usable disk), NOT_FOUND (no such file, or it was
 * removed), the disk's error, or RESOURCE_EXHAUSTED (READS_MAX reads go on, or CONN_READS_MAX of this connection). */
#include "shards.h"

#include "psd/rpc/handlers.h"

#include "common/mem.h"

enum { READS_MAX = 16, CONN_READS_MAX = 8, RETRY_MS = 20 };

struct psd_shards_read {
    struct psi_list link; /* psd_shards.reads */
    uint64_t conn;        /* number of the connection (psi_link.name), which may be closed by now */
    uint64_t id;
    uint8_t *memory;
};

static struct psd_shards_read *at_read(struct psi_list *it)
{
    return PSI_CONTAINER_OF(it, struct psd_shards_read, link);
}

static void read_free(struct psd_shards_read *read)
{
    psi_free(read->memory);
    psi_free(read);
}

static struct psd_conn *conn_of(const struct psd_task *t, uint64_t name)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->conns) {
        struct psd_conn *c = PSI_CONTAINER_OF(it, struct psd_conn, all);
        if (c->link->name == name && !c->closing) {
            return c;
        }
    }
    return NULL;
}

static void range_read(struct psd_task *t, void *ctx, ps_status st, size_t bytes, const char *error)
{
    struct psd_shards_read *read = ctx;
    struct psd_conn *c = conn_of(t, read->conn);
    struct psi_err err;
    uint64_t count = bytes;
    psi_list_remove(&read->link);
    if (c != NULL && st == PS_OK) {
        psd_reply_body(t, c, PS_OP_CHECKPOINT_READ, read->id, &count, sizeof(count), read->memory, (uint32_t)bytes);
    } else if (c != NULL) {
        PSI_IGNORE(psi_fail(&err, st, "%s: %s", t->name, error)); /* sent below */
        psd_reply(t, c, PS_OP_CHECKPOINT_READ, 0, read->id, 0, &err, 0, NULL, NULL);
    }
    read_free(read);
}

static ps_status file_of(const struct psd_task *t, const ps_v1_CheckpointRead *m, struct psd_disk_file *out, struct psi_err *err)
{
    static const enum psd_disk_file_kind kinds[] = {
        [PS_FILE_VALUES] = PSD_DISK_MODEL, [PS_FILE_STATE] = PSD_DISK_STATE, [PS_FILE_MANIFEST] = PSD_DISK_MANIFEST};
    bool known = m->kind < sizeof(kinds) / sizeof(kinds[0]) && kinds[m->kind] != PSD_DISK_NO_FILE;
    bool good = known && m->number != 0 && m->index <= (m->kind == PS_FILE_VALUES ? PSD_DISK_INDEX_MAX : 0);
    if (!good || m->bytes == 0 || m->bytes > PS_CONTROL_BODY_MAX || m->offset > INT64_MAX - PS_CONTROL_BODY_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "CHECKPOINT_READ: bytes [%llu, +%u) of file %u of kind %u of checkpoint %llu",
                        (unsigned long long)m->offset, m->bytes, m->index, m->kind, (unsigned long long)m->number);
    }
    uint32_t writer = m->writer == t->config.task + 1 ? 0 : m->writer;
    *out = (struct psd_disk_file){.number = m->number, .kind = kinds[m->kind], .index = m->index, .writer = writer};
    return writer == 0 || psd_others_has(t, m->number, m->writer)
               ? PS_OK
               : psi_fail(err, PS_NOT_FOUND, "%s has no part of checkpoint %llu of task %u beside its own", t->name,
                          (unsigned long long)m->number, writer - 1);
}

/* Check that connection c may begin one more read. RESOURCE_EXHAUSTED: too many reads; FAILED_PRECONDITION: no usable disk. */
static ps_status check_room(const struct psd_task *t, const struct psd_conn *c, struct psi_err *err)
{
    uint32_t all = 0, own = 0;
    struct psi_list *it = NULL;
    if (!psd_shards_is_able(t)) {
        return psd_shards_fail(t, err);
    }
    PSI_LIST_FOREACH(it, &t->shards->reads) {
        all++;
        own += at_read(it)->conn == c->link->name;
    }
    return all < READS_MAX && own < CONN_READS_MAX ? PS_OK
                                                   : psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED,
                                                                 "%s reads %u other ranges of checkpoints", t->name, all);
}

ps_status psd_shards_fail(const struct psd_task *t, struct psi_err *err)
{
    return psi_fail(err, PS_FAILED_PRECONDITION, "%s has no directory for checkpoints (checkpoint_dir), or cannot read it",
                    t->name);
}

static ps_status begin_read(struct psd_task *t, const struct psd_conn *c, const struct psd_request *r, struct psi_err *err)
{
    ps_v1_CheckpointRead m;
    struct psd_disk_op op = {.kind = PSD_DISK_READ};
    ps_status st = psi_msg_decode(&ps_v1_CheckpointRead_msg, &m, r->meta, r->header.meta_bytes, err);
    st = st == PS_OK ? check_room(t, c, err) : st;
    st = st == PS_OK ? file_of(t, &m, &op.file, err) : st;
    if (st != PS_OK) {
        return st;
    }
    struct psd_shards_read *read = psi_calloc(1, sizeof(*read));
    if (read != NULL) {
        read->memory = psi_malloc(m.bytes);
    }
    if (read == NULL || read->memory == NULL) {
        psi_free(read);
        return psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED, "%s: no memory to read %u bytes", t->name, m.bytes);
    }
    read->conn = c->link->name;
    read->id = r->header.id;
    op.offset = m.offset;
    op.out = read->memory;
    op.bytes = m.bytes;
    st = psd_disk_ask(t, &op, range_read, read, err);
    if (st != PS_OK) {
        read_free(read);
        return st;
    }
    psi_list_push_back(&t->shards->reads, &read->link);
    return PS_OK;
}

void psd_rpc_checkpoint_read(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psi_err err;
    ps_status st = begin_read(t, c, r, &err);
    if (st != PS_OK) {
        psd_reply(t, c, PS_OP_CHECKPOINT_READ, 0, r->header.id, 0, &err, st == PS_RESOURCE_EXHAUSTED ? RETRY_MS : 0, NULL, NULL);
    }
}

void psd_shards_reads_free(struct psd_shards *s)
{
    struct psi_list *it = NULL;
    while ((it = psi_list_pop_front(&s->reads)) != NULL) {
        read_free(at_read(it));
    }
}
