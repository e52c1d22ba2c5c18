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
/// another. Errors have only the errno: ENOPROTOOPT: the kernel has no IP_VS; EPERM: CAP_NET_ADMIN is
/// missing; ESRCH: the service is absent.
class OptionReader {
 public:
  static Result<OptionReader> Open(SocketCalls& calls);

  /// Asks legacy x_tables for the match `ipvs`, for which the kernel loads its module, and IP_VS with it.
  /// Without effect if ip_tables is not loaded.
  void RequestMatch();
  Result<ip_vs_getinfo> ReadInfo();
  Result<std::vector<ServiceEntry>> ReadServices();
  /// The IPv4 service with this key.
  Result<ServiceEntry> ReadService(const VirtualServerRecord& key);
  /// Replaces the content of `reals`, oldest first. Counters stay zero unless requested. NB: the kernel shows
  /// neither real servers of the other family nor tunnel types.
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
