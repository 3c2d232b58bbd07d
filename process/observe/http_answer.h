#ifndef PARAMD_PROCESS_OBSERVE_HTTP_ANSWER_H_
#define PARAMD_PROCESS_OBSERVE_HTTP_ANSWER_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace paramd {

struct HttpRequest {
  std::string path;         // Without what follows '?'.
  std::string query;        // That.
  bool wants_html = false;  // As browsers do, and curl does not.
};
struct HttpResponse {
  int code = 200;
  std::string content_type;
  std::string body;
  // Further header fields, each ended by "\r\n".
  std::string header = {};
};
using HttpHandler = std::function<HttpResponse(const HttpRequest& request)>;

// Whether it answers a request for this host, without port or brackets. A page
// of a stranger that a browser here shows reaches us under a name of its own.
using HttpHostCheck = std::function<bool(absl::string_view host)>;

// The answer, as HTTP/1.1 has it, to the bytes of a request up to the empty
// line after its header fields, and maybe more: what `handler` says to GET and
// HEAD, 400, 405 or 421 to whatever it does not see. `is_ours` null: any host.
// Thread-safe as far as these two are.
std::string AnswerHttp(absl::string_view request, const HttpHandler& handler,
                       const HttpHostCheck& is_ours);

}  // namespace paramd

#endif  // PARAMD_PROCESS_OBSERVE_HTTP_ANSWER_H_
