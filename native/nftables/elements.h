#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/message_builder.h"
#include "core/seeded_hash.h"
#include "nftables/stream.h"

namespace viaduct::nftables {

/// The kind of data that elements of a map have (src/kernel/nftables/elements.ts elementData).
enum class ElementData : uint32_t {
  kNone,
  kValue,
  kVerdict,  ///< u32: index of the verdict among the labels
  kObject,   ///< u32: index of the object's name among the labels
};

/// Optional parts of an element, in this order. Numbers are in host order.
enum ElementPart : uint32_t {
  kKeyEndPart = 1,      ///< the last key of an interval of concatenations; has the size of the key
  kFlagsPart = 2,       ///< u32: NFT_SET_ELEM_INTERVAL_END, NFT_SET_ELEM_CATCHALL (the key is then zero)
  kTimeoutPart = 4,     ///< u64, milliseconds; 0: the set's time-out
  kExpirationPart = 8,  ///< u64, milliseconds until the element expires
};
inline constexpr uint32_t kAllParts = kKeyEndPart | kFlagsPart | kTimeoutPart | kExpirationPart;

/// The layout of an element: key, end of the key, data, flags, time-out, expiration, without padding. In the
/// end of an interval (NFT_SET_ELEM_INTERVAL_END), only the key and the flags count, and the data of a
/// dumped end is zero.
struct ElementLayout {
  uint32_t key_bytes = 0;
  uint32_t data_bytes = 0;  ///< 4 with labels
  uint32_t parts = 0;
  ElementData data = ElementData::kNone;

  bool Has(ElementPart part) const { return (parts & part) != 0; }
  /// Offset of the data in an element.
  size_t data_offset() const { return size_t{key_bytes} * (Has(kKeyEndPart) ? 2 : 1); }
  size_t stride() const {
    return data_offset() + data_bytes + (Has(kFlagsPart) ? 4 : 0) + (Has(kTimeoutPart) ? 8 : 0) +
           (Has(kExpirationPart) ? 8 : 0);
  }
};

/// Reads a layout: u32 key_bytes, data_bytes, parts, data. Fails the reader if no set can have such elements.
ElementLayout ReadLayout(StreamReader& stream);

/// Room for a message with a nest of 65,535 bytes, the names of table and set, and headers.
inline constexpr size_t kMaxMessageBytes = 96 << 10;

/// Elements of one set in a stream.
struct ElementBlock {
  std::string_view table;
  std::string_view set;
  uint32_t set_id = 0;  ///< NFTA_SET_ID of a set that is new in the transaction; 0: `set` names the set
  ElementLayout layout;
  std::vector<std::span<const uint8_t>>
      labels;  ///< verdicts as objects (object_codec.h), or names of objects
  std::span<const uint8_t> bytes;

  size_t count() const { return bytes.size() / layout.stride(); }
};

/// Reads texts table and set, u32 set_id, layout, labels as a list of bytes, elements as bytes. Fails the
/// reader if an element refers to a missing label.
ElementBlock ReadElementBlock(StreamReader& stream);

/// Adds to the open message table, set and the elements from `first` that fit a nest (65,535 bytes), at most
/// `limit`. Returns their number. With limit 0 the message names only the set.
size_t PutElements(MessageBuilder& builder, const ElementBlock& block, size_t first, size_t limit);

/// Collects the elements of a dump.
class ElementReader {
 public:
  explicit ElementReader(const ElementLayout& layout) : layout_(layout) {}

  /// Adds the elements of one message: attributes NFTA_SET_ELEM_LIST_*. False: they are malformed or have
  /// another layout.
  bool Add(std::span<const uint8_t> attributes);
  /// A stream: labels as a list of bytes, elements as bytes, u32 1 if the set may have changed meanwhile.
  std::vector<uint8_t> Finish(bool is_interrupted = false);

 private:
  bool AddElement(std::span<const uint8_t> attributes);
  bool AddValue(std::span<const uint8_t> data, size_t size);
  bool AddData(std::span<const uint8_t> data, std::string_view object);
  bool AddLabel(const std::vector<uint8_t>& label);

  ElementLayout layout_;
  std::vector<uint8_t> bytes_;
  std::unordered_map<std::string, uint32_t, TextHash> label_places_;
  StreamWriter labels_;
};

}  // namespace viaduct::nftables
