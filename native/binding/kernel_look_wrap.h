#pragma once

#include <napi.h>

#include "binding/socket_wrap.h"
#include "look/kernel_look.h"

namespace viaduct::binding {

/// KernelLook of src/kernel/addon.ts.
class KernelLookWrap : public SocketWrap<KernelLookWrap, look::KernelLook> {
 public:
  static constexpr napi_type_tag kTag = {0x91c3e07d42f84b6a, 0xa85d1b60e7394c2f};
  static Napi::Function Define(Napi::Env env);
  explicit KernelLookWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value Take(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
};

}  // namespace viaduct::binding
