#include "cli/stages/stages_page.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

#include "base/escape.h"
#include "base/status_macros.h"
#include "process/terminal/text_layout.h"

namespace paramd {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kNames = 120;  // Of the rows.
constexpr double kPanel = 210;  // From one column of bars to the next.
constexpr double kBar = 130;    // The longest.
constexpr double kTop = 56;
constexpr double kRow = 30;
constexpr double kHeight = 18;

// What all stages that have metrics are compared by.
std::string MetricOf(absl::Span<const StageRecord> stages) {
  const auto all_have = [&](const std::string& name) {
    return std::all_of(stages.begin(), stages.end(), [&](const auto& stage) {
      return stage.metrics.empty() || stage.Metric(name).has_value();
    });
  };
  if (all_have("accuracy")) return "accuracy";
  for (const StageRecord& stage : stages) {
    for (const auto& [name, value] : stage.metrics) {
      if (name != "loss" && all_have(name)) return name;
    }
  }
  return "loss";
}

// 1234567 → "1,234,567".
std::string WithCommas(double number) {
  std::string text = absl::StrFormat("%.0f", number);
  for (size_t end = text.size(); end > 3; end -= 3)
    text.insert(end - 3, 1, ',');
  return text;
}

std::string MetricText(const StageRecord& stage, const std::string& metric) {
  const auto value = stage.Metric(metric);
  return value.has_value() ? absl::StrFormat("%.4f", *value) : "";
}

std::string CompressedText(const StageRecord& stage) {
  return stage.compressed_bytes.has_value()
             ? WithCommas(static_cast<double>(*stage.compressed_bytes))
             : "";
}

// One column of bars.
struct Panel {
  std::string title;
  std::string colour;
  std::vector<double> values;  // Not finite: that stage has none.
  std::vector<std::string> texts;
  std::vector<double> inside;  // Darker, from the left; 0: nothing.
};

Panel MetricPanel(absl::Span<const StageRecord> stages) {
  const std::string metric = MetricOf(stages);
  Panel panel{metric, "#4c78a8", {}, {}, {}};
  for (const StageRecord& stage : stages) {
    panel.values.push_back(stage.Metric(metric).value_or(std::nan("")));
    panel.texts.push_back(MetricText(stage, metric));
    panel.inside.push_back(0);
  }
  return panel;
}

Panel BytesPanel(absl::Span<const StageRecord> stages) {
  Panel panel{"bytes, compressed ones darker", "#f0b27a", {}, {}, {}};
  for (const StageRecord& stage : stages) {
    panel.values.push_back(static_cast<double>(stage.bytes));
    panel.texts.push_back(WithCommas(static_cast<double>(stage.bytes)));
    panel.inside.push_back(
        static_cast<double>(stage.compressed_bytes.value_or(0)));
  }
  return panel;
}

Panel SpeedPanel(absl::Span<const StageRecord> stages) {
  Panel panel{"examples a second, one thread", "#54a24b", {}, {}, {}};
  for (const StageRecord& stage : stages) {
    const auto speed = stage.examples_per_second;
    panel.values.push_back(speed.value_or(std::nan("")));
    panel.texts.push_back(speed.has_value() ? WithCommas(*speed) : "");
    panel.inside.push_back(0);
  }
  return panel;
}

std::string Draw(const Panel& panel, double left) {
  double most = 0;
  for (const double value : panel.values) {
    if (std::isfinite(value)) most = std::max(most, value);
  }
  std::string text =
      absl::StrFormat("<text class=\"t\" x=\"%.0f\" y=\"%.0f\">%s</text>\n",
                      left, kTop - 10, EscapeXml(panel.title));
  double y = kTop;
  for (size_t i = 0; i < panel.values.size(); ++i, y += kRow) {
    if (!std::isfinite(panel.values[i]) || most <= 0) continue;
    const auto width = [&](double value) {
      return kBar * std::max(0.0, value) / most;
    };
    absl::StrAppendFormat(&text,
                          "<rect x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" "
                          "height=\"%.0f\" fill=\"%s\"/>\n",
                          left, y, width(panel.values[i]), kHeight,
                          panel.colour);
    if (panel.inside[i] > 0) {
      absl::StrAppendFormat(&text,
                            "<rect x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" "
                            "height=\"%.0f\" fill=\"#d35400\"/>\n",
                            left, y, width(panel.inside[i]), kHeight);
    }
    absl::StrAppendFormat(&text, "<text x=\"%.1f\" y=\"%.0f\">%s</text>\n",
                          left + width(panel.values[i]) + 5, y + 13,
                          panel.texts[i]);
  }
  return text;
}

}  // namespace

std::string StagesTable(absl::Span<const StageRecord> stages) {
  const std::string metric = MetricOf(stages);
  std::vector<std::vector<std::string>> rows = {
      {"stage", "", metric, "bytes", "compressed", "zeros", "examples/s"}};
  for (const StageRecord& stage : stages) {
    rows.push_back(
        {stage.name,
         stage.from.empty() ? stage.kind
                            : absl::StrCat(stage.kind, " from ", stage.from),
         MetricText(stage, metric),
         WithCommas(static_cast<double>(stage.bytes)), CompressedText(stage),
         stage.zeros.has_value()
             ? absl::StrFormat("%.1f %%", 100 * *stage.zeros)
             : "",
         stage.examples_per_second.has_value()
             ? WithCommas(*stage.examples_per_second)
             : ""});
  }
  // Numbers stand under each other by their last digit.
  for (size_t column = 2; column < rows[0].size(); ++column) {
    size_t widest = 0;
    for (const auto& row : rows) {
      widest = std::max(widest, Columns(row[column]));
    }
    for (auto& row : rows) row[column] = AtRight(row[column], widest);
  }
  return Table(std::move(rows));
}

std::string StagesJson(absl::string_view job,
                       absl::Span<const StageRecord> stages) {
  Json json;
  json["job"] = std::string(job);
  Json& list = json["stages"] = Json::array();
  for (const StageRecord& stage : stages) list.push_back(JsonOf(stage));
  return absl::StrCat(json.dump(2), "\n");
}

std::string StagesSvg(absl::string_view job,
                      absl::Span<const StageRecord> stages) {
  const std::vector<Panel> panels = {MetricPanel(stages), BytesPanel(stages),
                                     SpeedPanel(stages)};
  const double width = kNames + kPanel * static_cast<double>(panels.size());
  const double height = kTop + kRow * static_cast<double>(stages.size()) + 10;
  std::string text = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<style>text{fill:#333}.t{font-size:11px}@media(prefers-color-scheme:"
      "dark){text{fill:#ddd}}</style>\n"
      "<text x=\"6\" y=\"20\" font-size=\"14\">%s</text>\n",
      width, height, EscapeXml(job));
  double y = kTop;
  for (const StageRecord& stage : stages) {
    absl::StrAppendFormat(&text, "<text x=\"6\" y=\"%.0f\">%s</text>\n", y + 13,
                          EscapeXml(stage.name));
    y += kRow;
  }
  double left = kNames;
  for (const Panel& panel : panels) {
    text += Draw(panel, left);
    left += kPanel;
  }
  return text + "</svg>\n";
}

absl::Status WriteStagesPage(const std::string& run_dir, absl::string_view job,
                             absl::Span<const StageRecord> stages) {
  RETURN_IF_ERROR(ReplaceFile(absl::StrCat(run_dir, "/stages.json"),
                              StagesJson(job, stages)));
  return ReplaceFile(absl::StrCat(run_dir, "/stages.svg"),
                     StagesSvg(job, stages));
}

}  // namespace paramd
