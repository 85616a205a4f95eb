// Branches, barriers and the instructions that a warp executes together.
#include "codegen/emu/Translator.h"

#include "runtime/abi/EmuAbi.h"

namespace gemma::codegen::ptx {

void Translator::ret(const Instruction &i, Modifiers &m) {
  m.take("uni");
  operands(i, 0);
  b.CreateRetVoid();
}

void Translator::bra(const Instruction &i, Modifiers &m) {
  m.take("uni");
  if (!operands(i, 1))
    return;
  if (i.operands[0].kind != Operand::Label)
    return problem("expected a label of bra");
  b.CreateBr(labels[i.operands[0].index]);
}

void Translator::brx(const Instruction &i, Modifiers &m) {
  m.take("uni");
  if (!m.take("idx") || !operands(i, 2) || i.operands[1].kind != Operand::Label)
    return problem("expected an index and a list of targets of " + i.text());
  for (const auto &[label, targets] : kernel.branchTargets) {
    if (label != i.operands[1].index)
      continue;
    Value *index = readBits(i.operands[0], 32);
    llvm::BasicBlock *outside = newBlock("outside");
    auto *jump = b.CreateSwitch(index, outside, unsigned(targets.size()));
    for (size_t k = 0; k < targets.size(); ++k)
      jump->addCase(b.getInt32(uint32_t(k)), labels[targets[k].index]);
    b.SetInsertPoint(outside);
    call(offsetof(EmuTable, trap), b.getVoidTy(), {site(i)});
    b.CreateUnreachable();
    return;
  }
  problem("no list of targets for " + i.text());
}

void Translator::trap(const Instruction &i, Modifiers &) {
  operands(i, 0);
  call(offsetof(EmuTable, trap), b.getVoidTy(), {site(i)});
  b.CreateUnreachable();
}

void Translator::nop(const Instruction &, Modifiers &m) { m.takeType(); }

void Translator::bar(const Instruction &i, Modifiers &m) {
  if (m.take("warp")) {
    m.take("sync");
    if (operands(i, 1))
      call(offsetof(EmuTable, warpSync), b.getVoidTy(), {readBits(i.operands[0], 32), site(i)});
    return;
  }
  m.take("cta");
  std::string what = m.takeAny({"sync", "arrive", "red"});
  // bar is barrier.aligned.
  uint32_t kind = i.opcode == "bar" || m.take("aligned") ? EmuBarrierAligned : 0;
  std::string reduction = what == "red" ? m.takeAny({"popc", "and", "or"}) : std::string();
  if (what.empty() || (what == "red" && reduction.empty()))
    return problem("unknown instruction " + i.text());
  Value *predicate = b.getInt32(0);
  size_t first = 0, last = i.operands.size();
  if (what == "red") {
    Type type = needType(m);
    if (!operands(i, 3, 4))
      return;
    first = 1;
    predicate = b.CreateZExt(readPredicate(i.operands[--last]), b.getInt32Ty());
    kind |= reduction == "popc"  ? EmuBarrierPopc
            : reduction == "and" ? EmuBarrierAnd
                                 : EmuBarrierOr;
    if ((reduction == "popc") != (type.bits == 32))
      return problem("unknown instruction " + i.text());
  } else if (what == "arrive") {
    kind |= EmuBarrierArrive;
    if (!operands(i, 2))
      return;
  } else if (!operands(i, 1, 2)) {
    return;
  }
  Value *id = readBits(i.operands[first], 32);
  Value *count = last - first > 1 ? readBits(i.operands[first + 1], 32) : b.getInt32(0);
  Value *value = call(offsetof(EmuTable, barrier), b.getInt32Ty(),
                      {b.getInt32(kind), id, count, predicate, site(i)});
  if (what == "red")
    write(i.operands[0], reduction == "popc" ? value : b.CreateICmpNE(value, b.getInt32(0)));
}

void Translator::shfl(const Instruction &i, Modifiers &m) {
  if (!m.take("sync"))
    return problem("shfl needs .sync");
  std::string mode = m.takeAny({"up", "down", "bfly", "idx"});
  if (mode.empty() || needType(m).bits != 32 || !operands(i, 5))
    return problem("unknown instruction " + i.text());
  uint32_t code = mode == "up"     ? EmuShuffleUp
                  : mode == "down" ? EmuShuffleDown
                  : mode == "bfly" ? EmuShuffleBfly
                                   : EmuShuffleIdx;
  Value *value = call(offsetof(EmuTable, shuffle), b.getInt32Ty(),
                      {b.getInt32(code), readBits(i.operands[1], 32), readBits(i.operands[2], 32),
                       readBits(i.operands[3], 32), readBits(i.operands[4], 32), site(i)});
  const Operand &target = i.operands[0];
  if (target.kind != Operand::Pair)
    return write(target, value);
  write(target.elements[1], b.CreateICmpNE(result(0), b.getInt32(0)));
  write(target.elements[0], value);
}

void Translator::vote(const Instruction &i, Modifiers &m) {
  std::string mode = m.takeAny({"all", "any", "uni", "ballot"});
  if (!m.take("sync") || mode.empty() || !operands(i, 3))
    return problem("unknown instruction " + i.text());
  needType(m);
  uint32_t code = mode == "all"   ? EmuVoteAll
                  : mode == "any" ? EmuVoteAny
                  : mode == "uni" ? EmuVoteUni
                                  : EmuVoteBallot;
  Value *predicate = b.CreateZExt(readPredicate(i.operands[1]), b.getInt32Ty());
  Value *value = call(offsetof(EmuTable, vote), b.getInt32Ty(),
                      {b.getInt32(code), predicate, readBits(i.operands[2], 32), site(i)});
  write(i.operands[0], mode == "ballot" ? value : b.CreateICmpNE(value, b.getInt32(0)));
}

void Translator::match(const Instruction &i, Modifiers &m) {
  std::string mode = m.takeAny({"any", "all"});
  if (!m.take("sync") || mode.empty() || !operands(i, 3))
    return problem("unknown instruction " + i.text());
  Type type = needType(m);
  Value *value =
      call(offsetof(EmuTable, match), b.getInt32Ty(),
           {b.CreateZExt(readBits(i.operands[1], type.bits), b.getInt64Ty()), b.getInt32(type.bits),
            b.getInt32(mode == "all"), readBits(i.operands[2], 32), site(i)});
  const Operand &target = i.operands[0];
  if (target.kind != Operand::Pair)
    return write(target, value);
  write(target.elements[1], b.CreateICmpNE(result(0), b.getInt32(0)));
  write(target.elements[0], value);
}

void Translator::redux(const Instruction &i, Modifiers &m) {
  std::string op = m.takeAny({"add", "min", "max", "and", "or", "xor"});
  Type type = needType(m);
  if (!m.take("sync") || op.empty() || type.bits != 32 || type.isFloat() || !operands(i, 3))
    return problem("unknown instruction " + i.text());
  bool isSigned = type.isSigned();
  uint32_t code = op == "add"   ? EmuReduxAdd
                  : op == "min" ? (isSigned ? EmuReduxMinS : EmuReduxMinU)
                  : op == "max" ? (isSigned ? EmuReduxMaxS : EmuReduxMaxU)
                  : op == "and" ? EmuReduxAnd
                  : op == "or"  ? EmuReduxOr
                                : EmuReduxXor;
  write(i.operands[0], call(offsetof(EmuTable, redux), b.getInt32Ty(),
                            {b.getInt32(code), readBits(i.operands[1], 32),
                             readBits(i.operands[2], 32), site(i)}));
}

void Translator::activemask(const Instruction &i, Modifiers &m) {
  needType(m);
  if (operands(i, 1))
    write(i.operands[0], call(offsetof(EmuTable, activeMask), b.getInt32Ty(), {}));
}

void Translator::ldmatrix(const Instruction &i, Modifiers &m) {
  bool known = m.take("sync") && m.take("aligned") && m.take("m8n8") && m.take("b16");
  std::string count = m.takeAny({"x1", "x2", "x4"});
  bool transposed = m.take("trans");
  if (takeSpace(m) != "shared" || !known || count.empty() || !operands(i, 2))
    return problem("unknown instruction " + i.text());
  std::vector<Operand> targets = elementsOf(i.operands[0]);
  if (targets.size() != size_t(count[1] - '0'))
    return problem("expected " + count.substr(1) + " registers as destination of " + i.text());
  call(offsetof(EmuTable, loadMatrix), b.getVoidTy(),
       {address(i.operands[1]), b.getInt32(uint32_t(targets.size())), b.getInt32(transposed),
        site(i)});
  for (unsigned k = 0; k < targets.size(); ++k)
    write(targets[k], result(k));
}

void Translator::mma(const Instruction &i, Modifiers &m) {
  bool known = m.take("sync") && m.take("aligned");
  std::string shape = m.takeAny({"m16n8k16", "m16n8k8"});
  known &= m.take("row") && m.take("col") && !shape.empty();
  Type d = needType(m), a = needType(m), bType = needType(m), c = needType(m);
  Type f32{Type::Float, 32, 1};
  known &= d == f32 && c == f32 && a == bType && a.isFloat() && a.bits == 16;
  if (!known || !operands(i, 4))
    return problem("unknown instruction " + i.text());
  bool wide = shape == "m16n8k16", bf16 = a.cls == Type::BFloat;
  size_t counts[] = {4, wide ? 4u : 2u, wide ? 2u : 1u, 4};
  for (unsigned k = 0; k < 4; ++k)
    if (elementsOf(i.operands[k]).size() != counts[k])
      return problem("expected " + std::to_string(counts[k]) + " registers as operand " +
                     std::to_string(k) + " of " + i.text());
  unsigned slot = 0;
  for (unsigned k = 1; k < 4; ++k)
    for (const Operand &element : elementsOf(i.operands[k]))
      b.CreateStore(
          readBits(element, 32),
          b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), thread,
                                       offsetof(EmuThread, operands) + sizeof(uint32_t) * slot++));
  uint32_t kind =
      wide ? (bf16 ? EmuMmaBf16K16 : EmuMmaF16K16) : (bf16 ? EmuMmaBf16K8 : EmuMmaF16K8);
  if (provenance && !bf16)
    return problem("no provenance hash of " + i.text());
  if (provenance)
    kind |= EmuMmaProvenance;
  call(offsetof(EmuTable, mma), b.getVoidTy(), {b.getInt32(kind), site(i)});
  std::vector<Operand> targets = elementsOf(i.operands[0]);
  for (unsigned k = 0; k < 4; ++k)
    write(targets[k], result(k));
}

} // namespace gemma::codegen::ptx
