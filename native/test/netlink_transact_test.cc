#include <gtest/gtest.h>

#include "core/attribute_reader.h"
#include "core/message_reader.h"
#include "core/send_batch.h"
#include "scripted_kernel.h"

namespace viaduct {
namespace {

/// A batch of `count` records over a scripted kernel; `refused` names the errno per record index.
class Transact : public testing::Test {
 protected:
  void SetUp() override {
    kernel.on_send = [this](int fd, const Bytes& sent) { return Answer(fd, sent); };
  }

  NetlinkSocket Open() {
    NetlinkSocket::Options options;
    options.calls = &kernel;
    auto socket = NetlinkSocket::Open(options);
    EXPECT_TRUE(socket.ok());
    return std::move(socket.value());
  }

  BatchOutcome Send(uint32_t count, size_t payload = 4) {
    NetlinkSocket socket = Open();
    Bytes buffer;
    return SendBatch(socket, buffer, count, [&](MessageBuilder& builder, uint32_t sequence, uint32_t index) {
      *builder.BeginMessage<uint32_t>(0x20, NLM_F_REQUEST, sequence) = index;
      builder.Bytes(1, Bytes(payload));
      return builder.FinishMessage();
    });
  }

  int Answer(int fd, const Bytes& sent) {
    if (sent.size() > largest_send) return EMSGSIZE;
    MessageReader reader(sent);
    while (const auto message = reader.Next()) {
      EXPECT_EQ(message->header.nlmsg_flags & NLM_F_ACK, 0);
      const auto index = ReadAs<uint32_t>(message->payload);
      seen.push_back(index);
      const auto code = refused.find(index);
      if (code != refused.end())
        kernel.queue(fd).push_back({MakeError(message->header.nlmsg_seq, code->second)});
    }
    if (loses_answers) kernel.receive_errors.push_back(ENOBUFS);
    return 0;
  }

  ScriptedKernel kernel;
  std::map<uint32_t, int> refused;
  std::vector<uint32_t> seen;
  size_t largest_send = SIZE_MAX;
  bool loses_answers = false;
};

std::vector<uint32_t> IndicesOf(const BatchOutcome& outcome) {
  std::vector<uint32_t> indices;
  for (const Failure& failure : outcome.failures) indices.push_back(failure.index);
  return indices;
}

TEST_F(Transact, EmptyQueueMeansAllApplied) {
  const BatchOutcome outcome = Send(100);
  EXPECT_EQ(outcome.applied, 100U);
  EXPECT_TRUE(outcome.failures.empty());
  EXPECT_EQ(kernel.sent().size(), 1U);
}

TEST_F(Transact, EmptyBatchSendsNothing) {
  EXPECT_EQ(Send(0).applied, 0U);
  EXPECT_TRUE(kernel.sent().empty());
}

TEST_F(Transact, AttributesErrorsToTheirRecordsAcrossSends) {
  kernel.can_force_buffers = false;
  refused = {{0, EEXIST}, {250, ENOENT}, {999, ESRCH}};
  const BatchOutcome outcome = Send(1000);
  EXPECT_GT(kernel.sent().size(), 1U);
  EXPECT_EQ(outcome.applied, 997U);
  EXPECT_EQ(IndicesOf(outcome), (std::vector<uint32_t>{0, 250, 999}));
  EXPECT_EQ(outcome.failures[1].code, ENOENT);
  EXPECT_FALSE(outcome.failures[1].unknown);
  EXPECT_EQ(seen.size(), 1000U);
}

TEST_F(Transact, BoundsTheBytesOfASend) {
  Send(1000, 1000);
  EXPECT_GT(kernel.sent().size(), 1U);
  for (const Bytes& sent : kernel.sent()) EXPECT_LE(sent.size(), 256U << 10);
}

TEST_F(Transact, AfterAnOverrunOnlyRecordsWithoutReplyAreUnknown) {
  loses_answers = true;
  refused = {{1, EEXIST}, {2, EEXIST}};
  const BatchOutcome outcome = Send(5);
  EXPECT_EQ(outcome.applied, 0U);
  EXPECT_EQ(IndicesOf(outcome), (std::vector<uint32_t>{0, 1, 2, 3, 4}));
  for (const Failure& failure : outcome.failures) {
    const bool is_answered = failure.index == 1 || failure.index == 2;
    EXPECT_EQ(failure.unknown, !is_answered) << failure.index;
    EXPECT_EQ(failure.code, is_answered ? EEXIST : ENOBUFS) << failure.index;
  }
}

TEST_F(Transact, AnOverrunOfOneSendDoesNotAffectTheNext) {
  kernel.can_force_buffers = false;
  loses_answers = true;
  NetlinkSocket socket = Open();
  const uint32_t per_send = socket.max_requests_per_send();
  auto answer = kernel.on_send;
  kernel.on_send = [&](int fd, const Bytes& sent) {
    const int code = answer(fd, sent);
    loses_answers = false;
    return code;
  };
  const BatchOutcome outcome = Send(2 * per_send);
  EXPECT_EQ(outcome.applied, per_send);
  EXPECT_EQ(outcome.failures.size(), per_send);
}

TEST_F(Transact, ATruncatedReplyIsUnknown) {
  auto answer = kernel.on_send;
  kernel.on_send = [&](int fd, const Bytes& sent) {
    kernel.queue(fd).push_back({MakeError(1, EEXIST), 0, 0, true});
    return answer(fd, sent);
  };
  const BatchOutcome outcome = Send(1);
  ASSERT_EQ(outcome.failures.size(), 1U);
  EXPECT_TRUE(outcome.failures[0].unknown);
  EXPECT_EQ(outcome.failures[0].code, EMSGSIZE);
}

TEST_F(Transact, ForgedAndRepeatedRepliesCountOnce) {
  auto answer = kernel.on_send;
  kernel.on_send = [&](int fd, const Bytes& sent) {
    Datagram forged{MakeError(HeadersOf(sent)[1].nlmsg_seq, EPERM)};
    forged.sender = 1;
    kernel.queue(fd).push_back(forged);
    const Bytes twice = MakeError(HeadersOf(sent)[0].nlmsg_seq, EEXIST);
    kernel.queue(fd).push_back({Concatenate({twice, twice})});
    kernel.queue(fd).push_back({MakeError(HeadersOf(sent)[2].nlmsg_seq + 100, EPERM)});
    return answer(fd, sent);
  };
  const BatchOutcome outcome = Send(3);
  EXPECT_EQ(outcome.applied, 2U);
  EXPECT_EQ(IndicesOf(outcome), (std::vector<uint32_t>{0}));
}

TEST_F(Transact, AcknowledgementsCountAsApplied) {
  refused = {{1, 0}};
  EXPECT_EQ(Send(3).applied, 3U);
}

TEST_F(Transact, SplitsASendThatTheKernelHasNoRoomFor) {
  largest_send = 200;
  refused = {{7, EEXIST}};
  const BatchOutcome outcome = Send(50);
  EXPECT_EQ(outcome.applied, 49U);
  EXPECT_EQ(IndicesOf(outcome), (std::vector<uint32_t>{7}));
  EXPECT_EQ(seen.size(), 50U);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
}

TEST_F(Transact, ARefusedSendAppliesNothing) {
  kernel.on_send = [](int, const Bytes&) { return EPERM; };
  const BatchOutcome outcome = Send(3);
  EXPECT_EQ(outcome.applied, 0U);
  ASSERT_EQ(outcome.failures.size(), 3U);
  EXPECT_EQ(outcome.failures[2].code, EPERM);
  EXPECT_FALSE(outcome.failures[2].unknown);
}

TEST_F(Transact, RecordLargerThanTheSendBufferFailsAlone) {
  kernel.can_force_buffers = false;
  kernel.unforced_buffer = 4608;
  NetlinkSocket socket = Open();
  Bytes buffer;
  const BatchOutcome outcome =
      SendBatch(socket, buffer, 3, [](MessageBuilder& builder, uint32_t sequence, uint32_t index) {
        *builder.BeginMessage<uint32_t>(0x20, NLM_F_REQUEST, sequence) = index;
        builder.Bytes(1, Bytes(index == 1 ? 5000 : 4));
        return builder.FinishMessage();
      });
  EXPECT_EQ(outcome.applied, 2U);
  ASSERT_EQ(outcome.failures.size(), 1U);
  EXPECT_EQ(outcome.failures[0].index, 1U);
  EXPECT_EQ(outcome.failures[0].code, EMSGSIZE);
}

}  // namespace
}  // namespace viaduct
