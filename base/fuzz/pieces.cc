#include "base/fuzz/pieces.h"

#include <algorithm>

#include "absl/strings/ascii.h"

#include "base/check.h"

namespace paramd::fuzz {

uint64_t Pieces::Number(int bytes) {
  const absl::string_view taken = Take(static_cast<size_t>(bytes));
  uint64_t number = 0;
  for (size_t i = 0; i < taken.size(); ++i) {
    number |= uint64_t{static_cast<uint8_t>(taken[i])} << (8 * i);
  }
  return number;
}

absl::string_view Pieces::Take(size_t bytes) {
  const absl::string_view taken = left_.substr(0, bytes);
  left_.remove_prefix(taken.size());
  return taken;
}

void AddNumber(uint64_t number, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) {
    out->push_back(static_cast<char>(number >> (8 * i)));
  }
}

void AddSized(absl::string_view piece, std::string* out) {
  piece = piece.substr(0, 65535);
  AddNumber(piece.size(), 2, out);
  out->append(piece.data(), piece.size());
}

void CheckRefusal(const absl::Status& refused) {
  CHECK(!refused.ok(), "a refusal is one");
  CHECK(!refused.message().empty(), "a refusal says why");
}

void CheckPrintable(absl::string_view message) {
  CHECK(!message.empty(), "a refusal says why");
  CHECK(std::all_of(message.begin(), message.end(),
                    [](char c) {
                      return c == '\n' ||
                             absl::ascii_isprint(static_cast<unsigned char>(c));
                    }),
        "a sentence is printable");
}

}  // namespace paramd::fuzz
