// Losses of rows on a device beside float64 of the reference.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "base/random.h"
#include "compute/device/float_type.h"
#include "compute/device/reference_device.h"
#include "compute/device/rounding.h"
#include "compute/device/testing/test_device.h"

namespace paramd {
namespace {

using Kind = RowLoss::Kind;

constexpr uint64_t kRows = 9;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr Kind kKinds[] = {Kind::kSoftmaxCrossEntropy, Kind::kDivergence,
                           Kind::kBinaryCrossEntropy, Kind::kSquaredError};
const std::pair<ComputeFormat, double> kFormats[] = {
    {ComputeFormat::kFp32, 1e-5},
    {ComputeFormat::kBf16, 1e-2},
    {ComputeFormat::kFp16, 2e-3}};

// Rows of outputs, and what they are to be.
struct Case {
  RowLoss loss;
  uint64_t columns = 1;
  std::vector<float> outputs = {};
  std::vector<int32_t> labels = {};  // Of classes, or
  std::vector<float> numbers = {};
  std::vector<int64_t> items = {};  // Of a batch.
  std::vector<double> factors = {};

  uint64_t rows() const { return factors.size(); }
};

Case RandomCase(const RowLoss& loss, uint64_t columns, float low, float high,
                uint64_t seed = 1) {
  RandomStream random(seed);
  Case made{.loss = loss, .columns = columns};
  made.items.assign(1, 0);
  for (uint64_t i = 0; i < kRows * columns; ++i) {
    made.outputs.push_back(low + (high - low) * random.Uniform());
    made.numbers.push_back(random.Chance(0.2) ? 0 : random.Uniform());
    if (loss.kind == Kind::kDivergence) {
      made.numbers.back() /= static_cast<float>(columns);
    }
  }
  for (uint64_t row = 0; row < kRows; ++row) {
    made.labels.push_back(static_cast<int32_t>(random.Below(columns)));
    made.factors.push_back(0.125 * static_cast<double>(1 + random.Below(5)));
  }
  return made;
}

// Scores of a batch with so many items, of which some rows count for nothing.
Case InBatchCase(uint64_t rows, uint64_t items, uint64_t seed = 1) {
  RandomStream random(seed);
  Case made{.loss = {.kind = Kind::kInBatchSoftmax}, .columns = rows};
  made.labels.assign(1, 0);
  made.numbers.assign(1, 0);
  for (uint64_t i = 0; i < rows * rows; ++i) {
    made.outputs.push_back(12 * random.Uniform() - 6);
  }
  for (uint64_t row = 0; row < rows; ++row) {
    // Above 32 bits, where they differ.
    made.items.push_back(static_cast<int64_t>(random.Below(items) << 33) - 5);
    made.factors.push_back(0.125 * static_cast<double>(random.Below(5)));
  }
  return made;
}

struct Said {
  std::vector<double> gradient;
  std::vector<double> numbers;
};

// Memory of a device.
class Held {
 public:
  Held(const void* values, uint64_t bytes, Device* device)
      : device_(*device), bytes_(bytes), memory_(device->Allocate(bytes)) {
    device->Copy(values, bytes, memory_.get());
  }
  void* get() const { return memory_.get(); }
  template <class T>
  std::vector<T> Read() {
    std::vector<T> values(bytes_ / sizeof(T));
    device_.Copy(memory_.get(), bytes_, values.data());
    device_.Finish();
    return values;
  }

 private:
  Device& device_;
  const uint64_t bytes_;
  const Device::Memory memory_;
};

// As bytes of the dtype, and back.
std::vector<std::byte> Encoded(const std::vector<float>& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * SizeOf(dtype));
  const ConstTensor from(values.data(), DType::kFloat32, {values.size()});
  const Tensor to = {bytes.data(), dtype, {values.size()}};
  if (IsHalf(dtype)) {
    ReferenceDevice().Convert(from, to);
  } else {
    WithFloatType(dtype, [&](auto zero) {
      const auto into = to.values<decltype(zero)>();
      std::copy(values.begin(), values.end(), into.begin());
    });
  }
  return bytes;
}

std::vector<double> Decoded(const std::vector<std::byte>& bytes, DType dtype) {
  const uint64_t count = bytes.size() / SizeOf(dtype);
  std::vector<double> values(count);
  if (IsHalf(dtype)) {
    std::vector<float> floats(count);
    ReferenceDevice().Convert(ConstTensor(bytes.data(), dtype, {count}),
                              {floats.data(), DType::kFloat32, {count}});
    std::copy(floats.begin(), floats.end(), values.begin());
  } else {
    WithFloatType(dtype, [&](auto zero) {
      const auto from =
          ConstTensor(bytes.data(), dtype, {count}).values<decltype(zero)>();
      std::copy(from.begin(), from.end(), values.begin());
    });
  }
  return values;
}

Said Compute(const Case& given, DType dtype, Device* device,
             bool wants_gradient = true) {
  const bool of_classes = given.loss.kind == Kind::kSoftmaxCrossEntropy;
  const bool of_batch = given.loss.kind == Kind::kInBatchSoftmax;
  const uint64_t rows = given.rows();
  const Dims dims = {rows, given.columns};
  const std::vector<std::byte> outputs = Encoded(given.outputs, dtype);
  const std::vector<std::byte> none(outputs.size(), std::byte{0xff});
  const std::vector<double> unset(rows * RowLoss::kNumbers, NAN);
  const Held z(outputs.data(), outputs.size(), device);
  const Held labels(given.labels.data(), given.labels.size() * sizeof(int32_t),
                    device);
  const Held items(given.items.data(), given.items.size() * sizeof(int64_t),
                   device);
  const Held y(given.numbers.data(), given.numbers.size() * sizeof(float),
               device);
  const Held factors(given.factors.data(), rows * sizeof(double), device);
  Held gradient(none.data(), none.size(), device);
  Held numbers(unset.data(), unset.size() * sizeof(double), device);
  device->Losses(
      given.loss, ConstTensor(z.get(), dtype, dims),
      of_classes ? ConstTensor(labels.get(), DType::kInt32, {rows})
      : of_batch ? ConstTensor(items.get(), DType::kInt64, {rows})
                 : ConstTensor(y.get(), DType::kFloat32, dims),
      ConstTensor(factors.get(), DType::kFloat64, {rows}),
      wants_gradient ? Tensor{gradient.get(), dtype, dims} : Tensor(),
      {numbers.get(), DType::kFloat64, {rows, RowLoss::kNumbers}});
  return {Decoded(gradient.Read<std::byte>(), dtype), numbers.Read<double>()};
}

double LargestOf(const std::vector<double>& values) {
  double largest = 1;
  for (const double value : values) {
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

void ExpectNear(const Said& found, const Said& wanted, double tolerance) {
  const double gradients = LargestOf(wanted.gradient);
  for (size_t i = 0; i < wanted.gradient.size(); ++i) {
    ASSERT_NEAR(found.gradient[i], wanted.gradient[i], tolerance * gradients)
        << "gradient " << i;
  }
  // Outputs are exact, whatever the format.
  const double numbers = LargestOf(wanted.numbers);
  for (size_t i = 0; i < wanted.numbers.size(); ++i) {
    if (i % RowLoss::kNumbers == RowLoss::kCount) {
      ASSERT_EQ(found.numbers[i], wanted.numbers[i]) << "count " << i;
    } else {
      ASSERT_NEAR(found.numbers[i], wanted.numbers[i], 1e-5 * numbers)
          << "number " << i;
    }
  }
}

// In each format, with float64 and with itself.
void ExpectAgrees(Case given) {
  for (const auto& [format, tolerance] : kFormats) {
    const std::unique_ptr<Device> device = MakeTestDevice();
    device->SetComputeFormat(format);
    const DType dtype = device->activations();
    if (format != ComputeFormat::kFp32 && !IsHalf(dtype)) continue;
    SCOPED_TRACE(std::string(NameOf(dtype)) + ", kind " +
                 std::to_string(static_cast<int>(given.loss.kind)) + ", " +
                 std::to_string(given.columns) + " columns");
    Round(format, given.outputs.data(), given.outputs.size(),
          given.outputs.data());
    ReferenceDevice reference;
    const Said wanted = Compute(given, DType::kFloat64, &reference);
    const Said found = Compute(given, dtype, device.get());
    ExpectNear(found, wanted, tolerance);
    const Said again = Compute(given, dtype, device.get());
    EXPECT_EQ(found.gradient, again.gradient);
    EXPECT_EQ(found.numbers, again.numbers);
    const Said alone =
        Compute(given, dtype, device.get(), /*wants_gradient=*/false);
    EXPECT_EQ(found.numbers, alone.numbers);
    for (const double value : alone.gradient) {
      ASSERT_TRUE(std::isnan(value)) << "nobody wanted it";
    }
  }
}

using DeviceLossTest = OnTestDevice;

TEST_F(DeviceLossTest, EachKindAgreesWithFloat64) {
  for (const Kind kind : kKinds) {
    for (const uint64_t columns : {1, 2, 10, 1000}) {
      for (const double smoothing : {0.0, 0.1}) {
        if (smoothing > 0 && kind != Kind::kSoftmaxCrossEntropy) continue;
        ExpectAgrees(RandomCase({.kind = kind, .smoothing = smoothing}, columns,
                                -6, 6, columns));
      }
    }
  }
}

TEST_F(DeviceLossTest, ADivergenceAtATemperatureAgreesWithFloat64) {
  for (const uint64_t columns : {1, 2, 10, 1000}) {
    for (const double temperature : {0.25, 1.0, 4.0, 1000.0}) {
      ExpectAgrees(
          RandomCase({.kind = Kind::kDivergence, .temperature = temperature},
                     columns, -6, 6, columns));
    }
  }
}

// sum_j y[j] log(y[j] / softmax(z / T)[j]).
double DivergenceOf(const Case& given, uint64_t row,
                    const std::vector<double>& z) {
  double sum = 0;
  double loss = 0;
  for (uint64_t c = 0; c < given.columns; ++c) {
    sum += std::exp(z[c] / given.loss.temperature);
  }
  for (uint64_t c = 0; c < given.columns; ++c) {
    const double y = given.numbers[row * given.columns + c];
    if (y == 0) continue;
    loss += y * (std::log(y) - z[c] / given.loss.temperature + std::log(sum));
  }
  return loss;
}

TEST_F(DeviceLossTest, ADivergenceAtATemperatureIsWhatTheFormulaSays) {
  constexpr double kStep = 1e-5;
  for (const double temperature : {0.5, 1.0, 3.0, 20.0}) {
    const Case given = RandomCase(
        {.kind = Kind::kDivergence, .temperature = temperature}, 7, -4, 4);
    ReferenceDevice reference;
    const Said said = Compute(given, DType::kFloat64, &reference);
    for (uint64_t row = 0; row < kRows; ++row) {
      const auto first = given.outputs.begin() + row * given.columns;
      const std::vector<double> z(first, first + given.columns);
      EXPECT_NEAR(said.numbers[row * RowLoss::kNumbers],
                  DivergenceOf(given, row, z), 1e-12);
      for (uint64_t c = 0; c < given.columns; ++c) {
        std::vector<double> above = z;
        std::vector<double> below = z;
        above[c] += kStep;
        below[c] -= kStep;
        const double slope = (DivergenceOf(given, row, above) -
                              DivergenceOf(given, row, below)) /
                             (2 * kStep);
        EXPECT_NEAR(said.gradient[row * given.columns + c],
                    given.factors[row] * slope, 1e-8);
      }
    }
  }
}

TEST_F(DeviceLossTest, ALossOverABatchAgreesWithFloat64) {
  for (const uint64_t rows : {1, 2, 9, 40, 300}) {
    for (const uint64_t items : {1, 4, 1000}) {
      ExpectAgrees(InBatchCase(rows, items, rows + items));
    }
  }
}

// Whether column c is there in a row of scores of a batch.
bool IsThere(const Case& given, uint64_t row, uint64_t c) {
  if (c == row) return true;
  return given.items[c] != given.items[row] && given.factors[c] != 0;
}

// log sum_c exp(z[c]) - z[row], over the columns that are there.
double InBatchLossOf(const Case& given, uint64_t row,
                     const std::vector<double>& z) {
  double sum = 0;
  for (uint64_t c = 0; c < given.columns; ++c) {
    if (IsThere(given, row, c)) sum += std::exp(z[c]);
  }
  return std::log(sum) - z[row];
}

TEST_F(DeviceLossTest, ALossOverABatchIsWhatTheFormulaSays) {
  constexpr double kStep = 1e-5;
  const Case given = InBatchCase(12, 5);
  ReferenceDevice reference;
  const Said said = Compute(given, DType::kFloat64, &reference);
  for (uint64_t row = 0; row < given.rows(); ++row) {
    const auto first = given.outputs.begin() + row * given.columns;
    const std::vector<double> z(first, first + given.columns);
    uint64_t above = 0;
    for (uint64_t c = 0; c < given.columns; ++c) {
      above += IsThere(given, row, c) && z[c] > z[row] ? 1 : 0;
      std::vector<double> more = z;
      std::vector<double> less = z;
      more[c] += kStep;
      less[c] -= kStep;
      const double slope =
          (InBatchLossOf(given, row, more) - InBatchLossOf(given, row, less)) /
          (2 * kStep);
      EXPECT_NEAR(said.gradient[row * given.columns + c],
                  given.factors[row] * slope, 1e-8);
    }
    const double* const numbers = &said.numbers[row * RowLoss::kNumbers];
    EXPECT_NEAR(numbers[RowLoss::kLoss], InBatchLossOf(given, row, z), 1e-12);
    EXPECT_EQ(numbers[RowLoss::kPlainLoss], numbers[RowLoss::kLoss]);
    EXPECT_EQ(numbers[RowLoss::kCount], above);
  }
}

TEST_F(DeviceLossTest, WhatIsNotThereOfABatchDoesNotMatter) {
  const std::unique_ptr<Device> device = MakeTestDevice();
  Case given = InBatchCase(9, 3);
  const Said said = Compute(given, DType::kFloat32, device.get());
  uint64_t changed = 0;
  for (uint64_t row = 0; row < given.rows(); ++row) {
    for (uint64_t c = 0; c < given.columns; ++c) {
      if (IsThere(given, row, c)) continue;
      EXPECT_EQ(said.gradient[row * given.columns + c], 0);
      given.outputs[row * given.columns + c] = 1e30f;
      ++changed;
    }
  }
  EXPECT_GT(changed, given.rows());
  const Said again = Compute(given, DType::kFloat32, device.get());
  EXPECT_EQ(again.numbers, said.numbers);
  EXPECT_EQ(again.gradient, said.gradient);
}

TEST_F(DeviceLossTest, AnItemAloneHasNoLoss) {
  const std::unique_ptr<Device> device = MakeTestDevice();
  for (const uint64_t rows : {1, 5}) {
    const Case given = InBatchCase(rows, /*items=*/1);
    const Said said = Compute(given, DType::kFloat32, device.get());
    for (const double value : said.numbers) EXPECT_EQ(value, 0);
    for (const double value : said.gradient) EXPECT_EQ(value, 0);
  }
}

TEST_F(DeviceLossTest, AScoreThatIsNotFiniteShowsInItsRowAlone) {
  const std::unique_ptr<Device> device = MakeTestDevice();
  for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
    for (const uint64_t place : {0, 4, 5, 8}) {
      Case given = InBatchCase(9, 1000);
      given.items = {1, 2, 3, 4, 5, 6, 7, 8, 9};
      given.factors.assign(given.rows(), 1);
      given.outputs[5 * given.columns + place] = bad;
      const Said said = Compute(given, DType::kFloat32, device.get());
      for (uint64_t row = 0; row < given.rows(); ++row) {
        EXPECT_EQ(std::isfinite(said.numbers[row * RowLoss::kNumbers]),
                  row != 5)
            << bad << " at " << place;
      }
    }
  }
}

TEST_F(DeviceLossTest, OfEqualScoresTheFirstIsAboveTheOthers) {
  Case given = InBatchCase(4, 1000);
  given.items = {1, 2, 3, 4};
  given.factors.assign(4, 1);
  given.outputs.clear();
  for (int row = 0; row < 4; ++row) {
    given.outputs.insert(given.outputs.end(), {3, 7, 3, 7});
  }
  const std::unique_ptr<Device> device = MakeTestDevice();
  const Said said = Compute(given, DType::kFloat32, device.get());
  const std::vector<double> above = {2, 0, 3, 1};
  for (uint64_t row = 0; row < 4; ++row) {
    EXPECT_EQ(said.numbers[row * RowLoss::kNumbers + RowLoss::kCount],
              above[row]);
  }
}

TEST_F(DeviceLossTest, IgnoredLabelsAgreeWhateverTheirRowsHold) {
  for (const int32_t ignored : {-100, 1}) {
    Case given = RandomCase({.smoothing = 0.1, .ignored = ignored}, 5, -3, 3);
    for (const uint64_t row : {0, 4, 8}) given.labels[row] = ignored;
    given.labels[2] = 3;
    given.outputs[4 * given.columns] = NAN;
    ExpectAgrees(given);
    const std::unique_ptr<Device> device = MakeTestDevice();
    const Said said = Compute(given, DType::kFloat32, device.get());
    for (uint64_t c = 0; c < given.columns; ++c) {
      EXPECT_EQ(said.gradient[4 * given.columns + c], 0);
    }
    for (uint64_t n = 0; n < RowLoss::kNumbers; ++n) {
      EXPECT_EQ(said.numbers[4 * RowLoss::kNumbers + n], 0);
    }
    EXPECT_GT(said.numbers[2 * RowLoss::kNumbers], 0);
  }
}

TEST_F(DeviceLossTest, LargeOutputsDoNotOverflow) {
  const std::unique_ptr<Device> device = MakeTestDevice();
  for (const Kind kind : kKinds) {
    for (const float large : {1e4f, 1e18f, 1.5e38f}) {
      // What is left of its square is no float32.
      if (kind == Kind::kSquaredError && large > 1e30f) continue;
      for (const double smoothing : {0.0, 0.1}) {
        const Case given = RandomCase({.kind = kind, .smoothing = smoothing},
                                      40, -large, large);
        ReferenceDevice reference;
        const Said wanted = Compute(given, DType::kFloat64, &reference);
        const Said found = Compute(given, DType::kFloat32, device.get());
        for (const double value : wanted.numbers) {
          ASSERT_TRUE(std::isfinite(value));
        }
        ExpectNear(found, wanted, 1e-5);
      }
    }
  }
}

TEST_F(DeviceLossTest, AnOutputThatIsNotFiniteShowsInItsRowAlone) {
  const std::unique_ptr<Device> device = MakeTestDevice();
  for (const Kind kind : kKinds) {
    for (const float bad : {kInfinity, -kInfinity, std::nanf("")}) {
      for (const uint64_t columns : {1, 4, 7}) {
        for (uint64_t place = 0; place < columns; ++place) {
          Case given = RandomCase({.kind = kind}, columns, -3, 3);
          given.outputs[5 * columns + place] = bad;
          const Said said = Compute(given, DType::kFloat32, device.get());
          for (uint64_t row = 0; row < kRows; ++row) {
            EXPECT_EQ(
                std::isfinite(
                    said.numbers[row * RowLoss::kNumbers + RowLoss::kLoss]),
                row != 5)
                << static_cast<int>(kind) << ": " << bad << " at " << place
                << " of " << columns;
          }
        }
      }
    }
  }
}

TEST_F(DeviceLossTest, OfEqualOutputsTheFirstIsAboveTheOthers) {
  Case given = RandomCase({}, 4, 0, 1);
  given.outputs.clear();
  for (uint64_t row = 0; row < kRows; ++row) {
    given.outputs.insert(given.outputs.end(), {3, 7, 3, 7});
    given.labels[row] = static_cast<int32_t>(row % 4);
  }
  const std::unique_ptr<Device> device = MakeTestDevice();
  const Said said = Compute(given, DType::kFloat32, device.get());
  const std::vector<double> above = {2, 0, 3, 1};
  for (uint64_t row = 0; row < kRows; ++row) {
    EXPECT_EQ(said.numbers[row * RowLoss::kNumbers + RowLoss::kCount],
              above[row % 4]);
  }
}

TEST_F(DeviceLossTest, ThePlainLossIsTheOneWithoutSmoothing) {
  const std::unique_ptr<Device> device = MakeTestDevice();
  const Case smoothed = RandomCase({.smoothing = 0.3}, 20, -4, 4);
  Case plain = smoothed;
  plain.loss.smoothing = 0;
  const Said found = Compute(smoothed, DType::kFloat32, device.get());
  const Said wanted = Compute(plain, DType::kFloat32, device.get());
  for (uint64_t row = 0; row < kRows; ++row) {
    const double* const said = &found.numbers[row * RowLoss::kNumbers];
    EXPECT_EQ(said[RowLoss::kPlainLoss],
              wanted.numbers[row * RowLoss::kNumbers + RowLoss::kLoss]);
    EXPECT_NE(said[RowLoss::kPlainLoss], said[RowLoss::kLoss]);
  }
}

}  // namespace
}  // namespace paramd
