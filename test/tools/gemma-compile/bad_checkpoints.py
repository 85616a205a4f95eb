"""Compiles every folder of test/data/models/bad and checks that the manifest's word is kept.

usage: bad_checkpoints.py BAD SCRATCH

reject: exit code 1, one error that says what is wrong, no output file, nothing large allocated.
accept: an artifact that gives base's logits. either: as REFUSED and NAN say.
"""

import json
import math
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import safetensors

# Folders of kind "either": those refused, and those whose logits are NaN. The others are base.
REFUSED = {"config-other-activation", "config-double-wide"}
NAN = {"weights-nan", "weights-inf"}
SECONDS = 300
REFUSAL_BYTES = 1 << 30

faults = []


def expect(holds, folder, what):
    if not holds:
        faults.append(f"{folder}: {what}")


def run(*command):
    """Exit code, standard output and standard error."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, error = child.communicate(timeout=SECONDS)
    return child.returncode, out.decode(), error.decode()


def check_refusal(folder, path, output):
    # A refusal that allocates for a billion layers does not fit into this address space.
    limit = () if "ASAN_OPTIONS" in os.environ else ("prlimit", f"--data={REFUSAL_BYTES}")
    code, out, error = run(*limit, "gemma-compile", path, "-o", output)
    expect(code == 1, folder, f"expected exit code 1, got {code}: {error.strip()[-300:]}")
    expect(out == "", folder, f"expected nothing on standard output, got {out[:100]}")
    lines = error.splitlines()
    expect(
        len(lines) >= 1 and lines[0].startswith("gemma-compile: error: ") and len(lines[0]) > 40,
        folder,
        f"expected one clear error, got {error[:300]}",
    )
    expect(folder in error, folder, f"expected the message to name the file, got {error[:300]}")


def check_logits(folder, path, output, reference):
    code, _, error = run(
        "gemma-compile", path, "-o", output, "--quiet", "--dtype", "f64", "--isa", "baseline",
        "--max-chunk", "16", "--max-context", "64",
    )  # fmt: skip
    expect(code == 0, folder, f"expected to compile, got {code}: {error.strip()[-300:]}")
    if code != 0:
        return
    logits_file = output + ".logits"
    tokens = ",".join(str(token) for token in reference["tokens"][1])
    command = ("gemma-run", output, "--tokens", tokens, "--max-tokens", "3", "--quiet", "--greedy",
               "--ignore-eos", "--json", "--logits-out", logits_file)  # fmt: skip
    code, out, error = run(*command)
    expect(code == 0, folder, f"expected to run, got {code}: {error.strip()[-300:]}")
    if code != 0:
        return
    generated = json.loads(out)["tokens"]
    expect(
        len(generated) == 3 and all(0 <= token < 32 for token in generated),
        folder,
        f"expected three ids of the vocabulary, got {generated}",
    )
    got = safetensors.read(logits_file)["logits"][1]
    want = reference["logits"][1]
    expect(len(got) == len(want), folder, f"expected {len(want)} logits, got {len(got)}")
    if folder in NAN:
        expect(all(math.isnan(x) for x in got), folder, "expected every logit to be NaN")
        return
    largest = max(abs(x) for x in want)
    worst = max(abs(g - w) if math.isfinite(g) else math.inf for g, w in zip(got, want))
    expect(worst <= 1e-12 * largest, folder, f"expected base's logits, got some off by {worst}")


def main(bad, scratch):
    os.makedirs(scratch, exist_ok=True)
    for name in os.listdir(scratch):
        os.remove(os.path.join(scratch, name))
    reference = safetensors.read(os.path.join(bad, "base", "reference.safetensors"))
    with open(os.path.join(bad, "manifest.json")) as file:
        manifest = json.load(file)
    refused = ran = 0
    for entry in manifest:
        folder = entry["dir"]
        path, output = os.path.join(bad, folder), os.path.join(scratch, folder + ".gemma")
        if entry["expect"] == "reject" or folder in REFUSED:
            check_refusal(folder, path, output)
            refused += 1
            left = [name for name in os.listdir(scratch) if folder + ".gemma" in name]
            expect(not left, folder, f"expected no output file, got {left}")
        else:
            check_logits(folder, path, output, reference)
            ran += 1
    print(f"{refused} refused, {ran} ran")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
