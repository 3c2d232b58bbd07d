#include "tests/sim/cut_workload.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

#include "base/check.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "tests/sim/faults.h"
#include "tests/sim/fine_cut.h"
#include "tests/sim/simulation.h"
#include "tests/sim/storage.h"

namespace paramd {
namespace {

constexpr uint64_t kEverySteps[] = {1, 4, 11};
// Of the first layer's 36 rows the others never change. Two rows are a block.
constexpr uint64_t kLit = 6;
constexpr uint64_t kFineBlock = 32;
// Eight, six and ten rows, which are whole blocks; five and seven, so that
// blocks after the first slice have other rows.
constexpr uint64_t kFineSlices[] = {512, 384, 640, 320, 448};
Cut FineOf(uint64_t slice_bytes) {
  return {.block_elements = kFineBlock, .slice_bytes = slice_bytes};
}
bool AreWholeBlocks(uint64_t slice_bytes) {
  return slice_bytes % (kFineBlock * sizeof(float)) == 0;
}
constexpr uint64_t kWarmUp = 50;  // Of a block's running gradient.

bool HasBase(const v1::Manifest& manifest) {
  return std::any_of(manifest.files().begin(), manifest.files().end(),
                     [](const v1::ShardFile& file) { return file.has_base(); });
}

// `running`: the running gradients, too.
absl::Status CompareCounts(const std::map<std::string, std::string>& counts,
                           const std::map<std::string, std::string>& expected,
                           bool running) {
  for (const auto& [slice, words] : expected) {
    const auto found = counts.find(slice);
    if (!running && absl::EndsWith(slice, ModelCluster::kRunning)) continue;
    if (found != counts.end() && found->second == words) continue;
    return absl::DataLossError(absl::StrCat(
        slice, " has ", found == counts.end() ? "nothing" : found->second,
        "; uninterrupted it has ", words));
  }
  return absl::OkStatus();
}

}  // namespace

CutWorkload::CutWorkload(uint32_t epochs) : epochs_(epochs) {}

CutWorkload::Draw CutWorkload::DrawFrom(uint64_t seed, RandomStream* random) {
  Draw draw;
  draw.workers = static_cast<uint32_t>(1 + random->Below(3));
  draw.servers_before = static_cast<uint32_t>(1 + random->Below(3));
  draw.servers_after = static_cast<uint32_t>(1 + random->Below(3));
  draw.every_steps = kEverySteps[random->Below(3)];
  draw.seed = seed;
  draw.incremental = seed % 3 == 0 ? 1 + seed / 3 % 4 : 0;
  if (draw.incremental > 0) {
    RandomStream slices(StableHash("slices of a cut job", seed));
    draw.slices_before = kFineSlices[slices.Below(std::size(kFineSlices))];
    draw.slices_after = kFineSlices[slices.Below(std::size(kFineSlices))];
  }
  return draw;
}

ModelJob CutWorkload::JobOf(const Draw& draw, uint32_t servers) const {
  ModelJob job = draw.incremental > 0 ? DrawnModelJob(kLit) : DrawnModelJob();
  job.flags = "--workload=cut";
  job.config.mutable_checkpoint()->set_incremental(draw.incremental);
  job.config.set_epochs(epochs_);
  job.config.set_staleness("sync");
  job.config.set_accumulate(1);
  // Nothing is refused, and running gradients are kept.
  job.config.set_spike_factor(1e6);
  job.config.mutable_checkpoint()->set_every_steps(draw.every_steps);
  job.workers = draw.workers;
  job.servers = servers;
  return job;
}

absl::optional<FineCut> CutWorkload::CutInto(uint64_t slice_bytes) {
  if (slice_bytes == 0) return absl::nullopt;
  return absl::optional<FineCut>(absl::in_place, FineOf(slice_bytes));
}

const CutWorkload::Uninterrupted& CutWorkload::ExpectedOf(const Draw& draw,
                                                          uint64_t slices) {
  const std::pair key(draw.workers, slices);
  const auto known = expected_.find(key);
  if (known != expected_.end()) return known->second;
  const absl::optional<FineCut> fine = CutInto(slices);
  const ModelJob job = JobOf(draw, /*servers=*/2);
  SimStorage storage;
  ModelCluster cluster(job, /*seed=*/0, &storage);
  WorkloadReport unused;
  const auto lived = Live(job, {}, &cluster, &unused);
  CHECK(lived.ok(), lived.status().ToString());
  auto trained = cluster.Trained();
  CHECK(trained.ok(), trained.status().ToString());
  return expected_
      .emplace(key, Uninterrupted{*std::move(trained), cluster.Counts()})
      .first->second;
}

absl::StatusOr<uint64_t> CutWorkload::Live(const ModelJob& job,
                                           const Life& life,
                                           ModelCluster* cluster,
                                           WorkloadReport* report) {
  RandomStream random(StableHash("network", life.seed));
  Simulation::Options options;
  options.seed = life.seed;
  options.faults = Faults::Draw(&random);
  options.verbose = life.verbose;
  options.event_limit = 50'000'000;
  options.replay_command = absl::StrCat("bazel run //tests/sim -- ", job.flags,
                                        " --seed=", life.seed, " --verbose");
  Simulation simulation(std::move(options));
  cluster->ForEachNode(
      [&](PeerId self, Core* core, std::vector<SimStorage::Work> works) {
        simulation.AddNode(self, core);
        for (SimStorage::Work& work : works) {
          simulation.HandleIo(self, work.type, {.longest = work.longest},
                              std::move(work.handler));
        }
      });
  uint64_t moments = 0;
  simulation.OnMoment([&](Simulation::Moment, const SimProcess&, PeerId,
                          const google::protobuf::Message&) {
    if (++moments == life.cut) simulation.End();
  });
  const absl::Status status = simulation.Run();
  report->trace_hash = report->trace_hash * 31 + simulation.trace_hash();
  report->events += simulation.events();
  RETURN_IF_ERROR(status);
  return moments;
}

uint64_t CutWorkload::MomentsOf(const Draw& draw) {
  const std::tuple key(draw.workers, draw.servers_before, draw.every_steps,
                       draw.incremental, draw.slices_before);
  const auto known = moments_.find(key);
  if (known != moments_.end()) return known->second;
  const absl::optional<FineCut> fine = CutInto(draw.slices_before);
  const ModelJob job = JobOf(draw, draw.servers_before);
  SimStorage storage;
  ModelCluster cluster(job, /*seed=*/1, &storage);
  WorkloadReport unused;
  const auto moments = Live(job, {.seed = 1}, &cluster, &unused);
  CHECK(moments.ok(), moments.status().ToString());
  return moments_.emplace(key, *moments).first->second;
}

WorkloadReport CutWorkload::Run(uint64_t seed, bool verbose) {
  RandomStream random(StableHash("cut", seed));
  const Draw draw = DrawFrom(seed, &random);
  const uint64_t cut = 1 + random.Below(MomentsOf(draw));

  SimStorage storage;
  WorkloadReport report;
  const ModelJob before = JobOf(draw, draw.servers_before);
  {
    const absl::optional<FineCut> fine = CutInto(draw.slices_before);
    ModelCluster cluster(before, 2 * seed, &storage);
    report.status =
        Live(before, {cut, seed, verbose}, &cluster, &report).status();
  }
  const bool is_cut = report.status.ok() && !storage.finished();
  // Before its 50th gradient a block keeps no running one, and begins anew.
  const uint64_t step = storage.committed().empty()
                            ? 0
                            : storage.committed().back().global_step();
  // And where blocks have other rows, not all of a running one is theirs.
  const bool same_blocks =
      draw.slices_before == draw.slices_after ||
      (AreWholeBlocks(draw.slices_before) && AreWholeBlocks(draw.slices_after));
  const bool running = !is_cut || step == 0 || (step >= kWarmUp && same_blocks);
  if (is_cut && !storage.committed().empty()) {
    ++restored_;
    warm_ += running ? 1 : 0;
    report.resumed = true;
    moved_ += draw.servers_after != draw.servers_before;
    recut_ += draw.slices_after != draw.slices_before;
    if (HasBase(storage.committed().back())) {
      ++based_;
      report.probes.Hit("a job goes on from files with a base");
    }
  }
  const ModelJob after = JobOf(draw, draw.servers_after);
  const uint64_t slices = is_cut ? draw.slices_after : draw.slices_before;
  const Uninterrupted& expected = ExpectedOf(draw, slices);
  const absl::optional<FineCut> fine = CutInto(slices);
  ModelCluster cluster(after, 2 * seed + 1, &storage);
  if (is_cut) {
    report.status =
        Live(after, {0, ~seed, verbose}, &cluster, &report).status();
  }
  report.checkpoints = storage.committed().size();
  if (!report.status.ok()) return report;
  const auto trained = cluster.Trained();
  report.status = trained.status();
  if (trained.ok()) {
    report.status = CompareWeights(*trained, expected.weights);
    report.status.Update(
        CompareCounts(cluster.Counts(), expected.counts, running));
  }
  if (report.status.ok()) return report;
  report.status = absl::Status(
      report.status.code(),
      absl::StrCat("seed ", seed, ", cut behind moment ", cut, ": ",
                   report.status.message(),
                   "; again: bazel run //tests/sim -- --workload=cut --seed=",
                   seed, " --verbose"));
  return report;
}

}  // namespace paramd
