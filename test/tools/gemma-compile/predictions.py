"""Exits with 1 and names what differs unless a report and the committed predictions have the same kernels."""

import json
import sys


def kernels(path):
    with open(path) as file:
        target = json.load(file)["targets"][0]
    return {kernel["name"]: kernel["ptx"] for kernel in target["kernels"]}


report, predictions = map(kernels, sys.argv[1:3])
stale = sorted(name for name in report | predictions if report.get(name) != predictions.get(name))
if stale or not report:
    sys.exit(f"{sys.argv[2]} is of other kernels: {', '.join(stale)}; bench/predictions/README.md "
             "tells how to make it")
