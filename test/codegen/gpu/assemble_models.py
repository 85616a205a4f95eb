#!/usr/bin/env python3
"""Assembles every GPU kernel of models at the published shapes, one layer of each kind.

Usage: assemble_models.py FOLDER CONFIG CHIP... Writes what it needs into FOLDER. Exit status 1 if a kernel
does not assemble, has local memory, or takes more of a multiprocessor than the table below allows;
without a ptxas there is only the note that says so.
"""
import json
import pathlib
import re
import subprocess
import sys

# The most that kernels may take, by what they do: registers a thread. Bounds, not what they take: for
# residency a multiprocessor has 65536 registers, so 4 blocks of 128 threads at 128, 2 at 256.
MOST_REGISTERS = {"attn_core": 255, "_proj": 128, "mlp_": 128, "lm_head": 128, "": 80}
MOST_SHARED = 99 * 1024  # what every device from sm_80 on has
LINE = re.compile(r"(\w+) (sm_\d+): (\d+) registers, (\d+) threads, (\d+) bytes shared, 0 spilled, 0 stack$")


def bound(kernel):
    return next(most for part, most in MOST_REGISTERS.items() if part in kernel)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    return done.stdout


def two_layers(source, target):
    config = json.loads(source.read_text(encoding="utf-8"))
    text = config.get("text_config", config)
    text["num_hidden_layers"] = 2
    text["layer_types"] = ["sliding_attention", "full_attention"]
    target.write_text(json.dumps(config), encoding="utf-8")


def main(folder, source, *chips):
    folder = pathlib.Path(folder)
    two_layers(pathlib.Path(source), folder / "config.json")
    lowered = str(folder / "lowered.mlir")
    run("gemma-compile", str(folder / "config.json"), "--target", "sm_80", "--dtype", "bf16", "--max-batch",
        "16", "--stop-after", "lower", "-o", lowered)
    for chip in chips:
        text = run("gemma-opt", lowered, f"--gemma-emit-ptx=chip={chip} check=true", "-o", "/dev/null")
        if text.startswith("note: no ptxas"):
            print(text, end="")
            return 0
        kernels = [LINE.match(line) for line in text.splitlines()]
        if not kernels or None in kernels:
            sys.exit(f"expected a line a kernel, got\n{text}")
        for kernel in kernels:
            name, _, registers, _, shared = kernel.groups()
            if int(registers) > bound(name) or int(shared) > MOST_SHARED:
                sys.exit(f"{kernel.group(0)}: expected at most {bound(name)} registers and {MOST_SHARED} bytes")
        print(f"{chip}: {len(kernels)} kernels within their bounds")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
