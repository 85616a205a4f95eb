"""Pastes a record that new-pass.py printed into a copy of Passes.td and compiles the new pass with it.

usage: check-new-pass.py SOURCE_ROOT BUILD_ROOT MLIR_TBLGEN NEW_ROOT PRINTED NAME.cpp
"""
import json
import pathlib
import re
import shlex
import subprocess
import sys


def main(source, build, tblgen, new_root, printed, cpp):
    text = pathlib.Path(printed).read_text()
    record = re.search(r"^def .*?^}$", text, re.M | re.S).group(0)
    td = pathlib.Path(source, "passes/Passes.td").read_text()
    folder = pathlib.Path(new_root, "passes")
    # The record goes to the end, before the include guard closes.
    at = td.rindex("#endif")
    (folder / "Passes.td").write_text(td[:at] + record + "\n" + td[at:])

    for command in json.loads(pathlib.Path(build, "compile_commands.json").read_text()):
        if command["file"] == str(pathlib.Path(source, "passes/optimize/FormGroups.cpp")):
            break
    words = shlex.split(command["command"])
    includes = [w for w in words if w.startswith("-I")]
    includes += [f"-I{words[i + 1]}" for i, w in enumerate(words) if w == "-isystem"]
    subprocess.run([tblgen, "-gen-pass-decls", "-name", "Gemma", *includes, folder / "Passes.td",
                    "-o", folder / "Passes.h.inc"], check=True)
    words[words.index("-o"):] = ["-fsyntax-only", cpp]
    # The new table of passes is found before the build's.
    words.insert(words.index(includes[0]), f"-I{new_root}")
    sys.exit(subprocess.run(words, cwd=command["directory"]).returncode)


main(*sys.argv[1:])
