#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/fd.h"
#include "core/result.h"
#include "core/socket_calls.h"
#include "relay/socket_address.h"

namespace viaduct::relay {

class ListenerSockets;

/// A listening TCP socket or a bound UDP socket, one of ListenerSockets as long as it is open.
class ListenerSocket {
 public:
  ListenerSocket() = default;
  ~ListenerSocket() { Reset(); }
  ListenerSocket(const ListenerSocket&) = delete;  // it leaves once
  ListenerSocket& operator=(const ListenerSocket&) = delete;
  ListenerSocket(ListenerSocket&& other) noexcept
      : all_(other.all_), protocol_(other.protocol_), address_(other.address_), fd_(std::move(other.fd_)) {}
  ListenerSocket& operator=(ListenerSocket&& other) noexcept;

  int get() const { return fd_.get(); }
  bool is_open() const { return fd_.is_open(); }
  void Reset();

 private:
  friend class ListenerSockets;
  ListenerSocket(ListenerSockets& all, int protocol, const SocketAddress& address, Fd fd)
      : all_(&all), protocol_(protocol), address_(address), fd_(std::move(fd)) {}

  ListenerSockets* all_ = nullptr;  ///< set if it is open
  int protocol_ = 0;
  SocketAddress address_{};
  Fd fd_{};
};

/// The listening sockets of the relay. A socket on all addresses (a wildcard) and sockets on single addresses
/// may have the same port: the kernel gives a client to the socket of its address, if there is one. Other
/// programs share no port. Any thread.
class ListenerSockets {
 public:
  /// `diag_calls`: of the look at the sockets of other programs.
  explicit ListenerSockets(SocketCalls& diag_calls = SocketCalls::Kernel()) : diag_calls_(diag_calls) {}

  /// Opens a listening TCP socket, or a bound UDP socket. EADDRINUSE: another program has the port, for a
  /// wildcard at any address. EOPNOTSUPP: the kernel does not tell whether one has it (no sock_diag), or not
  /// where a datagram was sent to.
  Result<ListenerSocket> Open(int protocol, const SocketAddress& address);
  /// A UDP socket for the datagrams of one client to `address`, beside the listener that has it. Not open:
  /// errno.
  Fd OpenForClient(const SocketAddress& address, const SocketAddress& client);

 private:
  friend class ListenerSocket;
  using SocketsOfPort = std::unordered_multimap<SocketAddress, int, KeyHash>;

  /// Those that a new socket on the address meets: of the address, and those between which the wildcard
  /// stands. Under the lock.
  std::vector<int> Beside(int protocol, const SocketAddress& address) const;
  /// EADDRINUSE: another program has the port of the new socket, which was open to sharing.
  Status RefuseStrangers(int protocol, const SocketAddress& address, int fd) const;
  /// Whether a socket of another program has an address that the new one has too.
  Result<bool> MeetsStranger(int protocol, const SocketAddress& address, int fd) const;
  void Close(ListenerSocket& socket);

  SocketCalls& diag_calls_;
  std::mutex mutex_;
  std::unordered_map<uint32_t, SocketsOfPort> ports_;  ///< by protocol, family and port
};

/// Lets the kernel refuse the datagrams that come to a bound UDP socket, and keeps its port: a wildcard keeps
/// that of a loopback address alone. False: errno.
bool CloseToClients(int fd);

}  // namespace viaduct::relay
