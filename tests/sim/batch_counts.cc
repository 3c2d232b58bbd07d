#include "tests/sim/batch_counts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;

// Pushes that some files list, each once, and those without names.
class Lost {
 public:
  void Add(const v1::ShardFile& file) {
    for (const v1::LostPushes& lost : file.lost()) {
      if (IsZero(lost.generation())) {
        nameless_ += lost.to() + 1 - lost.from();
        continue;
      }
      for (uint64_t n = lost.from(); n <= lost.to(); ++n) {
        named_.insert({{lost.worker(), NumberOf(lost.generation())}, n});
      }
    }
  }
  uint64_t count() const { return named_.size() + nameless_; }

 private:
  std::set<std::pair<SessionKey, uint64_t>> named_;
  uint64_t nameless_ = 0;
};

}  // namespace

void BatchCounts::Sent(const google::protobuf::Message& request) {
  if (const auto* push = DynamicCastToGenerated<v1::PushRequest>(&request)) {
    const v1::Header& header = push->header();
    Made& made = made_[{push->epoch(), push->input_begin()}];
    made.of_step |= push->step() > 0;
    if (push->step() > 0) return;
    const SessionKey session = {header.worker(), NumberOf(header.generation())};
    made.alone[{session, header.sequence()}] = NumberOf(header.snapshot());
    return;
  }
  const auto* seal = DynamicCastToGenerated<v1::SealRequest>(&request);
  if (seal == nullptr) return;
  const Number snapshot = NumberOf(seal->header().snapshot());
  const auto [sealed, is_first] = sealed_.try_emplace(snapshot);
  if (!is_first) return;
  for (const auto& [batch, made] : made_) {
    Most& most = sealed->second[batch];
    most.used = made.alone.size() + (made.of_step ? 1 : 0);
    for (const auto& [push, stamp] : made.alone) {
      most.left += stamp < snapshot ? 1 : 0;
    }
  }
}

bool BatchCounts::IsLeft(const BatchPlace& batch, const v1::SavedInput& input) {
  if (batch.epoch > input.next_epoch() ||
      (batch.epoch == input.next_epoch() &&
       batch.begin >= input.next_offset())) {
    return true;
  }
  for (const v1::SavedInput::Range& range : input.remaining()) {
    if (batch.epoch == range.epoch() && range.begin() <= batch.begin &&
        batch.begin < range.end()) {
      return true;
    }
  }
  return false;
}

uint64_t BatchCounts::LostIn(const v1::Manifest& manifest) {
  Lost lost;
  for (const v1::ShardFile& file : manifest.files()) lost.Add(file);
  return lost.count();
}

absl::Status BatchCounts::Check(
    const v1::Manifest& manifest,
    const std::vector<std::vector<float>>& values) const {
  const auto sealed = sealed_.find(NumberOf(manifest.snapshot()));
  if (sealed == sealed_.end()) {
    return absl::DataLossError("it was never sealed");
  }
  uint64_t used = 0;
  uint64_t most = 0;
  for (const BatchPlace& batch : job_.batches()) {
    const auto made = sealed->second.find(batch);
    const Most times = made == sealed->second.end() ? Most() : made->second;
    const bool is_left = IsLeft(batch, manifest.input());
    used += is_left ? 0 : 1;
    most += is_left ? times.left : times.used;
  }
  for (const v1::ShardFile& file : manifest.files()) {
    RETURN_IF_ERROR(CheckFile(file, used, most, values));
  }
  for (size_t v = 0; v < values.size(); ++v) {
    RETURN_IF_ERROR(job_.CheckNotTorn(v, values[v]));
  }
  return absl::OkStatus();
}

absl::Status BatchCounts::CheckFile(
    const v1::ShardFile& file, uint64_t used, uint64_t most,
    const std::vector<std::vector<float>>& values) const {
  Lost lost;
  lost.Add(file);
  const uint64_t least = used - std::min(used, lost.count());
  for (const v1::SavedSlice& saved : file.slices()) {
    for (size_t b = 0; b < job_.blocks().size(); ++b) {
      const IntegerJob::BlockPlace& place = job_.blocks()[b];
      if (job_.variables()[place.variable].name() != saved.variable() ||
          job_.slices()[place.slice].row_begin != saved.row_begin()) {
        continue;
      }
      // A batch adds 1.
      const float in = job_.SumIn(b, values[place.variable]);
      if (static_cast<float>(least) <= in && in <= static_cast<float>(most)) {
        continue;
      }
      return absl::DataLossError(absl::StrCat(
          "block ", b, " has ", in, " batches; ", used, " are used, of which ",
          lost.count(), " are lost as told, and at most ", most, " can be in"));
    }
  }
  return absl::OkStatus();
}

}  // namespace paramd
