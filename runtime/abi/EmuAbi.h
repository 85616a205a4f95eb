// The contract between host code made from PTX and the runtime that executes it as a GPU: one page
// to read.
//
// A kernel is   void k(EmuThread *thread);
// One call executes one thread of a block, from entry to exit. The object calls nothing by name:
// what involves other threads, memory that must be watched, or mathematical functions goes through
// the table of the thread. A call of the table may come back much later (the thread is a fiber that
// waits) or never (the launch was stopped).
//
// Addresses are addresses of the host. The shared memory of a block lies below 4 GiB, because PTX
// keeps shared addresses in 32-bit registers.
//
// Every instruction that can be the subject of a report has an index, `instr`, into the list of PTX
// lines in the object's description: the JSON text (NUL at its end) exported as `gemma_emu_module`.
#pragma once

#include <cstddef>
#include <cstdint>

/// Bumped whenever anything on this page changes.
#define GEMMA_EMU_ABI_VERSION 2
#define GEMMA_EMU_MODULE_SYMBOL "gemma_emu_module"

extern "C" {

struct EmuThread;

/// Bits of `kind` in EmuTable::access.
enum EmuAccess : uint32_t {
  EmuAccessWrite = 1,
  EmuAccessGlobal = 2, ///< the instruction says .global; neither bit: a generic address
  EmuAccessShared = 4, ///< the instruction says .shared
  EmuAccessStrong = 8, ///< volatile, relaxed, acquire or release: may meet atomics
  EmuAccessAcquire = 16,
  EmuAccessRelease = 32,
};

/// Scopes of fences and atomics.
enum EmuScope : uint32_t { EmuScopeBlock = 0, EmuScopeDevice = 1, EmuScopeSystem = 2 };

/// Bits of `op` in EmuTable::atomic: what, on which type, how ordered.
enum EmuAtomic : uint32_t {
  EmuAtomicAdd = 0,
  EmuAtomicMin,
  EmuAtomicMax,
  EmuAtomicAnd,
  EmuAtomicOr,
  EmuAtomicXor,
  EmuAtomicExch,
  EmuAtomicCas,
  EmuAtomicInc,
  EmuAtomicDec,
  EmuAtomicKindMask = 0xf,
  EmuAtomicU32 = 0 << 4,
  EmuAtomicS32 = 1 << 4,
  EmuAtomicU64 = 2 << 4,
  EmuAtomicS64 = 3 << 4,
  EmuAtomicF32 = 4 << 4,
  EmuAtomicF64 = 5 << 4,
  EmuAtomicTypeMask = 0xf << 4,
  EmuAtomicAcquire = 1 << 8,
  EmuAtomicRelease = 1 << 9,
  EmuAtomicScopeShift = 10, ///< two bits: EmuScope
};

enum EmuBarrier : uint32_t {
  EmuBarrierSync = 0,
  EmuBarrierArrive,
  EmuBarrierPopc,
  EmuBarrierAnd,
  EmuBarrierOr,
  EmuBarrierKindMask = 7,
  EmuBarrierAligned = 8,
};

enum EmuShuffle : uint32_t { EmuShuffleUp, EmuShuffleDown, EmuShuffleBfly, EmuShuffleIdx };
enum EmuVote : uint32_t { EmuVoteAll, EmuVoteAny, EmuVoteUni, EmuVoteBallot };
enum EmuRedux : uint32_t {
  EmuReduxAdd,
  EmuReduxMinU,
  EmuReduxMaxU,
  EmuReduxMinS,
  EmuReduxMaxS,
  EmuReduxAnd,
  EmuReduxOr,
  EmuReduxXor,
};
enum EmuMma : uint32_t {
  EmuMmaBf16K16,
  EmuMmaF16K16,
  EmuMmaBf16K8,
  EmuMmaF16K8,
  EmuMmaKindMask = 3,
  EmuMmaProvenance = 4, ///< hashes of the sums (bf16 alone)
};
enum EmuMath : uint32_t { EmuMathExp2, EmuMathLog2, EmuMathTanh, EmuMathSin, EmuMathCos };

/// Operations of code made with provenance hashes: what EmuTable::provenance returns for f32
/// operands (docs/decisions/0014). A subtraction is an addition of the opposite, a reciprocal a
/// division.
enum EmuProvenance : uint32_t {
  EmuProvenanceAdd,
  EmuProvenanceMul,
  EmuProvenanceDiv,
  EmuProvenanceFma,
  EmuProvenanceSqrt,
  EmuProvenanceRsqrt,
  EmuProvenanceExp2,
  EmuProvenanceLog2,
  EmuProvenanceTanh,
  EmuProvenanceSin,
  EmuProvenanceCos,
  EmuProvenanceToBf16, ///< the result is in the low half
  EmuProvenanceKindMask = 0xff,
  EmuProvenanceApprox = 1 << 8, ///< .approx
  EmuProvenanceFull = 1 << 9,   ///< .full
};

/// What generated code can call.
struct EmuTable {
  /// A load or store of `bytes` bytes is about to happen. Called only if `observe` is set.
  void (*access)(EmuThread *, uint64_t address, uint32_t bytes, uint32_t kind, uint32_t instr);
  /// `budget` fell below zero.
  void (*outOfBudget)(EmuThread *);
  /// Returns the reduction of `predicate` for the kinds that have one. `count` 0: all threads.
  uint32_t (*barrier)(EmuThread *, uint32_t kind, uint32_t id, uint32_t count, uint32_t predicate,
                      uint32_t instr);
  void (*warpSync)(EmuThread *, uint32_t mask, uint32_t instr);
  /// Whether the source lane was in range goes to results[0].
  uint32_t (*shuffle)(EmuThread *, uint32_t mode, uint32_t value, uint32_t lane, uint32_t clamp,
                      uint32_t mask, uint32_t instr);
  uint32_t (*vote)(EmuThread *, uint32_t mode, uint32_t predicate, uint32_t mask, uint32_t instr);
  /// `all`: match.all, whose predicate goes to results[0].
  uint32_t (*match)(EmuThread *, uint64_t value, uint32_t bits, uint32_t all, uint32_t mask,
                    uint32_t instr);
  uint32_t (*redux)(EmuThread *, uint32_t op, uint32_t value, uint32_t mask, uint32_t instr);
  uint32_t (*activeMask)(EmuThread *);
  /// `count` matrices of 8 rows of 16 bytes into results[0 .. count - 1].
  void (*loadMatrix)(EmuThread *, uint64_t address, uint32_t count, uint32_t transposed,
                     uint32_t instr);
  /// Reads operands[0 ..]: A, B, C in PTX order, leaves D in results[0 .. 3].
  void (*mma)(EmuThread *, uint32_t kind, uint32_t instr);
  void (*copyAsync)(EmuThread *, uint64_t target, uint64_t source, uint32_t bytes,
                    uint32_t sourceBytes, uint32_t instr);
  void (*copyCommit)(EmuThread *);
  /// Waits until at most `groups` groups are pending; UINT32_MAX: wait_all.
  void (*copyWait)(EmuThread *, uint32_t groups, uint32_t instr);
  uint64_t (*atomic)(EmuThread *, uint32_t op, uint64_t address, uint64_t a, uint64_t b,
                     uint32_t instr);
  void (*fence)(EmuThread *, uint32_t scope, uint32_t instr);
  float (*math)(uint32_t function, float x);
  void (*trap)(EmuThread *, uint32_t instr);
  /// EmuProvenance; operands that an operation does not have are 0.
  uint32_t (*provenance)(uint32_t op, uint32_t a, uint32_t b, uint32_t c);
};

/// One thread of a block, as generated code sees it; the runtime's own state follows it.
struct EmuThread {
  const EmuTable *table;
  uint8_t *params;  ///< the kernel's parameters, laid out as PTX does
  uint8_t *shared;  ///< the block's shared memory: static variables, then the dynamic part
  int64_t budget;   ///< instructions until outOfBudget
  uint32_t observe; ///< not 0: access() wants to see loads and stores
  uint32_t lane;
  uint32_t warp;
  uint32_t smid;
  uint32_t tid[3];
  uint32_t ntid[3];
  uint32_t ctaid[3];
  uint32_t nctaid[3];
  uint32_t dynamicShared; ///< bytes
  uint32_t totalShared;   ///< bytes, static ones included
  uint32_t operands[12];
  uint32_t results[8];
};

typedef void (*EmuKernel)(EmuThread *thread);
}
