#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Recipes as rows of a table in C: the name and the text of each.
#
# Usage: recipe-texts.sh C-TEXT.SED FILE...
set -eu

sed=$1
shift
for file in "$@"; do
	name=${file##*/}
	printf '{"%s",\n' "${name%.recipe}"
	sed -f "$sed" "$file"
	printf '},\n'
done
