#include "relay/loop.h"

#include <algorithm>
#include <array>
#include <cerrno>

namespace viaduct::relay {

Result<std::unique_ptr<Loop>> Loop::Open() {
  Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.is_open()) return Error{errno, "open epoll", {}};
  return std::unique_ptr<Loop>(new Loop(std::move(epoll)));
}

bool Loop::Watch(int fd, uint32_t events, EventTarget& target) {
  epoll_event event{.events = events, .data = {.ptr = &target}};
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

void Loop::Rewatch(int fd, uint32_t events, EventTarget& target) {
  epoll_event event{.events = events, .data = {.ptr = &target}};
  // Ignoring the result: a watched descriptor is changed without an allocation.
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Loop::Unwatch(int fd) { (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

int Loop::WaitMs() const {
  if (!postponed_.empty()) return 0;
  if (timers_.empty()) return -1;
  // Rounded up: a wait that ends too early would be repeated many times.
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first - Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60'000));
}

void Loop::RunOnce() {
  std::array<epoll_event, 256> events;
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), WaitMs());
  now_ = Clock::now();
  const auto postponed = std::exchange(postponed_, {});
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    static_cast<EventTarget*>(event.data.ptr)->OnEvents(event.events);
  }
  for (EventTarget* target : postponed) target->OnEvents(0);
  RunTimers();
}

void Loop::RunTimers() {
  while (!timers_.empty() && timers_.begin()->first <= now_) {
    Timer& timer = *timers_.begin()->second;
    timer.Cancel();
    timer.target_.OnTimer();
  }
}

void Timer::Set(Clock::time_point due) {
  Cancel();
  entry_ = loop_.timers_.emplace(due, this);
}

void Timer::Cancel() {
  if (!entry_) return;
  loop_.timers_.erase(*entry_);
  entry_.reset();
}

}  // namespace viaduct::relay
