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

  /// The chains of a family: table and chain names, all NUL-ended. EINVAL: the kernel has no nf_tables. NB:
  /// the request loads nf_tables if the module is available.
  Result<std::vector<uint8_t>> ListChains(uint8_t family);

  /// Deletes a table of any program, with its content. ENOENT: the table is absent. EOPNOTSUPP: the kernel
  /// has no nf_tables. NB: the request loads nf_tables if the module is available.
  Status DeleteTable(uint8_t family, std::string_view table);

  /// Makes the kernel load ip_tables or ip6_tables by requests for names that it looks up there. Only the
  /// tables show whether a module was loaded. Error: the netlink request failed, or the match is unknown.
  Status LoadXtables(uint8_t family);

 private:
  NftSocket(NetlinkSocket socket, SocketCalls& calls) : socket_(std::move(socket)), calls_(&calls) {}

  NetlinkSocket socket_;
  SocketCalls* calls_;
};

}  // namespace viaduct::nftables
