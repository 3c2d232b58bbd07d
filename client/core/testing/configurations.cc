#include "client/core/testing/configurations.h"

#include "base/check.h"

namespace paramd::testing {

v1::Configuration MakeConfiguration(const std::vector<OwnedVariable>& variables,
                                    uint32_t servers) {
  v1::Configuration configuration;
  *configuration.mutable_version() = Pair(1, 1);
  for (uint32_t s = 0; s < servers; ++s) {
    v1::ServerMember* member = configuration.add_servers();
    member->set_index(s);
    *member->mutable_generation() = Pair(1, s + 1);
  }
  v1::Layout* layout = configuration.mutable_layout();
  for (const OwnedVariable& owned : variables) {
    v1::Slice* slice = layout->add_slices();
    slice->set_variable(layout->variables_size());
    slice->set_row_end(owned.shape.empty() ? 1 : owned.shape[0]);
    slice->set_server(owned.server);
    v1::Variable* variable = layout->add_variables();
    variable->set_name(owned.name);
    variable->set_dtype(v1::FLOAT32);
    for (const uint64_t d : owned.shape) variable->add_shape(d);
  }
  return configuration;
}

Buffer Floats(const std::vector<float>& numbers) {
  return Buffer::Copy(AsBytes(absl::MakeConstSpan(numbers)));
}

std::vector<float> Numbers(const BufferChain& chain) {
  std::vector<float> numbers(ChainSize(chain) / sizeof(float));
  ChainReader reader(chain);
  CHECK(reader.Read(AsWritableBytes(absl::MakeSpan(numbers))),
        "the chain has as many bytes as it says");
  return numbers;
}

}  // namespace paramd::testing
