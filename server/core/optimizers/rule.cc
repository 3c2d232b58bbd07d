#include "server/core/optimizers/rule.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "config/setting.h"

namespace paramd {
namespace {

absl::Status Wrong(absl::string_view name, double value,
                   absl::string_view bound) {
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer.", name, " is ", value, "; it must be ", bound));
}

// What it is but for its weight decay.
v1::OptimizerConfig::Adam AdamOf(const v1::OptimizerConfig::AdamW& config) {
  v1::OptimizerConfig::Adam adam;
  adam.set_beta1(config.beta1());
  adam.set_beta2(config.beta2());
  adam.set_epsilon(config.epsilon());
  return adam;
}

// "sgd, adam and lamb", of all that the configuration knows.
std::string KindNames() {
  const auto& kinds =
      *v1::OptimizerConfig::descriptor()->FindOneofByName("kind");
  std::vector<std::string> names;
  for (int i = 0; i < kinds.field_count(); ++i) {
    names.push_back(kinds.field(i)->name());
  }
  return absl::StrCat(absl::StrJoin(names.begin(), names.end() - 1, ", "),
                      " and ", names.back());
}

}  // namespace

absl::Status CheckShare(absl::string_view name, double value) {
  return value >= 0 && value < 1 ? absl::OkStatus()
                                 : Wrong(name, value, "at least 0 and below 1");
}

absl::Status CheckPositive(absl::string_view name, double value) {
  return value > 0 && std::isfinite(value) ? absl::OkStatus()
                                           : Wrong(name, value, "above 0");
}

absl::Status CheckNotNegative(absl::string_view name, double value) {
  return value >= 0 && std::isfinite(value) ? absl::OkStatus()
                                            : Wrong(name, value, "at least 0");
}

absl::StatusOr<std::unique_ptr<const Rule>> MakeRule(
    const v1::OptimizerConfig& config) {
  switch (config.kind_case()) {
    case v1::OptimizerConfig::kSgd:
      return config.sgd().momentum() != 0 ? MakeMomentum(config.sgd())
                                          : MakeSgd();
    case v1::OptimizerConfig::kAdam:
      return MakeAdam("adam", WithDefaultNumbers(config.adam()));
    case v1::OptimizerConfig::kAdamw:
      return MakeAdam("adamw", AdamOf(WithDefaultNumbers(config.adamw())));
    case v1::OptimizerConfig::kAdagrad:
      return MakeAdagrad(WithDefaultNumbers(config.adagrad()));
    case v1::OptimizerConfig::kRmsprop:
      return MakeRmsprop(WithDefaultNumbers(config.rmsprop()));
    case v1::OptimizerConfig::kFtrl:
      return MakeFtrl(WithDefaultNumbers(config.ftrl()));
    case v1::OptimizerConfig::kAdadelta:
      return MakeAdadelta(WithDefaultNumbers(config.adadelta()));
    case v1::OptimizerConfig::kLamb:
      return MakeLamb(WithDefaultNumbers(config.lamb()));
    case v1::OptimizerConfig::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer names none of ", KindNames()));
}

}  // namespace paramd
