#include "ipset/ipset_socket.h"

#include <gtest/gtest.h>
#include <linux/netfilter/ipset/ip_set.h>
#include <linux/netfilter/nfnetlink.h>

#include <algorithm>
#include <optional>
#include <set>

#include "core/message_reader.h"
#include "hex.h"
#include "ipset/policy.h"
#include "ipset_records.h"
#include "scripted_kernel.h"

namespace viaduct::ipset {
namespace {

constexpr uint16_t Type(ipset_cmd command) { return NFNL_SUBSYS_IPSET << 8 | command; }
constexpr size_t kFamilyHeader = sizeof(nfgenmsg);

const Bytes kSevenToSix = FromHex("02 00 00 00  05 00 01 00 07 00 00 00  05 00 0a 00 06 00 00 00");
const Bytes kRevisions = FromHex("02 00 00 00  05 00 04 00 07 00 00 00  05 00 0a 00 00 00 00 00");
const Bytes kHeader =
    FromHex("02 00 00 00  06 00 02 00 41 00 00 00  06 00 03 00 54 00 00 00  05 00 05 00 02 00 00 00");

/// The kernel's behaviour for ADD and DEL: a set that accepts every port except the refused ones.
class IpsetSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    kernel.on_send = [this](int fd, const Bytes& sent) {
      Answer(fd, sent);
      return 0;
    };
    Open();
  }

  void Open() { socket.emplace(std::move(IpsetSocket::Open(kernel).value())); }

  void Answer(int fd, const Bytes& sent) {
    MessageReader reader(sent);
    std::string words;
    while (const auto message = reader.Next()) {
      const uint16_t type = message->header.nlmsg_type;
      const uint32_t sequence = message->header.nlmsg_seq;
      if (type == Type(IPSET_CMD_PROTOCOL)) Reply(fd, type, sequence, protocol_error, protocol);
      if (type == Type(IPSET_CMD_TYPE)) Reply(fd, type, sequence, type_error, revisions);
      if (type == Type(IPSET_CMD_HEADER)) Reply(fd, type, sequence, 0, header);
      if (type == Type(IPSET_CMD_CREATE)) {
        created.push_back({message->payload.begin(), message->payload.end()});
        kernel.queue(fd).push_back({MakeError(sequence, create_error)});
      }
      if (type == Type(IPSET_CMD_ADD) || type == Type(IPSET_CMD_DEL)) AnswerEntries(fd, *message, words);
      if (type == Type(IPSET_CMD_SWAP)) words += "swap ";
    }
    if (!words.empty()) sends.push_back(words);
    largest_send = std::max(largest_send, sent.size());
  }

  void Reply(int fd, uint16_t type, uint32_t sequence, int code, const Bytes& payload) {
    if (code == 0) kernel.queue(fd).push_back({MakeMessage(type, 0, sequence, payload)});
    kernel.queue(fd).push_back({MakeError(sequence, code)});
  }

  void AnswerEntries(int fd, const Message& message, std::string& words) {
    const auto bytes = message.payload.subspan(kFamilyHeader);
    AttributeTable<IPSET_ATTR_LINENO> command;
    ASSERT_TRUE(command.Parse(bytes, kEntryCommandPolicy));
    const bool is_packed = command.Has(IPSET_ATTR_ADT);
    const int whole = command.Text(IPSET_ATTR_SETNAME) == absent ? ENOENT : gone;
    if (whole != 0) {
      words += is_packed ? "pack " : "one ";
      return kernel.queue(fd).push_back({MakeError(message.header.nlmsg_seq, whole)});
    }
    if (lost.contains(++answers)) return Lose(fd);
    uint32_t count = 0;
    const auto visit = [&](std::span<const uint8_t> nest) {
      AttributeTable<IPSET_ATTR_LINENO> entry;
      ASSERT_TRUE(entry.Parse(nest, kEntryPolicy));
      const uint16_t port = entry.Port(IPSET_ATTR_PORT);
      if (failed_line) return;
      ++count;
      if (refused.contains(port))
        failed_line = is_packed ? be32toh(entry.Number<uint32_t>(IPSET_ATTR_LINENO)) : ~0U;
      else
        added.push_back(port);
    };
    failed_line.reset();
    if (is_packed)
      ForEachAttribute(kEntriesPolicy, command.Bytes(IPSET_ATTR_ADT),
                       [&](const AttributePolicy&, std::span<const uint8_t> nest) { visit(nest); });
    else
      visit(command.Bytes(IPSET_ATTR_DATA));
    words += (is_packed ? "pack" : "one") + std::to_string(count) + ' ';
    if (!failed_line) return;
    const bool echoes = is_packed && has_line;
    kernel.queue(fd).push_back(
        {echoes ? MakeEcho(message, *failed_line) : MakeError(message.header.nlmsg_seq, IPSET_ERR_SKBINFO)});
  }

  void Lose(int fd) { kernel.queue(fd).push_back({{}, ENOBUFS}); }

  /// call_ad() of ip_set_core.c.
  static Bytes MakeEcho(const Message& message, uint32_t line) {
    Bytes request(message.payload.begin(), message.payload.end());
    AttributeReader reader{std::span(request).subspan(kFamilyHeader)};
    while (const auto attribute = reader.Next()) {
      const uint32_t line_be = htobe32(line);
      if (attribute->type == IPSET_ATTR_LINENO)
        memcpy(request.data() + (attribute->value.data() - request.data()), &line_be, sizeof line_be);
    }
    nlmsgerr fixed{-IPSET_ERR_SKBINFO, message.header};
    Bytes payload(sizeof fixed);
    memcpy(payload.data(), &fixed, sizeof fixed);
    payload.insert(payload.end(), request.begin(), request.end());
    return MakeMessage(NLMSG_ERROR, 0, message.header.nlmsg_seq, payload);
  }

  /// Adds the ports from 1 to `count` to a bitmap.
  static Records Ports(uint32_t count) {
    Records records{{}, {MakeSet("A", "bitmap:port"), MakeSet("B", "bitmap:port")}};
    for (uint32_t port = 1; port <= count; ++port)
      records.AddEntry(Op::kAddEntry, 0, MakeEntry(0, static_cast<uint16_t>(port)));
    return records;
  }

  /// `index code` of each failure, with `?` if it is unknown.
  std::string Apply(const Records& records) {
    auto outcome = socket->Apply(records.batch());
    if (!outcome.ok()) return outcome.error().operation + ' ' + std::to_string(outcome.error().code);
    std::string text = std::to_string(outcome.value().applied) + " applied";
    for (const Failure& failure : outcome.value().failures) {
      text += ", " + std::to_string(failure.index) + ' ' + std::to_string(failure.code);
      if (failure.unknown) text += '?';
      EXPECT_TRUE(failure.request.empty());
    }
    return text;
  }

  ScriptedKernel kernel;
  std::optional<IpsetSocket> socket;
  Bytes protocol = kSevenToSix;
  Bytes revisions = kRevisions;
  Bytes header = kHeader;
  int protocol_error = 0;
  int type_error = 0;
  int create_error = 0;
  int gone = 0;  ///< reply to all entries
  std::string absent;
  std::set<uint16_t> refused;
  bool has_line = true;
  std::set<int> lost;  ///< messages of entries with lost replies, by number from 1; not applied
  int answers = 0;
  std::optional<uint32_t> failed_line;
  std::vector<uint16_t> added;
  std::vector<Bytes> created;
  std::vector<std::string> sends;  ///< content of each send
  size_t largest_send = 0;
};

TEST_F(IpsetSocketTest, NegotiatesOnce) {
  EXPECT_EQ(Apply(Ports(1)), "1 applied");
  EXPECT_EQ(Apply(Ports(1)), "1 applied");
  EXPECT_EQ(kernel.sent().size(), 3U);
  EXPECT_TRUE(HasBytes(std::span(kernel.sent()[1]).subspan(NLMSG_HDRLEN + kFamilyHeader, 8),
                       "05 00 01 00 07 00 00 00"));
}

TEST_F(IpsetSocketTest, UsesTheOlderProtocol) {
  protocol = FromHex("02 00 00 00  05 00 01 00 06 00 00 00");
  EXPECT_EQ(Apply(Ports(1)), "1 applied");
  EXPECT_TRUE(HasBytes(std::span(kernel.sent()[1]).subspan(NLMSG_HDRLEN + kFamilyHeader, 8),
                       "05 00 01 00 06 00 00 00"));
}

TEST_F(IpsetSocketTest, WorksWhenTheModuleAppears) {
  protocol_error = EINVAL;
  const std::string absent = "negotiate ipset protocol " + std::to_string(EPROTONOSUPPORT);
  EXPECT_EQ(Apply(Ports(1)), absent);
  EXPECT_EQ(socket->ListSets().error().code, EPROTONOSUPPORT);
  EXPECT_EQ(socket->ListEntries("A").error().text, "the kernel has no ip_set: load the module ip_set");
  protocol_error = EPERM;
  EXPECT_EQ(Apply(Ports(1)), "negotiate ipset protocol " + std::to_string(EPERM));
  protocol_error = 0;
  EXPECT_EQ(Apply(Ports(1)), "1 applied");
}

TEST_F(IpsetSocketTest, RefusesAKernelWithOtherVersions) {
  protocol = FromHex("02 00 00 00  05 00 01 00 09 00 00 00  05 00 0a 00 08 00 00 00");
  const auto refusal = socket->ListSets();
  ASSERT_FALSE(refusal.ok());
  EXPECT_EQ(refusal.error().code, EPROTONOSUPPORT);
  EXPECT_EQ(refusal.error().text, "the kernel speaks versions 8 to 9");
}

TEST_F(IpsetSocketTest, CreatesWithARevisionThatBothSupport) {
  Records records{{}, {MakeSet("A", "hash:ip,port"), MakeSet("A", "hash:ip,port,net")}};
  records.Add(Op::kCreateSet, 0);
  records.Add(Op::kCreateSet, 1);
  EXPECT_EQ(Apply(records), "2 applied");
  EXPECT_EQ(Apply(records), "2 applied");
  ASSERT_EQ(created.size(), 4U);
  for (size_t i = 0; i < created.size(); ++i) {
    AttributeTable<IPSET_ATTR_PROTOCOL_MIN> command;
    ASSERT_TRUE(command.Parse(std::span(created[i]).subspan(kFamilyHeader), kSetCommandPolicy));
    EXPECT_EQ(command.Number<uint8_t>(IPSET_ATTR_REVISION), i % 2 == 0 ? 5 : 7);
  }
  // PROTOCOL, two TYPEs, four times CREATE and HEADER.
  EXPECT_EQ(kernel.sent().size(), 11U);
}

TEST_F(IpsetSocketTest, AnOldKernelsRevision) {
  revisions = FromHex("02 00 00 00  05 00 04 00 03 00 00 00  05 00 0a 00 01 00 00 00");
  Records records{{}, {MakeSet("A", "hash:ip,port")}};
  records.Add(Op::kCreateSet, 0);
  EXPECT_EQ(Apply(records), "1 applied");
  EXPECT_TRUE(HasBytes(std::span(created.at(0)).subspan(kFamilyHeader + 36, 8), "05 00 04 00 03 00 00 00"));
}

TEST_F(IpsetSocketTest, FailuresOfACreation) {
  Records records{{}, {MakeSet("A", "hash:ip")}};
  records.Add(Op::kCreateSet, 0);
  type_error = IPSET_ERR_FIND_TYPE;
  EXPECT_EQ(Apply(records), "0 applied, 0 4098");
  type_error = 0;
  revisions = FromHex("02 00 00 00  05 00 04 00 20 00 00 00  05 00 0a 00 10 00 00 00");
  EXPECT_EQ(Apply(records), "0 applied, 0 " + std::to_string(EPROTONOSUPPORT));
  revisions = kRevisions;
  create_error = EEXIST;
  EXPECT_EQ(Apply(records), "0 applied, 0 " + std::to_string(EEXIST));
  create_error = ENOBUFS;
  EXPECT_EQ(Apply(records), "0 applied, 0 " + std::to_string(ENOBUFS) + '?');
  create_error = 0;
  header = FromHex("02 00 00 00 06 00 02 00 41 00 00 00 06 00 03 00 54 00 00 00 05 00 05 00 0a 00 00 00");
  EXPECT_EQ(Apply(records), "0 applied, 0 " + std::to_string(EEXIST)) << "of the other family";
}

TEST_F(IpsetSocketTest, PacksEntries) {
  EXPECT_EQ(Apply(Ports(5000)), "5000 applied");
  EXPECT_EQ(added.size(), 5000U);
  ASSERT_EQ(sends.size(), 1U);
  EXPECT_EQ(sends[0], "pack2978 pack2022 ");
}

TEST_F(IpsetSocketTest, EntriesAfterARefusedOneAreSentAgain) {
  refused = {3, 5};
  EXPECT_EQ(Apply(Ports(6)), "4 applied, 2 4114, 4 4114");
  EXPECT_EQ(added, (std::vector<uint16_t>{1, 2, 4, 6}));
  EXPECT_EQ(sends, (std::vector<std::string>{"pack3 ", "one1 one1 one1 "}));
}

TEST_F(IpsetSocketTest, LaterMessagesOfASendAreRepeatedInOrder) {
  refused = {7000};
  EXPECT_EQ(Apply(Ports(30000)), "29999 applied, 6999 4114");
  const std::set<uint16_t> distinct(added.begin(), added.end());
  EXPECT_EQ(distinct.size(), 29999U);
  EXPECT_EQ(added.back(), 30000);
  EXPECT_LT(added.size(), 29999U + 13000U) << "no more than one send again";
}

TEST_F(IpsetSocketTest, EveryEntryRefused) {
  for (uint16_t port = 1; port <= 4000; ++port) refused.insert(port);
  const std::string outcome = Apply(Ports(4000));
  EXPECT_EQ(outcome.substr(0, 38), "0 applied, 0 4114, 1 4114, 2 4114, 3 4");
  EXPECT_TRUE(added.empty());
  EXPECT_LE(sends.size(), 3U);
}

TEST_F(IpsetSocketTest, AnErrorWithoutALineRepeatsAllEntries) {
  has_line = false;
  refused = {2};
  EXPECT_EQ(Apply(Ports(3)), "2 applied, 1 4114");
  EXPECT_EQ(added, (std::vector<uint16_t>{1, 1, 3}));
}

TEST_F(IpsetSocketTest, AnErrorOfTheSetAppliesToEachEntry) {
  Records records = Ports(2);
  records.AddEntry(Op::kAddEntry, 1, MakeEntry(0, 3));
  absent = "A";
  EXPECT_EQ(Apply(records), "1 applied, 0 2, 1 2");
  EXPECT_EQ(added, (std::vector<uint16_t>{3}));
  EXPECT_EQ(sends.size(), 1U) << "nothing is sent again";
}

TEST_F(IpsetSocketTest, NegotiatesAgainAfterTheModuleWasUnloaded) {
  EXPECT_EQ(Apply(Ports(1)), "1 applied");
  gone = EINVAL;
  EXPECT_EQ(Apply(Ports(2)), "0 applied, 0 22, 1 22");
  protocol_error = EINVAL;
  EXPECT_EQ(Apply(Ports(1)), "negotiate ipset protocol " + std::to_string(EPROTONOSUPPORT));
  protocol = FromHex("02 00 00 00  05 00 01 00 06 00 00 00");
  protocol_error = gone = 0;
  EXPECT_EQ(Apply(Ports(1)), "1 applied");
  EXPECT_TRUE(HasBytes(std::span(kernel.sent().back()).subspan(NLMSG_HDRLEN + kFamilyHeader, 8),
                       "05 00 01 00 06 00 00 00"));
}

TEST_F(IpsetSocketTest, AListingNegotiatesAgainToo) {
  int refusals = 0;
  kernel.on_send = [&](int fd, const Bytes& sent) {
    const nlmsghdr request = HeadersOf(sent)[0];
    if (request.nlmsg_type != Type(IPSET_CMD_LIST))
      Answer(fd, sent);
    else if (refusals-- > 0)
      kernel.queue(fd).push_back({MakeError(request.nlmsg_seq, EINVAL)});
    else
      kernel.queue(fd).push_back({MakeDone(request.nlmsg_seq)});
    return 0;
  };
  refusals = 1;
  EXPECT_TRUE(socket->ListSets().ok());
  EXPECT_EQ(kernel.sent().size(), 4U) << "PROTOCOL, LIST, and both again";
  refusals = 1;
  protocol_error = EINVAL;
  EXPECT_EQ(socket->ListEntries("A").error().code, EPROTONOSUPPORT);
}

TEST_F(IpsetSocketTest, AfterALostReplyEntriesAreSentAgain) {
  lost = {1};
  EXPECT_EQ(Apply(Ports(3)), "3 applied");
  EXPECT_EQ(added, (std::vector<uint16_t>{1, 2, 3}));
}

TEST_F(IpsetSocketTest, AReplyThatIsLostTwiceIsUnknown) {
  lost = {1, 3};
  const std::string code = std::to_string(ENOBUFS) + '?';
  EXPECT_EQ(Apply(Ports(2)), "0 applied, 0 " + code + ", 1 " + code) << "of one send, which is not known";
}

TEST_F(IpsetSocketTest, OperationsAfterEntriesWaitForThem) {
  Records records = Ports(2);
  records.Add(Op::kSwapSets, 0, 1);
  records.AddEntry(Op::kDeleteEntry, 0, MakeEntry(0, 3));
  records.AddEntry(Op::kDeleteEntry, 1, MakeEntry(0, 4));
  refused = {1};
  EXPECT_EQ(Apply(records), "4 applied, 0 4114");
  EXPECT_EQ(sends, (std::vector<std::string>{"pack1 ", "one1 swap pack1 pack1 "}));
}

TEST_F(IpsetSocketTest, RepliesFitTheQueue) {
  kernel.can_force_buffers = false;
  Open();
  EXPECT_EQ(Apply(Ports(10000)), "10000 applied");
  EXPECT_LE(largest_send, static_cast<size_t>(kernel.unforced_buffer / 2));
  kernel.unforced_buffer = 100;
  Open();
  Records records = Ports(1);
  EXPECT_TRUE(Apply(records).ends_with(std::to_string(EMSGSIZE))) << "no room for anything";
}

TEST_F(IpsetSocketTest, ListsAndDiscardsAnInterruptedDump) {
  bool is_first = true;
  kernel.on_send = [&](int fd, const Bytes& sent) {
    const nlmsghdr request = HeadersOf(sent)[0];
    if (request.nlmsg_type != Type(IPSET_CMD_LIST)) {
      Answer(fd, sent);
      return 0;
    }
    const bool is_interrupted = std::exchange(is_first, false);
    const uint16_t flags = is_interrupted ? NLM_F_MULTI | NLM_F_DUMP_INTR : NLM_F_MULTI;
    kernel.queue(fd).push_back({MakeMessage(request.nlmsg_type, flags, request.nlmsg_seq, kHeader)});
    if (is_interrupted)
      kernel.queue(fd).push_back({MakeMessage(request.nlmsg_type, flags, request.nlmsg_seq, {1, 2})});
    kernel.queue(fd).push_back({MakeDone(request.nlmsg_seq)});
    return 0;
  };
  const auto sets = socket->ListSets();
  ASSERT_TRUE(sets.ok());
  ASSERT_EQ(sets.value().size(), 1U);
  EXPECT_STREQ(sets.value()[0].name, "A");
  is_first = true;
  const auto entries = socket->ListEntries("A");
  ASSERT_TRUE(entries.ok());
  EXPECT_TRUE(entries.value().empty());
}

TEST_F(IpsetSocketTest, RefusalsOfListings) {
  for (const bool is_malformed : {false, true}) {
    kernel.on_send = [&](int fd, const Bytes& sent) {
      const nlmsghdr request = HeadersOf(sent)[0];
      if (request.nlmsg_type != Type(IPSET_CMD_LIST)) {
        Answer(fd, sent);
        return 0;
      }
      if (is_malformed)
        kernel.queue(fd).push_back({MakeMessage(request.nlmsg_type, NLM_F_MULTI, request.nlmsg_seq, {1})});
      kernel.queue(fd).push_back(
          {is_malformed ? MakeDone(request.nlmsg_seq) : MakeError(request.nlmsg_seq, ENOENT)});
      return 0;
    };
    EXPECT_EQ(socket->ListSets().error().code, is_malformed ? EPROTO : ENOENT);
    EXPECT_EQ(socket->ListEntries("A").error().code, is_malformed ? EPROTO : ENOENT);
    EXPECT_EQ(socket->ListEntries("A").error().operation, "list entries");
  }
}

TEST_F(IpsetSocketTest, FindsTheIndexOfASetOfTheFamily) {
  kernel.on_option = [](int name, void* value, socklen_t length) -> int {
    EXPECT_EQ(name, SO_IP_SET);
    if (length == sizeof(ip_set_req_version)) {
      static_cast<ip_set_req_version*>(value)->version = IPSET_PROTOCOL;
      return 0;
    }
    auto& query = *static_cast<ip_set_req_get_set_family*>(value);
    EXPECT_EQ(query.op, static_cast<unsigned>(IP_SET_OP_GET_FNAME));
    const bool is_known = std::string_view(query.set.name) == "A";
    query.set.index = is_known ? 7 : 0xffff;
    query.family = AF_INET;
    return 0;
  };
  const int opened = kernel.sockets_opened();
  EXPECT_EQ(socket->FindIndex(AF_INET, "A").value(), 7);
  EXPECT_EQ(kernel.sockets_opened(), opened + 1);
  EXPECT_EQ(socket->FindIndex(AF_INET6, "A").error().code, ENOENT);
  const auto absent = socket->FindIndex(AF_INET, "B");
  EXPECT_EQ(absent.error().code, ENOENT);
  EXPECT_EQ(absent.error().operation, "find set B");
  kernel.socket_error = EMFILE;
  EXPECT_EQ(socket->FindIndex(AF_INET, "A").error().code, EMFILE);
}

}  // namespace
}  // namespace viaduct::ipset
