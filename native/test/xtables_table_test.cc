// Changes of a table, in the notation of ModelTable::Text().
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <thread>

#include "core/fd.h"
#include "xtables_table_lab.h"

namespace viaduct::xtables {
namespace {

using std::chrono::milliseconds;

TEST_F(XtablesTableTest, CreatesChainsAndJumpsToThem) {
  const Outcome outcome = Apply(Small());
  EXPECT_EQ(kernel.Text(), kSmall);
  EXPECT_TRUE(outcome.is_written);
  EXPECT_EQ(outcome.entries, 13U);
  EXPECT_EQ(outcome.bytes, kernel.bytes().size());
  EXPECT_TRUE(Check());
}

TEST_F(XtablesTableTest, SecondApplyWritesNothing) {
  Apply(Small());
  EXPECT_FALSE(Apply(Small()).is_written);
  EXPECT_FALSE(Apply({}).is_written);
  EXPECT_EQ(kernel.replacements(), 1);
}

TEST_F(XtablesTableTest, AnotherProcessFindsTheTableAsDesired) {
  Apply(Small());
  Open();
  EXPECT_FALSE(Check());  // no Apply() so far
  EXPECT_FALSE(Apply(Small()).is_written);
  EXPECT_TRUE(Check());
}

// The tools do not create two chains of one name; the kernel accepts them.
TEST_F(XtablesTableTest, OfTwoChainsOfOneNameTheFirstIsOursAndBothAreRemoved) {
  const std::string policies = "PREROUTING: ACCEPT\nINPUT: ACCEPT\nOUTPUT: ACCEPT\nPOSTROUTING: ACCEPT\n";
  kernel.SetText(policies + "KUBE-B: 1>DROP, RETURN\nKUBE-B: 2>DROP[7], RETURN\n");
  BatchBuilder batch;
  batch.SetChain("KUBE-B").Accept(4);
  Apply(batch);
  EXPECT_EQ(kernel.Text(), policies + "KUBE-B: 4>ACCEPT, RETURN\nKUBE-B: 2>DROP[7], RETURN\n");
  EXPECT_FALSE(Apply({}).is_written);
  BatchBuilder away;
  away.RemoveChain("KUBE-B");
  Apply(away);
  EXPECT_EQ(kernel.Text(), policies);
  EXPECT_FALSE(Apply(away).is_written);
}

TEST_F(XtablesTableTest, ForeignPartStaysWithOrderAndCounters) {
  kernel.SetText(
      "PREROUTING: 9>next[1], ACCEPT[2]\n"
      "INPUT: ACCEPT\n"
      "OUTPUT: 5>THEIRS[3], 6>DROP[4], ACCEPT[5]\n"
      "POSTROUTING: ACCEPT\n"
      "LATER: 7>next[6], 8>THEIRS[7], RETURN[8]\n"
      "THEIRS: 9>ACCEPT[9], RETURN\n");
  Apply(Small());
  const char* with_ours =
      "PREROUTING: 9>next[1], ACCEPT[2]\n"
      "INPUT: ACCEPT\n"
      "OUTPUT: 1>KUBE-A, 5>THEIRS[3], 6>DROP[4], ACCEPT[5]\n"
      "POSTROUTING: ACCEPT\n"
      "LATER: 7>next[6], 8>THEIRS[7], RETURN[8]\n"
      "THEIRS: 9>ACCEPT[9], RETURN\n"
      "KUBE-A: 2>KUBE-B, 3>ACCEPT, RETURN\n"
      "KUBE-B: 4>ACCEPT, RETURN\n";
  EXPECT_EQ(kernel.Text(), with_ours);
  BatchBuilder away;
  away.SetHook("OUTPUT").RemoveChain("KUBE-A").RemoveChain("KUBE-B");
  Apply(away);
  EXPECT_EQ(kernel.Text(),
            "PREROUTING: 9>next[1], ACCEPT[2]\n"
            "INPUT: ACCEPT\n"
            "OUTPUT: 5>THEIRS[3], 6>DROP[4], ACCEPT[5]\n"
            "POSTROUTING: ACCEPT\n"
            "LATER: 7>next[6], 8>THEIRS[7], RETURN[8]\n"
            "THEIRS: 9>ACCEPT[9], RETURN\n");
}

TEST_F(XtablesTableTest, RulesThatStayKeepTheirCounters) {
  kernel.SetText(
      "PREROUTING: ACCEPT\nINPUT: ACCEPT\n"
      "OUTPUT: 1>KUBE-A[1], ACCEPT[2]\n"
      "POSTROUTING: ACCEPT\n"
      "KUBE-A: 3>ACCEPT[3], 9>ACCEPT[9], 2>KUBE-B[4], RETURN[5]\n"
      "KUBE-B: 4>ACCEPT[6], RETURN[7]\n");
  Apply(Small());
  EXPECT_EQ(kernel.Text(),
            "PREROUTING: ACCEPT\nINPUT: ACCEPT\n"
            "OUTPUT: 1>KUBE-A[1], ACCEPT[2]\n"
            "POSTROUTING: ACCEPT\n"
            "KUBE-A: 2>KUBE-B[4], 3>ACCEPT[3], RETURN[5]\n"
            "KUBE-B: 4>ACCEPT[6], RETURN[7]\n");
}

TEST_F(XtablesTableTest, EqualRulesTakeDifferentCounters) {
  kernel.SetText(
      "PREROUTING: ACCEPT\nINPUT: ACCEPT\nOUTPUT: ACCEPT\nPOSTROUTING: ACCEPT\n"
      "KUBE-A: 4>ACCEPT[1], 4>ACCEPT[1], RETURN\n");
  BatchBuilder batch;
  batch.SetChain("KUBE-A").Accept(4).Accept(4).Accept(4);
  Apply(batch);
  EXPECT_NE(kernel.Text().find("KUBE-A: 4>ACCEPT[1], 4>ACCEPT[1], 4>ACCEPT, RETURN"), std::string::npos)
      << kernel.Text();
}

TEST_F(XtablesTableTest, WithoutCountersNoneAreAdded) {
  Apply(Small());
  EXPECT_EQ(kernel.counter_additions(), 0);
}

TEST_F(XtablesTableTest, ChangedChainKeepsItsPlace) {
  Apply(Small());
  BatchBuilder batch;
  batch.SetChain("KUBE-A").Accept(7).To(8, "KUBE-B").Accept(9);
  Apply(batch);
  EXPECT_NE(kernel.Text().find("KUBE-A: 7>ACCEPT, 8>KUBE-B, 9>ACCEPT, RETURN\nKUBE-B: 4>ACCEPT, RETURN\n"),
            std::string::npos)
      << kernel.Text();
}

TEST_F(XtablesTableTest, AChangeOfTheSameSizeChangesNothingElse) {
  const std::string before =
      "PREROUTING: ACCEPT\nINPUT: ACCEPT\nOUTPUT: 5>THEIRS[1], 1>KUBE-A[2], ACCEPT[3]\n"
      "POSTROUTING: ACCEPT\nTHEIRS: 6>next[4], 7>KUBE-B[5], RETURN[6]\nKUBE-A: ";
  const std::string after = "KUBE-B: 4>ACCEPT[9], RETURN[10]\nLAST: 8>THEIRS[11], RETURN\n";
  kernel.SetText(before + "2>KUBE-B[7], 3>ACCEPT[8], RETURN\n" + after);
  BatchBuilder batch = Small();
  batch.SetChain("KUBE-A").Accept(9).To(2, "KUBE-B");
  Apply(batch);
  EXPECT_EQ(kernel.Text(), before + "9>ACCEPT, 2>KUBE-B[7], RETURN\n" + after);
  EXPECT_FALSE(Apply({}).is_written);
}

struct HookCase {
  const char* what;
  const char* before;  ///< of OUTPUT
  const char* after;
  bool is_written;
};

class HookTest : public XtablesTableTest, public testing::WithParamInterface<HookCase> {};

TEST_P(HookTest, RulesOfOursInAHook) {
  const HookCase& param = GetParam();
  const auto text = [](const char* output) {
    return std::string("PREROUTING: ACCEPT\nINPUT: ACCEPT\nOUTPUT: ") + output +
           "\nPOSTROUTING: ACCEPT\nKUBE-A: 4>ACCEPT, RETURN\nKUBE-B: 4>ACCEPT, RETURN\n";
  };
  kernel.SetText(text(param.before));
  BatchBuilder batch;
  batch.SetChain("KUBE-A").Accept(4).SetChain("KUBE-B").Accept(4);
  batch.SetHook("OUTPUT").To(1, "KUBE-A").Accept(2).To(3, "KUBE-B");
  EXPECT_EQ(Apply(batch).is_written, param.is_written);
  EXPECT_EQ(kernel.Text(), text(param.after));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, HookTest,
    testing::Values(
        HookCase{"absent", "7>DROP[1], ACCEPT", "1>KUBE-A, 2>ACCEPT, 3>KUBE-B, 7>DROP[1], ACCEPT", true},
        HookCase{"between foreign ones", "7>DROP, 1>KUBE-A, 8>DROP, 2>ACCEPT, 3>KUBE-B, 9>DROP, ACCEPT",
                 "7>DROP, 1>KUBE-A, 8>DROP, 2>ACCEPT, 3>KUBE-B, 9>DROP, ACCEPT", false},
        HookCase{"in another order", "7>DROP, 3>KUBE-B[3], 2>ACCEPT[2], 8>DROP[8], 1>KUBE-A[1], ACCEPT",
                 "1>KUBE-A[1], 2>ACCEPT[2], 3>KUBE-B[3], 7>DROP, 8>DROP[8], ACCEPT", true},
        HookCase{"one missing", "7>DROP, 1>KUBE-A, 2>ACCEPT, ACCEPT",
                 "1>KUBE-A, 2>ACCEPT, 3>KUBE-B, 7>DROP, ACCEPT", true},
        HookCase{"one twice", "1>KUBE-A, 2>ACCEPT, 3>KUBE-B, 7>DROP, 1>KUBE-A, ACCEPT",
                 "1>KUBE-A, 2>ACCEPT, 3>KUBE-B, 7>DROP, ACCEPT", true},
        HookCase{"another way to a chain of ours", "1>KUBE-A, 9>KUBE-A, 2>ACCEPT, 3>KUBE-B, ACCEPT",
                 "1>KUBE-A, 2>ACCEPT, 3>KUBE-B, ACCEPT", true}),
    [](const auto& tested) {
      std::string name = tested.param.what;
      std::ranges::replace(name, ' ', '_');
      return name;
    });

TEST_F(XtablesTableTest, FormerRulesOfAHookAreRemoved) {
  Apply(Small());
  BatchBuilder batch;
  batch.SetHook("OUTPUT").Accept(8);
  Apply(batch);
  EXPECT_NE(kernel.Text().find("OUTPUT: 8>ACCEPT, ACCEPT\n"), std::string::npos) << kernel.Text();
  BatchBuilder none;
  none.SetHook("OUTPUT");
  Apply(none);
  EXPECT_NE(kernel.Text().find("OUTPUT: ACCEPT\n"), std::string::npos) << kernel.Text();
}

TEST_F(XtablesTableTest, HookThatWasNeverSetKeepsItsJumps) {
  kernel.SetText(
      "PREROUTING: 1>KUBE-A, ACCEPT\nINPUT: ACCEPT\nOUTPUT: ACCEPT\nPOSTROUTING: ACCEPT\n"
      "KUBE-A: RETURN\n");
  BatchBuilder batch;
  batch.SetChain("KUBE-A").Accept(4);
  Apply(batch);
  EXPECT_NE(kernel.Text().find("PREROUTING: 1>KUBE-A, ACCEPT\n"), std::string::npos) << kernel.Text();
  BatchBuilder remove;
  remove.RemoveChain("KUBE-A");
  Apply(remove);
  EXPECT_NE(kernel.Text().find("PREROUTING: ACCEPT\n"), std::string::npos) << kernel.Text();
}

TEST_F(XtablesTableTest, RemovingWhatIsAbsentDoesNothing) {
  BatchBuilder batch;
  batch.RemoveChain("KUBE-A");
  EXPECT_FALSE(Apply(batch).is_written);
}

/// "KUBE-A 1: EINVAL" and so on.
std::string Words(const std::vector<Refusal>& refusals) {
  std::string words;
  for (const auto& [chain, rule, error] : refusals)
    words += chain + " " + std::to_string(rule) + ": " + std::to_string(error.code) + " " + error.text + "\n";
  return words;
}

// Issue 18, C2: the kernel refused the table for one rule, which was not reported.
TEST_F(XtablesTableTest, RulesThatTheKernelRefusesAreFound) {
  Apply(Small());
  BatchBuilder batch = Small();
  batch.SetHook("OUTPUT").Accept(9).To(1, "KUBE-A").Accept(9);
  batch.SetChain("KUBE-B").Accept(4).To(9, "KUBE-A");
  for (int i = 0; i < 1000; ++i) batch.SetChain("KUBE-C" + std::to_string(i)).Accept(5).Accept(6);
  kernel.bad = 9;
  EXPECT_EQ(Refused(batch).code, EINVAL);
  const int tries = kernel.tries();
  EXPECT_EQ(Words(table->FindRefusals().value()), "OUTPUT 0: 22 \nOUTPUT 2: 22 \nKUBE-B 1: 22 \n");
  EXPECT_LT(kernel.tries() - tries, 3 * 2 * 12);
  EXPECT_EQ(kernel.Text(), kSmall);
  EXPECT_EQ(kernel.replacements(), 1);
}

TEST_F(XtablesTableTest, ErrorsOfTheTableRefuseNoRule) {
  Apply(Small());
  EXPECT_EQ(Words(table->FindRefusals().value()), "");
  kernel.replace_error = ENOMEM;
  EXPECT_EQ(table->FindRefusals().error().code, ENOMEM);
}

TEST_F(XtablesTableTest, RulesThatCannotBeEncodedAreFound) {
  kernel.missing = "recent";
  BatchBuilder batch = Small();
  batch.SetChain("KUBE-C").Accept(1);
  for (int i = 0; i < 3; ++i) {
    const uint32_t list = batch.Text("LIST");
    RuleRecord& rule = batch.Rule(Target::kAccept);
    rule.matches = kRecent;
    rule.recent_list = list;
  }
  batch.Accept(2);
  const int questions = kernel.revision_questions();
  EXPECT_EQ(Refused(batch).code, EPROTONOSUPPORT);
  // Both revisions of `recent`, once; no other request.
  EXPECT_EQ(kernel.revision_questions() - questions, 2);
  const std::string text = ": 93 this kernel has no match recent of revision 1\n";
  EXPECT_EQ(Words(table->FindRefusals().value()), "KUBE-C 1" + text + "KUBE-C 2" + text + "KUBE-C 3" + text);
  kernel.missing.clear();
  Apply({});
  EXPECT_EQ(Words(table->FindRefusals().value()), "");
}

TEST_F(XtablesTableTest, AJumpToAnAbsentChain) {
  BatchBuilder batch;
  batch.SetChain("KUBE-A").To(1, "NOWHERE");
  const Error error = Refused(batch);
  EXPECT_EQ(error.code, ENOENT);
  EXPECT_EQ(error.text, "chain KUBE-A jumps to NOWHERE, which does not exist");
  BatchBuilder missing;
  missing.SetChain("NOWHERE");
  EXPECT_TRUE(Apply(missing).is_written);
}

TEST_F(XtablesTableTest, JumpToAForeignChain) {
  kernel.SetText(
      "PREROUTING: ACCEPT\nINPUT: ACCEPT\nOUTPUT: ACCEPT\nPOSTROUTING: ACCEPT\n"
      "THEIRS: 5>DROP, RETURN\n");
  BatchBuilder batch;
  batch.SetChain("KUBE-A").To(1, "THEIRS");
  Apply(batch);
  EXPECT_NE(kernel.Text().find("KUBE-A: 1>THEIRS, RETURN\n"), std::string::npos) << kernel.Text();
  EXPECT_FALSE(Apply({}).is_written);
}

TEST_F(XtablesTableTest, ChangesOfAnInterleavingProgramAreKept) {
  int turns = 0;
  kernel.before_replace = [&] {
    if (turns++ > 1) return;
    kernel.SetText(std::string("PREROUTING: ACCEPT\nINPUT: ACCEPT\nOUTPUT: ") +
                   (turns == 1 ? "" : "8>DROP[1], ") + "9>DROP[1], ACCEPT\nPOSTROUTING: ACCEPT\n");
  };
  const Outcome outcome = Apply(Small());
  EXPECT_EQ(outcome.repeats, 2U);
  EXPECT_NE(kernel.Text().find("OUTPUT: 1>KUBE-A, 8>DROP[1], 9>DROP[1], ACCEPT\n"), std::string::npos)
      << kernel.Text();
}

TEST_F(XtablesTableTest, AProgramThatNeverStopsIsReported) {
  std::string rules;
  kernel.before_replace = [&] {
    rules += "9>DROP, ";
    kernel.SetText("PREROUTING: ACCEPT\nINPUT: ACCEPT\nOUTPUT: " + rules + "ACCEPT\nPOSTROUTING: ACCEPT\n");
  };
  const Error error = Refused(Small());
  EXPECT_EQ(error.code, EAGAIN);
  EXPECT_EQ(error.text, "another program keeps changing it");
}

TEST_F(XtablesTableTest, FindsForeignChanges) {
  Apply(Small());
  EXPECT_TRUE(Compare().missing.empty() && Compare().changed.empty());
  kernel.SetText(
      "PREROUTING: ACCEPT\nINPUT: ACCEPT\nOUTPUT: ACCEPT\nPOSTROUTING: ACCEPT\n"
      "KUBE-B: 5>ACCEPT, RETURN\n");
  EXPECT_FALSE(Check());
  const Drift drift = Compare();
  EXPECT_EQ(drift.missing, std::vector<std::string>{"KUBE-A"});
  EXPECT_EQ(drift.changed, (std::vector<std::string>{"KUBE-B", "OUTPUT"}));
  EXPECT_EQ(kernel.replacements(), 1);
  const Drift repaired = Apply({}).repaired;
  EXPECT_EQ(repaired.missing, drift.missing);
  EXPECT_EQ(repaired.changed, drift.changed);
  EXPECT_TRUE(Check());
  EXPECT_TRUE(Compare().missing.empty() && Compare().changed.empty());
}

// The batch changes KUBE-A. The chain of a former owner goes with the jumps to it. Neither is a repair.
TEST_F(XtablesTableTest, NamesTheRepairsBesideTheOperations) {
  const Drift first = Apply(Small()).repaired;
  EXPECT_TRUE(first.missing.empty() && first.changed.empty());
  kernel.SetText(
      "PREROUTING: ACCEPT\nINPUT: 1>KUBE-OLD, ACCEPT\nOUTPUT: 1>KUBE-A, 1>KUBE-OLD, ACCEPT\nPOSTROUTING: "
      "ACCEPT\n"
      "KUBE-OLD: RETURN\nKUBE-A: RETURN\nKUBE-B: RETURN\n");
  BatchBuilder batch;
  batch.SetChain("KUBE-A").Accept(7);
  const Drift repaired = Apply(batch, {"KUBE-OLD"}).repaired;
  EXPECT_TRUE(repaired.missing.empty());
  EXPECT_EQ(repaired.changed, std::vector<std::string>{"KUBE-B"});
  const Drift later = Apply({}).repaired;
  EXPECT_TRUE(later.missing.empty() && later.changed.empty());
}

TEST_F(XtablesTableTest, ListsChains) {
  Apply(Small());
  const Chains chains = table->ListChains().value();
  EXPECT_EQ(chains.names, (std::vector<std::string>{"KUBE-A", "KUBE-B"}));
  EXPECT_EQ(chains.rules, (std::vector<uint32_t>{2, 1}));
}

TEST_F(XtablesTableTest, CountsPacketsOfUserChainsOnly) {
  Apply(Small());
  const std::vector<std::string> chains{"KUBE-C", "KUBE-A", "OUTPUT"};
  EXPECT_EQ(table->CountPackets(chains).value(), (std::vector<Packets>{{}, {0, 0}, {}}));
}

TEST_F(XtablesTableTest, FailedOperationsStayDesired) {
  kernel.replace_error = EINVAL;
  EXPECT_EQ(Refused(Small()).code, EINVAL);
  EXPECT_TRUE(Apply({}).is_written);
  EXPECT_EQ(kernel.Text(), kSmall);
}

TEST_F(XtablesTableTest, UnsupportedRulesAreAddedLater) {
  kernel.missing = "mark";
  BatchBuilder batch = Small();
  batch.Rule(Target::kAccept).matches = kMark;  // of KUBE-B
  const Error error = Refused(batch);
  EXPECT_EQ(error.code, EPROTONOSUPPORT);
  EXPECT_EQ(error.operation, "encode a rule of chain KUBE-B");
  EXPECT_EQ(error.text, "this kernel has no match mark of revision 1");
  EXPECT_EQ(kernel.replacements(), 0);
  kernel.missing.clear();
  Apply({});
  EXPECT_NE(kernel.Text().find("KUBE-B: 4>ACCEPT, ACCEPT, RETURN\n"), std::string::npos) << kernel.Text();
}

TEST_F(XtablesTableTest, InvalidOperationsChangeNothing) {
  const std::tuple<Op, const char*, const char*> cases[] = {
      {Op::kSetChain, "", "chain name \"\" must have 1 to 28 bytes"},
      {Op::kSetChain, "KUBE-45678901234567890123456789",
       "chain name \"KUBE-45678901234567890123456789\" must have 1 to 28 bytes"},
      {Op::kSetChain, "OUTPUT", "\"OUTPUT\" is a built-in chain of the kernel"},
      {Op::kRemoveChain, "INPUT", "\"INPUT\" is a built-in chain of the kernel"},
      {Op::kSetHook, "KUBE-A", "\"KUBE-A\" is not a built-in chain of the kernel"},
      {static_cast<Op>(9), "KUBE-A", "unknown operation 9"},
  };
  for (const auto& [op, name, text] : cases) {
    BatchBuilder batch = Small();
    batch.Begin(op, name);
    const Error error = Refused(batch);
    EXPECT_EQ(error.code, EINVAL);
    EXPECT_EQ(error.text, text);
  }
  EXPECT_FALSE(Apply({}).is_written);
}

TEST_F(XtablesTableTest, AHookThatTheTableLacks) {
  BatchBuilder batch;
  batch.SetHook("FORWARD").Accept(1);
  EXPECT_EQ(Refused(batch).text, "the table has no hook FORWARD");
}

TEST_F(XtablesTableTest, AnInvalidTable) {
  for (const char* where : {"PREROUTING: 1>A, ACCEPT", "PREROUTING: ACCEPT"}) {
    kernel.SetText(std::string(where) +
                   "\nINPUT: ACCEPT\nOUTPUT: ACCEPT\nPOSTROUTING: ACCEPT\nTHEIRS: 1>A, RETURN\nA: RETURN\n");
    kernel.LeadAstray("A");
    const Error error = Refused({});
    EXPECT_EQ(error.code, EPROTO);
    EXPECT_NE(error.text.find("a jump to no chain at byte "), std::string::npos) << error.text;
  }
}

TEST_F(XtablesTableTest, KernelWithoutTheTable) {
  kernel.info_error = ENOPROTOOPT;
  const Error error = Refused(Small());
  EXPECT_EQ(error.code, ENOPROTOOPT);
  EXPECT_EQ(error.operation, "inspect the table");
  EXPECT_EQ(error.text, "this kernel has no legacy x_tables");
}

TEST_F(XtablesTableTest, LockOfAnotherProgram) {
  const Fd holder(open(lock_path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(flock(holder.get(), LOCK_EX), 0);
  const Error error = Refused(Small());
  EXPECT_EQ(error.code, EAGAIN);
  EXPECT_EQ(error.operation, "lock " + lock_path);
  EXPECT_EQ(error.text, "another program holds it");
  ASSERT_EQ(flock(holder.get(), LOCK_UN), 0);
  EXPECT_TRUE(Apply({}).is_written);
}

TEST_F(XtablesTableTest, NoWaitForTheLockAfterHurry) {
  const Fd holder(open(lock_path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(flock(holder.get(), LOCK_EX), 0);
  std::optional<Error> error;
  std::thread waiter([&] { error = table->Apply(Small().batch(), {}, std::chrono::hours(1)).error(); });
  table->Hurry();
  waiter.join();
  EXPECT_EQ(error->code, EAGAIN);
  EXPECT_EQ(table->Apply({}, {}, std::chrono::hours(1)).error().code, EAGAIN);
}

TEST_F(XtablesTableTest, ALockFileThatCannotBeOpened) {
  auto opened = XtablesTable::Open(AF_INET, "nat", testing::TempDir() + "no/such/folder", kernel);
  auto outcome = opened.value().Apply(Small().batch(), {}, milliseconds(0));
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code, ENOENT);
}

TEST_F(XtablesTableTest, NamesAreAddedAndRemoved) {
  for (int round = 0; round < 3; ++round) {
    BatchBuilder add;
    for (int i = 0; i < 50; ++i)
      add.SetChain("KUBE-" + std::to_string(round * 50 + i)).To(1, "KUBE-" + std::to_string(round * 50));
    Apply(add);
    BatchBuilder remove;
    for (int i = 0; i < 50; ++i) remove.RemoveChain("KUBE-" + std::to_string(round * 50 + i));
    Apply(remove);
  }
  EXPECT_EQ(kernel.Text(), "PREROUTING: ACCEPT\nINPUT: ACCEPT\nOUTPUT: ACCEPT\nPOSTROUTING: ACCEPT\n");
}

}  // namespace
}  // namespace viaduct::xtables
