/* SPDX-License-Identifier: Apache-2.0 */
/* common/options*.c: one table through flags, file, help and listing; precedence; every type at its limits; faults. */
#include "test.h"

#include "common/mem.h"
#include "common/options.h"

enum { WAYS_MAX = 511 };

struct settings {
    int64_t lease_ms, budget_bytes, task_index, timeout_ms;
    bool fresh, color, help;
    char hosts[513];
    char name[9];
    char ways[WAYS_MAX + 1];
    int level;
    const char *only[3];
    char grants[41];
};

/* An entry begins with a letter. */
static ps_status check_grant(const char *text, struct psi_err *err)
{
    return text[0] >= 'a' && text[0] <= 'z' ? PS_OK : psi_fail(err, PS_INVALID_ARGUMENT, "'%s' begins with no letter", text);
}

static const char *const ways[] = {"partial", "cut", NULL};
static const char *const levels[] = {"debug", "info", "warn", NULL};
#define FIELD(f) PSI_OPTION_FIELD(struct settings, f)
static const struct psi_option rows[] = {
    {.name = "lease",
     .type = PSI_OPTION_DURATION,
     .unit = "ms",
     .min = 100,
     .max = 3600000,
     .default_text = "10s",
     .reloadable = true,
     .help = "How long a silent worker counts as alive.",
     FIELD(lease_ms)},
    {.name = "memory_budget",
     .type = PSI_OPTION_BYTES,
     .unit = "bytes",
     .min = 0,
     .max = INT64_C(1) << 44,
     .default_text = "64M",
     .help = "Most memory that variables may take; 0 means 80 % of the machine's.",
     FIELD(budget_bytes)},
    {.name = "task_index",
     .type = PSI_OPTION_INT,
     .min = -1,
     .max = 1023,
     .default_text = "0",
     .letter = 'i',
     .help = "Number of the task in its job.",
     FIELD(task_index)},
    {.name = "timeout",
     .type = PSI_OPTION_DURATION,
     .unit = "s",
     .min = 0,
     .max = 86400000,
     .default_text = "5",
     .flag_only = true,
     .help = "Deadline of a command.",
     FIELD(timeout_ms)},
    {.name = "fresh", .type = PSI_OPTION_BOOL, .default_text = "false", .help = "Start over.", FIELD(fresh)},
    {.name = "color", .type = PSI_OPTION_BOOL, .default_text = "true", .help = "Use colours.", FIELD(color)},
    {.name = "help",
     .type = PSI_OPTION_BOOL,
     .default_text = "false",
     .flag_only = true,
     .letter = 'h',
     .help = "Print this text.",
     FIELD(help)},
    {.name = "ps_hosts",
     .type = PSI_OPTION_STRING,
     .min = 0,
     .max = 512,
     .default_text = "",
     .metavar = "HOST:PORT,...",
     .help = "Addresses of the parameter servers.",
     FIELD(hosts)},
    {.name = "job_name",
     .type = PSI_OPTION_STRING,
     .min = 1,
     .max = 8,
     .default_text = "ps",
     .help = "Job of this task.",
     FIELD(name)},
    {.name = "log_level",
     .type = PSI_OPTION_ENUM,
     .default_text = "info",
     .choices = levels,
     .help = "Least important line that is still written; debug has one line per frame, which costs a lot of time.",
     FIELD(level)},
    {.name = "ways",
     .type = PSI_OPTION_WAYS,
     .max = WAYS_MAX,
     .default_text = "partial",
     .choices = ways,
     .help = "One of all, or others of some.",
     FIELD(ways)},
    {.name = "only", .type = PSI_OPTION_TEXTS, .flag_only = true, .max = 2, .help = "May be given again.", FIELD(only)},
    {.name = "grant",
     .type = PSI_OPTION_STRING,
     .max = 40,
     .default_text = "",
     .list = true,
     .check = check_grant,
     .help = "Entries.",
     FIELD(grants)},
};

static struct settings values;
static uint8_t from[ARRAY_COUNT(rows)];
static struct psi_options options;

static void begin(void)
{
    memset(&values, 0x55, sizeof(values));
    psi_options_init(&options, rows, ARRAY_COUNT(rows), &values, from);
}

BEFORE_EACH
{
    begin();
}

/* Parse the flags in `line` (split at blanks; ~ stands for a blank inside); what stays is joined in `rest`. */
static ps_status parse(const char *line, bool strict, char *rest, size_t rest_size, struct psi_err *err)
{
    static char text[1024];
    char *argv[40] = {(char[]){"prog"}};
    int argc = 1;
    char *save = NULL;
    PSI_IGNORE(snprintf(text, sizeof(text), "%s", line));
    for (char *word = strtok_r(text, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
        for (char *p = word; *p != '\0'; p++) {
            *p = *p == '~' ? ' ' : *p;
        }
        argv[argc++] = word;
    }
    argv[argc] = NULL;
    ps_status st = psi_options_parse_argv(&options, &argc, argv, strict, err);
    if (st == PS_OK && rest != NULL) {
        size_t used = 0;
        rest[0] = '\0';
        for (int i = 1; i < argc; i++) {
            used += (size_t)snprintf(rest + used, rest_size - used, "%s%s", i == 1 ? "" : " ", argv[i]);
        }
        assert_null(argv[argc]);
    }
    return st;
}

TEST(test_defaults)
{
    assert_true(values.lease_ms == 10000 && values.budget_bytes == 64 << 20 && values.task_index == 0);
    assert_true(values.timeout_ms == 5000 && !values.fresh && values.color && !values.help);
    assert_string_equal(values.hosts, "");
    assert_string_equal(values.name, "ps");
    assert_int_equal(values.level, 1);
    for (size_t i = 0; i < ARRAY_COUNT(from); i++) {
        assert_int_equal(from[i], PSI_FROM_DEFAULT);
    }
    assert_int_equal(psi_options_find(&options, "task-index"), 2);
    assert_int_equal(psi_options_find(&options, "task_index"), 2);
    assert_int_equal(psi_options_find(&options, "task_inde"), -1);
    assert_int_equal(psi_options_find(&options, "task_indexx"), -1);
    assert_int_equal(psi_options_find(&options, "Task_index"), -1);
}

TEST(test_flags)
{
    struct psi_err err;
    char rest[256];
    assert_ok(parse("a --lease 250ms --memory-budget=1g b -i 7 --fresh --no-color --ps_hosts=h:1,h:2 -- --c -d", true, rest,
                    sizeof(rest), &err),
              &err);
    assert_string_equal(rest, "a b --c -d");
    assert_true(values.lease_ms == 250 && values.budget_bytes == INT64_C(1) << 30 && values.task_index == 7);
    assert_true(values.fresh && !values.color);
    assert_string_equal(values.hosts, "h:1,h:2");
    assert_int_equal(from[0], PSI_FROM_FLAG);
    assert_int_equal(from[8], PSI_FROM_DEFAULT);
    assert_ok(parse("--task_index=3 --task-index 4 -i5 -h - --no_fresh --color=yes --ps-hosts=", true, rest, sizeof(rest), &err),
              &err);
    assert_string_equal(rest, "-");
    assert_true(values.task_index == 5 && values.help && !values.fresh && values.color); /* the last one counts */
    assert_string_equal(values.hosts, "");
    assert_ok(parse("--task_index -1 --fresh=false --job_name -x", true, rest, sizeof(rest), &err), &err);
    assert_true(values.task_index == -1 && !values.fresh);
    assert_string_equal(values.name, "-x");
    assert_ok(parse("", true, rest, sizeof(rest), &err), &err);
}

TEST(test_flags_of_others_stay)
{
    struct psi_err err;
    char rest[256];
    assert_ok(parse("--epochs 5 --lease=1s -x --task_index 2 data --no-mine -- --lease 2s", false, rest, sizeof(rest), &err),
              &err);
    assert_string_equal(rest, "--epochs 5 -x data --no-mine -- --lease 2s");
    assert_true(values.lease_ms == 1000 && values.task_index == 2);
    assert_fails(parse("--epochs 5 --lease=x", false, rest, sizeof(rest), &err), PS_INVALID_ARGUMENT, &err, "--lease: 'x'");
}

TEST(test_bad_flags)
{
    struct psi_err err;
    static const struct {
        const char *line, *fault;
    } bad[] = {
        {"--leese 1s", "flag '--leese' is unknown; did you mean --lease?"},
        {"--job-nam=ps", "did you mean --job_name?"},
        {"--pshosts a", "did you mean --ps_hosts?"},
        {"--mem 1", "did you mean --memory_budget?"},
        {"--zzzzzzzzzz", "flag '--zzzzzzzzzz' is unknown"},
        {"--", NULL},
        {"--=3", "flag '--' is unknown"},
        {"-z", "flag '-z' is unknown"},
        {"--no-lease", "unknown"},
        {"--no-fresh=true", "--no-fresh takes no value"},
        {"--lease", "--lease needs a value: 100ms to 1h, with ms, s, min, h or d"},
        {"--lease --fresh", "--lease needs a value"},
        {"-i", "-i needs a value: -1 to 1023"},
        {"--lease=99ms", "--lease: '99ms' is not allowed; allowed: 100ms to 1h"},
        {"--lease=3600001", "allowed: 100ms to 1h"},
        {"--lease=", "--lease: ''"},
        {"--lease=1.0005s", "'1.0005s'"},
        {"--lease=1x", "'1x'"},
        {"--task_index=1024", "--task_index: '1024' is not allowed; allowed: -1 to 1023"},
        {"--task_index=-2", "'-2'"},
        {"--task_index=1k", "'1k'"},
        {"--task_index=0x10", "'0x10'"},
        {"--task_index=99999999999999999999", "'99999999999999999999'"},
        {"--task_index=~1", "' 1'"},
        {"--memory_budget=1kb", "'1kb' is not allowed; allowed: 0 to 16TiB, with K, M, G or T"},
        {"--memory_budget=0.3", "'0.3'"},
        {"--memory_budget=9999999999T", "'9999999999T'"},
        {"--fresh=maybe", "--fresh: 'maybe' is not allowed; allowed: true or false"},
        {"--log_level=loud", "--log_level: 'loud' is not allowed; allowed: debug, info, warn"},
        {"--job_name=123456789", "allowed: 1 to 8 bytes"},
        {"--job_name=", "--job_name: '' is not allowed"},
        {"--job_name=a\tb", "'a\\x09b'"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        begin();
        if (bad[i].fault == NULL) {
            assert_ok(parse(bad[i].line, true, NULL, 0, &err), &err);
        } else {
            assert_fails(parse(bad[i].line, true, NULL, 0, &err), PS_INVALID_ARGUMENT, &err, bad[i].fault);
        }
        test_defaults(); /* nothing was changed */
    }
    assert_fails(parse("--zzzzzzzzzz", true, NULL, 0, &err), PS_INVALID_ARGUMENT, &err, "unknown");
    assert_null(strstr(err.text, "did you mean"));
}

TEST(test_values)
{
    struct psi_err err;
    static const struct {
        const char *name, *text;
        int64_t value;
        const char *printed;
    } good[] = {
        {"lease", "100", 100, "100ms"},
        {"lease", "3600000", 3600000, "1h"},
        {"lease", "0.1s", 100, "100ms"},
        {"lease", "1.25s", 1250, "1.25s"},
        {"lease", "90500ms", 90500, "90.5s"},
        {"lease", "2min", 120000, "2min"},
        {"lease", "2M", 120000, "2min"},
        {"lease", "0.5h", 1800000, "30min"},
        {"timeout", "3", 3000, "3s"},
        {"timeout", "1.5", 1500, "1.5s"},
        {"timeout", "1d", 86400000, "24h"},
        {"timeout", "0", 0, "0ms"},
        {"timeout", "7ms", 7, "7ms"},
        {"memory_budget", "0", 0, "0"},
        {"memory_budget", "512", 512, "512"},
        {"memory_budget", "1K", 1024, "1KiB"},
        {"memory_budget", "1.5MiB", 1572864, "1536KiB"},
        {"memory_budget", "16T", INT64_C(1) << 44, "16TiB"},
        {"memory_budget", "1.5K", 1536, "1536"},
        {"task_index", "-1", -1, "-1"},
        {"task_index", "1023", 1023, "1023"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        char text[64];
        int32_t row = psi_options_find(&options, good[i].name);
        assert_true(row >= 0);
        assert_ok(psi_options_set(&options, PSI_FROM_FLAG, "x", good[i].name, good[i].text, &err), &err);
        int64_t stored = 0;
        memcpy(&stored, (const char *)&values + rows[row].offset, sizeof(stored));
        assert_true(stored == good[i].value);
        assert_string_equal(psi_options_format_value(&options, (size_t)row, text, sizeof(text)), good[i].printed);
        assert_ok(psi_options_set(&options, PSI_FROM_FLAG, "x", good[i].name, text, &err), &err); /* reads back */
        memcpy(&stored, (const char *)&values + rows[row].offset, sizeof(stored));
        assert_true(stored == good[i].value);
    }
    static const char *const truths[] = {"false", "TRUE", "no", "Yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < ARRAY_COUNT(truths); i++) {
        assert_ok(psi_options_set(&options, PSI_FROM_FLAG, "x", "fresh", truths[i], &err), &err);
        assert_int_equal(values.fresh, i % 2);
    }
    for (int i = 0; levels[i] != NULL; i++) {
        assert_ok(psi_options_set(&options, PSI_FROM_FLAG, "x", "log-level", levels[i], &err), &err);
        assert_int_equal(values.level, i);
    }
    for (size_t n = 0; n <= 9; n++) {
        char text[10] = "aaaaaaaaa";
        text[n] = '\0';
        assert_int_equal(psi_options_set(&options, PSI_FROM_FLAG, "x", "job_name", text, &err),
                         n >= 1 && n <= 8 ? PS_OK : PS_INVALID_ARGUMENT);
    }
    assert_string_equal(values.name, "aaaaaaaa");
}

/* Above a second: with as many places as it needs. */
TEST(test_durations_as_text)
{
    static const struct psi_option row = {
        .name = "lease", .type = PSI_OPTION_DURATION, .unit = "ms", .max = INT64_MAX, FIELD(lease_ms)};
    static const struct {
        int64_t ms;
        const char *text;
    } of[] = {{999, "999ms"}, {1000, "1s"},     {1001, "1.001s"}, {1250, "1.25s"},
              {1500, "1.5s"}, {90500, "90.5s"}, {120000, "2min"}};
    char text[64];
    for (size_t i = 0; i < ARRAY_COUNT(of); i++) {
        values.lease_ms = of[i].ms;
        assert_string_equal(psi_option_format(&row, &values, text, sizeof(text)), of[i].text);
    }
}

/* Names, and numbers beside them. */
TEST(test_names_or_numbers)
{
    static const struct psi_option row = {.name = "which", .type = PSI_OPTION_ENUM, .min = -20, .choices = levels, FIELD(level)};
    static const struct {
        const char *text;
        int value; /* 0: not allowed */
    } of[] = {{"info", 1}, {"warn", 2}, {"1", -1}, {"20", -20}, {"0", 0}, {"-1", 0}, {"21", 0}, {"1.5", 0}, {"", 0}, {"loud", 0}};
    char text[64];
    struct psi_err err;
    for (size_t i = 0; i < ARRAY_COUNT(of); i++) {
        values.level = 0;
        if (of[i].value == 0) {
            assert_fails(psi_option_parse(&row, &values, "which", of[i].text, &err), PS_INVALID_ARGUMENT, &err,
                         "allowed: debug, info, warn, a number from 1 to 20");
        } else {
            assert_ok(psi_option_parse(&row, &values, "which", of[i].text, &err), &err);
            assert_string_equal(psi_option_format(&row, &values, text, sizeof(text)), of[i].text);
        }
        assert_int_equal(values.level, of[i].value);
    }
}

static ps_status parse_file(const char *text, struct psi_err *err)
{
    /* a copy of exactly its bytes, so that the sanitizer sees every byte read past the end */
    size_t len = strlen(text);
    char *copy = psi_malloc(len);
    assert_non_null(copy);
    memcpy(copy, text, len);
    ps_status st = psi_options_parse_file(&options, "psd.conf", copy, len, err);
    psi_free(copy);
    return st;
}

TEST(test_file)
{
    struct psi_err err;
    assert_ok(parse_file("# comment\n; another\n\n  \nlease = 2s\nmemory-budget=1M  ; why\nfresh = yes\r\n"
                         "ps_hosts = a:1,\n    b:1,\n\tc:1\nlog_level = debug",
                         &err),
              &err);
    assert_true(values.lease_ms == 2000 && values.budget_bytes == 1 << 20 && values.fresh && values.level == 0);
    assert_string_equal(values.hosts, "a:1,b:1,c:1");
    assert_int_equal(from[0], PSI_FROM_FILE);
    begin();
    assert_ok(parse_file("", &err), &err);
    assert_ok(parse_file("ps_hosts = ps=a;x", &err), &err); /* a ; without a blank before it is no comment */
    assert_string_equal(values.hosts, "ps=a;x");
}

TEST(test_bad_files)
{
    struct psi_err err;
    static const struct {
        const char *text, *fault;
    } bad[] = {
        {"lease = 1s\nleese = 2s\n", "psd.conf:2: 'leese' is unknown; did you mean lease?"},
        {"\n\nlease = fast\n", "psd.conf:3: lease: 'fast' is not allowed; allowed: 100ms to 1h"},
        {"lease 5s\n", "psd.conf:1: 'lease 5s' has no = after the name; write 'lease = 5s'"},
        {"fresh = 1\nps_hosts 127.0.0.1:7250\r\n",
         "psd.conf:2: 'ps_hosts 127.0.0.1:7250' has no = after the name; write 'ps_hosts = 127.0.0.1:7250'"},
        {"ps-hosts ps=a:1\n", "psd.conf:1: 'ps-hosts ps=a:1' has no = after the name; write 'ps_hosts = ps=a:1'"},
        {"lease: 5s\n", "psd.conf:1: 'lease: 5s' has no = after the name; write 'lease = 5s'"},
        {"lease\n", "psd.conf:1: is not of the form NAME = VALUE"},
        {"leese 5s\n", "psd.conf:1: is not of the form NAME = VALUE"},
        {"  lease 5s\n", "psd.conf:1: is not of the form NAME = VALUE"},
        {"fresh = 1\n= 5\n", "psd.conf:2: '' is unknown"},
        {"[psd]\nlease = 1s\n", "psd.conf:1: a section"},
        {"lease = 1s\n  [psd]", "psd.conf:2: a section"},
        {"lease = 1s\nfresh = 1\nlease = 2s\n", "psd.conf:3: 'lease' was set in line 1 already"},
        {"lease = 1s\n  2s\n", "psd.conf:2: lease is no string"},
        {"timeout = 3\n", "psd.conf:1: 'timeout' is a flag"},
        {"job_name = abcd\n    efgh\n  i\n", "psd.conf:1: job_name: 'abcdefghi' is not allowed"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        begin();
        assert_fails(parse_file(bad[i].text, &err), PS_INVALID_ARGUMENT, &err, bad[i].fault);
    }
    assert_fails(psi_options_parse_file(&options, "psd.conf", "fresh = 1\nlease = 1s\0\n", 22, &err), PS_INVALID_ARGUMENT, &err,
                 "psd.conf:2: has a NUL byte");
}

TEST(test_long_lines)
{
    struct psi_err err;
    char text[300];
    /* inih's buffer holds 198 bytes and a newline; longer lines would be split without a word */
    for (size_t n = 197; n <= 230; n++) {
        begin();
        memset(text, 'h', n);
        memcpy(text, "ps_hosts=", 9);
        text[n] = '\n';
        memcpy(text + n + 1, "fresh=1", 8);
        if (n <= 198) {
            assert_ok(parse_file(text, &err), &err);
            assert_int_equal(strlen(values.hosts), n - 9);
            assert_true(values.fresh);
        } else {
            assert_fails(parse_file(text, &err), PS_INVALID_ARGUMENT, &err, "psd.conf:1: has");
            assert_non_null(strstr(err.text, "at most 198"));
            assert_string_equal(values.hosts, "");
        }
    }
}

TEST(test_precedence)
{
    struct psi_err err;
    /* the flag is read first and still wins */
    assert_ok(parse("--lease=7s", true, NULL, 0, &err), &err);
    assert_ok(psi_options_set(&options, PSI_FROM_ENVIRONMENT, "PSD_NAME", "job_name", "env", &err), &err);
    assert_ok(parse_file("lease = 1s\njob_name = file\nps_hosts = a,\n  b\ntask_index = 9\n", &err), &err);
    assert_true(values.lease_ms == 7000 && values.task_index == 9);
    assert_string_equal(values.name, "env");
    assert_string_equal(values.hosts, "a,b");
    assert_ok(psi_options_set(&options, PSI_FROM_ENVIRONMENT, "PSD_LEASE", "lease", "3s", &err), &err);
    assert_true(values.lease_ms == 7000);
    /* what does not count is checked all the same */
    assert_fails(psi_options_set(&options, PSI_FROM_ENVIRONMENT, "PSD_LEASE", "lease", "soon", &err), PS_INVALID_ARGUMENT, &err,
                 "PSD_LEASE: 'soon'");
    assert_fails(psi_options_set(&options, PSI_FROM_FILE, "x", "lease", "1ms", &err), PS_INVALID_ARGUMENT, &err, "x: '1ms'");
    assert_fails(psi_options_set(&options, PSI_FROM_FILE, "PSD_X", "nope", "1", &err), PS_INVALID_ARGUMENT, &err,
                 "PSD_X 'nope' is unknown");
    assert_true(values.lease_ms == 7000);
    /* a continued string behind a flag's value is not appended to it */
    assert_ok(parse("--ps_hosts=flag", true, NULL, 0, &err), &err);
    assert_ok(parse_file("ps_hosts = a,\n  b\n", &err), &err);
    assert_string_equal(values.hosts, "flag");
}

/* A text is whole when the next name comes, and not read before. */
TEST(test_text_of_several_lines)
{
    struct psi_err err;
    assert_ok(parse_file("ps_hosts =\n  a,\n\n  # of no use\n\tb,\n  c\nways =\n  partial,\n  model\n  =cut\nlease = 2s", &err),
              &err);
    assert_string_equal(values.hosts, "a,b,c");
    assert_string_equal(values.ways, "partial,model=cut");
    assert_true(values.lease_ms == 2000);
    begin();
    assert_fails(parse_file("lease = 1s\nways = partial,\n  mod=no\nfresh = 1\n", &err), PS_INVALID_ARGUMENT, &err,
                 "psd.conf:2: ways: 'partial,mod=no' is not allowed; allowed: partial, cut; or by container: partial,model=cut");
    begin();
    assert_fails(parse_file("ways =\n", &err), PS_INVALID_ARGUMENT, &err, "psd.conf:1: ways: '' is not allowed");
    assert_fails(parse_file("lease = 1s\n  2s\n", &err), PS_INVALID_ARGUMENT, &err, "psd.conf:2: lease is no string");
}

/* Each line of a file and each flag is an entry, and is checked where it stands. */
TEST(test_lists)
{
    struct psi_err err;
    struct psi_buf b;
    assert_ok(parse_file("grant = a b\n  c=d\nlease = 2s\ngrant = e\n", &err), &err);
    assert_string_equal(values.grants, "a b; c=d; e");
    assert_true(values.lease_ms == 2000);
    psi_buf_init(&b, 1 << 16);
    assert_ok(psi_options_file(&options, &b, &err), &err);
    assert_non_null(strstr(psi_buf_text(&b), "\ngrant = a b\n    c=d\n    e\n"));
    begin();
    assert_ok(parse_file(psi_buf_text(&b), &err), &err);
    assert_string_equal(values.grants, "a b; c=d; e");
    psi_buf_fini(&b);
    assert_ok(parse("--grant f --grant=g", true, NULL, 0, &err), &err); /* instead of those of the file */
    assert_string_equal(values.grants, "f; g");
    assert_ok(parse_file("grant = a\n", &err), &err);
    assert_string_equal(values.grants, "f; g");
    assert_fails(parse_file("grant = a\n  9\n", &err), PS_INVALID_ARGUMENT, &err, "psd.conf:2: grant: '9' begins with no letter");
    assert_fails(parse("--grant 1", true, NULL, 0, &err), PS_INVALID_ARGUMENT, &err, "--grant: '1' begins with no letter");
    begin();
    assert_fails(parse_file("grant = a\n  9\n", &err), PS_INVALID_ARGUMENT, &err, "psd.conf:2: grant: '9' begins with no letter");
    assert_fails(parse_file("grant = b; 8\n", &err), PS_INVALID_ARGUMENT, &err, "psd.conf:1: grant: '8' begins with no letter");
    assert_fails(parse_file("grant = a123456789b123456789\n  c123456789d123456789\n", &err), PS_INVALID_ARGUMENT, &err,
                 "psd.conf:2: grant: ");
}

/* Printed and read again it is the same, also where it takes several lines. */
TEST(test_long_texts_again)
{
    struct psi_err err;
    char hosts[500] = "", text[WAYS_MAX] = "PARTIAL";
    for (int i = 0; i < 20; i++) {
        (void)snprintf(hosts + strlen(hosts), sizeof(hosts) - strlen(hosts), "%shost%d:%d", i > 0 ? ", " : "", i, 1000 + i);
    }
    for (char c = 'a'; strlen(text) + 70 < sizeof(text); c++) { /* names of 63 bytes */
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), " , %062d%c=cut", 0, c);
    }
    for (int i = 0; i < 2; i++) {
        struct psi_buf b;
        char kept[WAYS_MAX + 1];
        begin();
        assert_ok(psi_options_set(&options, PSI_FROM_FILE, "x", "ps_hosts", hosts, &err), &err);
        assert_ok(psi_options_set(&options, PSI_FROM_FILE, "x", "ways", i == 0 ? "cut" : text, &err), &err);
        memcpy(kept, values.ways, sizeof(kept));
        psi_buf_init(&b, 1 << 16);
        assert_ok(psi_options_file(&options, &b, &err), &err);
        begin();
        assert_ok(parse_file(psi_buf_text(&b), &err), &err);
        assert_string_equal(values.hosts, hosts);
        assert_string_equal(values.ways, kept);
        psi_buf_fini(&b);
    }
    assert_true(strlen(values.ways) > 300);
}

TEST(test_help)
{
    struct psi_err err;
    struct psi_buf b;
    psi_buf_init(&b, 1 << 16);
    assert_ok(psi_options_help(&options, &b, &err), &err);
    const char *text = psi_buf_text(&b);
    static const char *const parts[] = {
        ("      --lease TIME            How long a silent worker counts as alive. (100ms to 1h, with ms, s,\n"
         "                              min, h or d, default 10s, live)\n"),
        "  -i, --task_index N          Number of the task in its job. (-1 to 1023, default 0)\n",
        "  -h, --help                  Print this text.\n",
        "      --[no-]color            Use colours. (default true)\n",
        "      --ps_hosts HOST:PORT,...\n                              Addresses of the parameter servers. (default none)\n",
        "                              5s)\n",
        "(debug, info, warn, default info)\n",
    };
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        if (strstr(text, parts[i]) == NULL) {
            fail_msg("'%s' is not in:\n%s", parts[i], text);
        }
    }
    for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        assert_true(strcspn(line, "\n") <= 100);
    }
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        assert_non_null(strstr(text, rows[i].name));
    }
    psi_buf_fini(&b);
    psi_buf_init(&b, 200);
    assert_fails(psi_options_help(&options, &b, &err), PS_RESOURCE_EXHAUSTED, &err, "maximum");
    psi_buf_fini(&b);
}

TEST(test_texts)
{
    struct psi_err err;
    assert_null(values.only[0]);
    assert_ok(parse("--only b --only=a", true, NULL, 0, &err), &err);
    assert_string_equal(values.only[0], "b");
    assert_string_equal(values.only[1], "a");
    assert_null(values.only[2]);
    assert_fails(parse("--only c", true, NULL, 0, &err), PS_INVALID_ARGUMENT, &err, "--only: may be given 2 times");
    begin();
    assert_fails(parse("--only=", true, NULL, 0, &err), PS_INVALID_ARGUMENT, &err, "--only: '' is not allowed; allowed: TEXT");
    assert_fails(psi_options_parse_file(&options, "psd.conf", "only = a\n", 9, &err), PS_INVALID_ARGUMENT, &err, "is a flag");
}

TEST(test_out_of_memory)
{
    struct psi_err err;
    static const char text[] = "lease = 1s\nps_hosts = a,\n b\n";
    assert_ok(parse("--lease=7s", true, NULL, 0, &err), &err);
    for (int64_t n = 0;; n++) {
        psi_mem_fail_after(n);
        ps_status st = psi_options_parse_file(&options, "psd.conf", text, sizeof(text) - 1, &err);
        bool fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        assert_int_equal(st, fired ? PS_RESOURCE_EXHAUSTED : PS_OK);
        if (!fired) {
            assert_true(n == 3);
            break;
        }
    }
    assert_string_equal(values.hosts, "a,b");
}
