#include <gtest/gtest.h>

#include <cerrno>

#include "xtables/entry_builder.h"
#include "xtables/table_image.h"
#include "xtables_model.h"

namespace viaduct::xtables {
namespace {

class XtablesImage : public testing::Test {
 protected:
  XtablesImage() {
    ModelTable table;
    table.SetText(
        "PREROUTING: 1>A, ACCEPT\nINPUT: ACCEPT\nOUTPUT: ACCEPT\nPOSTROUTING: 2>next, ACCEPT\n"
        "A: 3>BB, 4>DROP, RETURN\nBB: RETURN\n");
    bytes = table.bytes();
    info = table.info();
  }

  std::string Problem() {
    auto image = TableImage::Parse(kIpv4, bytes, info);
    if (image.ok()) return "";
    EXPECT_EQ(image.error().code, EPROTO);
    return image.error().text;
  }

  Bytes bytes;
  TableInfo info;
};

// Entries without matches: 152 bytes; heads: 176.
TEST_F(XtablesImage, CutsTheTableIntoChains) {
  auto parsed = TableImage::Parse(kIpv4, bytes, info);
  ASSERT_TRUE(parsed.ok()) << parsed.error().text;
  const TableImage& image = parsed.value();
  ASSERT_EQ(image.built_in().size(), 4U);
  const ImageChain& last = image.built_in()[3];
  EXPECT_EQ(last.name, "POSTROUTING");
  EXPECT_EQ(last.hook, uint32_t{NF_INET_POST_ROUTING});
  EXPECT_EQ(last.begin, 4 * 152U);
  EXPECT_EQ(last.last, 5 * 152U);
  EXPECT_EQ(last.end, 6 * 152U);
  EXPECT_EQ(last.first_entry, 4U);
  EXPECT_EQ(last.entries, 2U);
  ASSERT_EQ(image.chains().size(), 2U);
  const ImageChain& a = image.chains()[0];
  EXPECT_EQ(a.name, "A");
  EXPECT_EQ(a.begin, 6 * 152U);
  EXPECT_EQ(a.rules, 6 * 152 + 176U);
  EXPECT_EQ(a.last, 8 * 152 + 176U);
  EXPECT_EQ(a.end, 9 * 152 + 176U);
  EXPECT_EQ(a.first_entry, 6U);
  EXPECT_EQ(a.entries, 4U);
  EXPECT_EQ(image.chains()[1].name, "BB");
  EXPECT_EQ(image.final(), 10 * 152 + 2 * 176U);
  EXPECT_EQ(image.entries(), 13U);
}

TEST_F(XtablesImage, FollowsJumps) {
  const TableImage image = TableImage::Parse(kIpv4, bytes, info).value();
  const auto jump = image.JumpAt(image.chains()[0].rules).value();
  ASSERT_TRUE(jump);
  EXPECT_EQ(jump->chain, 1U);
  EXPECT_EQ(jump->verdict, image.chains()[0].rules + 144);
  EXPECT_FALSE(image.JumpAt(image.chains()[0].last).value());  // RETURN
  const auto next = image.JumpAt(image.built_in()[3].begin).value();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->chain, kNone);  // a rule without a target
}

TEST_F(XtablesImage, RefusesJumpsToNoChain) {
  const TableImage image = TableImage::Parse(kIpv4, bytes, info).value();
  Store(bytes.data() + 144, int32_t{8});
  EXPECT_EQ(image.JumpAt(0).error().text, "a jump to no chain at byte 0");
}

TEST_F(XtablesImage, RefusesInvalidTables) {
  constexpr size_t kTargetOffset = kIpv4.target_offset;
  constexpr size_t kNextOffset = kIpv4.target_offset + 2;
  const struct {
    const char* problem;
    size_t at;
    uint16_t value;
  } cases[] = {
      {"no entry at byte 0", kNextOffset, 0},
      {"no entry at byte 0", kNextOffset, 150},
      {"no entry at byte 0", kNextOffset, 0xfff8},
      {"no entry at byte 0", kTargetOffset, 0xfff8},
      {"no entry at byte 0", kTargetOffset, 0},
      {"no entry at byte 0", kTargetOffset, 128},  // no room for the target
      {"no entry at byte 0", 112, 31},             // target smaller than its header
      {"no entry at byte 0", 112, 48},             // larger than the entry
  };
  const Bytes good = bytes;
  for (const auto& bad : cases) {
    bytes = good;
    Store(bytes.data() + bad.at, bad.value);
    EXPECT_EQ(Problem(), bad.problem) << bad.at << " = " << bad.value;
  }
}

TEST_F(XtablesImage, RefusesEveryTruncatedTable) {
  for (size_t size = 0; size < bytes.size(); size += 8)
    EXPECT_FALSE(TableImage::Parse(kIpv4, std::span(bytes).first(size), info).ok()) << size;
}

TEST_F(XtablesImage, RefusesHooksThatDoNotFit) {
  const TableInfo good = info;
  info.hook_entry[NF_INET_LOCAL_IN] = 8;
  EXPECT_EQ(Problem(), "an entry outside every chain at byte 304");
  info = good;
  info.underflow[NF_INET_PRE_ROUTING] = 8;
  EXPECT_EQ(Problem(), "a hook enters another chain at byte 304");
  info = good;
  info.underflow[NF_INET_POST_ROUTING] = 8;
  EXPECT_EQ(Problem(), "a chain of the kernel does not end at byte 912");
  info = good;
  info.valid_hooks |= 1U << 7;
  EXPECT_EQ(Problem(), "a hook without a chain at byte 2048");
  info = good;
  ++info.entries;
  EXPECT_EQ(Problem(), "another number of entries than announced at byte 2048");
}

TEST_F(XtablesImage, RefusesAPolicyThatIsNoVerdict) {
  const TableImage image = TableImage::Parse(kIpv4, bytes, info).value();
  const ImageChain& input = image.built_in()[1];
  const auto verdict = input.last + *image.At(input.last).VerdictOffset();
  for (const int32_t bad : {int32_t{0}, static_cast<int32_t>(image.chains()[0].rules), kReturnVerdict}) {
    Store(bytes.data() + verdict, bad);
    EXPECT_EQ(Problem(), "a chain of the kernel without a policy at byte 304") << bad;
  }
  Store(bytes.data() + verdict, kDropVerdict);
  EXPECT_EQ(Problem(), "");
}

TEST_F(XtablesImage, RefusesAChainWithoutAnEnd) {
  bytes.clear();
  info = {0, {}, {}, 2, 0};
  AddHead(kIpv4, "A", bytes);
  AddHead(kIpv4, "ERROR", bytes);
  EXPECT_EQ(Problem(), "an empty chain ends at byte 176");
  bytes.clear();
  AddHead(kIpv4, "A", bytes);
  AddReturn(kIpv4, bytes);
  EXPECT_EQ(Problem(), "no end at byte 328");
}

}  // namespace
}  // namespace viaduct::xtables
