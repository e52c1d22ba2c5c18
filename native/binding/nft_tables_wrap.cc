#include "binding/nft_tables_wrap.h"

#include <vector>

#include "binding/arguments.h"

namespace viaduct::binding {

using nftables::BatchOptions;
using nftables::NftTables;

Napi::Function NftTablesWrap::Define(Napi::Env env) {
  return DefineClass(
      env, "NftTables",
      {InstanceMethod<&NftTablesWrap::Apply>("apply"),
       InstanceMethod<&NftTablesWrap::Generation>("generation"), InstanceMethod<&NftTablesWrap::List>("list"),
       InstanceMethod<&NftTablesWrap::ListElements>("listElements"),
       InstanceMethod<&NftTablesWrap::FindElements>("findElements"),
       InstanceMethod<&NftTablesWrap::PortId>("portId"), InstanceMethod<&NftTablesWrap::Close>("close")});
}

NftTablesWrap::NftTablesWrap(const Napi::CallbackInfo& info) : SocketWrap(info, NftTables::Open()) {}

Napi::Value NftTablesWrap::Apply(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::Records<uint8_t>("operations"), Parameter::U32("generation"),
                                   Parameter::Bool("isDryRun")});
  const auto operations = arguments.Records<uint8_t>(0);
  const BatchOptions options{arguments.U32(1), arguments.Bool(2)};
  return slot.Fly<std::vector<uint8_t>>(info, {[=](NftTables& tables) -> Result<std::vector<uint8_t>> {
                                                 auto outcome = tables.Apply(operations, options);
                                                 if (!outcome.ok()) return std::move(outcome.error());
                                                 return outcome.value().ToStream();
                                               },
                                               RecordsToValue<uint8_t>});
}

Napi::Value NftTablesWrap::Generation(const Napi::CallbackInfo& info) {
  return Slot(info).Fly<uint32_t>(
      info, {[](NftTables& tables) { return tables.Generation(); },
             [](Napi::Env env, uint32_t&& generation) { return Napi::Number::New(env, generation); }});
}

Napi::Value NftTablesWrap::List(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::Records<uint8_t>("request")});
  const auto request = arguments.Records<uint8_t>(0);
  return slot.Fly<std::vector<uint8_t>>(
      info, {[=](NftTables& tables) { return tables.List(request); }, RecordsToValue<uint8_t>});
}

Napi::Value NftTablesWrap::ListElements(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::Records<uint8_t>("request")});
  const auto request = arguments.Records<uint8_t>(0);
  return slot.Fly<std::vector<uint8_t>>(
      info, {[=](NftTables& tables) { return tables.ListElements(request); }, RecordsToValue<uint8_t>});
}

Napi::Value NftTablesWrap::FindElements(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::Records<uint8_t>("request")});
  const auto request = arguments.Records<uint8_t>(0);
  return slot.Fly<std::vector<uint8_t>>(
      info, {[=](NftTables& tables) { return tables.FindElements(request); }, RecordsToValue<uint8_t>});
}

Napi::Value NftTablesWrap::PortId(const Napi::CallbackInfo& info) {
  uint32_t port = 0;
  Slot(info).Hurry([&](const NftTables& tables) { port = tables.PortId(); });
  return Napi::Number::New(info.Env(), port);
}

Napi::Value NftTablesWrap::Close(const Napi::CallbackInfo& info) { return Slot(info).Close(info.Env()); }

}  // namespace viaduct::binding
