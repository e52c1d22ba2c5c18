#pragma once

#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "relay/arrival.h"
#include "relay/context.h"
#include "relay/datagrams.h"

namespace viaduct::relay {

class UdpProxy;
struct UdpListener;

/// The datagrams between one client and its endpoint, by a socket of their own towards the endpoint.
struct UdpFlow final : EventTarget {
  using Owner = std::list<UdpFlow>::iterator;

  UdpFlow(UdpProxy& owner, UdpListener& origin, const SocketPair& of_client, OwnSockets& own)
      : proxy(owner), listener(origin), ends(of_client), own_socket(own) {}
  void OnEvents(uint32_t events) override;

  UdpProxy& proxy;
  UdpListener& listener;
  SocketPair ends;  ///< of the client's socket: its own, and the frontend
  SocketAddress endpoint{};
  unsigned interface_index = 0;  ///< of the first datagram
  HopLimit hop_limit{};          ///< of what upstream sends
  std::shared_ptr<Service> service{};
  Fd upstream{};
  OwnSocket own_socket;  ///< upstream among those of the relay
  Fd downstream{};       ///< not open: the listener's socket
  Clock::time_point last_use{};
  Owner self{};
  std::list<UdpFlow*>::iterator in_service{};
};

struct UdpListener final : Listener {
  UdpListener(UdpProxy& owner, Loop& loop) : proxy(owner), pause(loop, *this) {}
  void OnEvents(uint32_t events) override;
  void OnTimer() override;
  UdpProxy& proxy;
  Timer pause;                                                       ///< set while it cannot open again
  bool is_closed = false;                                            ///< to new clients
  std::unordered_map<SocketPair, UdpFlow*, SocketPairHash> flows{};  ///< by their ends
};

/// The UDP flows of one worker.
class UdpProxy final : private EventTarget {
 public:
  explicit UdpProxy(Context& context) : context_(context), expiry_(context.loop, *this) {}
  ~UdpProxy() = default;
  UdpProxy(const UdpProxy&) = delete;  // flows refer to it
  UdpProxy(UdpProxy&&) = delete;
  UdpProxy& operator=(const UdpProxy&) = delete;
  UdpProxy& operator=(UdpProxy&&) = delete;

  /// Ends its flows.
  void Detach(UdpListener& listener);
  /// The verdicts have changed. A listener that serves no client lets the kernel refuse new ones; its flows
  /// go on.
  void Change(UdpListener& listener);
  /// Ends the flows of a service whose endpoint keeps none.
  void EndStale(Service& service);
  void EndAll();
  /// Adds all flows.
  void List(std::vector<FlowRecord>& flows) const;
  /// Forwards a batch of datagrams that a socket of the listener received from clients.
  void Receive(UdpListener& listener, int fd);
  /// Forwards a batch of replies.
  void Reply(UdpFlow& flow);
  /// The idle time has changed.
  void Reschedule();
  /// Deletes the flows that ended in this round.
  void Sweep() { ended_.clear(); }

 private:
  void OnEvents(uint32_t) override {}
  void OnTimer() override;

  UdpFlow* FlowOf(UdpListener& listener, const SocketPair& ends, const Arrival& arrival);
  UdpFlow* Start(UdpListener& listener, const SocketPair& ends, const Arrival& arrival);
  bool Part(UdpFlow& flow);
  int Reopen(UdpListener& listener);
  bool MakeRoom(Service& service);
  void Forward(UdpListener& listener, const Arrival& arrival, size_t first, size_t count);
  void Touch(UdpFlow& flow);
  void End(UdpFlow& flow);
  Datagrams& datagrams();

  Context& context_;
  Timer expiry_;              ///< of the flow that was not used for the longest time
  std::list<UdpFlow> flows_;  ///< the last used one last
  std::list<UdpFlow> ended_;
  std::unique_ptr<Datagrams> datagrams_;  ///< made with the first use
};

}  // namespace viaduct::relay
