#pragma once

#include <napi.h>

#include "binding/socket_wrap.h"
#include "ipset/ipset_socket.h"

namespace viaduct::binding {

/// IpsetSocket of src/kernel/addon.ts.
class IpsetSocketWrap : public SocketWrap<IpsetSocketWrap, ipset::IpsetSocket> {
 public:
  static constexpr napi_type_tag kTag = {0x71d3f86a2c0b4e95, 0xb4f9207c5de81a36};
  static Napi::Function Define(Napi::Env env);
  explicit IpsetSocketWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value Apply(const Napi::CallbackInfo& info);
  Napi::Value ListSets(const Napi::CallbackInfo& info);
  Napi::Value ListEntries(const Napi::CallbackInfo& info);
  Napi::Value FindIndex(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
};

}  // namespace viaduct::binding
