#include "binding/route_socket_wrap.h"

#include <linux/if.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "binding/arguments.h"

namespace viaduct::binding {

namespace {

using route::AddressRecord;
using route::LinkRecord;
using route::Op;
using route::RouteChoiceRecord;
using route::RouteQueryRecord;
using route::RouteRecord;
using route::RouteSocket;
using route::RuleRecord;

// The kernel's index is an int.
constexpr uint32_t kLargestIndex = std::numeric_limits<int32_t>::max();

/// The core does not check operation, family and prefix length.
template <typename Record>
void CheckRecords(Napi::Env env, const char* name, std::span<const Record> records) {
  for (size_t i = 0; i < records.size(); ++i) {
    const Record& record = records[i];
    const bool is_op = record.op >= Op::kAdd && record.op <= Op::kRemove;
    const bool is_prefix = (record.family == AF_INET && record.prefix_length <= 32) ||
                           (record.family == AF_INET6 && record.prefix_length <= 128);
    if (!is_op || !is_prefix)
      throw Napi::RangeError::New(env, std::string(name) + ": record " + std::to_string(i) +
                                           " has no such operation, family or prefix length");
  }
}

}  // namespace

Napi::Function RouteSocketWrap::Define(Napi::Env env) {
  return DefineClass(env, "RouteSocket",
                     {InstanceMethod<&RouteSocketWrap::ApplyRoutes>("applyRoutes"),
                      InstanceMethod<&RouteSocketWrap::ApplyAddresses>("applyAddresses"),
                      InstanceMethod<&RouteSocketWrap::LookUp>("lookUp"),
                      InstanceMethod<&RouteSocketWrap::DumpLocalRoutes>("dumpLocalRoutes"),
                      InstanceMethod<&RouteSocketWrap::DumpNextHops>("dumpNextHops"),
                      InstanceMethod<&RouteSocketWrap::DumpAddresses>("dumpAddresses"),
                      InstanceMethod<&RouteSocketWrap::DumpLinks>("dumpLinks"),
                      InstanceMethod<&RouteSocketWrap::DumpRules>("dumpRules"),
                      InstanceMethod<&RouteSocketWrap::AddDummy>("addDummy"),
                      InstanceMethod<&RouteSocketWrap::SetUp>("setUp"),
                      InstanceMethod<&RouteSocketWrap::RemoveLink>("removeLink"),
                      InstanceMethod<&RouteSocketWrap::Close>("close")});
}

RouteSocketWrap::RouteSocketWrap(const Napi::CallbackInfo& info) : SocketWrap(info, RouteSocket::Open()) {}

Napi::Value RouteSocketWrap::ApplyRoutes(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::Records<RouteRecord>("routes")});
  const auto routes = arguments.Records<RouteRecord>(0);
  CheckRecords(info.Env(), "routes", routes);
  return slot.Fly<BatchOutcome>(
      info, {[routes](RouteSocket& socket) { return socket.ApplyRoutes(routes); }, OutcomeToValue});
}

Napi::Value RouteSocketWrap::ApplyAddresses(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::Records<AddressRecord>("addresses")});
  const auto addresses = arguments.Records<AddressRecord>(0);
  CheckRecords(info.Env(), "addresses", addresses);
  return slot.Fly<BatchOutcome>(
      info, {[addresses](RouteSocket& socket) { return socket.ApplyAddresses(addresses); }, OutcomeToValue});
}

Napi::Value RouteSocketWrap::LookUp(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::Records<RouteQueryRecord>("queries")});
  const auto queries = arguments.Records<RouteQueryRecord>(0);
  for (const RouteQueryRecord& query : queries) CheckFamily(info.Env(), query.family);
  return slot.Fly<std::vector<RouteChoiceRecord>>(
      info,
      {[queries](RouteSocket& socket) { return socket.LookUp(queries); }, RecordsToValue<RouteChoiceRecord>});
}

Napi::Value RouteSocketWrap::DumpLocalRoutes(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::U32("family")});
  const uint8_t family = CheckFamily(info.Env(), arguments.U32(0));
  return slot.Fly<std::vector<RouteRecord>>(
      info, {[family](RouteSocket& socket) { return socket.DumpLocalRoutes(family); },
             RecordsToValue<RouteRecord>});
}

Napi::Value RouteSocketWrap::DumpNextHops(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::U32("family")});
  const uint8_t family = CheckFamily(info.Env(), arguments.U32(0));
  return slot.Fly<std::vector<AddressRecord>>(
      info,
      {[family](RouteSocket& socket) { return socket.DumpNextHops(family); }, RecordsToValue<AddressRecord>});
}

Napi::Value RouteSocketWrap::DumpAddresses(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info,
                            {Parameter::U32("family"), Parameter::U32("interfaceIndex", kLargestIndex)});
  const uint8_t family = CheckFamily(info.Env(), arguments.U32(0));
  const uint32_t interface_index = arguments.U32(1);
  return slot.Fly<std::vector<AddressRecord>>(
      info, {[=](RouteSocket& socket) { return socket.DumpAddresses(family, interface_index); },
             RecordsToValue<AddressRecord>});
}

Napi::Value RouteSocketWrap::DumpLinks(const Napi::CallbackInfo& info) {
  return Slot(info).Fly<std::vector<LinkRecord>>(
      info, {[](RouteSocket& socket) { return socket.DumpLinks(); }, RecordsToValue<LinkRecord>});
}

Napi::Value RouteSocketWrap::DumpRules(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::U32("family")});
  const uint8_t family = CheckFamily(info.Env(), arguments.U32(0));
  return slot.Fly<std::vector<RuleRecord>>(
      info, {[family](RouteSocket& socket) { return socket.DumpRules(family); }, RecordsToValue<RuleRecord>});
}

Napi::Value RouteSocketWrap::AddDummy(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::Text("name", IFNAMSIZ - 1)});
  const std::string name = arguments.Text(0);
  return slot.Fly<uint32_t>(
      info, {[name](RouteSocket& socket) { return socket.AddDummy(name); },
             [](Napi::Env env, uint32_t&& index) -> Napi::Value { return Napi::Number::New(env, index); }});
}

Napi::Value RouteSocketWrap::SetUp(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::U32("interfaceIndex", kLargestIndex)});
  const uint32_t interface_index = arguments.U32(0);
  return slot.Fly<std::monostate>(
      info, {[=](RouteSocket& socket) { return socket.SetUp(interface_index); }, NothingToValue});
}

Napi::Value RouteSocketWrap::RemoveLink(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::U32("interfaceIndex", kLargestIndex)});
  const uint32_t interface_index = arguments.U32(0);
  return slot.Fly<std::monostate>(
      info, {[=](RouteSocket& socket) { return socket.RemoveLink(interface_index); }, NothingToValue});
}

Napi::Value RouteSocketWrap::Close(const Napi::CallbackInfo& info) { return Slot(info).Close(info.Env()); }

}  // namespace viaduct::binding
