#include "relay/relay.h"

#include <netinet/in.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/seeded_hash.h"
#include "relay/context.h"
#include "relay/service.h"
#include "relay/worker.h"

namespace viaduct::relay {

namespace {

constexpr unsigned kMostWorkers = 4;
/// Descriptors of the rest of the process: files, netlink sockets, the connections of the API client.
constexpr uint32_t kReserve = 256;
/// Bounds the kernel's memory: a socket costs 2 to 4 KB, so that all of them take at most some 0.5 GB.
constexpr uint32_t kMostDescriptors = 131'072;
/// Records of affinity of all services: some 150 bytes each, 40 MB.
constexpr uint32_t kMostAffinityRecords = 262'144;
/// Three quarters of 32768 to 60999, the kernel's default range.
constexpr uint32_t kUsualUdpPorts = 21'174;
/// A shortage is reported until this time after the last refused connection or flow.
constexpr std::chrono::seconds kShortageTime{10};

/// Raises the soft limit. The result leaves the reserve free.
uint32_t UsableDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kReserve;
  if (limit.rlim_cur < limit.rlim_max) {
    const rlimit raised{.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  const rlim_t usable = limit.rlim_cur - std::min<rlim_t>(kReserve, limit.rlim_cur / 2);
  return static_cast<uint32_t>(std::min<rlim_t>(usable, kMostDescriptors));
}

/// Three quarters of the local ports. The others are for the node's own programs, such as resolvers.
uint32_t UsableUdpPorts() {
  // The range holds for both families, in this network namespace.
  std::ifstream range("/proc/sys/net/ipv4/ip_local_port_range");
  uint32_t first = 0;
  uint32_t last = 0;
  if (!(range >> first >> last) || last < first) return kUsualUdpPorts;
  const uint32_t ports = last - first + 1;
  return ports - ports / 4;
}

unsigned DefaultWorkers() { return std::clamp(std::thread::hardware_concurrency(), 1U, kMostWorkers); }

std::vector<SocketAddress> Addresses(std::span<const EndpointRecord> records) {
  std::vector<SocketAddress> addresses;
  addresses.reserve(records.size());
  for (const EndpointRecord& record : records)
    addresses.emplace_back(record.address, record.family, record.port);
  return addresses;
}

ServiceSettings SettingsOf(const Batch& batch, const ServiceRecord& record) {
  const auto endpoints = batch.endpoints.subspan(record.first_endpoint);
  return {.affinity = std::chrono::seconds(record.affinity_seconds),
          .cluster_endpoints = Addresses(endpoints.first(record.cluster_count)),
          .local_endpoints = Addresses(endpoints.subspan(record.cluster_count, record.local_count)),
          .flow_endpoints =
              Addresses(endpoints.subspan(record.cluster_count + record.local_count, record.flow_count)),
          .source_ranges = NetworkSet(batch.ranges.subspan(record.first_range, record.range_count))};
}

/// The identity of a listener.
struct ListenerKey {
  SocketAddress address;
  uint8_t protocol;
  friend bool operator==(const ListenerKey&, const ListenerKey&) = default;
};

struct ListenerHash {
  size_t operator()(const ListenerKey& key) const {
    return SeededHash().Add(key.address.Hash()).Add(key.protocol).value();
  }
};

ListenerKey KeyOf(const ListenerRecord& record) {
  return {SocketAddress(record.address, record.family, record.port), record.protocol};
}

Error Missing(const char* what) { return {ENOENT, what, {}}; }

}  // namespace

/// The services and listeners, and the threads that use them.
class Relay::State {
 public:
  State(unsigned worker_count, uint32_t descriptor_limit, uint32_t udp_port_limit)
      : worker_count_(worker_count), shared_(descriptor_limit, udp_port_limit, kMostAffinityRecords) {}
  ~State();
  State(const State&) = delete;  // the threads refer to it
  State(State&&) = delete;
  State& operator=(const State&) = delete;
  State& operator=(State&&) = delete;

  Status Start();
  void Configure(const SettingsRecords& records);
  BatchOutcome Apply(const Batch& batch);
  std::vector<FlowRecord> ListFlows();
  CountersRecord ReadCounters() const;
  Conditions ReadConditions() const;

 private:
  struct ServiceEntry {
    std::shared_ptr<Service> service;
    Worker* worker;
    uint32_t listeners = 0;  ///< that refer to it
  };
  struct ListenerEntry {
    uint32_t service;
    Worker* worker;
    uint8_t protocol;
    std::unique_ptr<Listener> listener;
  };
  using Listeners = std::unordered_map<ListenerKey, ListenerEntry, ListenerHash>;

  Status ApplyOne(const Batch& batch, const OpRecord& op);
  Status SetService(const Batch& batch, const ServiceRecord& record);
  Status RemoveService(uint32_t id);
  Status SetListener(const ListenerRecord& record);
  Status OpenListener(const ListenerRecord& record, const ListenerKey& key, ServiceEntry& service);
  void ChangeListener(const ListenerRecord& record, ListenerEntry& entry);
  Status RemoveListener(const ListenerKey& key);
  void Detach(Listeners::iterator listener);
  void Send(Worker& worker, Worker::Command command) { pending_[&worker].push_back(std::move(command)); }
  void Flush();

  unsigned worker_count_;
  Shared shared_;
  std::unordered_map<uint32_t, ServiceEntry> services_;
  Listeners listeners_;
  Listeners removed_;  ///< until their threads no longer use them
  std::atomic<uint64_t> listener_count_ = 0;
  std::unordered_map<Worker*, std::vector<Worker::Command>> pending_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

/// The threads end first, then the listeners with their timers, then the loops.
Relay::State::~State() {
  for (const auto& worker : workers_) worker->Stop();
  listeners_.clear();
}

Status Relay::State::Start() {
  for (unsigned i = 0; i < worker_count_; ++i) {
    auto worker = Worker::Start(shared_);
    if (!worker.ok()) return worker.error();
    workers_.push_back(std::move(worker.value()));
  }
  return Ok();
}

void Relay::State::Configure(const SettingsRecords& records) {
  auto settings = std::make_shared<Settings>();
  settings->near_networks = NetworkSet(records.near_networks);
  for (const InterfaceRecord& record : records.near_interfaces)
    settings->near_interfaces.emplace_back(record.name, strnlen(record.name, sizeof record.name));
  settings->udp_idle = records.udp_idle;
  settings->node_port_addresses = NetworkSet(records.node_port_addresses);
  for (const auto& worker : workers_)
    Send(*worker, [settings](Worker& target) { target.Configure(settings); });
  Flush();
}

BatchOutcome Relay::State::Apply(const Batch& batch) {
  BatchOutcome outcome;
  for (uint32_t i = 0; i < batch.ops.size(); ++i) {
    const Status status = ApplyOne(batch, batch.ops[i]);
    if (status.ok())
      ++outcome.applied;
    else
      outcome.failures.push_back({.index = i, .code = status.error().code, .text = status.error().operation});
  }
  Flush();
  return outcome;
}

Status Relay::State::ApplyOne(const Batch& batch, const OpRecord& op) {
  switch (op.op) {
    case Op::kSetService:
      return SetService(batch, batch.services[op.object]);
    case Op::kRemoveService:
      return RemoveService(batch.services[op.object].id);
    case Op::kSetListener:
      return SetListener(batch.listeners[op.object]);
    case Op::kRemoveListener:
      return RemoveListener(KeyOf(batch.listeners[op.object]));
  }
  return Error{EINVAL, "no such operation", {}};
}

Status Relay::State::SetService(const Batch& batch, const ServiceRecord& record) {
  auto [entry, is_new] = services_.try_emplace(record.id);
  if (is_new) {
    entry->second.service = std::make_shared<Service>(shared_.affinity_records);
    entry->second.worker = workers_[record.id % workers_.size()].get();
  }
  Send(*entry->second.worker, [service = entry->second.service,
                               settings = std::make_shared<ServiceSettings>(SettingsOf(batch, record))](
                                  Worker& worker) { worker.SetService(*service, std::move(*settings)); });
  return Ok();
}

Status Relay::State::RemoveService(uint32_t id) {
  const auto entry = services_.find(id);
  if (entry == services_.end()) return Missing("no such service");
  if (entry->second.listeners > 0) return Error{EBUSY, "a listener refers to the service", {}};
  // Its thread lets it go last: the connections keep it.
  Send(*entry->second.worker, [service = std::move(entry->second.service)](Worker&) {});
  services_.erase(entry);
  return Ok();
}

Status Relay::State::SetListener(const ListenerRecord& record) {
  const auto service = services_.find(record.service);
  if (service == services_.end()) return Missing("no such service");
  const ListenerKey key = KeyOf(record);
  const auto known = listeners_.find(key);
  if (known == listeners_.end()) return OpenListener(record, key, service->second);
  ListenerEntry& entry = known->second;
  if (entry.service != record.service) {
    Detach(known);
    return OpenListener(record, key, service->second);
  }
  ChangeListener(record, entry);
  return Ok();
}

Status Relay::State::OpenListener(const ListenerRecord& record, const ListenerKey& key,
                                  ServiceEntry& service) {
  if (removed_.contains(key)) Flush();
  // A quarter of the descriptors is left for connections and flows.
  const Budget& descriptors = shared_.descriptors;
  const uint32_t limit = descriptors.limit() - std::min(descriptors.limit(), descriptors.others());
  if (listener_count_ >= limit - limit / 4)
    return Error{EMFILE, "three quarters of the file descriptors are listeners", {}};
  auto socket = shared_.listeners.Open(record.protocol, key.address);
  if (!socket.ok()) return socket.error();
  auto listener = service.worker->MakeListener(record.protocol, std::move(socket.value()));
  if (!listener.ok()) return listener.error();
  Listener* raw = listener.value().get();
  raw->address = key.address;
  raw->service = service.service;
  ListenerEntry entry{record.service, service.worker, record.protocol, std::move(listener.value())};
  ChangeListener(record, entry);
  Send(*service.worker, [raw](Worker& worker) { worker.Attach(*raw); });
  listeners_.emplace(key, std::move(entry));
  ++service.listeners;
  ++listener_count_;
  shared_.descriptors.Take(1);
  return Ok();
}

void Relay::State::ChangeListener(const ListenerRecord& record, ListenerEntry& entry) {
  Send(*entry.worker, [raw = entry.listener.get(), record](Worker& worker) {
    raw->near = record.near;
    raw->far = record.far;
    raw->has_source_ranges = record.has_source_ranges != 0;
    worker.Change(*raw, record.protocol);
  });
}

Status Relay::State::RemoveListener(const ListenerKey& key) {
  const auto found = listeners_.find(key);
  if (found == listeners_.end()) return Missing("no such listener");
  Detach(found);
  return Ok();
}

void Relay::State::Detach(Listeners::iterator found) {
  ListenerEntry& entry = found->second;
  Send(*entry.worker, [raw = entry.listener.get(), protocol = entry.protocol](Worker& worker) {
    worker.Detach(*raw, protocol);
  });
  --services_.at(entry.service).listeners;
  --listener_count_;
  shared_.descriptors.Give(1);
  removed_.insert(listeners_.extract(found));
}

/// Waits until the threads have run all commands. Then closes the removed listeners.
void Relay::State::Flush() {
  for (auto& [worker, commands] : pending_) worker->Post(std::move(commands));
  for (auto& [worker, commands] : pending_) worker->Await();
  pending_.clear();
  removed_.clear();
}

std::vector<FlowRecord> Relay::State::ListFlows() {
  std::vector<std::vector<FlowRecord>> parts(workers_.size());
  for (size_t i = 0; i < workers_.size(); ++i)
    Send(*workers_[i], [&part = parts[i]](Worker& worker) { worker.List(part); });
  Flush();
  std::vector<FlowRecord> flows;
  for (const auto& part : parts) flows.insert(flows.end(), part.begin(), part.end());
  return flows;
}

CountersRecord Relay::State::ReadCounters() const {
  CountersRecord sum{};
  sum.listeners = listener_count_;
  for (const auto& worker : workers_) {
    const Counters& counters = worker->counters();
    const auto add = [](uint64_t& total, const Counter& counter) {
      total += static_cast<uint64_t>(counter.value());
    };
    add(sum.connections, counters.connections);
    add(sum.flows, counters.flows);
    add(sum.accepted_connections, counters.accepted);
    add(sum.failed_connections, counters.failed);
    add(sum.refused_connections, counters.refused);
    add(sum.shed_connections, counters.shed);
    add(sum.started_flows, counters.started_flows);
    add(sum.evicted_flows, counters.evicted);
    add(sum.spent_hops, counters.spent_hops);
    add(sum.received_bytes, counters.received_bytes);
    add(sum.sent_bytes, counters.sent_bytes);
  }
  return sum;
}

Conditions Relay::State::ReadConditions() const {
  const auto now = Clock::now();
  return {.has_few_descriptors = shared_.descriptor_shortage.IsWithin(kShortageTime, now),
          .has_few_udp_ports = shared_.udp_port_shortage.IsWithin(kShortageTime, now),
          .has_few_tcp_ports = shared_.tcp_port_shortage.IsWithin(kShortageTime, now),
          .has_taken_port = shared_.taken_ports.IsWithin(kShortageTime, now),
          .has_loop = shared_.loops.IsWithin(kShortageTime, now),
          .has_spent_hops = shared_.spent_hops.IsWithin(kShortageTime, now),
          .descriptor_limit = shared_.descriptors.limit(),
          .udp_port_limit = shared_.udp_ports.limit()};
}

Result<Relay> Relay::Open(const Options& options) {
  const uint32_t usable = UsableDescriptors();
  auto state =
      std::make_unique<State>(options.workers == 0 ? DefaultWorkers() : options.workers,
                              options.descriptor_limit == 0 ? usable : options.descriptor_limit,
                              options.udp_port_limit == 0 ? UsableUdpPorts() : options.udp_port_limit);
  const Status status = state->Start();
  if (!status.ok()) return status.error();
  return Relay(std::move(state));
}

Relay::Relay(std::unique_ptr<State> state) : state_(std::move(state)) {}
Relay::~Relay() = default;
Relay::Relay(Relay&& other) noexcept = default;
Relay& Relay::operator=(Relay&& other) noexcept = default;

Status Relay::Configure(const SettingsRecords& settings) {
  state_->Configure(settings);
  return Ok();
}

BatchOutcome Relay::Apply(const Batch& batch) { return state_->Apply(batch); }
std::vector<FlowRecord> Relay::ListFlows() { return state_->ListFlows(); }
CountersRecord Relay::ReadCounters() const { return state_->ReadCounters(); }
Conditions Relay::ReadConditions() const { return state_->ReadConditions(); }

}  // namespace viaduct::relay
