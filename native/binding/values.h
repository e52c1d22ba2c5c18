#pragma once

#include <napi.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/outcome.h"
#include "core/result.h"

namespace viaduct::binding {

/// A JavaScript Error with the `errno`, `operation` and `text` of the native one.
Napi::Error MakeError(Napi::Env env, const Error& error);

/// RawOutcome of src/kernel/addon.ts.
Napi::Value ToValue(Napi::Env env, const BatchOutcome& outcome);

/// Moves the records into a Uint8Array, without a copy if the engine allows external memory.
template <typename Record>
Napi::Value ToValue(Napi::Env env, std::vector<Record>&& records) {
  if (records.empty()) return Napi::Uint8Array::New(env, 0);
  const size_t size = records.size() * sizeof(Record);
  auto owner = std::make_unique<std::vector<Record>>(std::move(records));
  napi_value buffer = nullptr;
  const auto release = [](napi_env, void*, void* vector) {
    delete static_cast<std::vector<Record>*>(vector);
  };
  const napi_status status =
      napi_create_external_arraybuffer(env, owner->data(), size, release, owner.get(), &buffer);
  if (status == napi_ok) {
    owner.release();  // NOLINT(bugprone-unused-return-value): the array buffer's finalizer owns it
    return Napi::Uint8Array::New(env, size, Napi::ArrayBuffer(env, buffer), 0);
  }
  if (status != napi_no_external_buffers_allowed) throw Napi::Error::New(env);
  auto copy = Napi::ArrayBuffer::New(env, size);
  memcpy(copy.Data(), owner->data(), size);
  return Napi::Uint8Array::New(env, size, copy, 0);
}

}  // namespace viaduct::binding
