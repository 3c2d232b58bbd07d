#ifndef PARAMD_BASE_LOG_H_
#define PARAMD_BASE_LOG_H_

#include <initializer_list>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "base/log_field.h"

namespace paramd {

enum class LogFormat { kText, kJson };

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

// The same of a sentence that has the values of `said` in it: they are fields
// of the JSON, and text does not repeat them.
void LogSentence(LogLevel level, absl::string_view sentence,
                 absl::Span<const LogField> said,
                 std::initializer_list<LogField> fields = {});

}  // namespace paramd

#endif  // PARAMD_BASE_LOG_H_
