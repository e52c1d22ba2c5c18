#include "binding/port_holder_wrap.h"

#include <netinet/in.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "binding/arguments.h"

namespace viaduct::binding {

namespace {

using ports::InheritedRecord;
using ports::Op;
using ports::PortHolder;
using ports::PortRecord;

/// Longest value of NOTIFY_SOCKET: a path of sockaddr_un.
constexpr size_t kLongestSocket = 108;

Result<PortHolder> MakeHolder(const Napi::CallbackInfo& info) {
  const bool has_store = info.Length() > 1;
  const auto inherited = Parameter::Records<InheritedRecord>("inherited");
  const Arguments arguments =
      has_store ? Arguments(info, {inherited, Parameter::Text("storeSocket", kLongestSocket)})
                : Arguments(info, {inherited});
  for (const InheritedRecord& record : arguments.Records<InheritedRecord>(0))
    if (record.fd > std::numeric_limits<int>::max() || record.number == std::numeric_limits<uint32_t>::max())
      throw Napi::RangeError::New(info.Env(), "inherited: a record has no such descriptor or number");
  return PortHolder(has_store ? arguments.Text(1) : std::string(), arguments.Records<InheritedRecord>(0));
}

/// The core does not check operation, family, protocol and port.
void CheckPorts(Napi::Env env, std::span<const PortRecord> records) {
  for (size_t i = 0; i < records.size(); ++i) {
    const PortRecord& record = records[i];
    const bool is_op = record.op == Op::kHold || record.op == Op::kRelease;
    const bool is_family = record.family == AF_INET || record.family == AF_INET6;
    const bool is_protocol =
        record.protocol == IPPROTO_TCP || record.protocol == IPPROTO_UDP || record.protocol == IPPROTO_SCTP;
    if (!is_op || !is_family || !is_protocol || record.port == 0)
      throw Napi::RangeError::New(
          env, "ports: record " + std::to_string(i) + " has no such operation, family, protocol or port");
  }
}

Napi::Value HoldOutcomeToValue(Napi::Env env, PortHolder::Outcome&& outcome) {
  auto result = ToValue(env, outcome.batch).As<Napi::Object>();
  result.Set("storeErrno", Napi::Number::New(env, outcome.store_error));
  return result;
}

}  // namespace

Napi::Function PortHolderWrap::Define(Napi::Env env) {
  return DefineClass(
      env, "PortHolder",
      {InstanceMethod<&PortHolderWrap::Apply>("apply"), InstanceMethod<&PortHolderWrap::List>("list"),
       InstanceMethod<&PortHolderWrap::Close>("close")});
}

PortHolderWrap::PortHolderWrap(const Napi::CallbackInfo& info) : SocketWrap(info, MakeHolder(info)) {}

Napi::Value PortHolderWrap::Apply(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::Records<PortRecord>("ports")});
  const auto records = arguments.Records<PortRecord>(0);
  CheckPorts(info.Env(), records);
  return slot.Fly<PortHolder::Outcome>(
      info, {[records](PortHolder& holder) { return holder.Apply(records); }, HoldOutcomeToValue});
}

Napi::Value PortHolderWrap::List(const Napi::CallbackInfo& info) {
  return Slot(info).Fly<std::vector<PortRecord>>(
      info, {[](PortHolder& holder) { return holder.List(); }, RecordsToValue<PortRecord>});
}

Napi::Value PortHolderWrap::Close(const Napi::CallbackInfo& info) { return Slot(info).Close(info.Env()); }

}  // namespace viaduct::binding
