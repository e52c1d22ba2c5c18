#pragma once

#include <list>
#include <memory>

#include "relay/arrival.h"
#include "relay/context.h"
#include "relay/stream.h"

namespace viaduct::relay {

class TcpProxy;

/// A client's connection and its connection to an endpoint. It connects first, to one endpoint after the
/// other; then it moves bytes until both directions have ended or one end fails.
class TcpConnection {
 public:
  using Owner = std::list<std::unique_ptr<TcpConnection>>::iterator;

  /// The two addresses of the client's connection, and the hop limit of the connection to an endpoint.
  struct Origin {
    SocketAddress client;
    SocketAddress frontend;
    HopLimit hop_limit{};
  };

  TcpConnection(TcpProxy& proxy, Fd client, const Origin& origin, Verdict verdict,
                std::shared_ptr<Service> service);
  ~TcpConnection();
  TcpConnection(const TcpConnection&) = delete;  // the loop refers to it
  TcpConnection(TcpConnection&&) = delete;
  TcpConnection& operator=(const TcpConnection&) = delete;
  TcpConnection& operator=(TcpConnection&&) = delete;

  /// `self`: the place in the proxy's list.
  void Start(Owner self);
  /// Ends with a reset at both sides.
  void Abort();

  FlowRecord ToRecord() const;

  static constexpr uint32_t kDescriptors = 2;

 private:
  struct End final : EventTarget {
    explicit End(TcpConnection& connection) : owner(connection) {}
    void OnEvents(uint32_t events) override { owner.OnEvents(*this, events); }
    void OnTimer() override { owner.OnTimer(); }
    TcpConnection& owner;
    Side side{};
  };

  void OnEvents(End& end, uint32_t events);
  void OnTimer();
  void Connect(const SocketAddress& endpoint);
  void ConnectNext();
  void Refused();
  void Advance();
  Progress MoveBoth();
  void Close();

  TcpProxy& proxy_;
  std::shared_ptr<Service> service_;
  Owner self_{};
  Origin origin_;
  IpKey address_;           ///< of the client
  SocketAddress endpoint_;  ///< the last one that was chosen
  Verdict verdict_;
  End client_;
  End upstream_;
  OwnSocket own_socket_;  ///< upstream_ among those of the relay
  Timer timer_;           ///< of the attempt to connect
  Stream forward_;
  Stream backward_;
  uint32_t timeouts_ = 0;
  uint32_t refusals_ = 0;
  bool is_connected_ = false;
  bool is_closed_ = false;
};

}  // namespace viaduct::relay
