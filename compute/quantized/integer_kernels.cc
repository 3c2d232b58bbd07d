#include "compute/quantized/integer_kernels.h"

#include <omp.h>

#include <algorithm>
#include <unordered_map>

#include "base/check.h"
#include "dnnl.hpp"

namespace paramd {
namespace {

using dnnl::memory;
using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

int64_t Whole(uint64_t value) { return static_cast<int64_t>(value); }

Type TypeOf(IntegerProduct::Result result) {
  switch (result) {
    case IntegerProduct::Result::kIntegers:
      return Type::u8;
    case IntegerProduct::Result::kFloat:
      return Type::f32;
    case IntegerProduct::Result::kSums:
      break;
  }
  return Type::s32;
}

bool HasSums(const IntegerProduct& product) {
  return product.result == IntegerProduct::Result::kSums;
}

// The image with its border is the image.
Convolution WithBorder(Convolution shape) {
  Window& w = shape.window;
  w.height = (w.out_height - 1) * w.stride_height + w.kernel_height;
  w.width = (w.out_width - 1) * w.stride_width + w.kernel_width;
  w.top = w.left = 0;
  return shape;
}

bool HasBorder(const Window& w) {
  return w.top > 0 || w.left > 0 ||
         (w.out_height - 1) * w.stride_height + w.kernel_height > w.height ||
         (w.out_width - 1) * w.stride_width + w.kernel_width > w.width;
}

bool IsPadded(const IntegerProduct& product) {
  return product.zero_point != 0 && product.convolution.has_value() &&
         HasBorder(product.convolution->window);
}

dnnl::primitive_attr AttributesOf(const IntegerProduct& product) {
  dnnl::primitive_attr attributes;
  if (HasSums(product)) return attributes;
  // Of the second dimension, the channels, in both kinds.
  attributes.set_output_scales(1 << 1, product.scale);
  if (product.relu) {
    dnnl::post_ops after;
    after.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
    attributes.set_post_ops(after);
  }
  return attributes;
}

int64_t Behind(uint64_t out, uint64_t stride, uint64_t kernel, uint64_t before,
               uint64_t in) {
  return std::max<int64_t>(
      Whole((out - 1) * stride + kernel) - Whole(before + in), 0);
}

}  // namespace

bool SumsAreExact() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::avx2_vnni:
    case dnnl::cpu_isa::avx512_core_vnni:
    case dnnl::cpu_isa::avx512_core_bf16:
    case dnnl::cpu_isa::avx512_core_amx:
      return true;
    default:
      return false;
  }
}

// One primitive, with weights as it likes them best.
struct IntegerKernels::Program {
  Program(const IntegerProduct& product, uint64_t examples)
      : engine(dnnl::engine::kind::cpu, 0), stream(engine) {
    if (product.convolution.has_value()) {
      MakeConvolution(product, examples);
    } else {
      MakeMatrix(product, examples);
    }
    arguments.emplace(DNNL_ARG_SRC, source);
    arguments.emplace(DNNL_ARG_WEIGHTS, weights);
    arguments.emplace(DNNL_ARG_DST, target);
    if (HasSums(product)) return;
    bias = memory(bias_desc, engine);
    std::copy(product.bias.begin(), product.bias.end(),
              static_cast<float*>(bias.get_data_handle()));
    arguments.emplace(DNNL_ARG_BIAS, bias);
  }

  void MakeMatrix(const IntegerProduct& product, uint64_t rows) {
    const int64_t in = Whole(product.inputs);
    const int64_t out = Whole(product.outputs);
    const Desc from({Whole(rows), in}, Type::u8, Tag::ab);
    const Desc plain({in, out}, Type::s8, Tag::ab);
    const Desc any({in, out}, Type::s8, Tag::any);
    const Desc to({Whole(rows), out}, TypeOf(product.result), Tag::ab);
    bias_desc = Desc({1, out}, Type::f32, Tag::ab);
    const auto desc = HasSums(product)
                          ? dnnl::matmul::desc(from, any, to)
                          : dnnl::matmul::desc(from, any, bias_desc, to);
    const dnnl::matmul::primitive_desc made(desc, AttributesOf(product),
                                            engine);
    Keep(dnnl::matmul(made), made.src_desc(), made.dst_desc());
    Pack(product, plain, made.weights_desc());
  }

  void MakeConvolution(const IntegerProduct& product, uint64_t images) {
    using Forward = dnnl::convolution_forward;
    const Convolution shape = IsPadded(product)
                                  ? WithBorder(*product.convolution)
                                  : *product.convolution;
    const Window& w = shape.window;
    const auto image = [&](uint64_t channels, uint64_t height, uint64_t width,
                           Type type) {
      return Desc({Whole(images), Whole(channels), Whole(height), Whole(width)},
                  type, Tag::nhwc);
    };
    const Desc from = image(w.channels, w.height, w.width, Type::u8);
    const Desc to =
        image(shape.outputs, w.out_height, w.out_width, TypeOf(product.result));
    memory::dims kernel = {Whole(shape.group_outputs()),
                           Whole(shape.group_inputs()), Whole(w.kernel_height),
                           Whole(w.kernel_width)};
    if (shape.groups > 1) kernel.insert(kernel.begin(), Whole(shape.groups));
    const Desc plain(kernel, Type::s8,
                     shape.groups > 1 ? Tag::hwigo : Tag::hwio);
    const Desc any(kernel, Type::s8, Tag::any);
    const memory::dims strides = {Whole(w.stride_height),
                                  Whole(w.stride_width)};
    const memory::dims before = {Whole(w.top), Whole(w.left)};
    const memory::dims behind = {
        Behind(w.out_height, w.stride_height, w.kernel_height, w.top, w.height),
        Behind(w.out_width, w.stride_width, w.kernel_width, w.left, w.width)};
    bias_desc = Desc({Whole(shape.outputs)}, Type::f32, Tag::a);
    constexpr auto kUse = dnnl::prop_kind::forward_inference;
    constexpr auto kDirect = dnnl::algorithm::convolution_direct;
    const auto desc = HasSums(product)
                          ? Forward::desc(kUse, kDirect, from, any, to, strides,
                                          before, behind)
                          : Forward::desc(kUse, kDirect, from, any, bias_desc,
                                          to, strides, before, behind);
    const Forward::primitive_desc made(desc, AttributesOf(product), engine);
    Keep(Forward(made), made.src_desc(), made.dst_desc());
    Pack(product, plain, made.weights_desc());
  }

  void Keep(const dnnl::primitive& made, const Desc& from, const Desc& to) {
    primitive = made;
    source = memory(from, engine, nullptr);
    target = memory(to, engine, nullptr);
  }

  void Pack(const IntegerProduct& product, const Desc& plain,
            const Desc& packed) {
    memory given(plain, engine, const_cast<int8_t*>(product.weights.data()));
    weights = memory(packed, engine);
    dnnl::reorder(given, weights).execute(stream, given, weights);
    stream.wait();
  }

  void Run(const uint8_t* input, void* output) {
    source.set_data_handle(const_cast<uint8_t*>(input));
    target.set_data_handle(output);
    primitive.execute(stream, arguments);
    stream.wait();
  }

  dnnl::engine engine;
  dnnl::stream stream;
  dnnl::primitive primitive;
  Desc bias_desc;
  memory source;
  memory target;
  memory weights;
  memory bias;
  std::unordered_map<int, memory> arguments;
};

IntegerKernels::IntegerKernels(Use use)
    : use_(use),
      exact_(SumsAreExact()),
      instructions_(Int16Program::Available()) {}

IntegerKernels::~IntegerKernels() = default;

bool IntegerKernels::IsFast(const IntegerProduct& product) const {
  return use_ == Use::kWhatIsRight &&
         (exact_ || product.most <= kMostWithoutVnni);
}

IntegerKernels::Program& IntegerKernels::ProgramOf(
    const IntegerProduct& product, uint64_t examples) {
  std::unique_ptr<Program>& program = programs_[{&product, examples}];
  if (program == nullptr)
    program = std::make_unique<Program>(product, examples);
  return *program;
}

const uint8_t* IntegerKernels::Padded(const IntegerProduct& product,
                                      uint64_t examples, const uint8_t* input) {
  const Window& w = product.convolution->window;
  const Window whole = WithBorder(*product.convolution).window;
  // A window may also leave rows out, at the end.
  const uint64_t height = std::min(w.height, whole.height - w.top);
  const uint64_t width = std::min(w.width, whole.width - w.left);
  const uint64_t image = whole.height * whole.width * w.channels;
  padded_.assign(examples * image, product.zero_point);
  for (uint64_t i = 0; i < examples; ++i) {
    for (uint64_t y = 0; y < height; ++y) {
      std::copy_n(input + (i * w.height + y) * w.width * w.channels,
                  width * w.channels,
                  padded_.data() + i * image +
                      ((y + w.top) * whole.width + w.left) * w.channels);
    }
  }
  return padded_.data();
}

void IntegerKernels::Multiply(const IntegerProduct& product, uint64_t examples,
                              const uint8_t* input, void* output) {
  if (!IsFast(product)) {
    return MultiplyPlainly(product, examples, input, output);
  }
  // Holds for the calling thread; others have work of their own.
  omp_set_num_threads(1);
  if (IsPadded(product)) input = Padded(product, examples, input);
  ProgramOf(product, examples).Run(input, output);
}

void IntegerKernels::Multiply(const IntegerProduct& product, uint64_t examples,
                              const int16_t* input, void* output) {
  if (use_ == Use::kPlainLoops || instructions_.empty() || HasSums(product)) {
    return MultiplyPlainly(product, examples, input, output);
  }
  std::unique_ptr<Int16Program>& program = int16_programs_[&product];
  if (program == nullptr) {
    program = std::make_unique<Int16Program>(product, instructions_.back());
  }
  program->Run(examples, input, output);
}

}  // namespace paramd
