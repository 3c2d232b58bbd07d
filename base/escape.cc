#include "base/escape.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_replace.h"

namespace paramd {
namespace {

unsigned char ByteAt(absl::string_view text, size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// Bytes of the UTF-8 sequence at the beginning of `text`; 0 if there is none.
// Overlong forms, surrogates and what lies above U+10FFFF count as none.
size_t SequenceLength(absl::string_view text) {
  const unsigned char first = ByteAt(text, 0);
  const size_t length = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  if (length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((ByteAt(text, i) & 0xc0) != 0x80) return 0;
  }
  if (first == 0xe0 && ByteAt(text, 1) < 0xa0) return 0;
  if (first == 0xed && ByteAt(text, 1) > 0x9f) return 0;
  if (first == 0xf0 && ByteAt(text, 1) < 0x90) return 0;
  if (first == 0xf4 && ByteAt(text, 1) > 0x8f) return 0;
  return length;
}

bool IsControl(absl::string_view sequence) {
  const unsigned char first = ByteAt(sequence, 0);
  if (sequence.size() == 2) return first == 0xc2 && ByteAt(sequence, 1) < 0xa0;
  return sequence.size() == 1 && first != '\n' && first != '\t' &&
         (first < 0x20 || first == 0x7f);
}

}  // namespace

std::string EscapeControls(absl::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const size_t valid = SequenceLength(text);
    const absl::string_view taken = text.substr(0, std::max<size_t>(valid, 1));
    text.remove_prefix(taken.size());
    if (valid > 0 && !IsControl(taken)) {
      result.append(taken.data(), taken.size());
      continue;
    }
    for (size_t i = 0; i < taken.size(); ++i) {
      const unsigned char byte = ByteAt(taken, i);
      result.append({'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]});
    }
  }
  return result;
}

std::string EscapeLine(absl::string_view text) {
  return EscapeControls(
      absl::StrReplaceAll(text, {{"\n", "\\n"}, {"\t", "\\t"}}));
}

std::string EscapeXml(absl::string_view text) {
  return absl::StrReplaceAll(
      EscapeLine(text),
      {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

}  // namespace paramd
