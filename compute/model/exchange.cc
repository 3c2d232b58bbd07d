#include "compute/model/exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "compute/model/in_batch.h"

namespace paramd {
namespace {

// In a trace.
constexpr char kWeights[] = "weights";
constexpr char kGradients[] = "gradients";
constexpr char kZeros[] = "zeros";
constexpr char kInput[] = "batch";
constexpr char kAhead[] = "batch ahead";
constexpr char kOffsets[] = "offsets";
constexpr char kLabels[] = "labels";
constexpr char kFactors[] = "weights of labels";
constexpr char kLosses[] = "losses";
constexpr char kCorrections[] = "corrections";
constexpr char kOutputs[] = "outputs";

// In memory of its device, so that it need not cross.
bool LiesThere(const DeviceLink& link, absl::Span<const float> values) {
  return link.unified_memory() != nullptr &&
         link.unified_memory()->Has(AsBytes(values));
}

// In host memory that copies reach where it lies.
bool IsPinned(const DeviceLink& link, absl::Span<const float> values) {
  return link.pinned_memory() != nullptr &&
         link.pinned_memory()->Has(AsBytes(values));
}

}  // namespace

Exchange::Exchange(Device* device, size_t variables, size_t inputs)
    : device_(*device),
      link_(device->link()),
      variables_(variables),
      inputs_(inputs) {
  if (link_ == nullptr) return;
  for (Variable& variable : variables_) {
    variable.up = link_->MakeMark();
    variable.down = link_->MakeMark();
  }
  for (Input& input : inputs_) {
    input.now.mark = link_->MakeMark();
    input.ahead.mark = link_->MakeMark();
  }
  for (Crossing* one :
       {&offsets_, &labels_, &factors_, &losses_, &output_, &corrections_}) {
    one->mark = link_->MakeMark();
  }
}

absl::Status Exchange::Join(const ReplicaGroup& group) {
  if (link_ == nullptr) {
    return group.meeting->Meet(
        absl::UnimplementedError("the processor sums in host memory"));
  }
  const absl::Status joined = link_->Join(group);
  if (!joined.ok()) return joined;
  buckets_.SetUp(variables_.size(), group.bucket_bytes);
  if (std::exchange(has_joined_, true)) return absl::OkStatus();
  for (Variable& variable : variables_) variable.sum = link_->MakeMark();
  return absl::OkStatus();
}

std::byte* Exchange::Reserve(uint64_t bytes, GrowingMemory* memory) {
  if (memory->bytes < bytes) {
    memory->data = nullptr;
    memory->bytes = 0;
    memory->data = device_.Allocate(bytes);
    if (memory->data != nullptr) memory->bytes = bytes;
  }
  return memory->get();
}

std::byte* Exchange::ReserveHost(uint64_t bytes, GrowingMemory* memory) {
  if (memory->bytes < bytes) {
    memory->data = nullptr;
    memory->bytes = 0;
    memory->data = link_->AllocateHost(bytes);
    if (memory->data != nullptr) memory->bytes = bytes;
  }
  return memory->get();
}

void Exchange::Begin() {
  if (link_ != nullptr) link_->UploadBehind();
}

const float* Exchange::PlaceWeights(size_t v, absl::Span<const float> values) {
  if (link_ == nullptr || LiesThere(*link_, values)) return values.data();
  Variable& variable = variables_[v];
  const uint64_t bytes = values.size() * sizeof(float);
  link_->Wait(variable.up);
  if (IsPinned(*link_, values)) {
    variable.known = 0;
  } else {
    if (std::min(variable.weights.bytes, variable.weights_twin.bytes) < bytes) {
      variable.known = 0;
    }
    ReserveHost(bytes, &variable.weights_twin);
  }
  return reinterpret_cast<const float*>(Reserve(bytes, &variable.weights));
}

float* Exchange::PlaceGradient(size_t v, absl::Span<float> values) {
  if (link_ == nullptr) return values.data();
  Variable& variable = variables_[v];
  const uint64_t bytes = values.size() * sizeof(float);
  const bool goes_there = LiesThere(*link_, values) || IsPinned(*link_, values);
  variable.wanted_at = goes_there ? values.data() : nullptr;
  if (sharing_ != Sharing::kContribute && variable.wanted_at == nullptr) {
    ReserveHost(bytes, &variable.gradient_twin);
  }
  return reinterpret_cast<float*>(Reserve(bytes, &variable.gradient));
}

void Exchange::BringWeights(size_t v, absl::Span<const float> values) {
  if (link_ == nullptr || LiesThere(*link_, values)) return;
  Variable& variable = variables_[v];
  float* const twin = reinterpret_cast<float*>(variable.weights_twin.get());
  float* const there = reinterpret_cast<float*>(variable.weights.get());
  link_->Describe(kWeights);
  if (IsPinned(*link_, values)) {
    link_->Upload(values.data(), values.size() * sizeof(float), there);
    link_->MarkUploads(variable.up);
    return link_->ComputeBehind(variable.up);
  }
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, values.size() - begin);
    const size_t bytes = count * sizeof(float);
    if (begin + count <= variable.known &&
        std::memcmp(twin + begin, values.data() + begin, bytes) == 0) {
      continue;
    }
    std::memcpy(twin + begin, values.data() + begin, bytes);
    link_->Upload(twin + begin, bytes, there + begin);
  }
  variable.known = std::max<uint64_t>(variable.known, values.size());
  link_->MarkUploads(variable.up);
  link_->ComputeBehind(variable.up);
}

const void* Exchange::Upload(const void* from, uint64_t bytes,
                             Crossing* crossing) {
  link_->Wait(crossing->mark);
  void* const twin = ReserveHost(bytes, &crossing->twin);
  void* const there = Reserve(bytes, &crossing->on_device);
  if (!device_.status().ok() || bytes == 0) return there;
  std::memcpy(twin, from, bytes);
  link_->Upload(twin, bytes, there);
  link_->MarkUploads(crossing->mark);
  return there;
}

const void* Exchange::Bring(const void* from, uint64_t bytes,
                            Crossing* crossing) {
  const void* const there = Upload(from, bytes, crossing);
  link_->ComputeBehind(crossing->mark);
  return there;
}

Tensor Exchange::Converted(const ConstTensor& from, DType to,
                           GrowingMemory* memory) {
  const Tensor converted = {Reserve(from.size() * SizeOf(to), memory), to,
                            from.dims};
  if (device_.status().ok()) device_.Convert(from, converted);
  return converted;
}

ConstTensor Exchange::BringInput(size_t i, const ConstTensor& input,
                                 bool is_ahead) {
  auto& [now, ahead, half] = inputs_[i];
  ConstTensor there = input;
  if (link_ != nullptr && is_ahead) {
    std::swap(now, ahead);
    link_->ComputeBehind(now.mark);
    there.data = now.on_device.get();
  } else if (link_ != nullptr) {
    link_->Describe(kInput);
    there.data = Bring(input.data, input.size() * SizeOf(input.dtype), &now);
  }
  const DType wanted = device_.activations();
  if (input.dtype != DType::kFloat32 || !IsHalf(wanted)) return there;
  return Converted(there, wanted, &half);
}

void Exchange::ReserveAhead(size_t i, uint64_t bytes) {
  if (link_ == nullptr || !device_.status().ok()) return;
  Crossing& ahead = inputs_[i].ahead;
  // It is no batch that must fit; what was there is freed before.
  if (bytes > ahead.on_device.bytes && bytes > link_->FreeBytes() / 2) return;
  ReserveHost(bytes, &ahead.twin);
  Reserve(bytes, &ahead.on_device);
}

bool Exchange::BringAhead(size_t i, const ConstTensor& input) {
  if (link_ == nullptr || !device_.status().ok()) return false;
  Crossing& ahead = inputs_[i].ahead;
  const uint64_t bytes = input.size() * SizeOf(input.dtype);
  if (bytes > std::min(ahead.on_device.bytes, ahead.twin.bytes)) return false;
  link_->Describe(kAhead);
  Upload(input.data, bytes, &ahead);
  return device_.status().ok();
}

absl::Span<const uint64_t> Exchange::BringOffsets(
    absl::Span<const uint64_t> offsets) {
  if (link_ == nullptr || offsets.empty()) return offsets;
  link_->Describe(kOffsets);
  const void* const there =
      Bring(offsets.data(), offsets.size() * sizeof(uint64_t), &offsets_);
  return {static_cast<const uint64_t*>(there), offsets.size()};
}

ConstTensor Exchange::TakeOutput(const Tensor& output) {
  Tensor wide = output;
  if (IsHalf(output.dtype)) {
    wide = Converted(output, WideOf(output.dtype), &wide_output_);
  }
  if (link_ == nullptr) return wide;
  const uint64_t bytes = wide.size() * SizeOf(wide.dtype);
  ConstTensor here = wide;
  here.data = ReserveHost(bytes, &output_.twin);
  if (!device_.status().ok()) return here;
  link_->Describe(kOutputs);
  link_->Download(wide.data, bytes, output_.twin.get(), output_.mark);
  link_->Wait(output_.mark);
  return here;
}

Metrics Exchange::ComputeLoss(const Loss& loss, const Tensor& output,
                              const Loss::Target& target, double scale,
                              const Tensor& gradient) {
  if (loss.IsOfBatch()) {
    return ComputeInBatch(loss, output, target, scale, gradient);
  }
  loss.FillFactors(target.labels, (1 - target.alpha) * scale, &row_factors_,
                   target.weights);
  const auto losses =
      TakeLosses(loss.row_loss(), output, target.labels, gradient);
  if (losses.empty()) return Metrics();
  Metrics metrics = loss.Count(target.labels, losses, target.weights);
  if (target.soft.data == nullptr) return metrics;
  Tensor soft_gradient = gradient;
  if (gradient.data != nullptr) {
    soft_gradient.data =
        Reserve(gradient.size() * SizeOf(gradient.dtype), &soft_gradient_);
  }
  loss.FillSoftFactors(target, scale, &row_factors_);
  const auto soft =
      TakeLosses(loss.SoftRowLoss(target), output, target.soft, soft_gradient);
  if (soft.empty()) return Metrics();
  if (gradient.data != nullptr) {
    device_.Add(gradient, 1, soft_gradient, gradient);
  }
  loss.AddSoft(target, soft, &metrics);
  return metrics;
}

Metrics Exchange::ComputeInBatch(const Loss& loss, const Tensor& output,
                                 const Loss::Target& target, double scale,
                                 const Tensor& gradient) {
  CHECK(scale != 0, "an example whose factor is 0 is no negative of others");
  loss.FillFactors(target.labels, scale, &row_factors_, target.weights);
  FillCorrections(target.probabilities, &item_corrections_);
  const uint64_t examples = output.dims[0];
  const uint64_t bytes = examples * examples * sizeof(float);
  const Tensor scores = {
      Reserve(bytes, &scores_), DType::kFloat32, {examples, examples}};
  Tensor scores_gradient = {nullptr, scores.dtype, scores.dims};
  if (gradient.data != nullptr) {
    scores_gradient.data = Reserve(bytes, &scores_gradient_);
  }
  ConstTensor corrections(nullptr, DType::kFloat32, {item_corrections_.size()});
  if (!item_corrections_.empty()) {
    corrections.data = item_corrections_.data();
    if (link_ != nullptr) {
      link_->Describe(kCorrections);
      corrections.data = Bring(
          corrections.data, corrections.size() * sizeof(float), &corrections_);
    }
  }
  if (!device_.status().ok()) return Metrics();
  ScoreBatch(output, loss.temperature(), corrections, scores, &device_);
  const auto losses =
      TakeLosses(loss.row_loss(), scores, target.labels, scores_gradient);
  if (losses.empty()) return Metrics();
  if (gradient.data != nullptr) {
    ScoreBatchBackward(output, loss.temperature(), scores_gradient, gradient,
                       &device_);
  }
  return loss.Count(target.labels, losses, target.weights);
}

Metrics Exchange::ComputeLoss(const NetworkPlan& plan, const Tensor& output,
                              absl::Span<const Loss::Target> targets,
                              double scale, const Tensor& gradient) {
  if (plan.IsOfOneTask()) {
    return ComputeLoss(*plan.tasks.front().loss, output, targets.front(), scale,
                       gradient);
  }
  std::vector<Metrics> of_tasks;
  for (size_t t = 0; t < plan.tasks.size(); ++t) {
    const Task& task = plan.tasks[t];
    Tensor part = {nullptr, output.dtype, Batched(output.dims[0], task.dims)};
    const uint64_t bytes = part.size() * SizeOf(part.dtype);
    Tensor part_gradient = part;
    part.data = Reserve(bytes, &task_output_);
    if (gradient.data != nullptr) {
      part_gradient.data = Reserve(bytes, &task_gradient_);
    }
    if (!device_.status().ok()) return Metrics();
    device_.CopyColumns(output, task.first, task.columns(), part, 0);
    of_tasks.push_back(ComputeLoss(*task.loss, part, targets[t],
                                   scale * task.factor, part_gradient));
    if (!device_.status().ok()) return Metrics();
    if (gradient.data != nullptr) {
      device_.CopyColumns(part_gradient, 0, task.columns(), gradient,
                          task.first);
    }
  }
  return plan.Together(std::move(of_tasks), targets);
}

absl::Span<const double> Exchange::TakeLosses(const RowLoss& loss,
                                              const Tensor& output,
                                              const ConstTensor& target,
                                              const Tensor& gradient) {
  const uint64_t rows = row_factors_.size();
  const uint64_t bytes = rows * RowLoss::kNumbers * sizeof(double);
  const Tensor said = {Reserve(bytes, &losses_.on_device),
                       DType::kFloat64,
                       {rows, RowLoss::kNumbers}};
  ConstTensor labels = target;
  ConstTensor factors(row_factors_.data(), DType::kFloat64, {rows});
  const void* here = said.data;
  if (link_ != nullptr) {
    link_->Describe(kLabels);
    labels.data =
        Bring(target.data, target.size() * SizeOf(target.dtype), &labels_);
    link_->Describe(kFactors);
    factors.data = Bring(factors.data, rows * sizeof(double), &factors_);
    here = ReserveHost(bytes, &losses_.twin);
  }
  if (!device_.status().ok()) return {};
  device_.Losses(loss, output, labels, factors, gradient, said);
  if (link_ != nullptr) {
    link_->Describe(kLosses);
    link_->Download(said.data, bytes, losses_.twin.get(), losses_.mark);
    link_->Wait(losses_.mark);
  }
  if (!device_.status().ok()) return {};
  return {static_cast<const double*>(here), said.size()};
}

void Exchange::SendGradient(size_t v, uint64_t values) {
  if (link_ == nullptr) return;
  if (sharing_ == Sharing::kAlone) return Download(v, values);
  buckets_.Add(
      v, {reinterpret_cast<float*>(variables_[v].gradient.get()), values});
  if (!holds_sums_) SumBuckets();
}

void Exchange::ReserveZeros(uint64_t values) {
  const uint64_t bytes = values * sizeof(float);
  if (bytes <= zeros_.bytes) return;
  void* const zeros = ReserveHost(bytes, &zeros_);
  if (zeros != nullptr) std::memset(zeros, 0, bytes);
}

void Exchange::SendZeros(size_t v, uint64_t values) {
  Variable& variable = variables_[v];
  const uint64_t bytes = values * sizeof(float);
  CHECK(bytes <= zeros_.bytes, "memory for zeros was reserved");
  if (device_.status().ok()) {
    link_->Describe(kZeros);
    link_->Upload(zeros_.get(), bytes, variable.gradient.get());
    link_->MarkUploads(variable.up);
    link_->ComputeBehind(variable.up);
  }
  SendGradient(v, values);
}

void Exchange::EndSending() {
  buckets_.Close();
  SumBuckets();
}

void Exchange::SumBuckets() {
  buckets_.Take(
      [&](absl::Span<const SumPart> parts, absl::Span<const size_t> variables) {
        const DeviceLink::Mark mark = variables_[variables.back()].sum;
        link_->Describe(kGradients);
        link_->Sum(parts, mark);
        if (sharing_ == Sharing::kSum) link_->DownloadBehind(mark);
        for (size_t i = 0; i < parts.size(); ++i) {
          variables_[variables[i]].summed = mark;
          if (sharing_ == Sharing::kSum) Download(variables[i], parts[i].count);
        }
      });
}

void Exchange::Download(size_t v, uint64_t values) {
  Variable& variable = variables_[v];
  link_->Describe(kGradients);
  void* const to = variable.wanted_at != nullptr
                       ? static_cast<void*>(variable.wanted_at)
                       : variable.gradient_twin.get();
  link_->Download(variable.gradient.get(), values * sizeof(float), to,
                  variable.down);
}

void Exchange::TakeGradient(size_t v, absl::Span<float> values) {
  if (link_ == nullptr) return;
  Variable& variable = variables_[v];
  if (sharing_ == Sharing::kContribute) return link_->Wait(variable.summed);
  link_->Wait(variable.down);
  if (values.empty() || variable.wanted_at != nullptr ||
      !device_.status().ok()) {
    return;
  }
  std::memcpy(values.data(), variable.gradient_twin.get(),
              values.size() * sizeof(float));
}

void Exchange::AbortSums() {
  if (link_ != nullptr) link_->AbortSums();
}

uint64_t Exchange::MissingBytes(const Crossings& crossings,
                                absl::Span<const uint64_t> sizes,
                                bool with_gradients, DType dtype) const {
  if (link_ == nullptr) return 0;
  uint64_t missing = 0;
  const auto add = [&](uint64_t bytes, const GrowingMemory& memory) {
    if (bytes > memory.bytes) missing += bytes - memory.bytes;
  };
  for (size_t i = 0; i < inputs_.size(); ++i) {
    add(crossings.input_bytes[i], inputs_[i].now.on_device);
    if (IsHalf(dtype)) add(crossings.input_bytes[i] / 2, inputs_[i].half);
  }
  add(crossings.offset_bytes, offsets_.on_device);
  add(std::max(crossings.label_bytes, crossings.soft * sizeof(float)),
      labels_.on_device);
  if (with_gradients) add(crossings.soft * SizeOf(dtype), soft_gradient_);
  add(crossings.of_task * SizeOf(dtype), task_output_);
  if (with_gradients) add(crossings.of_task * SizeOf(dtype), task_gradient_);
  const uint64_t pairs = crossings.compared * crossings.compared;
  add(pairs * sizeof(float), scores_);
  if (with_gradients) add(pairs * sizeof(float), scores_gradient_);
  add(crossings.compared * sizeof(float), corrections_.on_device);
  add(crossings.rows * sizeof(double), factors_.on_device);
  add(crossings.rows * RowLoss::kNumbers * sizeof(double), losses_.on_device);
  if (IsHalf(dtype)) {
    add(crossings.outputs * sizeof(float), wide_output_);
  }
  for (size_t v = 0; v < variables_.size(); ++v) {
    const uint64_t bytes = sizes[v] * sizeof(float);
    if (link_->unified_memory() == nullptr) add(bytes, variables_[v].weights);
    if (with_gradients) add(bytes, variables_[v].gradient);
  }
  return missing;
}

}  // namespace paramd
