// Golden bytes of rules. "zero N" stands for N bytes of 00: names and unions are mostly padding.
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cerrno>
#include <sstream>

#include "hex.h"
#include "xtables/entry.h"
#include "xtables/rule_encoder.h"
#include "xtables_batch.h"

namespace viaduct::xtables {
namespace {

/// A kernel that has some revisions, and one set.
class Revisions : public SocketCalls {
 public:
  std::map<std::string, uint8_t> newest;  ///< absent: every revision
  int questions = 0;
  int set_questions = 0;
  int error = 0;
  uint32_t set_family = AF_INET;

  int GetOption(int, int level, int name, void* value, socklen_t* length) override {
    if (error != 0) return Fail(error);
    if (level == SOL_IP && name == 83) {
      ++set_questions;
      return AnswerSet(static_cast<uint8_t*>(value), *length);
    }
    ++questions;
    asked.emplace_back(level, name);
    xt_get_revision query{};
    memcpy(&query, value, sizeof query);
    names.emplace_back(query.name);
    const auto known = newest.find(query.name);
    return known == newest.end() || query.revision <= known->second ? 0 : Fail(EPROTONOSUPPORT);
  }
  int Socket(int, int, int) override { return Fail(ENOSYS); }
  int Bind(int, const sockaddr*, socklen_t) override { return Fail(ENOSYS); }
  int SetOption(int, int, int, std::span<const uint8_t>) override { return Fail(ENOSYS); }
  ssize_t Send(int, const msghdr*, int) override { return Fail(ENOSYS); }
  ssize_t Receive(int, msghdr*, int) override { return Fail(ENOSYS); }
  int Poll(pollfd*, nfds_t, int) override { return Fail(ENOSYS); }
  unsigned InterfaceIndex(const char*) override { return 0; }
  std::chrono::nanoseconds Now() override { return {}; }
  void Sleep(std::chrono::nanoseconds) override {}

  std::vector<std::pair<int, int>> asked;  ///< level, option
  std::vector<std::string> names;          ///< of the requested extensions

 private:
  static int Fail(int code) {
    errno = code;
    return -1;
  }
  int AnswerSet(uint8_t* value, socklen_t length) const {
    if (length == 8) {
      Store(value + 4, uint32_t{7});
      return 0;
    }
    EXPECT_EQ(length, 44U);
    EXPECT_EQ(Load<uint32_t>(value), 8U);  // IP_SET_OP_GET_FNAME
    EXPECT_EQ(Load<uint32_t>(value + 4), 7U);
    const bool is_known = strcmp(reinterpret_cast<const char*>(value + 12), "KUBE-CLUSTER-IP") == 0;
    Store(value + 8, set_family);
    Store(value + 12, static_cast<uint16_t>(is_known ? 0x1234 : 0xffff));
    return 0;
  }
};

std::string Expand(const std::string& golden) {
  std::string expanded;
  std::istringstream lines(golden);
  for (std::string line; std::getline(lines, line);) {
    const size_t comment = line.find('#');
    std::istringstream words(line.substr(0, comment));
    for (std::string word; words >> word;) {
      size_t count = 1;
      if (word == "zero") {
        words >> count;
        word = "00";
      }
      for (size_t i = 0; i < count; ++i) expanded += word + " ";
    }
    if (comment != std::string::npos) expanded += line.substr(comment);
    expanded += '\n';
  }
  return expanded;
}

class XtablesEncode : public testing::Test {
 protected:
  XtablesEncode() { batch.SetChain("KUBE-X"); }

  const EncodedRules& Encode(const Shape& shape = kIpv4) {
    RuleEncoder encoder(shape, kernel, -1);
    rules.Clear();
    const Texts texts = batch.texts();
    for (const RuleRecord& rule : batch.rules()) {
      const Status status = encoder.Encode(rule, texts, rules);
      EXPECT_TRUE(status.ok()) << status.error().text;
    }
    return rules;
  }
  Error Refused(const Shape& shape = kIpv4) {
    RuleEncoder encoder(shape, kernel, -1);
    rules.Clear();
    const Texts texts = batch.texts();
    Status status = encoder.Encode(batch.rules().at(0), texts, rules);
    EXPECT_FALSE(status.ok());
    return status.ok() ? Error() : status.error();
  }
  /// The bytes between header and target of the first rule.
  std::span<const uint8_t> Matches(const Shape& shape = kIpv4) {
    const auto& bytes = Encode(shape).bytes;
    const EntryView entry(shape, bytes.data());
    return std::span(bytes).subspan(shape.header, entry.target_offset() - shape.header);
  }
  std::span<const uint8_t> TargetBytes(const Shape& shape = kIpv4) {
    const auto& bytes = Encode(shape).bytes;
    const EntryView entry(shape, bytes.data());
    return std::span(bytes).subspan(entry.target_offset(), entry.size() - entry.target_offset());
  }

  Revisions kernel;
  BatchBuilder batch;
  EncodedRules rules;
};

TEST_F(XtablesEncode, WholeIpv4Rule) {
  const uint32_t in = batch.Text("eth+");
  const uint32_t out = batch.Text("lo");
  RuleRecord& rule = batch.JumpTo("KUBE-SVC-A");
  BatchBuilder::Destination(rule, {10, 96, 1, 255}, 20);  // more bits than the prefix
  rule.source[0] = 172;
  rule.source[1] = 16;
  rule.source_prefix = 12;
  rule.in_interface = in;
  rule.out_interface = out;
  rule.protocol = IPPROTO_UDP;
  rule.matches = kDestinationPorts;
  rule.destination_port_from = 53;
  rule.destination_port_to = 0x1234;
  rule.inverts = kInvertSource | kInvertOutInterface;
  EXPECT_TRUE(HasBytes(Encode().bytes, Expand(R"(
    ac 10 00 00              # source
    0a 60 00 00              # destination, cut to the prefix
    ff f0 00 00              # source mask
    ff ff f0 00              # destination mask
    65 74 68 2b zero 12      # in: "eth+"
    6c 6f zero 14            # out: "lo"
    ff ff ff zero 13         # in mask: without the +
    ff ff ff zero 13         # out mask: with the NUL
    11 00                    # protocol: udp
    00                       # flags
    0a                       # inverted: source, out interface
    00 00 00 00              # nfcache
    a0 00                    # target offset: 160
    c8 00                    # next offset: 200
    zero 4                   # comefrom
    zero 16                  # counters
    30 00                    # match size
    75 64 70 zero 26         # "udp"
    00                       # revision
    00 00 ff ff              # source ports: any
    35 00 34 12              # destination ports, host order
    zero 8                   # not inverted, padding
    28 00                    # target size
    zero 29                  # standard target
    00                       # revision
    zero 4                   # verdict: to be relocated
    zero 4                   # padding
  )")));
  ASSERT_EQ(rules.jumps.size(), 1U);
  EXPECT_EQ(rules.jumps[0].verdict, 192U);
  EXPECT_EQ(rules.jumps[0].chain, "KUBE-SVC-A");
  EXPECT_EQ(rules.count, 1U);
}

TEST_F(XtablesEncode, WholeIpv6Rule) {
  RuleRecord& rule = batch.JumpTo("KUBE-SVC-A", Target::kGoto);
  BatchBuilder::Destination(rule, {0xfd, 0, 0, 0, 0, 0, 0xff, 0xff}, 50);
  rule.protocol = IPPROTO_TCP;
  rule.inverts = kInvertDestination;
  EXPECT_TRUE(HasBytes(Encode(kIpv6).bytes, Expand(R"(
    zero 16                           # source
    fd 00 00 00 00 00 c0 00 zero 8    # destination, cut to the prefix
    zero 16                           # source mask
    ff ff ff ff ff ff c0 00 zero 8    # destination mask
    zero 64                           # interfaces and their masks
    06 00                             # protocol: tcp
    00                                # traffic class
    05                                # flags: protocol 1, goto 4
    10                                # inverted: destination
    zero 3
    00 00 00 00                       # nfcache
    a8 00                             # target offset: 168
    d0 00                             # next offset: 208
    zero 4 zero 4                     # comefrom, padding
    zero 16                           # counters
    28 00 zero 29 00 zero 8           # standard target
  )")));
}

TEST_F(XtablesEncode, GotoHasAFlagOfItsOwnPerFamily) {
  batch.JumpTo("KUBE-A", Target::kGoto);
  EXPECT_EQ(Encode(kIpv4).bytes.at(offsetof(ipt_ip, flags)), IPT_F_GOTO);
  EXPECT_EQ(Encode(kIpv6).bytes.at(offsetof(ip6t_ip6, flags)), IP6T_F_GOTO);
}

struct MatchCase {
  const char* name;
  void (*set)(RuleRecord& rule, BatchBuilder& batch);
  const char* golden;
};

class MatchTest : public XtablesEncode, public testing::WithParamInterface<MatchCase> {};

TEST_P(MatchTest, Bytes) {
  RuleRecord rule = batch.Rule(Target::kAccept);
  GetParam().set(rule, batch);
  batch.rules().back() = rule;
  EXPECT_TRUE(HasBytes(Matches(), Expand(GetParam().golden)));
}

void SetPorts(RuleRecord& rule, uint8_t protocol, uint16_t matches) {
  rule.protocol = protocol;
  rule.matches = matches;
  rule.source_port_from = 1;
  rule.source_port_to = 2;
  rule.destination_port_from = rule.destination_port_to = 80;
}

const MatchCase kMatchCases[] = {
    {"tcp",
     [](RuleRecord& rule, BatchBuilder&) { SetPorts(rule, IPPROTO_TCP, kSourcePorts | kDestinationPorts); },
     "30 00 74 63 70 zero 26 00  # tcp\n"
     "01 00 02 00                # source ports\n"
     "50 00 50 00                # destination ports\n"
     "zero 8                     # no option, flags; padding\n"},
    {"sctp", [](RuleRecord& rule, BatchBuilder&) { SetPorts(rule, IPPROTO_SCTP, kDestinationPorts); },
     "48 01 73 63 74 70 zero 25 00  # sctp, 328 bytes\n"
     "50 00 50 00                   # destination ports come first\n"
     "00 00 ff ff                   # source ports\n"
     "zero 256 zero 4 zero 12 zero 4  # chunks\n"
     "02 00 00 00                   # looks at destination ports\n"
     "zero 4 zero 4                 # not inverted; padding\n"},
    {"mark",
     [](RuleRecord& rule, BatchBuilder&) {
       rule.matches = kMark;
       rule.mark_value = 0x4000;
       rule.mark_mask = 0xff00;
       rule.inverts = kInvertMark;
     },
     "30 00 6d 61 72 6b zero 25 01  # mark, revision 1\n"
     "00 40 00 00 00 ff 00 00       # value, mask\n"
     "01 zero 7                     # inverted\n"},
    {"state",
     [](RuleRecord& rule, BatchBuilder&) {
       rule.matches = kState;
       rule.state = 0x86;
       rule.inverts = kInvertState;
     },
     "c8 00 63 6f 6e 6e 74 72 61 63 6b zero 20 03  # conntrack, revision 3\n"
     "zero 128          # addresses\n"
     "zero 8            # expiry\n"
     "zero 2 zero 8     # protocol, ports\n"
     "01 00             # looks at the state\n"
     "01 00             # inverted\n"
     "86 00             # established, related, dnat\n"
     "00 00             # status\n"
     "zero 8            # upper ports\n"
     "zero 6            # padding\n"},
    {"unconfirmed", [](RuleRecord& rule, BatchBuilder&) { rule.matches = kUnconfirmed; },
     "c8 00 63 6f 6e 6e 74 72 61 63 6b zero 20 03  # conntrack, revision 3\n"
     "zero 128          # addresses\n"
     "zero 8            # expiry\n"
     "zero 2 zero 8     # protocol, ports\n"
     "40 00             # looks at the status\n"
     "40 00             # inverted\n"
     "00 00             # states\n"
     "08 00             # confirmed\n"
     "zero 8            # upper ports\n"
     "zero 6            # padding\n"},
    {"address_type_of_destination",
     [](RuleRecord& rule, BatchBuilder&) {
       rule.matches = kAddressType;
       rule.address_type = 2;
     },
     "28 00 61 64 64 72 74 79 70 65 zero 21 01  # addrtype, revision 1\n"
     "00 00 04 00                               # source, destination: LOCAL\n"
     "00 00 00 00                               # flags\n"},
    {"address_type_of_source",
     [](RuleRecord& rule, BatchBuilder&) {
       rule.matches = kAddressType;
       rule.address_type = 1;
       rule.inverts = kInvertAddressType;
     },
     "28 00 61 64 64 72 74 79 70 65 zero 21 01\n"
     "04 00 00 00  # source: LOCAL\n"
     "01 00 00 00  # flags: inverted\n"},
    {"set",
     [](RuleRecord& rule, BatchBuilder& batch) {
       rule.matches = kSet;
       rule.set_name = batch.Text("KUBE-CLUSTER-IP");
       rule.set_dimensions = 3;
       rule.set_sources = 0b100;
       rule.inverts = kInvertSet;
     },
     "50 00 73 65 74 zero 26 04  # set, revision 4\n"
     "34 12                      # index\n"
     "03                         # dimensions\n"
     "09                         # the third is of the source; inverted\n"
     "zero 4 zero 32 zero 8      # counters are not looked at\n"},
    {"source_is_destination", [](RuleRecord& rule, BatchBuilder&) { rule.matches = kSourceDestination; },
     "30 02 62 70 66 zero 26 01  # bpf, revision 1\n"
     "00 00 06 00 zero 4         # byte code, 6 statements\n"
     "20 00 00 00 0c 00 00 00    # ld [12]: source\n"
     "07 00 00 00 00 00 00 00    # tax\n"
     "20 00 00 00 10 00 00 00    # ld [16]: destination\n"
     "1d 00 00 01 00 00 00 00    # jeq x, else skip one\n"
     "06 00 00 00 ff ff ff ff    # ret -1\n"
     "06 00 00 00 00 00 00 00    # ret 0\n"
     "zero 464 zero 8            # no more statements; the kernel's pointer\n"},
    {"statistic",
     [](RuleRecord& rule, BatchBuilder&) {
       rule.matches = kStatistic;
       rule.probability = 0x2aaaaaab;
     },
     "38 00 73 74 61 74 69 73 74 69 63 zero 20 00  # statistic\n"
     "00 00 00 00                                  # random, not inverted\n"
     "ab aa aa 2a                                  # a third of 2^31\n"
     "zero 8 zero 8                                # the kernel's pointer\n"},
    {"recent_check",
     [](RuleRecord& rule, BatchBuilder& batch) {
       rule.matches = kRecent;
       rule.recent_list = batch.Text("AB");
       rule.recent_check = 1;
       rule.recent_seconds = 10800;
     },
     "08 01 72 65 63 65 6e 74 zero 23 01  # recent, revision 1\n"
     "30 2a 00 00 00 00 00 00             # seconds, hits\n"
     "21 00                               # check and reap; not inverted\n"
     "41 42 zero 198                      # list\n"
     "00                                  # of the source\n"
     "00 ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff  # mask\n"
     "zero 4                              # padding\n"},
    {"recent_set",
     [](RuleRecord& rule, BatchBuilder& batch) {
       rule.matches = kRecent;
       rule.recent_list = batch.Text("AB");
     },
     "08 01 72 65 63 65 6e 74 zero 23 01\n"
     "zero 8\n"
     "02 00  # set\n"
     "41 42 zero 198\n"
     "00\n"
     "00 ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff\n"
     "zero 4\n"},
    {"comment", [](RuleRecord& rule, BatchBuilder& batch) { rule.comment = batch.Text("a b"); },
     "20 01 63 6f 6d 6d 65 6e 74 zero 22 00  # comment\n"
     "61 20 62 zero 253\n"},
};

INSTANTIATE_TEST_SUITE_P(Cases, MatchTest, testing::ValuesIn(kMatchCases),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST_F(XtablesEncode, Ipv6AddressesAreComparedWordByWord) {
  batch.Rule(Target::kAccept).matches = kSourceDestination;
  const auto program = Matches(kIpv6).subspan(32);
  EXPECT_EQ(Load<uint16_t>(program.data() + 2), 18U);
  const auto jump = [&](size_t word) { return Load<uint8_t>(program.data() + 8 + (word * 4 + 3) * 8 + 3); };
  for (size_t word = 0; word < 4; ++word) {
    EXPECT_EQ(Load<uint32_t>(program.data() + 8 + word * 32 + 4), 8 + 4 * word);    // source
    EXPECT_EQ(Load<uint32_t>(program.data() + 8 + word * 32 + 20), 24 + 4 * word);  // destination
    EXPECT_EQ(word * 4 + 4 + jump(word), 17U);  // an unequal word leads to the last return
  }
}

struct TargetCase {
  const char* name;
  Target target;
  uint32_t value;
  uint32_t mask;
  const char* ipv4;
  const char* ipv6;
};

class TargetTest : public XtablesEncode, public testing::WithParamInterface<TargetCase> {};

TEST_P(TargetTest, Bytes) {
  RuleRecord& rule = batch.Rule(GetParam().target);
  rule.target_value = GetParam().value;
  rule.target_mask = GetParam().mask;
  EXPECT_TRUE(HasBytes(TargetBytes(kIpv4), Expand(GetParam().ipv4)));
  EXPECT_TRUE(HasBytes(TargetBytes(kIpv6), Expand(GetParam().ipv6)));
}

constexpr const char* kMarkBytes =
    "28 00 4d 41 52 4b zero 25 02  # MARK, revision 2\n"
    "00 40 00 00 00 c0 00 00       # value, mask\n";

const TargetCase kTargetCases[] = {
    {"accept", Target::kAccept, 0, 0, "28 00 zero 29 00 fe ff ff ff zero 4",
     "28 00 zero 29 00 fe ff ff ff zero 4"},
    {"drop", Target::kDrop, 0, 0, "28 00 zero 29 00 ff ff ff ff zero 4",
     "28 00 zero 29 00 ff ff ff ff zero 4"},
    {"return_", Target::kReturn, 0, 0, "28 00 zero 29 00 fb ff ff ff zero 4",
     "28 00 zero 29 00 fb ff ff ff zero 4"},
    {"mark", Target::kMark, 0x4000, 0xc000, kMarkBytes, kMarkBytes},
    {"masquerade", Target::kMasquerade, 0, 0,
     "38 00 4d 41 53 51 55 45 52 41 44 45 zero 19 00  # MASQUERADE\n"
     "01 00 00 00                                     # one range\n"
     "00 00 00 00 zero 12 zero 4                      # flags; nothing else; padding\n",
     "48 00 4d 41 53 51 55 45 52 41 44 45 zero 19 00\n"
     "00 00 00 00 zero 36\n"},
    {"masquerade_fully_random", Target::kMasquerade, 1, 0,
     "38 00 4d 41 53 51 55 45 52 41 44 45 zero 19 00 01 00 00 00 10 00 00 00 zero 16",
     "48 00 4d 41 53 51 55 45 52 41 44 45 zero 19 00 10 00 00 00 zero 36"},
    {"reject", Target::kReject, 0, 0,
     "28 00 52 45 4a 45 43 54 zero 23 00 03 00 00 00 zero 4  # port unreachable\n",
     "28 00 52 45 4a 45 43 54 zero 23 00 04 00 00 00 zero 4  # port unreachable\n"},
};

INSTANTIATE_TEST_SUITE_P(Cases, TargetTest, testing::ValuesIn(kTargetCases),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST_F(XtablesEncode, MarkOfASet) {
  const uint32_t name = batch.Text("KUBE-CLUSTER-IP");
  RuleRecord& rule = batch.Rule(Target::kMapMark);
  rule.set_name = name;
  rule.set_dimensions = 2;
  rule.set_sources = 0b10;
  EXPECT_TRUE(HasBytes(TargetBytes(kIpv4),
                       Expand("38 00 53 45 54 zero 26 03  # SET, revision 3\n"
                              "ff ff 00 00                # nothing to add to\n"
                              "ff ff 00 00                # nothing to delete from\n"
                              "34 12 02 04                # index, dimensions; the second is of the source\n"
                              "00 01 00 00                # maps the mark\n"
                              "ff ff ff ff                # no time-out\n"
                              "zero 4\n")));
  batch.rules().back().matches = kSet;
  EXPECT_EQ(Refused().text, "a rule can use a set to match or to map, not both");
}

TEST_F(XtablesEncode, DnatOfTheNewestRevision) {
  RuleRecord& rule = batch.Rule(Target::kDnat);
  const uint8_t address[] = {10, 244, 1, 5};
  memcpy(rule.nat_address, address, sizeof address);
  rule.nat_port = 8080;
  EXPECT_TRUE(HasBytes(TargetBytes(), Expand(R"(
    50 00 44 4e 41 54 zero 25 02  # DNAT, revision 2
    03 00 00 00                   # addresses and ports are given
    0a f4 01 05 zero 12           # lowest address
    0a f4 01 05 zero 12           # highest
    1f 90 1f 90                   # ports, network order
    00 00                         # base port
    zero 6                        # padding
  )")));
  rule.nat_port = 0;
  EXPECT_EQ(TargetBytes()[32], 1);  // addresses alone
}

TEST_F(XtablesEncode, DnatOfAnOldKernel) {
  kernel.newest["DNAT"] = 1;
  batch.Rule(Target::kDnat).nat_port = 80;
  EXPECT_TRUE(HasBytes(TargetBytes(kIpv6), Expand(R"(
    48 00 44 4e 41 54 zero 25 01  # DNAT, revision 1
    03 00 00 00 zero 32
    00 50 00 50                   # ports
  )")));
}

TEST_F(XtablesEncode, OldRevisionsOfMatches) {
  kernel.newest = {{"recent", 0}, {"bpf", 0}};
  const uint32_t list = batch.Text("AB");
  RuleRecord& rule = batch.Rule(Target::kAccept);
  rule.matches = kRecent | kSourceDestination;
  rule.recent_list = list;
  EXPECT_TRUE(HasBytes(Matches(), Expand(R"(
    30 02 62 70 66 zero 26 00               # bpf, revision 0
    06 00                                   # 6 statements
    zero 2 20 00 00 00 0c 00 00 00
    07 00 00 00 00 00 00 00
    20 00 00 00 10 00 00 00
    1d 00 00 01 00 00 00 00
    06 00 00 00 ff ff ff ff
    06 00 00 00 00 00 00 00
    zero 464 zero 4 zero 8
    f8 00 72 65 63 65 6e 74 zero 23 00      # recent, revision 0
    zero 8 02 00 41 42 zero 198 00 zero 5
  )")));
}

TEST_F(XtablesEncode, LoadingRequestsTheExtensionsOfARuleWithAnAbsentSet) {
  const uint32_t text = batch.Text("KUBE-NO-SUCH-SET");
  RuleRecord& rule = batch.Rule(Target::kMark);
  rule.matches = kState | kSet;
  rule.set_name = rule.comment = text;
  rule.set_dimensions = 2;
  RuleEncoder encoder(kIpv4, kernel, -1);
  encoder.Load(batch.rules().at(0), batch.texts());
  EXPECT_EQ(kernel.names, (std::vector<std::string>{"comment", "conntrack", "set", "MARK"}));
  EXPECT_EQ(kernel.set_questions, 0);
}

TEST_F(XtablesEncode, RevisionsAreReadOnceAndForTheRightFamily) {
  for (int i = 0; i < 3; ++i) batch.Rule(Target::kReject).matches = kMark;
  Encode(kIpv4);
  EXPECT_EQ(kernel.asked, (std::vector<std::pair<int, int>>{{IPPROTO_IP, 66}, {IPPROTO_IP, 67}}));
  kernel.asked.clear();
  Encode(kIpv6);
  EXPECT_EQ(kernel.asked, (std::vector<std::pair<int, int>>{{IPPROTO_IPV6, 68}, {IPPROTO_IPV6, 69}}));
}

TEST_F(XtablesEncode, MatchesWithStateComeLateCommentsFirstButLastInJumps) {
  const uint32_t text = batch.Text("AB");
  RuleRecord& rule = batch.Rule(Target::kAccept);
  rule.protocol = IPPROTO_TCP;
  rule.matches = kRecent | kStatistic | kState | kMark | kAddressType | kDestinationPorts;
  rule.recent_list = rule.comment = text;
  const auto names = [&] {
    std::vector<std::string> found;
    const auto matches = Matches();
    for (size_t at = 0; at < matches.size(); at += Load<uint16_t>(matches.data() + at))
      found.emplace_back(reinterpret_cast<const char*>(matches.data()) + at + 2);
    return found;
  };
  EXPECT_EQ(names(), (std::vector<std::string>{"comment", "tcp", "mark", "addrtype", "conntrack", "statistic",
                                               "recent"}));
  rule.target = static_cast<uint8_t>(Target::kJump);
  rule.target_chain = text;
  EXPECT_EQ(names(), (std::vector<std::string>{"tcp", "mark", "addrtype", "conntrack", "statistic", "recent",
                                               "comment"}));
}

struct RefusedCase {
  const char* what;
  void (*set)(RuleRecord& rule, BatchBuilder& batch);
  const char* text;
};

TEST_F(XtablesEncode, RefusesInvalidRecords) {
  const RefusedCase cases[] = {
      {"prefix", [](RuleRecord& rule, BatchBuilder&) { rule.source_prefix = 33; },
       "a prefix is longer than 32"},
      {"ports", [](RuleRecord& rule, BatchBuilder&) { rule.matches = kSourcePorts; },
       "protocol 0 has no ports"},
      {"interface",
       [](RuleRecord& rule, BatchBuilder& batch) { rule.in_interface = batch.Text("0123456789abcdef"); },
       "interface \"0123456789abcdef\" must have 1 to 15 bytes"},
      {"text", [](RuleRecord& rule, BatchBuilder&) { rule.out_interface = 77; },
       "the text is missing: interface"},
      {"recent", [](RuleRecord& rule, BatchBuilder&) { rule.matches = kRecent; },
       "the text is missing: recent list"},
      {"set", [](RuleRecord& rule, BatchBuilder&) { rule.matches = kSet; }, "the text is missing: set"},
      {"target", [](RuleRecord& rule, BatchBuilder&) { rule.target = 99; }, "unknown target 99"},
      {"jump", [](RuleRecord& rule, BatchBuilder&) { rule.target = static_cast<uint8_t>(Target::kJump); },
       "the text is missing: chain to jump to"},
  };
  for (const RefusedCase& refused : cases) {
    batch = BatchBuilder();
    batch.SetChain("KUBE-X");
    RuleRecord rule = batch.Rule(Target::kAccept);
    refused.set(rule, batch);
    batch.rules().back() = rule;
    const Error error = Refused();
    EXPECT_EQ(error.code, EINVAL) << refused.what;
    EXPECT_EQ(error.text, refused.text) << refused.what;
  }
}

TEST_F(XtablesEncode, AbsentSets) {
  const uint32_t name = batch.Text("KUBE-NODE-PORT");
  RuleRecord& rule = batch.Rule(Target::kAccept);
  rule.matches = kSet;
  rule.set_name = name;
  rule.set_dimensions = 1;
  const Error missing = Refused();
  EXPECT_EQ(missing.code, ENOENT);
  EXPECT_EQ(missing.operation, "find set KUBE-NODE-PORT");
  const uint32_t there = batch.Text("KUBE-CLUSTER-IP");
  batch.rules().back().set_name = there;
  EXPECT_EQ(Refused(kIpv6).text, "the set holds addresses of the other family");
}

TEST_F(XtablesEncode, KernelWithoutXtables) {
  kernel.error = ENOPROTOOPT;
  batch.Rule(Target::kReject);
  const Error error = Refused();
  EXPECT_EQ(error.code, ENOPROTOOPT);
  EXPECT_EQ(error.operation, "read the revision of REJECT");
}

}  // namespace
}  // namespace viaduct::xtables
