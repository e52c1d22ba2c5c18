#include "binding/xtables_wrap.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binding/arguments.h"
#include "binding/values.h"

namespace viaduct::binding {

namespace {

using xtables::ChainRecord;
using xtables::RuleRecord;
using xtables::XtablesTable;

// One hour: a larger value is probably not in milliseconds.
constexpr uint32_t kLongestWaitMs = 3'600'000;

Result<XtablesTable> OpenTable(const Napi::CallbackInfo& info) {
  const Arguments arguments(info,
                            {Parameter::U32("family"), Parameter::Text("table", XT_TABLE_MAXNAMELEN - 1)});
  return XtablesTable::Open(CheckFamily(info.Env(), arguments.U32(0)), arguments.Text(1));
}

/// The first three arguments. The core does not check the ranges of rules.
xtables::Batch BatchOf(Napi::Env env, const Arguments& arguments) {
  const xtables::Batch batch{arguments.Records<ChainRecord>(0), arguments.Records<RuleRecord>(1),
                             arguments.Records<uint8_t>(2)};
  for (size_t i = 0; i < batch.ops.size(); ++i) {
    const ChainRecord& op = batch.ops[i];
    if (op.first_rule <= batch.rules.size() && op.rule_count <= batch.rules.size() - op.first_rule) continue;
    throw Napi::RangeError::New(env, "chains: record " + std::to_string(i) + " points outside the rules");
  }
  return batch;
}

std::vector<std::string> ToStrings(std::span<const uint8_t> texts) {
  std::vector<std::string> strings;
  const xtables::Texts views(texts);
  for (uint32_t i = 0; i < views.size(); ++i) strings.emplace_back(*views.At(i));
  return strings;
}

Napi::Value ToArray(Napi::Env env, const std::vector<std::string>& texts) {
  auto array = Napi::Array::New(env, texts.size());
  for (uint32_t i = 0; i < texts.size(); ++i) array.Set(i, Napi::String::New(env, texts[i]));
  return array;
}

Napi::Value DriftToValue(Napi::Env env, xtables::Drift&& drift) {
  auto result = Napi::Object::New(env);
  result.Set("missing", ToArray(env, drift.missing));
  result.Set("changed", ToArray(env, drift.changed));
  return result;
}

Napi::Value XtOutcomeToValue(Napi::Env env, xtables::Outcome&& outcome) {
  auto result = Napi::Object::New(env);
  result.Set("isWritten", Napi::Boolean::New(env, outcome.is_written));
  result.Set("entries", Napi::Number::New(env, outcome.entries));
  result.Set("bytes", Napi::Number::New(env, outcome.bytes));
  result.Set("repeats", Napi::Number::New(env, outcome.repeats));
  result.Set("lockWaitMs", Napi::Number::New(env, static_cast<double>(outcome.lock_wait.count())));
  auto kept = Napi::Array::New(env, outcome.kept.size());
  for (uint32_t i = 0; i < outcome.kept.size(); ++i) {
    auto chain = Napi::Object::New(env);
    chain.Set("chain", outcome.kept[i].chain);
    chain.Set("by", outcome.kept[i].by);
    kept.Set(i, chain);
  }
  result.Set("kept", kept);
  result.Set("repaired", DriftToValue(env, std::move(outcome.repaired)));
  return result;
}

Napi::Value RefusalsToValue(Napi::Env env, std::vector<xtables::Refusal>&& refusals) {
  auto result = Napi::Array::New(env, refusals.size());
  for (uint32_t i = 0; i < refusals.size(); ++i) {
    auto refusal = Napi::Object::New(env);
    refusal.Set("chain", refusals[i].chain);
    refusal.Set("rule", refusals[i].rule);
    refusal.Set("error", MakeError(env, refusals[i].error).Value());
    result.Set(i, refusal);
  }
  return result;
}

Napi::Value ChainsToValue(Napi::Env env, xtables::Chains&& chains) {
  auto rules = Napi::Uint32Array::New(env, chains.rules.size());
  std::copy(chains.rules.begin(), chains.rules.end(), rules.Data());
  auto result = Napi::Object::New(env);
  result.Set("names", ToArray(env, chains.names));
  result.Set("rules", rules);
  return result;
}

Napi::Value ListingToValue(Napi::Env env, xtables::Listing&& listing) {
  auto chains = Napi::Array::New(env, listing.chains.size());
  for (uint32_t i = 0; i < listing.chains.size(); ++i) {
    auto chain = Napi::Object::New(env);
    chain.Set("name", listing.chains[i].name);
    chain.Set("isBuiltIn", listing.chains[i].is_built_in);
    chain.Set("drops", listing.chains[i].drops);
    chain.Set("rules", Napi::Number::New(env, listing.chains[i].rules));
    chain.Set("last", Napi::Number::New(env, listing.chains[i].last));
    chains.Set(i, chain);
  }
  auto bytes = Napi::Uint8Array::New(env, listing.bytes.size());
  std::copy(listing.bytes.begin(), listing.bytes.end(), bytes.Data());
  auto result = Napi::Object::New(env);
  result.Set("chains", chains);
  result.Set("bytes", bytes);
  return result;
}

/// undefined: none.
Napi::Value BarrierToValue(Napi::Env env, std::optional<xtables::Barrier>&& barrier) {
  if (!barrier) return env.Undefined();
  auto result = Napi::Object::New(env);
  result.Set("rule", Napi::Number::New(env, barrier->rule));
  result.Set("isPolicy", Napi::Boolean::New(env, barrier->is_policy));
  return result;
}

Napi::Value MarkUsesToValue(Napi::Env env, std::vector<xtables::MarkUse>&& uses) {
  auto result = Napi::Array::New(env, uses.size());
  for (uint32_t i = 0; i < uses.size(); ++i) {
    auto use = Napi::Object::New(env);
    use.Set("chain", Napi::String::New(env, uses[i].chain));
    use.Set("rule", Napi::Number::New(env, uses[i].rule));
    use.Set("isSet", Napi::Boolean::New(env, uses[i].is_set));
    use.Set("bits", Napi::Number::New(env, uses[i].bits));
    result.Set(i, use);
  }
  return result;
}

/// For each chain the number of its rules, then their packets. As doubles, exact up to 2^53 packets. One
/// array, because an array for each of 10,000 chains takes time.
Napi::Value PacketsToValue(Napi::Env env, std::vector<xtables::Packets>&& chains) {
  size_t size = chains.size();
  for (const auto& packets : chains) size += packets.size();
  auto result = Napi::Float64Array::New(env, size);
  double* next = result.Data();
  for (const auto& packets : chains) {
    *next++ = static_cast<double>(packets.size());
    next = std::copy(packets.begin(), packets.end(), next);
  }
  return result;
}

}  // namespace

Napi::Function XtablesWrap::Define(Napi::Env env) {
  return DefineClass(
      env, "XtablesTable",
      {InstanceMethod<&XtablesWrap::Load>("load"), InstanceMethod<&XtablesWrap::Stage>("stage"),
       InstanceMethod<&XtablesWrap::Apply>("apply"), InstanceMethod<&XtablesWrap::Refusals>("refusals"),
       InstanceMethod<&XtablesWrap::Check>("check"), InstanceMethod<&XtablesWrap::Compare>("compare"),
       InstanceMethod<&XtablesWrap::Chains>("chains"), InstanceMethod<&XtablesWrap::List>("list"),
       InstanceMethod<&XtablesWrap::ListReached>("listReached"),
       InstanceMethod<&XtablesWrap::Barrier>("barrier"), InstanceMethod<&XtablesWrap::MarkUses>("markUses"),
       InstanceMethod<&XtablesWrap::Packets>("packets"), InstanceMethod<&XtablesWrap::Hurry>("hurry"),
       InstanceMethod<&XtablesWrap::Close>("close")});
}

XtablesWrap::XtablesWrap(const Napi::CallbackInfo& info) : SocketWrap(info, OpenTable(info)) {}

Napi::Value XtablesWrap::Load(const Napi::CallbackInfo& info) {
  return WithBatch(info, [](XtablesTable& table, const xtables::Batch& batch) {
    table.Load(batch);
    return Ok();
  });
}

Napi::Value XtablesWrap::Stage(const Napi::CallbackInfo& info) {
  return WithBatch(info, [](XtablesTable& table, const xtables::Batch& batch) { return table.Stage(batch); });
}

Napi::Value XtablesWrap::WithBatch(const Napi::CallbackInfo& info,
                                   Status (*act)(XtablesTable&, const xtables::Batch&)) {
  auto& slot = Slot(info);
  const Arguments arguments(
      info, {Parameter::Records<ChainRecord>("chains"), Parameter::Records<RuleRecord>("rules"),
             Parameter::Records<uint8_t>("texts")});
  const xtables::Batch batch = BatchOf(info.Env(), arguments);
  return slot.Fly<std::monostate>(
      info, {[batch, act](XtablesTable& table) -> Result<std::monostate> {
               Status status = act(table, batch);
               if (!status.ok()) return status.error();
               return std::monostate();
             },
             [](Napi::Env env, std::monostate&&) -> Napi::Value { return env.Undefined(); }});
}

Napi::Value XtablesWrap::Apply(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(
      info, {Parameter::Records<ChainRecord>("chains"), Parameter::Records<RuleRecord>("rules"),
             Parameter::Records<uint8_t>("texts"), Parameter::Records<uint8_t>("prune"),
             Parameter::U32("lockTimeoutMs", kLongestWaitMs)});
  const xtables::Batch batch = BatchOf(info.Env(), arguments);
  const std::chrono::milliseconds timeout(arguments.U32(4));
  return slot.Fly<xtables::Outcome>(
      info, {[batch, prune = ToStrings(arguments.Records<uint8_t>(3)), timeout](XtablesTable& table) {
               return table.Apply(batch, prune, timeout);
             },
             XtOutcomeToValue});
}

Napi::Value XtablesWrap::Refusals(const Napi::CallbackInfo& info) {
  return Slot(info).Fly<std::vector<xtables::Refusal>>(
      info, {[](XtablesTable& table) { return table.FindRefusals(); }, RefusalsToValue});
}

Napi::Value XtablesWrap::Check(const Napi::CallbackInfo& info) {
  return Slot(info).Fly<bool>(
      info, {[](XtablesTable& table) { return table.Check(); },
             [](Napi::Env env, bool&& is_same) -> Napi::Value { return Napi::Boolean::New(env, is_same); }});
}

Napi::Value XtablesWrap::Compare(const Napi::CallbackInfo& info) {
  return Slot(info).Fly<xtables::Drift>(info,
                                        {[](XtablesTable& table) { return table.Compare(); }, DriftToValue});
}

Napi::Value XtablesWrap::Chains(const Napi::CallbackInfo& info) {
  return Slot(info).Fly<xtables::Chains>(
      info, {[](XtablesTable& table) { return table.ListChains(); }, ChainsToValue});
}

Napi::Value XtablesWrap::List(const Napi::CallbackInfo& info) {
  return Slot(info).Fly<xtables::Listing>(info,
                                          {[](XtablesTable& table) { return table.List(); }, ListingToValue});
}

Napi::Value XtablesWrap::ListReached(const Napi::CallbackInfo& info) {
  return Slot(info).Fly<xtables::Listing>(
      info, {[](XtablesTable& table) { return table.ListReached(); }, ListingToValue});
}

Napi::Value XtablesWrap::Barrier(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::Text("hook", XT_TABLE_MAXNAMELEN - 1)});
  return slot.Fly<std::optional<xtables::Barrier>>(
      info,
      {[hook = arguments.Text(0)](XtablesTable& table) { return table.FindBarrier(hook); }, BarrierToValue});
}

Napi::Value XtablesWrap::MarkUses(const Napi::CallbackInfo& info) {
  return Slot(info).Fly<std::vector<xtables::MarkUse>>(
      info, {[](XtablesTable& table) { return table.FindMarkUses(); }, MarkUsesToValue});
}

Napi::Value XtablesWrap::Packets(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::Records<uint8_t>("chains")});
  return slot.Fly<std::vector<xtables::Packets>>(
      info, {[chains = ToStrings(arguments.Records<uint8_t>(0))](XtablesTable& table) {
               return table.CountPackets(chains);
             },
             PacketsToValue});
}

void XtablesWrap::Hurry(const Napi::CallbackInfo& info) {
  Slot(info).Hurry([](XtablesTable& table) { table.Hurry(); });
}

Napi::Value XtablesWrap::Close(const Napi::CallbackInfo& info) { return Slot(info).Close(info.Env()); }

}  // namespace viaduct::binding
