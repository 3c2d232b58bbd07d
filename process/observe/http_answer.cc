#include "process/observe/http_answer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace paramd {
namespace {

// "host:port", "[host]:port" or "host" without the rest.
absl::string_view HostIn(absl::string_view value) {
  if (absl::ConsumePrefix(&value, "[")) {
    return value.substr(0, value.find(']'));
  }
  return value.substr(0, value.find(':'));
}

// What a request says in the header fields of this name.
std::vector<absl::string_view> FieldsOf(absl::string_view request,
                                        absl::string_view name) {
  std::vector<absl::string_view> values;
  for (const absl::string_view line :
       absl::StrSplit(request.substr(0, request.find("\r\n\r\n")), "\r\n")) {
    const size_t colon = line.find(':');
    if (colon != absl::string_view::npos &&
        absl::EqualsIgnoreCase(line.substr(0, colon), name)) {
      values.push_back(absl::StripAsciiWhitespace(line.substr(colon + 1)));
    }
  }
  return values;
}

absl::string_view ReasonOf(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 421:
      return "Misdirected Request";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return "Bad Request";
  }
}

std::string Render(const HttpResponse& response, bool with_body) {
  return absl::StrCat("HTTP/1.1 ", response.code, " ", ReasonOf(response.code),
                      "\r\nContent-Type: ", response.content_type,
                      "\r\nContent-Length: ", response.body.size(),
                      "\r\nConnection: close\r\n", response.header, "\r\n",
                      with_body ? response.body : "");
}

// A request that names no host does not come from a page.
bool IsForUs(absl::string_view request, const HttpHostCheck& is_ours) {
  if (is_ours == nullptr) return true;
  const std::vector<absl::string_view> hosts = FieldsOf(request, "host");
  return std::all_of(hosts.begin(), hosts.end(), [&](absl::string_view host) {
    return is_ours(HostIn(host));
  });
}

}  // namespace

std::string AnswerHttp(absl::string_view request, const HttpHandler& handler,
                       const HttpHostCheck& is_ours) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(request.substr(0, request.find("\r\n")), ' ');
  // A lone line feed would be the end of the line to others.
  if (words.size() != 3 || words[2].substr(0, 7) != "HTTP/1." ||
      std::any_of(words[1].begin(), words[1].end(), absl::ascii_iscntrl)) {
    return Render({400, "text/plain", "this is no request of HTTP/1.1\n"},
                  true);
  }
  if (words[0] != "GET" && words[0] != "HEAD") {
    return Render({405, "text/plain", "only GET and HEAD are answered\n"},
                  true);
  }
  if (!IsForUs(request, is_ours)) {
    return Render({421, "text/plain", "the Host of the request is not this\n"},
                  true);
  }
  const std::pair<absl::string_view, absl::string_view> target =
      absl::StrSplit(words[1], absl::MaxSplits('?', 1));
  return Render(handler({std::string(target.first), std::string(target.second),
                         absl::StrContains(
                             absl::StrJoin(FieldsOf(request, "accept"), ","),
                             "text/html")}),
                words[0] == "GET");
}

}  // namespace paramd
