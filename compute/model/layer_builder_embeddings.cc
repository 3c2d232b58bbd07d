// Embeddings, and which tables they have.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "base/status_macros.h"
#include "compute/model/layer_builder.h"
#include "tensor/keyed_rows.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

// Values of a table for keys: with slots some ten terabytes, more than a
// manifest can name. The layout of more takes minutes and the chief's memory.
constexpr uint64_t kMaxKeyedSize = uint64_t{1} << 40;

// Without a key, where not all rows lie in memory: a quarter of those that do,
// in each bucket.
uint64_t SpareRows(uint64_t memory_rows,
                   const v1::Layer::Embedding& embedding) {
  if (memory_rows == 0) return 0;
  const uint64_t buckets =
      embedding.capacity() / BucketRows(embedding.width()) + 2;
  return memory_rows / 4 + buckets;
}

}  // namespace

absl::Status LayerBuilder::CheckKeys(const v1::Layer::Embedding& embedding) {
  const auto refuse = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("embedding layer '", last_, "' has ", what));
  };
  const bool keys = read_.bound == kAnyKey;
  if (embedding.capacity() == 0) {
    const absl::string_view lone =
        embedding.when_full() == v1::Variable::IGNORE ? "when_full"
        : embedding.admit_after() > 1                 ? "admit_after"
        : embedding.expire_after() > 0                ? "expire_after"
        : embedding.memory_rows() > 0                 ? "memory_rows"
        : embedding.row_format() == v1::Variable::ROW_FORMAT_BF16
            ? "row_format bf16"
            : "";
    if (!lone.empty()) {
      return refuse(absl::StrCat(lone, ", which needs a capacity"));
    }
    if (!keys) return absl::OkStatus();
    return Wants(
        "a capacity, for keys, or integers below a number that the "
        "input states",
        "set its capacity, or hash the keys by csv.hash_buckets");
  }
  if (!embedding.sparse()) {
    return refuse("a capacity, which needs \"sparse\": true");
  }
  if (embedding.rows() > 0) {
    return refuse(
        "both rows and a capacity; leave out rows for keys of any "
        "number, or the capacity");
  }
  if (keys) return absl::OkStatus();
  return Wants("keys of type int64 for its capacity",
               "take them whole, by csv.hash_keys, or give it rows");
}

absl::StatusOr<Embedding::Table> LayerBuilder::TableOf(
    const v1::Layer::Embedding& embedding) {
  RETURN_IF_ERROR(CheckKeys(embedding));
  Embedding::Table table{.width = embedding.width(),
                         .sparse = embedding.sparse()};
  if (embedding.capacity() > 0) {
    RETURN_IF_ERROR(CheckSparseShape({embedding.capacity(), table.width}));
    if (embedding.capacity() > kMaxKeyedSize / table.width) {
      return absl::InvalidArgumentError(absl::StrCat(
          "embedding layer '", last_, "' has a capacity of ",
          embedding.capacity(), " rows of ", table.width, " values; at most ",
          kMaxKeyedSize / table.width, " rows are possible"));
    }
    table.keyed = true;
    table.memory_rows = embedding.memory_rows() < embedding.capacity()
                            ? embedding.memory_rows()
                            : 0;
    table.rows = RowsForKeys(
        embedding.capacity() + SpareRows(table.memory_rows, embedding),
        table.width);
    table.when_full = embedding.when_full() == v1::Variable::IGNORE
                          ? v1::Variable::IGNORE
                          : v1::Variable::EVICT;
    table.admit_after = embedding.admit_after();
    table.expire_after = embedding.expire_after();
    table.row_format = embedding.row_format();
    RETURN_IF_ERROR(ToRowShape({table.rows, table.width}).status());
    return table;
  }
  table.rows = embedding.rows() == 0 ? read_.bound : embedding.rows();
  if (table.rows < read_.bound) {
    return Wants(absl::StrCat("integers below its ", table.rows, " rows"),
                 absl::StrCat("they are below ", read_.bound));
  }
  if (table.width == 0 || !Fits({table.rows, table.width})) {
    return absl::InvalidArgumentError(absl::StrCat(
        "embedding layer '", last_, "' of ", table.rows, " rows of ",
        table.width, " values must have from 1 to ", kMaxSize - 1, " of them"));
  }
  if (table.sparse) {
    RETURN_IF_ERROR(CheckSparseShape({table.rows, table.width}));
  }
  return table;
}

LayerBuilder::Made LayerBuilder::MakeEmbedding(
    const v1::Layer::Embedding& embedding) {
  std::string name = NameOf("embedding", embedding.name());
  if (!integers()) {
    return Wants("integers below a number that the input states");
  }
  ASSIGN_OR_RETURN(Embedding::Table table, TableOf(embedding));
  // What evaluates reads rows of keys, and other tables whole.
  if (table.sparse && keyed_.value_or(table.keyed) != table.keyed) {
    return absl::InvalidArgumentError(absl::StrCat(
        "embedding layer '", last_, "' has ",
        table.keyed ? "a capacity, and another sparse one has rows"
                    : "rows, and another sparse one has a capacity",
        "; either all sparse ones of a model have a capacity, or none"));
  }
  if (table.sparse) keyed_ = table.keyed;
  if (!Fits({SizeOf(dims_), table.width})) {
    return absl::InvalidArgumentError(absl::StrCat(
        "embedding layer '", last_, "' gives ", DimsText(dims_), " times ",
        table.width, " values; at most ", kMaxSize - 1, " are possible"));
  }
  table.number = needs_.lookups.size();
  table.padding = embedding.padding();
  auto made = std::make_unique<Embedding>(std::move(name), dims_, table);
  needs_.lookups.push_back({.table = made->variables()[0].name(),
                            .input = read_.input,
                            .first = read_.first,
                            .count = SizeOf(dims_),
                            .padding = table.padding});
  return made;
}

LayerBuilder::Made LayerBuilder::MakePositionalEmbedding(
    const v1::Layer::PositionalEmbedding& embedding) {
  std::string name = NameOf("positional_embedding", embedding.name());
  RETURN_IF_ERROR(CheckNumbers("positional_embedding"));
  if (dims_.size() != 2) return Wants("a sequence [places, values]");
  return std::make_unique<PositionalEmbedding>(std::move(name), dims_);
}

}  // namespace paramd
