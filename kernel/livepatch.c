// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Functions that are live patched: their calls go elsewhere from the function tracer's bytes on, and what stands behind
 * those is not reached. A probe of such a function is hit through the tracer; listings name one that was there before
 * the patch came.
 */
#include <linux/livepatch.h>

#include "kernel-priv.h"

#ifdef CONFIG_LIVEPATCH

static bool has(const struct klp_patch *patch, const void *function)
{
	const struct klp_object *obj;
	const struct klp_func *func;

	list_for_each_entry(obj, &patch->obj_list, node)
		list_for_each_entry(func, &obj->func_list, node)
			if (func->old_func == function && func->patched)
				return true;
	return false;
}

/* Never waits for those who patch: they may wait for what the caller holds. */
bool dp_k_is_patched(u64 function, bool unsure)
{
	const struct list_head *patches = dp_k_sym.klp_patches;
	const struct klp_patch *patch;
	bool is = false;

	if (!patches || !dp_k_sym.klp_mutex || list_empty(patches))
		return false;
	if (!mutex_trylock(dp_k_sym.klp_mutex))
		return unsure;
	list_for_each_entry(patch, patches, list)
		is = is || has(patch, (void *)(unsigned long)function);
	mutex_unlock(dp_k_sym.klp_mutex);
	return is;
}

#else

bool dp_k_is_patched(u64 function, bool unsure)
{
	return false;
}

#endif
