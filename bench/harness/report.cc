#include "bench/harness/report.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace paramd {
namespace {

std::string Number(double value) { return absl::StrFormat("%.6g", value); }

// `none` beside a peer of 0.
std::string Ratio(const Figure& figure, absl::string_view none) {
  const double peer = figure.peer->values.Median();
  return peer == 0 ? std::string(none)
                   : absl::StrFormat("%.3f", figure.values.Median() / peer);
}

}  // namespace

Report::Report(std::string bench, int argc, char** argv)
    : bench_(std::move(bench)) {
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (argument == "--json") {
      json_ = true;
    } else if (argument == "--quick") {
      quick_ = true;
    } else if (absl::ConsumePrefix(&argument, "--only=")) {
      only_ = std::string(argument);
    } else {
      std::fprintf(stderr, "usage: %s [--json] [--quick] [--only=PART]\n",
                   bench_.c_str());
      std::exit(2);
    }
  }
}

Report::~Report() {
  if (json_) return;
  std::printf("%-36s %12s %-9s %22s  %-14s %12s %7s\n", bench_.c_str(),
              "median", "", "(low to high)", "beside", "", "ratio");
  for (const std::string& line : table_) std::printf("%s\n", line.c_str());
}

void Report::Add(const Figure& figure) {
  if (json_) {
    std::printf("%s\n", JsonLine(bench_, figure).c_str());
    std::fflush(stdout);
  } else {
    table_.push_back(TableLine(figure));
  }
}

void Report::Progress(const std::string& what) const {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  std::fprintf(stderr, terminal ? "\r%-70s\r" : "%s\n", what.c_str());
}

std::string Report::JsonLine(const std::string& bench, const Figure& figure) {
  std::string line = absl::StrCat(
      R"({"bench": ")", bench, R"(", "metric": ")", figure.metric,
      R"(", "value": )", Number(figure.values.Median()), R"(, "low": )",
      Number(figure.values.Low()), R"(, "high": )",
      Number(figure.values.High()), R"(, "unit": ")", figure.unit, "\"");
  if (figure.peer.has_value()) {
    absl::StrAppend(&line, R"(, "peer": ")", figure.peer->name,
                    R"(", "peer_value": )",
                    Number(figure.peer->values.Median()), R"(, "ratio": )",
                    Ratio(figure, "null"));
  }
  return absl::StrCat(line, "}");
}

std::string Report::TableLine(const Figure& figure) {
  std::string line =
      absl::StrFormat("%-36s %12s %-9s %22s", figure.metric,
                      Number(figure.values.Median()), figure.unit,
                      absl::StrCat("(", Number(figure.values.Low()), " to ",
                                   Number(figure.values.High()), ")"));
  if (figure.peer.has_value()) {
    absl::StrAppendFormat(&line, "  %-14s %12s %7s", figure.peer->name,
                          Number(figure.peer->values.Median()),
                          Ratio(figure, "-"));
  }
  return line;
}

}  // namespace paramd
