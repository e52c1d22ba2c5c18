#pragma once

#include <napi.h>

#include "binding/socket_wrap.h"
#include "ports/listener_socket.h"

namespace viaduct::binding {

/// ListenerSocket of src/kernel/addon.ts.
class ListenerSocketWrap : public SocketWrap<ListenerSocketWrap, ports::ListenerSocket> {
 public:
  static constexpr napi_type_tag kTag = {0xc4017ad95e2b4f68, 0x8f3d96b1e7204c5a};
  static Napi::Function Define(Napi::Env env);
  explicit ListenerSocketWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value Find(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
};

}  // namespace viaduct::binding
