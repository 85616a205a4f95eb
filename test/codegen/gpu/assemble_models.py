#!/usr/bin/env python3
"""Assembles every GPU kernel of a model, one layer of each kind, and checks what the machine code takes.

Usage: assemble_models.py FOLDER CONFIG CHIP... [--sass CHIP,...] Writes what it needs into FOLDER. Machine code is
read of the chips that --sass names, of all without it: nvdisasm takes half a second a kernel. Exit status 1 if a kernel
does not assemble, has local memory, takes more of a multiprocessor than Inputs/kernel-bounds.json allows,
or, where there is an nvdisasm, accesses global memory in narrower pieces than it says, or has its copies, waits
and products in an order that makes it wrong or slow; or if the PTX of a kernel is not the same for every chip, or
all of it takes longer, or more memory, than one chip's may.
"""
import json
import pathlib
import re
import resource
import subprocess
import sys

import sass

BOUNDS = json.loads((pathlib.Path(__file__).parent / "Inputs" / "kernel-bounds.json").read_text(encoding="utf-8"))


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
    return text["hidden_size"]


def kind_of(kernel):
    for kind in BOUNDS["kinds"]:
        if re.search(kind["kernel"], kernel["name"]) and re.match(kind["instance"], kernel["instance"]):
            return kind
    return sys.exit(f"{kernel['name']} ({kernel['instance']}): no kind in kernel-bounds.json is that")


def check_takes(kernel, kind, chip):
    """Registers, shared memory, and blocks that a multiprocessor holds."""
    got = {
        "registers": kernel["registers"],
        "block_registers": kernel["registers"] * kernel["threads"],
        "shared_bytes": kernel["shared_bytes"],
    }
    errors = [f"{got[name]} {name}, at most {kind[name]}" for name in got if got[name] > kind[name]]
    blocks = kernel["blocks_per_multiprocessor"]
    if blocks < kind["blocks"][chip]:
        errors.append(f"{blocks} blocks a multiprocessor, at least {kind['blocks'][chip]}")
    return errors


def check_accesses(found, kind, is_small):
    """No local memory; global memory 16 bytes at a time. Rows of small models are narrower."""
    errors = [f"{opcode}: local memory" for opcode, _, _ in found if opcode in ("LDL", "STL")]
    narrow = sum(1 for opcode, size, depth in found if opcode == "LDG" and size == 4 and depth > 0)
    if narrow > kind["index_loads"]:
        errors.append(f"{narrow} loads of 4 bytes in loops, at most {kind['index_loads']}")
    share = sass.wide_share(found)
    if share < kind["wide"] and not (is_small and kind["small_rows"]):
        errors.append(f"{share:.4f} of the bytes in pieces of 16, at least {kind['wide']}")
    return errors


def check_order(text, kind):
    """Between a wait for copies and the reading of what all threads copied lies a barrier; the loops of kernels that
    have a ring of stages copy for a later one before the products of this one."""
    errors = []
    if sass.unguarded_reads(text):
        errors.append("LDSM behind a wait for copies without a barrier between")
    pipelined, late = sass.late_copies(text)
    if kind.get("pipelined") and (late or (not pipelined and sass.has_looped_copies(text))):
        errors.append(f"{pipelined} loops with copies, waits and products, {late} of them without overlap")
    return errors


def check_steps(target, shares):
    """Of all bytes that a step moves, by the model of --report; rows of small models are too narrow."""
    for step in target["steps"]:
        moved = sum(launch["count"] * launch["bytes"] for launch in step["last_step"])
        wide = sum(launch["count"] * launch["bytes"] * shares[launch["kernel"]] for launch in step["last_step"])
        if wide < BOUNDS["wide_of_a_step"] * moved:
            sys.exit(f"{target['target']} {step['name']}: {wide / moved:.4f} of the bytes in pieces of 16")


def check_same_text(targets):
    """What is emulated is what is assembled: one PTX of a kernel for all chips, but for the chip's name."""
    texts = {}
    for target in targets:
        for kernel in target["kernels"]:
            if texts.setdefault(kernel["name"], kernel["ptx"]) != kernel["ptx"]:
                sys.exit(f"{kernel['name']}: the PTX of {target['target']} is not that of {targets[0]['target']}")


def check_cost():
    """Of gemma-compile and the assemblers it ran, all chips together: 120 s on two cores and 4 GiB are what one chip may
    take. The largest process counts three times, for the compiler and two assemblers beside it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds, most = used.ru_utime + used.ru_stime, 3 * used.ru_maxrss * 1024
    if seconds > 2 * 120 or most > 4 << 30:
        sys.exit(f"{seconds:.0f} s of processor, at most 240; up to {most >> 20} MiB, at most 4096")
    print(f"cost: {seconds:.0f} s of processor, up to {most >> 20} MiB")


def check_target(target, folder, nvdisasm, is_small):
    """Everything that is checked of one target; ends the program with what is wrong."""
    chip, shares, failures = target["target"], {}, []
    for kernel in target["kernels"]:
        kind = kind_of(kernel)
        errors = check_takes(kernel, kind, chip)
        if nvdisasm:
            text = sass.disassemble(nvdisasm, folder / f"{kernel['name']}.{chip}.cubin")
            found = sass.accesses(text)
            if not found:
                errors.append("no access to global memory was found")
            shares[kernel["name"]] = sass.wide_share(found)
            errors += check_accesses(found, kind, is_small) + check_order(text, kind)
        failures += [f"{chip} {kernel['name']} ({kernel['instance']}): {error}" for error in errors]
    if failures:
        sys.exit("\n".join(failures))
    if nvdisasm and not is_small:
        check_steps(target, shares)
    print(f"{chip}: {len(target['kernels'])} kernels within their bounds")
    print(f"{chip}: accesses are wide, copies early" if nvdisasm else f"note: no SASS of {chip} was looked at")


def main(folder, source, *chips):
    folder, read = pathlib.Path(folder), chips
    if "--sass" in chips:
        at = chips.index("--sass")
        chips, read = chips[:at], chips[at + 1].split(",")
    nvdisasm = sass.find_nvdisasm()
    hidden = two_layers(pathlib.Path(source), folder / "config.json")
    run("gemma-compile", str(folder / "config.json"), "--target", ",".join(chips), "--dtype", "bf16", "--max-batch",
        "64", "--report", str(folder / "report.json"), "--dump-dir", str(folder))
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    check_cost()
    check_same_text(report["targets"])
    for target in report["targets"]:
        check_target(target, folder, nvdisasm if target["target"] in read else None, is_small=hidden < 1024)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
