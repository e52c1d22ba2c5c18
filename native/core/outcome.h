#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace viaduct {

/// The failure of one record of a batch.
struct Failure {
  uint32_t index = 0;  ///< of the record in the batch
  int code =
      0;  ///< errno, positive; with `unknown` the errno that hid the result (ENOBUFS, EMSGSIZE, EPROTO)
  bool unknown = false;  ///< true: the kernel's answer was lost, the record may have been applied
  std::string text;      ///< the kernel's message (extended ACK), or empty
  /// The returned part of the refused message after its nlmsghdr; nearly always empty (NETLINK_CAP_ACK).
  std::vector<uint8_t> request = {};
};

/// Accounts for every record of a batch. A record without an entry in `failures` (sorted by index, one per
/// record) is applied.
struct BatchOutcome {
  uint32_t applied = 0;
  std::vector<Failure> failures;
};

}  // namespace viaduct
