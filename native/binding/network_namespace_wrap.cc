#include "binding/network_namespace_wrap.h"

#include <cerrno>

#include "binding/values.h"

namespace viaduct::binding {

using system::NetworkNamespace;

namespace {

/// Calls the function in the namespace. Throws what the function throws, after the return.
Napi::Value CallWithin(Napi::Env env, const NetworkNamespace& place, const Napi::Function& act) {
  const Status entered = place.Enter();
  if (!entered.ok()) throw MakeError(env, entered.error());
  napi_value result = nullptr;
  const napi_status status = napi_call_function(env, env.Undefined(), act, 0, nullptr, &result);
  const Status left = place.Leave();
  if (status != napi_ok) throw Napi::Error::New(env);
  if (!left.ok()) throw MakeError(env, left.error());
  return {env, result};
}

}  // namespace

Napi::Function NetworkNamespaceWrap::Define(Napi::Env env) {
  return DefineClass(env, "NetworkNamespace",
                     {InstanceMethod<&NetworkNamespaceWrap::Run>("run"),
                      InstanceMethod<&NetworkNamespaceWrap::Close>("close")});
}

NetworkNamespaceWrap::NetworkNamespaceWrap(const Napi::CallbackInfo& info)
    : SocketWrap(info, NetworkNamespace::Create()) {}

Napi::Value NetworkNamespaceWrap::Run(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  if (info.Length() < 1 || !info[0].IsFunction())
    throw Napi::TypeError::New(info.Env(), "act: a function is expected");
  const auto act = info[0].As<Napi::Function>();
  Napi::Value result;
  slot.Hurry([&](NetworkNamespace& place) { result = CallWithin(info.Env(), place, act); });
  if (result.IsEmpty()) throw MakeError(info.Env(), {EBADF, "use a closed network namespace", {}});
  return result;
}

Napi::Value NetworkNamespaceWrap::Close(const Napi::CallbackInfo& info) {
  return Slot(info).Close(info.Env());
}

}  // namespace viaduct::binding
