// Protobuf prints what it finds wrong with a message, a million times an hour;
// what is linked with this does not.

#include "google/protobuf/stubs/logging.h"

namespace paramd::fuzz {
namespace {

[[maybe_unused]] const bool kQuiet = [] {
  google::protobuf::SetLogHandler(nullptr);
  return true;
}();

}  // namespace
}  // namespace paramd::fuzz
