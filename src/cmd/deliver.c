/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* See deliver.h. */
#include <stdlib.h>

#include "cmd/cmd.h"
#include "cmd/deliver.h"
#include "send/journald.h"
#include "send/send.h"

static int begin_sender(struct delivery *d, const char *endpoint, bool patient, struct dp_output *out)
{
	struct dp_sender_options opt = {.endpoint = endpoint, .patient = patient};
	struct dp_error err = {0};

	if (dp_sender_new(&d->sender, &opt, &err)) {
		dp_ui_error(&err, NULL);
		return dp_ui_status(err.code);
	}
	dp_output_divert(out, dp_sender_take, d->sender);
	return CMD_OK;
}

static int begin_journal(struct delivery *d, struct dp_output *out)
{
	struct dp_error err = {0};

	if (dp_journald_new(&d->journald, &err)) {
		dp_ui_error(&err, NULL);
		return CMD_FAILED;
	}
	dp_output_divert(out, dp_journald_take, d->journald);
	return CMD_OK;
}

int dp_cmd_deliver(struct delivery *d, enum dp_format format, const char *out_path, bool patient, struct dp_output *out)
{
	const char *given = getenv("OTEL_EXPORTER_OTLP_ENDPOINT");
	const char *endpoint = d->endpoint ? d->endpoint : given && *given ? given : NULL;

	if (d->endpoint && (format != DP_FORMAT_OTLP || out_path))
		return dp_ui_fail(E_CMD_EXTRA, out_path ? "leave out one of them" : "add --format otlp",
				  out_path ? "--endpoint and -o" : "--endpoint: --format %s is not sent",
				  dp_format_name(format));
	if (format == DP_FORMAT_JOURNALD && !out_path)
		return begin_journal(d, out);
	if (format == DP_FORMAT_OTLP && endpoint && !out_path)
		return begin_sender(d, endpoint, patient, out);
	return CMD_OK;
}

int dp_cmd_delivered(struct delivery *d, bool quiet, int status)
{
	unsigned long long lost = d->journald ? dp_journald_end(d->journald) : 0;
	struct dp_error err = {0};
	char told[256] = "";
	int r = d->sender ? dp_sender_end(d->sender, told, sizeof(told), &err) : 0;

	d->journald = NULL;
	d->sender = NULL;
	if (told[0] && !quiet)
		dp_ui_note("%s", told);
	if (lost)
		dp_fail(&err, E_JOURNALD_LOST, "%llu of them", lost);
	if (!r && !lost)
		return status;
	dp_ui_error(&err, NULL);
	return status ? status : CMD_FAILED;
}
