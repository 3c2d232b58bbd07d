#include "config/json_value.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

namespace paramd {
namespace {

using Kind = JsonValue::Kind;

constexpr size_t kQuotedLength = 40;

// Printable ASCII and nothing else; every other byte becomes '?', white space
// a blank.
std::string Printable(absl::string_view text) {
  std::string safe(text);
  for (char& c : safe) {
    if (absl::ascii_isspace(c)) c = ' ';
    if (!absl::ascii_isprint(c)) c = '?';
  }
  return safe;
}

// Hands the text to the parser and so knows how far the parser has read.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** furthest)
      : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& o) const { return at_ == o.at_; }
  bool operator!=(const CountingIterator& o) const { return at_ != o.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

// What a person most likely did where the parser stopped at `position`
// (1 is the first byte). Empty if nothing comes to mind.
std::string LikelySlip(absl::string_view text, size_t position) {
  if (text.empty() ||
      text.find_first_not_of(" \t\r\n") == absl::string_view::npos) {
    return "; it is empty";
  }
  const size_t at = std::min(position == 0 ? 0 : position - 1, text.size() - 1);
  const absl::string_view before =
      absl::StripTrailingAsciiWhitespace(text.substr(0, at));
  const char last = before.empty() ? '\0' : before.back();
  const char here = text[at];
  if (here == '\'') return "; strings stand between double quotes in JSON";
  if ((here == '/' || here == '#')) return "; JSON has no comments";
  // A bare word, or an address whose digits were read as a number.
  const bool is_word = absl::ascii_isalpha(here) && !before.empty() &&
                       absl::StrContains("[,:{", last);
  const bool is_number =
      (here == '.' || here == ':') && absl::ascii_isdigit(last);
  if (is_word || is_number) {
    return "; text stands between double quotes in JSON";
  }
  if ((here == '}' || here == ']') && last == ',') {
    return absl::StrCat("; leave out the comma before '", std::string(1, here),
                        "'");
  }
  if ((here == '}' || here == ',' || here == ']') && last == ':') {
    return "; there is no value after ':' (an unset variable leaves such a "
           "hole)";
  }
  if (position > text.size()) return "; the end is missing";
  return "";
}

// Builds the tree. Stops the parser by returning false, with a mistake added.
class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeBuilder(absl::string_view text, const JsonSource& source,
              const JsonLimits& limits, Mistakes* mistakes)
      : text_(text),
        source_(source),
        limits_(limits),
        mistakes_(mistakes),
        furthest_(text.data()),
        counted_(text.data()) {}

  CountingIterator begin() { return {text_.data(), &furthest_}; }
  CountingIterator end() { return {text_.data() + text_.size(), &furthest_}; }
  JsonValue Take() { return std::move(root_); }

  bool null() override { return Put(Kind::kNull, 0); }
  bool boolean(bool value) override {
    Put(Kind::kBool, 0)->boolean = value;
    return true;
  }
  bool number_integer(number_integer_t value) override {
    JsonValue* number = Put(Kind::kNumber, 1);
    number->number = static_cast<double>(value);
    number->is_whole = true;
    number->is_negative = value < 0;
    number->magnitude =
        value < 0 ? 0 - static_cast<uint64_t>(value) : uint64_t(value);
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    JsonValue* number = Put(Kind::kNumber, 1);
    number->number = static_cast<double>(value);
    number->is_whole = true;
    number->magnitude = value;
    return true;
  }
  bool number_float(number_float_t value, const string_t&) override {
    JsonValue* number = Put(Kind::kNumber, 1);
    number->number = value;
    // 1e3 is as whole as 1000, as far as a double tells whole numbers apart.
    constexpr double kMost = uint64_t{1} << 53;
    number->is_whole = std::trunc(value) == value && std::abs(value) <= kMost;
    if (number->is_whole) {
      number->is_negative = value < 0;
      number->magnitude = static_cast<uint64_t>(std::abs(value));
    }
    number->is_negative = value < 0;
    return true;
  }
  bool string(string_t& value) override {
    if (!CheckString(value)) return false;
    Put(Kind::kString, 0)->text = std::move(value);
    return true;
  }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override { return Open(Kind::kObject); }
  bool end_object() override { return Close(); }
  bool start_array(std::size_t) override { return Open(Kind::kArray); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    if (!CheckString(name)) return false;
    Level& level = open_.back();
    const auto [first, is_new] = level.lines.emplace(name, Line(0));
    if (!is_new) {
      mistakes_->Add(source_.At(Line(0)), Path(name),
                     source_.has_lines
                         ? absl::StrCat("given twice, first in line ",
                                        first->second, "; keep one")
                         : "given twice; keep one");
      level.repeated.push_back(level.value->members.size());
    }
    level.next = name;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    const bool is_beyond = position > text_.size();
    mistakes_->Add(source_.At(Line(is_beyond ? 0 : 1)), "",
                   absl::StrCat("not valid JSON: ", What(error.what()),
                                Near(position), LikelySlip(text_, position)));
    return false;
  }

 private:
  struct Level {
    JsonValue* value;
    std::string next;                             // of an object: latest key
    absl::flat_hash_map<std::string, int> lines;  // of its keys
    std::vector<size_t> repeated;                 // members to leave out
  };

  // The parser's reason without its prefix and what it read.
  static std::string What(absl::string_view what) {
    const size_t prefix = what.find("] ");
    if (prefix != absl::string_view::npos) what.remove_prefix(prefix + 2);
    if (absl::StartsWith(what, "parse error")) {
      const size_t colon = what.find(": ");
      if (colon != absl::string_view::npos) what.remove_prefix(colon + 2);
    }
    absl::ConsumePrefix(&what, "syntax error while parsing ");
    std::string reason(what.substr(0, what.find("; last read")));
    const size_t expected = what.find("; expected");
    if (expected != absl::string_view::npos &&
        reason.find("; expected") == std::string::npos) {
      absl::StrAppend(&reason, what.substr(expected));
    }
    return Printable(reason.substr(0, 200));
  }

  std::string Near(size_t position) const {
    if (!source_.is_quoted) return "";
    constexpr size_t kBefore = 20;
    constexpr size_t kAfter = 12;
    const size_t at = std::min(position, text_.size());
    const size_t begin = at > kBefore ? at - kBefore : 0;
    const std::string fragment(text_.substr(begin, at - begin + kAfter));
    return absl::StrCat(" near `", Printable(fragment), "`");
  }

  bool CheckString(absl::string_view text) {
    if (text.find('\0') == absl::string_view::npos) return true;
    mistakes_->Add(source_.At(Line(0)), Path(""),
                   "a string holds a NUL character (\\u0000); remove it");
    return false;
  }

  // The line of what was read last, `lookahead` bytes back: the parser knows
  // where a number ends only by the byte after it.
  int Line(int lookahead) {
    const char* until = std::max(counted_, furthest_ - lookahead);
    line_ += static_cast<int>(std::count(counted_, until, '\n'));
    counted_ = until;
    return line_;
  }

  std::string Path(absl::string_view name) const {
    std::string path;
    for (size_t i = 0; i < open_.size(); ++i) {
      const JsonValue& value = *open_[i].value;
      if (value.kind == Kind::kArray) {
        const size_t index = value.elements.size();
        const bool is_inside = i + 1 < open_.size();
        absl::StrAppend(&path, "[", is_inside ? index - 1 : index, "]");
        continue;
      }
      const bool is_last = i + 1 == open_.size();
      const absl::string_view part =
          is_last && !name.empty() ? name : open_[i].next;
      if (part.empty()) continue;
      absl::StrAppend(&path, path.empty() ? "" : ".", Excerpt(part));
    }
    return path;
  }

  JsonValue* Put(Kind kind, int lookahead) {
    JsonValue value;
    value.kind = kind;
    value.line = Line(lookahead);
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Level& level = open_.back();
    if (level.value->kind == Kind::kArray) {
      level.value->elements.push_back(std::move(value));
      return &level.value->elements.back();
    }
    level.value->members.push_back({level.next, std::move(value)});
    return &level.value->members.back().value;
  }

  bool Open(Kind kind) {
    if (static_cast<int>(open_.size()) == limits_.most_depth) {
      mistakes_->Add(source_.At(Line(0)), "",
                     absl::StrCat("nested deeper than ", limits_.most_depth,
                                  " levels; nothing here needs that"));
      return false;
    }
    JsonValue* value = Put(kind, 0);
    open_.push_back({value, "", {}, {}});
    return true;
  }

  bool Close() {
    Level& level = open_.back();
    if (!level.repeated.empty()) {
      std::vector<JsonMember> kept;
      size_t skip = 0;
      for (size_t i = 0; i < level.value->members.size(); ++i) {
        if (skip < level.repeated.size() && level.repeated[skip] == i) {
          ++skip;
        } else {
          kept.push_back(std::move(level.value->members[i]));
        }
      }
      level.value->members = std::move(kept);
    }
    open_.pop_back();
    return true;
  }

  const absl::string_view text_;
  const JsonSource& source_;
  const JsonLimits limits_;
  Mistakes* const mistakes_;
  const char* furthest_;
  const char* counted_;
  int line_ = 1;
  // Pointers into root_ stay valid: while a value is open, its parent gets no
  // further elements.
  std::vector<Level> open_;
  JsonValue root_;
};

}  // namespace

const JsonValue* JsonValue::Find(absl::string_view name) const {
  for (const JsonMember& member : members) {
    if (member.name == name) return &member.value;
  }
  return nullptr;
}

std::string JsonValue::Describe() const {
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return boolean ? "true" : "false";
    case Kind::kNumber:
      if (!is_whole) return absl::StrFormat("%.9g", number);
      return absl::StrCat(is_negative ? "-" : "", magnitude);
    case Kind::kString:
      return absl::StrCat("\"", Excerpt(text), "\"");
    case Kind::kArray:
      return "a list";
    case Kind::kObject:
      return "an object";
  }
  return "";
}

absl::optional<JsonValue> ParseJson(absl::string_view text,
                                    const JsonSource& source,
                                    const JsonLimits& limits,
                                    Mistakes* mistakes) {
  if (text.size() > limits.most_bytes) {
    mistakes->Add(
        source.At(0), "",
        absl::StrCat(text.size(), " bytes are too many; the limit is ",
                     limits.most_bytes));
    return absl::nullopt;
  }
  // To the parser a NUL is the end, whatever follows.
  const size_t nul = text.find('\0');
  if (nul != absl::string_view::npos) {
    const auto line = std::count(text.begin(), text.begin() + nul, '\n') + 1;
    mistakes->Add(source.At(static_cast<int>(line)), "",
                  absl::StrCat("not valid JSON: a NUL byte at offset ", nul,
                               "; is this the right file?"));
    return absl::nullopt;
  }
  TreeBuilder builder(text, source, limits, mistakes);
  if (!nlohmann::json::sax_parse(builder.begin(), builder.end(), &builder)) {
    return absl::nullopt;
  }
  return builder.Take();
}

std::string Excerpt(absl::string_view text) {
  return text.size() <= kQuotedLength
             ? Printable(text)
             : Printable(text.substr(0, kQuotedLength)) + "...";
}

std::string QuoteJson(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", c);
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace paramd
