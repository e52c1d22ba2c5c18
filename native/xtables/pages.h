#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <utility>
#include <vector>

namespace viaduct::xtables {

/// Zeroed memory straight from the kernel. Not in huge pages: where the host of a virtual machine takes free
/// memory back, it is those that it took, and has to clear again (measured: 12 us for 4 KiB of one, 1.7 us
/// for a small page).
class Pages {
 public:
  /// Throws std::bad_alloc. `size` is not 0.
  explicit Pages(size_t size) : size_(size) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    bytes_ = static_cast<uint8_t*>(memory);
  }
  ~Pages() {
    if (bytes_ != nullptr) munmap(bytes_, size_);
  }
  Pages(const Pages&) = delete;  // two owners would unmap twice
  Pages& operator=(const Pages&) = delete;
  Pages(Pages&& other) noexcept
      : bytes_(std::exchange(other.bytes_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::span<uint8_t> bytes() { return {bytes_, size_}; }
  std::span<const uint8_t> bytes() const { return {bytes_, size_}; }

 private:
  uint8_t* bytes_ = nullptr;
  size_t size_ = 0;
};

/// Memory for tables: tens of megabytes, needed for milliseconds, and again with the next change. Fresh pages
/// cost a change as much as the rest of it, so what comes back stays for half a minute where changes follow
/// each other; after a single one, as at a start, for a second. Not thread-safe.
class PagePool {
 public:
  /// Of a clock that never goes back.
  using Time = std::chrono::nanoseconds;

  /// Comes back when it goes; the pool has to be there still.
  class Loan {
   public:
    Loan(PagePool& pool, Pages pages, size_t size) : pool_(&pool), pages_(std::move(pages)), size_(size) {}
    ~Loan() {
      if (pool_ != nullptr) pool_->Keep(std::move(pages_));
    }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    Loan(Loan&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), pages_(std::move(other.pages_)), size_(other.size_) {}
    Loan& operator=(Loan&&) = delete;

    std::span<uint8_t> bytes() { return pages_.bytes().first(size_); }
    std::span<const uint8_t> bytes() const { return pages_.bytes().first(size_); }

   private:
    PagePool* pool_;
    Pages pages_;
    size_t size_;
  };

  bool has_spare() const { return !spare_.empty(); }

  /// So many bytes, all zero. Throws std::bad_alloc. `size` is not 0.
  Loan Take(size_t size) {
    if (now_ - last_use_ >= kLongRest) first_use_ = now_;
    last_use_ = now_;
    // Now, as Keep() must not fail.
    spare_.reserve(kMostSpare);
    for (auto spare = spare_.begin(); spare != spare_.end(); ++spare) {
      const size_t room = spare->pages.bytes().size();
      if (room < size || room / 2 > size) continue;
      Loan loan(*this, std::move(spare->pages), size);
      spare_.erase(spare);
      memset(loan.bytes().data(), 0, size);
      return loan;
    }
    // With room for a table that grows by a few entries.
    return {*this, Pages(size + size / kRoom), size};
  }

  /// Gives back to the kernel what was not needed for long. What is lent until the next call is lent now.
  void Trim(Time now) {
    now_ = now;
    const Time rest = last_use_ - first_use_ < kShortRest ? kShortRest : kLongRest;
    std::erase_if(spare_, [&](const Spare& spare) { return now - spare.last_use >= rest; });
  }

 private:
  struct Spare {
    Pages pages;
    Time last_use;
  };
  static constexpr Time kShortRest = std::chrono::seconds(1);
  static constexpr Time kLongRest = std::chrono::seconds(30);
  /// A table that is read, one that is written, and the counters of both.
  static constexpr size_t kMostSpare = 4;
  /// Less is not worth keeping.
  static constexpr size_t kLeast = 1 << 18;
  static constexpr size_t kRoom = 64;

  void Keep(Pages pages) {
    if (pages.bytes().size() < kLeast) return;
    if (spare_.size() < kMostSpare) return spare_.push_back({std::move(pages), now_});
    // One that does not fit any more, most likely.
    const auto oldest = std::ranges::min_element(spare_, {}, &Spare::last_use);
    if (oldest->last_use < now_) *oldest = {std::move(pages), now_};
  }

  std::vector<Spare> spare_;
  Time now_ = -kLongRest;  ///< of the last Trim()
  Time first_use_ = now_;  ///< of those without a long rest in between
  Time last_use_ = now_;
};

}  // namespace viaduct::xtables
