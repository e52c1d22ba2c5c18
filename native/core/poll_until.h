#pragma once

#include <chrono>
#include <span>

#include "core/result.h"
#include "core/socket_calls.h"

namespace viaduct {

inline constexpr auto kNoDeadline = std::chrono::nanoseconds::max();

/// Waits until one of `fds` is ready, at least once without blocking. Returns how many are ready; 0: the
/// deadline has passed. A failure that passes (poll(2): EINTR, EAGAIN, ENOMEM) only prolongs the wait, up to
/// the deadline. Errors: those of poll() that would repeat, such as EINVAL.
Result<int> PollUntil(SocketCalls& calls, std::span<pollfd> fds, std::chrono::nanoseconds deadline);

}  // namespace viaduct
