#include "compute/device/matrix.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

#include "base/random.h"

namespace paramd {
namespace {

std::vector<float> RandomValues(size_t count, uint64_t key) {
  RandomStream random(key);
  std::vector<float> values(count);
  for (float& value : values) value = random.Uniform() - 0.5f;
  return values;
}

struct Shape {
  size_t m, k, n;
};

class MatrixTest : public ::testing::TestWithParam<Shape> {
 protected:
  MatrixTest()
      : a_(RandomValues(m() * k(), 1)), b_(RandomValues(k() * n(), 2)) {}

  size_t m() const { return GetParam().m; }
  size_t k() const { return GetParam().k; }
  size_t n() const { return GetParam().n; }

  std::vector<float> Transposed(const std::vector<float>& values, size_t rows,
                                size_t columns) const {
    std::vector<float> out(values.size());
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < columns; ++j) {
        out[j * rows + i] = values[i * columns + j];
      }
    }
    return out;
  }

  void ExpectProduct(const std::vector<float>& c) const {
    for (size_t i = 0; i < m(); ++i) {
      for (size_t j = 0; j < n(); ++j) {
        double sum = 0;
        double magnitude = 0;
        for (size_t l = 0; l < k(); ++l) {
          const double product =
              double{a_[i * k() + l]} * double{b_[l * n() + j]};
          sum += product;
          magnitude += std::abs(product);
        }
        // A rounding for each product and each sum, in whatever order.
        ASSERT_NEAR(
            c[i * n() + j], sum,
            (k() + 1) * std::numeric_limits<float>::epsilon() * magnitude)
            << i << "," << j;
      }
    }
  }

  // What must be overwritten.
  std::vector<float> Garbage() const {
    return std::vector<float>(m() * n(),
                              std::numeric_limits<float>::quiet_NaN());
  }

  const std::vector<float> a_;
  const std::vector<float> b_;
};

TEST_P(MatrixTest, MultiplyIsTheSumOfProductsAndOverwrites) {
  std::vector<float> c = Garbage();
  Multiply({a_.data(), m(), k()}, {b_.data(), k(), n()}, {c.data(), m(), n()});
  ExpectProduct(c);
}

TEST_P(MatrixTest, MultiplyTransposedLeftReadsTheLeftByColumns) {
  const std::vector<float> a = Transposed(a_, m(), k());
  std::vector<float> c = Garbage();
  MultiplyTransposedLeft({a.data(), k(), m()}, {b_.data(), k(), n()},
                         {c.data(), m(), n()});
  ExpectProduct(c);
}

TEST_P(MatrixTest, MultiplyTransposedRightReadsTheRightByColumns) {
  const std::vector<float> b = Transposed(b_, k(), n());
  std::vector<float> c = Garbage();
  MultiplyTransposedRight({a_.data(), m(), k()}, {b.data(), n(), k()},
                          {c.data(), m(), n()});
  ExpectProduct(c);
}

TEST_P(MatrixTest, TheSameBitsAtEveryAddress) {
  std::vector<float> c = Garbage();
  Multiply({a_.data(), m(), k()}, {b_.data(), k(), n()}, {c.data(), m(), n()});
  for (size_t shift = 1; shift < 16; shift += 2) {
    std::vector<float> a(shift), b(shift), moved(shift);
    a.insert(a.end(), a_.begin(), a_.end());
    b.insert(b.end(), b_.begin(), b_.end());
    moved.resize(shift + c.size());
    Multiply({a.data() + shift, m(), k()}, {b.data() + shift, k(), n()},
             {moved.data() + shift, m(), n()});
    EXPECT_EQ(0, c.empty() ? 0
                           : std::memcmp(c.data(), moved.data() + shift,
                                         c.size() * sizeof(float)));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, MatrixTest,
                         ::testing::Values(Shape{1, 1, 1}, Shape{3, 5, 7},
                                           Shape{32, 784, 129},
                                           Shape{64, 128, 10}, Shape{0, 4, 5},
                                           Shape{4, 0, 5}, Shape{4, 5, 0}));

}  // namespace
}  // namespace paramd
