#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "xtables/entry.h"
#include "xtables/shape.h"

namespace viaduct::xtables {

/// Appends one entry to a buffer: header, matches, target, in this order. Unwritten bytes are zero.
class EntryBuilder {
 public:
  EntryBuilder(const Shape& shape, std::vector<uint8_t>& bytes)
      : shape_(&shape), bytes_(&bytes), start_(bytes.size()) {
    bytes.resize(start_ + shape.header);
  }

  /// The family-specific part of the header, before the offsets.
  template <typename Header>
  void SetHeader(const Header& header) {
    memcpy(bytes_->data() + start_, &header, sizeof header);
  }

  /// A match; `fill` gets its zeroed data.
  template <typename Data, typename Fill>
  void AddMatch(const char* name, uint8_t revision, Fill fill) {
    Add<Data>(name, revision, Align(kExtensionHeader + sizeof(Data)), fill);
  }

  /// The target, which ends the entry. Returns the buffer offset of its data.
  template <typename Data, typename Fill>
  size_t SetTarget(const char* name, uint8_t revision, Fill fill) {
    const size_t target = bytes_->size();
    SetOffset(shape_->target_offset, target - start_);
    Add<Data>(name, revision, Align(kExtensionHeader + sizeof(Data)), fill);
    SetOffset(shape_->target_offset + sizeof(uint16_t), bytes_->size() - start_);
    return target + kExtensionHeader;
  }

 private:
  void SetOffset(size_t field, size_t offset) {
    Store(bytes_->data() + start_ + field, static_cast<uint16_t>(offset));
  }

  template <typename Data, typename Fill>
  void Add(const char* name, uint8_t revision, size_t size, Fill fill) {
    Data data;
    memset(&data, 0, sizeof data);  // padding too
    fill(data);
    const size_t at = bytes_->size();
    bytes_->resize(at + size);
    uint8_t* extension = bytes_->data() + at;
    Store(extension, static_cast<uint16_t>(size));
    std::string_view(name).copy(reinterpret_cast<char*>(extension) + kExtensionName,
                                kExtensionRevision - kExtensionName - 1);
    extension[kExtensionRevision] = revision;
    memcpy(extension + kExtensionHeader, &data, sizeof data);
  }

  const Shape* shape_;
  std::vector<uint8_t>* bytes_;
  size_t start_;
};

/// Adds the entry that begins a chain. Its ERROR target holds the name.
void AddHead(const Shape& shape, std::string_view name, std::vector<uint8_t>& bytes);
/// Adds the entry that ends a chain: RETURN for all packets.
void AddReturn(const Shape& shape, std::vector<uint8_t>& bytes);

}  // namespace viaduct::xtables
