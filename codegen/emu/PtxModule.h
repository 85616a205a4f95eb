// A PTX module as the parser leaves it: names resolved to registers and labels, nothing else.
//
// Source: NVIDIA, "Parallel Thread Execution ISA". Only what kernels of this project can contain.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gemma::codegen::ptx {

/// A fundamental type: .b32, .f16x2, .pred ...
struct Type {
  enum Class { Bits, Unsigned, Signed, Float, BFloat, Predicate };
  Class cls = Bits;
  unsigned bits = 0; ///< of all lanes together; 1 for predicates
  unsigned lanes = 1;

  unsigned laneBits() const { return bits / lanes; }
  bool isSigned() const { return cls == Signed; }
  bool isFloat() const { return cls == Float || cls == BFloat; }
  bool isInteger() const { return cls == Bits || cls == Unsigned || cls == Signed; }
  bool operator==(const Type &) const = default;
};

/// The type that a modifier ("b32", "bf16x2") names.
std::optional<Type> parseType(std::string_view modifier);

struct Operand {
  enum Kind {
    Register, ///< `index`
    Special,  ///< `name`: %tid.x ...
    Integer,  ///< `bits`
    Float32,  ///< `bits`: 0f...
    Float64,  ///< `bits`: 0d...
    Symbol,   ///< `name` + `bits` bytes
    Label,    ///< `index`
    Address,  ///< elements[0] + `bits` bytes
    Vector,   ///< elements
    Pair,     ///< elements: a|b
    Sink,     ///< _
  };
  Kind kind = Sink;
  unsigned index = 0;
  uint64_t bits = 0;
  bool negated = false; ///< !p
  std::string name;
  std::vector<Operand> elements;
};

struct Instruction {
  std::string opcode;                 ///< "cp"
  std::vector<std::string> modifiers; ///< "async", "cg", "shared", "global"
  std::vector<Operand> operands;
  std::optional<unsigned> guard; ///< the predicate register of @p
  bool guardNegated = false;
  unsigned line = 0;
  unsigned source = 0;      ///< line of the last .loc before it; 0: none
  std::string text() const; ///< opcode with modifiers
};

/// Instructions and the labels before them, in order.
struct Statement {
  std::optional<unsigned> label; ///< a label, then nothing else
  Instruction instruction;
};

/// A variable of a state space.
struct Variable {
  enum Space { Param, Shared, Local, Const, Global };
  Space space = Global;
  std::string name;
  uint64_t bytes = 0; ///< 0 for an extern array
  uint64_t align = 1;
  bool isExtern = false;
  std::string initial; ///< bytes; shorter than `bytes`: the rest is zero
  unsigned line = 0;
};

struct Kernel {
  std::string name;
  unsigned line = 0;
  std::vector<Variable> params;
  std::vector<Variable> variables; ///< .shared and .local declared in the body
  std::vector<Type> registers;
  std::vector<std::string> labels; ///< names, for messages
  /// .branchtargets lists: label of the list, labels in it.
  std::vector<std::pair<unsigned, std::vector<Operand>>> branchTargets;
  std::vector<Statement> body;
  std::optional<uint64_t> maxThreads; ///< product of .maxntid or .reqntid
};

struct Module {
  std::string target; ///< sm_80
  std::vector<Variable> variables;
  std::vector<Kernel> kernels;
};

} // namespace gemma::codegen::ptx
