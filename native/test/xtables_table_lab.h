#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "xtables/xtables_table.h"
#include "xtables_batch.h"
#include "xtables_model.h"

namespace viaduct::xtables {

/// Table nat of a model kernel and its XtablesTable.
class XtablesTableTest : public testing::Test {
 protected:
  void SetUp() override { Open(); }
  void TearDown() override { std::filesystem::remove(lock_path); }

  /// Another process, without the desired content of the first one.
  void Open() {
    auto opened = XtablesTable::Open(AF_INET, "nat", lock_path, kernel);
    ASSERT_TRUE(opened.ok());
    table.emplace(std::move(opened.value()));
  }

  Outcome Apply(const BatchBuilder& batch, const std::vector<std::string>& prune = {}) {
    auto outcome = table->Apply(batch.batch(), prune, std::chrono::milliseconds(0));
    EXPECT_TRUE(outcome.ok()) << outcome.error().operation << ": " << outcome.error().text;
    return outcome.ok() ? outcome.value() : Outcome();
  }
  Error Refused(const BatchBuilder& batch, const std::vector<std::string>& prune = {}) {
    auto outcome = table->Apply(batch.batch(), prune, std::chrono::milliseconds(0));
    EXPECT_FALSE(outcome.ok());
    return outcome.ok() ? Error() : outcome.error();
  }
  Drift Compare() { return table->Compare().value(); }
  bool Check() { return table->Check().value(); }

  const std::string lock_path = testing::TempDir() + "xtables_table_test." + std::to_string(getpid());
  ModelTable kernel;
  std::optional<XtablesTable> table;
};

/// KUBE-A with one rule, reached from OUTPUT.
inline BatchBuilder Small() {
  BatchBuilder batch;
  batch.SetHook("OUTPUT").To(1, "KUBE-A").SetChain("KUBE-A").To(2, "KUBE-B").Accept(3).SetChain("KUBE-B");
  batch.Accept(4);
  return batch;
}

constexpr const char* kSmall =
    "PREROUTING: ACCEPT\n"
    "INPUT: ACCEPT\n"
    "OUTPUT: 1>KUBE-A, ACCEPT\n"
    "POSTROUTING: ACCEPT\n"
    "KUBE-A: 2>KUBE-B, 3>ACCEPT, RETURN\n"
    "KUBE-B: 4>ACCEPT, RETURN\n";

}  // namespace viaduct::xtables
