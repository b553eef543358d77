/* SPDX-License-Identifier: Apache-2.0 */
/* --plot: an SVG file without scripts, fonts or links. Each panel has axes with ticks at 1, 2 or 5 times a power of ten, a title,
 * the unit of its values and a legend. Failure mode: the file cannot be written. */
#include "plot.h"

#include "common/cli/file.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

/* all in pixels but TICKS, a number of ticks */
enum { WIDTH = 760, LEFT = 80, RIGHT = 20, TOP = 44, HEIGHT = 250, BELOW = 56, TICKS = 6, LEGEND = 130 };

static const char *const colors[PLOT_CURVES] = {"#1f5fa8", "#c8501e"};

static void halve(struct plot_curve *c)
{
    for (int i = 0; i < PLOT_POINTS / 2; i++) {
        c->x[i] = (c->x[2 * i] + c->x[2 * i + 1]) / 2;
        c->y[i] = (c->y[2 * i] + c->y[2 * i + 1]) / 2;
    }
    c->count = PLOT_POINTS / 2;
    c->each *= 2;
}

void plot_add(struct plot_curve *curve, double x, double y)
{
    if (!isfinite(x) || !isfinite(y)) {
        return;
    }
    curve->each = curve->each > 0 ? curve->each : 1;
    curve->sum_x += x;
    curve->sum_y += y;
    if (++curve->pending < curve->each) {
        return;
    }
    if (curve->count == PLOT_POINTS) {
        halve(curve);
        return; /* no new point: after halve() a point needs twice as many values */
    }
    curve->x[curve->count] = curve->sum_x / (double)curve->pending;
    curve->y[curve->count++] = curve->sum_y / (double)curve->pending;
    curve->pending = 0;
    curve->sum_x = curve->sum_y = 0;
}

struct range {
    double low, high, step;
};

static void widen(struct range *r, const double *values, int count)
{
    for (int i = 0; i < count; i++) {
        r->low = values[i] < r->low ? values[i] : r->low;
        r->high = values[i] > r->high ? values[i] : r->high;
    }
}

/* Widen the range to round ends: multiples of 1, 2 or 5 times a power of ten. */
static void round_ends(struct range *r)
{
    static const double steps[] = {1, 2, 5};
    if (!(r->high - r->low > 1e-9 * (fabs(r->high) + 1e-9))) {
        const double room = r->high != 0 ? fabs(r->high) / 2 : 1;
        r->low -= room;
        r->high += room;
    }
    const double rough = (r->high - r->low) / TICKS, power = pow(10, floor(log10(rough)));
    r->step = 10 * power;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        if (rough / power <= steps[i]) {
            r->step = steps[i] * power;
            break;
        }
    }
    r->low = floor(r->low / r->step) * r->step;
    r->high = ceil(r->high / r->step) * r->step;
}

static double part_of_range(const struct range *r, double value)
{
    return (value - r->low) / (r->high - r->low);
}

static void text(FILE *f, double x, double y, const char *how, const char *what)
{
    (void)fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, how, what);
}

static void axes(FILE *f, const struct range *x, const struct range *y, double top)
{
    char number[40];
    const double bottom = top + HEIGHT, right = WIDTH - RIGHT;
    for (int i = 0; y->low + i * y->step <= y->high + y->step / 2; i++) {
        const double at = bottom - HEIGHT * part_of_range(y, y->low + i * y->step);
        (void)snprintf(number, sizeof(number), "%.6g", fabs(y->low + i * y->step) < y->step / 1e6 ? 0 : y->low + i * y->step);
        (void)fprintf(f, "<path d=\"M%d %.1fH%.1f\" stroke=\"#dddddd\"/>\n", LEFT, at, right);
        text(f, LEFT - 8, at + 4, "text-anchor=\"end\"", number);
    }
    for (int i = 0; x->low + i * x->step <= x->high + x->step / 2; i++) {
        const double at = LEFT + (right - LEFT) * part_of_range(x, x->low + i * x->step);
        (void)snprintf(number, sizeof(number), "%.9g", x->low + i * x->step);
        (void)fprintf(f, "<path d=\"M%.1f %.1fv6\" stroke=\"#333333\"/>\n", at, bottom);
        text(f, at, bottom + 20, "text-anchor=\"middle\"", number);
    }
    (void)fprintf(f, "<path d=\"M%d %.1fV%.1fH%.1f\" fill=\"none\" stroke=\"#333333\"/>\n", LEFT, top, bottom, right);
}

static void curve(FILE *f, const struct plot_curve *c, const struct range *x, const struct range *y, double top,
                  const char *color)
{
    const double bottom = top + HEIGHT, wide = WIDTH - RIGHT - LEFT;
    const bool dots = c->count <= 60; /* mark the points of a short curve */
    (void)fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\" stroke-linejoin=\"round\" points=\"", color);
    for (int i = 0; i < c->count; i++) {
        (void)fprintf(f, "%.1f,%.1f ", LEFT + wide * part_of_range(x, c->x[i]), bottom - HEIGHT * part_of_range(y, c->y[i]));
    }
    (void)fprintf(f, "\"/>\n");
    for (int i = 0; i < c->count && dots; i++) {
        (void)fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\" fill=\"%s\"/>\n", LEFT + wide * part_of_range(x, c->x[i]),
                      bottom - HEIGHT * part_of_range(y, c->y[i]), color);
    }
}

static void panel(FILE *f, const struct plot_panel *p, const struct range *x, const char *x_text, double top)
{
    char how[96];
    struct range y = {INFINITY, -INFINITY, 0};
    const double middle = top + HEIGHT / 2.0;
    int shown = 0;
    for (int k = 0; k < PLOT_CURVES; k++) {
        widen(&y, p->curves[k].y, p->curves[k].count);
    }
    round_ends(&y);
    axes(f, x, &y, top);
    text(f, LEFT, top - 16, "font-size=\"16\" font-weight=\"bold\"", p->title);
    text(f, (LEFT + WIDTH - RIGHT) / 2.0, top + HEIGHT + 40, "text-anchor=\"middle\"", x_text);
    (void)snprintf(how, sizeof(how), "text-anchor=\"middle\" transform=\"rotate(-90 18 %.1f)\"", middle);
    text(f, 18, middle, how, p->unit);
    for (int k = 0; k < PLOT_CURVES; k++) {
        if (p->curves[k].count > 0) {
            const double at = WIDTH - RIGHT - LEGEND * (double)(PLOT_CURVES - shown++);
            curve(f, &p->curves[k], x, &y, top, colors[k]);
            (void)fprintf(f, "<path d=\"M%.1f %.1fh22\" stroke=\"%s\" stroke-width=\"3\"/>\n", at, top - 20, colors[k]);
            text(f, at + 28, top - 16, "text-anchor=\"start\"", p->curves[k].name);
        }
    }
}

static bool has_point(const struct plot_panel *p)
{
    return p->curves[0].count > 0 || p->curves[1].count > 0;
}

int plot_write(const char *path, const char *x_text, const struct plot_panel *panels, int count)
{
    struct cli_file file;
    struct range x = {INFINITY, -INFINITY, 0};
    int shown = 0;
    for (int i = 0; i < count; i++) {
        shown += has_point(&panels[i]);
        for (int k = 0; k < PLOT_CURVES; k++) {
            widen(&x, panels[i].curves[k].x, panels[i].curves[k].count);
        }
    }
    if (shown > 0) {
        round_ends(&x);
    }
    if (cli_file_open(&file, path) != 0) {
        return -1;
    }
    const int each = TOP + HEIGHT + BELOW, height = shown > 0 ? shown * each : each;
    (void)fprintf(
        file.stream,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
        "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222222\">\n"
        "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
        WIDTH, height, WIDTH, height, WIDTH, height);
    for (int i = 0, at = 0; i < count; i++) {
        if (has_point(&panels[i])) {
            panel(file.stream, &panels[i], &x, x_text, at + TOP);
            at += each;
        }
    }
    if (shown == 0) {
        text(file.stream, LEFT, TOP, "", "no step was made");
    }
    const bool good = fputs("</svg>\n", file.stream) >= 0 && ferror(file.stream) == 0;
    return cli_file_close(&file, good);
}
