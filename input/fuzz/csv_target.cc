// Whatever stands in a file of columns, its rows are what the job says or are
// refused. The first byte chooses how it is read.

#include <cstdint>

#include "base/fuzz/pieces.h"
#include "input/fuzz/read_source.h"

namespace paramd {
namespace {

// Every combination of what a reader may be told.
v1::InputSource::Csv ConfigOf(uint8_t choice) {
  v1::InputSource::Csv config;
  config.add_files("input");
  config.set_name("features");
  config.set_header((choice & 1) != 0);
  config.set_separator((choice & 2) != 0 ? "," : "tab");
  config.set_quotes((choice & 4) != 0);
  config.set_list_separator("|");
  config.set_list_length(3);
  if ((choice & 8) != 0) {
    config.set_label(config.header() ? "y" : "1");
    config.set_classes(3);
  }
  if ((choice & 16) != 0) config.set_hash_buckets(1000);
  if ((choice & 32) != 0) {
    config.add_columns(config.header() ? "x" : "2");
    if (!config.header()) config.add_columns("3-4");
  }
  if ((choice & 64) != 0) {
    config.set_hash_buckets(1000);
    config.set_list_column(config.header() ? "z" : "5");
  }
  if ((choice & 128) != 0) config.add_missing(0);
  return config;
}

}  // namespace
}  // namespace paramd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paramd::fuzz::Pieces pieces(data, size);
  const auto config = paramd::ConfigOf(pieces.Byte());
  paramd::fuzz::CheckSource(
      paramd::ReadCsv(paramd::fuzz::OneFile(pieces.Rest()), config));
  return 0;
}
