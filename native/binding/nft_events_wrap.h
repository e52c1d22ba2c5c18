#pragma once

#include <napi.h>

#include "binding/socket_wrap.h"
#include "nftables/nft_events.h"

namespace viaduct::binding {

/// NftEvents of src/kernel/addon.ts.
class NftEventsWrap : public SocketWrap<NftEventsWrap, nftables::NftEvents> {
 public:
  static constexpr napi_type_tag kTag = {0x0d4c7be1935f4a68, 0xa8f15c29e7d0436b};
  static Napi::Function Define(Napi::Env env);
  explicit NftEventsWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value Next(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
};

}  // namespace viaduct::binding
