/* SPDX-License-Identifier: Apache-2.0 */
/* psctl checkpoint restore: what a restore discards, the question to the user, and which containers it has left out. Happy path:
 * the directory task lists the checkpoint, and its containers are read; each container that is to be restored is printed with its
 * present step; the user is asked on a terminal (--yes answers). After the restore, a container whose incarnation did not change
 * on any task was left out. Failure modes: no such checkpoint or container; no terminal and no --yes: nothing is done. If this
 * psctl cannot read the checkpoint, the containers that exist now are listed instead. */
#include "goes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAID_MAX = 16 /* most containers that are printed one by one */ };

struct sought {
    uint64_t number;
    ps_checkpoint_info found; /* number 0: the directory task does not list the checkpoint */
};

static void each(void *ctx, const ps_checkpoint_info *info)
{
    struct sought *s = ctx;
    s->found = info->number == s->number ? *info : s->found;
}

/* Write the container's present global_step into buf: "step 3500", "no global_step", or why it is not known. Returns buf. */
static const char *step_text(struct psctl *c, const char *container, char *buf, size_t n)
{
    ps_variable *v = NULL;
    int64_t step = 0;
    int32_t narrow = 0;
    ps_status st = ps_container_push(c->session, container);
    if (st == PS_OK) {
        st = ps_variable_find(c->session, "global_step", &v);
        (void)ps_container_pop(c->session);
    }
    bool wide = st == PS_OK && ps_variable_bytes(v) == sizeof(step);
    if (st == PS_OK && (wide || ps_variable_bytes(v) == sizeof(narrow))) {
        st = wide ? ps_variable_read(v, &step, sizeof(step)) : ps_variable_read(v, &narrow, sizeof(narrow));
        (void)snprintf(buf, n, "step %" PRId64, wide ? step : (int64_t)narrow);
    } else if (st == PS_OK) {
        (void)snprintf(buf, n, "its global_step is no integer");
    }
    if (st != PS_OK) {
        (void)snprintf(buf, n, st == PS_NOT_FOUND ? "no global_step" : "its step is not known: %.100s", ps_last_error());
    }
    return buf;
}

static bool is_named(const struct psctl *c, const char *container)
{
    bool named = c->containers[0] == NULL;
    for (size_t i = 0; c->containers[i] != NULL; i++) {
        named = named || strcmp(c->containers[i], container) == 0;
    }
    return named;
}

static int by_name(const void *x, const void *y)
{
    const struct goes_name *a = x, *b = y;
    return strcmp(a->text, b->text);
}

static void add_name(struct goes *g, const char *name)
{
    g->names = cli_grow(g->names, g->count, &g->capacity, sizeof(*g->names));
    (void)snprintf(g->names[g->count++].text, sizeof(g->names->text), "%s", name);
}

static void each_name(void *ctx, const char *container)
{
    add_name(ctx, container);
}

static bool has_name(const struct goes *g, const char *name)
{
    struct goes_name key;
    (void)snprintf(key.text, sizeof(key.text), "%s", name);
    return g->count > 0 && strlen(name) < sizeof(key.text) && bsearch(&key, g->names, g->count, sizeof(key), by_name) != NULL;
}

/* Fill g->names with the containers to restore: --container's, else all. False: the checkpoint lacks one of them (printed). */
static bool take_names(struct psctl *c, uint64_t number, const struct containers *list, struct goes *g)
{
    ps_status st = ps_checkpoint_containers(c->session, number, each_name, g);
    size_t kept = 0;
    g->known = st == PS_OK;
    if (!g->known) { /* go on: the tasks may be able to read the checkpoint; if not, the restore fails */
        psctl_note(c, "which containers checkpoint %" PRIu64 " has is not known, so those that live are listed: %s", number,
                   ps_last_error());
        for (size_t i = 0; i < list->count; i++) {
            if (i == 0 || strcmp(list->on[i].info.name, list->on[i - 1].info.name) != 0) {
                add_name(g, list->on[i].info.name);
            }
        }
    }
    for (size_t i = 0; g->known && c->containers[i] != NULL; i++) {
        char near[64] = "";
        if (has_name(g, c->containers[i])) {
            continue;
        }
        for (size_t k = 0; k < g->count; k++) {
            psctl_nearer(c->containers[i], g->names[k].text, near, sizeof(near));
        }
        psctl_error(c, PS_NOT_FOUND, "checkpoint %" PRIu64 " has no container '%.100s'%s%s%s; nothing was saved or restored",
                    number, c->containers[i], near[0] != '\0' ? " (did you mean " : "", near, near[0] != '\0' ? "?)" : "");
        return false;
    }
    for (size_t i = 0; i < g->count; i++) {
        if (is_named(c, g->names[i].text)) {
            g->names[kept++] = g->names[i];
        }
    }
    g->count = kept;
    return true;
}

static void say_each(struct psctl *c, const struct containers *list, const struct goes *g)
{
    for (size_t i = 0; i < g->count && i < SAID_MAX; i++) {
        const char *name = g->names[i].text;
        struct containers_sum sum = containers_sum(list, name);
        char step[160], text[96];
        if (sum.variables > 0 || sum.queues > 0) {
            psctl_note(c, "container '%s' goes back: now at %s, %s", name, step_text(c, name, step, sizeof(step)),
                       containers_sum_text(&sum, text, sizeof(text)));
        } else if (g->known) {
            psctl_note(c, "container '%s' has nothing now, and comes back unless it was reset since", name);
        }
    }
    if (g->count > SAID_MAX) {
        psctl_note(c, "and %zu more containers", g->count - SAID_MAX);
    }
}

static size_t first_row(const struct containers *list, const char *name)
{
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(list->on[middle].info.name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < list->count && strcmp(list->on[low].info.name, name) == 0 ? low : list->count;
}

static bool was_there(const struct containers *before, const struct container_on *row)
{
    for (size_t i = first_row(before, row->info.name); i < before->count && strcmp(before->on[i].info.name, row->info.name) == 0;
         i++) {
        if (before->on[i].task == row->task && before->on[i].info.incarnation == row->info.incarnation) {
            return true;
        }
    }
    return false;
}

/* True if the container was restored: on some task it has another incarnation than before (docs/DURABILITY.md 7.5). */
static bool went_back(const struct containers *before, const struct containers *now, const char *name)
{
    for (size_t i = first_row(now, name); i < now->count && strcmp(now->on[i].info.name, name) == 0; i++) {
        if (now->on[i].info.incarnation != 0 && !was_there(before, &now->on[i])) {
            return true;
        }
    }
    return false;
}

void psctl_goes_mark(struct psctl *c, struct goes *goes)
{
    containers_free(&goes->before);
    goes->marked = containers_ask(c, &goes->before);
}

json_t *psctl_goes_left_out(struct psctl *c, const struct goes *goes)
{
    struct containers now;
    json_t *left = json_array();
    bool heard = containers_ask(c, &now) && goes->marked;
    for (size_t i = 0; heard && i < goes->count; i++) {
        const char *name = goes->names[i].text;
        if (went_back(&goes->before, &now, name)) {
            continue;
        }
        (void)json_array_append_new(left, json_string(name));
        if (json_array_size(left) <= SAID_MAX) {
            psctl_note(c,
                       goes->known ? "container '%s' was left out: it was reset since, and stays as it is"
                                   : "container '%s' stays as it is: the checkpoint does not have it, or it was reset since",
                       name);
        }
    }
    if (json_array_size(left) > SAID_MAX) {
        psctl_note(c, "and %zu more containers", json_array_size(left) - SAID_MAX);
    }
    containers_free(&now);
    if (!heard) {
        psctl_note(c,
                   "whether a container was left out, because it was reset since, is not known, for a task did not answer: the "
                   "directory's log says it (checkpoint_left_out)");
        json_decref(left);
    }
    return heard ? left : NULL;
}

void psctl_goes_free(struct goes *goes)
{
    containers_free(&goes->before);
    free(goes->names);
    memset(goes, 0, sizeof(*goes));
}

static void describe(const struct psctl *c, char *buf, size_t n)
{
    size_t used = (size_t)snprintf(buf, n, c->containers[0] == NULL ? "All containers go" : "Of all containers only ");
    for (size_t i = 0; c->containers[i] != NULL && used < n; i++) {
        used += (size_t)snprintf(buf + used, n - used, "%s'%s'", i > 0 ? ", " : "", c->containers[i]);
    }
    if (c->containers[0] != NULL && used < n) {
        (void)snprintf(buf + used, n - used, c->containers[1] == NULL ? " goes" : " go");
    }
}

enum psctl_exit psctl_restore_confirmed(struct psctl *c, uint64_t number, struct goes *out)
{
    struct sought s = {.number = number};
    struct containers list = {.count = 0};
    char what[1024], step[48] = "";
    int directory = psctl_directory(c);
    if (directory < 0) {
        psctl_error(c, PS_UNAVAILABLE, "the directory does not answer; nothing was restored");
        return PSCTL_FAILED;
    }
    ps_status st = ps_checkpoints(c->session, psctl_left_ms(c), each, &s);
    if (st != PS_OK) {
        return psctl_last_failed(c, st);
    }
    if (s.found.number == 0) {
        psctl_error(c, PS_NOT_FOUND, "there is no checkpoint %" PRIu64 "; nothing was restored", number);
        return PSCTL_FAILED;
    }
    if (!c->yes && isatty(STDIN_FILENO) == 0) {
        return psctl_misused(
            c, "checkpoint restore asks before anything is discarded, and standard input is no terminal: --yes goes "
               "ahead without asking, and saves what is there first (unless --no_save)");
    }
    (void)containers_ask(c, &list);
    if (!take_names(c, number, &list, out)) {
        containers_free(&list);
        return PSCTL_FAILED;
    }
    if (s.found.step >= 0) {
        (void)snprintf(step, sizeof(step), ", step %" PRId64 ",", s.found.step);
    }
    psctl_note(c, "checkpoint %" PRIu64 "%s comes in the place of what these have now%s", number, step,
               c->no_save ? ", which is not saved (--no_save)" : ", which is saved first");
    say_each(c, &list, out);
    containers_free(&list);
    describe(c, what, sizeof(what));
    return psctl_confirmed(c, "%s back to checkpoint %" PRIu64 " on all ps tasks?", what, number) ? PSCTL_OK : PSCTL_FAILED;
}
