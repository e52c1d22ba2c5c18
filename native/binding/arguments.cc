#include "binding/arguments.h"

#include <cmath>

namespace viaduct::binding {

namespace {

[[noreturn]] void ThrowType(Napi::Env env, const Parameter& parameter, const char* expected) {
  throw Napi::TypeError::New(env, std::string(parameter.name) + ": " + expected);
}

[[noreturn]] void ThrowRange(Napi::Env env, const Parameter& parameter, const std::string& expected) {
  throw Napi::RangeError::New(env, std::string(parameter.name) + ": " + expected);
}

/// The worker reads the memory while JavaScript runs: it must neither move nor be shared.
void CheckMemory(Napi::Env env, const Parameter& parameter, const Napi::TypedArray& array) {
  // Not the property "buffer", which a script can replace.
  napi_value underlying = nullptr;
  const napi_status status =
      napi_get_typedarray_info(env, array, nullptr, nullptr, nullptr, &underlying, nullptr);
  if (status != napi_ok) throw Napi::Error::New(env);
  const Napi::Value memory(env, underlying);
  if (!memory.IsArrayBuffer()) ThrowType(env, parameter, "its buffer must not be shared");
  const auto buffer = memory.As<Napi::ArrayBuffer>();
  if (buffer.IsDetached()) ThrowType(env, parameter, "its buffer is detached");
  // The property is absent before Node 20. Node-API has no call that reads it.
  if (buffer.Get("resizable").ToBoolean().Value())
    ThrowType(env, parameter, "its buffer must not be resizable");
}

void CheckRecords(Napi::Env env, const Parameter& parameter, const Napi::Value& value) {
  if (!value.IsTypedArray() || value.As<Napi::TypedArray>().TypedArrayType() != napi_uint8_array)
    ThrowType(env, parameter, "a Uint8Array is expected");
  const auto array = value.As<Napi::Uint8Array>();
  CheckMemory(env, parameter, array);
  if (array.ByteLength() % parameter.limit != 0)
    ThrowRange(env, parameter, "must hold whole records of " + std::to_string(parameter.limit) + " bytes");
  if (array.ByteLength() / parameter.limit > std::numeric_limits<uint32_t>::max())
    ThrowRange(env, parameter, "too many records");
  if (reinterpret_cast<uintptr_t>(array.Data()) % parameter.alignment != 0)
    ThrowRange(env, parameter, "must be aligned to " + std::to_string(parameter.alignment) + " bytes");
}

void CheckU32(Napi::Env env, const Parameter& parameter, const Napi::Value& value) {
  if (!value.IsNumber()) ThrowType(env, parameter, "a number is expected");
  const double number = value.As<Napi::Number>().DoubleValue();
  if (!(number >= 0 && number <= static_cast<double>(parameter.limit)) || number != std::floor(number))
    ThrowRange(env, parameter,
               "a whole number from 0 to " + std::to_string(parameter.limit) + " is expected");
}

void CheckText(Napi::Env env, const Parameter& parameter, const Napi::Value& value) {
  if (!value.IsString()) ThrowType(env, parameter, "a string is expected");
  const std::string text = value.As<Napi::String>().Utf8Value();
  if (text.empty() || text.size() > parameter.limit || text.find('\0') != std::string::npos)
    ThrowRange(env, parameter, "1 to " + std::to_string(parameter.limit) + " bytes without NUL are expected");
}

void Check(Napi::Env env, const Parameter& parameter, const Napi::Value& value) {
  switch (parameter.kind) {
    case Parameter::Kind::kRecords:
      return CheckRecords(env, parameter, value);
    case Parameter::Kind::kU32:
      return CheckU32(env, parameter, value);
    case Parameter::Kind::kBool:
      if (!value.IsBoolean()) ThrowType(env, parameter, "a boolean is expected");
      return;
    case Parameter::Kind::kText:
      return CheckText(env, parameter, value);
  }
}

}  // namespace

Arguments::Arguments(const Napi::CallbackInfo& info, std::initializer_list<Parameter> parameters)
    : info_(info) {
  size_t index = 0;
  for (const Parameter& parameter : parameters) Check(info.Env(), parameter, info[index++]);
}

}  // namespace viaduct::binding
