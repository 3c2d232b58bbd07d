#ifndef PARAMD_BASE_LOG_H_
#define PARAMD_BASE_LOG_H_

#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace paramd {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

enum class LogFormat { kText, kJson };

// One key and its value in a log line.
struct LogField {
  template <typename T>
  LogField(absl::string_view k, const T& v)
      : key(k), value(absl::StrCat(v)), is_number(std::is_arithmetic_v<T>) {}
  LogField(absl::string_view k, bool v)
      : key(k), value(v ? "true" : "false"), is_number(true) {}
  absl::string_view key;
  std::string value;
  bool is_number;  // Or true or false: stands without quotes in JSON.
};

// Lines go to stderr, one for each event. As text: `time level task event
// key=value …`, the time in local time; values with a space, quote or equals
// sign are quoted. As JSON: an object with `time` (RFC 3339), `level`, `task`,
// `message` (the event) and each key with its value, numbers as numbers; a key
// that is one of those four becomes `field_<key>`.
//
// Thread-safe after InitLogging, which is called once, before other threads
// start. `task` is who this process is, for instance "worker-0".
void InitLogging(absl::string_view task, LogLevel lowest,
                 LogFormat format = LogFormat::kText);

// "debug", "info", "warning" or "error"; anything else is false and changes
// nothing.
bool ParseLogLevel(absl::string_view text, LogLevel* level);

// Log(LogLevel::kInfo, "checkpoint committed", {{"step", 5000}});
void Log(LogLevel level, absl::string_view event,
         std::initializer_list<LogField> fields = {});

}  // namespace paramd

#endif  // PARAMD_BASE_LOG_H_
