#include "cli/commands/evaluated_parts.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/message_differencer.h"
#include "nlohmann/json.hpp"

#include "base/shorten.h"
#include "base/status_macros.h"
#include "worker/evaluation.h"
#include "worker/metric_messages.h"

namespace paramd {
namespace {

using ::google::protobuf::util::MessageDifferencer;

constexpr size_t kMostQuoted = 200;

absl::Status WrongFile(const std::string& name, absl::string_view sentence) {
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' ", sentence));
}

std::string PartNumber(const v1::EvaluatedPart& part) {
  return absl::StrCat(part.index(), "/", part.count());
}

// In what two parts are not of one evaluation; empty: they are.
std::string PartDifference(const v1::EvaluatedPart& part,
                           const v1::EvaluatedPart& first) {
  if (part.count() != first.count()) {
    return absl::StrCat("part ", PartNumber(part));
  }
  if (part.step() != first.step() || part.run_id() != first.run_id() ||
      !MessageDifferencer::Equals(part.snapshot(), first.snapshot())) {
    return absl::StrCat("of another checkpoint, '",
                        Shortened(part.checkpoint(), kMostQuoted), "'");
  }
  if (part.job_digest() != first.job_digest()) return "of another job";
  if (part.examples() != first.examples() ||
      part.batch_examples() != first.batch_examples() ||
      !MessageDifferencer::Equals(part.data(), first.data())) {
    return absl::StrCat("of another test set, of ", part.examples(),
                        " examples");
  }
  return "";
}

// Empty: two batches of one model may be like that.
std::string PartDifference(const Metrics& batch, const Metrics& sum);

std::string SumDifference(const Metrics& batch, const Metrics& sum) {
  if (batch.sums.empty() || sum.sums.empty()) return "";
  if (batch.sums.size() != sum.sums.size()) return "other metrics";
  for (size_t i = 0; i < batch.sums.size(); ++i) {
    if (batch.sums[i].name() != sum.sums[i].name()) {
      return absl::StrCat("the metric ", batch.sums[i].name());
    }
  }
  return "";
}

std::string OutputDifference(const Metrics& batch, const Metrics& sum) {
  if (batch.outputs.empty() || sum.outputs.empty()) return "";
  if (batch.outputs.size() != sum.outputs.size()) return "other outputs";
  for (size_t i = 0; i < batch.outputs.size(); ++i) {
    if (batch.outputs[i].output != sum.outputs[i].output) {
      return absl::StrCat("the output '", batch.outputs[i].output, "'");
    }
    std::string difference = PartDifference(batch.outputs[i], sum.outputs[i]);
    if (!difference.empty()) return difference;
  }
  return "";
}

// Those that both have.
std::string SliceDifference(const Metrics& batch, const Metrics& sum) {
  for (const Metrics& slice : batch.slices) {
    for (const Metrics& known : sum.slices) {
      if (known.feature != slice.feature || known.value != slice.value) {
        continue;
      }
      std::string difference = PartDifference(slice, known);
      if (!difference.empty()) return difference;
    }
  }
  return "";
}

std::string PartDifference(const Metrics& batch, const Metrics& sum) {
  for (const auto difference :
       {SumDifference, OutputDifference, SliceDifference}) {
    std::string found = difference(batch, sum);
    if (!found.empty()) return found;
  }
  return "";
}

absl::Status AddPart(const NamedPart& named, Metrics* sum) {
  const v1::EvaluatedPart& part = named.part;
  const uint64_t size = part.batch_examples();
  const uint64_t all = part.examples() / size + (part.examples() % size != 0);
  const auto [begin, end] = TestPart{part.index(), part.count()}.Of(all);
  if (static_cast<uint64_t>(part.batches_size()) != end - begin) {
    return WrongFile(
        named.name,
        absl::StrCat("has ", part.batches_size(), " batches; part ",
                     PartNumber(part), " of ", all, " has ", end - begin));
  }
  for (const v1::BatchMetrics& message : part.batches()) {
    const auto batch = MetricsOf(message);
    if (!batch.ok()) return WrongFile(named.name, batch.status().message());
    const std::string difference = PartDifference(*batch, *sum);
    if (!difference.empty()) {
      return WrongFile(named.name, absl::StrCat("has ", difference,
                                                ", which others do not have"));
    }
    *sum += *batch;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NamedPart> ReadEvaluatedPart(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) {
    return WrongFile(path,
                     absl::StrCat("can't be read: ", std::strerror(errno)));
  }
  const auto json = nlohmann::json::parse(text, /*cb=*/nullptr,
                                          /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("part")) {
    return WrongFile(
        path,
        "is not a part of an evaluation: it is not what paramd evaluate "
        "--shard I/N --json prints");
  }
  NamedPart named;
  named.name = path;
  const auto read = google::protobuf::util::JsonStringToMessage(
      json["part"].dump(-1, ' ', true,
                        nlohmann::json::error_handler_t::replace),
      &named.part);
  if (!read.ok()) {
    return WrongFile(path, absl::StrCat("is not a part of an evaluation: ",
                                        Shortened(std::string(read.message()),
                                                  kMostQuoted)));
  }
  if (named.part.index() >= named.part.count() ||
      named.part.batch_examples() == 0) {
    return WrongFile(path,
                     "is not a part of an evaluation: it does not say which");
  }
  return named;
}

absl::StatusOr<Metrics> MergeParts(absl::Span<const NamedPart> parts) {
  const NamedPart& first = parts.front();
  std::map<uint32_t, const NamedPart*> by_index;
  for (const NamedPart& named : parts) {
    const std::string difference = PartDifference(named.part, first.part);
    if (!difference.empty()) {
      return WrongFile(
          named.name,
          absl::StrCat("is ", difference, "; '", first.name, "' is part ",
                       PartNumber(first.part), " of '",
                       Shortened(first.part.checkpoint(), kMostQuoted), "' on ",
                       first.part.examples(), " examples"));
    }
    const auto [place, is_first] = by_index.emplace(named.part.index(), &named);
    if (!is_first) {
      return WrongFile(
          named.name, absl::StrCat("is part ", PartNumber(named.part), ", as '",
                                   place->second->name, "' is"));
    }
  }
  Metrics sum;
  for (uint32_t index = 0; index < first.part.count(); ++index) {
    const auto place = by_index.find(index);
    if (place == by_index.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("part ", index, "/", first.part.count(), " is missing"));
    }
    RETURN_IF_ERROR(AddPart(*place->second, &sum));
  }
  if (sum.examples == 0) {
    return absl::InvalidArgumentError("no part has an example");
  }
  return sum;
}

}  // namespace paramd
