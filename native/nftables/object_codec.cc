#include "nftables/object_codec.h"

#include <arpa/inet.h>
#include <endian.h>

#include <algorithm>

#include "nftables/expression_table.h"

namespace viaduct::nftables {

namespace {

constexpr size_t kMaxRows = 32;  // bits of a presence word
constexpr uint32_t kWordsPerRegister = NFT_REG_SIZE / NFT_REG32_SIZE;

void PutExpression(MessageBuilder& builder, uint16_t type, StreamReader& stream);
bool ReadExpression(std::span<const uint8_t> bytes, StreamWriter& stream);

/// The number that nft_dump_register() of net/netfilter/nf_tables_api.c sends for a register: 1 to 4 for the
/// first word of a 16-byte register.
uint32_t RegisterNumber(uint32_t word) {
  if (word == kVerdictRegister) return NFT_REG_VERDICT;
  return word % kWordsPerRegister == 0 ? NFT_REG_1 + word / kWordsPerRegister : NFT_REG32_00 + word;
}

/// The opposite of RegisterNumber(). Nothing: no such register.
std::optional<uint32_t> RegisterWord(uint32_t number) {
  if (number == NFT_REG_VERDICT) return kVerdictRegister;
  if (number <= NFT_REG_4) return (number - NFT_REG_1) * kWordsPerRegister;
  if (number < NFT_REG32_00 || number > NFT_REG32_15) return std::nullopt;
  return number - NFT_REG32_00;
}

void PutRegister(MessageBuilder& builder, uint16_t type, StreamReader& stream) {
  const uint32_t word = stream.U32();
  if (word > kVerdictRegister) return stream.Fail();
  builder.U32(type, htonl(RegisterNumber(word)));
}

void PutNumber(MessageBuilder& builder, const AttributePolicy& row, StreamReader& stream) {
  if (row.kind == AttributeKind::kBe64) {
    const uint64_t number = htobe64(stream.U64());
    builder.Bytes(row.type, {reinterpret_cast<const uint8_t*>(&number), sizeof number});
  } else if (row.kind == AttributeKind::kU8) {
    builder.U8(row.type, static_cast<uint8_t>(stream.U32()));
  } else {
    builder.U32(row.type, htonl(stream.U32()));
  }
}

/// A nest of LIST_ELEMs. The stream has their number; `put` writes each.
template <typename Put>
void PutList(MessageBuilder& builder, uint16_t type, StreamReader& stream, Put put) {
  const uint32_t count = stream.U32();
  builder.Nest(type | NLA_F_NESTED, [&] {
    for (uint32_t i = 0; i < count && stream.ok(); ++i) put();
  });
}

void PutRow(MessageBuilder& builder, const AttributePolicy& row, StreamReader& stream) {
  switch (row.kind) {
    case AttributeKind::kString:
      return builder.String(row.type, stream.Text());
    case AttributeKind::kBinary:
      return builder.Bytes(row.type, stream.Bytes());
    case AttributeKind::kNested:
      return builder.Nest(row.type | NLA_F_NESTED, [&] { PutObject(builder, *row.nested, stream); });
    case AttributeKind::kList:
      return PutList(builder, row.type, stream, [&] {
        builder.Nest(NFTA_LIST_ELEM | NLA_F_NESTED, [&] { PutObject(builder, *row.nested, stream); });
      });
    case AttributeKind::kExpression:
      return PutExpression(builder, row.type, stream);
    case AttributeKind::kExpressions:
      return PutList(builder, row.type, stream, [&] { PutExpression(builder, NFTA_LIST_ELEM, stream); });
    case AttributeKind::kRegister:
      return PutRegister(builder, row.type, stream);
    default:
      return PutNumber(builder, row, stream);
  }
}

void PutExpression(MessageBuilder& builder, uint16_t type, StreamReader& stream) {
  const uint32_t kind = stream.U32();
  const auto known = KnownExpressions();
  if (kind > known.size()) return stream.Fail();
  builder.Nest(type | NLA_F_NESTED, [&] {
    if (kind == 0) {
      builder.String(NFTA_EXPR_NAME, stream.Text());
      return builder.Bytes(NFTA_EXPR_DATA | NLA_F_NESTED, stream.Bytes());
    }
    const ExpressionPolicy& expression = known[kind - 1];
    builder.String(NFTA_EXPR_NAME, expression.name);
    builder.Nest(NFTA_EXPR_DATA | NLA_F_NESTED, [&] { PutObject(builder, *expression.policy, stream); });
  });
}

/// The value of each row in the message.
struct Rows {
  std::span<const uint8_t> values[kMaxRows];
  uint32_t present = 0;
  bool has_others = false;  ///< attributes without a row
};

std::optional<Rows> FindRows(std::span<const uint8_t> attributes, const Policy& policy) {
  Rows rows;
  AttributeReader reader(attributes);
  while (const auto attribute = reader.Next()) {
    const AttributePolicy* row = policy.Find(attribute->type);
    if (row == nullptr) {
      rows.has_others = true;
      continue;
    }
    if (!HasRightSize(*row, attribute->value.size())) return std::nullopt;
    const auto index = static_cast<size_t>(row - policy.rows.data());
    rows.values[index] = attribute->value;
    rows.present |= 1U << index;
  }
  if (reader.malformed()) return std::nullopt;
  return rows;
}

template <typename Read>
bool ReadList(std::span<const uint8_t> value, StreamWriter& stream, Read read) {
  const size_t place = stream.size();
  stream.U32(0);
  uint32_t count = 0;
  AttributeReader items(value);
  while (const auto item = items.Next()) {
    if (!read(item->value)) return false;
    ++count;
  }
  stream.Patch(place, count);
  return !items.malformed();
}

bool ReadRegister(std::span<const uint8_t> value, StreamWriter& stream) {
  const auto word = RegisterWord(ntohl(ReadAs<uint32_t>(value)));
  if (word) stream.U32(*word);
  return word.has_value();
}

bool ReadRow(const AttributePolicy& row, std::span<const uint8_t> value, StreamWriter& stream) {
  switch (row.kind) {
    case AttributeKind::kString: {
      const auto* text = reinterpret_cast<const char*>(value.data());
      stream.Text({text, strnlen(text, value.size())});
      return true;
    }
    case AttributeKind::kBinary:
      stream.Bytes(value);
      return true;
    case AttributeKind::kNested:
      return ReadObject(value, *row.nested, stream);
    case AttributeKind::kList:
      return ReadList(value, stream, [&](auto item) { return ReadObject(item, *row.nested, stream); });
    case AttributeKind::kExpression:
      return ReadExpression(value, stream);
    case AttributeKind::kExpressions:
      return ReadList(value, stream, [&](auto item) { return ReadExpression(item, stream); });
    case AttributeKind::kRegister:
      return ReadRegister(value, stream);
    case AttributeKind::kBe64:
      stream.U64(be64toh(ReadAs<uint64_t>(value)));
      return true;
    case AttributeKind::kU8:
      stream.U32(value[0]);
      return true;
    default:
      stream.U32(ntohl(ReadAs<uint32_t>(value)));
      return true;
  }
}

bool ReadRows(const Rows& rows, const Policy& policy, StreamWriter& stream) {
  const size_t start = stream.size();
  stream.U32(rows.present);
  for (size_t i = 0; i < policy.rows.size(); ++i) {
    if ((rows.present & 1U << i) == 0 || ReadRow(policy.rows[i], rows.values[i], stream)) continue;
    stream.Truncate(start);
    return false;
  }
  return true;
}

/// Appends an expression if it has a policy and no other attributes. False: it does not; nothing was
/// appended.
bool ReadKnownExpression(std::string_view name, std::span<const uint8_t> data, StreamWriter& stream) {
  const auto known = KnownExpressions();
  const auto found = std::find_if(known.begin(), known.end(), [&](const ExpressionPolicy& expression) {
    return expression.name == name;
  });
  if (found == known.end()) return false;
  const auto rows = FindRows(data, *found->policy);
  if (!rows || rows->has_others) return false;
  const size_t start = stream.size();
  stream.U32(static_cast<uint32_t>(found - known.begin()) + 1);
  if (ReadRows(*rows, *found->policy, stream)) return true;
  stream.Truncate(start);
  return false;
}

constexpr AttributePolicy kExpressionRows[] = {
    {NFTA_EXPR_NAME, "NAME", AttributeKind::kString, 1, kMaxName},
    {NFTA_EXPR_DATA, "DATA", AttributeKind::kBinary, 0, UINT16_MAX},
};
constexpr Policy kExpressionPolicy{"NFTA_EXPR", kExpressionRows};

bool ReadExpression(std::span<const uint8_t> bytes, StreamWriter& stream) {
  AttributeTable<NFTA_EXPR_DATA> attributes;
  if (!attributes.Parse(bytes, kExpressionPolicy) || attributes.Text(NFTA_EXPR_NAME).empty()) return false;
  const auto data = attributes.Bytes(NFTA_EXPR_DATA);
  if (ReadKnownExpression(attributes.Text(NFTA_EXPR_NAME), data, stream)) return true;
  stream.U32(0);
  stream.Text(attributes.Text(NFTA_EXPR_NAME));
  stream.Bytes(data);
  return true;
}

std::string DescribeRow(const AttributePolicy& row);

std::string DescribeRows(const Policy& policy) {
  std::string text;
  for (const AttributePolicy& row : policy.rows) text += (text.empty() ? "" : " ") + DescribeRow(row);
  return text;
}

std::string DescribeRow(const AttributePolicy& row) {
  switch (row.kind) {
    case AttributeKind::kString:
      return "text";
    case AttributeKind::kBinary:
      return "bytes";
    case AttributeKind::kNested:
      return "{" + DescribeRows(*row.nested) + "}";
    case AttributeKind::kList:
      return "[{" + DescribeRows(*row.nested) + "}]";
    case AttributeKind::kRegister:
      return "register";
    case AttributeKind::kExpression:
      return "expression";
    case AttributeKind::kExpressions:
      return "[expression]";
    case AttributeKind::kBe64:
      return "u64";
    default:
      return "u32";
  }
}

}  // namespace

std::span<const ExpressionPolicy> KnownExpressions() { return kExpressions; }

void PutObject(MessageBuilder& builder, const Policy& policy, StreamReader& stream) {
  const uint32_t present = stream.U32();
  if (policy.rows.size() < kMaxRows && present >> policy.rows.size() != 0) return stream.Fail();
  for (size_t i = 0; i < policy.rows.size() && stream.ok(); ++i)
    if ((present & 1U << i) != 0) PutRow(builder, policy.rows[i], stream);
}

bool ReadObject(std::span<const uint8_t> attributes, const Policy& policy, StreamWriter& stream) {
  const auto rows = FindRows(attributes, policy);
  return rows && ReadRows(*rows, policy, stream);
}

std::string DescribeGrammar() {
  constexpr std::pair<const char*, const Policy*> kObjects[] = {
      {"table", &kTablePolicy},
      {"chain", &kChainPolicy},
      {"rule", &kRulePolicy},
      {"set", &kSetPolicy},
      {"named-counter", &kNamedCounterPolicy},
  };
  std::string text;
  for (const auto& [name, policy] : kObjects) text += std::string(name) + ": " + DescribeRows(*policy) + "\n";
  for (const ExpressionPolicy& expression : KnownExpressions())
    text += std::string(expression.name) + ": " + DescribeRows(*expression.policy) + "\n";
  return text;
}

}  // namespace viaduct::nftables
