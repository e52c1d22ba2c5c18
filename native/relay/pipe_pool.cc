#include "relay/pipe_pool.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace viaduct::relay {

PipePool::~PipePool() { descriptors_.Give(kDescriptors * static_cast<uint32_t>(empty_.size())); }

Pipe PipePool::Take(uint32_t& held) {
  if (!descriptors_.Allows(held)) return {};
  if (!empty_.empty()) {
    Pipe pipe = std::move(empty_.back());
    empty_.pop_back();
    held += kDescriptors;
    return pipe;
  }
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return {};
  descriptors_.Take(kDescriptors);
  held += kDescriptors;
  return {Fd(ends[0]), Fd(ends[1])};
}

void PipePool::Give(Pipe pipe, uint32_t& held) {
  if (!pipe.is_open() || empty_.size() >= kKept) return Discard(std::move(pipe), held);
  held -= kDescriptors;
  empty_.push_back(std::move(pipe));
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): takes the pipe and closes it
void PipePool::Discard(Pipe pipe, uint32_t& held) {
  if (!pipe.is_open()) return;
  held -= kDescriptors;
  descriptors_.Give(kDescriptors);
}

}  // namespace viaduct::relay
