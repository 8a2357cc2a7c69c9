/* The C API of endcap's core: libendcap_c.so, for code of another compiler or C++ runtime, such as
 * DALI operators.
 *
 * Every function that can fail returns an endcap_status, one of the values of the `status` tensors
 * (endcap/error.h); endcap_last_error() then returns the message. Functions and handles are
 * thread-safe. No pointer is used after the call returns, except to GPU memory, which work on the
 * stream reads and writes later. New members of structs are added at their ends; `endcap_c_abi()`
 * returns the version of the loaded library. */
#ifndef ENDCAP_C_API_H_
#define ENDCAP_C_API_H_

#include <stddef.h>
#include <stdint.h>

#if defined(ENDCAP_C_BUILDING)
#define ENDCAP_C __attribute__((visibility("default")))
#else
#define ENDCAP_C
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define ENDCAP_C_ABI 1

typedef int32_t endcap_status; /* 0: success; else a code of endcap/error.h */

/* ENDCAP_C_ABI of the library; callers must refuse a value other than their own. */
ENDCAP_C int32_t endcap_c_abi(void);

/* The version of endcap: "0.1.0". Static. */
ENDCAP_C const char* endcap_version(void);

/* The error message of the calling thread's last failed call, "" if none failed; valid until its
 * next failed call. */
ENDCAP_C const char* endcap_last_error(void);

/* The name of a status: "corrupt_image"; "unknown" for an invalid value. Static. */
ENDCAP_C const char* endcap_status_name(endcap_status status);

/* A parameter as text, in the form of endcap/params.h. */
typedef struct endcap_parameter {
  const char* name;
  const char* value;
} endcap_parameter;

/* One row of a parameter table. All texts but `value`, the default, are static. */
typedef struct endcap_parameter_info {
  const char* name;
  const char* meaning;
  const char* allowed;
  const char* value;
} endcap_parameter_info;

/* The parameter tables with their defaults. A default that depends on the head's family is that of
 * the default family; `meaning` names the others. `preset` has no row. The rows are static. */
ENDCAP_C endcap_status endcap_preprocess_parameters(const endcap_parameter_info** rows,
                                                    size_t* count);
ENDCAP_C endcap_status endcap_postprocess_parameters(const endcap_parameter_info** rows,
                                                     size_t* count);

/* As endcap::DType. */
typedef enum endcap_dtype {
  ENDCAP_UINT8 = 0,
  ENDCAP_INT8 = 1,
  ENDCAP_INT32 = 2,
  ENDCAP_FLOAT16 = 3,
  ENDCAP_FLOAT32 = 4,
  ENDCAP_INT64 = 5 /* only for the class ids of a head */
} endcap_dtype;

/* As endcap::PixelFormat. */
typedef enum endcap_pixel_format {
  ENDCAP_ENCODED = 0,
  ENDCAP_RGB = 1,
  ENDCAP_BGR = 2,
  ENDCAP_GRAY = 3
} endcap_pixel_format;

#define ENDCAP_MAX_RANK 4

/* Name, dtype and shape of one item's tensor, without a batch dimension. `name` is valid as long as
 * the handle. */
typedef struct endcap_tensor_spec {
  const char* name;
  int32_t dtype; /* endcap_dtype */
  int32_t rank;
  int64_t shape[ENDCAP_MAX_RANK]; /* -1: known only at run time */
} endcap_tensor_spec;

/* A dense row-major array that the caller owns; data == NULL: absent. */
typedef struct endcap_tensor {
  void* data;
  int32_t dtype;
  int32_t rank;
  int64_t shape[ENDCAP_MAX_RANK];
  int32_t on_gpu; /* 1: memory of the handle's device */
} endcap_tensor;

#define ENDCAP_CPU (-1) /* the `device` of handles that work on CPU memory */

/* --- preprocess --- */

typedef struct endcap_preprocessor endcap_preprocessor;

/* parameters: names of the table, and `preset`. device: ENDCAP_CPU, or the index of a GPU. threads:
 * images that one run processes at the same time, 0 for the number of CPUs; give 1 for a handle
 * that many threads call at the same time. */
ENDCAP_C endcap_status endcap_preprocessor_new(const endcap_parameter* parameters, size_t count,
                                               int32_t device, int32_t threads,
                                               endcap_preprocessor** made);
ENDCAP_C void endcap_preprocessor_free(endcap_preprocessor* preprocessor); /* NULL is allowed */

/* The tensor of an image for a size; height and width 0: those of the parameters. */
ENDCAP_C endcap_status endcap_preprocessor_tensor(const endcap_preprocessor* preprocessor,
                                                  int32_t height, int32_t width,
                                                  endcap_tensor_spec* spec);

/* 1 if the parameters contain `on_error: blank`. */
ENDCAP_C int32_t endcap_preprocessor_blanks(const endcap_preprocessor* preprocessor);

/* 1 if a tensor is [height, width, channels], 0 if it is [channels, height, width]. */
ENDCAP_C int32_t endcap_preprocessor_channels_last(const endcap_preprocessor* preprocessor);

/* Fails for more regions of one image than the parameters' max_rois, as
 * endcap_preprocessor_run_rois does. For callers that allocate the outputs first. */
ENDCAP_C endcap_status endcap_preprocessor_check_rois(const endcap_preprocessor* preprocessor,
                                                      size_t roi_count);

/* The same, and fails if tensors of this size (0, 0: that of the parameters) have more bytes in
 * total than the parameters' max_roi_bytes. */
ENDCAP_C endcap_status endcap_preprocessor_check_roi_tensors(
    const endcap_preprocessor* preprocessor, size_t roi_count, int32_t height, int32_t width);

typedef struct endcap_image {
  int32_t format; /* endcap_pixel_format */
  int32_t on_gpu; /* 1: pixels in memory of the handle's device */
  const uint8_t* data;
  size_t size_bytes;        /* encoded only */
  int32_t width;            /* pixels; decoded only */
  int32_t height;           /* pixels; decoded only */
  int64_t row_stride_bytes; /* decoded only */
} endcap_image;

/* The outputs of one image, as endcap::PreprocessOutput. All are written, also for a failed image.
 */
typedef struct endcap_preprocess_output {
  void* tensor;        /* memory of the handle's device; see endcap_preprocessor_tensor */
  size_t tensor_bytes; /* checked */
  int32_t height;      /* the tensor's size for this image; 0, 0: that of the parameters */
  int32_t width;
  float* geometry;      /* [8], CPU memory; may be NULL */
  int32_t* status;      /* [1], CPU memory; may be NULL */
  int32_t source_index; /* copied into the geometry */
} endcap_preprocess_output;

/* Preprocesses images[i] to outputs[i]. stream: a cudaStream_t; NULL for ENDCAP_CPU. A failed image
 * has its own status and does not fail the call; endcap_item_error(i) returns its message until the
 * calling thread's next run. On a GPU the tensors are written asynchronously on the stream,
 * geometry and status before the call returns. Tensors of sizes other than the parameters' are
 * processed size by size; the handle caches the state of the last 8 such sizes. Invalid arguments
 * (a NULL, a wrong number of bytes, a size out of range) fail the call before any work. */
ENDCAP_C endcap_status endcap_preprocessor_run(endcap_preprocessor* preprocessor,
                                               const endcap_image* images,
                                               const endcap_preprocess_output* outputs,
                                               size_t count, void* stream);

/* Regions of one image: rois float32 [roi_count][4] = x1, y1, x2, y2 in pixels of the
 * oriented image; outputs: one for each, all of one size. *image_status: the status of the image,
 * which all regions then share, else that of the first failed region. Without regions only the
 * header is read. */
ENDCAP_C endcap_status endcap_preprocessor_run_rois(endcap_preprocessor* preprocessor,
                                                    const endcap_image* image, const float* rois,
                                                    const endcap_preprocess_output* outputs,
                                                    size_t roi_count, int32_t* image_status);

/* The same on a stream: a cudaStream_t; of handles for CPU memory NULL.
 * endcap_preprocessor_run_rois takes the legacy default stream. */
ENDCAP_C endcap_status endcap_preprocessor_run_rois_on_stream(
    endcap_preprocessor* preprocessor, const endcap_image* image, const float* rois,
    const endcap_preprocess_output* outputs, size_t roi_count, int32_t* image_status, void* stream);

/* The error message of item i of the calling thread's last run, "" if it succeeded. For run_rois:
 * region i, and for i = roi_count the image. Valid until the thread's next run. */
ENDCAP_C const char* endcap_item_error(size_t i);

/* --- postprocess --- */

typedef struct endcap_postprocessor endcap_postprocessor;

/* parameters: `head` and names of the table. Others as in endcap_preprocessor_new. */
ENDCAP_C endcap_status endcap_postprocessor_new(const endcap_parameter* parameters, size_t count,
                                                int32_t device, int32_t threads,
                                                endcap_postprocessor** made);
ENDCAP_C void endcap_postprocessor_free(endcap_postprocessor* postprocessor); /* NULL is allowed */

/* The tensors of the head and the outputs, in order. The rows are valid as long as the handle. */
ENDCAP_C endcap_status endcap_postprocessor_inputs(const endcap_postprocessor* postprocessor,
                                                   const endcap_tensor_spec** rows, size_t* count);
ENDCAP_C endcap_status endcap_postprocessor_outputs(const endcap_postprocessor* postprocessor,
                                                    const endcap_tensor_spec** rows, size_t* count);

typedef struct endcap_postprocess_item {
  const endcap_tensor* head;    /* in the order of endcap_postprocessor_inputs */
  const float* geometry;        /* [8]; NULL: boxes stay in pixels of the model's input */
  int32_t geometry_on_gpu;      /* 1: memory of the handle's device */
  int32_t status;               /* of earlier stages; not 0: no detections */
  const endcap_tensor* outputs; /* as endcap_postprocessor_outputs; data == NULL: left out */
  /* Written if the call waits: */
  int32_t num_detections;
  int32_t item_status;
  int32_t truncated; /* 1: max_candidates cut the candidates */
  int32_t dropped;   /* anchors that on_nan "drop" left out */
} endcap_postprocess_item;

/* A failed item has its own status and does not fail the call; endcap_item_error(i) as above. wait:
 * 0 returns when the work is enqueued on the stream (GPU only; CPU handles always wait). */
ENDCAP_C endcap_status endcap_postprocessor_run(endcap_postprocessor* postprocessor,
                                                endcap_postprocess_item* items, size_t count,
                                                void* stream, int32_t wait);

/* --- nms --- */

/* Exact greedy suppression of one image, as endcap::Nms: boxes float32 [count][4], scores float32
 * [count], class_ids int32 [count] or NULL. kept: int64 [count]; *kept_count: the number of kept
 * boxes. max_detections: -1 for no limit. */
ENDCAP_C endcap_status endcap_nms(const float* boxes, const float* scores, const int32_t* class_ids,
                                  size_t count, double iou_threshold, int64_t max_detections,
                                  int64_t* kept, int64_t* kept_count);

/* The same on a GPU, all pointers memory of the device; does not wait. A NaN score makes
 * *kept_count -1. */
ENDCAP_C endcap_status endcap_nms_cuda(const float* boxes, const float* scores,
                                       const int32_t* class_ids, size_t count, double iou_threshold,
                                       int64_t max_detections, int32_t device, void* stream,
                                       int64_t* kept, int64_t* kept_count);

#ifdef __cplusplus
}
#endif

#endif /* ENDCAP_C_API_H_ */
