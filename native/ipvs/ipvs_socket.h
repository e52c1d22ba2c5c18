#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/outcome.h"
#include "core/result.h"
#include "core/socket_calls.h"
#include "ipvs/record.h"

namespace viaduct::ipvs {

struct ServiceEntry;
struct RealEntry;

/// Operations in order, without rollback. NB: the caller checks the indices; they are asserted here.
struct Batch {
  std::span<const OpRecord> ops;
  std::span<const VirtualServerRecord> virtual_servers;
  std::span<const RealServerRecord> real_servers;
};

/// One family's virtual servers. The real servers of each are consecutive from first_real, sorted by address
/// bytes, then port. The counters are parallel to the two tables, and empty if not requested.
struct Table {
  std::vector<VirtualServerRecord> virtual_servers;
  std::vector<RealServerRecord> real_servers;
  std::vector<CountersRecord> virtual_server_counters;
  std::vector<CountersRecord> real_server_counters;
};

struct Info {
  uint32_t version = 0;  ///< 1.2.1 is 0x010201
  uint32_t connection_table_size = 0;
  uint32_t ipv4_virtual_servers = 0;  ///< of this network namespace
};

/// 0 in a set keeps the kernel's value (ip_vs_set_timeout).
struct Timeouts {
  uint32_t tcp_seconds = 0;
  uint32_t tcp_fin_seconds = 0;
  uint32_t udp_seconds = 0;
};

/// The kernel's IPVS table of the network namespace in which it was opened. Not thread-safe: one call at a
/// time. Every call fails with ENOENT, operation "find generic netlink family IPVS", while the kernel has no
/// IP_VS, and works as soon as the module is loaded. Since Linux 5.16 each call makes the kernel load it.
class IpvsSocket {
 public:
  ~IpvsSocket();
  IpvsSocket(IpvsSocket&&) noexcept;
  IpvsSocket& operator=(IpvsSocket&&) noexcept;
  IpvsSocket(const IpvsSocket&) = delete;  // owns sockets
  IpvsSocket& operator=(const IpvsSocket&) = delete;

  static Result<IpvsSocket> Open(SocketCalls& calls = SocketCalls::Kernel());

  /// Makes the kernel load IP_VS if it is not loaded, before Linux 5.16 too. Error: it has not loaded IP_VS.
  Status Load();

  /// Error: nothing was sent. Otherwise the outcome accounts for every operation.
  Result<BatchOutcome> Apply(const Batch& batch);

  /// Family AF_INET (by socket options: 18-23 times faster) or AF_INET6 (by netlink). Empty tables if there
  /// are no virtual servers. NB: the kernel's dumps resume by position: a concurrent change may hide or
  /// repeat an entry. IPv4 counters of connections and packets have the low 32 bits.
  Result<Table> Dump(uint8_t family, bool with_counters);
  /// The same for both families by one netlink dump per virtual server, with 64-bit counters. Dump() uses it
  /// for IPv6; the benchmark compares it with the socket options.
  Result<Table> DumpByNetlink(uint8_t family, bool with_counters);

  /// The current state of these virtual servers, in their order, without absent ones. The work grows with the
  /// number of keys, not with the table.
  Result<Table> Read(std::span<const VirtualServerRecord> keys, bool with_counters);

  Result<Info> GetInfo();
  Result<Timeouts> GetTimeouts();
  Status SetTimeouts(const Timeouts& timeouts);

 private:
  struct Sockets;
  IpvsSocket(std::unique_ptr<Sockets> sockets, SocketCalls& calls);
  Status FindFamily();
  Status AskFamily(const char* operation, const std::function<Status()>& ask);
  Result<bool> FamilyMoved();
  BatchOutcome SendAll(const Batch& batch);
  Result<std::vector<ServiceEntry>> DumpServices(uint8_t family);
  Result<ServiceEntry> GetService(const VirtualServerRecord& key);
  Status DumpRealServers(const VirtualServerRecord& server, std::vector<RealEntry>& reals);
  Status ReadRealServers(const ServiceEntry& service, bool with_counters, std::vector<RealEntry>& reals);

  std::unique_ptr<Sockets> sockets_;
  SocketCalls* calls_;
  uint16_t family_id_ = 0;  ///< 0: not looked up, or vanished
  std::vector<uint8_t> buffer_;
};

}  // namespace viaduct::ipvs
