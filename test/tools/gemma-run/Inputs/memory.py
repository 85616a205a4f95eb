"""memory.py CONFIG FOLDER: the memory of gemma-run with a packed int4 model of some hundred MB, made of
CONFIG's widened and of synthetic weights, against gemma-compile --plan. Its files are in FOLDER meanwhile."""

import json
import os
import re
import subprocess
import sys
import tempfile

VOCAB, HIDDEN, INTERMEDIATE, LAYERS = 65536, 1024, 8192, 10
# What the process may have more or less than the plan. Since Linux 6.2 every processor counts some pages
# for itself before it adds them to the resident ones, and what the system says lacks these.
SHARE, BESIDE, OF_PROCESSOR = 0.05, 40e6, 1e6


def widened(config, path):
    with open(config, encoding="utf-8") as file:
        large = json.load(file)
    text = large["text_config"]
    text.update(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=INTERMEDIATE, num_hidden_layers=LAYERS)
    text["layer_types"] = ["sliding_attention"] * (LAYERS - 1) + ["full_attention"]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(large, file)
    return path


def run(command):
    """The command's output and, in bytes, the most memory that it had."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        output = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{command}: exit code {child.returncode}")
    return output, usage.ru_maxrss * 1024


def check(source, folder):
    options = [widened(source, os.path.join(folder, "config.json")), "--weight-type", "int4", "--dtype", "bf16"]
    options += ["--max-context", "1024", "--quiet"]
    plan, _ = run(["gemma-compile", "--plan", *options])
    total = int(re.search(r"^  total +(\d+) bytes", plan, re.MULTILINE)[1])
    weights = int(re.search(r"^  weights +(\d+) bytes", plan, re.MULTILINE)[1])
    print(f"plan {total / 1e6:.0f} MB, of them weights {weights / 1e6:.0f}")

    artifact, packed = os.path.join(folder, "model.gemma"), os.path.join(folder, "packed")
    run(["gemma-compile", *options, "-o", artifact, "--isa", "baseline", "--synthetic-weights", "1", "--pack-weights"])
    os.rename(artifact + ".weights", packed)
    output, peak = run(
        ["gemma-run", artifact, "--packed-weights", packed, "--tokens", "1,2,3", "--max-tokens", "2"]
        + ["--ignore-eos", "--json", "--quiet"]
    )
    memory = json.loads(output)["memory"]
    if memory["planned_bytes"] != total:
        sys.exit(f"expected planned_bytes {total}, got {memory['planned_bytes']}")
    print("planned_bytes as planned")
    resident = memory["resident_bytes"]
    slack = SHARE * total + BESIDE + OF_PROCESSOR * (os.cpu_count() or 1)
    print(f"resident_bytes {resident / 1e6:.0f} MB")
    if abs(resident - total) > slack:
        sys.exit(f"expected {total / 1e6:.0f} MB within {slack / 1e6:.0f}")
    # Not from below: mapped pages that the system takes back while it is short of memory are never there at once.
    print(f"peak {peak / 1e6:.0f} MB")
    if peak > total + slack:
        sys.exit(f"expected no more than {(total + slack) / 1e6:.0f} MB")


def main(source, folder):
    # Removed however the check ends: the files take some hundred MB.
    with tempfile.TemporaryDirectory(dir=folder) as files:
        check(source, files)


main(*sys.argv[1:])
