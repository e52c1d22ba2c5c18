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
/// Unlocking does not close the file. So every close event of the file comes from another program
/// (look/lock_events.h).
class XtablesLock {
 public:
  /// XTABLES_LOCKFILE, or the iptables tools' default.
  static std::string DefaultPath();

  /// The first Take() opens the file and creates an absent one.
  explicit XtablesLock(std::string path) : path_(std::move(path)) {}

  /// Holds the lock during its lifetime. NB: the XtablesLock must outlive it.
  class Hold {
   public:
    Hold(int fd, std::chrono::milliseconds waited) : fd_(fd), waited_(waited) {}
    ~Hold();
    Hold(const Hold&) = delete;  // destroying one copy would unlock for both
    Hold& operator=(const Hold&) = delete;
    Hold(Hold&& other) noexcept : fd_(std::exchange(other.fd_, -1)), waited_(other.waited_) {}
    Hold& operator=(Hold&&) = delete;

    std::chrono::milliseconds waited() const { return waited_; }

   private:
    int fd_;  ///< of the XtablesLock; -1: moved from
    std::chrono::milliseconds waited_;
  };

  /// Waits in the kernel, like the iptables tools: repeated attempts would miss the moments between two other
  /// programs. EAGAIN: the lock was not free before the time-out, or before `is_hurried` was set. Both end
  /// the wait within 20 ms. One hold at a time.
  Result<Hold> Take(std::chrono::milliseconds timeout, const std::atomic<bool>& is_hurried);

 private:
  Status Open();

  std::string path_;
  Fd fd_;
};

}  // namespace viaduct::xtables
