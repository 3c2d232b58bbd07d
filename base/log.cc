#include "base/log.h"

#include <memory>

#include "absl/strings/str_replace.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace paramd {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
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

void AppendValue(const std::string& value, std::string* line) {
  if (value.empty() || value.find_first_of(" =\"\n\t") != std::string::npos) {
    const std::string escaped = absl::StrReplaceAll(
        value,
        {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}, {"\t", "\\t"}});
    absl::StrAppend(line, "\"", escaped, "\"");
  } else {
    line->append(value);
  }
}

}  // namespace

void InitLogging(absl::string_view task, LogLevel lowest) {
  Logger()->set_pattern(
      absl::StrCat("%Y-%m-%dT%H:%M:%S.%e %l ", task, " %v"));
  Logger()->set_level(ToSpdlog(lowest));
  Logger()->flush_on(spdlog::level::debug);
}

bool ParseLogLevel(absl::string_view text, LogLevel* level) {
  if (text == "debug") return *level = LogLevel::kDebug, true;
  if (text == "info") return *level = LogLevel::kInfo, true;
  if (text == "warning") return *level = LogLevel::kWarning, true;
  if (text == "error") return *level = LogLevel::kError, true;
  return false;
}

void Log(LogLevel level, absl::string_view event,
         std::initializer_list<LogField> fields) {
  if (!Logger()->should_log(ToSpdlog(level))) return;
  std::string line(event);
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.key, "=");
    AppendValue(field.value, &line);
  }
  Logger()->log(ToSpdlog(level), "{}", line);
}

}  // namespace paramd
