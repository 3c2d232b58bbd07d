// As in reference_loss.cc of compute/device and Loss::FillFactors, line by
// line.
#include "compute/compiled/emit_loss.h"

#include "base/check.h"
#include "compute/hlo/hlo_ops.h"

namespace paramd {
namespace {

// A number for each place of the first dimensions, all over the last.
HloValue Across(HloValue numbers, const Dims& dims) {
  return hlo::BroadcastFirst(numbers, dims);
}

HloValue Scaled(HloValue a, HloValue scalar) {
  return hlo::Multiply(a, hlo::BroadcastFirst(scalar, a.dims()));
}

// `rows` [examples, places, classes], `labels` [examples, places].
HloValue EmitClasses(const Loss::Options& options, HloValue rows,
                     HloValue labels, HloValue scale) {
  HloGraph* const graph = rows.graph;
  const Dims& dims = rows.dims();
  const uint64_t classes = dims.back();
  const double smoothing = options.label_smoothing;
  const double share = smoothing / static_cast<double>(classes);
  const HloValue is_label =
      hlo::Compare("EQ", Across(labels, dims),
                   hlo::Iota(graph, {HloElement::kS32, dims}, 2));
  const HloValue wanted =
      hlo::Select(is_label, hlo::FilledLike(rows, 1 - smoothing + share),
                  hlo::FilledLike(rows, share));
  // Of each label its weight, as a part of its example; 0 if it is ignored.
  const HloType numbers = {HloElement::kF32, labels.dims()};
  HloValue weights = hlo::Filled(graph, numbers, 1);
  if (!options.class_weights.empty()) {
    const HloValue table = hlo::Constants(graph, {HloElement::kF32, {classes}},
                                          options.class_weights);
    weights = hlo::Sum(hlo::Select(is_label, hlo::BroadcastLast(table, dims),
                                   hlo::FilledLike(rows, 0)),
                       {2});
  }
  const HloValue zero = hlo::Filled(graph, numbers, 0);
  HloValue counts = hlo::Filled(graph, numbers, static_cast<double>(dims[1]));
  if (options.ignore_label.has_value()) {
    const HloValue is_ignored = hlo::Compare(
        "EQ", labels, hlo::FilledLike(labels, *options.ignore_label));
    const HloValue counted =
        hlo::Select(is_ignored, zero, hlo::Filled(graph, numbers, 1));
    counts = hlo::BroadcastFirst(hlo::Sum(counted, {1}), labels.dims());
    weights = hlo::Select(is_ignored, zero, hlo::Divide(weights, counts));
  } else {
    weights = hlo::Divide(weights, counts);
  }
  const HloValue factors = Across(Scaled(weights, scale), dims);
  return hlo::Multiply(hlo::Subtract(hlo::Softmax(rows), wanted), factors);
}

}  // namespace

HloValue EmitGradient(const Loss& loss, HloValue outputs, HloValue target,
                      HloValue scale, HloValue weights) {
  CHECK(!loss.IsOfBatch(), "a program has a loss for each row of outputs");
  const Loss::Options& options = loss.options();
  const uint64_t examples = outputs.dims()[0];
  const uint64_t values = SizeOf(outputs.dims()) / examples;
  const uint64_t places = values / loss.classes();
  const HloValue rows =
      hlo::Reshape(outputs, {examples, places, loss.classes()});
  HloValue gradient;
  switch (options.kind) {
    case v1::SOFTMAX_CROSS_ENTROPY:
      gradient = EmitClasses(options, rows,
                             hlo::Reshape(target, {examples, places}), scale);
      break;
    case v1::KL_DIVERGENCE: {
      const HloValue y = hlo::Reshape(target, rows.dims());
      const HloValue mass = Across(hlo::Sum(y, {2}), rows.dims());
      gradient = hlo::Subtract(hlo::Multiply(mass, hlo::Softmax(rows)), y);
      gradient =
          hlo::Scale(Scaled(gradient, scale), 1 / static_cast<double>(places));
      break;
    }
    default: {
      const HloValue y = hlo::Reshape(target, rows.dims());
      gradient = options.kind == v1::BINARY_CROSS_ENTROPY
                     ? hlo::Subtract(hlo::Sigmoid(rows), y)
                     : hlo::Scale(hlo::Subtract(rows, y), 2);
      gradient =
          hlo::Scale(Scaled(gradient, scale), 1 / static_cast<double>(values));
    }
  }
  if (weights.exists()) {
    gradient = hlo::Multiply(gradient, Across(weights, gradient.dims()));
  }
  return hlo::Reshape(gradient, outputs.dims());
}

}  // namespace paramd
