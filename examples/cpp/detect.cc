// Detections in JPEG files, by libcurl alone: each file goes as it is over one HTTP connection that
// stays open, tensors come back in binary.
//
//   cmake -S examples/cpp -B build/examples-cpp && cmake --build build/examples-cpp
//   endcap serve model_repository                                    # in another shell
//   build/examples-cpp/detect http://127.0.0.1:8000 photo.jpg another.jpg
//
// prints a line for each detection: file, box x1 y1 x2 y2 in pixels, score, class id. Ends with 1
// where a file failed; the others have results all the same.

#include <curl/curl.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using Json = nlohmann::json;

constexpr char kModel[] = "detect";
constexpr char kJsonLength[] = "Inference-Header-Content-Length";
constexpr long kTimeoutSeconds = 30;

using Box = std::array<float, 4>;  // x1, y1, x2, y2
// Output name -> its bytes; numbers are little-endian, rows one behind the other.
using Tensors = std::map<std::string, std::string>;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (!file || !bytes) throw std::runtime_error("it cannot be read");
  return bytes.str();
}

// What a BYTES element has in front: its length, uint32, the lowest byte first.
std::string LengthPrefix(std::size_t size) {
  std::string prefix;
  for (int shift = 0; shift < 32; shift += 8) prefix += static_cast<char>(size >> shift & 0xff);
  return prefix;
}

// The JSON in front of the tensors' bytes.
std::string RequestHeader(std::size_t element_bytes) {
  Json outputs = Json::array();
  for (const char* name :
       {"num_detections", "detection_boxes", "detection_scores", "detection_classes"}) {
    outputs.push_back({{"name", name}, {"parameters", {{"binary_data", true}}}});
  }
  const Json input = {{"name", "encoded"},
                      {"datatype", "BYTES"},
                      {"shape", {1, 1}},
                      {"parameters", {{"binary_data_size", element_bytes}}}};
  return Json{{"inputs", Json::array({input})}, {"outputs", outputs}}.dump();
}

Tensors ReadTensors(const std::string& body, std::size_t json_bytes) {
  const Json response = Json::parse(body.substr(0, json_bytes));
  Tensors tensors;
  std::size_t begin = json_bytes;
  for (const Json& output : response.at("outputs")) {
    const std::size_t size = output.at("parameters").at("binary_data_size");
    if (size > body.size() - begin) throw std::runtime_error("the response is cut short");
    tensors[output.at("name")] = body.substr(begin, size);
    begin += size;
  }
  return tensors;
}

template <typename T>
std::vector<T> Values(const Tensors& tensors, const std::string& name) {
  const std::string& bytes = tensors.at(name);
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// The message in Triton's response to a request that failed.
std::string ErrorMessage(const std::string& body, long status) {
  const Json response = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (response.is_object() && response.contains("error")) return response.at("error");
  return "the server responded with HTTP status " + std::to_string(status);
}

// One connection: a handle of libcurl keeps it open from request to request.
class Client {
 public:
  explicit Client(std::string url)
      : url_(std::move(url)), curl_(curl_easy_init(), curl_easy_cleanup) {
    if (!curl_) throw std::runtime_error("libcurl cannot be initialised");
  }

  Tensors Infer(const std::string& model, const std::string& image) const {
    const std::string prefix = LengthPrefix(image.size());
    const std::string header = RequestHeader(prefix.size() + image.size());
    const std::string body = header + prefix + image;
    const std::string target = url_ + "/v2/models/" + model + "/infer";
    const std::string length = std::string(kJsonLength) + ": " + std::to_string(header.size());
    const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(
        curl_slist_append(nullptr, length.c_str()), curl_slist_free_all);
    std::string response;
    std::size_t json_bytes = 0;
    Set(CURLOPT_URL, target.c_str());
    Set(CURLOPT_HTTPHEADER, headers.get());
    Set(CURLOPT_TIMEOUT, kTimeoutSeconds);
    Set(CURLOPT_NOSIGNAL, 1L);
    Set(CURLOPT_POSTFIELDS, body.data());
    Set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    Set(CURLOPT_WRITEFUNCTION, &Append);
    Set(CURLOPT_WRITEDATA, &response);
    Set(CURLOPT_HEADERFUNCTION, &TakeJsonLength);
    Set(CURLOPT_HEADERDATA, &json_bytes);
    const CURLcode code = curl_easy_perform(curl_.get());
    if (code != CURLE_OK) throw std::runtime_error(url_ + ": " + curl_easy_strerror(code));
    long status = 0;
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &status);
    if (status != 200) throw std::runtime_error(ErrorMessage(response, status));
    return ReadTensors(response, json_bytes);
  }

 private:
  template <typename T>
  void Set(CURLoption option, T value) const {
    if (curl_easy_setopt(curl_.get(), option, value) != CURLE_OK) {
      throw std::runtime_error("libcurl refuses an option");
    }
  }

  static std::size_t Append(char* data, std::size_t, std::size_t size, void* response) {
    static_cast<std::string*>(response)->append(data, size);
    return size;
  }

  // Names of HTTP headers may be in any case.
  static std::size_t TakeJsonLength(char* line, std::size_t, std::size_t size, void* json_bytes) {
    const std::size_t name = sizeof(kJsonLength) - 1;
    if (size > name && line[name] == ':' && curl_strnequal(line, kJsonLength, name) != 0) {
      const std::string value(line + name + 1, size - name - 1);
      *static_cast<std::size_t*>(json_bytes) = std::strtoul(value.c_str(), nullptr, 10);
    }
    return size;
  }

  std::string url_;
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl_;
};

void Print(const std::string& file, const Tensors& tensors) {
  const auto counts = Values<std::int32_t>(tensors, "num_detections");
  const auto boxes = Values<Box>(tensors, "detection_boxes");
  const auto scores = Values<float>(tensors, "detection_scores");
  const auto classes = Values<std::int32_t>(tensors, "detection_classes");
  const std::size_t count = counts.empty() ? 0 : static_cast<std::size_t>(counts.front());
  for (std::size_t row = 0; row < count; ++row) {
    const Box& box = boxes.at(row);
    std::printf("%s  %.1f %.1f %.1f %.1f  %.3f  %d\n", file.c_str(), box[0], box[1], box[2], box[3],
                scores.at(row), classes.at(row));
  }
}

// Returns whether all files have results.
bool Detect(const std::string& url, const std::vector<std::string>& files) {
  const Client client(url);
  bool all = true;
  for (const std::string& file : files) {
    try {
      Print(file, client.Infer(kModel, ReadFile(file)));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "detect: %s: %s\n", file.c_str(), error.what());
      all = false;
    }
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: detect http://HOST:PORT FILE.jpg...\n");
    return 2;
  }
  curl_global_init(CURL_GLOBAL_DEFAULT);
  const bool all = Detect(argv[1], {argv + 2, argv + argc});
  curl_global_cleanup();
  return all ? 0 : 1;
}
