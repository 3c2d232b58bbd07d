#include "coordinator/summary/written_scalars.h"

#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "checkpoint/file.h"
#include "coordinator/summary/event.pb.h"
#include "coordinator/summary/tf_record.h"

namespace paramd {
namespace {

constexpr uint64_t kMostBytes = uint64_t{64} << 20;

using Points = std::map<int64_t, float>;  // By step.

void Take(const summary::Event& event, std::map<std::string, Points>* by_tag) {
  if (event.session_log().status() == summary::SessionLog::START) {
    for (auto& [tag, points] : *by_tag) {
      points.erase(points.lower_bound(event.step()), points.end());
    }
  }
  for (const summary::Summary::Value& value : event.summary().value()) {
    if (value.value_case() != summary::Summary::Value::kSimpleValue) continue;
    (*by_tag)[value.tag()][event.step()] = value.simple_value();
  }
}

}  // namespace

std::map<std::string, float> WrittenScalarsAt(
    uint64_t step, absl::string_view directory,
    const std::vector<std::string>& names) {
  std::map<std::string, Points> by_tag;
  for (const std::string& name : names) {
    const auto text =
        ReadWholeFile(absl::StrCat(directory, "/", name), kMostBytes);
    if (!text.ok()) continue;
    absl::string_view rest = *text;
    summary::Event event;
    while (const auto data = TakeTfRecord(&rest)) {
      if (!event.ParseFromArray(data->data(), static_cast<int>(data->size()))) {
        break;
      }
      Take(event, &by_tag);
    }
  }
  std::map<std::string, float> scalars;
  for (const auto& [tag, points] : by_tag) {
    const auto behind = points.upper_bound(static_cast<int64_t>(step));
    if (behind != points.begin()) scalars[tag] = std::prev(behind)->second;
  }
  return scalars;
}

}  // namespace paramd
