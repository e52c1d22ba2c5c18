#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/result.h"
#include "core/socket_calls.h"
#include "ipvs/option_reader.h"
#include "xtables/table_socket.h"

namespace viaduct::look {

/// What of the kernel is cheap to ask and becomes something else when somebody adds or removes: how many
/// entries and bytes the tables nat, mangle and filter of some families have, and where their own chains lie;
/// the number of IPv4 virtual servers (the kernel counts no others).
class KernelLook {
 public:
  /// `families`: AF_INET, AF_INET6.
  static Result<KernelLook> Open(std::span<const uint8_t> families,
                                 SocketCalls& calls = SocketCalls::Kernel());

  /// Bytes that mean nothing by themselves: equal ones, nothing of it has changed. NB: asks for all three
  /// tables of each family, which makes those that are not there.
  std::vector<uint8_t> Take();

 private:
  KernelLook(std::vector<xtables::TableSocket> tables, ipvs::OptionReader servers)
      : tables_(std::move(tables)), servers_(std::move(servers)) {}

  std::vector<xtables::TableSocket> tables_;
  ipvs::OptionReader servers_;
};

}  // namespace viaduct::look
