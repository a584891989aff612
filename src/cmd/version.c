/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * `dprobes --version`: which build this is, which module and files go with it, and what it was built with. What the
 * machine can do is the doctor's.
 */
#include <elfutils/libdwfl.h>
#include <protobuf-c/protobuf-c.h>
#include <string.h>

#include "abi/abi-control.h"
#include "abi/abi-device.h"
#include "base/built.h"
#include "cmd/cmd.h"
#include "log/gzip.h"
#include "log/recording.h"
#include "send/send.h"
#include "serve/serve.h"
#include "top/top-show.h"

struct version_row {
	const char *key, *name; /* in JSON, in text */
	char value[160];
};

enum {
	ROW_BUILD_ID,
	ROW_PROGRAMS,
	ROW_KERNEL,
	ROW_RECORDING,
	ROW_FORMATS,
	ROW_ELFUTILS,
	ROW_DEBUGINFOD,
	ROW_CTF,
	ROW_PERFETTO,
	ROW_SCREEN,
	ROW_PPROF,
	ROW_SERVE,
	ROW_OTLP,
	ROW_COUNT
};

/* Of the file that runs; no file system of processes, no build-id. */
static void own_build_id(char *text, size_t size)
{
	struct dp_error err = {0};
	struct dp_module *m;

	snprintf(text, size, "unknown");
	if (dp_module_open(&m, "/proc/self/exe", &err))
		return;
	if (*dp_module_build_id(m))
		snprintf(text, size, "%s", dp_module_build_id(m));
	dp_module_close(m);
}

static void fill(struct version_row rows[ROW_COUNT])
{
	static const struct version_row named[ROW_COUNT] = {
	    [ROW_BUILD_ID] = {"build_id", "build-id"},
	    [ROW_PROGRAMS] = {"programs", "programs", "compiled for x86_64, or interpreted"},
	    [ROW_KERNEL] = {"kernel_interface", "kernel module's interface"},
	    [ROW_RECORDING] = {"recording_version", "recordings' version"},
	    [ROW_FORMATS] = {"formats", "formats"},
	    [ROW_ELFUTILS] = {"elfutils", "debug information by elfutils"},
	    [ROW_DEBUGINFOD] = {"debuginfod", "debuginfod"},
	    [ROW_CTF] = {"babeltrace2", "format ctf by babeltrace2"},
	    [ROW_PERFETTO] = {"protobuf_c", "format perfetto by protobuf-c"},
	    [ROW_SCREEN] = {"ncurses", "screen of top by ncurses"},
	    [ROW_PPROF] = {"zlib", "format pprof by zlib"},
	    [ROW_SERVE] = {"libmicrohttpd", "serve by libmicrohttpd"},
	    [ROW_OTLP] = {"libcurl", "format otlp sent by libcurl"},
	};
	const char *ctf = dp_format_ctf_writer(), *screen = dp_top_screen_library(), *zlib = dp_gzip_version();
	const char *server = dp_exporter_library(), *sender = dp_sender_library();

	memcpy(rows, named, sizeof(named));
#define SIZE sizeof(rows->value)
	own_build_id(rows[ROW_BUILD_ID].value, SIZE);
	snprintf(rows[ROW_KERNEL].value, SIZE, "%d.%d", DP_DEV_ABI, DP_ABI);
	snprintf(rows[ROW_RECORDING].value, SIZE, "%d", DP_RECORDING_VERSION);
	for (unsigned i = 0; i < DP_NFORMATS; i++) {
		char *s = rows[ROW_FORMATS].value;

		if (!dp_format_missing((enum dp_format)i))
			snprintf(s + strlen(s), SIZE - strlen(s), "%s%s", *s ? " " : "",
				 dp_format_name((enum dp_format)i));
	}
	snprintf(rows[ROW_ELFUTILS].value, SIZE, "%s", dwfl_version(NULL));
	snprintf(rows[ROW_DEBUGINFOD].value, SIZE, "%s",
		 dp_built_static         ? "not in the static dprobes"
		 : dp_debuginfod_there() ? "installed"
					 : "not installed (libdebuginfod1)");
	snprintf(rows[ROW_CTF].value, SIZE, "%s",
		 ctf               ? ctf
		 : dp_built_static ? "not in the static dprobes"
				   : "its part is missing (dprobes-ctf.so)");
	snprintf(rows[ROW_PERFETTO].value, SIZE, "%s", protobuf_c_version());
	snprintf(rows[ROW_SCREEN].value, SIZE, "%s",
		 screen && !strncmp(screen, "ncurses ", 8) ? screen + 8 : "not in this build");
	snprintf(rows[ROW_PPROF].value, SIZE, "%s", zlib ? zlib : "built without: not compressed");
	snprintf(rows[ROW_SERVE].value, SIZE, "%s",
		 server            ? server
		 : dp_built_static ? "not in the static dprobes"
				   : "its part is missing (dprobes-http.so), or built without (libmicrohttpd-dev, "
				     "libjson-c-dev)");
	snprintf(rows[ROW_OTLP].value, SIZE, "%s",
		 sender            ? sender
		 : dp_built_static ? "not in the static dprobes"
				   : "not installed (libcurl4), or built without (libcurl4-openssl-dev)");
#undef SIZE
}

static void print_json(const struct version_row *rows)
{
	struct dp_line line = {0};
	struct dp_json j = {.line = &line};

	dp_json_open(&j, '{');
	dp_json_put_string(&j, "version", DP_VERSION);
	for (int i = 0; i < ROW_COUNT; i++)
		dp_json_put_string(&j, rows[i].key, rows[i].value);
	dp_json_close(&j, '}');
	dp_ui_json_end(&j);
}

int dp_cmd_version(int argc, char **argv)
{
	struct version_row rows[ROW_COUNT];
	bool json = argc == 2 && (!strcmp(argv[1], "--json") || !strcmp(argv[1], "-j"));

	if (argc > 1 + json)
		return dp_ui_fail(argv[1 + json][0] == '-' ? E_CMD_OPTION : E_CMD_EXTRA,
				  "`dprobes --version` takes --json", "%s", argv[1 + json]);
	fill(rows);
	if (json) {
		print_json(rows);
		return CMD_OK;
	}
	printf("dprobes %s\n", DP_VERSION);
	for (int i = 0; i < ROW_COUNT; i++)
		printf("  %-30s %s\n", rows[i].name, rows[i].value);
	return CMD_OK;
}
