#include "binding/route_events_wrap.h"

#include <chrono>
#include <vector>

#include "binding/arguments.h"

namespace viaduct::binding {

using route::EventRecord;
using route::RouteEvents;

namespace {

constexpr uint32_t kLongestWaitMs = 3'600'000;

}  // namespace

Napi::Function RouteEventsWrap::Define(Napi::Env env) {
  return DefineClass(
      env, "RouteEvents",
      {InstanceMethod<&RouteEventsWrap::Next>("next"), InstanceMethod<&RouteEventsWrap::Close>("close")});
}

RouteEventsWrap::RouteEventsWrap(const Napi::CallbackInfo& info) : SocketWrap(info, RouteEvents::Open()) {}

Napi::Value RouteEventsWrap::Next(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::U32("longestMs", kLongestWaitMs)});
  const std::chrono::milliseconds longest(arguments.U32(0));
  return slot.Fly<std::vector<EventRecord>>(
      info, {[longest](RouteEvents& events) { return events.Next(longest); }, RecordsToValue<EventRecord>});
}

Napi::Value RouteEventsWrap::Close(const Napi::CallbackInfo& info) {
  return Slot(info).Close(info.Env(), [](RouteEvents& events) { events.Wake(); });
}

}  // namespace viaduct::binding
