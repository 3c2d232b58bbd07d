#ifndef PARAMD_WORKER_INPUT_TESTING_FAKE_DATASET_H_
#define PARAMD_WORKER_INPUT_TESTING_FAKE_DATASET_H_

#include <cstdint>
#include <utility>

#include "absl/types/optional.h"

#include "worker/input/dataset.h"

namespace paramd {

// Examples that say their own number: example i is one value, i, with the
// label i modulo the classes. Immutable but for set_unreadable, which is called
// before use.
class FakeDataset : public Dataset {
 public:
  explicit FakeDataset(uint64_t size, uint32_t classes = 10) : size_(size) {
    spec_.example_shape = {1};
    spec_.classes = classes;
  }

  // Reading this example will fail with DATA_LOSS.
  void set_unreadable(uint32_t index) { unreadable_ = index; }

  const InputSpec& spec() const override { return spec_; }
  uint64_t size() const override { return size_; }
  v1::DataSet Describe() const override { return {}; }
  absl::Status Read(absl::Span<const uint32_t> indices,
                    Batch* batch) const override {
    batch->examples.clear();
    batch->labels.clear();
    for (const uint32_t index : indices) {
      if (unreadable_ == index) return absl::DataLossError("unreadable");
      batch->examples.push_back(static_cast<float>(index));
      batch->labels.push_back(index % spec_.classes);
    }
    return absl::OkStatus();
  }

 private:
  const uint64_t size_;
  InputSpec spec_;
  absl::optional<uint32_t> unreadable_;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_INPUT_TESTING_FAKE_DATASET_H_
