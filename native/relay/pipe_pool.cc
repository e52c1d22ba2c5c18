#include "relay/pipe_pool.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace viaduct::relay {

PipePool::~PipePool() { descriptors_.Give(kDescriptors * static_cast<uint32_t>(empty_.size())); }

Pipe PipePool::Take() {
  if (!empty_.empty()) {
    Pipe pipe = std::move(empty_.back());
    empty_.pop_back();
    return pipe;
  }
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return {};
  descriptors_.Take(kDescriptors);
  return {Fd(ends[0]), Fd(ends[1])};
}

void PipePool::Give(Pipe pipe) {
  if (empty_.size() < kKept)
    empty_.push_back(std::move(pipe));
  else
    Discard(std::move(pipe));
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): takes the pipe and closes it
void PipePool::Discard(Pipe pipe) {
  if (pipe.is_open()) descriptors_.Give(kDescriptors);
}

}  // namespace viaduct::relay
