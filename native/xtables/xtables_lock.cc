#include "xtables/xtables_lock.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>

namespace viaduct::xtables {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kInterruptPeriod{20};

milliseconds Since(Clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - start);
}

/// The signal that ends a wait. Neither Node nor the C library uses it.
int InterruptSignal() { return SIGRTMAX - 1; }

/// An empty handler: the interrupted system call fails with EINTR.
int InstallHandler() {
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  return sigaction(InterruptSignal(), &action, nullptr) == 0 ? 0 : errno;
}

/// During its lifetime, blocking system calls of its thread fail with EINTR every kInterruptPeriod. A signal
/// just before the call has no effect; the next one interrupts it.
class Interrupter {
 public:
  Interrupter() = default;
  Interrupter(const Interrupter&) = delete;  // the timer has one owner
  Interrupter(Interrupter&&) = delete;
  Interrupter& operator=(const Interrupter&) = delete;
  Interrupter& operator=(Interrupter&&) = delete;
  /// A pending signal is delivered when timer_delete() returns, before the mask is restored.
  ~Interrupter() {
    if (timer_) timer_delete(*timer_);
    if (former_mask_) pthread_sigmask(SIG_SETMASK, &*former_mask_, nullptr);
  }

  /// Called once, on the thread to interrupt. Returns 0 or an errno.
  int Start() {
    static const int handler_error = InstallHandler();
    if (handler_error != 0) return handler_error;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, InterruptSignal());
    sigset_t former;
    if (const int code = pthread_sigmask(SIG_UNBLOCK, &signals, &former); code != 0) return code;
    former_mask_ = former;
    sigevent event = {};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = InterruptSignal();
    event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));  // glibc has no public name for it
    timer_t timer = nullptr;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) return errno;
    timer_ = timer;
    const timespec period = {0, std::chrono::nanoseconds(kInterruptPeriod).count()};
    const itimerspec times = {period, period};
    return timer_settime(timer, 0, &times, nullptr) == 0 ? 0 : errno;
  }

 private:
  std::optional<sigset_t> former_mask_;
  std::optional<timer_t> timer_;
};

}  // namespace

std::string XtablesLock::DefaultPath() {
  const char* path =
      getenv("XTABLES_LOCKFILE");  // NOLINT(concurrency-mt-unsafe): read before any other thread
  return path != nullptr && *path != '\0' ? path : "/run/xtables.lock";
}

XtablesLock::Hold::~Hold() {
  // Ignoring the result: unlocking an open file does not fail.
  if (fd_ >= 0) (void)flock(fd_, LOCK_UN);
}

// iptables/xshared.c xtables_lock() ends its wait in flock() by alarm(), a signal to the whole process. This
// one goes to one thread.
Result<XtablesLock::Hold> XtablesLock::Take(milliseconds timeout, const std::atomic<bool>& is_hurried) {
  Status status = Open();
  if (!status.ok()) return status.error();
  const std::string operation = "lock " + path_;
  const auto start = Clock::now();
  if (flock(fd_.get(), LOCK_EX | LOCK_NB) == 0) return Hold(fd_.get(), milliseconds::zero());
  if (errno != EWOULDBLOCK && errno != EINTR) return Error{errno, operation, {}};
  Interrupter interrupter;
  if (const int code = interrupter.Start(); code != 0)
    return Error{code, operation, "the wait cannot be limited"};
  while (Since(start) < timeout && !is_hurried) {
    if (flock(fd_.get(), LOCK_EX) == 0) return Hold(fd_.get(), Since(start));
    if (errno != EINTR) return Error{errno, operation, {}};
  }
  // The text does not depend on the wait: a problem with an unchanged text is logged once.
  return Error{EAGAIN, operation, "another program holds it"};
}

/// Opens the current file of the path. The lock of a removed or replaced file would not exclude other
/// programs.
Status XtablesLock::Open() {
  struct stat named = {};
  struct stat opened = {};
  const bool is_same = fd_.is_open() && stat(path_.c_str(), &named) == 0 && fstat(fd_.get(), &opened) == 0 &&
                       named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
  if (is_same) return Ok();
  fd_ = Fd(open(path_.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!fd_.is_open()) return Error{errno, "lock " + path_, {}};
  return Ok();
}

}  // namespace viaduct::xtables
