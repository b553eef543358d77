/* SPDX-License-Identifier: Apache-2.0 */
/* Bars in memory and on disk. A bar says up to which checkpoint a deleted variable or reset container must not come back. The
 * file `bars` has HEAD, then a BarItem for each bar (encoded as in a list of the protocol), then the CRC32C of all that. */
#include "bars.h"

#include "others.h"
#include "shards.h"

#include "common/crc32c.h"
#include "common/mem.h"

#include <string.h>

enum { RETRY_MS = 1000, SUM_BYTES = 4 };
static const uint8_t HEAD[8] = {'p', 's', 'd', 'b', 'a', 'r', 's', 1 /* the last byte is the version of the format */};

struct asker {
    struct psi_list link; /* psd_bars.askers */
    uint64_t version;
    psd_bars_fn done;
    void *ctx;
    uint64_t id;
};

static struct psd_bar *at_bar(struct psi_list *it)
{
    return PSI_CONTAINER_OF(it, struct psd_bar, link);
}

static struct asker *at_asker(struct psi_list *it)
{
    return PSI_CONTAINER_OF(it, struct asker, link);
}

void psd_bars_init(struct psd_task *t, struct psd_bars *b)
{
    b->store = &t->store;
    psi_list_init(&b->all);
    psi_map_init(&b->by_names, t->store.map_seed);
    psi_list_init(&b->askers);
    psi_buf_init(&b->file, PSD_BARS_BYTES_MAX);
}

void psd_bars_fini(struct psd_bars *b)
{
    struct psi_list *it = NULL;
    while ((it = psi_list_pop_front(&b->all)) != NULL) {
        psd_store_uncount(b->store, PSD_MEMORY_CONTAINERS, PSD_BAR_BYTES);
        psi_free(at_bar(it));
    }
    while ((it = psi_list_pop_front(&b->askers)) != NULL) {
        psi_free(at_asker(it));
    }
    psi_map_fini(&b->by_names);
    psi_buf_fini(&b->file);
}

struct bar_key {
    char text[PS_CONTAINER_BYTES_MAX + 1 + PS_NAME_BYTES_MAX + 1];
    size_t bytes;
};

static struct bar_key bar_key_of(const char *container, const char *name)
{
    struct bar_key k;
    size_t in = strlen(container) + 1, n = strlen(name);
    memcpy(k.text, container, in);
    memcpy(k.text + in, name, n);
    k.bytes = in + n;
    return k;
}

static struct psd_bar *find_bar(const struct psd_bars *b, const char *container, const char *name)
{
    struct bar_key k = bar_key_of(container, name);
    return psi_map_find(&b->by_names, k.text, k.bytes);
}

static void bar_free(struct psd_bars *b, struct psd_bar *bar)
{
    struct bar_key k = bar_key_of(bar->container, bar->name);
    PSI_IGNORE(psi_map_remove(&b->by_names, k.text, k.bytes)); /* the result is `bar` itself */
    psi_list_remove(&bar->link);
    b->names -= bar->name[0] != '\0';
    psd_store_uncount(b->store, PSD_MEMORY_CONTAINERS, PSD_BAR_BYTES);
    psi_free(bar);
}

/* Find the bar of this variable (name "": of the container), or add a bar with number 0, which bars nothing. NULL: no memory. */
static struct psd_bar *get(struct psd_bars *b, const char *container, const char *name)
{
    struct bar_key k = bar_key_of(container, name);
    struct psd_bar *bar = find_bar(b, container, name);
    if (bar == NULL) {
        bar = psi_calloc(1, sizeof(*bar));
        if (bar == NULL || psi_map_put(&b->by_names, k.text, k.bytes, bar, NULL, NULL) != PS_OK) {
            psi_free(bar);
            return NULL;
        }
        memcpy(bar->container, container, strlen(container) + 1);
        memcpy(bar->name, name, strlen(name) + 1);
        psi_list_push_back(&b->all, &bar->link);
        psd_store_count(b->store, PSD_MEMORY_CONTAINERS, PSD_BAR_BYTES);
        b->names += name[0] != '\0';
    }
    return bar;
}

static ps_status bars_no_memory(const struct psd_task *t, struct psi_err *err)
{
    return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: no memory to note what checkpoints may not bring back", t->name);
}

ps_status psd_bars_note(struct psd_task *t, struct psd_bars *b, const char *container, const char *name, uint64_t number,
                        struct psi_err *err)
{
    struct psd_bar *bar = get(b, container, name);
    if (bar == NULL) {
        return bars_no_memory(t, err);
    }
    bar->number = number > bar->number ? number : bar->number;
    return PS_OK;
}

const struct psd_bar *psd_bars_find(const struct psd_task *t, const char *container)
{
    return t->shards == NULL ? NULL : find_bar(&t->shards->bars, container, "");
}

const struct psd_bar *psd_bars_next_open(const struct psd_task *t, const struct psd_bar *behind)
{
    struct psi_list *it = behind == NULL ? t->shards->bars.all.next : behind->link.next;
    for (; it != &t->shards->bars.all; it = it->next) {
        const struct psd_bar *bar = at_bar(it);
        if (bar->open) {
            return bar;
        }
    }
    return NULL;
}

ps_status psd_bars_set(struct psd_task *t, const char *container, uint64_t number, bool open, struct psi_err *err)
{
    struct psd_bars *b = &t->shards->bars;
    struct psd_bar *bar = number == 0 ? find_bar(b, container, "") : get(b, container, "");
    if (bar == NULL) {
        return number == 0 ? PS_OK : bars_no_memory(t, err);
    }
    b->version++;
    if (number == 0) {
        bar_free(b, bar);
        return PS_OK;
    }
    bar->number = number;
    bar->open = open;
    t->shards->highest = number > t->shards->highest ? number : t->shards->highest; /* new checkpoints get higher numbers */
    return PS_OK;
}

/* Free the bars that are of no use any more: all checkpoints that they forbid are older than the oldest one of which this disk
 * has files. Bars of unfinished resets stay. */
static void prune(struct psd_task *t)
{
    struct psd_bars *b = &t->shards->bars;
    struct psi_list *it = psi_list_first(&t->shards->list), *tmp = NULL;
    uint64_t own = it == NULL ? UINT64_MAX : PSI_CONTAINER_OF(it, struct psd_shard, link)->number;
    uint64_t other = psd_others_oldest(t), oldest = own < other ? own : other;
    PSI_LIST_FOREACH_SAFE(it, tmp, &b->all) {
        struct psd_bar *bar = at_bar(it);
        if (!bar->open && bar->number < oldest) {
            bar_free(b, bar);
        }
    }
}

/* Fail with RESOURCE_EXHAUSTED: no more deleted variables can be noted. in_reset: because their container is being reset. */
static ps_status no_room(const struct psd_task *t, const char *container, bool in_reset, struct psi_err *err)
{
    const struct psd_bars *b = &t->shards->bars;
    const struct psd_bar *first = NULL; /* oldest bar of a deleted variable, for the error text */
    struct psi_list *it = NULL;
    if (in_reset) {
        return psi_fail(
            err, PS_RESOURCE_EXHAUSTED,
            "%s: checkpoints have %u variables that were deleted, as many as a task notes, and container '%s' is being "
            "reset: delete the variable again when that reset is over",
            t->name, b->names, container);
    }
    PSI_LIST_FOREACH(it, &b->all) {
        const struct psd_bar *bar = at_bar(it);
        first = bar->name[0] != '\0' && (first == NULL || bar->number < first->number) ? bar : first;
    }
    return psi_fail(
        err, PS_RESOURCE_EXHAUSTED,
        "%s: checkpoints have %u variables that were deleted, as many as a task notes, all of other containers: delete "
        "the checkpoints up to number %llu (psctl checkpoint delete), or wait until newer ones have replaced them; the "
        "oldest variable is '%s' of container '%s'",
        t->name, b->names, (unsigned long long)first->number, first->name, first->container);
}

/* Make room for the bar of another deleted variable: the bars with the lowest number in this container become one bar of the
 * whole container. Checkpoints up to that number then bring back nothing of the container. */
static ps_status make_room(struct psd_task *t, const char *container, struct psi_err *err)
{
    struct psd_bars *b = &t->shards->bars;
    struct psi_list *it = NULL, *tmp = NULL;
    const struct psd_bar *of = find_bar(b, container, "");
    uint64_t oldest = UINT64_MAX, before = of == NULL ? 0 : of->number;
    PSI_LIST_FOREACH(it, &b->all) {
        const struct psd_bar *bar = at_bar(it);
        if (bar->name[0] != '\0' && strcmp(bar->container, container) == 0 && bar->number < oldest) {
            oldest = bar->number;
        }
    }
    /* if a reset is given up, its bar is removed, and a bar merged into it would be lost */
    bool in_reset = of != NULL && of->open;
    if (oldest == UINT64_MAX || in_reset) {
        return no_room(t, container, in_reset, err);
    }
    oldest = oldest > before ? oldest : before;
    ps_status st = psd_bars_set(t, container, oldest, false, err);
    PSI_LIST_FOREACH_SAFE(it, tmp, &b->all) {
        struct psd_bar *bar = at_bar(it);
        if (st == PS_OK && bar->name[0] != '\0' && bar->number <= oldest && strcmp(bar->container, container) == 0) {
            bar_free(b, bar);
        }
    }
    return st;
}

static bool has_room(const struct psd_bars *b, const char *container, const char *name)
{
    return b->names < PSD_BARS_NAMES_MAX || find_bar(b, container, name) != NULL;
}

ps_status psd_bars_delete(struct psd_task *t, const char *container, const char *name, struct psi_err *err)
{
    struct psd_bars *b = &t->shards->bars;
    if (!has_room(b, container, name)) {
        prune(t);
    }
    ps_status st = has_room(b, container, name) ? PS_OK : make_room(t, container, err);
    struct psd_bar *bar = st == PS_OK ? get(b, container, name) : NULL;
    if (bar == NULL) {
        return st == PS_OK ? bars_no_memory(t, err) : st;
    }
    bar->number = t->shards->highest;
    b->version++;
    return PS_OK;
}

/* The highest number in all tasks' bars of this variable (name "": of the container). 0: there is no bar. */
static uint64_t number_of(const struct psd_task *t, const char *container, const char *name)
{
    const struct psd_bar *own = t->shards == NULL ? NULL : find_bar(&t->shards->bars, container, name);
    const struct psd_bar *other = t->shards == NULL ? NULL : find_bar(&t->shards->others.bars, container, name);
    uint64_t a = own == NULL ? 0 : own->number, b = other == NULL ? 0 : other->number;
    return a > b ? a : b;
}

uint64_t psd_bars_number(const struct psd_task *t, const char *container)
{
    return number_of(t, container, "");
}

bool psd_bars_deleted(const struct psd_task *t, const char *container, const char *name, uint64_t number)
{
    return number <= number_of(t, container, name);
}

const struct psd_bar *psd_bars_next_deleted(const struct psd_task *t, const struct psd_bar *behind)
{
    const struct psi_list *all = &t->shards->bars.all;
    struct psi_list *it = behind == NULL ? all->next : behind->link.next;
    for (; it != all; it = it->next) {
        if (at_bar(it)->name[0] != '\0') {
            return at_bar(it);
        }
    }
    return NULL;
}

static ps_status encode(struct psd_bars *b, struct psi_err *err)
{
    struct psi_list *it = NULL;
    psi_buf_clear(&b->file);
    ps_status st = psi_buf_append(&b->file, HEAD, sizeof(HEAD), err);
    PSI_LIST_FOREACH(it, &b->all) {
        const struct psd_bar *bar = at_bar(it);
        ps_v1_BarItem item = ps_v1_BarItem_init_zero;
        PSI_IGNORE(PSI_BYTES_SET(item.container, bar->container)); /* fits: checked names */
        PSI_IGNORE(PSI_BYTES_SET(item.name, bar->name));           /* fits: checked names */
        item.number = bar->number;
        item.open = bar->open;
        st = st == PS_OK ? psi_list_append(&b->file, &ps_v1_BarItem_msg, &item, err) : st;
    }
    uint32_t sum = psi_crc32c(0, b->file.data, b->file.len); /* little-endian */
    return st == PS_OK ? psi_buf_append(&b->file, &sum, sizeof(sum), err) : st;
}

static ps_status decode_one(struct psd_task *t, struct psd_bars *b, const ps_v1_BarItem *item, struct psi_err *err)
{
    char container[PS_CONTAINER_BYTES_MAX + 1], name[PS_NAME_BYTES_MAX + 1];
    if (PSI_BYTES_TEXT(item->container, container, sizeof(container)) != PS_OK ||
        PSI_BYTES_TEXT(item->name, name, sizeof(name)) != PS_OK || item->number >= UINT64_MAX / 2) {
        return psi_fail(err, PS_DATA_LOSS, "bars: an item that cannot be");
    }
    ps_status st = psd_bars_note(t, b, container, name, item->number, err);
    if (st != PS_OK) {
        return st;
    }
    find_bar(b, container, name)->open = item->open;
    t->shards->highest = item->number > t->shards->highest ? item->number : t->shards->highest;
    return PS_OK;
}

static ps_status decode(struct psd_task *t, struct psd_bars *b, const uint8_t *p, size_t n, struct psi_err *err)
{
    uint32_t sum = 0;
    if (n < sizeof(HEAD) + SUM_BYTES || memcmp(p, HEAD, sizeof(HEAD) - 1) != 0) {
        return psi_fail(err, PS_DATA_LOSS, "bars: the file is not one of psd");
    }
    memcpy(&sum, p + n - SUM_BYTES, sizeof(sum));
    if (sum != psi_crc32c(0, p, n - SUM_BYTES)) {
        return psi_fail(err, PS_DATA_LOSS, "bars: its CRC is another one");
    }
    if (p[sizeof(HEAD) - 1] != HEAD[sizeof(HEAD) - 1]) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "bars: it is of format %u; this psd knows %u", p[sizeof(HEAD) - 1],
                        HEAD[sizeof(HEAD) - 1]);
    }
    struct psi_items items = {.at = p + sizeof(HEAD), .bytes_left = n - sizeof(HEAD) - SUM_BYTES};
    ps_v1_BarItem item;
    while (psi_items_next(&items, &ps_v1_BarItem_msg, &item, err)) {
        items.st = decode_one(t, b, &item, err);
    }
    return items.st == PS_OK ? PS_OK : psi_fail(err, PS_DATA_LOSS, "bars: its items cannot be read");
}

static void answer_to(struct psd_task *t, uint64_t version, const struct psi_err *err)
{
    struct psd_bars *b = &t->shards->bars;
    struct psi_list *it = NULL;
    while ((it = psi_list_first(&b->askers)) != NULL && at_asker(it)->version <= version) {
        struct asker a = *at_asker(it);
        psi_list_remove(it);
        psi_free(at_asker(it));
        a.done(t, a.ctx, a.id, err);
    }
}

static void bars_read_done(struct psd_task *t, void *ctx, ps_status st, size_t bytes, const char *error)
{
    struct psd_bars *b = ctx;
    struct psi_err err;
    st = st == PS_OK ? decode(t, b, b->file.data, bytes, &err) : psi_fail(&err, st, "%s", error);
    answer_to(t, 0, st == PS_OK ? NULL : &err);
}

/* Queue a call of done for the moment when this version is on disk; version 0: when the file is read. NULL: no memory. */
static struct asker *asker_new(struct psd_task *t, uint64_t version, psd_bars_fn done, void *ctx, uint64_t id,
                               struct psi_err *err)
{
    struct asker *a = psi_calloc(1, sizeof(*a));
    if (a == NULL) {
        PSI_IGNORE(bars_no_memory(t, err)); /* the caller sees NULL */
        return NULL;
    }
    a->version = version;
    a->done = done;
    a->ctx = ctx;
    a->id = id;
    psi_list_push_back(&t->shards->bars.askers, &a->link);
    return a;
}

ps_status psd_bars_read(struct psd_task *t, struct psd_bars *b, uint32_t writer, uint64_t bytes, psd_bars_fn done,
                        struct psi_err *err)
{
    if (bytes > PSD_BARS_BYTES_MAX) {
        return psi_fail(err, PS_DATA_LOSS, "bars: the file is too long");
    }
    ps_status st = psi_buf_reserve(&b->file, bytes, err);
    struct asker *a = st == PS_OK ? asker_new(t, 0, done, NULL, 0, err) : NULL;
    if (a == NULL) {
        return st == PS_OK ? PS_RESOURCE_EXHAUSTED : st;
    }
    struct psd_disk_op op = {
        .kind = PSD_DISK_READ, .file = {.kind = PSD_DISK_BARS, .writer = writer}, .out = b->file.data, .bytes = (size_t)bytes};
    st = psd_disk_ask(t, &op, bars_read_done, b, err);
    if (st != PS_OK) {
        psi_list_remove(&a->link);
        psi_free(a);
    }
    return st;
}

static void write_next(struct psd_task *t);

static void written(struct psd_task *t, void *ctx, ps_status st, size_t bytes, const char *error)
{
    struct psd_bars *b = &t->shards->bars;
    struct psi_err err = {.code = PS_OK};
    uint64_t version = b->asked;
    (void)ctx;
    (void)bytes;
    if (st != PS_OK && b->err.code == PS_OK) {
        PSI_IGNORE(psi_fail(&b->err, st, "%s: %s", t->name, error)); /* the status is also in b->err */
        /* only PUBLISH, the last of the three operations (ops 1), replaces the file */
        b->err.applied = b->ops == 1 ? PS_OUTCOME_UNKNOWN : PS_NOTHING_APPLIED;
    }
    if (--b->ops > 0) {
        return;
    }
    b->asked = 0;
    err = b->err;
    if (err.code == PS_OK) {
        b->written = version;
    } else {
        psd_log(t, PSI_LOG_WARN, "bars_not_written", PSI_KV("msg", err.text));
        b->again_ms = t->now_ms + RETRY_MS;
    }
    answer_to(t, version, err.code == PS_OK ? NULL : &err);
    write_next(t);
}

/* Begin to write the bars, unless the disk has them, a write is under way, or the pause after a failure is not over. */
static void write_next(struct psd_task *t)
{
    static const enum psd_disk_kind STEPS[] = {PSD_DISK_BEGIN, PSD_DISK_WRITE, PSD_DISK_PUBLISH};
    enum { STEP_COUNT = sizeof(STEPS) / sizeof(STEPS[0]) };
    struct psd_bars *b = &t->shards->bars;
    if (b->asked != 0 || b->written == b->version || t->now_ms < b->again_ms ||
        t->disk_ask_count + STEP_COUNT > PSD_DISK_OPS_MAX) {
        return; /* psd_bars_tick() writes them later */
    }
    prune(t);
    b->err.code = PS_OK;
    ps_status st = encode(b, &b->err);
    for (uint32_t i = 0; st == PS_OK && i < STEP_COUNT; i++) {
        struct psd_disk_op op = {.kind = STEPS[i], .file = {.kind = PSD_DISK_BARS}};
        if (STEPS[i] == PSD_DISK_WRITE) {
            op.in = b->file.data;
            op.bytes = b->file.len;
        }
        st = psd_disk_ask(t, &op, written, NULL, &b->err);
        b->ops += st == PS_OK;
    }
    if (b->ops > 0) {
        b->asked = b->version; /* also if only some of the three operations were asked for: b->err then makes this write fail */
    } else {
        b->again_ms = t->now_ms + RETRY_MS;
    }
}

bool psd_bars_pending(const struct psd_task *t)
{
    return t->shards->bars.written != t->shards->bars.version;
}

ps_status psd_bars_wait(struct psd_task *t, psd_bars_fn done, void *ctx, uint64_t id, struct psi_err *err)
{
    struct psd_bars *b = &t->shards->bars;
    PSI_ASSERT(psd_bars_pending(t));
    if (asker_new(t, b->version, done, ctx, id, err) == NULL) {
        return PS_RESOURCE_EXHAUSTED;
    }
    b->again_ms = 0; /* no pause after an earlier failure, because a caller waits for the outcome */
    write_next(t);
    return PS_OK;
}

void psd_bars_directory_lost(struct psd_task *t)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->shards->bars.askers) {
        at_asker(it)->id = 0;
    }
}

void psd_bars_tick(struct psd_task *t)
{
    write_next(t);
}

void psd_bars_check_invariants(const struct psd_task *t)
{
    const struct psd_bars *b = &t->shards->bars;
    struct psi_list *it = NULL;
    uint32_t names = 0, count = 0;
    uint64_t version = 0;
    PSI_LIST_FOREACH(it, &b->all) {
        PSI_ASSERT(at_bar(it)->number <= t->shards->highest);
        PSI_ASSERT(find_bar(b, at_bar(it)->container, at_bar(it)->name) == at_bar(it));
        count++;
        names += at_bar(it)->name[0] != '\0';
    }
    PSI_LIST_FOREACH(it, &b->askers) {
        PSI_ASSERT(at_asker(it)->version >= version);
        version = at_asker(it)->version;
    }
    PSI_ASSERT(names == b->names && count == psi_map_count(&b->by_names) && b->written <= b->version &&
               (b->asked == 0) == (b->ops == 0));
}
