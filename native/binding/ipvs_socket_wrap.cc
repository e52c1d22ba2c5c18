#include "binding/ipvs_socket_wrap.h"

#include <string>
#include <utility>

#include "binding/arguments.h"

namespace viaduct::binding {

namespace {

using ipvs::Op;

bool NamesRealServer(Op op) {
  return op == Op::kAddRealServer || op == Op::kSetRealServer || op == Op::kRemoveRealServer;
}

/// The core does not check indices, operations and the NUL of names.
void CheckBatch(Napi::Env env, const ipvs::Batch& batch) {
  for (size_t i = 0; i < batch.ops.size(); ++i) {
    const ipvs::OpRecord& record = batch.ops[i];
    const bool is_op = record.op >= Op::kAddVirtualServer && record.op <= Op::kZeroVirtualServer;
    const bool is_in_range = record.virtual_server < batch.virtual_servers.size() &&
                             (!NamesRealServer(record.op) || record.real_server < batch.real_servers.size());
    if (!is_op || !is_in_range)
      throw Napi::RangeError::New(env, "ops: record " + std::to_string(i) + " points outside the tables");
  }
  for (const ipvs::VirtualServerRecord& server : batch.virtual_servers) {
    if (server.scheduler[sizeof server.scheduler - 1] != '\0')
      throw Napi::RangeError::New(env, "virtualServers: a scheduler's name is not terminated");
  }
}

Napi::Value TableToValue(Napi::Env env, ipvs::Table&& table, bool with_counters) {
  auto result = Napi::Object::New(env);
  result.Set("virtualServers", ToValue(env, std::move(table.virtual_servers)));
  result.Set("realServers", ToValue(env, std::move(table.real_servers)));
  if (!with_counters) return result;
  result.Set("virtualServerCounters", ToValue(env, std::move(table.virtual_server_counters)));
  result.Set("realServerCounters", ToValue(env, std::move(table.real_server_counters)));
  return result;
}

Napi::Value InfoToValue(Napi::Env env, ipvs::Info&& info) {
  auto result = Napi::Object::New(env);
  result.Set("version", Napi::Number::New(env, info.version));
  result.Set("connectionTableSize", Napi::Number::New(env, info.connection_table_size));
  result.Set("ipv4VirtualServers", Napi::Number::New(env, info.ipv4_virtual_servers));
  return result;
}

Napi::Value TimeoutsToValue(Napi::Env env, ipvs::Timeouts&& timeouts) {
  auto result = Napi::Object::New(env);
  result.Set("tcpSeconds", Napi::Number::New(env, timeouts.tcp_seconds));
  result.Set("tcpFinSeconds", Napi::Number::New(env, timeouts.tcp_fin_seconds));
  result.Set("udpSeconds", Napi::Number::New(env, timeouts.udp_seconds));
  return result;
}

}  // namespace

Napi::Function IpvsSocketWrap::Define(Napi::Env env) {
  return DefineClass(
      env, "IpvsSocket",
      {InstanceMethod<&IpvsSocketWrap::Load>("load"), InstanceMethod<&IpvsSocketWrap::Apply>("apply"),
       InstanceMethod<&IpvsSocketWrap::Dump>("dump"), InstanceMethod<&IpvsSocketWrap::Read>("read"),
       InstanceMethod<&IpvsSocketWrap::Info>("info"), InstanceMethod<&IpvsSocketWrap::Timeouts>("timeouts"),
       InstanceMethod<&IpvsSocketWrap::SetTimeouts>("setTimeouts"),
       InstanceMethod<&IpvsSocketWrap::Close>("close")});
}

IpvsSocketWrap::IpvsSocketWrap(const Napi::CallbackInfo& info) : SocketWrap(info, ipvs::IpvsSocket::Open()) {}

Napi::Value IpvsSocketWrap::Load(const Napi::CallbackInfo& info) {
  return Slot(info).Fly<std::monostate>(
      info, {[](ipvs::IpvsSocket& socket) { return socket.Load(); }, NothingToValue});
}

Napi::Value IpvsSocketWrap::Apply(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::Records<ipvs::OpRecord>("ops"),
                                   Parameter::Records<ipvs::VirtualServerRecord>("virtualServers"),
                                   Parameter::Records<ipvs::RealServerRecord>("realServers")});
  const ipvs::Batch batch{arguments.Records<ipvs::OpRecord>(0),
                          arguments.Records<ipvs::VirtualServerRecord>(1),
                          arguments.Records<ipvs::RealServerRecord>(2)};
  CheckBatch(info.Env(), batch);
  return slot.Fly<BatchOutcome>(
      info, {[batch](ipvs::IpvsSocket& socket) { return socket.Apply(batch); }, OutcomeToValue});
}

Napi::Value IpvsSocketWrap::Dump(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::U32("family"), Parameter::Bool("withCounters")});
  const uint8_t family = CheckFamily(info.Env(), arguments.U32(0));
  const bool with_counters = arguments.Bool(1);
  return slot.Fly<ipvs::Table>(info,
                               {[=](ipvs::IpvsSocket& socket) { return socket.Dump(family, with_counters); },
                                [=](Napi::Env env, ipvs::Table&& table) {
                                  return TableToValue(env, std::move(table), with_counters);
                                }});
}

Napi::Value IpvsSocketWrap::Read(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(
      info, {Parameter::Records<ipvs::VirtualServerRecord>("keys"), Parameter::Bool("withCounters")});
  const auto keys = arguments.Records<ipvs::VirtualServerRecord>(0);
  const bool with_counters = arguments.Bool(1);
  for (const ipvs::VirtualServerRecord& key : keys) CheckFamily(info.Env(), key.family);
  return slot.Fly<ipvs::Table>(info,
                               {[=](ipvs::IpvsSocket& socket) { return socket.Read(keys, with_counters); },
                                [=](Napi::Env env, ipvs::Table&& table) {
                                  return TableToValue(env, std::move(table), with_counters);
                                }});
}

Napi::Value IpvsSocketWrap::Info(const Napi::CallbackInfo& info) {
  return Slot(info).Fly<ipvs::Info>(info,
                                    {[](ipvs::IpvsSocket& socket) { return socket.GetInfo(); }, InfoToValue});
}

Napi::Value IpvsSocketWrap::Timeouts(const Napi::CallbackInfo& info) {
  return Slot(info).Fly<ipvs::Timeouts>(
      info, {[](ipvs::IpvsSocket& socket) { return socket.GetTimeouts(); }, TimeoutsToValue});
}

Napi::Value IpvsSocketWrap::SetTimeouts(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(
      info, {Parameter::U32("tcpSeconds"), Parameter::U32("tcpFinSeconds"), Parameter::U32("udpSeconds")});
  const ipvs::Timeouts timeouts{arguments.U32(0), arguments.U32(1), arguments.U32(2)};
  return slot.Fly<std::monostate>(
      info, {[timeouts](ipvs::IpvsSocket& socket) { return socket.SetTimeouts(timeouts); }, NothingToValue});
}

Napi::Value IpvsSocketWrap::Close(const Napi::CallbackInfo& info) { return Slot(info).Close(info.Env()); }

}  // namespace viaduct::binding
