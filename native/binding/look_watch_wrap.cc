#include "binding/look_watch_wrap.h"

#include <linux/netfilter/ipset/ip_set.h>

#include <chrono>

#include "binding/arguments.h"

namespace viaduct::binding {

using ipvs::VirtualServerRecord;
using look::Finding;
using look::LookWatch;

namespace {

// One hour: a larger value is probably not in milliseconds.
constexpr uint32_t kLongestWaitMs = 3'600'000;

Result<LookWatch> OpenWatch(const Napi::CallbackInfo& info) {
  const auto families_parameter = Parameter::Records<uint8_t>("families");
  const auto period = Parameter::U32("periodMs", kLongestWaitMs);
  const bool has_sets = info.Length() > 2;
  const Arguments arguments =
      has_sets
          ? Arguments(info, {families_parameter, period, Parameter::Text("setPrefix", IPSET_MAXNAMELEN - 1),
                             Parameter::U32("setsShare")})
          : Arguments(info, {families_parameter, period});
  const auto families = arguments.Records<uint8_t>(0);
  for (const uint8_t family : families) CheckFamily(info.Env(), family);
  look::WatchOptions options{.families = families, .period = std::chrono::milliseconds(arguments.U32(1))};
  if (has_sets) options.sets = look::WatchedSets{arguments.Text(2), arguments.U32(3)};
  return LookWatch::Open(options);
}

Napi::Value FindingToValue(Napi::Env env, Finding&& found) {
  auto result = Napi::Object::New(env);
  result.Set("isOther", Napi::Boolean::New(env, found.is_other));
  result.Set("isUnlocked", Napi::Boolean::New(env, found.is_unlocked));
  return result;
}

}  // namespace

Napi::Function LookWatchWrap::Define(Napi::Env env) {
  return DefineClass(
      env, "LookWatch",
      {InstanceMethod<&LookWatchWrap::Next>("next"), InstanceMethod<&LookWatchWrap::Close>("close")});
}

LookWatchWrap::LookWatchWrap(const Napi::CallbackInfo& info) : SocketWrap(info, OpenWatch(info)) {}

Napi::Value LookWatchWrap::Next(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(
      info, {Parameter::Records<VirtualServerRecord>("sample"), Parameter::U32("longestMs", kLongestWaitMs)});
  const auto sample = arguments.Records<VirtualServerRecord>(0);
  const std::chrono::milliseconds longest(arguments.U32(1));
  return slot.Fly<Finding>(
      info, {[sample, longest](LookWatch& watch) { return watch.Next(sample, longest); }, FindingToValue});
}

Napi::Value LookWatchWrap::Close(const Napi::CallbackInfo& info) {
  return Slot(info).Close(info.Env(), [](LookWatch& watch) { watch.Wake(); });
}

}  // namespace viaduct::binding
