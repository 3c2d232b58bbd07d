// Whatever stands in TF_CONFIG, CLUSTER_SPEC or the flags, ReadCluster answers
// with a cluster that keeps its invariant or with sentences that are safe to
// print.

#include <cstdint>
#include <string>

#include "absl/strings/match.h"

#include "base/check.h"
#include "base/fuzz/pieces.h"
#include "config/cluster_spec.h"
#include "config/task_address.h"

namespace paramd {
namespace {

void CheckRoundTrip(const ClusterSpec& spec) {
  const absl::StatusOr<ClusterSpec> again =
      ParseTfConfig(ToTfConfig(spec, spec.self));
  CHECK(again.ok(), "what is written is read back");
  CHECK(again->workers == spec.workers && again->ps == spec.ps &&
            again->stages == spec.stages && again->self == spec.self,
        "and is the same");
}

void CheckSpec(const ClusterSpec& spec) {
  if (spec.standalone) {
    CHECK(spec.ps.empty() && spec.workers.empty(), "who is alone knows nobody");
    return;
  }
  for (const auto* list :
       {&spec.ps, &spec.workers, &spec.evaluators, &spec.stages}) {
    for (const std::string& address : *list) {
      CHECK(address.empty() || !WrongAddress(address, "").has_value(),
            "known addresses are right");
    }
  }
  const int worker = spec.worker_index();
  CHECK(worker < static_cast<int>(spec.workers.size()), "a worker is listed");
  if (worker >= 0) {
    CHECK(!spec.ps.empty() && spec.knows_all_ps, "a worker knows every ps");
    CHECK(!spec.chief_address().empty(), "a worker knows the chief");
    CHECK(spec.WorkerTask(worker) == spec.self || worker == 0,
          "the numbering is one to one");
    if (spec.knows_all_workers) CheckRoundTrip(spec);
  }
  if (worker >= 0 || spec.is_ps()) {
    CHECK(!spec.self_address().empty(), "this process knows itself");
    CHECK(!spec.workers.empty(), "there is a place for the chief");
  }
  spec.nothing_to_do();
}

void Check(const ClusterSources& sources) {
  const absl::StatusOr<ClusterSpec> spec = ReadCluster(sources);
  if (spec.ok()) return CheckSpec(*spec);
  fuzz::CheckPrintable(spec.status().message());
}

}  // namespace
}  // namespace paramd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  paramd::ClusterSources sources;
  sources.host_name = text;
  for (const char* name : {"TF_CONFIG", "CLUSTER_SPEC"}) {
    sources.environment = {{name, text}};
    paramd::Check(sources);
  }
  sources.task_type = "ps";
  sources.task_index = "1";
  paramd::Check(sources);
  sources.cluster = text;
  paramd::Check(sources);
  sources.cluster = "ps=a{0..1}:1 worker=b:1";
  sources.task_type = text;
  paramd::Check(sources);
  sources.task_index = text;
  paramd::Check(sources);
  sources.task_type = sources.task_index = absl::nullopt;
  sources.task_from_hostname = true;
  paramd::Check(sources);
  return 0;
}
