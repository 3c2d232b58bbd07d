#include "compute/pipeline/timeline.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "absl/types/optional.h"

#include "base/check.h"

namespace paramd {
namespace {

using Kind = PipelineOp::Kind;

double SecondsOf(Kind kind, const StageTimes& times) {
  switch (kind) {
    case Kind::kForward:
      return times.forward;
    case Kind::kBackward:
      return times.backward_input + times.backward_weights;
    case Kind::kBackwardInput:
      return times.backward_input;
    case Kind::kBackwardWeights:
      return times.backward_weights;
    default:
      return 0;
  }
}

// Runs each device as far as it can, again and again.
class Clock {
 public:
  Clock(const PipelineSchedule& schedule, absl::Span<const StageTimes> times)
      : schedule_(schedule), times_(times) {
    for (const auto& ops : schedule.devices) {
      for (const PipelineOp& op : ops) {
        sends_ |= op.kind == Kind::kSendActivation;
      }
    }
  }

  Timeline Run() {
    const size_t devices = schedule_.devices.size();
    Timeline timeline;
    timeline.devices.resize(devices);
    std::vector<double> free(devices, 0);
    bool moved = true;
    while (moved) {
      moved = false;
      for (size_t d = 0; d < devices; ++d) {
        auto& spans = timeline.devices[d];
        while (spans.size() < schedule_.devices[d].size()) {
          const PipelineOp& op = schedule_.devices[d][spans.size()];
          const absl::optional<double> ready = ReadyAt(op);
          if (!ready.has_value()) break;
          const double begin = std::max(free[d], *ready);
          const double seconds = SecondsOf(op.kind, times_[op.stage]);
          free[d] = begin + seconds;
          spans.push_back({op, begin, free[d]});
          Note(op, free[d]);
          timeline.busy += seconds;
          timeline.makespan = std::max(timeline.makespan, free[d]);
          moved = true;
        }
      }
    }
    for (size_t d = 0; d < devices; ++d) {
      CHECK(timeline.devices[d].size() == schedule_.devices[d].size(),
            "a sound schedule ends");
    }
    return timeline;
  }

 private:
  using Key = std::tuple<Kind, uint32_t, uint32_t, uint32_t>;

  static Key KeyOf(Kind kind, uint32_t stage, uint32_t micro_batch,
                   uint32_t peer = 0) {
    return {kind, stage, micro_batch, peer};
  }

  absl::optional<double> At(const Key& key) const {
    const auto found = done_.find(key);
    if (found == done_.end()) return absl::nullopt;
    return found->second;
  }

  // When what it needs of other devices is there; nullopt: not yet known.
  absl::optional<double> ReadyAt(const PipelineOp& op) const {
    switch (op.kind) {
      case Kind::kReceiveActivation:
        return Arrived(
            KeyOf(Kind::kSendActivation, op.peer, op.micro_batch, op.stage),
            op.peer);
      case Kind::kReceiveGradient:
        return Arrived(
            KeyOf(Kind::kSendGradient, op.peer, op.micro_batch, op.stage),
            op.stage);
      case Kind::kForward:
        if (op.stage == 0 || IsReceived(op.stage - 1, op.stage)) return 0;
        return At(KeyOf(Kind::kForward, op.stage - 1, op.micro_batch));
      case Kind::kBackward:
      case Kind::kBackwardInput:
        if (op.stage + 1 == schedule_.stages ||
            IsReceived(op.stage + 1, op.stage)) {
          return 0;
        }
        return At(KeyOf(Kind::kBackwardInput, op.stage + 1, op.micro_batch));
      default:
        return 0;
    }
  }

  bool IsReceived(uint32_t from, uint32_t to) const {
    return sends_ && schedule_.DeviceOf(from) != schedule_.DeviceOf(to);
  }

  // `border`: the stage whose output, or the gradient of it, was sent.
  absl::optional<double> Arrived(const Key& sent, uint32_t border) const {
    const absl::optional<double> at = At(sent);
    if (!at.has_value()) return absl::nullopt;
    return *at + times_[border].transfer;
  }

  void Note(const PipelineOp& op, double end) {
    const bool whole = op.kind == Kind::kBackward;
    done_[KeyOf(whole ? Kind::kBackwardInput : op.kind, op.stage,
                op.micro_batch, op.peer)] = end;
  }

  const PipelineSchedule& schedule_;
  const absl::Span<const StageTimes> times_;
  bool sends_ = false;
  std::map<Key, double> done_;
};

}  // namespace

double Timeline::bubble() const {
  const double all = makespan * static_cast<double>(devices.size());
  return all == 0 ? 0 : 1 - busy / all;
}

Timeline TimelineOf(std::vector<std::vector<Timeline::Span>> devices) {
  Timeline timeline;
  timeline.devices = std::move(devices);
  double begin = std::numeric_limits<double>::infinity();
  for (const auto& device : timeline.devices) {
    if (!device.empty()) begin = std::min(begin, device.front().begin);
  }
  for (auto& device : timeline.devices) {
    for (Timeline::Span& span : device) {
      span.begin -= begin;
      span.end -= begin;
      timeline.busy += span.end - span.begin;
      timeline.makespan = std::max(timeline.makespan, span.end);
    }
  }
  return timeline;
}

Timeline RunOnClock(const PipelineSchedule& schedule,
                    absl::Span<const StageTimes> times) {
  CHECK(times.size() == schedule.stages, "each stage has its times");
  return Clock(schedule, times).Run();
}

}  // namespace paramd
