/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A small server with hooks: it reads names of files from standard input and answers with their
 * first lines. Modules that bring exits are its arguments: server ./audit.so ./tracer.so
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "server.h"

DECLARE_HOOK(request, int *, const char **);
DECLARE_DYNAMIC_HOOK(file_opening, const char *, const char *);

static int serve(const char *path)
{
	char line[256] = "";
	FILE *f;

	HOOK_RET(request, &path);
	f = fopen(path, "r");
	if (!f)
		return -errno;
	if (fgets(line, sizeof(line), f))
		line[strcspn(line, "\n")] = '\0';
	fclose(f);
	printf("%s: %s\n", path, line);
	return 0;
}

int main(int argc, char **argv)
{
	char path[256];
	int r;

	if (hook_bind(&file_opening, "libc:fopen", 0))
		fprintf(stderr, "%s\n", dp_kprobe_error());
	for (int i = 1; i < argc; i++)
		if (!dlopen(argv[i], RTLD_NOW))
			fprintf(stderr, "%s\n", dlerror());
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (fgets(path, sizeof(path), stdin)) {
		path[strcspn(path, "\n")] = '\0';
		r = serve(path);
		if (r)
			printf("%s: refused: %s\n", path, strerror(-r));
	}
	return 0;
}
