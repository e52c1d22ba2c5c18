#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ipset/record.h"

// Decodes replies of ipset. The functions take the payload after nlmsghdr. Nothing: it is malformed, breaks
// the policy, or lacks a required attribute.

namespace viaduct::ipset {

/// From the lowest to the highest, both included.
struct Range {
  uint8_t lowest = 0;
  uint8_t highest = 0;
};

/// Reply to PROTOCOL: versions that the kernel supports.
std::optional<Range> DecodeProtocol(std::span<const uint8_t> payload);
/// Reply to TYPE: revisions that the kernel supports.
std::optional<Range> DecodeRevisions(std::span<const uint8_t> payload);
/// A set of a listing without entries, or the reply to HEADER, which has only name, type and family.
std::optional<SetRecord> DecodeSet(std::span<const uint8_t> payload);
/// Appends the entries of one message of a listing. False: not valid, as above; some may have been appended.
bool DecodeEntries(std::span<const uint8_t> payload, std::vector<EntryRecord>& entries);

/// The line number in the request that an error of ADD or DEL returns after nlmsghdr; 0: none.
uint32_t DecodeLine(std::span<const uint8_t> request);

}  // namespace viaduct::ipset
