#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace viaduct {

/// Bytes of annotated hex text: "#" starts a comment that ends with the line.
std::vector<uint8_t> FromHex(std::string_view text);

/// Compares bytes with annotated hex and shows, line by line, expected and actual bytes; ">" marks wrong
/// lines.
testing::AssertionResult HasBytes(std::span<const uint8_t> actual, std::string_view golden);

}  // namespace viaduct
