/* The interface as a C compiler sees it. */

#include "c_api_client.h"

#include <string.h>

#include "endcap/c_api.h"

static const char* Preprocess(void) {
  const endcap_parameter parameters[] = {{"size", "1,2"}, {"dtype", "uint8"}, {"layout", "nhwc"}};
  endcap_preprocessor* preprocessor = NULL;
  if (endcap_preprocessor_new(parameters, 3, ENDCAP_CPU, 1, &preprocessor) != 0) {
    return endcap_last_error();
  }
  const uint8_t pixels[6] = {1, 2, 3, 4, 5, 6};
  uint8_t tensor[6] = {0};
  int32_t status = -1;
  endcap_image image = {0};
  image.format = ENDCAP_RGB;
  image.data = pixels;
  image.width = 2;
  image.height = 1;
  image.row_stride_bytes = 6;
  endcap_preprocess_output output = {0};
  output.tensor = tensor;
  output.tensor_bytes = sizeof(tensor);
  output.status = &status;
  const endcap_status ran = endcap_preprocessor_run(preprocessor, &image, &output, 1, NULL);
  endcap_preprocessor_free(preprocessor);
  if (ran != 0) return endcap_last_error();
  if (status != 0) return endcap_item_error(0);
  return memcmp(pixels, tensor, sizeof(tensor)) == 0 ? NULL : "the pixels are not the image's";
}

static const char* Suppress(void) {
  const float boxes[12] = {0, 0, 10, 10, 1, 0, 11, 10, 50, 50, 60, 60};
  const float scores[3] = {0.5F, 0.9F, 0.7F};
  int64_t kept[3];
  int64_t kept_count = 0;
  if (endcap_nms(boxes, scores, NULL, 3, 0.5, -1, kept, &kept_count) != 0) {
    return endcap_last_error();
  }
  return kept_count == 2 && kept[0] == 1 && kept[1] == 2 ? NULL : "other boxes were kept";
}

const char* RunCClient(void) {
  if (endcap_c_abi() != ENDCAP_C_ABI) return "the library is of another version";
  const char* problem = Preprocess();
  return problem != NULL ? problem : Suppress();
}
