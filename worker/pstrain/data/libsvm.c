/* SPDX-License-Identifier: Apache-2.0 */
/* LIBSVM's sparse text: a line for each example, `LABEL [qid:N] INDEX:VALUE INDEX:VALUE`; missing values are 0; `#` begins a
 * comment. Plain or gzip, with or without a byte order mark of UTF-8. In LIBFFM's text a field precedes each index, and is
 * skipped.
 *
 * Happy path: each file is read line by line into compressed sparse rows. The classes are the distinct labels of both files,
 * ascending, unless labels are numbers to be predicted. Column 0 is index 0 if that occurs, else index 1. Indices of a line may
 * come in any order; zeros are not stored. Without a test file a fixed fifth of the examples is for the test.
 *
 * Failure modes, with FILE:LINE and what was expected: not a number; an index twice in a line, unless the options allow that;
 * an index too high for any model; a line too long; several labels in a line; labels that are measurements and not classes; a
 * precomputed kernel, whose index 0 numbers the examples. */
#include "data.h"

#include "common/utf8.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_BYTES_FIRST = 64 << 10,
    LINE_BYTES_MAX = 16 << 20, /* room for about a million INDEX:VALUE */
    CLASSES_MAX = 65536,
    /* most classes if some label is not a whole number: more such labels are probably numbers for --task regression */
    FRACTIONS_MAX = 20,
    INDEX_MAX = INT32_MAX - 1, /* columns are int32; at the highest index one weight for each feature makes 8 GiB */
    COUNTED_MIN = 3,           /* so many rows with their own numbers at index 0 make a precomputed kernel; fewer may be chance */
    PROGRESS_ROWS = 1 << 12,
    SPLIT_SEED = 20160101, /* a fixed seed: all workers choose equal test examples */
    TEST_SHARE = 5         /* one example in TEST_SHARE is for the test */
};

struct entry {
    int64_t index; /* as written in the file */
    float value;
    int32_t at; /* position in the line: second key of the sort, so that entries of equal index keep their order */
};

/* What was read so far. rows.columns has the indices as written in the files, until set_columns() makes them columns from 0. */
struct reading {
    const struct data_options *options;
    struct data_rows rows;
    double *row_labels;
    int64_t row_room, value_count, value_room;
    double *labels; /* the distinct labels, ascending */
    int64_t label_count, label_room;
    bool fractions;    /* some label is not a whole number */
    int64_t index_max; /* highest index so far; -1: none yet */
    bool has_index_0;
    bool counts;          /* in every row so far, the value of index 0 is the row's number, from 1, as in a precomputed kernel */
    int64_t qids, joined; /* lines with a qid; values added up or overwritten because their index occurred twice in a line */
    struct entry *line;
    int64_t line_count, line_room;
};

struct reader {
    struct data_file file;
    char *line;
    int64_t line_room;
    int64_t number; /* line number, from 1 */
    struct reading *all;
};

static int no_memory(const struct reader *r, char *err)
{
    return cli_error(err, "%s:%" PRId64 ": no memory", r->file.path, r->number);
}

static void *grow(void *items, int64_t count, int64_t *room, size_t item_bytes)
{
    if (count < *room) {
        return items;
    }
    int64_t more = *room == 0 ? 1024 : *room * 2;
    void *grown = realloc(items, (size_t)more * item_bytes);
    *room = grown != NULL ? more : *room;
    return grown;
}

static int wrong_bytes(const struct reader *r, const char *what, char *err)
{
    return cli_error(err, "%s:%" PRId64 ": %s", r->file.path, r->number, what);
}

/* Read the next line, with its newline, into r->line, which grows as needed. Returns its bytes; 0: end of file; -1: error. */
static int64_t line_bytes(struct reader *r, char *err)
{
    int64_t n = 0;
    for (;;) {
        if (n + 1 >= r->line_room) {
            int64_t more = r->line_room == 0 ? LINE_BYTES_FIRST : 2 * r->line_room;
            more = more > LINE_BYTES_MAX + 2 ? LINE_BYTES_MAX + 2 : more;
            char *grown = more > r->line_room ? realloc(r->line, (size_t)more) : NULL;
            if (grown == NULL) {
                /* over LINE_BYTES_MAX: the caller reports the long line */
                return more > r->line_room ? no_memory(r, err) : n;
            }
            r->line = grown;
            r->line_room = more;
        }
        int64_t got = data_file_line(&r->file, r->line + n, (int)(r->line_room - n), err);
        if (got <= 0) {
            return got < 0 ? -1 : n;
        }
        n += got;
        if (r->line[n - 1] == '\n') {
            return n;
        }
    }
}

/* Read the next line without its line end into r->line. 1: done; 0: end of file; -1: error. */
static int next_line(struct reader *r, char *err)
{
    r->number++;
    int64_t n = line_bytes(r, err);
    if (n <= 0) {
        return (int)n;
    }
    n -= r->line[n - 1] == '\n' ? 1 : 0;
    r->line[n] = '\0';
    if (n > LINE_BYTES_MAX) {
        return cli_error(err, "%s:%" PRId64 ": the line is longer than %d bytes", r->file.path, r->number, LINE_BYTES_MAX);
    }
    if (r->number == 1 && psi_utf8_is_utf16(r->line, (size_t)n)) {
        return wrong_bytes(r, "this is UTF-16 text: convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)", err);
    }
    const int64_t mark = r->number == 1 ? (int64_t)psi_utf8_mark(r->line, (size_t)n) : 0;
    if (mark > 0) {
        n -= mark;
        memmove(r->line, r->line + mark, (size_t)n + 1);
    }
    return (int64_t)strlen(r->line) == n ? 1 : wrong_bytes(r, "a byte 0 in the line", err);
}

static const char BLANKS[] = " \t\r";

static bool ends_word(char c)
{
    return strchr(BLANKS, c) != NULL; /* true for '\0' too */
}

static int bad(const struct reader *r, const char *at, const char *expected, char *err)
{
    int n = (int)strcspn(at, BLANKS);
    return cli_error(err, "%s:%" PRId64 ": '%.*s': expected %s", r->file.path, r->number, n < 40 ? n : 40, at, expected);
}

static int see_label(const struct reader *r, double label, char *err)
{
    struct reading *all = r->all;
    int64_t low = 0, high = all->label_count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (all->labels[middle] < label) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low < all->label_count && all->labels[low] == label) {
        return 0;
    }
    all->fractions = all->fractions || label != floor(label);
    if (all->label_count >= (all->fractions ? FRACTIONS_MAX : CLASSES_MAX)) {
        return cli_error(err,
                         "%s:%" PRId64 ": %.15g is the label number %" PRId64
                         " that differs from all before it%s: for numbers to be predicted "
                         "give --task regression",
                         r->file.path, r->number, label, all->label_count + 1,
                         all->fractions ? ", and not all are whole numbers" : "");
    }
    double *grown = grow(all->labels, all->label_count, &all->label_room, sizeof(*grown));
    if (grown == NULL) {
        return no_memory(r, err);
    }
    all->labels = grown;
    memmove(&grown[low + 1], &grown[low], (size_t)(all->label_count - low) * sizeof(*grown));
    grown[low] = label;
    all->label_count++;
    return 0;
}

static int read_label(const struct reader *r, char **p, double *out, char *err)
{
    char *end = NULL;
    size_t word = strcspn(*p, BLANKS);
    double label = strtod(*p, &end);
    if (memchr(*p, ':', word) != NULL) {
        return bad(r, *p, "a label before it", err);
    }
    if (memchr(*p, ',', word) != NULL) {
        return bad(r, *p, "one label: several in a line (multi-label) are not trained", err);
    }
    if (end == *p || !ends_word(*end) || !isfinite(label)) {
        return bad(r, *p, "a label, a finite number", err);
    }
    if (r->all->options->numbers && !isfinite((float)label)) {
        return bad(r, *p, "a label within the range of float32", err);
    }
    *out = label + 0.0; /* makes -0 a 0 */
    *p = end;
    return r->all->options->numbers ? 0 : see_label(r, *out, err);
}

/* Skip qid:N, the number of the query in ranking data, which is not used. */
static int read_qid(const struct reader *r, char **p, char *err)
{
    size_t digits = strspn(*p + 4, "0123456789");
    if (digits == 0 || !ends_word((*p)[4 + digits])) {
        return bad(r, *p, "qid: and a whole number", err);
    }
    *p += 4 + digits;
    r->all->qids++;
    return 0;
}

static int index_too_high(const struct reader *r, const char *at, int64_t index, char *err)
{
    char text[160];
    if (index == INT64_MAX) {
        return bad(r, at, "an index below 2147483647", err);
    }
    (void)snprintf(text, sizeof(text),
                   "an index below %d: one float32 for each up to it would be %.0f bytes, the most is 1073741824 (1 GiB)",
                   INT32_MAX, 4.0 * (double)index);
    return bad(r, at, text, err);
}

static int skip_field(const struct reader *r, char **p, char *err)
{
    const size_t digits = strspn(*p, "0123456789");
    if (digits == 0 || (*p)[digits] != ':' || memchr(*p + digits + 1, ':', strcspn(*p + digits + 1, BLANKS)) == NULL) {
        return bad(r, *p, "FIELD:INDEX:VALUE with whole numbers for FIELD and INDEX", err);
    }
    *p += digits + 1;
    return 0;
}

static int read_entry(const struct reader *r, char **p, struct entry *out, char *err)
{
    char *end = NULL;
    errno = 0;
    long long index = **p >= '0' && **p <= '9' ? strtoll(*p, &end, 10) : -1;
    if (end == NULL || *end != ':') {
        return bad(r, *p, "INDEX:VALUE with a whole number for INDEX", err);
    }
    if (index == 0 && r->all->options->base == 1) {
        return bad(r, *p, "an index from 1 on; --libsvm_base 0 where they begin at 0", err);
    }
    if (errno != 0 || index > INDEX_MAX) {
        return index_too_high(r, *p, errno != 0 ? INT64_MAX : (int64_t)index, err);
    }
    char *value_at = end + 1;
    double value = ends_word(*value_at) ? NAN : strtod(value_at, &end);
    if (end > value_at && *end == ':') {
        return bad(r, *p, "INDEX:VALUE; FIELD:INDEX:VALUE is LIBFFM's format, --data libffm:", err);
    }
    if (end == value_at || !ends_word(*end) || !isfinite(value) || fabs(value) > FLT_MAX) {
        return bad(r, *p, "a finite number behind the colon, not beyond float32", err);
    }
    *out = (struct entry){index, (float)value, (int32_t)r->all->line_count};
    *p = end;
    return 0;
}

static int by_index(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    return x->index != y->index ? (x->index > y->index) - (x->index < y->index) : x->at - y->at;
}

/* Combine two entries of equal index in *first, by data_options.duplicates: their sum, or *next. -1: refused, a line in err. */
static int join(const struct reader *r, struct entry *first, const struct entry *next, char *err)
{
    enum data_duplicates way = r->all->options->duplicates;
    if (way == DATA_DUPLICATES_REFUSED) {
        return cli_error(err,
                         "%s:%" PRId64 ": index %" PRId64
                         " is there twice: --libsvm_duplicates last takes the last value, sum adds "
                         "them up",
                         r->file.path, r->number, first->index);
    }
    first->value = way == DATA_DUPLICATES_LAST ? next->value : first->value + next->value;
    r->all->joined++;
    return isfinite(first->value) ? 0
                                  : cli_error(err, "%s:%" PRId64 ": the sum of the values of index %" PRId64 " is beyond float32",
                                              r->file.path, r->number, first->index);
}

static int add_value(const struct reader *r, const struct entry *e, char *err)
{
    struct reading *all = r->all;
    int64_t room = all->value_room;
    int32_t *columns = grow(all->rows.columns, all->value_count, &room, sizeof(*columns));
    if (columns == NULL) {
        return no_memory(r, err);
    }
    all->rows.columns = columns;
    float *values = grow(all->rows.values, all->value_count, &all->value_room, sizeof(*values));
    if (values == NULL) {
        return no_memory(r, err);
    }
    all->rows.values = values;
    columns[all->value_count] = (int32_t)e->index;
    values[all->value_count++] = e->value;
    return 0;
}

/* Append a line to the rows: entries sorted by index, without zeros, equal indices combined by join(). 0, or -1 and err. */
static int add_values(const struct reader *r, char *err)
{
    struct entry *line = r->all->line;
    int64_t count = r->all->line_count;
    bool rises = true;
    for (int64_t i = 1; i < count && rises; i++) {
        rises = line[i].index > line[i - 1].index;
    }
    if (!rises) {
        qsort(line, (size_t)count, sizeof(*line), by_index);
    }
    for (int64_t i = 0; i < count;) {
        struct entry *first = &line[i];
        for (i++; i < count && line[i].index == first->index; i++) {
            if (join(r, first, &line[i], err) != 0) {
                return -1;
            }
        }
        if (first->value != 0 && add_value(r, first, err) != 0) {
            return -1;
        }
    }
    return 0;
}

static int add_row(const struct reader *r, double label, char *err)
{
    struct reading *all = r->all;
    int64_t room = all->row_room;
    all->counts =
        all->counts && all->line_count > 0 && all->line[0].index == 0 && all->line[0].value == (float)(all->rows.count + 1);
    if (add_values(r, err) != 0) {
        return -1;
    }
    int64_t *ends = grow(all->rows.ends, all->rows.count, &room, sizeof(*ends));
    if (ends == NULL) {
        return no_memory(r, err);
    }
    all->rows.ends = ends;
    double *labels = grow(all->row_labels, all->rows.count, &all->row_room, sizeof(*labels));
    if (labels == NULL) {
        return no_memory(r, err);
    }
    all->row_labels = labels;
    labels[all->rows.count] = label;
    ends[all->rows.count++] = all->value_count;
    return 0;
}

static int add_entry(const struct reader *r, const struct entry *e, char *err)
{
    struct reading *all = r->all;
    struct entry *line = grow(all->line, all->line_count, &all->line_room, sizeof(*line));
    if (line == NULL) {
        return no_memory(r, err);
    }
    all->line = line;
    line[all->line_count++] = *e;
    all->index_max = e->index > all->index_max ? e->index : all->index_max;
    all->has_index_0 = all->has_index_0 || e->index == 0;
    return 0;
}

static int read_line(const struct reader *r, char *err)
{
    char *p = r->line;
    double label = 0;
    struct entry entry;
    p[strcspn(p, "#")] = '\0';
    p += strspn(p, BLANKS);
    if (*p == '\0') {
        return 0; /* nothing on the line but blanks or a comment */
    }
    r->all->line_count = 0;
    if (read_label(r, &p, &label, err) != 0) {
        return -1;
    }
    p += strspn(p, BLANKS);
    if (strncmp(p, "qid:", 4) == 0 && read_qid(r, &p, err) != 0) {
        return -1;
    }
    for (;;) {
        p += strspn(p, BLANKS);
        if (*p == '\0') {
            return add_row(r, label, err);
        }
        if ((r->all->options->fields && skip_field(r, &p, err) != 0) || read_entry(r, &p, &entry, err) != 0 ||
            add_entry(r, &entry, err) != 0) {
            return -1;
        }
    }
}

static void tell(const struct reader *r)
{
    const struct data_options *o = r->all->options;
    if (o->progress != NULL && r->number % PROGRESS_ROWS == 0) {
        o->progress(o->ctx, r->file.path, r->all->rows.count, data_file_part(&r->file));
    }
}

static int read_file(struct reading *all, const char *path, char *err)
{
    struct reader r = {.all = all};
    int64_t before = all->rows.count;
    int more = -1;
    if (data_file_open(&r.file, path, err) != 0) {
        return -1;
    }
    do {
        more = next_line(&r, err);
        if (more > 0 && read_line(&r, err) != 0) {
            more = -1;
        }
        tell(&r);
    } while (more > 0);
    free(r.line);
    data_file_close(&r.file);
    return more == 0 && all->rows.count == before ? cli_error(err, "%s: no example in it", path) : more;
}

static int set_columns(struct reading *all, const char *path, struct dataset *out, char *err)
{
    const struct data_options *o = all->options;
    out->has_index_0 = all->has_index_0;
    out->base_given = o->base != DATA_BASE_FOUND;
    out->base = out->base_given ? o->base : all->has_index_0 ? 0 : 1;
    out->used = all->index_max < 0 ? 0 : all->index_max + 1 - out->base;
    out->features = o->features > 0 ? o->features : out->used;
    if (out->features == 0) {
        return cli_error(err, "%s: no example has a feature", path);
    }
    if (out->used > out->features) {
        return cli_error(err, "%s: --libsvm_features %" PRId64 ": index %" PRId64 " occurs, with indices from %d on", path,
                         out->features, all->index_max, out->base);
    }
    for (int64_t k = 0; k < all->value_count && out->base > 0; k++) {
        all->rows.columns[k] -= out->base;
    }
    return 0;
}

static int32_t class_of(const struct dataset *set, double label)
{
    int64_t low = 0, high = set->classes - 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (set->labels[middle] < label) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (int32_t)low;
}

/* Set out->place, the row of each example. With a test file: rows in file order; without: shuffled, a fifth is for the test. */
static int set_places(const struct reading *all, int64_t train_rows, const char *path, struct dataset *out, char *err)
{
    const bool split = train_rows == all->rows.count;
    const int64_t cut = split ? train_rows / TEST_SHARE : 0;
    out->train_count = train_rows - cut;
    out->test_count = all->rows.count - out->train_count;
    if (out->test_count == 0) {
        return cli_error(err, "%s: %" PRId64 " examples are too few to keep a fifth for the test; name a file for it", path,
                         train_rows);
    }
    int64_t *order = malloc((size_t)all->rows.count * sizeof(*order));
    out->place = malloc((size_t)all->rows.count * sizeof(*out->place));
    void *train_labels = malloc((size_t)out->train_count * sizeof(int32_t)); /* as large as a float */
    void *test_labels = malloc((size_t)out->test_count * sizeof(int32_t));
    *(out->predicts ? (void **)&out->train_t : (void **)&out->train_y) = train_labels;
    *(out->predicts ? (void **)&out->test_t : (void **)&out->test_y) = test_labels;
    if (order == NULL || out->place == NULL || train_labels == NULL || test_labels == NULL) {
        free(order);
        return cli_error(err, "%s: no memory for %" PRId64 " examples", path, all->rows.count);
    }
    if (split) {
        data_shuffle(all->rows.count, SPLIT_SEED, 0, order);
    }
    for (int64_t i = 0; i < all->rows.count; i++) {
        int64_t example = !split ? i : i < cut ? out->train_count + i : i - cut;
        int64_t row = split ? order[i] : i;
        const bool tests = example >= out->train_count;
        const int64_t at = tests ? example - out->train_count : example;
        out->place[example] = row;
        if (out->predicts) {
            (tests ? out->test_t : out->train_t)[at] = (float)all->row_labels[row];
        } else {
            (tests ? out->test_y : out->train_y)[at] = class_of(out, all->row_labels[row]);
        }
    }
    free(order);
    return 0;
}

/* Shrink a block to `bytes` bytes, and return its new address; if realloc() cannot, return the block unchanged. */
static void *smaller(void *block, size_t bytes)
{
    void *less = realloc(block, bytes);
    if (less == NULL) {
        return block;
    }
    return less;
}

static void give_back(struct reading *all)
{
    all->rows.columns = smaller(all->rows.columns, (size_t)(all->value_count + 1) * sizeof(int32_t));
    all->rows.values = smaller(all->rows.values, (size_t)(all->value_count + 1) * sizeof(float));
    all->rows.ends = smaller(all->rows.ends, (size_t)all->rows.count * sizeof(int64_t));
}

/* Set *out_count to how many classes no training example has. Returns the lowest such class; -1: none, or no memory. */
static int64_t unlearnt_class(const struct dataset *set, int64_t *out_count)
{
    bool *learnt = calloc((size_t)set->classes, sizeof(*learnt));
    int64_t first = -1;
    *out_count = 0;
    for (int64_t i = 0; learnt != NULL && i < set->train_count; i++) {
        learnt[set->train_y[i]] = true;
    }
    for (int64_t c = 0; learnt != NULL && c < set->classes; c++) {
        first = !learnt[c] && first < 0 ? c : first;
        *out_count += !learnt[c];
    }
    free(learnt);
    return first;
}

static void note_found(const struct reading *all, struct dataset *out)
{
    char *found = out->found;
    int64_t count = 0;
    const int64_t class = out->predicts ? -1 : unlearnt_class(out, &count);
    int n = all->qids > 0 ? snprintf(found, sizeof(out->found), "; qid is not used") : 0;
    if (all->joined > 0) {
        n += snprintf(found + n, sizeof(out->found) - (size_t)n,
                      "; %" PRId64 " values of indices that a line has already were %s", all->joined,
                      all->options->duplicates == DATA_DUPLICATES_LAST ? "taken in place of those before" : "added up");
    }
    if (class >= 0) {
        (void)snprintf(found + n, sizeof(out->found) - (size_t)n, "; no example of training has the label %.15g%s",
                       out->labels[class], count > 1 ? ", nor some others of the test" : "");
    }
}

int data_load_libsvm(const char *train_path, const char *test_path, const struct data_options *options, struct dataset *out,
                     char *err)
{
    struct reading all = {.options = options, .index_max = -1, .counts = true};
    memset(out, 0, sizeof(*out));
    int result = read_file(&all, train_path, err);
    int64_t train_rows = all.rows.count;
    if (result == 0 && all.counts && train_rows >= COUNTED_MIN && options->base == DATA_BASE_FOUND) {
        result = cli_error(err,
                           "%s: index 0 counts the examples, as in LIBSVM's precomputed kernels, which are not trained; "
                           "--libsvm_base 0 takes it for a feature",
                           train_path);
    }
    if (result == 0 && test_path != NULL) {
        result = read_file(&all, test_path, err);
    }
    result = result == 0 ? set_columns(&all, train_path, out, err) : result;
    if (result == 0) {
        give_back(&all);
    }
    out->rows = all.rows;
    out->labels = all.labels;
    out->classes = all.label_count;
    out->predicts = options->numbers;
    if (result == 0 && out->predicts) { /* the single label 0, stored with the model, shows that it predicts numbers */
        out->labels = calloc(1, sizeof(*out->labels));
        out->classes = 1;
        result = out->labels != NULL ? 0 : cli_error(err, "%s: no memory", train_path);
    }
    result = result == 0 ? set_places(&all, train_rows, train_path, out, err) : result;
    free(all.row_labels);
    free(all.line);
    if (result != 0) {
        data_free(out);
        return -1;
    }
    note_found(&all, out);
    data_note(out);
    return 0;
}
