#include "binding/kernel_look_wrap.h"

#include <vector>

#include "binding/arguments.h"

namespace viaduct::binding {

using look::KernelLook;

namespace {

Result<KernelLook> OpenLook(const Napi::CallbackInfo& info) {
  const Arguments arguments(info, {Parameter::Records<uint8_t>("families")});
  const auto families = arguments.Records<uint8_t>(0);
  for (const uint8_t family : families) CheckFamily(info.Env(), family);
  return KernelLook::Open(families, look::Scope::kIpvs);
}

}  // namespace

Napi::Function KernelLookWrap::Define(Napi::Env env) {
  return DefineClass(
      env, "KernelLook",
      {InstanceMethod<&KernelLookWrap::Take>("take"), InstanceMethod<&KernelLookWrap::Close>("close")});
}

KernelLookWrap::KernelLookWrap(const Napi::CallbackInfo& info) : SocketWrap(info, OpenLook(info)) {}

Napi::Value KernelLookWrap::Take(const Napi::CallbackInfo& info) {
  return Slot(info).Fly<std::vector<uint8_t>>(
      info, {[](KernelLook& look) -> Result<std::vector<uint8_t>> { return look.Take(); },
             RecordsToValue<uint8_t>});
}

Napi::Value KernelLookWrap::Close(const Napi::CallbackInfo& info) { return Slot(info).Close(info.Env()); }

}  // namespace viaduct::binding
