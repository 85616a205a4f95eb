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
    """One round of theirs: prefill and decode tokens/s. Weights are read into memory at load: a warm-up,
    which would compute the whole prompt once more, has then nothing left to do."""
    def measured(*test):
        text = run([options.llama, "-m", model, "-t", str(options.threads), "-r", "1", "-o", "json",
                    "--no-warmup", "-lm", "none", *map(str, test)])
        return json.loads(text)[0]["avg_ts"]
    return (measured("-p", options.prompt, "-n", 0),
            measured("-p", 0, "-n", options.decode, "-d", options.context))


def rates(report, kind):
    """Of one round of ours: tokens/s, what that moves or computes a second, and the limit of that."""
    (limits,) = report["limits"]["threads"]
    speed = report[kind]
    tokens = speed["tokens_per_second"]["best"]
    unit, limit = (("flops_per_token", "f32_flops_per_second") if kind == "prefill" else
                   ("bytes_per_token", "read_bytes_per_second"))
    return tokens, tokens * speed[unit], limits[limit]["best"]


def save(path, rounds):
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump([{"ours": our, "theirs": their, "rounds": measured}
                   for (our, their), measured in rounds.items()], file, indent=1)
    os.replace(path + ".tmp", path)


def cell(best, rounds):
    return f"{best:9.3f} ({statistics.median(rounds):.3f})".rjust(19)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", nargs="+", help="OURS=ARTIFACT:THEIRS=GGUF")
    parser.add_argument("--bench", required=True)
    parser.add_argument("--llama", required=True)
    for name, value in (("rounds", 9), ("threads", 2), ("prompt", 512), ("context", 512), ("decode", 16)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--json", required=True)
    options = parser.parse_args()

    begin = time.monotonic()
    pairs = []
    for pair in options.pairs:
        our, their = pair.split(":", 1)
        pairs.append((*our.split("=", 1), *their.split("=", 1)))
    rounds = {(our, their): [] for our, _, their, _ in pairs}
    try:
        for number in range(options.rounds):
            for our, artifact, their, model in pairs:
                print(f"[{time.monotonic() - begin:4.0f}s] round {number + 1} of {options.rounds}: {our} and {their}",
                      file=sys.stderr, flush=True)
                report = ours(options, artifact)
                prefill, decode = theirs(options, model)
                rounds[our, their].append({"ours": report, "theirs": {"prefill": prefill, "decode": decode}})
            save(options.json, rounds)
    except KeyboardInterrupt: # ends the rounds: what was measured counts
        save(options.json, rounds)
        if not all(rounds.values()):
            sys.exit("error: interrupted before the first round was over")

    print(f"{options.threads} threads, prompt of {options.prompt}, decode after {options.context}, "
          f"{min(map(len, rounds.values()))} rounds; best (median)")
    print(f"{'ours':<6}{'theirs':<8}{'':<9}{'ours tok/s':>19}{'theirs tok/s':>19}{'ours / theirs':>19}"
          f"{'ours / limit':>19}")
    for (our, their), measured in rounds.items():
        for kind in ("prefill", "decode"):
            mine, done, limit = zip(*(rates(r["ours"], kind) for r in measured))
            other = [r["theirs"][kind] for r in measured]
            print(f"{our:<6}{their:<8}{kind:<9}{cell(max(mine), mine)}{cell(max(other), other)}"
                  f"{cell(max(mine) / max(other), [a / b for a, b in zip(mine, other)])}"
                  f"{cell(max(done) / max(limit), [a / b for a, b in zip(done, limit)])}")


main()
