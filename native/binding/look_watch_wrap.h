#pragma once

#include <napi.h>

#include "binding/socket_wrap.h"
#include "look/look_watch.h"

namespace viaduct::binding {

/// LookWatch of src/kernel/addon.ts.
class LookWatchWrap : public SocketWrap<LookWatchWrap, look::LookWatch> {
 public:
  static constexpr napi_type_tag kTag = {0x2f6a90d3c1e84b57, 0x84e05bb7f96c3d12};
  static Napi::Function Define(Napi::Env env);
  explicit LookWatchWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value Next(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
};

}  // namespace viaduct::binding
