#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "xtables/barrier.h"
#include "xtables/entry.h"
#include "xtables_model.h"

namespace viaduct::xtables {
namespace {

std::string Describe(const std::optional<Barrier>& barrier) {
  if (!barrier) return "none";
  return (barrier->is_policy ? "policy " : "rule ") + std::to_string(barrier->rule);
}

std::string BarrierOf(const std::string& output) {
  ModelTable table;
  table.SetText("PREROUTING: DROP\nINPUT: ACCEPT\nOUTPUT: " + output +
                "\nPOSTROUTING: DROP\nKUBE-A: RETURN\n");
  return Describe(FindBarrier(TableImage::Parse(kIpv4, table.bytes(), table.info()).value(), "OUTPUT"));
}

TEST(XtablesBarrier, IsThePolicyOrARuleForEveryPacket) {
  struct Case {
    const char* output;
    const char* barrier;
  };
  for (const Case& each : {
           Case{"ACCEPT", "none"},
           Case{"DROP", "policy 0"},
           Case{"1>KUBE-A, 2>ACCEPT, DROP", "policy 2"},
           Case{"DROP, ACCEPT", "rule 0"},
           Case{"1>KUBE-A, DROP, DROP", "rule 1"},
           // For one destination only.
           Case{"3>DROP, ACCEPT", "none"},
           Case{"RETURN, ACCEPT", "none"},
       })
    EXPECT_EQ(BarrierOf(each.output), each.barrier) << each.output;
}

TEST(XtablesBarrier, IsNoneInAnAbsentChain) {
  ModelTable table;
  const TableImage image = TableImage::Parse(kIpv4, table.bytes(), table.info()).value();
  EXPECT_EQ(Describe(FindBarrier(image, "FORWARD")), "none");
}

}  // namespace
}  // namespace viaduct::xtables
