// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Modules that come and go: probes wait for them, and are gone with them. */
#include <linux/module.h>
#include <linux/notifier.h>

#include "k-exits.h"
#include "k-hooks.h"
#include "kernel-priv.h"

static void gone(u64 base, u64 size, void *mod)
{
	if (!size)
		return;
	dp_k_gone(base, base + size, mod);
	dp_k_watches_gone(base, base + size);
}

/* COMING: its code is complete, its init has not run. LIVE: init's code is about to be freed. */
static int on_module(struct notifier_block *nb, unsigned long state, void *data)
{
	struct module *mod = data;

	if (mod == THIS_MODULE)
		return NOTIFY_DONE;
	switch (state) {
	case MODULE_STATE_COMING:
		dp_k_try_pending(mod);
		dp_k_hooks_come(mod);
		break;
	case MODULE_STATE_LIVE:
		dp_k_module_each(mod, true, gone, NULL);
		dp_k_hooks_gone(mod, true);
		break;
	case MODULE_STATE_GOING:
		dp_k_hooks_gone(mod, false);
		dp_k_exits_gone(mod);
		dp_k_module_each(mod, true, gone, NULL);
		dp_k_module_each(mod, false, gone, mod);
		break;
	}
	return NOTIFY_DONE;
}

/* Last: the others bring the code into its final form. */
static struct notifier_block on_module_block = {.notifier_call = on_module, .priority = INT_MIN};

int dp_k_modules_init(void)
{
	return register_module_notifier(&on_module_block);
}

void dp_k_modules_exit(void)
{
	unregister_module_notifier(&on_module_block);
}
