// Expressions that nft 1.0.6 and iptables-nft 1.8.9 send, with attributes in ascending order (captured with
// `strace -e write`). Each is read and written unchanged.
#include <gtest/gtest.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <algorithm>
#include <set>
#include <string>

#include "core/message_builder.h"
#include "hex.h"
#include "nftables/object_codec.h"
#include "nftables/policy.h"
#include "scripted_kernel.h"

namespace viaduct::nftables {
namespace {

struct Example {
  const char* rule;
  const char* name;
  const char* data;  ///< NFTA_EXPR_DATA
};

constexpr Example kExamples[] = {
    {"f ip daddr 10.0.0.1 counter accept", "payload", R"(
     08 00 01 00  00 00 00 01  # DREG
     08 00 02 00  00 00 00 01  # BASE
     08 00 03 00  00 00 00 10  # OFFSET
     08 00 04 00  00 00 00 04  # LEN
     )"},
    {"f ip daddr 10.0.0.1 counter accept", "cmp", R"(
     08 00 01 00  00 00 00 01  # SREG
     08 00 02 00  00 00 00 00  # OP
     0c 00 03 80  # DATA
       08 00 01 00  0a 00 00 01  # VALUE
     )"},
    {"f ip daddr 10.0.0.1 counter accept", "immediate", R"(
     08 00 01 00  00 00 00 00  # DREG
     10 00 02 80  # DATA
       0c 00 02 80  # VERDICT
         08 00 01 00  00 00 00 01  # CODE
     )"},
    {"f meta mark set 0x00004000", "meta", R"(
     08 00 02 00  00 00 00 03  # KEY
     08 00 03 00  00 00 00 01  # SREG
     )"},
    {"f ct state new drop", "ct", R"(
     08 00 01 00  00 00 00 01  # DREG
     08 00 02 00  00 00 00 00  # KEY
     )"},
    {"f ct state new drop", "bitwise", R"(
     08 00 01 00  00 00 00 01  # SREG
     08 00 02 00  00 00 00 01  # DREG
     08 00 03 00  00 00 00 04  # LEN
     0c 00 04 80  # MASK
       08 00 01 00  08 00 00 00  # VALUE
     0c 00 05 80  # XOR
       08 00 01 00  00 00 00 00  # VALUE
     )"},
    {"f ct original ip daddr 10.0.0.1", "ct", R"(
     08 00 01 00  00 00 00 01  # DREG
     08 00 02 00  00 00 00 14  # KEY
     05 00 03 00  00 00 00 00  # DIRECTION
     )"},
    {"f fib daddr type local", "fib", R"(
     08 00 01 00  00 00 00 01  # DREG
     08 00 02 00  00 00 00 03  # RESULT
     08 00 03 00  00 00 00 02  # FLAGS
     )"},
    {"f ip daddr . meta l4proto . th dport @s goto c2", "meta", R"(
     08 00 01 00  00 00 00 09  # DREG
     08 00 02 00  00 00 00 10  # KEY
     )"},
    {"f ip daddr . meta l4proto . th dport @s goto c2", "lookup", R"(
     06 00 01 00  73 00 00 00  # SET "s"
     08 00 02 00  00 00 00 01  # SREG
     )"},
    {"f ip daddr . meta l4proto . th dport @s goto c2", "immediate", R"(
     08 00 01 00  00 00 00 00  # DREG
     18 00 02 80  # DATA
       14 00 02 80  # VERDICT
         08 00 01 00  ff ff ff fc  # CODE
         07 00 02 00  63 32 00 00  # CHAIN "c2"
     )"},
    {"f ip daddr vmap @v", "lookup", R"(
     06 00 01 00  76 00 00 00  # SET "v"
     08 00 02 00  00 00 00 01  # SREG
     08 00 03 00  00 00 00 00  # DREG
     )"},
    {"f numgen random mod 7 offset 3 vmap { 3 : drop }", "numgen", R"(
     08 00 01 00  00 00 00 01  # DREG
     08 00 02 00  00 00 00 07  # MODULUS
     08 00 03 00  00 00 00 01  # TYPE
     08 00 04 00  00 00 00 03  # OFFSET
     )"},
    {"f jhash ip saddr mod 5 seed 0xdeadbeef 1", "hash", R"(
     08 00 01 00  00 00 00 02  # SREG
     08 00 02 00  00 00 00 01  # DREG
     08 00 03 00  00 00 00 04  # LEN
     08 00 04 00  00 00 00 05  # MODULUS
     08 00 05 00  de ad be ef  # SEED
     08 00 06 00  00 00 00 00  # OFFSET
     08 00 07 00  00 00 00 00  # TYPE
     )"},
    {"n dnat ip to ip daddr . meta l4proto . th dport map @m", "nat", R"(
     08 00 01 00  00 00 00 01  # TYPE
     08 00 02 00  00 00 00 02  # FAMILY
     08 00 03 00  00 00 00 01  # REG_ADDR_MIN
     08 00 05 00  00 00 00 09  # REG_PROTO_MIN
     )"},
    {"p masquerade fully-random", "masq", R"(
     08 00 01 00  00 00 00 10  # FLAGS
     )"},
    {"f reject with icmp type port-unreachable", "reject", R"(
     08 00 01 00  00 00 00 00  # TYPE
     05 00 02 00  03 00 00 00  # ICMP_CODE
     )"},
    {"f tcp dport != 1000-2000", "range", R"(
     08 00 01 00  00 00 00 01  # SREG
     08 00 02 00  00 00 00 01  # OP
     0c 00 03 80  # FROM_DATA
       06 00 01 00  03 e8 00 00  # VALUE
     0c 00 04 80  # TO_DATA
       06 00 01 00  07 d0 00 00  # VALUE
     )"},
    {"f update @s { ip saddr . meta l4proto . th dport timeout 3h }", "dynset", R"(
     06 00 01 00  73 00 00 00  # SET_NAME "s"
     08 00 03 00  00 00 00 01  # OP
     08 00 04 00  00 00 00 01  # SREG_KEY
     0c 00 06 00  00 00 00 00 00 a4 cb 80  # TIMEOUT
     )"},
    {"f counter name \"cn\"", "objref", R"(
     08 00 01 00  00 00 00 01  # IMM_TYPE
     07 00 02 00  63 6e 00 00  # IMM_NAME
     )"},
    {"f limit rate 5/minute burst 7 packets", "limit", R"(
     0c 00 01 00  00 00 00 00 00 00 00 05  # RATE
     0c 00 02 00  00 00 00 00 00 00 00 3c  # UNIT
     08 00 03 00  00 00 00 07  # BURST
     08 00 04 00  00 00 00 00  # TYPE
     08 00 05 00  00 00 00 00  # FLAGS
     )"},
    {"f ip length > 100 meta mark & 0xff == 0x1 comment \"a comment\"", "bitwise", R"(
     08 00 01 00  00 00 00 01  # SREG
     08 00 02 00  00 00 00 01  # DREG
     08 00 03 00  00 00 00 04  # LEN
     0c 00 04 80  # MASK
       08 00 01 00  ff 00 00 00  # VALUE
     0c 00 05 80  # XOR
       08 00 01 00  00 00 00 00  # VALUE
     08 00 06 00  00 00 00 00  # OP
     )"},
    {"f meta mark set meta mark << 4", "bitwise", R"(
     08 00 01 00  00 00 00 01  # SREG
     08 00 02 00  00 00 00 01  # DREG
     08 00 03 00  00 00 00 04  # LEN
     08 00 06 00  00 00 00 01  # OP
     0c 00 07 80  # DATA
       08 00 01 00  04 00 00 00  # VALUE
     )"},
    {"iptables-nft -A INPUT -p udp -m udp --dport 53 -j REJECT", "counter", R"(
     0c 00 01 00  00 00 00 00 00 00 00 00  # BYTES
     0c 00 02 00  00 00 00 00 00 00 00 00  # PACKETS
     )"},
    {"iptables-nft -A INPUT -p udp -m udp --dport 53 -j REJECT", "target", R"(
     0b 00 01 00  52 45 4a 45 43 54 00 00  # NAME "REJECT"
     08 00 02 00  00 00 00 00  # REV
     0c 00 03 00  03 00 00 00 00 00 00 00  # INFO
     )"},
    {"nft_byteorder.c", "byteorder", R"(
     08 00 01 00  00 00 00 01  # SREG
     08 00 02 00  00 00 00 01  # DREG
     08 00 03 00  00 00 00 01  # OP
     08 00 04 00  00 00 00 04  # LEN
     08 00 05 00  00 00 00 04  # SIZE
     )"},
    {"iptables-nft -m tcp --dport 80", "match", R"(
     08 00 01 00  74 63 70 00  # NAME "tcp"
     08 00 02 00  00 00 00 00  # REV
     14 00 03 00  00 00 ff ff 50 00 50 00 00 00 00 00 00 00 00 00  # INFO
     )"},
};

/// NFTA_RULE attributes with one expression.
Bytes MakeRule(std::string_view name, const Bytes& data) {
  RequestBuffer<4096> buffer;
  MessageBuilder builder(buffer);
  builder.BeginMessage<nfgenmsg>(0, 0, 0);
  builder.Nest(NFTA_RULE_EXPRESSIONS | NLA_F_NESTED, [&] {
    builder.Nest(NFTA_LIST_ELEM | NLA_F_NESTED, [&] {
      builder.String(NFTA_EXPR_NAME, name);
      builder.Bytes(NFTA_EXPR_DATA | NLA_F_NESTED, data);
    });
  });
  EXPECT_TRUE(builder.FinishMessage());
  const auto sealed = builder.sealed().subspan(NLMSG_HDRLEN + sizeof(nfgenmsg));
  return {sealed.begin(), sealed.end()};
}

/// The stream of a rule's attributes; empty if they are refused.
Bytes ReadRule(const Bytes& attributes) {
  StreamWriter stream;
  return ReadObject(attributes, kRulePolicy, stream) ? stream.Finish() : Bytes{};
}

Bytes WriteRule(const Bytes& rule) {
  RequestBuffer<4096> buffer;
  MessageBuilder builder(buffer);
  builder.BeginMessage<nfgenmsg>(0, 0, 0);
  StreamReader stream(rule);
  PutObject(builder, kRulePolicy, stream);
  EXPECT_TRUE(stream.ok() && stream.empty());
  EXPECT_TRUE(builder.FinishMessage());
  const auto sealed = builder.sealed().subspan(NLMSG_HDRLEN + sizeof(nfgenmsg));
  return {sealed.begin(), sealed.end()};
}

/// The stream of a rule with one expression, which has these words.
std::string Words(const std::vector<uint32_t>& words) {
  std::vector<uint32_t> all{1U << 3, 1};
  all.insert(all.end(), words.begin(), words.end());
  const auto* bytes = reinterpret_cast<const char*>(all.data());
  return {bytes, all.size() * sizeof(uint32_t)};
}

std::string Text(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

TEST(NftExpression, ReadsAndWritesTheExpressionsOfOtherToolsUnchanged) {
  for (const Example& example : kExamples) {
    SCOPED_TRACE(std::string(example.name) + " of " + example.rule);
    const Bytes rule = ReadRule(MakeRule(example.name, FromHex(example.data)));
    ASSERT_GT(rule.size(), 12U);
    StreamReader stream{std::span(rule).subspan(8)};
    const uint32_t kind = stream.U32();
    ASSERT_GT(kind, 0U) << "kept as raw bytes";
    EXPECT_EQ(KnownExpressions()[kind - 1].name, example.name);
    EXPECT_EQ(Text(WriteRule(rule)), Text(MakeRule(example.name, FromHex(example.data))));
  }
}

TEST(NftExpression, HasAnExampleOfEach) {
  std::set<std::string_view> names;
  for (const Example& example : kExamples) names.insert(example.name);
  for (const ExpressionPolicy& expression : KnownExpressions())
    EXPECT_TRUE(names.contains(expression.name)) << expression.name;
}

TEST(NftExpression, ARegisterIsTheIndexOfItsFirstWord) {
  struct Case {
    const char* number;
    uint32_t word;
  };
  for (const Case& given : {Case{"01", 0}, Case{"02", 4}, Case{"04", 12}, Case{"08", 0}, Case{"09", 1},
                            Case{"17", 15}, Case{"00", kVerdictRegister}}) {
    SCOPED_TRACE(given.number);
    const auto data =
        FromHex("08 00 01 00 00 00 00 " + std::string(given.number) + " 08 00 02 00 00 00 00 03");
    EXPECT_EQ(Text(ReadRule(MakeRule("meta", data))), Words({2, 3, given.word, 3}));
  }
}

TEST(NftExpression, KeepsUnknownExpressionsAsBytes) {
  const char* log = "0b 00 02 00 68 65 6c 6c 6f 20 00 00";
  struct Case {
    const char* what;
    const char* name;
    const char* data;
  };
  for (const Case& given : {Case{"an expression without rows", "log", log},
                            Case{"an attribute without a row", "payload", "08 00 05 00 00 00 00 01"},
                            Case{"a size that does not fit", "meta", "05 00 02 00 03 00 00 00"},
                            Case{"a register that is none", "meta", "08 00 01 00 00 00 00 18"},
                            Case{"an attribute cut short", "meta", "08 00 02 00 00 00"}}) {
    SCOPED_TRACE(given.what);
    const Bytes attributes = MakeRule(given.name, FromHex(given.data));
    const Bytes rule = ReadRule(attributes);
    ASSERT_GT(rule.size(), 12U);
    EXPECT_EQ(rule[8], 0);
    EXPECT_EQ(Text(WriteRule(rule)), Text(attributes));
  }
}

TEST(NftExpression, RefusesMalformedRules) {
  const Bytes nameless = FromHex("0c 00 04 80  08 00 01 80  04 00 02 80");
  EXPECT_TRUE(ReadRule(nameless).empty()) << "an expression without a name";
  EXPECT_TRUE(ReadRule(FromHex("0c 00 04 80  08 00 01 80  04 00")).empty()) << "cut short";
  EXPECT_TRUE(ReadRule(FromHex("06 00 03 00 00 00 00 00")).empty()) << "a handle of two bytes";
}

}  // namespace
}  // namespace viaduct::nftables
