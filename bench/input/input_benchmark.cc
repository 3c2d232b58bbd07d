// The input pipeline beside what bounds it: sleeping files and maps beside the
// sum of what must come one after the other, auto beside the best fixed number
// of threads, JPEG folders beside libjpeg, training beside data already there.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "google/protobuf/text_format.h"
#include <jpeglib.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "bench/harness/report.h"
#include "bench/harness/samples.h"
#include "compute/model/network.h"
#include "input/growing_source.h"
#include "input/open_pipeline.h"
#include "input/testing/input_test_files.h"
#include "input/testing/mock_kafka.h"

namespace paramd {
namespace {

double SecondsSince(Time begin) {
  return absl::ToDoubleSeconds(MonotonicNow() - begin);
}

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

template <class Message>
Message Parsed(const std::string& text) {
  Message message;
  CHECK(google::protobuf::TextFormat::ParseFromString(text, &message),
        "the benchmark's configurations are read");
  return message;
}

// Examples of one number each, which take time as files on a distant disk do.
class SleepingSource : public ExampleSource {
 public:
  struct Times {
    absl::Duration open = absl::ZeroDuration();  // Before example 0.
    absl::Duration read = absl::ZeroDuration();
    absl::Duration map = absl::ZeroDuration();
  };
  SleepingSource(uint64_t size, const Times& times)
      : size_(size), times_(times), spec_(LabelledImages({1}, 10)) {}

  const InputSpec& spec() const override { return spec_; }
  uint64_t size() const override { return size_; }
  v1::DataSet Describe() const override { return {}; }
  absl::Status Read(uint64_t index, Example* example) const override {
    absl::SleepFor((index == 0 ? times_.open : absl::ZeroDuration()) +
                   times_.read);
    absl::SleepFor(times_.map);
    example->values.resize(2);
    example->values[0].Reset(DType::kFloat32, {1});
    example->values[0].values<float>()[0] = static_cast<float>(index);
    example->values[1].Reset(DType::kInt32, {});
    example->values[1].values<int32_t>()[0] = 0;
    return absl::OkStatus();
  }

 private:
  const uint64_t size_;
  const Times times_;
  const InputSpec spec_;
};

std::unique_ptr<Pipeline> Open(std::unique_ptr<ExampleSource> source,
                               const std::string& config) {
  auto pipeline = Pipeline::Create(
      std::move(source), Parsed<v1::InputConfig>(config), {.training = false});
  CHECK(pipeline.ok(), pipeline.status().ToString());
  return *std::move(pipeline);
}

std::unique_ptr<Batch> Take(Prefetcher* prefetcher) {
  auto next = prefetcher->WaitForNext(absl::Minutes(1));
  CHECK(next.ok() && next->batch != nullptr, "a batch comes");
  return std::move(next->batch);
}

// ---- the programs of the guide ----------------------------------------------

constexpr absl::Duration kOpen = absl::Milliseconds(30);
constexpr absl::Duration kRead = absl::Milliseconds(15);
constexpr absl::Duration kMap = absl::Milliseconds(30);
constexpr absl::Duration kStep = absl::Milliseconds(10);
constexpr uint64_t kExamples = 3;

struct Program {
  std::string name;
  bool maps = false;
  bool prefetches = false;
  bool caches = false;
  int epochs = 2;
  double floor_seconds = 0;
};

double Run(const Program& program) {
  const SleepingSource::Times times = {
      .open = kOpen,
      .read = kRead,
      .map = program.maps ? kMap : absl::ZeroDuration()};
  const auto pipeline =
      Open(std::make_unique<SleepingSource>(kExamples, times),
           program.caches ? "stages { cache { max_mb: 16 } }" : "");
  std::unique_ptr<Prefetcher> prefetcher;
  if (program.prefetches) {
    prefetcher = std::make_unique<Prefetcher>(
        *pipeline, Prefetcher::Options{.batch_size = 1, .depth = 1});
  }
  Batch read;
  const Time begin = MonotonicNow();
  for (uint64_t epoch = 1;
       prefetcher != nullptr && epoch <= static_cast<uint64_t>(program.epochs);
       ++epoch) {
    CHECK(prefetcher->Add({epoch, 0, kExamples}).ok(), "an epoch is added");
  }
  for (int epoch = 1; epoch <= program.epochs; ++epoch) {
    for (uint64_t i = 0; i < kExamples; ++i) {
      if (prefetcher != nullptr) {
        prefetcher->Recycle(Take(prefetcher.get()));
      } else {
        const Portion range = {static_cast<uint64_t>(epoch), i, i + 1};
        CHECK(pipeline->Read(range, &read).ok(), "an example is read");
      }
      absl::SleepFor(kStep);
    }
  }
  return SecondsSince(begin);
}

void MeasureGuide(Report* report) {
  const std::vector<Program> programs = {
      {.name = "naive", .floor_seconds = 0.21},
      // Reading goes on over the end of the epoch; the guide's own begins anew
      // in each: 0.17.
      {.name = "prefetched", .prefetches = true, .floor_seconds = 0.16},
      {.name = "mapped", .maps = true, .floor_seconds = 0.39},
      {.name = "five_epochs",
       .maps = true,
       .epochs = 5,
       .floor_seconds = 0.975},
      {.name = "five_epochs_cached",
       .maps = true,
       .caches = true,
       .epochs = 5,
       .floor_seconds = 0.315}};
  const int rounds = report->quick() ? 1 : 5;
  for (const Program& program : programs) {
    report->Progress("input: guide, " + program.name);
    Figure figure{absl::StrCat("guide.", program.name, "_seconds"),
                  "s",
                  {},
                  Figure::Peer{"floor", {}}};
    figure.peer->values.Add(program.floor_seconds);
    for (int round = 0; round < rounds; ++round) {
      figure.values.Add(Run(program));
    }
    report->Add(figure);
  }
}

// ---- auto -------------------------------------------------------------------

// Examples a second.
double RateOf(const Pipeline& pipeline, uint32_t threads,
              absl::Duration settling, absl::Duration time) {
  constexpr uint64_t kBatch = 32;
  Prefetcher prefetcher(pipeline,
                        {.batch_size = kBatch, .threads = threads, .depth = 4});
  uint64_t epoch = 0;
  uint64_t taken = 0;
  const Time start = MonotonicNow();
  Time begin = start;
  bool settled = false;
  while (!settled || MonotonicNow() - begin < time) {
    while (prefetcher.examples_ahead() < 8 * kBatch) {
      CHECK(prefetcher.Add({++epoch, 0, pipeline.size()}).ok(), "more input");
    }
    auto batch = Take(&prefetcher);
    taken += batch->size();
    prefetcher.Recycle(std::move(batch));
    if (settled || MonotonicNow() - start < settling) continue;
    settled = true;
    begin = MonotonicNow();
    taken = 0;
  }
  return static_cast<double>(taken) / SecondsSince(begin);
}

// All in turn, so that what else the machine does is in all of them.
void MeasureAuto(const std::string& name, const Pipeline& pipeline,
                 const std::vector<uint32_t>& threads, Report* report) {
  const int rounds = report->quick() ? 1 : 7;
  const absl::Duration time = absl::Milliseconds(report->quick() ? 300 : 1000);
  Samples found;
  std::vector<Samples> fixed(threads.size());
  for (int round = 0; round < rounds; ++round) {
    report->Progress(absl::StrCat("input: auto, ", name, ", round ", round));
    for (size_t i = 0; i < threads.size(); ++i) {
      fixed[i].Add(RateOf(pipeline, threads[i], absl::Milliseconds(100), time));
    }
    found.Add(RateOf(pipeline, /*threads=*/0, absl::Seconds(2), time));
  }
  size_t best = 0;
  for (size_t i = 1; i < threads.size(); ++i) {
    if (fixed[i].Median() > fixed[best].Median()) best = i;
  }
  report->Add(
      {absl::StrCat("auto.", name, "_examples_per_s"), "/s", found,
       Figure::Peer{absl::StrCat(threads[best], " threads"), fixed[best]}});
}

void MeasureAutos(Report* report) {
  MeasureAuto(
      "waiting",
      *Open(std::make_unique<SleepingSource>(
                1000, SleepingSource::Times{.read = absl::Milliseconds(10)}),
            ""),
      {1, 2, 4, 8, 16, 32, 64}, report);
  auto computing = OpenTrainingData(Parsed<v1::InputConfig>(R"(
      train { synthetic { examples: 1000
          features { name: "image" type: TYPE_UINT8 dims: [32, 32, 3] } } }
      stages { resize { feature: "image" height: 96 width: 96 } })"),
                                    /*seed=*/1);
  CHECK(computing.ok(), computing.status().ToString());
  MeasureAuto("computing", **computing, {1, 2, 3, 4, 8}, report);
}

// ---- JPEG folders -----------------------------------------------------------

constexpr uint32_t kSide = 256;

// Like a photograph: smooth, with some noise.
std::string MakeJpeg(uint64_t number) {
  RandomStream random(number);
  const uint64_t slope = 1 + random.Below(5);
  std::vector<uint8_t> pixels;
  for (uint64_t y = 0; y < kSide; ++y) {
    for (uint64_t x = 0; x < kSide; ++x) {
      for (uint64_t c = 0; c < 3; ++c) {
        pixels.push_back(static_cast<uint8_t>(
            (x * slope + y * (c + 1)) / 4 % 200 + random.Below(24)));
      }
    }
  }
  return JpegBytes(kSide, kSide, 3, pixels);
}

// libjpeg alone. Returns a value so that nothing is left out.
uint8_t Decode(const std::string& bytes, std::vector<uint8_t>* pixels) {
  jpeg_decompress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(bytes.data()),
               bytes.size());
  jpeg_read_header(&jpeg, TRUE);
  jpeg.out_color_space = JCS_RGB;
  jpeg_start_decompress(&jpeg);
  pixels->resize(size_t{3} * kSide * kSide);
  uint8_t* row = pixels->data();
  while (jpeg.output_scanline < jpeg.output_height) {
    jpeg_read_scanlines(&jpeg, &row, 1);
    row += size_t{3} * kSide;
  }
  jpeg_finish_decompress(&jpeg);
  jpeg_destroy_decompress(&jpeg);
  return pixels->back();
}

void MeasureJpeg(Report* report) {
  report->Progress("input: jpeg");
  constexpr uint64_t kImages = 128;
  const std::string directory =
      std::filesystem::temp_directory_path() / "paramd-bench-input-XXXXXX";
  std::string made = directory;
  CHECK(mkdtemp(made.data()) != nullptr, "a directory can be made");
  std::filesystem::create_directory(made + "/class");
  std::vector<std::string> images;
  for (uint64_t i = 0; i < kImages; ++i) {
    images.push_back(MakeJpeg(i));
    std::ofstream(absl::StrCat(made, "/class/", i, ".jpg"), std::ios::binary)
        << images.back();
  }
  const auto pipeline = OpenTrainingData(
      Parsed<v1::InputConfig>(absl::StrCat(
          "train { directory: '", made, "' image_folders { channels: 3 } }")),
      /*seed=*/1);
  CHECK(pipeline.ok(), pipeline.status().ToString());
  Figure figure{"jpeg.image_cpu_ms", "CPU-ms", {}, Figure::Peer{"libjpeg", {}}};
  std::vector<uint8_t> pixels;
  uint64_t sum = 0;
  const int rounds = report->quick() ? 5 : 21;
  Prefetcher prefetcher(**pipeline, {.batch_size = 32, .threads = 1});
  for (int round = -1; round < rounds; ++round) {
    double begin = CpuSeconds();
    CHECK(prefetcher.Add({static_cast<uint64_t>(round + 1), 0, kImages}).ok(),
          "an epoch is added");
    for (uint64_t taken = 0; taken < kImages; taken += 32) {
      prefetcher.Recycle(Take(&prefetcher));
    }
    const double ours = CpuSeconds() - begin;
    begin = CpuSeconds();
    for (const std::string& image : images) sum += Decode(image, &pixels);
    const double theirs = CpuSeconds() - begin;
    if (round < 0) continue;  // Memory is made.
    figure.values.Add(1e3 * ours / kImages);
    figure.peer->values.Add(1e3 * theirs / kImages);
  }
  CHECK(sum > 0, "images are decoded");
  report->Add(figure);
  std::filesystem::remove_all(made);
}

// ---- messages of Kafka ------------------------------------------------------

constexpr uint32_t kPartitions = 16;
constexpr uint64_t kMessagesEach = 50000;  // The mock keeps 5 MB of each.
constexpr uint64_t kMessages = kPartitions * kMessagesEach;

std::string MessageText(uint64_t number) {
  return absl::StrCat("user", number % 10007, ",ad", number % 257, ",",
                      number % 2);
}

// A broker in a process of its own, so that its work is not counted here: the
// address of its broker, and the process, which is to be killed.
std::pair<std::string, pid_t> StartBroker() {
  int ends[2];
  CHECK(pipe(ends) == 0, "there is a pipe");
  const pid_t broker = fork();
  CHECK(broker >= 0, "there is a process");
  if (broker == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    MockKafka kafka("clicks", kPartitions);
    for (uint64_t i = 0; i < kMessages; ++i) {
      kafka.Produce(static_cast<uint32_t>(i % kPartitions), MessageText(i));
    }
    kafka.Flush();
    const std::string line = kafka.brokers() + "\n";
    CHECK(write(ends[1], line.data(), line.size()) > 0, "somebody reads");
    for (;;) pause();
  }
  close(ends[1]);
  char address[256] = {};
  CHECK(read(ends[0], address, sizeof(address) - 1) > 0, "it says where it is");
  close(ends[0]);
  return {std::string(absl::StripAsciiWhitespace(address)), broker};
}

v1::EpochFiles EpochOfAll(uint32_t epoch) {
  v1::EpochFiles files;
  files.set_epoch(epoch);
  files.set_examples(kMessages);
  for (uint32_t p = 0; p < kPartitions; ++p) {
    v1::EpochFiles::Partition& partition = *files.add_partitions();
    partition.set_number(p);
    partition.set_end(kMessagesEach);
  }
  return files;
}

// Beside rows of a file that is there: fetching, unpacking and the index.
void MeasureKafka(Report* report) {
  report->Progress("input: kafka");
  const auto [brokers, broker] = StartBroker();
  const std::string csv = R"(csv {
      label: "click" columns: "user" columns: "ad" hash_keys: true
      separator: "," name: "features" header: true classes: 2)";
  const auto messages = OpenTrainingData(
      Parsed<v1::InputConfig>(absl::StrCat(
          "train { kafka { brokers: '", brokers, "' topic: 'clicks' ",
          "columns: 'user' columns: 'ad' columns: 'click' } ", csv,
          " } } follow {} stages { prefetch { batches: 8 } }")),
      /*seed=*/1);
  CHECK(messages.ok(), messages.status().ToString());
  const std::string path = std::filesystem::temp_directory_path() /
                           absl::StrCat("paramd-bench-", getpid(), ".csv");
  {
    std::ofstream file(path);
    file << "user,ad,click\n";
    for (uint64_t i = 0; i < kMessages; ++i) file << MessageText(i) << "\n";
  }
  const auto rows =
      OpenTrainingData(Parsed<v1::InputConfig>(absl::StrCat(
                           "train { ", csv, " files: '", path,
                           "' } } stages { prefetch { batches: 8 } }")),
                       /*seed=*/1);
  CHECK(rows.ok(), rows.status().ToString());
  // Of one thread that does all.
  const auto rate = [](const Pipeline& pipeline, uint64_t epoch) {
    Batch batch;
    const double begin = CpuSeconds();
    for (uint64_t at = 0; at < kMessages; at += 500) {
      CHECK(pipeline.Read({epoch, at, at + 500}, &batch).ok(), "it is read");
    }
    return kMessages / (CpuSeconds() - begin);
  };
  Figure figure{"kafka.messages_per_cpu_s",
                "/CPU-s",
                {},
                Figure::Peer{"rows of a file", {}}};
  const uint32_t rounds = report->quick() ? 2 : 7;
  for (uint32_t round = 1; round <= rounds; ++round) {
    (*messages)->growing()->Tell(EpochOfAll(round));
    figure.values.Add(rate(**messages, round));
    figure.peer->values.Add(rate(**rows, round));
  }
  report->Add(figure);
  std::filesystem::remove(path);
  kill(broker, SIGKILL);
  waitpid(broker, nullptr, 0);
}

// ---- training ---------------------------------------------------------------

constexpr char kCnn[] = R"(
  layers { conv2d { filters: 32 kernel: 3 stride: 1 groups: 1 bias: true } }
  layers { relu {} } layers { max_pool { size: 2 } }
  layers { conv2d { filters: 64 kernel: 3 stride: 1 groups: 1 bias: true } }
  layers { relu {} } layers { max_pool { size: 2 } } layers { flatten {} }
  layers { dense { units: 64 } } layers { relu {} }
  layers { dense { units: 10 } } loss: SOFTMAX_CROSS_ENTROPY)";

// A model that is given batches. Not thread-safe.
class Trained {
 public:
  explicit Trained(const InputSpec& spec)
      : network_(*Network::Create(Parsed<v1::ModelConfig>(kCnn), spec)) {
    RandomStream random(1);
    for (const v1::Variable& variable : network_->variables()) {
      size_t size = 1;
      for (const uint64_t dimension : variable.shape()) size *= dimension;
      std::vector<float>& values = values_.emplace_back(size);
      for (float& value : values) value = 0.1f * (random.Uniform() - 0.5f);
      gradients_.emplace_back(size);
    }
    for (const auto& one : values_) weight_views_.emplace_back(one);
    for (auto& one : gradients_) {
      gradient_views_.push_back(absl::MakeSpan(one));
    }
  }

  void Step(const Batch& batch) {
    const auto metrics = network_->Step(
        weight_views_, batch, {.divisor = static_cast<double>(batch.size())},
        gradient_views_, [](size_t) {});
    CHECK(metrics.ok(), metrics.status().ToString());
  }

 private:
  const std::unique_ptr<Network> network_;
  std::vector<std::vector<float>> values_, gradients_;
  std::vector<absl::Span<const float>> weight_views_;
  std::vector<absl::Span<float>> gradient_views_;
};

void MeasureTraining(Report* report) {
  report->Progress("input: training");
  const auto pipeline = OpenTrainingData(Parsed<v1::InputConfig>(R"(
      format: IDX directory: "/usr/share/datasets/fashion-mnist"
      train_images: "train-images-idx3-ubyte.gz"
      train_labels: "train-labels-idx1-ubyte.gz"
      stages { shuffle {} }
      stages { random_crop { feature: "image" height: 28 width: 28 padding: 2 } }
      stages { flip { feature: "image" } })"),
                                         /*seed=*/1);
  CHECK(pipeline.ok(), pipeline.status().ToString());
  constexpr uint64_t kBatch = 64;
  Prefetcher prefetcher(**pipeline, {.batch_size = kBatch, .threads = 1});
  CHECK(prefetcher.Add({1, 0, 20000}).ok(), "input is added");
  Trained model((*pipeline)->spec());
  Batch there;
  CHECK((*pipeline)->Read({0, 0, kBatch}, &there).ok(), "a batch is read");
  for (int i = 0; i < 5; ++i) model.Step(there);
  Figure figure{
      "training.step_ms", "ms", {}, Figure::Peer{"data already there", {}}};
  const int rounds = report->quick() ? 7 : 25;
  constexpr int kSteps = 8;
  for (int round = 0; round < rounds; ++round) {
    Time begin = MonotonicNow();
    for (int i = 0; i < kSteps; ++i) {
      auto batch = Take(&prefetcher);
      model.Step(*batch);
      prefetcher.Recycle(std::move(batch));
    }
    figure.values.Add(1e3 * SecondsSince(begin) / kSteps);
    begin = MonotonicNow();
    for (int i = 0; i < kSteps; ++i) model.Step(there);
    figure.peer->values.Add(1e3 * SecondsSince(begin) / kSteps);
  }
  report->Add(figure);
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  setenv("OMP_NUM_THREADS", "1", 1);
  paramd::Report report("input", argc, argv);
  if (report.Wants("guide")) paramd::MeasureGuide(&report);
  if (report.Wants("auto")) paramd::MeasureAutos(&report);
  if (report.Wants("jpeg")) paramd::MeasureJpeg(&report);
  if (report.Wants("kafka")) paramd::MeasureKafka(&report);
  if (report.Wants("training")) paramd::MeasureTraining(&report);
}
