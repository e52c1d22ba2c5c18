#pragma once

#include <sys/socket.h>

#include <mutex>
#include <unordered_set>

#include "core/seeded_hash.h"
#include "relay/socket_address.h"

namespace viaduct::relay {

/// The two ends of a socket. Other programs may share one end, but never both.
struct SocketPair {
  SocketAddress local{};
  SocketAddress remote{};
  friend bool operator==(const SocketPair&, const SocketPair&) = default;
};

struct SocketPairHash {
  size_t operator()(const SocketPair& pair) const {
    return SeededHash().Add(pair.local.Hash()).Add(pair.remote.Hash()).value();
  }
};

/// The relay's own sockets towards endpoints, of one protocol. A client with such an address that reaches
/// such an endpoint is the relay itself. Any thread.
class OwnSockets {
 public:
  /// `client`: the ends of its socket.
  bool Contains(const SocketPair& client) const {
    const std::lock_guard lock(mutex_);
    return pairs_.contains(client);
  }
  void Add(const SocketPair& pair) {
    const std::lock_guard lock(mutex_);
    pairs_.insert(pair);
  }
  void Remove(const SocketPair& pair) {
    const std::lock_guard lock(mutex_);
    pairs_.erase(pair);
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_set<SocketPair, SocketPairHash> pairs_;
};

/// The place of one connected socket among the own ones, as long as it lives.
class OwnSocket {
 public:
  explicit OwnSocket(OwnSockets& all) : all_(all) {}
  ~OwnSocket() { Leave(); }
  OwnSocket(const OwnSocket&) = delete;  // it leaves once
  OwnSocket(OwnSocket&&) = delete;
  OwnSocket& operator=(const OwnSocket&) = delete;
  OwnSocket& operator=(OwnSocket&&) = delete;

  /// The former socket has left.
  void Enter(int fd, const SocketAddress& remote) {
    socklen_t length = SocketAddress::kRoom;
    pair_.remote = remote;
    is_entered_ = getsockname(fd, pair_.local.data(), &length) == 0;
    if (is_entered_) all_.Add(pair_);
  }
  void Leave() {
    if (is_entered_) all_.Remove(pair_);
    is_entered_ = false;
  }

 private:
  OwnSockets& all_;
  SocketPair pair_{};
  bool is_entered_ = false;
};

}  // namespace viaduct::relay
