#pragma once

#include <cstdint>
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

  /// `held`: the descriptors of the holder's service, to which those of the pipe are added. Not open: the
  /// service has its share of the descriptors, or the kernel gives no pipe.
  Pipe Take(uint32_t& held);
  /// An empty pipe. NB: for one with bytes, use Discard().
  void Give(Pipe pipe, uint32_t& held);
  void Discard(Pipe pipe, uint32_t& held);

 private:
  static constexpr size_t kKept = 16;
  static constexpr uint32_t kDescriptors = 2;  ///< of a pipe

  Budget& descriptors_;
  std::vector<Pipe> empty_;
};

}  // namespace viaduct::relay
