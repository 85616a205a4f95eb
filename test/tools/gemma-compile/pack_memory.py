"""Packs a model whose weights are many times its largest tensor, and expects the memory of one tensor.

usage: pack_memory.py GEMMA_COMPILE CONFIG FOLDER: CONFIG is widened; FOLDER gets what is written.
"""

import json
import os
import resource
import subprocess
import sys

VOCAB, HIDDEN, INTERMEDIATE, LAYERS = 65536, 512, 32768, 7
# The compiler and its libraries, threads' buffers, tables.
BESIDE = 160 << 20


def main(tool, source, folder):
    with open(source, encoding="utf-8") as file:
        config = json.load(file)
    text = config["text_config"]
    text.update(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=INTERMEDIATE, num_hidden_layers=LAYERS)
    text["layer_types"] = ["sliding_attention"] * (LAYERS - 1) + ["full_attention"]
    path = os.path.join(folder, "config.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    artifact = os.path.join(folder, "wide.gemma")
    command = [tool, path, "-o", artifact, "--isa", "baseline", "--weight-type", "int8", "--synthetic-weights", "1"]
    subprocess.run(command + ["--pack-weights", "--quiet"], check=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    packed = os.path.getsize(artifact + ".weights")
    largest = max(VOCAB * HIDDEN, 2 * INTERMEDIATE * HIDDEN) * 34 // 32  # int8, and f16 scales of groups of 32
    print(f"packed {packed >> 20} MiB, the largest tensor {largest >> 20} MiB, peak {peak >> 20} MiB")
    if packed < 2 * (largest + BESIDE):
        sys.exit("the model is too small to tell")
    if peak > largest + BESIDE:
        sys.exit(f"expected at most {(largest + BESIDE) >> 20} MiB of memory")


main(*sys.argv[1:])
