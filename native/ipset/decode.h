#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ipset/record.h"

// Answers of ipset to records. Functions take the payload after nlmsghdr; nothing means that it is malformed,
// breaks the policy, or lacks what it must have.

namespace viaduct::ipset {

/// From the lowest to the highest, both included.
struct Range {
  uint8_t lowest = 0;
  uint8_t highest = 0;
};

/// Answer to PROTOCOL: versions that the kernel speaks.
std::optional<Range> DecodeProtocol(std::span<const uint8_t> payload);
/// Answer to TYPE: revisions that it has.
std::optional<Range> DecodeRevisions(std::span<const uint8_t> payload);
/// A set of a listing without entries, or the answer to HEADER, which has name, type and family only.
std::optional<SetRecord> DecodeSet(std::span<const uint8_t> payload);
/// Appends the entries of one message of a listing. False: as above; some may have been appended.
bool DecodeEntries(std::span<const uint8_t> payload, std::vector<EntryRecord>& entries);

/// The line number in the request that an error to ADD or DEL carries, behind nlmsghdr; 0: there is none.
uint32_t DecodeLine(std::span<const uint8_t> request);

}  // namespace viaduct::ipset
