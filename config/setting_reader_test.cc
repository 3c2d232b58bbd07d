#include "config/setting_reader.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/paramd/v1/config.pb.h"

namespace paramd {
namespace {

using ::testing::HasSubstr;

class SettingReaderTest : public ::testing::Test {
 protected:
  void Read(absl::string_view text) {
    const JsonSource source = {"job.json"};
    const absl::optional<JsonValue> value =
        ParseJson(text, source, {}, &mistakes_);
    ASSERT_TRUE(value.has_value()) << Message();
    reader_.ReadMessage(*value, source, "", &config_);
  }
  void Assign(absl::string_view path, absl::string_view text) {
    reader_.Assign(path, text, {"--set", false}, &config_);
  }
  std::string Message() { return std::string(mistakes_.ToStatus().message()); }

  Origins origins_;
  Mistakes mistakes_;
  SettingReader reader_{&origins_, &mistakes_};
  v1::JobConfig config_;
};

TEST_F(SettingReaderTest, ShortAndLongFormsAreTheSame) {
  Read(R"({"model": {"layers": ["flatten", {"dense": 512}, {"relu": {}}]}})");
  const v1::ModelConfig by_short = config_.model();
  Read(R"({"model": {"layers": [{"flatten": {}}, {"dense": {"units": 512}},
                                "relu"]}})");
  EXPECT_EQ(Message(), "");
  EXPECT_EQ(by_short.SerializeAsString(), config_.model().SerializeAsString());
  EXPECT_EQ(config_.model().layers(1).dense().units(), 512u);
  EXPECT_TRUE(config_.model().layers(2).has_relu());
}

TEST_F(SettingReaderTest, AnUnknownKeyNamesItsLineItsPathAndTheNearestOne) {
  Read("{\"optimizer\": {\n\"lerning_rate\": 1}, \"wheels\": 4}");
  EXPECT_THAT(Message(), HasSubstr("job.json:2: optimizer.lerning_rate: "
                                   "unknown key; did you mean "
                                   "'learning_rate'?"));
  EXPECT_THAT(Message(), HasSubstr("job.json:2: wheels: unknown key; known "
                                   "here: name, seed,"));
}

TEST_F(SettingReaderTest, AKeyOfOneObjectInsideIsNamedThere) {
  Read(R"({"learning_rate": 1, "layers": [], "every_steps": 5})");
  Assign("adam", "{}");
  EXPECT_THAT(Message(), HasSubstr("learning_rate: unknown key; did you mean "
                                   "'optimizer.learning_rate'?"));
  EXPECT_THAT(Message(), HasSubstr("did you mean 'model.layers'?"));
  EXPECT_THAT(Message(), HasSubstr("did you mean 'optimizer.adam'?"));
  // Of several objects.
  EXPECT_THAT(Message(), HasSubstr("every_steps: unknown key; known here: "));
}

TEST_F(SettingReaderTest, AWrongTypeIsNamedWithAnExample) {
  Read(R"({"epochs": "five", "name": 5, "seed": 1.5, "log_level": 3,
           "model": [], "batch_per_replica": null, "input": "x"})");
  EXPECT_THAT(Message(), HasSubstr("epochs: wants a whole number, for example "
                                   "5; found \"five\""));
  EXPECT_THAT(Message(), HasSubstr("name: wants a string, for example "
                                   "\"fashion-mnist\"; found 5"));
  EXPECT_THAT(Message(), HasSubstr("seed: wants a whole number, for example "
                                   "7; found 1.5"));
  EXPECT_THAT(Message(), HasSubstr("log_level: wants a string"));
  EXPECT_THAT(Message(), HasSubstr("model: wants an object with the keys "
                                   "layers, loss, input, "));
  EXPECT_THAT(Message(), HasSubstr("batch_per_replica: wants a whole number"));
  EXPECT_THAT(Message(), HasSubstr("input: wants an object"));
  EXPECT_FALSE(config_.has_epochs());
}

TEST_F(SettingReaderTest, ANumberMayBeWrittenAsItIsMeant) {
  Read(R"({"staleness": 8, "epochs": 1e1, "seed": 7.0})");
  EXPECT_EQ(Message(), "");
  EXPECT_EQ(config_.staleness(), "8");
  EXPECT_EQ(config_.epochs(), 10u);
  EXPECT_EQ(config_.seed(), 7u);
  Assign("epochs", "1e3");
  EXPECT_EQ(Message(), "");
  EXPECT_EQ(config_.epochs(), 1000u);
}

TEST_F(SettingReaderTest, BoundsAreNamed) {
  Read(R"({"epochs": 0, "seed": -1, "chunk_bytes": 5000000,
           "batch_per_replica": 99999999999999999999,
           "optimizer": {"adam": {"beta1": 1}, "learning_rate": 0}})");
  EXPECT_THAT(Message(), HasSubstr("epochs: must be at least 1; found 0"));
  EXPECT_THAT(Message(), HasSubstr("seed: must be at least 0; found -1"));
  EXPECT_THAT(Message(), HasSubstr("chunk_bytes: must be at most 4194304; "
                                   "found 5000000"));
  EXPECT_THAT(Message(), HasSubstr("batch_per_replica: wants a whole number"));
  EXPECT_THAT(Message(),
              HasSubstr("optimizer.adam.beta1: must be less than 1; found 1"));
  EXPECT_THAT(Message(), HasSubstr("optimizer.learning_rate: must be greater "
                                   "than 0; found 0"));
}

TEST_F(SettingReaderTest, AlternativesExcludeEachOther) {
  Read(R"({"optimizer": {"sgd": {}, "adam": {}}})");
  EXPECT_EQ(Message(),
            "job.json:1: optimizer.adam: conflicts with 'sgd'; keep one");
}

TEST_F(SettingReaderTest, AnUnknownLayerNamesTheNearest) {
  Read(R"({"model": {"layers": ["relo", {"dens": 5}, 7, {}]}})");
  reader_.FillDefaults(&config_);
  EXPECT_THAT(Message(), HasSubstr("model.layers[0]: unknown name \"relo\"; "
                                   "did you mean 'relu'?"));
  EXPECT_THAT(Message(), HasSubstr("model.layers[1].dens: unknown key; did "
                                   "you mean 'dense'?"));
  EXPECT_THAT(Message(),
              HasSubstr("model.layers[2]: wants an object with the keys "
                        "flatten, dense, relu, "));
  EXPECT_THAT(Message(),
              HasSubstr("attention_pool, recompute, mixture; found 7"));
  EXPECT_THAT(Message(), HasSubstr("model.layers[3]: says no kind; give one "
                                   "of flatten, dense, relu"));
  EXPECT_THAT(Message(), ::testing::Not(HasSubstr("layers[1]: says")));
}

TEST_F(SettingReaderTest, LayersThatAreComputedAgainAreAListOrAnObject) {
  Read(R"({"model": {"layers": [
      {"recompute": ["relu", {"dense": 5}]},
      {"recompute": {"layers": ["tanh"]}}, {"recompute": []}]}})");
  reader_.FillDefaults(&config_);
  ASSERT_EQ(config_.model().layers_size(), 3);
  const auto& layers = config_.model().layers(0).recompute().layers();
  ASSERT_EQ(layers.size(), 2);
  EXPECT_TRUE(layers[0].has_relu());
  EXPECT_EQ(layers[1].dense().units(), 5u);
  EXPECT_TRUE(config_.model().layers(1).recompute().layers(0).has_tanh());
  EXPECT_THAT(Message(), HasSubstr("model.layers[2].recompute.layers: is "
                                   "missing"));
}

TEST_F(SettingReaderTest, AListThatIsTooLongIsNotRead) {
  std::string layers;
  for (int i = 0; i < 2000; ++i) layers += i == 0 ? "\"relu\"" : ",\"relu\"";
  Read("{\"model\": {\"layers\": [" + layers + "]}}");
  EXPECT_THAT(Message(), HasSubstr("model.layers: must have at most 1024 "
                                   "elements; found 2000"));
  EXPECT_EQ(config_.model().layers_size(), 0);
}

TEST_F(SettingReaderTest, MissingSettingsAreNamedOnceWithAnExample) {
  Read("{\n\"model\": {\"layers\": [\"dense\"]}, \"input\": 5}");
  reader_.FillDefaults(&config_);
  EXPECT_THAT(Message(), HasSubstr("job.json:1: name: is missing; give it, "
                                   "for example \"fashion-mnist\""));
  EXPECT_THAT(Message(), HasSubstr("job.json:1: optimizer: is missing"));
  EXPECT_THAT(Message(), HasSubstr("job.json:2: model.loss: is missing"));
  EXPECT_THAT(Message(),
              HasSubstr("job.json:2: model.layers[0].dense.units: is missing"));
  EXPECT_THAT(Message(), ::testing::Not(HasSubstr("input.format")));
}

TEST_F(SettingReaderTest, DefaultsAreFilledInAndSaySo) {
  Read(R"({"optimizer": {"adam": {"beta1": 0.5}}, "epochs": 3})");
  reader_.FillDefaults(&config_);
  EXPECT_EQ(config_.epochs(), 3u);
  EXPECT_EQ(config_.seed(), 1u);
  EXPECT_EQ(config_.chunk_bytes(), 1048576u);
  EXPECT_EQ(config_.optimizer().adam().beta1(), 0.5);
  EXPECT_EQ(config_.optimizer().adam().beta2(), 0.999);
  EXPECT_EQ(config_.optimizer().schedule(), v1::OptimizerConfig::CONSTANT);
  EXPECT_FALSE(config_.optimizer().has_sgd());
  EXPECT_EQ(config_.checkpoint().keep(), 3u);
  EXPECT_EQ(origins_.at("epochs").ToString(), "job.json:1");
  EXPECT_EQ(origins_.at("seed").ToString(), "default");
}

TEST_F(SettingReaderTest, AssignmentReachesEveryKey) {
  Read(R"({"name": "a", "optimizer": {"sgd": {}, "learning_rate": 1},
           "model": {"layers": ["flatten", {"dense": 5}, "relu"]}})");
  Assign("name", "5");
  Assign("run_dir", "/tmp/{x}");
  Assign("epochs", "7");
  Assign("optimizer.adam.beta1", "0.25");
  Assign("model.layers.1.dense", "64");
  Assign("model.layers[2]", "flatten");
  Assign("model.loss", "softmax_cross_entropy");
  Assign("checkpoint", "{\"keep\": 9}");
  EXPECT_EQ(Message(), "");
  EXPECT_EQ(config_.name(), "5");
  EXPECT_EQ(config_.run_dir(), "/tmp/{x}");
  EXPECT_EQ(config_.epochs(), 7u);
  EXPECT_EQ(config_.optimizer().adam().beta1(), 0.25);
  EXPECT_FALSE(config_.optimizer().has_sgd());
  EXPECT_EQ(config_.optimizer().learning_rate(), 1);
  EXPECT_EQ(config_.model().layers(1).dense().units(), 64u);
  EXPECT_TRUE(config_.model().layers(2).has_flatten());
  EXPECT_EQ(config_.model().loss(), v1::SOFTMAX_CROSS_ENTROPY);
  EXPECT_EQ(config_.checkpoint().keep(), 9u);
  EXPECT_EQ(origins_.at("epochs").ToString(), "--set");
  EXPECT_EQ(origins_.count("optimizer.learning_rate"), 1u);
}

TEST_F(SettingReaderTest, AWrongAssignmentSaysWhatIsThere) {
  Read(R"({"model": {"layers": ["relu"]}})");
  Assign("optimizer.lr", "1");
  Assign("optimzer.learning_rate", "1");
  Assign("model.layers.1.dense", "1");
  Assign("model.layers.x", "1");
  Assign("epochs.x", "1");
  Assign("epochs", "many");
  Assign("checkpoint", "{\"keep\": 9");
  Assign("", "1");
  Assign("run_dir", "a\xff");
  EXPECT_THAT(Message(), HasSubstr("--set: optimizer.lr: unknown key; known "
                                   "here: sgd, adam, adagrad, adamw, rmsprop, "
                                   "ftrl, adadelta, lamb, learning_rate"));
  EXPECT_THAT(Message(), HasSubstr("--set: optimzer: unknown key; did you "
                                   "mean 'optimizer'?"));
  EXPECT_THAT(Message(), HasSubstr("model.layers: has 1 elements, numbered "
                                   "from 0; '1' is none of them"));
  EXPECT_THAT(Message(), HasSubstr("'x' is none of them"));
  EXPECT_THAT(Message(), HasSubstr("epochs: holds a single value"));
  EXPECT_THAT(Message(), HasSubstr("epochs: wants a whole number, for example "
                                   "5; found \"many\""));
  EXPECT_THAT(Message(), HasSubstr("not valid JSON"));
  EXPECT_THAT(Message(), HasSubstr("--set: run_dir: is not valid UTF-8"));
}

}  // namespace
}  // namespace paramd
