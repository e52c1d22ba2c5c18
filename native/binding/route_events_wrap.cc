#include "binding/route_events_wrap.h"

#include <vector>

namespace viaduct::binding {

using route::EventRecord;
using route::RouteEvents;

Napi::Function RouteEventsWrap::Define(Napi::Env env) {
  return DefineClass(
      env, "RouteEvents",
      {InstanceMethod<&RouteEventsWrap::Next>("next"), InstanceMethod<&RouteEventsWrap::Close>("close")});
}

RouteEventsWrap::RouteEventsWrap(const Napi::CallbackInfo& info) : SocketWrap(info, RouteEvents::Open()) {}

Napi::Value RouteEventsWrap::Next(const Napi::CallbackInfo& info) {
  return Slot(info).Fly<std::vector<EventRecord>>(
      info, {[](RouteEvents& events) { return events.Next(); }, RecordsToValue<EventRecord>});
}

Napi::Value RouteEventsWrap::Close(const Napi::CallbackInfo& info) {
  return Slot(info).Close(info.Env(), [](RouteEvents& events) { events.Wake(); });
}

}  // namespace viaduct::binding
