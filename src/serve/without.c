/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* In the place of exporter.c where libmicrohttpd or json-c is missing, and in the static dprobes. */
#include "serve/api.h"
#include "serve/serve.h"

const char *dp_exporter_library(void)
{
	return NULL;
}

int dp_exporter_start(struct dp_exporter *x, const struct dp_listener *l, struct dp_error *err)
{
	x->fd = -1;
	x->pid = -1;
	return dp_fail(err, E_SERVE_BUILD, "%.100s", l->name);
}

bool dp_exporter_asks(struct dp_exporter *x)
{
	return false;
}

bool dp_exporter_answer(struct dp_exporter *x, const char *driver, const char *own)
{
	return false;
}

void dp_exporter_end(struct dp_exporter *x)
{
}

bool dp_api_built(void)
{
	return false;
}

void dp_api_reap(void)
{
}

void dp_api_accept(const struct dp_api *api, int listener)
{
}
