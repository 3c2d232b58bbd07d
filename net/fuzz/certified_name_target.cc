// Whatever names a peer's certificate has, one to a line, they name one task or
// role, written as we write it, or are refused.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"

#include "base/check.h"
#include "base/fuzz/pieces.h"
#include "net/certified_name.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> uris = absl::StrSplit(text, '\n');
  const auto name = paramd::NameAmong(uris);
  if (name.ok()) {
    const auto again = paramd::NameAmong({name->Uri()});
    CHECK(again.ok() && *again == *name, "a name is written in one way");
  } else {
    paramd::fuzz::CheckRefusal(name.status());
  }
  const auto task = paramd::NameOfTask("job", text);
  if (task.ok()) {
    const auto again = paramd::NameOfTask("job", task->Task());
    CHECK(again.ok() && *again == *task, "a task is written in one way");
  } else {
    paramd::fuzz::CheckRefusal(task.status());
  }
  return 0;
}
