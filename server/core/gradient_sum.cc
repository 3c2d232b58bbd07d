#include "server/core/gradient_sum.h"

#include <algorithm>
#include <utility>

#include "absl/types/span.h"

#include "base/check.h"

namespace paramd {
namespace {

// Vectorised: so many elements at a time are copied to where they are aligned.
constexpr size_t kRun = 256;

}  // namespace

void GradientSum::Add(BufferChain gradient, SpareBuffers* spare) {
  const size_t bytes = ChainSize(gradient);
  if (bytes == 0) return;
  if (empty()) {
    chain_ = std::move(gradient);
    size_ = bytes;
    return;
  }
  CHECK(bytes == size_, "gradients of one block have one size");
  float* const sum = Writable(spare);
  ChainReader reader(gradient);
  const size_t elements = bytes / sizeof(float);
  float run[kRun];
  for (size_t begin = 0; begin < elements; begin += kRun) {
    const size_t count = std::min(kRun, elements - begin);
    reader.Read(AsWritableBytes(absl::MakeSpan(run, count)));
    for (size_t i = 0; i < count; ++i) sum[begin + i] += run[i];
  }
}

void GradientSum::Scale(float factor, SpareBuffers* spare) {
  if (empty()) return;
  float* const sum = Writable(spare);
  for (size_t i = 0; i < size_ / sizeof(float); ++i) sum[i] *= factor;
}

void GradientSum::Clear(SpareBuffers* spare) {
  if (own_) spare->Give(std::move(chain_[0]));
  chain_.clear();
  size_ = 0;
  own_ = false;
}

float* GradientSum::Writable(SpareBuffers* spare) {
  if (!own_) {
    Buffer buffer = spare->Take(size_);
    ChainReader(chain_).Read(buffer.mutable_bytes());
    chain_ = {std::move(buffer)};
    own_ = true;
  }
  return reinterpret_cast<float*>(chain_[0].mutable_bytes().data());
}

}  // namespace paramd
