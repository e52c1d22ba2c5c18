#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/message_builder.h"
#include "nftables/stream.h"

namespace viaduct::nftables {

/// What the elements of a set map to (src/kernel/nftables/elements.ts elementData).
enum class ElementData : uint32_t {
  kNone,
  kValue,
  kVerdict,  ///< a u32: the place of the verdict among the labels
  kObject,   ///< a u32: the place of the object's name among the labels
};

/// Which parts an element has beside its key and its data, in this order. All in host order.
enum ElementPart : uint32_t {
  kKeyEndPart = 1,      ///< as long as the key: the last key of an interval of concatenations
  kFlagsPart = 2,       ///< u32: NFT_SET_ELEM_INTERVAL_END, NFT_SET_ELEM_CATCHALL (the key is zeros then)
  kTimeoutPart = 4,     ///< u64, milliseconds; 0: the set's own
  kExpirationPart = 8,  ///< u64, milliseconds that are left
};
inline constexpr uint32_t kAllParts = kKeyEndPart | kFlagsPart | kTimeoutPart | kExpirationPart;

/// How the elements of a block lie one after the other, without padding: key, end of the key, data, flags,
/// timeout, expiration.
struct ElementLayout {
  uint32_t key_bytes = 0;
  uint32_t data_bytes = 0;  ///< 4 with labels
  uint32_t parts = 0;
  ElementData data = ElementData::kNone;

  bool Has(ElementPart part) const { return (parts & part) != 0; }
  /// Where the data starts in an element.
  size_t data_offset() const { return size_t{key_bytes} * (Has(kKeyEndPart) ? 2 : 1); }
  size_t stride() const {
    return data_offset() + data_bytes + (Has(kFlagsPart) ? 4 : 0) + (Has(kTimeoutPart) ? 8 : 0) +
           (Has(kExpirationPart) ? 8 : 0);
  }
};

/// Reads a layout: key_bytes, data_bytes, parts, data. Fails the reader when no set has such elements.
ElementLayout ReadLayout(StreamReader& stream);

/// Elements of one set, as they lie in a stream.
struct ElementBlock {
  std::string_view table;
  std::string_view set;
  ElementLayout layout;
  std::vector<std::span<const uint8_t>> labels;  ///< verdicts as objects, or names
  std::span<const uint8_t> bytes;

  size_t count() const { return bytes.size() / layout.stride(); }
};

/// table, set, layout, labels as a list of bytes, elements as bytes. Fails the reader when a label is
/// missing.
ElementBlock ReadElementBlock(StreamReader& stream);

/// Adds table, set and as many elements from `first` on as a nest takes (65,535 bytes), at most `limit`, to
/// the open message; returns how many. No elements at all: the message names the set alone.
size_t PutElements(MessageBuilder& builder, const ElementBlock& block, size_t first, size_t limit);

/// Gathers the elements of a dump.
class ElementReader {
 public:
  explicit ElementReader(const ElementLayout& layout) : layout_(layout) {}

  /// NFTA_SET_ELEM_LIST of one message. False: malformed, or elements of another layout.
  bool Add(std::span<const uint8_t> attributes);
  /// Labels as a list of bytes, elements as bytes.
  std::vector<uint8_t> Finish();

 private:
  bool AddElement(std::span<const uint8_t> attributes);
  bool AddValue(std::span<const uint8_t> data, size_t size);
  bool AddData(std::span<const uint8_t> data, std::string_view object);
  bool AddLabel(const std::vector<uint8_t>& label);

  ElementLayout layout_;
  std::vector<uint8_t> bytes_;
  std::unordered_map<std::string, uint32_t> label_places_;
  StreamWriter labels_;
};

}  // namespace viaduct::nftables
