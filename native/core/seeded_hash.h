#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace viaduct {

/// Hashes with secrets of this process, for every table whose keys come from outside: addresses, names and
/// rules. Without the secrets an attacker could choose keys that share one bucket.
class SeededHash {
 public:
  SeededHash();

  SeededHash& Add(uint64_t word) {
    state_ = Mix(state_ ^ word, factor_);
    return *this;
  }
  /// The bytes and their number.
  SeededHash& Add(std::string_view bytes);
  size_t value() const { return state_; }

 private:
  /// Folds the 128-bit product: every bit of both factors reaches every bit of the result.
  static uint64_t Mix(uint64_t a, uint64_t b) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }

  uint64_t state_;
  uint64_t factor_;
};

/// Hash of texts for standard containers.
struct TextHash {
  size_t operator()(std::string_view text) const { return SeededHash().Add(text).value(); }
};

inline SeededHash& SeededHash::Add(std::string_view bytes) {
  Add(bytes.size());
  while (bytes.size() >= sizeof(uint64_t)) {
    uint64_t word = 0;
    memcpy(&word, bytes.data(), sizeof word);
    Add(word);
    bytes.remove_prefix(sizeof word);
  }
  if (bytes.empty()) return *this;
  uint64_t rest = 0;
  memcpy(&rest, bytes.data(), bytes.size());
  return Add(rest);
}

}  // namespace viaduct
