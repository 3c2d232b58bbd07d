#include "process/run_result.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/json_util.h"

#include "process/run_directory.h"

namespace paramd {

absl::StatusOr<v1::WriteResult> ReadRunResult(absl::string_view run_dir) {
  const std::string path = absl::StrCat(run_dir, "/result.json");
  std::ifstream file(path);
  if (!file) {
    return absl::NotFoundError(absl::StrCat("there is no ", path));
  }
  std::stringstream text;
  text << file.rdbuf();
  v1::WriteResult result;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto status =
      google::protobuf::util::JsonStringToMessage(text.str(), &result, options);
  if (!status.ok()) {
    return absl::DataLossError(
        absl::StrCat(path, ": ", std::string(status.message())));
  }
  return result;
}

void FillEnd(const v1::WriteResult& result, EndView* view) {
  if (result.evaluation().examples() > 0) {
    view->test = TestText(result.evaluation(), ": ");
  }
  view->epochs = result.epochs();
  view->seconds = result.seconds();
  view->pushes_lost = result.pushes_lost();
  view->pushes_doubled = result.pushes_doubled();
  view->warnings.assign(result.warnings().begin(), result.warnings().end());
  view->checkpoint_path = result.checkpoint_path().empty()
                              ? ""
                              : ShortPath(result.checkpoint_path());
}

void FinishView(const v1::WriteResult& result, ClusterView* view) {
  if (view->grows) view->epochs = result.epochs();
  view->epochs_done = view->epochs;
  view->waiting_for.clear();
  view->pushes = std::max<uint64_t>(view->pushes, result.global_step());
  if (!result.checkpoint_path().empty() &&
      view->checkpoint_step != result.global_step()) {
    view->checkpoint_step = result.global_step();
    view->checkpoint_bytes.reset();
    view->checkpoint_ms.reset();
  }
  if (result.evaluation().examples() > 0) {
    view->test = TestText(result.evaluation(), " ");
    view->test_epoch = result.evaluation().epoch();
  }
}

}  // namespace paramd
