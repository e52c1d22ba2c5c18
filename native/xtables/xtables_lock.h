#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include "core/fd.h"
#include "core/result.h"

namespace viaduct::xtables {

/// The lock that the iptables tools take around reading and writing a table; held while this lives.
class XtablesLock {
 public:
  /// XTABLES_LOCKFILE, or where the tools have it.
  static std::string DefaultPath();

  /// Waits in the kernel, as the tools do: a caller that only tries from time to time never meets the
  /// moments between two others. EAGAIN: the lock was not free until the time-out, or until `is_hurried` was
  /// set. Both are noticed within 20 ms.
  static Result<XtablesLock> Take(const std::string& path, std::chrono::milliseconds timeout,
                                  const std::atomic<bool>& is_hurried);

  std::chrono::milliseconds waited() const { return waited_; }

 private:
  XtablesLock(Fd fd, std::chrono::milliseconds waited) : fd_(std::move(fd)), waited_(waited) {}

  Fd fd_;  ///< closing it unlocks
  std::chrono::milliseconds waited_;
};

}  // namespace viaduct::xtables
