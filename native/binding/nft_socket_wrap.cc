#include "binding/nft_socket_wrap.h"

#include <linux/netfilter/nf_tables.h>

#include <vector>

#include "binding/arguments.h"

namespace viaduct::binding {

using nftables::NftSocket;

Napi::Function NftSocketWrap::Define(Napi::Env env) {
  return DefineClass(env, "NftSocket",
                     {InstanceMethod<&NftSocketWrap::ListChains>("listChains"),
                      InstanceMethod<&NftSocketWrap::DeleteTable>("deleteTable"),
                      InstanceMethod<&NftSocketWrap::LoadXtables>("loadXtables"),
                      InstanceMethod<&NftSocketWrap::Close>("close")});
}

NftSocketWrap::NftSocketWrap(const Napi::CallbackInfo& info) : SocketWrap(info, NftSocket::Open()) {}

Napi::Value NftSocketWrap::ListChains(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::U32("family")});
  const uint8_t family = CheckFamily(info.Env(), arguments.U32(0));
  return slot.Fly<std::vector<uint8_t>>(
      info, {[=](NftSocket& socket) { return socket.ListChains(family); }, RecordsToValue<uint8_t>});
}

Napi::Value NftSocketWrap::DeleteTable(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::U32("family"), Parameter::Text("table", NFT_NAME_MAXLEN - 1)});
  const uint8_t family = CheckFamily(info.Env(), arguments.U32(0));
  return slot.Fly<std::monostate>(
      info, {[=, table = arguments.Text(1)](NftSocket& socket) { return socket.DeleteTable(family, table); },
             NothingToValue});
}

Napi::Value NftSocketWrap::LoadXtables(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::U32("family")});
  const uint8_t family = CheckFamily(info.Env(), arguments.U32(0));
  return slot.Fly<std::monostate>(
      info, {[=](NftSocket& socket) { return socket.LoadXtables(family); }, NothingToValue});
}

Napi::Value NftSocketWrap::Close(const Napi::CallbackInfo& info) { return Slot(info).Close(info.Env()); }

}  // namespace viaduct::binding
