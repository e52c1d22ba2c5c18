#pragma once

#include <napi.h>

#include "binding/socket_wrap.h"
#include "ports/port_holder.h"

namespace viaduct::binding {

/// PortHolder of src/kernel/addon.ts.
class PortHolderWrap : public SocketWrap<PortHolderWrap, ports::PortHolder> {
 public:
  static constexpr napi_type_tag kTag = {0x2b8e61f4d93c4a07, 0x96d2c8e05fa1473b};
  static Napi::Function Define(Napi::Env env);
  explicit PortHolderWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value Apply(const Napi::CallbackInfo& info);
  Napi::Value List(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
};

}  // namespace viaduct::binding
