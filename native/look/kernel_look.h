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

/// The state to look at.
enum class Scope : uint8_t {
  kTables,  ///< the tables nat and filter
  kIpvs,    ///< the tables nat, mangle and filter, and the number of IPv4 virtual servers
};

/// Kernel state that is cheap to read and changes with additions and removals: numbers of entries and bytes
/// of the tables, the offsets of their built-in chains, and the number of IPv4 virtual servers (the kernel
/// counts no others).
class KernelLook {
 public:
  /// `families`: AF_INET, AF_INET6.
  static Result<KernelLook> Open(std::span<const uint8_t> families, Scope scope,
                                 SocketCalls& calls = SocketCalls::Kernel());

  /// Opaque bytes; equal bytes: the state is unchanged. NB: reads all tables of the scope, which creates
  /// absent ones.
  std::vector<uint8_t> Take();

 private:
  KernelLook(std::vector<xtables::TableSocket> tables, std::unique_ptr<ipvs::OptionReader> servers)
      : tables_(std::move(tables)), servers_(std::move(servers)) {}

  std::vector<xtables::TableSocket> tables_;
  std::unique_ptr<ipvs::OptionReader> servers_;  ///< with Scope::kIpvs
};

}  // namespace viaduct::look
