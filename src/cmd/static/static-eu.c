/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * From 0.191 on elfutils keeps its search trees in an archive that no package has, so its other archives could not be
 * linked. These are the same: the root comes first in a tree, and there is no lock, since one thread uses libdw.
 */
#include <search.h>
#include <stddef.h>

struct search_tree {
	void *root;
};

void *eu_tsearch(const void *key, struct search_tree *tree, int (*compare)(const void *, const void *));
void *eu_tfind(const void *key, struct search_tree *tree, int (*compare)(const void *, const void *));
void *eu_tdelete(const void *key, struct search_tree *tree, int (*compare)(const void *, const void *));
void eu_tdestroy(struct search_tree *tree, void (*free_node)(void *));
void eu_search_tree_init(struct search_tree *tree);
void eu_search_tree_fini(struct search_tree *tree, void (*free_node)(void *));

void *eu_tsearch(const void *key, struct search_tree *tree, int (*compare)(const void *, const void *))
{
	return tsearch(key, &tree->root, compare);
}

void *eu_tfind(const void *key, struct search_tree *tree, int (*compare)(const void *, const void *))
{
	return tfind(key, &tree->root, compare);
}

void *eu_tdelete(const void *key, struct search_tree *tree, int (*compare)(const void *, const void *))
{
	return tdelete(key, &tree->root, compare);
}

void eu_search_tree_init(struct search_tree *tree)
{
	tree->root = NULL;
}

void eu_tdestroy(struct search_tree *tree, void (*free_node)(void *))
{
	tdestroy(tree->root, free_node);
	tree->root = NULL;
}

void eu_search_tree_fini(struct search_tree *tree, void (*free_node)(void *))
{
	eu_tdestroy(tree, free_node);
}
