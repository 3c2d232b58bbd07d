#ifndef PARAMD_BASE_LOG_H_
#define PARAMD_BASE_LOG_H_

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace paramd {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// One key and its value in a log line.
struct LogField {
  template <typename T>
  LogField(absl::string_view k, const T& v) : key(k), value(absl::StrCat(v)) {}
  absl::string_view key;
  std::string value;
};

// Lines go to stderr as `time level task event key=value …`; values with a
// space, quote or equals sign are quoted. Thread-safe after InitLogging, which
// is called once, before other threads start. `task` is who this process is,
// for instance "worker-0".
void InitLogging(absl::string_view task, LogLevel lowest);

// "debug", "info", "warning" or "error"; anything else is false and changes
// nothing.
bool ParseLogLevel(absl::string_view text, LogLevel* level);

// Log(LogLevel::kInfo, "checkpoint committed", {{"step", 5000}});
void Log(LogLevel level, absl::string_view event,
         std::initializer_list<LogField> fields = {});

}  // namespace paramd

#endif  // PARAMD_BASE_LOG_H_
