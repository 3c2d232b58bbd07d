#ifndef PARAMD_COMPUTE_QUANTIZED_INT16_PROGRAM_H_
#define PARAMD_COMPUTE_QUANTIZED_INT16_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "compute/quantized/integer_product.h"

namespace paramd {

// Computes one IntegerProduct of integers of 16 bits by vector instructions:
// the same bits as MultiplyPlainly.
//
// Pairs of products are added in 32 bits, 512 products at a time: those of
// weights down to -128 by 32767 are at most 2,147,418,112, which is below 2^31
// (of 517 those of 127 need not be). Such sums are added in doubles, which are
// exact up to 2^53, and kMostInputs products are below 2^39.
//
// Not thread-safe. The product outlives it, and stays as it is.
class Int16Program {
 public:
  enum class Instructions : uint8_t { kAvx2, kAvx512Vnni };

  // Those that this processor has, the fastest one last; none: plain loops.
  static std::vector<Instructions> Available();

  // REQUIRES: they are available; its result is not kSums.
  Int16Program(const IntegerProduct& product, Instructions instructions);

  // Of `examples` rows or images. REQUIRES: no input is -32768.
  void Run(uint64_t examples, const int16_t* input, void* output);

 private:
  // One group of a convolution, or all of a dense layer.
  uint64_t groups() const;
  uint64_t group_outputs() const { return product_.outputs / groups(); }
  void Pack();
  // Where rows from `row` on have what a group's weights are multiplied by.
  void FindRows(uint64_t row, uint64_t count, uint64_t group,
                const int16_t* input, const int16_t** rows);
  // What a window sees at a place of the output, 0 around the image.
  void CopyWindow(uint64_t row, uint64_t group, const int16_t* input,
                  int16_t* to) const;
  void Write(const double* sums, uint64_t row, uint64_t group, uint64_t tile,
             void* output) const;

  const IntegerProduct& product_;
  const Instructions instructions_;
  const uint64_t pairs_;  // Of products, of one output.
  const uint64_t tiles_;  // Of outputs, of a group.
  // [groups, tiles, pairs, outputs of a tile, 2], 0 beyond the last.
  std::vector<int8_t> weights_;
  std::vector<float> bias_;  // [groups, tiles, outputs of a tile].
  std::vector<float> scale_;
  std::vector<int16_t> copied_;  // Rows that don't lie as they are needed.
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_QUANTIZED_INT16_PROGRAM_H_
