#include "compute/hlo/hlo_windows.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "compute/hlo/hlo_ops.h"
#include "compute/hlo/hlo_text.h"

namespace paramd::hlo {
namespace {

// A window along one dimension: `low` and `high` places more on either side,
// which may be fewer than none.
struct Side {
  int64_t size;
  int64_t kernel;
  int64_t stride;
  int64_t outputs;
  int64_t low;

  // Places of the outputs, with stride - 1 between each two.
  int64_t spread() const { return (outputs - 1) * stride + 1; }
  // So that the last output's window ends where the image does, padded.
  int64_t high() const { return spread() + kernel - 1 - size - low; }
};

Side Rows(const Window& window) {
  return {static_cast<int64_t>(window.height),
          static_cast<int64_t>(window.kernel_height),
          static_cast<int64_t>(window.stride_height),
          static_cast<int64_t>(window.out_height),
          static_cast<int64_t>(window.top)};
}

Side Columns(const Window& window) {
  return {static_cast<int64_t>(window.width),
          static_cast<int64_t>(window.kernel_width),
          static_cast<int64_t>(window.stride_width),
          static_cast<int64_t>(window.out_width),
          static_cast<int64_t>(window.left)};
}

// How one of the three convolutions of a layer is written.
struct Written {
  std::string dims;  // "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"
  int64_t low[2] = {};
  int64_t high[2] = {};
  int64_t stride[2] = {1, 1};
  int64_t spread_input[2] = {1, 1};
  int64_t spread_kernel[2] = {1, 1};
  uint64_t groups = 1;
  uint64_t batch_groups = 1;
};

std::string Two(const int64_t* numbers) {
  return ArrayText(std::vector<int64_t>{numbers[0], numbers[1]});
}

HloGraph::Operation Write(const Written& written, HloValue input,
                          HloValue kernel, const HloType& type) {
  return {
      .name = "convolution",
      .operands = {AsOperand(input), AsOperand(kernel)},
      .type = type,
      .attributes = absl::StrCat(
          "dimension_numbers = #stablehlo.conv<", written.dims,
          ">, window_strides = ", Two(written.stride), ", padding = dense<[[",
          written.low[0], ", ", written.high[0], "], [", written.low[1], ", ",
          written.high[1],
          "]]> : tensor<2x2xi64>, lhs_dilation = ", Two(written.spread_input),
          ", rhs_dilation = ", Two(written.spread_kernel),
          ", window_reversal = array<i1: false, false>, "
          "feature_group_count = ",
          written.groups, " : i64, batch_group_count = ", written.batch_groups,
          " : i64, precision_config = [#stablehlo<precision HIGHEST>, "
          "#stablehlo<precision HIGHEST>]")};
}

// The kernel with inputs and outputs of each group exchanged, for what goes
// back: [height, width, channels, outputs of a group], upside down.
HloValue Exchanged(const Convolution& shape, HloValue kernel) {
  const Dims& dims = kernel.dims();
  const uint64_t inputs = shape.group_inputs();
  const uint64_t outputs = shape.group_outputs();
  HloValue turned =
      Reshape(kernel, {dims[0], dims[1], inputs, shape.groups, outputs});
  turned = Transpose(turned, {0, 1, 3, 2, 4});
  turned = Reshape(turned, {dims[0], dims[1], shape.groups * inputs, outputs});
  return kernel.graph->Add({.name = "reverse",
                            .operands = {turned},
                            .type = turned.type(),
                            .attributes = "dimensions = array<i64: 0, 1>"});
}

HloValue InputGradient(const Convolution& shape, HloValue input,
                       HloValue kernel, HloValue g) {
  const Side rows = Rows(shape.window);
  const Side columns = Columns(shape.window);
  Written written = {.dims = "[b, 0, 1, f]x[0, 1, o, i]->[b, 0, 1, f]",
                     .groups = shape.groups};
  const Side* sides[] = {&rows, &columns};
  for (int d = 0; d < 2; ++d) {
    const Side& side = *sides[d];
    written.low[d] = side.kernel - 1 - side.low;
    written.high[d] =
        side.size + side.kernel - 1 - written.low[d] - side.spread();
    written.spread_input[d] = side.stride;
  }
  return g.graph->Add(
      Write(written, g, Exchanged(shape, kernel), input.type()));
}

HloValue KernelGradient(const Convolution& shape, HloValue input,
                        HloValue kernel, HloValue g) {
  const Side rows = Rows(shape.window);
  const Side columns = Columns(shape.window);
  Written written = {.dims = "[f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f]",
                     .batch_groups = shape.groups};
  const Side* sides[] = {&rows, &columns};
  for (int d = 0; d < 2; ++d) {
    const Side& side = *sides[d];
    written.low[d] = side.low;
    written.high[d] = side.high();
    written.spread_kernel[d] = side.stride;
  }
  return g.graph->Add(Write(written, input, g, kernel.type()));
}

std::vector<Padding> Around(const Window& window) {
  const Side rows = Rows(window);
  const Side columns = Columns(window);
  const auto of = [](const Side& side) {
    return Padding{static_cast<uint64_t>(side.low),
                   static_cast<uint64_t>(std::max<int64_t>(side.high(), 0)), 0};
  };
  return {{}, of(rows), of(columns), {}};
}

Dims OutputDims(const Window& window) {
  return {window.batch, window.out_height, window.out_width, window.channels};
}

std::string WindowText(const Window& window, bool slides) {
  const std::vector<uint64_t> sizes = {1, window.kernel_height,
                                       window.kernel_width, 1};
  const std::vector<uint64_t> strides = {1, slides ? window.stride_height : 1,
                                         slides ? window.stride_width : 1, 1};
  return absl::StrCat("window_dimensions = ", ArrayText(sizes),
                      ", window_strides = ", ArrayText(strides),
                      ", padding = dense<0> : tensor<4x2xi64>");
}

constexpr char kDense[] =
    ", base_dilations = array<i64: 1, 1, 1, 1>, "
    "window_dilations = array<i64: 1, 1, 1, 1>";

// Of what is padded already.
HloValue ReduceWindow(const Window& window, const std::string& name,
                      double initial, HloValue padded, const Dims& output,
                      bool slides, HloGraph::Vjp vjp) {
  const HloType type = {HloElement::kF32, output};
  const HloValue start = Filled(padded.graph, {HloElement::kF32, {}}, initial);
  return padded.graph->Add(
      {.name = "reduce_window",
       .operands = {padded, start},
       .type = type,
       .attributes = absl::StrCat(WindowText(window, slides), kDense),
       .regions = ScalarRegion(name)},
      std::move(vjp));
}

constexpr char kNotSmaller[] =
    "{\n    ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
    "      %c = \"stablehlo.compare\"(%a, %b) <{comparison_direction = "
    "#stablehlo<comparison_direction GE>, compare_type = "
    "#stablehlo<comparison_type FLOAT>}> : (tensor<f32>, tensor<f32>) -> "
    "tensor<i1>\n"
    "      \"stablehlo.return\"(%c) : (tensor<i1>) -> ()\n    }, ";

// Puts each part of `g` where its window has its largest value, the first one.
HloValue Scatter(const Window& window, HloValue padded, HloValue g) {
  const HloValue zero = Filled(g.graph, {HloElement::kF32, {}}, 0);
  return g.graph->Add(
      {.name = "select_and_scatter",
       .operands = {padded, g, zero},
       .type = padded.type(),
       .attributes = WindowText(window, /*slides=*/true),
       .regions = absl::StrCat(kNotSmaller, ScalarRegion("add"))});
}

// Adds each part of `g` to all places of its window.
HloValue Spread(const Window& window, HloValue padded, HloValue g) {
  const auto of = [&](const Side& side, uint64_t size) {
    const auto edge = static_cast<uint64_t>(side.kernel - 1);
    return Padding{edge, size - static_cast<uint64_t>(side.spread()),
                   static_cast<uint64_t>(side.stride - 1)};
  };
  const HloValue spread = Pad(g, 0,
                              {{},
                               of(Rows(window), padded.dims()[1]),
                               of(Columns(window), padded.dims()[2]),
                               {}});
  return ReduceWindow(window, "add", 0, spread, padded.dims(),
                      /*slides=*/false, nullptr);
}

// How many places of the image each window has: [height, width] of the output.
std::vector<double> Counts(const Window& window) {
  const auto along = [](const Side& side, int64_t output) {
    const int64_t begin = output * side.stride - side.low;
    return std::min(begin + side.kernel, side.size) -
           std::max<int64_t>(begin, 0);
  };
  const Side rows = Rows(window);
  const Side columns = Columns(window);
  std::vector<double> counts;
  for (int64_t y = 0; y < rows.outputs; ++y) {
    for (int64_t x = 0; x < columns.outputs; ++x) {
      counts.push_back(static_cast<double>(along(rows, y) * along(columns, x)));
    }
  }
  return counts;
}

}  // namespace

HloValue Convolve(const Convolution& shape, HloValue input, HloValue kernel) {
  Written written = {.dims = "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
                     .groups = shape.groups};
  const Side sides[] = {Rows(shape.window), Columns(shape.window)};
  for (int d = 0; d < 2; ++d) {
    written.low[d] = sides[d].low;
    written.high[d] = sides[d].high();
    written.stride[d] = sides[d].stride;
  }
  Dims output = OutputDims(shape.window);
  output.back() = shape.outputs;
  return input.graph->Add(
      Write(written, input, kernel, {HloElement::kF32, output}),
      [=](HloValue g) {
        return std::vector<HloValue>{InputGradient(shape, input, kernel, g),
                                     KernelGradient(shape, input, kernel, g)};
      });
}

HloValue MaxPool(const Window& window, HloValue input) {
  const HloValue padded = Pad(input, -INFINITY, Around(window));
  return ReduceWindow(
      window, "maximum", -INFINITY, padded, OutputDims(window), /*slides=*/true,
      [=](HloValue g) {
        return std::vector<HloValue>{Scatter(window, padded, g), HloValue()};
      });
}

HloValue MaxPlace(HloValue input) {
  const Dims dims = input.dims();
  const Window whole = {.batch = dims[0],
                        .height = dims[1],
                        .width = 1,
                        .channels = dims[2],
                        .out_height = 1,
                        .out_width = 1,
                        .kernel_height = dims[1]};
  return Reshape(MaxPool(whole, Reshape(input, {dims[0], dims[1], 1, dims[2]})),
                 {dims[0], dims[2]});
}

HloValue AveragePool(const Window& window, HloValue input) {
  const HloValue padded = Pad(input, 0, Around(window));
  const Dims dims = OutputDims(window);
  const HloValue sums = ReduceWindow(
      window, "add", 0, padded, dims, /*slides=*/true, [=](HloValue g) {
        return std::vector<HloValue>{Spread(window, padded, g), HloValue()};
      });
  const HloValue counts = Constants(
      input.graph, {HloElement::kF32, {window.out_height, window.out_width}},
      Counts(window));
  return Divide(sums, Broadcast(counts, dims, {1, 2}));
}

}  // namespace paramd::hlo
