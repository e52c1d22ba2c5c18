#pragma once

#include <napi.h>

#include "binding/socket_wrap.h"
#include "nftables/nft_tables.h"

namespace viaduct::binding {

/// NftTables of src/kernel/addon.ts.
class NftTablesWrap : public SocketWrap<NftTablesWrap, nftables::NftTables> {
 public:
  static constexpr napi_type_tag kTag = {0x5a1e93c7f20b4d86, 0x92d7b36e4f8a01c5};
  static Napi::Function Define(Napi::Env env);
  explicit NftTablesWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value Apply(const Napi::CallbackInfo& info);
  Napi::Value Generation(const Napi::CallbackInfo& info);
  Napi::Value List(const Napi::CallbackInfo& info);
  Napi::Value ListElements(const Napi::CallbackInfo& info);
  Napi::Value FindElements(const Napi::CallbackInfo& info);
  Napi::Value PortId(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
};

}  // namespace viaduct::binding
