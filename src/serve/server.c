// SPDX-License-Identifier: BSD-2-Clause
#include "serve/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/strbuf.h"

enum {
	CONNECTIONS_MAX = 64,
	CONNECTION_SECONDS = 30, /* of silence, after which a connection is closed */
	CONNECTION_MEMORY = 32 << 10, /* for the head of a request and of its answer */
};

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct server {
	struct server_options options;
	char *address; /* as in an URL */
	char token[2 * ROUTE_TOKEN_BYTES + 1];
	char *url;
	unsigned port;
	struct MHD_Daemon *daemon;
};

/* One request, from its first line to the end of its answer. */
struct exchange {
	char *target;
	struct strbuf body;
	bool begun; /* the head has been seen */
	bool too_long;
};

/* --- Requests --------------------------------------------------------------------------------- */

static const struct {
	int err;
	unsigned status;
} statuses[] = {
	{ -EINVAL, MHD_HTTP_BAD_REQUEST }, { -EACCES, MHD_HTTP_FORBIDDEN },
	{ -ENOENT, MHD_HTTP_NOT_FOUND },   { -ENODATA, MHD_HTTP_NOT_FOUND },
	{ -E2BIG, MHD_HTTP_URI_TOO_LONG }, { -EOPNOTSUPP, MHD_HTTP_METHOD_NOT_ALLOWED },
	{ -EBUSY, MHD_HTTP_CONFLICT },	   { -EFBIG, MHD_HTTP_CONTENT_TOO_LARGE },
};

static unsigned status_of(int err)
{
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
		if (statuses[i].err == err)
			return statuses[i].status;
	return MHD_HTTP_INTERNAL_SERVER_ERROR;
}

/*
 * The address holds the token, so it must not be sent as a referrer, cached, or shown in a frame.
 */
static void headers_add(struct MHD_Response *response, const struct answer *answer)
{
	static const char *const headers[][2] = {
		{ "Cache-Control", "no-store" },
		{ "Content-Security-Policy", "frame-ancestors 'none'" },
		{ "Cross-Origin-Resource-Policy", "same-origin" },
		{ "Referrer-Policy", "no-referrer" },
		{ "X-Content-Type-Options", "nosniff" },
	};

	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
		MHD_add_response_header(response, headers[i][0], headers[i][1]);
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type);
	if (answer->gzip)
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
}

static enum MHD_Result answer_send(struct MHD_Connection *connection, unsigned status,
				   const struct answer *answer)
{
	struct MHD_Response *response =
		MHD_create_response_from_buffer(answer->size, answer->body, MHD_RESPMEM_MUST_FREE);
	enum MHD_Result result;

	if (!response) {
		free(answer->body);
		return MHD_NO;
	}
	headers_add(response, answer);
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result refusal_send(struct MHD_Connection *connection, int err)
{
	char *text = mem_printf("assay: %s\n", err_text());

	return answer_send(connection, status_of(err),
			   &(struct answer){ "text/plain; charset=utf-8", text, strlen(text),
					     false });
}

static int host_check(const struct server *server, struct MHD_Connection *connection)
{
	const char *host =
		MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);

	if (server->options.remote)
		return 0;
	if (!host || !route_host_is_local(host, server->address, server->port))
		return err_set(-EACCES, "this server is only asked by its own address");
	return 0;
}

static int request_answer(const struct server *server, struct MHD_Connection *connection,
			  const char *method, const struct exchange *exchange, struct answer *ret)
{
	struct route route;
	int err = host_check(server, connection);

	err = err ? err : route_parse(method, exchange->target, server->token, &route);
	if (!err && exchange->too_long)
		err = err_set(-EFBIG, "what is posted has at most %d bytes", ROUTE_BODY_MAX);
	return err ? err
		   : server->options.answer(server->options.ctx, &route,
					    strbuf_text(&exchange->body), ret);
}

static void body_take(struct exchange *exchange, const char *data, size_t size)
{
	if (exchange->too_long || exchange->body.length + size > ROUTE_BODY_MAX)
		exchange->too_long = true;
	else
		strbuf_add(&exchange->body, data, size);
}

/* Called with the head, then with each part of the body, then without any. */
static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *data,
				  size_t *size, void **slot)
{
	struct exchange *exchange = *slot;
	struct answer answer = {};
	int err;

	if (!exchange)
		return MHD_NO;
	if (!exchange->begun) {
		exchange->begun = true;
		return MHD_YES;
	}
	if (*size) {
		body_take(exchange, data, *size);
		*size = 0;
		return MHD_YES;
	}
	err = request_answer(ctx, connection, method, exchange, &answer);
	return err ? refusal_send(connection, err) : answer_send(connection, MHD_HTTP_OK, &answer);
}

/* The target as it was received: the library would decode it. */
static void *on_target(void *ctx, const char *target, struct MHD_Connection *connection)
{
	struct exchange *exchange = mem_zalloc(sizeof(*exchange));

	exchange->target = mem_strdup(target);
	return exchange;
}

static void on_end(void *ctx, struct MHD_Connection *connection, void **slot,
		   enum MHD_RequestTerminationCode code)
{
	struct exchange *exchange = *slot;

	if (!exchange)
		return;
	strbuf_deinit(&exchange->body);
	free(exchange->target);
	free(exchange);
	*slot = NULL;
}

/* --- The server ------------------------------------------------------------------------------- */

static int address_parse(const char *text, uint16_t port, union address *ret)
{
	union address address = {};

	if (inet_pton(AF_INET, text, &address.v4.sin_addr) == 1) {
		address.v4.sin_family = AF_INET;
		address.v4.sin_port = htons(port);
	} else if (inet_pton(AF_INET6, text, &address.v6.sin6_addr) == 1) {
		address.v6.sin6_family = AF_INET6;
		address.v6.sin6_port = htons(port);
	} else {
		return err_set(-EINVAL, "'%s' is not an address such as 127.0.0.1 or ::1", text);
	}
	*ret = address;
	return 0;
}

static bool is_loopback(const union address *address)
{
	if (address->any.sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
	return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
}

static int address_settle(const struct server_options *options, union address *ret)
{
	int err = address_parse(options->address, options->port, ret);

	if (!err && !options->remote && !is_loopback(ret))
		err = err_set(-EINVAL,
			      "%s can be reached from other machines: whoever has the address "
			      "with its token sees the whole profile, and the network in between "
			      "sees it too, as nothing is encrypted; if that is wanted, add "
			      "--allow-remote",
			      options->address);
	return err;
}

static int daemon_start(struct server *server, const union address *address)
{
	unsigned flags = MHD_USE_EPOLL | MHD_USE_SUPPRESS_DATE_NO_CLOCK;

	if (address->any.sa_family == AF_INET6)
		flags |= MHD_USE_IPv6;
	errno = 0;
	server->daemon = MHD_start_daemon(
		flags, server->options.port, NULL, NULL, on_request, server, MHD_OPTION_SOCK_ADDR,
		&address->any, MHD_OPTION_URI_LOG_CALLBACK, on_target, NULL,
		MHD_OPTION_NOTIFY_COMPLETED, on_end, NULL, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned)CONNECTION_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)CONNECTION_MEMORY, MHD_OPTION_END);
	if (!server->daemon)
		return err_set(errno ? -errno : -EADDRINUSE,
			       "cannot listen on %s, port %u: %s; choose another with --port",
			       server->options.address, server->options.port,
			       errno ? strerror(errno) : "it is taken");
	return 0;
}

static int port_find(struct server *server)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);

	if (!info || !info->port)
		return err_set(-EIO, "the port of the server cannot be told");
	server->port = info->port;
	server->url = mem_printf("http://%s:%u/%s/", server->address, server->port, server->token);
	return 0;
}

int server_create(const struct server_options *options, struct server **ret)
{
	AUTO(server_destroy_auto) struct server *server = mem_zalloc(sizeof(*server));
	union address address;
	int err = address_settle(options, &address);

	if (err)
		return err;
	server->options = *options;
	server->address =
		mem_printf(address.any.sa_family == AF_INET6 ? "[%s]" : "%s", options->address);
	err = route_token_make(server->token);
	err = err ? err : daemon_start(server, &address);
	err = err ? err : port_find(server);
	if (!err)
		*ret = take_ptr(server);
	return err;
}

void server_destroy(struct server *server)
{
	if (!server)
		return;
	if (server->daemon)
		MHD_stop_daemon(server->daemon);
	free(server->address);
	free(server->url);
	free(server);
}

const char *server_url(const struct server *server)
{
	return server->url;
}

int server_fd(const struct server *server)
{
	return MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

int server_timeout(const struct server *server)
{
	MHD_UNSIGNED_LONG_LONG ms;

	if (MHD_get_timeout(server->daemon, &ms) != MHD_YES)
		return -1;
	return ms > 60000 ? 60000 : (int)ms;
}

int server_run(struct server *server)
{
	return MHD_run(server->daemon) == MHD_YES ? 0 : err_set(-EIO, "the server has failed");
}
