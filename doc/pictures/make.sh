#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
# Make the flame graph of README.md again: the order server of the tutorial, for two seconds.
# Usage: make.sh DIRECTORY    ($DPROBES is the command; dprobes without it)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$(cd "$1" && pwd)
work=$(mktemp -d)
shop=
trap '[ -z "$shop" ] || kill "$shop"; rm -rf "$work"' EXIT
make -s -C "$here/../../examples/tutorial" SHOP="$work/shop" "$work/shop"
"$work/shop" &
shop=$!
sleep 0.2
"${DPROBES:-dprobes}" graph -q -p "$shop" --duration "${SECONDS_TRACED:-2}" --format flame -o "$out/shop.svg" \
	handle_order check_credit reserve write_receipt print_label libc:pthread_mutex_lock
