#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# A page of the manual from a document: page.sh NAME SECTION "what it is about" [HEAD] < DOCUMENT.md. HEAD is a page
# that ends with its SEE ALSO: the sections of the document go in front of that, without what stands above them. Where
# lowdown is not installed, the page tells where the documents are.
set -eu
name=$1 section=$2 about=$3 head=${4-}

roff() {
	if command -v lowdown >/dev/null; then
		# Headings move up by a level, for the title has gone; headings in examples are none. Code is bold:
		# many terminals show no other font. Cells of tables are too narrow to be adjusted.
		sed '/^```/,/^```/!s/^#\(#* \)/\1/' | lowdown -Tman |
			sed -e 's/\\fC/\\fB/g' -e '/^T{$/a .na' -e '/^T}|T{$/a .na'
	else
		cat >/dev/null
		echo 'The documents of Dynamic Probes, in /usr/share/doc/dprobes or its source, describe it.'
	fi
}

escaped() {
	echo "$1" | sed 's/-/\\-/g'
}

if [ "$head" ]; then
	sed '/^\.SH SEE ALSO/,$d' "$head"
	sed '1,/^## /{/^## /!d}' | roff
	sed -n '/^\.SH SEE ALSO/,$p' "$head"
else
	echo "'\\\" t" # there are tables, which go through tbl
	echo '.\" SPDX-License-Identifier: MIT OR GPL-2.0-only'
	printf '.TH %s %s "" "Dynamic Probes" "Dynamic Probes"\n' "$(escaped "$name" | tr a-z A-Z)" "$section"
	printf '.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n' "$(escaped "$name")" "$(escaped "$about")"
	sed 1d | roff
	printf '.SH SEE ALSO\n.BR dprobes (1)\n'
fi
