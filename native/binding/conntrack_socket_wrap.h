#pragma once

#include <napi.h>

#include "binding/socket_wrap.h"
#include "conntrack/conntrack_socket.h"

namespace viaduct::binding {

/// ConntrackSocket of src/kernel/addon.ts.
class ConntrackSocketWrap : public SocketWrap<ConntrackSocketWrap, conntrack::ConntrackSocket> {
 public:
  static constexpr napi_type_tag kTag = {0x9d41b3c2f07e4a68, 0xa2e5c8107b3f4d91};
  static Napi::Function Define(Napi::Env env);
  explicit ConntrackSocketWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value DeleteStale(const Napi::CallbackInfo& info);
  Napi::Value ListFlows(const Napi::CallbackInfo& info);
  Napi::Value CountFlows(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
};

}  // namespace viaduct::binding
