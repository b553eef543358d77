/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimizers over memory: psd_optim_apply() by segments of 64 KiB beside a plain loop with the same arithmetic, in turns; and
 * what a limit of the elements, l2 and a moving average add. Of LAMB and LARS, which have two passes, the time beside Adam's and
 * Momentum's. Prints one JSON line: of each kind GB of gradients a second and both times as a ratio, which is the median of all
 * turns. The values behind both loops are compared.
 *
 *   optim [MIB of a variable] [TURNS] [NAME of the only kind]     from the repository's root after `make bench-programs`
 */
#include "bare_rules.h"
#include "measure.h"

#include <string.h>

enum { TURNS_MAX = 99, ARRAYS = 2 + PSD_OPTIM_SLOTS_MAX, SEGMENT_ELEMENTS = (64 << 10) / sizeof(float) };

static const struct psd_optim_rule *const bare[] = {
#define BARE(kind, name) [kind] = &psd_rule_##name,
    PSD_RULES(BARE)};

/* Variable, gradient, slots, and a second variable with slots for the plain loop; what is there before is no matter. */
struct memory {
    size_t elements;
    float *a[ARRAYS], *b[ARRAYS];
};
enum { VARIABLE, GRADIENT, SLOTS };

static double median(double *x, int n)
{
    for (int i = 1; i < n; i++) {
        for (int k = i; k > 0 && x[k] < x[k - 1]; k--) {
            const double t = x[k];
            x[k] = x[k - 1];
            x[k - 1] = t;
        }
    }
    return x[n / 2];
}

static void begin(const ps_optimizer *opt, struct psd_optim_scalars *out)
{
    struct psd_optim_state state;
    psd_optim_state_init(opt, PS_F32, &state);
    psd_optim_begin(opt, opt->learning_rate, PS_F32, &state, 0, 1, out);
}

static void reset(struct memory *m, const ps_optimizer *opt)
{
    for (size_t i = 0; i < m->elements; i++) {
        m->a[VARIABLE][i] = m->b[VARIABLE][i] = pattern(i + 7);
        m->a[GRADIENT][i] = pattern(i);
    }
    for (uint32_t k = 0; k < psd_optim_slot_count(opt); k++) {
        for (size_t i = 0; i < m->elements; i++) {
            m->a[SLOTS + k][i] = m->b[SLOTS + k][i] = 0.5F;
        }
    }
}

/* Seconds of one push. */
static double push(const struct memory *m, const ps_optimizer *opt)
{
    struct psd_optim_scalars scalars;
    const double from = now();
    begin(opt, &scalars);
    if (psi_optimizer_is_staged(opt->kind)) {
        struct psd_optim_norms norms = {0};
        void *slots[PSD_OPTIM_SLOTS_MAX] = {m->a[SLOTS], m->a[SLOTS + 1]};
        psd_optim_measure(opt->kind, PS_F32, &scalars, m->a[VARIABLE], slots, m->a[GRADIENT], m->a[GRADIENT], m->elements,
                          &norms);
        psd_optim_scale(opt->kind, PS_F32, &norms, &scalars);
        psd_optim_apply(opt->kind, PS_F32, PS_F32, &scalars, m->a[VARIABLE], slots, m->a[GRADIENT], m->elements);
        return now() - from;
    }
    for (size_t first = 0; first < m->elements; first += SEGMENT_ELEMENTS) {
        const size_t left = m->elements - first, n = left < SEGMENT_ELEMENTS ? left : SEGMENT_ELEMENTS;
        void *slots[PSD_OPTIM_SLOTS_MAX] = {NULL};
        for (uint32_t k = 0; k < psd_optim_slot_count(opt); k++) {
            slots[k] = m->a[SLOTS + k] + first;
        }
        if (psi_optimizer_is_whole(opt->kind)) {
            psd_optim_measure_segment(opt->kind, PS_F32, &scalars, m->a[VARIABLE] + first, slots, m->a[GRADIENT] + first, n);
        } else {
            psd_optim_apply(opt->kind, PS_F32, PS_F32, &scalars, m->a[VARIABLE] + first, slots, m->a[GRADIENT] + first, n);
        }
    }
    if (psi_optimizer_is_whole(opt->kind)) {
        void *slots[PSD_OPTIM_SLOTS_MAX] = {m->a[SLOTS], m->a[SLOTS + 1], m->a[SLOTS + 2]};
        psd_optim_last_pass(opt->kind, PS_F32, &scalars);
        psd_optim_apply(opt->kind, PS_F32, PS_F32, &scalars, m->a[VARIABLE], slots, m->a[SLOTS], m->elements);
    }
    return now() - from;
}

static double push_bare(const struct memory *m, const ps_optimizer *opt)
{
    struct psd_optim_scalars scalars;
    void *slots[PSD_OPTIM_SLOTS_MAX] = {m->b[SLOTS], m->b[SLOTS + 1], m->b[SLOTS + 2]};
    const double from = now();
    begin(opt, &scalars);
    bare[opt->kind]->loops[scalars.form != 0][PSD_LOOP_F32](m->b[VARIABLE], slots, m->a[GRADIENT], m->elements, &scalars);
    return now() - from;
}

static ps_optimizer optimizer_of(uint32_t kind)
{
    const ps_optimizer given = {.struct_bytes = sizeof(given), .learning_rate = 0.001, .momentum = 0.9};
    return psi_optimizer_standard(kind, &given);
}

static void print_kind(struct memory *m, uint32_t kind, int turns, bool *right)
{
    const ps_optimizer opt = optimizer_of(kind);
    double seconds[TURNS_MAX], ratios[TURNS_MAX];
    reset(m, &opt);
    for (int i = -1; i < turns; i++) { /* the first turn is not counted */
        const double a = push(m, &opt), b = push_bare(m, &opt);
        seconds[i < 0 ? 0 : i] = a;
        ratios[i < 0 ? 0 : i] = b / a;
    }
    *right = memcmp(m->a[VARIABLE], m->b[VARIABLE], m->elements * sizeof(float)) == 0;
    printf("\"gb_s\": %.3f, \"vs_bare\": %.3f", 1e-9 * (double)(m->elements * sizeof(float)) / median(seconds, turns),
           median(ratios, turns));
}

/* The time of one optimizer beside that of another one. */
static void print_beside(struct memory *m, const ps_optimizer *opt, const ps_optimizer *other, const char *other_name, int turns)
{
    double seconds[TURNS_MAX], ratios[TURNS_MAX];
    reset(m, opt);
    for (int i = -1; i < turns; i++) {
        const double a = push(m, opt), b = push(m, other);
        seconds[i < 0 ? 0 : i] = a;
        ratios[i < 0 ? 0 : i] = a / b;
    }
    printf("\"gb_s\": %.3f, \"vs_%s\": %.3f", 1e-9 * (double)(m->elements * sizeof(float)) / median(seconds, turns), other_name,
           median(ratios, turns));
}

/* "adam+ema": with what any optimizer may have. */
static ps_optimizer with(ps_optimizer opt, const char *extra)
{
    opt.clip_value = strcmp(extra, "+clip") == 0 ? 0.5 : 0;
    opt.l2 = strcmp(extra, "+l2") == 0 ? 0.001 : 0;
    opt.ema = strcmp(extra, "+ema") == 0 ? 0.999 : 0;
    return opt;
}

int main(int argc, char **argv)
{
    const size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
    const long asked = argc > 2 ? strtol(argv[2], NULL, 10) : 9;
    const char *name = argc > 3 ? argv[3] : "adam", *extra = name + strcspn(name, "+");
    const int turns = asked < 1 ? 1 : asked > TURNS_MAX ? TURNS_MAX : (int)asked;
    struct memory m = {.elements = mib == 0 ? 3 * SEGMENT_ELEMENTS + 7 : (mib << 20) / sizeof(float)};
    uint32_t kind = PS_OPT_SGD;
    bool right = true;
    while (kind < psi_optimizer_row_count && (strncmp(psi_optimizer_name(kind), name, (size_t)(extra - name)) != 0 ||
                                              strlen(psi_optimizer_name(kind)) != (size_t)(extra - name))) {
        kind++;
    }
    if (kind == psi_optimizer_row_count) {
        (void)fprintf(stderr, "no optimizer %s\n", name);
        return 2;
    }
    for (int i = 0; i < ARRAYS; i++) {
        m.a[i] = patterned(m.elements * sizeof(float));
        m.b[i] = patterned(m.elements * sizeof(float));
    }
    const ps_optimizer plain = optimizer_of(kind), other = optimizer_of(kind == PS_OPT_LAMB ? PS_OPT_ADAM : PS_OPT_MOMENTUM);
    printf("{\"mib\": %zu, ", mib);
    if (*extra != '\0') {
        const ps_optimizer more = with(plain, extra);
        print_beside(&m, &more, &plain, "plain", turns);
    } else if (psi_optimizer_is_whole(kind)) {
        print_beside(&m, &plain, &other, psi_optimizer_name(other.kind), turns);
    } else {
        print_kind(&m, kind, turns, &right);
    }
    printf(", \"values\": \"%s\"}\n", right ? "right" : "wrong");
    for (int i = 0; i < ARRAYS; i++) {
        free(m.a[i]);
        free(m.b[i]);
    }
    return 0;
}
