#include "nftables/elements.h"

#include <arpa/inet.h>
#include <endian.h>

#include <utility>

#include "nftables/object_codec.h"
#include "nftables/policy.h"

namespace viaduct::nftables {

namespace {

// A nest holds 65,535 bytes with its header; the largest element adds less than 700 (two keys and a value of
// 64 bytes, or a verdict with its chain of 255, and six headers).
constexpr size_t kMaxNestBytes = 64'000;
constexpr size_t kLabelBytes = sizeof(uint32_t);

template <typename T>
T TakeNumber(std::span<const uint8_t>& rest) {
  T value{};
  memcpy(&value, rest.data(), sizeof value);
  rest = rest.subspan(sizeof value);
  return value;
}

std::span<const uint8_t> TakeBytes(std::span<const uint8_t>& rest, size_t size) {
  const auto bytes = rest.first(size);
  rest = rest.subspan(size);
  return bytes;
}

void PutValue(MessageBuilder& builder, uint16_t type, std::span<const uint8_t> value) {
  builder.Nest(type | NLA_F_NESTED, [&] { builder.Bytes(NFTA_DATA_VALUE, value); });
}

void PutU64(MessageBuilder& builder, uint16_t type, uint64_t value) {
  const uint64_t number = htobe64(value);
  builder.Bytes(type, {reinterpret_cast<const uint8_t*>(&number), sizeof number});
}

/// Adds the verdict or object whose index among the labels is the u32 at the start of `value`.
void PutLabel(MessageBuilder& builder, const ElementBlock& block, std::span<const uint8_t> value) {
  const auto label = block.labels[TakeNumber<uint32_t>(value)];
  if (block.layout.data == ElementData::kObject)
    return builder.String(NFTA_SET_ELEM_OBJREF, {reinterpret_cast<const char*>(label.data()), label.size()});
  StreamReader verdict(label);
  builder.Nest(NFTA_SET_ELEM_DATA | NLA_F_NESTED, [&] { PutObject(builder, kDataPolicy, verdict); });
}

/// Flags of the element that begins at `element`.
uint32_t FlagsOf(const ElementLayout& layout, std::span<const uint8_t> element) {
  if (!layout.Has(kFlagsPart)) return 0;
  auto flags = element.subspan(layout.data_offset() + layout.data_bytes);
  return TakeNumber<uint32_t>(flags);
}

void PutTimes(MessageBuilder& builder, const ElementLayout& layout, std::span<const uint8_t> times) {
  for (const auto& [part, type] : {std::pair{kTimeoutPart, NFTA_SET_ELEM_TIMEOUT},
                                   std::pair{kExpirationPart, NFTA_SET_ELEM_EXPIRATION}}) {
    const uint64_t milliseconds = layout.Has(part) ? TakeNumber<uint64_t>(times) : 0;
    if (milliseconds != 0) PutU64(builder, type, milliseconds);
  }
}

// nft_add_set_elem() and nft_del_setelem() of net/netfilter/nf_tables_api.c. The kernel refuses the end of an
// interval with more than a key and flags.
void PutElement(MessageBuilder& builder, const ElementBlock& block, std::span<const uint8_t> rest) {
  const ElementLayout& layout = block.layout;
  const uint32_t flags = FlagsOf(layout, rest);
  const bool has_key = (flags & NFT_SET_ELEM_CATCHALL) == 0;
  const auto key = TakeBytes(rest, layout.key_bytes);
  if (has_key) PutValue(builder, NFTA_SET_ELEM_KEY, key);
  if ((flags & NFT_SET_ELEM_INTERVAL_END) != 0) return builder.U32(NFTA_SET_ELEM_FLAGS, htonl(flags));
  const auto key_end = TakeBytes(rest, layout.Has(kKeyEndPart) ? layout.key_bytes : 0);
  if (has_key && !key_end.empty()) PutValue(builder, NFTA_SET_ELEM_KEY_END, key_end);
  const auto data = TakeBytes(rest, layout.data_bytes);
  if (layout.data == ElementData::kValue) PutValue(builder, NFTA_SET_ELEM_DATA, data);
  if (layout.data > ElementData::kValue) PutLabel(builder, block, data);
  if (flags != 0) builder.U32(NFTA_SET_ELEM_FLAGS, htonl(flags));
  PutTimes(builder, layout, rest.subspan(layout.Has(kFlagsPart) ? sizeof flags : 0));
}

/// Whether the block has the label of each element. The end of an interval has none.
bool AreLabelsThere(const ElementBlock& block) {
  const ElementLayout& layout = block.layout;
  if (layout.data <= ElementData::kValue) return true;
  for (size_t offset = 0; offset < block.bytes.size(); offset += layout.stride()) {
    const auto element = block.bytes.subspan(offset);
    auto value = element.subspan(layout.data_offset());
    const bool is_end = (FlagsOf(layout, element) & NFT_SET_ELEM_INTERVAL_END) != 0;
    if (!is_end && TakeNumber<uint32_t>(value) >= block.labels.size()) return false;
  }
  return true;
}

/// The value of an NFTA_DATA nest; empty if it has none.
std::span<const uint8_t> ValueOf(std::span<const uint8_t> data) {
  AttributeTable<NFTA_DATA_VERDICT> attributes;
  return attributes.Parse(data, kDataPolicy) ? attributes.Bytes(NFTA_DATA_VALUE) : std::span<const uint8_t>{};
}

template <typename T>
void AppendNumber(std::vector<uint8_t>& bytes, T value) {
  const auto* start = reinterpret_cast<const uint8_t*>(&value);
  bytes.insert(bytes.end(), start, start + sizeof value);
}

}  // namespace

ElementLayout ReadLayout(StreamReader& stream) {
  ElementLayout layout;
  layout.key_bytes = stream.U32();
  layout.data_bytes = stream.U32();
  layout.parts = stream.U32();
  const uint32_t data = stream.U32();
  layout.data = static_cast<ElementData>(data);
  const bool is_value = layout.data == ElementData::kValue;
  const bool has_label = layout.data > ElementData::kValue;
  const bool is_data_right = is_value    ? layout.data_bytes >= 1 && layout.data_bytes <= kMaxValue
                             : has_label ? layout.data_bytes == kLabelBytes
                                         : layout.data_bytes == 0;
  if (data > static_cast<uint32_t>(ElementData::kObject) || layout.key_bytes < 1 ||
      layout.key_bytes > kMaxValue || (layout.parts & ~kAllParts) != 0 || !is_data_right)
    stream.Fail();
  return layout;
}

ElementBlock ReadElementBlock(StreamReader& stream) {
  ElementBlock block;
  block.table = stream.Text();
  block.set = stream.Text();
  block.set_id = stream.U32();
  block.layout = ReadLayout(stream);
  const uint32_t labels = stream.U32();
  for (uint32_t i = 0; i < labels && stream.ok(); ++i) block.labels.push_back(stream.Bytes());
  block.bytes = stream.Bytes();
  if (stream.ok() && (block.bytes.size() % block.layout.stride() != 0 || !AreLabelsThere(block)))
    stream.Fail();
  return block;
}

// linux/netfilter/nf_tables.h NFTA_SET_ELEM_LIST: nf_tables_newsetelem(), nf_tables_delsetelem().
size_t PutElements(MessageBuilder& builder, const ElementBlock& block, size_t first, size_t limit) {
  builder.String(NFTA_SET_ELEM_LIST_TABLE, block.table);
  builder.String(NFTA_SET_ELEM_LIST_SET, block.set);
  if (block.set_id != 0) builder.U32(NFTA_SET_ELEM_LIST_SET_ID, htonl(block.set_id));
  const size_t stride = block.layout.stride();
  size_t next = first;
  if (limit == 0) return 0;
  const size_t start = builder.open_size();
  builder.Nest(NFTA_SET_ELEM_LIST_ELEMENTS | NLA_F_NESTED, [&] {
    for (; next - first < limit && builder.open_size() - start < kMaxNestBytes; ++next)
      builder.Nest(NFTA_LIST_ELEM | NLA_F_NESTED,
                   [&] { PutElement(builder, block, block.bytes.subspan(next * stride, stride)); });
  });
  return next - first;
}

bool ElementReader::Add(std::span<const uint8_t> attributes) {
  AttributeTable<NFTA_SET_ELEM_LIST_ELEMENTS> list;
  if (!list.Parse(attributes, kElementsPolicy)) return false;
  AttributeReader elements(list.Bytes(NFTA_SET_ELEM_LIST_ELEMENTS));
  while (const auto element = elements.Next())
    if (!AddElement(element->value)) return false;
  return !elements.malformed();
}

bool ElementReader::AddElement(std::span<const uint8_t> attributes) {
  AttributeTable<NFTA_SET_ELEM_KEY_END> element;
  if (!element.Parse(attributes, kElementPolicy)) return false;
  const auto flags = ntohl(element.Number<uint32_t>(NFTA_SET_ELEM_FLAGS));
  const bool is_catchall = (flags & NFT_SET_ELEM_CATCHALL) != 0;
  const std::vector<uint8_t> no_key(is_catchall ? layout_.key_bytes : 0);
  const auto key = is_catchall ? std::span(no_key) : ValueOf(element.Bytes(NFTA_SET_ELEM_KEY));
  if (!AddValue(key, layout_.key_bytes)) return false;
  if (layout_.Has(kKeyEndPart)) {
    const auto end = ValueOf(element.Bytes(NFTA_SET_ELEM_KEY_END));
    if (!AddValue(end.empty() ? key : end, layout_.key_bytes)) return false;
  }
  const bool is_end = (flags & NFT_SET_ELEM_INTERVAL_END) != 0;
  if (is_end) {
    bytes_.resize(bytes_.size() + layout_.data_bytes);
  } else if (!AddData(element.Bytes(NFTA_SET_ELEM_DATA), element.Text(NFTA_SET_ELEM_OBJREF))) {
    return false;
  }
  if (layout_.Has(kFlagsPart)) AppendNumber(bytes_, flags);
  if (layout_.Has(kTimeoutPart))
    AppendNumber(bytes_, be64toh(element.Number<uint64_t>(NFTA_SET_ELEM_TIMEOUT)));
  if (layout_.Has(kExpirationPart))
    AppendNumber(bytes_, be64toh(element.Number<uint64_t>(NFTA_SET_ELEM_EXPIRATION)));
  return true;
}

bool ElementReader::AddValue(std::span<const uint8_t> data, size_t size) {
  if (data.size() != size) return false;
  bytes_.insert(bytes_.end(), data.begin(), data.end());
  return true;
}

bool ElementReader::AddData(std::span<const uint8_t> data, std::string_view object) {
  switch (layout_.data) {
    case ElementData::kNone:
      return true;
    case ElementData::kValue:
      return AddValue(ValueOf(data), layout_.data_bytes);
    case ElementData::kObject:
      return AddLabel({object.begin(), object.end()});
    case ElementData::kVerdict:
      StreamWriter verdict;
      return ReadObject(data, kDataPolicy, verdict) && AddLabel(verdict.Finish());
  }
  return false;
}

bool ElementReader::AddLabel(const std::vector<uint8_t>& label) {
  if (label.empty()) return false;
  const auto next = static_cast<uint32_t>(label_places_.size());
  const auto [known, is_new] = label_places_.try_emplace(std::string(label.begin(), label.end()), next);
  AppendNumber(bytes_, known->second);
  if (is_new) labels_.Bytes(label);
  return true;
}

std::vector<uint8_t> ElementReader::Finish(bool is_interrupted) {
  StreamWriter stream;
  stream.U32(static_cast<uint32_t>(label_places_.size()));
  stream.Join(labels_);
  stream.Bytes(bytes_);
  stream.U32(is_interrupted ? 1 : 0);
  return stream.Finish();
}

}  // namespace viaduct::nftables
