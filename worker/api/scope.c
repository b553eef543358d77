/* SPDX-License-Identifier: Apache-2.0 */
/* Scopes: the name, the container and the device with which a variable is got or created. Happy path: ps_variable_scope_push(),
 * ps_container_push(), ps_device_push() each add a level; psi_api_scope() makes full name, container and requested device of a
 * spec, and records that the name is in use; pop removes the level. Failure modes: a bad name or device, a name too long with its
 * prefix, a pop without a push: nothing changes, and the error sticks: later variables would get a wrong name or device.
 * A failed get releases its name (psi_api_unscope()), so that a repeated get has the automatic name that other workers have. */
#include "api.h"

#include "common/mem.h"
#include "common/msg.h"
#include "common/name.h"

#include <stdio.h>
#include <string.h>

#define NAME_DEFAULT "Variable"
enum { KEY_BYTES_MAX = PS_CONTAINER_BYTES_MAX + 1 + PS_NAME_BYTES_MAX };

struct level {
    struct psi_list link;
    ps_reuse reuse;                   /* of a variable scope: whether names may or must exist already */
    char text[PS_NAME_BYTES_MAX + 1]; /* name of a container, or prefix of all variable scopes so far: "a/b/" */
};
_Static_assert(PS_CONTAINER_BYTES_MAX <= PS_NAME_BYTES_MAX, "struct level holds both");

/* A name under which the session has got a variable. */
struct got {
    uint32_t next; /* unique_name() tries NAME_N from this N on; all lower N are taken */
};

void psi_scopes_init(struct psi_scopes *scopes)
{
    /* a constant seed suffices, because the keys come from the program itself */
    static const uint64_t SEED[2] = {0x5c09e5, 0x6e616d65};
    memset(scopes, 0, sizeof(*scopes));
    (void)snprintf(scopes->container, sizeof(scopes->container), "%s", PSI_CONTAINER_DEFAULT);
    psi_list_init(&scopes->variable_scopes);
    psi_list_init(&scopes->containers);
    psi_map_init(&scopes->names, SEED);
    psi_placer_init(&scopes->placer);
}

static void levels_free(struct psi_list *levels)
{
    struct psi_list *it = NULL;
    while ((it = psi_list_pop_front(levels)) != NULL) {
        psi_free(PSI_CONTAINER_OF(it, struct level, link));
    }
}

void psi_scopes_fini(struct psi_scopes *scopes)
{
    uint64_t cursor = 0;
    void *got = NULL;
    levels_free(&scopes->variable_scopes);
    levels_free(&scopes->containers);
    while (psi_map_next(&scopes->names, &cursor, NULL, NULL, &got)) {
        psi_free(got);
    }
    psi_map_fini(&scopes->names);
    psi_placer_fini(&scopes->placer);
}

void ps_variable_spec_init(ps_variable_spec *spec)
{
    if (spec == NULL) {
        return;
    }
    memset(spec, 0, sizeof(*spec));
    spec->struct_bytes = sizeof(*spec);
}

static size_t make_key(char *key, const char *container, const char *name)
{
    size_t n = strlen(container) + 1;
    size_t bytes = strlen(name);
    PSI_ASSERT(n + bytes <= KEY_BYTES_MAX);
    memcpy(key, container, n);
    memcpy(key + n, name, bytes);
    return n + bytes;
}

static struct got *got_find(const struct psi_scopes *scopes, const char *container, const char *name)
{
    char key[KEY_BYTES_MAX];
    return psi_map_find(&scopes->names, key, make_key(key, container, name));
}

static ps_status got_note(struct psi_scopes *scopes, const struct psi_scoped *scoped, struct psi_err *err)
{
    char key[KEY_BYTES_MAX];
    struct got *got = psi_calloc(1, sizeof(*got));
    if (got == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory");
    }
    got->next = 1;
    ps_status st = psi_map_put(&scopes->names, key, make_key(key, scoped->container, scoped->name), got, NULL, err);
    if (st != PS_OK) {
        psi_free(got);
    }
    return st;
}

static struct level *innermost(const struct psi_list *levels)
{
    return psi_list_empty(levels) ? NULL : PSI_CONTAINER_OF(levels->prev, struct level, link);
}

static ps_reuse reuse_now(const struct psi_scopes *scopes)
{
    for (struct psi_list *it = scopes->variable_scopes.prev; it != &scopes->variable_scopes; it = it->prev) {
        const struct level *level = PSI_CONTAINER_OF(it, struct level, link);
        if (level->reuse != PS_REUSE_AUTO) {
            return level->reuse;
        }
    }
    return PS_REUSE_AUTO;
}

static ps_status full_name(const char *prefix, const char *name, struct psi_scoped *out, struct psi_err *err)
{
    char full[2 * (PS_NAME_BYTES_MAX + 1)];
    if (strlen(name) > PS_NAME_BYTES_MAX) {
        return psi_variable_name_check(name, strlen(name), err);
    }
    int bytes = snprintf(full, sizeof(full), "%s%s", prefix, name);
    PSI_ASSERT(bytes >= 0 && (size_t)bytes < sizeof(full));
    ps_status st = psi_variable_name_check(full, (size_t)bytes, err);
    if (st == PS_OK) {
        memcpy(out->name, full, (size_t)bytes + 1);
    }
    return st;
}

/* Make the name unique: of NAME, NAME_1, NAME_2 ... the first under which the session has got no variable. */
static ps_status unique_name(const struct psi_scopes *scopes, struct psi_scoped *out, struct psi_err *err)
{
    struct got *base = got_find(scopes, out->container, out->name);
    char text[PS_NAME_BYTES_MAX + 16];
    if (base == NULL) {
        return PS_OK;
    }
    out->base_bytes = strlen(out->name);
    for (;; base->next++) {
        int bytes = snprintf(text, sizeof(text), "%s_%u", out->name, base->next);
        ps_status st = psi_variable_name_check(text, (size_t)bytes, err);
        if (st != PS_OK) {
            return st;
        }
        if (got_find(scopes, out->container, text) == NULL) {
            memcpy(out->name, text, (size_t)bytes + 1);
            return PS_OK;
        }
    }
}

static ps_status make_name(const struct psi_scopes *scopes, const ps_variable_spec *spec, enum psi_scope_how how,
                           struct psi_scoped *out, struct psi_err *err)
{
    const struct level *scope = how != PSI_SCOPE_GLOBAL ? innermost(&scopes->variable_scopes) : NULL;
    const struct level *container = how != PSI_SCOPE_GLOBAL ? innermost(&scopes->containers) : NULL;
    ps_reuse reuse = how == PSI_SCOPE_GET ? reuse_now(scopes) : PS_REUSE_AUTO;
    bool automatic = how == PSI_SCOPE_GET && (spec->name == NULL || spec->name[0] == '\0');
    (void)snprintf(out->container, sizeof(out->container), "%s", container != NULL ? container->text : scopes->container);
    ps_status st = full_name(scope != NULL ? scope->text : "", automatic ? NAME_DEFAULT : spec->name, out, err);
    if (st == PS_OK && (automatic || (how == PSI_SCOPE_GET && spec->unique))) {
        st = unique_name(scopes, out, err);
    }
    if (st != PS_OK) {
        return st;
    }
    out->first = got_find(scopes, out->container, out->name) == NULL;
    out->must_exist = how == PSI_SCOPE_FIND || reuse == PS_REUSE_ALWAYS;
    if (!out->first && reuse == PS_REUSE_NEVER) {
        return psi_fail(err, PS_ALREADY_EXISTS,
                        "variable '%s' in container '%s': this session has got it already and its scope says PS_REUSE_NEVER; "
                        "choose another name or set unique",
                        out->name, out->container);
    }
    return PS_OK;
}

/* Record that the session gets the variable, and choose out->place by the open device scopes, with spec->device as the innermost
 * one. A variable that must exist gets no place. A failure does not advance the round-robin over the ps tasks. */
static ps_status make_place(struct psi_scopes *scopes, const ps_variable_spec *spec, struct psi_scoped *out, struct psi_err *err)
{
    ps_status st = spec->device != NULL ? psi_placer_push(&scopes->placer, spec->device, err) : PS_OK;
    if (st != PS_OK) {
        return st;
    }
    st = out->first ? got_note(scopes, out, err) : PS_OK;
    if (st == PS_OK && !out->must_exist) {
        uint64_t bytes = (uint64_t)ps_shape_elements(&spec->shape) * ps_dtype_bytes(spec->dtype);
        psi_placer_place(&scopes->placer, spec->type, bytes, &out->place);
    }
    if (spec->device != NULL) {
        PSI_IGNORE(psi_placer_pop(&scopes->placer, NULL)); /* pushed above, so that this cannot fail */
    }
    return st;
}

ps_status psi_api_scope(ps_session *s, const ps_variable_spec *spec, enum psi_scope_how how, const struct psi_queue_spec *queue,
                        struct psi_scoped *out, struct psi_err *err)
{
    memset(out, 0, sizeof(*out));
    /* a queue without a name is refused: other sessions would not find it by an automatic name */
    if (queue != NULL && spec->name[0] == '\0') {
        return psi_variable_name_check(spec->name, 0, err);
    }
    (void)pthread_mutex_lock(&s->lock);
    ps_status st = make_name(&s->scopes, spec, how, out, err);
    if (st == PS_OK) {
        if (how != PSI_SCOPE_FIND) {
            st = queue != NULL ? psi_queue_spec_check(queue, err) : psi_client_definition_check(spec, err);
        }
        st = st == PS_OK ? make_place(&s->scopes, spec, out, err) : st;
        if (st != PS_OK) {
            psi_err_prefix(err, "%s '%s'", queue != NULL ? "queue" : "variable", out->name);
        }
    }
    (void)pthread_mutex_unlock(&s->lock);
    return st;
}

ps_status psi_api_scope_name(ps_session *s, const char *name, struct psi_scoped *out, struct psi_err *err)
{
    ps_variable_spec spec;
    ps_variable_spec_init(&spec);
    spec.name = name;
    memset(out, 0, sizeof(*out));
    if (name[0] == '\0') {
        return psi_variable_name_check(name, 0, err);
    }
    (void)pthread_mutex_lock(&s->lock);
    ps_status st = make_name(&s->scopes, &spec, PSI_SCOPE_FIND, out, err);
    (void)pthread_mutex_unlock(&s->lock);
    return st;
}

ps_status psi_api_scope_row(ps_session *s, const char *type, const char *device, char *prefix, struct psi_device *out,
                            struct psi_err *err)
{
    struct psi_request_place place;
    (void)pthread_mutex_lock(&s->lock);
    const struct level *scope = innermost(&s->scopes.variable_scopes);
    memset(prefix, 0, PS_NAME_BYTES_MAX + 1);
    if (scope != NULL) {
        memcpy(prefix, scope->text, sizeof(scope->text));
    }
    ps_status st = device != NULL ? psi_placer_push(&s->scopes.placer, device, err) : PS_OK;
    if (st == PS_OK) {
        psi_placer_place(&s->scopes.placer, type, 0, &place);
        *out = place.device;
    }
    if (st == PS_OK && device != NULL) {
        PSI_IGNORE(psi_placer_pop(&s->scopes.placer, NULL)); /* pushed above, so that this cannot fail */
    }
    (void)pthread_mutex_unlock(&s->lock);
    return st;
}

void psi_api_unscope(ps_session *s, const struct psi_scoped *scoped)
{
    char key[KEY_BYTES_MAX];
    char base[PS_NAME_BYTES_MAX + 1] = "";
    if (!scoped->first) {
        return;
    }
    memcpy(base, scoped->name, scoped->base_bytes);
    (void)pthread_mutex_lock(&s->lock);
    psi_free(psi_map_remove(&s->scopes.names, key, make_key(key, scoped->container, scoped->name)));
    struct got *got = scoped->base_bytes > 0 ? got_find(&s->scopes, scoped->container, base) : NULL;
    if (got != NULL) {
        got->next = 1;
    }
    (void)pthread_mutex_unlock(&s->lock);
}

ps_status psi_api_scope_failed(ps_session *s, struct psi_err *err, const char *what)
{
    psi_err_prefix(err, "%s", what);
    ps_status st = psi_api_last_error_set(err);
    if (s != NULL) {
        PSI_IGNORE(psi_api_stick(s, err)); /* this function returns err->code even if the session has an earlier error */
    }
    return st;
}

static ps_status level_push(ps_session *s, struct psi_list *levels, const char *text, ps_reuse reuse, struct psi_err *err)
{
    struct level *level = psi_calloc(1, sizeof(*level));
    if (level == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for a scope");
    }
    (void)snprintf(level->text, sizeof(level->text), "%s", text);
    level->reuse = reuse;
    psi_list_init(&level->link);
    (void)pthread_mutex_lock(&s->lock);
    psi_list_push_back(levels, &level->link);
    (void)pthread_mutex_unlock(&s->lock);
    return PS_OK;
}

static ps_status level_pop(ps_session *s, struct psi_list *levels, const char *what, struct psi_err *err)
{
    (void)pthread_mutex_lock(&s->lock);
    struct level *level = innermost(levels);
    if (level != NULL) {
        psi_list_remove(&level->link);
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (level == NULL) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "no %s scope is open: a pop without its push", what);
    }
    psi_free(level);
    return PS_OK;
}

static ps_status make_prefix(ps_session *s, const char *name, char *prefix, struct psi_err *err)
{
    struct psi_scoped full = {.name = ""};
    char outer[PS_NAME_BYTES_MAX + 1] = "";
    (void)pthread_mutex_lock(&s->lock);
    const struct level *level = innermost(&s->scopes.variable_scopes);
    if (level != NULL) {
        memcpy(outer, level->text, sizeof(outer));
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (name == NULL || name[0] == '\0') {
        memcpy(prefix, outer, sizeof(outer));
        return PS_OK;
    }
    ps_status st = full_name(outer, name, &full, err);
    if (st == PS_OK && strlen(full.name) + 2 > PS_NAME_BYTES_MAX) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "'%s': no variable's name fits after it, the most is %d bytes", full.name,
                      PS_NAME_BYTES_MAX);
    }
    if (st == PS_OK) {
        (void)snprintf(prefix, PS_NAME_BYTES_MAX + 1, "%s/", full.name);
    }
    return st;
}

ps_status ps_variable_scope_push(ps_session *s, const char *name, ps_reuse reuse)
{
    struct psi_err err = {0};
    char prefix[PS_NAME_BYTES_MAX + 1] = "";
    ps_status st = psi_api_check(s, false, &err);
    if (st == PS_OK && reuse != PS_REUSE_AUTO && reuse != PS_REUSE_NEVER && reuse != PS_REUSE_ALWAYS) {
        st = psi_fail(&err, PS_INVALID_ARGUMENT, "reuse: %d is none of PS_REUSE_*", (int)reuse);
    }
    st = st == PS_OK ? make_prefix(s, name, prefix, &err) : st;
    st = st == PS_OK ? level_push(s, &s->scopes.variable_scopes, prefix, reuse, &err) : st;
    return st == PS_OK ? PS_OK : psi_api_scope_failed(s, &err, "ps_variable_scope_push");
}

ps_status ps_variable_scope_pop(ps_session *s)
{
    struct psi_err err = {0};
    ps_status st = psi_api_check(s, false, &err);
    st = st == PS_OK ? level_pop(s, &s->scopes.variable_scopes, "variable", &err) : st;
    return st == PS_OK ? PS_OK : psi_api_scope_failed(s, &err, "ps_variable_scope_pop");
}

ps_status ps_container_push(ps_session *s, const char *name)
{
    struct psi_err err = {0};
    const char *text = name != NULL ? name : "";
    ps_status st = psi_api_check(s, false, &err);
    st = st == PS_OK ? psi_container_name_check(text, strlen(text), &err) : st;
    st = st == PS_OK ? level_push(s, &s->scopes.containers, text, PS_REUSE_AUTO, &err) : st;
    return st == PS_OK ? PS_OK : psi_api_scope_failed(s, &err, "ps_container_push");
}

ps_status ps_container_pop(ps_session *s)
{
    struct psi_err err = {0};
    ps_status st = psi_api_check(s, false, &err);
    st = st == PS_OK ? level_pop(s, &s->scopes.containers, "container", &err) : st;
    return st == PS_OK ? PS_OK : psi_api_scope_failed(s, &err, "ps_container_pop");
}
