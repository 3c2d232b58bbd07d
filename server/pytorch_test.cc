// The core's optimizers and schedules against PyTorch's numbers:
// pytorch_vectors.txt, which pytorch_vectors.py made.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"

#include "server/core/optimizer.h"

namespace paramd {
namespace {

constexpr size_t kElements = 4;
constexpr double kTolerance = 1e-6;  // Relative.

struct Line {
  std::string text;
  v1::OptimizerConfig config;
  std::vector<double> numbers;
};

std::vector<Line> LinesOf(absl::string_view what) {
  std::ifstream file("server/core/optimizers/pytorch_vectors.txt");
  EXPECT_TRUE(file.is_open());
  std::vector<Line> lines;
  for (std::string text; std::getline(file, text);) {
    const std::vector<std::string> parts = absl::StrSplit(text, '\t');
    if (parts[0] != what) continue;
    Line line;
    line.text = parts[1];
    const auto read =
        google::protobuf::util::JsonStringToMessage(parts[1], &line.config);
    EXPECT_TRUE(read.ok()) << parts[1];
    for (const absl::string_view number : absl::StrSplit(parts[2], ' ')) {
      double value = 0;
      EXPECT_TRUE(absl::SimpleAtod(number, &value)) << number;
      line.numbers.push_back(value);
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

// As in pytorch_vectors.py.
std::vector<float> GradientOf(size_t step) {
  std::vector<float> gradient;
  for (size_t i = 0; i < kElements; ++i) {
    const size_t n = (step * 7 + i * 13 + step * step * (i + 1)) % 23;
    gradient.push_back((static_cast<float>(n) - 11) / 8);
  }
  return gradient;
}

TEST(PytorchTest, WeightsAgreeOverAHundredSteps) {
  const std::vector<Line> lines = LinesOf("weights");
  ASSERT_EQ(lines.size(), 22u);
  for (const Line& line : lines) {
    const auto optimizer = Optimizer::Create(line.config, 0);
    ASSERT_TRUE(optimizer.ok()) << optimizer.status();
    std::vector<float> w = {1, -0.5, 0.25, 2};
    std::vector<float> slots;
    for (size_t s = 0; s < optimizer->slots().size(); ++s) {
      slots.insert(slots.end(), kElements, optimizer->initial_slot(s));
    }
    size_t next = 0;
    for (size_t step = 0; step < 100; ++step) {
      const std::vector<float> gradient = GradientOf(step);
      const BufferChain chain = {
          Buffer::Copy(AsBytes(absl::MakeConstSpan(gradient)))};
      ChainReader reader(chain);
      optimizer->Apply(
          &reader, step,
          {kElements, w.data(), slots.data(), w.data(), slots.data()});
      if ((step + 1) % 10 != 0) continue;
      for (size_t i = 0; i < kElements; ++i) {
        const double wanted = line.numbers[next++];
        // Of weights around 1, also where one passes zero.
        EXPECT_NEAR(w[i], wanted, kTolerance * std::max(std::abs(wanted), 0.5))
            << line.text << " after " << step + 1 << ", element " << i;
      }
    }
    EXPECT_EQ(next, line.numbers.size());
  }
}

TEST(PytorchTest, RatesAgree) {
  const std::vector<Line> lines = LinesOf("rates");
  ASSERT_EQ(lines.size(), 15u);
  for (Line line : lines) {
    line.config.mutable_sgd();
    const auto optimizer = Optimizer::Create(line.config, 0);
    ASSERT_TRUE(optimizer.ok()) << optimizer.status();
    ASSERT_EQ(line.numbers.size(), 120u);
    for (size_t step = 0; step < line.numbers.size(); ++step) {
      EXPECT_NEAR(optimizer->Rate(step), line.numbers[step],
                  kTolerance * line.numbers[step] + 1e-12)
          << line.text << " at " << step;
    }
  }
}

}  // namespace
}  // namespace paramd
