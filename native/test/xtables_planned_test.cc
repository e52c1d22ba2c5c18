// XtablesTable::OpenPlanned(): the kernel's table never changes, and the object shows its own changes.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "xtables/planned_calls.h"
#include "xtables_table_lab.h"

namespace viaduct::xtables {

namespace {

class XtablesPlannedTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(proc); }
  void TearDown() override { std::filesystem::remove_all(proc); }

  void WriteList(const std::string& file, const std::string& lines) const {
    std::ofstream(proc + "/ip_tables_" + file) << lines;
  }
  void Open() {
    auto opened = XtablesTable::OpenPlanned(AF_INET, "nat", proc, kernel);
    ASSERT_TRUE(opened.ok());
    table.emplace(std::move(opened.value()));
  }
  Outcome Apply(const BatchBuilder& batch, const std::vector<std::string>& prune = {}) {
    auto outcome = table->Apply(batch.batch(), prune, std::chrono::milliseconds(0));
    EXPECT_TRUE(outcome.ok()) << outcome.error().operation << ": " << outcome.error().text;
    return outcome.ok() ? outcome.value() : Outcome();
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    const auto listing = table->List();
    for (const auto& chain : listing.value().chains) names.push_back(chain.name);
    return names;
  }

  const std::string proc = testing::TempDir() + "xtables_planned_test." + std::to_string(getpid());
  ModelTable kernel;
  std::optional<XtablesTable> table;
};

TEST_F(XtablesPlannedTest, ShowsTheKernelsTableAndThenItsOwn) {
  WriteList("names", "filter\nnat\n");
  kernel.SetText(
      "PREROUTING: ACCEPT\nINPUT: ACCEPT\nOUTPUT: 1>OTHER, ACCEPT\nPOSTROUTING: ACCEPT\n"
      "KUBE-OLD: 7>ACCEPT, RETURN\nOTHER: 8>ACCEPT, RETURN\n");
  const std::string before = kernel.Text();
  Open();
  EXPECT_EQ(Names(),
            (std::vector<std::string>{"PREROUTING", "INPUT", "OUTPUT", "POSTROUTING", "KUBE-OLD", "OTHER"}));

  EXPECT_TRUE(Apply(Small(), {"KUBE-OLD"}).is_written);
  EXPECT_EQ(Names(), (std::vector<std::string>{"PREROUTING", "INPUT", "OUTPUT", "POSTROUTING", "OTHER",
                                               "KUBE-A", "KUBE-B"}));
  EXPECT_TRUE(table->Check().value());
  EXPECT_FALSE(Apply(Small()).is_written) << "the second time nothing is left to do";
  EXPECT_EQ(kernel.Text(), before);
  EXPECT_EQ(kernel.replacements(), 0);
  EXPECT_EQ(kernel.counter_additions(), 0);
}

TEST_F(XtablesPlannedTest, ShowsAnAbsentTableEmptyWithoutARequestForIt) {
  WriteList("names", "filter\n");
  kernel.info_error = EIO;  // the next request for the table fails
  Open();
  EXPECT_EQ(Names(), (std::vector<std::string>{"PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"}));
  EXPECT_TRUE(Apply(Small()).is_written);
  EXPECT_EQ(table->ListChains().value().names, (std::vector<std::string>{"KUBE-A", "KUBE-B"}));
}

TEST_F(XtablesPlannedTest, AsksOnlyForExtensionsThatAreLoaded) {
  WriteList("names", "nat\n");
  Open();
  Apply(Small());
  EXPECT_EQ(kernel.revision_questions(), 0);
}

// Each plan locked /dev/null. A second plan on the machine failed with EAGAIN meanwhile.
TEST_F(XtablesPlannedTest, TakesNoLockThatAnotherPlanCouldHold) {
  WriteList("names", "nat\n");
  Open();
  const Fd shared(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(flock(shared.get(), LOCK_EX), 0);
  EXPECT_TRUE(Apply(Small()).is_written);
}

TEST(PlannedSetIndex, IsInTheUpperHalfAndDependsOnTheName) {
  EXPECT_EQ(PlannedSetIndex("a"), 61767);
  std::set<uint16_t> found;
  for (const char* name : {"KUBE-CLUSTER-IP", "KUBE-6-CLUSTER-IP", "KUBE-NO-ENDPOINTS"})
    found.insert(PlannedSetIndex(name));
  EXPECT_EQ(found.size(), 3U);
  EXPECT_GE(*found.begin(), 0x8000);
}

}  // namespace

}  // namespace viaduct::xtables
