#pragma once

#include <napi.h>

namespace viaduct::binding {

/// Size and field offsets of every record that crosses: {virtualServer: {size, address, ...}, ...}. Names as
/// in src/kernel/records.ts, which compares.
Napi::Object MakeLayout(Napi::Env env);

}  // namespace viaduct::binding
