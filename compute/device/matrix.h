#ifndef PARAMD_COMPUTE_DEVICE_MATRIX_H_
#define PARAMD_COMPUTE_DEVICE_MATRIX_H_

#include <cstddef>

#include "absl/status/status.h"

#include "compute/device/shapes.h"

namespace paramd {

// Makes OpenBLAS take what it needs for products in so many threads at once,
// since it tries for ever where it does not get it. Nothing where nobody limits
// the address space; kInvalidArgument as CheckAddressSpace has it if there is
// not enough. Thread-safe.
absl::Status ReserveForProducts(size_t threads);

// A row-major matrix of somebody else's floats, at any address.
struct Matrix {
  float* data = nullptr;
  size_t rows = 0;
  size_t columns = 0;
};

// The same, read only.
struct ConstMatrix {
  ConstMatrix() = default;
  ConstMatrix(const float* d, size_t r, size_t c)
      : data(d), rows(r), columns(c) {}
  ConstMatrix(const Matrix& m)  // NOLINT: reading is always allowed.
      : data(m.data), rows(m.rows), columns(m.columns) {}

  const float* data = nullptr;
  size_t rows = 0;
  size_t columns = 0;
};

// The three products below overwrite `c` whatever it held, NaN included. They
// run in the calling thread, on one BLAS thread, and may run in many threads at
// once. The same inputs give the same bits on the same processor, wherever they
// lie in memory.
// REQUIRES: shapes fit, dimensions are below 2^31, `c` overlaps neither input.

// c[m,n] = a[m,k] b[k,n]
void Multiply(ConstMatrix a, ConstMatrix b, Matrix c);

// c[m,n] = transpose(a[k,m]) b[k,n]
void MultiplyTransposedLeft(ConstMatrix a, ConstMatrix b, Matrix c);

// c[m,n] = a[m,k] transpose(b[n,k])
void MultiplyTransposedRight(ConstMatrix a, ConstMatrix b, Matrix c);

// The products of a grid, in order: as above, and 0 where they have no depth.
void MultiplyGrid(const Product& product, const float* a, const float* b,
                  float* c);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_MATRIX_H_
