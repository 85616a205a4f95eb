// What the lanes of a warp do together: shuffles, votes, matrix loads and products.
#include "runtime/device/emu/Block.h"
#include "runtime/device/emu/Provenance.h"
#include "runtime/support/BFloat16.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace gemma::emu {

/// Kinds of instructions that may be executed together wherever they stand: the kind in the low
/// byte, its modifiers above.
enum WarpKey : uint32_t { KeySync = 1, KeyVote, KeyMatch, KeyRedux };

/// Instructions that lanes execute together only as one and the same: those that PTX calls
/// .aligned, and shuffles, of which PTX asks it for older devices alone and our kernels everywhere.
static uint32_t keyOfSite(uint32_t site) { return site | 1u << 31; }

static Thread &self(EmuThread *thread) { return *static_cast<Thread *>(thread); }

/// Calls `body(lane, thread)` for every lane.
template <typename Body> static void forLanes(Warp &warp, uint32_t lanes, Body &&body) {
  for (; lanes; lanes &= lanes - 1) {
    uint32_t lane = uint32_t(std::countr_zero(lanes));
    body(lane, *warp.lanes[lane]);
  }
}

struct WarpInstructions {
  static void sync(Block &block, Warp &warp, uint32_t lanes, uint32_t) {
    block.warpSynchronised(warp, lanes);
  }

  static void shuffle(Block &block, Warp &warp, uint32_t lanes, uint32_t site) {
    forLanes(warp, lanes, [&](uint32_t lane, Thread &thread) {
      uint32_t mode = uint32_t(thread.in[0] >> 32), b = uint32_t(thread.in[1]) & 31;
      uint32_t clamp = uint32_t(thread.in[1] >> 32);
      uint32_t segment = clamp >> 8 & 31, most = (lane & segment) | (clamp & 31 & ~segment);
      uint32_t source = 0;
      bool inside = false;
      switch (mode) {
      case EmuShuffleUp:
        source = lane - b;
        inside = int32_t(source) >= int32_t(most);
        break;
      case EmuShuffleDown:
        source = lane + b;
        inside = source <= most;
        break;
      case EmuShuffleBfly:
        source = lane ^ b;
        inside = source <= most;
        break;
      default:
        source = (lane & segment) | (b & ~segment);
        inside = source <= most;
        break;
      }
      if (!inside)
        source = lane;
      thread.results[0] = inside;
      if (lanes >> source & 1)
        thread.out = uint32_t(warp.lanes[source]->in[0]);
      else
        block.report(FindingKind::DivergentWarp, site, Findings::noSite,
                     block.where(thread) + ": a shuffle from lane " + std::to_string(source) +
                         ", which does not take part");
    });
  }

  static void vote(Block &, Warp &warp, uint32_t lanes, uint32_t) {
    uint32_t ballot = 0;
    forLanes(warp, lanes, [&](uint32_t lane, Thread &thread) {
      ballot |= uint32_t(uint32_t(thread.in[0]) != 0) << lane;
    });
    forLanes(warp, lanes, [&](uint32_t, Thread &thread) {
      uint32_t mode = uint32_t(thread.in[0] >> 32);
      thread.out = mode == EmuVoteAll   ? ballot == lanes
                   : mode == EmuVoteAny ? ballot != 0
                   : mode == EmuVoteUni ? ballot == 0 || ballot == lanes
                                        : ballot;
    });
  }

  static void match(Block &, Warp &warp, uint32_t lanes, uint32_t) {
    forLanes(warp, lanes, [&](uint32_t, Thread &thread) {
      uint32_t same = 0;
      forLanes(warp, lanes, [&](uint32_t lane, Thread &other) {
        same |= uint32_t(other.in[0] == thread.in[0]) << lane;
      });
      bool all = thread.in[1];
      thread.results[0] = same == lanes;
      thread.out = all ? (same == lanes ? lanes : 0) : same;
    });
  }

  static void redux(Block &, Warp &warp, uint32_t lanes, uint32_t) {
    uint32_t value = 0;
    bool first = true;
    forLanes(warp, lanes, [&](uint32_t, Thread &thread) {
      uint32_t x = uint32_t(thread.in[0]);
      if (first)
        value = x;
      else
        switch (uint32_t(thread.in[0] >> 32)) {
        case EmuReduxAdd:
          value += x;
          break;
        case EmuReduxMinU:
          value = std::min(value, x);
          break;
        case EmuReduxMaxU:
          value = std::max(value, x);
          break;
        case EmuReduxMinS:
          value = uint32_t(std::min(int32_t(value), int32_t(x)));
          break;
        case EmuReduxMaxS:
          value = uint32_t(std::max(int32_t(value), int32_t(x)));
          break;
        case EmuReduxAnd:
          value &= x;
          break;
        case EmuReduxOr:
          value |= x;
          break;
        default:
          value ^= x;
          break;
        }
      first = false;
    });
    forLanes(warp, lanes, [&](uint32_t, Thread &thread) { thread.out = value; });
  }

  /// Lane 8m + r gave the address of row r of matrix m. Lane l gets of row l/4 the 16-bit elements
  /// 2·(l mod 4) and the next; transposed, of column l/4 the rows 2·(l mod 4) and the next.
  static void matrix(Block &block, Warp &warp, uint32_t lanes, uint32_t site) {
    uint32_t count = uint32_t(warp.lanes[0]->in[1]);
    bool transposed = warp.lanes[0]->in[2];
    uint16_t rows[4][8][8];
    for (uint32_t m = 0; m < count; ++m) {
      uint64_t addresses[8];
      for (uint32_t r = 0; r < 8; ++r) {
        Thread &owner = *warp.lanes[m * 8 + r];
        addresses[r] = owner.in[0];
        if (!block.inSharedWindow(addresses[r]) || block.launch.options.checkBounds ||
            block.launch.options.checkRaces)
          block.sharedAccess(owner, addresses[r], 16, false, false, site);
        std::memcpy(rows[m][r], std::bit_cast<const void *>(addresses[r]), 16);
      }
      if (block.launch.options.counters)
        block.memoryCounters.matrix(addresses);
    }
    forLanes(warp, lanes, [&](uint32_t lane, Thread &thread) {
      for (uint32_t m = 0; m < count; ++m) {
        uint32_t major = lane / 4, minor = lane % 4 * 2;
        uint32_t low = transposed ? rows[m][minor][major] : rows[m][major][minor];
        uint32_t high = transposed ? rows[m][minor + 1][major] : rows[m][major][minor + 1];
        thread.results[m] = low | high << 16;
      }
    });
  }

  /// The sum of `count` terms as a device adds them: all cut to one grid 2 bits finer than f32's at
  /// the largest of them, added exactly, the sum cut to f32.
  static float truncatedSum(const double *terms, unsigned count) {
    double largest = 0;
    for (unsigned i = 0; i < count; ++i)
      largest = std::max(largest, std::fabs(terms[i]));
    if (largest == 0 || !std::isfinite(largest)) {
      double sum = 0;
      for (unsigned i = 0; i < count; ++i)
        sum += terms[i];
      return float(sum);
    }
    double grid = std::ldexp(1.0, std::ilogb(largest) - 25), sum = 0;
    for (unsigned i = 0; i < count; ++i)
      sum += std::trunc(terms[i] / grid) * grid;
    float nearest = float(sum);
    return std::fabs(double(nearest)) > std::fabs(sum) ? std::nextafter(nearest, 0.0f) : nearest;
  }

  /// The operands of a matrix product: `a(row, k, bits)` and `b(k, column, bits)` for every element
  /// of A, 16 × K, and B, K × 8.
  template <unsigned K, typename SetA, typename SetB>
  static void forFragments(Warp &warp, uint32_t lanes, SetA &&a, SetB &&b) {
    forLanes(warp, lanes, [&](uint32_t lane, Thread &thread) {
      const uint32_t *x = thread.operands;
      uint32_t group = lane / 4, pair = lane % 4 * 2;
      for (unsigned r = 0; r < K / 4; ++r, ++x) {
        uint32_t row = group + (r & 1) * 8, column = pair + (r >> 1) * 8;
        a(row, column, uint16_t(*x));
        a(row, column + 1, uint16_t(*x >> 16));
      }
      for (unsigned r = 0; r < K / 8; ++r, ++x) {
        b(pair + r * 8, group, uint16_t(*x));
        b(pair + r * 8 + 1, group, uint16_t(*x >> 16));
      }
    });
  }

  /// Leaves D in the lanes' results: `value(row, column, c)` gives an element's bits for those of
  /// C.
  template <unsigned K, typename Value>
  static void storeProduct(Block &block, Warp &warp, uint32_t lanes, Value &&value) {
    forLanes(warp, lanes, [&](uint32_t lane, Thread &thread) {
      for (unsigned r = 0; r < 4; ++r)
        thread.results[r] = value(lane / 4 + (r >> 1) * 8, lane % 4 * 2 + (r & 1),
                                  thread.operands[K / 4 + K / 8 + r]);
    });
    block.counters.mmaFlops += uint64_t(2 * 16 * 8) * K;
  }

  /// D = A · B + C, A 16 × K, B K × 8; products and their sum in f32, in order of k, C last.
  template <unsigned K, float (*toF32)(uint16_t)>
  static void mma(Block &block, Warp &warp, uint32_t lanes, uint32_t) {
    float a[16][K], b[K][8], d[16][8] = {};
    forFragments<K>(
        warp, lanes, [&](uint32_t row, uint32_t k, uint16_t bits) { a[row][k] = toF32(bits); },
        [&](uint32_t k, uint32_t column, uint16_t bits) { b[k][column] = toF32(bits); });
    bool truncated = block.launch.options.mmaRounding == MmaRounding::Truncated;
    if (!truncated)
      for (unsigned i = 0; i < 16; ++i)
        for (unsigned k = 0; k < K; ++k)
          for (unsigned j = 0; j < 8; ++j)
            d[i][j] += a[i][k] * b[k][j];
    storeProduct<K>(block, warp, lanes, [&](unsigned i, unsigned j, uint32_t bits) {
      float c = std::bit_cast<float>(bits), value = c + d[i][j];
      if (truncated) {
        double terms[K + 1];
        for (unsigned k = 0; k < K; ++k)
          terms[k] = double(a[i][k]) * double(b[k][j]);
        terms[K] = double(c);
        value = truncatedSum(terms, K + 1);
      }
      return std::bit_cast<uint32_t>(value);
    });
  }

  /// The same product of bf16 operands, as provenance hashes.
  template <unsigned K>
  static void mmaProvenance(Block &block, Warp &warp, uint32_t lanes, uint32_t) {
    uint16_t a[16][K], b[8][K];
    forFragments<K>(
        warp, lanes, [&](uint32_t row, uint32_t k, uint16_t bits) { a[row][k] = bits; },
        [&](uint32_t k, uint32_t column, uint16_t bits) { b[column][k] = bits; });
    storeProduct<K>(block, warp, lanes, [&](unsigned i, unsigned j, uint32_t c) {
      return provenanceOfSum(c, a[i], b[j]);
    });
  }

  /// An instruction that the whole warp must execute.
  static void whole(Thread &thread, uint32_t site,
                    void (*complete)(Block &, Warp &, uint32_t, uint32_t)) {
    if (thread.owner->live != ~0u)
      thread.block->fail(thread, FindingKind::DivergentWarp, site, Findings::noSite,
                         thread.block->where(thread) +
                             ": an instruction for the whole warp, of which lanes have ended");
    thread.block->rendezvous(thread, keyOfSite(site), ~0u, site, complete);
  }
};

namespace {

uint64_t pack(uint32_t low, uint32_t high) { return low | uint64_t(high) << 32; }

uint32_t together(EmuThread *t, uint32_t key, uint32_t mask, uint32_t site,
                  void (*complete)(Block &, Warp &, uint32_t, uint32_t)) {
  self(t).block->rendezvous(self(t), key, mask, site, complete);
  return self(t).out;
}

void onAccess(EmuThread *t, uint64_t address, uint32_t bytes, uint32_t kind, uint32_t site) {
  self(t).block->access(self(t), address, bytes, kind, site);
}
void onOutOfBudget(EmuThread *t) { self(t).block->outOfBudget(self(t)); }
uint32_t onBarrier(EmuThread *t, uint32_t kind, uint32_t id, uint32_t count, uint32_t predicate,
                   uint32_t site) {
  return self(t).block->barrier(self(t), kind, id, count, predicate, site);
}
void onWarpSync(EmuThread *t, uint32_t mask, uint32_t site) {
  together(t, KeySync, mask, site, WarpInstructions::sync);
}
uint32_t onShuffle(EmuThread *t, uint32_t mode, uint32_t value, uint32_t lane, uint32_t clamp,
                   uint32_t mask, uint32_t site) {
  self(t).in[0] = pack(value, mode);
  self(t).in[1] = pack(lane, clamp);
  self(t).out = value;
  return together(t, keyOfSite(site), mask, site, WarpInstructions::shuffle);
}
uint32_t onVote(EmuThread *t, uint32_t mode, uint32_t predicate, uint32_t mask, uint32_t site) {
  self(t).in[0] = pack(predicate, mode);
  return together(t, KeyVote | mode << 8, mask, site, WarpInstructions::vote);
}
uint32_t onMatch(EmuThread *t, uint64_t value, uint32_t bits, uint32_t all, uint32_t mask,
                 uint32_t site) {
  self(t).in[0] = value;
  self(t).in[1] = all;
  return together(t, KeyMatch | all << 8 | bits << 16, mask, site, WarpInstructions::match);
}
uint32_t onRedux(EmuThread *t, uint32_t op, uint32_t value, uint32_t mask, uint32_t site) {
  self(t).in[0] = pack(value, op);
  return together(t, KeyRedux | op << 8, mask, site, WarpInstructions::redux);
}
/// Which lanes happen to run together is nobody's promise: here each runs alone, so code that takes
/// the mask for the whole warp is wrong here too.
uint32_t onActiveMask(EmuThread *t) { return 1u << t->lane; }
void onLoadMatrix(EmuThread *t, uint64_t address, uint32_t count, uint32_t transposed,
                  uint32_t site) {
  self(t).in[0] = address;
  self(t).in[1] = count;
  self(t).in[2] = transposed;
  WarpInstructions::whole(self(t), site, WarpInstructions::matrix);
}
void onMma(EmuThread *t, uint32_t kind, uint32_t site) {
  auto complete = kind == EmuMmaBf16K16  ? WarpInstructions::mma<16, bf16ToF32>
                  : kind == EmuMmaF16K16 ? WarpInstructions::mma<16, f16ToF32>
                  : kind == EmuMmaBf16K8 ? WarpInstructions::mma<8, bf16ToF32>
                                         : WarpInstructions::mma<8, f16ToF32>;
  if (kind & EmuMmaProvenance)
    complete = kind == (EmuMmaBf16K16 | EmuMmaProvenance) ? WarpInstructions::mmaProvenance<16>
                                                          : WarpInstructions::mmaProvenance<8>;
  WarpInstructions::whole(self(t), site, complete);
}
void onCopyAsync(EmuThread *t, uint64_t target, uint64_t source, uint32_t bytes,
                 uint32_t sourceBytes, uint32_t site) {
  self(t).block->copyAsync(self(t), {target, source, bytes, sourceBytes, site, false});
}
void onCopyCommit(EmuThread *t) { self(t).block->copyCommit(self(t)); }
void onCopyWait(EmuThread *t, uint32_t groups, uint32_t site) {
  self(t).block->copyWait(self(t), groups, site);
}
uint64_t onAtomic(EmuThread *t, uint32_t op, uint64_t address, uint64_t a, uint64_t b,
                  uint32_t site) {
  return self(t).block->atomic(self(t), op, address, a, b, site);
}
void onFence(EmuThread *t, uint32_t scope, uint32_t site) {
  self(t).block->fence(self(t), scope, site);
}
float onMath(uint32_t function, float x) {
  switch (function) {
  case EmuMathExp2:
    return std::exp2(x);
  case EmuMathLog2:
    return std::log2(x);
  case EmuMathTanh:
    return std::tanh(x);
  case EmuMathSin:
    return std::sin(x);
  default:
    return std::cos(x);
  }
}
void onTrap(EmuThread *t, uint32_t site) {
  self(t).block->fail(self(t), FindingKind::Trap, site, Findings::noSite,
                      self(t).block->where(self(t)));
}

} // namespace

const EmuTable emuTable = {
    onAccess, onOutOfBudget, onBarrier,    onWarpSync, onShuffle,    onVote,       onMatch,
    onRedux,  onActiveMask,  onLoadMatrix, onMma,      onCopyAsync,  onCopyCommit, onCopyWait,
    onAtomic, onFence,       onMath,       onTrap,     provenanceOf,
};

} // namespace gemma::emu
