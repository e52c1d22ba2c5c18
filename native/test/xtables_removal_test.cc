// Removal of chains: those that the batch removes, and those of a former owner. A foreign chain may jump to
// one. Tables have the notation of ModelTable::Text().
#include <cerrno>

#include "xtables_table_lab.h"

namespace viaduct::xtables {
namespace {

class XtablesRemovalTest : public XtablesTableTest {};

// Issue 18, C2: the whole table was not written, EBUSY.
TEST_F(XtablesRemovalTest, ChainThatAForeignOneJumpsToIsEmptiedAndKept) {
  Apply(Small());
  const std::string theirs = "THEIRS: 5>KUBE-B[5], RETURN\n";
  const std::string hooks = "PREROUTING: ACCEPT\nINPUT: 9>KUBE-B, ACCEPT\nOUTPUT: 1>KUBE-A, ACCEPT\n";
  kernel.SetText(hooks + "POSTROUTING: ACCEPT\nKUBE-A: 2>KUBE-B, RETURN\nKUBE-B: 4>ACCEPT, RETURN[6]\n" +
                 theirs);
  BatchBuilder batch;
  batch.SetChain("KUBE-A").Accept(7).RemoveChain("KUBE-B");
  const Outcome outcome = Apply(batch);
  ASSERT_EQ(outcome.kept.size(), 1U);
  EXPECT_EQ(outcome.kept[0].chain + " " + outcome.kept[0].by, "KUBE-B THEIRS");
  const std::string before =
      "PREROUTING: ACCEPT\nINPUT: ACCEPT\nOUTPUT: 1>KUBE-A, ACCEPT\nPOSTROUTING: ACCEPT\nKUBE-A: 7>ACCEPT, "
      "RETURN\n";
  EXPECT_EQ(kernel.Text(), before + "KUBE-B: RETURN[6]\n" + theirs);
  EXPECT_TRUE(Compare().changed.empty());
  const Outcome again = Apply({});
  EXPECT_FALSE(again.is_written);
  EXPECT_EQ(again.kept.size(), 1U);

  kernel.SetText(before + "KUBE-B: RETURN\nTHEIRS: RETURN\n");
  EXPECT_EQ(Compare().changed, std::vector<std::string>{"KUBE-B"});
  EXPECT_TRUE(Apply({}).kept.empty());
  EXPECT_EQ(kernel.Text(), before + "THEIRS: RETURN\n");
}

TEST_F(XtablesRemovalTest, AKeptChainCanBecomeDesiredAgain) {
  Apply(Small());
  kernel.SetText(std::string(kSmall) + "THEIRS: 5>KUBE-B, RETURN\n");
  BatchBuilder away;
  away.SetChain("KUBE-A").RemoveChain("KUBE-B");
  EXPECT_EQ(Apply(away).kept.size(), 1U);
  EXPECT_TRUE(Apply(Small()).kept.empty());
  EXPECT_EQ(kernel.Text(), std::string(kSmall) + "THEIRS: 5>KUBE-B, RETURN\n");
}

TEST_F(XtablesRemovalTest, PrunesAFormerOwnersChains) {
  kernel.SetText(
      "PREROUTING: 1>KUBE-OLD, ACCEPT\nINPUT: ACCEPT\n"
      "OUTPUT: 7>DROP[7], 2>KUBE-SVC-1, ACCEPT\nPOSTROUTING: ACCEPT\n"
      "KUBE-OLD: 1>KUBE-SVC-1, RETURN\n"
      "KUBE-SVC-1: 1>KUBE-SEP-1, RETURN\n"
      "KUBE-SEP-1: 1>ACCEPT, RETURN\n"
      "KUBE-OLDER: 9>DROP[9], RETURN\n");
  Apply(Small(), {"KUBE-OLD", "KUBE-SVC-*", "KUBE-SEP-*"});
  EXPECT_EQ(kernel.Text(),
            "PREROUTING: ACCEPT\nINPUT: ACCEPT\n"
            "OUTPUT: 1>KUBE-A, 7>DROP[7], ACCEPT\nPOSTROUTING: ACCEPT\n"
            "KUBE-OLDER: 9>DROP[9], RETURN\n"
            "KUBE-A: 2>KUBE-B, 3>ACCEPT, RETURN\n"
            "KUBE-B: 4>ACCEPT, RETURN\n");
}

constexpr const char* kPolicies = "PREROUTING: ACCEPT\nINPUT: ACCEPT\nOUTPUT: ACCEPT\nPOSTROUTING: ACCEPT\n";

/// Two Services of an earlier run; a foreign chain jumps to the first.
constexpr const char* kFormer =
    "PREROUTING: ACCEPT\nINPUT: 9>KUBE-SVC-1, ACCEPT\nOUTPUT: ACCEPT\nPOSTROUTING: ACCEPT\n"
    "KUBE-SVC-1: 1>KUBE-SEP-1, 2>ACCEPT, RETURN[6]\n"
    "KUBE-SEP-1: 1>ACCEPT, RETURN\n"
    "KUBE-SVC-2: 1>KUBE-SVC-1, RETURN\n"
    "THEIRS: 1>KUBE-SVC-1[5], RETURN\n";

/// "KUBE-A by THEIRS", a line each.
std::string Words(const std::vector<KeptChain>& kept) {
  std::string words;
  for (const auto& [chain, by] : kept) words += chain + " by " + by + "\n";
  return words;
}

// Issue 18, C2: the chain kept its rules, was not reported, and stayed after the jump was removed.
TEST_F(XtablesRemovalTest, FormerOwnersChainThatAForeignOneJumpsToIsEmptiedAndKept) {
  kernel.SetText(kFormer);
  EXPECT_EQ(Words(Apply({}, {"KUBE-*"}).kept), "KUBE-SVC-1 by THEIRS\n");
  EXPECT_EQ(kernel.Text(),
            std::string(kPolicies) + "KUBE-SVC-1: RETURN[6]\nTHEIRS: 1>KUBE-SVC-1[5], RETURN\n");
  EXPECT_TRUE(Compare().changed.empty());
  const Outcome again = Apply({});
  EXPECT_FALSE(again.is_written);
  EXPECT_EQ(Words(again.kept), "KUBE-SVC-1 by THEIRS\n");

  kernel.SetText(std::string(kPolicies) + "KUBE-SVC-1: RETURN\nTHEIRS: RETURN\n");
  EXPECT_EQ(Compare().changed, std::vector<std::string>{"KUBE-SVC-1"});
  EXPECT_TRUE(Apply({}).kept.empty());
  EXPECT_EQ(kernel.Text(), std::string(kPolicies) + "THEIRS: RETURN\n");

  kernel.SetText(std::string(kPolicies) + "KUBE-SVC-1: 1>ACCEPT, RETURN\n");
  EXPECT_FALSE(Apply({}).is_written) << "the name is forgotten with the chain";
}

TEST_F(XtablesRemovalTest, AKeptChainOfAFormerOwnerCanBecomeDesired) {
  kernel.SetText(kFormer);
  Apply({}, {"KUBE-*"});
  BatchBuilder batch;
  batch.SetChain("KUBE-SVC-1").Accept(4);
  EXPECT_EQ(Words(Apply(batch).kept), "");
  EXPECT_EQ(kernel.Text(),
            std::string(kPolicies) + "KUBE-SVC-1: 4>ACCEPT, RETURN[6]\nTHEIRS: 1>KUBE-SVC-1[5], RETURN\n");
}

TEST_F(XtablesRemovalTest, FormerOwnersKeptChainIsReportedAfterAWriteThatFailed) {
  kernel.SetText(kFormer);
  kernel.replace_error = ENOMEM;
  EXPECT_EQ(Refused({}, {"KUBE-*"}).code, ENOMEM);
  EXPECT_EQ(kernel.Text(), kFormer);
  EXPECT_EQ(Words(Apply({}).kept), "KUBE-SVC-1 by THEIRS\n");
  EXPECT_EQ(kernel.Text(),
            std::string(kPolicies) + "KUBE-SVC-1: RETURN[6]\nTHEIRS: 1>KUBE-SVC-1[5], RETURN\n");
}

// The first chain of the name was removed. The target of the jump kept its rules and was not reported.
TEST_F(XtablesRemovalTest, EveryChainOfANameThatForeignOnesJumpToIsEmptied) {
  const std::string twice = "KUBE-B: 1>DROP, RETURN\nKUBE-B: 2>DROP, RETURN[7]\n";
  const std::string theirs = "THEIRS: 5>KUBE-B, RETURN\n";
  BatchBuilder away;
  away.RemoveChain("KUBE-B");
  for (const bool is_former : {false, true}) {
    Open();
    kernel.SetText(kPolicies + twice + theirs);
    const auto prune = is_former ? std::vector<std::string>{"KUBE-*"} : std::vector<std::string>();
    EXPECT_EQ(Words(Apply(is_former ? BatchBuilder() : away, prune).kept), "KUBE-B by THEIRS\n");
    EXPECT_EQ(kernel.Text(), kPolicies + ("KUBE-B: RETURN[7]\n" + theirs));
    EXPECT_FALSE(Apply({}).is_written);
    kernel.SetText(std::string(kPolicies) + "KUBE-B: RETURN\nTHEIRS: RETURN\n");
    Apply({});
    EXPECT_EQ(kernel.Text(), std::string(kPolicies) + "THEIRS: RETURN\n");
  }
}

// The list came from a read before the lock. An empty chain that a foreign chain jumps to was emptied again
// after its owner had filled it.
TEST_F(XtablesRemovalTest, ChainThatAnotherProgramMayFillGoesWhileItIsUnused) {
  struct Case {
    const char* before;
    const char* after;
  };
  const Case cases[] = {
      {"KUBE-X: RETURN\n", ""},
      {"KUBE-A: 1>KUBE-X, RETURN\nKUBE-X: RETURN\n", ""},
      {"KUBE-X: 1>DROP, RETURN\n", "KUBE-X: 1>DROP, RETURN\n"},
      {"KUBE-X: RETURN\nTHEIRS: 1>KUBE-X, RETURN\n", "KUBE-X: RETURN\nTHEIRS: 1>KUBE-X, RETURN\n"},
      {"KUBE-X?: RETURN\n", "KUBE-X?: RETURN\n"},
  };
  for (const auto& [before, after] : cases) {
    Open();
    kernel.SetText(kPolicies + std::string(before));
    EXPECT_EQ(Words(Apply({}, {"KUBE-A", "KUBE-X?"}).kept), "");
    EXPECT_EQ(kernel.Text(), kPolicies + std::string(after));
    EXPECT_FALSE(Apply({}, {"KUBE-A", "KUBE-X?"}).is_written);
  }
  kernel.SetText(kPolicies + std::string("KUBE-X: 1>DROP, RETURN\nTHEIRS: 1>KUBE-X, RETURN\n"));
  EXPECT_FALSE(Apply({}).is_written);
}

// The rule was removed with its chain. If a foreign chain jumped to the chain, it was copied without a check
// of its own jump: the fuzzer xtables_image ended with std::bad_variant_access.
TEST_F(XtablesRemovalTest, ChainThatEndsWithoutReturnHasARule) {
  for (const char* words : {"2>THEIRS", "THEIRS", "DROP", "2>RETURN"}) {
    const std::string tables = kPolicies + ("KUBE-X: " + std::string(words)) + "\nTHEIRS: RETURN\n";
    Open();
    kernel.SetText(tables);
    EXPECT_FALSE(Apply({}, {"KUBE-X?"}).is_written) << words;
    EXPECT_EQ(kernel.Text(), tables);
  }
  Open();
  kernel.SetText(kPolicies + std::string("KUBE-X: 2>LAST\nTHEIRS: 1>KUBE-X, RETURN\nLAST: RETURN\n"));
  kernel.LeadAstray("LAST");
  const Error error = Refused(Small(), {"KUBE-X?"});
  EXPECT_EQ(error.code, EPROTO);
  EXPECT_EQ(error.text, "a jump to no chain at byte 784");
}

TEST_F(XtablesRemovalTest, PruningIsRepeatedAfterAFailure) {
  kernel.SetText("PREROUTING: ACCEPT\nINPUT: ACCEPT\nOUTPUT: ACCEPT\nPOSTROUTING: ACCEPT\nKUBE-X: RETURN\n");
  kernel.replace_error = ENOMEM;
  EXPECT_EQ(Refused(Small(), {"KUBE-*"}).code, ENOMEM);
  Apply({});
  EXPECT_EQ(kernel.Text(), kSmall);
  kernel.SetText(std::string(kSmall) + "KUBE-X: RETURN\n");
  EXPECT_FALSE(Apply({}).is_written);  // a successful prune is not repeated
}

}  // namespace
}  // namespace viaduct::xtables
