#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace viaduct::relay {

/// An IP address in 16 bytes; IPv4 in its IPv4-mapped form. Sockets of IPv6 here take no IPv4, so that no
/// two addresses share a form.
using IpKey = std::array<uint8_t, 16>;

IpKey MakeIpKey(const uint8_t (&address)[16], uint8_t family);
bool IsIpv4(const IpKey& key);

/// An IPv4 or IPv6 address with a port, as system calls take it.
class SocketAddress {
 public:
  SocketAddress() = default;
  SocketAddress(const uint8_t (&address)[16], uint8_t family, uint16_t port);
  SocketAddress(const IpKey& address, uint16_t port);

  /// For a system call that writes an address: room for either family.
  sockaddr* data() { return reinterpret_cast<sockaddr*>(&ipv6_); }
  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&ipv6_); }
  static constexpr socklen_t kRoom = sizeof(sockaddr_in6);
  socklen_t size() const { return family() == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6); }
  int family() const { return ipv6_.sin6_family; }
  IpKey Ip() const;
  uint16_t port() const { return ntohs(NetworkPort()); }
  /// All addresses of its family: 0.0.0.0 or ::.
  bool IsWildcard() const { return *this == Wildcard(); }
  /// The wildcard of its family, with its port.
  SocketAddress Wildcard() const;
  /// As a record has it: IPv4 fills the first four bytes.
  void Write(uint8_t (&address)[16], uint16_t& port) const;
  size_t Hash() const;

  friend bool operator==(const SocketAddress& a, const SocketAddress& b);

 private:
  /// The port is at the same place in sockaddr_in.
  uint16_t NetworkPort() const { return ipv6_.sin6_port; }

  sockaddr_in6 ipv6_{};
};

/// Hashes with a seed of this process, so that no client can choose addresses of one bucket.
struct KeyHash {
  size_t operator()(const SocketAddress& address) const { return address.Hash(); }
  size_t operator()(const IpKey& key) const;
};

}  // namespace viaduct::relay
