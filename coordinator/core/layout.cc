#include "coordinator/core/layout.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "config/optimizer_groups.h"
#include "tensor/keyed_rows.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

constexpr size_t kMaxVariables = 1000000;
constexpr size_t kMaxNameBytes = 512;
// The server with the fewest bytes has at most its share, so one more slice
// takes it at most a quarter above.
constexpr uint64_t kSlicesInAShare = 4;
// What a slice costs (its record of pushes, its place in every request) does
// not depend on its length.
constexpr uint64_t kLeastSliceBytes = uint64_t{16} << 10;

absl::Status CheckVariable(const v1::Variable& variable) {
  if (variable.name().empty() || variable.name().size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a variable's name has ", variable.name().size(),
                     " bytes; it needs 1 to ", kMaxNameBytes));
  }
  if (variable.dtype() != v1::FLOAT32) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable '", variable.name(), "' is not float32"));
  }
  return absl::OkStatus();
}

absl::Status CheckSparse(const v1::Variable& variable, const RowShape& shape) {
  if (variable.sparse()) {
    RETURN_IF_ERROR(CheckSparseShape(variable.shape()));
    return variable.keyed() ? CheckKeyedRows(shape.rows, shape.row_elements)
                            : absl::OkStatus();
  }
  if (!variable.keyed()) return absl::OkStatus();
  return absl::InvalidArgumentError("a keyed variable must be sparse, too");
}

uint64_t LongestSlice(const std::vector<RowShape>& shapes, uint32_t servers) {
  if (servers == 1) return kSliceBytes;
  const uint64_t pieces = kSlicesInAShare * servers;
  uint64_t bytes = 0;
  for (const RowShape& shape : shapes) {
    // A model of 2^64 bytes is possible; its sum would not be.
    bytes = std::min(pieces * kSliceBytes,
                     bytes + shape.rows * shape.row_elements * sizeof(float));
  }
  return std::clamp(bytes / pieces, std::min(kLeastSliceBytes, kSliceBytes),
                    kSliceBytes);
}

// The fewest rows that are whole blocks; as many as a slice of one server has
// if blocks begin amid rows.
uint64_t RowsOfBlocks(const RowShape& shape) {
  const uint64_t rows =
      kMaxBlockElements / std::gcd(kMaxBlockElements, shape.row_elements);
  const uint64_t alone = MostSliceRows(/*sparse=*/false, shape.row_elements);
  return alone % rows == 0 ? rows : alone;
}

// A keyed variable's slices are whole buckets: which keys are together does not
// depend on the number of servers. What is of a sparse variable is of a row.
uint64_t RowsOfPiece(const v1::Variable& variable, const RowShape& shape,
                     Pieces pieces) {
  if (variable.keyed()) return BucketRows(shape.row_elements);
  return pieces == Pieces::kRows || variable.sparse() ? 1 : RowsOfBlocks(shape);
}

void CutIntoSlices(const RowShape& shape, uint64_t rows, uint32_t index,
                   v1::Layout* layout) {
  for (uint64_t begin = 0; begin < shape.rows; begin += rows) {
    v1::Slice* slice = layout->add_slices();
    slice->set_variable(index);
    slice->set_row_begin(begin);
    slice->set_row_end(std::min(shape.rows, begin + rows));
  }
}

void GiveToServers(const std::vector<RowShape>& shapes, uint32_t servers,
                   v1::Layout* layout) {
  const auto bytes = [&](int s) {
    const v1::Slice& slice = layout->slices(s);
    return (slice.row_end() - slice.row_begin()) *
           shapes[slice.variable()].row_elements;
  };
  std::vector<int> order(layout->slices_size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return bytes(a) > bytes(b); });
  std::vector<uint64_t> load(servers, 0);
  for (const int s : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += bytes(s);
    layout->mutable_slices(s)->set_server(
        static_cast<uint32_t>(least - load.begin()));
  }
}

}  // namespace

Pieces PiecesOf(const v1::JobConfig& job) {
  const bool has_norms =
      job.optimizer().clip_norm() > 0 || UsesLamb(job.optimizer());
  return has_norms || job.spike_factor() > 0 ? Pieces::kBlocks : Pieces::kRows;
}

absl::StatusOr<v1::Layout> PlanLayout(
    const std::vector<v1::Variable>& variables, uint32_t servers,
    Pieces pieces) {
  if (variables.size() > kMaxVariables) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model has ", variables.size(), " variables; at most ",
                     kMaxVariables, " are supported"));
  }
  v1::Layout layout;
  std::vector<RowShape> shapes;
  absl::flat_hash_set<std::string> names;
  for (const v1::Variable& variable : variables) {
    RETURN_IF_ERROR(CheckVariable(variable));
    if (!names.insert(variable.name()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two variables are named '", variable.name(), "'"));
    }
    const auto shape = ToRowShape(variable.shape());
    if (!shape.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "variable '", variable.name(), "': ", shape.status().message()));
    }
    const absl::Status sparse = CheckSparse(variable, *shape);
    if (!sparse.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("variable '", variable.name(), "': ", sparse.message()));
    }
    shapes.push_back(*shape);
    *layout.add_variables() = variable;
  }
  const uint64_t longest = LongestSlice(shapes, servers);
  for (uint32_t v = 0; v < shapes.size(); ++v) {
    const uint64_t piece = RowsOfPiece(variables[v], shapes[v], pieces);
    const uint64_t most =
        std::min(RowsThatFit(longest, shapes[v].row_elements),
                 MostSliceRows(variables[v].sparse(), shapes[v].row_elements));
    const uint64_t count = std::max<uint64_t>(1, most / piece);
    CutIntoSlices(shapes[v], count * piece, v, &layout);
  }
  GiveToServers(shapes, servers, &layout);
  return layout;
}

uint64_t ValueBytes(const v1::Variable& variable) {
  return variable.row_format() == v1::Variable::ROW_FORMAT_BF16
             ? sizeof(uint16_t)
             : sizeof(float);
}

std::vector<uint64_t> BytesOfServers(const v1::Layout& layout,
                                     uint32_t servers) {
  std::vector<uint64_t> bytes(servers, 0);
  for (const v1::Slice& slice : layout.slices()) {
    const v1::Variable& variable =
        layout.variables(static_cast<int>(slice.variable()));
    const auto shape = ToRowShape(variable.shape());
    CHECK(shape.ok(), "the layout was planned from valid shapes");
    bytes[slice.server()] += (slice.row_end() - slice.row_begin()) *
                             shape->row_elements * ValueBytes(variable);
  }
  return bytes;
}

std::string BalanceText(const v1::Layout& layout, uint32_t servers) {
  const std::vector<uint64_t> bytes = BytesOfServers(layout, servers);
  const auto most = std::max_element(bytes.begin(), bytes.end());
  const uint64_t all = std::accumulate(bytes.begin(), bytes.end(), uint64_t{0});
  return absl::StrFormat(
      "the layout has %d slices with %d bytes of values on %d servers; ps-%d "
      "has the most, %.2f times its share",
      layout.slices_size(), all, servers, most - bytes.begin(),
      static_cast<double>(*most) * servers / static_cast<double>(all));
}

}  // namespace paramd
