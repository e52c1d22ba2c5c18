#pragma once

#include <napi.h>

#include "binding/socket_wrap.h"
#include "relay/relay.h"

namespace viaduct::binding {

/// Relay of src/kernel/addon.ts.
class RelayWrap : public SocketWrap<RelayWrap, relay::Relay> {
 public:
  static constexpr napi_type_tag kTag = {0x9c02e7d15b3f48a6, 0x3e81f6ab40d7925c};
  static Napi::Function Define(Napi::Env env);
  explicit RelayWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value Configure(const Napi::CallbackInfo& info);
  Napi::Value Apply(const Napi::CallbackInfo& info);
  Napi::Value Flows(const Napi::CallbackInfo& info);
  Napi::Value Counters(const Napi::CallbackInfo& info);
  Napi::Value Conditions(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
};

}  // namespace viaduct::binding
