#pragma once

#include <napi.h>

#include "binding/socket_wrap.h"
#include "ipvs/ipvs_socket.h"

namespace viaduct::binding {

/// IpvsSocket of src/kernel/addon.ts.
class IpvsSocketWrap : public SocketWrap<IpvsSocketWrap, ipvs::IpvsSocket> {
 public:
  static constexpr napi_type_tag kTag = {0x5f1c7a9b3e2d4c60, 0x8a1be4f07d932c55};
  static Napi::Function Define(Napi::Env env);
  explicit IpvsSocketWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value Load(const Napi::CallbackInfo& info);
  Napi::Value Apply(const Napi::CallbackInfo& info);
  Napi::Value Dump(const Napi::CallbackInfo& info);
  Napi::Value Read(const Napi::CallbackInfo& info);
  Napi::Value Info(const Napi::CallbackInfo& info);
  Napi::Value Timeouts(const Napi::CallbackInfo& info);
  Napi::Value SetTimeouts(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
};

}  // namespace viaduct::binding
