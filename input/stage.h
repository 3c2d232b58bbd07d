#ifndef PARAMD_INPUT_STAGE_H_
#define PARAMD_INPUT_STAGE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "input/batch.h"
#include "input/example.h"
#include "input/stage_clock.h"

namespace paramd {

// A step between the files and the batch, as a function: what it gives at a
// place depends on the job and that place alone, never on who asks, when, in
// what order or on which thread. So any worker can take any range of an epoch.
// A stage asks the one before it, the `upstream`.
//
// Thread-safe. The upstream outlives it.
class Stage {
 public:
  virtual ~Stage() = default;

  const std::string& name() const { return name_; }
  // What it gives. A dimension of 0 may differ from example to example.
  const InputSpec& spec() const { return spec_; }
  // Examples of an epoch. 0: each has its own, and SizeIn says how many.
  uint64_t size() const { return size_; }
  virtual uint64_t SizeIn(uint64_t /*epoch*/) const { return size_; }
  StageClock& clock() const { return clock_; }

  // Overwrites `example` with the one at `place`. An error that names what
  // could not be read or mapped. REQUIRES: place.offset < SizeIn(place.epoch).
  absl::Status Get(const ExamplePlace& place, Example* example) const {
    const StageClock::Scope scope(&clock_);
    return DoGet(place, example);
  }

  // The same of one of its features, for as little as that costs: the other
  // tensors of `example` may be what they were, or may not be there.
  virtual absl::Status GetFeature(const ExamplePlace& place, size_t feature,
                                  Example* example) const = 0;
  // The number in the source of the example at `place`. REQUIRES: as above.
  virtual uint64_t IndexAt(const ExamplePlace& place) const = 0;

  // Offsets at which another file begins in this epoch, ascending, the first of
  // them 0. {0} where files are mixed.
  virtual std::vector<uint64_t> FileStarts(uint64_t epoch) const {
    (void)epoch;
    return {0};
  }

 protected:
  Stage(std::string name, InputSpec spec, uint64_t size)
      : name_(std::move(name)), spec_(std::move(spec)), size_(size) {}

  virtual absl::Status DoGet(const ExamplePlace& place,
                             Example* example) const = 0;

 private:
  const std::string name_;
  const InputSpec spec_;
  const uint64_t size_;
  mutable StageClock clock_;
};

// A stage that gives examples of its upstream as they are, at other places.
class PlaceStage : public Stage {
 public:
  absl::Status GetFeature(const ExamplePlace& place, size_t feature,
                          Example* example) const override {
    return upstream_.GetFeature(UpstreamOf(place), feature, example);
  }
  uint64_t IndexAt(const ExamplePlace& place) const override {
    return upstream_.IndexAt(UpstreamOf(place));
  }

 protected:
  PlaceStage(std::string name, const Stage& upstream, uint64_t size)
      : Stage(std::move(name), upstream.spec(), size), upstream_(upstream) {}

  const Stage& upstream() const { return upstream_; }
  absl::Status DoGet(const ExamplePlace& place,
                     Example* example) const override {
    return upstream_.Get(UpstreamOf(place), example);
  }
  // Where the upstream has it.
  virtual ExamplePlace UpstreamOf(const ExamplePlace& place) const = 0;

 private:
  const Stage& upstream_;
};

}  // namespace paramd

#endif  // PARAMD_INPUT_STAGE_H_
