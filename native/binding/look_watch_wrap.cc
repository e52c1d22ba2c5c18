#include "binding/look_watch_wrap.h"

#include <linux/netfilter/ipset/ip_set.h>

#include <chrono>
#include <optional>

#include "binding/arguments.h"

namespace viaduct::binding {

using ipvs::VirtualServerRecord;
using look::LookWatch;

namespace {

// An hour: who wants to wait longer has lost the unit.
constexpr uint32_t kLongestWaitMs = 3'600'000;

Result<LookWatch> OpenWatch(const Napi::CallbackInfo& info) {
  const auto families_parameter = Parameter::Records<uint8_t>("families");
  const bool has_prefix = info.Length() > 1;
  const Arguments arguments =
      has_prefix ? Arguments(info, {families_parameter, Parameter::Text("setPrefix", IPSET_MAXNAMELEN - 1)})
                 : Arguments(info, {families_parameter});
  const auto families = arguments.Records<uint8_t>(0);
  for (const uint8_t family : families) CheckFamily(info.Env(), family);
  return LookWatch::Open(families, has_prefix ? std::optional(arguments.Text(1)) : std::nullopt);
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
  return slot.Fly<bool>(info, {[sample, longest](LookWatch& watch) { return watch.Next(sample, longest); },
                               [](Napi::Env env, bool&& is_other) -> Napi::Value {
                                 return Napi::Boolean::New(env, is_other);
                               }});
}

Napi::Value LookWatchWrap::Close(const Napi::CallbackInfo& info) {
  return Slot(info).Close(info.Env(), [](LookWatch& watch) { watch.Wake(); });
}

}  // namespace viaduct::binding
