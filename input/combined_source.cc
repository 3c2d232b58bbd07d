#include "input/combined_source.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "base/crc32c.h"
#include "base/random.h"
#include "input/spare_examples.h"

namespace paramd {
namespace {

constexpr uint64_t kMostPlaces = 0xffffffff;

// Which of several ranges, one behind the other, `at` lies in; `begins` has
// where each begins, and the end of the last.
size_t RangeOf(const std::vector<uint64_t>& begins, uint64_t at) {
  return static_cast<size_t>(
      std::upper_bound(begins.begin(), begins.end(), at) - begins.begin() - 1);
}

// What both kinds have of their parts.
class CombinedSource : public ExampleSource {
 public:
  const InputSpec& spec() const override { return spec_; }
  uint64_t numbers() const override { return numbers_.back(); }
  Variation variation() const override { return variation_; }

  v1::DataSet Describe() const override { return DescribeParts(false); }
  // One of the parts may be a zip.
  v1::DataSet DescribeToLabel() const override { return DescribeParts(true); }

  bool has_windows() const override {
    return std::any_of(parts_.begin(), parts_.end(),
                       [](const auto& part) { return part->has_windows(); });
  }

  // Nobody asks: an example depends on its place.
  absl::Status Read(uint64_t /*index*/, Example* /*example*/) const override {
    return absl::InternalError("a combined source is read by place");
  }

  std::string Where(uint64_t index) const override {
    const size_t p = RangeOf(numbers_, index);
    return part(p).source().Where(index - numbers_[p]);
  }

 protected:
  explicit CombinedSource(Parts parts) : parts_(std::move(parts)) {
    for (const auto& part : parts_) {
      numbers_.push_back(numbers_.back() + part->source().numbers());
      const Variation& one = part->variation();
      variation_.shuffled |= one.shuffled;
      variation_.repeated |= one.repeated;
      variation_.seeded |= one.seeded;
      if (variation_.varies.empty()) variation_.varies = one.varies;
      variation_.drawn.insert(one.drawn.begin(), one.drawn.end());
    }
  }

  size_t parts() const { return parts_.size(); }
  const Pipeline& part(size_t p) const { return *parts_[p]; }
  uint64_t first_number(size_t p) const { return numbers_[p]; }

  InputSpec spec_;
  Variation variation_;

 private:
  v1::DataSet DescribeParts(bool to_label) const {
    v1::DataSet data = part(0).source().Describe();
    data.set_examples(numbers());
    std::string sums;
    for (const auto& part : parts_) {
      const v1::DataSet one = part->Describe();
      const uint32_t examples =
          to_label ? part->source().DescribeToLabel().examples_crc32c()
                   : one.examples_crc32c();
      absl::StrAppend(&sums, one.examples(), " ", examples, " ",
                      one.labels_crc32c(), " ");
    }
    data.set_examples_crc32c(static_cast<uint32_t>(StableHash(sums)));
    data.clear_labels_crc32c();
    return data;
  }

  const Parts parts_;
  std::vector<uint64_t> numbers_ = {0};
};

// ---- by weight --------------------------------------------------------------

// Draws of which part each example is. Places of parts are counted one part
// behind the other, as `begins` says.
class Sampling {
 public:
  Sampling(const std::vector<uint64_t>& begins, std::vector<double> weights,
           uint64_t seed)
      : begins_(begins),
        weights_(std::move(weights)),
        next_(begins.begin(), begins.end() - 1),
        random_(StableHash("sample_from", seed)) {}

  std::vector<uint32_t> Draw(bool stop_on_empty) {
    std::vector<uint32_t> order;
    double sum = Sum();
    while (sum > 0) {
      const size_t p = DrawPart(sum);
      if (next_[p] == begins_[p + 1]) break;
      order.push_back(static_cast<uint32_t>(next_[p]++));
      if (!stop_on_empty && next_[p] == begins_[p + 1]) {
        weights_[p] = 0;
        sum = Sum();
      }
    }
    return order;
  }

 private:
  double Sum() const {
    return std::accumulate(weights_.begin(), weights_.end(), 0.0);
  }

  size_t DrawPart(double sum) {
    const double share = static_cast<double>(random_.Bits() >> 11) * 0x1p-53;
    double at = share * sum;
    size_t found = 0;
    for (size_t p = 0; p < weights_.size(); ++p) {
      if (weights_[p] == 0) continue;
      found = p;  // The last one, should rounding leave a rest.
      if (at < weights_[p]) break;
      at -= weights_[p];
    }
    return found;
  }

  const std::vector<uint64_t>& begins_;
  std::vector<double> weights_;
  std::vector<uint64_t> next_;
  RandomStream random_;
};

class SampledSource : public CombinedSource {
 public:
  SampledSource(Parts parts, std::vector<uint64_t> begins,
                std::vector<uint32_t> order, bool stop_on_empty)
      : CombinedSource(std::move(parts)),
        begins_(std::move(begins)),
        order_(std::move(order)) {
    spec_ = part(0).examples().spec();
    for (size_t p = 1; p < this->parts(); ++p) {
      const InputSpec& other = part(p).examples().spec();
      for (size_t f = 0; f < spec_.features.size(); ++f) {
        spec_.features[f].classes =
            std::max(spec_.features[f].classes, other.features[f].classes);
      }
    }
    variation_.seeded = true;
    if (stop_on_empty && variation_.shuffled && variation_.varies.empty()) {
      variation_.varies =
          "a sample_from with stop_on_empty of shuffled sources, which gives "
          "other examples in each epoch";
    }
  }

  uint64_t size() const override { return order_.size(); }
  // They are all read as the first one.
  SourceNames Names() const override { return part(0).names(); }
  std::vector<v1::DataMeaning> PartMeanings() const override {
    return part(0).source().PartMeanings();
  }

  uint64_t IndexOf(uint64_t epoch, uint64_t offset) const override {
    const Place place = PlaceOf({epoch, offset});
    return first_number(place.part) +
           part(place.part).examples().IndexAt(place.within);
  }
  absl::Status ReadAt(const ExamplePlace& at, Example* example) const override {
    const Place place = PlaceOf(at);
    absl::Status status =
        part(place.part).examples().Get(place.within, example);
    example->index += first_number(place.part);
    return status;
  }
  absl::Status ReadFeatureAt(const ExamplePlace& at, size_t feature,
                             Example* example) const override {
    const Place place = PlaceOf(at);
    absl::Status status =
        part(place.part).examples().GetFeature(place.within, feature, example);
    example->index += first_number(place.part);
    return status;
  }

 private:
  struct Place {
    size_t part;
    ExamplePlace within;
  };
  Place PlaceOf(const ExamplePlace& place) const {
    const uint64_t at = order_[place.offset];
    const size_t p = RangeOf(begins_, at);
    return {p, {place.epoch, at - begins_[p]}};
  }

  const std::vector<uint64_t> begins_;
  const std::vector<uint32_t> order_;
};

// ---- side by side -----------------------------------------------------------

class ZippedSource : public CombinedSource {
 public:
  explicit ZippedSource(Parts parts) : CombinedSource(std::move(parts)) {
    size_ = part(0).examples().size();
    for (size_t p = 0; p < this->parts(); ++p) {
      const Stage& examples = part(p).examples();
      size_ = std::min(size_, examples.size());
      first_features_.push_back(spec_.features.size());
      spec_.features.insert(spec_.features.end(),
                            examples.spec().features.begin(),
                            examples.spec().features.end());
    }
    if ((variation_.shuffled || variation_.repeated) &&
        variation_.varies.empty()) {
      variation_.varies =
          "a zip of shuffled or repeated sources, whose examples meet others "
          "each time";
    }
  }

  uint64_t size() const override { return size_; }

  v1::DataSet DescribeToLabel() const override {
    v1::DataSet data = CombinedSource::DescribeToLabel();
    bool are_plain = true;  // Example i stands beside example i.
    uint32_t sum = data.examples_crc32c();
    for (size_t p = 1; p < parts(); ++p) {
      for (uint64_t i = 0; i < size_; ++i) {
        const uint64_t index = part(p).examples().IndexAt({0, i});
        are_plain &= index == i;
        sum = Crc32c(
            absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&index),
                                sizeof(index)),
            sum);
      }
    }
    if (!are_plain) data.set_examples_crc32c(sum);
    return data;
  }

  SourceNames Names() const override {
    SourceNames names;
    for (size_t p = 0; p < parts(); ++p) {
      names.parts.push_back(part(p).names());
    }
    return names;
  }
  std::vector<v1::DataMeaning> PartMeanings() const override {
    std::vector<v1::DataMeaning> meanings;
    for (size_t p = 0; p < parts(); ++p) {
      meanings.push_back(part(p).meaning());
    }
    return meanings;
  }

  std::vector<uint64_t> FileStartsIn(uint64_t epoch) const override {
    std::vector<uint64_t> starts = part(0).examples().FileStarts(epoch);
    while (starts.back() >= size_) starts.pop_back();
    return starts;
  }
  uint64_t IndexOf(uint64_t epoch, uint64_t offset) const override {
    return part(0).examples().IndexAt({epoch, offset});
  }

  absl::Status ReadAt(const ExamplePlace& place,
                      Example* example) const override {
    Example one = spare_.Take();
    absl::Status status;
    // Each part finds the memory that it had.
    example->values.resize(spec_.features.size());
    for (size_t p = 0; p < parts() && status.ok(); ++p) {
      MoveFeatures(p, example, &one);
      status = part(p).examples().Get(place, &one);
      if (!status.ok()) example->index = first_number(p) + one.index;
      if (status.ok()) MoveBack(p, &one, example);
    }
    spare_.GiveBack(std::move(one));
    return status;
  }

  absl::Status ReadFeatureAt(const ExamplePlace& place, size_t feature,
                             Example* example) const override {
    const auto after = std::upper_bound(first_features_.begin(),
                                        first_features_.end(), feature);
    const auto p = static_cast<size_t>(after - first_features_.begin() - 1);
    Example one = spare_.Take();
    absl::Status status = part(p).examples().GetFeature(
        place, feature - first_features_[p], &one);
    if (status.ok()) {
      example->values.resize(spec_.features.size());
      std::swap(example->values[feature],
                one.values[feature - first_features_[p]]);
    } else {
      example->index = first_number(p) + one.index;
    }
    spare_.GiveBack(std::move(one));
    return status;
  }

 private:
  size_t FeaturesOf(size_t p) const {
    return part(p).examples().spec().features.size();
  }
  void MoveFeatures(size_t p, Example* example, Example* one) const {
    one->values.resize(FeaturesOf(p));
    for (size_t f = 0; f < one->values.size(); ++f) {
      std::swap(one->values[f], example->values[first_features_[p] + f]);
    }
  }
  void MoveBack(size_t p, Example* one, Example* example) const {
    for (size_t f = 0; f < FeaturesOf(p); ++f) {
      std::swap(one->values[f], example->values[first_features_[p] + f]);
    }
  }

  uint64_t size_ = 0;
  std::vector<size_t> first_features_;
  mutable SpareExamples spare_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ExampleSource>> MakeSampled(
    Parts parts, std::vector<double> weights, bool stop_on_empty,
    uint64_t seed) {
  if (weights.empty()) weights.assign(parts.size(), 1);
  if (weights.size() != parts.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", weights.size(), " weights for ", parts.size(),
                     " sources; give one for each, or none"));
  }
  std::vector<uint64_t> begins = {0};
  for (const auto& part : parts) {
    begins.push_back(begins.back() + part->examples().size());
  }
  if (begins.back() > kMostPlaces) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", begins.back(), " examples; at most ", kMostPlaces,
                     " can be drawn from"));
  }
  std::vector<uint32_t> order =
      Sampling(begins, std::move(weights), seed).Draw(stop_on_empty);
  return std::make_unique<SampledSource>(std::move(parts), std::move(begins),
                                         std::move(order), stop_on_empty);
}

absl::StatusOr<std::unique_ptr<ExampleSource>> MakeZipped(Parts parts) {
  InputSpec spec;
  for (size_t p = 0; p < parts.size(); ++p) {
    for (const FeatureSpec& feature : parts[p]->examples().spec().features) {
      if (spec.Find(feature.name) != nullptr) {
        return absl::InvalidArgumentError(absl::StrCat(
            "source ", p + 1, " has a feature '", feature.name,
            "', as one before it has: give it another name, or leave it out"));
      }
      spec.features.push_back(feature);
    }
  }
  return std::make_unique<ZippedSource>(std::move(parts));
}

uint64_t SeedOfPart(uint64_t seed, uint64_t number) {
  return StableHash(absl::StrCat("source ", number), seed);
}

}  // namespace paramd
