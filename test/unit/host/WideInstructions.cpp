#include "WideInstructions.h"

#include "runtime/device/CpuFeatures.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"

#include <gtest/gtest.h>

namespace gemma::codegen::test {
namespace {

using llvm::Value;

/// Every `step`-th element of `vector` from `first` on, as i32.
Value *every(llvm::IRBuilder<> &b, Value *vector, int step, int first, bool isSigned) {
  int lanes = 512 / int(vector->getType()->getScalarSizeInBits()) / step;
  llvm::SmallVector<int> places;
  for (int lane = 0; lane < lanes; ++lane)
    places.push_back(lane * step + first);
  Value *picked = b.CreateShuffleVector(vector, places);
  auto *wide = llvm::FixedVectorType::get(b.getInt32Ty(), unsigned(lanes));
  return isSigned ? b.CreateSExt(picked, wide) : b.CreateZExt(picked, wide);
}

/// Σ a[step·i + j] · c[step·i + j] over j, as i32.
Value *dot(llvm::IRBuilder<> &b, Value *a, Value *c, int step, bool aIsSigned) {
  Value *sum = nullptr;
  for (int j = 0; j < step; ++j) {
    Value *product = b.CreateMul(every(b, a, step, j, aIsSigned), every(b, c, step, j, true));
    sum = sum ? b.CreateAdd(sum, product) : product;
  }
  return sum;
}

Value *replacement(llvm::IRBuilder<> &b, llvm::CallInst &call) {
  llvm::StringRef name = call.getCalledFunction()->getName();
  Value *first = call.getArgOperand(0), *second = call.getArgOperand(1);
  if (name == "llvm.x86.avx512.vpdpbusd.512")
    return b.CreateAdd(first, dot(b, second, call.getArgOperand(2), 4, false));
  if (name == "llvm.x86.avx512.pmaddw.d.512")
    return dot(b, first, second, 2, true);
  if (name == "llvm.x86.avx512.pmaddubs.w.512") {
    Value *sum = dot(b, first, second, 2, false);
    auto *type = sum->getType();
    auto limit = [&](int64_t value) { return llvm::ConstantInt::getSigned(type, value); };
    sum = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, sum, limit(-32768));
    sum = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, sum, limit(32767));
    return b.CreateTrunc(sum, call.getType());
  }
  return nullptr;
}

} // namespace

bool cpuRuns(const HostIsa &isa) { return missingFeature(isa.needs).empty(); }

std::optional<HostIsa> standIn(const HostIsa &isa) {
  const HostIsa &widest = *llvm::find_if(hostIsas(), cpuRuns);
  if (isa.vectorBits < 512 || widest.vectorBits < 256)
    return std::nullopt;
  HostIsa result = isa;
  result.features = widest.features;
  return result;
}

void replaceWideInstructions(llvm::Module &module) {
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction :
         llvm::make_early_inc_range(llvm::instructions(function))) {
      auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
      if (!call || !call->getCalledFunction() ||
          !call->getCalledFunction()->getName().starts_with("llvm.x86.avx512"))
        continue;
      llvm::IRBuilder<> b(call);
      Value *value = replacement(b, *call);
      if (!value) {
        ADD_FAILURE() << "no replacement for " << call->getCalledFunction()->getName().str();
        continue;
      }
      call->replaceAllUsesWith(value);
      call->eraseFromParent();
    }
}

} // namespace gemma::codegen::test
