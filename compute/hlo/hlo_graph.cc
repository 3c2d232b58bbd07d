#include "compute/hlo/hlo_graph.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/check.h"
#include "compute/hlo/hlo_ops.h"

namespace paramd {
namespace {

const char* NameOf(HloElement element) {
  switch (element) {
    case HloElement::kF32:
      return "f32";
    case HloElement::kBF16:
      return "bf16";
    case HloElement::kS32:
      return "i32";
    case HloElement::kU32:
      return "ui32";
    case HloElement::kU64:
      return "ui64";
    case HloElement::kPred:
      return "i1";
  }
  return "?";
}

void AppendType(std::string* out, const HloType& type) {
  absl::StrAppend(out, type.text());
}

}  // namespace

std::string HloType::text() const {
  std::string text = "tensor<";
  for (const uint64_t dim : dims) absl::StrAppend(&text, dim, "x");
  return absl::StrCat(text, NameOf(element), ">");
}

const HloType& HloValue::type() const { return graph->TypeOf(*this); }

HloValue HloGraph::AddNode(Node node) {
  nodes_.push_back(std::move(node));
  return {this, static_cast<int>(nodes_.size()) - 1};
}

HloValue HloGraph::Parameter(HloType type) {
  Node node;
  node.operation.type = std::move(type);
  node.parameter = static_cast<int>(parameters_.size());
  const HloValue value = AddNode(std::move(node));
  parameters_.push_back(value.id);
  return value;
}

HloValue HloGraph::Add(Operation operation, Vjp vjp) {
  for (const HloValue operand : operation.operands) {
    CHECK(operand.graph == this, "operands are of the same program");
  }
  Node node;
  node.operation = std::move(operation);
  node.vjp = std::move(vjp);
  return AddNode(std::move(node));
}

HloValue HloGraph::WithVjp(HloValue value, std::vector<HloValue> operands,
                           Vjp vjp) {
  Node node;
  node.operation.type = value.type();
  node.operation.operands = std::move(operands);
  node.vjp = std::move(vjp);
  node.same_as = value.id;
  return AddNode(std::move(node));
}

const HloType& HloGraph::TypeOf(HloValue value) const {
  return nodes_[value.id].operation.type;
}

std::vector<HloType> HloGraph::parameters() const {
  std::vector<HloType> types;
  for (const int id : parameters_) types.push_back(nodes_[id].operation.type);
  return types;
}

std::vector<bool> HloGraph::DependingOn(
    absl::Span<const HloValue> inputs) const {
  std::vector<bool> depends(nodes_.size());
  for (const HloValue input : inputs) depends[input.id] = true;
  for (size_t id = 0; id < nodes_.size(); ++id) {
    if (nodes_[id].vjp == nullptr) continue;
    for (const HloValue operand : nodes_[id].operation.operands) {
      if (depends[operand.id]) depends[id] = true;
    }
  }
  return depends;
}

std::vector<HloValue> HloGraph::Gradients(HloValue output, HloValue gradient,
                                          absl::Span<const HloValue> inputs) {
  const std::vector<bool> wanted = DependingOn(inputs);
  std::vector<HloValue> by(output.id + 1);
  by[output.id] = gradient;
  // Operands have lower numbers than what is computed from them.
  for (int id = output.id; id >= 0; --id) {
    if (!by[id].exists() || !wanted[id] || nodes_[id].vjp == nullptr) continue;
    const std::vector<HloValue> parts = nodes_[id].vjp(by[id]);
    const std::vector<HloValue> operands = nodes_[id].operation.operands;
    CHECK(parts.size() == operands.size(), "there is a part by each operand");
    for (size_t i = 0; i < parts.size(); ++i) {
      const int operand = operands[i].id;
      if (!parts[i].exists() || !wanted[operand]) continue;
      by[operand] =
          by[operand].exists() ? hlo::Add(by[operand], parts[i]) : parts[i];
    }
  }
  std::vector<HloValue> gradients;
  for (const HloValue input : inputs) {
    const bool reached =
        input.id < static_cast<int>(by.size()) && by[input.id].exists();
    gradients.push_back(reached ? by[input.id] : hlo::FilledLike(input, 0));
  }
  return gradients;
}

std::vector<bool> HloGraph::NeededBy(absl::Span<const HloValue> results) const {
  std::vector<bool> needed(nodes_.size());
  for (const HloValue result : results) needed[result.id] = true;
  for (size_t id = nodes_.size(); id-- > 0;) {
    if (!needed[id]) continue;
    const Node& node = nodes_[id];
    if (node.same_as >= 0) {
      needed[node.same_as] = true;
      continue;
    }
    for (const HloValue operand : node.operation.operands) {
      needed[operand.id] = true;
    }
  }
  return needed;
}

std::string HloGraph::NameOf(int id) const {
  const Node& node = nodes_[id];
  if (node.same_as >= 0) return NameOf(node.same_as);
  if (node.parameter >= 0) return absl::StrCat("%arg", node.parameter);
  return absl::StrCat("%", id);
}

void HloGraph::AppendOperation(int id, std::string* text) const {
  const Operation& operation = nodes_[id].operation;
  const auto names = [this](std::string* out, HloValue value) {
    absl::StrAppend(out, NameOf(value.id));
  };
  const auto types = [](std::string* out, HloValue value) {
    AppendType(out, value.type());
  };
  absl::StrAppend(text, "    ", NameOf(id), " = \"stablehlo.", operation.name,
                  "\"(", absl::StrJoin(operation.operands, ", ", names), ")");
  if (!operation.attributes.empty()) {
    absl::StrAppend(text, " <{", operation.attributes, "}>");
  }
  if (!operation.regions.empty()) {
    absl::StrAppend(text, " (", operation.regions, ")");
  }
  absl::StrAppend(text, " : (", absl::StrJoin(operation.operands, ", ", types),
                  ") -> ", operation.type.text(), "\n");
}

std::string HloGraph::Text(absl::Span<const HloValue> results) const {
  const std::vector<bool> needed = NeededBy(results);
  std::string parameters;
  for (const int id : parameters_) {
    absl::StrAppend(&parameters, parameters.empty() ? "" : ", ", NameOf(id),
                    ": ", nodes_[id].operation.type.text());
  }
  const auto types = [](std::string* out, HloValue value) {
    AppendType(out, value.type());
  };
  const std::string given = absl::StrJoin(results, ", ", types);
  std::string text = absl::StrCat("module @paramd {\n  func.func public @main(",
                                  parameters, ") -> (", given, ") {\n");
  for (size_t id = 0; id < nodes_.size(); ++id) {
    const Node& node = nodes_[id];
    if (!needed[id] || node.parameter >= 0 || node.same_as >= 0) continue;
    AppendOperation(static_cast<int>(id), &text);
  }
  const std::string names =
      absl::StrJoin(results, ", ", [this](std::string* out, HloValue value) {
        absl::StrAppend(out, NameOf(value.id));
      });
  return absl::StrCat(text, "    return ", names, " : ", given, "\n  }\n}\n");
}

}  // namespace paramd
