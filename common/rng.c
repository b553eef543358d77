/* SPDX-License-Identifier: Apache-2.0 */
/* Philox4x32-10, the initializers on top of it, splitmix64. Element i of a variable takes the block with key = seed and
 * counter = (i, FNV-1a of the name): two 64-bit words r0, r1.
 *   uniform  u = top 53 (f64) or 24 (f32) bits of r0 / 2^53 (2^24);  x = low + (high - low) u, kept below high
 *   normal   u = (top 53 bits of r0 + 1) / 2^53 in (0, 1], v = top 53 bits of r1 / 2^53;
 *            x = mean + stddev sqrt(-2 ln u) cos(2 pi v)            (Box and Muller 1958; |x - mean| <= 8.6 stddev)
 *   truncated normal: as normal, drawn again while |x - mean| > 2 stddev
 *   Glorot   uniform in +- sqrt(6 / (fan_in + fan_out))             (Glorot and Bengio 2010)
 *   He       uniform in +- sqrt(6 / fan_in), or truncated normal of stddev sqrt(2 / fan_in) / .87962566103423978
 *            (He et al. 2015; TensorFlow 1.15's variance_scaling: the divisor is the standard deviation that truncation leaves)
 * float16 and bfloat16 take the float32 value (uniform) or the double (normal) and round it. ln and cos are evaluated here,
 * because libm's differ in the last bit between CPUs; errors are a few 1e-16. Cannot fail: the caller checks the arguments. */
#include "rng.h"

#include "half.h"
#include "hash.h"
#include "shape.h"
#include "status.h"

#include <math.h>
#include <string.h>

#define TRUNCATED_STDDEV .87962566103423978

void psi_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0];
    uint32_t c1 = counter[1];
    uint32_t c2 = counter[2];
    uint32_t c3 = counter[3];
    uint32_t k0 = key[0];
    uint32_t k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)c0 * UINT32_C(0xd2511f53);
        uint64_t p1 = (uint64_t)c2 * UINT32_C(0xcd9e8d57);
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c0 = n0;
        c1 = (uint32_t)p1;
        c2 = n2;
        c3 = (uint32_t)p0;
        k0 += UINT32_C(0x9e3779b9);
        k1 += UINT32_C(0xbb67ae85);
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

struct words {
    uint64_t r0, r1;
};

static inline struct words element_words(uint64_t seed, uint64_t name_hash, uint64_t element)
{
    const uint32_t counter[4] = {(uint32_t)element, (uint32_t)(element >> 32), (uint32_t)name_hash, (uint32_t)(name_hash >> 32)};
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t out[4];
    psi_philox4x32(counter, key, out);
    return (struct words){(uint64_t)out[1] << 32 | out[0], (uint64_t)out[3] << 32 | out[2]};
}

/* ln x for x in (0, 1]: x = m 2^e, m in [sqrt 1/2, sqrt 2); ln m = 2 atanh s, s = (m - 1) / (m + 1), |s| < 0.1716. */
static double log_unit(double x)
{
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof(bits));
    int e = (int)(bits >> 52) - 1022; /* x is a normal number, because it is not below 2^-53 */
    bits = (bits & 0xfffffffffffff) | (uint64_t)1022 << 52;
    double m = 0; /* m is in [1/2, 1) */
    memcpy(&m, &bits, sizeof(m));
    if (m < 0.70710678118654752) {
        m *= 2;
        e--;
    }
    double s = (m - 1) / (m + 1);
    double s2 = s * s;
    double sum = 0;
    for (int k = 23; k >= 1; k -= 2) {
        sum = sum * s2 + 1.0 / k; /* the series of atanh; the next term is < 2^-60 of the first */
    }
    return (double)e * 0.69314718055994531 + 2 * s * sum;
}

/* cos(2 pi v) for v in [0, 1), by symmetry to |angle| <= pi/4, then Taylor (the next term is < 2^-60). */
static double cos_turns(double v)
{
    double eighths = v * 8;
    int octant = ((int)eighths + 1) / 2; /* the nearest quarter turn, 0 .. 4 */
    double t = (v - octant * 0.25) * 6.283185307179586477;
    double t2 = t * t;
    double sum = 1;
    if ((octant & 1) == 0) {
        for (int k = 18; k >= 2; k -= 2) {
            sum = 1 - sum * t2 / (double)(k * (k - 1));
        }
    } else {
        for (int k = 19; k >= 3; k -= 2) {
            sum = 1 - sum * t2 / (double)(k * (k - 1));
        }
        sum *= -t; /* cos(pi/2 + t) = -sin t */
    }
    return (octant & 2) == 0 ? sum : -sum;
}

static double bits53(uint64_t r)
{
    return (double)(r >> 11) * 0x1p-53;
}

/* The next number below a finite x that is not the lowest. Not nextafter(), because libm would cost psd 300 KiB of memory. */
static float below_f32(float x)
{
    uint32_t bits = 0;
    memcpy(&bits, &x, sizeof(bits));
    bits = x == 0 ? 0x80000001 : x > 0 ? bits - 1 : bits + 1;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static double below_f64(double x)
{
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof(bits));
    bits = x == 0 ? 0x8000000000000001 : x > 0 ? bits - 1 : bits + 1;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static float uniform_f32(uint64_t r, float low, float width, float high)
{
    float x = low + width * ((float)(r >> 40) * 0x1p-24f);
    return x < high || width <= 0 ? x : below_f32(high);
}

static double uniform_f64(uint64_t r, double low, double width, double high)
{
    double x = low + width * bits53(r);
    return x < high || width <= 0 ? x : below_f64(high);
}

static double normal(struct words w, double mean, double stddev)
{
    double u = bits53(w.r0) + 0x1p-53;
    return mean + stddev * (sqrt(-2 * log_unit(u)) * cos_turns(bits53(w.r1)));
}

void psi_compute_fans(const ps_shape *shape, double *out_fan_in, double *out_fan_out)
{
    double field = 1;
    uint32_t rank = shape->rank;
    PSI_ASSERT(rank <= PS_RANK_MAX);
    if (rank < 2) {
        *out_fan_in = rank == 0 ? 1 : (double)shape->dims[0];
        *out_fan_out = *out_fan_in;
        return;
    }
    for (uint32_t i = 0; i + 2 < rank; i++) {
        field *= (double)shape->dims[i];
    }
    *out_fan_in = field * (double)shape->dims[rank - 2];
    *out_fan_out = field * (double)shape->dims[rank - 1];
}

static void fill_same(double value, ps_dtype dtype, uint64_t count, void *dst)
{
    for (uint64_t i = 0; i < count; i++) {
        switch (dtype) {
        case PS_F32:
            ((float *)dst)[i] = (float)value;
            break;
        case PS_F64:
            ((double *)dst)[i] = value;
            break;
        case PS_I32:
            ((int32_t *)dst)[i] = (int32_t)value;
            break;
        case PS_I64:
            ((int64_t *)dst)[i] = (int64_t)value;
            break;
        case PS_BOOL:
            ((uint8_t *)dst)[i] = value != 0;
            break;
        case PS_F16:
        case PS_BF16:
            ((uint16_t *)dst)[i] = psi_half_of(dtype, (float)value);
            break;
        case PS_I8:
            ((int8_t *)dst)[i] = (int8_t)value;
            break;
        case PS_U8:
            ((uint8_t *)dst)[i] = (uint8_t)value;
            break;
        case PS_STRING:
        case PS_DTYPE_NONE:
            break;
        }
    }
}

struct law {
    double low, high;
    double mean, stddev;
    bool is_normal, truncated;
};

static ps_shape in_before_out(const ps_shape *shape)
{
    ps_shape turned = *shape;
    for (uint32_t i = 0; shape->rank >= 2 && i < shape->rank; i++) {
        turned.dims[shape->rank - 1 - i] = shape->dims[i];
    }
    return turned;
}

static struct law law_of(const ps_initializer *init, const ps_shape *shape)
{
    double fan_in = 0;
    double fan_out = 0;
    const ps_shape turned = init->fan == PS_FAN_OUT_IN ? in_before_out(shape) : *shape;
    psi_compute_fans(&turned, &fan_in, &fan_out);
    struct law l = {.low = init->a, .high = init->b, .mean = init->a, .stddev = init->b};
    switch (init->kind) {
    case PS_INIT_UNIFORM:
        break;
    case PS_INIT_GLOROT_UNIFORM:
        l.high = sqrt(6 / (fan_in + fan_out));
        l.low = -l.high;
        break;
    case PS_INIT_HE_UNIFORM:
        l.high = sqrt(6 / fan_in);
        l.low = -l.high;
        break;
    case PS_INIT_NORMAL:
        l.is_normal = true;
        break;
    case PS_INIT_TRUNCATED_NORMAL:
        l.is_normal = true;
        l.truncated = true;
        break;
    default:
        PSI_ASSERT(init->kind == PS_INIT_HE_NORMAL);
        l.is_normal = true;
        l.truncated = true;
        l.mean = 0;
        l.stddev = sqrt(2 / fan_in) / TRUNCATED_STDDEV;
        break;
    }
    return l;
}

ps_initializer psi_initializer_plain(const ps_initializer *init, const ps_shape *shape)
{
    ps_initializer plain = *init;
    plain.fan = PS_FAN_IN_OUT;
    const bool by_fans =
        init->kind == PS_INIT_GLOROT_UNIFORM || init->kind == PS_INIT_HE_NORMAL || init->kind == PS_INIT_HE_UNIFORM;
    if (!by_fans || init->fan == PS_FAN_IN_OUT || ps_shape_elements(shape) == 0) {
        return plain; /* nothing to convert; a variable without elements has no values, and its fans, a divisor, may be 0 */
    }
    const struct law l = law_of(init, shape);
    plain.kind = l.is_normal ? PS_INIT_TRUNCATED_NORMAL : PS_INIT_UNIFORM;
    plain.a = l.is_normal ? l.mean : l.low;
    plain.b = l.is_normal ? l.stddev : l.high;
    return plain;
}

/* x = mean + stddev z with |z| <= 2. Further draws use the hash of the name with one, two, ... NULs appended, which no variable's
 * name has. 1 in 22 values is drawn again; after 64 draws (1 in 10^85) the value is the mean. */
static double truncated_normal(uint64_t seed, uint64_t name_hash, uint64_t element, double mean, double stddev)
{
    for (int draw = 0; draw < 64; draw++) {
        double z = normal(element_words(seed, name_hash, element), 0, 1);
        if (fabs(z) <= 2) {
            return mean + stddev * z;
        }
        name_hash = psi_fnv1a64(name_hash, "", 1);
    }
    return mean;
}

static void fill_normal(const struct law *l, ps_dtype dtype, uint64_t seed, uint64_t name_hash, uint64_t first, uint64_t count,
                        void *dst)
{
    for (uint64_t i = 0; i < count; i++) {
        double x = l->truncated ? truncated_normal(seed, name_hash, first + i, l->mean, l->stddev)
                                : normal(element_words(seed, name_hash, first + i), l->mean, l->stddev);
        if (dtype == PS_F64) {
            ((double *)dst)[i] = x;
        } else if (dtype == PS_F32) {
            ((float *)dst)[i] = (float)x;
        } else {
            ((uint16_t *)dst)[i] = psi_half_of(dtype, (float)x);
        }
    }
}

static void fill_uniform(const struct law *l, ps_dtype dtype, uint64_t seed, uint64_t name_hash, uint64_t first, uint64_t count,
                         void *dst)
{
    bool half = psi_half_is(dtype);
    float low = half ? psi_half_value(dtype, psi_half_of(dtype, (float)l->low)) : (float)l->low;
    float high = half ? psi_half_value(dtype, psi_half_of(dtype, (float)l->high)) : (float)l->high;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t r = element_words(seed, name_hash, first + i).r0;
        if (dtype == PS_F64) {
            ((double *)dst)[i] = uniform_f64(r, l->low, l->high - l->low, l->high);
        } else if (!half) {
            ((float *)dst)[i] = uniform_f32(r, low, high - low, high);
        } else {
            uint16_t x = psi_half_of(dtype, uniform_f32(r, low, high - low, high));
            bool rounded_up = low < high && psi_half_value(dtype, x) >= high;
            ((uint16_t *)dst)[i] = rounded_up ? psi_half_below(x) : x;
        }
    }
}

void psi_init_fill(const ps_initializer *init, ps_dtype dtype, const ps_shape *shape, uint64_t seed, const char *name,
                   uint64_t first, uint64_t count, void *dst)
{
    PSI_ASSERT(ps_dtype_bytes(dtype) != 0);
    switch (init->kind) {
    case PS_INIT_ZEROS:
        memset(dst, 0, count * ps_dtype_bytes(dtype));
        return;
    case PS_INIT_ONES:
        fill_same(1, dtype, count, dst);
        return;
    case PS_INIT_CONSTANT:
        fill_same(init->a, dtype, count, dst);
        return;
    default:
        break;
    }
    PSI_ASSERT(dtype == PS_F32 || dtype == PS_F64 || psi_half_is(dtype));
    struct law l = law_of(init, shape);
    uint64_t name_hash = psi_fnv1a64(PSI_FNV1A64_START, name, strlen(name));
    if (l.is_normal) {
        fill_normal(&l, dtype, seed, name_hash, first, count, dst);
    } else {
        fill_uniform(&l, dtype, seed, name_hash, first, count, dst);
    }
}

uint64_t psi_random_u64(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t psi_random_below(uint64_t *state, uint64_t bound)
{
    PSI_ASSERT(bound > 0);
    uint64_t refuse = (0 - bound) % bound; /* 2^64 mod bound: values below this would favour small results */
    uint64_t r = psi_random_u64(state);
    while (r < refuse) {
        r = psi_random_u64(state);
    }
    return r % bound;
}
