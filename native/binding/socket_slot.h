#pragma once

#include <napi.h>

#include <cerrno>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binding/batch_worker.h"
#include "binding/values.h"
#include "core/result.h"

namespace viaduct::binding {

/// The lifetime of a native socket behind a JavaScript handle: at most one call in flight, and a close that
/// waits for it. Only the JavaScript thread uses the slot; only the call in flight uses the socket.
template <typename Socket>
class SocketSlot {
 public:
  /// Throws MakeError() if the socket could not be opened.
  SocketSlot(Napi::Env env, Result<Socket> socket) {
    if (!socket.ok()) throw MakeError(env, socket.error());
    socket_.emplace(std::move(socket.value()));
  }

  template <typename T>
  struct Flight {
    std::function<Result<T>(Socket&)> work;
    std::function<Napi::Value(Napi::Env, T&&)> to_value;
  };

  /// Starts a call. Throws EBADF after close(), EBUSY while another is in flight.
  template <typename T>
  Napi::Value Fly(const Napi::CallbackInfo& info, Flight<T> flight) {
    if (is_closing_ || !socket_) throw MakeError(info.Env(), {EBADF, "use a closed socket", {}});
    if (is_flying_) throw MakeError(info.Env(), {EBUSY, "start a second call", {}});
    const Napi::Value promise =
        BatchWorker<T>::Start(info, {[this, work = std::move(flight.work)] { return work(*socket_); },
                                     std::move(flight.to_value), [this](Napi::Env env) { Land(env); }});
    is_flying_ = true;
    return promise;
  }

  /// Lets `hurry` use the socket during the call in flight, to shorten that call. Does nothing if the socket
  /// is closed.
  void Hurry(const std::function<void(Socket&)>& hurry) {
    if (socket_) hurry(*socket_);
  }

  /// A promise that resolves when the socket is closed: at once, or after the call in flight. `hurry`
  /// shortens that call.
  Napi::Value Close(Napi::Env env, const std::function<void(Socket&)>& hurry = {}) {
    is_closing_ = true;
    napi_deferred closed = nullptr;
    napi_value promise = nullptr;
    if (napi_create_promise(env, &closed, &promise) != napi_ok) throw Napi::Error::New(env);
    if (is_flying_) {
      closers_.push_back(closed);
      if (hurry) hurry(*socket_);
    } else {
      socket_.reset();
      (void)napi_resolve_deferred(env, closed, env.Undefined());
    }
    return {env, promise};
  }

 private:
  void Land(Napi::Env env) {
    is_flying_ = false;
    if (!is_closing_) return;
    socket_.reset();
    // Resolving fails while the environment is torn down. No code waits for the promises then.
    for (napi_deferred closed : std::exchange(closers_, {}))
      (void)napi_resolve_deferred(env, closed, env.Undefined());
  }

  std::optional<Socket> socket_;
  bool is_flying_ = false;
  bool is_closing_ = false;
  std::vector<napi_deferred> closers_;  ///< promises of close() that wait for the call in flight
};

}  // namespace viaduct::binding
