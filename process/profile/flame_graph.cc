#include "process/profile/flame_graph.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "base/escape.h"

namespace paramd {
namespace {

constexpr double kWidth = 1200;
constexpr double kMargin = 10;
constexpr double kRow = 17;
constexpr double kTop = 34;          // For the heading.
constexpr double kCharacter = 6.7;   // Of the names' font.
constexpr double kNarrowest = 0.33;  // Of what is drawn.
// More than any process samples: a stack is walked by recursion.
constexpr int kMostNames = 256;

// A function as called by those below it.
struct Frame {
  uint64_t samples = 0;
  std::map<std::string, Frame> calls;

  size_t Height() const {
    size_t height = 0;
    for (const auto& [name, call] : calls) {
      height = std::max(height, 1 + call.Height());
    }
    return height;
  }
};

Frame FramesOf(const v1::ProfileReply& profile) {
  Frame root;
  for (const v1::SampledStack& stack : profile.stacks()) {
    Frame* frame = &root;
    frame->samples += stack.samples();
    for (const uint32_t name : stack.names()) {
      frame = &frame->calls[profile.names(static_cast<int>(name))];
      frame->samples += stack.samples();
    }
  }
  return root;
}

// A warm colour that is always the same for a name.
std::string ColourOf(absl::string_view name) {
  uint32_t hash = 2166136261u;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  }
  return absl::StrFormat("rgb(%d,%d,%d)", 205 + hash % 50,
                         90 + (hash >> 8) % 120, 40 + (hash >> 16) % 50);
}

// As much of a name as there is room for.
std::string Label(absl::string_view name, double width) {
  const auto room = static_cast<size_t>(std::max(0.0, width - 6) / kCharacter);
  if (room < 3) return "";
  if (name.size() <= room) return EscapeXml(name);
  return absl::StrCat(EscapeXml(name.substr(0, room - 2)), "..");
}

class Drawing {
 public:
  explicit Drawing(const Frame& root)
      : pixels_(kWidth / static_cast<double>(root.samples)),
        all_(root.samples),
        height_(kTop + kRow * static_cast<double>(root.Height()) + kMargin) {}

  double height() const { return height_; }
  // Draws what `frame` called, which begins `left` samples from the left.
  void AddCalls(const Frame& frame, uint64_t left, size_t depth) {
    for (const auto& [name, call] : frame.calls) {
      Add(name, call, left, depth);
      left += call.samples;
    }
  }
  std::string& text() { return text_; }

 private:
  void Add(const std::string& name, const Frame& frame, uint64_t left,
           size_t depth) {
    const double width = static_cast<double>(frame.samples) * pixels_;
    if (width < kNarrowest) return;
    const double x = kMargin + static_cast<double>(left) * pixels_;
    const double y = height_ - kMargin - kRow * static_cast<double>(depth + 1);
    absl::StrAppendFormat(
        &text_,
        "<g><title>%s: %d samples, %.1f %%</title>"
        "<rect x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"%.0f\" "
        "fill=\"%s\"/>",
        EscapeXml(name), frame.samples,
        100.0 * static_cast<double>(frame.samples) / static_cast<double>(all_),
        x, y, width, kRow - 1, ColourOf(name));
    const std::string label = Label(name, width);
    if (!label.empty()) {
      absl::StrAppendFormat(&text_, "<text x=\"%.1f\" y=\"%.0f\">%s</text>",
                            x + 3, y + kRow - 5, label);
    }
    text_ += "</g>\n";
    AddCalls(frame, left, depth + 1);
  }

  const double pixels_;  // Of a sample.
  const uint64_t all_;
  const double height_;
  std::string text_;
};

}  // namespace

absl::Status CheckProfile(const v1::ProfileReply& profile) {
  for (const v1::SampledStack& stack : profile.stacks()) {
    if (stack.names_size() > kMostNames) {
      return absl::DataLossError(absl::StrCat("the profile has a stack of ",
                                              stack.names_size(), " names"));
    }
    for (const uint32_t name : stack.names()) {
      if (name >= static_cast<uint32_t>(profile.names_size())) {
        return absl::DataLossError(
            absl::StrCat("the profile has a stack with name ", name, " of ",
                         profile.names_size()));
      }
    }
  }
  return absl::OkStatus();
}

uint64_t SamplesIn(const v1::ProfileReply& profile) {
  uint64_t samples = 0;
  for (const v1::SampledStack& stack : profile.stacks()) {
    samples += stack.samples();
  }
  return samples;
}

std::vector<std::pair<std::string, uint64_t>> HottestFunctions(
    const v1::ProfileReply& profile, size_t most) {
  std::map<std::string, uint64_t> own;
  for (const v1::SampledStack& stack : profile.stacks()) {
    if (stack.names().empty()) continue;
    const uint32_t innermost = *stack.names().rbegin();
    own[profile.names(static_cast<int>(innermost))] += stack.samples();
  }
  std::vector<std::pair<std::string, uint64_t>> hottest(own.begin(), own.end());
  std::stable_sort(
      hottest.begin(), hottest.end(),
      [](const auto& a, const auto& b) { return a.second > b.second; });
  if (hottest.size() > most) hottest.resize(most);
  return hottest;
}

std::string FoldedStacks(const v1::ProfileReply& profile) {
  std::string text;
  for (const v1::SampledStack& stack : profile.stacks()) {
    absl::string_view separator = "";
    for (const uint32_t name : stack.names()) {
      const std::string& of = profile.names(static_cast<int>(name));
      absl::StrAppend(&text, separator,
                      absl::StrReplaceAll(EscapeLine(of), {{";", ":"}}));
      separator = ";";
    }
    absl::StrAppend(&text, " ", stack.samples(), "\n");
  }
  return text;
}

std::string FlameGraph(const v1::ProfileReply& profile) {
  const Frame root = FramesOf(profile);
  Drawing drawing(root);
  if (root.samples > 0) drawing.AddCalls(root, 0, 0);
  return absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
      "font-family=\"monospace\" font-size=\"11\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
      "<text x=\"%.0f\" y=\"20\" font-size=\"14\">%s: %s of processors' time, "
      "%d samples</text>\n%s</svg>\n",
      kWidth + 2 * kMargin, drawing.height(), kMargin,
      EscapeXml(profile.process()),
      absl::FormatDuration(absl::Trunc(absl::Microseconds(profile.cpu_us()),
                                       absl::Milliseconds(10))),
      root.samples, drawing.text());
}

}  // namespace paramd
