#include "binding/route_events_wrap.h"

#include <cerrno>
#include <utility>

#include "binding/values.h"

namespace viaduct::binding {

using route::RouteEvents;

Napi::Function RouteEventsWrap::Define(Napi::Env env) {
  return DefineClass(
      env, "RouteEvents",
      {InstanceMethod<&RouteEventsWrap::Next>("next"), InstanceMethod<&RouteEventsWrap::Close>("close")});
}

RouteEventsWrap::RouteEventsWrap(const Napi::CallbackInfo& info)
    : Napi::ObjectWrap<RouteEventsWrap>(info), env_(info.Env()) {
  auto events = RouteEvents::Open();
  if (!events.ok()) throw MakeError(info.Env(), events.error());
  events_.emplace(std::move(events.value()));
  info.This().As<Napi::Object>().TypeTag(&kTag);
  (void)napi_add_env_cleanup_hook(env_, AbandonWait, this);
}

RouteEventsWrap::~RouteEventsWrap() {
  AbandonWait(this);
  (void)napi_remove_env_cleanup_hook(env_, AbandonWait, this);
}

Napi::Value RouteEventsWrap::Next(const Napi::CallbackInfo& info) {
  CheckReceiver(info);
  const Napi::Env env = info.Env();
  if (is_closing_ || !events_) throw MakeError(env, {EBADF, "use a closed socket", {}});
  if (wait_) throw MakeError(env, {EBUSY, "start a second call", {}});
  wait_.emplace(Wait{.self = Napi::Persistent(info.This().As<Napi::Object>()),
                     .promise = Napi::Promise::Deferred::New(env),
                     .back = Napi::ThreadSafeFunction::New(env, Napi::Function(), "viaduct", 0, 1),
                     .thread = {}});
  const Napi::Promise promise = wait_->promise.Promise();
  wait_->thread = std::thread([this, &wait = *wait_] {
    wait.result = events_->Next();
    (void)wait.back.NonBlockingCall([this](Napi::Env back_env, Napi::Function) { Land(back_env); });
    (void)wait.back.Release();
  });
  return promise;
}

void RouteEventsWrap::Land(Napi::Env env) {
  wait_->thread.join();
  Wait wait = std::move(*wait_);
  wait_.reset();
  if (is_closing_) events_.reset();
  for (const auto& closed : std::exchange(closers_, {})) closed.Resolve(env.Undefined());
  if (wait.result.ok())
    wait.promise.Resolve(ToValue(env, std::move(wait.result.value())));
  else
    wait.promise.Reject(MakeError(env, wait.result.error()).Value());
}

Napi::Value RouteEventsWrap::Close(const Napi::CallbackInfo& info) {
  CheckReceiver(info);
  const auto closed = Napi::Promise::Deferred::New(info.Env());
  is_closing_ = true;
  if (wait_) {
    closers_.push_back(closed);
    events_->Wake();
  } else {
    events_.reset();
    closed.Resolve(info.Env().Undefined());
  }
  return closed.Promise();
}

void RouteEventsWrap::AbandonWait(void* self) {
  auto* wrap = static_cast<RouteEventsWrap*>(self);
  if (!wrap->wait_ || !wrap->wait_->thread.joinable()) return;
  wrap->events_->Wake();
  wrap->wait_->thread.join();
}

void RouteEventsWrap::CheckReceiver(const Napi::CallbackInfo& info) {
  if (!info.This().As<Napi::Object>().CheckTypeTag(&kTag))
    throw Napi::TypeError::New(info.Env(), "the receiver is of another class");
}

}  // namespace viaduct::binding
