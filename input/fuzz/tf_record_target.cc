// Whatever stands in a file of records, each is found with its checksums, or
// the file is refused.

#include <cstdint>

#include "input/fuzz/read_source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paramd::v1::InputSource::TfRecord config;
  config.add_files("input");
  auto* const feature = config.add_features();
  feature->set_name("x");
  feature->add_dims(0);
  paramd::fuzz::CheckSource(paramd::ReadTfRecord(
      paramd::fuzz::OneFile({reinterpret_cast<const char*>(data), size}),
      config));
  return 0;
}
