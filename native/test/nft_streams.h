#pragma once

#include <sys/socket.h>

#include <initializer_list>
#include <string_view>

#include "nftables/batch.h"
#include "nftables/elements.h"
#include "nftables/stream.h"
#include "scripted_kernel.h"

namespace viaduct::nftables {

/// Operations as src/kernel/nftables/encode.ts writes them.
class Operations {
 public:
  /// A table with only a name.
  Operations& Table(Verb verb, std::string_view name) {
    Begin(verb, Object::kTable);
    stream_.U32(1);
    stream_.Text(name);
    return *this;
  }

  /// A rule with one expression: accept.
  Operations& AcceptRule(Verb verb, bool wants_handle) {
    Begin(verb, Object::kRule, wants_handle ? kWantsHandle : 0);
    stream_.U32(1 | 2 | 8);
    stream_.Text("t");
    stream_.Text("c");
    stream_.U32(1);
    for (const uint32_t word : {kImmediate, 3U, 16U, 2U, 1U, 1U}) stream_.U32(word);
    return *this;
  }

  /// `count` elements of set "t s" with keys of four bytes: 0, 1, 2, ... in network order.
  Operations& Elements(Verb verb, uint32_t count) {
    Begin(verb, Object::kElements);
    stream_.Text("t");
    stream_.Text("s");
    stream_.U32(0);
    Layout({4, 0, 0, ElementData::kNone});
    stream_.U32(0);
    Bytes keys;
    for (uint32_t i = 0; i < count; ++i)
      for (const int shift : {24, 16, 8, 0}) keys.push_back(static_cast<uint8_t>(i >> shift));
    stream_.Bytes(keys);
    return *this;
  }

  void Begin(Verb verb, Object object, uint32_t flags = 0) {
    stream_.U32(static_cast<uint32_t>(verb));
    stream_.U32(static_cast<uint32_t>(object));
    stream_.U32(AF_INET);
    stream_.U32(flags);
  }
  void Layout(const ElementLayout& layout) {
    stream_.U32(layout.key_bytes);
    stream_.U32(layout.data_bytes);
    stream_.U32(layout.parts);
    stream_.U32(static_cast<uint32_t>(layout.data));
  }
  StreamWriter& stream() { return stream_; }
  Bytes Finish() { return stream_.Finish(); }

 private:
  static constexpr uint32_t kImmediate = 12;  ///< its number among KnownExpressions()

  StreamWriter stream_;
};

}  // namespace viaduct::nftables
