// Random operations and foreign changes: desired chains exist, foreign ones stay.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <sstream>

#include "xtables/xtables_table.h"
#include "xtables_batch.h"
#include "xtables_model.h"

namespace viaduct::xtables {
namespace {

using std::chrono::milliseconds;

constexpr const char* kPolicies[] = {"PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"};

class XtablesRandom : public testing::TestWithParam<uint32_t> {
 protected:
  void TearDown() override { std::filesystem::remove(lock_path_); }

  size_t Below(size_t limit) { return std::uniform_int_distribution<size_t>(0, limit - 1)(random_); }
  static std::string Name(size_t number) { return "KUBE-" + std::to_string(number); }

  XtablesTable Open() { return std::move(XtablesTable::Open(AF_INET, "nat", lock_path_, kernel).value()); }

  /// Sets random rules of a chain. Chains jump only to later ones, so that the lines need no order.
  void SetChain(BatchBuilder& batch, size_t number) {
    batch.SetChain(Name(number));
    std::string line;
    for (size_t i = Below(5); i > 0; --i) {
      const auto last = static_cast<uint8_t>(1 + Below(9));
      const auto later = wanted.upper_bound(Name(number));
      if (later != wanted.end() && Below(2) == 0) {
        batch.To(last, later->first);
        line += std::to_string(last) + ">" + later->first + ", ";
      } else {
        batch.Accept(last);
        line += std::to_string(last) + ">ACCEPT, ";
      }
    }
    wanted[Name(number)] = line + "RETURN";
  }

  void RemoveChain(BatchBuilder& batch, size_t number) {
    const std::string lead = ">" + Name(number) + ",";
    for (const auto& [name, line] : wanted)
      if (line.find(lead) != std::string::npos) return;
    batch.RemoveChain(Name(number));
    wanted.erase(Name(number));
  }

  /// Another program adds or removes a chain and a rule, or damages one of ours.
  void Disturb() {
    std::vector<std::string> lines = Lines();
    std::string& output = lines[2];
    switch (Below(4)) {
      case 0:
        foreign.push_back("THEIRS-" + std::to_string(foreign.size()) + ": 5>next, 6>DROP, RETURN");
        lines.insert(lines.begin() + 4 + static_cast<ptrdiff_t>(Below(lines.size() - 3)), foreign.back());
        break;
      case 1:
        output.insert(output.rfind("ACCEPT"), "9>DROP, ");
        ++drops;
        break;
      case 2:
        for (std::string& line : lines)
          if (line.starts_with("KUBE-") && Below(2) == 0) line.insert(line.find(':') + 1, " 7>DROP,");
        break;
      default:
        break;
    }
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    kernel.SetText(text);
  }

  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    std::istringstream text(kernel.Text());
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }

  void ExpectEverything() const {
    std::vector<std::string> lines = Lines();
    std::vector<std::string> theirs;
    std::map<std::string, std::string> ours;
    for (size_t i = std::size(kPolicies); i < lines.size(); ++i) {
      if (lines[i].starts_with("THEIRS"))
        theirs.push_back(lines[i]);
      else
        ours[lines[i].substr(0, lines[i].find(':'))] = lines[i].substr(lines[i].find(':') + 2);
    }
    EXPECT_EQ(ours, wanted);
    std::ranges::sort(theirs);
    std::vector<std::string> sorted = foreign;
    std::ranges::sort(sorted);
    EXPECT_EQ(theirs, sorted);
    std::string output = "OUTPUT: ";
    if (!hook.empty()) output += "1>" + hook + ", ";
    for (size_t i = 0; i < drops; ++i) output += "9>DROP, ";
    EXPECT_EQ(lines[2], output + "ACCEPT");
  }

  const std::string lock_path_ = testing::TempDir() + "xtables_random_test." + std::to_string(getpid());
  ModelTable kernel;
  std::map<std::string, std::string> wanted;  ///< line by name
  std::vector<std::string> foreign;           ///< lines
  std::string hook;                           ///< target of OUTPUT
  size_t drops = 0;                           ///< foreign rules of OUTPUT

 private:
  std::mt19937 random_{GetParam()};
};

TEST_P(XtablesRandom, DesiredChainsExistAndForeignOnesStay) {
  XtablesTable table = Open();
  for (int round = 0; round < 60; ++round) {
    BatchBuilder batch;
    for (size_t i = Below(6); i > 0; --i) {
      const size_t number = 1 + Below(9);
      if (Below(3) == 0 && hook != Name(number))
        RemoveChain(batch, number);
      else
        SetChain(batch, number);
    }
    if (!wanted.empty() && Below(4) == 0) {
      hook = wanted.begin()->first;
      batch.SetHook("OUTPUT").To(1, hook);
    }
    if (Below(3) == 0) Disturb();
    if (Below(8) == 0) {
      kernel.replace_error = ENOMEM;
      (void)table.Apply(batch.batch(), {}, milliseconds(0));
      kernel.replace_error = 0;
      batch = BatchBuilder();  // failed operations stay desired
    }
    auto outcome = table.Apply(batch.batch(), {}, milliseconds(0));
    ASSERT_TRUE(outcome.ok()) << outcome.error().text;
    ExpectEverything();
    EXPECT_FALSE(table.Apply({}, {}, milliseconds(0)).value().is_written);
    EXPECT_TRUE(table.Check().value());
    ASSERT_FALSE(HasFailure()) << "in round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, XtablesRandom, testing::Range(1U, 40U));

}  // namespace
}  // namespace viaduct::xtables
