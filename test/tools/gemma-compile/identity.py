"""The same text model, its fields under text_config or at the top level, compiled with all cores or
with one: one artifact, byte by byte outside of the recorded folder.

usage: identity.py CONFIG SCRATCH
"""

import json
import os
import subprocess
import sys


def compiled(config, folder, cores=None):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "config.json")
    with open(path, "w") as file:
        json.dump(config, file)
    output = os.path.join(folder, "out.gemma")
    subprocess.run(
        ["gemma-compile", path, "-o", output, "--quiet", "--isa", "baseline"],
        check=True,
        preexec_fn=cores and (lambda: os.sched_setaffinity(0, cores)),
    )
    with open(output, "rb") as file:
        return file.read()


def main(path, scratch):
    with open(path) as file:
        nested = json.load(file)
    flat = {**{k: v for k, v in nested.items() if k != "text_config"}, **nested["text_config"]}
    flat["model_type"] = "gemma4_unified_text"
    flat["architectures"] = ["Gemma4UnifiedForCausalLM"]
    first = compiled(nested, os.path.join(scratch, "nested"))
    second = compiled(flat, os.path.join(scratch, "flat"))
    one_core = {min(os.sched_getaffinity(0))}
    alone = compiled(flat, os.path.join(scratch, "alone"), one_core)
    other = compiled({**flat, "rms_norm_eps": 1e-5}, os.path.join(scratch, "other"))
    if first != second:
        print("expected equal artifacts of the flat and the nested form")
    if first != alone:
        print("expected equal artifacts from all cores and from one")
    if first == other:
        print("expected another artifact for another eps")
    return 1 if first != second or first != alone or first == other else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
