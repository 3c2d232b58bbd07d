#include "input/pipeline.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace paramd {
namespace {

// Skipped examples that are logged one by one.
constexpr uint64_t kMostLogged = 10;
// Examples that are looked at to learn what a batch has: a filter may drop
// some.
constexpr uint64_t kMostProbed = 1000;

}  // namespace

v1::DataSet Pipeline::Describe() const {
  v1::DataSet data = source().Describe();
  if (new_labels_crc32c_.has_value()) {
    data.set_labels_crc32c(*new_labels_crc32c_);
  }
  // Whoever trains with others, or goes on, learns the same of each example.
  for (const auto& taught : taught_) {
    const uint32_t one = taught->header().records_crc32c;
    data.set_labels_crc32c(
        Crc32c(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&one),
                                   sizeof(one)),
               data.labels_crc32c()));
  }
  *data.mutable_meaning() = meaning_;
  if (teachers_.empty()) return data;
  v1::DataMeaning::Fact* const fact = data.mutable_meaning()->add_facts();
  fact->set_name("teachers");
  uint32_t sum = 0;
  for (const std::string& teacher : teachers_) {
    fact->add_values(teacher);
    sum = Crc32c(
        absl::MakeConstSpan(reinterpret_cast<const std::byte*>(teacher.data()),
                            teacher.size()),
        sum);
  }
  fact->set_count(static_cast<uint32_t>(teachers_.size()));
  fact->set_hash(sum);
  return data;
}

bool Pipeline::has_windows() const {
  return source().has_windows() ||
         std::any_of(stages_.begin(), stages_.end(), [](const auto& stage) {
           return stage->name() == "window";
         });
}

// A batch has one shape: where examples may differ the first one says which, or
// a vector becomes ragged.
absl::Status Pipeline::FixSpec() {
  spec_ = late_.empty() ? stages_.back()->spec() : late_.back()->spec();
  bool varies = false;
  for (FeatureSpec& feature : spec_.features) {
    if (padding_.has_value()) {
      const bool is_padded = SizeOf(feature.dims) == 0;
      padding_->is_used.push_back(is_padded);
      if (is_padded && padding_->length > 0) feature.dims[0] = padding_->length;
      continue;
    }
    if (feature.dims == Dims{0}) {
      feature.dims.clear();
      feature.ragged = true;
    }
    varies |= SizeOf(feature.dims) == 0;
  }
  if (!varies) return absl::OkStatus();
  if (growing_ != nullptr) {
    return absl::InvalidArgumentError(
        "with input.follow the job file has to say of what shape a batch is: "
        "bring features that differ from example to example to one shape by "
        "resize, crop or pad");
  }
  Example example;
  absl::Status status;
  const uint64_t last = std::min(size(), kMostProbed);
  for (uint64_t offset = 0; offset < last; ++offset) {
    status = stages_.back()->Get({0, offset}, &example);
    for (const auto& transform : late_) {
      if (status.ok() && !example.dropped) {
        status = transform->Apply({0, offset}, &example);
      }
    }
    if (status.ok() && !example.dropped) break;
    if (!status.ok() && !skip_errors_) return Named(status, example);
    status = absl::InvalidArgumentError(absl::StrCat(
        "none of the first ", last, " examples passes the stages"));
  }
  RETURN_IF_ERROR(status);
  for (size_t f = 0; f < spec_.features.size(); ++f) {
    Dims& dims = spec_.features[f].dims;
    if (SizeOf(dims) == 0) dims = example.values[f].dims();
  }
  return absl::OkStatus();
}

absl::Status Pipeline::CheckShape(size_t f, const OwnedTensor& value) const {
  const FeatureSpec& feature = spec_.features[f];
  const bool is_padded = padding_.has_value() && padding_->is_used[f];
  bool fits = feature.ragged ? value.dims().size() == 1
                             : value.dims().size() == feature.dims.size();
  for (size_t d = 0; fits && !feature.ragged && d < feature.dims.size(); ++d) {
    const bool may_be_less = is_padded && d == 0 && padding_->length > 0;
    fits = may_be_less ? value.dims()[d] <= feature.dims[d]
                       : value.dims()[d] == feature.dims[d] ||
                             (is_padded && feature.dims[d] == 0);
  }
  if (fits && value.dtype() == feature.dtype) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "'", feature.name, "' is ", ShapeText(value.dtype(), value.dims()),
      is_padded ? "; padded_batch makes " : "; the batch has ",
      ShapeText(feature.dtype, feature.dims),
      is_padded ? " of it: give it a larger length, or cut it by pad"
                : ": bring all to one shape by resize, crop or pad"));
}

absl::Status Pipeline::Check(const Portion& range) const {
  const uint64_t size = stages_.back()->SizeIn(range.epoch);
  if (range.begin < range.end && range.end <= size) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("portion [", range.begin, ", ", range.end, ") of epoch ",
                   range.epoch, " is not a range of the ", size, " examples"));
}

absl::Status Pipeline::Read(const Portion& range, Batch* batch) const {
  std::vector<Example>& examples = batch->scratch;
  if (examples.size() < range.size()) examples.resize(range.size());
  for (uint64_t i = 0; i < range.size(); ++i) {
    RETURN_IF_ERROR(ReadExample(range.epoch, range.begin + i, &examples[i]));
  }
  return Finish(range, absl::MakeSpan(examples.data(), range.size()), batch);
}

// One of each `every_` in a row, and not always the same: in sync mode a worker
// takes the same few of so many in a row each time.
bool Pipeline::IsMeasured(uint64_t epoch, uint64_t offset) const {
  const uint64_t row = offset / every_ + 31 * epoch;
  const uint64_t place = (row * 0x9e3779b97f4a7c15 >> 40) % every_;
  return offset % every_ == place;
}

absl::Status Pipeline::ReadExample(uint64_t epoch, uint64_t offset,
                                   Example* example) const {
  const StageClock::Pause pause(!IsMeasured(epoch, offset));
  return OnError(stages_.back()->Get({epoch, offset}, example), example);
}

absl::Status Pipeline::ReadBehind(int count, uint64_t offset,
                                  Example* example) const {
  return OnError(Behind(count).Get({.epoch = 0, .offset = offset}, example),
                 example);
}

absl::Status Pipeline::Finish(const Portion& range,
                              absl::Span<Example> examples,
                              Batch* batch) const {
  CHECK(examples.size() == range.size(), "there is an example for each offset");
  for (const std::unique_ptr<Transform>& transform : late_) {
    for (size_t i = 0; i < examples.size(); ++i) {
      if (examples[i].dropped) continue;
      const StageClock::Pause pause(!IsMeasured(range.epoch, range.begin + i));
      RETURN_IF_ERROR(OnError(
          transform->Apply({range.epoch, range.begin + i}, &examples[i]),
          &examples[i]));
    }
  }
  const StageClock::Scope scope(&assembling_);
  for (Example& example : examples) {
    for (size_t f = 0; f < spec_.features.size() && !example.dropped; ++f) {
      RETURN_IF_ERROR(OnError(CheckShape(f, example.values[f]), &example));
    }
  }
  batch->range = range;
  Assemble(examples, batch);
  return AddTaught(batch);
}

void Pipeline::Assemble(absl::Span<Example> examples, Batch* batch) const {
  const auto kept = [&examples](auto f) {
    for (const Example& example : examples) {
      if (!example.dropped) f(example);
    }
  };
  uint64_t count = 0;
  kept([&count](const Example&) { ++count; });
  batch->Reset(spec_, count);
  batch->names = &source();
  const uint64_t begin = batch->range.begin;
  for (size_t i = 0; i < examples.size(); ++i) {
    if (examples[i].dropped) continue;
    batch->offsets.push_back(begin + i);
    batch->indices.push_back(examples[i].index);
  }
  for (size_t f = 0; f < spec_.features.size(); ++f) {
    Column& column = batch->columns[f];
    if (spec_.features[f].ragged) {
      uint64_t* offset = column.mutable_offsets().data();
      kept([&](const Example& example) {
        offset[1] = offset[0] + example.values[f].size();
        ++offset;
      });
      column.ResizeRagged();
    }
    if (padding_.has_value() && padding_->is_used[f]) {
      // As long as the longest of the batch, in each dimension.
      FeatureSpec longest = spec_.features[f];
      kept([&](const Example& example) {
        for (size_t d = 0; d < longest.dims.size(); ++d) {
          longest.dims[d] =
              std::max(longest.dims[d], example.values[f].dims()[d]);
        }
      });
      column.Reset(longest, count);
      const uint64_t bytes = longest.size() * SizeOf(longest.dtype);
      auto* to = static_cast<std::byte*>(column.tensor().data);
      kept([&](const Example& example) {
        CopyPadded(example.values[f], longest.dims, padding_->value,
                   {to, bytes});
        to += bytes;
      });
      continue;
    }
    auto* to = static_cast<std::byte*>(column.tensor().data);
    kept([&](const Example& example) {
      const absl::Span<const std::byte> bytes = example.values[f].bytes();
      if (bytes.empty()) return;
      std::memcpy(to, bytes.data(), bytes.size());
      to += bytes.size();
    });
  }
}

absl::Status Pipeline::AddTaught(Batch* batch) const {
  batch->taught.resize(taught_.size());
  for (size_t t = 0; t < taught_.size(); ++t) {
    Column& column = batch->taught[t];
    column.Reset(taught_[t]->spec(), batch->size());
    const absl::Span<float> values = column.values<float>();
    const uint64_t classes = column.spec().size();
    for (uint64_t i = 0; i < batch->size(); ++i) {
      RETURN_IF_ERROR(taught_[t]->Read(batch->indices[i], source(),
                                       values.subspan(i * classes, classes)));
    }
  }
  return absl::OkStatus();
}

absl::Status Pipeline::OnError(const absl::Status& error,
                               Example* example) const {
  if (error.ok()) return error;
  const absl::Status named = Named(error, *example);
  // Of files that are others no example is what it should be.
  const bool is_of_files = growing_ != nullptr && !absl::IsDataLoss(error) &&
                           !absl::IsInvalidArgument(error);
  if (!skip_errors_ || is_of_files) return named;
  example->dropped = true;
  const uint64_t before = skipped_.fetch_add(1, std::memory_order_relaxed);
  if (before < kMostLogged) {
    Log(LogLevel::kWarning, "an example is skipped",
        {{"why", named.message()}, {"skipped", before + 1}});
  }
  return absl::OkStatus();
}

// Sources name their files; what a map says needs it. What does not suit is the
// job's fault only if no example was read to find it.
absl::Status Pipeline::Named(const absl::Status& error,
                             const Example& example) const {
  const absl::StatusCode code = absl::IsInvalidArgument(error)
                                    ? absl::StatusCode::kDataLoss
                                    : error.code();
  if (growing_ != nullptr && absl::IsFailedPrecondition(error)) return error;
  const std::string where = source().Where(example.index);
  if (absl::StrContains(error.message(), where)) {
    return absl::Status(code, error.message());
  }
  return absl::Status(code, absl::StrCat(where, ": ", error.message()));
}

void Pipeline::Measure(ChromeTrace* trace, uint32_t every) {
  using Lane = ChromeTrace::Lane;
  every_ = every;
  for (const auto& stage : stages_) {
    stage->clock().Measure(stage->name().c_str(), trace,
                           stage == stages_.front() ? Lane::kDisk : Lane::kCpu);
  }
  for (const auto& transform : late_) {
    transform->clock().Measure(transform->name().c_str(), trace, Lane::kCpu);
  }
  assembling_.Measure("batch", trace, Lane::kCpu);
}

std::vector<Pipeline::StageTime> Pipeline::StageTimes() const {
  std::vector<StageTime> times;
  std::map<std::string, int> named;
  const auto add = [&](const std::string& name, uint64_t calls,
                       absl::Duration time) {
    const int number = ++named[name];
    times.push_back(
        {number == 1 ? name : absl::StrCat(name, "_", number), calls, time});
  };
  absl::Duration before;
  for (const auto& stage : stages_) {
    const absl::Duration total = stage->clock().total();
    // A stage that asks less often, as a cache does, took what its upstream
    // took within its own time. The upstream may have told what it has not yet.
    add(stage->name(), stage->clock().calls() * every_,
        std::max(total - before, absl::ZeroDuration()) * every_);
    before = total;
  }
  for (const auto& transform : late_) {
    add(transform->name(), transform->clock().calls() * every_,
        transform->clock().total() * every_);
  }
  add("batch", assembling_.calls(), assembling_.total());
  return times;
}

}  // namespace paramd
