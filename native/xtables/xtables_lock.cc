#include "xtables/xtables_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <thread>

namespace viaduct::xtables {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The tools hold it for milliseconds, or, with large tables, for seconds.
constexpr milliseconds kShortestPause{1};
constexpr milliseconds kLongestPause{20};

milliseconds Since(Clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - start);
}

}  // namespace

std::string XtablesLock::DefaultPath() {
  const char* path =
      getenv("XTABLES_LOCKFILE");  // NOLINT(concurrency-mt-unsafe): read before any other thread
  return path != nullptr && *path != '\0' ? path : "/run/xtables.lock";
}

// iptables/xshared.c xtables_lock(). It waits in flock() and is woken by an alarm; a thread of a pool asks
// again instead.
Result<XtablesLock> XtablesLock::Take(const std::string& path, milliseconds timeout,
                                      const std::atomic<bool>& is_hurried) {
  const std::string operation = "lock " + path;
  Fd fd(open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.is_open()) return Error{errno, operation, {}};
  const auto start = Clock::now();
  for (auto pause = kShortestPause;; pause = std::min(pause * 2, kLongestPause)) {
    if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return XtablesLock(std::move(fd), Since(start));
    if (errno != EWOULDBLOCK && errno != EINTR) return Error{errno, operation, {}};
    const milliseconds left = timeout - Since(start);
    // The same text however long it was, so that it is told once.
    if (left <= milliseconds::zero() || is_hurried)
      return Error{EAGAIN, operation, "another program holds it"};
    std::this_thread::sleep_for(std::min(pause, left));
  }
}

}  // namespace viaduct::xtables
