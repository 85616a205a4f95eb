"""Holds the dialects' .td files, verifiers and tests together.

Usage: constraints.py ROOT. For every constraint "(`op_cN`)" that a .td file of dialect/ states there is
a case "// op_cN" in an -invalid.mlir file, and the name in a .cpp file beside the .td; nothing else has
such a name. Every ```mlir example stands in an -ops.mlir file, where it is parsed.
"""
import pathlib
import re
import sys

NAME = r"[a-z0-9_]+_c[0-9]+"


def read(paths):
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(paths))


def words(text):
    """The text without comments, with single blanks and unnamed values."""
    return re.sub(r"%\w+", "%", " ".join(re.sub(r"//.*", "", text).split()))


def main(root):
    problems = []
    for folder in sorted(p for p in (root / "dialect").iterdir() if p.is_dir()):
        tests = root / "test" / "dialect" / folder.name
        td = read(folder.glob("*.td"))
        stated = re.findall(rf"\(`({NAME})`\)", td)
        checked = set(re.findall(rf"\b{NAME}\b", read(folder.glob("*.cpp"))))
        tested = set(re.findall(rf"^// ({NAME})\b", read(tests.glob("*-invalid.mlir")), re.M))
        for name in sorted({name for name in stated if stated.count(name) > 1}):
            problems.append(f"{folder.name}: {name} is stated twice")
        for name in sorted(set(stated) | checked | tested):
            for where, names in (("in a .td", stated), ("in a verifier", checked),
                                 ("by a test", tested)):
                if name not in names:
                    problems.append(f"{folder.name}: {name} is not named {where}")
        parsed = words(read(tests.glob("*-ops.mlir")))
        for example in re.findall(r"```mlir\n(.*?)```", td, re.S):
            if words(example) not in parsed:
                problems.append(f"{folder.name}: no test parses the example\n{example}")
    print("\n".join(problems) or "ok")
    return 1 if problems else 0


sys.exit(main(pathlib.Path(sys.argv[1])))
