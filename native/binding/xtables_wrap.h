#pragma once

#include <napi.h>

#include "binding/socket_wrap.h"
#include "xtables/xtables_table.h"

namespace viaduct::binding {

/// XtablesTable of src/kernel/addon.ts.
class XtablesWrap : public SocketWrap<XtablesWrap, xtables::XtablesTable> {
 public:
  static constexpr napi_type_tag kTag = {0x3b6d0c5ea91f4728, 0xb7f2186ce05d439a};
  static Napi::Function Define(Napi::Env env);
  explicit XtablesWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value Load(const Napi::CallbackInfo& info);
  Napi::Value Stage(const Napi::CallbackInfo& info);
  Napi::Value Apply(const Napi::CallbackInfo& info);
  Napi::Value Refusals(const Napi::CallbackInfo& info);
  Napi::Value Check(const Napi::CallbackInfo& info);
  Napi::Value Compare(const Napi::CallbackInfo& info);
  Napi::Value Chains(const Napi::CallbackInfo& info);
  Napi::Value List(const Napi::CallbackInfo& info);
  Napi::Value ListReached(const Napi::CallbackInfo& info);
  Napi::Value Barrier(const Napi::CallbackInfo& info);
  Napi::Value MarkUses(const Napi::CallbackInfo& info);
  Napi::Value Packets(const Napi::CallbackInfo& info);
  void Hurry(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
  /// Calls `act` with the first three arguments.
  Napi::Value WithBatch(const Napi::CallbackInfo& info,
                        Status (*act)(xtables::XtablesTable&, const xtables::Batch&));
};

}  // namespace viaduct::binding
