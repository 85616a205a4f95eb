#include "reference/TensorOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace gemma::reference {

using Operands = std::span<const NodeValue *const>;

/// Attributes stay, operands are looked up.
static std::vector<int64_t> resolve(Operation *op, ArrayRef<OpFoldResult> mixed,
                                    Operands operands) {
  std::vector<int64_t> result;
  for (OpFoldResult entry : mixed) {
    if (std::optional<int64_t> constant = getConstantIntValue(entry)) {
      result.push_back(*constant);
      continue;
    }
    size_t i = 0;
    while (op->getOperand(unsigned(i)) != cast<Value>(entry))
      ++i;
    result.push_back(std::get<int64_t>(*operands[i]));
  }
  return result;
}

/// y[i] = x[offsets + i strides]; an error if that leaves x.
static Expected<Tensor> slice(const Tensor &x, const std::vector<int64_t> &offsets,
                              const std::vector<int64_t> &sizes,
                              const std::vector<int64_t> &strides) {
  size_t rank = x.shape.size();
  for (size_t axis = 0; axis < rank; ++axis) {
    int64_t last = offsets[axis] + (sizes[axis] - 1) * strides[axis];
    if (sizes[axis] > 0 && (offsets[axis] < 0 || strides[axis] < 0 || last >= x.shape[axis]))
      return badInput("slice [" + std::to_string(offsets[axis]) + ", " + std::to_string(last) +
                      "] of axis " + std::to_string(axis) + ", which has " +
                      std::to_string(x.shape[axis]) + " elements");
  }
  Tensor y(sizes);
  std::vector<int64_t> index(rank);
  for (double &value : y.data) {
    int64_t from = 0;
    for (size_t axis = 0; axis < rank; ++axis)
      from = from * x.shape[axis] + offsets[axis] + index[axis] * strides[axis];
    value = x.data[size_t(from)];
    for (size_t axis = rank; axis-- > 0;) {
      if (++index[axis] < sizes[axis])
        break;
      index[axis] = 0;
    }
  }
  return y;
}

/// Of a rank-reducing slice, the extents that the result type keeps.
static std::vector<int64_t> keptExtents(tensor::ExtractSliceOp op, std::vector<int64_t> sizes) {
  llvm::SmallBitVector dropped = op.getDroppedDims();
  std::vector<int64_t> kept;
  for (size_t axis = 0; axis < sizes.size(); ++axis)
    if (!dropped.test(unsigned(axis)))
      kept.push_back(sizes[axis]);
  return kept;
}

static Expected<std::vector<NodeValue>> one(NodeValue value) {
  std::vector<NodeValue> values;
  values.push_back(std::move(value));
  return values;
}

static Expected<std::vector<NodeValue>> reshaped(const Tensor &x, std::vector<int64_t> shape) {
  Tensor y;
  y.shape = std::move(shape);
  if (y.count() != x.count())
    return badInput("cannot view " + std::to_string(x.count()) + " elements as " +
                    std::to_string(y.count()));
  y.data = x.data;
  return one(std::move(y));
}

Expected<std::vector<NodeValue>> evaluateTensorOp(Operation *op, Operands operands) {
  using Results = Expected<std::vector<NodeValue>>;
  auto tensor = [&](size_t i) -> const Tensor & { return std::get<Tensor>(*operands[i]); };
  return llvm::TypeSwitch<Operation *, Results>(op)
      .Case([&](tensor::ExtractSliceOp o) -> Results {
        std::vector<int64_t> sizes = resolve(op, o.getMixedSizes(), operands);
        Expected<Tensor> y = slice(tensor(0), resolve(op, o.getMixedOffsets(), operands), sizes,
                                   resolve(op, o.getMixedStrides(), operands));
        if (!y)
          return y.error();
        y->shape = keptExtents(o, sizes);
        return one(*std::move(y));
      })
      .Case([&](tensor::ExpandShapeOp o) {
        return reshaped(tensor(0), resolve(op, o.getMixedOutputShape(), operands));
      })
      .Case([&](tensor::CollapseShapeOp o) {
        std::vector<int64_t> shape;
        for (const ReassociationIndices &group : o.getReassociationIndices()) {
          shape.push_back(1);
          for (int64_t axis : group)
            shape.back() *= tensor(0).dim(axis);
        }
        return reshaped(tensor(0), shape);
      })
      .Case([&](tensor::CastOp) { return one(*operands[0]); })
      .Case([&](tensor::DimOp) -> Results {
        int64_t axis = std::get<int64_t>(*operands[1]);
        if (const Ids *ids = std::get_if<Ids>(operands[0]))
          return one(int64_t(ids->size()));
        if (axis < 0 || axis >= tensor(0).rank())
          return badInput("axis " + std::to_string(axis) + " of a tensor of rank " +
                          std::to_string(tensor(0).rank()));
        return one(tensor(0).dim(axis));
      })
      .Case([&](arith::ConstantOp o) -> Results {
        auto value = dyn_cast<IntegerAttr>(o.getValue());
        if (!value)
          return badInput("the reference takes integer constants only");
        return one(value.getInt());
      })
      .Default(
          [](Operation *) { return Results(badInput("the reference does not know this op")); });
}

} // namespace gemma::reference
