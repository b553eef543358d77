/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a program as one table of rows, from which flags, the configuration file, --help and `psctl config` are made. A
 * flag's value replaces the environment's, the environment's replaces the file's, and the file's replaces the default, in
 * whatever order they are read. Pure; one thread at a time. */
#ifndef PSI_OPTIONS_H
#define PSI_OPTIONS_H

#include "buf.h"
#include "status.h"

enum psi_option_type {
    PSI_OPTION_INT = 1,   /* int64_t or uint32_t, from min to max */
    PSI_OPTION_BYTES = 2, /* an INT, written as "64M", "1GiB" (powers of 1024) or "512" */
    /* an INT in ms, written as "250ms", "2.5s", "10min" or "1h"; a number without a unit is in the row's unit */
    PSI_OPTION_DURATION = 3,
    PSI_OPTION_BOOL = 4,   /* bool, written as "true" "false" "yes" "no" "on" "off" "1" or "0" */
    PSI_OPTION_STRING = 5, /* char[max + 1], min to max bytes, without control characters (but see `lines`) */
    /* int: index into choices. min < 0: the user may also write a number from 1 to -min, which is stored as its negative */
    PSI_OPTION_ENUM = 6,
    PSI_OPTION_TEXT = 7, /* const char *: points to the argument itself, of at least min bytes */
    PSI_OPTION_REAL = 8, /* double, finite */
    /* const char *[max + 1]: a TEXT for each time that the flag is given, in order, at most max; then NULL. No default */
    PSI_OPTION_TEXTS = 9,
    /* char[max + 1]: a choice for all containers, and other choices for named containers (common/ways.h) */
    PSI_OPTION_WAYS = 10
};

enum { PSI_OPTION_WAYS_BYTES_MAX = 1024 };

struct psi_option {
    const char *name; /* lower case, words joined by _; users may write - instead of _ */
    enum psi_option_type type;
    /* INT: unit shown in --help, or NULL; DURATION: "ms" or "s", the unit of a number without a unit */
    const char *unit;
    int64_t min, max;           /* range of the stored value; STRING, WAYS: range of its length in bytes */
    const char *default_text;   /* the default as a user would write it; NULL: 0, or an empty text */
    const char *bare;           /* value of a flag that stands alone, without a value; NULL: a value must follow */
    const char *const *choices; /* ENUM, WAYS: NULL-terminated names */
    bool reloadable;            /* the value may change while the program runs */
    bool lines;                 /* STRING: newlines and tabs are allowed */
    bool list;                  /* STRING: a list of entries separated by "; "; each flag and each line of a file adds an entry */
    /* STRING: checks the text, or each entry of a list; NULL: no check */
    ps_status (*check)(const char *text, struct psi_err *err);
    bool flag_only;      /* only a flag: not in the configuration file and not listed (--help, --config, ...) */
    char letter;         /* short flag, as t in "-t VALUE"; 0: none */
    const char *group;   /* heading above this row in --help; NULL: no new section */
    unsigned tag;        /* for the program that owns the table; this module does not use it */
    const char *metavar; /* name for the value in --help ("HOST:PORT,..."); NULL: a name for its type */
    const char *help;
    size_t offset, size;
};

/** Fills in offset and size of a row: { .name = ..., PSI_OPTION_FIELD(struct psd_settings, lease_ms) }. */
#define PSI_OPTION_FIELD(type_, field_) .offset = offsetof(type_, field_), .size = sizeof(((type_ *)0)->field_)

enum psi_option_from { PSI_FROM_DEFAULT = 0, PSI_FROM_FILE = 1, PSI_FROM_ENVIRONMENT = 2, PSI_FROM_FLAG = 3 };

struct psi_options {
    const struct psi_option *rows; /* keeps */
    size_t count;
    void *values;  /* the program's struct; keeps */
    uint8_t *from; /* [count], enum psi_option_from: where each row's value came from; keeps */
};

/** Read the row's value from text and store it in `values`, the program's struct. what: begins an error's text ("--lease"). */
PSI_MUST ps_status psi_option_parse(const struct psi_option *row, void *values, const char *what, const char *text,
                                    struct psi_err *err);
/** Write the value as text that psi_option_parse() reads. n: above 32, and above the string's size. Returns buf. */
const char *psi_option_format(const struct psi_option *row, const void *values, char *buf, size_t n);
/** Read (write) a row's value as a number, without checks: a bool as 0 or 1, an ENUM as its index. */
int64_t psi_option_number(const struct psi_option *row, const void *values);
void psi_option_set_number(const struct psi_option *row, void *values, int64_t number);

/** Set every field to its default. Asserts that the table has no mistakes (names, sizes, ranges, defaults). */
void psi_options_init(struct psi_options *o, const struct psi_option *rows, size_t count, void *values, uint8_t *from);

/** Read argv[1..]: "--name value", "--name=value", "--flag", "--no-flag", "-t value", "-tvalue"; "--" ends the flags. Known flags
 * are removed from argv (and *argc). Other arguments (also "-1", "-.5", "-inf") stay in order; "--" is removed if strict.
 * strict   an unknown flag is an error that names the most similar known one; otherwise it stays in argv.
 * Errors   PS_INVALID_ARGUMENT naming flag, value and what is allowed. */
PSI_MUST ps_status psi_options_parse_argv(struct psi_options *o, int *argc, char **argv, bool strict, struct psi_err *err);
/** Read the text of a configuration file: "key = value" lines, # and ; comments. An indented line continues the STRING or WAYS of
 * the line above it; in a list it is the next entry. file_name is for messages. Errors: PS_INVALID_ARGUMENT that begins with
 * file:line (an unknown key, a key that is only a flag, a section, a bad value, a key twice, a line over inih's limit);
 * RESOURCE_EXHAUSTED. Values of earlier lines are in effect then, except a STRING or WAYS that the bad line might continue. */
PSI_MUST ps_status psi_options_parse_file(struct psi_options *o, const char *file_name, const char *text, size_t len,
                                          struct psi_err *err);
/** Set a row by name ('-' and '_' count as equal), unless its present value came from a source of higher precedence. what: the
 * source, for errors ("PSD_TARGET"). */
PSI_MUST ps_status psi_options_set(struct psi_options *o, enum psi_option_from from, const char *what, const char *name,
                                   const char *text, struct psi_err *err);

/** Index of a row by name ('-' and '_' count as equal), or -1. */
int32_t psi_options_find(const struct psi_options *o, const char *name);
/** Write the value of a row as text that can be read back. n: above 32, and above the longest text of the row. Returns buf. */
const char *psi_options_format_value(const struct psi_options *o, size_t row, char *buf, size_t n);
/** Append an entry for each row, "  --name VALUE   help (unit, range; default)", wrapped at 100 columns. */
PSI_MUST ps_status psi_options_help(const struct psi_options *o, struct psi_buf *out, struct psi_err *err);
PSI_MUST ps_status psi_option_help(const struct psi_option *row, struct psi_buf *out, struct psi_err *err);
/** Append a configuration file: for each row that is not flag_only its help as comments and "#name = default", commented out if
 * the value is the default. psi_options_parse_file() reads the file, also with every # before a name removed. */
PSI_MUST ps_status psi_options_file(const struct psi_options *o, struct psi_buf *out, struct psi_err *err);

#endif
