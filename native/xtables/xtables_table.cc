#include "xtables/xtables_table.h"

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/seeded_hash.h"
#include "xtables/refusal_search.h"

namespace viaduct::xtables {

namespace {

// A tool without the lock changes the table for a few milliseconds only.
constexpr uint32_t kMaxRepeats = 10;
constexpr std::chrono::seconds kFresh(1);

bool HasCounted(const xt_counters& counters) { return counters.pcnt != 0 || counters.bcnt != 0; }

/// The planned table, in the memory of the read one if possible.
TableSocket::Table Draw(TableSocket& socket, const TablePlan& plan, TableSocket::Table read) {
  if (plan.is_in_place()) {
    plan.Patch(read.bytes());
    read.info = plan.info();
    return read;
  }
  TableSocket::Table table = socket.MakeTable(plan.info());
  plan.Write(table.bytes());
  return table;
}

}  // namespace

Result<XtablesTable> XtablesTable::Open(uint8_t family, const std::string& table, std::string lock_path,
                                        SocketCalls& calls) {
  auto socket = TableSocket::Open(ShapeOf(family), table, calls);
  if (!socket.ok()) return socket.error();
  return XtablesTable(std::move(socket.value()), calls, XtablesLock(std::move(lock_path)));
}

XtablesTable::XtablesTable(TableSocket socket, SocketCalls& calls, XtablesLock lock)
    : calls_(&calls),
      socket_(std::move(socket)),
      encoder_(socket_.shape(), calls, socket_.fd()),
      lock_(std::move(lock)) {}

void XtablesTable::Load(const Batch& batch) {
  encoder_.AskAgain();
  const Texts texts(batch.texts);
  for (const RuleRecord& rule : batch.rules) encoder_.Load(rule, texts);
}

Status XtablesTable::Stage(const Batch& batch) {
  encoder_.AskAgain();
  return wanted_.Change(batch, encoder_);
}

Result<Outcome> XtablesTable::Apply(const Batch& batch, const std::vector<std::string>& prune,
                                    std::chrono::milliseconds lock_timeout) {
  Status status = Stage(batch);
  if (!status.ok()) return status.error();
  for (const std::string& pattern : prune)
    if (std::ranges::find(prune_, pattern) == prune_.end()) prune_.push_back(pattern);
  status = wanted_.Complete(encoder_);
  if (!status.ok()) return status.error();
  socket_.Trim();
  const auto hold = lock_.Take(lock_timeout, *is_hurried_);
  if (!hold.ok()) return hold.error();
  Outcome outcome;
  outcome.lock_wait = hold.value().waited();
  return Write(std::move(outcome));
}

Result<Outcome> XtablesTable::Write(Outcome outcome) {
  for (;;) {
    Status status = WriteOnce(outcome);
    if (status.ok()) return outcome;
    if (status.error().code != EAGAIN) return status.error();
    if (outcome.repeats == kMaxRepeats) {
      status.error().text = "another program keeps changing it";
      return status.error();
    }
    ++outcome.repeats;
  }
}

/// EAGAIN: another program changed the table during the attempt.
Status XtablesTable::WriteOnce(Outcome& outcome) {
  auto read = ReadOnce();
  if (!read.ok()) return read.error();
  auto& [table, image] = read.value();
  auto plan = TablePlan::Make(image, wanted_, prune_);
  if (!plan.ok()) return plan.error();
  outcome.kept = plan.value().kept();
  if (plan.value().is_done()) {
    Settle(table.info, outcome);
    return Ok();
  }
  outcome.repaired = plan.value().FindRepairs();
  const std::vector<TablePlan::Stay> stays = plan.value().FindStays();
  const uint32_t entries = table.info.entries;
  const TableInfo info = plan.value().info();
  Status status = Replace(Draw(socket_, plan.value(), std::move(table)), entries, stays, outcome);
  if (!status.ok()) return status;
  Settle(info, outcome);
  return Ok();
}

Status XtablesTable::Replace(TableSocket::Table next, uint32_t entries,
                             std::span<const TablePlan::Stay> stays, Outcome& outcome) {
  TableSocket::Counters old = socket_.MakeCounters(entries);
  Status status = socket_.Replace(next, old);
  if (!status.ok()) return status;
  outcome.is_written = true;
  return RestoreCounters(stays, old.all(), next.info.entries);
}

Status XtablesTable::RestoreCounters(std::span<const TablePlan::Stay> stays, std::span<const xt_counters> old,
                                     uint32_t entries) {
  const auto has_counted = [&](const TablePlan::Stay& stay) {
    return std::ranges::any_of(old.subspan(stay.from, stay.count), HasCounted);
  };
  if (std::ranges::none_of(stays, has_counted)) return Ok();
  TableSocket::Counters next = socket_.MakeCounters(entries);
  for (const TablePlan::Stay& stay : stays)
    std::ranges::copy(old.subspan(stay.from, stay.count), next.all().begin() + stay.to);
  Status status = socket_.AddCounters(next);
  // Another program has already replaced the table: no counters to restore, and a new attempt is necessary.
  if (!status.ok() && status.error().code == EINVAL) status.error().code = EAGAIN;
  return status;
}

void XtablesTable::Settle(const TableInfo& info, Outcome& outcome) {
  wanted_.Settle();
  prune_.clear();
  for (const KeptChain& kept : outcome.kept) prune_.push_back(kept.chain);
  left_ = info;
  outcome.entries = info.entries;
  outcome.bytes = info.bytes;
}

Result<std::vector<Refusal>> XtablesTable::FindRefusals() {
  socket_.Trim();
  encoder_.AskAgain();
  auto refusals = wanted_.FindUnencodable(encoder_);
  if (!refusals.empty()) return refusals;
  Status status = wanted_.Complete(encoder_);
  if (!status.ok()) return status.error();
  auto info = socket_.ReadInfo();
  if (!info.ok()) return info.error();
  return RefusalSearch(socket_, wanted_, info.value().valid_hooks).Run();
}

Result<bool> XtablesTable::Check() {
  socket_.Trim();
  auto info = socket_.ReadInfo();
  if (!info.ok()) return info.error();
  return left_ == info.value();
}

Result<XtablesTable::Snapshot> XtablesTable::ReadOnce() {
  auto table = socket_.ReadTable();
  if (!table.ok()) return table.error();
  auto image = TableImage::Parse(socket_.shape(), table.value().bytes(), table.value().info);
  if (!image.ok()) return image.error();
  return Snapshot{std::move(table.value()), std::move(image.value())};
}

Result<XtablesTable::Snapshot> XtablesTable::Read() {
  for (uint32_t repeats = 0;; ++repeats) {
    auto there = ReadOnce();
    if (there.ok() || there.error().code != EAGAIN || repeats == kMaxRepeats) return there;
  }
}

Result<Drift> XtablesTable::Compare() {
  socket_.Trim();
  encoder_.AskAgain();
  Status status = wanted_.Complete(encoder_);
  if (!status.ok()) return status.error();
  auto there = Read();
  if (!there.ok()) return there.error();
  reached_.reset();
  if (auto reached = xtables::ListReached(there.value().image, wanted_); reached.ok())
    reached_ = {there.value().table.info, calls_->Now(), std::move(reached.value())};
  auto plan = TablePlan::Make(there.value().image, wanted_, prune_);
  if (!plan.ok()) return plan.error();
  return plan.value().FindDrift();
}

Result<Chains> XtablesTable::ListChains() {
  socket_.Trim();
  auto there = Read();
  if (!there.ok()) return there.error();
  Chains chains;
  for (const ImageChain& chain : there.value().image.chains()) {
    chains.names.emplace_back(chain.name);
    chains.rules.push_back(chain.entries - 2);  // without ERROR and closing entry
  }
  return chains;
}

Result<Listing> XtablesTable::List() {
  socket_.Trim();
  auto there = Read();
  if (!there.ok()) return there.error();
  return ListAll(there.value().image);
}

Result<Listing> XtablesTable::ListReached() {
  socket_.Trim();
  if (reached_ && calls_->Now() - reached_->at < kFresh) {
    auto info = socket_.ReadInfo();
    if (!info.ok()) return info.error();
    if (info.value() == reached_->info) return reached_->listing;
  }
  auto there = Read();
  if (!there.ok()) return there.error();
  return xtables::ListReached(there.value().image, wanted_);
}

Result<std::optional<Barrier>> XtablesTable::FindBarrier(std::string_view hook) {
  socket_.Trim();
  auto there = Read();
  if (!there.ok()) return there.error();
  return xtables::FindBarrier(there.value().image, hook);
}

Result<std::vector<MarkUse>> XtablesTable::FindMarkUses() {
  socket_.Trim();
  auto there = Read();
  if (!there.ok()) return there.error();
  return xtables::FindMarkUses(there.value().image);
}

Result<std::vector<Packets>> XtablesTable::CountPackets(std::span<const std::string> chains) {
  socket_.Trim();
  auto there = Read();
  if (!there.ok()) return there.error();
  const TableImage& image = there.value().image;
  std::unordered_map<std::string_view, size_t, TextHash> places;
  for (size_t i = 0; i < chains.size(); ++i) places.emplace(chains[i], i);
  std::vector<Packets> packets(chains.size());
  for (const ImageChain& candidate : image.chains()) {
    const auto place = places.find(candidate.name);
    if (place == places.end()) continue;
    Packets& counted = packets[place->second];
    for (uint32_t at = candidate.rules; at < candidate.last; at += image.At(at).size())
      counted.push_back(image.At(at).counters().pcnt);
  }
  return packets;
}

}  // namespace viaduct::xtables
