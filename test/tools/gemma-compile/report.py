"""Checks what --report says of a model as JSON.

usage: report.py FILE.json [DECODE_GB PREFILL_TFLOP LAUNCHES]: what the last step of decode moves and what
all of prefill computes, to be met within 1 %, and decode's launches.
"""

import json
import math
import sys


def check(condition, what):
    if not condition:
        sys.exit(f"unexpected: {what}")


def near(got, want, share=1e-6):
    return abs(got - want) <= share * abs(want)


def check_step(step, kernels, rates):
    launches = step["last_step"]
    check(launches, f"no launches in {step['name']}")
    for launch in launches:
        name = launch["kernel"]
        check(name in kernels, f"{name} is not among the kernels")
        check(launch["grid"] >= 1 and launch["count"] >= 1 and launch["bytes"] > 0, launch)
        check(0 < launch["fill"] <= 1, launch)
        by_bytes, by_flops = launch["bytes"] / rates["bytes_per_second"], launch["flops"] / rates["flops_per_second"]
        check(near(launch["seconds"], max(by_bytes, by_flops)), launch)
        check(launch["bound"] == ("memory" if by_bytes >= by_flops else "compute"), launch)
        at_once = rates["multiprocessors"] * max(1, kernels[name]["blocks_per_multiprocessor"])
        check(launch["waves"] == math.ceil(launch["grid"] / at_once), launch)
    if step["steps"] == 1:
        for name in ("bytes", "flops", "seconds"):
            total = sum(launch["count"] * launch[name] for launch in launches)
            check(near(step[name], total), f"{step['name']}: {name} {step[name]}, launches {total}")
        check(step["launches"] == sum(launch["count"] for launch in launches), step["launches"])
    gaps = step["launches"] * rates["seconds_between_launches"]
    check(near(step["seconds_with_fill_and_launches"], step["seconds_with_fill"] + gaps), step["name"])
    check(step["seconds"] <= step["seconds_with_fill"], step["name"])


def main(path, *expected):
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    check("model" in report["kind"], report["kind"])
    texts = {}
    for target in report["targets"]:
        kernels = {kernel["name"]: kernel for kernel in target["kernels"]}
        check(len(kernels) == len(target["kernels"]), "kernels of one name")
        for kernel in kernels.values():
            check(kernel["instance"] and kernel["blocks_per_multiprocessor"] >= 1, kernel)
            # The same PTX on every device, emulated ones among them.
            check(len(kernel["ptx"]) == 32 and texts.setdefault(kernel["name"], kernel["ptx"]) == kernel["ptx"], kernel)
            check(kernel["signature"] and kernel["executed"] in (None, "everyday", "long"), kernel)
        rates = dict(target["assumed"], multiprocessors=target["multiprocessors"])
        check([step["name"] for step in target["steps"]] == ["decode", "prefill"], target["steps"])
        for step in target["steps"]:
            check_step(step, kernels, rates)
        if expected:
            decode, prefill = target["steps"]
            check(near(decode["bytes"], float(expected[0]) * 1e9, 0.01), f"decode: {decode['bytes']} bytes")
            check(decode["launches"] == int(expected[2]), f"decode: {decode['launches']} launches")
            check(near(prefill["flops"], float(expected[1]) * 1e12, 0.01), f"prefill: {prefill['flops']} FLOPs")
    print(", ".join(target["target"] for target in report["targets"]) + ": as expected")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
