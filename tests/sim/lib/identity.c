/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identities in the simulated world: each program has a key, each task has one, and a thief has one that knows all session ids.
 *
 * Beside each fault the thief, whose rights change with each new table, says HELLO to a task with the id of a session that the
 * task knows, or with one of its own. Tables are replaced while everything goes on; each gives programs and tasks what they had.
 *
 * What is checked: with the id of another identity's session the thief is refused and told nothing, and nothing of the session
 * has changed: its connection, its record, what is in progress. With a session of its own it may not end the task. Each
 * connection of a session has the identity that made it. That programs go on as if nobody was there is what all other oracles
 * check.
 */
#include "sim.h"

#include "psd/base/base.h"

#include <stdlib.h>
#include <string.h>

static const char *const tables[] = {
    "allow role:ps @cluster member; allow role:worker *,@cluster all",
    "allow key:task* @cluster member; allow key:p* *,@cluster all; allow role:worker @cluster member",
};
static const char *const thieves[] = {"", "; allow key:thief localhost,@cluster look", "; allow key:thief *,@cluster all"};
enum { TABLES = sizeof(tables) / sizeof(tables[0]), THIEVES = sizeof(thieves) / sizeof(thieves[0]), NONE = 0, LOOK = 1 };

/* The end of a connection of the thief. Not one of the world's: its link is carried out here. */
static struct sim_end thief;

void sim_identify(void *task, const struct psi_link *link, struct psi_identity *out)
{
    const struct sim *s = ((const struct sim_task *)task)->sim;
    const struct sim_end *e = link->shell;
    *out = (struct psi_identity){.kind = PSI_IDENTITY_KEY};
    if (e == &thief) {
        (void)snprintf(out->name, sizeof(out->name), "thief");
        (void)snprintf(out->role, sizeof(out->role), "monitor");
        return;
    }
    const struct sim_end *dialled = &e->conn->end[0];
    const bool is_ps = dialled->is_task && s->task[dialled->node].same_job;
    (void)snprintf(out->name, sizeof(out->name), "%s%u", dialled->is_task ? "task" : "p", dialled->node);
    (void)snprintf(out->role, sizeof(out->role), "%s", is_ps ? "ps" : "worker");
}

void sim_identity_begin(struct sim *s, struct sim_task *t)
{
    char text[256];
    struct psi_rights *rights = NULL;
    struct psi_err err;
    if (!s->identities) {
        return;
    }
    (void)snprintf(text, sizeof(text), "%s%s", tables[s->table % TABLES], thieves[s->table / TABLES % THIEVES]);
    if (psi_rights_parse(text, strlen(text), "table", &rights, &err) != PS_OK) {
        sim_fail(s, "a table of rights: %s", err.text);
    }
    psd_task_rights_set(t->core, rights);
}

/* What the thief sends: one frame. */
static size_t frame(uint8_t op, uint64_t id, const pb_msgdesc_t *d, const void *m, uint8_t *out, size_t n)
{
    struct ps_frame_header h = {.magic = PS_FRAME_MAGIC, .version = PS_FRAME_VERSION, .op = op, .id = id};
    size_t meta_bytes = 0;
    if (d != NULL && psi_msg_encode(d, m, out + sizeof(h), n - sizeof(h), &meta_bytes, NULL) != PS_OK) {
        abort(); /* fits */
    }
    h.meta_bytes = (uint16_t)psi_pad8((uint32_t)meta_bytes); /* the rest is 0 */
    memcpy(out, &h, sizeof(h));
    psi_frame_seal(out);
    return sizeof(h) + h.meta_bytes;
}

/* The last reply on its way out: its header. False: there is none. */
static bool take(struct psi_link *link, struct ps_frame_header *out)
{
    const struct psi_iov *iov = NULL;
    bool any = false;
    for (size_t count = psi_outq_compose(&link->out, PS_SEND_TRY_BYTES, &iov); count > 0;
         count = psi_outq_compose(&link->out, PS_SEND_TRY_BYTES, &iov)) {
        size_t bytes = 0;
        const void *hold = NULL;
        if (iov[0].bytes >= sizeof(*out)) {
            memcpy(out, iov[0].base, sizeof(*out));
            any = true;
        }
        for (size_t i = 0; i < count; i++) {
            bytes += iov[i].bytes;
        }
        PSI_IGNORE(psi_outq_accepted(&link->out, bytes, &hold, &bytes)); /* all was taken */
    }
    return any;
}

/* What must not change of a session that the thief asks for. */
struct seen {
    const struct psd_record *record;
    const void *conn;
    uint64_t name, connection, highest;
    uint32_t progress_count;
    bool closing;
};

static struct seen look(const struct psd_task *t, const uint8_t session[16])
{
    const struct psd_record *r = psi_map_find(&t->records, session, 16);
    if (r == NULL) {
        return (struct seen){.record = NULL};
    }
    return (struct seen){.record = r,
                         .conn = r->conn,
                         .name = r->name,
                         .connection = r->connection,
                         .highest = r->highest,
                         .progress_count = r->progress_count,
                         .closing = r->conn != NULL && ((const struct psd_conn *)r->conn)->closing};
}

static bool is_same(const struct seen *a, const struct seen *b)
{
    return a->record == b->record && a->conn == b->conn && a->name == b->name && a->connection == b->connection &&
           a->highest == b->highest && a->progress_count == b->progress_count && a->closing == b->closing;
}

/* A session that this task knows; NULL: none. */
static const struct psd_record *any_record(struct sim *s, const struct psd_task *t)
{
    const struct psd_record *found = NULL;
    uint64_t cursor = 0, seen = 0;
    void *value = NULL;
    while (psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        found = sim_below(s, ++seen) == 0 ? value : found;
    }
    return found;
}

static ps_status say(struct sim_task *t, struct psi_link *link, uint8_t op, const pb_msgdesc_t *d, const void *m,
                     struct ps_frame_header *reply)
{
    _Alignas(64) uint8_t bytes[PS_FRAME_HEADER_BYTES + PS_META_BYTES_MAX];
    memset(bytes, 0, sizeof(bytes));
    psd_task_bytes(t->core, link, bytes, frame(op, op == PS_OP_HELLO ? 0 : 7, d, m, bytes, sizeof(bytes)));
    return take(link, reply) ? (ps_status)reply->offset : PS_INTERNAL;
}

static void steal(struct sim *s, struct sim_task *t, struct psi_link *link, const struct psd_record *of)
{
    ps_v1_Hello m = ps_v1_Hello_init_zero;
    struct ps_frame_header reply = {.op = 0};
    const struct seen before = look(t->core, of->session);
    m.protocol = PS_FRAME_VERSION;
    m.session.size = sizeof(of->session);
    memcpy(m.session.bytes, of->session, sizeof(of->session));
    m.connection = of->connection + sim_below(s, 3);
    m.next_number = of->highest + 1 + sim_below(s, 2); /* all that is in progress would end */
    m.record = sim_one_in(s, 2) ? of->name : 0;
    ps_status st = say(t, link, PS_OP_HELLO, &ps_v1_Hello_msg, &m, &reply);
    const struct seen after = look(t->core, m.session.bytes);
    if (st != PS_PERMISSION_DENIED || reply.op != PS_OP_HELLO || reply.body_bytes != 0 || !link->closing) {
        sim_fail(s, "STOLEN: HELLO of another identity's session gave %s with %u bytes", ps_status_name(st), reply.body_bytes);
    }
    if (!is_same(&before, &after)) {
        sim_fail(s, "STOLEN: a refused HELLO has changed a session at %s:%u", t->job, t->index);
    }
    s->count_stolen++;
}

/* A session of its own, which may look, or nothing. */
static void come(struct sim *s, struct sim_task *t, struct psi_link *link)
{
    ps_v1_Hello m = ps_v1_Hello_init_zero;
    struct ps_frame_header reply = {.op = 0};
    const uint32_t may = s->table / TABLES % THIEVES;
    m.protocol = PS_FRAME_VERSION;
    m.session.size = 16;
    memset(m.session.bytes, 0xee, 16);
    m.connection = ++s->thief_connection;
    m.next_number = 1;
    ps_status st = say(t, link, PS_OP_HELLO, &ps_v1_Hello_msg, &m, &reply);
    if (st != PS_OK) { /* it may be draining, or full */
        if (may == NONE && st != PS_PERMISSION_DENIED) {
            sim_fail(s, "an identity without a row got %s for its HELLO", ps_status_name(st));
        }
        return;
    }
    if (may == NONE) {
        sim_fail(s, "an identity without a row has a session at %s:%u", t->job, t->index);
    }
    if (may == LOOK) { /* a SHUTDOWN that is carried out is a failure: sim_task_settle() */
        st = say(t, link, PS_OP_SHUTDOWN, NULL, NULL, &reply);
        if (st != PS_PERMISSION_DENIED) {
            sim_fail(s, "an identity that may look got %s for SHUTDOWN", ps_status_name(st));
        }
        s->count_denied++;
    }
    PSI_IGNORE(say(t, link, PS_OP_GOODBYE, NULL, NULL, &reply)); /* its record goes */
}

static void visit(struct sim *s, struct sim_task *t)
{
    const struct psd_record *of = sim_one_in(s, 4) ? NULL : any_record(s, t->core);
    struct psi_link *link = psd_task_accepted(t->core, &thief, "thief");
    if (link == NULL) {
        return; /* it drains */
    }
    if (of != NULL && strcmp(of->who, "key:thief") != 0) {
        steal(s, t, link, of);
    } else if (!psd_buffers_exhausted(t->core)) { /* else it would not be read after its HELLO, and its session would stay */
        come(s, t, link);
    }
    if (!link->closing) {
        psd_task_closed(t->core, link);
    }
    sim_task_settle(s, t);
    psi_link_free(link);
}

/* A session's connection has the identity that made the session. */
static void check_owners(struct sim *s, const struct sim_task *t)
{
    char who[PSI_IDENTITY_TEXT_BYTES];
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->core->records, &cursor, NULL, NULL, &value)) {
        const struct psd_record *r = value;
        const struct psd_conn *c = r->conn;
        if (c != NULL && strcmp(psi_identity_text(&c->who, who, sizeof(who)), r->who) != 0) {
            sim_fail(s, "OWNER: a session of %s has a connection of %s at %s:%u", r->who, who, t->job, t->index);
        }
    }
}

void sim_identity_step(struct sim *s)
{
    if (!s->identities) {
        return;
    }
    const bool reload = sim_one_in(s, 3);
    s->table = reload ? (uint32_t)sim_below(s, TABLES * THIEVES) : s->table;
    s->count_tables += reload;
    for (uint32_t i = 0; i < s->task_count; i++) {
        struct sim_task *t = &s->task[i];
        if (t->core == NULL) {
            continue;
        }
        if (reload) {
            sim_identity_begin(s, t);
            sim_task_settle(s, t);
        }
        check_owners(s, t);
        if (sim_task_running(s, t)) {
            visit(s, t);
        }
    }
}
