#ifndef PARAMD_CLIENT_CORE_TESTING_CONFIGURATIONS_H_
#define PARAMD_CLIENT_CORE_TESTING_CONFIGURATIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/paramd/v1/configuration.pb.h"
#include "proto/testing/pair.h"
#include "tensor/buffer.h"

namespace paramd::testing {

// A variable and the server that owns the whole of it, as one slice.
struct OwnedVariable {
  std::string name;
  std::vector<uint64_t> shape;
  uint32_t server = 0;
};

// Configuration 1.1: the variables; server s has generation 1.(s + 1).
v1::Configuration MakeConfiguration(const std::vector<OwnedVariable>& variables,
                                    uint32_t servers);

// Numbers as they travel, and back.
Buffer Floats(const std::vector<float>& numbers);
std::vector<float> Numbers(const BufferChain& chain);

}  // namespace paramd::testing

#endif  // PARAMD_CLIENT_CORE_TESTING_CONFIGURATIONS_H_
