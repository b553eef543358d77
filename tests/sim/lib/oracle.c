/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values against the ledger.
 *
 * Push number k of a variable adds 4^k to every element, so a value is a row of base-4 digits: digit k of element i says how
 * often push k was applied there (0 lost, 1 right, 2 or 3 doubled), and a torn push is a prefix of ones. Counters are read the
 * same way. A register holds the tag of one ASSIGN in all its elements. Pushes to a variable without elements are told apart by
 * its version alone. The ledger says what each call was told:
 *   - OK: exactly once, everywhere, in the variable's life that the call was started for;
 *   - nothing applied: nowhere;
 *   - otherwise: at most once, a prefix that ends at a segment.
 */
#include "sim.h"

#include "psd/state.h"

#include "common/rows.h"

#include <string.h>

/* The elements [from, end) that are all equal. */
struct run {
    uint64_t from, end, value;
};
static bool next_run(struct sim *s, const struct sim_var *v, const void *value, struct run *r)
{
    size_t width = sim_width(v);
    const uint8_t *bytes = value;
    if (r->end >= v->elements) {
        return false;
    }
    r->from = r->end;
    r->value = sim_element(s, v, value, r->from);
    r->end++;
    while (r->end < v->elements) { /* whole blocks while each element equals the one before it, then one by one */
        uint64_t left = v->elements - r->end;
        uint64_t block = left < 2048 ? left : 2048;
        if (memcmp(bytes + (r->end - 1) * width, bytes + r->end * width, block * width) == 0) {
            r->end += block;
        } else if (memcmp(bytes + (r->end - 1) * width, bytes + r->end * width, width) == 0) {
            r->end++;
        } else {
            break;
        }
    }
    return true;
}

static bool of_rows(const struct sim_op *op)
{
    return (op->kind == PSI_REQ_PUSH_ROWS && op->var->kind != SIM_VAR_ROUND) || op->kind == PSI_REQ_SCATTER ||
           op->kind == PSI_REQ_PUSH_PULL_ROWS;
}

static uint32_t digit_of(uint64_t value, uint32_t k)
{
    return (uint32_t)(value >> (2 * k)) & 3u;
}

/* A call of a variable that was lost before its session had used it goes to whatever is got next: the first place counts. */
static void adopt(struct sim_op *op, uint64_t creation)
{
    if (op->creation == 0) {
        op->creation = creation;
    }
}

/* May what op has done be there? A variable out of a checkpoint has what was done to it in an earlier life of its task. */
static bool landed(struct sim *s, struct sim_op *op, uint64_t creation)
{
    const struct sim_birth *b = sim_birth_find(s, creation);
    if (b != NULL && b->restored && op->creation != creation && op->started_event < b->born_event) {
        return true;
    }
    adopt(op, creation);
    return op->creation == creation;
}

/* ---- pushes ---- */

/* Digits of one run that no history can explain. */
static void check_run(struct sim *s, const struct sim_var *v, uint64_t creation, const struct run *r, const char *where)
{
    char text[200];
    for (uint32_t k = 0; k < SIM_DIGITS_MAX + 1 && r->value >> (2 * k) != 0; k++) {
        uint32_t d = digit_of(r->value, k);
        if (d == 0) {
            continue;
        }
        struct sim_op *op = k < v->digits_used ? v->digit[k] : NULL;
        if (op == NULL) {
            sim_fail(s, "%s: '%s' element %llu has digit %u of a push that was never made", where, v->name,
                     (unsigned long long)r->from, k);
        }
        if (d > 1) {
            sim_fail(s, "%s: DOUBLED: %s was applied %u times at elements %llu to %llu", where, sim_op_text(op, text), d,
                     (unsigned long long)r->from, (unsigned long long)r->end - 1);
        }
        if (!landed(s, op, creation)) {
            sim_fail(s, "%s: %s landed in another incarnation of the variable", where, sim_op_text(op, text));
        }
        if (r->from < op->from || r->end > op->to) {
            sim_fail(s, "%s: %s is for elements %llu to %llu, but it was at %llu to %llu", where, sim_op_text(op, text),
                     (unsigned long long)op->from, (unsigned long long)op->to - 1, (unsigned long long)r->from,
                     (unsigned long long)r->end - 1);
        }
        if (op->state == SIM_OP_DONE && op->status != PS_OK && op->applied == PS_NOTHING_APPLIED) {
            sim_fail(s, "%s: %s was told that nothing was applied, but it was at elements %llu to %llu", where,
                     sim_op_text(op, text), (unsigned long long)r->from, (unsigned long long)r->end - 1);
        }
    }
}

/* prefix[k]: end of the elements that digit k covers, its push's `from` where it covers none; fails when they are not a prefix of
 * those that the push is for. */
static void prefixes(struct sim *s, const struct sim_var *v, const void *value, uint64_t prefix[SIM_DIGITS_MAX],
                     const char *where)
{
    struct run r = {0};
    char text[200];
    for (uint32_t k = 0; k < v->digits_used; k++) {
        prefix[k] = v->digit[k]->from;
    }
    while (next_run(s, v, value, &r)) {
        for (uint32_t k = 0; k < v->digits_used; k++) {
            if (digit_of(r.value, k) == 0) {
                continue;
            }
            if (prefix[k] != r.from) {
                sim_fail(s, "%s: %s is at elements from %llu, but not at those from %llu: a hole", where,
                         sim_op_text(v->digit[k], text), (unsigned long long)r.from, (unsigned long long)prefix[k]);
            }
            prefix[k] = r.end;
        }
    }
}

static void check_pushes(struct sim *s, const struct sim_birth *b, const void *value)
{
    const struct sim_var *v = b->var;
    struct run r = {0};
    uint64_t prefix[SIM_DIGITS_MAX];
    char text[200];
    while (next_run(s, v, value, &r)) {
        check_run(s, v, b->creation, &r, "at the task");
    }
    prefixes(s, v, value, prefix, "at the task");
    for (uint32_t k = 0; k < v->digits_used; k++) {
        const struct sim_op *op = v->digit[k];
        if (op->creation != b->creation) {
            continue;
        }
        if (op->state == SIM_OP_DONE && op->status == PS_OK && prefix[k] != op->to) {
            sim_fail(s, "LOST: %s ended OK, but only %llu of %llu elements have it", sim_op_text(op, text),
                     (unsigned long long)(prefix[k] - op->from), (unsigned long long)(op->to - op->from));
        }
        if (v->atomic && prefix[k] != op->from && prefix[k] != op->to) {
            sim_fail(s, "%llu elements of atomic '%s' have %s: half a push can be seen", (unsigned long long)prefix[k], v->name,
                     sim_op_text(op, text));
        }
        uint64_t segment = PS_SEGMENT_BYTES / (of_rows(op)               ? sizeof(uint64_t) + ps_dtype_bytes(v->dtype)
                                               : op->kind == PSI_REQ_ADD ? ps_dtype_bytes(v->dtype)
                                                                         : ps_dtype_bytes(v->wire));
        if (prefix[k] != op->to && (prefix[k] - op->from) % segment != 0) {
            sim_fail(s, "%s is torn at element %llu, which is no end of a segment", sim_op_text(op, text),
                     (unsigned long long)prefix[k]);
        }
    }
    uint64_t begun = 0;
    for (uint32_t k = 0; k < v->digits_used; k++) {
        begun += prefix[k] > v->digit[k]->from;
    }
    if (s->ending && !s->unclean && s->quiet_since != 0 && b->version != begun && v->elements > 0) {
        sim_fail(s, "'%s' has version %llu, but %llu pushes changed it and none is in progress", v->name,
                 (unsigned long long)b->version, (unsigned long long)begun);
    }
    for (uint32_t i = 0; i < s->partial_count; i++) {
        const struct sim_partial *p = &s->partial[i];
        if (p->creation == b->creation && prefix[p->push->digit] != p->elements) {
            char pull[200];
            sim_fail(s, "%s was called exact and showed %llu elements of %s, which has %llu now: no such moment existed",
                     sim_op_text(p->pull, pull), (unsigned long long)p->elements, sim_op_text(p->push, text),
                     (unsigned long long)prefix[p->push->digit]);
        }
    }
}

static bool reads(enum psi_request_kind kind)
{
    return kind == PSI_REQ_PULL || kind == PSI_REQ_GATHER;
}

/* A push whose new values come back; its version is that of the values. */
static bool pulls(enum psi_request_kind kind)
{
    return kind == PSI_REQ_PUSH_PULL || kind == PSI_REQ_PUSH_PULL_ROWS;
}

static bool must_see(const struct sim *s, const struct sim_op *pull, const struct sim_op *push)
{
    if (push == pull) {
        return true;
    }
    if (push->creation != pull->creation || push->state != SIM_OP_DONE || push->status != PS_OK) {
        return false;
    }
    if (push->done_event < pull->started_event) {
        return true;
    }
    return push->program == pull->program && push->life == pull->life && push->started_event < pull->started_event &&
           push->id < pull->id && !s->k.may_refuse;
}

static void note_partial(struct sim *s, struct sim_op *pull, struct sim_op *push, uint64_t elements)
{
    char text[200];
    const struct sim_birth *b = sim_birth_find(s, pull->creation);
    /* what a checkpoint had of a push that was being applied at its cut stays so (docs/DURABILITY.md 1.3) */
    if (b != NULL && b->restored && push->creation != pull->creation && push->started_event < b->born_event) {
        return;
    }
    if (push->state == SIM_OP_DONE && push->status == PS_OK) {
        sim_fail(s, "a pull that is called exact shows %llu elements of %s", (unsigned long long)elements,
                 sim_op_text(push, text));
    }
    if (s->partial_count < SIM_EXACT_MAX) {
        s->partial[s->partial_count++] =
            (struct sim_partial){.pull = pull, .push = push, .creation = pull->creation, .elements = elements};
    }
}

static void check_pulled_pushes(struct sim *s, struct sim_op *op, const void *value)
{
    const struct sim_var *v = op->var;
    struct run r = {0};
    char text[200], mine[200];
    while (next_run(s, v, value, &r)) {
        check_run(s, v, op->creation, &r, "in a pull");
        for (uint32_t k = 0; k < v->digits_used; k++) {
            const struct sim_op *push = v->digit[k];
            if (digit_of(r.value, k) == 0 && r.from < push->to && r.end > push->from && must_see(s, op, push)) {
                sim_fail(s, "%s does not see %s at elements %llu to %llu", sim_op_text(op, mine), sim_op_text(push, text),
                         (unsigned long long)r.from, (unsigned long long)r.end - 1);
            }
        }
    }
    if (op->exact || (reads(op->kind) && op->one_segment)) {
        uint64_t prefix[SIM_DIGITS_MAX];
        prefixes(s, v, value, prefix, "in an exact pull");
        for (uint32_t k = 0; k < v->digits_used; k++) {
            const bool half = prefix[k] != v->digit[k]->from && prefix[k] != v->digit[k]->to;
            if (half && v->atomic) {
                sim_fail(s, "%s shows %llu elements of %s", sim_op_text(op, mine), (unsigned long long)prefix[k],
                         sim_op_text(v->digit[k], text));
            }
            if (half) {
                note_partial(s, op, v->digit[k], prefix[k]);
            }
        }
    }
}

/* ---- registers ---- */

struct sim_op *sim_find_tag(struct sim *s, const struct sim_var *v, double tag)
{
    for (size_t i = s->op_count; i > 0; i--) {
        struct sim_op *op = s->op[i - 1];
        if (op->var == v && (op->kind == PSI_REQ_ASSIGN || op->kind == PSI_REQ_INIT_FROM) && op->tag == tag) {
            return op;
        }
    }
    return NULL;
}

/* One tag of a register: it was assigned, in this life of the variable, and was not told that nothing was applied. */
static struct sim_op *check_tag(struct sim *s, const struct sim_var *v, uint64_t creation, uint64_t tag, const char *where)
{
    char text[200];
    if (tag == 0) {
        return NULL;
    }
    struct sim_op *op = sim_find_tag(s, v, (double)tag);
    if (op == NULL) {
        sim_fail(s, "%s: register '%s' holds %llu, which nobody assigned", where, v->name, (unsigned long long)tag);
    }
    if (!landed(s, op, creation)) {
        sim_fail(s, "%s: %s landed in another incarnation", where, sim_op_text(op, text));
    }
    if (op->state == SIM_OP_DONE && op->status != PS_OK && op->applied == PS_NOTHING_APPLIED) {
        sim_fail(s, "%s: register holds the value of %s, which was told that nothing was applied", where, sim_op_text(op, text));
    }
    return op;
}

static void check_pulled_register(struct sim *s, struct sim_op *op, const void *value)
{
    const struct sim_var *v = op->var;
    struct run r = {0};
    bool whole = op->exact || op->one_segment;
    uint64_t runs = 0;
    char text[200], mine[200];
    while (next_run(s, v, value, &r)) {
        struct sim_op *from = check_tag(s, v, op->creation, r.value, "in a pull");
        if (++runs > 1 && whole) {
            sim_fail(s, "%s shows half of %s", sim_op_text(op, mine), from != NULL ? sim_op_text(from, text) : "the first value");
        }
        op->pulled = (double)r.value;
        for (size_t i = 0; i < s->op_count; i++) {
            const struct sim_op *a = s->op[i];
            if (a->var != v || a->kind != PSI_REQ_ASSIGN || a->creation != op->creation || a->state != SIM_OP_DONE ||
                a->status != PS_OK) {
                continue;
            }
            bool from_ok = from != NULL && from->kind == PSI_REQ_ASSIGN && from->state == SIM_OP_DONE && from->status == PS_OK;
            bool older = from == NULL || (from_ok && from->version < a->version);
            if (older && from != a && must_see(s, op, a)) {
                sim_fail(s, "%s shows %s, older than %s", sim_op_text(op, mine),
                         from != NULL ? sim_op_text(from, text) : "the first value", sim_kind_name(a->kind));
            }
            if (whole && a->version == op->version && from != a && older) {
                sim_fail(s, "%s at version %llu does not show %s", sim_op_text(op, mine), (unsigned long long)op->version,
                         sim_op_text(a, text));
            }
        }
    }
}

/* ---- counters ---- */

static void check_counter(struct sim *s, const struct sim_var *v, uint64_t creation, uint64_t value, const char *where)
{
    if (v->kind == SIM_VAR_COUNTER) {
        struct run r = {.from = 0, .end = 1, .value = value};
        check_run(s, v, creation, &r, where);
        return;
    }
    uint64_t ok = 0, maybe = 0;
    for (size_t i = 0; i < s->op_count; i++) {
        const struct sim_op *op = s->op[i];
        if (op->var == v && op->kind == PSI_REQ_ADD && op->creation == creation) {
            bool done = op->state == SIM_OP_DONE;
            ok += done && op->status == PS_OK;
            maybe += !done || (op->status != PS_OK && op->applied != PS_NOTHING_APPLIED);
        }
    }
    const struct sim_birth *b = sim_birth_find(s, creation);
    ok += b == NULL ? 0 : b->base_step;
    if (value > ok + maybe) {
        sim_fail(s, "%s: '%s' is %llu after %llu adds that ended OK and %llu that may have been applied: DOUBLED", where, v->name,
                 (unsigned long long)value, (unsigned long long)ok, (unsigned long long)maybe);
    }
}

static void check_added(struct sim *s, struct sim_op *op)
{
    const struct sim_var *v = op->var;
    uint64_t value = (uint64_t)op->result;
    char text[200], other[200];
    check_counter(s, v, op->creation, value, "in an add's answer");
    if (v->kind == SIM_VAR_COUNTER && digit_of(value, op->digit) != 1) {
        sim_fail(s, "%s: its own answer %llu does not have it", sim_op_text(op, text), (unsigned long long)value);
    }
    if (op->result <= op->floor_value) {
        sim_fail(s, "%s: answer %lld, but an earlier call had already seen %lld", sim_op_text(op, text), (long long)op->result,
                 (long long)op->floor_value);
    }
    for (size_t i = 0; i < s->op_count; i++) {
        const struct sim_op *o = s->op[i];
        if (o == op || o->var != v || o->kind != PSI_REQ_ADD || o->creation != op->creation || o->state != SIM_OP_DONE ||
            o->status != PS_OK) {
            continue;
        }
        uint64_t both = value & (uint64_t)o->result;
        uint64_t low = op->result < o->result ? value : (uint64_t)o->result;
        if (o->result == op->result || (v->kind == SIM_VAR_COUNTER && both != low)) {
            sim_fail(s, "answers %lld of %s and %lld of %s cannot both have been the value", (long long)op->result,
                     sim_op_text(op, text), (long long)o->result, sim_op_text(o, other));
        }
    }
}

/* ---- a call has ended ---- */

static void check_pull(struct sim *s, struct sim_op *op, const void *raw, size_t bytes)
{
    const struct sim_var *v = op->var;
    const void *value = sim_values(s, v, raw, bytes);
    char text[200];
    /* more rows than one reply has are of several moments */
    const bool of_one_moment = op->kind != PSI_REQ_GATHER || v->elements <= PSI_GATHER_ROWS_MAX;
    if (reads(op->kind) && of_one_moment && (v->atomic || v->dtype == PS_STRING) && !op->exact) {
        sim_fail(s, "%s is not called exact", sim_op_text(op, text));
    }
    switch (v->kind) {
    case SIM_VAR_PUSH:
    case SIM_VAR_TMP:
        check_pulled_pushes(s, op, value);
        break;
    case SIM_VAR_REGISTER:
        check_pulled_register(s, op, value);
        break;
    case SIM_VAR_COUNTER:
    case SIM_VAR_STEP:
        op->result = (int64_t)sim_element(s, v, value, 0);
        check_counter(s, v, op->creation, (uint64_t)op->result, "in a pull");
        if (op->result < op->floor_value) {
            sim_fail(s, "a pull of '%s' shows %lld after a call that had ended with %lld", v->name, (long long)op->result,
                     (long long)op->floor_value);
        }
        break;
    case SIM_VAR_HYPER:
    case SIM_VAR_QUEUE:
    case SIM_VAR_ROUND:
    case SIM_VAR_MODEL:
    case SIM_VAR_MOVED:
        break;
    }
}

static void check_status(struct sim *s, struct sim_call *call)
{
    const struct sim_op *op = call->op;
    const struct psi_var *var = call->req.var;
    if (op->var == NULL || op->var->kind != SIM_VAR_HYPER) {
        return;
    }
    struct sim_birth *b = sim_birth_find(s, var->creation);
    if (b == NULL || !var->initialised) {
        return;
    }
    double rate = var->in_force.learning_rate;
    if (var->chief_number < (uint64_t)op->floor_value) {
        sim_fail(s, "'%s': chief number %llu is in force, %lld was before", op->var->name, (unsigned long long)var->chief_number,
                 (long long)op->floor_value);
    }
    b->chief_number = var->chief_number > b->chief_number ? var->chief_number : b->chief_number;
    for (uint32_t i = 0; i < s->hyper_count; i++) {
        const struct sim_hyper *h = &s->hyper[i];
        if (h->creation == var->creation && h->number == var->chief_number && h->rate != rate) {
            sim_fail(s, "'%s': rates %.10g and %.10g were in force under the same chief number %llu: a late INIT", op->var->name,
                     h->rate, rate, (unsigned long long)h->number);
        }
    }
    if (s->hyper_count < SIM_HYPERS_MAX) {
        s->hyper[s->hyper_count++] = (struct sim_hyper){.creation = var->creation, .number = var->chief_number, .rate = rate};
    }
}

/* Each element of its variable gets its digit. */
static bool adds_digit(const struct sim_op *op)
{
    const bool push = op->kind == PSI_REQ_PUSH || op->kind == PSI_REQ_PUSH_PULL;
    return (push && op->var->kind != SIM_VAR_MOVED) || of_rows(op) || (op->kind == PSI_REQ_ADD && op->var->kind == SIM_VAR_PUSH);
}

static bool is_mutation(enum psi_request_kind kind)
{
    return kind == PSI_REQ_PUSH || kind == PSI_REQ_PUSH_PULL || kind == PSI_REQ_ASSIGN || kind == PSI_REQ_ADD ||
           kind == PSI_REQ_PUSH_ROWS || kind == PSI_REQ_PUSH_PULL_ROWS || kind == PSI_REQ_SCATTER;
}

static void check_versions(struct sim *s, struct sim_op *op, struct sim_birth *b)
{
    char text[200];
    bool mutation = is_mutation(op->kind) && (op != b->giver || b->restored); /* the first value is version 0 */
    if (mutation ? op->version <= op->floor_version : op->version < op->floor_version) {
        sim_fail(s, "%s ended with version %llu, but an earlier call had already ended with %llu", sim_op_text(op, text),
                 (unsigned long long)op->version, (unsigned long long)op->floor_version);
    }
    if (b->alive && op->version > b->version) {
        sim_fail(s, "%s ended with version %llu, the task has %llu", sim_op_text(op, text), (unsigned long long)op->version,
                 (unsigned long long)b->version);
    }
    b->done_version = op->version > b->done_version ? op->version : b->done_version;
}

/* Pulls that this program started after the mutation and that have ended already must have seen it. */
static void check_order(struct sim *s, const struct sim_op *op)
{
    char text[200], pull[200];
    for (size_t i = op->id; i < s->op_count && !s->k.may_refuse; i++) {
        const struct sim_op *p = s->op[i];
        if (reads(p->kind) && p->var == op->var && p->program == op->program && p->life == op->life &&
            p->creation == op->creation && p->state == SIM_OP_DONE && p->status == PS_OK && p->version < op->version) {
            sim_fail(s, "%s was started after %s of the same program, but shows version %llu, older than its %llu",
                     sim_op_text(p, pull), sim_op_text(op, text), (unsigned long long)p->version,
                     (unsigned long long)op->version);
        }
    }
}

static void check_ok(struct sim *s, struct sim_call *call)
{
    struct sim_op *op = call->op;
    char text[200];
    if (op->kind == PSI_REQ_STATUS) {
        check_status(s, call);
        return;
    }
    bool value_call = is_mutation(op->kind) || reads(op->kind) || op->kind == PSI_REQ_INIT_FROM;
    if (!value_call) {
        return;
    }
    adopt(op, call->req.var->creation);
    struct sim_birth *b = sim_birth_find(s, op->creation);
    if (b == NULL) {
        sim_fail(s, "%s ended OK in a variable that no task ever had", sim_op_text(op, text));
    }
    check_versions(s, op, b);
    if (adds_digit(op) && op->var->elements > 0 && (b->alive || b->by_restart) &&
        ((op->from == 0 && digit_of(b->first, op->digit) != 1) ||
         (op->to == op->var->elements && digit_of(b->last, op->digit) != 1))) {
        sim_fail(s, "LOST: %s ended OK, but the task does not have it (first %llu, last element %llu)", sim_op_text(op, text),
                 (unsigned long long)b->first, (unsigned long long)b->last);
    }
    if (reads(op->kind) || pulls(op->kind)) {
        check_pull(s, op, call->dst, call->bytes);
    }
    if (op->kind == PSI_REQ_ADD && op->var->kind != SIM_VAR_PUSH) {
        check_added(s, op);
    } else if (op->kind == PSI_REQ_ADD && call->req.result_bytes > 0 &&
               digit_of(sim_element(s, op->var, call->req.result, 0), op->digit) != 1) {
        sim_fail(s, "%s: its own answer does not have it", sim_op_text(op, text));
    }
    if (is_mutation(op->kind) && !pulls(op->kind)) {
        check_order(s, op);
    }
    if (op->var->dtype == PS_I64 && (op->kind == PSI_REQ_ADD || op->kind == PSI_REQ_PULL)) {
        b->done_value = op->result > b->done_value ? op->result : b->done_value;
    }
}

/* Failures that nothing in the world explains. */
static void check_failure(struct sim *s, const struct sim_call *call)
{
    const struct sim_op *op = call->op;
    const char *why = call->req.err != NULL ? call->req.err->text : "";
    char text[200];
    bool tmp = op->var != NULL && op->var->kind == SIM_VAR_TMP;
    bool value_call = is_mutation(op->kind) || reads(op->kind) || op->kind == PSI_REQ_INIT_FROM;
    bool fine = false;
    switch (op->status) {
    case PS_DEADLINE_EXCEEDED:
    case PS_UNAVAILABLE:
    case PS_RESOURCE_EXHAUSTED:
        fine = true;
        break;
    case PS_ABORTED:
        fine = s->k.may_lose || s->k.may_forget || tmp || op->kind == PSI_REQ_READY || op->kind == PSI_REQ_WAIT_READY;
        break;
    case PS_NOT_FOUND:
        fine = op->kind == PSI_REQ_LOOKUP || op->kind == PSI_REQ_DELETE || (op->kind == PSI_REQ_STATUS && s->k.may_lose);
        break;
    case PS_DATA_LOSS:
        fine = (op->kind == PSI_REQ_READY && s->mixed_event >= op->started_event) || sim_disks_cause(s, call);
        break;
    case PS_FAILED_PRECONDITION: /* the monitor looks at variables that have no values yet */
        fine = (value_call && (tmp || s->program[op->program].role == SIM_MONITOR)) || sim_admin_may_not(call) ||
               sim_disks_cause(s, call) || sim_chief_other(s, call);
        break;
    case PS_INVALID_ARGUMENT:
        fine = sim_disks_cause(s, call);
        break;
    default:
        break;
    }
    if (!fine) {
        sim_fail(s, "%s failed without a cause: %s", sim_op_text(op, text), why);
    }
    if (call->req.err == NULL || call->req.err->text[0] == '\0') {
        sim_fail(s, "%s failed and says nothing", sim_op_text(op, text));
    }
    if (s->k.quiet && op->deadline_ms >= op->started_ms + 1000 && op->kind != PSI_REQ_LOOKUP && !tmp &&
        op->kind != PSI_REQ_DELETE && op->status != PS_FAILED_PRECONDITION && !sim_disks_cause(s, call)) {
        sim_fail(s, "%s failed although nothing breaks in this seed: %s", sim_op_text(op, text), why);
    }
    /* of a push-pull the push may be in, and its values may not have come */
    if ((op->kind == PSI_REQ_PUSH || op->kind == PSI_REQ_ADD || (of_rows(op) && op->kind != PSI_REQ_PUSH_PULL_ROWS)) &&
        op->var->atomic && op->applied == PS_MAYBE_PARTLY_APPLIED) {
        sim_fail(s, "%s says that part of it may be in, and the variable is atomic: %s", sim_op_text(op, text), why);
    }
    struct sim_birth *b = sim_birth_find(s, op->creation);
    if (adds_digit(op) && op->applied == PS_NOTHING_APPLIED && b != NULL && digit_of(b->first, op->digit) != 0) {
        sim_fail(s, "%s says that nothing was applied, but the task has it", sim_op_text(op, text));
    }
}

void sim_check_done(struct sim *s, struct sim_call *call)
{
    if (s->k.profile == SIM_RACE) {
        sim_race_done(s, call->op, call->req.err != NULL ? call->req.err->text : "");
    }
    if (sim_claim_refused(call)) {
        sim_claim_check(s, call);
        return;
    }
    if (call->op->kind == PSI_REQ_BARRIER) {
        sim_barrier_check(s, call);
        sim_train_done(s, call->program, call);
        return;
    }
    if (sim_saves_is(call->op)) {
        sim_saves_done(s, call);
        return;
    }
    if (sim_queue_done(s, call) || sim_rounds_done(s, call) || sim_chief_done(s, call)) {
        return;
    }
    if (call->op->kind == PSI_REQ_CALL && sim_work_check(s, call)) {
        return;
    }
    if (call->op->status == PS_OK) {
        check_ok(s, call);
    } else {
        check_failure(s, call);
    }
}

/* ---- all that a task has ---- */

void sim_check_values(struct sim *s, struct sim_birth *b, const void *raw, size_t bytes)
{
    const struct sim_var *v = b->var;
    char text[200];
    if (!b->initialised || v->kind == SIM_VAR_ROUND || v->kind == SIM_VAR_MODEL) {
        return;
    }
    const void *value = sim_values(s, v, raw, bytes);
    if (v->kind == SIM_VAR_PUSH || v->kind == SIM_VAR_TMP) {
        check_pushes(s, b, value);
    }
    uint64_t ok = 0, others = 0;
    for (size_t i = 0; i < s->op_count; i++) {
        const struct sim_op *op = s->op[i];
        if (b->restored && op->creation == 0 && op->var == v && is_mutation(op->kind)) {
            others++; /* landed() does not say where */
        }
        if (op->creation != b->creation || !is_mutation(op->kind) || (op == b->giver && !b->restored)) {
            continue;
        }
        bool is_ok = op->state == SIM_OP_DONE && op->status == PS_OK;
        ok += is_ok;
        others += !is_ok && !(op->state == SIM_OP_DONE && op->applied == PS_NOTHING_APPLIED);
        if (v->kind == SIM_VAR_COUNTER && is_ok && digit_of(sim_element(s, v, value, 0), op->digit) != 1) {
            sim_fail(s, "LOST: %s ended OK, '%s' is %llu", sim_op_text(op, text), v->name,
                     (unsigned long long)sim_element(s, v, value, 0));
        }
        for (size_t j = i + 1; is_ok && !pulls(op->kind) && j < s->op_count; j++) {
            const struct sim_op *o = s->op[j]; /* a push-pull's version is that of the values it got */
            if (o->creation == b->creation && is_mutation(o->kind) && !pulls(o->kind) && o->state == SIM_OP_DONE &&
                o->status == PS_OK && o->version == op->version) {
                char other[200];
                sim_fail(s, "%s and %s both ended with version %llu", sim_op_text(op, text), sim_op_text(o, other),
                         (unsigned long long)op->version);
            }
        }
        if (v->kind == SIM_VAR_REGISTER && is_ok && op->version == b->version &&
            sim_element(s, v, value, 0) != (uint64_t)op->tag) {
            sim_fail(s, "LOST: %s ended with the version that the task has, which holds %llu", sim_op_text(op, text),
                     (unsigned long long)sim_element(s, v, value, 0));
        }
    }
    ok += b->base_version;
    if (b->version < ok || b->version > ok + others) {
        sim_fail(s, "'%s' has version %llu after %llu mutations that ended OK and %llu that may have been applied", v->name,
                 (unsigned long long)b->version, (unsigned long long)ok, (unsigned long long)others);
    }
    struct run r = {0};
    uint64_t runs = 0;
    while (v->kind == SIM_VAR_REGISTER && next_run(s, v, value, &r)) {
        PSI_IGNORE(check_tag(s, v, b->creation, r.value, "at the task")); /* fails by itself */
        if (++runs > 1) {
            sim_fail(s, "register '%s' holds parts of two assigns", v->name);
        }
    }
    if (v->kind == SIM_VAR_COUNTER || v->kind == SIM_VAR_STEP) {
        check_counter(s, v, b->creation, sim_element(s, v, value, 0), "at the task");
        ok += b->base_step - b->base_version;
        if (v->kind == SIM_VAR_STEP && sim_element(s, v, value, 0) < ok) {
            sim_fail(s, "LOST: '%s' is %llu after %llu adds that ended OK", v->name,
                     (unsigned long long)sim_element(s, v, value, 0), (unsigned long long)ok);
        }
    }
}

bool sim_session_over(const struct sim *s, uint32_t life)
{
    for (uint32_t i = 0; i < s->program_count; i++) {
        const struct sim_program *p = &s->program[i];
        if (p->life == life && p->core != NULL) {
            return p->state == SIM_GOODBYE;
        }
    }
    return true;
}

bool sim_lease_over(const struct sim *s, const struct sim_task *t, const struct psd_record *r)
{
    return r->conn == NULL &&
           (t->core->now_ms - r->idle_since_ms >= s->k.lease_ms || r->idle_since_ms - r->heard_ms >= s->k.lease_ms);
}
