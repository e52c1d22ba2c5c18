#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace viaduct {

/// What became of one record of a batch that was not applied.
struct Failure {
  uint32_t index = 0;  ///< of the record in the batch
  int code =
      0;  ///< errno, positive; with `unknown` the errno that hid the result (ENOBUFS, EMSGSIZE, EPROTO)
  bool unknown = false;  ///< true: the kernel's answer was lost, the record may have been applied
  std::string text;      ///< the kernel's own words (extended ACK) or empty
  /// What the kernel sent back of the refused message, behind its nlmsghdr; nearly always nothing
  /// (NETLINK_CAP_ACK).
  std::vector<uint8_t> request = {};
};

/// Accounts for every record of a batch: applied unless named in `failures` (sorted by index, one per
/// record).
struct BatchOutcome {
  uint32_t applied = 0;
  std::vector<Failure> failures;
};

}  // namespace viaduct
