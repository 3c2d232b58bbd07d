#ifndef PARAMD_INPUT_WINDOW_STAGE_H_
#define PARAMD_INPUT_WINDOW_STAGE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "input/spare_examples.h"
#include "input/stage.h"
#include "proto/paramd/v1/input.pb.h"

namespace paramd {

// Several examples in a row as one, as tf.data's window: window k begins at
// example k * shift, and its examples are `stride` apart. Each feature has one
// dimension more, of as many values as the window has examples, or, if it is
// one of `last`, the value of the last of them.
//
// The number of a window is that of its first example. Thread-safe.
class WindowStage : public Stage {
 public:
  // INVALID_ARGUMENT if there is no feature of a name in `last`, a window would
  // have too many values, or none is left. REQUIRES: the upstream does not
  // grow; a size above 0.
  static absl::StatusOr<std::unique_ptr<WindowStage>> Create(
      const Stage& upstream, const v1::InputStage::Window& config);

  // Windows at the end that have fewer examples than others.
  uint64_t short_windows() const { return short_windows_; }

  absl::Status GetFeature(const ExamplePlace& place, size_t feature,
                          Example* example) const override;
  uint64_t IndexAt(const ExamplePlace& place) const override {
    return upstream_.IndexAt({place.epoch, place.offset * shape_.shift});
  }

 protected:
  absl::Status DoGet(const ExamplePlace& place,
                     Example* example) const override;

 private:
  struct Shape {
    uint64_t size = 1;
    uint64_t shift = 1;
    uint64_t stride = 1;
    std::vector<bool> is_last;  // Of each feature.
  };

  WindowStage(const Stage& upstream, InputSpec spec, uint64_t size,
              uint64_t short_windows, Shape shape);

  // Of the window at this offset.
  uint64_t ExamplesAt(uint64_t offset) const;
  // Takes a feature of example `i` of so many from `one`.
  absl::Status Take(size_t feature, uint64_t i, uint64_t count,
                    const Example& one, Example* example) const;

  const Stage& upstream_;
  const Shape shape_;
  const uint64_t short_windows_;
  mutable SpareExamples spare_;
};

}  // namespace paramd

#endif  // PARAMD_INPUT_WINDOW_STAGE_H_
