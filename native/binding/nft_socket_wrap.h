#pragma once

#include <napi.h>

#include "binding/socket_wrap.h"
#include "nftables/nft_socket.h"

namespace viaduct::binding {

/// NftSocket of src/kernel/addon.ts.
class NftSocketWrap : public SocketWrap<NftSocketWrap, nftables::NftSocket> {
 public:
  static constexpr napi_type_tag kTag = {0x38f6a10b5c974e2d, 0xb7d20e94c1864fa3};
  static Napi::Function Define(Napi::Env env);
  explicit NftSocketWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value ListChains(const Napi::CallbackInfo& info);
  Napi::Value DeleteTable(const Napi::CallbackInfo& info);
  Napi::Value LoadXtables(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
};

}  // namespace viaduct::binding
