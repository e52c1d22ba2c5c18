#include "binding/route_events_wrap.h"

#include <chrono>
#include <vector>

namespace viaduct::binding {

using route::EventRecord;
using route::RouteEvents;

namespace {

// Node waits for the pool before it runs cleanup hooks (Environment::CleanupHandles), so no hook can end a
// wait when a worker is terminated. The wait ends by itself after this time. At the end of a process
// JavaScript ends it (wake-at-exit.ts).
constexpr std::chrono::milliseconds kLongestWait{5000};

}  // namespace

Napi::Function RouteEventsWrap::Define(Napi::Env env) {
  return DefineClass(
      env, "RouteEvents",
      {InstanceMethod<&RouteEventsWrap::Next>("next"), InstanceMethod<&RouteEventsWrap::Close>("close")});
}

RouteEventsWrap::RouteEventsWrap(const Napi::CallbackInfo& info) : SocketWrap(info, RouteEvents::Open()) {}

Napi::Value RouteEventsWrap::Next(const Napi::CallbackInfo& info) {
  return Slot(info).Fly<std::vector<EventRecord>>(
      info, {[](RouteEvents& events) { return events.Next(kLongestWait); }, RecordsToValue<EventRecord>});
}

Napi::Value RouteEventsWrap::Close(const Napi::CallbackInfo& info) {
  return Slot(info).Close(info.Env(), [](RouteEvents& events) { events.Wake(); });
}

}  // namespace viaduct::binding
