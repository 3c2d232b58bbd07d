// Losses and metrics beside those of scikit-learn, SciPy and NumPy, which
// metric_vectors.py found for the outputs and labels in metric_vectors.json.
#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "compute/model/loss.h"

namespace paramd {
namespace {

using Json = nlohmann::json;

struct Case {
  Loss::Options options;
  Dims dims;  // Of one example.
  std::vector<double> outputs;
  std::vector<double> labels;
  std::map<std::string, double> expected;
};

Metrics::Sum SumNamed(const std::string& name) {
  Metrics::Sum sum;
  if (name == "perplexity") sum.kind = Metrics::Kind::kPerplexity;
  if (name == "mse") sum.kind = Metrics::Kind::kMeanSquaredError;
  if (name == "auc") sum.kind = Metrics::Kind::kAuc;
  if (name == "normalised_entropy") {
    sum.kind = Metrics::Kind::kNormalisedEntropy;
  }
  if (name == "calibration") sum.kind = Metrics::Kind::kCalibration;
  if (absl::StartsWith(name, "top_")) {
    sum.kind = Metrics::Kind::kTopK;
    sum.k = static_cast<uint32_t>(std::stoul(name.substr(4)));
  }
  return sum;
}

std::vector<Case> ReadCases() {
  std::ifstream file("compute/model/metric_vectors.json");
  std::vector<Case> cases;
  for (const Json& json : Json::parse(file)) {
    Case& one = cases.emplace_back();
    EXPECT_TRUE(v1::Loss_Parse(json["loss"], &one.options.kind));
    one.options.ignore_label = -100;
    one.options.label_smoothing = json.value("label_smoothing", 0.0);
    one.options.class_weights =
        json.value("class_weights", std::vector<double>());
    for (const uint64_t dim : json["dims"]) one.dims.push_back(dim);
    one.outputs = json["outputs"].get<std::vector<double>>();
    one.labels = json["labels"].get<std::vector<double>>();
    one.expected = json["expected"].get<std::map<std::string, double>>();
    for (const auto& [name, value] : one.expected) {
      if (name != "loss") one.options.metrics.push_back(SumNamed(name));
    }
  }
  return cases;
}

// Of examples [begin, end), computed in T.
template <class T>
Metrics Compute(const Case& one, uint64_t begin, uint64_t end) {
  const Loss loss(one.options, one.dims);
  const uint64_t outputs = SizeOf(one.dims);
  const uint64_t labels = one.labels.size() / (one.outputs.size() / outputs);
  const std::vector<T> values(one.outputs.begin() + begin * outputs,
                              one.outputs.begin() + end * outputs);
  const auto from = one.labels.begin() + begin * labels;
  const auto to = one.labels.begin() + end * labels;
  const std::vector<int32_t> classes(from, to);
  const std::vector<float> numbers(from, to);
  const Dims target = {end - begin, labels};
  Dims dims = {end - begin};
  dims.insert(dims.end(), one.dims.begin(), one.dims.end());
  return loss.Compute(
      ConstTensor(values.data(), DTypeOf<T>::value, dims),
      loss.TargetIsIndex()
          ? ConstTensor(classes.data(), DType::kInt32, target)
          : ConstTensor(numbers.data(), DType::kFloat32, target),
      1, Tensor(), /*scored=*/true);
}

// Merged over batches of so many examples.
template <class T>
void ExpectMatches(double tolerance, uint64_t batch) {
  const std::vector<Case> cases = ReadCases();
  ASSERT_EQ(cases.size(), 8u);
  for (const Case& one : cases) {
    const uint64_t examples = one.outputs.size() / SizeOf(one.dims);
    Metrics sum;
    for (uint64_t begin = 0; begin < examples; begin += batch) {
      sum += Compute<T>(one, begin, std::min(begin + batch, examples));
    }
    const std::vector<NamedValue> values = sum.Values();
    EXPECT_EQ(values.size(), one.expected.size());
    for (const NamedValue& value : values) {
      const double expected = one.expected.at(value.name);
      EXPECT_NEAR(value.value, expected, tolerance * std::max(1.0, expected))
          << value.name << " of " << v1::Loss_Name(one.options.kind);
    }
  }
}

TEST(MetricVectorsTest, InFloat64TheyAreThoseOfScikitLearn) {
  ExpectMatches<double>(1e-9, 1000);
}

TEST(MetricVectorsTest, MergedOverBatchesOfAnySizeTheyAreTheSame) {
  ExpectMatches<double>(1e-9, 1);
  ExpectMatches<double>(1e-9, 7);
}

TEST(MetricVectorsTest, InFloat32TheyDifferByItsRounding) {
  ExpectMatches<float>(1e-6, 7);
}

}  // namespace
}  // namespace paramd
