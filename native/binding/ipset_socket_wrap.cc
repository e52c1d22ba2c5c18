#include "binding/ipset_socket_wrap.h"

#include <linux/netfilter/ipset/ip_set.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "binding/arguments.h"
#include "ipset/set_type.h"

namespace viaduct::binding {

namespace {

using ipset::Batch;
using ipset::EntryRecord;
using ipset::IpsetSocket;
using ipset::Op;
using ipset::OpRecord;
using ipset::SetRecord;

bool IsName(const char (&name)[IPSET_MAXNAMELEN]) { return name[0] != '\0' && name[sizeof name - 1] == '\0'; }

/// nullptr: a type that Viaduct cannot create or fill.
const ipset::SetType* TypeOf(const SetRecord& set) {
  return ipset::FindSetType({set.type, strnlen(set.type, sizeof set.type)});
}

bool NamesOtherSet(Op op) { return op == Op::kSwapSets || op == Op::kRenameSet; }

bool IsInRange(const Batch& batch, const OpRecord& record) {
  if (record.op < Op::kCreateSet || record.op > Op::kDeleteEntry || record.set >= batch.sets.size())
    return false;
  if (ipset::IsEntryOp(record.op)) return record.object < batch.entries.size();
  return !NamesOtherSet(record.op) || record.object < batch.sets.size();
}

/// The core does not check types, families and comment offsets.
bool IsFitting(const Batch& batch, const OpRecord& record) {
  if (record.op != Op::kCreateSet && !ipset::IsEntryOp(record.op)) return true;
  const SetRecord& set = batch.sets[record.set];
  const ipset::SetType* type = TypeOf(set);
  if (type == nullptr || (set.family != AF_INET && set.family != AF_INET6)) return false;
  if (record.op == Op::kCreateSet) return true;
  const EntryRecord& entry = batch.entries[record.object];
  const size_t texts = batch.texts.size();
  return entry.family == (ipset::IsBitmap(*type) ? 0 : set.family) && entry.comment_offset <= texts &&
         entry.comment_length <= texts - entry.comment_offset;
}

void CheckNames(Napi::Env env, const char* parameter, std::span<const SetRecord> sets) {
  for (size_t i = 0; i < sets.size(); ++i)
    if (!IsName(sets[i].name))
      throw Napi::RangeError::New(env,
                                  std::string(parameter) + ": record " + std::to_string(i) + " has no name");
}

void CheckBatch(Napi::Env env, const Batch& batch) {
  CheckNames(env, "sets", batch.sets);
  for (size_t i = 0; i < batch.ops.size(); ++i) {
    const bool is_in_range = IsInRange(batch, batch.ops[i]);
    if (is_in_range && IsFitting(batch, batch.ops[i])) continue;
    const char* problem = is_in_range ? " is of another type or family" : " points outside the tables";
    throw Napi::RangeError::New(env, "ops: record " + std::to_string(i) + problem);
  }
}

}  // namespace

Napi::Function IpsetSocketWrap::Define(Napi::Env env) {
  return DefineClass(env, "IpsetSocket",
                     {InstanceMethod<&IpsetSocketWrap::Apply>("apply"),
                      InstanceMethod<&IpsetSocketWrap::ListSets>("listSets"),
                      InstanceMethod<&IpsetSocketWrap::ListEntries>("listEntries"),
                      InstanceMethod<&IpsetSocketWrap::FindIndex>("findIndex"),
                      InstanceMethod<&IpsetSocketWrap::Close>("close")});
}

IpsetSocketWrap::IpsetSocketWrap(const Napi::CallbackInfo& info) : SocketWrap(info, IpsetSocket::Open()) {}

Napi::Value IpsetSocketWrap::Apply(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(
      info, {Parameter::Records<OpRecord>("ops"), Parameter::Records<SetRecord>("sets"),
             Parameter::Records<EntryRecord>("entries"), Parameter::Records<uint8_t>("texts")});
  const Batch batch{arguments.Records<OpRecord>(0), arguments.Records<SetRecord>(1),
                    arguments.Records<EntryRecord>(2), arguments.Records<uint8_t>(3)};
  CheckBatch(info.Env(), batch);
  return slot.Fly<BatchOutcome>(
      info, {[batch](IpsetSocket& socket) { return socket.Apply(batch); }, OutcomeToValue});
}

Napi::Value IpsetSocketWrap::ListSets(const Napi::CallbackInfo& info) {
  return Slot(info).Fly<std::vector<SetRecord>>(
      info, {[](IpsetSocket& socket) { return socket.ListSets(); }, RecordsToValue<SetRecord>});
}

Napi::Value IpsetSocketWrap::ListEntries(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::Text("name", IPSET_MAXNAMELEN - 1)});
  const std::string name = arguments.Text(0);
  return slot.Fly<std::vector<EntryRecord>>(
      info, {[name](IpsetSocket& socket) { return socket.ListEntries(name); }, RecordsToValue<EntryRecord>});
}

Napi::Value IpsetSocketWrap::FindIndex(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::U32("family"), Parameter::Text("name", IPSET_MAXNAMELEN - 1)});
  const uint8_t family = CheckFamily(info.Env(), arguments.U32(0));
  const std::string name = arguments.Text(1);
  return slot.Fly<uint16_t>(info,
                            {[family, name](IpsetSocket& socket) { return socket.FindIndex(family, name); },
                             [](Napi::Env env, uint16_t&& index) { return Napi::Number::New(env, index); }});
}

Napi::Value IpsetSocketWrap::Close(const Napi::CallbackInfo& info) { return Slot(info).Close(info.Env()); }

}  // namespace viaduct::binding
