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
absl::optional<int> NamedTwice(const v1::PushRequest& request) {
  const auto id = [](const v1::PushBlock& block) {
    return uint64_t{block.slice()} << 32 | block.block();
  };
  const auto& blocks = request.blocks();
  const auto unordered = std::adjacent_find(
      blocks.begin(), blocks.end(),
      [&](const auto& one, const auto& next) { return id(one) >= id(next); });
  if (unordered == blocks.end()) return absl::nullopt;
  absl::flat_hash_set<uint64_t> seen;
  for (int i = 0; i < blocks.size(); ++i) {
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

void Skip(size_t bytes, ChainReader* reader) {
  while (bytes > 0) bytes -= reader->Next(bytes).size();
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
                                const BufferChain& rows, v1::PullReply* reply,
                                BufferChain* payload) {
  ASSIGN_OR_RETURN(const NumberFormat format, FormatIn(request.encoding()));
  if (options_.disk != nullptr && options_.disk->WaitsLately()) {
    ReadAhead(request, rows);
  }
  ChainReader row_numbers(rows);
  uint64_t bytes = kHeadBytesPerBlock;
  const auto check_length = [&](uint64_t length) {
    if (length <= options_.max_reply_bytes) return absl::OkStatus();
    return Refuse(v1::Refusal::OVER_LIMIT, "pull",
                  absl::StrCat("the ", request.blocks_size(),
                               " blocks of this pull have more than ",
                               options_.max_reply_bytes,
                               " bytes; pull fewer at a time"));
  };
  reply->mutable_blocks()->Reserve(request.blocks_size());
  payload->reserve(request.blocks_size());
  for (const v1::PullBlock& wanted : request.blocks()) {
    ASSIGN_OR_RETURN(Slice* const slice, Find(wanted.slice(), wanted.block()));
    const int index = static_cast<int>(wanted.block());
    const Block& block = slice->block(index);
    const v1::BlockVersion version = block.version();
    v1::PulledBlock* const pulled = reply->add_blocks();
    pulled->set_slice(wanted.slice());
    pulled->set_block(wanted.block());
    *pulled->mutable_version() = version;
    bytes += kHeadBytesPerBlock;
    if (wanted.rows() > 0) {
      ASSIGN_OR_RETURN(
          const RowIds named,
          ReadRowIds(*slice, index, wanted.rows(), &row_numbers));
      const uint64_t elements = wanted.rows() * slice->row_elements();
      RETURN_IF_ERROR(check_length(bytes + elements * BytesOf(format)));
      pulled->set_elements(static_cast<uint32_t>(elements));
      ASSIGN_OR_RETURN(Buffer encoded, CopyRows(slice, index, named, format));
      payload->push_back(std::move(encoded));
      bytes += payload->back().size();
    } else if (wanted.known().life() != version.life() ||
               wanted.known().counter() != version.counter()) {
      pulled->set_elements(static_cast<uint32_t>(block.elements()));
      ASSIGN_OR_RETURN(Buffer encoded, Encode(block.values(), format));
      payload->push_back(std::move(encoded));
      bytes += payload->back().size();
    }
    RETURN_IF_ERROR(check_length(bytes));
  }
  if (row_numbers.remaining() > 0) {
    return Invalid("payload",
                   absl::StrCat("pull has ", row_numbers.remaining(),
                                " bytes behind the rows that it names"));
  }
  reply->set_encoding(request.encoding());
  ++counts_.pulls;
  return absl::OkStatus();
}

// What makes no sense is left for Pull to refuse.
void ShardContent::ReadAhead(const v1::PullRequest& request,
                             const BufferChain& rows) {
  ChainReader reader(rows);
  std::vector<absl::Span<const std::byte>> pieces;
  for (const v1::PullBlock& wanted : request.blocks()) {
    if (wanted.rows() == 0) continue;
    const auto slice = Find(wanted.slice(), wanted.block());
    if (!slice.ok()) return;
    const int index = static_cast<int>(wanted.block());
    const auto named = ReadRowIds(**slice, index, wanted.rows(), &reader);
    if (!named.ok()) return;
    if ((*slice)->placement().fast_rows == 0) continue;
    (*slice)->block(index).AddSlowRows({named->keys, (*slice)->row_elements()},
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

absl::StatusOr<Buffer> ShardContent::CopyRows(Slice* slice, int block,
                                              const RowIds& rows,
                                              NumberFormat format) {
  const size_t width = slice->row_elements();
  ASSIGN_OR_RETURN(Buffer copy,
                   AllocateReply((rows.numbers.size() + rows.keys.size()) *
                                 width * sizeof(float)));
  auto* const out = reinterpret_cast<float*>(copy.mutable_bytes().data());
  if (slice->keyed()) {
    const InitialValues initial(slice->variable(), seed_);
    slice->block(block).CopyKeys({rows.keys, width, &initial}, out,
                                 &slice->table_counts());
  } else {
    slice->block(block).CopyRows({rows.numbers, width}, out);
  }
  return Encode(copy, format);
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
  if (memory == nullptr || memory->Fits(needed())) return absl::OkStatus();
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
    counts_.blocks_refused += request.blocks_size();
    return Invalid("step", absl::StrCat("push is of step ", request.step(),
                                        "; only mode sync has steps"));
  }
  const auto decisions = Check(request, payload);
  if (!decisions.ok()) return decisions.status();
  fork_.Hear(request.header().snapshot());
  RETURN_IF_ERROR(MakeRoom(
      "a push", [&] { return BytesToApply(request, *decisions); }));
  ChainReader gradient(payload);
  const size_t element_bytes = BytesOf(*FormatOf(request.encoding()));
  reply->mutable_blocks()->Reserve(request.blocks_size());
  for (int i = 0; i < request.blocks_size(); ++i) {
    const Decision& decision = (*decisions)[i];
    const auto& [slice, index, admission, rows, mean_square] = decision;
    const Block& block = slice->block(index);
    v1::PushedBlock* const pushed = reply->add_blocks();
    pushed->set_slice(request.blocks(i).slice());
    pushed->set_block(index);
    if (admission == AppliedPushes::Admission::kApply) {
      Apply(request, request.blocks(i), decision, &gradient);
      pushed->set_result(v1::PushedBlock::APPLIED);
    } else {
      Skip(rows * slice->row_id_bytes() + decision.elements() * element_bytes,
           &gradient);
      const bool superseded =
          admission == AppliedPushes::Admission::kSuperseded;
      pushed->set_result(superseded ? v1::PushedBlock::SUPERSEDED
                                    : v1::PushedBlock::ALREADY_APPLIED);
      ++counts_.blocks_repeated;
    }
    *pushed->mutable_version() = block.version();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ShardContent::Decision>> ShardContent::Check(
    const v1::PushRequest& request, const BufferChain& payload) {
  auto decisions = CheckPush(request, payload);
  if (decisions.ok()) return decisions;
  counts_.blocks_refused += request.blocks_size();
  if (RefusalOf(decisions.status()).reason() == v1::Refusal::QUARANTINED) {
    counts_.blocks_quarantined += request.blocks_size();
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
  const auto ids = ReadRowIds(*slice, block, rows, gradient);
  CHECK(ids.ok(), "a chunk is checked before it is summed");
  ApplyRowsTo(&slice->block(block),
              {.staleness = 0, .variable = slice->options()}, *slice, *ids,
              gradient, &slice->table_counts());
  ++counts_.blocks_applied;
}

void ShardContent::Apply(const v1::PushRequest& request,
                         const v1::PushBlock& pushed, const Decision& decision,
                         ChainReader* gradient) {
  const NumberFormat format = *FormatOf(request.encoding());
  const PushId push{request.header().worker(), request.header().generation(),
                    request.header().sequence()};
  Slice* const slice = decision.slice;
  const int index = decision.block;
  RowIds rows;
  rows.numbers.resize(slice->keyed() ? 0 : decision.rows);
  rows.keys.resize(slice->keyed() ? decision.rows : 0);
  CHECK(gradient->Read(AsWritableBytes(absl::MakeSpan(rows.numbers))) &&
            gradient->Read(AsWritableBytes(absl::MakeSpan(rows.keys))),
        "the payload's size was checked against the blocks");
  Block& block = slice->block(index);
  const SnapshotFork::Twin twin =
      fork_.BeforeChange(request.header().snapshot(), *slice, index);
  if (twin.block != nullptr) {
    ChainReader again = *gradient;
    TableCounts of_the_copy;
    ApplyTo(twin.block, OptionsOf(pushed, *slice, *twin.block), decision, rows,
            NumberReader(&again, format), &of_the_copy);
  }
  const auto staleness = StalenessOf(pushed, block);
  if (staleness.has_value()) staleness_.Add(*staleness);
  ApplyTo(&block, OptionsOf(pushed, *slice, block), decision, rows,
          NumberReader(gradient, format), &slice->table_counts());
  slice->applied().MarkApplied(push, index);
  if (twin.record != nullptr) twin.record->MarkApplied(push, index);
  ++counts_.blocks_applied;
}

ApplyOptions ShardContent::OptionsOf(const v1::PushBlock& pushed,
                                     const Slice& slice,
                                     const Block& block) const {
  return {.staleness = StalenessOf(pushed, block).value_or(0),
          .variable = slice.options()};
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
absl::optional<uint64_t> ShardContent::StalenessOf(const v1::PushBlock& pushed,
                                                   const Block& block) const {
  const v1::BlockVersion version = block.version();
  const v1::BlockVersion& read = pushed.computed_on();
  if (read.life() != version.life() || read.counter() > version.counter()) {
    return absl::nullopt;
  }
  return version.counter() - read.counter();
}

absl::StatusOr<std::vector<ShardContent::Decision>> ShardContent::CheckPush(
    const v1::PushRequest& request, const BufferChain& payload) const {
  ASSIGN_OR_RETURN(const NumberFormat format, FormatIn(request.encoding()));
  const PushId push{request.header().worker(), request.header().generation(),
                    request.header().sequence()};
  if (push.sequence == 0) {
    return Invalid("sequence", "push has sequence 0; the first one is 1");
  }
  const bool empty = request.step() > 0 && request.examples() == 0;
  std::vector<Decision> decisions;
  decisions.reserve(request.blocks_size());
  uint64_t bytes = 0;
  for (const v1::PushBlock& block : request.blocks()) {
    ASSIGN_OR_RETURN(const Decision decision, CheckBlock(block, push, empty));
    decisions.push_back(decision);
    bytes += block.rows() * decision.slice->row_id_bytes() +
             block.elements() * BytesOf(format);
  }
  if (const auto twice = NamedTwice(request); twice.has_value()) {
    const Decision& decision = decisions[*twice];
    return Invalid(decision.slice->variable().name(),
                   absl::StrCat("chunk names block ", decision.block, " of '",
                                decision.slice->TensorName(), "' twice"));
  }
  const size_t received = ChainSize(payload);
  if (bytes != received) {
    return Invalid("payload",
                   absl::StrCat("chunk has ", received,
                                " bytes of gradient; its blocks have ", bytes));
  }
  if (!empty) RETURN_IF_ERROR(CheckNumbers(payload, format, &decisions));
  return decisions;
}

absl::Status ShardContent::CheckNumbers(
    const BufferChain& payload, NumberFormat format,
    std::vector<Decision>* decisions) const {
  ChainReader chain(payload);
  const NumberReader gradient(&chain, format);
  for (Decision& decision : *decisions) {
    const std::string& name = decision.slice->variable().name();
    const auto refuse = [&](absl::string_view what) {
      return Refuse(v1::Refusal::QUARANTINED, name,
                    absl::StrCat("gradient for '", name, "' ", what,
                                 " in block ", decision.block, " of '",
                                 decision.slice->TensorName(), "'"));
    };
    if (decision.rows > 0) {
      RETURN_IF_ERROR(ReadRowIds(*decision.slice, decision.block,
                                 decision.rows, &chain)
                          .status());
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
  const size_t elements = decision->elements();
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
  if (block.rows() > 0 && (empty || !slice->sparse())) {
    return Invalid(name, absl::StrCat("gradient for '", name, "' is of ",
                                      block.rows(), " rows in block ", index,
                                      empty ? ", and of no examples"
                                            : "; the variable is not sparse"));
  }
  const size_t elements = empty             ? 0
                          : slice->sparse() ? block.rows() * slice->row_elements()
                                            : slice->block_elements(index);
  if (block.elements() != elements) {
    return Invalid(name, absl::StrCat("gradient for '", name, "' has ",
                                      block.elements(), " values in block ",
                                      index, "; the block has ", elements));
  }
  ASSIGN_OR_RETURN(const auto admission, slice->applied().Admit(push, index));
  return Decision{slice, index, admission, block.rows(), /*mean_square=*/0};
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
