#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/netlink_socket.h"
#include "core/outcome.h"
#include "core/result.h"
#include "route/record.h"

namespace viaduct::route {

/// Links, addresses, routes and policy routing rules of the network namespace in which it was opened. Not
/// thread-safe: one call at a time.
class RouteSocket {
 public:
  static Result<RouteSocket> Open(SocketCalls& calls = SocketCalls::Kernel());

  /// In order, without rollback. The outcome accounts for every record. kAdd: EEXIST; kRemove: ESRCH (same
  /// protocol only).
  Result<BatchOutcome> ApplyRoutes(std::span<const RouteRecord> routes);
  /// kAdd: EEXIST; kRemove: EADDRNOTAVAIL.
  Result<BatchOutcome> ApplyAddresses(std::span<const AddressRecord> addresses);

  /// The kernel's choice for each packet, in order. A packet that it does not route has an error:
  /// ENETUNREACH, EHOSTUNREACH, EACCES, EINVAL or EXDEV. Any other errno fails the call. ENODEV: no such
  /// interface.
  Result<std::vector<RouteChoiceRecord>> LookUp(std::span<const RouteQueryRecord> queries);
  /// Host routes (/32, /128) of type local in table local, of any creator; empty if there are none.
  Result<std::vector<RouteRecord>> DumpLocalRoutes(uint8_t family);
  /// The addresses that the unicast routes of all tables lead to by name (DecodeNextHops()), each once.
  Result<std::vector<AddressRecord>> DumpNextHops(uint8_t family);
  /// `interface_index` 0: all interfaces. ENODEV: no such interface.
  Result<std::vector<AddressRecord>> DumpAddresses(uint8_t family, uint32_t interface_index);
  Result<std::vector<LinkRecord>> DumpLinks();
  /// In the order of their priorities; empty if the kernel has no policy routing for the family.
  Result<std::vector<RuleRecord>> DumpRules(uint8_t family);

  /// Index of the new device, which is down. EEXIST: the name is in use; EOPNOTSUPP: no dummy module. NB:
  /// after an error with the operation "find new dummy device" the device may exist.
  Result<uint32_t> AddDummy(std::string_view name);
  /// ENODEV: no such interface; likewise RemoveLink().
  Status SetUp(uint32_t interface_index);
  Status RemoveLink(uint32_t interface_index);

 private:
  explicit RouteSocket(NetlinkSocket socket) : socket_(std::move(socket)) {}
  Result<uint32_t> FindNewDummy(std::string_view name);
  Result<RouteChoiceRecord> LookUpOne(const RouteQueryRecord& query);

  NetlinkSocket socket_;
  std::vector<uint8_t> buffer_;
};

}  // namespace viaduct::route
