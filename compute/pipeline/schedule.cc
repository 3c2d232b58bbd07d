#include "compute/pipeline/schedule.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/status_macros.h"

namespace paramd {
namespace {

using Kind = PipelineOp::Kind;
using Ops = std::vector<PipelineOp>;

PipelineSchedule Empty(uint32_t stages, uint32_t devices,
                       uint32_t micro_batches) {
  CHECK(stages > 0 && devices > 0 && micro_batches > 0,
        "a pipeline has stages, devices and micro-batches");
  PipelineSchedule schedule;
  schedule.stages = stages;
  schedule.micro_batches = micro_batches;
  schedule.devices.resize(devices);
  return schedule;
}

void Flush(PipelineSchedule* schedule) {
  for (uint32_t s = 0; s < schedule->stages; ++s) {
    schedule->devices[schedule->DeviceOf(s)].push_back(
        {Kind::kUpdate, s, schedule->micro_batches - 1});
  }
}

// Without updates.
PipelineSchedule AlternatingSchedule(uint32_t stages, uint32_t micro_batches) {
  PipelineSchedule schedule = Empty(stages, stages, micro_batches);
  for (uint32_t s = 0; s < stages; ++s) {
    Ops& ops = schedule.devices[s];
    uint32_t next = 0;
    while (next < std::min(stages - s - 1, micro_batches)) {
      ops.push_back({Kind::kForward, s, next++});
    }
    for (uint32_t m = 0; m < micro_batches; ++m) {
      if (next < micro_batches) ops.push_back({Kind::kForward, s, next++});
      ops.push_back({Kind::kBackward, s, m});
    }
  }
  return schedule;
}

// `version`: what the forward pass of a micro-batch on a stage reads.
PipelineSchedule UpdatedEach(
    uint32_t per_update, PipelineSchedule schedule,
    absl::FunctionRef<uint32_t(uint32_t micro_batch, uint32_t stage)> version) {
  for (Ops& ops : schedule.devices) {
    Ops with;
    for (PipelineOp& op : ops) {
      if (op.kind == Kind::kForward) {
        op.version = version(op.micro_batch, op.stage);
      }
      with.push_back(op);
      const bool is_last = op.micro_batch + 1 == schedule.micro_batches;
      if (op.kind == Kind::kBackward &&
          (is_last || (op.micro_batch + 1) % per_update == 0)) {
        with.push_back({Kind::kUpdate, op.stage, op.micro_batch});
      }
    }
    ops = std::move(with);
  }
  return schedule;
}

bool IsBackward(Kind kind) {
  return kind == Kind::kBackward || kind == Kind::kBackwardInput;
}

bool IsSend(Kind kind) {
  return kind == Kind::kSendActivation || kind == Kind::kSendGradient;
}

bool IsReceive(Kind kind) {
  return kind == Kind::kReceiveActivation || kind == Kind::kReceiveGradient;
}

Kind Sent(Kind receive) {
  return receive == Kind::kReceiveActivation ? Kind::kSendActivation
                                             : Kind::kSendGradient;
}

absl::Status Wrong(const PipelineOp& op, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(TextOf(op), " ", what));
}

// Runs a schedule without a clock, each device as far as it can.
class Proof {
 public:
  Proof(const PipelineSchedule& schedule, uint32_t credit)
      : schedule_(schedule),
        credit_(credit),
        stages_(schedule.stages),
        at_(schedule.devices.size(), 0) {
    for (const Ops& ops : schedule.devices) {
      for (const PipelineOp& op : ops) sends_ |= IsSend(op.kind);
    }
    for (uint32_t s = 0; s < schedule.stages; ++s) {
      stages_[s].reads.assign(schedule.micro_batches, 0);
    }
    for (const Ops& ops : schedule.devices) {
      for (const PipelineOp& op : ops) {
        if (op.kind == Kind::kForward && op.stage < schedule.stages &&
            op.micro_batch < schedule.micro_batches) {
          stages_[op.stage].reads[op.micro_batch] = op.version;
        }
      }
    }
    ForEachEdge(schedule, [this](uint32_t from, uint32_t to) {
      stages_[from].after.push_back(to);
      stages_[to].before.push_back(from);
    });
    needs_.live.resize(schedule.stages, 0);
    needs_.deferred.resize(schedule.stages, 0);
    needs_.versions.resize(schedule.stages, 1);
  }

  absl::StatusOr<PipelineNeeds> Run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t d = 0; d < at_.size(); ++d) {
        while (at_[d] < schedule_.devices[d].size()) {
          const PipelineOp& op = schedule_.devices[d][at_[d]];
          RETURN_IF_ERROR(CheckPlace(op, d));
          ASSIGN_OR_RETURN(const bool done, Do(op));
          if (!done) break;
          ++at_[d];
          moved = true;
        }
      }
    }
    for (size_t d = 0; d < at_.size(); ++d) {
      if (at_[d] == schedule_.devices[d].size()) continue;
      return Wrong(schedule_.devices[d][at_[d]], "waits for ever");
    }
    RETURN_IF_ERROR(CheckComplete());
    return needs_;
  }

 private:
  struct Stage {
    // So many micro-batches have passed; of so many the gradient of the input
    // is known, those of variables are, and are in the weights.
    uint32_t forward = 0;
    uint32_t input = 0;
    uint32_t weights = 0;
    uint32_t updated = 0;
    uint32_t updates = 0;
    std::vector<uint32_t> updated_at;  // After which micro-batches.
    std::vector<uint32_t> reads;       // The version, by micro-batch.
    std::vector<uint32_t> before;
    std::vector<uint32_t> after;
  };
  // Sender, receiver, gradient or not.
  using Link = std::tuple<uint32_t, uint32_t, Kind>;

  absl::Status CheckPlace(const PipelineOp& op, size_t device) const {
    if (op.stage >= schedule_.stages) return Wrong(op, "is of no stage");
    if (op.micro_batch >= schedule_.micro_batches) {
      return Wrong(op, "is of no micro-batch");
    }
    if (schedule_.DeviceOf(op.stage) != device) {
      return Wrong(op, absl::StrCat("is on device ", device,
                                    ", which has not that stage"));
    }
    return absl::OkStatus();
  }

  // False: it has to wait.
  absl::StatusOr<bool> Do(const PipelineOp& op) {
    if (IsSend(op.kind)) return Send(op);
    if (IsReceive(op.kind)) return Receive(op);
    Stage& stage = stages_[op.stage];
    switch (op.kind) {
      case Kind::kForward:
        return Forward(op, &stage);
      case Kind::kBackward:
      case Kind::kBackwardInput:
        return Backward(op, &stage);
      case Kind::kBackwardWeights:
        if (stage.input <= op.micro_batch) {
          return Wrong(op, "comes before the gradient of the input");
        }
        return Weights(op, &stage);
      default:
        if (stage.weights != op.micro_batch + 1) {
          return Wrong(op, absl::StrCat("comes when gradients of ",
                                        stage.weights, " are known"));
        }
        if (stage.updated == stage.weights) return Wrong(op, "changes nothing");
        stage.updated = stage.weights;
        ++stage.updates;
        stage.updated_at.push_back(op.micro_batch);
        CountVersions(op.stage);
        return true;
    }
  }

  absl::StatusOr<bool> Forward(const PipelineOp& op, Stage* stage) {
    if (op.micro_batch != stage->forward) {
      return Wrong(op, op.micro_batch < stage->forward ? "comes twice"
                                                       : "is out of order");
    }
    for (const uint32_t from : stage->before) {
      if (!Has(op, from, /*gradient=*/false)) return false;
    }
    if (op.version > stage->updates ||
        (op.micro_batch > 0 && op.version < stage->reads[op.micro_batch - 1])) {
      return Wrong(op, absl::StrCat("reads version ", op.version,
                                    " of the weights after ", stage->updates,
                                    " updates"));
    }
    ++stage->forward;
    uint32_t& live = needs_.live[op.stage];
    live = std::max(live, stage->forward - stage->weights);
    CountVersions(op.stage);
    return true;
  }

  absl::StatusOr<bool> Backward(const PipelineOp& op, Stage* stage) {
    if (op.micro_batch != stage->input) {
      return Wrong(op, op.micro_batch < stage->input ? "comes twice"
                                                     : "is out of order");
    }
    if (op.micro_batch >= stage->forward) {
      return Wrong(op, "comes before the forward pass");
    }
    for (const uint32_t to : stage->after) {
      if (!Has(op, to, /*gradient=*/true)) return false;
    }
    ++stage->input;
    if (op.kind == Kind::kBackward) return Weights(op, stage);
    uint32_t& deferred = needs_.deferred[op.stage];
    deferred = std::max(deferred, stage->input - stage->weights);
    return true;
  }

  absl::StatusOr<bool> Weights(const PipelineOp& op, Stage* stage) {
    if (op.micro_batch != stage->weights) {
      return Wrong(op, op.micro_batch < stage->weights ? "comes twice"
                                                       : "is out of order");
    }
    ++stage->weights;
    return true;
  }

  void CountVersions(uint32_t index) {
    const Stage& stage = stages_[index];
    std::set<uint32_t> versions = {stage.updates};
    for (uint32_t m = stage.weights;
         m < schedule_.micro_batches && stage.reads[m] <= stage.updates; ++m) {
      versions.insert(stage.reads[m]);
    }
    needs_.versions[index] = std::max(needs_.versions[index],
                                      static_cast<uint32_t>(versions.size()));
  }

  // Whether what `op` needs of stage `from` is there. Of another device it is
  // when it was received, if anything is sent at all.
  bool Has(const PipelineOp& op, uint32_t from, bool gradient) const {
    if (sends_ && schedule_.DeviceOf(from) != schedule_.DeviceOf(op.stage)) {
      const Kind kind =
          gradient ? Kind::kReceiveGradient : Kind::kReceiveActivation;
      return received_.count({kind, op.stage, op.micro_batch, from}) > 0;
    }
    const Stage& other = stages_[from];
    return op.micro_batch < (gradient ? other.input : other.forward);
  }

  absl::StatusOr<bool> Send(const PipelineOp& op) {
    const Stage& stage = stages_[op.stage];
    const bool gradient = op.kind == Kind::kSendGradient;
    if (op.peer >= schedule_.stages || op.peer == op.stage ||
        gradient != (op.peer < op.stage)) {
      return Wrong(op, absl::StrCat("goes to stage ", op.peer));
    }
    if (op.micro_batch >= (gradient ? stage.input : stage.forward)) {
      return Wrong(op, "comes before it is computed");
    }
    std::vector<uint32_t>& link = links_[{op.stage, op.peer, op.kind}];
    if (link.size() >= credit_) return false;
    if (!sent_.insert({op.kind, op.stage, op.micro_batch, op.peer}).second) {
      return Wrong(op, "comes twice");
    }
    link.push_back(op.micro_batch);
    return true;
  }

  absl::StatusOr<bool> Receive(const PipelineOp& op) {
    std::vector<uint32_t>& link = links_[{op.peer, op.stage, Sent(op.kind)}];
    if (link.empty()) return false;
    if (link.front() != op.micro_batch) {
      return Wrong(op, absl::StrCat("gets that of micro-batch ", link.front()));
    }
    link.erase(link.begin());
    received_.insert({op.kind, op.stage, op.micro_batch, op.peer});
    return true;
  }

  absl::Status CheckComplete() const {
    for (uint32_t s = 0; s < schedule_.stages; ++s) {
      const Stage& stage = stages_[s];
      const uint32_t least =
          std::min({stage.forward, stage.input, stage.weights, stage.updated});
      if (least == schedule_.micro_batches) continue;
      const Kind missing = stage.forward == least   ? Kind::kForward
                           : stage.input == least   ? Kind::kBackward
                           : stage.weights == least ? Kind::kBackwardWeights
                                                    : Kind::kUpdate;
      return Wrong({missing, s, least}, "is missing");
    }
    for (uint32_t s = 1; s < schedule_.stages; ++s) {
      const auto [one, other] = std::mismatch(
          stages_[0].updated_at.begin(), stages_[0].updated_at.end(),
          stages_[s].updated_at.begin(), stages_[s].updated_at.end());
      if (other == stages_[s].updated_at.end()) continue;
      return Wrong({Kind::kUpdate, s, *other},
                   absl::StrCat("is after micro-batch ", *one, " on stage 0"));
    }
    for (const auto& [link, under_way] : links_) {
      if (under_way.empty()) continue;
      return Wrong({std::get<2>(link), std::get<0>(link), under_way.front(),
                    std::get<1>(link)},
                   "is never received");
    }
    return absl::OkStatus();
  }

  using Message = std::tuple<Kind, uint32_t, uint32_t, uint32_t>;

  const PipelineSchedule& schedule_;
  const uint32_t credit_;
  bool sends_ = false;
  std::vector<Stage> stages_;
  std::vector<size_t> at_;  // Of each device, what comes next.
  std::map<Link, std::vector<uint32_t>> links_;  // What is under way.
  std::set<Message> sent_;
  std::set<Message> received_;
  PipelineNeeds needs_;
};

absl::string_view NameOf(Kind kind) {
  switch (kind) {
    case Kind::kForward:
      return "forward";
    case Kind::kBackward:
      return "backward";
    case Kind::kBackwardInput:
      return "gradient of the input";
    case Kind::kBackwardWeights:
      return "gradient of the variables";
    case Kind::kUpdate:
      return "update";
    case Kind::kSendActivation:
      return "sending the activation";
    case Kind::kReceiveActivation:
      return "receiving the activation";
    case Kind::kSendGradient:
      return "sending the gradient";
    default:
      return "receiving the gradient";
  }
}

}  // namespace

void ForEachEdge(const PipelineSchedule& schedule,
                 absl::FunctionRef<void(uint32_t from, uint32_t to)> f) {
  for (uint32_t s = 0; s + 1 < schedule.stages; ++s) f(s, s + 1);
  for (const PipelineSkip& skip : schedule.skips) {
    if (skip.to > skip.from + 1) f(skip.from, skip.to);
  }
}

std::string TextOf(const PipelineOp& op) {
  return absl::StrCat(NameOf(op.kind), " of micro-batch ", op.micro_batch,
                      " on stage ", op.stage);
}

PipelineSchedule NaiveSchedule(uint32_t stages, uint32_t micro_batches) {
  PipelineSchedule schedule = Empty(stages, stages, micro_batches);
  for (uint32_t s = 0; s < stages; ++s) {
    for (uint32_t m = 0; m < micro_batches; ++m) {
      schedule.devices[s].push_back({Kind::kForward, s, m});
      schedule.devices[s].push_back({Kind::kBackward, s, m});
    }
  }
  Flush(&schedule);
  return schedule;
}

PipelineSchedule GpipeSchedule(uint32_t stages, uint32_t micro_batches) {
  PipelineSchedule schedule = Empty(stages, stages, micro_batches);
  for (uint32_t s = 0; s < stages; ++s) {
    for (const Kind kind : {Kind::kForward, Kind::kBackward}) {
      for (uint32_t m = 0; m < micro_batches; ++m) {
        schedule.devices[s].push_back({kind, s, m});
      }
    }
  }
  Flush(&schedule);
  return schedule;
}

PipelineSchedule OneForwardOneBackward(uint32_t stages,
                                       uint32_t micro_batches) {
  PipelineSchedule schedule = AlternatingSchedule(stages, micro_batches);
  Flush(&schedule);
  return schedule;
}

PipelineSchedule InterleavedSchedule(uint32_t devices, uint32_t chunks,
                                     uint32_t micro_batches) {
  PipelineSchedule schedule = Empty(devices * chunks, devices, micro_batches);
  // Micro-batches pass in groups of as many as there are devices; the last
  // group is as if it was whole, without those that are not there.
  const uint32_t group = devices * chunks;
  const uint32_t groups = (micro_batches + devices - 1) / devices;
  const uint32_t steps = groups * group;
  const auto op = [&](Kind kind, uint32_t device, uint32_t step) {
    const uint32_t chunk = step % group / devices;
    PipelineOp one{kind};
    one.stage = device +
                devices * (kind == Kind::kForward ? chunk : chunks - 1 - chunk);
    one.micro_batch = step / group * devices + step % devices;
    return one;
  };
  for (uint32_t d = 0; d < devices; ++d) {
    const auto add = [&](const PipelineOp& one) {
      if (one.micro_batch < micro_batches) schedule.devices[d].push_back(one);
    };
    const uint32_t warm_up =
        std::min(2 * (devices - d - 1) + (chunks - 1) * devices, steps);
    uint32_t next = 0;
    while (next < warm_up) add(op(Kind::kForward, d, next++));
    for (uint32_t back = 0; back < steps; ++back) {
      if (next < steps) add(op(Kind::kForward, d, next++));
      add(op(Kind::kBackward, d, back));
    }
  }
  Flush(&schedule);
  return schedule;
}

PipelineSchedule ZeroBubbleSchedule(uint32_t stages, uint32_t micro_batches) {
  PipelineSchedule schedule = AlternatingSchedule(stages, micro_batches);
  // Nobody waits for the first stage's gradients.
  for (uint32_t s = 1; s < stages; ++s) {
    Ops ops;
    uint32_t next = 0;
    for (PipelineOp op : schedule.devices[s]) {
      if (op.kind != Kind::kBackward) {
        ops.push_back(op);
        continue;
      }
      op.kind = Kind::kBackwardInput;
      ops.push_back(op);
      // The later the stage, the longer its neighbours wait for what it has
      // computed: it puts off as many as the first one holds more than it.
      if (op.micro_batch >= s) {
        ops.push_back({Kind::kBackwardWeights, s, next++});
      }
    }
    while (next < micro_batches) {
      ops.push_back({Kind::kBackwardWeights, s, next++});
    }
    schedule.devices[s] = std::move(ops);
  }
  Flush(&schedule);
  return schedule;
}

PipelineSchedule PipeDreamSchedule(uint32_t stages, uint32_t micro_batches,
                                   bool vertical_sync) {
  return UpdatedEach(1, AlternatingSchedule(stages, micro_batches),
                     [&](uint32_t micro_batch, uint32_t stage) {
                       const uint32_t late =
                           stages - 1 - (vertical_sync ? 0 : stage);
                       return micro_batch - std::min(micro_batch, late);
                     });
}

PipelineSchedule TwoBufferedWeights(uint32_t stages, uint32_t micro_batches,
                                    uint32_t per_update) {
  CHECK(per_update >= stages,
        "an update of 2BW has as many micro-batches as there are stages");
  return UpdatedEach(per_update, AlternatingSchedule(stages, micro_batches),
                     [&](uint32_t micro_batch, uint32_t /*stage*/) {
                       const uint32_t update = micro_batch / per_update;
                       return update - std::min(update, 1u);
                     });
}

PipelineSchedule WithTransfers(PipelineSchedule schedule) {
  // Of each stage, those on other devices.
  std::vector<std::vector<uint32_t>> after(schedule.stages);
  std::vector<std::vector<uint32_t>> before(schedule.stages);
  ForEachEdge(schedule, [&](uint32_t from, uint32_t to) {
    CHECK(from < to && to < schedule.stages, "a skip goes forward");
    if (schedule.DeviceOf(from) == schedule.DeviceOf(to)) return;
    after[from].push_back(to);
    before[to].push_back(from);
  });
  for (Ops& ops : schedule.devices) {
    Ops with;
    for (const PipelineOp& op : ops) {
      const auto add = [&](Kind kind, const std::vector<uint32_t>& peers) {
        for (const uint32_t peer : peers) {
          with.push_back({kind, op.stage, op.micro_batch, peer});
        }
      };
      if (op.kind == Kind::kForward) {
        add(Kind::kReceiveActivation, before[op.stage]);
      }
      if (IsBackward(op.kind)) add(Kind::kReceiveGradient, after[op.stage]);
      with.push_back(op);
      if (op.kind == Kind::kForward) {
        add(Kind::kSendActivation, after[op.stage]);
      }
      if (IsBackward(op.kind)) add(Kind::kSendGradient, before[op.stage]);
    }
    ops = std::move(with);
  }
  return schedule;
}

absl::StatusOr<PipelineNeeds> CheckSchedule(const PipelineSchedule& schedule,
                                            uint32_t credit) {
  if (schedule.devices.empty() || schedule.stages < schedule.devices.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are ", schedule.devices.size(), " devices for ",
                     schedule.stages, " stages"));
  }
  for (const PipelineSkip& skip : schedule.skips) {
    if (skip.from < skip.to && skip.to < schedule.stages) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a skip goes from stage ", skip.from, " to stage ",
                     skip.to, " of ", schedule.stages));
  }
  return Proof(schedule, credit).Run();
}

}  // namespace paramd
