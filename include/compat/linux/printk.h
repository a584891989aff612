/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * printk() to standard error, one write for each call, so that lines of threads do not mix and no lock of stdio is
 * taken in a handler.
 */
#ifndef DP_COMPAT_LINUX_PRINTK_H
#define DP_COMPAT_LINUX_PRINTK_H

#if __has_include(<execinfo.h>)
#include <execinfo.h>
#endif
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KERN_SOH "\001"
#define KERN_EMERG KERN_SOH "0"
#define KERN_ALERT KERN_SOH "1"
#define KERN_CRIT KERN_SOH "2"
#define KERN_ERR KERN_SOH "3"
#define KERN_WARNING KERN_SOH "4"
#define KERN_NOTICE KERN_SOH "5"
#define KERN_INFO KERN_SOH "6"
#define KERN_DEBUG KERN_SOH "7"
#define KERN_CONT KERN_SOH "c"

/* %p is sixteen digits, as in the kernel; what may follow it there (%px, %pS) says nothing here. */
__attribute__((unused)) static const char *dp_printk_format(const char *fmt, char *buf, size_t size)
{
	size_t n = 0;

	while (*fmt && n + 6 < size) {
		if (fmt[0] == '%' && fmt[1] == '%')
			buf[n++] = *fmt++;
		if (fmt[0] != '%' || fmt[1] != 'p') {
			buf[n++] = *fmt++;
			continue;
		}
		memcpy(buf + n, "%016lx", 6);
		n += 6;
		for (fmt += 2; (*fmt >= 'a' && *fmt <= 'z') || (*fmt >= 'A' && *fmt <= 'Z'); fmt++)
			;
	}
	buf[n] = '\0';
	return buf;
}

__attribute__((format(printf, 1, 2), unused)) static int printk(const char *fmt, ...)
{
	char line[1024], format[512];
	va_list ap;
	int n;

	if (fmt[0] == 1 && fmt[1]) /* the level says nothing here */
		fmt += 2;
	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), dp_printk_format(fmt, format, sizeof(format)), ap);
	va_end(ap);
	if (n > (int)sizeof(line) - 1)
		n = sizeof(line) - 1;
	return n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0 ? -1 : n;
}

/*
 * Who has called. The first use loads the compiler's unwinder: not in handlers of probes inside the allocator or the
 * dynamic linker.
 */
__attribute__((unused)) static void dump_stack(void)
{
#if __has_include(<execinfo.h>)
	void *frames[64];
	int n = backtrace(frames, 64);

	printk("Call Trace:\n");
	backtrace_symbols_fd(frames, n, STDERR_FILENO);
#else
	printk("Call Trace: not known with this C library\n");
#endif
}

#ifndef pr_fmt
#define pr_fmt(fmt) fmt
#endif
#define pr_emerg(fmt, ...) printk(KERN_EMERG pr_fmt(fmt), ##__VA_ARGS__)
#define pr_alert(fmt, ...) printk(KERN_ALERT pr_fmt(fmt), ##__VA_ARGS__)
#define pr_crit(fmt, ...) printk(KERN_CRIT pr_fmt(fmt), ##__VA_ARGS__)
#define pr_err(fmt, ...) printk(KERN_ERR pr_fmt(fmt), ##__VA_ARGS__)
#define pr_warn(fmt, ...) printk(KERN_WARNING pr_fmt(fmt), ##__VA_ARGS__)
#define pr_warning pr_warn
#define pr_notice(fmt, ...) printk(KERN_NOTICE pr_fmt(fmt), ##__VA_ARGS__)
#define pr_info(fmt, ...) printk(KERN_INFO pr_fmt(fmt), ##__VA_ARGS__)
#define pr_cont(fmt, ...) printk(KERN_CONT fmt, ##__VA_ARGS__)
#ifdef DEBUG
#define pr_debug(fmt, ...) printk(KERN_DEBUG pr_fmt(fmt), ##__VA_ARGS__)
#else
#define pr_debug(fmt, ...) ((void)(0 && printk(pr_fmt(fmt), ##__VA_ARGS__)))
#endif

#endif
