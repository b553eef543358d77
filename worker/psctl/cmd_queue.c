/* SPDX-License-Identifier: Apache-2.0 */
/* psctl queue: put an element into a queue, take elements out, close the queue. Values are read as by psctl set and printed as by
 * psctl get, one component after the other. Failure modes: the library's texts; elements that were taken do not go back. */
#include "psctl.h"

#include "show.h"

#include <stdlib.h>
#include <string.h>

static bool put_component(const struct psctl *c, ps_tuple *t, const ps_component *component, const char *text)
{
    char error[VALUE_ERROR_MAX] = "";
    static const ps_shape scalar;
    const ps_shape *shape = component->shaped ? &component->shape : &scalar;
    const ps_shape *said = component->shaped ? NULL : &scalar;
    size_t bytes = (size_t)ps_shape_elements(shape) * ps_dtype_bytes(component->dtype);
    struct value_strings strings = {.texts = NULL};
    void *data = malloc(bytes > 0 ? bytes : 1);
    bool is_text = component->dtype == PS_STRING;
    bool good = data != NULL && (is_text ? value_parse_strings(text, shape, false, &strings, error)
                                         : value_parse(text, component->dtype, shape, false, data, error));
    if (!good) {
        psctl_error(c, data != NULL ? PS_INVALID_ARGUMENT : PS_RESOURCE_EXHAUSTED, "queue '%s': %s", c->argv[0],
                    data != NULL ? error : "out of memory");
    } else {
        ps_status st = is_text ? ps_tuple_put_strings(t, said, strings.texts, strings.lengths, strings.count)
                               : ps_tuple_put(t, said, data, bytes);
        good = st == PS_OK;
        if (!good) {
            (void)psctl_last_failed(c, st);
        }
    }
    free(data);
    value_strings_free(&strings);
    return good;
}

static enum psctl_exit put_element(struct psctl *c, ps_queue *q, ps_tuple *t)
{
    const ps_queue_spec *spec = ps_queue_spec_of(q);
    if ((uint32_t)c->argc - 2 != spec->component_count) {
        return psctl_misused(c, "queue '%s' has elements of %u components: put needs as many values", c->argv[0],
                             spec->component_count);
    }
    for (uint32_t i = 0; i < spec->component_count; i++) {
        if (!put_component(c, t, &spec->components[i], c->argv[2 + i])) {
            return PSCTL_FAILED;
        }
    }
    ps_status st = ps_enqueue_tuple(q, t, psctl_left_ms(c), NULL);
    return st == PS_OK ? PSCTL_OK : psctl_change_failed(c, st);
}

static ps_status show_strings(const struct psctl *c, ps_tuple *t, uint32_t i)
{
    const char *text = NULL;
    size_t bytes = 0;
    ps_shape shape = PS_SCALAR;
    ps_status st = ps_tuple_get_string(t, 0, i, 0, &text, &bytes, &shape);
    /* an empty tensor has no string 0: that is no error */
    st = st == PS_OUT_OF_RANGE && ps_shape_elements(&shape) == 0 ? PS_OK : st;
    size_t count = st == PS_OK ? (size_t)ps_shape_elements(&shape) : 0;
    size_t *offsets = calloc(count + 1, sizeof(*offsets));
    const char *first = text; /* the strings lie one behind the other, from here on */
    for (size_t j = 0; st == PS_OK && offsets != NULL && j < count; j++) {
        st = ps_tuple_get_string(t, 0, i, j, &text, &bytes, NULL);
        offsets[j + 1] = offsets[j] + bytes;
    }
    if (st == PS_OK && offsets != NULL) {
        (void)values_show(NULL, c->json, PS_STRING, &shape, &(struct values){first, offsets});
    }
    st = offsets != NULL ? st : PS_RESOURCE_EXHAUSTED;
    free(offsets);
    return st;
}

static ps_status show_element(const struct psctl *c, const ps_queue_spec *spec, ps_tuple *t)
{
    ps_status st = PS_OK;
    if (c->json) {
        cli_json_list(NULL);
    }
    for (uint32_t i = 0; st == PS_OK && i < spec->component_count; i++) {
        const void *data = NULL;
        ps_shape shape;
        if (spec->components[i].dtype == PS_STRING) {
            st = show_strings(c, t, i);
            continue;
        }
        st = ps_tuple_get(t, 0, i, &data, NULL, &shape);
        if (st == PS_OK) {
            (void)values_show(NULL, c->json, spec->components[i].dtype, &shape, &(struct values){.data = data});
        }
    }
    if (c->json) {
        cli_json_end();
    }
    return st;
}

static enum psctl_exit take_elements(struct psctl *c, ps_queue *q, ps_tuple *t)
{
    char *end = NULL;
    long count = c->argc > 2 ? strtol(c->argv[2], &end, 10) : 1;
    if (c->argc > 3 || count < 1 || (end != NULL && *end != '\0')) {
        return psctl_misused(c, "take takes a number of elements, 1 or more; see psctl queue --help");
    }
    ps_status st = PS_OK;
    psctl_answer(c);
    if (c->json) {
        cli_json_put("name", json_string(ps_queue_name(q)));
        cli_json_list("elements");
    }
    for (long i = 0; st == PS_OK && i < count; i++) {
        st = ps_dequeue_tuple(q, t, 1, false, psctl_left_ms(c));
        st = st == PS_OK ? show_element(c, ps_queue_spec_of(q), t) : st;
    }
    if (c->json) {
        cli_json_end();
    }
    psctl_answer_end(c);
    if (st != PS_OK) {
        char text[1024];
        /* not as JSON: the answer already has the elements taken before the error */
        (void)fprintf(stderr, "psctl: %s\n", psctl_change_error(c, text, sizeof(text)));
    }
    return st == PS_OK ? PSCTL_OK : PSCTL_FAILED;
}

static enum psctl_exit run_queue(struct psctl *c)
{
    const char *what = c->argv[1];
    bool puts = strcmp(what, "put") == 0, takes = strcmp(what, "take") == 0, cancels = strcmp(what, "cancel") == 0;
    if (!puts && !takes && ((strcmp(what, "close") != 0 && !cancels) || c->argc > 2)) {
        return psctl_misused(c, "queue '%s': put VALUE..., take [COUNT], close or cancel; see psctl queue --help", c->argv[0]);
    }
    enum psctl_exit code = psctl_connect(c);
    if (code != PSCTL_OK) {
        return code;
    }
    ps_queue *q = NULL;
    ps_status st = ps_queue_find(c->session, c->argv[0], &q);
    /* psctl must not take an item of work: it would be handed out again when psctl ends, as after a worker's death */
    if (st == PS_OK && ps_queue_spec_of(q)->kind == PS_QUEUE_WORK) {
        psctl_error(c, PS_FAILED_PRECONDITION, "'%s' is a work queue: programs take its items; psctl work shows them",
                    c->argv[0]);
        return PSCTL_FAILED;
    }
    if (st == PS_OK && ps_queue_spec_of(q)->kind >= PS_QUEUE_ACCUMULATOR) { /* dense or sparse */
        psctl_error(c, PS_FAILED_PRECONDITION,
                    "'%s' is an accumulator: programs apply and take its gradients; psctl queues shows it", c->argv[0]);
        return PSCTL_FAILED;
    }
    if (st == PS_OK && !puts && !takes) {
        st = ps_queue_close(q, cancels, psctl_left_ms(c));
        return st == PS_OK ? PSCTL_OK : psctl_change_failed(c, st);
    }
    if (st != PS_OK) {
        return psctl_last_failed(c, st);
    }
    ps_tuple *t = ps_tuple_new(q);
    if (t == NULL) {
        psctl_error(c, PS_RESOURCE_EXHAUSTED, "out of memory for an element");
        return PSCTL_FAILED;
    }
    code = puts ? put_element(c, q, t) : take_elements(c, q, t);
    ps_tuple_free(t);
    return code;
}

const struct psctl_verb psctl_verb_queue = {
    .name = "queue",
    .look = "queues",
    .arguments = "NAME put VALUE... | take [COUNT] | close | cancel",
    .summary = "put into a queue, take out of it, close it",
    .args_min = 2,
    .args_max = PSCTL_ARGS_MANY,
    .flags = PSCTL_FLAG(CONTAINER),
    .words = "queue_name put take close cancel",
    .run = run_queue,
    .help =
        "put takes a VALUE for each component of an element, as psctl set does, one value where the queue declares no shape,\n"
        "and waits while the queue is full; take waits for each element and prints it as psctl get does. --timeout bounds\n"
        "both. close: nothing is put in any more behind those that wait to put; cancel: they end at once.\n",
};
