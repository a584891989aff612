/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* All that a module has of a function. */
#ifndef DP_COPIES_H
#define DP_COPIES_H

#include "symbols/symbols.h"

struct dp_func_copies {
	struct dp_symbol sym; /* the function that has the name, else the one at the first place */
	u64 *at; /* link-time addresses, each once: those of functions, behind them those of inlined copies */
	u32 functions, inlined, room;
};

/*
 * A function's places: itself; what the compiler has made of it for some callers (NAME.constprop.N, NAME.isra.N), in
 * the order of addresses; with `inlined`, its copies in others, by the debug information, which is read to its end. The
 * rest of a function whose beginning is inlined (NAME.part.N) counts only where there is no other function, since its
 * calls are seen at the beginning. Of a name with a version or such a suffix: that function alone, and its inlined
 * copies. A symbol that is no function is one place: c->sym tells. Errors: as dp_module_symbol(), and E_ARM_NOMEM.
 * Free *c with dp_func_copies_free(); after an error nothing is left to free. err may be NULL.
 */
int dp_module_copies(struct dp_module *m, const char *name, bool inlined, struct dp_func_copies *c,
		     struct dp_error *err);
void dp_func_copies_free(struct dp_func_copies *c);

/*
 * What there is to say, behind the name: "has 4 places: itself, 2 clones, 1 inlined copy", "is NAME.isra.0 here".
 * False: nothing, since it is the function alone.
 */
#define DP_FUNC_COPIES_TEXT 200
bool dp_func_copies_text(const struct dp_func_copies *c, const char *name, char *buf, size_t size);
/* With the name, the number of copies, and the end of the word. */
#define DP_FUNC_INLINED "%.100s is inlined wherever it is called (%u place%s)"
#define DP_FUNC_COPIES_OUT \
	"%.100s: %u inlined cop%s left out, whose arguments are in no fixed registers (names find them)"
#define DP_FUNC_NO_ROOM "%.100s: %u inlined cop%s left out, where no jump fits"
/* Whether the compiler has made it of a function for some callers: NAME.constprop.N, NAME.isra.N, NAME.part.N. */
bool dp_symbol_is_clone(const struct dp_symbol *sym);

#endif
