#include "server/core/shard_content.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/status_macros.h"
#include "config/wire_format.h"
#include "proto/refusal.h"
#include "server/core/row_numbers.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

constexpr int kMaxVariables = 1000000;
constexpr size_t kMaxNameBytes = 512;
constexpr uint64_t kMaxElements = uint64_t{1} << 48;
// Of one block in the head of a reply, with room to spare.
constexpr size_t kHeadBytesPerBlock = 48;
// The same where only rows of it are sent.
constexpr size_t kHeadBytesPerRowBlock = 20;
// A KeySketch counts no further.
constexpr uint32_t kMostAdmitAfter = 255;
absl::Status Invalid(absl::string_view entity, absl::string_view sentence) {
  return Refuse(v1::Refusal::INVALID, entity, sentence);
}

absl::Status CheckKeyed(const v1::Variable& variable) {
  const std::string& name = variable.name();
  if (!variable.sparse()) {
    return Invalid(name, absl::StrCat("variable '", name,
                                      "' is keyed and not sparse"));
  }
  if (variable.when_full() != v1::Variable::EVICT &&
      variable.when_full() != v1::Variable::IGNORE) {
    return Invalid(name,
                   absl::StrCat("variable '", name, "' does, when it is full, ",
                                static_cast<int>(variable.when_full()),
                                ", which is unknown here"));
  }
  if (variable.admit_after() > kMostAdmitAfter) {
    return Invalid(
        name, absl::StrCat("variable '", name, "' admits keys after ",
                           variable.admit_after(), " gradients; the most is ",
                           kMostAdmitAfter));
  }
  const uint64_t rows = variable.shape(0);
  if (rows == RowsForKeys(rows, variable.shape(1))) return absl::OkStatus();
  return Invalid(name,
                 absl::StrCat("variable '", name, "' is keyed and has ", rows,
                              " rows; above ", BucketRows(variable.shape(1)),
                              " they must be a multiple of that"));
}

absl::StatusOr<RowShape> CheckVariable(const v1::Variable& variable) {
  const std::string& name = variable.name();
  if (name.empty() || name.size() > kMaxNameBytes) {
    return Invalid("layout",
                   absl::StrCat("a variable's name has ", name.size(),
                                " bytes; it must have 1 to ", kMaxNameBytes));
  }
  if (variable.dtype() != v1::FLOAT32) {
    return Invalid(name, absl::StrCat("variable '", name, "' has dtype ",
                                      static_cast<int>(variable.dtype()),
                                      "; only FLOAT32 is known here"));
  }
  const v1::Initializer& init = variable.initializer();
  if (init.kind() != v1::Initializer::ZEROS &&
      init.kind() != v1::Initializer::UNIFORM) {
    return Invalid(name, absl::StrCat("variable '", name, "' has initializer ",
                                      static_cast<int>(init.kind()),
                                      ", which is unknown here"));
  }
  if (!std::isfinite(init.low()) || !std::isfinite(init.high())) {
    return Invalid(name, absl::StrCat("variable '", name, "' starts between ",
                                      init.low(), " and ", init.high()));
  }
  auto shape = ToRowShape(variable.shape());
  if (!shape.ok()) {
    return Invalid(name, absl::StrCat("variable '", name,
                                      "': ", shape.status().message()));
  }
  if (variable.sparse()) {
    const absl::Status sparse = CheckSparseShape(variable.shape());
    if (!sparse.ok()) return Invalid(name, sparse.message());
    if (variable.untrained()) {
      return Invalid(name, "a sparse variable is trained");
    }
  }
  if (variable.keyed()) RETURN_IF_ERROR(CheckKeyed(variable));
  return shape;
}

// Blocks of a keyed variable are the same for any number of servers.
absl::Status CheckBuckets(const Slice& slice) {
  if (!slice.keyed()) return absl::OkStatus();
  const uint64_t bucket = BucketRows(slice.row_elements());
  const RowRange& rows = slice.rows();
  if (rows.begin % bucket == 0 &&
      (rows.end % bucket == 0 || rows.end == slice.variable().shape(0))) {
    return absl::OkStatus();
  }
  return Invalid(slice.variable().name(),
                 absl::StrCat("rows ", rows.begin, " to ", rows.end, " of '",
                              slice.variable().name(),
                              "' are not whole buckets of ", bucket));
}

// The index of a block that was named before. Sessions name blocks in order:
// then there is none.
absl::optional<size_t> NamedTwice(
    const std::vector<ShardContent::Decision>& blocks) {
  const auto id = [](const ShardContent::Decision& block) {
    return uint64_t{block.place} << 32 | static_cast<uint32_t>(block.block);
  };
  const auto unordered = std::adjacent_find(
      blocks.begin(), blocks.end(),
      [&](const auto& one, const auto& next) { return id(one) >= id(next); });
  if (unordered == blocks.end()) return absl::nullopt;
  absl::flat_hash_set<uint64_t> seen;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (!seen.insert(id(blocks[i])).second) return i;
  }
  return absl::nullopt;
}

absl::StatusOr<NumberFormat> FormatIn(v1::Encoding encoding) {
  const auto format = FormatOf(encoding);
  if (format.has_value()) return *format;
  return Invalid("encoding",
                 absl::StrCat("encoding ", static_cast<int>(encoding),
                              " is unknown here; known are FP32, BF16, FP16"));
}

int BlocksIn(const v1::PushRequest& request) {
  return request.blocks_size() + request.rows().rows_size();
}

uint64_t RowsOf(const Slice& slice) {
  return slice.rows().end - slice.rows().begin;
}

// Keys that can have a row.
uint64_t CapacityOf(const Slice& slice) {
  return RowsOf(slice) - slice.block_count() * SpareRowsOf(slice.variable());
}

uint64_t MemoryRowsOf(const Slice& slice) {
  const size_t fast = slice.placement().fast_rows;
  return fast > 0 ? fast * slice.block_count() : RowsOf(slice);
}

absl::Status NotSparse(const Slice& slice, uint32_t block) {
  const std::string& name = slice.variable().name();
  return Invalid(name, absl::StrCat("chunk names rows of block ", block,
                                    " of '", slice.TensorName(),
                                    "', which is not sparse"));
}

// Has caches fetch what a call will touch of the blocks from `first` on, so
// many that the first of it is still there when it is used; the block behind
// them. Blocks with many rows fetch some while they work on others.
template <typename NamedRows>
size_t FetchSome(const std::vector<NamedRows>& blocks, size_t first,
                 const RowIdList& ids, const Optimizer* pushes) {
  constexpr uint32_t kTogether = 64;
  constexpr uint32_t kMany = 16;
  size_t end = first;
  for (uint32_t rows = 0; end < blocks.size() && rows < kTogether; ++end) {
    rows += std::min(blocks[end].rows, kMany);
  }
  for (const auto step : {Block::FetchStep::kPlaces, Block::FetchStep::kKeys,
                          Block::FetchStep::kRows}) {
    for (size_t i = first; i < end; ++i) {
      const uint32_t rows = blocks[i].rows;
      if (rows == 0 || rows >= kMany) continue;
      const Slice& slice = *blocks[i].slice;
      const Block& block = slice.block(blocks[i].block);
      const RowIds named = ids.At(slice, blocks[i].first_id, rows);
      block.Fetch(step, {named.numbers, named.keys, slice.row_elements(),
                         pushes, slice.options()});
    }
  }
  return end;
}

void Skip(size_t bytes, ChainReader* reader) {
  while (bytes > 0) {
    const size_t passed = reader->Next(bytes).size();
    CHECK(passed > 0, "the chain has all the bytes that are passed over");
    bytes -= passed;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShardContent>> ShardContent::Create(
    const v1::Configuration& configuration, const Options& options) {
  auto optimizer =
      Optimizer::Create(configuration.optimizer(), configuration.decay_steps());
  if (!optimizer.ok()) {
    return Invalid("optimizer", optimizer.status().message());
  }
  optimizer->UseKernels(*options.kernels);
  std::unique_ptr<ShardContent> content(
      new ShardContent(options, *std::move(optimizer)));
  const auto& variables = configuration.layout().variables();
  content->seed_ = configuration.seed();
  content->all_slots_ = SlotsOf(configuration.optimizer(), variables);
  RETURN_IF_ERROR(content->AddSlices(configuration.layout()));
  const absl::Status named = content->optimizer_.CheckNames(
      {variables.data(), static_cast<size_t>(variables.size())});
  if (!named.ok()) return Invalid("optimizer", named.message());
  RETURN_IF_ERROR(content->CheckMemory(configuration));
  RETURN_IF_ERROR(content->CheckDisk());
  return content;
}

absl::Status ShardContent::CheckMemory(
    const v1::Configuration& configuration) const {
  if (options_.memory == nullptr) return absl::OkStatus();
  const uint64_t weights = value_bytes_;
  // Sums of sparse variables are of the rows that a step names.
  uint64_t dense = 0;
  uint64_t value_disk = 0;
  uint64_t slot_disk = 0;
  const bool sums =
      configuration.consistency().mode() == v1::Consistency::SYNC &&
      configuration.workers_size() > 1;
  uint64_t keys = 0;
  for (const Slice* const slice : owned_) {
    if (!slice->sparse()) dense += slice->elements() * sizeof(float);
    if (!slice->keyed()) continue;
    for (int b = 0; b < slice->block_count(); ++b) {
      keys += KeyTable::MostBytes(slice->block_elements(b) /
                                  slice->row_elements());
    }
    const BlockPlacement& placement = slice->placement();
    value_disk += slice->block_count() * BytesOf(placement.values);
    slot_disk += slice->block_count() * BytesOf(placement.slots);
  }
  const absl::Status status =
      options_.memory->CheckParts({{"weights", weights - value_disk},
                                   {"slots", bytes_ - weights - slot_disk},
                                   {"indexes of keys", keys},
                                   {"sums of gradients", sums ? dense : 0}});
  if (status.ok()) return status;
  return Invalid("memory_limit_bytes",
                 absl::StrCat("the variables do not fit: ", status.message()));
}

// Of all of it there may be a copy for a snapshot.
absl::Status ShardContent::CheckDisk() const {
  uint64_t bytes = 0;
  uint64_t mappings = 0;
  std::string variable;
  for (const Slice* const slice : owned_) {
    const BlockPlacement& placement = slice->placement();
    if (placement.disk_bytes() == 0) continue;
    variable = slice->variable().name();
    bytes += 2 * slice->block_count() * placement.disk_bytes();
    // Two buffers, in memory before and behind each range.
    mappings +=
        2 * slice->block_count() *
        (2 * (placement.values.size() + placement.slots.size()) + 2);
  }
  if (bytes == 0) return absl::OkStatus();
  if (options_.disk == nullptr) {
    return Invalid("disk_directory",
                   absl::StrCat("not all rows of '", variable,
                                "' lie in memory (memory_rows), and "
                                "disk_directory of this server is empty: name "
                                "a directory on a disk of its machine"));
  }
  const absl::Status status = options_.disk->Reserve(bytes, mappings);
  return status.ok() ? status : Invalid("disk_directory", status.message());
}

ShardContent::ShardContent(const Options& options, Optimizer optimizer)
    : options_(options),
      spare_(options.memory, options.disk, options.kernels->device),
      optimizer_(std::move(optimizer)) {}

absl::Status ShardContent::AddSlices(const v1::Layout& layout) {
  if (layout.variables_size() > kMaxVariables) {
    return Invalid("layout",
                   absl::StrCat("layout has ", layout.variables_size(),
                                " variables; the limit is ", kMaxVariables));
  }
  std::vector<RowShape> shapes;
  absl::flat_hash_set<absl::string_view> names;
  for (const v1::Variable& variable : layout.variables()) {
    ASSIGN_OR_RETURN(const RowShape shape, CheckVariable(variable));
    shapes.push_back(shape);
    if (!names.insert(variable.name()).second) {
      return Invalid(variable.name(), absl::StrCat("layout names variable '",
                                                   variable.name(), "' twice"));
    }
  }
  uint64_t elements = 0;
  for (const v1::Slice& s : layout.slices()) {
    if (s.variable() >= shapes.size() || s.row_begin() >= s.row_end() ||
        s.row_end() > shapes[s.variable()].rows) {
      return Invalid(
          "layout",
          absl::StrCat("slice ", slices_.size(), " is rows ", s.row_begin(),
                       " to ", s.row_end(), " of variable ", s.variable(),
                       ", which does not have them"));
    }
    servers_.push_back(s.server());
    slices_.emplace_back();
    if (s.server() != options_.server) continue;
    slices_.back() = std::make_unique<Slice>(
        layout.variables(s.variable()), shapes[s.variable()].row_elements,
        RowRange{s.row_begin(), s.row_end()}, &spare_);
    Slice* const slice = slices_.back().get();
    owned_.push_back(slice);
    RETURN_IF_ERROR(CheckBuckets(*slice));
    const VariableOptions options = optimizer_.OptionsOf(slice->variable());
    slice->SetTraining(options, optimizer_.slots(options));
    elements += slice->elements();
    bytes_ += slice->BytesOf(slice->elements());
    if (elements > kMaxElements) {
      return Invalid("layout", absl::StrCat("more than ", kMaxElements,
                                            " elements on one server"));
    }
  }
  value_bytes_ = elements * sizeof(float);
  return absl::OkStatus();
}

absl::StatusOr<Slice*> ShardContent::Find(uint32_t slice,
                                          uint32_t block) const {
  if (slice >= slices_.size()) {
    return Invalid(absl::StrCat("slice ", slice),
                   absl::StrCat("chunk names slice ", slice,
                                "; the layout has ", slices_.size()));
  }
  Slice* const found = slices_[slice].get();
  if (found == nullptr) {
    return Refuse(v1::Refusal::WRONG_OWNER,
                  absl::StrCat("ps-", servers_[slice]),
                  absl::StrCat("slice ", slice, " is on ps-", servers_[slice],
                               "; this is ps-", options_.server));
  }
  if (block >= static_cast<uint32_t>(found->block_count())) {
    return Invalid(
        found->variable().name(),
        absl::StrCat("chunk names block ", block, " of '", found->TensorName(),
                     "', which has ", found->block_count()));
  }
  return found;
}

absl::Status ShardContent::Pull(const v1::PullRequest& request,
                                const BufferChain& names, v1::PullReply* reply,
                                BufferChain* payload) {
  ASSIGN_OR_RETURN(const NumberFormat format, FormatIn(request.encoding()));
  uint64_t bytes = kHeadBytesPerBlock;
  RETURN_IF_ERROR(PullBlocks(request, format, &bytes, reply, payload));
  RETURN_IF_ERROR(PullRows(request, names, format, &bytes, reply, payload));
  reply->set_encoding(request.encoding());
  ++counts_.pulls;
  return absl::OkStatus();
}

absl::Status ShardContent::CheckReply(const v1::PullRequest& request,
                                      uint64_t bytes) const {
  if (bytes <= options_.max_reply_bytes) return absl::OkStatus();
  return Refuse(
      v1::Refusal::OVER_LIMIT, "pull",
      absl::StrCat("the ", request.blocks_size() + request.rows().rows_size(),
                   " blocks of this pull have more than ",
                   options_.max_reply_bytes, " bytes; pull fewer at a time"));
}

absl::Status ShardContent::PullBlocks(const v1::PullRequest& request,
                                      NumberFormat format, uint64_t* bytes,
                                      v1::PullReply* reply,
                                      BufferChain* payload) {
  reply->mutable_blocks()->Reserve(request.blocks_size());
  payload->reserve(request.blocks_size() + 1);
  for (const v1::PullBlock& wanted : request.blocks()) {
    ASSIGN_OR_RETURN(Slice* const slice, Find(wanted.slice(), wanted.block()));
    const Block& block = slice->block(static_cast<int>(wanted.block()));
    const v1::BlockVersion version = block.version();
    v1::PulledBlock* const pulled = reply->add_blocks();
    pulled->set_slice(wanted.slice());
    pulled->set_block(wanted.block());
    *pulled->mutable_version() = version;
    *bytes += kHeadBytesPerBlock;
    if (wanted.known().life() != version.life() ||
        wanted.known().counter() != version.counter()) {
      pulled->set_elements(static_cast<uint32_t>(block.elements()));
      ASSIGN_OR_RETURN(Buffer encoded, Encode(block.values(), format));
      payload->push_back(std::move(encoded));
      *bytes += payload->back().size();
    }
    RETURN_IF_ERROR(CheckReply(request, *bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ShardContent::WantedRows>> ShardContent::FindRows(
    const v1::RowBlocks& rows) const {
  RETURN_IF_ERROR(CheckColumns(rows));
  std::vector<WantedRows> wanted;
  wanted.reserve(rows.rows_size());
  for (int i = 0; i < rows.rows_size(); ++i) {
    ASSIGN_OR_RETURN(Slice* const slice, Find(rows.slices(i), rows.blocks(i)));
    if (!slice->sparse()) return NotSparse(*slice, rows.blocks(i));
    wanted.push_back(
        {slice, static_cast<int>(rows.blocks(i)), rows.rows(i)});
  }
  return wanted;
}

// All of them into one buffer.
absl::Status ShardContent::PullRows(const v1::PullRequest& request,
                                    const BufferChain& names,
                                    NumberFormat format, uint64_t* bytes,
                                    v1::PullReply* reply,
                                    BufferChain* payload) {
  ASSIGN_OR_RETURN(std::vector<WantedRows> wanted, FindRows(request.rows()));
  uint64_t name_bytes = 0;
  uint64_t elements = 0;
  for (const WantedRows& some : wanted) {
    name_bytes += some.rows * some.slice->row_id_bytes();
    elements += some.rows * some.slice->row_elements();
  }
  if (name_bytes != ChainSize(names)) {
    return Invalid("payload",
                   absl::StrCat("pull has ", ChainSize(names),
                                " bytes of names of rows; the rows that it "
                                "counts have ",
                                name_bytes));
  }
  if (wanted.empty()) return absl::OkStatus();
  *bytes +=
      wanted.size() * kHeadBytesPerRowBlock + elements * BytesOf(format);
  RETURN_IF_ERROR(CheckReply(request, *bytes));
  RETURN_IF_ERROR(ReadNames(names, &wanted));
  if (options_.disk != nullptr && options_.disk->WaitsLately()) {
    ReadAhead(wanted);
  }
  ASSIGN_OR_RETURN(Buffer copy, AllocateReply(elements * sizeof(float)));
  CopyRows(wanted, reinterpret_cast<float*>(copy.mutable_bytes().data()));
  ASSIGN_OR_RETURN(Buffer encoded, Encode(copy, format));
  payload->push_back(std::move(encoded));
  v1::BlockVersions* const versions = reply->mutable_row_versions();
  versions->mutable_lives()->Reserve(static_cast<int>(wanted.size()));
  versions->mutable_counters()->Reserve(static_cast<int>(wanted.size()));
  for (const WantedRows& some : wanted) {
    const Block& block = some.slice->block(some.block);
    versions->add_lives(block.life());
    versions->add_counters(block.applied());
  }
  return absl::OkStatus();
}

absl::Status ShardContent::ReadNames(const BufferChain& names,
                                     std::vector<WantedRows>* wanted) {
  ids_.Clear();
  ChainReader reader(names);
  for (WantedRows& some : *wanted) {
    ASSIGN_OR_RETURN(some.first_id,
                     ids_.Read(*some.slice, some.block, some.rows, &reader));
  }
  return absl::OkStatus();
}

void ShardContent::CopyRows(const std::vector<WantedRows>& wanted,
                            float* out) {
  const Slice* last = nullptr;
  absl::optional<InitialValues> initial;  // Of that one.
  size_t fetched = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (i == fetched) fetched = FetchSome(wanted, i, ids_, /*pushes=*/nullptr);
    const auto& [slice, block, rows, first_id] = wanted[i];
    const RowIds ids = ids_.At(*slice, first_id, rows);
    const size_t width = slice->row_elements();
    if (slice->keyed()) {
      if (slice != last) initial.emplace(slice->variable(), seed_);
      last = slice;
      slice->block(block).CopyKeys({ids.keys, width, &*initial}, out,
                                   &slice->table_counts());
    } else {
      slice->block(block).CopyRows({ids.numbers, width}, out);
    }
    out += rows * width;
  }
}

void ShardContent::ReadAhead(const std::vector<WantedRows>& wanted) {
  std::vector<absl::Span<const std::byte>> pieces;
  for (const auto& [slice, block, rows, first_id] : wanted) {
    if (slice->placement().fast_rows == 0) continue;
    slice->block(block).AddSlowRows(
        {ids_.At(*slice, first_id, rows).keys, slice->row_elements()},
        &pieces);
  }
  DiskMemory::ReadAhead(pieces);
}

absl::StatusOr<Buffer> ShardContent::AllocateReply(uint64_t bytes) {
  RETURN_IF_ERROR(MakeRoom("a pull", [bytes] { return bytes; }));
  return options_.memory == nullptr
             ? Buffer::Allocate(bytes)
             : options_.memory->account().Allocate(bytes);
}

absl::StatusOr<Buffer> ShardContent::Encode(const Buffer& values,
                                            NumberFormat format) {
  if (format == NumberFormat::kFp32) return values;
  const size_t count = values.size() / sizeof(float);
  ASSIGN_OR_RETURN(Buffer encoded, AllocateReply(count * BytesOf(format)));
  EncodeNumbers(format, reinterpret_cast<const float*>(values.bytes().data()),
                count, encoded.mutable_bytes().data());
  return encoded;
}

absl::Status ShardContent::MakeRoom(absl::string_view what,
                                    const std::function<uint64_t()>& needed) {
  MemoryBudget* const memory = options_.memory;
  if (memory == nullptr || memory->limit() == 0) return absl::OkStatus();
  if (memory->Fits(needed())) return absl::OkStatus();
  // Recycled memory may be what a snapshot's copy is held by besides.
  spare_.Clear();
  if (memory->Fits(needed())) return absl::OkStatus();
  return memory->RefuseNow(absl::StrCat("ps-", options_.server), what, needed(),
                           options_.retry_after);
}

std::vector<std::string> ShardContent::TakeNotes() {
  return quarantine_.TakeNotes();
}

uint64_t ShardContent::BytesToApply(
    const v1::PushRequest& request,
    const std::vector<Decision>& decisions) const {
  uint64_t bytes = 0;
  for (const Decision& decision : decisions) {
    if (decision.admission != AppliedPushes::Admission::kApply) continue;
    if (decision.slice->sparse() && decision.rows == 0) continue;
    bytes += fork_.BytesToChange(request.header().snapshot(), *decision.slice,
                                 decision.block);
  }
  return bytes;
}

absl::Status ShardContent::Push(const v1::PushRequest& request,
                                const BufferChain& payload,
                                v1::PushReply* reply) {
  // Only a contribution to a step may be of no examples, and then of nothing.
  if (request.step() > 0) {
    counts_.blocks_refused += BlocksIn(request);
    return Invalid("step", absl::StrCat("push is of step ", request.step(),
                                        "; only mode sync has steps"));
  }
  const auto decisions = Check(request, payload);
  if (!decisions.ok()) return decisions.status();
  fork_.Hear(request.header().snapshot());
  RETURN_IF_ERROR(MakeRoom(
      "a push", [&] { return BytesToApply(request, *decisions); }));
  ChainReader gradient(payload);
  Skip(IdBytes(*decisions), &gradient);  // They are read.
  const size_t element_bytes = BytesOf(*FormatOf(request.encoding()));
  reply->mutable_blocks()->Reserve(request.blocks_size());
  reply->mutable_row_results()->Reserve(request.rows().rows_size());
  size_t fetched = 0;
  for (size_t i = 0; i < decisions->size(); ++i) {
    if (i == fetched) fetched = FetchSome(*decisions, i, ids_, &optimizer_);
    const Decision& decision = (*decisions)[i];
    if (decision.admission == AppliedPushes::Admission::kApply) {
      Apply(request, decision, &gradient);
      Answer(decision, v1::PushedBlock::APPLIED, reply);
    } else {
      Skip(decision.elements * element_bytes, &gradient);
      Answer(decision, ResultOf(decision.admission), reply);
      ++counts_.blocks_repeated;
    }
  }
  return absl::OkStatus();
}

size_t ShardContent::IdBytes(const std::vector<Decision>& decisions) {
  size_t bytes = 0;
  for (const Decision& decision : decisions) bytes += decision.id_bytes();
  return bytes;
}

v1::PushedBlock::Result ShardContent::ResultOf(
    AppliedPushes::Admission admission) {
  switch (admission) {
    case AppliedPushes::Admission::kApply: return v1::PushedBlock::APPLIED;
    case AppliedPushes::Admission::kAlreadyApplied:
      return v1::PushedBlock::ALREADY_APPLIED;
    case AppliedPushes::Admission::kSuperseded:
      return v1::PushedBlock::SUPERSEDED;
  }
  return v1::PushedBlock::RESULT_UNSPECIFIED;
}

void ShardContent::Answer(const Decision& decision,
                          v1::PushedBlock::Result result,
                          v1::PushReply* reply) {
  if (decision.slice->sparse()) return reply->add_row_results(result);
  v1::PushedBlock* const pushed = reply->add_blocks();
  pushed->set_slice(decision.place);
  pushed->set_block(static_cast<uint32_t>(decision.block));
  pushed->set_result(result);
  // What is held has no version yet.
  if (result == v1::PushedBlock::HELD) return;
  *pushed->mutable_version() = decision.slice->block(decision.block).version();
}

absl::StatusOr<std::vector<ShardContent::Decision>> ShardContent::Check(
    const v1::PushRequest& request, const BufferChain& payload) {
  auto decisions = CheckPush(request, payload);
  if (decisions.ok()) return decisions;
  counts_.blocks_refused += BlocksIn(request);
  if (RefusalOf(decisions.status()).reason() == v1::Refusal::QUARANTINED) {
    counts_.blocks_quarantined += BlocksIn(request);
    quarantine_.Add(request.header(), decisions.status().message());
  }
  return decisions;
}

void ShardContent::ApplyBlock(Slice* slice, int block, ChainReader* gradient) {
  Block& applied = slice->block(block);
  if (options_.spike_factor > 0 && slice->options().has_usual_size()) {
    ChainReader ahead = *gradient;
    const double square = optimizer_.ReadMeanSquare(&ahead, applied.elements());
    if (std::isfinite(square)) applied.gradient_rms().Add(square);
  }
  applied.Apply(optimizer_, gradient, &spare_,
                {.staleness = 0, .variable = slice->options()});
  ++counts_.blocks_applied;
}

void ShardContent::ApplyRows(Slice* slice, int block, uint32_t rows,
                             ChainReader* gradient) {
  ids_.Clear();
  const auto place = ids_.Read(*slice, block, rows, gradient);
  CHECK(place.ok(), "a chunk is checked before it is summed");
  ApplyRowsTo(&slice->block(block),
              {.staleness = 0, .variable = slice->options()}, *slice,
              ids_.At(*slice, *place, rows), gradient, &slice->table_counts());
  ++counts_.blocks_applied;
}

void ShardContent::Apply(const v1::PushRequest& request,
                         const Decision& decision, ChainReader* gradient) {
  const NumberFormat format = *FormatOf(request.encoding());
  const PushId push{request.header().worker(), request.header().generation(),
                    request.header().sequence()};
  Slice* const slice = decision.slice;
  const int index = decision.block;
  RowIds rows;
  if (slice->sparse()) {
    rows = ids_.At(*slice, decision.first_id, decision.rows);
  }
  Block& block = slice->block(index);
  const SnapshotFork::Twin twin =
      fork_.BeforeChange(request.header().snapshot(), *slice, index);
  if (twin.block != nullptr) {
    ChainReader again = *gradient;
    TableCounts of_the_copy;
    ApplyTo(twin.block, OptionsOf(decision, *twin.block), decision, rows,
            NumberReader(&again, format), &of_the_copy);
  }
  const auto staleness = StalenessOf(decision, block);
  if (staleness.has_value()) staleness_.Add(*staleness);
  ApplyTo(&block, OptionsOf(decision, block), decision, rows,
          NumberReader(gradient, format), &slice->table_counts());
  slice->applied().MarkApplied(push, index);
  if (twin.record != nullptr) twin.record->MarkApplied(push, index);
  ++counts_.blocks_applied;
}

ApplyOptions ShardContent::OptionsOf(const Decision& decision,
                                     const Block& block) const {
  return {.staleness = StalenessOf(decision, block).value_or(0),
          .variable = decision.slice->options()};
}

void ShardContent::ApplyTo(Block* block, const ApplyOptions& options,
                           const Decision& decision, const RowIds& rows,
                           const NumberReader& gradient, TableCounts* counts) {
  if (options.variable.sparse) {
    return ApplyRowsTo(block, options, *decision.slice, rows, gradient, counts);
  }
  if (options_.spike_factor > 0 && options.variable.has_usual_size()) {
    block->gradient_rms().Add(decision.mean_square);
  }
  block->Apply(optimizer_, gradient, &spare_, options);
}

void ShardContent::ApplyRowsTo(Block* block, const ApplyOptions& options,
                               const Slice& slice, const RowIds& rows,
                               const NumberReader& gradient,
                               TableCounts* counts) {
  const size_t width = slice.row_elements();
  if (!slice.keyed()) {
    return block->ApplyRows(optimizer_, {rows.numbers, width}, gradient,
                            &spare_, options);
  }
  const InitialValues initial(slice.variable(), seed_);
  block->ApplyKeys(optimizer_, {rows.keys, width, &initial},
                   KeyPolicyOf(slice.variable()), gradient, &spare_, options,
                   counts);
}

void ShardContent::DescribeTables(v1::ServerStats* stats) const {
  std::map<std::string, v1::TableStats> tables;
  for (Slice* const slice : owned_) {
    if (!slice->keyed()) continue;
    v1::TableStats& table = tables[slice->variable().name()];
    table.set_capacity(table.capacity() + CapacityOf(*slice));
    for (int b = 0; b < slice->block_count(); ++b) {
      table.set_rows(table.rows() +
                     slice->block(b).CountKeys(slice->row_elements()));
    }
    const TableCounts& counts = slice->table_counts();
    table.set_created(table.created() + counts.created);
    table.set_evicted(table.evicted() + counts.evicted);
    table.set_ignored(table.ignored() + counts.ignored);
    table.set_not_admitted(table.not_admitted() + counts.not_admitted);
    table.set_expired(table.expired() + counts.expired);
    table.set_looked_up(table.looked_up() + counts.looked_up);
    table.set_on_disk(table.on_disk() + counts.on_disk);
    table.set_memory_rows(table.memory_rows() + MemoryRowsOf(*slice));
  }
  for (auto& [name, table] : tables) {
    table.set_variable(name);
    *stats->add_tables() = std::move(table);
  }
}

void ShardContent::Describe(v1::ConfigureReply* reply) const {
  staleness_.Fill(reply->mutable_staleness());
  uint64_t most = 0;
  for (const Slice* const slice : owned_) {
    for (int b = 0; b < slice->block_count(); ++b) {
      most = std::max(most, slice->block(b).applied());
    }
  }
  reply->set_learning_rate(optimizer_.Rate(most));
}

// A read of other content (before a restore) says nothing.
absl::optional<uint64_t> ShardContent::StalenessOf(const Decision& decision,
                                                   const Block& block) const {
  if (decision.read_life != block.life() ||
      decision.read_counter > block.applied()) {
    return absl::nullopt;
  }
  return block.applied() - decision.read_counter;
}

absl::StatusOr<std::vector<ShardContent::Decision>> ShardContent::CheckPush(
    const v1::PushRequest& request, const BufferChain& payload) {
  ASSIGN_OR_RETURN(const NumberFormat format, FormatIn(request.encoding()));
  const PushId push{request.header().worker(), request.header().generation(),
                    request.header().sequence()};
  if (push.sequence == 0) {
    return Invalid("sequence", "push has sequence 0; the first one is 1");
  }
  const bool empty = request.step() > 0 && request.examples() == 0;
  ASSIGN_OR_RETURN(std::vector<Decision> decisions,
                   CheckBlocks(request, push, empty));
  if (const auto twice = NamedTwice(decisions); twice.has_value()) {
    const Decision& decision = decisions[*twice];
    return Invalid(decision.slice->variable().name(),
                   absl::StrCat("chunk names block ", decision.block, " of '",
                                decision.slice->TensorName(), "' twice"));
  }
  const size_t received = ChainSize(payload);
  // No further than that: counts that a peer made up may wrap in their sum.
  uint64_t bytes = 0;
  for (const Decision& decision : decisions) {
    bytes += decision.id_bytes() + decision.elements * BytesOf(format);
    if (bytes > received) break;
  }
  if (bytes != received) {
    return Invalid("payload",
                   absl::StrCat("chunk has ", received,
                                " bytes of gradient; its blocks have ", bytes));
  }
  if (!empty) RETURN_IF_ERROR(CheckNumbers(payload, format, &decisions));
  return decisions;
}

absl::StatusOr<std::vector<ShardContent::Decision>> ShardContent::CheckBlocks(
    const v1::PushRequest& request, const PushId& push, bool empty) const {
  std::vector<Decision> decisions;
  decisions.reserve(BlocksIn(request));
  for (const v1::PushBlock& block : request.blocks()) {
    ASSIGN_OR_RETURN(decisions.emplace_back(), CheckBlock(block, push, empty));
  }
  const v1::RowBlocks& rows = request.rows();
  RETURN_IF_ERROR(CheckColumns(rows));
  const v1::BlockVersions& read = request.rows_computed_on();
  if (read.lives_size() != read.counters_size() ||
      (read.lives_size() > 0 && read.lives_size() != rows.rows_size())) {
    return Invalid(
        "rows_computed_on",
        absl::StrCat("rows of ", rows.rows_size(), " blocks were computed on ",
                     read.lives_size(), " lives and ", read.counters_size(),
                     " counters: each block needs one of each, or none has"));
  }
  for (int i = 0; i < rows.rows_size(); ++i) {
    ASSIGN_OR_RETURN(decisions.emplace_back(),
                     CheckRows(request, i, push, empty));
  }
  return decisions;
}

absl::Status ShardContent::CheckNumbers(
    const BufferChain& payload, NumberFormat format,
    std::vector<Decision>* decisions) {
  ids_.Clear();
  ChainReader names(payload);
  ChainReader numbers(payload);
  Skip(IdBytes(*decisions), &numbers);
  const NumberReader gradient(&numbers, format);
  for (Decision& decision : *decisions) {
    const std::string& name = decision.slice->variable().name();
    const auto refuse = [&](absl::string_view what) {
      return Refuse(v1::Refusal::QUARANTINED, name,
                    absl::StrCat("gradient for '", name, "' ", what,
                                 " in block ", decision.block, " of '",
                                 decision.slice->TensorName(), "'"));
    };
    if (decision.rows > 0) {
      ASSIGN_OR_RETURN(decision.first_id,
                       ids_.Read(*decision.slice, decision.block,
                                 decision.rows, &names));
    }
    if (!IsFinite(gradient, &decision)) return refuse("is not finite");
    const GradientRms& running =
        decision.slice->block(decision.block).gradient_rms();
    // What is in already is acknowledged, whatever came since.
    if (decision.admission == AppliedPushes::Admission::kApply &&
        decision.slice->options().has_usual_size() &&
        running.IsSpike(decision.mean_square, options_.spike_factor)) {
      return refuse(absl::StrCat(
          "has a root mean square of ", std::sqrt(decision.mean_square),
          ", above ", options_.spike_factor, " times the running one of ",
          running.value(), ","));
    }
  }
  return absl::OkStatus();
}

// One pass in either case.
bool ShardContent::IsFinite(const NumberReader& gradient,
                            Decision* decision) const {
  const size_t elements = decision->elements;
  if (options_.spike_factor == 0) {
    return optimizer_.ReadFinite(gradient, elements);
  }
  decision->mean_square = optimizer_.ReadMeanSquare(gradient, elements);
  return std::isfinite(decision->mean_square);
}

absl::StatusOr<ShardContent::Decision> ShardContent::CheckBlock(
    const v1::PushBlock& block, const PushId& push, bool empty) const {
  ASSIGN_OR_RETURN(Slice* const slice, Find(block.slice(), block.block()));
  const int index = static_cast<int>(block.block());
  const std::string& name = slice->variable().name();
  if (slice->sparse()) {
    return Invalid(name, absl::StrCat("gradient for '", name,
                                      "' is of the whole block ", index,
                                      "; the variable is sparse: push rows"));
  }
  const size_t elements = empty ? 0 : slice->block_elements(index);
  if (block.elements() != elements) {
    return Invalid(name, absl::StrCat("gradient for '", name, "' has ",
                                      block.elements(), " values in block ",
                                      index, "; the block has ", elements));
  }
  ASSIGN_OR_RETURN(const auto admission, slice->applied().Admit(push, index));
  return Decision{.slice = slice,
                  .place = block.slice(),
                  .block = index,
                  .admission = admission,
                  .elements = elements,
                  .read_life = block.computed_on().life(),
                  .read_counter = block.computed_on().counter()};
}

absl::StatusOr<ShardContent::Decision> ShardContent::CheckRows(
    const v1::PushRequest& request, int which, const PushId& push,
    bool empty) const {
  const v1::RowBlocks& named = request.rows();
  const uint32_t block = named.blocks(which);
  const uint32_t rows = named.rows(which);
  ASSIGN_OR_RETURN(Slice* const slice, Find(named.slices(which), block));
  if (!slice->sparse()) return NotSparse(*slice, block);
  const std::string& name = slice->variable().name();
  if (rows > 0 && empty) {
    return Invalid(name, absl::StrCat("gradient for '", name, "' is of ", rows,
                                      " rows in block ", block,
                                      ", and of no examples"));
  }
  const int index = static_cast<int>(block);
  ASSIGN_OR_RETURN(const auto admission, slice->applied().Admit(push, index));
  Decision decision = {.slice = slice,
                       .place = named.slices(which),
                       .block = index,
                       .admission = admission,
                       .elements = rows * slice->row_elements(),
                       .rows = rows};
  if (request.rows_computed_on().lives_size() > 0) {
    decision.read_life = request.rows_computed_on().lives(which);
    decision.read_counter = request.rows_computed_on().counters(which);
  }
  return decision;
}

uint32_t ShardContent::Checksum() const {
  uint32_t sum = 0;
  for (const Slice* const slice : owned_) {
    for (int b = 0; b < slice->block_count(); ++b) {
      const Block& block = slice->block(b);
      const uint64_t applied = block.applied();
      sum = Crc32c(block.values().bytes(), sum);
      sum = Crc32c(block.slots().bytes(), sum);
      sum = Crc32c(AsBytes(absl::MakeConstSpan(&applied, 1)), sum);
    }
  }
  return sum;
}

}  // namespace paramd
