// A table as read from the kernel: u32 family (1: IPv6), GET_INFO, entries. A valid table can be planned,
// written and read again, and then has no difference.
#include <cstdlib>
#include <cstring>

#include "../xtables_batch.h"
#include "xtables/table_plan.h"

using namespace viaduct;
using namespace viaduct::xtables;

namespace {

constexpr size_t kHeader = (1 + 1 + 2 * NF_INET_NUMHOOKS + 1) * sizeof(uint32_t);

/// Desired content for any table.
const WantedTable& Wanted(const Shape& shape) {
  static WantedTable tables[2];
  WantedTable& wanted = tables[shape.family == AF_INET6 ? 1 : 0];
  if (wanted.size() != 0) return wanted;
  RuleEncoder encoder(shape, SocketCalls::Kernel(), -1);
  BatchBuilder batch;
  batch.SetHook("OUTPUT").To(1, "A").Accept(2).SetChain("A").To(3, "BB").Accept(4).SetChain("BB").Accept(4);
  batch.RemoveChain("C");
  if (!wanted.Change(batch.batch(), encoder).ok()) abort();
  return wanted;
}

const std::vector<std::string>& Prune() {
  static const std::vector<std::string> prune = {"KUBE-*", "D", "E?"};
  return prune;
}

void CheckImage(const TableImage& image) {
  uint32_t end = 0;
  uint32_t entries = 0;
  const auto check = [&](const ImageChain& chain) {
    if (chain.begin != end || chain.rules < chain.begin || chain.last < chain.rules ||
        chain.end <= chain.last)
      abort();
    if (chain.first_entry != entries) abort();
    end = chain.end;
    entries += chain.entries;
    for (uint32_t offset = chain.begin; offset < chain.end; offset += image.At(offset).size())
      (void)image.JumpAt(offset);
  };
  for (const ImageChain& chain : image.built_in()) check(chain);
  for (const ImageChain& chain : image.chains()) check(chain);
  if (end != image.final() || entries + 1 != image.entries()) abort();
}

void CheckStays(std::span<const TablePlan::Stay> stays, uint32_t before, uint32_t after) {
  for (const TablePlan::Stay& stay : stays)
    if (stay.count == 0 || stay.from + stay.count > before || stay.to + stay.count > after) abort();
}

/// The written table can be read again and then has no difference.
void CheckDone(const Shape& shape, std::span<const uint8_t> table, const TableInfo& info) {
  auto written = TableImage::Parse(shape, table, info);
  if (!written.ok()) abort();
  CheckImage(written.value());
  auto again = TablePlan::Make(written.value(), Wanted(shape), Prune());
  if (!again.ok() || !again.value().is_done()) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < kHeader) return 0;
  uint32_t words[kHeader / sizeof(uint32_t)];
  memcpy(words, data, kHeader);
  const Shape& shape = ShapeOf(words[0] == 1 ? AF_INET6 : AF_INET);
  TableInfo info{words[1], {}, {}, words[2 + 2 * NF_INET_NUMHOOKS], static_cast<uint32_t>(size - kHeader)};
  memcpy(info.hook_entry.data(), words + 2, sizeof info.hook_entry);
  memcpy(info.underflow.data(), words + 2 + NF_INET_NUMHOOKS, sizeof info.underflow);

  auto image = TableImage::Parse(shape, {data + kHeader, size - kHeader}, info);
  if (!image.ok()) return 0;
  CheckImage(image.value());
  auto plan = TablePlan::Make(image.value(), Wanted(shape), Prune());
  if (!plan.ok()) return 0;
  (void)plan.value().FindDrift();
  std::vector<uint8_t> table(plan.value().info().bytes);
  plan.value().Write(table);
  CheckStays(plan.value().FindStays(), info.entries, plan.value().info().entries);
  if (plan.value().is_in_place()) {
    std::vector<uint8_t> patched(data + kHeader, data + size);
    plan.value().Patch(patched);
    CheckDone(shape, patched, plan.value().info());
  }
  CheckDone(shape, table, plan.value().info());
  return 0;
}
