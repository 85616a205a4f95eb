"""Cuts and flips an artifact at many places; every tool must refuse it with exit code 1.

usage: damaged_artifact.py ARTIFACT SCRATCH
"""

import os
import subprocess
import sys


def refusals(path):
    """What is wrong with how the tools take the file at `path`."""
    for command in (
        ["gemma-compile", "--inspect", path],
        ["gemma-run", path, "--tokens", "2,3", "--max-tokens", "1"],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 1 or f"{command[0]}: error: " not in done.stderr:
            yield f"{command[0]}: expected a refusal, got {done.returncode}: {done.stderr[:200]}"
        elif os.path.basename(path) not in done.stderr:
            yield f"{command[0]}: expected the file's name, got {done.stderr[:200]}"


def main(artifact, scratch):
    with open(artifact, "rb") as file:
        good = file.read()
    size, path, bad = len(good), os.path.join(scratch, "damaged.gemma"), 0
    damaged = [(f"cut to {n}", good[:n]) for n in (0, 1, 7, 8, 63, 64, size // 2, size - 1)]
    damaged.append(("a byte more", good + b"\0"))
    for at in (0, 9, 17, 40, 70, size // 4, size // 2, size * 3 // 4, size - 1):
        flipped = bytearray(good)
        flipped[at] ^= 0x10
        damaged.append((f"bit 4 of byte {at}", bytes(flipped)))
    for what, content in damaged:
        with open(path, "wb") as file:
            file.write(content)
        for fault in refusals(path):
            print(f"{what}: {fault}")
            bad += 1
    print(f"{len(damaged)} damaged files")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
