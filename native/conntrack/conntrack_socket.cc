#include "conntrack/conntrack_socket.h"

#include <linux/netfilter/nf_conntrack_tcp.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "conntrack/decode.h"
#include "conntrack/encode.h"
#include "core/send_batch.h"

namespace viaduct::conntrack {

namespace {

using Request = RequestBuffer<kMaxRequestBytes>;

// At 100,000 entries a filtered dump takes 41 ms, because the kernel walks the whole table; a full dump takes
// 136 ms.
constexpr size_t kMaxFilteredDumps = 3;
// Flows to collect during a dump: 1,024 of some 120 bytes fill half of a send.
constexpr size_t kMaxPending = 1024;

constexpr const char* kDumpOperation = "dump conntrack entries";
constexpr const char* kDeleteOperation = "delete conntrack entry";

Result<NetlinkSocket> OpenSocket(SocketCalls& calls) {
  NetlinkSocket::Options options;
  options.protocol = NETLINK_NETFILTER;
  options.calls = &calls;
  return NetlinkSocket::Open(options);
}

FlowRecord ToRecord(const Flow& flow) {
  const auto& [source, destination, protocol, zone] = flow.original;
  FlowRecord record{};
  memcpy(record.source, source.address, sizeof record.source);
  memcpy(record.destination, destination.address, sizeof record.destination);
  memcpy(record.reply_source, flow.reply_source.address, sizeof record.reply_source);
  record.timeout_seconds = flow.timeout_seconds;
  record.source_port = source.port;
  record.destination_port = destination.port;
  record.reply_source_port = flow.reply_source.port;
  record.protocol = protocol;
  record.tcp_state = flow.tcp_state;
  return record;
}

struct FlowNumbers {
  uint32_t active = 0;
  uint32_t inactive = 0;
};

/// Numbers by a record whose own numbers are 0.
struct IsBefore {
  bool operator()(const FlowCountRecord& a, const FlowCountRecord& b) const {
    return memcmp(&a, &b, sizeof a) < 0;
  }
};
using FlowCounts = std::map<FlowCountRecord, FlowNumbers, IsBefore>;

FlowCountRecord ToCountKey(const Flow& flow) {
  FlowCountRecord key{};
  memcpy(key.destination, flow.original.destination.address, sizeof key.destination);
  memcpy(key.reply_source, flow.reply_source.address, sizeof key.reply_source);
  key.destination_port = flow.original.destination.port;
  key.reply_source_port = flow.reply_source.port;
  key.protocol = flow.original.protocol;
  return key;
}

/// As IPVS counts them: ActiveConn and InActConn of ipvsadm.
bool IsActive(const Flow& flow) {
  return flow.original.protocol != IPPROTO_TCP || flow.tcp_state == TCP_CONNTRACK_ESTABLISHED;
}

/// Whether the kernel supports CTA_FILTER but not these flags.
bool RefusesFilter(const Error& error) { return error.code == EINVAL || error.code == EOPNOTSUPP; }

}  // namespace

Result<ConntrackSocket> ConntrackSocket::Open(SocketCalls& calls) {
  auto dump = OpenSocket(calls);
  if (!dump.ok()) return dump.error();
  auto deletion = OpenSocket(calls);
  if (!deletion.ok()) return deletion.error();
  return ConntrackSocket(std::move(dump.value()), std::move(deletion.value()));
}

Result<Cleaning> ConntrackSocket::DeleteStale(uint8_t family, std::span<const FrontendRecord> frontends,
                                              std::span<const BackendRecord> backends,
                                              std::span<const AddressRecord> node_port_addresses) {
  if (frontends.empty()) return Cleaning{};
  Sweep sweep{family, FrontendIndex(frontends, backends, node_port_addresses)};
  const bool is_filtered = kernel_filters_ && frontends.size() <= kMaxFilteredDumps;
  Status swept = is_filtered ? SweepFiltered(frontends, sweep) : SweepAll(sweep);
  DeletePending(sweep);
  if (!swept.ok()) return Named(std::move(swept), kDumpOperation).error();
  if (sweep.deletion_error.code != 0) return sweep.deletion_error;
  return sweep.cleaning;
}

Result<FlowList> ConntrackSocket::ListFlows(uint8_t family, std::span<const FrontendRecord> frontends,
                                            std::span<const AddressRecord> node_port_addresses,
                                            uint32_t limit) {
  FlowList list;
  if (frontends.empty()) return list;
  const Status listed = VisitFlows(
      family, FrontendIndex(frontends, {}, node_port_addresses),
      [&](const Flow& flow) {
        ++list.total;
        if (list.flows.size() < limit) list.flows.push_back(ToRecord(flow));
      },
      [&] { list = {}; });
  if (!listed.ok()) return listed.error();
  return list;
}

Result<std::vector<FlowCountRecord>> ConntrackSocket::CountFlows(
    uint8_t family, std::span<const FrontendRecord> frontends,
    std::span<const AddressRecord> node_port_addresses) {
  std::vector<FlowCountRecord> records;
  if (frontends.empty()) return records;
  FlowCounts counts;
  const Status counted = VisitFlows(
      family, FrontendIndex(frontends, {}, node_port_addresses),
      [&](const Flow& flow) {
        auto& [active, inactive] = counts[ToCountKey(flow)];
        ++(IsActive(flow) ? active : inactive);
      },
      [&] { counts.clear(); });
  if (!counted.ok()) return counted.error();
  records.reserve(counts.size());
  for (const auto& [key, numbers] : counts) {
    FlowCountRecord record = key;
    record.active = numbers.active;
    record.inactive = numbers.inactive;
    records.push_back(record);
  }
  return records;
}

Status ConntrackSocket::VisitFlows(uint8_t family, const FrontendIndex& index,
                                   const std::function<void(const Flow&)>& visit,
                                   const std::function<void()>& restart) {
  bool is_malformed = false;
  Request request;
  MessageBuilder builder(request);
  EncodeDump(builder, family);
  Status status = dump_.Dump(
      builder.sealed(),
      [&](uint16_t, std::span<const uint8_t> payload) {
        const auto flow = DecodeFlow(payload);
        is_malformed = is_malformed || !flow;
        if (flow && flow->family == family && index.Serves(*flow)) visit(*flow);
      },
      [&] {
        is_malformed = false;
        restart();
      });
  if (status.ok() && is_malformed) status = Error{EPROTO, {}, {}};
  return status.ok() ? Ok() : Named(std::move(status), kDumpOperation);
}

Status ConntrackSocket::SweepFiltered(std::span<const FrontendRecord> frontends, Sweep& sweep) {
  sweep.cleaning.is_filtered = true;
  for (const FrontendRecord& frontend : frontends) {
    Request request;
    MessageBuilder builder(request);
    EncodeFilteredDump(builder, sweep.family, frontend);
    bool is_filtered = true;
    Status swept = SweepDump(
        builder.sealed(),
        [&](const Flow& flow) { is_filtered = is_filtered && IsWithinFilter(frontend, flow); }, sweep);
    if (swept.ok() ? !is_filtered : RefusesFilter(swept.error())) {
      Status all = SweepAll(sweep);
      // The same errno may mean that there is no ctnetlink: then support for filters stays unknown.
      kernel_filters_ = !all.ok();
      return all;
    }
    if (!swept.ok()) return swept;
  }
  return Ok();
}

Status ConntrackSocket::SweepAll(Sweep& sweep) {
  sweep.cleaning.is_filtered = false;
  sweep.cleaning.seen = 0;
  Request request;
  MessageBuilder builder(request);
  EncodeDump(builder, sweep.family);
  return SweepDump(
      builder.sealed(), [](const Flow&) {}, sweep);
}

Status ConntrackSocket::SweepDump(std::span<const uint8_t> request,
                                  const std::function<void(const Flow&)>& visit, Sweep& sweep) {
  bool is_malformed = false;
  const uint32_t seen_before = sweep.cleaning.seen;
  Status status = dump_.Dump(
      request,
      [&](uint16_t, std::span<const uint8_t> payload) {
        const auto flow = DecodeFlow(payload);
        is_malformed = is_malformed || !flow;
        if (!flow || flow->family != sweep.family) return;
        ++sweep.cleaning.seen;
        visit(*flow);
        if (!sweep.index.IsStale(*flow)) return;
        sweep.pending.push_back(*flow);
        if (sweep.pending.size() == kMaxPending) DeletePending(sweep);
      },
      [&] {
        is_malformed = false;
        sweep.cleaning.seen = seen_before;
      });
  if (status.ok() && is_malformed) return Error{EPROTO, {}, {}};
  return status;
}

void ConntrackSocket::DeletePending(Sweep& sweep) {
  const BatchOutcome outcome = SendBatch(deletion_, buffer_, static_cast<uint32_t>(sweep.pending.size()),
                                         [&](MessageBuilder& builder, uint32_t sequence, uint32_t index) {
                                           return EncodeDelete(builder, sequence, sweep.pending[index]);
                                         });
  sweep.cleaning.deleted += outcome.applied;
  for (const Failure& failure : outcome.failures) {
    // ENOENT: since the dump the flow has ended, or another flow has its tuple.
    if (failure.code == ENOENT || sweep.deletion_error.code != 0) continue;
    sweep.deletion_error = {failure.code, kDeleteOperation, failure.text};
  }
  sweep.pending.clear();
}

}  // namespace viaduct::conntrack
