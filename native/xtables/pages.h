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

/// Zeroed memory from mmap(), without huge pages. In a virtual machine whose host reclaims free memory, a
/// huge page must be cleared again: 12 us for each 4 KiB of it, 1.7 us for a small page (measured).
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

/// Memory for tables: tens of megabytes for milliseconds, again with each change. Fresh pages double the time
/// of a change. The pool keeps returned memory for half a minute during a series of changes, and for a second
/// after a single change, such as a start. Not thread-safe.
class PagePool {
 public:
  /// Monotonic.
  using Time = std::chrono::nanoseconds;

  /// Returns the memory to the pool when it is destroyed. NB: the pool must outlive it.
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

  /// `size` zeroed bytes, not 0. Throws std::bad_alloc.
  Loan Take(size_t size) {
    if (now_ - last_use_ >= kLongRest) first_use_ = now_;
    last_use_ = now_;
    // Reserved here because Keep() must not fail.
    spare_.reserve(kMostSpare);
    for (auto spare = spare_.begin(); spare != spare_.end(); ++spare) {
      const size_t room = spare->pages.bytes().size();
      if (room < size || room / 2 > size) continue;
      Loan loan(*this, std::move(spare->pages), size);
      spare_.erase(spare);
      memset(loan.bytes().data(), 0, size);
      return loan;
    }
    // With spare room for a table that grows by a few entries.
    return {*this, Pages(size + size / kRoom), size};
  }

  /// Returns memory to the kernel that was unused for long. `now` is the time of all Take() calls until the
  /// next Trim().
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
  /// The table that is read, the table that is written, and the counters of both.
  static constexpr size_t kMostSpare = 4;
  /// Smaller memory is not kept.
  static constexpr size_t kLeast = 1 << 18;
  static constexpr size_t kRoom = 64;

  void Keep(Pages pages) {
    if (pages.bytes().size() < kLeast) return;
    if (spare_.size() < kMostSpare) return spare_.push_back({std::move(pages), now_});
    // The oldest most likely does not fit any more.
    const auto oldest = std::ranges::min_element(spare_, {}, &Spare::last_use);
    if (oldest->last_use < now_) *oldest = {std::move(pages), now_};
  }

  std::vector<Spare> spare_;
  Time now_ = -kLongRest;  ///< time of the last Trim()
  Time first_use_ = now_;  ///< start of the current series of changes
  Time last_use_ = now_;
};

}  // namespace viaduct::xtables
