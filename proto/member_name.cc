#include "proto/member_name.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

template <Numbered Number>
std::string Name(absl::string_view role, uint32_t index,
                 const Number& generation) {
  const std::string name = absl::StrCat(role, "-", index);
  if (IsZero(generation)) return name;
  return absl::StrCat(name, " generation ", VersionName(generation));
}

}  // namespace

std::string WorkerName(uint32_t worker, const v1::SessionId& generation) {
  return Name("worker", worker, generation);
}

std::string ServerName(uint32_t server, const v1::ServerLife& generation) {
  return Name("ps", server, generation);
}

std::string ServerFileName(uint32_t server, uint32_t servers) {
  return absl::StrFormat("ps-%05d-of-%05d.safetensors", server + 1, servers);
}

}  // namespace paramd
