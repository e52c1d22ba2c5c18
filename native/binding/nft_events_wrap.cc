#include "binding/nft_events_wrap.h"

#include <chrono>
#include <vector>

#include "binding/arguments.h"

namespace viaduct::binding {

using nftables::NftEvents;

namespace {

constexpr uint32_t kLongestWaitMs = 3'600'000;

Result<NftEvents> OpenEvents(const Napi::CallbackInfo& info) {
  const Arguments arguments(info, {Parameter::U32("ownPort")});
  return NftEvents::Open(arguments.U32(0));
}

}  // namespace

Napi::Function NftEventsWrap::Define(Napi::Env env) {
  return DefineClass(
      env, "NftEvents",
      {InstanceMethod<&NftEventsWrap::Next>("next"), InstanceMethod<&NftEventsWrap::Close>("close")});
}

NftEventsWrap::NftEventsWrap(const Napi::CallbackInfo& info) : SocketWrap(info, OpenEvents(info)) {}

Napi::Value NftEventsWrap::Next(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::U32("longestMs", kLongestWaitMs)});
  const std::chrono::milliseconds longest(arguments.U32(0));
  return slot.Fly<std::vector<uint8_t>>(
      info, {[longest](NftEvents& events) { return events.Next(longest); }, RecordsToValue<uint8_t>});
}

Napi::Value NftEventsWrap::Close(const Napi::CallbackInfo& info) {
  return Slot(info).Close(info.Env(), [](NftEvents& events) { events.Wake(); });
}

}  // namespace viaduct::binding
