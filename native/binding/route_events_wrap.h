#pragma once

#include <napi.h>

#include "binding/socket_wrap.h"
#include "route/route_events.h"

namespace viaduct::binding {

/// RouteEvents of src/kernel/addon.ts.
class RouteEventsWrap : public SocketWrap<RouteEventsWrap, route::RouteEvents> {
 public:
  static constexpr napi_type_tag kTag = {0xc4b86f02d1e74f97, 0x6e3a50d8b91c4227};
  static Napi::Function Define(Napi::Env env);
  explicit RouteEventsWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value Next(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
};

}  // namespace viaduct::binding
