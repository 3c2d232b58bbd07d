#ifndef PARAMD_INPUT_UNPACK_H_
#define PARAMD_INPUT_UNPACK_H_

#include <memory>

#include "absl/status/statusor.h"

#include "input/file.h"

namespace paramd {

// The file itself, or its content if it is compressed by gzip, as its first
// bytes say; with `or_zlib` also by zlib, where a text could begin so, too.
// That is unpacked once, into a file without a name in $TMPDIR or /tmp that
// takes room until the object goes, or, where none can be made, into at most 4
// GiB of memory. It has the path of the packed one.
//
// INVALID_ARGUMENT, naming file and format, if it is compressed in a way that
// is not known; DATA_LOSS if what is packed is damaged or cut off;
// RESOURCE_EXHAUSTED if there is no room for it; the system's code if it can't
// be read.
absl::StatusOr<std::unique_ptr<InputFile>> Unpacked(
    std::unique_ptr<InputFile> file, bool or_zlib = false);

}  // namespace paramd

#endif  // PARAMD_INPUT_UNPACK_H_
