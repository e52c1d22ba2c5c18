// Tables of the real kernel, compared with the iptables tools. Run under `unshare -n` as root: the tests
// refuse to run in a namespace that has more than a loopback device that is down.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/fd.h"
#include "xtables/xtables_table.h"
#include "xtables_batch.h"

namespace viaduct::xtables {
namespace {

using std::chrono::milliseconds;

/// Runs a command line and returns its output. Fails the test if the command fails.
std::string Shell(const std::string& line) {
  FILE* pipe = popen((line + " 2>&1").c_str(), "r");
  std::string output;
  char buffer[4096];
  for (size_t count = 0; (count = fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, count);
  EXPECT_EQ(pclose(pipe), 0) << line << "\n" << output;
  return output;
}

/// The kernel, and a command that runs right before each of the first replacements.
class Interleaver : public SocketCalls {
 public:
  std::vector<std::string> commands;

  int Socket(int domain, int type, int protocol) override { return real_.Socket(domain, type, protocol); }
  int Bind(int fd, const sockaddr* address, socklen_t length) override {
    return real_.Bind(fd, address, length);
  }
  int SetOption(int fd, int level, int name, std::span<const uint8_t> value) override {
    if (name == IPT_SO_SET_REPLACE && !commands.empty()) {
      Shell(commands.front());
      commands.erase(commands.begin());
    }
    return real_.SetOption(fd, level, name, value);
  }
  int GetOption(int fd, int level, int name, void* value, socklen_t* length) override {
    return real_.GetOption(fd, level, name, value, length);
  }
  ssize_t Send(int fd, const msghdr* message, int flags) override { return real_.Send(fd, message, flags); }
  ssize_t Receive(int fd, msghdr* message, int flags) override { return real_.Receive(fd, message, flags); }
  int Poll(pollfd* fds, nfds_t count, int timeout_ms) override { return real_.Poll(fds, count, timeout_ms); }
  unsigned InterfaceIndex(const char* name) override { return real_.InterfaceIndex(name); }
  std::chrono::nanoseconds Now() override { return real_.Now(); }
  void Sleep(std::chrono::nanoseconds time) override { real_.Sleep(time); }

 private:
  SocketCalls& real_ = SocketCalls::Kernel();
};

class XtablesKernel : public testing::TestWithParam<uint8_t> {
 protected:
  static void SetUpTestSuite() {
    bool is_up = false;
    std::ifstream devices("/proc/net/dev");
    std::string line;
    int count = -2;  // two lines of headings
    while (std::getline(devices, line)) ++count;
    std::ifstream state("/proc/net/if_inet6");
    is_up = state.peek() != std::ifstream::traits_type::eof();
    if (count == 1 && !is_up && geteuid() == 0) {
      // The tests and the tools use a lock of their own, apart from the machine's iptables tools.
      setenv("XTABLES_LOCKFILE", (testing::TempDir() + "xtables_kernel_test.lock").c_str(), 1);
      return;
    }
    fprintf(stderr, "xtables_kernel_test: needs root and a network namespace of its own\n");
    exit(1);
  }

  static void TearDownTestSuite() {
    for (const char* name : {"xtables_kernel_test.lock", "other.lock"})
      std::filesystem::remove(testing::TempDir() + name);
  }

  void TearDown() override {
    for (const char* table : {"nat", "filter", "mangle"}) {
      Shell(Tool() + " -t " + table + " -F");
      Shell(Tool() + " -t " + table + " -X");
    }
  }

  bool is_ipv4() const { return GetParam() == AF_INET; }
  std::string Tool() const { return is_ipv4() ? "iptables-legacy" : "ip6tables-legacy"; }
  /// The table as the tools print it, without comments and policies.
  std::string Save(const std::string& table) const {
    std::istringstream lines(Shell(Tool() + "-save -c -t " + table));
    std::string text;
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("[")) text += line + "\n";
    return text;
  }
  std::vector<uint8_t> Address(uint8_t last) const {
    if (is_ipv4()) return {10, 0, 0, last};
    return {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
  }
  /// The address as text.
  std::string Word(const std::string& last) const { return (is_ipv4() ? "10.0.0." : "fd00::") + last; }
  uint8_t host() const { return is_ipv4() ? 32 : 128; }
  RuleRecord& To(RuleRecord& rule, uint8_t last) const {
    std::ranges::copy(Address(last), rule.destination);
    rule.destination_prefix = host();
    return rule;
  }

  XtablesTable Open(const std::string& table, SocketCalls& calls = SocketCalls::Kernel()) const {
    return std::move(
        XtablesTable::Open(GetParam(), table, testing::TempDir() + "xtables_kernel_test.lock", calls)
            .value());
  }
  static Outcome Apply(XtablesTable& table, const BatchBuilder& batch,
                       const std::vector<std::string>& prune = {}) {
    auto outcome = table.Apply(batch.batch(), prune, milliseconds(5000));
    EXPECT_TRUE(outcome.ok()) << outcome.error().operation << ": " << outcome.error().text << " "
                              << outcome.error().code;
    return outcome.ok() ? outcome.value() : Outcome();
  }
  static void ExpectRight(XtablesTable& table) {
    EXPECT_TRUE(table.Check().value());
    const Drift drift = table.Compare().value();
    EXPECT_TRUE(drift.missing.empty() && drift.changed.empty());
    EXPECT_FALSE(Apply(table, {}).is_written);
  }
};

/// Rules of every kind in table nat.
BatchBuilder NatRules(const std::vector<uint8_t>& vip, const std::vector<uint8_t>& backend, uint8_t host) {
  BatchBuilder batch;
  const auto dnat = [&](uint8_t protocol) -> RuleRecord& {
    RuleRecord& rule = batch.Rule(Target::kDnat);
    rule.protocol = protocol;
    std::ranges::copy(backend, rule.nat_address);
    rule.nat_port = 8080;
    return rule;
  };
  const uint32_t list = batch.Text("KUBE-SEP-X");
  const uint32_t comment = batch.Text("ns/web:http \"cluster\" IP");
  const uint32_t wild = batch.Text("veth+");
  batch.SetHook("OUTPUT").JumpTo("KUBE-SERVICES");
  batch.SetHook("POSTROUTING").JumpTo("KUBE-POSTROUTING");
  batch.SetChain("KUBE-SERVICES");
  for (const auto& [protocol, target] :
       {std::pair(IPPROTO_TCP, Target::kJump), {IPPROTO_SCTP, Target::kGoto}}) {
    RuleRecord& rule = batch.JumpTo("KUBE-SVC-A", target);
    std::ranges::copy(vip, rule.destination);
    rule.destination_prefix = host;
    rule.protocol = static_cast<uint8_t>(protocol);
    rule.matches = kDestinationPorts;
    rule.destination_port_from = 80;
    rule.destination_port_to = protocol == IPPROTO_TCP ? 80 : 90;
    if (protocol == IPPROTO_TCP) rule.comment = comment;
  }
  RuleRecord& node_ports = batch.JumpTo("KUBE-SVC-A");
  node_ports.matches = kAddressType;
  node_ports.address_type = 2;
  batch.SetChain("KUBE-SVC-A");
  RuleRecord& outside = batch.JumpTo("KUBE-MARK-MASQ");
  std::ranges::copy(vip, outside.source);
  outside.source_prefix = 8;
  outside.inverts = kInvertSource;
  RuleRecord& again = dnat(IPPROTO_TCP);
  again.matches = kRecent | kStatistic;
  again.probability = 0x40000000;
  again.recent_list = list;
  again.recent_check = 1;
  again.recent_seconds = 10800;
  RuleRecord& first = dnat(IPPROTO_UDP);
  first.matches = kRecent | kSourcePorts;
  first.source_port_from = first.source_port_to = 5;
  first.recent_list = list;
  batch.SetChain("KUBE-MARK-MASQ").Rule(Target::kMark).target_value = 0x4000;
  batch.rules().back().target_mask = 0x4000;
  batch.SetChain("KUBE-POSTROUTING");
  RuleRecord& hairpin = batch.Rule(Target::kMasquerade);
  hairpin.matches = kState | kSourceDestination;
  hairpin.state = 0x80;
  RuleRecord& unmarked = batch.Rule(Target::kReturn);
  unmarked.matches = kMark;
  unmarked.mark_value = unmarked.mark_mask = 0x4000;
  unmarked.inverts = kInvertMark;
  RuleRecord& marked = batch.Rule(Target::kMasquerade);
  marked.target_value = 1;
  marked.out_interface = wild;
  marked.inverts = kInvertOutInterface;
  return batch;
}

TEST_P(XtablesKernel, ToolsPrintTheRules) {
  XtablesTable table = Open("nat");
  EXPECT_TRUE(Apply(table, NatRules(Address(1), Address(2), host())).is_written);
  const std::string net = is_ipv4() ? "10.0.0.0/8" : "fd00::/8";
  const std::string vip = Word("1") + (is_ipv4() ? "/32" : "/128");
  const std::string to = is_ipv4() ? "10.0.0.2:8080" : "[fd00::2]:8080";
  const std::string mask = is_ipv4() ? "255.255.255.255" : "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
  const std::string program =
      is_ipv4() ? "6,32 0 0 12,7 0 0 0,32 0 0 16,29 0 1 0,6 0 0 4294967295,6 0 0 0"
                : "18,32 0 0 8,7 0 0 0,32 0 0 24,29 0 13 0,32 0 0 12,7 0 0 0,32 0 0 28,29 0 9 0,"
                  "32 0 0 16,7 0 0 0,32 0 0 32,29 0 5 0,32 0 0 20,7 0 0 0,32 0 0 36,29 0 1 0,"
                  "6 0 0 4294967295,6 0 0 0";
  EXPECT_EQ(Save("nat"),
            "[0:0] -A OUTPUT -j KUBE-SERVICES\n"
            "[0:0] -A POSTROUTING -j KUBE-POSTROUTING\n"
            "[0:0] -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n"
            "[0:0] -A KUBE-POSTROUTING -m conntrack --ctstate DNAT -m bpf --bytecode \"" +
                program +
                "\" -j MASQUERADE\n"
                "[0:0] -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN\n"
                "[0:0] -A KUBE-POSTROUTING ! -o veth+ -j MASQUERADE --random-fully\n"
                "[0:0] -A KUBE-SERVICES -d " +
                vip +
                " -p tcp -m tcp --dport 80 -m comment --comment \"ns/web:http \\\"cluster\\\" IP\" "
                "-j KUBE-SVC-A\n"
                "[0:0] -A KUBE-SERVICES -d " +
                vip +
                " -p sctp -m sctp --dport 80:90 -g KUBE-SVC-A\n"
                "[0:0] -A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-SVC-A\n"
                "[0:0] -A KUBE-SVC-A ! -s " +
                net +
                " -j KUBE-MARK-MASQ\n"
                "[0:0] -A KUBE-SVC-A -p tcp -m statistic --mode random --probability 0.50000000000 -m recent "
                "--rcheck --seconds 10800 --reap --name KUBE-SEP-X --mask " +
                mask + " --rsource -j DNAT --to-destination " + to +
                "\n"
                "[0:0] -A KUBE-SVC-A -p udp -m udp --sport 5 -m recent --set --name KUBE-SEP-X --mask " +
                mask + " --rsource -j DNAT --to-destination " + to + "\n");
  ExpectRight(table);
}

TEST_P(XtablesKernel, FilterRules) {
  XtablesTable table = Open("filter");
  BatchBuilder batch;
  const uint32_t bridge = batch.Text("cni0");
  batch.SetHook("FORWARD");
  RuleRecord& invalid = batch.Rule(Target::kDrop);
  invalid.matches = kState;
  invalid.state = 0x01;
  RuleRecord& rejected = To(batch.Rule(Target::kReject), 7);
  rejected.protocol = IPPROTO_TCP;
  RuleRecord& accepted = batch.Rule(Target::kAccept);
  accepted.in_interface = bridge;
  accepted.matches = kState;
  accepted.state = 0x06;
  EXPECT_TRUE(Apply(table, batch).is_written);
  const std::string reject = is_ipv4() ? "icmp-port-unreachable" : "icmp6-port-unreachable";
  EXPECT_EQ(Save("filter"),
            "[0:0] -A FORWARD -m conntrack --ctstate INVALID -j DROP\n"
            "[0:0] -A FORWARD -d " +
                Word("7") + (is_ipv4() ? "/32" : "/128") + " -p tcp -j REJECT --reject-with " + reject +
                "\n"
                "[0:0] -A FORWARD -i cni0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n");
  ExpectRight(table);
}

TEST_P(XtablesKernel, ForeignRulesStayUnchanged) {
  const std::string nat = Tool() + " -t nat ";
  Shell(nat + "-N THEIRS");
  Shell(nat + "-A THEIRS -m limit --limit 3/min -c 1 10 -j RETURN");
  Shell(nat + "-A THEIRS -p tcp -m multiport --dports 1,2 -c 2 20 -j REDIRECT --to-ports 9");
  Shell(nat + "-A OUTPUT -p tcp -m hashlimit --hashlimit-above 9/sec --hashlimit-name x -c 3 30");
  Shell(nat + "-A OUTPUT -m owner --uid-owner 5 -c 5 50 -j THEIRS");
  const std::string before = Save("nat");
  XtablesTable table = Open("nat");
  Apply(table, NatRules(Address(1), Address(2), host()));
  ExpectRight(table);
  std::istringstream lines(before);
  const std::string with_ours = Save("nat");
  size_t at = 0;
  for (std::string line; std::getline(lines, line);) {
    at = with_ours.find(line + "\n", at);
    EXPECT_NE(at, std::string::npos) << line << " is not in, or not in this order:\n" << with_ours;
    if (at == std::string::npos) break;
  }
  Apply(table, BatchBuilder().SetHook("OUTPUT").SetHook("POSTROUTING"), {"KUBE-*"});
  BatchBuilder away;
  for (const char* chain : {"KUBE-SERVICES", "KUBE-SVC-A", "KUBE-MARK-MASQ", "KUBE-POSTROUTING"})
    away.RemoveChain(chain);
  Apply(table, away);
  EXPECT_EQ(Save("nat"), before);
}

/// One byte to the discard port of the loopback device, from a new socket: a new connection.
void SendDatagram(uint8_t family) {
  const Fd fd(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in to4{AF_INET, htons(9), {htonl(INADDR_LOOPBACK)}, {}};
  sockaddr_in6 to6{AF_INET6, htons(9), 0, in6addr_loopback, 0};
  const bool is_ipv4 = family == AF_INET;
  const auto* to =
      is_ipv4 ? reinterpret_cast<const sockaddr*>(&to4) : reinterpret_cast<const sockaddr*>(&to6);
  EXPECT_EQ(sendto(fd.get(), "x", 1, 0, to, is_ipv4 ? sizeof to4 : sizeof to6), 1) << errno;
}

TEST_P(XtablesKernel, PacketsCountedStayCounted) {
  Shell("ip link set lo up");
  XtablesTable table = Open("nat");
  BatchBuilder batch;
  batch.SetHook("OUTPUT").JumpTo("KUBE-SERVICES");
  batch.SetChain("KUBE-SERVICES").Rule(Target::kReturn).protocol = IPPROTO_UDP;
  // No packet passes table nat before a rule needs its connection.
  batch.SetChain("KUBE-UNUSED").Rule(Target::kDnat).protocol = IPPROTO_TCP;
  std::ranges::copy(Address(9), batch.rules().back().nat_address);
  Apply(table, batch);
  for (int i = 0; i < 3; ++i) SendDatagram(GetParam());
  const std::string three = is_ipv4() ? "[3:87] " : "[3:147] ";
  const std::string unused = "[0:0] -A KUBE-UNUSED -p tcp -j DNAT --to-destination " + Word("9") + "\n";
  EXPECT_EQ(Save("nat"),
            three + "-A OUTPUT -j KUBE-SERVICES\n" + three + "-A KUBE-SERVICES -p udp -j RETURN\n" + unused);
  EXPECT_EQ(table.CountPackets(std::vector<std::string>{"KUBE-SERVICES"}).value(), std::vector<Packets>{{3}});
  BatchBuilder more;
  more.SetChain("KUBE-SERVICES").Rule(Target::kAccept).protocol = IPPROTO_TCP;
  more.Rule(Target::kReturn).protocol = IPPROTO_UDP;
  Apply(table, more);
  EXPECT_EQ(Save("nat"), three + "-A OUTPUT -j KUBE-SERVICES\n[0:0] -A KUBE-SERVICES -p tcp -j ACCEPT\n" +
                             three + "-A KUBE-SERVICES -p udp -j RETURN\n" + unused);
  Shell("ip link set lo down");
}

TEST_P(XtablesKernel, ChangesOfAnInterleavingProgramAreKept) {
  Interleaver calls;
  XtablesTable table = Open("nat", calls);
  // Apply() holds the lock of the tests. These commands use another one.
  const std::string without_lock =
      "XTABLES_LOCKFILE=" + testing::TempDir() + "other.lock " + Tool() + " -t nat ";
  calls.commands = {without_lock + "-A OUTPUT -p tcp -c 1 2 -j ACCEPT", without_lock + "-N THEIRS"};
  const Outcome outcome = Apply(table, NatRules(Address(1), Address(2), host()));
  EXPECT_EQ(outcome.repeats, 2U);
  EXPECT_NE(Save("nat").find("[0:0] -A OUTPUT -j KUBE-SERVICES\n[1:2] -A OUTPUT -p tcp -j ACCEPT\n"),
            std::string::npos);
  EXPECT_EQ(table.ListChains().value().names.front(), "THEIRS");
  ExpectRight(table);
}

TEST_P(XtablesKernel, ForeignChangesAreFoundAndRepaired) {
  XtablesTable table = Open("nat");
  Apply(table, NatRules(Address(1), Address(2), host()));
  const std::string right = Save("nat");
  const std::pair<const char*, const char*> cases[] = {
      {"-F", "KUBE-MARK-MASQ KUBE-POSTROUTING KUBE-SERVICES KUBE-SVC-A OUTPUT POSTROUTING "},
      {"-D KUBE-SERVICES 2", "KUBE-SERVICES "},
      {"-D OUTPUT 1", "OUTPUT "},
      {"-R KUBE-MARK-MASQ 1 -j MARK --set-xmark 0x8000/0x8000", "KUBE-MARK-MASQ "},
      {"-A KUBE-SVC-A -j ACCEPT", "KUBE-SVC-A "},
  };
  for (const auto& [command, wanted] : cases) {
    Shell(Tool() + " -t nat " + command);
    Drift drift = table.Compare().value();
    std::ranges::sort(drift.changed);
    std::string changed;
    for (const std::string& name : drift.changed) changed += name + " ";
    EXPECT_EQ(changed, wanted) << command;
    EXPECT_TRUE(Apply(table, {}).is_written);
    EXPECT_EQ(Save("nat"), right) << command;
    ExpectRight(table);
  }
}

TEST_P(XtablesKernel, RulesWithSetsWorkAfterTheSetIsCreatedAgain) {
  const std::string family = is_ipv4() ? "inet" : "inet6";
  const std::string create = "ipset create KUBE-TEST hash:ip,port family " + family;
  Shell(create);
  XtablesTable table = Open("filter");
  BatchBuilder batch;
  const uint32_t name = batch.Text("KUBE-TEST");
  batch.SetChain("KUBE-A");
  RuleRecord& rule = batch.Rule(Target::kAccept);
  rule.matches = kSet;
  rule.set_name = name;
  rule.set_dimensions = 2;
  rule.set_sources = 0b01;
  Apply(table, batch);
  const std::string saved = "[0:0] -A KUBE-A -m set --match-set KUBE-TEST src,dst -j ACCEPT\n";
  EXPECT_EQ(Save("filter"), saved);
  ExpectRight(table);
  // The new set of the name gets another index.
  Shell(Tool() + " -F KUBE-A && ipset create KUBE-OTHER hash:ip && ipset destroy KUBE-TEST");
  EXPECT_EQ(table.Compare().error().operation, "find set KUBE-TEST of chain KUBE-A");
  Shell("ipset create KUBE-THIRD hash:ip && " + create);
  Apply(table, {});
  EXPECT_EQ(Save("filter"), saved);
  Apply(table, BatchBuilder().RemoveChain("KUBE-A"));
  Shell("ipset destroy");
}

// Issue 18, C3: the rule kept the old index of the set, which belonged to another set by then.
TEST_P(XtablesKernel, RulesThatMapThroughSetsWorkAfterTheSetIsCreatedAgain) {
  const std::string family = is_ipv4() ? "inet" : "inet6";
  const std::string create = "ipset create KUBE-TEST hash:ip,port skbinfo family " + family;
  Shell(create);
  XtablesTable table = Open("mangle");
  BatchBuilder batch;
  const uint32_t name = batch.Text("KUBE-TEST");
  batch.SetChain("KUBE-A");
  RuleRecord& rule = batch.Rule(Target::kMapMark);
  rule.set_name = name;
  rule.set_dimensions = 2;
  Apply(table, batch);
  const std::string saved = "[0:0] -A KUBE-A -j SET --map-set KUBE-TEST dst,dst --map-mark\n";
  EXPECT_EQ(Save("mangle"), saved);
  Shell(Tool() +
        " -t mangle -F KUBE-A && ipset destroy KUBE-TEST && ipset create KUBE-OTHER hash:ip family " +
        family + " && " + create);
  Apply(table, {});
  EXPECT_EQ(Save("mangle"), saved);
  Apply(table, BatchBuilder().RemoveChain("KUBE-A"));
  Shell("ipset destroy");
}

// Issue 18, C2. The kernel checks the rules and applies none.
TEST_P(XtablesKernel, RulesThatTheKernelRefusesAreFound) {
  XtablesTable table = Open("nat");
  Apply(table, NatRules(Address(1), Address(2), host()));
  const std::string before = Save("nat");
  BatchBuilder batch;
  for (int i = 0; i < 300; ++i) {
    batch.SetChain("KUBE-" + std::to_string(i)).JumpTo("KUBE-SERVICES");
    const uint32_t list = batch.Text(i % 100 == 7 ? ".." : "LIST");
    RuleRecord& rule = batch.Rule(Target::kReturn);
    rule.matches = kRecent;
    rule.recent_list = list;
  }
  EXPECT_EQ(table.Apply(batch.batch(), {}, milliseconds(0)).error().code, EINVAL);
  const std::vector<Refusal> refusals = table.FindRefusals().value();
  std::string found;
  for (const Refusal& refusal : refusals)
    found +=
        refusal.chain + " " + std::to_string(refusal.rule) + " " + std::to_string(refusal.error.code) + "\n";
  EXPECT_EQ(found, "KUBE-7 1 22\nKUBE-107 1 22\nKUBE-207 1 22\n");
  EXPECT_EQ(Save("nat"), before);
  EXPECT_FALSE(std::filesystem::exists("/proc/net/xt_recent/LIST"));
  Apply(table, BatchBuilder().RemoveChain("KUBE-7").RemoveChain("KUBE-107").RemoveChain("KUBE-207"));
  EXPECT_TRUE(table.FindRefusals().value().empty());
}

TEST_P(XtablesKernel, MarkUsesAreFound) {
  Shell(Tool() + " -t mangle -N MINE");
  for (const std::string rule : {
           "PREROUTING -p tcp -m mark --mark 0x4000/0x4000 -j MARK --or-mark 0x8000",
           "PREROUTING -m mark ! --mark 0x0/0xff -j ACCEPT",  // expects no bit to be 1
           "MINE -j MARK --set-xmark 0x0/0x4000",             // clears a bit
           "MINE -m comment --comment x -m mark --mark 0x1 -j MINE2",
           "MINE -j CONNMARK --restore-mark",
       }) {
    if (rule.ends_with("MINE2")) Shell(Tool() + " -t mangle -N MINE2");
    Shell(Tool() + " -t mangle -A " + rule);
  }
  std::string found;
  XtablesTable table = Open("mangle");
  const std::vector<MarkUse> uses = table.FindMarkUses().value();
  for (const MarkUse& use : uses)
    found += use.chain + " " + std::to_string(use.rule) + (use.is_set ? " sets " : " expects ") +
             std::to_string(use.bits) + "\n";
  EXPECT_EQ(found, "PREROUTING 0 expects 16384\nPREROUTING 0 sets 32768\nMINE 1 expects 1\n");
  Shell(Tool() + " -t mangle -F && " + Tool() + " -t mangle -X");
}

TEST_P(XtablesKernel, RefusalsOfTheKernel) {
  XtablesTable table = Open("nat");
  BatchBuilder loop;
  loop.SetHook("OUTPUT").JumpTo("KUBE-A");
  loop.SetChain("KUBE-A").JumpTo("KUBE-A");
  auto outcome = table.Apply(loop.batch(), {}, milliseconds(0));
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code, ELOOP);
  Apply(table, BatchBuilder().SetHook("OUTPUT").RemoveChain("KUBE-A"));
  EXPECT_EQ(Save("nat"), "");
  XtablesTable unknown = Open("nosuch");
  EXPECT_EQ(unknown.Check().error().code, ENOENT);
}

INSTANTIATE_TEST_SUITE_P(Families, XtablesKernel, testing::Values(AF_INET, AF_INET6),
                         [](const auto& tested) { return tested.param == AF_INET ? "Ipv4" : "Ipv6"; });

}  // namespace
}  // namespace viaduct::xtables
