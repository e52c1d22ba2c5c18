#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/fd.h"
#include "core/result.h"
#include "relay/context.h"
#include "relay/tcp_proxy.h"
#include "relay/udp_proxy.h"

namespace viaduct::relay {

/// One thread with its services, their listeners, connections and flows. Only this thread uses them, so that
/// the path of the bytes has no lock.
class Worker final : private EventTarget {
 public:
  /// Work for the thread.
  using Command = std::function<void(Worker&)>;

  static Result<std::unique_ptr<Worker>> Start(Shared& shared);
  ~Worker() { Stop(); }
  Worker(const Worker&) = delete;  // the thread refers to it
  Worker(Worker&&) = delete;
  Worker& operator=(const Worker&) = delete;
  Worker& operator=(Worker&&) = delete;

  /// Ends the thread. Resets its connections and ends its flows; after that no listener is in use.
  /// Idempotent.
  void Stop();
  /// Runs the commands in order, between two rounds of the loop. From any other thread.
  void Post(std::vector<Command> commands);
  /// Waits until all posted commands have run.
  void Await();

  const Counters& counters() const { return counters_; }

  /// A listener that gets no events before Attach(). From any thread. The kernel refuses with ENOMEM or
  /// ENOSPC.
  Result<std::unique_ptr<Listener>> MakeListener(int protocol, ListenerSocket socket);

  // For commands.
  void Attach(Listener& listener);
  /// The verdicts have changed.
  void Change(Listener& listener, int protocol);
  void Detach(Listener& listener, int protocol);
  void SetService(Service& service, ServiceSettings settings);
  /// Adds all connections and flows.
  void List(std::vector<FlowRecord>& flows) const;
  void Configure(std::shared_ptr<const Settings> settings);

 private:
  Worker(Shared& shared, std::unique_ptr<Loop> loop, Fd wake);
  void OnEvents(uint32_t events) override;
  void Run();
  void RunCommands();
  void Wake();

  std::unique_ptr<Loop> loop_;
  Counters counters_;
  Context context_;
  TcpProxy tcp_;
  UdpProxy udp_;
  Fd wake_;  ///< eventfd
  bool has_mail_ = false;

  std::mutex mutex_;
  std::condition_variable idle_;
  std::vector<Command> commands_;  ///< guarded by mutex_
  size_t unfinished_ = 0;          ///< guarded by mutex_: commands that were posted and have not run
  bool is_stopping_ = false;       ///< guarded by mutex_
  std::thread thread_;
};

}  // namespace viaduct::relay
