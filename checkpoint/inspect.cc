#include "checkpoint/inspect.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "base/escape.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/keyed_ages.h"
#include "checkpoint/manifest.h"
#include "checkpoint/quantization.h"
#include "checkpoint/verify.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

CheckpointVerifier::Options WithoutNumbers() {
  CheckpointVerifier::Options options;
  options.sums = CheckpointVerifier::Options::Sums::kNone;
  return options;
}

std::string SizeName(uint64_t bytes) {
  if (bytes < 1000) return absl::StrCat(bytes, " B");
  static constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  double size = static_cast<double>(bytes) / 1000;
  int unit = 0;
  while (size >= 999.95) {
    size /= 1000;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", size, kUnits[unit]);
}

// Rows of text in columns; the last column is as wide as it likes. What comes
// out of manifests and file names is escaped: it can't look like another row.
class Table {
 public:
  void Add(std::vector<std::string> cells) {
    widths_.resize(std::max(widths_.size(), cells.size()));
    for (size_t i = 0; i < cells.size(); ++i) {
      cells[i] = EscapeLine(cells[i]);
      widths_[i] = std::max(widths_[i], cells[i].size());
    }
    rows_.push_back(std::move(cells));
  }

  std::string Text(absl::string_view indent = "") const {
    std::string text;
    for (const auto& row : rows_) {
      text.append(indent.data(), indent.size());
      for (size_t i = 0; i + 1 < row.size(); ++i) {
        absl::StrAppend(&text, row[i],
                        std::string(widths_[i] - row[i].size() + 2, ' '));
      }
      absl::StrAppend(&text, row.back(), "\n");
    }
    return text;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> widths_;
};

struct Range {
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0;
  uint64_t finite = 0;
  uint64_t zeros = 0;
  uint64_t not_finite = 0;

  void Add(absl::Span<const std::byte> bytes) {
    for (size_t i = 0; i + sizeof(float) <= bytes.size(); i += sizeof(float)) {
      float value;
      std::memcpy(&value, bytes.data() + i, sizeof(value));
      if (!std::isfinite(value)) {
        ++not_finite;
        continue;
      }
      min = std::min<double>(min, value);
      max = std::max<double>(max, value);
      sum += value;
      zeros += value == 0;
      ++finite;
    }
  }

  std::vector<std::string> Cells() const {
    if (finite == 0) return {"-", "-", "-", "-", absl::StrCat(not_finite)};
    return {absl::StrFormat("%.4g", min), absl::StrFormat("%.4g", max),
            absl::StrFormat("%.4g", sum / static_cast<double>(finite)),
            absl::StrFormat("%.1f %%", 100 * static_cast<double>(zeros) /
                                           static_cast<double>(finite)),
            not_finite == 0 ? "" : absl::StrCat(not_finite)};
  }
};

absl::StatusOr<Range> RangeOf(const SliceIndex::Entry& entry,
                              CheckpointReader* reader) {
  Range range;
  RETURN_IF_ERROR(reader->ForEachPiece({&entry, ""}, [&](const Buffer& piece) {
    range.Add(piece.bytes());
    return absl::OkStatus();
  }));
  return range;
}

std::string Summary(const std::string& path, const v1::Manifest& manifest) {
  Table table;
  table.Add({"checkpoint", path});
  table.Add({"snapshot", VersionName(manifest.snapshot())});
  table.Add({"step", absl::StrCat(manifest.global_step())});
  table.Add({"created", manifest.created()});
  table.Add(
      {"job", absl::StrCat(manifest.job_name(), ", run ", manifest.run_id())});
  table.Add({"bytes", SizeName(CheckpointBytes(manifest))});
  for (const v1::SavedSession& session : manifest.sessions()) {
    table.Add(
        {absl::StrCat("worker ", session.worker()),
         absl::StrCat("pushes up to ", session.sequence(), ", generation ",
                      VersionName(session.generation()))});
  }
  return table.Text();
}

std::string Files(const v1::Manifest& manifest) {
  Table table;
  table.Add({"file", "server", "size", "crc32c", "slices", "base"});
  for (const v1::ShardFile& file : manifest.files()) {
    table.Add({file.name(), absl::StrCat("ps-", file.server()),
               SizeName(file.bytes()), absl::StrFormat("%08x", file.crc32c()),
               absl::StrCat(file.slices_size()),
               file.has_base() ? absl::StrCat(file.base().directory(), "/",
                                              file.base().name())
                               : "-"});
  }
  return table.Text();
}

// Nothing, if nothing is lost.
std::string Lost(const v1::Manifest& manifest) {
  Table table;
  table.Add({"lost", "worker", "generation", "pushes", "found by"});
  bool any = false;
  for (const v1::ShardFile& file : manifest.files()) {
    for (const v1::LostPushes& lost : file.lost()) {
      any = true;
      const std::string server = absl::StrCat("ps-", lost.server());
      if (IsZero(lost.generation())) {
        table.Add({server, "-", "-",
                   absl::StrCat(lost.to(), " of sessions long gone"), "-"});
        continue;
      }
      table.Add(
          {server, absl::StrCat("worker-", lost.worker()),
           VersionName(lost.generation()),
           absl::StrCat(lost.from(), " to ", lost.to()),
           absl::StrCat("generation ", VersionName(lost.server_generation()))});
    }
  }
  return any ? absl::StrCat(table.Text(), "\n") : "";
}

// With replication: chunks of pushes that were acknowledged when only one
// server had them; nothing, if there are none.
std::string OnOneServer(const v1::Manifest& manifest) {
  Table table;
  table.Add({"acknowledged on one server", "chunks"});
  bool any = false;
  for (const v1::ShardFile& file : manifest.files()) {
    if (file.acknowledged_alone() == 0) continue;
    any = true;
    table.Add({absl::StrCat("ps-", file.server()),
               absl::StrCat(file.acknowledged_alone())});
  }
  return any ? absl::StrCat(table.Text(), "\n") : "";
}

absl::StatusOr<std::string> Variables(CheckpointReader* reader, bool values) {
  Table table;
  std::vector<std::string> heads = {"variable", "shape", "parts", "slots"};
  if (values)
    heads.insert(heads.end(), {"min", "max", "mean", "zeros", "not finite"});
  table.Add(std::move(heads));
  for (const SliceIndex::Entry& entry : reader->index().entries()) {
    std::vector<std::string> slots;
    for (const auto& slot : entry.saved.front().slice->slot_tensors()) {
      slots.push_back(slot.first);
    }
    std::sort(slots.begin(), slots.end());
    const auto& shape = entry.variable->shape();
    std::vector<std::string> cells = {
        entry.variable->name(),
        ShapeName({shape.data(), static_cast<size_t>(shape.size())}),
        absl::StrCat(entry.saved.size()),
        slots.empty() ? "-" : absl::StrJoin(slots, ",")};
    if (values) {
      ASSIGN_OR_RETURN(const Range range, RangeOf(entry, reader));
      for (std::string& cell : range.Cells()) cells.push_back(std::move(cell));
    }
    table.Add(std::move(cells));
  }
  return table.Text();
}

// Of keyed variables; nothing, if there is none.
absl::StatusOr<std::string> Keyed(CheckpointReader* reader) {
  Table table;
  table.Add({"rows by key", "capacity", "in use", "bytes in use",
             "named in the last 10 pushes", "100", "1,000", "10,000",
             "earlier"});
  bool any = false;
  for (const SliceIndex::Entry& entry : reader->index().entries()) {
    if (!entry.variable->keyed()) continue;
    any = true;
    ASSIGN_OR_RETURN(const KeyedAges ages, AgesOf(entry, reader));
    const uint64_t row_bytes = RowBytes(reader->manifest(), entry);
    std::vector<std::string> cells = {
        entry.variable->name(), absl::StrCat(entry.shape.rows),
        absl::StrCat(ages.all()), SizeName(ages.all() * row_bytes)};
    for (const uint64_t rows : ages.rows) cells.push_back(absl::StrCat(rows));
    table.Add(std::move(cells));
  }
  return any ? absl::StrCat("\n", table.Text()) : "";
}

// What a quantised checkpoint says of its numbers; nothing of another one.
absl::StatusOr<std::string> Quantised(const std::string& path,
                                      const v1::Manifest& manifest) {
  if (!IsQuantized(manifest)) return std::string();
  ASSIGN_OR_RETURN(const Quantization quantization, ReadQuantization(path));
  Table head;
  head.Add({"quantised", std::string(NameOf(quantization.mode))});
  head.Add({"range", RangeText(quantization)});
  if (!quantization.observer.empty()) {
    head.Add(
        {"calibrated", quantization.examples == 0
                           ? quantization.observer
                           : absl::StrCat(quantization.observer, " of ",
                                          quantization.examples, " examples, ",
                                          quantization.calibrated_on)});
  }
  if (!quantization.has_integers()) return absl::StrCat(head.Text(), "\n");
  std::vector<std::string> kernels;
  for (const Quantization::Layer& layer : quantization.layers) {
    kernels.push_back(absl::StrCat(layer.name, "/kernel"));
  }
  ASSIGN_OR_RETURN(const auto tensors, ReadIntegerTensors(path, kernels));
  Table table;
  table.Add({"in integers", "kind", "folded", "input scale", "zero point",
             "scales of weights", "from", "to"});
  for (size_t i = 0; i < kernels.size(); ++i) {
    const Quantization::Layer& layer = quantization.layers[i];
    const std::vector<float>& scales = tensors.at(kernels[i]).scales;
    const auto [min, max] = std::minmax_element(scales.begin(), scales.end());
    const bool fixed = layer.input.has_value();
    table.Add({layer.name, layer.kind,
               layer.folded.empty() ? "-" : layer.folded,
               fixed ? absl::StrFormat("%.6g", layer.input->scale)
                     : "of each example",
               fixed ? absl::StrCat(layer.input->zero_point) : "-",
               absl::StrCat(scales.size()), absl::StrFormat("%.6g", *min),
               absl::StrFormat("%.6g", *max)});
  }
  Table left;
  for (const Quantization::Left& one : quantization.left) {
    left.Add({"in float", one.name, one.why});
  }
  return absl::StrCat(head.Text(), "\n", table.Text(), left.Text(), "\n");
}

// Of one that nothing is wrong with.
std::string StateOf(const v1::Manifest& manifest) {
  std::set<std::string> bases;
  for (const v1::ShardFile& file : manifest.files()) {
    if (file.has_base()) bases.insert(file.base().directory());
  }
  if (IsQuantized(manifest)) return "ok, quantised";
  if (bases.empty()) return "ok";
  return absl::StrCat("ok, incremental, base ", absl::StrJoin(bases, ", "));
}

}  // namespace

absl::StatusOr<std::string> ListCheckpoints(const std::string& path,
                                            size_t* damaged) {
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, CheckpointsAt(path));
  CheckpointVerifier verifier(WithoutNumbers());
  size_t with_faults = 0;
  Table table;
  table.Add({"checkpoint", "step", "created", "size", "files", "state"});
  for (const std::string& checkpoint : paths) {
    const std::string name = checkpoint.substr(checkpoint.rfind('/') + 1);
    const auto manifest = ReadManifest(checkpoint);
    if (!manifest.ok()) {
      ++with_faults;
      table.Add(
          {name, "-", "-", "-", "-", std::string(manifest.status().message())});
      continue;
    }
    const std::vector<absl::Status> faults = verifier.Faults(checkpoint);
    with_faults += !faults.empty();
    table.Add({name, absl::StrCat(manifest->global_step()), manifest->created(),
               SizeName(CheckpointBytes(*manifest)),
               absl::StrCat(manifest->files_size()),
               faults.empty() ? StateOf(*manifest)
                              : std::string(faults.front().message())});
  }
  if (damaged != nullptr) *damaged = with_faults;
  return table.Text();
}

absl::StatusOr<std::string> InspectCheckpoint(const std::string& path,
                                              bool values) {
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, CheckpointsAt(path));
  RETURN_IF_ERROR(VerifyCheckpoint(paths.front(), WithoutNumbers()).status());
  ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(paths.front()));
  ASSIGN_OR_RETURN(const std::string variables,
                   Variables(reader.get(), values));
  std::string keyed;
  if (values) {
    ASSIGN_OR_RETURN(keyed, Keyed(reader.get()));
    RETURN_IF_ERROR(reader->Finish());
  }
  const v1::Manifest& manifest = reader->manifest();
  ASSIGN_OR_RETURN(const std::string quantised,
                   Quantised(paths.front(), manifest));
  return absl::StrCat(Summary(paths.front(), manifest), "\n", Files(manifest),
                      "\n", Lost(manifest), OnOneServer(manifest), quantised,
                      variables, keyed);
}

}  // namespace paramd
