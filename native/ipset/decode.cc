#include "ipset/decode.h"

#include <endian.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>

#include "ipset/policy.h"

namespace viaduct::ipset {

namespace {

using CommandTable = AttributeTable<IPSET_ATTR_PROTOCOL_MIN>;
using SettingsTable = AttributeTable<IPSET_ATTR_REFERENCES>;
using EntryTable = AttributeTable<IPSET_ATTR_SKBMARK>;
using AddressTable = AttributeTable<IPSET_ATTR_IPADDR_IPV6>;

constexpr size_t kHeaderSize = NLMSG_ALIGN(sizeof(nfgenmsg));

bool ParseCommand(std::span<const uint8_t> payload, CommandTable& command) {
  return payload.size() >= kHeaderSize && command.Parse(payload.subspan(kHeaderSize), kSetCommandPolicy);
}

template <size_t kMax>
uint32_t NetU32(const AttributeTable<kMax>& table, uint16_t type) {
  return be32toh(table.template Number<uint32_t>(type));
}

/// Without a lowest number the kernel supports only the one it sends.
std::optional<Range> RangeOf(const CommandTable& command, uint16_t highest, uint16_t lowest) {
  if (!command.Has(highest)) return std::nullopt;
  const auto last = command.Number<uint8_t>(highest);
  const Range range{command.Number<uint8_t>(lowest, last), last};
  return range.lowest <= range.highest ? std::optional(range) : std::nullopt;
}

void DecodeSettings(const SettingsTable& settings, SetRecord& set) {
  set.hash_size = NetU32(settings, IPSET_ATTR_HASHSIZE);
  set.max_elements = NetU32(settings, IPSET_ATTR_MAXELEM);
  if (settings.Has(IPSET_ATTR_PORT) && settings.Port(IPSET_ATTR_PORT_TO) >= settings.Port(IPSET_ATTR_PORT))
    set.max_elements = settings.Port(IPSET_ATTR_PORT_TO) - settings.Port(IPSET_ATTR_PORT) + 1U;
  set.element_count = NetU32(settings, IPSET_ATTR_ELEMENTS);
  set.references = NetU32(settings, IPSET_ATTR_REFERENCES);
  const uint32_t flags = NetU32(settings, IPSET_ATTR_CADT_FLAGS);
  if ((flags & IPSET_FLAG_WITH_SKBINFO) != 0) set.extensions |= kMarks;
  if ((flags & IPSET_FLAG_WITH_COMMENT) != 0) set.extensions |= kComments;
}

/// False: malformed, or both families. An absent address stays zero.
bool DecodeAddress(const EntryTable& table, uint16_t type, uint8_t (&address)[16], uint8_t& family) {
  if (!table.Has(type)) return true;
  AddressTable addresses;
  if (!addresses.Parse(table.Bytes(type), kAddressPolicy)) return false;
  const bool is_ipv4 = addresses.Has(IPSET_ATTR_IPADDR_IPV4);
  if (is_ipv4 == addresses.Has(IPSET_ATTR_IPADDR_IPV6)) return false;
  const uint8_t found = is_ipv4 ? AF_INET : AF_INET6;
  if (family != 0 && family != found) return false;
  family = found;
  const auto bytes = addresses.Bytes(is_ipv4 ? IPSET_ATTR_IPADDR_IPV4 : IPSET_ATTR_IPADDR_IPV6);
  memcpy(address, bytes.data(), bytes.size());
  return true;
}

std::optional<EntryRecord> DecodeEntry(std::span<const uint8_t> nest) {
  EntryTable table;
  EntryRecord entry{};
  if (!table.Parse(nest, kEntryPolicy) || !DecodeAddress(table, IPSET_ATTR_IP, entry.address, entry.family) ||
      !DecodeAddress(table, IPSET_ATTR_IP2, entry.second_address, entry.family))
    return std::nullopt;
  entry.port = table.Port(IPSET_ATTR_PORT);
  entry.protocol = table.Number<uint8_t>(IPSET_ATTR_PROTO);
  entry.prefix_length = table.Number<uint8_t>(IPSET_ATTR_CIDR2, table.Number<uint8_t>(IPSET_ATTR_CIDR));
  const uint64_t mark = be64toh(table.Number<uint64_t>(IPSET_ATTR_SKBMARK));
  entry.mark = static_cast<uint32_t>(mark >> 32);
  entry.mark_mask = static_cast<uint32_t>(mark);
  entry.is_exception = (NetU32(table, IPSET_ATTR_CADT_FLAGS) & IPSET_FLAG_NOMATCH) != 0 ? 1 : 0;
  return entry;
}

}  // namespace

std::optional<Range> DecodeProtocol(std::span<const uint8_t> payload) {
  CommandTable command;
  if (!ParseCommand(payload, command)) return std::nullopt;
  return RangeOf(command, IPSET_ATTR_PROTOCOL, IPSET_ATTR_PROTOCOL_MIN);
}

std::optional<Range> DecodeRevisions(std::span<const uint8_t> payload) {
  CommandTable command;
  if (!ParseCommand(payload, command)) return std::nullopt;
  return RangeOf(command, IPSET_ATTR_REVISION, IPSET_ATTR_REVISION_MIN);
}

std::optional<SetRecord> DecodeSet(std::span<const uint8_t> payload) {
  CommandTable command;
  SettingsTable settings;
  if (!ParseCommand(payload, command) || !settings.Parse(command.Bytes(IPSET_ATTR_DATA), kSettingsPolicy))
    return std::nullopt;
  const auto name = command.Text(IPSET_ATTR_SETNAME);
  const auto type = command.Text(IPSET_ATTR_TYPENAME);
  if (name.empty() || type.empty()) return std::nullopt;
  SetRecord set{};
  name.copy(set.name, sizeof set.name - 1);
  type.copy(set.type, sizeof set.type - 1);
  set.family = command.Number<uint8_t>(IPSET_ATTR_FAMILY);
  DecodeSettings(settings, set);
  return set;
}

bool DecodeEntries(std::span<const uint8_t> payload, std::vector<EntryRecord>& entries) {
  CommandTable command;
  if (!ParseCommand(payload, command)) return false;
  bool is_whole = true;
  const bool conforms = ForEachAttribute(kEntriesPolicy, command.Bytes(IPSET_ATTR_ADT),
                                         [&](const AttributePolicy&, std::span<const uint8_t> nest) {
                                           const auto entry = DecodeEntry(nest);
                                           is_whole = is_whole && entry;
                                           if (entry) entries.push_back(*entry);
                                         });
  return conforms && is_whole;
}

uint32_t DecodeLine(std::span<const uint8_t> request) {
  AttributeTable<IPSET_ATTR_LINENO> command;
  if (request.size() < kHeaderSize || !command.Parse(request.subspan(kHeaderSize), kEntryCommandPolicy))
    return 0;
  return NetU32(command, IPSET_ATTR_LINENO);
}

}  // namespace viaduct::ipset
