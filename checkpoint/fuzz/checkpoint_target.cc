// Whatever lies in a checkpoint's directory: if it verifies, all of it can be
// read, as a restore does and as `checkpoint inspect` does. The first byte says
// whether checksums are made right before.

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"

#include "base/check.h"
#include "base/fuzz/pieces.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/fuzz/files.h"
#include "checkpoint/inspect.h"
#include "checkpoint/quantization.h"
#include "checkpoint/read_again.h"
#include "checkpoint/restore_reader.h"
#include "checkpoint/table_report.h"
#include "checkpoint/verify.h"

namespace paramd {
namespace {

// What a server asks that is to hold all of it.
v1::ReadSlices WantAll(const v1::Manifest& manifest) {
  v1::ReadSlices request;
  request.set_path(fuzz::kDirectory);
  request.set_first(true);
  request.set_last(true);
  request.mutable_check()->set_of(1);
  for (const v1::Variable& variable : manifest.variables()) {
    v1::ReadSlices::Want* const want = request.add_slices();
    want->set_variable(variable.name());
    *want->mutable_shape() = variable.shape();
    want->set_row_end(variable.shape().empty() ? 1 : variable.shape(0));
    want->set_sparse(variable.sparse());
    want->set_keyed(variable.keyed());
    want->set_values_only(true);
  }
  return request;
}

void CheckRead() {
  const auto reader = CheckpointReader::Open(fuzz::kDirectory);
  CHECK(reader.ok(), "what verifies is opened");
  uint64_t bytes = 0;
  for (const SliceIndex::Entry& entry : (*reader)->index().entries()) {
    const CheckpointReader::Numbers numbers = {&entry, ""};
    BufferChain values;
    CHECK((*reader)->Read(numbers, 0, numbers.bytes(), &values).ok(),
          "and its variables are read");
    CHECK(ChainSize(values) == numbers.bytes(), "wholly");
    bytes += numbers.bytes();
  }
  CHECK((*reader)->Finish().ok(), "and its files are what they were");
  for (const v1::Variable& variable : (*reader)->manifest().variables()) {
    if (!variable.keyed()) continue;
    // It may have come without its keys.
    const auto report = ReportTable(reader->get(), variable.name());
    if (!report.ok()) fuzz::CheckRefusal(report.status());
  }
  v1::ReadSlicesResult result;
  BufferChain payload;
  const absl::Status restored =
      RestoreReader().Read(WantAll((*reader)->manifest()), &result, &payload);
  CHECK(restored.ok(), restored.ToString());
  CHECK(ChainSize(payload) == bytes, "with the same numbers");
}

void Check(const std::map<std::string, std::string>& files) {
  fuzz::SetFiles(files);
  const auto manifest = VerifyCheckpoint(fuzz::kDirectory);
  // A keyed variable may have come without its keys, whose use is counted.
  const auto counted = InspectCheckpoint(fuzz::kDirectory, /*values=*/true);
  if (!counted.ok()) fuzz::CheckRefusal(counted.status());
  if (!manifest.ok()) return fuzz::CheckRefusal(manifest.status());
  if (IsQuantized(*manifest)) {
    const auto quantization = ReadQuantization(fuzz::kDirectory);
    if (!quantization.ok()) fuzz::CheckRefusal(quantization.status());
  }
  const auto inspected = InspectCheckpoint(fuzz::kDirectory);
  // Checksums say that scales are as they were written, not what they are.
  if (IsQuantized(*manifest) && !inspected.ok()) {
    return fuzz::CheckRefusal(inspected.status());
  }
  CHECK(inspected.ok(), inspected.status().ToString());
  CheckRead();
}

}  // namespace
}  // namespace paramd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool hurries = [] {
    paramd::PauseReadsForTest([](absl::Duration) {});
    return true;
  }();
  CHECK(hurries, "nobody waits for storage here");
  paramd::fuzz::Pieces pieces(data, size);
  const bool sums = pieces.Byte() % 2 == 1;
  auto files = paramd::fuzz::ReadFiles(pieces.Rest());
  if (sums) paramd::fuzz::MakeSumsRight(&files);
  paramd::Check(files);
  return 0;
}
