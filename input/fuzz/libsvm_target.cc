// Whatever stands on lines of LIBSVM, they are vectors or lists of indices, or
// are refused. The first byte chooses which.

#include <cstdint>

#include "base/fuzz/pieces.h"
#include "input/fuzz/read_source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paramd::fuzz::Pieces pieces(data, size);
  const uint8_t choice = pieces.Byte();
  paramd::v1::InputSource::LibSvm config;
  config.add_files("input");
  config.set_name("features");
  config.set_columns((choice & 1) != 0 ? 8 : 0);
  config.set_list_length(4);
  config.set_first_index((choice & 2) != 0 ? 1 : 0);
  config.set_classes((choice & 4) != 0 ? 2 : (choice & 8) != 0 ? 10 : 0);
  paramd::SourceOptions options;
  options.labels = (choice & 16) == 0;
  paramd::fuzz::CheckSource(paramd::ReadLibSvm(
      paramd::fuzz::OneFile(pieces.Rest()), config, options));
  return 0;
}
