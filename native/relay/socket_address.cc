#include "relay/socket_address.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "core/seeded_hash.h"

namespace viaduct::relay {

namespace {

constexpr uint8_t kMappedPrefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

size_t HashOf(const IpKey& key, uint64_t extra) {
  uint64_t high = 0;
  uint64_t low = 0;
  memcpy(&high, key.data(), sizeof high);
  memcpy(&low, key.data() + sizeof high, sizeof low);
  return SeededHash().Add(high).Add(low).Add(extra).value();
}

}  // namespace

IpKey MakeIpKey(const uint8_t (&address)[16], uint8_t family) {
  IpKey key{};
  if (family == AF_INET) {
    std::copy(std::begin(kMappedPrefix), std::end(kMappedPrefix), key.begin());
    std::copy_n(address, sizeof(in_addr), key.begin() + sizeof kMappedPrefix);
  } else {
    std::copy(std::begin(address), std::end(address), key.begin());
  }
  return key;
}

bool IsIpv4(const IpKey& key) {
  return std::equal(std::begin(kMappedPrefix), std::end(kMappedPrefix), key.begin());
}

SocketAddress::SocketAddress(const uint8_t (&address)[16], uint8_t family, uint16_t port) {
  ipv6_.sin6_family = family;
  ipv6_.sin6_port = htons(port);
  if (family == AF_INET)
    memcpy(&reinterpret_cast<sockaddr_in*>(&ipv6_)->sin_addr, address, sizeof(in_addr));
  else
    memcpy(&ipv6_.sin6_addr, address, sizeof(in6_addr));
}

SocketAddress::SocketAddress(const IpKey& address, uint16_t port) {
  const bool is_ipv4 = IsIpv4(address);
  uint8_t bytes[16] = {};
  std::copy(is_ipv4 ? address.begin() + sizeof kMappedPrefix : address.begin(), address.end(), bytes);
  *this = SocketAddress(bytes, is_ipv4 ? AF_INET : AF_INET6, port);
}

SocketAddress SocketAddress::Wildcard() const {
  const uint8_t any[16] = {};
  return {any, static_cast<uint8_t>(family()), port()};
}

IpKey SocketAddress::Ip() const {
  uint8_t address[16] = {};
  uint16_t port = 0;
  Write(address, port);
  return MakeIpKey(address, static_cast<uint8_t>(family()));
}

void SocketAddress::Write(uint8_t (&address)[16], uint16_t& port) const {
  if (family() == AF_INET)
    memcpy(address, &reinterpret_cast<const sockaddr_in*>(&ipv6_)->sin_addr, sizeof(in_addr));
  else
    memcpy(address, &ipv6_.sin6_addr, sizeof(in6_addr));
  port = this->port();
}

size_t SocketAddress::Hash() const { return HashOf(Ip(), NetworkPort()); }

bool operator==(const SocketAddress& a, const SocketAddress& b) {
  return a.family() == b.family() && a.NetworkPort() == b.NetworkPort() && a.Ip() == b.Ip() &&
         (a.family() == AF_INET || a.ipv6_.sin6_scope_id == b.ipv6_.sin6_scope_id);
}

size_t KeyHash::operator()(const IpKey& key) const { return HashOf(key, 0); }

}  // namespace viaduct::relay
