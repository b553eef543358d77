/* SPDX-License-Identifier: Apache-2.0 */
/* psd-exporter: metrics and a page of a cluster over HTTP. Happy path: it parses the flags, reads the token's file, serves
 * (http.c) until SIGINT or SIGTERM, and exits with 0. Failure modes: exit 2 for a wrong command line, and for an address beyond
 * loopback without a token; exit 1 for a token file that cannot be used, and for an address that cannot be listened at. */
#include "exporter.h"

#include "common/auth/key_file.h"
#include "common/options.h"

#include <stdarg.h>
#include <string.h>

enum { DAY_MS = 24 * 60 * 60 * 1000 };

#define FIELD(field_) PSI_OPTION_FIELD(struct exporter_options, field_)
#define TEXT .type = PSI_OPTION_TEXT, .flag_only = true, .min = 1
#define ON .type = PSI_OPTION_BOOL, .flag_only = true
#define TIME .type = PSI_OPTION_DURATION, .unit = "s", .flag_only = true
static const struct psi_option flags[] = {
    {.name = "target",
     .letter = 't',
     TEXT,
     .metavar = "HOST:PORT,...",
     .help =
         "any task of the cluster, also psd://HOST:PORT and unix:PATH; of several the first that answers (default: PSD_TARGET, "
         "then 127.0.0.1:2222)",
     FIELD(target)},
    {.name = "listen",
     TEXT,
     .default_text = "127.0.0.1:9391",
     .metavar = "HOST:PORT",
     .help = "where pages are served, an IP address; beyond loopback it needs --token_file",
     FIELD(listen)},
    {.name = "token_file",
     TEXT,
     .metavar = "FILE",
     .help =
         "a token of 16 to 255 printable bytes, which nobody else can read: who asks for anything but /healthz and /readyz shows "
         "it, as Bearer or as the password of Basic",
     FIELD(token_file)},
    {.name = "host",
     .type = PSI_OPTION_TEXTS,
     .flag_only = true,
     .max = EXPORTER_HOSTS_MAX,
     .metavar = "NAME",
     .help =
         "a name by which browsers and Prometheus reach this program; may be given again. IP addresses and localhost always are",
     FIELD(hosts)},
    {.name = "key_file",
     TEXT,
     .metavar = "FILE",
     .help = "your key (role monitor suffices); else PSD_KEY_FILE, ~/.config/psd/key or /etc/psd/psd.keys, if it is there",
     FIELD(key_file)},
    {.name = "tls_cert", TEXT, .metavar = "FILE", .help = "your certificate, PEM, with --tls_key and --tls_ca", FIELD(tls_cert)},
    {.name = "tls_key", TEXT, .metavar = "FILE", .help = "its private key", FIELD(tls_key)},
    {.name = "tls_ca", TEXT, .metavar = "FILE", .help = "authority whose certificates tasks must have", FIELD(tls_ca)},
    {.name = "timeout",
     TIME,
     .min = 100,
     .max = DAY_MS,
     .default_text = "3s",
     .metavar = "SECONDS",
     .help = "for the answers of all tasks",
     FIELD(timeout_ms)},
    {.name = "every",
     TIME,
     .min = 0,
     .max = DAY_MS,
     .default_text = "1s",
     .metavar = "SECONDS",
     .help = "the tasks are asked at most once in so long, however many pages are asked for",
     FIELD(every_ms)},
    {.name = "version", ON, .help = "print the version and exit", FIELD(version)},
    {.name = "help", .letter = 'h', ON, .help = "print this and exit", FIELD(help)},
};

static int fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int fail(int code, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    (void)fputs("psd-exporter: ", stderr);
    (void)vfprintf(stderr, format, ap);
    (void)fputc('\n', stderr);
    va_end(ap);
    return code;
}

static int print_help(void)
{
    uint8_t from[CLI_COUNT(flags)];
    struct exporter_options o = {0};
    struct psi_options rows;
    struct psi_buf text;
    struct psi_err err;
    psi_options_init(&rows, flags, CLI_COUNT(flags), &o, from);
    psi_buf_init(&text, 1 << 20);
    ps_status st = psi_options_help(&rows, &text, &err);
    if (st == PS_OK) {
        (void)printf("usage: psd-exporter [FLAG ...]\n\nServes metrics of a psd cluster for Prometheus (/metrics), its state for "
                     "people (/) "
                     "and\nprograms (/api/status), /healthz and /readyz. It changes nothing. See psd-exporter(8).\n\n%.*s",
                     (int)text.len, (const char *)text.data);
    }
    psi_buf_fini(&text);
    return st == PS_OK && fflush(stdout) == 0 ? 0 : 1;
}

/* Read the token that clients must send, from o->token_file, into token [EXPORTER_TOKEN_BYTES_MAX + 1]; "": no file is given.
 * Returns the exit status; 0: good. */
static int read_token(const struct exporter_options *o, char *token)
{
    struct psi_err err = {.code = PS_OK};
    struct psi_secret text = {.p = NULL};
    token[0] = '\0';
    if (o->token_file == NULL) {
        return 0;
    }
    if (psi_secret_file_read(o->token_file, &text, &err) != PS_OK) {
        psi_secret_fini(&text);
        return fail(1, "--token_file: %s", err.text);
    }
    size_t length = text.n;
    while (length > 0 && (text.p[length - 1] == '\n' || text.p[length - 1] == '\r')) {
        length--;
    }
    bool good = length >= 16 && length <= EXPORTER_TOKEN_BYTES_MAX;
    for (size_t i = 0; good && i < length; i++) {
        good = text.p[i] > ' ' && text.p[i] < 127 && text.p[i] != ':';
        token[i] = text.p[i];
    }
    token[good ? length : 0] = '\0';
    psi_secret_fini(&text);
    return good ? 0
                : fail(1, "--token_file %s: a token has 16 to %d printable bytes without blanks and colons", o->token_file,
                       EXPORTER_TOKEN_BYTES_MAX);
}

int main(int argc, char **argv)
{
    uint8_t from[CLI_COUNT(flags)];
    struct exporter_options o = {0};
    struct psi_options rows;
    struct psi_err err = {.code = PS_OK};
    char token[EXPORTER_TOKEN_BYTES_MAX + 2];
    psi_options_init(&rows, flags, CLI_COUNT(flags), &o, from);
    if (psi_options_parse_argv(&rows, &argc, argv, true, &err) != PS_OK) {
        return fail(2, "%s; see psd-exporter --help", err.text);
    }
    if (argc > 1) {
        return fail(2, "it takes no '%.100s'; see psd-exporter --help", argv[1]);
    }
    if (o.version) {
        return printf("psd-exporter %s\n", ps_version()) > 0 && fflush(stdout) == 0 ? 0 : 1;
    }
    if (o.help) {
        return print_help();
    }
    int code = read_token(&o, token);
    return code != 0 ? code : http_serve(&o, token);
}
