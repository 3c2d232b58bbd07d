#include "coordinator/election/testing/fake_api_server.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

using Object = nlohmann::json;

ApiCalls::Answer Failure(int code, const std::string& message) {
  return {code, Object{{"kind", "Status"}, {"message", message}}.dump()};
}

}  // namespace

class FakeApiServer::Connection final : public ApiCalls {
 public:
  explicit Connection(FakeApiServer* server) : server_(server) {}

  absl::StatusOr<Answer> Call(absl::string_view verb, const std::string& path,
                              const std::string& body) override {
    return server_->Call(verb, path, body);
  }
  absl::Duration patience() const override { return absl::Seconds(1); }
  std::string name() const override { return "the API server at fake:443"; }

 private:
  FakeApiServer* const server_;
};

std::unique_ptr<ApiCalls> FakeApiServer::Connect() {
  return std::make_unique<Connection>(this);
}

void FakeApiServer::GoAway() {
  const MutexLock lock(&mutex_);
  is_away_ = true;
}

void FakeApiServer::Return() {
  const MutexLock lock(&mutex_);
  is_away_ = false;
}

void FakeApiServer::LoseAnswers(int writes) {
  const MutexLock lock(&mutex_);
  answers_to_lose_ = writes;
}

void FakeApiServer::Forbid(const std::string& verb, bool forbidden) {
  const MutexLock lock(&mutex_);
  if (forbidden) {
    forbidden_.insert(verb);
  } else {
    forbidden_.erase(verb);
  }
}

nlohmann::json FakeApiServer::Get(const std::string& path) const {
  const MutexLock lock(&mutex_);
  const auto object = objects_.find(path);
  return object == objects_.end() ? Object() : object->second;
}

void FakeApiServer::Put(const std::string& path, nlohmann::json object) {
  const MutexLock lock(&mutex_);
  StoreLocked(path, std::move(object));
}

void FakeApiServer::Delete(const std::string& path) {
  const MutexLock lock(&mutex_);
  objects_.erase(path);
}

void FakeApiServer::StoreLocked(const std::string& path,
                                nlohmann::json object) {
  object["metadata"]["resourceVersion"] = absl::StrCat(++version_);
  objects_[path] = std::move(object);
}

ApiCalls::Answer FakeApiServer::WriteLocked(absl::string_view verb,
                                            const std::string& path,
                                            const std::string& body) {
  Object object = Object::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return Failure(400, "not JSON");
  if (verb == "POST") {
    const std::string whole =
        absl::StrCat(path, "/", object["metadata"]["name"].get<std::string>());
    if (objects_.count(whole) != 0) return Failure(409, "already exists");
    StoreLocked(whole, std::move(object));
    return {201, objects_[whole].dump()};
  }
  const auto old = objects_.find(path);
  if (old == objects_.end()) return Failure(404, "not found");
  if (old->second["metadata"]["resourceVersion"] !=
      object["metadata"]["resourceVersion"]) {
    return Failure(409, "the object has been modified");
  }
  StoreLocked(path, std::move(object));
  return {200, objects_[path].dump()};
}

absl::StatusOr<ApiCalls::Answer> FakeApiServer::Call(absl::string_view verb,
                                                     const std::string& path,
                                                     const std::string& body) {
  const MutexLock lock(&mutex_);
  if (is_away_) {
    return absl::UnavailableError("the API server at fake:443: refused");
  }
  if (forbidden_.count(std::string(verb)) != 0) {
    return Failure(403, "User \"pod\" cannot do that");
  }
  if (verb == "GET") {
    const auto object = objects_.find(path);
    if (object == objects_.end()) return Failure(404, "not found");
    return ApiCalls::Answer{200, object->second.dump()};
  }
  ApiCalls::Answer answer = WriteLocked(verb, path, body);
  if (answers_to_lose_ == 0) return answer;
  --answers_to_lose_;
  return absl::UnavailableError("the API server at fake:443: no answer");
}

}  // namespace paramd
