#ifndef PARAMD_INPUT_MESSAGE_FORMAT_H_
#define PARAMD_INPUT_MESSAGE_FORMAT_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "input/sources.h"
#include "proto/paramd/v1/input.pb.h"

namespace paramd {

// What one message of a topic holds: a row of CSV, a line of LIBSVM or a
// tf.Example, read as those of files are.
//
// Thread-safe: immutable.
class MessageFormat {
 public:
  // INVALID_ARGUMENT if `config` has no such form, or does not go together.
  // REQUIRES: it has kafka.
  static absl::StatusOr<MessageFormat> Of(const v1::InputSource& config);

  // The messages as examples, in their order. What is wrong with one is found
  // when it is read; DATA_LOSS if that is so already of some of them together.
  OpenedSource Open(std::unique_ptr<InputFile> messages) const;
  // Of none: what an example has.
  OpenedSource OpenNone() const { return Open(nullptr); }

 private:
  MessageFormat(const v1::InputSource& config, std::vector<std::string> columns)
      : config_(config), columns_(std::move(columns)) {}

  v1::InputSource config_;
  std::vector<std::string> columns_;  // Of a row of CSV.
};

}  // namespace paramd

#endif  // PARAMD_INPUT_MESSAGE_FORMAT_H_
