"""Ctrl-C while gemma-compile works or packs, or a request to terminate: exit code 130 or 143, nothing left among temporary files, and what
was in the outputs' folder stays as it was.

usage: interrupt.py CHECKPOINT CONFIG SCRATCH: CONFIG, of a large model, is packed.
"""

import json
import os
import shutil
import signal
import subprocess
import sys


def contents(folder):
    """The folder's files with their bytes."""
    found = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = file.read()
    return found


def interrupted_at(step, arguments, scratch, old=(), unfinished=None, stop=signal.SIGINT):
    """Sends `stop` once progress says `step`; returns what is wrong. The files `old` are there before.
    `unfinished`: how the name of a file begins that must be in the making then."""
    shutil.rmtree(scratch, ignore_errors=True)
    folder, temporary = os.path.join(scratch, "out"), os.path.join(scratch, "tmp")
    os.makedirs(folder)
    os.makedirs(temporary)
    for name in old:
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write("old")
    before = contents(folder)
    child = subprocess.Popen(
        ["gemma-compile", *arguments, "-o", os.path.join(folder, "out.gemma")],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": temporary},
    )
    seen, made = False, []
    for line in child.stderr:
        if step in line:
            seen, made = True, os.listdir(folder)
            child.send_signal(stop)
            break
    child.stderr.read()
    code = child.wait()
    if not seen:
        return f"expected progress to say {step}"
    if unfinished and not any(name.startswith(unfinished) for name in made):
        return f"expected a file {unfinished} in the making, got {made}"
    if code != 128 + stop:
        return f"expected exit code {128 + stop}, got {code}"
    left = set(os.listdir(folder)) - set(before) | set(os.listdir(temporary))
    if left:
        return f"expected no new files, got {left}"
    return None if contents(folder) == before else "expected the old files as they were"


def widened(config, path):
    """Writes `config` with a small vocabulary, so that a little is packed soon and all takes long."""
    with open(config, encoding="utf-8") as file:
        large = json.load(file)
    large["text_config"]["vocab_size"] = 4096
    with open(path, "w", encoding="utf-8") as file:
        json.dump(large, file)
    return path


def main(checkpoint, config, scratch):
    steps = ("import", "lower", "code for avx512", "code for baseline")
    problems = {step: interrupted_at(step, [checkpoint], scratch) for step in steps}
    large = widened(config, scratch + ".json")
    made_up = [large, "--synthetic-weights", "1", "--weight-type", "int4", "--isa", "baseline"]
    for stop in (signal.SIGINT, signal.SIGTERM):
        problems["packing weights, " + stop.name] = interrupted_at(
            "packing weights",
            made_up + ["--pack-weights"],
            scratch,
            old=("out.gemma", "out.gemma.weights"),
            unfinished=".out.gemma.weights.",
            stop=stop,
        )
    for step, problem in problems.items():
        print(f"{step}: {problem or 'ok'}")
    return 1 if any(problems.values()) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
