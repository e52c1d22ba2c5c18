#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>

namespace viaduct::xtables {

/// Zeroed memory straight from the kernel, which gets it back at once: a table is tens of megabytes, needed
/// for milliseconds. In huge pages where there are any.
class Pages {
 public:
  /// Throws std::bad_alloc. `size` is not 0.
  explicit Pages(size_t size) : size_(size) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    bytes_ = static_cast<uint8_t*>(memory);
    (void)madvise(memory, size, MADV_HUGEPAGE);  // a wish
  }
  ~Pages() {
    if (bytes_ != nullptr) munmap(bytes_, size_);
  }
  Pages(const Pages&) = delete;  // two owners would unmap twice
  Pages& operator=(const Pages&) = delete;
  Pages(Pages&& other) noexcept
      : bytes_(std::exchange(other.bytes_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Pages& operator=(Pages&&) = delete;

  std::span<uint8_t> bytes() { return {bytes_, size_}; }
  std::span<const uint8_t> bytes() const { return {bytes_, size_}; }

 private:
  uint8_t* bytes_ = nullptr;
  size_t size_ = 0;
};

}  // namespace viaduct::xtables
