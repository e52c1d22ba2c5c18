#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "core/netlink_socket.h"
#include "core/result.h"

namespace viaduct::nftables {

/// The nf_tables of the network namespace in which it was opened. Not thread-safe: one call at a time.
class NftSocket {
 public:
  /// EPROTONOSUPPORT: a kernel without nfnetlink.
  static Result<NftSocket> Open(SocketCalls& calls = SocketCalls::Kernel());

  /// The names of all chains of a family, each as table and chain, both ended by NUL. EINVAL: a kernel
  /// without nf_tables. NB: asking makes the kernel load the module where there is one.
  Result<std::vector<uint8_t>> ListChains(uint8_t family);

  /// Deletes a table with all that is in it, whoever made it. ENOENT: there is none of this name. EOPNOTSUPP:
  /// a kernel without nf_tables. NB: asking makes the kernel load the module where there is one.
  Status DeleteTable(uint8_t family, std::string_view table);

  /// Makes the kernel load ip_tables or ip6_tables, by asking for things that it believes to be in them;
  /// whether it did shows only in the tables themselves. Not Ok: it could not be asked by netlink, or knows
  /// no such match.
  Status LoadXtables(uint8_t family);

 private:
  NftSocket(NetlinkSocket socket, SocketCalls& calls) : socket_(std::move(socket)), calls_(&calls) {}

  NetlinkSocket socket_;
  SocketCalls* calls_;
};

}  // namespace viaduct::nftables
