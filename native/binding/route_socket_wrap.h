#pragma once

#include <napi.h>

#include "binding/socket_wrap.h"
#include "route/route_socket.h"

namespace viaduct::binding {

/// RouteSocket of src/kernel/addon.ts.
class RouteSocketWrap : public SocketWrap<RouteSocketWrap, route::RouteSocket> {
 public:
  static constexpr napi_type_tag kTag = {0x27d0e8b1946f4a3d, 0x91c35ab6e2704f18};
  static Napi::Function Define(Napi::Env env);
  explicit RouteSocketWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value ApplyRoutes(const Napi::CallbackInfo& info);
  Napi::Value ApplyAddresses(const Napi::CallbackInfo& info);
  Napi::Value LookUp(const Napi::CallbackInfo& info);
  Napi::Value DumpLocalRoutes(const Napi::CallbackInfo& info);
  Napi::Value DumpNextHops(const Napi::CallbackInfo& info);
  Napi::Value DumpAddresses(const Napi::CallbackInfo& info);
  Napi::Value DumpLinks(const Napi::CallbackInfo& info);
  Napi::Value DumpRules(const Napi::CallbackInfo& info);
  Napi::Value AddDummy(const Napi::CallbackInfo& info);
  Napi::Value SetUp(const Napi::CallbackInfo& info);
  Napi::Value RemoveLink(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
};

}  // namespace viaduct::binding
