#pragma once

#include <napi.h>

#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "binding/values.h"
#include "core/result.h"

namespace viaduct::binding {

/// One call on libuv's pool and the promise that it settles. Deletes itself (AsyncWorker).
/// NB: `work` runs off the JavaScript thread and must not touch a Napi:: type. All other code runs on the
/// JavaScript thread.
template <typename T>
class BatchWorker : public Napi::AsyncWorker {
 public:
  struct Call {
    std::function<Result<T>()> work;
    std::function<Napi::Value(Napi::Env, T&&)> to_value;
    std::function<void(Napi::Env)> after;  ///< after the promise is settled or can no longer be settled
  };

  /// References the receiver and every argument of the call until the end, so that `work` can read their
  /// memory.
  static Napi::Value Start(const Napi::CallbackInfo& info, Call call) {
    std::unique_ptr<BatchWorker> worker(new BatchWorker(info, std::move(call)));
    const Napi::Value promise = worker->deferred_.Promise();
    worker->Queue();
    (void)worker.release();
    return promise;  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): the worker deletes itself
  }

 protected:
  void Execute() override { result_ = call_.work(); }

  void OnOK() override {
    Settle([&] {
      if (!result_.ok()) {
        deferred_.Reject(MakeError(Env(), result_.error()).Value());
        return;
      }
      // NB: not around Resolve(), which consumes the deferred even if it throws.
      Napi::Value value;
      try {
        value = call_.to_value(Env(), std::move(result_.value()));
      } catch (const Napi::Error& error) {
        deferred_.Reject(error.Value());
        return;
      } catch (const std::exception& error) {
        deferred_.Reject(Napi::Error::New(Env(), error.what()).Value());
        return;
      }
      deferred_.Resolve(value);
    });
  }

  /// `work` threw: bad_alloc, in practice.
  void OnError(const Napi::Error& error) override {
    Settle([&] { deferred_.Reject(error.Value()); });
  }

 private:
  /// Runs `after` even if settling fails, as in an environment that is torn down.
  template <typename Body>
  void Settle(Body body) {
    try {
      body();
    } catch (...) {
      call_.after(Env());
      throw;
    }
    call_.after(Env());
  }

  BatchWorker(const Napi::CallbackInfo& info, Call call)
      : Napi::AsyncWorker(info.Env(), "viaduct"),
        call_(std::move(call)),
        deferred_(Napi::Promise::Deferred::New(info.Env())) {
    Keep(info.This());
    for (size_t i = 0; i < info.Length(); ++i) Keep(info[i]);
  }

  void Keep(const Napi::Value& value) {
    if (value.IsObject()) kept_.push_back(Napi::Persistent(value.As<Napi::Object>()));
  }

  Call call_;
  Napi::Promise::Deferred deferred_;
  std::vector<Napi::ObjectReference> kept_;
  Result<T> result_ = Error{};
};

}  // namespace viaduct::binding
