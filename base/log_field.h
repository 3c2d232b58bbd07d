#ifndef PARAMD_BASE_LOG_FIELD_H_
#define PARAMD_BASE_LOG_FIELD_H_

#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace paramd {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// One key and its value in a log line.
struct LogField {
  template <typename T>
  LogField(absl::string_view k, const T& v)
      : key(k), value(absl::StrCat(v)), is_number(std::is_arithmetic_v<T>) {}
  LogField(absl::string_view k, bool v)
      : key(k), value(v ? "true" : "false"), is_number(true) {}
  std::string key;
  std::string value;
  bool is_number;  // Or true or false: stands without quotes in JSON.
};

}  // namespace paramd

#endif  // PARAMD_BASE_LOG_FIELD_H_
