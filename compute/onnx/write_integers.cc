#include "compute/onnx/write_integers.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

#include "compute/model/image_layers.h"

namespace paramd {
namespace {

template <class T>
absl::string_view BytesOfAll(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(T)};
}

// By way of integers, and back.
OnnxValue ThroughIntegers(OnnxGraph* graph, const OnnxValue& value,
                          const Affine& affine) {
  if (value.integers == affine) return value;
  const std::string scale =
      graph->AddFloat(graph->Local("input_scale"), affine.scale);
  const std::string zero_point = graph->AddConstant(
      graph->Local("input_zero_point"), onnx::TensorProto::UINT8, {},
      {reinterpret_cast<const char*>(&affine.zero_point), 1});
  const std::string integers =
      graph->Add("QuantizeLinear", {value.name, scale, zero_point});
  OnnxValue made = value;
  made.name = graph->Add("DequantizeLinear", {integers, scale, zero_point});
  made.integers = affine;
  return made;
}

// A product while it is written.
class ProductWriter {
 public:
  ProductWriter(const QuantizedProducts& products, const FoundProduct& product,
                const OnnxPass& pass)
      : products_(products),
        product_(product),
        pass_(pass),
        graph_(*pass.graph),
        name_(product.kernel_variable().name()),
        kernel_dims_(product.kernel_variable().shape().begin(),
                     product.kernel_variable().shape().end()),
        values_(products.TensorOf(product).values),
        scales_(products.TensorOf(product).scales),
        bias_(products.BiasOf(product)) {}

  OnnxValue WriteStatic() {
    const Affine affine = products_.InputOf(product_);
    OnnxValue made = product_.is_convolution() ? WriteConvolution(affine)
                                               : WriteDense(affine);
    made = Finish(std::move(made));
    std::vector<const Pool*> pools;
    const FoundProduct* const next = products_.Next(product_, &pools);
    if (next == nullptr) return made;
    // Where a pool follows, what it gets is the same integers.
    return ThroughIntegers(&graph_, made, products_.InputOf(*next));
  }

  OnnxValue WriteDynamic() {
    const OnnxValue x = AsDims(&graph_, pass_.input, product_.input_dims);
    // Integers, their scale, their zero point.
    const auto integers =
        graph_.AddMany("DynamicQuantizeLinear", {x.name}, {}, 3);
    const std::string sums = graph_.Add(
        "MatMulInteger",
        {integers[0], AddKernel(kernel_dims_, values_), integers[2]});
    const std::string unit = graph_.Add("Mul", {integers[1], AddScales()});
    const std::string as_float =
        graph_.Add("Cast", {sums}, {{"to", int64_t{onnx::TensorProto::FLOAT}}});
    return Finish(WithFloatBias(
        {graph_.Add("Mul", {as_float, unit}), product_.output_dims}));
  }

 private:
  std::string AddKernel(const Dims& dims, const std::vector<int8_t>& values) {
    return graph_.AddConstant(name_, onnx::TensorProto::INT8, dims,
                              BytesOfAll(values));
  }

  // One, or one of each output.
  Dims ScaleDims() const {
    return scales_.size() == 1 ? Dims{} : Dims{scales_.size()};
  }
  std::string AddScales() {
    return graph_.AddFloats(absl::StrCat(name_, "/scales"), ScaleDims(),
                            scales_);
  }

  // `axis`: that of the outputs.
  std::string FloatKernel(const Dims& dims, const std::vector<int8_t>& values,
                          int64_t axis) {
    const std::string zeros = graph_.AddConstant(
        absl::StrCat(name_, "/zero_points"), onnx::TensorProto::INT8,
        ScaleDims(), BytesOfAll(std::vector<int8_t>(scales_.size(), 0)));
    return graph_.Add("DequantizeLinear",
                      {AddKernel(dims, values), AddScales(), zeros},
                      {{"axis", axis}});
  }

  // As multiples of what the sums of products are multiples of; empty: there is
  // no bias, or it is beyond 32 bits.
  std::string IntegerBias(const Affine& affine) {
    std::vector<int32_t> integers;
    for (size_t c = 0; c < bias_.size(); ++c) {
      const double unit =
          static_cast<double>(affine.scale) *
          static_cast<double>(scales_[scales_.size() == 1 ? 0 : c]);
      const double rounded = std::nearbyint(bias_[c] / unit);
      // Also of NaN.
      if (!(std::fabs(rounded) < std::numeric_limits<int32_t>::max())) {
        return "";
      }
      integers.push_back(static_cast<int32_t>(rounded));
    }
    if (integers.empty()) return "";
    std::vector<float> units = scales_;
    for (float& unit : units) unit *= affine.scale;
    const std::string name = graph_.Local("bias");
    const std::string zeros = graph_.AddConstant(
        absl::StrCat(name, "/zero_points"), onnx::TensorProto::INT32,
        ScaleDims(), BytesOfAll(std::vector<int32_t>(units.size(), 0)));
    return graph_.Add(
        "DequantizeLinear",
        {graph_.AddConstant(name, onnx::TensorProto::INT32, {integers.size()},
                            BytesOfAll(integers)),
         graph_.AddFloats(absl::StrCat(name, "/scales"), ScaleDims(), units),
         zeros},
        {{"axis", int64_t{0}}});
  }

  OnnxValue WithFloatBias(OnnxValue value) {
    if (bias_.empty()) return value;
    Dims dims = {bias_.size()};
    if (value.channels_first) dims = {bias_.size(), 1, 1};
    value.name = graph_.Add(
        "Add",
        {value.name, graph_.AddFloats(graph_.Local("bias"), dims, bias_)});
    return value;
  }

  OnnxValue WriteConvolution(const Affine& affine) {
    const auto& convolution =
        static_cast<const Conv2d&>(product_.At(product_.layer));
    const OnnxValue x = ThroughIntegers(
        &graph_, ChannelsFirst(&graph_, pass_.input, product_.input_dims),
        affine);
    std::vector<std::string> inputs = {
        x.name,
        FloatKernel({kernel_dims_[3], kernel_dims_[2], kernel_dims_[0],
                     kernel_dims_[1]},
                    OutputsFirst<int8_t>(values_, kernel_dims_), /*axis=*/0)};
    const std::string bias = IntegerBias(affine);
    if (!bias.empty()) inputs.push_back(bias);
    const OnnxValue made = {
        graph_.Add("Conv", std::move(inputs), WindowOf(convolution)),
        product_.output_dims, /*channels_first=*/true};
    return bias.empty() ? WithFloatBias(made) : made;
  }

  OnnxValue WriteDense(const Affine& affine) {
    const OnnxValue x = ThroughIntegers(
        &graph_, AsDims(&graph_, pass_.input, product_.input_dims), affine);
    const std::string kernel = FloatKernel(kernel_dims_, values_, /*axis=*/1);
    const bool is_matrix = x.dims.size() == 1;
    const std::string bias = is_matrix ? IntegerBias(affine) : "";
    if (!bias.empty()) {
      return {graph_.Add("Gemm", {x.name, kernel, bias}), product_.output_dims};
    }
    return WithFloatBias(
        {graph_.Add("MatMul", {x.name, kernel}), product_.output_dims});
  }

  // Relu, and the dims of the last layer that it stands for.
  OnnxValue Finish(OnnxValue value) {
    if (product_.relu) value.name = graph_.Add("Relu", {value.name});
    const Dims& dims = product_.end_dims;
    return value.dims == dims ? value : AsDims(&graph_, value, dims);
  }

  const QuantizedProducts& products_;
  const FoundProduct& product_;
  const OnnxPass& pass_;
  OnnxGraph& graph_;
  const std::string name_;  // Of the kernel.
  const Dims kernel_dims_;
  const std::vector<int8_t>& values_;
  const std::vector<float>& scales_;
  const std::vector<float> bias_;
};

}  // namespace

OnnxValue WriteProduct(const QuantizedProducts& products,
                       const FoundProduct& product, const OnnxPass& pass) {
  pass.graph->Enter(product.name);
  ProductWriter writer(products, product, pass);
  return products.mode() == Quantization::Mode::kStatic ? writer.WriteStatic()
                                                        : writer.WriteDynamic();
}

}  // namespace paramd
