"""Reads safetensors files with the standard library alone."""

import array
import json
import struct


def read(path):
    """Name -> (shape, list of numbers) of the tensors of 64- and 32-bit types."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    codes = {"F64": "d", "F32": "f", "I64": "q", "I32": "i"}
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] not in codes:
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = (
            entry["shape"],
            array.array(codes[entry["dtype"]], data[begin:end]).tolist(),
        )
    return tensors
