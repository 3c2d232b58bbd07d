#ifndef PARAMD_COMPUTE_HLO_HLO_OPS_H_
#define PARAMD_COMPUTE_HLO_HLO_OPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "compute/hlo/hlo_graph.h"

// The operations that layers are written with. Each knows its derivative, but
// where it says that it has none. REQUIRES, of all: operands are of one
// program, and of equal types where nothing else is said.
namespace paramd::hlo {

// The same number everywhere, a number for each place, and the place along a
// dimension. None depends on anything.
HloValue Filled(HloGraph* graph, const HloType& type, double value);
HloValue FilledLike(HloValue like, double value);
HloValue Constants(HloGraph* graph, const HloType& type,
                   absl::Span<const double> values);
HloValue Iota(HloGraph* graph, const HloType& type, uint64_t dimension);

// Of each element. Integers have no derivative.
HloValue Add(HloValue a, HloValue b);
HloValue Subtract(HloValue a, HloValue b);
HloValue Multiply(HloValue a, HloValue b);
HloValue Divide(HloValue a, HloValue b);
HloValue Scale(HloValue a, double factor);
HloValue Exp(HloValue a);
HloValue Log(HloValue a);
HloValue Rsqrt(HloValue a);  // 1 / sqrt(a)
HloValue Tanh(HloValue a);
HloValue Sigmoid(HloValue a);
HloValue Relu(HloValue a);  // The derivative at 0 is 0; NaN stays NaN.
HloValue Gelu(HloValue a);  // a (1 + erf(a / sqrt(2))) / 2
// `direction`: "LT", "EQ", ...; true or false, without a derivative.
HloValue Compare(const char* direction, HloValue a, HloValue b);
// By `condition`, which has no derivative.
HloValue Select(HloValue condition, HloValue a, HloValue b);
HloValue Convert(HloValue a, HloElement to);  // Without a derivative.
// An operation on integers: "xor", "shift_right_logical".
HloValue OfBits(const std::string& name, HloValue a, HloValue b);

// Dimension i of `a` is dimension `places[i]` of the result, ascending; along
// the others all is the same.
HloValue Broadcast(HloValue a, const Dims& dims,
                   absl::Span<const int64_t> places);
// A row for each row: dimensions of `a` are the last ones of the result, or the
// first ones.
HloValue BroadcastLast(HloValue a, const Dims& dims);
HloValue BroadcastFirst(HloValue a, const Dims& dims);
HloValue Reshape(HloValue a, const Dims& dims);
// Dimension i of the result is dimension order[i] of `a`.
HloValue Transpose(HloValue a, absl::Span<const int64_t> order);
HloValue Slice(HloValue a, uint64_t dimension, uint64_t begin, uint64_t end);
HloValue Concatenate(absl::Span<const HloValue> parts, uint64_t dimension);

// Of each dimension, how many there are of `value` before, after and between
// what was there.
struct Padding {
  uint64_t before = 0;
  uint64_t behind = 0;
  uint64_t between = 0;
};
// REQUIRES: `between` is 0, or nobody wants the derivative.
HloValue Pad(HloValue a, double value, absl::Span<const Padding> padding);

// Over these dimensions, ascending, which the result lacks.
HloValue Sum(HloValue a, absl::Span<const int64_t> over);
HloValue Largest(HloValue a, absl::Span<const int64_t> over);  // No derivative.
// Over the last dimension.
HloValue Softmax(HloValue a);

// What a product or a convolution takes of `a`: see HloGraph::set_operands.
HloValue AsOperand(HloValue a);
// Matrices of the last two dimensions, one product for each place of those
// before, which both have: [..., m, k] and [..., k, n] to [..., m, n].
// `exact`: of operands as they are.
HloValue Multiply2d(HloValue a, HloValue b, bool exact = false);
HloValue SwapLast(HloValue a);  // Of the last two dimensions.
// y = a W + row over the last dimension of `a`.
HloValue Affine(HloValue a, HloValue matrix, HloValue row);

// Rows [rows, width] of `table` by integers: [...] to [..., width]. The
// derivative is the table's alone.
HloValue Gather(HloValue table, HloValue places);

// [examples, width], 0 by the probability `rate`, else 1 / (1 - rate): numbers
// as Drops (compute/device/shapes.h) has them, of this key (u64, a scalar) and
// these offsets (u64, one per example).
HloValue DropFactors(HloValue key, HloValue offsets, double rate,
                     uint64_t width);

}  // namespace paramd::hlo

#endif  // PARAMD_COMPUTE_HLO_HLO_OPS_H_
