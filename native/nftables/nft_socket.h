#pragma once

#include <cstdint>
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

 private:
  explicit NftSocket(NetlinkSocket socket) : socket_(std::move(socket)) {}

  NetlinkSocket socket_;
};

}  // namespace viaduct::nftables
