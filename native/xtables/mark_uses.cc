#include "xtables/mark_uses.h"

#include <linux/netfilter/xt_mark.h>

#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>

#include "xtables/entry.h"

namespace viaduct::xtables {

namespace {

/// The kernel has one revision of each (net/netfilter/xt_mark.c).
constexpr uint8_t kMatchRevision = 1;
constexpr uint8_t kTargetRevision = 2;

/// A match or target of this name and revision, with a structure of type T.
template <typename T>
std::optional<T> Extension(const uint8_t* at, size_t size, std::string_view name, uint8_t revision) {
  const auto* text = reinterpret_cast<const char*>(at) + kExtensionName;
  if (std::string_view(text, strnlen(text, XT_EXTENSION_MAXNAMELEN - 1)) != name) return std::nullopt;
  if (at[kExtensionRevision] != revision || size < kExtensionHeader + sizeof(T)) return std::nullopt;
  return Load<T>(at + kExtensionHeader);
}

/// The bits that the matches of the rule expect to be 1.
uint32_t MatchedBits(const Shape& shape, const EntryView& entry) {
  uint32_t bits = 0;
  for (size_t at = shape.header; at + kExtensionHeader <= entry.target_offset();) {
    const size_t size = Load<uint16_t>(entry.bytes() + at);
    if (size < kExtensionHeader || at + size > entry.target_offset()) break;
    const auto match = Extension<xt_mark_mtinfo1>(entry.bytes() + at, size, "mark", kMatchRevision);
    if (match) bits |= match->mark & match->mask;
    at += size;
  }
  return bits;
}

/// The bits that the rule sets to 1: new = (old & ~mask) ^ mark.
uint32_t SetBits(const EntryView& entry) {
  const uint8_t* target = entry.bytes() + entry.target_offset();
  const auto mark = Extension<xt_mark_tginfo2>(target, Load<uint16_t>(target), "MARK", kTargetRevision);
  return mark ? mark->mark : 0;
}

void AddUses(const TableImage& image, const ImageChain& chain, std::vector<MarkUse>& uses) {
  uint32_t rule = 0;
  for (uint32_t at = chain.rules; at < chain.last; at += image.At(at).size(), ++rule) {
    const EntryView entry = image.At(at);
    if (const uint32_t bits = MatchedBits(image.shape(), entry); bits != 0)
      uses.push_back({std::string(chain.name), rule, false, bits});
    if (const uint32_t bits = SetBits(entry); bits != 0)
      uses.push_back({std::string(chain.name), rule, true, bits});
  }
}

}  // namespace

std::vector<MarkUse> FindMarkUses(const TableImage& image) {
  std::vector<MarkUse> uses;
  for (const ImageChain& chain : image.built_in()) AddUses(image, chain, uses);
  for (const ImageChain& chain : image.chains()) AddUses(image, chain, uses);
  return uses;
}

}  // namespace viaduct::xtables
