#include "look/look_watch.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/poll_until.h"

namespace viaduct::look {

namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

template <typename Record>
std::span<const uint8_t> BytesOf(std::span<const Record> records) {
  static_assert(std::has_unique_object_representations_v<Record>, "padding differs by chance");
  return {reinterpret_cast<const uint8_t*>(records.data()), records.size_bytes()};
}

template <typename Record>
void Append(std::vector<uint8_t>& bytes, std::span<const Record> records) {
  const auto more = BytesOf(records);
  bytes.insert(bytes.end(), more.begin(), more.end());
}

/// Replaces the seen state with the current one. True: it differs.
bool Replaces(std::optional<std::vector<uint8_t>>& seen, std::vector<uint8_t> now) {
  const bool is_other = seen && *seen != now;
  seen = std::move(now);
  return is_other;
}

}  // namespace

Result<LookWatch> LookWatch::Open(const WatchOptions& options, SocketCalls& calls) {
  auto look = KernelLook::Open(options.families, options.sets ? Scope::kIpvs : Scope::kTables, calls);
  if (!look.ok()) return look.error();
  Fd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.is_open()) return Error{errno, "open eventfd", {}};
  if (!options.sets) return LookWatch(calls, options, std::move(look.value()), std::nullopt, std::move(wake));
  auto ipvs = OpenIpvs(*options.sets, calls);
  if (!ipvs.ok()) return ipvs.error();
  return LookWatch(calls, options, std::move(look.value()), std::move(ipvs.value()), std::move(wake));
}

Result<LookWatch::Ipvs> LookWatch::OpenIpvs(WatchedSets watched, SocketCalls& calls) {
  auto servers = ipvs::IpvsSocket::Open(calls);
  if (!servers.ok()) return servers.error();
  auto sets = ipset::IpsetSocket::Open(calls);
  if (!sets.ok()) return sets.error();
  return Ipvs{std::move(servers.value()), std::move(sets.value()), std::move(watched)};
}

Result<Finding> LookWatch::Next(std::span<const ipvs::VirtualServerRecord> sample, milliseconds longest) {
  const nanoseconds end = calls_->Now() + longest;
  for (;;) {
    const nanoseconds until = std::min(due_, end);
    pollfd wake{wake_.get(), POLLIN, 0};
    const auto ready = PollUntil(*calls_, {&wake, 1}, until);
    if (!ready.ok()) return ready.error();
    if (ready.value() > 0) {
      uint64_t count = 0;
      // Ignoring the result: the descriptor does not block. It is empty if another Next() has read it.
      (void)!read(wake_.get(), &count, sizeof count);
      return Finding{};
    }
    if (until != due_) return Finding{};
    due_ = calls_->Now() + period_;
    const Finding found{LookAgain(sample), lock_.Take()};
    if (found != Finding{}) return found;
  }
}

/// Whether something has changed.
bool LookWatch::LookAgain(std::span<const ipvs::VirtualServerRecord> sample) {
  bool is_other = Replaces(seen_, look_.Take());
  if (ipvs_) is_other |= LookAtIpvs(*ipvs_, sample);
  return is_other;
}

bool LookWatch::LookAtIpvs(Ipvs& ipvs, std::span<const ipvs::VirtualServerRecord> sample) {
  const auto keys = BytesOf(sample);
  if (!std::ranges::equal(keys, keys_)) {
    keys_.assign(keys.begin(), keys.end());
    seen_servers_.reset();
  }
  bool is_other = Replaces(seen_servers_, ReadServers(ipvs, sample));
  const nanoseconds start = calls_->Now();
  // A slightly early look includes them.
  if (start + period_ / 2 < sets_due_) return is_other;
  is_other |= Replaces(seen_sets_, ReadSets(ipvs));
  const nanoseconds end = calls_->Now();
  sets_due_ = start + std::max(period_, (end - start) * ipvs.watched.share);
  return is_other;
}

LookWatch::Bytes LookWatch::ReadServers(Ipvs& ipvs, std::span<const ipvs::VirtualServerRecord> sample) {
  if (sample.empty()) return {};
  Bytes bytes;
  const auto table = ipvs.servers.Read(sample, false);
  if (!table.ok()) {
    Append(bytes, std::span<const int>(&table.error().code, 1));
    return bytes;
  }
  Append(bytes, std::span<const ipvs::VirtualServerRecord>(table.value().virtual_servers));
  Append(bytes, std::span<const ipvs::RealServerRecord>(table.value().real_servers));
  return bytes;
}

LookWatch::Bytes LookWatch::ReadSets(Ipvs& ipvs) {
  Bytes bytes;
  const auto sets = ipvs.sets.ListSets();
  if (!sets.ok()) {
    Append(bytes, std::span<const int>(&sets.error().code, 1));
    return bytes;
  }
  for (const ipset::SetRecord& set : sets.value())
    if (std::string_view(set.name).starts_with(ipvs.watched.prefix))
      Append(bytes, std::span<const ipset::SetRecord>(&set, 1));
  return bytes;
}

void LookWatch::Wake() const {
  const uint64_t one = 1;
  // Ignoring the result: it fails only if the counter is full, and then the waiter is already awake.
  (void)!write(wake_.get(), &one, sizeof one);
}

}  // namespace viaduct::look
