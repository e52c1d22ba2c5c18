#include "xtables/barrier.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "xtables/entry.h"

namespace viaduct::xtables {

namespace {

std::string_view ExtensionName(const uint8_t* extension) {
  const auto* name = reinterpret_cast<const char*>(extension) + kExtensionName;
  return {name, strnlen(name, XT_EXTENSION_MAXNAMELEN)};
}

/// Whether the rule matches every packet: no address, interface or protocol, and no match but comments
/// (unconditional() of net/ipv4/netfilter/ip_tables.c, which knows no comments).
bool IsUnconditional(const Shape& shape, const EntryView& entry) {
  // struct ipt_ip or ip6t_ip6 is first in an entry, before nfcache.
  const size_t criteria = shape.target_offset - sizeof(uint32_t);
  const uint8_t* bytes = entry.bytes();
  if (std::any_of(bytes, bytes + criteria, [](uint8_t byte) { return byte != 0; })) return false;
  for (size_t at = shape.header; at + kExtensionHeader <= entry.target_offset();) {
    if (ExtensionName(bytes + at) != "comment") return false;
    const size_t size = Load<uint16_t>(bytes + at);
    if (size < kExtensionHeader) return false;
    at += size;
  }
  return true;
}

bool Drops(const EntryView& entry) {
  if (const auto verdict = entry.VerdictOffset())
    return Load<int32_t>(entry.bytes() + *verdict) == kDropVerdict;
  return ExtensionName(entry.bytes() + entry.target_offset()) == "REJECT";
}

}  // namespace

std::optional<Barrier> FindBarrier(const TableImage& image, std::string_view hook) {
  for (const ImageChain& chain : image.built_in()) {
    if (chain.name != hook) continue;
    uint32_t rule = 0;
    for (uint32_t at = chain.rules; at <= chain.last; at += image.At(at).size(), ++rule) {
      const EntryView entry = image.At(at);
      if (Drops(entry) && IsUnconditional(image.shape(), entry)) return Barrier{rule, at == chain.last};
    }
  }
  return std::nullopt;
}

}  // namespace viaduct::xtables
