// The part of a table that XtablesTable::ListReached() lists, and the readings that it takes.
#include <gtest/gtest.h>

#include <string>

#include "xtables/entry.h"
#include "xtables_table_lab.h"

namespace viaduct::xtables {
namespace {

using XtablesListingTest = XtablesTableTest;

std::string NameAt(const Listing& listing, int32_t rules) {
  for (const auto& chain : listing.chains)
    if (!chain.is_built_in && static_cast<int32_t>(chain.rules) == rules) return chain.name;
  return "nothing";
}

/// "OUTPUT: OTHER -2; OTHER: ", with the target of each jump and the verdict of each other rule.
std::string Describe(const Listing& listing) {
  std::string text;
  for (const auto& chain : listing.chains) {
    text += (text.empty() ? "" : "; ") + chain.name + (chain.drops ? " drops:" : ":");
    for (uint32_t at = chain.rules; at < chain.last;) {
      EXPECT_TRUE(EntryView::Check(kIpv4, listing.bytes, at));
      const EntryView entry(kIpv4, listing.bytes.data() + at);
      const auto verdict = Load<int32_t>(entry.bytes() + entry.VerdictOffset().value());
      at += entry.size();
      if (verdict < 0)
        text += " " + std::to_string(verdict);
      else
        text += static_cast<uint32_t>(verdict) == at ? " next" : " " + NameAt(listing, verdict);
    }
  }
  return text;
}

constexpr const char* kTable =
    "PREROUTING: ACCEPT\n"
    "INPUT: ACCEPT\n"
    "OUTPUT: 5>LATER, ACCEPT\n"
    "POSTROUTING: 6>DROP, DROP\n"
    "ALONE: 7>DROP, RETURN\n"
    "FIRST: 8>LATER, 9>ACCEPT, RETURN\n"
    "LATER: 9>DROP, 9>FIRST, RETURN\n";

TEST_F(XtablesListingTest, HasTheChainsToWhichBuiltInChainsLead) {
  kernel.SetText(kTable);
  EXPECT_EQ(Describe(table->ListReached().value()),
            "PREROUTING:; INPUT:; OUTPUT: LATER; POSTROUTING drops: -1; LATER: -1 FIRST; FIRST: LATER -2");
}

TEST_F(XtablesListingTest, HasDesiredChainsWithoutTheirRules) {
  kernel.SetText(kTable);
  Apply(Small());
  EXPECT_EQ(Describe(table->ListReached().value()),
            "PREROUTING:; INPUT:; OUTPUT: KUBE-A LATER; POSTROUTING drops: -1; KUBE-A:; LATER: -1 FIRST; "
            "FIRST: LATER -2");
  EXPECT_LT(table->ListReached().value().bytes.size(), kernel.bytes().size());
}

TEST_F(XtablesListingTest, TakesWhatAComparisonHasJustRead) {
  Apply(Small());
  Compare();
  const int reads = kernel.reads();
  const std::string listed = Describe(table->ListReached().value());
  EXPECT_EQ(listed, "PREROUTING:; INPUT:; OUTPUT: KUBE-A; POSTROUTING:; KUBE-A:");
  EXPECT_EQ(kernel.reads(), reads);

  kernel.SetText(kTable);
  EXPECT_NE(Describe(table->ListReached().value()), listed) << "the table has another size";
  EXPECT_EQ(kernel.reads(), reads + 1);

  Compare();
  kernel.now = std::chrono::seconds(1);
  EXPECT_TRUE(table->ListReached().ok());
  EXPECT_EQ(kernel.reads(), reads + 3) << "the comparison was a second ago";
}

}  // namespace
}  // namespace viaduct::xtables
