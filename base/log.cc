#include "base/log.h"

#include <memory>

#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

#include "base/escape.h"
#include "base/log_level.h"

namespace paramd {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

// The logger is made on first use, so that a library test may log too.
std::shared_ptr<spdlog::logger>& Logger() {
  static auto* logger = [] {
    auto made = std::make_shared<spdlog::logger>(
        "paramd", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l paramd %v");
    return new std::shared_ptr<spdlog::logger>(std::move(made));
  }();
  return *logger;
}

LogFormat& Format() {
  static LogFormat format = LogFormat::kText;
  return format;
}

void AppendValue(const std::string& value, std::string* line) {
  if (value.empty() || value.find_first_of(" =\"\n\t") != std::string::npos ||
      EscapeControls(value) != value) {
    const std::string escaped = absl::StrReplaceAll(
        value, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}, {"\t", "\\t"}});
    absl::StrAppend(line, "\"", EscapeControls(escaped), "\"");
  } else {
    line->append(value);
  }
}

std::string TextLine(absl::string_view event,
                     absl::Span<const LogField> fields) {
  std::string line =
      EscapeControls(absl::StrReplaceAll(event, {{"\n", "\\n"}}));
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.key, "=");
    AppendValue(field.value, &line);
  }
  return line;
}

// A JSON string in ASCII, so without a byte that a terminal would obey; what is
// no UTF-8 becomes U+FFFD.
std::string Quoted(absl::string_view text) {
  return nlohmann::json(std::string(text))
      .dump(-1, ' ', /*ensure_ascii=*/true,
            nlohmann::json::error_handler_t::replace);
}

bool IsReserved(absl::string_view key) {
  return key == "time" || key == "level" || key == "task" || key == "message";
}

// JSON knows no infinity and no NaN.
bool IsJsonNumber(const LogField& field) {
  const std::string& value = field.value;
  return field.is_number && value != "inf" && value != "-inf" &&
         value != "nan" && value != "-nan";
}

// What follows `{"time": …,"level": …,"task": …,`.
std::string JsonMembers(absl::string_view event,
                        absl::Span<const LogField> said,
                        absl::Span<const LogField> fields) {
  std::string line = absl::StrCat("\"message\":", Quoted(event));
  for (const auto& some : {said, fields}) {
    for (const LogField& field : some) {
      absl::StrAppend(&line, ",",
                      Quoted(absl::StrCat(IsReserved(field.key) ? "field_" : "",
                                          field.key)),
                      ":",
                      IsJsonNumber(field) ? field.value : Quoted(field.value));
    }
  }
  return line;
}

// spdlog's pattern takes '%' for its own.
std::string Literal(const std::string& text) {
  return absl::StrReplaceAll(text, {{"%", "%%"}});
}

}  // namespace

void InitLogging(absl::string_view task, LogLevel lowest, LogFormat format) {
  Format() = format;
  Logger()->set_pattern(
      format == LogFormat::kJson
          ? absl::StrCat(R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",)",
                         "\"task\":", Literal(Quoted(task)), ",%v}")
          : absl::StrCat("%Y-%m-%dT%H:%M:%S.%e %l ", Literal(std::string(task)),
                         " %v"));
  Logger()->set_level(ToSpdlog(lowest));
  Logger()->flush_on(spdlog::level::debug);
}

void SetLogLevel(LogLevel lowest) { Logger()->set_level(ToSpdlog(lowest)); }

bool ParseLogLevel(absl::string_view text, LogLevel* level) {
  if (text == "debug") return *level = LogLevel::kDebug, true;
  if (text == "info") return *level = LogLevel::kInfo, true;
  if (text == "warning") return *level = LogLevel::kWarning, true;
  if (text == "error") return *level = LogLevel::kError, true;
  return false;
}

void Log(LogLevel level, absl::string_view event,
         std::initializer_list<LogField> fields) {
  LogSentence(level, event, {}, fields);
}

void LogSentence(LogLevel level, absl::string_view sentence,
                 absl::Span<const LogField> said,
                 std::initializer_list<LogField> fields) {
  if (!Logger()->should_log(ToSpdlog(level))) return;
  const std::string line = Format() == LogFormat::kJson
                               ? JsonMembers(sentence, said, fields)
                               : TextLine(sentence, fields);
  Logger()->log(ToSpdlog(level), "{}", line);
}

}  // namespace paramd
