#ifndef PARAMD_SERVER_CORE_TESTING_CONFIGURATIONS_H_
#define PARAMD_SERVER_CORE_TESTING_CONFIGURATIONS_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/testing/pair.h"
#include "tensor/buffer.h"

namespace paramd::testing {

// A variable drawn uniformly from [-0.5, 0.5).
v1::Variable Uniform(const std::string& name,
                     std::initializer_list<uint64_t> shape);
// A variable that starts as zeros.
v1::Variable Zeros(const std::string& name,
                   std::initializer_list<uint64_t> shape);

// Configuration 1.1 of run "run", plain SGD with rate 1: the variables cut into
// slices, which go to the servers in turn; server s has incarnation 100 + s and
// generation 1.(s + 1); workers 0 to 2 have generation 1.(10 + worker).
v1::Configuration MakeConfiguration(
    std::initializer_list<v1::Variable> variables, uint32_t servers = 1);
// The same with Adam.
v1::Configuration MakeAdamConfiguration(
    std::initializer_list<v1::Variable> variables, uint32_t servers = 1);
// Of one variable "w" of two zeros, on one server.
v1::Configuration Small();
// The configuration that comes after it.
v1::Configuration Next(v1::Configuration configuration);

// Of snapshot 1.`counter`, for server 0 of MakeConfiguration: into the file
// "ps-0" of "/checkpoint".
v1::SealRequest MakeSeal(uint64_t counter);
v1::WrittenRequest MakeWritten(uint64_t counter);

// Numbers as they travel.
BufferChain Payload(const std::vector<float>& numbers);
std::vector<float> Numbers(const BufferChain& chain);

}  // namespace paramd::testing

#endif  // PARAMD_SERVER_CORE_TESTING_CONFIGURATIONS_H_
