#include "hex.h"

#include <cctype>
#include <cstdio>
#include <sstream>
#include <string>

namespace viaduct {

namespace {

std::string ToHex(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t byte : bytes) {
    char pair[4];
    snprintf(pair, sizeof pair, "%02x ", byte);
    text += pair;
  }
  return text;
}

}  // namespace

std::vector<uint8_t> FromHex(std::string_view text) {
  std::vector<uint8_t> bytes;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    for (std::string word; words >> word;)
      bytes.push_back(static_cast<uint8_t>(std::stoul(word, nullptr, 16)));
  }
  return bytes;
}

testing::AssertionResult HasBytes(std::span<const uint8_t> actual, std::string_view golden) {
  const std::vector<uint8_t> wanted = FromHex(golden);
  if (std::equal(wanted.begin(), wanted.end(), actual.begin(), actual.end()))
    return testing::AssertionSuccess();
  auto failure = testing::AssertionFailure()
                 << wanted.size() << " bytes wanted, " << actual.size() << " there\n";
  std::istringstream lines{std::string(golden)};
  std::span<const uint8_t> rest = actual;
  for (std::string line; std::getline(lines, line);) {
    const std::vector<uint8_t> part = FromHex(line);
    const auto there = rest.first(std::min(part.size(), rest.size()));
    rest = rest.subspan(there.size());
    if (std::equal(part.begin(), part.end(), there.begin(), there.end()))
      failure << "  " << line << '\n';
    else
      failure << "> " << line << "\n  there: " << ToHex(there) << '\n';
  }
  if (!rest.empty()) failure << "> left over: " << ToHex(rest) << '\n';
  return failure;
}

}  // namespace viaduct
