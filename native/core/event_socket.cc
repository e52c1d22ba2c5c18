#include "core/event_socket.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "core/poll_until.h"

namespace viaduct {

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
  pollfd fds[] = {{socket_.fd(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
  const auto ready = PollUntil(*calls_, fds, deadline);
  if (!ready.ok()) return ready.error();
  if (fds[1].revents == 0) return ready.value() > 0;
  uint64_t count = 0;
  // Ignoring the result: the descriptor does not block. It is empty if another Wait() has read it.
  (void)!read(wake_.get(), &count, sizeof count);
  return false;
}

void EventSocket::Wake() const {
  const uint64_t one = 1;
  // Ignoring the result: it fails only if the counter is full, and then the waiter is already awake.
  (void)!write(wake_.get(), &one, sizeof one);
}

}  // namespace viaduct
