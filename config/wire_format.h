#ifndef PARAMD_CONFIG_WIRE_FORMAT_H_
#define PARAMD_CONFIG_WIRE_FORMAT_H_

#include "absl/types/optional.h"

#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/types.pb.h"
#include "tensor/number_format.h"

namespace paramd {

// The three names of a format: of the job file, of messages, and of the code
// that reads and writes it. An unset one is float32.
NumberFormat FormatOf(v1::JobConfig::WireFormat format);
// Nothing if this build does not know it.
absl::optional<NumberFormat> FormatOf(v1::Encoding encoding);
v1::Encoding EncodingOf(NumberFormat format);

}  // namespace paramd

#endif  // PARAMD_CONFIG_WIRE_FORMAT_H_
