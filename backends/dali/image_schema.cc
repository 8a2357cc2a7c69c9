// What fn.endcap.preprocess and fn.endcap.resize_normalize have in common: schema and arguments.
#include "dali/pipeline/operator/operator.h"
#include "parameters.h"

namespace {

std::string Doc(std::string_view name, std::string_view more = "") {
  using endcap::operators::DocOf;
  using endcap::operators::PreprocessTable;
  return DocOf(PreprocessTable(), name).append(more);
}

}  // namespace

DALI_SCHEMA(endcap__ImageParameters)
    .DocStr("Parameters of the operators that make tensors of images.")
    .AddOptionalArg<std::string>(
        "preset",
        "a recipe of a whole training pipeline, such as ``ultralytics`` or ``torchvision``; every "
        "other argument overrides it",
        nullptr)
    .AddOptionalArg<std::vector<int>>(
        "size", Doc("size", "; each sample may have its own, int32 [2] or one number"), nullptr,
        true)
    .AddOptionalArg<std::string>("fit", Doc("fit"), nullptr)
    .AddOptionalArg<int64_t>("resize_shorter", Doc("resize_shorter"), nullptr)
    .AddOptionalArg<std::string>("interpolation", Doc("interpolation"), nullptr)
    .AddOptionalArg<bool>("antialias", Doc("antialias"), nullptr)
    .AddOptionalArg<std::string>("quantize", Doc("quantize"), nullptr)
    .AddOptionalArg<int64_t>("pad_value", Doc("pad_value"), nullptr)
    .AddOptionalArg<std::string>("pad_align", Doc("pad_align"), nullptr)
    .AddOptionalArg<bool>("upscale", Doc("upscale"), nullptr)
    .AddOptionalArg<std::string>("color", Doc("color"), nullptr)
    .AddOptionalArg<std::string>("layout", Doc("layout"), nullptr)
    .AddOptionalTypeArg("dtype", Doc("dtype", "; as types.FLOAT, FLOAT16, UINT8 or INT8"))
    .AddOptionalArg<float>("scale", Doc("scale"), nullptr)
    .AddOptionalArg<std::vector<float>>("mean", Doc("mean"), nullptr)
    .AddOptionalArg<std::vector<float>>("std", Doc("std"), nullptr)
    .AddOptionalArg<std::vector<float>>(
        "rois",
        "regions of the image, in pixels after EXIF orientation: float32 [N, 4] = x1, y1, x2, y2 "
        "for each sample, or one flat list for all; cpu only",
        nullptr, true)
    .AddOptionalArg<int64_t>("max_rois", Doc("max_rois"), nullptr)
    .AddOptionalArg<std::string>(
        "on_error",
        "blank: a bad image is a sample of zeros, and its status says why; error: it ends the "
        "pipeline with its index and a sentence. One of error, blank (blank by default here)",
        nullptr)
    .MakeInternal();
