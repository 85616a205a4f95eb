"""profile.py TEXT TRACE: whether what gemma-run --profile printed follows from the trace that --profile-out
wrote, and whether that has complete events of the Trace Event Format (Google) alone."""

import collections
import json
import re
import sys

NUMBER = r"([0-9.]+)"
HEAD = re.compile(rf"profile: (\d+) steps in {NUMBER} s, \d+ threads; read {NUMBER} GB/s, f32 {NUMBER} GFLOP/s")
ROW = re.compile(rf" +(\d+) +{NUMBER} +{NUMBER}% +{NUMBER} +{NUMBER} +{NUMBER} +{NUMBER}  (\S+): (.+)")
REST = re.compile(rf" +{NUMBER} +{NUMBER}%  between launches")
COLUMNS = ("launches", "seconds", "share", "MB", "GB/s", "GFLOP/s", "of limit")
RATE_ROUNDING = 0.05  # GB/s and GFLOP/s, of the limits as printed


def per(amount, whole):
    """amount / whole, and 0 of nothing, as gemma-run prints it."""
    return amount / whole if whole else 0.0


def limits(printed):
    """The lowest and the highest limit a second that is printed so."""
    return max(float(printed) - RATE_ROUNDING, 1e-3) * 1e9, (float(printed) + RATE_ROUNDING) * 1e9


class Kind:
    """The launches of a kind in the trace."""

    def __init__(self):
        self.launches, self.seconds, self.bytes, self.flops = 0, 0.0, 0.0, 0.0
        self.least = [0.0, 0.0]  # seconds at the lowest and at the highest limits

    def add(self, event, reads, flops):
        cost = event["args"]
        self.launches += 1
        self.seconds += event["dur"] / 1e6
        self.bytes += cost["bytes"]
        self.flops += cost["flops"]
        for i, (read, flop) in enumerate(zip(reads, flops)):
            self.least[i] += max(cost["bytes"] / read, cost["flops"] / flop)

    def columns(self, total):
        """Of each the lowest and the highest that it may be."""
        exact = (self.launches, self.seconds, 100 * per(self.seconds, total), self.bytes / 1e6,
                 per(self.bytes, self.seconds) / 1e9, per(self.flops, self.seconds) / 1e9)
        slowest, fastest = self.least
        return [(value, value) for value in exact] + [(per(fastest, self.seconds), per(slowest, self.seconds))]


def close(printed, lowest, highest):
    """Up to the digits that were printed, and the times' nanoseconds behind it."""
    digits = len(printed.partition(".")[2])
    rounding = 0.51 * 10**-digits
    return lowest - 0.02 * abs(lowest) - rounding <= float(printed) <= highest + 0.02 * abs(highest) + rounding


def check_events(events):
    if not events:
        sys.exit("no events")
    for event in events:
        good = (
            event["ph"] == "X"
            and isinstance(event["name"], str)
            and event["name"]
            and isinstance(event["cat"], str)
            and all(isinstance(event[key], (int, float)) and event[key] >= 0 for key in ("ts", "dur"))
            and all(isinstance(event[key], int) for key in ("pid", "tid"))
            and isinstance(event["args"], dict)
        )
        if not good:
            sys.exit(f"no complete event: {event}")


def main(text, trace):
    with open(trace, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    check_events(events)
    with open(text, encoding="utf-8") as file:
        lines = file.read().splitlines()
    head, rest = HEAD.fullmatch(lines[0]), REST.match(lines[-1])
    rows = [ROW.fullmatch(line) for line in lines[2:-1]]
    if not head or not rest or not rows or not all(rows):
        sys.exit(f"lines of another form: {lines}")

    steps = [event for event in events if event["name"].startswith("step ")]
    reads, flops = limits(head[3]), limits(head[4])
    kinds = collections.defaultdict(Kind)
    for event in events:
        if not event["name"].startswith("step "):
            kinds[event["cat"], event["name"]].add(event, reads, flops)
    total = (steps[-1]["ts"] + steps[-1]["dur"] - steps[0]["ts"]) / 1e6
    between = total - sum(kind.seconds for kind in kinds.values())
    wrong = []
    if int(head[1]) != len(steps) or not close(head[2], total, total):
        wrong.append(f"{lines[0]}: expected {len(steps)} steps in {total} s")
    share = 100 * per(between, total)
    if not close(rest[1], between, between) or not close(rest[2], share, share):
        wrong.append(f"{lines[-1]}: expected {between} s of {total}")
    for row in rows:
        kind = kinds.pop((row[8], row[9]), None)
        if not kind:
            wrong.append(f"{row[0]}: not in the trace")
            continue
        for name, printed, (lowest, highest) in zip(COLUMNS, row.groups(), kind.columns(total)):
            if not close(printed, lowest, highest):
                wrong.append(f"{row[0]}: {name}: expected {lowest} to {highest}")
    if kinds:
        wrong.append(f"not printed: {list(kinds)}")
    seconds = [float(row[2]) for row in rows]
    if seconds != sorted(seconds, reverse=True):
        wrong.append("expected the longest first")
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(steps)} steps, {len(events) - len(steps)} launches of {len(rows)} kinds, as printed")


main(*sys.argv[1:])
