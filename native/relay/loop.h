#pragma once

#include <sys/epoll.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>

#include "core/fd.h"
#include "core/result.h"
#include "relay/affinity.h"

namespace viaduct::relay {

/// Receives the events of descriptors, timers and postponed work. After its work has ended it ignores events,
/// and lives until the round of the loop has ended.
class EventTarget {
 public:
  /// `events` of epoll; 0: postponed work.
  virtual void OnEvents(uint32_t events) = 0;
  virtual void OnTimer() {}

 protected:
  EventTarget() = default;
  ~EventTarget() = default;
  EventTarget(const EventTarget&) = default;
  EventTarget(EventTarget&&) = default;
  EventTarget& operator=(const EventTarget&) = default;
  EventTarget& operator=(EventTarget&&) = default;
};

class Timer;

/// The event loop of one thread: epoll, timers, and work that was postponed so that others have their turn.
class Loop {
 public:
  static Result<std::unique_ptr<Loop>> Open();

  /// False: the kernel refused (ENOMEM, ENOSPC). From any thread.
  bool Watch(int fd, uint32_t events, EventTarget& target);
  void Rewatch(int fd, uint32_t events, EventTarget& target);
  void Unwatch(int fd);
  /// Calls OnEvents(0) in the next round.
  void Postpone(EventTarget& target) { postponed_.insert(&target); }
  void Forget(EventTarget& target) { postponed_.erase(&target); }
  /// One round: waits until there is work, and does it.
  void RunOnce();
  /// Time of the round.
  Clock::time_point now() const { return now_; }

 private:
  friend class Timer;
  using Timers = std::multimap<Clock::time_point, Timer*>;
  explicit Loop(Fd epoll) : epoll_(std::move(epoll)), now_(Clock::now()) {}
  int WaitMs() const;
  void RunTimers();

  Fd epoll_;
  Clock::time_point now_;
  Timers timers_;
  std::unordered_set<EventTarget*> postponed_;
};

/// A timer of one target. Ends with the target.
class Timer {
 public:
  Timer(Loop& loop, EventTarget& target) : loop_(loop), target_(target) {}
  ~Timer() { Cancel(); }
  Timer(const Timer&) = delete;  // the loop refers to it
  Timer(Timer&&) = delete;
  Timer& operator=(const Timer&) = delete;
  Timer& operator=(Timer&&) = delete;

  /// Calls OnTimer() once; replaces an earlier time.
  void Set(Clock::time_point due);
  void Cancel();
  bool is_set() const { return entry_.has_value(); }

 private:
  friend class Loop;
  Loop& loop_;
  EventTarget& target_;
  std::optional<std::multimap<Clock::time_point, Timer*>::iterator> entry_;
};

}  // namespace viaduct::relay
