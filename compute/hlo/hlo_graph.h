#ifndef PARAMD_COMPUTE_HLO_HLO_GRAPH_H_
#define PARAMD_COMPUTE_HLO_HLO_GRAPH_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "tensor/tensor.h"

namespace paramd {

// What a value of a program is made of.
enum class HloElement : uint8_t { kF32, kBF16, kS32, kU32, kU64, kPred };

struct HloType {
  HloElement element = HloElement::kF32;
  Dims dims = {};

  // "tensor<2x3xf32>".
  std::string text() const;
};

class HloGraph;

// A value of a program that is being written. A view: its graph outlives it.
struct HloValue {
  HloGraph* graph = nullptr;  // Null: there is none.
  int id = -1;

  const HloType& type() const;
  const Dims& dims() const { return type().dims; }
  bool exists() const { return graph != nullptr; }
};

// A program as StableHLO has it (openxla.org/stablehlo/spec): parameters, and
// operations on values that were there before. An operation may bring the rule
// of its derivative, and Gradients adds those that a result needs, in reverse
// mode (Griewank and Walther, "Evaluating Derivatives", chapter 3). The
// functions in hlo_ops.h are what operations are written with.
//
// Not thread-safe.
class HloGraph {
 public:
  // By each operand, in order, from the gradient by the value; one that does
  // not exist: the value does not depend on that operand, so far as is wanted.
  using Vjp = std::function<std::vector<HloValue>(HloValue gradient)>;

  struct Operation {
    std::string name;  // "add"
    std::vector<HloValue> operands;
    HloType type;
    // "dimensions = array<i64: 0>", and what stands between ( and ) after
    // them.
    std::string attributes = {};
    std::string regions = {};
  };

  HloGraph() = default;
  HloGraph(const HloGraph&) = delete;
  HloGraph& operator=(const HloGraph&) = delete;

  // What products and convolutions, which add in f32, take their operands as.
  void set_operands(HloElement element) { operands_ = element; }
  HloElement operands() const { return operands_; }

  // The next parameter of the program.
  HloValue Parameter(HloType type);
  // `vjp` null: nothing is passed on to the operands.
  HloValue Add(Operation operation, Vjp vjp = nullptr);
  // The same value, whose gradient goes to these operands by this rule,
  // whatever it was computed from.
  HloValue WithVjp(HloValue value, std::vector<HloValue> operands, Vjp vjp);

  // By each of `inputs` the derivative of what has `gradient` as its derivative
  // by `output`; zeros by one that `output` does not depend on.
  std::vector<HloValue> Gradients(HloValue output, HloValue gradient,
                                  absl::Span<const HloValue> inputs);

  // A module whose main takes all parameters and gives these results. What they
  // don't need is left out.
  std::string Text(absl::Span<const HloValue> results) const;

  const HloType& TypeOf(HloValue value) const;
  // Of the parameters, in order.
  std::vector<HloType> parameters() const;

 private:
  struct Node {
    Operation operation;
    Vjp vjp = nullptr;
    int parameter = -1;  // Its number, if it is one.
    int same_as = -1;    // The node that computes it, if it is another one.
  };

  HloValue AddNode(Node node);
  // Which nodes these results are computed from, themselves among them.
  std::vector<bool> NeededBy(absl::Span<const HloValue> results) const;
  // Which nodes depend on one of these, by operands.
  std::vector<bool> DependingOn(absl::Span<const HloValue> inputs) const;
  // "%7", "%arg0".
  std::string NameOf(int id) const;
  void AppendOperation(int id, std::string* text) const;

  HloElement operands_ = HloElement::kF32;
  std::deque<Node> nodes_;  // Views of types stay.
  std::vector<int> parameters_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_HLO_HLO_GRAPH_H_
