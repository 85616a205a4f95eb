"""Bytes of a model's weights from its configuration alone, held against what gemma-compile --plan prints
(standard input).

usage: weight_bytes.py CONFIG TYPE: bf16, int8 or int4, the matrices' type
"""

import collections
import json
import re
import sys

CODE_BITS = {"i8": 8, "i4": 4}


def up(value, multiple):
    return -(-value // multiple) * multiple


class Weights:
    """Sums of bytes and parameters by stored type."""

    def __init__(self):
        self.bytes, self.parameters = collections.Counter(), collections.Counter()

    def vector(self, size):
        """Norms and scalars are f32; every object begins on a multiple of 64 bytes."""
        self.add("f32", 4 * size, size)

    def matrix(self, kind, rows, columns, parts=1):
        """Panels of 16 rows, in each of the parts; pairs of columns of bf16; codes in groups of 32 columns
        with an f16 scale each."""
        padded = parts * up(rows // parts, 16)
        if kind == "bf16":
            size = padded * up(columns, 2) * 2
        else:
            groups = up(columns, 32) // 32
            size = padded * groups * (32 * CODE_BITS[kind] // 8 + 2)
        self.add(kind, size, rows * columns)

    def add(self, kind, size, parameters):
        self.bytes[kind] += up(size, 64)
        self.parameters[kind] += parameters


def weights_of(text, kind, table):
    hidden, heads = text["hidden_size"], text["num_attention_heads"]
    intermediate = text["intermediate_size"]
    weights = Weights()
    weights.matrix(table, text["vocab_size"], hidden)  # the head is tied to it
    for layer in text["layer_types"]:
        if layer == "full_attention":  # values are keys
            dim, keys = text["global_head_dim"], text["num_global_key_value_heads"]
        else:
            dim, keys = text["head_dim"], 2 * text["num_key_value_heads"]
        weights.matrix(kind, (heads + keys) * dim, hidden)  # queries, keys, values
        weights.matrix(kind, hidden, heads * dim)
        weights.matrix(kind, 2 * intermediate, hidden, parts=2)  # gate and up
        weights.matrix(kind, hidden, intermediate)
        for size in [hidden] * 4 + [dim] * 2 + [1]:  # norms, of queries and keys too, and a scalar
            weights.vector(size)
    weights.vector(hidden)
    return weights


def main(config, name):
    with open(config, encoding="utf-8") as file:
        text = json.load(file)["text_config"]
    kind = name.replace("int", "i")
    weights = weights_of(text, kind, "i8" if kind == "i4" else kind)
    derived = [f"weights {sum(weights.bytes.values())} bytes"]
    for stored, size in weights.bytes.most_common():
        derived.append(f"{stored} {size} bytes of {weights.parameters[stored]} parameters")
    plan = sys.stdin.read()
    planned = re.findall(r"^  weights +(\d+) bytes", plan, re.MULTILINE)
    types = re.findall(r"^    (\w+) +(\d+) bytes +[0-9.]+ MiB +(\d+) parameters$", plan, re.MULTILINE)
    said = [f"weights {size} bytes" for size in planned]
    said += [f"{stored} {size} bytes of {parameters} parameters" for stored, size, parameters in types]
    print("\n".join(derived))
    if said != derived:
        sys.exit(f"the plan says otherwise: {said}")


main(*sys.argv[1:])
