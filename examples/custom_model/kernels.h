// Softmax regression as functions of one element each. The same text is
// compiled for the GPU, where a thread has an element, and for the processor,
// where a loop has them all. Nothing is added in an order that a race decides.
#ifndef CUSTOM_MODEL_KERNELS_H_
#define CUSTOM_MODEL_KERNELS_H_

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define KERNEL __host__ __device__
#else
#define KERNEL
#endif

constexpr int kPixels = 784, kClasses = 10;

// All that it points to is in the memory of who computes.
struct Batch {
  const uint8_t* pixels;   // [data, kPixels]
  const uint8_t* labels;   // [data]
  const int64_t* indices;  // [size], of data.
  uint64_t size;
  float divisor;   // Of gradients.
  const float* w;  // [kPixels, kClasses]
  const float* b;  // [kClasses]
  float* scores;   // [size, kClasses]; then the losses' derivatives by them.
  float* losses;   // [size]
  int32_t* met;    // [size], 1 or 0.
  float* w_gradient;
  float* b_gradient;
};

// Element (example, class): x W + b.
struct Scores {
  Batch batch;
  KERNEL void operator()(uint64_t i) const {
    const uint64_t c = i % kClasses;
    const uint8_t* const x =
        batch.pixels + batch.indices[i / kClasses] * kPixels;
    float sum = batch.b[c];
    for (int p = 0; p < kPixels; ++p) {
      sum += static_cast<float>(x[p]) / 255 * batch.w[p * kClasses + c];
    }
    batch.scores[i] = sum;
  }
};

// Element (example): its loss, and derivatives in place of its scores.
struct Losses {
  Batch batch;
  KERNEL void operator()(uint64_t i) const {
    float* const scores = batch.scores + i * kClasses;
    const int label = batch.labels[batch.indices[i]];
    int best = 0;
    for (int c = 1; c < kClasses; ++c) {
      if (!(scores[c] <= scores[best])) best = c;  // So a NaN is seen.
    }
    const float most = scores[best], of_label = scores[label];
    float sum = 0;
    for (int c = 0; c < kClasses; ++c) {
      scores[c] = expf(scores[c] - most);
      sum += scores[c];
    }
    batch.losses[i] = most + logf(sum) - of_label;
    batch.met[i] = best == label;
    for (int c = 0; c < kClasses; ++c) {
      scores[c] =
          (scores[c] / sum - (c == label ? 1.0f : 0.0f)) / batch.divisor;
    }
  }
};

// Element (pixel or, after them, the bias; class): examples in their order.
struct Gradients {
  Batch batch;
  KERNEL void operator()(uint64_t i) const {
    const uint64_t p = i / kClasses, c = i % kClasses;
    float sum = 0;
    for (uint64_t e = 0; e < batch.size; ++e) {
      const float slope = batch.scores[e * kClasses + c];
      sum += p == kPixels
                 ? slope
                 : slope *
                       static_cast<float>(
                           batch.pixels[batch.indices[e] * kPixels + p]) /
                       255;
    }
    (p == kPixels ? batch.b_gradient + c : batch.w_gradient + i)[0] = sum;
  }
};

// Calls for_each(function, elements) for what a batch takes, one after the
// other.
template <class ForEach>
void Compute(const Batch& batch, bool is_step, ForEach for_each) {
  for_each(Scores{batch}, batch.size * kClasses);
  for_each(Losses{batch}, batch.size);
  if (is_step) for_each(Gradients{batch}, (kPixels + 1) * kClasses);
}

#endif  // CUSTOM_MODEL_KERNELS_H_
