// The schema of the arguments that fn.endcap.preprocess and fn.endcap.resize_normalize share.
#include "dali/pipeline/operator/operator.h"
#include "parameters.h"

namespace endcap::operators {

DALI_SCHEMA(endcap__ImageParameters)
    .DocStr("Parameters of the operators that make tensors of images.")
    .AddOptionalArg<std::string>(
        "preset",
        "a recipe of a whole training pipeline, such as ``ultralytics`` or ``torchvision``; every "
        "other argument overrides it",
        nullptr)
    .AddOptionalArg<std::vector<int>>("size",
                                      PreprocessDoc("size") +
                                          "; each sample may have its own, int32 or int64 "
                                          "[2] or one number",
                                      nullptr, true)
    .AddOptionalArg<std::string>("fit", PreprocessDoc("fit"), nullptr)
    .AddOptionalArg<int64_t>("resize_shorter", PreprocessDoc("resize_shorter"), nullptr)
    .AddOptionalArg<std::string>("interpolation", PreprocessDoc("interpolation"), nullptr)
    .AddOptionalArg<bool>("antialias", PreprocessDoc("antialias"), nullptr)
    .AddOptionalArg<std::string>("quantize", PreprocessDoc("quantize"), nullptr)
    .AddOptionalArg<int64_t>("pad_value", PreprocessDoc("pad_value"), nullptr)
    .AddOptionalArg<std::string>("pad_align", PreprocessDoc("pad_align"), nullptr)
    .AddOptionalArg<bool>("upscale", PreprocessDoc("upscale"), nullptr)
    .AddOptionalArg<std::string>("color", PreprocessDoc("color"), nullptr)
    .AddOptionalArg<std::string>("layout", PreprocessDoc("layout"), nullptr)
    .AddOptionalTypeArg("dtype",
                        PreprocessDoc("dtype") + "; as types.FLOAT, FLOAT16, UINT8 or INT8")
    .AddOptionalArg<float>("scale", PreprocessDoc("scale"), nullptr)
    .AddOptionalArg<std::vector<float>>("mean", PreprocessDoc("mean"), nullptr)
    .AddOptionalArg<std::vector<float>>("std", PreprocessDoc("std"), nullptr)
    .AddOptionalArg<std::vector<float>>(
        "rois",
        "regions of the image, in pixels after EXIF orientation: float32 [N, 4] = x1, y1, x2, y2 "
        "for each sample, or one flat list for all; cpu only",
        nullptr, true)
    .AddOptionalArg<int64_t>("max_rois", PreprocessDoc("max_rois"), nullptr)
    .AddOptionalArg<int64_t>("max_roi_bytes", PreprocessDoc("max_roi_bytes"), nullptr)
    .AddOptionalArg<std::string>(
        "on_error",
        "blank: a bad image is a sample of zeros, and its status says why; error: it ends the "
        "pipeline with its index and an error message: one of error, blank (blank by default here)",
        nullptr)
    .MakeInternal();

}  // namespace endcap::operators
