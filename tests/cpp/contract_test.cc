#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "endcap/cascade.h"
#include "error_matchers.h"

namespace endcap {
namespace {

using Names = std::vector<std::string>;

TEST(Routes, EachClassAndTheRestHaveARoute) {
  const Routes routes = Routes::Parse(" 5 = rois+rings ,0|3=rois + shapes,* =other_rois+shapes ");
  EXPECT_EQ(routes.rois_models(), (Names{"rois", "other_rois"}));
  EXPECT_EQ(routes.classifiers(), (Names{"rings", "shapes"}));
  EXPECT_EQ(routes.Find(5), (Route{0, 0}));
  EXPECT_EQ(routes.Find(0), (Route{0, 1}));
  EXPECT_EQ(routes.Find(3), (Route{0, 1}));
  EXPECT_EQ(routes.Find(1), (Route{1, 1}));
  EXPECT_EQ(routes.Find(-1), (Route{1, 1}));
  EXPECT_FALSE(routes.empty());
}

TEST(Routes, WithoutARestOtherClassesHaveNoRoute) {
  const Routes routes = Routes::Parse("2=rois+shapes");
  EXPECT_EQ(routes.Find(2), (Route{0, 0}));
  EXPECT_EQ(routes.Find(0), std::nullopt);
}

TEST(Routes, AnEmptyTextHasNoRoutes) {
  for (const char* text : {"", "  \n"}) {
    EXPECT_TRUE(Routes::Parse(text).empty());
    EXPECT_EQ(Routes::Parse(text).Find(0), std::nullopt);
  }
}

struct Rejected {
  const char* text;
  const char* message;
};

void PrintTo(const Rejected& rejected, std::ostream* out) { *out << rejected.text; }

class RejectedRoutes : public ::testing::TestWithParam<Rejected> {};

TEST_P(RejectedRoutes, WithAMessage) {
  EXPECT_TRUE(testing::Throws(ErrorCode::kInvalidArgument, GetParam().message,
                              [] { Routes::Parse(GetParam().text); }));
}

INSTANTIATE_TEST_SUITE_P(
    Texts, RejectedRoutes,
    ::testing::Values(Rejected{"0=rois", "has the entry '0=rois': give CLASSES="},
                      Rejected{"rois+shapes", "has the entry 'rois+shapes'"},
                      Rejected{"0=rois+shapes,", "has the entry ''"},
                      Rejected{"0=+shapes", "a model's name missing"},
                      Rejected{"0=rois+", "a model's name missing"},
                      Rejected{"x=rois+shapes", "has the class 'x'"},
                      Rejected{"-1=rois+shapes", "has the class '-1'"},
                      Rejected{"1|=rois+shapes", "has the class ''"},
                      Rejected{"99999999999=rois+shapes", "has the class '99999999999'"},
                      Rejected{"1=a+b, 2|1=a+b", "names class 1 twice"},
                      Rejected{"1|1=a+b", "names class 1 twice"},
                      Rejected{"*=a+b, *=a+c", "names * twice"},
                      Rejected{"*|1=a+b", "has the class '*'"}));

using Json = nlohmann::json;

const ParameterList kYolo{{"head", "yolov8"}};
const ParameterList kClasses{{"head", "classification"}, {"num_classes", "3"}, {"top_k", "2"}};

ParameterList operator+(ParameterList list, const ParameterList& more) {
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

// The tensors of one side as "name TYPE [dims]", with all forms.
std::vector<std::string> Describe(const std::vector<TensorContract>& contracts) {
  std::vector<std::string> rows;
  for (const TensorContract& each : contracts) {
    std::string& row = rows.emplace_back(each.name + (each.optional ? "?" : ""));
    for (const TensorForm& form : each.forms) row += " " + form.data_type + Json(form.dims).dump();
  }
  return rows;
}

TEST(ModelContract, OfPreprocess) {
  const ParameterList parameters{{"size", "320,640"}, {"dtype", "uint8"}, {"layout", "nhwc"}};
  const ModelContract contract =
      ReadModelContract("endcap_preprocess", ModelParameters(parameters));
  EXPECT_EQ(Describe(contract.inputs), (Names{"encoded TYPE_STRING[1] TYPE_UINT8[-1]"}));
  EXPECT_EQ(Describe(contract.outputs), (Names{"images TYPE_UINT8[320,640,3]",
                                               "geometry TYPE_FP32[8]", "status TYPE_INT32[1]"}));
  EXPECT_EQ(contract.outputs[0].determined_by, "size, color, layout or dtype");
}

TEST(ModelContract, OfPreprocessWithRegionsHasARowForEach) {
  const ModelContract contract = ReadModelContract("endcap_preprocess", ModelParameters({}), true);
  EXPECT_EQ(Describe(contract.inputs),
            (Names{"encoded TYPE_STRING[1] TYPE_UINT8[-1]", "rois TYPE_FP32[-1,4]"}));
  EXPECT_EQ(Describe(contract.outputs),
            (Names{"images TYPE_FP32[-1,3,640,640]", "geometry TYPE_FP32[-1,8]",
                   "status TYPE_INT32[-1]"}));
}

TEST(ModelContract, OfPostprocess) {
  const ModelContract contract = ReadModelContract(
      "endcap_postprocess",
      ModelParameters(kYolo + ParameterList{{"num_classes", "3"}, {"max_detections", "100"}}));
  EXPECT_EQ(Describe(contract.inputs), (Names{"head TYPE_FP32[7,-1] TYPE_FP16[7,-1]",
                                              "geometry? TYPE_FP32[8]", "status? TYPE_INT32[1]"}));
  EXPECT_EQ(Describe(contract.outputs),
            (Names{"num_detections TYPE_INT32[1]", "detection_boxes TYPE_FP32[100,4]",
                   "detection_scores TYPE_FP32[100]", "detection_classes TYPE_INT32[100]",
                   "detection_indices TYPE_INT32[100]", "status TYPE_INT32[1]"}));
  EXPECT_EQ(contract.inputs[0].determined_by, "head=yolov8 or num_classes=3");
  EXPECT_EQ(contract.outputs[1].determined_by, "max_detections=100");
}

TEST(ModelContract, OfAHeadWithMasksHasTheirEncodings) {
  const ParameterList parameters{{"head", "yolov8_seg"}, {"max_detections", "7"}};
  const ModelContract contract =
      ReadModelContract("endcap_postprocess", ModelParameters(parameters));
  EXPECT_EQ(Describe(contract.outputs).back(), "detection_rle TYPE_STRING[7]");
}

TEST(ModelContract, OfAClassifier) {
  const ParameterList labels{{"labels_file", "l.txt"}, {"labels_separator", "/"}};
  const ModelContract contract =
      ReadModelContract("endcap_postprocess", ModelParameters(kClasses + labels));
  EXPECT_EQ(Describe(contract.outputs),
            (Names{"class_scores TYPE_FP32[2]", "class_ids TYPE_INT32[2]",
                   "class_probabilities TYPE_FP32[3]", "status TYPE_INT32[1]",
                   "class_labels TYPE_STRING[2]", "class_paths TYPE_STRING[2]"}));
  EXPECT_EQ(contract.outputs[2].determined_by, "num_classes=3");
  EXPECT_EQ(contract.outputs[5].determined_by, "top_k=2");
}

TEST(ModelContract, OfACascadeNamesTheModelsThatItCalls) {
  const ParameterList parameters{{"classifiers", "1=rois+rings, *=rois+shapes"}, {"labels", "a,b"}};
  const ModelContract contract = ReadModelContract("endcap_bls", ModelParameters(parameters));
  EXPECT_EQ(contract.models, (ParameterList{{"detect_model", "detect"},
                                            {"classifiers", "rois"},
                                            {"classifiers", "rings"},
                                            {"classifiers", "shapes"}}));
  EXPECT_EQ(Describe(contract.inputs), (Names{"encoded TYPE_STRING[1]"}));
  EXPECT_EQ(Describe(contract.outputs).back(), "class_labels TYPE_STRING[-1]");
}

TEST(CascadeSettings, HaveTheValuesOfTheParameters) {
  const CascadeSettings defaults = ReadCascadeSettings(ModelParameters({}));
  EXPECT_EQ(defaults.classify_threshold, 0.25);
  const CascadeSettings settings =
      ReadCascadeSettings(ModelParameters({{"detect_model", "mine"},
                                           {"classify_threshold", "1e-3"},
                                           {"classify_batch_size", "4"},
                                           {"max_in_flight", "2"}}));
  EXPECT_EQ(settings.detect_model, "mine");
  EXPECT_EQ(settings.classify_threshold, 1e-3);
  EXPECT_EQ(settings.classify_batch_size, 4U);
  EXPECT_EQ(settings.max_in_flight, 2U);
}

struct RejectedParameters {
  const char* backend;
  ParameterList parameters;
  const char* message;  // how it begins
};

void PrintTo(const RejectedParameters& rejected, std::ostream* out) { *out << rejected.message; }

class Rejects : public ::testing::TestWithParam<RejectedParameters> {};

TEST_P(Rejects, ParametersWithAMessage) {
  try {
    ReadModelContract(GetParam().backend, ModelParameters(GetParam().parameters));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_TRUE(std::string_view(error.what()).starts_with(GetParam().message)) << error.what();
  }
}

constexpr const char* kPre = "endcap_preprocess";
constexpr const char* kPost = "endcap_postprocess";
constexpr const char* kBls = "endcap_bls";
constexpr const char* kTrack = "endcap_track";

INSTANTIATE_TEST_SUITE_P(
    Parameters, Rejects,
    ::testing::Values(
        RejectedParameters{kPre,
                           {{"sise", "640"}},
                           "'sise' is not a parameter of this backend: there are threads, "
                           "max_queue_cost, preset, size"},
        RejectedParameters{kPre, {{"preset", "yolo99"}}, "preset is 'yolo99'"},
        RejectedParameters{
            kPre, {{"threads", "-1"}}, "threads is '-1': give a whole number of 0 or more"},
        RejectedParameters{kPre, {{"threads", "2147483648"}}, "threads is '2147483648'"},
        RejectedParameters{
            kPre, {{"max_queue_cost", "-1"}}, "max_queue_cost is '-1': give the milliseconds"},
        RejectedParameters{kPre, {{"max_queue_cost", "20ms"}}, "max_queue_cost is '20ms'"},
        RejectedParameters{kPost, {}, "parameter 'head' is missing: name the family"},
        RejectedParameters{kPost,
                           {{"iou", "0.5"}},
                           "'iou' is not a parameter of this backend: there are threads, "
                           "labels_file, labels_separator, head"},
        RejectedParameters{kPost, kYolo + ParameterList{{"labels_file", "l.txt"}},
                           "labels_file was given with head=yolov8"},
        RejectedParameters{kPost, kClasses + ParameterList{{"labels_separator", "/"}},
                           "labels_separator was given without labels_file"},
        RejectedParameters{
            kPost, kClasses + ParameterList{{"labels_file", "l.txt"}, {"labels_separator", ""}},
            "labels_separator is empty"},
        RejectedParameters{kBls,
                           {{"treshold", "0.5"}},
                           "'treshold' is not a parameter of this backend: there are detect_model"},
        RejectedParameters{kBls, {{"detect_model", ""}}, "detect_model is empty"},
        RejectedParameters{kBls,
                           {{"classify_threshold", "1.5"}},
                           "classify_threshold is '1.5': give a number from 0 to 1"},
        RejectedParameters{kBls,
                           {{"classify_batch_size", "0"}},
                           "classify_batch_size is '0': give a whole number of 1 or more"},
        RejectedParameters{kTrack, {{"max_sequences", "0"}}, "max_sequences is '0'"},
        RejectedParameters{"onnxruntime", {}, "the parameters of backend 'onnxruntime'"}));

Json Tensor(const char* name, const char* data_type, std::vector<int64_t> dims) {
  return {{"name", name}, {"data_type", data_type}, {"dims", std::move(dims)}};
}

const Json kEncodedEntry = Tensor("encoded", "TYPE_STRING", {1});

std::vector<ConfigProblem> Complete(Json& config, const char* backend, ParameterList parameters) {
  const bool with_rois = ListsTensor(config, "input", kRois);
  return CompleteConfig(
      config, ReadModelContract(backend, ModelParameters(std::move(parameters)), with_rois), true);
}

TEST(CompleteConfig, FillsInWhatIsLeftOutAndKeepsWhatIsGiven) {
  Json config{{"input", {{{"name", "encoded"}, {"data_type", "TYPE_UINT8"}}}},
              {"output", {Tensor("images", "TYPE_FP32", {-1, 640, -1}), {{"name", "geometry"}}}}};
  EXPECT_TRUE(Complete(config, kPre, {}).empty());
  EXPECT_EQ(config["input"], Json({Tensor("encoded", "TYPE_UINT8", {-1})}));
  EXPECT_EQ(config["output"], Json({Tensor("images", "TYPE_FP32", {3, 640, 640}),
                                    Tensor("geometry", "TYPE_FP32", {8})}));
  const Json before = config;
  EXPECT_TRUE(Complete(config, kPre, {}).empty());
  EXPECT_EQ(config, before);
}

TEST(CompleteConfig, ListsOptionalInputsAsOptional) {
  Json config = Json::object();
  EXPECT_TRUE(Complete(config, kPost, kYolo).empty());
  EXPECT_FALSE(config["input"][0].contains("optional"));
  EXPECT_EQ(config["input"][1]["optional"], true);
  EXPECT_EQ(config["output"].size(), 6U);
}

TEST(CompleteConfig, ChangesNothingWhereTheServerDoesNotComplete) {
  Json config{{"input", {{{"name", "encoded"}}}}, {"output", Json::array()}};
  const Json before = config;
  EXPECT_TRUE(CompleteConfig(config, ReadModelContract(kPre, ModelParameters({})), false).empty());
  EXPECT_EQ(config, before);
}

TEST(CompleteConfig, ComparesAReshapeInPlaceOfTheDims) {
  Json entry = Tensor("encoded", "TYPE_STRING", {1, 1});
  entry["reshape"]["shape"] = {1};
  Json config{{"input", {entry}}};
  EXPECT_TRUE(Complete(config, kPre, {}).empty());
  EXPECT_EQ(config["input"][0], entry);
  config["input"][0]["reshape"]["shape"] = {2};
  EXPECT_EQ(Complete(config, kPre, {}).size(), 1U);
}

struct RejectedConfig {
  const char* backend;
  ParameterList parameters;
  Json config = Json::object();
  ConfigProblem problem;  // the only one
};

void PrintTo(const RejectedConfig& rejected, std::ostream* out) {
  *out << rejected.problem.message;
}

class ContradictoryConfig : public ::testing::TestWithParam<RejectedConfig> {};

TEST_P(ContradictoryConfig, HasOneProblem) {
  Json config = GetParam().config;
  const auto problems = Complete(config, GetParam().backend, GetParam().parameters);
  ASSERT_EQ(problems.size(), 1U);
  const ConfigProblem& expected = GetParam().problem;
  EXPECT_EQ(problems[0].list, expected.list);
  EXPECT_EQ(problems[0].index, expected.index);
  EXPECT_EQ(problems[0].field, expected.field);
  EXPECT_EQ(problems[0].message.substr(0, expected.message.size()), expected.message);
}

Json Inputs(std::initializer_list<Json> entries) { return {{"input", Json(entries)}}; }
Json Outputs(std::initializer_list<Json> entries) { return {{"output", Json(entries)}}; }

Json Labelled(const char* name, const char* data_type) {
  Json entry = Tensor(name, data_type, {2});
  entry["label_filename"] = "l.txt";
  return entry;
}

const Json kRoisEntry = Tensor("rois", "TYPE_FP32", {-1, 4});

INSTANTIATE_TEST_SUITE_P(
    Configs, ContradictoryConfig,
    ::testing::Values(
        RejectedConfig{kPre,
                       {},
                       Outputs({Tensor("images", "TYPE_FP32", {3, 320, 320})}),
                       {"output", 0, "dims",
                        "output 'images' is TYPE_FP32 [3, 320, 320] in the config: give TYPE_FP32 "
                        "[3, 640, 640], or change size, color, layout or dtype"}},
        RejectedConfig{kPre,
                       {},
                       Outputs({Tensor("images", "TYPE_UINT8", {3, 640, 640})}),
                       {"output", 0, "data_type", "output 'images' is TYPE_UINT8 [3, 640, 640]"}},
        RejectedConfig{kPre,
                       {},
                       Inputs({Tensor("encoded", "TYPE_FP32", {1})}),
                       {"input", 0, "data_type",
                        "input 'encoded' is TYPE_FP32 [1] in the config: give TYPE_STRING [1] or "
                        "TYPE_UINT8 [-1]"}},
        RejectedConfig{kPre,
                       {},
                       Inputs({Tensor("encoded", "TYPE_STRING", {2})}),
                       {"input", 0, "dims", "input 'encoded' is TYPE_STRING [2]"}},
        RejectedConfig{kPre,
                       {},
                       Inputs({kEncodedEntry, Tensor("hint", "TYPE_FP32", {1})}),
                       {"input", 1, "name",
                        "the config has an input 'hint': this model's are "
                        "encoded"}},
        RejectedConfig{kPre,
                       {},
                       Inputs({kRoisEntry}),
                       {"input", -1, "",
                        "input 'encoded' is missing in the config: add it as "
                        "TYPE_STRING [1] or TYPE_UINT8 [-1]"}},
        RejectedConfig{kPre,
                       {},
                       Inputs({kEncodedEntry, Tensor("rois", "TYPE_FP32", {4})}),
                       {"input", 1, "dims",
                        "input 'rois' is TYPE_FP32 [4] in the config: give "
                        "TYPE_FP32 [-1, 4]"}},
        RejectedConfig{kPre,
                       {},
                       {{"max_batch_size", 4}, {"input", {kEncodedEntry, kRoisEntry}}},
                       {"", -1, "max_batch_size",
                        "max_batch_size is 4 in a config with input "
                        "'rois'"}},
        RejectedConfig{kPost,
                       kYolo + ParameterList{{"num_classes", "3"}},
                       Inputs({Tensor("head", "TYPE_FP32", {84, 8400})}),
                       {"input", 0, "dims",
                        "input 'head' is TYPE_FP32 [84, 8400] in the config: give TYPE_FP32 [7, "
                        "-1] or TYPE_FP16 [7, -1], or change head=yolov8 or num_classes=3"}},
        RejectedConfig{kPost,
                       kYolo,
                       Inputs({Tensor("geometry", "TYPE_FP32", {8})}),
                       {"input", -1, "", "input 'head' is missing"}},
        RejectedConfig{kPost,
                       kYolo,
                       Outputs({Tensor("detection_scores", "TYPE_FP32", {100})}),
                       {"output", 0, "dims",
                        "output 'detection_scores' is TYPE_FP32 [100] in the "
                        "config: give TYPE_FP32 [300], or change "
                        "max_detections=300"}},
        RejectedConfig{
            kPost,
            kClasses,
            Outputs({Labelled("class_scores", "TYPE_FP32")}),
            {"output", 0, "label_filename", "output 'class_scores' has a label_filename"}},
        RejectedConfig{kPost,
                       kClasses,
                       Outputs({Labelled("class_ids", "TYPE_INT32")}),
                       {"output", 0, "label_filename", "output 'class_ids' has a label_filename"}},
        RejectedConfig{kPost,
                       kClasses,
                       Outputs({Tensor("class_paths", "TYPE_STRING", {2})}),
                       {"output", 0, "name", "the config has an output 'class_paths'"}},
        RejectedConfig{kBls,
                       {{"classifiers", "0=a+twin"}},
                       {{"name", "twin"}},
                       {"parameters", -1, "classifiers",
                        "classifiers names 'twin', which is this "
                        "model"}},
        RejectedConfig{kTrack,
                       {},
                       {{"name", "track"}},
                       {"", -1, "sequence_batching", "the frames of a sequence have to come"}}));

}  // namespace
}  // namespace endcap
