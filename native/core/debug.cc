#include "core/debug.h"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "core/message_reader.h"

namespace viaduct {

namespace {

template <typename... Values>
void Append(std::string& text, const char* format, Values... values) {
  char line[80];
  const int length = snprintf(line, sizeof line, format, values...);
  text.append(line, length > 0 ? static_cast<size_t>(length) : 0);
}

void AppendBytes(std::string& text, std::span<const uint8_t> bytes) {
  for (size_t start = 0; start < bytes.size(); start += 4) {
    const auto word = bytes.subspan(start, std::min<size_t>(4, bytes.size() - start));
    text += "| ";
    for (const uint8_t byte : word) Append(text, "%02x ", byte);
    text.append(3 * (4 - word.size()), ' ');
    text += "| ";
    for (const uint8_t byte : word) text += isprint(byte) != 0 ? static_cast<char>(byte) : ' ';
    text += '\n';
  }
}

}  // namespace

bool IsDebugging() {
  static const bool is_debugging = [] {
    const char* value = getenv("VIADUCT_NLDEBUG");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return is_debugging;
}

std::string FormatMessages(std::span<const uint8_t> datagram) {
  std::string text;
  MessageReader reader(datagram);
  while (const auto message = reader.Next()) {
    const nlmsghdr& header = message->header;
    text += "----------------\n";
    Append(text, "| %010u | message length\n", header.nlmsg_len);
    Append(text, "| %05u | %04x | type | flags\n", header.nlmsg_type, header.nlmsg_flags);
    Append(text, "| %010u | sequence number\n", header.nlmsg_seq);
    Append(text, "| %010u | port ID\n", header.nlmsg_pid);
    AppendBytes(text, message->payload);
  }
  text += reader.malformed() ? "---------------- malformed\n" : "----------------\n";
  return text;
}

void DebugMessages(const char* direction, std::span<const uint8_t> datagram) {
  if (!IsDebugging()) return;
  fprintf(stderr, "%s\n%s", direction, FormatMessages(datagram).c_str());
}

}  // namespace viaduct
