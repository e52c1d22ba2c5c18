#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <utility>

#include "core/fd.h"
#include "core/result.h"

namespace viaduct::xtables {

/// The lock that the iptables tools take around reading and writing a table.
///
/// The file stays open between two takes, which unlock it and do not close it. So whoever watches the file
/// knows every close for another program's (look/lock_events.h).
class XtablesLock {
 public:
  /// XTABLES_LOCKFILE, or where the tools have it.
  static std::string DefaultPath();

  /// The file is opened, and made where it is missing, by the first take.
  explicit XtablesLock(std::string path) : path_(std::move(path)) {}

  /// The lock is held while this lives. NB: the XtablesLock must outlive it.
  class Hold {
   public:
    Hold(int fd, std::chrono::milliseconds waited) : fd_(fd), waited_(waited) {}
    ~Hold();
    Hold(const Hold&) = delete;  // the first of two to go would unlock for both
    Hold& operator=(const Hold&) = delete;
    Hold(Hold&& other) noexcept : fd_(std::exchange(other.fd_, -1)), waited_(other.waited_) {}
    Hold& operator=(Hold&&) = delete;

    std::chrono::milliseconds waited() const { return waited_; }

   private:
    int fd_;  ///< of the XtablesLock; -1: moved from
    std::chrono::milliseconds waited_;
  };

  /// Waits in the kernel, as the tools do: a caller that only tries from time to time never meets the
  /// moments between two others. EAGAIN: the lock was not free until the time-out, or until `is_hurried` was
  /// set. Both are noticed within 20 ms. One hold at a time.
  Result<Hold> Take(std::chrono::milliseconds timeout, const std::atomic<bool>& is_hurried);

 private:
  Status Open();

  std::string path_;
  Fd fd_;
};

}  // namespace viaduct::xtables
