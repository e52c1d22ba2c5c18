#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace viaduct::nftables {

// The stream to and from src/kernel/nftables/stream.ts: a sequence of values, little endian, each a multiple
// of four bytes. A u32 has 4 bytes, a u64 has 8. Bytes and texts are a u32 length, the bytes, and zeros up to
// the next multiple of four.

/// Reads a stream. After a read beyond the end, ok() stays false and every read returns zero or nothing.
class StreamReader {
 public:
  explicit StreamReader(std::span<const uint8_t> bytes) : rest_(bytes) {}

  uint32_t U32() { return Number<uint32_t>(); }
  uint64_t U64() { return Number<uint64_t>(); }
  /// Points into the stream.
  std::span<const uint8_t> Bytes() { return Take(U32()); }
  std::string_view Text() {
    const auto bytes = Bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  /// The next `size` bytes. Also skips their padding.
  std::span<const uint8_t> Take(size_t size) {
    const size_t padded = size + (-size & 3);
    if (padded < size || padded > rest_.size()) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    const auto bytes = rest_.first(size);
    rest_ = rest_.subspan(padded);
    return bytes;
  }
  bool empty() const { return rest_.empty(); }
  bool ok() const { return ok_; }
  void Fail() { ok_ = false, rest_ = {}; }

 private:
  template <typename T>
  T Number() {
    T value = 0;
    const auto bytes = Take(sizeof value);
    if (bytes.size() == sizeof value) memcpy(&value, bytes.data(), sizeof value);
    return value;
  }

  std::span<const uint8_t> rest_;
  bool ok_ = true;
};

/// Writes a stream.
class StreamWriter {
 public:
  void U32(uint32_t value) { Append(&value, sizeof value); }
  void U64(uint64_t value) { Append(&value, sizeof value); }
  void Bytes(std::span<const uint8_t> bytes) {
    U32(static_cast<uint32_t>(bytes.size()));
    Append(bytes.data(), bytes.size());
    bytes_.resize(bytes_.size() + (-bytes.size() & 3));
  }
  void Text(std::string_view text) { Bytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()}); }
  void Join(const StreamWriter& other) { Append(other.bytes_.data(), other.bytes_.size()); }
  /// Overwrites the u32 that was written at `offset`.
  void Patch(size_t offset, uint32_t value) { memcpy(bytes_.data() + offset, &value, sizeof value); }

  size_t size() const { return bytes_.size(); }
  void Truncate(size_t size) { bytes_.resize(size); }
  std::vector<uint8_t> Finish() { return std::move(bytes_); }

 private:
  void Append(const void* data, size_t size) {
    const auto* start = static_cast<const uint8_t*>(data);
    bytes_.insert(bytes_.end(), start, start + size);
  }

  std::vector<uint8_t> bytes_;
};

}  // namespace viaduct::nftables
