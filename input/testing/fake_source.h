#ifndef PARAMD_INPUT_TESTING_FAKE_SOURCE_H_
#define PARAMD_INPUT_TESTING_FAKE_SOURCE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/optional.h"

#include "input/pipeline.h"

namespace paramd {

// Examples that say their own number: example i is "image", one float32 i, and
// "label", i modulo the classes. Immutable but for what is set before use.
class FakeSource : public ExampleSource {
 public:
  explicit FakeSource(uint64_t size, uint32_t classes = 10)
      : size_(size), classes_(classes), spec_(LabelledImages({1}, classes)) {}

  // Reading this example will fail with DATA_LOSS.
  void set_unreadable(uint64_t index) { unreadable_ = index; }
  // This example will have another image: two numbers.
  void set_misshapen(uint64_t index) { misshapen_ = index; }
  void set_file_starts(std::vector<uint64_t> starts) {
    file_starts_ = std::move(starts);
  }

  const InputSpec& spec() const override { return spec_; }
  uint64_t size() const override { return size_; }
  v1::DataSet Describe() const override { return {}; }
  std::vector<uint64_t> FileStarts() const override { return file_starts_; }
  absl::Status Read(uint64_t index, Example* example) const override {
    if (unreadable_ == index) return absl::DataLossError("unreadable");
    example->values.resize(2);
    const uint64_t numbers = misshapen_ == index ? 2 : 1;
    example->values[0].Reset(DType::kFloat32, {numbers});
    example->values[0].values<float>()[0] = static_cast<float>(index);
    if (numbers > 1) example->values[0].values<float>()[1] = 0;
    example->values[1].Reset(DType::kInt32, {});
    example->values[1].values<int32_t>()[0] =
        static_cast<int32_t>(index % classes_);
    return absl::OkStatus();
  }

 private:
  const uint64_t size_;
  const uint32_t classes_;
  const InputSpec spec_;
  absl::optional<uint64_t> unreadable_;
  absl::optional<uint64_t> misshapen_;
  std::vector<uint64_t> file_starts_ = {0};
};

// A pipeline over a FakeSource, shuffled if there is a seed.
inline std::unique_ptr<Pipeline> FakePipeline(
    uint64_t size, absl::optional<uint64_t> seed = absl::nullopt,
    absl::optional<uint64_t> unreadable = absl::nullopt) {
  auto source = std::make_unique<FakeSource>(size);
  if (unreadable.has_value()) source->set_unreadable(*unreadable);
  return *Pipeline::Create(
      std::move(source), v1::InputConfig(),
      {.seed = seed.value_or(0), .training = seed.has_value()});
}

}  // namespace paramd

#endif  // PARAMD_INPUT_TESTING_FAKE_SOURCE_H_
