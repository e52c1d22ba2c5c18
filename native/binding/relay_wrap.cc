#include "binding/relay_wrap.h"

#include <netinet/in.h>

#include <chrono>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "binding/arguments.h"

namespace viaduct::binding {

namespace {

using relay::Batch;
using relay::CountersRecord;
using relay::EndpointRecord;
using relay::FlowRecord;
using relay::InterfaceRecord;
using relay::ListenerRecord;
using relay::NetworkRecord;
using relay::Op;
using relay::OpRecord;
using relay::Relay;
using relay::ServiceRecord;
using relay::Verdict;

// One hour: a larger value is probably not in milliseconds.
constexpr uint32_t kLongestIdleMs = 3'600'000;

bool IsFamily(uint8_t family) { return family == AF_INET || family == AF_INET6; }

bool IsVerdict(Verdict verdict) { return verdict >= Verdict::kCluster && verdict <= Verdict::kDrop; }

bool IsNetwork(const NetworkRecord& network) {
  return IsFamily(network.family) && network.prefix_length <= (network.family == AF_INET ? 32 : 128);
}

bool IsInside(uint64_t first, uint64_t count, size_t size) { return first + count <= size; }

bool IsValid(const Batch& batch, const ServiceRecord& service) {
  const uint64_t endpoints = uint64_t{service.cluster_count} + service.local_count + service.flow_count;
  return service.id != 0 && IsInside(service.first_endpoint, endpoints, batch.endpoints.size()) &&
         IsInside(service.first_range, service.range_count, batch.ranges.size());
}

bool IsValid(const ListenerRecord& listener) {
  return IsFamily(listener.family) && listener.port != 0 &&
         (listener.protocol == IPPROTO_TCP || listener.protocol == IPPROTO_UDP);
}

bool IsValid(const Batch& batch, const OpRecord& record) {
  if (record.op < Op::kSetService || record.op > Op::kRemoveListener) return false;
  if (relay::IsServiceOp(record.op))
    return record.object < batch.services.size() && IsValid(batch, batch.services[record.object]);
  if (record.object >= batch.listeners.size()) return false;
  const ListenerRecord& listener = batch.listeners[record.object];
  const bool has_verdicts = IsVerdict(listener.near) && IsVerdict(listener.far);
  return IsValid(listener) && (record.op == Op::kRemoveListener || has_verdicts);
}

/// Throws RangeError that names the first record for which `is_valid` is false.
template <typename Record, typename Check>
void CheckEach(Napi::Env env, const char* parameter, std::span<const Record> records, Check is_valid) {
  for (size_t i = 0; i < records.size(); ++i) {
    if (is_valid(records[i])) continue;
    throw Napi::RangeError::New(env,
                                std::string(parameter) + ": record " + std::to_string(i) + " is invalid");
  }
}

}  // namespace

Napi::Function RelayWrap::Define(Napi::Env env) {
  return DefineClass(
      env, "Relay",
      {InstanceMethod<&RelayWrap::Configure>("configure"), InstanceMethod<&RelayWrap::Apply>("apply"),
       InstanceMethod<&RelayWrap::Flows>("flows"), InstanceMethod<&RelayWrap::Counters>("counters"),
       InstanceMethod<&RelayWrap::Conditions>("conditions"), InstanceMethod<&RelayWrap::Close>("close")});
}

RelayWrap::RelayWrap(const Napi::CallbackInfo& info) : SocketWrap(info, Relay::Open()) {}

Napi::Value RelayWrap::Configure(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::Records<NetworkRecord>("nearNetworks"),
                                   Parameter::Records<InterfaceRecord>("nearInterfaces"),
                                   Parameter::U32("udpIdleMs", kLongestIdleMs),
                                   Parameter::Records<NetworkRecord>("nodePortAddresses")});
  const relay::SettingsRecords settings{
      arguments.Records<NetworkRecord>(0), arguments.Records<InterfaceRecord>(1),
      std::chrono::milliseconds(arguments.U32(2)), arguments.Records<NetworkRecord>(3)};
  CheckEach(info.Env(), "nearNetworks", settings.near_networks, IsNetwork);
  CheckEach(info.Env(), "nodePortAddresses", settings.node_port_addresses, IsNetwork);
  return slot.Fly<std::monostate>(
      info, {[settings](Relay& relay) { return relay.Configure(settings); }, NothingToValue});
}

Napi::Value RelayWrap::Apply(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(
      info, {Parameter::Records<OpRecord>("ops"), Parameter::Records<ServiceRecord>("services"),
             Parameter::Records<ListenerRecord>("listeners"), Parameter::Records<EndpointRecord>("endpoints"),
             Parameter::Records<NetworkRecord>("ranges")});
  const Batch batch{arguments.Records<OpRecord>(0), arguments.Records<ServiceRecord>(1),
                    arguments.Records<ListenerRecord>(2), arguments.Records<EndpointRecord>(3),
                    arguments.Records<NetworkRecord>(4)};
  CheckEach(info.Env(), "endpoints", batch.endpoints,
            [](const EndpointRecord& endpoint) { return IsFamily(endpoint.family) && endpoint.port != 0; });
  CheckEach(info.Env(), "ranges", batch.ranges, IsNetwork);
  CheckEach(info.Env(), "ops", batch.ops, [&](const OpRecord& op) { return IsValid(batch, op); });
  return slot.Fly<BatchOutcome>(info, {[batch](Relay& relay) { return relay.Apply(batch); }, OutcomeToValue});
}

Napi::Value RelayWrap::Flows(const Napi::CallbackInfo& info) {
  return Slot(info).Fly<std::vector<FlowRecord>>(
      info, {[](Relay& relay) { return relay.ListFlows(); }, RecordsToValue<FlowRecord>});
}

Napi::Value RelayWrap::Counters(const Napi::CallbackInfo& info) {
  std::vector<CountersRecord> counters;
  Slot(info).Hurry([&](Relay& relay) { counters.push_back(relay.ReadCounters()); });
  if (counters.empty()) throw MakeError(info.Env(), {EBADF, "use a closed socket", {}});
  return RecordsToValue(info.Env(), std::move(counters));
}

Napi::Value RelayWrap::Conditions(const Napi::CallbackInfo& info) {
  Napi::Value result = info.Env().Undefined();
  Slot(info).Hurry([&](Relay& relay) {
    const relay::Conditions conditions = relay.ReadConditions();
    auto object = Napi::Object::New(info.Env());
    object.Set("hasFewDescriptors", Napi::Boolean::New(info.Env(), conditions.has_few_descriptors));
    object.Set("hasFewUdpPorts", Napi::Boolean::New(info.Env(), conditions.has_few_udp_ports));
    object.Set("hasFewTcpPorts", Napi::Boolean::New(info.Env(), conditions.has_few_tcp_ports));
    object.Set("hasTakenPort", Napi::Boolean::New(info.Env(), conditions.has_taken_port));
    object.Set("hasLoop", Napi::Boolean::New(info.Env(), conditions.has_loop));
    object.Set("hasSpentHops", Napi::Boolean::New(info.Env(), conditions.has_spent_hops));
    object.Set("descriptorLimit", Napi::Number::New(info.Env(), conditions.descriptor_limit));
    object.Set("udpPortLimit", Napi::Number::New(info.Env(), conditions.udp_port_limit));
    result = object;
  });
  return result;
}

Napi::Value RelayWrap::Close(const Napi::CallbackInfo& info) { return Slot(info).Close(info.Env()); }

}  // namespace viaduct::binding
