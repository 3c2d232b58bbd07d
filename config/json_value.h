#ifndef PARAMD_CONFIG_JSON_VALUE_H_
#define PARAMD_CONFIG_JSON_VALUE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "config/mistakes.h"

namespace paramd {

struct JsonMember;

// A piece of JSON that knows the line it stands in. Only the fields of its
// kind mean anything.
struct JsonValue {
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  int line = 0;  // from 1; of an object or a list: where it begins
  bool boolean = false;
  double number = 0;
  // A number that was written without fraction and exponent and fits into 64
  // bits: its amount and whether it is below zero.
  bool is_whole = false;
  bool is_negative = false;
  uint64_t magnitude = 0;
  std::string text;
  std::vector<JsonValue> elements;
  std::vector<JsonMember> members;  // in the order written, no name twice

  // The member of that name; null if there is none or this is no object.
  const JsonValue* Find(absl::string_view name) const;

  // For sentences: `"abc"`, `-1.5`, `a list`, `an object`. Short and
  // printable, whatever the value.
  std::string Describe() const;
};

struct JsonMember {
  std::string name;
  JsonValue value;
};

struct JsonLimits {
  size_t most_bytes = 1 << 20;
  int most_depth = 32;
};

// Where the text of ParseJson comes from.
struct JsonSource {
  std::string name;
  bool has_lines = true;  // false: mistakes name the source alone
  bool is_quoted = true;  // false: mistakes show nothing of it

  Place At(int line) const { return {name, has_lines ? line : 0}; }
};

// Reads hostile text: UTF-8 JSON (RFC 8259) without comments. A key that
// stands twice in an object is added to `mistakes`, its first value holds.
// Nullopt, with one mistake added, if the text is too long, too deep, not
// UTF-8, holds a NUL, a number beyond a double, or is not JSON; the sentence
// names the likely slip (a trailing comma, single quotes, a hole), and quotes
// what is around it.
absl::optional<JsonValue> ParseJson(absl::string_view text,
                                    const JsonSource& source,
                                    const JsonLimits& limits,
                                    Mistakes* mistakes);

// At most 40 bytes of `text`, white space as blanks, what is not printable
// ASCII as '?': a hostile value must neither fill the screen nor steer the
// terminal.
std::string Excerpt(absl::string_view text);

// `text` as a JSON string, quotes included.
std::string QuoteJson(absl::string_view text);

}  // namespace paramd

#endif  // PARAMD_CONFIG_JSON_VALUE_H_
