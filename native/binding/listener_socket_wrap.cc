#include "binding/listener_socket_wrap.h"

#include <vector>

#include "binding/arguments.h"

namespace viaduct::binding {

using ports::ListenerRecord;
using ports::ListenerSocket;
using ports::PortRecord;

Napi::Function ListenerSocketWrap::Define(Napi::Env env) {
  return DefineClass(env, "ListenerSocket",
                     {InstanceMethod<&ListenerSocketWrap::Find>("find"),
                      InstanceMethod<&ListenerSocketWrap::Close>("close")});
}

ListenerSocketWrap::ListenerSocketWrap(const Napi::CallbackInfo& info)
    : SocketWrap(info, ListenerSocket::Open()) {}

Napi::Value ListenerSocketWrap::Find(const Napi::CallbackInfo& info) {
  auto& slot = Slot(info);
  const Arguments arguments(info, {Parameter::U32("family"), Parameter::Records<PortRecord>("ports")});
  const uint8_t family = CheckFamily(info.Env(), arguments.U32(0));
  const auto ports = arguments.Records<PortRecord>(1);
  return slot.Fly<std::vector<ListenerRecord>>(
      info, {[family, ports](ListenerSocket& socket) { return socket.Find(family, ports); },
             RecordsToValue<ListenerRecord>});
}

Napi::Value ListenerSocketWrap::Close(const Napi::CallbackInfo& info) { return Slot(info).Close(info.Env()); }

}  // namespace viaduct::binding
