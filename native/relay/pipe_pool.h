#pragma once

#include <vector>

#include "core/fd.h"
#include "relay/budget.h"

namespace viaduct::relay {

struct Pipe {
  Fd read_end;
  Fd write_end;
  bool is_open() const { return read_end.is_open(); }
};

/// Empty pipes of one worker. A connection holds a pipe only while it has bytes in it.
class PipePool {
 public:
  explicit PipePool(Budget& descriptors) : descriptors_(descriptors) {}
  ~PipePool();
  PipePool(const PipePool&) = delete;  // counts in the budget
  PipePool(PipePool&&) = delete;
  PipePool& operator=(const PipePool&) = delete;
  PipePool& operator=(PipePool&&) = delete;

  /// Not open: the kernel gives no pipe.
  Pipe Take();
  /// An empty pipe. NB: for one with bytes, use Discard().
  void Give(Pipe pipe);
  void Discard(Pipe pipe);

 private:
  static constexpr size_t kKept = 16;
  static constexpr uint32_t kDescriptors = 2;  ///< of a pipe

  Budget& descriptors_;
  std::vector<Pipe> empty_;
};

}  // namespace viaduct::relay
