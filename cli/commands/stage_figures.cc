#include "cli/commands/stage_figures.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include <zlib.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "checkpoint/quantization.h"
#include "checkpoint/verify.h"
#include "cli/commands/chosen_model.h"
#include "input/batch.h"
#include "worker/evaluation.h"

namespace paramd {
namespace {

// More is not compressed: it would take minutes.
constexpr uint64_t kMostCompressed = uint64_t{1} << 30;

// Of speed: so many batches lie in memory and are predicted again and again, at
// least so often and for so long; the fastest round counts, which other work on
// the machine disturbs least.
constexpr uint64_t kBatches = 4;
constexpr int kFewestRounds = 5;
constexpr absl::Duration kLeastTime = absl::Milliseconds(500);

absl::string_view BytesOf(absl::Span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(float)};
}

absl::StatusOr<double> ExamplesPerSecond(const ChosenModel& chosen) {
  const uint64_t size = EvaluationBatch(chosen.model->cost());
  const uint64_t all = std::min(chosen.data->size(), kBatches * size);
  std::vector<Batch> batches;
  uint64_t examples = 0;
  for (uint64_t begin = 0; begin < all; begin += size) {
    batches.emplace_back();
    RETURN_IF_ERROR(chosen.data->Read(
        {.epoch = 1, .begin = begin, .end = std::min(all, begin + size)},
        &batches.back()));
    examples += batches.back().size();
  }
  const auto spans = chosen.spans();
  const auto rows = chosen.rows();
  absl::Duration fastest = absl::InfiniteDuration();
  const Time began = MonotonicNow();
  Batch predicted;
  for (int round = 0;
       round < kFewestRounds || MonotonicNow() - began < kLeastTime; ++round) {
    const Time before = MonotonicNow();
    for (const Batch& batch : batches) {
      RETURN_IF_ERROR(
          chosen.model->PredictRows(spans, batch, rows, &predicted));
    }
    fastest = std::min(fastest, MonotonicNow() - before);
  }
  return static_cast<double>(examples) /
         std::max(absl::ToDoubleSeconds(fastest), 1e-9);
}

// As they are stored: integers, or float32.
absl::Status MeasureBytes(const ChosenModel& chosen, StageRecord* record) {
  ASSIGN_OR_RETURN(const v1::Manifest manifest, ReadManifest(chosen.from));
  if (IsQuantized(manifest)) {
    record->bytes = CheckpointBytes(manifest);
    if (record->bytes > kMostCompressed) return absl::OkStatus();
    ASSIGN_OR_RETURN(
        const std::string text,
        ReadWholeFile(absl::StrCat(chosen.from, "/", kQuantizedFile),
                      kMostCompressed));
    CompressedSize compressed;
    compressed.Append(text);
    record->compressed_bytes = compressed.Finish();
    return absl::OkStatus();
  }
  const auto& variables = chosen.model->variables();
  if (std::any_of(variables.begin(), variables.end(),
                  [](const v1::Variable& one) { return one.keyed(); })) {
    // Of rows by key those alone are read that the test set needs.
    record->bytes = CheckpointBytes(manifest);
    return absl::OkStatus();
  }
  record->bytes = 0;
  for (const auto& values : chosen.weights) {
    record->bytes += BytesOf(values).size();
  }
  if (record->bytes > kMostCompressed) return absl::OkStatus();
  CompressedSize compressed;
  for (const auto& values : chosen.weights) compressed.Append(BytesOf(values));
  record->compressed_bytes = compressed.Finish();
  return absl::OkStatus();
}

double ShareOfZeros(const ChosenModel& chosen) {
  uint64_t zeros = 0, all = 0;
  for (const auto& values : chosen.weights) {
    zeros +=
        static_cast<uint64_t>(std::count(values.begin(), values.end(), 0.0f));
    all += values.size();
  }
  return static_cast<double>(zeros) /
         static_cast<double>(std::max<uint64_t>(all, 1));
}

}  // namespace

struct CompressedSize::Stream {
  z_stream z = {};
  uint64_t bytes = 0;
};

CompressedSize::CompressedSize() : stream_(new Stream) {
  constexpr int kGzip = 16 + MAX_WBITS;
  CHECK(deflateInit2(&stream_->z, Z_BEST_COMPRESSION, Z_DEFLATED, kGzip, 8,
                     Z_DEFAULT_STRATEGY) == Z_OK,
        "zlib begins with these options");
}

CompressedSize::~CompressedSize() {
  deflateEnd(&stream_->z);
  delete stream_;
}

void CompressedSize::Deflate(int flush) {
  unsigned char out[16384];
  do {
    stream_->z.next_out = out;
    stream_->z.avail_out = sizeof(out);
    deflate(&stream_->z, flush);
    stream_->bytes += sizeof(out) - stream_->z.avail_out;
  } while (stream_->z.avail_out == 0);
}

void CompressedSize::Append(absl::string_view bytes) {
  constexpr size_t kMost = std::numeric_limits<uInt>::max();
  while (!bytes.empty()) {
    const absl::string_view some = bytes.substr(0, kMost);
    // It is not written to.
    stream_->z.next_in =
        reinterpret_cast<Bytef*>(const_cast<char*>(some.data()));
    stream_->z.avail_in = static_cast<uInt>(some.size());
    Deflate(Z_NO_FLUSH);
    bytes.remove_prefix(some.size());
  }
}

uint64_t CompressedSize::Finish() {
  Deflate(Z_FINISH);
  return stream_->bytes;
}

absl::Status MeasureCheckpoint(const JobFlags& flags, const std::string& where,
                               const ModelFactory& models,
                               StageRecord* record) {
  ChosenModelFlags wanted;
  wanted.job = flags;
  wanted.checkpoint = where;
  ASSIGN_OR_RETURN(const ChosenModel chosen,
                   OpenChosenModel(wanted, models, ModelUse::kEvaluate));
  record->result = chosen.from;
  record->step = chosen.least_step;
  const auto rows = chosen.rows();
  if (chosen.model->evaluates()) {
    ASSIGN_OR_RETURN(const Metrics metrics,
                     EvaluateOn(*chosen.data, chosen.spans(),
                                chosen.model.get(), {.rows = rows}));
    record->examples = metrics.examples;
    for (const NamedValue& value : metrics.Values()) {
      record->metrics.emplace_back(value.name, value.value);
    }
  }
  RETURN_IF_ERROR(MeasureBytes(chosen, record));
  record->zeros = ShareOfZeros(chosen);
  ASSIGN_OR_RETURN(record->examples_per_second, ExamplesPerSecond(chosen));
  return absl::OkStatus();
}

absl::Status MeasureFiles(const std::string& path, StageRecord* record) {
  record->result = path;
  std::vector<std::string> files = {path};
  if (IsDirectory(path)) {
    ASSIGN_OR_RETURN(files, ListDirectory(path));
    for (std::string& file : files) file = absl::StrCat(path, "/", file);
  }
  CompressedSize compressed;
  record->bytes = 0;
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(const auto open, ReadableFile::Open(file));
    record->bytes += open->size();
    std::vector<std::byte> some(1 << 20);
    for (uint64_t at = 0; at < open->size(); at += some.size()) {
      some.resize(std::min<uint64_t>(some.size(), open->size() - at));
      RETURN_IF_ERROR(open->ReadAt(at, absl::MakeSpan(some)));
      if (record->bytes > kMostCompressed) break;
      compressed.Append(
          {reinterpret_cast<const char*>(some.data()), some.size()});
    }
  }
  if (record->bytes <= kMostCompressed) {
    record->compressed_bytes = compressed.Finish();
  }
  return absl::OkStatus();
}

}  // namespace paramd
