#pragma once

#include <napi.h>
#include <sys/socket.h>

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "binding/socket_slot.h"

namespace viaduct::binding {

/// A JavaScript class around one native socket. `Self` has a `static constexpr napi_type_tag kTag`, so that a
/// method never runs on another class's memory.
template <typename Self, typename Socket>
class SocketWrap : public Napi::ObjectWrap<Self> {
 protected:
  SocketWrap(const Napi::CallbackInfo& info, Result<Socket> socket)
      : Napi::ObjectWrap<Self>(info), slot_(info.Env(), std::move(socket)) {
    info.This().As<Napi::Object>().TypeTag(&Self::kTag);
  }

  /// The slot of the receiver. Throws TypeError if it is not a `Self`.
  SocketSlot<Socket>& Slot(const Napi::CallbackInfo& info) {
    if (!info.This().As<Napi::Object>().CheckTypeTag(&Self::kTag))
      throw Napi::TypeError::New(info.Env(), "the receiver is of another class");
    return slot_;
  }

  /// A call that returns records, a number, or nothing.
  template <typename Record>
  static Napi::Value RecordsToValue(Napi::Env env, std::vector<Record>&& records) {
    return ToValue(env, std::move(records));
  }
  static Napi::Value OutcomeToValue(Napi::Env env, BatchOutcome&& outcome) { return ToValue(env, outcome); }
  static Napi::Value NothingToValue(Napi::Env env, std::monostate&&) { return env.Undefined(); }

 private:
  SocketSlot<Socket> slot_;
};

/// AF_INET or AF_INET6 of a call. Throws RangeError.
inline uint8_t CheckFamily(Napi::Env env, uint32_t family) {
  if (family != AF_INET && family != AF_INET6)
    throw Napi::RangeError::New(env, "family: AF_INET (2) or AF_INET6 (10) is expected");
  return static_cast<uint8_t>(family);
}

}  // namespace viaduct::binding
