/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common/schedule.c: the rates of TensorFlow's formulas (schedule_vectors.h, made by schedule_vectors.py), the text of each
 * schedule read again, and what is refused. A rate may differ by a part in 2^50 of itself, or of the learning rate where it is
 * near 0: pow(), log() and cos() of two libraries are within a unit in the last place of each other.
 */
#include "test.h"

#include "common/schedule.h"

#include <math.h>

#include "schedule_vectors.h"

static ps_optimizer made(const char *text, double rate)
{
    struct psi_err err;
    ps_optimizer opt = *ps_sgd(rate);
    assert_ok(psi_schedule_parse(text, &opt, &err), &err);
    assert_ok(psi_optimizer_check(&opt, PS_F32, &err), &err);
    return opt;
}

TEST(test_rates)
{
    bool seen[PS_SCHEDULE_COSINE_DECAY_RESTARTS + 1] = {true};
    for (size_t i = 0; i < ARRAY_COUNT(schedule_vectors); i++) {
        const ps_optimizer opt = made(schedule_vectors[i].text, 0.1);
        assert_true(opt.learning_rate == schedule_vectors[i].rate);
        seen[opt.schedule] = true;
        for (size_t k = 0; k < ARRAY_COUNT(schedule_steps); k++) {
            const double want = schedule_vectors[i].expected[k], got = psi_schedule_rate(&opt, schedule_steps[k]);
            if (!(fabs(got - want) <= 0x1p-50 * fmax(fabs(want), opt.learning_rate))) {
                fail_msg("%s at step %llu: %.17g, expected %.17g", schedule_vectors[i].text,
                         (unsigned long long)schedule_steps[k], got, want);
            }
        }
    }
    for (uint32_t kind = 0; psi_schedule_row(kind) != NULL; kind++) {
        assert_true(seen[kind]);
    }
    assert_null(psi_schedule_row(ARRAY_COUNT(seen)));
}

/* A period of a restart begins where it should, although log() may round its number down. */
TEST(test_restarts_begin)
{
    const ps_optimizer opt = made("cosine_decay_restarts:first_decay_steps=3,t_mul=3", 0.5);
    for (uint64_t length = 3, begin = 0; begin < 1000000000000; begin += length, length *= 3) {
        assert_true(psi_schedule_rate(&opt, begin) == 0.5);
        assert_true(begin == 0 || psi_schedule_rate(&opt, begin - 1) < 0.45);
    }
}

/* No step is too large for any schedule. */
TEST(test_far_steps)
{
    for (size_t i = 0; i < ARRAY_COUNT(schedule_vectors); i++) {
        const ps_optimizer opt = made(schedule_vectors[i].text, 0.1);
        for (uint32_t bit = 20; bit < 64; bit++) {
            const double rate = psi_schedule_rate(&opt, UINT64_C(1) << bit);
            assert_true(rate >= 0 && rate <= 0.5);
        }
        assert_true(psi_schedule_rate(&opt, UINT64_MAX) >= 0);
    }
}

TEST(test_texts)
{
    char text[PSI_SCHEDULE_TEXT_MAX], all[PSI_OPTIMIZER_TEXT_MAX];
    struct psi_err err;
    for (size_t i = 0; i < ARRAY_COUNT(schedule_vectors); i++) {
        const ps_optimizer opt = made(schedule_vectors[i].text, 0.1);
        const ps_optimizer again = made(psi_schedule_format(&opt, text, sizeof(text)), 7);
        ps_optimizer other = *ps_sgd(opt.learning_rate);
        assert_true(psi_schedule_equal(&opt, &again));
        assert_false(psi_optimizer_equal(&opt, &other));
        assert_true(psi_optimizer_fits(&opt, &other)); /* a chief may change it */
        assert_non_null(strstr(psi_optimizer_format(&opt, all, sizeof(all)), text));
        other = opt;
        assert_ok(psi_schedule_parse("none", &other, &err), &err);
        assert_true(psi_optimizer_equal(&other, ps_sgd(opt.learning_rate)));
    }
    ps_optimizer longest = made("piecewise_constant:boundaries=1/2/3/4/5/6,values=1/1/1/1/1/1/1,warmup_steps=1", 1);
    longest.learning_rate = longest.warmup_steps = longest.warmup_rate = 1.2345678901234567e-300;
    for (uint32_t i = 0; i < PS_SCHEDULE_NUMBERS; i++) {
        longest.schedule_numbers[i] = 1.2345678901234567e-300;
    }
    const char *end = strrchr(psi_schedule_format(&longest, text, sizeof(text)), ',');
    assert_true(strlen(text) > 360 && strncmp(end, ",warmup_rate=1.2345", 19) == 0 &&
                strcmp(end + strlen(end) - 5, "e-300") == 0);
    longest.kind = PS_OPT_FTRL;
    longest.power = longest.initial_accumulator = longest.l1_strength = longest.l2_strength = -1.2345678901234567e-300;
    longest.l2_shrinkage = longest.l2 = longest.clip_value = longest.ema = longest.ema_updates = -1.2345678901234567e-300;
    end = strrchr(psi_optimizer_format(&longest, all, sizeof(all)), ',');
    assert_true(strlen(all) > 560 && strncmp(end, ",warmup_rate=1.2345", 19) == 0 &&
                strcmp(end + strlen(end) - 6, "e-300)") == 0);
}

TEST(test_bad_texts)
{
    static const struct {
        const char *text, *fault;
    } rows[] = {
        {"cosine_decay:decay_steps=1,decay_steps=2", "schedule cosine_decay: decay_steps is given twice"},
        {"constant:warmup_rate=1", "schedule constant: warmup_rate is of a warm-up: give warmup_steps, too"},
        {"piecewise_constant:boundaries=1/2/3/4/5/6/7,values=1/1/1/1/1/1/1/1",
         "boundaries has too many numbers; allowed: 6 boundaries, and a value more"},
        {"piecewise_constant:boundaries=1,values=1/1/1/1/1/1/1/1", "values has too many numbers; allowed: 6"},
        {"cosine", "schedule 'cosine': allowed are none, constant, exponential_decay, inverse_time_decay, polynomial_decay, "
                   "piecewise_constant, cosine_decay, cosine_decay_restarts"},
        {"", "schedule '': allowed are"},
        {"none:decay_steps=1", "schedule none: 'decay_steps=1': parameters are written NAME=NUMBER,...: it has none"},
        {"cosine_decay", "schedule cosine_decay: give it decay_steps: steps of a decay"},
        {"cosine_decay:alpha=0.1", "give it decay_steps"},
        {"cosine_decay:decay_steps=x", "NAME=NUMBER,...: decay_steps, alpha, warmup_steps, warmup_rate"},
        {"cosine_decay:decay_steps=10/20", "'decay_steps=10/20'"},
        {"cosine_decay:decay_steps", "'decay_steps'"},
        {"cosine_decay:decay=10", "'decay=10'"},
        {"exponential_decay:decay_steps=10,decay_rate=0.5,staircase=2",
         "staircase is 2, it must be 0 or 1; its standard value is 0"},
        {"piecewise_constant:values=0.1/0.2", "give it boundaries"},
        {"piecewise_constant:boundaries=10", "give it values"},
        {"piecewise_constant:boundaries=10/20,values=0.1/0.2", "2 values; allowed: 3, one more than boundaries"},
        {"piecewise_constant:boundaries=1/,values=0.1", "'boundaries=1/,values=0.1'"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_err err;
        ps_optimizer opt = *ps_adam(0.25);
        assert_fails(psi_schedule_parse(rows[i].text, &opt, &err), PS_INVALID_ARGUMENT, &err, rows[i].fault);
        assert_true(psi_optimizer_equal(&opt, ps_adam(0.25)));
    }
}

TEST(test_bad_values)
{
    static const struct {
        const char *text, *fault;
    } rows[] = {
        {"cosine_decay:decay_steps=0", "sgd: schedule cosine_decay: decay_steps is 0, it must be finite and > 0"},
        {"cosine_decay:decay_steps=nan", "decay_steps is nan"},
        {"cosine_decay:decay_steps=1,alpha=-0.5", "alpha is -0.5, it must be finite and >= 0"},
        {"cosine_decay:decay_steps=1,warmup_steps=-1", "warmup_steps is -1"},
        {"cosine_decay:decay_steps=1,warmup_steps=1,warmup_rate=inf", "warmup_rate is inf"},
        {"cosine_decay_restarts:first_decay_steps=1,t_mul=0.5", "t_mul is 0.5, it must be finite and >= 1"},
        {"cosine_decay_restarts:first_decay_steps=1,m_mul=0", "m_mul is 0"},
        {"exponential_decay:decay_steps=1,decay_rate=0", "decay_rate is 0"},
        {"inverse_time_decay:decay_steps=1,decay_rate=-1", "decay_rate is -1"},
        {"polynomial_decay:decay_steps=1,power=0", "power is 0"},
        {"polynomial_decay:decay_steps=1,end_learning_rate=-1", "end_learning_rate is -1"},
        {"piecewise_constant:boundaries=20/10,values=0.1/0.2/0.3", "boundaries are out of order: 10 behind 20"},
        {"piecewise_constant:boundaries=10/10,values=0.1/0.2/0.3", "boundaries are out of order: 10 behind 10"},
        {"piecewise_constant:boundaries=0,values=0.1/0.2", "boundaries is 0, it must be finite and > 0"},
        {"piecewise_constant:boundaries=10/-1,values=0.1/0.2/0.3", "boundaries are out of order: -1 behind"},
        {"piecewise_constant:boundaries=10/0/30,values=0.1/0.2/0.3/0.4", "boundaries are out of order: 30 behind 0"},
        {"piecewise_constant:boundaries=10/inf,values=0.1/0.2/0.3", "boundaries are out of order: inf behind 10"},
        {"piecewise_constant:boundaries=10,values=0.1/0", "values is 0"},
        {"piecewise_constant:boundaries=10,values=0.1/1e-60",
         "values is 1e-60, it must be finite and > 0 in the variable's dtype"},
        {"piecewise_constant:boundaries=10,values=0/1", "learning_rate is 0"},
    };
    struct psi_err err;
    ps_optimizer opt;
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        opt = *ps_sgd(0.1);
        assert_ok(psi_schedule_parse(rows[i].text, &opt, &err), &err);
        assert_fails(psi_optimizer_check(&opt, PS_F32, &err), PS_INVALID_ARGUMENT, &err, rows[i].fault);
    }
    opt = made("cosine_decay:decay_steps=10", 0.1);
    opt.schedule_numbers[5] = 1;
    assert_fails(psi_optimizer_check(&opt, PS_F32, &err), PS_INVALID_ARGUMENT, &err,
                 "cosine_decay: a number is set that it does not");
    opt = made("cosine_decay:decay_steps=10", 0.1);
    opt.schedule_switch = 1;
    assert_fails(psi_optimizer_check(&opt, PS_F32, &err), PS_INVALID_ARGUMENT, &err, "a number is set");
    opt = *ps_sgd(0.1);
    opt.warmup_steps = 10;
    assert_fails(psi_optimizer_check(&opt, PS_F32, &err), PS_INVALID_ARGUMENT, &err, "schedule none: a number is set");
    opt.schedule = 99;
    assert_fails(psi_optimizer_check(&opt, PS_F32, &err), PS_INVALID_ARGUMENT, &err, "schedule number 99");
    opt = *ps_no_optimizer();
    opt.schedule = PS_SCHEDULE_CONSTANT;
    assert_fails(psi_optimizer_check(&opt, PS_I64, &err), PS_INVALID_ARGUMENT, &err, "no learning rate");
}

/* FTRL divides by the rate: a schedule that comes to 0 would make the model NaN. */
TEST(test_ftrl)
{
    static const struct {
        const char *text, *fault; /* NULL: it is fine */
    } rows[] = {
        {"constant:warmup_steps=10", "give warmup_rate a value above 0"},
        {"constant:warmup_steps=10,warmup_rate=0.01", NULL},
        {"cosine_decay:decay_steps=10", "give alpha"},
        {"cosine_decay:decay_steps=10,alpha=0.1", NULL},
        {"cosine_decay_restarts:first_decay_steps=10", "give alpha"},
        {"cosine_decay_restarts:first_decay_steps=10,alpha=0.1", NULL},
        {"polynomial_decay:decay_steps=10,end_learning_rate=0", "give end_learning_rate"},
        {"polynomial_decay:decay_steps=10", NULL},
        {"piecewise_constant:boundaries=10,values=0.2/0.1", NULL},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_err err;
        ps_optimizer opt = *ps_optimizer_standard(PS_OPT_FTRL, 0.1);
        assert_ok(psi_schedule_parse(rows[i].text, &opt, &err), &err);
        if (rows[i].fault == NULL) {
            assert_ok(psi_optimizer_check(&opt, PS_F32, &err), &err);
        } else {
            assert_fails(psi_optimizer_check(&opt, PS_F32, &err), PS_INVALID_ARGUMENT, &err, rows[i].fault);
        }
    }
}
