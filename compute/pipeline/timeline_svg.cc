#include "compute/pipeline/timeline_svg.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

#include "base/check.h"

namespace paramd {
namespace {

using Kind = PipelineOp::Kind;

constexpr double kLeft = 90;    // Of the rows: their names are there.
constexpr double kWidth = 900;  // Of what is computed.
constexpr double kRow = 34;
constexpr double kBar = 26;
constexpr double kTop = 40;  // For what colours mean.
constexpr double kAxis = 40;
// In a bar, for a number of so many digits.
constexpr double kDigit = 8;

struct Colour {
  Kind kind;
  absl::string_view value;
  absl::string_view meaning;
};
constexpr Colour kColours[] = {
    {Kind::kForward, "#4c78a8", "forward"},
    {Kind::kBackward, "#f58518", "backward"},
    {Kind::kBackwardInput, "#e45756", "gradient of the input"},
    {Kind::kBackwardWeights, "#54a24b", "gradients of variables"},
};

const Colour* ColourOf(Kind kind) {
  for (const Colour& colour : kColours) {
    if (colour.kind == kind) return &colour;
  }
  return nullptr;  // It takes no time.
}

bool Uses(const Timeline& timeline, Kind kind) {
  for (const auto& device : timeline.devices) {
    for (const Timeline::Span& span : device) {
      if (span.op.kind == kind) return true;
    }
  }
  return false;
}

std::string Legend(const Timeline& timeline) {
  std::string text;
  double x = kLeft;
  for (const Colour& colour : kColours) {
    if (!Uses(timeline, colour.kind)) continue;
    absl::StrAppendFormat(&text,
                          "<rect x=\"%.0f\" y=\"12\" width=\"12\" "
                          "height=\"12\" fill=\"%s\"/>\n"
                          "<text x=\"%.0f\" y=\"22\">%s</text>\n",
                          x, colour.value, x + 17, colour.meaning);
    x += 40 + 7 * static_cast<double>(colour.meaning.size());
  }
  return text;
}

std::string Bar(const Timeline::Span& span, double scale, double y) {
  const Colour* const colour = ColourOf(span.op.kind);
  if (colour == nullptr || span.end <= span.begin) return "";
  const double x = kLeft + scale * span.begin;
  const double width = scale * (span.end - span.begin);
  std::string text = absl::StrFormat(
      "<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%.0f\" "
      "fill=\"%s\"><title>%s, %.3f to %.3f ms</title></rect>\n",
      x, y, width, kBar, colour->value, TextOf(span.op), 1e3 * span.begin,
      1e3 * span.end);
  const std::string number = absl::StrFormat("%d", span.op.micro_batch);
  if (width >= kDigit * static_cast<double>(number.size())) {
    absl::StrAppendFormat(&text,
                          "<text class=\"n\" x=\"%.2f\" y=\"%.0f\">%s</text>\n",
                          x + width / 2, y + 17, number);
  }
  return text;
}

// "stage 0 computes 81 % of the time, stage 1 78 %"
std::string Title(const Timeline& timeline) {
  std::map<uint32_t, double> busy;
  for (const auto& device : timeline.devices) {
    for (const Timeline::Span& span : device) {
      if (ColourOf(span.op.kind) == nullptr) continue;
      busy[span.op.stage] += span.end - span.begin;
    }
  }
  std::string text;
  for (const auto& [stage, seconds] : busy) {
    absl::StrAppendFormat(
        &text, "%sstage %d %s%.0f %%%s", text.empty() ? "" : ", ", stage,
        text.empty() ? "computes " : "", 100 * seconds / timeline.makespan,
        text.empty() ? " of the time" : "");
  }
  return "<title>" + text + "</title>\n";
}

// Ten marks or fewer, at round numbers.
std::string Axis(double makespan, double scale, double y) {
  const double rough = makespan / 10;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double nice : {1.0, 2.0, 5.0}) {
    if (nice * power >= rough) {
      step = nice * power;
      break;
    }
  }
  std::string text;
  for (int i = 0; step * i <= makespan; ++i) {
    const double x = kLeft + scale * step * i;
    absl::StrAppendFormat(
        &text,
        "<path d=\"M%.2f %.0fv5\"/><text class=\"t\" x=\"%.2f\" "
        "y=\"%.0f\">%.5g ms</text>\n",
        x, y, x, y + 18, 1e3 * step * i);
  }
  return text;
}

}  // namespace

std::string TimelineSvg(const Timeline& timeline) {
  CHECK(timeline.makespan > 0, "a timeline that is drawn takes time");
  const double scale = kWidth / timeline.makespan;
  const auto devices = static_cast<double>(timeline.devices.size());
  const double bottom = kTop + kRow * devices;
  std::string text = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<style>text{fill:#333}path{stroke:#333}.n{fill:#fff;text-anchor:middle}"
      ".t{text-anchor:middle}@media(prefers-color-scheme:dark){text{fill:#ddd}"
      "path{stroke:#ddd}.n{fill:#fff}}</style>\n",
      kLeft + kWidth + 40, bottom + kAxis);
  text += Title(timeline);
  text += Legend(timeline);
  double y = kTop;
  for (size_t d = 0; d < timeline.devices.size(); ++d) {
    double busy = 0;
    for (const Timeline::Span& span : timeline.devices[d]) {
      busy += span.end - span.begin;
      text += Bar(span, scale, y);
    }
    absl::StrAppendFormat(
        &text,
        "<text x=\"6\" y=\"%.0f\">device %d<title>waits %.0f %% of the "
        "time</title></text>\n",
        y + 17, d, 100 * (1 - busy / timeline.makespan));
    y += kRow;
  }
  absl::StrAppendFormat(&text, "<path d=\"M%.0f %.0fh%.0f\"/>\n", kLeft, bottom,
                        kWidth);
  text += Axis(timeline.makespan, scale, bottom);
  return text + "</svg>\n";
}

}  // namespace paramd
