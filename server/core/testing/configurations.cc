#include "server/core/testing/configurations.h"

#include <algorithm>

#include "base/check.h"
#include "tensor/shape.h"

namespace paramd::testing {

v1::Variable Zeros(const std::string& name,
                   std::initializer_list<uint64_t> shape) {
  v1::Variable variable;
  variable.set_name(name);
  variable.set_dtype(v1::FLOAT32);
  for (const uint64_t dimension : shape) variable.add_shape(dimension);
  return variable;
}

v1::Variable Uniform(const std::string& name,
                     std::initializer_list<uint64_t> shape) {
  v1::Variable variable = Zeros(name, shape);
  variable.mutable_initializer()->set_kind(v1::Initializer::UNIFORM);
  variable.mutable_initializer()->set_low(-0.5f);
  variable.mutable_initializer()->set_high(0.5f);
  return variable;
}

v1::Configuration MakeConfiguration(
    std::initializer_list<v1::Variable> variables, uint32_t servers) {
  v1::Configuration configuration;
  *configuration.mutable_version() = Pair(1, 1);
  configuration.set_run_id("run");
  configuration.set_job_digest("digest");
  configuration.set_seed(7);
  configuration.mutable_optimizer()->mutable_sgd();
  configuration.mutable_optimizer()->set_learning_rate(1);
  for (uint32_t s = 0; s < servers; ++s) {
    v1::ServerMember* const member = configuration.add_servers();
    member->set_index(s);
    *member->mutable_generation() = Pair(1, s + 1);
    member->set_incarnation(100 + s);
  }
  for (uint32_t w = 0; w < 3; ++w) {
    v1::WorkerMember* const member = configuration.add_workers();
    member->set_index(w);
    *member->mutable_generation() = Pair(1, 10 + w);
  }
  v1::Layout* const layout = configuration.mutable_layout();
  for (const v1::Variable& variable : variables) {
    const RowShape shape = *ToRowShape(variable.shape());
    const uint64_t step = MostSliceRows(variable.sparse(), shape.row_elements);
    for (uint64_t row = 0; row < shape.rows; row += step) {
      v1::Slice* const slice = layout->add_slices();
      slice->set_variable(layout->variables_size());
      slice->set_row_begin(row);
      slice->set_row_end(std::min(row + step, shape.rows));
      slice->set_server((layout->slices_size() - 1) % servers);
    }
    *layout->add_variables() = variable;
  }
  return configuration;
}

v1::Configuration MakeAdamConfiguration(
    std::initializer_list<v1::Variable> variables, uint32_t servers) {
  v1::Configuration configuration = MakeConfiguration(variables, servers);
  configuration.mutable_optimizer()->mutable_adam();
  return configuration;
}

v1::Configuration Small() { return MakeConfiguration({Zeros("w", {2})}); }

v1::Configuration Next(v1::Configuration configuration) {
  auto* version = configuration.mutable_version();
  version->set_counter(version->counter() + 1);
  return configuration;
}

v1::SealRequest MakeSeal(uint64_t counter) {
  v1::SealRequest seal;
  seal.mutable_header()->set_term(1);
  *seal.mutable_header()->mutable_snapshot() = Pair(1, counter);
  seal.set_directory("/checkpoint");
  seal.set_nonce(42);
  seal.set_file_name("ps-00001-of-00001.safetensors");
  seal.set_stopped(true);
  *seal.add_server_generations() = Pair(1, 1);
  return seal;
}

v1::WrittenRequest MakeWritten(uint64_t counter) {
  v1::WrittenRequest written;
  written.mutable_header()->set_term(1);
  *written.mutable_header()->mutable_snapshot() = Pair(1, counter);
  return written;
}

BufferChain Payload(const std::vector<float>& numbers) {
  return {Buffer::Copy(AsBytes(absl::MakeConstSpan(numbers)))};
}

std::vector<float> Numbers(const BufferChain& chain) {
  std::vector<float> numbers(ChainSize(chain) / sizeof(float));
  ChainReader reader(chain);
  CHECK(reader.Read(AsWritableBytes(absl::MakeSpan(numbers))),
        "the chain has as many bytes as it says");
  return numbers;
}

}  // namespace paramd::testing
