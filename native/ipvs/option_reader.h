#pragma once

#include <linux/ip_vs.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/fd.h"
#include "core/result.h"
#include "core/socket_calls.h"
#include "ipvs/decode.h"

namespace viaduct::ipvs {

/// Reads the IPv4 table by getsockopt(): all services in one system call, the real servers of one service in
/// another. Errors carry the errno alone: ENOPROTOOPT no IP_VS in this kernel, EPERM no CAP_NET_ADMIN, ESRCH
/// no such service.
class OptionReader {
 public:
  static Result<OptionReader> Open(SocketCalls& calls);

  Result<ip_vs_getinfo> ReadInfo();
  Result<std::vector<ServiceEntry>> ReadServices();
  /// The IPv4 service of that key.
  Result<ServiceEntry> ReadService(const VirtualServerRecord& key);
  /// Replaces what is in `reals`, oldest first; counters stay zero unless asked for. NB: real servers of
  /// another family, and tunnel types, are not shown by the kernel.
  Status ReadRealServers(const ServiceEntry& service, bool with_counters, std::vector<RealEntry>& reals);

 private:
  OptionReader(SocketCalls& calls, Fd fd) : calls_(&calls), fd_(std::move(fd)) {}
  Status Get(int name, std::span<uint8_t> value);
  uint32_t CountDestinations(uint32_t capacity) const;

  SocketCalls* calls_;
  Fd fd_;
  std::vector<uint8_t> destinations_;  ///< ip_vs_get_dests with its entries; zero between calls
};

}  // namespace viaduct::ipvs
