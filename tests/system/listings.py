# SPDX-License-Identifier: Apache-2.0
"""What the listings of the seeds print, for the tests and for scripts/examples. Lines are compared per process in their order;
how often a process looks at a value, and how often it waits, is its own affair."""
import re


def shared_queue(out, workers, steps):
    """What is wrong with the output of shared_queue, "" if nothing is."""
    lines = out.splitlines()
    total = workers * steps
    ps = [x for x in lines if x.startswith(("Parameter server:", "ps"))]
    looks = [x for x in ps if x.startswith("Parameter server: var has value ")]
    values = [float(x.rsplit(" ", 1)[1]) for x in looks]
    begin = ["Parameter server: " + x for x in ("waiting for cluster connection...", "cluster ready!", "initializing variables...",
                                                "variables initialized")]
    taken = [float(x[6:]) for x in ps if x.startswith("ps: r ")]
    middle = ["ps q.size():  %d" % total] + ["ps: r %.1f" % x for x in taken]
    if ps != begin + looks + middle + ["Parameter server: ended..."]:
        return "the ps printed\n" + "\n".join(ps)
    if len(values) > 10 or values != sorted(values) or any(x >= total for x in values) or looks != [
            "Parameter server: var has value %.1f" % x for x in values]:
        return f"the ps saw {values}"
    if sorted(taken) != [float(x + 1) for x in range(total)]:
        return f"the ps took {taken}"
    rest = [x for x in lines if x not in ps]
    for n in range(workers):
        who = "Worker %d: " % n
        mine = [x[len(who):] for x in rest if x.startswith(who) and not x.endswith("waiting for variable initialization...")]
        seen = [float(x.rsplit(" ", 1)[1]) for x in mine if x.startswith("incrementing var ")]
        if mine != ["waiting for cluster connection...", "cluster ready!", "variables initialized",
                    *("incrementing var %.1f" % x for x in seen), "ended..."]:
            return f"worker {n} printed {mine}"
        if len(seen) != steps or any(b <= a for a, b in zip(seen, seen[1:])) or seen[-1] >= total:
            return f"worker {n} saw {seen}"
        rest = [x for x in rest if not x.startswith(who)]
    if rest != ["All done."] or lines[-1] != "All done.":
        return f"besides it printed {rest}, at last {lines[-1]!r}"
    last_worker = max(i for i, x in enumerate(lines) if re.fullmatch(r"Worker \d+: ended\.\.\.", x))
    if lines.index(middle[0]) < last_worker:
        return "the ps took the numbers before the workers had ended"
    return ""
