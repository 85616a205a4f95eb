#!/usr/bin/env python3
"""Checks that includes, links and programs obey the folder arrows of docs/Architecture.md.

usage: layering.py SOURCE_ROOT BIN_DIR     exit status 1 and one line a violation
       layering.py --self-test             prints what it finds in a made-up tree that breaks each rule
"""
import os
import re
import subprocess
import sys
import tempfile

# What each folder may use of the others. The longest matching folder on the left counts, so a
# subfolder may have its own rule. A folder may always use itself. "mlir" stands for MLIR and LLVM.
ARROWS = {
    "runtime": ["runtime"],
    "dialect/gemma": ["mlir", "dialect/gemma", "dialect/program"],
    "dialect/kernel": ["mlir", "dialect/kernel"],
    # A launch names its kernel, whose arguments the verifier compares.
    "dialect/program": ["mlir", "dialect/program", "dialect/kernel"],
    "import": ["mlir", "import", "dialect", "runtime/checkpoint", "runtime/support"],
    "reference": ["mlir", "reference", "dialect", "runtime/checkpoint", "runtime/support"],
    "passes": ["mlir", "passes", "dialect"],
    # --verify-numerics runs the interpreter before and after a pass.
    "passes/verify": ["mlir", "passes", "dialect", "reference"],
    "codegen": ["mlir", "codegen", "dialect/kernel", "dialect/program", "runtime/abi",
                "runtime/support"],
    "tools": ["mlir", "tools", "runtime", "dialect", "import", "reference", "passes", "codegen"],
    "tools/driver": ["tools/driver", "runtime"],
    "tools/gemma-gpu-check": ["tools/gemma-gpu-check", "tools/driver", "runtime"],
    "tools/gemma-run": ["tools/gemma-run", "tools/driver", "tools/measure", "runtime"],
    "tools/measure": ["tools/measure", "runtime"],
    "tools/gemma-tokenize": ["tools/gemma-tokenize", "tools/driver", "runtime"],
}

# Programs that start on a machine without MLIR and LLVM.
PLAIN_PROGRAMS = ["gemma-run", "gemma-tokenize", "gemma-gpu-check"]

OUR_FOLDERS = ["runtime", "dialect", "import", "reference", "passes", "codegen", "tools"]
MLIR_LIBRARY = re.compile(r"^(MLIR|LLVM|clang)")
MLIR_HEADER = re.compile(r"^(mlir|mlir-c|llvm|llvm-c|clang|lld)/")
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]')

# Things a clone does not have. Put together from parts, so that this file does not match itself.
OUTSIDE = re.compile("|".join([
    "/" + r"work/(main|shared|team|wt-)",
    r"\.\./" + "shared",
    r"(?<![\w/.-])" + "shared" + r"/(models|spec|chat|configs|tokenizers|probes|cases\.md|facts\.md|"
    r"design\.md|house-style\.md|gpu-plan\.md)",
]))


def rule_of(path):
    """The folder whose rule holds for a file, or None."""
    best = None
    for folder in ARROWS:
        if path.startswith(folder + "/") and (best is None or len(folder) > len(best)):
            best = folder
    return best


def allowed(rule, target):
    return any(target == a or target.startswith(a + "/") for a in ARROWS[rule])


def tracked_files(root):
    """Tracked and new files; every file when the tree is not a git checkout."""
    try:
        listing = subprocess.run(
            ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            check=True, capture_output=True).stdout
        return sorted(p for p in listing.decode().split("\0") if p)
    except (OSError, subprocess.CalledProcessError):
        found = []
        for folder, names, files in os.walk(root):
            names[:] = [n for n in names if n not in (".git", "build")]
            found += [os.path.relpath(os.path.join(folder, f), root) for f in files]
        return sorted(found)


def check_includes(path, lines):
    rule = rule_of(path)
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match or rule is None:
            continue
        header = match.group(1)
        if MLIR_HEADER.match(header):
            target = "mlir"
        elif header.split("/")[0] in OUR_FOLDERS:
            target = header
        else:
            continue
        if not allowed(rule, target):
            yield f"{path}:{number}: {rule} may not include {header}"


def cmake_calls(text):
    """(line number, function, words) of every gemma_library, gemma_tool and link call."""
    text = re.sub(r"#[^\n]*", "", text)
    for match in re.finditer(r"\b(gemma_library|gemma_tool|target_link_libraries)\s*\(([^)]*)\)", text):
        yield text.count("\n", 0, match.start()) + 1, match.group(1), match.group(2).split()


def linked(function, words):
    if function == "target_link_libraries":
        return [w for w in words[1:] if w not in ("PUBLIC", "PRIVATE", "INTERFACE")]
    links, keyword = [], None
    for word in words[1:]:
        if word in ("SOURCES", "LINKS", "MLIR"):
            keyword = word
            if word == "MLIR":
                links.append("MLIR")
        elif keyword == "LINKS":
            links.append(word)
    return links


def check_links(cmake_files):
    home = {}
    for path, text in cmake_files.items():
        for _, function, words in cmake_calls(text):
            if function == "gemma_library" and words:
                home[words[0]] = os.path.dirname(path)
    for path, text in sorted(cmake_files.items()):
        rule = rule_of(path)
        if rule is None:
            continue
        for number, function, words in cmake_calls(text):
            for library in linked(function, words):
                if MLIR_LIBRARY.match(library):
                    if not allowed(rule, "mlir"):
                        yield f"{path}:{number}: {rule} may not link {library}"
                elif library in home and not allowed(rule, home[library]):
                    yield f"{path}:{number}: {rule} may not link {library} of {home[library]}"


def check_outside(path, lines):
    for number, line in enumerate(lines, 1):
        match = OUTSIDE.search(line)
        if match:
            yield f"{path}:{number}: the repository may not mention '{match.group(0)}'"


def check_program(path):
    dynamic = subprocess.run(["readelf", "-d", path], check=True, capture_output=True,
                             text=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[([^\]]+)\]", dynamic)
    if not needed:
        yield f"{path}: readelf lists no needed library: is it a program?"
    for library in needed:
        if re.match(r"lib(MLIR|LLVM|clang)", library):
            yield f"{path}: loads {library}"


def check_tree(root):
    cmake_files = {}
    for path in tracked_files(root):
        full = os.path.join(root, path)
        if os.path.islink(full) or not os.path.isfile(full):
            continue
        # Test data is large and partly damaged on purpose: of it only the pages people read count.
        if path.startswith(("test/data/", "examples/")) and not path.endswith(".md"):
            continue
        with open(full, "rb") as file:
            content = file.read()
        if b"\0" in content:
            continue
        text = content.decode("utf-8", "replace")
        lines = text.splitlines()
        if path.endswith((".h", ".cpp", ".td", ".c", ".inc")):
            yield from check_includes(path, lines)
        if os.path.basename(path) == "CMakeLists.txt":
            cmake_files[path] = text
        yield from check_outside(path, lines)
    yield from check_links(cmake_files)


def self_test():
    files = {
        "runtime/x.cpp": '#include "mlir/IR/BuiltinOps.h"\n#include "dialect/gemma/Gemma.h"\n',
        "dialect/kernel/x.h": '#include "dialect/gemma/Gemma.h"\n',
        "codegen/cpu/x.cpp": '#include "runtime/engine/Engine.h"\n',
        "tools/gemma-run/x.cpp": '#include "import/Import.h"\n',
        "passes/CMakeLists.txt": "gemma_library(GemmaPasses SOURCES a.cpp LINKS GemmaEngine MLIR)\n",
        "runtime/engine/CMakeLists.txt": "gemma_library(GemmaEngine SOURCES b.cpp)\n",
        "runtime/support/CMakeLists.txt": "gemma_library(GemmaSupport SOURCES c.cpp LINKS MLIR)\n",
        "docs/x.md": "see ../" + "shared/notes.md\n",
    }
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        order = list(files)
        found = list(check_tree(root))
        found.sort(key=lambda line: order.index(line.split(":")[0]))
        print("\n".join(found))


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return 0
    root, programs = sys.argv[1:]
    problems = list(check_tree(root))
    for name in PLAIN_PROGRAMS:
        path = os.path.join(programs, name)
        if os.path.exists(path):
            problems += check_program(path)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
