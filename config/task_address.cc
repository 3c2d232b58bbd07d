#include "config/task_address.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "config/json_value.h"
#include "config/variable_reference.h"

namespace paramd {
namespace {

bool IsDigits(absl::string_view text) {
  return !text.empty() && absl::c_all_of(text, absl::ascii_isdigit);
}

absl::optional<std::string> WrongHost(absl::string_view host) {
  const bool has_brackets = absl::StartsWith(host, "[") &&
                            absl::EndsWith(host, "]") && host.size() > 2;
  if (has_brackets) host = host.substr(1, host.size() - 2);
  const bool is_ipv6 = absl::StrContains(host, ":");
  // Some read the last of "fe80::1:7077" as a port, some as an address. "::" is
  // nobody's: see IsPlaceholder.
  if (is_ipv6 && !has_brackets && host != "::") {
    return absl::StrCat("\"", Excerpt(host),
                        "\" for a host; an IPv6 address stands in brackets, as "
                        "in [::1]:7077");
  }
  const auto is_allowed = [is_ipv6](char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_' ||
           (is_ipv6 && (c == ':' || c == '%'));
  };
  if (host.empty() || host.size() > 253 || (has_brackets && !is_ipv6) ||
      !absl::c_all_of(host, is_allowed)) {
    return absl::StrCat("\"", Excerpt(host),
                        "\" for a host; wants a name or an IP address");
  }
  return absl::nullopt;
}

// Where the digits begin that end the first label of `host`; where they end.
std::pair<size_t, size_t> OrdinalWithin(absl::string_view host) {
  const size_t end = std::min(host.find_first_of(".:"), host.size());
  size_t begin = end;
  while (begin > 0 && absl::ascii_isdigit(host[begin - 1])) --begin;
  const bool has_dash = begin > 0 && host[begin - 1] == '-';
  return {has_dash ? begin : end, end};
}

// "{a..b}" of `text`, which begins with '{'.
struct Range {
  int first = 0;
  int last = 0;
  int width = 0;      // of a number with leading zeros
  size_t length = 0;  // of the whole, braces included
};

absl::StatusOr<Range> ReadRange(absl::string_view text) {
  const size_t end = text.find('}');
  const size_t dots = text.find("..");
  Range range;
  if (end != absl::string_view::npos && dots < end) {
    const absl::string_view first = text.substr(1, dots - 1);
    const absl::string_view last = text.substr(dots + 2, end - dots - 2);
    range.length = end + 1;
    range.width = first.size() > 1 && first[0] == '0'
                      ? static_cast<int>(std::min<size_t>(first.size(), 9))
                      : 0;
    if (IsDigits(first) && IsDigits(last) &&
        absl::SimpleAtoi(first, &range.first) &&
        absl::SimpleAtoi(last, &range.last) && range.first <= range.last) {
      return range;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"",
      Excerpt(text.substr(
          0, end == absl::string_view::npos ? text.size() : end + 1)),
      "\" is not a range; write {first..last}, for example {0..3}"));
}

}  // namespace

absl::optional<std::string> WrongAddress(absl::string_view address,
                                         absl::string_view source,
                                         int least_port) {
  const std::string quoted = absl::StrCat("\"", Excerpt(address), "\"");
  if (address.empty()) return "is empty; wants host:port";
  const absl::string_view reference = UnexpandedReference(address);
  if (!reference.empty()) return UnexpandedSentence(reference, source);
  if (absl::StrContains(address, "://")) {
    return absl::StrCat(quoted, " has a scheme; write host:port alone");
  }
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos || address.back() == ']') {
    return absl::StrCat(quoted, " has no port; write host:port");
  }
  const absl::string_view port = address.substr(colon + 1);
  if (!IsDigits(port)) {
    return absl::StrCat(quoted, " has \"", Excerpt(port),
                        "\" for a port; wants a number");
  }
  int number = 0;
  if (!absl::SimpleAtoi(port, &number) || number < least_port ||
      number > 65535) {
    return absl::StrCat(quoted, " has port ", Excerpt(port),
                        "; ports are from ", least_port, " to 65535");
  }
  const absl::optional<std::string> wrong = WrongHost(address.substr(0, colon));
  if (wrong.has_value()) return absl::StrCat(quoted, " has ", *wrong);
  return absl::nullopt;
}

bool IsPlaceholder(absl::string_view address) {
  const absl::string_view host = address.substr(0, address.rfind(':'));
  return host == "0.0.0.0" || host == "::" || host == "[::]";
}

absl::optional<std::string> WithOrdinal(absl::string_view address, int present,
                                        int index) {
  const auto [begin, end] = OrdinalWithin(address);
  if (address.substr(begin, end - begin) != absl::StrCat(present)) {
    return absl::nullopt;
  }
  return absl::StrCat(address.substr(0, begin), index, address.substr(end));
}

absl::optional<int> OrdinalOf(absl::string_view host_name) {
  const auto [begin, end] = OrdinalWithin(host_name);
  int number = 0;
  if (!absl::SimpleAtoi(host_name.substr(begin, end - begin), &number) ||
      number >= kMostTasks) {
    return absl::nullopt;
  }
  return number;
}

absl::StatusOr<std::vector<std::string>> ExpandRanges(absl::string_view text) {
  std::vector<std::string> results = {""};
  while (!text.empty()) {
    const size_t brace = std::min(text.find('{'), text.size());
    for (std::string& result : results) {
      absl::StrAppend(&result, text.substr(0, brace));
    }
    text.remove_prefix(brace);
    if (text.empty()) break;
    const absl::StatusOr<Range> range = ReadRange(text);
    if (!range.ok()) return range.status();
    text.remove_prefix(range->length);
    const uint64_t count = uint64_t{1} + range->last - range->first;
    if (count * results.size() > kMostTasks) {
      return absl::InvalidArgumentError(absl::StrCat(
          "stands for more than ", kMostTasks, " addresses; nobody has that"));
    }
    std::vector<std::string> longer;
    for (const std::string& result : results) {
      for (int number = range->first; number <= range->last; ++number) {
        longer.push_back(
            absl::StrFormat("%s%0*d", result, range->width, number));
      }
    }
    results.swap(longer);
  }
  return results;
}

}  // namespace paramd
