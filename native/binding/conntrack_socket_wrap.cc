#include "binding/conntrack_socket_wrap.h"

#include <string>
#include <utility>

#include "binding/arguments.h"
#include "binding/values.h"

namespace viaduct::binding {

namespace {

using conntrack::AddressRecord;
using conntrack::BackendRecord;
using conntrack::Cleaning;
using conntrack::ConntrackSocket;
using conntrack::FlowCountRecord;
using conntrack::FlowList;
using conntrack::FrontendRecord;

/// The core does not check protocol and port. A frontend without them would match other flows.
void CheckFrontends(Napi::Env env, std::span<const FrontendRecord> frontends) {
  for (size_t i = 0; i < frontends.size(); ++i) {
    const FrontendRecord& frontend = frontends[i];
    if (!conntrack::HasPorts(frontend.protocol) || frontend.port == 0 || frontend.is_node_port > 1)
      throw Napi::RangeError::New(
          env, "frontends: record " + std::to_string(i) + " has no such protocol, port or address");
  }
}

Napi::Value CleaningToValue(Napi::Env env, Cleaning&& cleaning) {
  auto result = Napi::Object::New(env);
  result.Set("seen", Napi::Number::New(env, cleaning.seen));
  result.Set("isFiltered", Napi::Boolean::New(env, cleaning.is_filtered));
  result.Set("deleted", Napi::Number::New(env, cleaning.deleted));
  return result;
}

Napi::Value ListToValue(Napi::Env env, FlowList&& list) {
  auto result = Napi::Object::New(env);
  result.Set("total", Napi::Number::New(env, list.total));
  result.Set("flows", ToValue(env, std::move(list.flows)));
  return result;
}

}  // namespace

Napi::Function ConntrackSocketWrap::Define(Napi::Env env) {
  return DefineClass(env, "ConntrackSocket",
                     {InstanceMethod<&ConntrackSocketWrap::DeleteStale>("deleteStale"),
                      InstanceMethod<&ConntrackSocketWrap::ListFlows>("listFlows"),
                      InstanceMethod<&ConntrackSocketWrap::CountFlows>("countFlows"),
                      InstanceMethod<&ConntrackSocketWrap::Close>("close")});
}

ConntrackSocketWrap::ConntrackSocketWrap(const Napi::CallbackInfo& info)
    : SocketWrap(info, ConntrackSocket::Open()) {}

Napi::Value ConntrackSocketWrap::DeleteStale(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::U32("family"), Parameter::Records<FrontendRecord>("frontends"),
                                   Parameter::Records<BackendRecord>("backends"),
                                   Parameter::Records<AddressRecord>("nodePortAddresses")});
  const uint8_t family = CheckFamily(info.Env(), arguments.U32(0));
  const auto frontends = arguments.Records<FrontendRecord>(1);
  const auto backends = arguments.Records<BackendRecord>(2);
  const auto node_port_addresses = arguments.Records<AddressRecord>(3);
  CheckFrontends(info.Env(), frontends);
  return slot.Fly<Cleaning>(info, {[=](ConntrackSocket& socket) {
                                     return socket.DeleteStale(family, frontends, backends,
                                                               node_port_addresses);
                                   },
                                   CleaningToValue});
}

Napi::Value ConntrackSocketWrap::ListFlows(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(
      info, {Parameter::U32("family"), Parameter::Records<FrontendRecord>("frontends"),
             Parameter::Records<AddressRecord>("nodePortAddresses"), Parameter::U32("limit")});
  const uint8_t family = CheckFamily(info.Env(), arguments.U32(0));
  const auto frontends = arguments.Records<FrontendRecord>(1);
  const auto node_port_addresses = arguments.Records<AddressRecord>(2);
  const uint32_t limit = arguments.U32(3);
  CheckFrontends(info.Env(), frontends);
  return slot.Fly<FlowList>(info, {[=](ConntrackSocket& socket) {
                                     return socket.ListFlows(family, frontends, node_port_addresses, limit);
                                   },
                                   ListToValue});
}

Napi::Value ConntrackSocketWrap::CountFlows(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::U32("family"), Parameter::Records<FrontendRecord>("frontends"),
                                   Parameter::Records<AddressRecord>("nodePortAddresses")});
  const uint8_t family = CheckFamily(info.Env(), arguments.U32(0));
  const auto frontends = arguments.Records<FrontendRecord>(1);
  const auto node_port_addresses = arguments.Records<AddressRecord>(2);
  CheckFrontends(info.Env(), frontends);
  return slot.Fly<std::vector<FlowCountRecord>>(
      info,
      {[=](ConntrackSocket& socket) { return socket.CountFlows(family, frontends, node_port_addresses); },
       RecordsToValue<FlowCountRecord>});
}

Napi::Value ConntrackSocketWrap::Close(const Napi::CallbackInfo& info) {
  return Slot(info).Close(info.Env());
}

}  // namespace viaduct::binding
