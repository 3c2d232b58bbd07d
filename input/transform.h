#ifndef PARAMD_INPUT_TRANSFORM_H_
#define PARAMD_INPUT_TRANSFORM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "base/random.h"
#include "input/batch.h"
#include "input/example.h"
#include "input/stage.h"
#include "proto/paramd/v1/input.pb.h"

namespace paramd {

// What `map` and `filter` do to one example where it stands. The result depends
// on the example, the seed, the stage and the place alone.
//
// Thread-safe.
class Transform {
 public:
  virtual ~Transform() = default;

  const std::string& name() const { return name_; }
  // What it gives.
  const InputSpec& spec() const { return spec_; }
  StageClock& clock() const { return clock_; }

  // Whether it may change this feature.
  virtual bool Changes(size_t /*feature*/) const { return true; }

  // An error that names the feature, what it is and what is needed.
  absl::Status Apply(const ExamplePlace& place, Example* example) const {
    const StageClock::Scope scope(&clock_);
    return DoApply(place, example);
  }

 protected:
  Transform(std::string name, InputSpec spec)
      : name_(std::move(name)), spec_(std::move(spec)) {}
  virtual absl::Status DoApply(const ExamplePlace& place,
                               Example* example) const = 0;

 private:
  const std::string name_;
  const InputSpec spec_;
  mutable StageClock clock_;
};

// Changes one feature: `change` makes `out` of `in`. The stream is of this
// stage and place alone.
class FeatureTransform : public Transform {
 public:
  using Change = std::function<absl::Status(
      const OwnedTensor& in, RandomStream random, OwnedTensor* out)>;

  // `feature` is its index in `spec`, what comes out. `key` is of the stage.
  FeatureTransform(std::string name, InputSpec spec, size_t feature,
                   uint64_t key, Change change)
      : Transform(std::move(name), std::move(spec)),
        feature_(feature),
        key_(key),
        change_(std::move(change)) {}

  bool Changes(size_t feature) const override { return feature == feature_; }

 protected:
  absl::Status DoApply(const ExamplePlace& place,
                       Example* example) const override;

 private:
  const size_t feature_;
  const uint64_t key_;
  const Change change_;
};

// What a transform is made for.
struct TransformContext {
  const InputSpec& input;
  // Of the random numbers: of the job's seed and the stage's position.
  uint64_t key = 0;
  bool training = true;
};

// What `config` asks for. INVALID_ARGUMENT if the input has no such feature, or
// one that does not suit. REQUIRES: IsTransform(config).
absl::StatusOr<std::unique_ptr<Transform>> MakeTransform(
    const v1::InputStage& config, const TransformContext& context);

// Of the images among them; null if `config` is none of these.
absl::StatusOr<std::unique_ptr<Transform>> MakeImageTransform(
    const v1::InputStage& config, const TransformContext& context);

bool IsTransform(const v1::InputStage& config);

// The index of a feature. INVALID_ARGUMENT, with those that there are.
absl::StatusOr<size_t> FindFeature(const InputSpec& spec,
                                   absl::string_view name);

// "float32 28x28"; a dimension that differs is "?".
std::string ShapeText(DType dtype, const Dims& dims);

// Of one feature in one example; dimensions that are not known count as 1.
inline constexpr uint64_t kMostValues = uint64_t{1} << 31;
// INVALID_ARGUMENT, naming the first feature that has more.
absl::Status CheckSizes(const InputSpec& spec);

// Fills `to` with the values of `in` in a tensor of the shape `dims`: `value`
// where `in` has none, and what it has beyond left out. REQUIRES: `to` has the
// size of that tensor, and `in` as many dimensions.
void CopyPadded(const OwnedTensor& in, const Dims& dims, double value,
                absl::Span<std::byte> to);

// Values as numbers, whatever their type.
double NumberAt(const OwnedTensor& tensor, uint64_t i);

// The type of a setting; float32 if there is none.
DType ToDType(v1::InputFeature::Type type);

}  // namespace paramd

#endif  // PARAMD_INPUT_TRANSFORM_H_
