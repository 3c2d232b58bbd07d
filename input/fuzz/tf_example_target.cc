// Whatever a record holds, it is a tf.Example with the features that the job
// names, of any type and shape that they may have, or is refused. Its checksums
// are made right here: bytes that were changed would get no further.

#include <cstdint>
#include <string>

#include "base/crc32c.h"
#include "base/fuzz/pieces.h"
#include "input/fuzz/read_source.h"

namespace paramd {
namespace {

void AddSum(absl::string_view of, std::string* out) {
  const uint32_t crc =
      Crc32c({reinterpret_cast<const std::byte*>(of.data()), of.size()});
  fuzz::AddNumber(MaskedCrc32c(crc), 4, out);
}

std::string Record(absl::string_view data) {
  std::string record;
  fuzz::AddNumber(data.size(), 8, &record);
  AddSum(std::string(record), &record);
  record.append(data.data(), data.size());
  AddSum(data, &record);
  return record;
}

v1::InputSource::TfRecord Config() {
  v1::InputSource::TfRecord config;
  config.add_files("input");
  v1::InputFeature* feature = config.add_features();
  feature->set_name("x");
  feature->add_dims(2);
  feature = config.add_features();
  feature->set_name("list");
  feature->set_type(v1::InputFeature::TYPE_FLOAT64);
  feature->add_dims(0);
  feature->add_dims(2);
  feature->add_missing(0.5);
  feature = config.add_features();
  feature->set_name("text");
  feature->set_type(v1::InputFeature::TYPE_UINT8);
  feature->add_dims(0);
  feature->add_missing(0);
  feature = config.add_features();
  feature->set_name("keys");
  feature->set_type(v1::InputFeature::TYPE_INT64);
  feature->add_dims(0);
  feature->add_missing(0);
  feature = config.add_features();
  feature->set_name("label");
  feature->set_type(v1::InputFeature::TYPE_INT32);
  feature->set_classes(3);
  feature->add_missing(0);
  return config;
}

}  // namespace
}  // namespace paramd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto* const config =
      new paramd::v1::InputSource::TfRecord(paramd::Config());
  paramd::fuzz::CheckSource(paramd::ReadTfRecord(
      paramd::fuzz::OneFile(
          paramd::Record({reinterpret_cast<const char*>(data), size})),
      *config));
  return 0;
}
