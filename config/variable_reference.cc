#include "config/variable_reference.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "config/json_value.h"

namespace paramd {
namespace {

bool IsWordCharacter(char c) { return absl::ascii_isalnum(c) || c == '_'; }

}  // namespace

absl::string_view UnexpandedReference(absl::string_view text) {
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    const char c = text[i];
    if (c != '$' && c != '%') continue;
    const bool is_enclosed = text[i + 1] == '(' || text[i + 1] == '{';
    size_t end = i + 1 + (c == '$' && is_enclosed ? 1 : 0);
    const size_t begin = end;
    while (end < text.size() && IsWordCharacter(text[end])) ++end;
    if (end == begin) continue;
    const char closing = end < text.size() ? text[end] : '\0';
    if (c == '$' && !is_enclosed) return text.substr(i, end - i);
    const bool is_closed =
        c == '%' ? closing == '%' : closing == ')' || closing == '}';
    if (is_closed) return text.substr(i, end + 1 - i);
  }
  return "";
}

std::string UnexpandedSentence(absl::string_view reference,
                               absl::string_view source) {
  return absl::StrCat("the variable reference `", Excerpt(reference),
                      "` was not expanded; define that variable before ",
                      source,
                      " (Kubernetes expands $(NAME) of variables that stand "
                      "earlier in the same container)");
}

}  // namespace paramd
