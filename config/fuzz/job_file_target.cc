// Whatever stands in a job file, LoadJob answers with a job that can be written
// down and read again, or with sentences that are safe to print.

#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/fuzz/pieces.h"
#include "config/job_config.h"
#include "config/print_config.h"
#include "config/setting_value.h"

namespace paramd {
namespace {

// The same job, with every value given by a flag over the file.
void CheckAgain(JobSources sources, const LoadedJob& job) {
  for (const SettingValue& value : ValuesOf(job.config)) {
    if (value.json != "{}" && !value.is_secret) {
      sources.settings.emplace_back(value.path, value.json);
    }
  }
  const absl::StatusOr<LoadedJob> again = LoadJob(sources);
  CHECK(again.ok(), "what is printed is read back");
  CHECK(again->digest == job.digest, "and is the same");
}

void Check(const JobSources& sources) {
  const absl::StatusOr<LoadedJob> job = LoadJob(sources);
  if (!job.ok()) return fuzz::CheckPrintable(job.status().message());
  CheckAgain(sources, *job);
  CHECK(PrintConfig(*job, ClusterSpec(), "json").ok(), "it can be printed");
  CHECK(PrintConfig(*job, ClusterSpec(), "text").ok(), "it can be printed");
}

constexpr char kJob[] = R"({"name": "a",
  "input": {"format": "idx", "directory": "/data"},
  "model": {"layers": [{"dense": 10}], "loss": "softmax_cross_entropy"},
  "optimizer": {"adam": {}, "learning_rate": 0.001}})";

}  // namespace
}  // namespace paramd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  paramd::JobSources sources;
  sources.file = "job.json";
  sources.text = text;
  paramd::Check(sources);
  sources.text = paramd::kJob;
  for (const char* path : {"name", "run_dir", "model", "model.layers.0",
                           "optimizer.learning_rate", "epochs"}) {
    sources.settings = {{path, text}};
    paramd::Check(sources);
  }
  sources.settings = {{text, "1"}};
  paramd::Check(sources);
  return 0;
}
