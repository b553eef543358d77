/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules of learning rates: rows, formulas, checks, texts.
 *
 * Happy path: while the global step g < warmup_steps, the rate is that of the warm-up; later it is that of the kind, at step
 * s = g - warmup_steps. With r the learning rate and p = s / decay_steps, in float64:
 *   warm-up                 warmup_rate + (r - warmup_rate) g / warmup_steps
 *   constant                r
 *   exponential_decay       r decay_rate^p                                      staircase: floor(p) in place of p
 *   inverse_time_decay      r / (1 + decay_rate p)                              staircase: floor(p) in place of p
 *   polynomial_decay        (r - end) (1 - min(p, 1))^power + end               cycle: decay_steps times max(1, ceil(p))
 *   piecewise_constant      values[i], i = the number of boundaries below s
 *   cosine_decay            r ((1 - alpha) (1 + cos(pi min(p, 1))) / 2 + alpha)
 *   cosine_decay_restarts   r ((1 - alpha) m_mul^i (1 + cos(pi q)) / 2 + alpha), q = the share of period i that is over; period i
 *                           has first_decay_steps t_mul^i steps
 * Sources: TensorFlow 1.15 python/training/learning_rate_decay.py; for the warm-up TensorFlow 2.13
 * keras/optimizers/schedules/learning_rate_schedule.py CosineDecay. Failure: a text or a message with a wrong parameter is
 * refused, naming the parameter. The rate of checked parameters cannot fail. */
#include "schedule.h"

#include "name.h"
#include "power.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LIST = PS_SCHEDULE_BOUNDARIES_MAX, NAMES_MAX = 160 };
_Static_assert(2 * LIST == PS_SCHEDULE_NUMBERS, "boundaries, and a value behind each");

#define FIELD(number_) (offsetof(ps_optimizer, schedule_numbers) + (number_) * sizeof(double))
#define HAS(name_, field_, range_, standard_, text_)                                                                             \
    {                                                                                                                            \
        .name = (name_), .field = (field_), .range = PSI_##range_, .standard = (standard_), .text = (text_)                      \
    }
#define WARMUP                                                                                                                   \
    {.name = "warmup_steps",                                                                                                     \
     .field = offsetof(ps_optimizer, warmup_steps),                                                                              \
     .range = PSI_NOT_NEGATIVE,                                                                                                  \
     .quiet = true,                                                                                                              \
     .text = "steps in which the rate rises to learning_rate; the schedule begins behind them"},                                 \
    {                                                                                                                            \
        .name = "warmup_rate", .field = offsetof(ps_optimizer, warmup_rate), .range = PSI_NOT_NEGATIVE, .quiet = true,           \
        .text = "rate that the warm-up begins with"                                                                              \
    }
#define DECAY_STEPS(name_) HAS(name_, FIELD(0), POSITIVE, NAN, "steps of a decay")
#define STAIRCASE HAS("staircase", offsetof(ps_optimizer, schedule_switch), SWITCH, 0, "the rate falls once in decay_steps")

static const struct psi_schedule_row rows[] = {
    [PS_SCHEDULE_NONE] = {.name = "none"},
    [PS_SCHEDULE_CONSTANT] = {.name = "constant", .parameters = {WARMUP}},
    [PS_SCHEDULE_EXPONENTIAL_DECAY] = {.name = "exponential_decay",
                                       .parameters = {DECAY_STEPS("decay_steps"),
                                                      HAS("decay_rate", FIELD(1), POSITIVE, NAN, "factor of decay_steps steps"),
                                                      STAIRCASE, WARMUP}},
    [PS_SCHEDULE_INVERSE_TIME_DECAY] = {.name = "inverse_time_decay",
                                        .parameters = {DECAY_STEPS("decay_steps"),
                                                       HAS("decay_rate", FIELD(1), NOT_NEGATIVE, NAN,
                                                           "is added to what the rate is divided by, in decay_steps steps"),
                                                       STAIRCASE, WARMUP}},
    [PS_SCHEDULE_POLYNOMIAL_DECAY] = {.name = "polynomial_decay",
                                      .parameters = {DECAY_STEPS("decay_steps"),
                                                     HAS("end_learning_rate", FIELD(1), NOT_NEGATIVE, 0.0001,
                                                         "rate from decay_steps on"),
                                                     HAS("power", FIELD(2), POSITIVE, 1, "of the polynomial; 1: a line"),
                                                     HAS("cycle", offsetof(ps_optimizer, schedule_switch), SWITCH,
                                                         0, "behind decay_steps begin again, with as many more steps"),
                                                     WARMUP}},
    [PS_SCHEDULE_PIECEWISE_CONSTANT] =
        {.name = "piecewise_constant",
         .parameters = {HAS("boundaries", FIELD(0), RISING, NAN, "last step of each rate but the last one, as in 1000/2000"),
                        HAS("values", FIELD(LIST), RATES, NAN, "the rates, one more than boundaries, as in 0.1/0.01/0.001"),
                        WARMUP}},
    [PS_SCHEDULE_COSINE_DECAY] = {.name = "cosine_decay",
                                  .parameters = {DECAY_STEPS("decay_steps"),
                                                 HAS("alpha", FIELD(1), NOT_NEGATIVE, 0, "share of the rate at the end"),
                                                 WARMUP}},
    [PS_SCHEDULE_COSINE_DECAY_RESTARTS] =
        {.name = "cosine_decay_restarts",
         .parameters = {DECAY_STEPS("first_decay_steps"),
                        HAS("t_mul", FIELD(1), AT_LEAST_1, 2, "length of a period by the one before"),
                        HAS("m_mul", FIELD(2), POSITIVE, 1, "first rate of a period by that of the one before"),
                        HAS("alpha", FIELD(3), NOT_NEGATIVE, 0, "share of the rate at the end of a period"), WARMUP}},
};

const struct psi_schedule_row *psi_schedule_row(uint32_t kind)
{
    return kind < sizeof(rows) / sizeof(rows[0]) ? &rows[kind] : NULL;
}

static bool is_list(const struct psi_hyper *h)
{
    return h->range == PSI_RISING || h->range == PSI_RATES;
}

static double number_of(const ps_optimizer *opt, const struct psi_hyper *h, uint32_t i)
{
    return psi_optimizer_double(opt, h->field + i * sizeof(double));
}

static uint32_t boundary_count(const ps_optimizer *opt)
{
    uint32_t count = 0;
    while (count < LIST && opt->schedule_numbers[count] > 0) {
        count++;
    }
    return count;
}

/* The largest whole number <= x, x >= 0. Not floor(), which may be a call of libm. */
static double whole(double x)
{
    return x < 9007199254740992.0 ? (double)(uint64_t)x : x;
}

static double half_wave(double p)
{
    return 0.5 * (1 + psi_cos(3.14159265358979323846 * p));
}

static double polynomial(const ps_optimizer *opt, double at)
{
    const double end = opt->schedule_numbers[1], power = opt->schedule_numbers[2];
    double steps = opt->schedule_numbers[0];
    if (opt->schedule_switch != 0) {
        const double p = at / steps;
        steps *= at == 0 ? 1 : whole(p) + (p > whole(p));
    }
    const double left = 1 - (at < steps ? at / steps : 1);
    return (opt->learning_rate - end) * (power == 1 ? left : psi_pow(left, power)) + end;
}

static double piecewise(const ps_optimizer *opt, double at)
{
    double rate = opt->learning_rate;
    for (uint32_t i = 0; i < LIST && opt->schedule_numbers[i] > 0 && at > opt->schedule_numbers[i]; i++) {
        rate = opt->schedule_numbers[LIST + i];
    }
    return rate;
}

/* Returns where period i begins, in units of first_decay_steps. */
static double begin_of(double t_mul, double i)
{
    return t_mul == 1 ? i : (1 - psi_pow(t_mul, i)) / (1 - t_mul);
}

static double restarts(const ps_optimizer *opt, double at)
{
    const double t_mul = opt->schedule_numbers[1], m_mul = opt->schedule_numbers[2], alpha = opt->schedule_numbers[3];
    const double p = at / opt->schedule_numbers[0];
    double i = t_mul == 1 ? whole(p) : whole(psi_log(1 - p * (1 - t_mul)) / psi_log(t_mul));
    if (p >= begin_of(t_mul, i + 1)) { /* correct i: because logarithms are rounded, it may be 1 too low or too high */
        i++;
    } else if (i > 0 && p < begin_of(t_mul, i)) {
        i--;
    }
    const double share = (p - begin_of(t_mul, i)) / (t_mul == 1 ? 1 : psi_pow(t_mul, i));
    return opt->learning_rate * ((1 - alpha) * (m_mul == 1 ? 1 : psi_pow(m_mul, i)) * half_wave(share) + alpha);
}

double psi_schedule_rate(const ps_optimizer *opt, uint64_t step)
{
    const double rate = opt->learning_rate, *x = opt->schedule_numbers;
    double at = (double)step;
    if (opt->schedule == PS_SCHEDULE_NONE) {
        return rate;
    }
    if (at < opt->warmup_steps) {
        return opt->warmup_rate + (rate - opt->warmup_rate) * (at / opt->warmup_steps);
    }
    at -= opt->warmup_steps;
    const double p = at / x[0], stair = opt->schedule_switch != 0 ? whole(p) : p;
    switch (opt->schedule) {
    case PS_SCHEDULE_EXPONENTIAL_DECAY:
        return rate * psi_pow(x[1], stair);
    case PS_SCHEDULE_INVERSE_TIME_DECAY:
        return rate / (1 + x[1] * stair);
    case PS_SCHEDULE_POLYNOMIAL_DECAY:
        return polynomial(opt, at);
    case PS_SCHEDULE_PIECEWISE_CONSTANT:
        return piecewise(opt, at);
    case PS_SCHEDULE_COSINE_DECAY:
        return rate * ((1 - x[1]) * half_wave(p < 1 ? p : 1) + x[1]);
    case PS_SCHEDULE_COSINE_DECAY_RESTARTS:
        return restarts(opt, at);
    default:
        return rate;
    }
}

static ps_status wrong(const ps_optimizer *opt, const struct psi_hyper *h, double value, const char *must, struct psi_err *err)
{
    char standard[80];
    return psi_fail(err, PS_INVALID_ARGUMENT, "schedule %s: %s is %.15g, it must be %s%s", rows[opt->schedule].name, h->name,
                    value, must, psi_standard_text(h, standard, sizeof(standard)));
}

/* Check that the boundaries rise, and that behind each boundary, and only there, is a rate within the variable's dtype. */
static ps_status check_lists(const ps_optimizer *opt, ps_dtype dtype, struct psi_err *err)
{
    const struct psi_hyper *boundaries = &rows[PS_SCHEDULE_PIECEWISE_CONSTANT].parameters[0], *values = boundaries + 1;
    const uint32_t count = boundary_count(opt);
    if (count == 0) {
        return wrong(opt, boundaries, opt->schedule_numbers[0], "finite and > 0, and each above the one before", err);
    }
    for (uint32_t i = 0; i < LIST; i++) {
        const double at = number_of(opt, boundaries, i);
        if (i < count ? !isfinite(at) || (i > 0 && at <= number_of(opt, boundaries, i - 1)) : at != 0) {
            return psi_fail(
                err, PS_INVALID_ARGUMENT,
                "schedule piecewise_constant: boundaries are out of order: %.15g behind %.15g; each must be finite and "
                "above the one before",
                at, i > 0 ? number_of(opt, boundaries, i - 1) : 0);
        }
    }
    for (uint32_t i = 0; i < LIST; i++) {
        const double rate = number_of(opt, values, i);
        const bool fits = dtype == PS_F32 ? rate <= (double)FLT_MAX && (float)rate > 0 : isfinite(rate) && rate > 0;
        if (i < count ? !fits : rate != 0) {
            return wrong(opt, values, rate, i < count ? "finite and > 0 in the variable's dtype" : "one more than boundaries",
                         err);
        }
    }
    return PS_OK;
}

static bool ends_with_none(const ps_optimizer *opt)
{
    static const uint8_t places[] = {
        [PS_SCHEDULE_POLYNOMIAL_DECAY] = 1, [PS_SCHEDULE_COSINE_DECAY] = 1, [PS_SCHEDULE_COSINE_DECAY_RESTARTS] = 3};
    const uint32_t place = opt->schedule < sizeof(places) ? places[opt->schedule] : 0;
    return place != 0 && opt->schedule_numbers[place] == 0;
}

static bool uses(const struct psi_schedule_row *row, size_t field)
{
    bool used = false;
    for (const struct psi_hyper *h = row->parameters; h->name != NULL; h++) {
        used = used || (field >= h->field && field < h->field + (is_list(h) ? LIST : 1) * sizeof(double));
    }
    return used;
}

ps_status psi_schedule_check(const ps_optimizer *opt, ps_dtype dtype, struct psi_err *err)
{
    const struct psi_schedule_row *row = psi_schedule_row(opt->schedule);
    if (row == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "schedule number %u is unknown", opt->schedule);
    }
    bool odd = !uses(row, offsetof(ps_optimizer, schedule_switch)) && opt->schedule_switch != 0;
    odd = odd || (!uses(row, offsetof(ps_optimizer, warmup_steps)) && (opt->warmup_steps != 0 || opt->warmup_rate != 0));
    for (uint32_t i = 0; i < PS_SCHEDULE_NUMBERS; i++) {
        odd = odd || (!uses(row, FIELD(i)) && opt->schedule_numbers[i] != 0);
    }
    if (odd) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "schedule %s: a number is set that it does not have", row->name);
    }
    for (const struct psi_hyper *h = row->parameters; h->name != NULL; h++) {
        const double value = is_list(h) ? 0 : psi_hyper_value(opt, h);
        if (!is_list(h) && !psi_range_has(h->range, value)) {
            return wrong(opt, h, value, psi_range_text(h->range), err);
        }
    }
    if (opt->kind == PS_OPT_FTRL && ((opt->warmup_steps > 0 && opt->warmup_rate == 0) || ends_with_none(opt))) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "schedule %s: ftrl divides by the learning rate, which must not become 0: give %s a value above 0",
                        row->name,
                        opt->warmup_steps > 0 && opt->warmup_rate == 0  ? "warmup_rate"
                        : opt->schedule == PS_SCHEDULE_POLYNOMIAL_DECAY ? "end_learning_rate"
                                                                        : "alpha");
    }
    return opt->schedule == PS_SCHEDULE_PIECEWISE_CONSTANT ? check_lists(opt, dtype, err) : PS_OK;
}

bool psi_schedule_equal(const ps_optimizer *a, const ps_optimizer *b)
{
    const size_t from = offsetof(ps_optimizer, schedule);
    return memcmp((const char *)a + from, (const char *)b + from, PSI_SCHEDULE_BYTES) == 0;
}

const char *psi_schedule_format(const ps_optimizer *opt, char *buf, size_t n)
{
    const struct psi_schedule_row *row = psi_schedule_row(opt->schedule);
    char text[PSI_SCHEDULE_TEXT_MAX], number[40];
    size_t used = (size_t)snprintf(text, sizeof(text), "%s", row == NULL ? "invalid" : row->name);
    char before = ':';
    for (const struct psi_hyper *h = row == NULL ? rows[PS_SCHEDULE_NONE].parameters : row->parameters; h->name != NULL; h++) {
        if (!is_list(h) && psi_hyper_is_silent(opt, h)) {
            continue;
        }
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%c%s=", before, h->name);
        before = ',';
        if (!is_list(h)) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s",
                                     psi_number_text(psi_hyper_value(opt, h), number, sizeof(number)));
        }
        if (h->range == PSI_RATES) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s/",
                                     psi_number_text(opt->learning_rate, number, sizeof(number)));
        }
        for (uint32_t i = 0; is_list(h) && i < boundary_count(opt); i++) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i == 0 ? "" : "/",
                                     psi_number_text(number_of(opt, h, i), number, sizeof(number)));
        }
        PSI_ASSERT(used < sizeof(text));
    }
    PSI_IGNORE(snprintf(buf, n, "%s", text));
    return buf;
}

static ps_status parse_fail(const char *text, const struct psi_schedule_row *row, struct psi_err *err)
{
    char quoted[PSI_QUOTE_MAX], known[NAMES_MAX];
    size_t used = 0;
    known[0] = '\0';
    for (const struct psi_hyper *h = row->parameters; h->name != NULL; h++) {
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", used == 0 ? "" : ", ", h->name);
    }
    return psi_fail(err, PS_INVALID_ARGUMENT, "schedule %s: %s: parameters are written NAME=NUMBER,...: %s", row->name,
                    psi_quote(quoted, sizeof(quoted), text, strlen(text)), known[0] == '\0' ? "it has none" : known);
}

/* Parse a list "0.1/0.01" of at most `most` numbers. Returns the character behind it; NULL: it is no list. */
static const char *parse_list(const char *p, uint32_t most, double *out, uint32_t *out_count)
{
    for (*out_count = 0; *out_count < most; p++) {
        char *end = NULL;
        out[(*out_count)++] = strtod(p, &end);
        if (end == p || (*end != '/' && *end != ',' && *end != '\0')) {
            return NULL;
        }
        p = end;
        if (*p != '/') {
            return p;
        }
    }
    return NULL;
}

struct said {
    uint32_t boundaries, values;
    bool names[PSI_SCHEDULE_PARAMETERS_MAX];
};

static ps_status parse_one(const char **at, const struct psi_schedule_row *row, ps_optimizer *opt, struct said *said,
                           struct psi_err *err)
{
    const size_t n = strcspn(*at, "=,");
    const struct psi_hyper *h = row->parameters;
    double list[LIST + 1];
    uint32_t count = 0;
    while (h->name != NULL && (strncmp(h->name, *at, n) != 0 || h->name[n] != '\0')) {
        h++;
    }
    const char *end = h->name != NULL && (*at)[n] == '=' ? parse_list(*at + n + 1, LIST + 1, list, &count) : NULL;
    if (h->name != NULL && is_list(h) && count == LIST + 1 && (end == NULL || h->range == PSI_RISING)) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "schedule %s: %s has too many numbers; allowed: %d boundaries, and a value more", row->name, h->name,
                        LIST);
    }
    if (end == NULL || (!is_list(h) && count > 1)) {
        return parse_fail(*at, row, err);
    }
    if (h->range == PSI_SWITCH && !psi_range_has(h->range, list[0])) { /* psi_hyper_set() would take any other number for 1 */
        return wrong(opt, h, list[0], psi_range_text(h->range), err);
    }
    if (said->names[h - row->parameters]) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "schedule %s: %s is given twice", row->name, h->name);
    }
    if (!is_list(h)) {
        psi_hyper_set(opt, h, list[0]);
    } else if (h->range == PSI_RISING) {
        said->boundaries = count;
        memcpy(opt->schedule_numbers, list, count * sizeof(list[0]));
    } else {
        said->values = count;
        opt->learning_rate = list[0];
        memcpy(opt->schedule_numbers + LIST, list + 1, (count - 1) * sizeof(list[0]));
    }
    said->names[h - row->parameters] = true;
    *at = *end == ',' ? end + 1 : end;
    return PS_OK;
}

static const struct psi_schedule_row *find_row(const char *name, size_t n)
{
    for (uint32_t kind = 0; kind < sizeof(rows) / sizeof(rows[0]); kind++) {
        if (strncmp(rows[kind].name, name, n) == 0 && rows[kind].name[n] == '\0') {
            return &rows[kind];
        }
    }
    return NULL;
}

static ps_status unknown(const char *text, size_t n, struct psi_err *err)
{
    char quoted[PSI_QUOTE_MAX], known[NAMES_MAX];
    size_t used = 0;
    for (uint32_t kind = 0; kind < sizeof(rows) / sizeof(rows[0]); kind++) {
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", kind == 0 ? "" : ", ", rows[kind].name);
        PSI_ASSERT(used < sizeof(known));
    }
    return psi_fail(err, PS_INVALID_ARGUMENT, "schedule %s: allowed are %s", psi_quote(quoted, sizeof(quoted), text, n), known);
}

ps_status psi_schedule_parse(const char *text, ps_optimizer *opt, struct psi_err *err)
{
    const size_t n = strcspn(text, ":");
    const struct psi_schedule_row *row = find_row(text, n);
    const size_t from = offsetof(ps_optimizer, schedule);
    ps_optimizer made = *opt;
    struct said said = {.boundaries = 0};
    if (row == NULL) {
        return unknown(text, n, err);
    }
    memset((char *)&made + from, 0, PSI_SCHEDULE_BYTES);
    made.schedule = (uint32_t)(row - rows);
    for (const struct psi_hyper *h = row->parameters; h->name != NULL; h++) {
        if (!is_list(h) && !isnan(h->standard)) {
            psi_hyper_set(&made, h, h->standard);
        }
    }
    for (const char *at = text + n + (text[n] == ':'); *at != '\0';) {
        ps_status st = parse_one(&at, row, &made, &said, err);
        if (st != PS_OK) {
            return st;
        }
    }
    for (const struct psi_hyper *h = row->parameters; h->name != NULL; h++) {
        if (isnan(h->standard) && !said.names[h - row->parameters]) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "schedule %s: give it %s: %s", row->name, h->name, h->text);
        }
    }
    if (said.values != said.boundaries + (made.schedule == PS_SCHEDULE_PIECEWISE_CONSTANT)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "schedule %s: %u values; allowed: %u, one more than boundaries", row->name,
                        said.values, said.boundaries + 1);
    }
    if (made.warmup_steps == 0 && made.warmup_rate > 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "schedule %s: warmup_rate is of a warm-up: give warmup_steps, too", row->name);
    }
    *opt = made;
    return PS_OK;
}
