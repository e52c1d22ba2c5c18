#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/result.h"
#include "core/socket_calls.h"
#include "ipvs/option_reader.h"
#include "xtables/table_socket.h"

namespace viaduct::look {

/// What is looked at.
enum class Scope : uint8_t {
  kTables,  ///< the tables nat and filter
  kIpvs,    ///< the tables nat, mangle and filter, and the number of IPv4 virtual servers
};

/// What of the kernel is cheap to ask and becomes something else when somebody adds or removes: how many
/// entries and bytes tables of some families have, and where their own chains lie; the number of IPv4 virtual
/// servers (the kernel counts no others).
class KernelLook {
 public:
  /// `families`: AF_INET, AF_INET6.
  static Result<KernelLook> Open(std::span<const uint8_t> families, Scope scope,
                                 SocketCalls& calls = SocketCalls::Kernel());

  /// Bytes that mean nothing by themselves: equal ones, nothing of it has changed. NB: asks for all tables of
  /// the scope, which makes those that are not there.
  std::vector<uint8_t> Take();

 private:
  KernelLook(std::vector<xtables::TableSocket> tables, std::unique_ptr<ipvs::OptionReader> servers)
      : tables_(std::move(tables)), servers_(std::move(servers)) {}

  std::vector<xtables::TableSocket> tables_;
  std::unique_ptr<ipvs::OptionReader> servers_;  ///< of Scope::kIpvs
};

}  // namespace viaduct::look
