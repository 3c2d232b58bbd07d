#include "cli/man_page.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "cli/exit_code.h"
#include "config/settings_help.h"

namespace paramd {
namespace {

// `text` so that troff takes no part of it for a request.
std::string Literal(absl::string_view text) {
  std::string literal = absl::StrReplaceAll(
      text, {{"\\", "\\e"}, {"-", "\\-"}, {"\n", " "}, {"`", ""}});
  if (absl::StartsWith(literal, ".") || absl::StartsWith(literal, "'")) {
    literal.insert(0, "\\&");
  }
  return literal;
}

void AppendSection(absl::string_view name, std::string* page) {
  absl::StrAppend(page, ".SH ", name, "\n");
}

// A term and what it means.
void AppendTerm(absl::string_view term, absl::string_view meaning,
                std::string* page) {
  absl::StrAppend(page, ".TP\n\\fB", Literal(term), "\\fR\n", Literal(meaning),
                  "\n");
}

void AppendCommand(const CommandHelp& command, std::string* page) {
  absl::StrAppend(page, ".SS \"paramd ", Literal(command.name),
                  command.usage.empty() ? "" : " ", Literal(command.usage),
                  "\"\n", Literal(command.description), "\n");
  bool settings = false;
  for (const Flags::Info& flag : command.flags) {
    settings |= flag.is_setting;
    if (flag.is_setting) continue;
    const bool has_default =
        !flag.default_text.empty() && flag.default_text != "\"\"";
    AppendTerm(absl::StrCat("--", flag.name, flag.is_switch ? "" : " ",
                            flag.value_name),
               absl::StrCat(flag.sentence, has_default ? " [" : "",
                            has_default ? flag.default_text : "",
                            has_default ? "]" : ""),
               page);
  }
  if (settings) {
    absl::StrAppend(page, ".PP\nAlso every setting, see below.\n");
  }
}

void AppendSettings(std::string* page) {
  absl::StrAppend(
      page,
      Literal("Each stands in the job file (JSON), in a variable, or on "
              "the command line, which beats the variable, which beats "
              "the file. Those of the top level are flags, --set reaches "
              "all: --set optimizer.learning_rate=0.01."),
      "\n");
  for (const SettingHelp& help : SettingsHelp()) {
    std::string meaning = absl::StrCat(
        help.sentence, " ", help.type, help.bounds.empty() ? "" : ", ",
        help.bounds, help.is_required ? "; must be given" : "",
        help.default_json.empty()
            ? ""
            : absl::StrCat("; default ", help.default_json));
    if (!help.is_inside_list) {
      absl::StrAppend(&meaning, " (", help.variable(), ")");
    }
    AppendTerm(help.path, meaning, page);
  }
}

}  // namespace

std::string ManPage(const std::vector<CommandHelp>& commands,
                    const std::string& version) {
  std::string page = absl::StrCat(".TH PARAMD 1 \"\" \"paramd ",
                                  Literal(version), "\" \"User Commands\"\n");
  AppendSection("NAME", &page);
  absl::StrAppend(
      &page, "paramd \\- trains models on parameter servers and workers\n");
  AppendSection("SYNOPSIS", &page);
  absl::StrAppend(&page, "\\fBparamd\\fR \\fICOMMAND\\fR [\\fIflags\\fR]\n");
  AppendSection("COMMANDS", &page);
  for (const CommandHelp& command : commands) AppendCommand(command, &page);
  AppendSection("SETTINGS", &page);
  AppendSettings(&page);
  AppendSection("\"EXIT STATUS\"", &page);
  for (const auto& [code, meaning] : ExitCodeMeanings()) {
    AppendTerm(absl::StrCat(code), absl::StrCat(meaning, "."), &page);
  }
  AppendSection("ENVIRONMENT", &page);
  AppendTerm("TF_CONFIG", "who takes part, and which task this process is.",
             &page);
  AppendTerm(
      "PARAMD_CLUSTER, PARAMD_TASK_TYPE, PARAMD_TASK_INDEX, "
      "PARAMD_TASK_FROM_HOSTNAME",
      "as the flags --cluster, --task_type, --task_index and "
      "--task_from_hostname.",
      &page);
  AppendTerm("PARAMD_*", "settings, see above.", &page);
  return page;
}

}  // namespace paramd
