#!/usr/bin/env python3
"""Starts a new pass: writes its .cpp and its lit test, prints what to paste into shared lists.

usage: new-pass.py NAME --phase PHASE --summary TEXT [--on module|func|variant] [--root DIR]

NAME is lower case with hyphens and without "gemma-": fuse-rope gives passes/PHASE/FuseRope.cpp, the
flag --gemma-fuse-rope, DEBUG_TYPE "gemma-fuse-rope" and test/passes/fuse-rope.mlir. PHASE is optimize,
lower or memory. --root is where the files go (default: this repository). Nothing is overwritten.
The test fails until the pass is written. docs/AddingAPass.md goes on from here.

exit status: 0 ok, 1 a file is there or cannot be written, 2 usage
"""
import argparse
import pathlib
import re
import sys

PHASES = ["optimize", "lower", "memory"]

# What a pass runs on: the C++ type in Passes.td and in the pass, the getter's name in the body, how
# the pipeline adds it.
ANCHORS = {
    "module": ("::mlir::ModuleOp", "ModuleOp module", "pm.addPass(create{camel}());"),
    "func": ("::mlir::func::FuncOp", "func::FuncOp function",
             "pm.addNestedPass<func::FuncOp>(create{camel}());"),
    "variant": ("::gemma::program::VariantOp", "program::VariantOp variant",
                "pm.addNestedPass<program::VariantOp>(create{camel}());"),
}

CPP = """\
// gemma-{name}
//
// {summary}.
//
// Input:  TODO what the pass may rely on.
// Output: TODO what the next pass may rely on.
//
//   TODO IR before   ->   TODO IR after
//
// After TODO X because; before TODO Y because.
#include "passes/Passes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#define DEBUG_TYPE "gemma-{name}"

namespace gemma::passes {{
#define GEN_PASS_DEF_{upper}
#include "passes/Passes.h.inc"
}} // namespace gemma::passes

using namespace mlir;
using namespace gemma;

namespace {{
/// TODO One sentence: what is matched, what it becomes.
struct {camel}Pattern : OpRewritePattern<ir::ResidualOp> {{
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ir::ResidualOp op, PatternRewriter &rewriter) const override {{
    // Patterns report nothing; they say why they do not match.
    return rewriter.notifyMatchFailure(op, "TODO the reason");
  }}
}};

struct {camel}Pass : gemma::passes::impl::{camel}Base<{camel}Pass> {{
  using {camel}Base::{camel}Base;

  void runOnOperation() override {{
    {getter} = getOperation();
    RewritePatternSet patterns(&getContext());
    patterns.add<{camel}Pattern>(&getContext());
    if (failed(applyPatternsGreedily({variable}, std::move(patterns))))
      signalPassFailure();
  }}
}};
}} // namespace
"""

RECORD = """\
def {camel} : Pass<"gemma-{name}", "{type}"> {{
  let summary = "{summary}";
  let description = [{{
    TODO Two sentences: what it does, and what it leaves alone.
  }}];
}}
"""

TEST = """\
// TODO One sentence: what this case shows.
// RUN: gemma-opt %s --gemma-{name} | FileCheck %s

// CHECK-LABEL: func.func @example
// CHECK: TODO what the pass makes of it
func.func @example(%x: tensor<?x16xf32>, %h: tensor<?x16xf32>) -> tensor<?x16xf32> {{
  %y = gemma.residual %x, %h : tensor<?x16xf32> loc("layers[0].attn_residual")
  return %y : tensor<?x16xf32>
}}
"""


def fail(message, code=1):
    print(f"new-pass.py: error: {message}", file=sys.stderr)
    sys.exit(code)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    parser.add_argument("name")
    parser.add_argument("--phase", required=True, choices=PHASES)
    parser.add_argument("--summary", required=True)
    parser.add_argument("--on", default="func", choices=sorted(ANCHORS))
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    options = parser.parse_args()
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", options.name) or \
            options.name.startswith("gemma-"):
        fail(f"NAME: expected lower case words between hyphens without gemma-, got {options.name}", 2)
    summary = options.summary.rstrip(".")
    if not summary or '"' in summary or "\n" in summary:
        fail(f"--summary: expected one line without quotes, got {options.summary!r}", 2)

    camel = "".join(word.capitalize() for word in options.name.split("-"))
    kind, getter, add = ANCHORS[options.on]
    values = {"name": options.name, "camel": camel, "upper": camel.upper(), "summary": summary,
              "type": kind, "getter": getter, "variable": getter.split()[-1]}
    files = {
        options.root / "passes" / options.phase / f"{camel}.cpp": CPP,
        options.root / "test" / "passes" / f"{options.name}.mlir": TEST,
    }
    for path in files:
        if path.exists():
            fail(f"{path}: is there already")
    for path, template in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(template.format(**values), encoding="utf-8")
        except OSError as error:
            fail(f"{path}: {error.strerror}")
        print(f"wrote {path}")
    print(f"\n-- passes/Passes.td, section {options.phase}, in running order:\n")
    print(RECORD.format(**values))
    print("-- passes/CMakeLists.txt, SOURCES of GemmaPasses:\n")
    print(f"    {options.phase}/{camel}.cpp\n")
    print(f"-- passes/Pipelines.cpp, build{options.phase.capitalize()}Phase, with the reason:\n")
    print(f"  {add.format(camel=camel)}\n")
    print("-- then: scripts/generate-docs.sh")


if __name__ == "__main__":
    main()
