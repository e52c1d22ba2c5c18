#pragma once

#include <napi.h>

#include <optional>
#include <thread>
#include <vector>

#include "route/route_events.h"

namespace viaduct::binding {

/// RouteEvents of src/kernel/addon.ts. A wait has a thread of its own: it may last for days, which no thread
/// of libuv's pool is for, and Node ends the pool before anybody could end the wait.
class RouteEventsWrap : public Napi::ObjectWrap<RouteEventsWrap> {
 public:
  static constexpr napi_type_tag kTag = {0xc4b86f02d1e74f97, 0x6e3a50d8b91c4227};
  static Napi::Function Define(Napi::Env env);
  explicit RouteEventsWrap(const Napi::CallbackInfo& info);
  ~RouteEventsWrap() override;

 private:
  using Events = std::vector<route::EventRecord>;
  struct Wait {
    Napi::ObjectReference self;
    Napi::Promise::Deferred promise;
    Napi::ThreadSafeFunction back;
    std::thread thread;
    Result<Events> result = Error{};
  };

  Napi::Value Next(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
  static void CheckReceiver(const Napi::CallbackInfo& info);
  /// On the JavaScript thread, with what the wait brought.
  void Land(Napi::Env env);
  /// Where nobody can be told any more.
  static void AbandonWait(void* self);

  std::optional<route::RouteEvents> events_;
  std::optional<Wait> wait_;
  bool is_closing_ = false;
  std::vector<Napi::Promise::Deferred> closers_;  ///< promises of close() that wait for the wait
  napi_env env_;
};

}  // namespace viaduct::binding
