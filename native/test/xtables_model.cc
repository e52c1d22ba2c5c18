#include "xtables_model.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <sstream>

#include "xtables/entry_builder.h"

namespace viaduct::xtables {

namespace {

int Fail(int code) {
  errno = code;
  return -1;
}

uint32_t HookNumber(std::string_view name) {
  for (uint32_t hook = 0; hook < NF_INET_NUMHOOKS; ++hook)
    if (name == HookName(hook)) return hook;
  return kNone;
}

void AddVerdict(int32_t verdict, uint8_t destination, Bytes& bytes) {
  EntryBuilder entry(kIpv4, bytes);
  ipt_ip header;
  memset(&header, 0, sizeof header);
  if (destination != 0) {
    const uint8_t address[4] = {10, 0, 0, destination};
    memcpy(&header.dst, address, sizeof address);
    memset(&header.dmsk, 0xff, sizeof header.dmsk);
  }
  entry.SetHeader(header);
  entry.SetTarget<int32_t>("", 0, [=](int32_t& data) { data = verdict; });
}

std::string Lead(const TableImage& image, uint32_t offset) {
  const EntryView entry = image.At(offset);
  const auto jump = image.JumpAt(offset);
  if (!jump.ok()) return "?";
  if (jump.value())
    return jump.value()->chain == kNone ? std::string("next")
                                        : std::string(image.chains()[jump.value()->chain].name);
  const auto verdict = entry.VerdictOffset();
  if (!verdict) return reinterpret_cast<const char*>(entry.bytes()) + entry.target_offset() + kExtensionName;
  switch (Load<int32_t>(entry.bytes() + *verdict)) {
    case kAcceptVerdict:
      return "ACCEPT";
    case kDropVerdict:
      return "DROP";
    case kReturnVerdict:
      return "RETURN";
    default:
      return "?";
  }
}

/// One rule of SetText(), to be encoded when the offsets of chains are known.
struct Word {
  uint8_t destination = 0;
  std::string lead;
  uint64_t packets = 0;
};

Word ParseWord(std::string text) {
  Word word;
  if (const size_t bracket = text.find('['); bracket != std::string::npos) {
    word.packets = std::stoull(text.substr(bracket + 1));
    text.resize(bracket);
  }
  if (const size_t arrow = text.find('>'); arrow != std::string::npos) {
    word.destination = static_cast<uint8_t>(std::stoul(text.substr(0, arrow)));
    text.erase(0, arrow + 1);
  }
  word.lead = text;
  return word;
}

}  // namespace

ModelTable::ModelTable() {
  SetText("PREROUTING: ACCEPT\nINPUT: ACCEPT\nOUTPUT: ACCEPT\nPOSTROUTING: ACCEPT\n");
}

void ModelTable::SetText(std::string_view text) {
  info_ = {};
  bytes_.clear();
  counters_.clear();
  std::map<std::string, uint32_t> rules_of;
  std::vector<std::pair<size_t, std::string>> jumps;  // offset of the entry
  const auto count = [&](uint64_t packets) {
    counters_.push_back({packets, packets * 100});
    ++info_.entries;
  };
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    const std::string name = line.substr(0, colon);
    const uint32_t hook = HookNumber(name);
    if (hook == kNone) {
      AddHead(kIpv4, name, bytes_);
      count(0);
    } else {
      info_.valid_hooks |= 1U << hook;
      info_.hook_entry[hook] = static_cast<uint32_t>(bytes_.size());
    }
    rules_of[name] = static_cast<uint32_t>(bytes_.size());
    std::istringstream words(line.substr(colon + 1));
    for (std::string text_of_word; words >> text_of_word;) {
      if (text_of_word.ends_with(',')) text_of_word.pop_back();
      const Word word = ParseWord(text_of_word);
      const int32_t verdict = word.lead == "ACCEPT"   ? kAcceptVerdict
                              : word.lead == "DROP"   ? kDropVerdict
                              : word.lead == "RETURN" ? kReturnVerdict
                                                      : 0;
      if (hook != kNone) info_.underflow[hook] = static_cast<uint32_t>(bytes_.size());
      if (verdict == 0) jumps.emplace_back(bytes_.size(), word.lead);
      AddVerdict(verdict, word.destination, bytes_);
      count(word.packets);
    }
  }
  AddHead(kIpv4, "ERROR", bytes_);
  count(0);
  info_.bytes = static_cast<uint32_t>(bytes_.size());
  for (const auto& [at, name] : jumps) {
    const EntryView entry(kIpv4, bytes_.data() + at);
    const auto target = name == "next" ? static_cast<uint32_t>(at) + entry.size() : rules_of.at(name);
    Store(bytes_.data() + at + *entry.VerdictOffset(), target);
  }
}

void ModelTable::LeadAstray(std::string_view chain) {
  const TableImage image = TableImage::Parse(kIpv4, bytes_, info_).value();
  for (uint32_t offset = 0; offset < bytes_.size(); offset += image.At(offset).size()) {
    const auto jump = image.JumpAt(offset).value();
    if (!jump || jump->chain == kNone || image.chains()[jump->chain].name != chain) continue;
    Store(bytes_.data() + jump->verdict, image.chains()[jump->chain].begin);
    return;
  }
}

std::string ModelTable::Text() const {
  auto image = TableImage::Parse(kIpv4, bytes_, info_);
  if (!image.ok()) return image.error().text;
  std::string text;
  const auto describe = [&](const ImageChain& chain) {
    text += std::string(chain.name) + ":";
    uint32_t number = chain.first_entry + (chain.rules != chain.begin ? 1 : 0);
    for (uint32_t offset = chain.rules; offset < chain.end; offset += image.value().At(offset).size()) {
      const uint8_t destination = bytes_[offset + offsetof(ipt_ip, dst) + 3];
      text += offset == chain.rules ? " " : ", ";
      if (destination != 0) text += std::to_string(destination) + ">";
      text += Lead(image.value(), offset);
      const xt_counters& counters = counters_[number++];
      if (counters.pcnt != 0) text += "[" + std::to_string(counters.pcnt) + "]";
      if (counters.bcnt != counters.pcnt * 100) text += "!";
    }
    text += '\n';
  };
  std::ranges::for_each(image.value().built_in(), describe);
  std::ranges::for_each(image.value().chains(), describe);
  return text;
}

int ModelTable::Get(int name, void* value, socklen_t length) {
  switch (name) {
    case IPT_SO_GET_INFO: {
      if (info_error != 0) return info_error;
      ipt_getinfo info{};
      info.valid_hooks = info_.valid_hooks;
      std::ranges::copy(info_.hook_entry, info.hook_entry);
      std::ranges::copy(info_.underflow, info.underflow);
      for (uint32_t hook = 0; hook < NF_INET_NUMHOOKS; ++hook)
        if ((info_.valid_hooks >> hook & 1) == 0) info.hook_entry[hook] = info.underflow[hook] = 0xffffffff;
      info.num_entries = info_.entries;
      info.size = info_.bytes;
      memcpy(value, &info, sizeof info);
      return 0;
    }
    case IPT_SO_GET_ENTRIES:
      return GetEntries(static_cast<uint8_t*>(value), length);
    default:
      return GetRevision(value);
  }
}

int ModelTable::GetRevision(void* value) const {
  ++revision_questions_;
  xt_get_revision query{};
  memcpy(&query, value, sizeof query);
  return missing == query.name ? ENOENT : 0;
}

int ModelTable::GetEntries(uint8_t* value, socklen_t length) {
  constexpr size_t kHeader = offsetof(ipt_get_entries, entrytable);
  if (length != kHeader + bytes_.size()) return EAGAIN;
  ++reads_;
  memcpy(value + kHeader, bytes_.data(), bytes_.size());
  uint8_t* entry = value + kHeader;
  for (const xt_counters& counters : counters_) {
    Store(entry + kIpv4.comefrom, uint32_t{0x15});  // hooks that reach it
    Store(entry + kIpv4.counters, counters);
    entry += EntryView(kIpv4, entry).size();
  }
  return 0;
}

int ModelTable::Replace(std::span<const uint8_t> value) {
  before_replace();
  ipt_replace header{};
  constexpr size_t kHeader = offsetof(ipt_replace, entries);
  memcpy(&header, value.data(), kHeader);
  if (replace_error != 0) return std::exchange(replace_error, 0);
  ++tries_;
  if (header.size != value.size() - kHeader || header.valid_hooks != info_.valid_hooks) return EINVAL;
  TableInfo next{header.valid_hooks, {}, {}, header.num_entries, header.size};
  std::ranges::copy(header.hook_entry, next.hook_entry.begin());
  std::ranges::copy(header.underflow, next.underflow.begin());
  const auto entries = value.subspan(kHeader);
  for (uint32_t offset = 0; bad != 0 && offset < entries.size();) {
    if (entries[offset + offsetof(ipt_ip, dst) + 3] == bad) return EINVAL;
    offset += EntryView(kIpv4, entries.data() + offset).size();
  }
  if (header.num_counters != counters_.size()) return EAGAIN;
  auto image = TableImage::Parse(kIpv4, entries, next);
  if (!image.ok()) return EINVAL;
  std::ranges::copy(counters_, header.counters);
  bytes_.assign(entries.begin(), entries.end());
  info_ = next;
  counters_.assign(next.entries, {});
  ++replacements_;
  return 0;
}

int ModelTable::AddCounters(std::span<const uint8_t> value) {
  ++counter_additions_;
  xt_counters_info header{};
  constexpr size_t kHeader = offsetof(xt_counters_info, counters);
  memcpy(&header, value.data(), kHeader);
  if (header.num_counters != counters_.size()) return EINVAL;
  for (size_t i = 0; i < counters_.size(); ++i) {
    const auto added = Load<xt_counters>(value.data() + kHeader + i * sizeof(xt_counters));
    counters_[i].pcnt += added.pcnt;
    counters_[i].bcnt += added.bcnt;
  }
  return 0;
}

// Sockets are handed to Fd, which closes them: real ones.
int ModelTable::Socket(int domain, int type, int protocol) { return socket(domain, type, protocol); }
int ModelTable::Bind(int, const sockaddr*, socklen_t) { return Fail(ENOSYS); }
ssize_t ModelTable::Send(int, const msghdr*, int) { return Fail(ENOSYS); }
ssize_t ModelTable::Receive(int, msghdr*, int) { return Fail(ENOSYS); }
int ModelTable::Poll(pollfd*, nfds_t, int) { return Fail(ENOSYS); }

int ModelTable::GetOption(int, int, int name, void* value, socklen_t* length) {
  const int code = Get(name, value, *length);
  return code == 0 ? 0 : Fail(code);
}

int ModelTable::SetOption(int, int, int name, std::span<const uint8_t> value) {
  const int code = name == IPT_SO_SET_REPLACE ? Replace(value) : AddCounters(value);
  return code == 0 ? 0 : Fail(code);
}

}  // namespace viaduct::xtables
