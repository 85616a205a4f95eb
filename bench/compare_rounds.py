"""Runs gemma-bench and llama-bench in turn on the same model and prints how they compare."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time


def run(command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode:
        sys.exit(f"error: {' '.join(command)}: exit status {result.returncode}\n{result.stderr[-2000:]}")
    return result.stdout


def ours(options, artifact):
    """One round of ours: tokens/s and the limits that were measured beside them."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "bench.json")
        run([options.bench, "model", artifact, "--rounds", "1", "--threads", str(options.threads),
             "--prompt", str(options.prompt), "--context", str(options.context),
             "--decode", str(options.decode), "--json", out])
        with open(out, encoding="utf-8") as file:
            report = json.load(file)
    return report


def theirs(options, model):
    """One round of theirs: prefill and decode tokens/s."""
    text = run([options.llama, "-m", model, "-t", str(options.threads), "-r", "1", "-o", "json",
                "-p", str(options.prompt), "-n", "0"])
    prefill = json.loads(text)[0]["avg_ts"]
    text = run([options.llama, "-m", model, "-t", str(options.threads), "-r", "1", "-o", "json",
                "-p", "0", "-n", str(options.decode), "-d", str(options.context)])
    return prefill, json.loads(text)[0]["avg_ts"]


def median_of(series):
    """A measured series of gemma-bench's report; one round has one value."""
    return series["median"] if isinstance(series, dict) else series


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", nargs="+", help="OURS=ARTIFACT:THEIRS=GGUF")
    parser.add_argument("--bench", required=True)
    parser.add_argument("--llama", required=True)
    for name, value in (("rounds", 9), ("threads", 2), ("prompt", 512), ("context", 512), ("decode", 32)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--json", required=True)
    options = parser.parse_args()

    begin = time.monotonic()
    pairs = []
    for pair in options.pairs:
        our, their = pair.split(":", 1)
        pairs.append((*our.split("=", 1), *their.split("=", 1)))
    rounds = {(our, their): [] for our, _, their, _ in pairs}
    for number in range(options.rounds):
        for our, artifact, their, model in pairs:
            print(f"[{time.monotonic() - begin:4.0f}s] round {number + 1} of {options.rounds}: {our} and {their}",
                  file=sys.stderr, flush=True)
            report = ours(options, artifact)
            prefill, decode = theirs(options, model)
            rounds[our, their].append({"ours": report, "theirs": {"prefill": prefill, "decode": decode}})
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump([{"ours": our, "theirs": their, "rounds": measured}
                   for (our, their), measured in rounds.items()], file, indent=1)

    print(f"{options.threads} threads, prompt of {options.prompt}, decode after {options.context}, "
          f"{options.rounds} rounds; best (median)")
    print(f"{'ours':<6}{'theirs':<8}{'':<9}{'ours tok/s':>18}{'theirs tok/s':>18}{'ours / theirs':>18}"
          f"{'ours / limit':>18}")
    for (our, their), measured in rounds.items():
        for kind, fraction in (("prefill", "of_f32"), ("decode", "of_read")):
            mine = [median_of(r["ours"][kind]["tokens_per_second"]) for r in measured]
            other = [r["theirs"][kind] for r in measured]
            limit = [median_of(r["ours"][kind][fraction]) for r in measured]
            ratios = [a / b for a, b in zip(mine, other)]

            def cell(best, values):
                return f"{best:9.3f} ({statistics.median(values):.3f})".rjust(18)

            print(f"{our:<6}{their:<8}{kind:<9}{cell(max(mine), mine)}{cell(max(other), other)}"
                  f"{cell(max(mine) / max(other), ratios)}{cell(max(limit), limit)}")


main()
