#include "compute/hlo/hlo_ops.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "base/check.h"
#include "compute/hlo/hlo_text.h"

namespace paramd::hlo {
namespace {

// A product of float32 is one of float32, also where a device would rather
// round its operands to bfloat16.
constexpr char kPrecision[] =
    "precision_config = [#stablehlo<precision HIGHEST>, "
    "#stablehlo<precision HIGHEST>]";

std::string NumberText(HloElement element, double value) {
  if (element == HloElement::kPred) return value != 0 ? "true" : "false";
  if (element != HloElement::kF32) {
    // Of 64 bits, unsigned, none is above 2^63 here.
    return absl::StrCat(static_cast<int64_t>(value));
  }
  if (std::isinf(value)) return value > 0 ? "0x7F800000" : "0xFF800000";
  return absl::StrFormat("%.9e", value);
}

HloValue AddConstant(HloGraph* graph, const HloType& type,
                     const std::string& values) {
  return graph->Add({.name = "constant",
                     .operands = {},
                     .type = type,
                     .attributes = absl::StrCat("value = dense<", values,
                                                "> : ", type.text())});
}

HloValue Unary(const std::string& name, HloValue a, HloGraph::Vjp vjp) {
  return a.graph->Add({.name = name, .operands = {a}, .type = a.type()},
                      std::move(vjp));
}

HloValue Binary(const std::string& name, HloValue a, HloValue b,
                HloGraph::Vjp vjp) {
  CHECK(a.dims() == b.dims(), "elements of equal places are operated on");
  return a.graph->Add({.name = name, .operands = {a, b}, .type = a.type()},
                      std::move(vjp));
}

HloValue Negate(HloValue a) {
  return Unary("negate", a,
               [](HloValue g) { return std::vector<HloValue>{Negate(g)}; });
}

std::vector<int64_t> Numbers(int64_t begin, int64_t end) {
  std::vector<int64_t> numbers(end - begin);
  std::iota(numbers.begin(), numbers.end(), begin);
  return numbers;
}

// The dimensions of so many that are not among `some`.
std::vector<int64_t> Others(size_t rank, absl::Span<const int64_t> some) {
  std::vector<int64_t> others;
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d) {
    if (std::find(some.begin(), some.end(), d) == some.end()) {
      others.push_back(d);
    }
  }
  return others;
}

HloValue Reduce(const std::string& name, HloValue a, double initial,
                absl::Span<const int64_t> over, HloGraph::Vjp vjp) {
  HloType type = {a.type().element, {}};
  const HloValue start = Filled(a.graph, type, initial);
  for (const int64_t d : Others(a.dims().size(), over)) {
    type.dims.push_back(a.dims()[d]);
  }
  return a.graph->Add(
      {.name = "reduce",
       .operands = {a, start},
       .type = type,
       .attributes = absl::StrCat("dimensions = ", ArrayText(over)),
       .regions = ScalarRegion(name)},
      std::move(vjp));
}

// (1 + erf(a / sqrt(2))) / 2, the error function as Abramowitz and Stegun,
// 7.1.26, have it: to 1.5e-7.
HloValue NormalShare(HloValue a) {
  const HloValue x = Scale(a, std::sqrt(0.5));
  const HloValue zero = FilledLike(a, 0);
  const HloValue one = FilledLike(a, 1);
  const HloValue size = Select(Compare("LT", x, zero), Negate(x), x);
  const HloValue t = Divide(one, Add(one, Scale(size, 0.3275911)));
  HloValue sum = FilledLike(a, 1.061405429);
  for (const double factor :
       {-1.453152027, 1.421413741, -0.284496736, 0.254829592}) {
    sum = Add(Multiply(sum, t), FilledLike(a, factor));
  }
  // Half of 1 - erf(|x|).
  const HloValue tail =
      Scale(Multiply(Multiply(sum, t), Exp(Negate(Multiply(x, x)))), 0.5);
  return Select(Compare("LT", x, zero), tail, Subtract(one, tail));
}

HloValue ScatterRows(HloValue places, HloValue rows, const HloType& table) {
  const HloValue zeros = Filled(rows.graph, table, 0);
  const size_t rank = places.dims().size();
  return rows.graph->Add(
      {.name = "scatter",
       .operands = {zeros, places, rows},
       .type = table,
       .attributes = absl::StrCat(
           "indices_are_sorted = false, unique_indices = false, "
           "scatter_dimension_numbers = #stablehlo.scatter<"
           "update_window_dims = [",
           rank,
           "], inserted_window_dims = [0], "
           "scatter_dims_to_operand_dims = [0], index_vector_dim = ",
           rank, ">"),
       .regions = ScalarRegion("add")});
}

}  // namespace

HloValue Filled(HloGraph* graph, const HloType& type, double value) {
  return AddConstant(graph, type, NumberText(type.element, value));
}

HloValue FilledLike(HloValue like, double value) {
  return Filled(like.graph, like.type(), value);
}

HloValue Constants(HloGraph* graph, const HloType& type,
                   absl::Span<const double> values) {
  CHECK(values.size() == SizeOf(type.dims), "there is a value for each place");
  const auto text = [&](std::string* out, double value) {
    absl::StrAppend(out, NumberText(type.element, value));
  };
  const HloType row = {type.element, {values.size()}};
  return Reshape(
      AddConstant(graph, row,
                  absl::StrCat("[", absl::StrJoin(values, ", ", text), "]")),
      type.dims);
}

HloValue Iota(HloGraph* graph, const HloType& type, uint64_t dimension) {
  return graph->Add(
      {.name = "iota",
       .operands = {},
       .type = type,
       .attributes = absl::StrCat("iota_dimension = ", dimension, " : i64")});
}

HloValue Add(HloValue a, HloValue b) {
  return Binary("add", a, b, [](HloValue g) {
    return std::vector<HloValue>{g, g};
  });
}

HloValue Subtract(HloValue a, HloValue b) {
  return Binary("subtract", a, b, [](HloValue g) {
    return std::vector<HloValue>{g, Negate(g)};
  });
}

HloValue Multiply(HloValue a, HloValue b) {
  return Binary("multiply", a, b, [=](HloValue g) {
    return std::vector<HloValue>{Multiply(g, b), Multiply(g, a)};
  });
}

HloValue Divide(HloValue a, HloValue b) {
  return Binary("divide", a, b, [=](HloValue g) {
    const HloValue by_a = Divide(g, b);
    return std::vector<HloValue>{by_a, Negate(Multiply(by_a, Divide(a, b)))};
  });
}

HloValue Scale(HloValue a, double factor) {
  return Multiply(a, FilledLike(a, factor));
}

HloValue Exp(HloValue a) {
  return Unary("exponential", a, [=](HloValue g) {
    return std::vector<HloValue>{Multiply(g, Exp(a))};
  });
}

HloValue Log(HloValue a) {
  return Unary("log", a,
               [=](HloValue g) { return std::vector<HloValue>{Divide(g, a)}; });
}

HloValue Rsqrt(HloValue a) {
  return Unary("rsqrt", a, [=](HloValue g) {
    const HloValue root = Rsqrt(a);
    return std::vector<HloValue>{
        Scale(Multiply(g, Multiply(root, Multiply(root, root))), -0.5)};
  });
}

HloValue Tanh(HloValue a) {
  return Unary("tanh", a, [=](HloValue g) {
    const HloValue y = Tanh(a);
    return std::vector<HloValue>{
        Multiply(g, Subtract(FilledLike(y, 1), Multiply(y, y)))};
  });
}

HloValue Sigmoid(HloValue a) {
  return Unary("logistic", a, [=](HloValue g) {
    const HloValue y = Sigmoid(a);
    return std::vector<HloValue>{
        Multiply(g, Multiply(y, Subtract(FilledLike(y, 1), y)))};
  });
}

HloValue Relu(HloValue a) {
  const HloValue zero = FilledLike(a, 0);
  const HloValue y = Binary("maximum", a, zero, nullptr);
  return a.graph->WithVjp(y, {a}, [=](HloValue g) {
    return std::vector<HloValue>{Select(Compare("GT", a, zero), g, zero)};
  });
}

HloValue Gelu(HloValue a) {
  const HloValue share = NormalShare(a);
  return a.graph->WithVjp(Multiply(a, share), {a}, [=](HloValue g) {
    const double height = 1 / std::sqrt(2 * std::acos(-1.0));
    const HloValue density = Scale(Exp(Scale(Multiply(a, a), -0.5)), height);
    return std::vector<HloValue>{Multiply(g, Add(share, Multiply(a, density)))};
  });
}

HloValue Compare(const char* direction, HloValue a, HloValue b) {
  const HloElement element = a.type().element;
  const char* kind = element == HloElement::kF32   ? "FLOAT"
                     : element == HloElement::kS32 ? "SIGNED"
                                                   : "UNSIGNED";
  return a.graph->Add(
      {.name = "compare",
       .operands = {a, b},
       .type = {HloElement::kPred, a.dims()},
       .attributes = absl::StrCat(
           "comparison_direction = #stablehlo<comparison_direction ", direction,
           ">, compare_type = #stablehlo<comparison_type ", kind, ">")});
}

HloValue Select(HloValue condition, HloValue a, HloValue b) {
  return a.graph->Add(
      {.name = "select", .operands = {condition, a, b}, .type = a.type()},
      [=](HloValue g) {
        const HloValue zero = FilledLike(g, 0);
        return std::vector<HloValue>{HloValue(), Select(condition, g, zero),
                                     Select(condition, zero, g)};
      });
}

HloValue Convert(HloValue a, HloElement to) {
  return a.graph->Add(
      {.name = "convert", .operands = {a}, .type = {to, a.dims()}});
}

HloValue OfBits(const std::string& name, HloValue a, HloValue b) {
  return Binary(name, a, b, nullptr);
}

HloValue Broadcast(HloValue a, const Dims& dims,
                   absl::Span<const int64_t> places) {
  if (a.dims() == dims) return a;
  const std::vector<int64_t> along = Others(dims.size(), places);
  return a.graph->Add(
      {.name = "broadcast_in_dim",
       .operands = {a},
       .type = {a.type().element, dims},
       .attributes =
           absl::StrCat("broadcast_dimensions = ", ArrayText(places))},
      [=](HloValue g) { return std::vector<HloValue>{Sum(g, along)}; });
}

HloValue BroadcastLast(HloValue a, const Dims& dims) {
  const auto rank = static_cast<int64_t>(dims.size());
  return Broadcast(a, dims,
                   Numbers(rank - static_cast<int64_t>(a.dims().size()), rank));
}

HloValue BroadcastFirst(HloValue a, const Dims& dims) {
  return Broadcast(a, dims, Numbers(0, static_cast<int64_t>(a.dims().size())));
}

HloValue Reshape(HloValue a, const Dims& dims) {
  if (a.dims() == dims) return a;
  CHECK(SizeOf(a.dims()) == SizeOf(dims), "a reshape keeps all values");
  return a.graph->Add(
      {.name = "reshape", .operands = {a}, .type = {a.type().element, dims}},
      [=](HloValue g) { return std::vector<HloValue>{Reshape(g, a.dims())}; });
}

HloValue Transpose(HloValue a, absl::Span<const int64_t> order) {
  std::vector<int64_t> back(order.size());
  HloType type = {a.type().element, {}};
  for (size_t i = 0; i < order.size(); ++i) {
    back[order[i]] = static_cast<int64_t>(i);
    type.dims.push_back(a.dims()[order[i]]);
  }
  return a.graph->Add(
      {.name = "transpose",
       .operands = {a},
       .type = type,
       .attributes = absl::StrCat("permutation = ", ArrayText(order))},
      [=](HloValue g) { return std::vector<HloValue>{Transpose(g, back)}; });
}

HloValue Slice(HloValue a, uint64_t dimension, uint64_t begin, uint64_t end) {
  Dims starts(a.dims().size());
  Dims limits = a.dims();
  const Dims strides(a.dims().size(), 1);
  std::vector<Padding> around(a.dims().size());
  starts[dimension] = begin;
  limits[dimension] = end;
  around[dimension] = {begin, a.dims()[dimension] - end, 0};
  HloType type = a.type();
  type.dims[dimension] = end - begin;
  return a.graph->Add(
      {.name = "slice",
       .operands = {a},
       .type = type,
       .attributes = absl::StrCat("start_indices = ", ArrayText(starts),
                                  ", limit_indices = ", ArrayText(limits),
                                  ", strides = ", ArrayText(strides))},
      [=](HloValue g) { return std::vector<HloValue>{Pad(g, 0, around)}; });
}

HloValue Concatenate(absl::Span<const HloValue> parts, uint64_t dimension) {
  HloType type = parts.front().type();
  type.dims[dimension] = 0;
  std::vector<uint64_t> sizes;
  for (const HloValue part : parts) {
    sizes.push_back(part.dims()[dimension]);
    type.dims[dimension] += sizes.back();
  }
  return parts.front().graph->Add(
      {.name = "concatenate",
       .operands = {parts.begin(), parts.end()},
       .type = type,
       .attributes = absl::StrCat("dimension = ", dimension, " : i64")},
      [=](HloValue g) {
        std::vector<HloValue> gradients;
        uint64_t at = 0;
        for (const uint64_t size : sizes) {
          gradients.push_back(Slice(g, dimension, at, at + size));
          at += size;
        }
        return gradients;
      });
}

HloValue Pad(HloValue a, double value, absl::Span<const Padding> padding) {
  std::vector<uint64_t> before, behind, between;
  HloType type = a.type();
  for (size_t d = 0; d < padding.size(); ++d) {
    before.push_back(padding[d].before);
    behind.push_back(padding[d].behind);
    between.push_back(padding[d].between);
    uint64_t& size = type.dims[d];
    size += padding[d].before + padding[d].behind +
            (size > 0 ? size - 1 : 0) * padding[d].between;
  }
  const HloValue filling = Filled(a.graph, {type.element, {}}, value);
  return a.graph->Add(
      {.name = "pad",
       .operands = {a, filling},
       .type = type,
       .attributes = absl::StrCat("edge_padding_low = ", ArrayText(before),
                                  ", edge_padding_high = ", ArrayText(behind),
                                  ", interior_padding = ", ArrayText(between))},
      [=](HloValue g) {
        HloValue inside = g;
        for (size_t d = 0; d < before.size(); ++d) {
          CHECK(between[d] == 0, "values lie together");
          inside = Slice(inside, d, before[d], before[d] + a.dims()[d]);
        }
        return std::vector<HloValue>{inside, HloValue()};
      });
}

HloValue Sum(HloValue a, absl::Span<const int64_t> over) {
  if (over.empty()) return a;
  const std::vector<int64_t> kept = Others(a.dims().size(), over);
  return Reduce("add", a, 0, over, [=](HloValue g) {
    return std::vector<HloValue>{Broadcast(g, a.dims(), kept), HloValue()};
  });
}

HloValue Largest(HloValue a, absl::Span<const int64_t> over) {
  return Reduce("maximum", a, -INFINITY, over, nullptr);
}

HloValue Softmax(HloValue a) {
  const int64_t last = static_cast<int64_t>(a.dims().size()) - 1;
  // The result does not depend on it.
  const HloValue largest = BroadcastFirst(Largest(a, {last}), a.dims());
  const HloValue powers = Exp(Subtract(a, largest));
  return Divide(powers, BroadcastFirst(Sum(powers, {last}), a.dims()));
}

HloValue SwapLast(HloValue a) {
  std::vector<int64_t> order =
      Numbers(0, static_cast<int64_t>(a.dims().size()));
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return Transpose(a, order);
}

HloValue AsOperand(HloValue a) {
  const HloElement element = a.graph->operands();
  if (element == HloElement::kF32) return a;
  // Its gradient is that of the product, which is of f32.
  return a.graph->Add(
      {.name = "convert", .operands = {a}, .type = {element, a.dims()}},
      [](HloValue g) { return std::vector<HloValue>{g}; });
}

HloValue Multiply2d(HloValue a, HloValue b, bool exact) {
  const auto outer = static_cast<int64_t>(a.dims().size()) - 2;
  const std::string outers = absl::StrJoin(Numbers(0, outer), ", ");
  HloType type = a.type();
  type.dims.back() = b.dims().back();
  return a.graph->Add(
      {.name = "dot_general",
       .operands = exact ? std::vector<HloValue>{a, b}
                         : std::vector<HloValue>{AsOperand(a), AsOperand(b)},
       .type = type,
       .attributes = absl::StrCat(
           "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [",
           outers, "], rhs_batching_dimensions = [", outers,
           "], lhs_contracting_dimensions = [", outer + 1,
           "], rhs_contracting_dimensions = [", outer, "]>, ", kPrecision)},
      [=](HloValue g) {
        return std::vector<HloValue>{Multiply2d(g, SwapLast(b), exact),
                                     Multiply2d(SwapLast(a), g, exact)};
      });
}

HloValue Affine(HloValue a, HloValue matrix, HloValue row) {
  const uint64_t inputs = a.dims().back();
  Dims dims = a.dims();
  dims.back() = matrix.dims()[1];
  const HloValue rows = Reshape(a, {SizeOf(a.dims()) / inputs, inputs});
  const HloValue product = Reshape(Multiply2d(rows, matrix), dims);
  return Add(product, BroadcastLast(row, dims));
}

HloValue Gather(HloValue table, HloValue places) {
  const size_t rank = places.dims().size();
  const uint64_t width = table.dims()[1];
  HloType type = {table.type().element, places.dims()};
  type.dims.push_back(width);
  return table.graph->Add(
      {.name = "gather",
       .operands = {table, places},
       .type = type,
       .attributes = absl::StrCat(
           "dimension_numbers = #stablehlo.gather<offset_dims = [", rank,
           "], collapsed_slice_dims = [0], start_index_map = [0], "
           "index_vector_dim = ",
           rank, ">, slice_sizes = array<i64: 1, ", width,
           ">, indices_are_sorted = false")},
      [=](HloValue g) {
        return std::vector<HloValue>{ScatterRows(places, g, table.type()),
                                     HloValue()};
      });
}

}  // namespace paramd::hlo
