#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

#include "base/clock.h"
#include "base/print.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/diff.h"
#include "checkpoint/verify.h"
#include "cli/commands/command.h"
#include "process/exit_code.h"
#include "process/flags.h"
#include "process/terminal/byte_progress.h"
#include "process/terminal/console.h"
#include "process/terminal/text_layout.h"
#include "proto/refusal.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

using nlohmann::json;

std::string Text(const CheckpointReader& a, const CheckpointReader& b,
                 const CheckpointDifference& difference) {
  std::string text = Table({{"a", a.directory()}, {"b", b.directory()}});
  std::vector<std::vector<std::string>> other;
  for (const auto& named : difference.only_in_a) {
    other.push_back({"only in a", named.name, ShapeName(named.shape)});
  }
  for (const auto& named : difference.only_in_b) {
    other.push_back({"only in b", named.name, ShapeName(named.shape)});
  }
  for (const auto& reshaped : difference.reshaped) {
    other.push_back({"other shape", reshaped.name,
                     absl::StrCat(ShapeName(reshaped.shape_a), " in a, ",
                                  ShapeName(reshaped.shape_b), " in b")});
  }
  if (!other.empty()) absl::StrAppend(&text, "\n", Table(other));
  std::vector<std::vector<std::string>> common = {
      {"variable", "shape", "changed", "max |b-a|", "norm a", "norm b",
       "norm b-a", "not finite"}};
  const auto number = [](double value) {
    return absl::StrFormat("%.4g", value);
  };
  for (const auto& both : difference.common) {
    common.push_back(
        {both.name, ShapeName(both.shape),
         absl::StrFormat("%.4g %%", 100.0 * static_cast<double>(both.changed) /
                                        static_cast<double>(both.elements)),
         number(both.max_abs_difference), number(both.norm_a),
         number(both.norm_b), number(both.norm_difference),
         both.not_finite == 0 ? "" : absl::StrCat(both.not_finite)});
  }
  if (common.size() > 1) absl::StrAppend(&text, "\n", Table(common));
  if (difference.same()) text.append("\nevery number is the same\n");
  return text;
}

json About(const CheckpointReader& reader) {
  return {{"path", reader.directory()},
          {"snapshot", VersionName(reader.manifest().snapshot())},
          {"step", reader.manifest().global_step()}};
}

json Named(const std::vector<CheckpointDifference::Named>& all) {
  json list = json::array();
  for (const auto& named : all) {
    list.push_back({{"name", named.name}, {"shape", named.shape}});
  }
  return list;
}

std::string Json(const CheckpointReader& a, const CheckpointReader& b,
                 const CheckpointDifference& difference) {
  json reshaped = json::array(), common = json::array();
  for (const auto& both : difference.reshaped) {
    reshaped.push_back({{"name", both.name},
                        {"shape_a", both.shape_a},
                        {"shape_b", both.shape_b}});
  }
  for (const auto& both : difference.common) {
    common.push_back({{"name", both.name},
                      {"shape", both.shape},
                      {"elements", both.elements},
                      {"changed", both.changed},
                      {"not_finite", both.not_finite},
                      {"max_abs_difference", both.max_abs_difference},
                      {"norm_a", both.norm_a},
                      {"norm_b", both.norm_b},
                      {"norm_difference", both.norm_difference}});
  }
  const json all = {{"a", About(a)},
                    {"b", About(b)},
                    {"same", difference.same()},
                    {"only_in_a", Named(difference.only_in_a)},
                    {"only_in_b", Named(difference.only_in_b)},
                    {"reshaped", reshaped},
                    {"common", common}};
  return absl::StrCat(
      all.dump(2, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace),
      "\n");
}

// The newest checkpoint at `path`.
absl::StatusOr<std::unique_ptr<CheckpointReader>> Open(
    const std::string& path) {
  ASSIGN_OR_RETURN(const auto paths, CheckpointsAt(path));
  return CheckpointReader::Open(paths.front());
}

absl::StatusOr<std::string> Diff(const std::vector<std::string>& paths,
                                 bool slots, bool as_json) {
  Console console(stdout, stderr, StdoutIsTerminal());
  ByteProgress progress(&console, MonotonicNow);
  ASSIGN_OR_RETURN(const auto a, Open(paths[0]));
  ASSIGN_OR_RETURN(const auto b, Open(paths[1]));
  DiffOptions options;
  options.slots = slots;
  progress.Begin("comparing");
  options.progress = [&](uint64_t bytes, uint64_t total) {
    progress.Update(bytes, total);
  };
  ASSIGN_OR_RETURN(const CheckpointDifference difference,
                   DiffCheckpoints(a.get(), b.get(), options));
  return as_json ? Json(*a, *b, difference) : Text(*a, *b, difference);
}

}  // namespace

int CheckpointDiffCommand(const Invocation& invocation) {
  bool slots = false, as_json = false;
  Flags flags(
      "checkpoint diff", "A B [flags]",
      "Says which variables only one of two checkpoints has, and how far "
      "the numbers\nof the others are apart. Of a run the newest is "
      "taken.");
  flags.AddSwitch("slots", "compare the optimizer's slots too", &slots);
  flags.AddSwitch("json", "write JSON", &as_json);
  flags.AllowArguments(2, 2, "A and B, directories of runs or checkpoints");
  if (const auto exit_code = ParseFlags(invocation, &flags)) return *exit_code;
  const auto text = Diff(flags.arguments(), slots, as_json);
  PrintError(text.status());
  if (!text.ok()) return ExitCodeAtStart(text.status());
  Print(*text);
  return kExitFinished;
}

}  // namespace paramd
