#pragma once

#include <list>
#include <memory>
#include <vector>

#include "relay/context.h"
#include "relay/stream.h"
#include "relay/tcp_connection.h"

namespace viaduct::relay {

class TcpProxy;

struct TcpListener final : Listener {
  TcpListener(TcpProxy& owner, Loop& loop) : proxy(owner), pause(loop, *this) {}
  void OnEvents(uint32_t events) override;
  void OnTimer() override;
  TcpProxy& proxy;
  Timer pause;  ///< set while accept() has no descriptors, or no socket listens
};

/// The TCP connections of one worker.
class TcpProxy {
 public:
  explicit TcpProxy(Context& context) : context_(context), tools_(context.shared.descriptors) {}

  void Detach(TcpListener& listener);
  /// Accepts a batch of clients.
  void Accept(TcpListener& listener);
  void Resume(TcpListener& listener);
  /// Adds all connections.
  void List(std::vector<FlowRecord>& flows) const;
  /// Resets all connections.
  void AbortAll();
  /// Deletes the connections that ended in this round.
  void Sweep() { ended_.clear(); }

  Context& context() { return context_; }
  StreamTools& tools() { return tools_; }
  /// For a connection that has ended.
  void Bury(TcpConnection::Owner connection) { ended_.splice(ended_.end(), connections_, connection); }

 private:
  void Begin(TcpListener& listener, Fd client, const SocketAddress& peer);
  void Pause(TcpListener& listener);
  void Reopen(TcpListener& listener);

  Context& context_;
  StreamTools tools_;
  std::list<std::unique_ptr<TcpConnection>> connections_;
  std::list<std::unique_ptr<TcpConnection>> ended_;
};

/// Closes with a reset instead of an end.
void CloseWithReset(Fd fd);

}  // namespace viaduct::relay
