// One PTX kernel -> one LLVM function  void kernel(EmuThread *).
//
// PTX registers become stack slots, which LLVM's first pass turns into values. 16-bit floats are
// kept as their bits. What an instruction means is written in one member function an opcode, by
// family in Translate*.cpp; InstructionTable.cpp says which opcode goes where.
#pragma once

#include "codegen/emu/PtxModule.h"
#include "runtime/support/Status.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace gemma::codegen::ptx {

/// The modifiers of an instruction while it is translated: each is taken once; one left over is an
/// error of the whole translation.
class Modifiers {
public:
  explicit Modifiers(const ptx::Instruction &instruction) : words(instruction.modifiers) {}

  bool take(std::string_view word);
  /// The first of `options` that is there, taken; empty if none.
  std::string takeAny(std::initializer_list<std::string_view> options);
  /// Takes every modifier that starts with `prefix`.
  void dropPrefix(std::string_view prefix);
  std::optional<ptx::Type> takeType();
  const std::vector<std::string> &left() const { return words; }

private:
  std::vector<std::string> words;
};

/// Where the variables of a module lie; the same for all its kernels.
struct ModuleLayout {
  std::map<std::string, llvm::GlobalVariable *> globals; ///< .global and .const
  std::map<std::string, uint64_t> shared;                ///< .shared of the module, but extern ones
  std::map<std::string, uint64_t> externShared;          ///< name -> alignment
  uint64_t sharedBytes = 0;
};

/// What the runtime must know about a kernel.
struct KernelLayout {
  uint64_t paramBytes = 0;
  std::vector<std::pair<uint64_t, uint64_t>> params; ///< offset, bytes
  uint64_t staticShared = 0;                         ///< bytes before the dynamic part
  uint64_t instructions = 0;
};

/// Where an instruction that a report may name comes from.
struct Site {
  unsigned line = 0;   ///< of the PTX
  unsigned source = 0; ///< of the last .loc; 0: none
};

class Translator {
public:
  Translator(llvm::Module &ir, const ptx::Kernel &kernel, const ModuleLayout &module,
             std::vector<Site> &sites, bool provenance = false);

  Expected<KernelLayout> run();

  using Handler = void (Translator::*)(const ptx::Instruction &, Modifiers &);

  // Integers.
  void add(const ptx::Instruction &, Modifiers &);
  void sub(const ptx::Instruction &, Modifiers &);
  void mul(const ptx::Instruction &, Modifiers &);
  void mad(const ptx::Instruction &, Modifiers &);
  void mul24(const ptx::Instruction &, Modifiers &);
  void div(const ptx::Instruction &, Modifiers &);
  void rem(const ptx::Instruction &, Modifiers &);
  void abs(const ptx::Instruction &, Modifiers &);
  void neg(const ptx::Instruction &, Modifiers &);
  void minMax(const ptx::Instruction &, Modifiers &);
  void logic(const ptx::Instruction &, Modifiers &);
  void shift(const ptx::Instruction &, Modifiers &);
  void funnelShift(const ptx::Instruction &, Modifiers &);
  void lop3(const ptx::Instruction &, Modifiers &);
  void bfe(const ptx::Instruction &, Modifiers &);
  void bfi(const ptx::Instruction &, Modifiers &);
  void bitCount(const ptx::Instruction &, Modifiers &);
  void prmt(const ptx::Instruction &, Modifiers &);
  void dotProduct(const ptx::Instruction &, Modifiers &);
  // Floats.
  void fma(const ptx::Instruction &, Modifiers &);
  void unaryFloat(const ptx::Instruction &, Modifiers &);
  void copysign(const ptx::Instruction &, Modifiers &);
  void testp(const ptx::Instruction &, Modifiers &);
  // Comparison, selection, movement, conversion.
  void setp(const ptx::Instruction &, Modifiers &);
  void set(const ptx::Instruction &, Modifiers &);
  void selp(const ptx::Instruction &, Modifiers &);
  void slct(const ptx::Instruction &, Modifiers &);
  void mov(const ptx::Instruction &, Modifiers &);
  void cvt(const ptx::Instruction &, Modifiers &);
  // Memory.
  void ld(const ptx::Instruction &, Modifiers &);
  void st(const ptx::Instruction &, Modifiers &);
  void cvta(const ptx::Instruction &, Modifiers &);
  void isspacep(const ptx::Instruction &, Modifiers &);
  void prefetch(const ptx::Instruction &, Modifiers &);
  void atom(const ptx::Instruction &, Modifiers &);
  void fence(const ptx::Instruction &, Modifiers &);
  void cp(const ptx::Instruction &, Modifiers &);
  // Control and cooperation.
  void ret(const ptx::Instruction &, Modifiers &);
  void bra(const ptx::Instruction &, Modifiers &);
  void brx(const ptx::Instruction &, Modifiers &);
  void trap(const ptx::Instruction &, Modifiers &);
  void nop(const ptx::Instruction &, Modifiers &);
  void bar(const ptx::Instruction &, Modifiers &);
  void shfl(const ptx::Instruction &, Modifiers &);
  void vote(const ptx::Instruction &, Modifiers &);
  void match(const ptx::Instruction &, Modifiers &);
  void redux(const ptx::Instruction &, Modifiers &);
  void activemask(const ptx::Instruction &, Modifiers &);
  void ldmatrix(const ptx::Instruction &, Modifiers &);
  void mma(const ptx::Instruction &, Modifiers &);

private:
  using Value = llvm::Value;

  // Set-up and statements.
  void layoutVariables();
  void createRegisters();
  void translate(const ptx::Instruction &instruction);
  void beginBlock(llvm::BasicBlock *block, size_t statement);
  llvm::BasicBlock *newBlock(const llvm::Twine &name = "");
  bool terminated() const { return b.GetInsertBlock()->getTerminator() != nullptr; }

  /// Records the first problem of the kernel; translation goes on with poison until it is noticed.
  void problem(const std::string &message);
  Value *poison(llvm::Type *type) { return llvm::PoisonValue::get(type); }
  bool operands(const ptx::Instruction &instruction, size_t least, size_t most);
  bool operands(const ptx::Instruction &instruction, size_t count) {
    return operands(instruction, count, count);
  }
  /// The type modifier; a problem and .b32 if there is none.
  ptx::Type needType(Modifiers &modifiers);

  // Operands.
  llvm::Type *typeOf(ptx::Type type);
  llvm::IntegerType *intType(unsigned bits) { return b.getIntNTy(bits); }
  Value *read(const ptx::Operand &operand, ptx::Type type);
  Value *readBits(const ptx::Operand &operand, unsigned bits);
  Value *readPredicate(const ptx::Operand &operand);
  Value *special(const std::string &name);
  Value *symbol(const ptx::Operand &operand);
  Value *address(const ptx::Operand &operand);
  void write(const ptx::Operand &operand, Value *value);
  /// For loads and conversions of signed types into wider registers.
  void writeSigned(const ptx::Operand &operand, Value *value);
  std::vector<ptx::Operand> elementsOf(const ptx::Operand &operand) const;

  // The thread and its table.
  Value *field(size_t offset, llvm::Type *type, bool constant = true);
  Value *call(size_t tableOffset, llvm::Type *result, llvm::ArrayRef<Value *> arguments);
  Value *site(const ptx::Instruction &instruction);
  Value *result(unsigned index);
  Value *pointer(Value *address) { return b.CreateIntToPtr(address, b.getPtrTy()); }
  void observe(Value *address, unsigned bytes, uint32_t kind, const ptx::Instruction &instruction);

  // Floats: lanes, flushing, narrow types.
  using FloatOp = std::function<Value *(llvm::ArrayRef<Value *>)>;
  struct FloatMode {
    bool ftz = false;
    bool saturate = false;
    bool relu = false;
    bool exact = false; ///< 16-bit types computed in f64 and rounded once
  };
  /// Applies `op` to each lane of the operands, widened to f32 or f64, and writes operand 0.
  void floatOp(const ptx::Instruction &instruction, ptx::Type type, unsigned count, FloatMode mode,
               const FloatOp &op);
  Value *widen(Value *lane, ptx::Type type);
  Value *narrow(Value *wide, ptx::Type type);
  Value *toBf16(Value *f32);
  Value *toF16(Value *f32);
  Value *roundToOdd(Value *f64);
  Value *flush(Value *f32);
  Value *saturate(Value *value);
  Value *compare(const std::string &relation, ptx::Type type, Value *left, Value *right);
  Value *floatCompare(const std::string &relation, Value *left, Value *right);
  FloatMode floatMode(Modifiers &modifiers);
  Value *math(uint32_t function, Value *x);
  /// Calls a function of the table that takes no thread.
  Value *callPlain(size_t tableOffset, llvm::Type *result, llvm::ArrayRef<Value *> arguments);

  // Provenance hashes in place of floats.
  /// What computes instruction `i`: `op`, or its hash.
  FloatOp hashed(const ptx::Instruction &i, ptx::Type type, FloatMode &mode, const FloatOp &op);
  Value *provenanceOf(uint32_t op, llvm::ArrayRef<Value *> operands);
  /// A problem for a conversion that hashes cannot go through.
  void checkHashed(ptx::Type to, ptx::Type from);
  void combinePredicates(const ptx::Instruction &instruction, Value *holds,
                         const std::string &logic);
  Value *convert(ptx::Type to, ptx::Type from, Value *value, const std::string &rounding,
                 bool saturating, bool ftz);

  // Memory.
  struct MemoryModifiers {
    std::string space;
    uint32_t kind = 0;
    unsigned vector = 1;
    ptx::Type type;
  };
  MemoryModifiers memoryModifiers(Modifiers &modifiers, bool write);

  llvm::Module &ir;
  const ptx::Kernel &kernel;
  const ModuleLayout &module;
  std::vector<Site> &sites;
  bool provenance;
  llvm::IRBuilder<> b;
  llvm::Function *function = nullptr;
  llvm::BasicBlock *entry = nullptr;
  Value *thread = nullptr;
  KernelLayout layout;
  std::vector<llvm::AllocaInst *> registers;
  std::vector<llvm::BasicBlock *> labels;
  std::map<std::string, uint64_t> params;
  std::map<std::string, uint64_t> shared;
  std::map<std::string, llvm::AllocaInst *> locals;
  size_t current = 0; ///< the statement that is translated
  unsigned line = 0;
  std::string firstProblem;
};

/// Takes a state space: "global", "shared", ...; empty for a generic address.
std::string takeSpace(Modifiers &modifiers);

/// The member function that translates an opcode, or null.
Translator::Handler findHandler(std::string_view opcode);

} // namespace gemma::codegen::ptx
