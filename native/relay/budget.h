#pragma once

#include <atomic>
#include <cstdint>

namespace viaduct::relay {

/// A limited number of things that many holders share. A holder may take one more while it holds fewer than
/// are still free (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches",
/// 1998). So one greedy holder stops at half of the limit, and the others still find free ones. Any thread.
class Budget {
 public:
  /// `others`: of the limited things, those that other parts of the process have.
  explicit Budget(uint32_t limit, const std::atomic<uint32_t>* others = nullptr)
      : limit_(limit), others_(others) {}

  uint32_t limit() const { return limit_; }
  uint32_t used() const { return used_.load(std::memory_order_relaxed) + others(); }
  uint32_t others() const { return others_ == nullptr ? 0 : others_->load(std::memory_order_relaxed); }
  bool Allows(uint32_t own) const {
    const uint32_t now = used();
    return now < limit_ && own < limit_ - now;
  }
  void Take(uint32_t count) { used_.fetch_add(count, std::memory_order_relaxed); }
  void Give(uint32_t count) { used_.fetch_sub(count, std::memory_order_relaxed); }

 private:
  uint32_t limit_;
  const std::atomic<uint32_t>* others_;
  std::atomic<uint32_t> used_ = 0;
};

}  // namespace viaduct::relay
