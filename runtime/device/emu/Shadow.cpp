#include "runtime/device/emu/Shadow.h"

#include <algorithm>

namespace gemma::emu {

static void maximise(std::vector<uint32_t> &to, const std::vector<uint32_t> &from) {
  if (to.size() < from.size())
    to.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i)
    to[i] = std::max(to[i], from[i]);
}

void Knowledge::joinForeign(uint32_t block, const std::vector<uint32_t> &other) {
  auto &mine = foreign[block];
  auto joined = std::make_shared<std::vector<uint32_t>>(mine ? *mine : std::vector<uint32_t>());
  maximise(*joined, other);
  mine = std::move(joined);
}

void Knowledge::join(const Knowledge &other) {
  maximise(clocks, other.clocks);
  for (const auto &[block, theirs] : other.foreign) {
    auto &mine = foreign[block];
    if (!mine)
      mine = theirs;
    else if (mine != theirs)
      joinForeign(block, *theirs);
  }
}

bool ThreadClock::knowsForeign(uint32_t otherBlock, uint32_t otherThread, uint32_t clock) const {
  auto found = known->foreign.find(otherBlock);
  return found != known->foreign.end() && otherThread < found->second->size() &&
         clock <= (*found->second)[otherThread];
}

Snapshot ThreadClock::release(bool device) { return {known, block, thread, now++, device}; }

void ThreadClock::acquire(const SyncPoint &point, bool device) {
  std::shared_ptr<Knowledge> joined;
  for (const auto &[thread, snapshot] : point.snapshots()) {
    bool foreign = snapshot.block != block;
    if ((foreign && !(device && snapshot.device)) ||
        knows(snapshot.block, snapshot.thread, snapshot.clock))
      continue;
    if (!joined) {
      joined = known ? std::make_shared<Knowledge>(*known) : std::make_shared<Knowledge>();
      joined->clocks.resize(threads);
    }
    joinSnapshot(*joined, snapshot, foreign);
  }
  if (joined)
    known = std::move(joined);
}

void ThreadClock::joinSnapshot(Knowledge &joined, const Snapshot &snapshot, bool foreign) const {
  if (!foreign) {
    if (snapshot.known)
      joined.join(*snapshot.known);
    uint32_t &clock = joined.clocks[snapshot.thread];
    clock = std::max(clock, snapshot.clock);
    return;
  }
  std::vector<uint32_t> theirs = snapshot.known ? snapshot.known->clocks : std::vector<uint32_t>();
  if (theirs.size() <= snapshot.thread)
    theirs.resize(snapshot.thread + 1);
  theirs[snapshot.thread] = std::max(theirs[snapshot.thread], snapshot.clock);
  joined.joinForeign(snapshot.block, theirs);
  if (!snapshot.known)
    return;
  for (const auto &[other, clocks] : snapshot.known->foreign) {
    if (other == block)
      maximise(joined.clocks, *clocks);
    else
      joined.joinForeign(other, *clocks);
  }
}

void synchronise(const std::vector<ThreadClock *> &clocks) {
  if (clocks.empty())
    return;
  auto joined = std::make_shared<Knowledge>();
  joined->clocks.resize(clocks.front()->threads);
  // After one barrier of the block all threads hold the same knowledge: it is joined once.
  const Knowledge *last = nullptr;
  for (const ThreadClock *clock : clocks) {
    if (clock->known && clock->known.get() != last)
      joined->join(*clock->known);
    last = clock->known.get();
  }
  for (const ThreadClock *clock : clocks)
    joined->clocks[clock->thread] = clock->now;
  for (ThreadClock *clock : clocks) {
    clock->known = joined;
    ++clock->now;
  }
}

void ShadowChunk::remember(const ThreadClock &clock, uint16_t mask, bool write, bool strong,
                           uint32_t site) {
  AccessRecord fresh{clock.now, site, clock.block, uint16_t(clock.thread), mask, strong};
  if (write) {
    // A later access that is ordered after this one is ordered after all that this one follows.
    for (auto *list : {&writes, &reads}) {
      for (AccessRecord &record : *list)
        if (!strong || record.strong || clock.knows(record.block, record.thread, record.clock))
          record.mask &= uint16_t(~mask);
      std::erase_if(*list, [](const AccessRecord &record) { return record.mask == 0; });
    }
    writes.push_back(fresh);
    written |= mask;
    return;
  }
  for (AccessRecord &record : reads)
    if ((!strong || record.strong) && clock.knows(record.block, record.thread, record.clock))
      record.mask &= uint16_t(~mask);
  std::erase_if(reads, [](const AccessRecord &record) { return record.mask == 0; });
  // A table that every thread of a large grid reads: a sample of the readers is enough to see that
  // a write races with one of them.
  constexpr size_t most = 64;
  if (reads.size() < most)
    reads.push_back(fresh);
  else
    reads[(clock.thread * 31 + clock.now) % most] = fresh;
}

GlobalShadow::Page &GlobalShadow::page(uint64_t address) {
  uint64_t number = address >> 12;
  Shard &shard = table[number % shards];
  std::lock_guard lock(shard.mutex);
  std::unique_ptr<Page> &page = shard.pages[number];
  if (!page)
    page = std::make_unique<Page>();
  return *page;
}

} // namespace gemma::emu
