// Messages about listening sockets, without the kernel.
#include <gtest/gtest.h>
#include <linux/inet_diag.h>
#include <netinet/in.h>
#include <unistd.h>

#include "hex.h"
#include "ports/diag.h"
#include "ports/listener_socket.h"
#include "scripted_kernel.h"

namespace viaduct::ports {
namespace {

TEST(EncodeDumpListeners, FiltersPortsInTheKernel) {
  RequestBuffer<kMaxDiagBytes> buffer;
  MessageBuilder builder(buffer);
  const uint16_t ports[] = {30080, 30081};
  ASSERT_TRUE(EncodeDumpListeners(builder, AF_INET, IPPROTO_TCP, ports));
  EXPECT_TRUE(HasBytes(builder.sealed(), R"(
    74 00 00 00 14 00 00 00  # nlmsghdr: 116 bytes, SOCK_DIAG_BY_FAMILY
    00 00 00 00 00 00 00 00
    02 06 40 00              # inet_diag_req_v2: AF_INET, TCP, SKMEMINFO
    00 04 00 00              # states: 1 << TCP_LISTEN
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
    2c 00 01 00              # INET_DIAG_REQ_BYTECODE, 40 bytes
    02 08 14 00 00 00 80 75  # S_GE 30080, else to the second block
    03 08 0c 00 00 00 80 75  # S_LE 30080, else to the second block
    01 04 18 00              # accept: to the end
    02 08 18 00 00 00 81 75  # S_GE 30081, else beyond the end
    03 08 10 00 00 00 81 75  # S_LE 30081, else beyond the end
    01 04 04 00              # accept: to the end
  )"));
}

TEST(EncodeDumpListeners, AsksForUnconnectedUdpSockets) {
  RequestBuffer<kMaxDiagBytes> buffer;
  MessageBuilder builder(buffer);
  ASSERT_TRUE(EncodeDumpListeners(builder, AF_INET6, IPPROTO_UDP, {}));
  EXPECT_TRUE(HasBytes(builder.sealed().subspan(16, 8), "0a 11 40 00  80 00 00 00  # 1 << TCP_CLOSE"));
}

TEST(EncodeDumpListeners, HasRoomForTheLongestFilter) {
  RequestBuffer<kMaxDiagBytes> buffer;
  MessageBuilder builder(buffer);
  std::vector<uint16_t> ports(kMaxFilteredPorts);
  EXPECT_TRUE(EncodeDumpListeners(builder, AF_INET, IPPROTO_TCP, ports));
}

struct Answer {
  uint8_t family = AF_INET;
  Bytes address = {192, 0, 2, 1};
  uint16_t port = 30080;
  int v6only = -1;             ///< -1: no attribute
  uint32_t receive_bytes = 0;  ///< 0: no SKMEMINFO
  uint32_t uid = 33;
};

template <typename T>
void Append(Bytes& bytes, const T& value) {
  const auto* start = reinterpret_cast<const uint8_t*>(&value);
  bytes.insert(bytes.end(), start, start + sizeof value);
}

Bytes MakeAnswer(const Answer& answer) {
  inet_diag_msg message{};
  message.idiag_family = answer.family;
  message.id.idiag_sport = htobe16(answer.port);
  memcpy(message.id.idiag_src, answer.address.data(), answer.address.size());
  message.idiag_uid = answer.uid;
  message.idiag_inode = 77;
  Bytes bytes;
  Append(bytes, message);
  if (answer.v6only >= 0) {
    Append(bytes, nlattr{5, INET_DIAG_SKV6ONLY});
    Append(bytes, static_cast<uint32_t>(answer.v6only));
  }
  if (answer.receive_bytes != 0) {
    Append(bytes, nlattr{12, INET_DIAG_SKMEMINFO});
    Append(bytes, uint64_t{answer.receive_bytes} << 32);
  }
  return bytes;
}

Bytes Mapped(const Bytes& address) {
  Bytes mapped(10);
  mapped.insert(mapped.end(), {0xff, 0xff});
  mapped.insert(mapped.end(), address.begin(), address.end());
  return mapped;
}

TEST(DecodeListener, ReadsASocket) {
  const auto socket = DecodeListener(MakeAnswer({}), IPPROTO_TCP);
  ASSERT_TRUE(socket);
  EXPECT_EQ(socket->listener.port, 30080);
  EXPECT_EQ(socket->listener.uid, 33U);
  EXPECT_EQ(socket->listener.protocol, IPPROTO_TCP);
  EXPECT_EQ(socket->inode, 77U);
  EXPECT_EQ(socket->listener.is_held, 0);
  EXPECT_TRUE(HasBytes({socket->listener.address, 4}, "c0 00 02 01"));
}

TEST(DecodeListener, KnowsTheFamiliesOfASocket) {
  const Bytes every(16);
  Bytes one(16);
  one[15] = 1;
  struct Row {
    Answer answer;
    uint8_t family;
    bool is_dual_stack;
  };
  const Row rows[] = {
      {{AF_INET, {0, 0, 0, 0}}, AF_INET, false},  {{AF_INET6, every, 1, 0}, AF_INET6, true},
      {{AF_INET6, every, 1, 1}, AF_INET6, false}, {{AF_INET6, every, 1, -1}, AF_INET6, false},
      {{AF_INET6, one, 1, 0}, AF_INET6, false},   {{AF_INET6, Mapped({192, 0, 2, 1}), 1, 0}, AF_INET, false},
  };
  for (const Row& row : rows) {
    const auto socket = DecodeListener(MakeAnswer(row.answer), IPPROTO_UDP);
    ASSERT_TRUE(socket);
    EXPECT_EQ(socket->listener.family, row.family);
    EXPECT_EQ(socket->is_dual_stack, row.is_dual_stack);
  }
}

TEST(DecodeListener, RecognizesAHeldPort) {
  const uint32_t held = 5158;
  struct Row {
    uint32_t receive_bytes;
    uint32_t uid;
    int is_held;
  };
  for (const Row& row : {Row{held, geteuid(), 1}, Row{held, geteuid() + 1, 0}, Row{held + 1, geteuid(), 0}}) {
    Answer answer;
    answer.receive_bytes = row.receive_bytes;
    answer.uid = row.uid;
    EXPECT_EQ(DecodeListener(MakeAnswer(answer), IPPROTO_TCP)->listener.is_held, row.is_held);
  }
}

TEST(DecodeListener, RefusesAMalformedMessage) {
  Bytes answer = MakeAnswer({});
  EXPECT_FALSE(DecodeListener({answer.data(), answer.size() - 1}, IPPROTO_TCP));
  answer.insert(answer.end(), {2, 0, 11, 0});
  EXPECT_FALSE(DecodeListener(answer, IPPROTO_TCP));
}

class ListenerSocketTest : public testing::Test {
 protected:
  /// Answers each dump with these sockets of its family.
  void Answer(const std::vector<Bytes>& answers) {
    kernel.on_send = [this, answers](int fd, const Bytes& sent) {
      const uint32_t sequence = HeadersOf(sent)[0].nlmsg_seq;
      asked.push_back(sent[16]);
      for (const Bytes& answer : answers)
        if (answer[0] == sent[16])
          kernel.queue(fd).push_back({MakeMessage(20, NLM_F_MULTI, sequence, answer)});
      kernel.queue(fd).push_back({MakeDone(sequence)});
      return 0;
    };
  }

  Result<std::vector<ListenerRecord>> Find(uint8_t family, const std::vector<uint16_t>& ports) {
    std::vector<PortRecord> records;
    for (const uint16_t port : ports) {
      PortRecord record{};
      record.port = port;
      record.protocol = IPPROTO_TCP;
      records.push_back(record);
    }
    return ListenerSocket::Open(kernel).value().Find(family, records);
  }

  ScriptedKernel kernel;
  std::vector<int> asked;
};

TEST_F(ListenerSocketTest, FindsDualStackSocketsForIpv4) {
  Answer({MakeAnswer({}), MakeAnswer({AF_INET6, Bytes(16), 30080, 0}),
          MakeAnswer({AF_INET6, Bytes(16), 30080, 1}), MakeAnswer({AF_INET, {0, 0, 0, 0}, 30081})});
  const auto found = Find(AF_INET, {30080});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found.value().size(), 2U);
  EXPECT_EQ(asked, (std::vector<int>{AF_INET, AF_INET6}));
  for (const ListenerRecord& listener : found.value()) EXPECT_EQ(listener.family, AF_INET);
}

TEST_F(ListenerSocketTest, AsksForIpv6Once) {
  Answer({MakeAnswer({AF_INET6, Bytes(16), 30080, 0})});
  EXPECT_EQ(Find(AF_INET6, {30080}).value().size(), 1U);
  EXPECT_EQ(asked, std::vector<int>{AF_INET6});
}

TEST_F(ListenerSocketTest, AsksNothingWithoutPorts) {
  EXPECT_TRUE(Find(AF_INET, {}).value().empty());
  EXPECT_TRUE(kernel.sent().empty());
}

TEST_F(ListenerSocketTest, ReportsAKernelWithoutSockDiag) {
  kernel.on_send = [this](int fd, const Bytes& sent) {
    kernel.queue(fd).push_back({MakeError(HeadersOf(sent)[0].nlmsg_seq, ENOENT)});
    return 0;
  };
  const auto found = Find(AF_INET, {30080});
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, ENOENT);
  EXPECT_EQ(found.error().operation, "list listening sockets");
}

TEST_F(ListenerSocketTest, WorksOnAKernelWithoutIpv6) {
  kernel.on_send = [this](int fd, const Bytes& sent) {
    const uint32_t sequence = HeadersOf(sent)[0].nlmsg_seq;
    if (sent[16] == AF_INET6)
      kernel.queue(fd).push_back({MakeError(sequence, ENOENT)});
    else
      kernel.queue(fd).push_back(
          {Concatenate({MakeMessage(20, NLM_F_MULTI, sequence, MakeAnswer({})), MakeDone(sequence)})});
    return 0;
  };
  EXPECT_EQ(Find(AF_INET, {30080}).value().size(), 1U);
}

TEST_F(ListenerSocketTest, RefusesAMalformedAnswer) {
  Answer({Bytes{AF_INET, 10}});
  EXPECT_EQ(Find(AF_INET, {30080}).error().code, EPROTO);
}

}  // namespace
}  // namespace viaduct::ports
