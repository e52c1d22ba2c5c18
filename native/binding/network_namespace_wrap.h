#pragma once

#include <napi.h>

#include "binding/socket_wrap.h"
#include "system/network_namespace.h"

namespace viaduct::binding {

/// NetworkNamespace of src/kernel/addon.ts.
class NetworkNamespaceWrap : public SocketWrap<NetworkNamespaceWrap, system::NetworkNamespace> {
 public:
  static constexpr napi_type_tag kTag = {0x5be1f70c92d84a36, 0x9a07d3c4e8612bf5};
  static Napi::Function Define(Napi::Env env);
  explicit NetworkNamespaceWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value Run(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
};

}  // namespace viaduct::binding
