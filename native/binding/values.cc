#include "binding/values.h"

#include <string>
#include <system_error>

#include "binding/record.h"

namespace viaduct::binding {

Napi::Error MakeError(Napi::Env env, const Error& error) {
  Napi::Error result =
      Napi::Error::New(env, error.operation + ": " + std::generic_category().message(error.code));
  result.Set("errno", Napi::Number::New(env, error.code));
  result.Set("operation", Napi::String::New(env, error.operation));
  result.Set("text", Napi::String::New(env, error.text));
  return result;
}

Napi::Value ToValue(Napi::Env env, const BatchOutcome& outcome) {
  std::vector<FailureRecord> records;
  records.reserve(outcome.failures.size());
  std::string text;
  for (const Failure& failure : outcome.failures) {
    records.push_back({failure.index,
                       failure.code,
                       static_cast<uint32_t>(text.size()),
                       static_cast<uint32_t>(failure.text.size()),
                       static_cast<uint8_t>(failure.unknown),
                       {}});
    text += failure.text;
  }
  // Latin-1, so that the offsets count the same units on both sides.
  napi_value words = nullptr;
  const napi_status status = napi_create_string_latin1(env, text.data(), text.size(), &words);
  if (status != napi_ok) throw Napi::Error::New(env);
  auto result = Napi::Object::New(env);
  result.Set("applied", Napi::Number::New(env, outcome.applied));
  result.Set("failures", ToValue(env, std::move(records)));
  result.Set("text", words);
  return result;
}

}  // namespace viaduct::binding
