#pragma once

#include <napi.h>

namespace viaduct::binding {

/// Sizes, field offsets and numbers of every native/*/record.h as this binary has them:
/// {ipvs: {virtualServerLayout: {size, address, ...}, opNumber: {...}, ...}, ...}, the exports of
/// src/kernel/*/layout.ts. src/kernel/layouts.ts compares them when it loads the addon.
Napi::Object MakeLayout(Napi::Env env);

}  // namespace viaduct::binding
