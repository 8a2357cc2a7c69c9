// Parameters as text: refused with a message, or read so that what is written back reads the same.

#include "agreement.h"
#include "endcap/postprocess.h"
#include "endcap/preprocess.h"

namespace endcap::fuzz {
namespace {

// One of the names that `allowed` lists ("one of a, b, c"); empty where it lists none.
std::string PickAllowed(FuzzInput& input, std::string_view allowed) {
  constexpr std::string_view kBegin = "one of ";
  if (!allowed.starts_with(kBegin)) return {};
  allowed.remove_prefix(kBegin.size());
  std::vector<std::string> names;
  for (size_t end = 0; end != std::string_view::npos;) {
    end = allowed.find(", ");
    names.emplace_back(allowed.substr(0, end));
    if (end != std::string_view::npos) allowed.remove_prefix(end + 2);
  }
  return names[input.Size(names.size() - 1)];
}

std::string PickValue(FuzzInput& input, const ParameterInfo& info) {
  switch (input.Int(0, 3)) {
    case 0:
      return info.value;
    case 1:
      return PickAllowed(input, info.allowed);
    case 2:
      return std::to_string(input.Integer(-2, 70000));
    default:
      return input.Text();
  }
}

ParameterList PickParameters(FuzzInput& input, const std::vector<ParameterInfo>& table) {
  ParameterList list;
  const int count = input.Int(0, 8);
  for (int i = 0; i < count; ++i) {
    const ParameterInfo& info = table[input.Size(table.size() - 1)];
    const std::string name = input.Happens(8) ? input.Text() : std::string(info.name);
    list.emplace_back(name, PickValue(input, info));
  }
  return list;
}

// `parse` and `describe` are those of one stage.
template <typename Parse, typename Describe>
void CheckRoundTrip(const ParameterList& list, Parse parse, Describe describe) {
  std::vector<ParameterInfo> rows;
  try {
    rows = describe(parse(list));
  } catch (const Error& error) {
    Require(error.what()[0] != '\0', "an error without a message");
    return;
  }
  ParameterList written;
  for (const ParameterInfo& row : rows) written.emplace_back(row.name, row.value);
  const Outcome outcome = Capture([&](Outcome&) {
    const std::vector<ParameterInfo> again = describe(parse(written));
    for (size_t i = 0; i < rows.size(); ++i) {
      Require(rows[i].value == again[i].value, rows[i].name, " was written as '", rows[i].value,
              "' and reads as '", again[i].value, "'");
    }
  });
  Require(outcome.ok(), "parameters as written are refused: ", outcome.message);
}

}  // namespace
}  // namespace endcap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace endcap;
  using namespace endcap::fuzz;
  static const std::vector<ParameterInfo> preprocess = DescribePreprocessParams({});
  static const std::vector<ParameterInfo> postprocess = DescribePostprocessParams({});
  FuzzInput input(data, size);
  if (input.Bool()) {
    ParameterList list = PickParameters(input, preprocess);
    if (input.Happens(32)) {
      const std::span<const std::string_view> names = PresetNames();
      list.emplace_back("preset", names[input.Size(names.size() - 1)]);
    }
    CheckRoundTrip(list, ParsePreprocessParams, DescribePreprocessParams);
  } else {
    CheckRoundTrip(PickParameters(input, postprocess), ParsePostprocessParams,
                   DescribePostprocessParams);
  }
  return 0;
}
