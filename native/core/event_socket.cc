#include "core/event_socket.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>

namespace viaduct {

namespace {

constexpr auto kNoDeadline = std::chrono::nanoseconds::max();

/// The time-out for poll(). Rounded up: a wait that ends too early would be repeated many times.
int TimeoutUntil(std::chrono::nanoseconds deadline, std::chrono::nanoseconds now) {
  if (deadline == kNoDeadline) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
  return static_cast<int>(std::max(left, decltype(left){0}));
}

}  // namespace

Result<EventSocket> EventSocket::Open(const NetlinkSocket::Options& options) {
  auto socket = NetlinkSocket::Open(options);
  if (!socket.ok()) return socket.error();
  Fd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.is_open()) return Error{errno, "open eventfd", {}};
  return EventSocket(*options.calls, std::move(socket.value()), std::move(wake));
}

std::chrono::nanoseconds EventSocket::DeadlineIn(std::chrono::milliseconds longest) const {
  return longest.count() < 0 ? kNoDeadline : calls_->Now() + longest;
}

Result<bool> EventSocket::Wait(std::chrono::nanoseconds deadline) {
  for (;;) {
    pollfd fds[] = {{socket_.fd(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    const int ready = calls_->Poll(fds, std::size(fds), TimeoutUntil(deadline, calls_->Now()));
    if (ready < 0 && errno == EINTR) {
      if (IsPast(deadline)) return false;
      continue;
    }
    if (ready < 0) return Error{errno, "wait for events", {}};
    if (fds[1].revents == 0) return ready > 0;
    uint64_t count = 0;
    // Ignoring the result: the descriptor does not block. It is empty if another Wait() has read it.
    (void)!read(wake_.get(), &count, sizeof count);
    return false;
  }
}

void EventSocket::Wake() const {
  const uint64_t one = 1;
  // Ignoring the result: it fails only if the counter is full, and then the waiter is already awake.
  (void)!write(wake_.get(), &one, sizeof one);
}

}  // namespace viaduct
