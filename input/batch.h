#ifndef PARAMD_INPUT_BATCH_H_
#define PARAMD_INPUT_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "input/example.h"
#include "tensor/tensor.h"

namespace paramd {

// One named tensor of every example.
struct FeatureSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  Dims dims;             // Of one example; of one element if ragged.
  uint32_t classes = 0;  // Above 0: its values are integers below this.
  // Examples have any number of elements of `dims` each.
  bool ragged = false;

  // Values of one example, or of one element if ragged.
  uint64_t size() const {
    uint64_t size = 1;
    for (const uint64_t dimension : dims) size *= dimension;
    return size;
  }
  bool operator==(const FeatureSpec&) const = default;
};

// What every example of a data set looks like. Names are unique.
struct InputSpec {
  std::vector<FeatureSpec> features;

  // Null if there is none of this name.
  const FeatureSpec* Find(absl::string_view name) const;
  bool operator==(const InputSpec&) const = default;
};

// "image" of float32 and "label" of int32 below `classes`: what IDX files hold.
InputSpec LabelledImages(Dims dims, uint32_t classes);

// A range of offsets into the order of one epoch's examples: [begin, end).
struct Portion {
  uint64_t epoch = 0;
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t size() const { return end - begin; }
  bool operator==(const Portion&) const = default;
};

// One feature of the examples of a batch. Its memory grows with the largest
// batch seen and is used again.
class Column {
 public:
  // Becomes `examples` examples of `spec`, whose values are not specified. A
  // ragged column gets no elements: see ResizeRagged.
  void Reset(const FeatureSpec& spec, uint64_t examples);

  // Becomes the examples [begin, end) of `from`. REQUIRES: it has them.
  void CopyExamples(const Column& from, uint64_t begin, uint64_t end);

  // Of a ragged column, for whoever fills it: one more than there are examples,
  // the first of them 0; the others are to be set before ResizeRagged.
  absl::Span<uint64_t> mutable_offsets() { return absl::MakeSpan(offsets_); }
  // Makes room for the elements that the offsets say, and keeps the values that
  // are there. REQUIRES: ragged; the offsets do not fall.
  void ResizeRagged();

  const std::string& name() const { return spec_.name; }
  const FeatureSpec& spec() const { return spec_; }
  // Of a ragged column, where each example's elements begin, and the end of the
  // last; otherwise empty.
  const std::vector<uint64_t>& offsets() const { return offsets_; }

  // [examples, dims...]; if ragged, [elements, dims...].
  Tensor tensor();
  ConstTensor tensor() const;

  // All values. REQUIRES: T is of the dtype.
  template <class T>
  absl::Span<T> values() {
    return tensor().values<T>();
  }
  template <class T>
  absl::Span<const T> values() const {
    return tensor().values<T>();
  }

 private:
  void Reserve();

  FeatureSpec spec_;
  uint64_t rows_ = 0;  // Examples, or elements if ragged.
  std::vector<uint64_t> offsets_;
  std::vector<std::byte> memory_;
};

// What tells people where in its files a source has an example.
class ExampleNames {
 public:
  virtual ~ExampleNames() = default;

  // Where example `index` stands, for a sentence: "'train.csv' line 18".
  virtual std::string Where(uint64_t index) const = 0;
};

// The examples of one step, and where in the input they stand.
struct Batch {
  // The offsets that the batch stands for.
  Portion range;
  // Fewer than range.size() where some could not be read.
  uint64_t examples = 0;
  std::vector<Column> columns;
  // Of each file of labels that a model learns from, what it says of each
  // example: a vector of probabilities. Set by whoever has such files.
  std::vector<Column> taught;
  // Of each example its place in the epoch's order. Empty: all of the range.
  std::vector<uint64_t> offsets;
  // Of each example its number in the source, which `names` knows and which
  // outlives the batch. Empty: nobody said.
  std::vector<uint64_t> indices;
  const ExampleNames* names = nullptr;
  // Memory of who puts it together; nothing that lasts.
  std::vector<Example> scratch;

  uint64_t size() const { return examples; }

  // Becomes `count` examples of `spec`, whose values are not specified; where
  // they come from is not said.
  void Reset(const InputSpec& spec, uint64_t count);

  // Becomes the examples [begin, end) of `from`, which stand where they did: a
  // micro-batch. REQUIRES: it has them.
  void CopyExamples(const Batch& from, uint64_t begin, uint64_t end);

  // Example i for a sentence: its file and place, if they are known. REQUIRES:
  // i < size().
  std::string Where(uint64_t i) const;

  // Null if there is none of this name.
  Column* Find(absl::string_view name);
  const Column* Find(absl::string_view name) const;
};

}  // namespace paramd

#endif  // PARAMD_INPUT_BATCH_H_
