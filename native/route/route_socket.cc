#include "route/route_socket.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "core/send_batch.h"
#include "route/decode.h"
#include "route/encode.h"
#include "route/policy.h"

namespace viaduct::route {

namespace {

using Request = RequestBuffer<kMaxRequestBytes>;

/// Reads one table into records. `accept` selects them.
template <typename Record, typename Decode, typename Accept>
Result<std::vector<Record>> DumpRecords(NetlinkSocket& socket, std::span<const uint8_t> message,
                                        Decode decode, Accept accept) {
  std::vector<Record> records;
  bool is_malformed = false;
  Status status = socket.Dump(
      message,
      [&](uint16_t, std::span<const uint8_t> payload) {
        auto record = decode(payload);
        is_malformed = is_malformed || !record;
        if (record && accept(*record)) records.push_back(*record);
      },
      [&] {
        records.clear();
        is_malformed = false;
      });
  if (!status.ok()) return status.error();
  if (is_malformed) return Error{EPROTO, {}, {}};
  return records;
}

template <typename Record>
Result<std::vector<Record>> Named(Result<std::vector<Record>> result, const char* operation) {
  if (!result.ok()) result.error().operation = operation;
  return result;
}

uint8_t HostPrefix(uint8_t family) { return family == AF_INET ? 32 : 128; }

/// Whether the kernel answers a lookup with this errno because it does not route the packet: the errors of
/// fib_props[] and ip6_rt_type_to_error(), those of fib_validate_source(), and ENETUNREACH where no route is
/// found. The kernel explains EINVAL only if it does not take the request itself.
bool IsRefusedRoute(const Error& error) {
  switch (error.code) {
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EACCES:
    case EXDEV:
      return true;
    case EINVAL:
      return error.text.empty();
    default:
      return false;
  }
}

/// For requests without a reply.
void NoReply(uint16_t, std::span<const uint8_t>) {}

}  // namespace

Result<RouteSocket> RouteSocket::Open(SocketCalls& calls) {
  NetlinkSocket::Options options;
  options.protocol = NETLINK_ROUTE;
  options.strict_check = true;
  options.calls = &calls;
  auto socket = NetlinkSocket::Open(options);
  if (!socket.ok()) return socket.error();
  return RouteSocket(std::move(socket.value()));
}

Result<BatchOutcome> RouteSocket::ApplyRoutes(std::span<const RouteRecord> routes) {
  return SendBatch(socket_, buffer_, static_cast<uint32_t>(routes.size()),
                   [&](MessageBuilder& builder, uint32_t sequence, uint32_t index) {
                     return EncodeRoute(builder, sequence, routes[index]);
                   });
}

Result<BatchOutcome> RouteSocket::ApplyAddresses(std::span<const AddressRecord> addresses) {
  return SendBatch(socket_, buffer_, static_cast<uint32_t>(addresses.size()),
                   [&](MessageBuilder& builder, uint32_t sequence, uint32_t index) {
                     return EncodeAddress(builder, sequence, addresses[index]);
                   });
}

Result<std::vector<RouteChoiceRecord>> RouteSocket::LookUp(std::span<const RouteQueryRecord> queries) {
  std::vector<RouteChoiceRecord> choices;
  choices.reserve(queries.size());
  for (const RouteQueryRecord& query : queries) {
    auto choice = LookUpOne(query);
    if (!choice.ok()) return Error{choice.error().code, "look up route", choice.error().text};
    choices.push_back(choice.value());
  }
  return choices;
}

Result<RouteChoiceRecord> RouteSocket::LookUpOne(const RouteQueryRecord& query) {
  Request request;
  MessageBuilder builder(request);
  EncodeGetRoute(builder, query);
  std::optional<RouteRecord> route;
  const Status status = socket_.Request(
      builder.sealed(), [&](uint16_t, std::span<const uint8_t> payload) { route = DecodeRoute(payload); });
  RouteChoiceRecord choice{};
  if (!status.ok()) {
    if (!IsRefusedRoute(status.error())) return status.error();
    choice.error = static_cast<uint32_t>(status.error().code);
    return choice;
  }
  if (!route) return Error{EPROTO, {}, {}};
  memcpy(choice.preferred_source, route->preferred_source, sizeof choice.preferred_source);
  choice.interface_index = route->interface_index;
  choice.type = route->type;
  return choice;
}

Result<std::vector<RouteRecord>> RouteSocket::DumpLocalRoutes(uint8_t family) {
  Request request;
  MessageBuilder builder(request);
  EncodeDumpLocalRoutes(builder, family);
  // A kernel without strict checking sends every table.
  auto routes =
      DumpRecords<RouteRecord>(socket_, builder.sealed(), DecodeRoute, [&](const RouteRecord& route) {
        return route.family == family && route.table == RT_TABLE_LOCAL && route.type == RTN_LOCAL &&
               route.prefix_length == HostPrefix(family);
      });
  // A namespace that never had an address may lack the table.
  if (!routes.ok() && routes.error().code == ENOENT) return std::vector<RouteRecord>{};
  return Named(std::move(routes), "dump local routes");
}

Result<std::vector<AddressRecord>> RouteSocket::DumpNextHops(uint8_t family) {
  Request request;
  MessageBuilder builder(request);
  EncodeDumpUnicastRoutes(builder, family);
  // A router has many routes and few next hops.
  const auto precedes = [](const AddressRecord& one, const AddressRecord& other) {
    return memcmp(one.address, other.address, sizeof one.address) < 0;
  };
  std::set<AddressRecord, decltype(precedes)> hops(precedes);
  bool is_malformed = false;
  Status status = socket_.Dump(
      builder.sealed(),
      [&](uint16_t, std::span<const uint8_t> payload) {
        const auto found = DecodeNextHops(payload);
        is_malformed = is_malformed || !found;
        if (found) hops.insert(found->begin(), found->end());
      },
      [&] {
        hops.clear();
        is_malformed = false;
      });
  if (status.ok() && is_malformed) status = Error{EPROTO, {}, {}};
  if (!status.ok()) return viaduct::Named(std::move(status), "dump next hops").error();
  return std::vector<AddressRecord>(hops.begin(), hops.end());
}

Result<std::vector<AddressRecord>> RouteSocket::DumpAddresses(uint8_t family, uint32_t interface_index) {
  Request request;
  MessageBuilder builder(request);
  EncodeDumpAddresses(builder, family, interface_index);
  auto addresses =
      DumpRecords<AddressRecord>(socket_, builder.sealed(), DecodeAddress, [&](const AddressRecord& address) {
        return address.family == family &&
               (interface_index == 0 || address.interface_index == interface_index);
      });
  return Named(std::move(addresses), "dump addresses");
}

Result<std::vector<LinkRecord>> RouteSocket::DumpLinks() {
  Request request;
  MessageBuilder builder(request);
  EncodeDumpLinks(builder);
  auto links =
      DumpRecords<LinkRecord>(socket_, builder.sealed(), DecodeLink, [](const LinkRecord&) { return true; });
  return Named(std::move(links), "dump links");
}

Result<std::vector<RuleRecord>> RouteSocket::DumpRules(uint8_t family) {
  Request request;
  MessageBuilder builder(request);
  EncodeDumpRules(builder, family);
  auto rules = DumpRecords<RuleRecord>(socket_, builder.sealed(), DecodeRule,
                                       [&](const RuleRecord& rule) { return rule.family == family; });
  // EAFNOSUPPORT: no policy routing for this family; EOPNOTSUPP: none at all.
  if (!rules.ok() && (rules.error().code == EAFNOSUPPORT || rules.error().code == EOPNOTSUPP))
    return std::vector<RuleRecord>{};
  return Named(std::move(rules), "dump policy routing rules");
}

Result<uint32_t> RouteSocket::AddDummy(std::string_view name) {
  constexpr const char* kOperation = "add dummy device";
  Request request;
  MessageBuilder builder(request);
  if (!EncodeAddDummy(builder, name)) return Error{ENAMETOOLONG, kOperation, {}};
  Status added = viaduct::Named(socket_.Request(builder.sealed(), NoReply), kOperation);
  if (!added.ok()) return added.error();
  return FindNewDummy(name);
}

/// The acknowledgement of the creation does not contain the index.
Result<uint32_t> RouteSocket::FindNewDummy(std::string_view name) {
  constexpr const char* kOperation = "find new dummy device";
  Request request;
  MessageBuilder builder(request);
  EncodeFindLink(builder, name);
  uint32_t index = 0;
  Status found = socket_.Request(builder.sealed(), [&](uint16_t, std::span<const uint8_t> payload) {
    if (const auto link = DecodeLink(payload)) index = link->index;
  });
  found = viaduct::Named(std::move(found), kOperation);
  if (!found.ok()) return found.error();
  if (index == 0) return Error{EPROTO, kOperation, {}};
  return index;
}

Status RouteSocket::SetUp(uint32_t interface_index) {
  Request request;
  MessageBuilder builder(request);
  EncodeSetUp(builder, interface_index);
  return viaduct::Named(socket_.Request(builder.sealed(), NoReply), "set interface up");
}

Status RouteSocket::RemoveLink(uint32_t interface_index) {
  Request request;
  MessageBuilder builder(request);
  EncodeRemoveLink(builder, interface_index);
  return viaduct::Named(socket_.Request(builder.sealed(), NoReply), "remove interface");
}

}  // namespace viaduct::route
