#ifndef PARAMD_COMPUTE_QUANTIZED_INTEGER_KERNELS_H_
#define PARAMD_COMPUTE_QUANTIZED_INTEGER_KERNELS_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "compute/device/cpu_device.h"
#include "compute/quantized/int16_program.h"
#include "compute/quantized/integer_product.h"

namespace paramd {

// Weights that are below this don't saturate where a processor adds two
// products in 16 bits: 255 * 64 * 2 is 2^15 less 128.
constexpr int kMostWithoutVnni = 63;

// Whether the instructions that oneDNN uses here add products of 8 bits in 32
// (VNNI). Without them it adds two in 16 bits, which saturate, and says
// nothing.
bool SumsAreExact();

// Computes IntegerProducts: of 8 bits by oneDNN where its sums are exact, for
// the weights at hand, of 16, which oneDNN has not, by Int16Program where the
// processor has its instructions, and else by plain loops. Which one it is
// changes no bit, but as IntegerProduct says.
//
// Not thread-safe: one per device. Keeps what it made for each product, at the
// product's address.
class IntegerKernels {
 public:
  enum class Use { kWhatIsRight, kPlainLoops };

  explicit IntegerKernels(Use use = Use::kWhatIsRight);
  ~IntegerKernels();

  // Of `examples` rows or images. REQUIRES: the product stays as it is, where
  // it is, while this lives.
  void Multiply(const IntegerProduct& product, uint64_t examples,
                const uint8_t* input, void* output);
  void Multiply(const IntegerProduct& product, uint64_t examples,
                const int16_t* input, void* output);

  // Whether oneDNN computes it, of 8 bits.
  bool IsFast(const IntegerProduct& product) const;

 private:
  struct Program;

  Program& ProgramOf(const IntegerProduct& product, uint64_t examples);
  // With what lies around each image, where that is not 0.
  const uint8_t* Padded(const IntegerProduct& product, uint64_t examples,
                        const uint8_t* input);

  const Use use_;
  const bool exact_;
  absl::flat_hash_map<std::pair<const IntegerProduct*, uint64_t>,
                      std::unique_ptr<Program>>
      programs_;
  std::vector<uint8_t> padded_;
  const std::vector<Int16Program::Instructions> instructions_;
  absl::flat_hash_map<const IntegerProduct*, std::unique_ptr<Int16Program>>
      int16_programs_;
};

// The processor, for layers whose products are of integers.
class IntegerDevice : public CpuDevice {
 public:
  explicit IntegerDevice(
      IntegerKernels::Use use = IntegerKernels::Use::kWhatIsRight)
      : kernels_(use) {}

  IntegerKernels& kernels() { return kernels_; }

 private:
  IntegerKernels kernels_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_QUANTIZED_INTEGER_KERNELS_H_
