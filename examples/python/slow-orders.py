# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Why are some orders slow? Three questions to the order server of examples/tutorial while it runs, as cells of a
notebook: Jupyter, VS Code and Spyder show them as such, and python3 runs them one after the other.

    make -C ../tutorial && ../tutorial/shop &
    python3 slow-orders.py $!        # its process id; without one, the process that is called shop
"""
# %% Who is asked
import sys
from collections import defaultdict

import dprobes

shop = int(sys.argv[1]) if sys.argv[1:] and sys.argv[1].isdigit() else "shop"
SECONDS = 1

# %% How long does an order take? A table that the probe itself keeps: no order is recorded
with dprobes.trace("r handle_order hist($duration) by $o->qty", pid=shop, duration=SECONDS) as t:
    for event in t:  # until the time is over
        pass
print("pieces  orders  each within")
for pieces, durations in sorted(t.tables[0].items()):
    print("%6d  %6d  %7.1f ms" % (pieces, durations.total, durations[-1].high / 1e6))

# %% Where is that time spent? The functions that an order goes through; each order has its thread to itself
STEPS = "check_credit", "reserve", "write_receipt", "print_label"
lines = ["r:%s %s $duration" % (step, step) for step in STEPS]
orders, spent = {}, defaultdict(float)
with dprobes.trace("p:order handle_order qty=$o->qty", *lines, pid=shop, duration=SECONDS) as t:
    for event in t:
        if event.name == "order":
            orders[event.tid] = event.args.qty >= 100
        elif event.tid in orders:
            spent[event.name, orders[event.tid]] += event.args.duration / 1e6
print("step           small orders  large orders")
for step in STEPS:
    print("%-13s  %9.1f ms  %9.1f ms" % (step, spent[step, False], spent[step, True]))

# %% With what is it called, and by whom? One call is enough
with dprobes.trace("p check_credit $qty $total from=$backtrace if $qty >= 100", pid=shop, max_events=1,
                   duration=20 * SECONDS) as t:
    for event in t:
        print("%d pieces for %.2f" % (event.args.qty, event.args.total))
        print(" <- ".join(frame.split("+")[0] for frame in event.backtrace[:3]))
