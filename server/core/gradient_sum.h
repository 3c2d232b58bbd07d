#ifndef PARAMD_SERVER_CORE_GRADIENT_SUM_H_
#define PARAMD_SERVER_CORE_GRADIENT_SUM_H_

#include <cstddef>

#include "server/core/spare_buffers.h"
#include "tensor/buffer.h"

namespace paramd {

// The sum of gradients of one block, in fp32 and in the order in which they are
// added: sum = g0, then sum[i] = sum[i] + g[i]. The first one is kept by
// reference, so a sum of one gradient has its bits and costs no copy.
//
// Of a sparse variable a gradient is of some rows: their numbers or keys,
// ascending, 4 or 8 bytes each, and then the elements of each. Its sum has the
// rows of all.
//
// Not thread-safe: lives inside a SyncStep.
class GradientSum {
 public:
  // Gradients are of rows of so many elements, with ids of so many bytes. To be
  // called first.
  void SetRows(size_t elements, size_t id_bytes) {
    row_elements_ = elements;
    row_id_bytes_ = id_bytes;
  }

  // `gradient` has 4 bytes an element, the same number each time unless it is
  // of rows; an empty one (of a contributor without examples) adds nothing.
  // Memory comes from `spare`.
  void Add(BufferChain gradient, SpareBuffers* spare);
  // Multiplies each element by `factor`.
  void Scale(float factor, SpareBuffers* spare);

  // Nothing was added.
  bool empty() const { return size_ == 0; }
  // Bytes that are held.
  size_t size() const { return size_; }
  // Of those, what is not this sum's own memory.
  size_t borrowed_bytes() const { return own_ ? 0 : size_; }
  // How many rows it is of; 0 where gradients are not of rows.
  uint32_t rows() const {
    return row_elements_ == 0 ? 0 : static_cast<uint32_t>(RowsIn(size_));
  }
  // To be read and dropped, before anything else is added.
  const BufferChain& chain() const { return chain_; }
  // Forgets what was added; written memory goes to `spare`.
  void Clear(SpareBuffers* spare);

 private:
  // Makes the sum one buffer that may be written.
  float* Writable(SpareBuffers* spare);
  template <typename Id>
  void AddRows(const BufferChain& gradient, SpareBuffers* spare);
  size_t RowsIn(size_t bytes) const {
    return bytes / (row_id_bytes_ + row_elements_ * sizeof(float));
  }

  BufferChain chain_;
  size_t size_ = 0;
  bool own_ = false;         // chain_ is one buffer of this sum's.
  size_t row_elements_ = 0;  // 0: not of rows.
  size_t row_id_bytes_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_GRADIENT_SUM_H_
