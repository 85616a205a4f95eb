// Loads, stores, address spaces, asynchronous copies, atomics, fences. Addresses of all spaces are
// host addresses, so conversions between spaces do nothing.
#include "codegen/emu/Translator.h"

#include "runtime/abi/EmuAbi.h"

namespace gemma::codegen::ptx {

std::string takeSpace(Modifiers &m) {
  std::string space =
      m.takeAny({"global", "shared", "shared::cta", "local", "const", "param", "param::entry"});
  return space.substr(0, space.find(':'));
}

/// .cta, .gpu, .sys; device scope if none is given, as for atomics.
static uint32_t takeScope(Modifiers &m) {
  if (m.take("cta"))
    return EmuScopeBlock;
  if (m.take("sys"))
    return EmuScopeSystem;
  m.take("gpu");
  return EmuScopeDevice;
}

Translator::MemoryModifiers Translator::memoryModifiers(Modifiers &m, bool write) {
  MemoryModifiers result;
  result.space = takeSpace(m);
  if (write)
    result.kind |= EmuAccessWrite;
  if (result.space == "global")
    result.kind |= EmuAccessGlobal;
  if (result.space == "shared")
    result.kind |= EmuAccessShared;
  m.take("weak");
  if (m.take("volatile"))
    result.kind |= EmuAccessStrong;
  bool acquire = m.take("acquire"), release = m.take("release"), relaxed = m.take("relaxed");
  if (acquire || release || relaxed) {
    result.kind |=
        EmuAccessStrong | (acquire ? EmuAccessAcquire : 0) | (release ? EmuAccessRelease : 0);
    // A block's scope orders nothing between blocks, so only wider ones are told apart.
    if (takeScope(m) == EmuScopeBlock)
      result.kind &= ~uint32_t(EmuAccessAcquire | EmuAccessRelease);
  }
  m.take("nc");
  // How caches treat the line changes no value.
  m.takeAny({"ca", "cg", "cs", "lu", "cv", "wb", "wt"});
  m.dropPrefix("L1::");
  m.dropPrefix("L2::");
  if (m.take("v2"))
    result.vector = 2;
  else if (m.take("v4"))
    result.vector = 4;
  else if (m.take("v8"))
    result.vector = 8;
  result.type = needType(m);
  return result;
}

void Translator::observe(Value *address, unsigned bytes, uint32_t kind,
                         const Instruction &instruction) {
  Value *wanted =
      b.CreateICmpNE(field(offsetof(EmuThread, observe), b.getInt32Ty()), b.getInt32(0));
  llvm::BasicBlock *tell = newBlock("tell"), *go = newBlock("go");
  b.CreateCondBr(wanted, tell, go);
  b.SetInsertPoint(tell);
  call(offsetof(EmuTable, access), b.getVoidTy(),
       {address, b.getInt32(bytes), b.getInt32(kind), site(instruction)});
  b.CreateBr(go);
  b.SetInsertPoint(go);
}

/// Loads and stores that other threads can see must not be merged or removed.
static bool isWatched(const std::string &space) {
  return space.empty() || space == "global" || space == "shared";
}

void Translator::ld(const Instruction &i, Modifiers &m) {
  MemoryModifiers memory = memoryModifiers(m, false);
  if (!operands(i, 2, 3))
    return;
  std::vector<Operand> targets = elementsOf(i.operands[0]);
  if (targets.size() != memory.vector)
    return problem("expected a vector of " + std::to_string(memory.vector) +
                   " registers as destination of " + i.text());
  Value *from = address(i.operands[1]);
  unsigned bytes = memory.type.bits / 8;
  if (isWatched(memory.space))
    observe(from, bytes * memory.vector, memory.kind, i);
  std::vector<Value *> values;
  values.reserve(memory.vector);
  for (unsigned k = 0; k < memory.vector; ++k)
    values.push_back(b.CreateAlignedLoad(
        intType(memory.type.bits), pointer(b.CreateAdd(from, b.getInt64(uint64_t(k) * bytes))),
        llvm::Align(1), isWatched(memory.space)));
  for (unsigned k = 0; k < memory.vector; ++k)
    if (memory.type.isSigned())
      writeSigned(targets[k], values[k]);
    else
      write(targets[k], values[k]);
}

void Translator::st(const Instruction &i, Modifiers &m) {
  MemoryModifiers memory = memoryModifiers(m, true);
  if (!operands(i, 2, 3))
    return;
  std::vector<Operand> sources = elementsOf(i.operands[1]);
  if (sources.size() != memory.vector)
    return problem("expected a vector of " + std::to_string(memory.vector) + " values in " +
                   i.text());
  Value *to = address(i.operands[0]);
  unsigned bytes = memory.type.bits / 8;
  if (isWatched(memory.space))
    observe(to, bytes * memory.vector, memory.kind, i);
  for (unsigned k = 0; k < memory.vector; ++k)
    b.CreateAlignedStore(readBits(sources[k], memory.type.bits),
                         pointer(b.CreateAdd(to, b.getInt64(uint64_t(k) * bytes))), llvm::Align(1),
                         isWatched(memory.space));
}

void Translator::cvta(const Instruction &i, Modifiers &m) {
  m.take("to");
  if (takeSpace(m).empty())
    return problem("expected a state space of " + i.text());
  Type type = needType(m);
  if (operands(i, 2))
    write(i.operands[0], readBits(i.operands[1], type.bits));
}

void Translator::isspacep(const Instruction &i, Modifiers &m) {
  std::string space = takeSpace(m);
  if ((space != "shared" && space != "global") || !operands(i, 2))
    return problem("only .shared and .global are supported of " + i.text());
  Value *from = field(offsetof(EmuThread, shared), b.getInt64Ty());
  Value *bytes =
      b.CreateZExt(field(offsetof(EmuThread, totalShared), b.getInt32Ty()), b.getInt64Ty());
  Value *inside = b.CreateICmpULT(b.CreateSub(readBits(i.operands[1], 64), from), bytes);
  write(i.operands[0], space == "shared" ? inside : b.CreateNot(inside));
}

void Translator::prefetch(const Instruction &i, Modifiers &m) {
  takeSpace(m);
  m.takeAny({"L1", "L2"});
  m.dropPrefix("L2::");
  operands(i, 1);
}

void Translator::atom(const Instruction &i, Modifiers &m) {
  bool hasResult = i.opcode == "atom";
  takeSpace(m);
  static const std::map<std::string, uint32_t> kinds = {
      {"add", EmuAtomicAdd}, {"min", EmuAtomicMin}, {"max", EmuAtomicMax},   {"and", EmuAtomicAnd},
      {"or", EmuAtomicOr},   {"xor", EmuAtomicXor}, {"exch", EmuAtomicExch}, {"cas", EmuAtomicCas},
      {"inc", EmuAtomicInc}, {"dec", EmuAtomicDec}};
  std::string kind =
      m.takeAny({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"});
  if (kind.empty())
    return problem("unknown atomic operation " + i.text());
  uint32_t op = kinds.at(kind);
  bool acqRel = m.take("acq_rel");
  if (m.take("acquire") || acqRel)
    op |= EmuAtomicAcquire;
  if (m.take("release") || acqRel)
    op |= EmuAtomicRelease;
  m.take("relaxed");
  op |= takeScope(m) << EmuAtomicScopeShift;
  m.dropPrefix("L2::");
  Type type = needType(m);
  if (type.lanes != 1 || type.bits < 32 || type.bits > 64 || (type.isFloat() && kind != "add"))
    return problem("unsupported type of " + i.text());
  if (type.isFloat() && provenance)
    return problem("the order of " + i.text() + " is open: no provenance hash");
  if (type.isFloat())
    op |= type.bits == 32 ? EmuAtomicF32 : EmuAtomicF64;
  else if (type.bits == 64)
    op |= type.isSigned() ? EmuAtomicS64 : EmuAtomicU64;
  else
    op |= type.isSigned() ? EmuAtomicS32 : EmuAtomicU32;
  unsigned first = hasResult ? 1 : 0;
  if (!operands(i, first + (kind == "cas" ? 3 : 2), first + (kind == "cas" ? 3 : 2) + 1))
    return;
  auto wide = [&](const Operand &operand) {
    return b.CreateZExt(readBits(operand, type.bits), b.getInt64Ty());
  };
  Value *a = wide(i.operands[first + 1]);
  Value *c = kind == "cas" ? wide(i.operands[first + 2]) : b.getInt64(0);
  Value *old = call(offsetof(EmuTable, atomic), b.getInt64Ty(),
                    {b.getInt32(op), address(i.operands[first]), a, c, site(i)});
  if (hasResult)
    write(i.operands[0], b.CreateTrunc(old, intType(type.bits)));
}

void Translator::fence(const Instruction &i, Modifiers &m) {
  uint32_t scope = EmuScopeDevice;
  if (i.opcode == "membar") {
    std::string level = m.takeAny({"gl", "cta", "sys"});
    if (level.empty())
      return problem("expected .cta, .gl or .sys of membar");
    scope = level == "cta" ? EmuScopeBlock : level == "gl" ? EmuScopeDevice : EmuScopeSystem;
  } else {
    m.takeAny({"acq_rel", "sc", "acquire", "release"});
    scope = takeScope(m);
  }
  operands(i, 0);
  call(offsetof(EmuTable, fence), b.getVoidTy(), {b.getInt32(scope), site(i)});
}

void Translator::cp(const Instruction &i, Modifiers &m) {
  if (!m.take("async"))
    return problem("unknown instruction " + i.text());
  if (m.take("commit_group")) {
    call(offsetof(EmuTable, copyCommit), b.getVoidTy(), {});
    return;
  }
  bool all = m.take("wait_all");
  if (all || m.take("wait_group")) {
    if (!operands(i, all ? 0 : 1))
      return;
    Value *groups = all ? b.getInt32(~0u) : readBits(i.operands[0], 32);
    call(offsetof(EmuTable, copyWait), b.getVoidTy(), {groups, site(i)});
    return;
  }
  std::string cache = m.takeAny({"ca", "cg"});
  bool toShared = m.take("shared") || m.take("shared::cta");
  if (cache.empty() || !toShared || !m.take("global"))
    return problem("unknown instruction " + i.text());
  m.dropPrefix("L2::");
  if (!operands(i, 3, 5))
    return;
  const Operand &size = i.operands[2];
  if (size.kind != Operand::Integer || (size.bits != 4 && size.bits != 8 && size.bits != 16) ||
      (cache == "cg" && size.bits != 16))
    return problem("expected 4, 8 or 16 bytes (with .cg: 16) in " + i.text());
  Value *bytes = b.getInt32(uint32_t(size.bits));
  Value *sourceBytes = bytes;
  if (i.operands.size() > 3) {
    const Operand &fourth = i.operands[3];
    bool ignore =
        fourth.kind == Operand::Register && kernel.registers[fourth.index].cls == Type::Predicate;
    sourceBytes =
        ignore ? b.CreateSelect(readPredicate(fourth), b.getInt32(0), bytes) : readBits(fourth, 32);
  }
  call(offsetof(EmuTable, copyAsync), b.getVoidTy(),
       {address(i.operands[0]), address(i.operands[1]), bytes, sourceBytes, site(i)});
}

} // namespace gemma::codegen::ptx
