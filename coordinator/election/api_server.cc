#include "coordinator/election/api_server.h"

#include <curl/curl.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "checkpoint/file.h"

namespace paramd {
namespace {

constexpr uint64_t kMostAnswerBytes = 1 << 20;
constexpr uint64_t kMostSecretBytes = 1 << 20;

// Of one call. libcurl copies what it is told, but for the body and the error.
struct Exchange {
  std::string answer;
  char error[CURL_ERROR_SIZE] = "";
  curl_slist* headers = nullptr;

  ~Exchange() { curl_slist_free_all(headers); }
  void AddHeader(const std::string& line) {
    curl_slist* const longer = curl_slist_append(headers, line.c_str());
    if (longer != nullptr) headers = longer;
  }
};

size_t TakeAnswer(char* bytes, size_t size, size_t count, void* exchange) {
  std::string& answer = static_cast<Exchange*>(exchange)->answer;
  if (answer.size() + size * count > kMostAnswerBytes) return 0;
  answer.append(bytes, size * count);
  return size * count;
}

absl::StatusOr<std::string> ReadSecret(const std::string& directory,
                                       absl::string_view name) {
  auto text =
      ReadWholeFile(absl::StrCat(directory, "/", name), kMostSecretBytes);
  if (!text.ok()) return text.status();
  absl::StripAsciiWhitespace(&*text);
  if (!text->empty()) return *std::move(text);
  return absl::InvalidArgumentError(
      absl::StrCat("'", directory, "/", name, "' is empty"));
}

absl::Status NoServiceAccount(const absl::Status& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("chief_election: ", why.message(),
                   "; mount the files of a service account there (in the pod: "
                   "automountServiceAccountToken: true)"));
}

std::string WhyUnanswered(CURLcode code, const char* error) {
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return "no answer";
    case CURLE_WRITE_ERROR:
      return "its answer has more than 1 MiB";
    default:
      return error[0] != '\0' ? error : curl_easy_strerror(code);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ApiServer>> ApiServer::Create(
    const Options& options) {
  if (options.host.empty() || options.port.empty()) {
    return absl::InvalidArgumentError(
        "chief_election: a Lease needs a pod of Kubernetes: "
        "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both in "
        "the environment; elsewhere give etcd://HOST:PORT/PREFIX");
  }
  for (const char* const name : {"ca.crt", "token"}) {
    const auto text = ReadSecret(options.directory, name);
    if (!text.ok()) return NoServiceAccount(text.status());
  }
  static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
  CHECK(initialized == CURLE_OK, "libcurl can be initialized");
  return std::unique_ptr<ApiServer>(new ApiServer(options));
}

ApiServer::ApiServer(const Options& options)
    : options_(options),
      address_(absl::StrContains(options.host, ':')
                   ? absl::StrCat("[", options.host, "]:", options.port)
                   : absl::StrCat(options.host, ":", options.port)),
      curl_(curl_easy_init()) {
  CHECK(curl_ != nullptr, "there is memory for a connection");
}

ApiServer::~ApiServer() { curl_easy_cleanup(curl_); }

std::string ApiServer::name() const {
  return absl::StrCat("the API server at ", address_);
}

absl::StatusOr<std::string> ApiServer::OwnNamespace() const {
  auto text = ReadSecret(options_.directory, "namespace");
  if (!text.ok()) return NoServiceAccount(text.status());
  return text;
}

absl::StatusOr<ApiCalls::Answer> ApiServer::Call(absl::string_view verb,
                                                 const std::string& path,
                                                 const std::string& body) {
  const auto fail = [this](absl::string_view why) {
    return absl::UnavailableError(absl::StrCat(name(), ": ", why));
  };
  const auto token = ReadSecret(options_.directory, "token");
  if (!token.ok()) return fail(token.status().message());
  const std::string url = absl::StrCat("https://", address_, path);
  const std::string authority = absl::StrCat(options_.directory, "/ca.crt");
  const std::string method(verb);
  const long patience = absl::ToInt64Milliseconds(options_.patience);
  Exchange exchange;
  exchange.AddHeader(absl::StrCat("Authorization: Bearer ", *token));
  exchange.AddHeader("Accept: application/json");
  exchange.AddHeader("Content-Type: application/json");
  exchange.AddHeader("Expect:");  // No round trip before the body.
  const MutexLock lock(&mutex_);
  curl_easy_reset(curl_);  // Keeps the connection.
  curl_easy_setopt(curl_, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl_, CURLOPT_PROTOCOLS_STR, "https");
  curl_easy_setopt(curl_, CURLOPT_PROXY, "");
  curl_easy_setopt(curl_, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(curl_, CURLOPT_CAINFO, authority.c_str());
  curl_easy_setopt(curl_, CURLOPT_CAPATH, nullptr);
  curl_easy_setopt(curl_, CURLOPT_CA_CACHE_TIMEOUT, 0L);
  curl_easy_setopt(curl_, CURLOPT_TIMEOUT_MS, patience);
  curl_easy_setopt(curl_, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl_, CURLOPT_USERAGENT, "paramd");
  curl_easy_setopt(curl_, CURLOPT_HTTPHEADER, exchange.headers);
  curl_easy_setopt(curl_, CURLOPT_ERRORBUFFER, exchange.error);
  curl_easy_setopt(curl_, CURLOPT_WRITEFUNCTION, TakeAnswer);
  curl_easy_setopt(curl_, CURLOPT_WRITEDATA, &exchange);
  if (!body.empty()) {
    curl_easy_setopt(curl_, CURLOPT_POSTFIELDSIZE,
                     static_cast<long>(body.size()));
    curl_easy_setopt(curl_, CURLOPT_POSTFIELDS, body.c_str());
  }
  curl_easy_setopt(curl_, CURLOPT_CUSTOMREQUEST, method.c_str());
  const CURLcode code = curl_easy_perform(curl_);
  if (code != CURLE_OK) return fail(WhyUnanswered(code, exchange.error));
  long status = 0;
  curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
  return Answer{static_cast<int>(status), std::move(exchange.answer)};
}

}  // namespace paramd
