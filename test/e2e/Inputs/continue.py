"""Continues prompts of examples/kjv-mini as scripts/demo.sh does and compares the texts.

usage: continue.py CHECKPOINT ARTIFACT COUNT

The first COUNT greedy texts of CHECKPOINT/reference.json, 96 tokens each, come from a float64 run of
transformers. A text that differs, or an exit status that is not 0, fails.
"""
import json
import pathlib
import subprocess
import sys

checkpoint, artifact, count = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
cases = json.loads((checkpoint / "reference.json").read_text())["greedy"][:count]
assert len(cases) == count, f"{len(cases)} greedy texts"
failed = 0
for case in cases:
    command = ["gemma-run", artifact, "--prompt", case["prompt"], "--greedy", "--ignore-eos"]
    command += ["--max-tokens", "96", "--json", "--quiet"]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    text = json.loads(run.stdout)["text"]
    if text != case["text"]:
        failed += 1
        print(f"{case['prompt']!r}\n  expected {case['text']!r}\n  got      {text!r}")
sys.exit(failed > 0)
