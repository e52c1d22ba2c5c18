#include "ipvs/ipvs_socket.h"

#include <endian.h>
#include <linux/genetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "core/netlink_socket.h"
#include "core/send_batch.h"
#include "ipvs/decode.h"
#include "ipvs/encode.h"
#include "ipvs/option_reader.h"
#include "xtables/match_request.h"

namespace viaduct::ipvs {

namespace {

// The kernel sizes the skb of a dump by the largest receive so far. One dump per service is 1.3 to 1.9 times
// faster with 8 KiB than with 32 KiB and more.
constexpr size_t kRealServerReceiveBytes = 8 << 10;
constexpr const char* kFindFamily = "find generic netlink family IPVS";

using Request = RequestBuffer<kMaxOperationBytes>;

/// The message that `encode` adds to `buffer`. It always fits.
template <typename Encode>
std::span<const uint8_t> Compose(Request& buffer, Encode encode) {
  MessageBuilder builder(buffer);
  encode(builder);
  return builder.sealed();
}

/// Orders by address bytes, then port. Numbers instead of memcmp(): a dump compares each real server.
auto SortKey(const RealEntry& real) {
  uint64_t halves[2];
  memcpy(halves, real.record.address, sizeof halves);
  return std::tuple(be64toh(halves[0]), be64toh(halves[1]), real.record.port, real.record.family);
}

/// A dump that resumes by position may repeat an entry. Entries are nearly always in order.
void SortAndDeduplicate(std::vector<RealEntry>& reals) {
  const auto is_before = [](const RealEntry& a, const RealEntry& b) { return SortKey(a) < SortKey(b); };
  const auto is_not_before = [&](const RealEntry& a, const RealEntry& b) { return !is_before(a, b); };
  if (std::adjacent_find(reals.begin(), reals.end(), is_not_before) == reals.end()) return;
  std::sort(reals.begin(), reals.end(), is_before);
  reals.erase(std::unique(reals.begin(), reals.end(), is_not_before), reals.end());
}

void Append(ServiceEntry& service, const std::vector<RealEntry>& reals, bool with_counters, Table& table) {
  service.record.first_real = static_cast<uint32_t>(table.real_servers.size());
  service.record.real_count = static_cast<uint32_t>(reals.size());
  table.virtual_servers.push_back(service.record);
  for (const RealEntry& real : reals) table.real_servers.push_back(real.record);
  if (!with_counters) return;
  table.virtual_server_counters.push_back(service.counters);
  for (const RealEntry& real : reals) table.real_server_counters.push_back(real.counters);
}

/// `read(service, reals)` reads the real servers of one service. A service deleted meanwhile is left out if
/// the socket options report it (ESRCH). A netlink dump of its real servers is empty (ip_vs_genl_dump_dests),
/// and the service stays in the result.
template <typename Read>
Status Fill(std::vector<ServiceEntry>& services, bool with_counters, Table& table, Read read) {
  size_t real_count = 0;
  for (const ServiceEntry& service : services) real_count += service.real_count;
  table.virtual_servers.reserve(services.size());
  table.real_servers.reserve(real_count);
  std::vector<RealEntry> reals;
  for (ServiceEntry& service : services) {
    reals.clear();
    Status status = read(service, reals);
    if (!status.ok() && status.error().code == ESRCH) continue;
    if (!status.ok()) return status;
    SortAndDeduplicate(reals);
    Append(service, reals, with_counters, table);
  }
  return Ok();
}

bool IsAllNotFound(const BatchOutcome& outcome) {
  return outcome.applied == 0 && !outcome.failures.empty() &&
         std::all_of(outcome.failures.begin(), outcome.failures.end(),
                     [](const Failure& failure) { return failure.code == ENOENT && !failure.unknown; });
}

}  // namespace

struct IpvsSocket::Sockets {
  NetlinkSocket control;     ///< changes, requests and the dump of services
  NetlinkSocket real_dumps;  ///< dumps of one service's real servers
  OptionReader options;
};

IpvsSocket::IpvsSocket(std::unique_ptr<Sockets> sockets, SocketCalls& calls)
    : sockets_(std::move(sockets)), calls_(&calls) {}
IpvsSocket::~IpvsSocket() = default;
IpvsSocket::IpvsSocket(IpvsSocket&&) noexcept = default;
IpvsSocket& IpvsSocket::operator=(IpvsSocket&&) noexcept = default;

Result<IpvsSocket> IpvsSocket::Open(SocketCalls& calls) {
  NetlinkSocket::Options options;
  options.protocol = NETLINK_GENERIC;
  options.calls = &calls;
  auto control = NetlinkSocket::Open(options);
  if (!control.ok()) return control.error();
  options.receive_bytes = kRealServerReceiveBytes;
  auto real_dumps = NetlinkSocket::Open(options);
  if (!real_dumps.ok()) return real_dumps.error();
  auto reader = OptionReader::Open(calls);
  if (!reader.ok()) return reader.error();
  return IpvsSocket(
      std::make_unique<Sockets>(
          Sockets{std::move(control.value()), std::move(real_dumps.value()), std::move(reader.value())}),
      calls);
}

// IP_VS has the alias of its generic netlink family since Linux 5.16 ("ipvs: autoload ipvs on genl access").
// Before, no request names IP_VS itself, but the match `ipvs` needs it: its module xt_ipvs loads ip_vs first.
// Legacy x_tables and nft_compat look for a match by the alias ipt_ipvs. This can go with Linux 5.15.
Status IpvsSocket::Load() {
  if (FindFamily().ok()) return Ok();
  sockets_->options.RequestMatch();
  Status found = FindFamily();
  if (found.ok()) return found;
  NetlinkSocket::Options options;
  options.protocol = NETLINK_NETFILTER;
  options.calls = calls_;
  auto netfilter = NetlinkSocket::Open(options);
  if (!netfilter.ok()) return found;
  static_cast<void>(xtables::RequestMatch(netfilter.value(), AF_INET, "ipvs"));
  return FindFamily();
}

Status IpvsSocket::FindFamily() {
  if (family_id_ != 0) return Ok();
  Request request;
  const auto message = Compose(request, [](MessageBuilder& builder) { return EncodeFindFamily(builder); });
  Status status = sockets_->control.Request(message, [this](uint16_t type, std::span<const uint8_t> payload) {
    if (type == GENL_ID_CTRL) family_id_ = DecodeFamilyId(payload).value_or(0);
  });
  if (!status.ok()) return Named(std::move(status), kFindFamily);
  if (family_id_ == 0) return Error{EPROTO, kFindFamily, {}};
  return Ok();
}

/// Looks the family up again and returns whether its id has changed. The module may have been unloaded and
/// loaded again.
Result<bool> IpvsSocket::FamilyMoved() {
  const uint16_t before = std::exchange(family_id_, uint16_t{0});
  Status status = FindFamily();
  if (!status.ok()) return status.error();
  return family_id_ != before;
}

/// Runs `ask` with a family id, and again if the id has become invalid.
Status IpvsSocket::AskFamily(const char* operation, const std::function<Status()>& ask) {
  Status found = FindFamily();
  if (!found.ok()) return found;
  Status status = ask();
  if (status.ok() || status.error().code != ENOENT) return Named(std::move(status), operation);
  auto moved = FamilyMoved();
  if (!moved.ok()) return moved.error();
  return Named(moved.value() ? ask() : std::move(status), operation);
}

BatchOutcome IpvsSocket::SendAll(const Batch& batch) {
  return SendBatch(sockets_->control, buffer_, static_cast<uint32_t>(batch.ops.size()),
                   [&](MessageBuilder& builder, uint32_t sequence, uint32_t index) {
                     return EncodeOperation(builder, {family_id_, sequence}, batch, batch.ops[index]);
                   });
}

Result<BatchOutcome> IpvsSocket::Apply(const Batch& batch) {
  Status found = FindFamily();
  if (!found.ok()) return found.error();
  BatchOutcome outcome = SendAll(batch);
  if (!IsAllNotFound(outcome)) return outcome;
  auto moved = FamilyMoved();
  if (!moved.ok()) return moved.error();
  return moved.value() ? SendAll(batch) : std::move(outcome);
}

Result<std::vector<ServiceEntry>> IpvsSocket::DumpServices(uint8_t family) {
  Request request;
  const auto message =
      Compose(request, [this](MessageBuilder& builder) { return EncodeDumpServices(builder, family_id_); });
  std::vector<ServiceEntry> services;
  bool is_malformed = false;
  Status status = sockets_->control.Dump(
      message,
      [&](uint16_t, std::span<const uint8_t> payload) {
        auto service = DecodeService(payload);
        is_malformed = is_malformed || !service;
        if (service && service->record.family == family) services.push_back(*service);
      },
      [&] {
        services.clear();
        is_malformed = false;
      });
  if (!status.ok()) return status.error();
  if (is_malformed) return Error{EPROTO, {}, {}};
  return services;
}

Status IpvsSocket::DumpRealServers(const VirtualServerRecord& server, std::vector<RealEntry>& reals) {
  Request request;
  const auto message = Compose(
      request, [&](MessageBuilder& builder) { return EncodeDumpDestinations(builder, family_id_, server); });
  bool is_malformed = false;
  Status status = sockets_->real_dumps.Dump(
      message,
      [&](uint16_t, std::span<const uint8_t> payload) {
        auto real = DecodeDestination(payload, server.family);
        is_malformed = is_malformed || !real;
        if (real) reals.push_back(*real);
      },
      [&] {
        reals.clear();
        is_malformed = false;
      });
  if (status.ok() && is_malformed) return Error{EPROTO, {}, {}};
  return status;
}

/// By socket options; by netlink for tunnel types and IPv6 real servers, which the socket options lack.
Status IpvsSocket::ReadRealServers(const ServiceEntry& service, bool with_counters,
                                   std::vector<RealEntry>& reals) {
  Status status = sockets_->options.ReadRealServers(service, with_counters, reals);
  if (!status.ok()) return status;
  const bool is_whole = reals.size() >= service.real_count &&
                        std::none_of(reals.begin(), reals.end(), [](const RealEntry& real) {
                          return real.record.forwarding == IP_VS_CONN_F_TUNNEL;
                        });
  if (is_whole) return Ok();
  reals.clear();
  return DumpRealServers(service.record, reals);
}

Result<Table> IpvsSocket::Dump(uint8_t family, bool with_counters) {
  if (family != AF_INET) return DumpByNetlink(family, with_counters);
  Table table;
  Status status = AskFamily("dump virtual servers", [&]() -> Status {
    table = {};
    auto services = sockets_->options.ReadServices();
    // The module was unloaded. The socket options report ENOPROTOOPT, netlink ENOENT.
    if (!services.ok() && services.error().code == ENOPROTOOPT) return Error{ENOENT, {}, {}};
    if (!services.ok()) return services.error();
    return Fill(services.value(), with_counters, table, [&](const ServiceEntry& service, auto& reals) {
      return ReadRealServers(service, with_counters, reals);
    });
  });
  if (!status.ok()) return status.error();
  return table;
}

Result<Table> IpvsSocket::DumpByNetlink(uint8_t family, bool with_counters) {
  Table table;
  Status status = AskFamily("dump virtual servers", [&]() -> Status {
    table = {};
    auto services = DumpServices(family);
    if (!services.ok()) return services.error();
    return Fill(services.value(), with_counters, table, [this](const ServiceEntry& service, auto& reals) {
      return DumpRealServers(service.record, reals);
    });
  });
  if (!status.ok()) return status.error();
  return table;
}

/// ESRCH: the service is absent. IPv4 uses the socket option, which has the number of real servers.
Result<ServiceEntry> IpvsSocket::GetService(const VirtualServerRecord& key) {
  if (key.family == AF_INET) {
    auto service = sockets_->options.ReadService(key);
    // The module was unloaded. The socket options report ENOPROTOOPT, netlink ENOENT.
    if (!service.ok() && service.error().code == ENOPROTOOPT) return Error{ENOENT, {}, {}};
    return service;
  }
  Request request;
  const auto message =
      Compose(request, [&](MessageBuilder& builder) { return EncodeGetService(builder, family_id_, key); });
  std::optional<ServiceEntry> service;
  Status status = sockets_->control.Request(
      message, [&](uint16_t, std::span<const uint8_t> payload) { service = DecodeService(payload); });
  if (!status.ok()) return status.error();
  if (!service) return Error{EPROTO, {}, {}};
  return *service;
}

Result<Table> IpvsSocket::Read(std::span<const VirtualServerRecord> keys, bool with_counters) {
  Table table;
  Status status = AskFamily("read virtual servers", [&]() -> Status {
    table = {};
    std::vector<ServiceEntry> services;
    services.reserve(keys.size());
    for (const VirtualServerRecord& key : keys) {
      auto service = GetService(key);
      if (service.ok()) services.push_back(service.value());
      if (!service.ok() && service.error().code != ESRCH) return service.error();
    }
    return Fill(services, with_counters, table, [&](const ServiceEntry& service, auto& reals) {
      return service.record.family == AF_INET ? ReadRealServers(service, with_counters, reals)
                                              : DumpRealServers(service.record, reals);
    });
  });
  if (!status.ok()) return status.error();
  return table;
}

Result<Info> IpvsSocket::GetInfo() {
  Info info;
  Status status = AskFamily("get info", [&]() -> Status {
    auto read = sockets_->options.ReadInfo();
    if (!read.ok() && read.error().code == ENOPROTOOPT) return Error{ENOENT, {}, {}};
    if (!read.ok()) return read.error();
    info = {read.value().version, read.value().size, read.value().num_services};
    return Ok();
  });
  if (!status.ok()) return status.error();
  return info;
}

Result<Timeouts> IpvsSocket::GetTimeouts() {
  std::optional<Timeouts> timeouts;
  Status status = AskFamily("get timeouts", [&] {
    Request request;
    const auto message =
        Compose(request, [this](MessageBuilder& builder) { return EncodeGetTimeouts(builder, family_id_); });
    return sockets_->control.Request(
        message, [&](uint16_t, std::span<const uint8_t> payload) { timeouts = DecodeTimeouts(payload); });
  });
  if (!status.ok()) return status.error();
  if (!timeouts) return Error{EPROTO, "get timeouts", {}};
  return *timeouts;
}

Status IpvsSocket::SetTimeouts(const Timeouts& timeouts) {
  return AskFamily("set timeouts", [&] {
    Request request;
    const auto message = Compose(
        request, [&](MessageBuilder& builder) { return EncodeSetTimeouts(builder, family_id_, timeouts); });
    return sockets_->control.Request(message, [](uint16_t, std::span<const uint8_t>) {});
  });
}

}  // namespace viaduct::ipvs
