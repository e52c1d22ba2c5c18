#include "relay/worker.h"

#include <netinet/in.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <iterator>
#include <system_error>
#include <utility>

namespace viaduct::relay {

namespace {

/// Blocks all signals while a thread starts, so that the thread runs no handler of Node.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all{};
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &former_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals(BlockedSignals&&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  BlockedSignals& operator=(BlockedSignals&&) = delete;

 private:
  sigset_t former_{};
};

}  // namespace

Worker::Worker(Shared& shared, std::unique_ptr<Loop> loop, Fd wake)
    : loop_(std::move(loop)),
      context_{*loop_, shared, counters_, std::make_shared<const Settings>()},
      tcp_(context_),
      udp_(context_),
      wake_(std::move(wake)) {}

Result<std::unique_ptr<Worker>> Worker::Start(Shared& shared) {
  auto loop = Loop::Open();
  if (!loop.ok()) return loop.error();
  Fd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.is_open()) return Error{errno, "open eventfd", {}};
  std::unique_ptr<Worker> worker(new Worker(shared, std::move(loop.value()), std::move(wake)));
  if (!worker->loop_->Watch(worker->wake_.get(), EPOLLIN, *worker)) return Error{errno, "watch eventfd", {}};
  try {
    const BlockedSignals blocked;
    worker->thread_ = std::thread([raw = worker.get()] { raw->Run(); });
  } catch (const std::system_error& error) {
    return Error{error.code().value(), "start a thread of the relay", {}};
  }
  (void)pthread_setname_np(worker->thread_.native_handle(), "viaduct-relay");
  return worker;
}

void Worker::Stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  Wake();
  thread_.join();
  tcp_.AbortAll();
  udp_.EndAll();
}

void Worker::Wake() {
  const uint64_t one = 1;
  // Ignoring the result: it fails only if the counter is full, and then the thread is already awake.
  (void)!write(wake_.get(), &one, sizeof one);
}

void Worker::Post(std::vector<Command> commands) {
  {
    const std::lock_guard lock(mutex_);
    unfinished_ += commands.size();
    commands_.insert(commands_.end(), std::make_move_iterator(commands.begin()),
                     std::make_move_iterator(commands.end()));
  }
  Wake();
}

void Worker::Await() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return unfinished_ == 0; });
}

void Worker::OnEvents(uint32_t) {
  uint64_t count = 0;
  (void)!read(wake_.get(), &count, sizeof count);
  has_mail_ = true;
}

void Worker::Run() {
  for (;;) {
    loop_->RunOnce();
    tcp_.Sweep();
    udp_.Sweep();
    if (!std::exchange(has_mail_, false)) continue;
    RunCommands();
    const std::lock_guard lock(mutex_);
    if (is_stopping_) return;
  }
}

void Worker::RunCommands() {
  std::vector<Command> commands;
  {
    const std::lock_guard lock(mutex_);
    commands.swap(commands_);
  }
  for (const Command& command : commands) command(*this);
  udp_.Sweep();
  {
    const std::lock_guard lock(mutex_);
    unfinished_ -= commands.size();
  }
  idle_.notify_all();
}

Result<std::unique_ptr<Listener>> Worker::MakeListener(int protocol, ListenerSocket socket) {
  std::unique_ptr<Listener> listener;
  if (protocol == IPPROTO_TCP)
    listener = std::make_unique<TcpListener>(tcp_, *loop_);
  else
    listener = std::make_unique<UdpListener>(udp_, *loop_);
  listener->fd = std::move(socket);
  if (!loop_->Watch(listener->fd.get(), 0, *listener)) return Error{errno, "watch socket", {}};
  return listener;
}

void Worker::Attach(Listener& listener) { loop_->Rewatch(listener.fd.get(), EPOLLIN, listener); }

void Worker::Change(Listener& listener, int protocol) {
  if (protocol == IPPROTO_UDP) udp_.Change(static_cast<UdpListener&>(listener));
}

void Worker::Detach(Listener& listener, int protocol) {
  if (protocol == IPPROTO_TCP) return tcp_.Detach(static_cast<TcpListener&>(listener));
  udp_.Detach(static_cast<UdpListener&>(listener));
}

void Worker::SetService(Service& service, ServiceSettings settings) {
  service.Set(std::move(settings));
  udp_.EndStale(service);
}

void Worker::List(std::vector<FlowRecord>& flows) const {
  tcp_.List(flows);
  udp_.List(flows);
}

void Worker::Configure(std::shared_ptr<const Settings> settings) {
  context_.settings = std::move(settings);
  udp_.Reschedule();
}

}  // namespace viaduct::relay
