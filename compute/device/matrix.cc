#include "compute/device/matrix.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <cblas.h>

#include "base/check.h"
#include "base/resource_limits.h"
#include "base/status_macros.h"

// What a product takes its buffer with. Not in every build of the library.
extern "C" {
void* blas_memory_alloc(int position) __attribute__((weak));
void blas_memory_free(void* buffer) __attribute__((weak));
}

namespace paramd {
namespace {

// Of address space, for the buffer of one product, in the builds for x86-64.
constexpr uint64_t kBufferBytes = uint64_t{128} << 20;
// It has a place for more, but no list of them grows.
constexpr size_t kMostBuffers = 64;

blasint BlasSize(size_t size) {
  CHECK(size <= size_t{std::numeric_limits<int32_t>::max()},
        "a dimension of a matrix is below 2^31");
  return static_cast<blasint>(size);
}

// BLAS asks for a leading dimension of at least 1, also of an empty matrix.
blasint LeadingDimension(size_t columns) {
  return BlasSize(std::max<size_t>(columns, 1));
}

void UseOneBlasThread() {
  // Once per process: more threads would change the order of additions.
  static const bool done = [] {
    openblas_set_num_threads(1);
    return true;
  }();
  static_cast<void>(done);
}

// c = op(a) op(b), where the sum runs over `depth`.
void MultiplyDense(CBLAS_TRANSPOSE transpose_a, ConstMatrix a,
                   CBLAS_TRANSPOSE transpose_b, ConstMatrix b, size_t depth,
                   Matrix c) {
  UseOneBlasThread();
  if (depth == 0) {
    std::fill_n(c.data, c.rows * c.columns, 0.0f);
    return;
  }
  cblas_sgemm(CblasRowMajor, transpose_a, transpose_b, BlasSize(c.rows),
              BlasSize(c.columns), BlasSize(depth), 1.0f, a.data,
              LeadingDimension(a.columns), b.data, LeadingDimension(b.columns),
              0.0f, c.data, LeadingDimension(c.columns));
}

}  // namespace

absl::Status ReserveForProducts(size_t threads) {
  if (!IsAddressSpaceLimited() || blas_memory_alloc == nullptr ||
      blas_memory_free == nullptr) {
    return absl::OkStatus();
  }
  threads = std::min(threads, kMostBuffers);
  // One more, which the system may need to place them.
  RETURN_IF_ERROR(CheckAddressSpace((threads + 1) * kBufferBytes));
  std::vector<void*> buffers;
  for (size_t i = 0; i < threads; ++i) {
    buffers.push_back(blas_memory_alloc(0));
  }
  for (void* const buffer : buffers) blas_memory_free(buffer);
  return absl::OkStatus();
}

void Multiply(ConstMatrix a, ConstMatrix b, Matrix c) {
  CHECK(a.columns == b.rows && a.rows == c.rows && b.columns == c.columns,
        "the shapes of a product fit");
  MultiplyDense(CblasNoTrans, a, CblasNoTrans, b, a.columns, c);
}

void MultiplyTransposedLeft(ConstMatrix a, ConstMatrix b, Matrix c) {
  CHECK(a.rows == b.rows && a.columns == c.rows && b.columns == c.columns,
        "the shapes of a product fit");
  MultiplyDense(CblasTrans, a, CblasNoTrans, b, a.rows, c);
}

void MultiplyTransposedRight(ConstMatrix a, ConstMatrix b, Matrix c) {
  CHECK(a.columns == b.columns && a.rows == c.rows && b.rows == c.columns,
        "the shapes of a product fit");
  MultiplyDense(CblasNoTrans, a, CblasTrans, b, a.columns, c);
}

void MultiplyGrid(const Product& p, const float* a, const float* b, float* c) {
  UseOneBlasThread();
  const auto transpose_a = p.transpose_a ? CblasTrans : CblasNoTrans;
  const auto transpose_b = p.transpose_b ? CblasTrans : CblasNoTrans;
  for (uint64_t o = 0; o < p.outer; ++o) {
    for (uint64_t i = 0; i < p.inner; ++i) {
      float* to = c + o * p.c.outer + i * p.c.inner;
      for (uint64_t row = 0; p.k == 0 && row < p.m; ++row) {
        std::fill_n(to + row * p.c_row(), p.n, 0.0f);
      }
      if (p.k == 0) continue;
      cblas_sgemm(
          CblasRowMajor, transpose_a, transpose_b, BlasSize(p.m), BlasSize(p.n),
          BlasSize(p.k), static_cast<float>(p.scale),
          a + o * p.a.outer + i * p.a.inner, LeadingDimension(p.a_row()),
          b + o * p.b.outer + i * p.b.inner, LeadingDimension(p.b_row()), 0.0f,
          to, LeadingDimension(p.c_row()));
    }
  }
}

}  // namespace paramd
