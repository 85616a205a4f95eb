#include "codegen/emu/Translator.h"

#include "runtime/abi/EmuAbi.h"

#include "llvm/IR/Function.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Support/Alignment.h"

namespace gemma::codegen::ptx {

bool Modifiers::take(std::string_view word) {
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] == word) {
      words.erase(words.begin() + ptrdiff_t(i));
      return true;
    }
  return false;
}

std::string Modifiers::takeAny(std::initializer_list<std::string_view> options) {
  for (std::string_view option : options)
    if (take(option))
      return std::string(option);
  return {};
}

void Modifiers::dropPrefix(std::string_view prefix) {
  std::erase_if(words, [&](const std::string &word) { return word.starts_with(prefix); });
}

std::optional<Type> Modifiers::takeType() {
  for (size_t i = 0; i < words.size(); ++i)
    if (std::optional<Type> type = parseType(words[i])) {
      words.erase(words.begin() + ptrdiff_t(i));
      return type;
    }
  return std::nullopt;
}

Translator::Translator(llvm::Module &ir, const Kernel &kernel, const ModuleLayout &module,
                       std::vector<Site> &sites, bool provenance)
    : ir(ir), kernel(kernel), module(module), sites(sites), provenance(provenance),
      b(ir.getContext()) {}

Expected<KernelLayout> Translator::run() {
  auto *type = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy()}, false);
  function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, kernel.name, ir);
  thread = function->getArg(0);
  entry = newBlock("entry");
  b.SetInsertPoint(entry);
  layoutVariables();
  createRegisters();
  for (const std::string &label : kernel.labels)
    labels.push_back(newBlock(label));

  llvm::BasicBlock *first = newBlock();
  b.CreateBr(first);
  beginBlock(first, 0);
  for (size_t i = 0; i < kernel.body.size() && firstProblem.empty(); ++i) {
    const Statement &statement = kernel.body[i];
    if (statement.label) {
      if (!terminated())
        b.CreateBr(labels[*statement.label]);
      beginBlock(labels[*statement.label], i + 1);
      continue;
    }
    if (terminated())
      beginBlock(newBlock(), i);
    ++layout.instructions;
    current = i;
    translate(statement.instruction);
  }
  if (!firstProblem.empty())
    return badInput(firstProblem);
  if (!terminated())
    b.CreateRetVoid();
  // Labels of .branchtargets lists have no place in the code.
  for (llvm::BasicBlock *label : labels)
    if (!label->getTerminator()) {
      b.SetInsertPoint(label);
      b.CreateUnreachable();
    }
  return layout;
}

void Translator::layoutVariables() {
  for (const Variable &param : kernel.params) {
    layout.paramBytes = llvm::alignTo(layout.paramBytes, param.align);
    params[param.name] = layout.paramBytes;
    layout.params.push_back({layout.paramBytes, param.bytes});
    layout.paramBytes += param.bytes;
  }
  shared = module.shared;
  layout.staticShared = module.sharedBytes;
  for (const Variable &variable : kernel.variables) {
    line = variable.line;
    if (variable.space == Variable::Shared) {
      layout.staticShared = llvm::alignTo(layout.staticShared, variable.align);
      shared[variable.name] = layout.staticShared;
      layout.staticShared += variable.bytes;
    } else if (variable.space == Variable::Local) {
      auto *slot = b.CreateAlloca(llvm::ArrayType::get(b.getInt8Ty(), variable.bytes));
      slot->setAlignment(llvm::Align(variable.align));
      locals[variable.name] = slot;
    } else {
      problem("only .shared and .local variables are supported inside a kernel: " + variable.name);
    }
  }
  // The dynamic part comes last; all extern arrays are one and the same memory.
  for (auto [name, align] : module.externShared)
    layout.staticShared = llvm::alignTo(layout.staticShared, align);
  for (auto [name, align] : module.externShared)
    shared[name] = layout.staticShared;
}

void Translator::createRegisters() {
  for (Type type : kernel.registers)
    registers.push_back(b.CreateAlloca(intType(type.bits)));
  // A register that is read before it is written holds anything; zero keeps runs repeatable.
  for (llvm::AllocaInst *slot : registers)
    b.CreateStore(llvm::ConstantInt::get(slot->getAllocatedType(), 0), slot);
}

llvm::BasicBlock *Translator::newBlock(const llvm::Twine &name) {
  return llvm::BasicBlock::Create(ir.getContext(), name, function);
}

/// Starts a run of instructions that are executed together, and pays for them.
void Translator::beginBlock(llvm::BasicBlock *block, size_t statement) {
  b.SetInsertPoint(block);
  uint64_t count = 0;
  for (size_t i = statement; i < kernel.body.size() && !kernel.body[i].label; ++i) {
    ++count;
    const std::string &opcode = kernel.body[i].instruction.opcode;
    if (opcode == "bra" || opcode == "brx" || opcode == "ret" || opcode == "exit")
      break;
  }
  if (count == 0)
    return;
  Value *place = b.CreateConstGEP1_64(b.getInt8Ty(), thread, offsetof(EmuThread, budget));
  Value *left = b.CreateSub(b.CreateLoad(b.getInt64Ty(), place), b.getInt64(count));
  b.CreateStore(left, place);
  llvm::BasicBlock *spent = newBlock("spent"), *go = newBlock("go");
  b.CreateCondBr(b.CreateICmpSLT(left, b.getInt64(0)), spent, go,
                 llvm::MDBuilder(ir.getContext()).createUnlikelyBranchWeights());
  b.SetInsertPoint(spent);
  call(offsetof(EmuTable, outOfBudget), b.getVoidTy(), {});
  b.CreateBr(go);
  b.SetInsertPoint(go);
}

void Translator::translate(const Instruction &instruction) {
  line = instruction.line;
  Handler handler = findHandler(instruction.opcode);
  if (!handler)
    return problem("unknown instruction " + instruction.text());
  Modifiers modifiers(instruction);
  llvm::BasicBlock *after = nullptr;
  if (instruction.guard) {
    Value *holds = b.CreateLoad(b.getInt1Ty(), registers[*instruction.guard]);
    if (instruction.guardNegated)
      holds = b.CreateNot(holds);
    llvm::BasicBlock *body = newBlock();
    after = newBlock();
    b.CreateCondBr(holds, body, after);
    b.SetInsertPoint(body);
  }
  (this->*handler)(instruction, modifiers);
  if (!modifiers.left().empty())
    problem("unknown modifier ." + modifiers.left().front() + " of " + instruction.text());
  if (after) {
    bool ends = terminated();
    if (!ends)
      b.CreateBr(after);
    b.SetInsertPoint(after);
    if (ends)
      beginBlock(after, current + 1);
  }
}

void Translator::problem(const std::string &message) {
  if (firstProblem.empty())
    firstProblem = "PTX line " + std::to_string(line) + ", kernel " + kernel.name + ": " + message;
}

bool Translator::operands(const Instruction &instruction, size_t least, size_t most) {
  size_t got = instruction.operands.size();
  if (got >= least && got <= most)
    return true;
  problem("expected " + std::to_string(least) +
          (least == most ? std::string() : " to " + std::to_string(most)) + " operands of " +
          instruction.text() + ", got " + std::to_string(got));
  return false;
}

Type Translator::needType(Modifiers &modifiers) {
  if (std::optional<Type> type = modifiers.takeType())
    return *type;
  problem("expected a type modifier");
  return {Type::Bits, 32};
}

llvm::Type *Translator::typeOf(Type type) {
  if (type.cls == Type::Float && type.bits == 32 && type.lanes == 1)
    return b.getFloatTy();
  if (type.cls == Type::Float && type.bits == 64)
    return b.getDoubleTy();
  return intType(type.bits);
}

llvm::Value *Translator::readBits(const Operand &operand, unsigned bits) {
  Value *value = nullptr;
  switch (operand.kind) {
  case Operand::Register:
    value = b.CreateLoad(registers[operand.index]->getAllocatedType(), registers[operand.index]);
    if (operand.negated)
      value = b.CreateNot(value);
    break;
  case Operand::Integer:
    return llvm::ConstantInt::get(intType(bits), operand.bits, false, /*implicitTrunc=*/true);
  case Operand::Float32:
  case Operand::Float64:
    if ((operand.kind == Operand::Float32) != (bits == 32)) {
      // 0f... as an f64, 0d... as an f32: the number, not its bits.
      llvm::APFloat number = operand.kind == Operand::Float32
                                 ? llvm::APFloat(llvm::bit_cast<float>(uint32_t(operand.bits)))
                                 : llvm::APFloat(llvm::bit_cast<double>(operand.bits));
      bool inexact;
      if (bits != 32 && bits != 64) {
        problem("a floating-point number as an operand of " + std::to_string(bits) + " bits");
        return poison(intType(bits));
      }
      number.convert(bits == 32 ? llvm::APFloat::IEEEsingle() : llvm::APFloat::IEEEdouble(),
                     llvm::APFloat::rmNearestTiesToEven, &inexact);
      return llvm::ConstantInt::get(ir.getContext(), number.bitcastToAPInt());
    }
    return llvm::ConstantInt::get(intType(bits), operand.bits);
  case Operand::Special:
    value = special(operand.name);
    break;
  case Operand::Symbol:
    value = symbol(operand);
    break;
  default:
    problem("expected a register or a number as operand");
    return poison(intType(bits));
  }
  return b.CreateZExtOrTrunc(value, intType(bits));
}

llvm::Value *Translator::read(const Operand &operand, Type type) {
  Value *bits = readBits(operand, type.bits);
  return b.CreateBitCast(bits, typeOf(type));
}

llvm::Value *Translator::readPredicate(const Operand &operand) {
  if (operand.kind == Operand::Integer)
    return b.getInt1((operand.bits != 0) != operand.negated);
  if (operand.kind != Operand::Register || kernel.registers[operand.index].cls != Type::Predicate) {
    problem("expected a predicate");
    return poison(b.getInt1Ty());
  }
  return readBits(operand, 1);
}

llvm::Value *Translator::special(const std::string &name) {
  llvm::Type *i32 = b.getInt32Ty();
  static const std::pair<const char *, size_t> vectors[] = {
      {"%tid.", offsetof(EmuThread, tid)},
      {"%ntid.", offsetof(EmuThread, ntid)},
      {"%ctaid.", offsetof(EmuThread, ctaid)},
      {"%nctaid.", offsetof(EmuThread, nctaid)}};
  for (auto [prefix, offset] : vectors) {
    size_t length = std::string_view(prefix).size();
    if (name.size() == length + 1 && name.starts_with(prefix) && name[length] >= 'x' &&
        name[length] <= 'z')
      return field(offset + size_t(name[length] - 'x') * 4, i32);
  }
  static const std::pair<const char *, size_t> words[] = {
      {"%laneid", offsetof(EmuThread, lane)},
      {"%warpid", offsetof(EmuThread, warp)},
      {"%smid", offsetof(EmuThread, smid)},
      {"%dynamic_smem_size", offsetof(EmuThread, dynamicShared)},
      {"%total_smem_size", offsetof(EmuThread, totalShared)}};
  for (auto [word, offset] : words)
    if (name == word)
      return field(offset, i32);
  if (name == "WARP_SZ")
    return b.getInt32(32);
  if (name.starts_with("%lanemask_")) {
    Value *lane = field(offsetof(EmuThread, lane), i32);
    Value *equal = b.CreateShl(b.getInt32(1), lane);
    Value *less = b.CreateSub(equal, b.getInt32(1));
    std::string which = name.substr(10);
    if (which == "eq")
      return equal;
    if (which == "lt")
      return less;
    if (which == "le")
      return b.CreateOr(less, equal);
    if (which == "ge")
      return b.CreateNot(less);
    if (which == "gt")
      return b.CreateNot(b.CreateOr(less, equal));
  }
  problem("unknown special register " + name);
  return poison(i32);
}

llvm::Value *Translator::symbol(const Operand &operand) {
  llvm::Type *i64 = b.getInt64Ty();
  Value *base = nullptr;
  if (auto found = shared.find(operand.name); found != shared.end()) {
    base = b.CreateAdd(field(offsetof(EmuThread, shared), i64), b.getInt64(found->second));
  } else if (auto found = params.find(operand.name); found != params.end()) {
    base = b.CreateAdd(field(offsetof(EmuThread, params), i64), b.getInt64(found->second));
  } else if (auto found = locals.find(operand.name); found != locals.end()) {
    base = b.CreatePtrToInt(found->second, i64);
  } else if (auto found = module.globals.find(operand.name); found != module.globals.end()) {
    base = b.CreatePtrToInt(found->second, i64);
  } else {
    problem("unknown name " + operand.name);
    return poison(i64);
  }
  return b.CreateAdd(base, b.getInt64(operand.bits));
}

llvm::Value *Translator::address(const Operand &operand) {
  if (operand.kind != Operand::Address) {
    problem("expected an address in brackets");
    return poison(b.getInt64Ty());
  }
  const Operand &base = operand.elements.front();
  Value *value =
      readBits(base, base.kind == Operand::Register ? kernel.registers[base.index].bits : 64);
  return b.CreateAdd(b.CreateZExtOrTrunc(value, b.getInt64Ty()), b.getInt64(operand.bits));
}

std::vector<Operand> Translator::elementsOf(const Operand &operand) const {
  return operand.kind == Operand::Vector ? operand.elements : std::vector<Operand>{operand};
}

void Translator::write(const Operand &operand, Value *value) {
  if (operand.kind == Operand::Sink)
    return;
  if (operand.kind != Operand::Register)
    return problem("expected a register as destination");
  if (!value->getType()->isIntegerTy())
    value = b.CreateBitCast(value, intType(unsigned(value->getType()->getPrimitiveSizeInBits())));
  llvm::AllocaInst *slot = registers[operand.index];
  b.CreateStore(b.CreateZExtOrTrunc(value, slot->getAllocatedType()), slot);
}

void Translator::writeSigned(const Operand &operand, Value *value) {
  if (operand.kind == Operand::Register)
    value = b.CreateSExtOrTrunc(value, registers[operand.index]->getAllocatedType());
  write(operand, value);
}

llvm::Value *Translator::field(size_t offset, llvm::Type *type, bool constant) {
  Value *place = b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), thread, offset);
  llvm::LoadInst *load = b.CreateLoad(type, place);
  if (constant)
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(ir.getContext(), {}));
  return load;
}

llvm::Value *Translator::call(size_t tableOffset, llvm::Type *result,
                              llvm::ArrayRef<Value *> arguments) {
  Value *table = field(offsetof(EmuThread, table), b.getPtrTy());
  llvm::LoadInst *callee =
      b.CreateLoad(b.getPtrTy(), b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), table, tableOffset));
  callee->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(ir.getContext(), {}));
  std::vector<Value *> values = {thread};
  std::vector<llvm::Type *> types = {thread->getType()};
  for (Value *argument : arguments) {
    values.push_back(argument);
    types.push_back(argument->getType());
  }
  return b.CreateCall(llvm::FunctionType::get(result, types, false), callee, values);
}

llvm::Value *Translator::callPlain(size_t tableOffset, llvm::Type *result,
                                   llvm::ArrayRef<Value *> arguments) {
  Value *table = field(offsetof(EmuThread, table), b.getPtrTy());
  Value *callee =
      b.CreateLoad(b.getPtrTy(), b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), table, tableOffset));
  std::vector<llvm::Type *> types;
  for (Value *argument : arguments)
    types.push_back(argument->getType());
  return b.CreateCall(llvm::FunctionType::get(result, types, false), callee, arguments);
}

llvm::Value *Translator::site(const Instruction &instruction) {
  sites.push_back({instruction.line, instruction.source});
  return b.getInt32(uint32_t(sites.size() - 1));
}

llvm::Value *Translator::result(unsigned index) {
  return field(offsetof(EmuThread, results) + index * 4, b.getInt32Ty(), /*constant=*/false);
}

} // namespace gemma::codegen::ptx
