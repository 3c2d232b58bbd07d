// Whatever a connection says, it gets one answer of HTTP/1.1, of the length
// that it names, and no page under a name that is not this process's.

#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

#include "base/check.h"
#include "process/observe/http_answer.h"

namespace paramd {
namespace {

constexpr absl::string_view kLength = "\r\nContent-Length: ";

void CheckAnswer(absl::string_view answer, bool is_head) {
  CHECK(absl::StartsWith(answer, "HTTP/1.1 "), "an answer is one of HTTP/1.1");
  const size_t end = answer.find("\r\n\r\n");
  CHECK(end != absl::string_view::npos, "its header ends");
  const absl::string_view body = answer.substr(end + 4);
  absl::string_view length = answer.substr(answer.find(kLength));
  CHECK(absl::StartsWith(length, kLength), "it says its length");
  length.remove_prefix(kLength.size());
  uint64_t bytes = 0;
  CHECK(absl::SimpleAtoi(length.substr(0, length.find('\r')), &bytes),
        "which is a number");
  CHECK(is_head ? body.empty() : body.size() == bytes, "and is right");
}

void Check(absl::string_view request) {
  bool asked = false;
  bool checked = false;
  bool is_ours = true;
  const std::string answer = AnswerHttp(
      request,
      [&](const HttpRequest& page) {
        asked = true;
        CHECK(page.path.find_first_of("?\r\n ") == std::string::npos,
              "a path is one word");
        return HttpResponse{200, "text/plain", "a page\n"};
      },
      [&](absl::string_view host) {
        checked = true;
        is_ours = is_ours && host == "localhost";
        return host == "localhost";
      });
  CHECK(!asked || !checked || is_ours, "no page for another name");
  CheckAnswer(answer, asked && absl::StartsWith(request, "HEAD "));
}

}  // namespace
}  // namespace paramd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paramd::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}
