#pragma once

#include <napi.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>

namespace viaduct::binding {

/// The requirements of a parameter. The factories below make valid combinations.
struct Parameter {
  enum class Kind { kRecords, kU32, kBool, kText };

  const char* name;
  Kind kind;
  size_t limit;      ///< record size, largest number, or longest text
  size_t alignment;  ///< of records

  /// Uint8Array of whole records over a plain ArrayBuffer.
  template <typename Record>
  static Parameter Records(const char* name) {
    return {name, Kind::kRecords, sizeof(Record), alignof(Record)};
  }
  static Parameter U32(const char* name, uint32_t largest = std::numeric_limits<uint32_t>::max()) {
    return {name, Kind::kU32, largest, 1};
  }
  static Parameter Bool(const char* name) { return {name, Kind::kBool, 0, 1}; }
  /// Not empty, at most `longest` bytes.
  static Parameter Text(const char* name, size_t longest) { return {name, Kind::kText, longest, 1}; }
};

/// The checked arguments of a call. The constructor throws a TypeError or RangeError that names the
/// parameter.
class Arguments {
 public:
  Arguments(const Napi::CallbackInfo& info, std::initializer_list<Parameter> parameters);

  /// NB: points into JavaScript's memory. The caller must keep the array referenced.
  template <typename Record>
  std::span<const Record> Records(size_t index) const {
    const auto array = info_[index].As<Napi::Uint8Array>();
    return {reinterpret_cast<const Record*>(array.Data()), array.ByteLength() / sizeof(Record)};
  }
  uint32_t U32(size_t index) const { return info_[index].As<Napi::Number>().Uint32Value(); }
  bool Bool(size_t index) const { return info_[index].As<Napi::Boolean>().Value(); }
  std::string Text(size_t index) const { return info_[index].As<Napi::String>().Utf8Value(); }

 private:
  const Napi::CallbackInfo& info_;
};

}  // namespace viaduct::binding
