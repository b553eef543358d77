/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP, by libmicrohttpd: one thread answers, one request after the other.
 *
 * Happy path: GET or HEAD of /healthz or /readyz; or, with the token if one is set, of /, /metrics or /api/status. The Host
 * header must be allowed. Failure modes: other requests get 4xx; bytes that are not HTTP get 400 or no answer. Bounds: there are
 * at most CONNECTIONS_MAX connections, and CONNECTIONS_OF_ONE of one address; each has CONNECTION_BYTES of memory, and is closed
 * after CONNECTION_SECONDS of silence. A body is never read. /metrics and /api/status each ask the tasks at most once in --every,
 * and until then all requests get the last answer, so a flood of requests costs the tasks nothing.
 *
 * Why the Host header is checked: a page of another site could make a browser send requests to this program under that site's
 * name (DNS rebinding), and could read the answers. */
#include "exporter.h"

#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <microhttpd.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 128,
    CONNECTIONS_OF_ONE = 32, /* limit for one client address, so that no client can take all connections */
    CONNECTION_BYTES = 16 << 10,
    CONNECTION_SECONDS = 10,
    THREAD_BYTES = 512 << 10,
    BACKLOG = 64,
    HEADER_BYTES_MAX = 512,
    LARGE_BYTES = 64 << 10 /* malloc() returns freed blocks of this size or more to the system at once */
};

/* An answer to /metrics or /api/status, which all requests get until it is older than --every. */
struct made {
    char *text;
    size_t bytes;
    int64_t at_ms;
};

struct server {
    const struct exporter_options *o;
    const char *token; /* "": requests need no token */
    struct look look;
    struct made metrics, status;
};

/* True if the Host header is good: an IP address, localhost or one of hosts, with or without a port. */
static bool host_is_ours(const char *header, const char *const *hosts)
{
    char host[HEADER_BYTES_MAX];
    struct in6_addr v6;
    struct in_addr v4;
    if (header == NULL || strlen(header) >= sizeof(host)) {
        return false;
    }
    (void)snprintf(host, sizeof(host), "%s", header);
    char *port = NULL;
    if (host[0] == '[') {
        char *end = strchr(host, ']');
        if (end == NULL || (end[1] != '\0' && end[1] != ':')) {
            return false;
        }
        port = end[1] == ':' ? end + 2 : NULL;
        *end = '\0';
        if (inet_pton(AF_INET6, host + 1, &v6) != 1) {
            return false;
        }
    } else {
        char *colon = strchr(host, ':');
        if (colon != NULL) {
            *colon = '\0';
            port = colon + 1;
        }
        bool ours = inet_pton(AF_INET, host, &v4) == 1 || strcasecmp(host, "localhost") == 0;
        for (size_t i = 0; !ours && hosts[i] != NULL; i++) {
            ours = strcasecmp(host, hosts[i]) == 0;
        }
        if (!ours) {
            return false;
        }
    }
    return port == NULL || (port[0] != '\0' && strspn(port, "0123456789") == strlen(port) && strlen(port) <= 5);
}

/* True if text [n] is the token. Takes equally long however many bytes are right, so that timing tells nothing. */
static bool equal(const char *text, size_t n, const char *token)
{
    const size_t length = strlen(token);
    unsigned differs = n != length;
    for (size_t i = 0; i < n; i++) {
        differs |= (unsigned)(unsigned char)text[i] ^ (unsigned)(unsigned char)token[length == 0 ? 0 : i % length];
    }
    return differs == 0;
}

static unsigned digit(char c)
{
    return c >= 'A' && c <= 'Z'   ? (unsigned)(c - 'A')
           : c >= 'a' && c <= 'z' ? (unsigned)(c - 'a') + 26
           : c >= '0' && c <= '9' ? (unsigned)(c - '0') + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : 64;
}

/* Decode base64 text into out [n]. Stops at the first character that is not base64, or when out is full. Returns how many
 * bytes were decoded. */
static size_t decode(const char *text, char *out, size_t n)
{
    unsigned bits = 0, have = 0;
    size_t used = 0;
    for (; *text != '\0' && digit(*text) < 64 && used < n; text++) {
        bits = bits << 6 | digit(*text);
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[used++] = (char)(bits >> have & 255);
        }
    }
    return used;
}

/* True if the Authorization header has the token: "Bearer TOKEN", or "Basic ..." with the token as password. */
static bool token_is_right(const char *header, const char *token)
{
    char pair[HEADER_BYTES_MAX];
    if (header == NULL || strlen(header) >= HEADER_BYTES_MAX) {
        return false;
    }
    if (strncasecmp(header, "Bearer ", 7) == 0) {
        return equal(header + 7, strlen(header + 7), token);
    }
    if (strncasecmp(header, "Basic ", 6) != 0) {
        return false;
    }
    const size_t n = decode(header + 6, pair, sizeof(pair));
    const char *colon = memchr(pair, ':', n);
    return colon != NULL && equal(colon + 1, n - (size_t)(colon + 1 - pair), token);
}

static enum MHD_Result send_response(struct MHD_Connection *c, unsigned code, const char *type, const char *text, size_t n,
                                     enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(n, (void *)(uintptr_t)text, mode);
    if (r == NULL) {
        return MHD_NO;
    }
    static const char *const headers[][2] = {
        {MHD_HTTP_HEADER_CACHE_CONTROL, "no-store"},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; "
         "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    };
    bool good = MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES;
    for (size_t i = 0; i < CLI_COUNT(headers); i++) {
        good = good && MHD_add_response_header(r, headers[i][0], headers[i][1]) == MHD_YES;
    }
    if (code == MHD_HTTP_UNAUTHORIZED) {
        good = good && MHD_add_response_header(r, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Basic realm=\"psd\"") == MHD_YES;
    }
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED) {
        good = good && MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD") == MHD_YES;
    }
    enum MHD_Result result = good ? MHD_queue_response(c, code, r) : MHD_NO;
    MHD_destroy_response(r);
    return result;
}

static enum MHD_Result send_text(struct MHD_Connection *c, unsigned code, const char *text)
{
    return send_response(c, code, "text/plain; charset=utf-8", text, strlen(text), MHD_RESPMEM_PERSISTENT);
}

/* Return the last answer m, made again by write() if it is older than --every. NULL: out of memory. */
static const struct made *make(struct server *s, struct made *m, void (*write)(struct look *l, FILE *to))
{
    if (m->at_ms != 0 && cli_clock_ms() - m->at_ms < s->o->every_ms) {
        return m;
    }
    free(m->text);
    *m = (struct made){.text = NULL};
    FILE *to = open_memstream(&m->text, &m->bytes);
    if (to == NULL) {
        return NULL;
    }
    write(&s->look, to);
    if (fclose(to) != 0) {
        free(m->text);
        *m = (struct made){.text = NULL};
        return NULL;
    }
    m->at_ms = cli_clock_ms();
    return m;
}

static enum MHD_Result send_made(struct MHD_Connection *c, const char *type, const struct made *m)
{
    return m == NULL ? send_text(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n")
                     : send_response(c, MHD_HTTP_OK, type, m->text, m->bytes, MHD_RESPMEM_MUST_COPY);
}

static enum MHD_Result send_readiness(struct server *s, struct MHD_Connection *c)
{
    const bool ready = look_at_tasks(&s->look) && psctl_directory(&s->look.c) >= 0;
    return send_text(c, ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
                     ready ? "ready\n" : "not ready: the directory of the cluster does not answer\n");
}

static enum MHD_Result answer(struct server *s, struct MHD_Connection *c, const char *url, const char *method)
{
    const char *host = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    const char *shown = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    if (!host_is_ours(host, s->o->hosts)) {
        return send_text(c, MHD_HTTP_FORBIDDEN, "this name is not served here: start psd-exporter with --host NAME\n");
    }
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
        return send_text(c, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD only: nothing can be changed here\n");
    }
    if (strcmp(url, "/healthz") == 0) {
        return send_text(c, MHD_HTTP_OK, "ok\n");
    }
    if (strcmp(url, "/readyz") == 0) {
        return send_readiness(s, c);
    }
    if (s->token[0] != '\0' && !token_is_right(shown, s->token)) {
        return send_text(c, MHD_HTTP_UNAUTHORIZED, "this page needs the token of psd-exporter --token_file\n");
    }
    if (strcmp(url, "/") == 0) {
        return send_response(c, MHD_HTTP_OK, "text/html; charset=utf-8", exporter_page,
                             (size_t)((uintptr_t)exporter_page_end - (uintptr_t)exporter_page), MHD_RESPMEM_PERSISTENT);
    }
    if (strcmp(url, "/metrics") == 0) {
        return send_made(c, "text/plain; version=0.0.4; charset=utf-8", make(s, &s->metrics, metrics_write));
    }
    if (strcmp(url, "/api/status") == 0) {
        return send_made(c, "application/json", make(s, &s->status, look_status));
    }
    return send_text(c, MHD_HTTP_NOT_FOUND, "there are /, /metrics, /api/status, /healthz and /readyz\n");
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *c, const char *url, const char *method, const char *version,
                                  const char *body, size_t *body_bytes, void **seen)
{
    static char headers_are_here;
    (void)version, (void)body;
    if (*seen == NULL) { /* the first call, with the headers alone: answer at the next call */
        *seen = &headers_are_here;
        return MHD_YES;
    }
    return *body_bytes > 0 ? MHD_NO : answer(ctx, c, url, method); /* requests have no body */
}

static int fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "psd-exporter: --listen %s: %s\n", what, why);
    return -1;
}

static bool is_loopback(const struct sockaddr *a)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)a;
    return a->sa_family == AF_INET ? ntohl(v4->sin_addr.s_addr) >> 24 == 127 : IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/* Split text, "HOST:PORT" or "[HOST]:PORT", in place. False: it is neither. */
static bool split(char *text, char **host, char **port)
{
    char *colon = strrchr(text, ':');
    char *end = text[0] == '[' ? strchr(text, ']') : NULL;
    if (colon == NULL || colon[1] == '\0' || (text[0] == '[' && (end == NULL || end + 1 != colon))) {
        return false;
    }
    *colon = '\0';
    *port = colon + 1;
    *host = text[0] == '[' ? text + 1 : text;
    if (end != NULL) {
        *end = '\0';
    }
    return true;
}

/* Open the listening socket for o->listen. -1: an error, printed; *code is the exit status. */
static int listen_at(const struct exporter_options *o, const char *token, int *code)
{
    char text[HEADER_BYTES_MAX], *host = NULL, *port = NULL;
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    *code = 2;
    (void)snprintf(text, sizeof(text), "%s", o->listen);
    if (!split(text, &host, &port) || getaddrinfo(host, port, &hints, &found) != 0) {
        return fail(o->listen, "it must be an IP address and a port, as 127.0.0.1:9391 or [::1]:9391");
    }
    if (token[0] == '\0' && !is_loopback(found->ai_addr)) {
        freeaddrinfo(found);
        return fail(o->listen, "others reach this address: it needs --token_file");
    }
    *code = 1;
    const int on = 1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const bool good = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                      bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0;
    freeaddrinfo(found);
    if (!good) {
        (void)fail(o->listen, strerror(errno));
        if (fd >= 0) {
            (void)close(fd);
        }
        return -1;
    }
    return fd;
}

static void say_ready(int fd)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof(a);
    char host[64] = "", port[8] = "";
    if (getsockname(fd, (struct sockaddr *)(void *)&a, &n) == 0) {
        (void)getnameinfo((const struct sockaddr *)(const void *)&a, n, host, sizeof(host), port, sizeof(port),
                          NI_NUMERICHOST | NI_NUMERICSERV);
    }
    (void)printf(a.ss_family == AF_INET6 ? "ready: http://[%s]:%s/\n" : "ready: http://%s:%s/\n", host, port);
    (void)fflush(stdout);
}

int http_serve(const struct exporter_options *o, const char *token)
{
    sigset_t ends;
    int code = 1, number = 0;
    struct server s = {.o = o, .token = token};
    const int fd = listen_at(o, token, &code);
    if (fd < 0) {
        return code;
    }
    (void)mallopt(M_ARENA_MAX, 1);
    (void)mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGINT);
    (void)sigaddset(&ends, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &ends, NULL); /* threads made later inherit the mask, so only sigwait() below gets signals */
    look_init(&s.look, o);
    struct MHD_Daemon *d = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL, 0, NULL, NULL, on_request, &s, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX, MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)CONNECTIONS_OF_ONE,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)CONNECTION_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
        MHD_OPTION_THREAD_STACK_SIZE, (size_t)THREAD_BYTES, MHD_OPTION_END);
    if (d == NULL) {
        (void)fprintf(stderr, "psd-exporter: libmicrohttpd does not start\n");
        (void)close(fd);
        look_fini(&s.look);
        return 1;
    }
    say_ready(fd);
    (void)sigwait(&ends, &number);
    MHD_stop_daemon(d); /* closes fd */
    free(s.metrics.text);
    free(s.status.text);
    look_fini(&s.look);
    return 0;
}
