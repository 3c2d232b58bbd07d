#include "tests/sim/pipeline_workload.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "base/random.h"
#include "compute/pipeline/device_turns.h"
#include "compute/pipeline/mini_batch_run.h"
#include "compute/pipeline/schedule.h"
#include "compute/pipeline/stage_order.h"
#include "compute/pipeline/use_sums.h"
#include "tests/sim/integer_stages.h"

namespace paramd {
namespace {

constexpr uint32_t kMostFailures = 5;

// What the seed draws of a job.
struct PipelineDraw {
  std::string schedule;
  uint32_t stages_per_device = 1;
  bool on_one_thread = false;  // The list of InOneOrder, on one device.
  uint32_t micro_batches = 1;
  uint32_t per_update = 1;  // Of "2bw".
  uint32_t concurrent = 1;
  uint32_t batches = 1;
  IntegerNet net;

  // One list, with many updates.
  bool has_versions() const {
    return schedule == "pipedream" || schedule == "vertical" ||
           schedule == "2bw";
  }
  // What a stage reads: so many updates are in it, as the papers have it.
  uint32_t VersionOf(uint32_t stage, uint32_t micro_batch) const {
    if (schedule == "2bw") {
      return micro_batch < per_update ? 0 : micro_batch / per_update - 1;
    }
    const uint32_t late =
        net.stages - 1 - (schedule == "pipedream" ? stage : 0);
    return micro_batch < late ? 0 : micro_batch - late;
  }
};

PipelineDraw Draw(RandomStream* random) {
  static constexpr absl::string_view kSchedules[] = {
      "naive",       "gpipe",     "1f1b",     "zero_bubble",
      "interleaved", "pipedream", "vertical", "2bw"};
  PipelineDraw draw;
  draw.schedule = std::string(kSchedules[random->Below(8)]);
  uint32_t stages = 1 + static_cast<uint32_t>(random->Below(6));
  if (draw.schedule == "interleaved") {
    draw.stages_per_device = 2 + static_cast<uint32_t>(random->Below(2));
    stages =
        draw.stages_per_device * (1 + static_cast<uint32_t>(random->Below(3)));
  }
  draw.micro_batches = 1 + static_cast<uint32_t>(random->Below(8));
  draw.batches = 4 + static_cast<uint32_t>(random->Below(8));
  std::vector<PipelineSkip> skips;
  if (stages > 2 && random->Chance(0.5)) {
    const auto from = static_cast<uint32_t>(random->Below(stages - 2));
    skips.push_back({from, stages - 1});
    if (stages > 3 && random->Chance(0.5)) skips.push_back({0, 2});
  }
  std::vector<uint32_t> tied;
  if (draw.has_versions()) {
    draw.per_update = stages + static_cast<uint32_t>(random->Below(3));
    draw.micro_batches = 1 + static_cast<uint32_t>(random->Below(24));
    draw.batches = 1;
  } else {
    draw.on_one_thread = random->Chance(0.15);
    if (!draw.on_one_thread && random->Chance(0.5)) {
      draw.concurrent = 1 + static_cast<uint32_t>(random->Below(4));
    }
    // As an embedding that is the last layer too.
    if (stages > 1 && random->Chance(0.5)) tied = {0, stages - 1};
    if (stages > 2 && random->Chance(0.2)) tied = {1, 2};
  }
  draw.net = MakeIntegerNet(stages, std::move(skips), tied);
  return draw;
}

absl::StatusOr<PipelineSchedule> ScheduleOf(const PipelineDraw& draw,
                                            uint32_t micro_batches) {
  const uint32_t stages = draw.net.stages;
  PipelineSchedule schedule;
  if (draw.schedule == "2bw") {
    schedule = TwoBufferedWeights(stages, micro_batches, draw.per_update);
  } else if (draw.has_versions()) {
    schedule =
        PipeDreamSchedule(stages, micro_batches, draw.schedule == "vertical");
  } else {
    absl::StatusOr<PipelineSchedule> made = ScheduleByName(
        draw.schedule, stages, draw.stages_per_device, micro_batches);
    if (!made.ok()) return made.status();
    schedule = *std::move(made);
  }
  schedule.skips = draw.net.skips;
  if (!draw.on_one_thread) return schedule;
  schedule.devices = {InOneOrder(schedule)};
  for (uint32_t s = 0; s < stages; ++s) {
    schedule.devices.front().push_back(
        {PipelineOp::Kind::kUpdate, s, micro_batches - 1});
  }
  return schedule;
}

// A model's clone: it computes one mini-batch after the other, each again until
// no stage fails.
struct Computing {
  explicit Computing(const PipelineDraw& draw)
      : schedules([&draw](uint32_t micro_batches) {
          return ScheduleOf(draw, micro_batches);
        }),
        stages(draw.net),
        uses(draw.net.variables) {}

  // One try at a mini-batch.
  struct Try {
    std::function<bool(uint32_t, size_t)> ready;
    std::function<absl::Status(uint32_t, size_t)> run;
    std::unique_ptr<DeviceTurns::Work> work;
    std::unique_ptr<DeviceTurns::Running> running;
    Computing* of = nullptr;
  };

  ProvenSchedules schedules;
  MiniBatchRun run;
  IntegerStages stages;
  UseSums uses;
  const ProvenSchedule* scheduled = nullptr;
  IntegerBatch batch;
  IntegerWeights weights;  // By variable, since the batch began.
  std::vector<std::vector<float>> gradients;
  std::vector<absl::Span<float>> spans;
  bool busy = false;
  bool ended = false;  // And waits until those before it are applied.
};

class PipelineSimulation {
 public:
  PipelineSimulation(uint64_t seed, bool verbose)
      : seed_(seed),
        verbose_(verbose),
        random_(StableHash("pipeline", seed)),
        draw_(Draw(&random_)) {
    for (size_t v = 0; v < draw_.net.variable_count; ++v) {
      weights_.push_back(Residue(static_cast<int64_t>(random_.Below(8000))));
    }
    for (uint32_t c = 0; c < draw_.concurrent; ++c) {
      computing_.push_back(std::make_unique<Computing>(draw_));
    }
    devices_.resize(
        draw_.on_one_thread ? 1 : draw_.net.stages / draw_.stages_per_device);
    for (Device& device : devices_) device.slowness = 1 + random_.Below(6);
    failures_left_ = random_.Chance(0.6) ? random_.Below(kMostFailures + 1) : 0;
    report_.skips = !draw_.net.skips.empty();
    report_.ties = draw_.net.variable_count < draw_.net.variables.size();
    report_.overlaps = draw_.concurrent > 1;
    report_.has_versions = draw_.has_versions();
  }

  PipelineReport Run() {
    while (wrong_.empty() && applied_ < draw_.batches) {
      BeginBatches();
      BeginOperations();
      if (wrong_.empty()) Advance();
    }
    if (!wrong_.empty()) {
      report_.status = absl::InternalError(absl::StrCat(
          draw_.schedule, " of ", draw_.net.stages, " stages: ", wrong_,
          "\n  bazel run //tests/sim -- --workload=pipeline --seed=", seed_,
          " --verbose"));
    }
    report_.complete = wrong_.empty();
    report_.trace_hash = hash_;
    return report_;
  }

 private:
  struct Device {
    Computing::Try* doing = nullptr;
    PipelineOp op;
    bool runs_at_end = false;
    absl::Status status;
    int64_t until = 0;  // Busy, or standing still.
    int64_t slowness = 1;
  };

  // ---- batches

  void BeginBatches() {
    for (const auto& one : computing_) {
      if (one->busy || begun_ == draw_.batches || !wrong_.empty()) continue;
      one->busy = true;
      one->ended = false;
      one->batch = {seed_, begun_, draw_.micro_batches};
      // The last batch of an epoch.
      if (!draw_.has_versions() && random_.Chance(0.3)) {
        one->batch.micro_batches =
            1 + static_cast<uint32_t>(random_.Below(draw_.micro_batches));
      }
      if (one->batch.micro_batches < draw_.micro_batches) {
        ++report_.short_batches;
      }
      ++begun_;
      one->weights = weights_;
      Begin(one.get());
    }
  }

  IntegerWeights ByUse(const IntegerWeights& weights) const {
    IntegerWeights by_use;
    for (const size_t v : draw_.net.variables) by_use.push_back(weights[v]);
    return by_use;
  }

  void Begin(Computing* one) {
    const auto scheduled = one->schedules.For(one->batch.micro_batches);
    if (!scheduled.ok()) {
      wrong_ = std::string(scheduled.status().message());
      return;
    }
    one->scheduled = *scheduled;
    const auto needs =
        CheckSchedule(one->scheduled->schedule, one->batch.micro_batches);
    one->gradients.assign(draw_.net.variable_count, {-1});
    one->spans.clear();
    for (auto& values : one->gradients) {
      one->spans.push_back(absl::MakeSpan(values));
    }
    one->run.Begin(*one->scheduled);
    one->stages.Begin(*one->scheduled,
                      needs.ok() ? needs->versions
                                 : std::vector<uint32_t>(draw_.net.stages, 1),
                      one->batch, ByUse(one->weights),
                      draw_.has_versions() ? std::vector<absl::Span<float>>()
                                           : one->uses.Place(one->spans));
    tries_.push_back(std::make_unique<Computing::Try>());
    Computing::Try* const now = tries_.back().get();
    const auto& lists = one->scheduled->schedule.devices;
    now->of = one;
    now->ready = [one, &lists](uint32_t d, size_t i) {
      return one->run.IsReady(lists[d][i]);
    };
    now->run = [this, one, &lists](uint32_t d, size_t i) {
      return RunOne(one, lists[d][i]);
    };
    std::vector<size_t> operations;
    for (const auto& list : lists) operations.push_back(list.size());
    now->work.reset(
        new DeviceTurns::Work{std::move(operations), now->ready, now->run});
    now->running = std::make_unique<DeviceTurns::Running>(*now->work);
    turns_.Begin(now->running.get());
  }

  // A stage may fail before it has computed, or behind.
  absl::Status RunOne(Computing* one, const PipelineOp& op) {
    const bool fails = failures_left_ > 0 && random_.Chance(0.02);
    if (fails) --failures_left_;
    if (fails && random_.Chance(0.5)) return absl::UnavailableError("drawn");
    Note(*one, op);
    const absl::Status status = one->run.Run(op, &one->stages);
    if (wrong_.empty()) wrong_ = one->stages.wrong();
    return fails ? absl::UnavailableError("drawn") : status;
  }

  void Note(const Computing& one, const PipelineOp& op) {
    ++report_.events;
    const std::string text =
        absl::StrCat(now_, " batch ", one.batch.number, ": ", TextOf(op));
    hash_ = StableHash(text, hash_);
    if (verbose_) std::printf("%s\n", text.c_str());
  }

  // ---- devices

  void BeginOperations() {
    // Who looks first is up to the threads.
    const auto first = static_cast<uint32_t>(random_.Below(devices_.size()));
    for (uint32_t i = 0; i < devices_.size() && wrong_.empty(); ++i) {
      const auto d = static_cast<uint32_t>((first + i) % devices_.size());
      Device& device = devices_[d];
      if (device.doing != nullptr || device.until > now_) continue;
      DeviceTurns::Running* const next = turns_.Next(d);
      if (next == nullptr) continue;
      for (const auto& one : tries_) {
        if (one->running.get() == next) device.doing = one.get();
      }
      device.until = now_ + 1 +
                     static_cast<int64_t>(
                         random_.Below(static_cast<uint64_t>(device.slowness)));
      device.runs_at_end = random_.Chance(0.5);
      if (!device.runs_at_end) device.status = next->Run(d);
    }
  }

  // To the next moment at which something ends.
  void Advance() {
    int64_t next = 0;
    for (const Device& device : devices_) {
      if (device.until > now_ && (next == 0 || device.until < next)) {
        next = device.until;
      }
    }
    if (next == 0) {
      wrong_ = absl::StrCat("nobody goes on, with ", applied_, " of ",
                            draw_.batches, " batches applied");
      return;
    }
    now_ = next;
    for (uint32_t d = 0; d < devices_.size() && wrong_.empty(); ++d) {
      if (devices_[d].doing != nullptr && devices_[d].until == now_) End(d);
    }
  }

  void End(uint32_t d) {
    Device& device = devices_[d];
    Computing::Try* const now = std::exchange(device.doing, nullptr);
    DeviceTurns::Running* const running = now->running.get();
    if (device.runs_at_end) device.status = running->Run(d);
    turns_.Done(d, device.status, running);
    if (random_.Chance(0.02)) {
      ++report_.pauses;
      device.until = now_ + 20 + static_cast<int64_t>(random_.Below(60));
    }
    for (const auto& one : computing_) {
      if (!wrong_.empty() || !one->busy || one->ended) continue;
      Computing::Try* const last = LastOf(*one);
      if (last->running->IsOver()) Over(last);
    }
  }

  Computing::Try* LastOf(const Computing& one) const {
    for (size_t i = tries_.size(); i-- > 0;) {
      if (tries_[i]->of == &one) return tries_[i].get();
    }
    return nullptr;
  }

  void Over(Computing::Try* now) {
    Computing* const one = now->of;
    turns_.End(now->running.get());
    if (!now->running->status().ok()) {
      ++report_.failures;
      Begin(one);
      return;
    }
    if (draw_.has_versions()) {
      CheckVersions(*one);
      ++applied_;
    } else {
      one->uses.AddTo(one->spans);
      CheckGradient(*one);
      one->ended = true;
      ApplyInOrder();
    }
  }

  void ApplyInOrder() {
    for (bool moved = true; moved;) {
      moved = false;
      for (const auto& one : computing_) {
        if (!one->busy || !one->ended || one->batch.number != applied_) {
          continue;
        }
        for (size_t v = 0; v < weights_.size(); ++v) {
          weights_[v] = Residue(
              weights_[v] - static_cast<int64_t>(one->gradients[v].front()));
        }
        ++applied_;
        ++report_.pushes;
        one->busy = false;
        moved = true;
      }
    }
  }

  // ---- what must be

  // Of micro-batches [begin, end), each with weights of its own by use.
  IntegerShare SumOf(
      const IntegerBatch& batch, uint32_t begin, uint32_t end,
      const std::function<IntegerWeights(uint32_t)>& weights) const {
    IntegerShare sum;
    sum.gradients.resize(draw_.net.variables.size());
    sum.statistics.resize(draw_.net.stages);
    for (uint32_t m = begin; m < end; ++m) {
      const IntegerShare share = ShareOf(draw_.net, batch, m, weights(m));
      for (size_t i = 0; i < sum.gradients.size(); ++i) {
        sum.gradients[i] += share.gradients[i];
      }
      for (size_t s = 0; s < sum.statistics.size(); ++s) {
        sum.statistics[s] += share.statistics[s];
      }
    }
    return sum;
  }

  // That update `u` of a stage had the micro-batches [begin, end), all of them.
  void CheckTaken(const Computing& one, uint32_t stage, size_t u,
                  const IntegerShare& wanted, uint32_t micro_batches) {
    const auto& taken = one.stages.taken(stage);
    const auto where = [&] {
      return absl::StrCat("update ", u, " of stage ", stage, " in batch ",
                          one.batch.number);
    };
    if (u >= taken.size()) {
      wrong_ = absl::StrCat(where(), " is missing");
      return;
    }
    if (taken[u].micro_batches != micro_batches) {
      wrong_ = absl::StrCat(where(), " has ", taken[u].micro_batches,
                            " micro-batches instead of ", micro_batches);
    } else if (taken[u].statistic != wanted.statistics[stage]) {
      wrong_ = absl::StrCat(where(), " has the statistic ", taken[u].statistic,
                            " instead of ", wanted.statistics[stage]);
    }
    const size_t first = draw_.net.first_use[stage];
    for (size_t i = 0; i < taken[u].sums.size(); ++i) {
      const int64_t gradient = wanted.gradients[first + i];
      if (taken[u].sums[i] == gradient || !wrong_.empty()) continue;
      wrong_ = absl::StrCat(where(), " has the gradient ", taken[u].sums[i],
                            " of its use ", i, " instead of ", gradient);
    }
    ++report_.updates;
  }

  // One update of all stages, and the gradients of variables.
  void CheckGradient(const Computing& one) {
    const uint32_t count = one.batch.micro_batches;
    const IntegerWeights weights = ByUse(one.weights);
    const IntegerShare wanted =
        SumOf(one.batch, 0, count, [&](uint32_t) { return weights; });
    for (uint32_t s = 0; s < draw_.net.stages && wrong_.empty(); ++s) {
      CheckTaken(one, s, 0, wanted, count);
      if (wrong_.empty() && one.stages.taken(s).size() != 1) {
        wrong_ = absl::StrCat("stage ", s, " has ", one.stages.taken(s).size(),
                              " updates in a mini-batch");
      }
    }
    std::vector<int64_t> sums(draw_.net.variable_count, 0);
    for (size_t i = 0; i < draw_.net.variables.size(); ++i) {
      sums[draw_.net.variables[i]] += wanted.gradients[i];
    }
    for (size_t v = 0; v < sums.size(); ++v) {
      const auto found = static_cast<int64_t>(one.gradients[v].front());
      if (found == sums[v] || !wrong_.empty()) continue;
      wrong_ = absl::StrCat("batch ", one.batch.number, " has the gradient ",
                            found, " of variable ", v, " instead of ", sums[v]);
    }
  }

  // Replays the list: each stage's versions, and what each micro-batch read.
  void CheckVersions(const Computing& one) {
    const IntegerNet& net = draw_.net;
    std::vector<IntegerWeights> versions = {ByUse(one.weights)};
    const uint32_t count = one.batch.micro_batches;
    const auto read = [&](uint32_t m) {
      IntegerWeights weights;
      for (uint32_t s = 0; s < net.stages; ++s) {
        const IntegerWeights& version = versions[draw_.VersionOf(s, m)];
        for (size_t i = net.first_use[s]; i < net.first_use[s + 1]; ++i) {
          weights.push_back(version[i]);
        }
      }
      return weights;
    };
    const uint32_t each = draw_.schedule == "2bw" ? draw_.per_update : 1;
    for (uint32_t begin = 0; begin < count; begin += each) {
      const uint32_t end = std::min(begin + each, count);
      const IntegerShare wanted = SumOf(one.batch, begin, end, read);
      IntegerWeights next = versions.back();
      for (size_t i = 0; i < next.size(); ++i) {
        next[i] = Residue(next[i] - wanted.gradients[i]);
      }
      for (uint32_t s = 0; s < net.stages && wrong_.empty(); ++s) {
        CheckTaken(one, s, versions.size() - 1, wanted, end - begin);
      }
      versions.push_back(std::move(next));
    }
  }

  const uint64_t seed_;
  const bool verbose_;
  RandomStream random_;
  const PipelineDraw draw_;
  IntegerWeights weights_;  // By variable.
  DeviceTurns turns_;
  std::vector<std::unique_ptr<Computing>> computing_;
  // Also those that have ended: a device may still be at one.
  std::vector<std::unique_ptr<Computing::Try>> tries_;
  std::vector<Device> devices_;
  int64_t now_ = 0;
  uint64_t begun_ = 0;
  uint64_t applied_ = 0;
  uint64_t failures_left_ = 0;
  uint64_t hash_ = 0;
  std::string wrong_;  // The first thing.
  PipelineReport report_;
};

}  // namespace

PipelineReport RunPipelineWorkload(uint64_t seed, bool verbose) {
  return PipelineSimulation(seed, verbose).Run();
}

}  // namespace paramd
