#include "core/poll_until.h"

#include <algorithm>
#include <cerrno>

namespace viaduct {

namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// The pause after a shortage of memory. Short beside every period of a watch, and long enough that a
/// shortage of seconds takes hundreds of calls at most.
constexpr milliseconds kPause{10};

bool IsShortage(int code) { return code == ENOMEM || code == EAGAIN; }

/// The time-out for poll(). Rounded up: a wait that ends too early would be repeated many times.
int TimeoutUntil(nanoseconds deadline, nanoseconds now) {
  if (deadline == kNoDeadline) return -1;
  const auto left = std::chrono::ceil<milliseconds>(deadline - now).count();
  return static_cast<int>(std::max(left, decltype(left){0}));
}

}  // namespace

Result<int> PollUntil(SocketCalls& calls, std::span<pollfd> fds, nanoseconds deadline) {
  for (;;) {
    const int ready = calls.Poll(fds.data(), fds.size(), TimeoutUntil(deadline, calls.Now()));
    if (ready >= 0) return ready;
    const int code = errno;
    if (code != EINTR && !IsShortage(code)) return Error{code, "wait for events", {}};
    const nanoseconds now = calls.Now();
    if (now >= deadline) return 0;
    if (IsShortage(code)) calls.Sleep(std::min<nanoseconds>(kPause, deadline - now));
  }
}

}  // namespace viaduct
