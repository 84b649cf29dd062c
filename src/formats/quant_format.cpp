#include "formats/quant_format.h"

#include <array>

namespace ida::formats {
namespace {

struct Named {
  std::string_view name;
  ScaleGrid grid;
  Element element;
};
constexpr std::array kNames = {Named{"fp8_tensor", ScaleGrid::kTensor, Element::kE4m3},
                               Named{"fp8_tensor_e5m2", ScaleGrid::kTensor, Element::kE5m2},
                               Named{"fp8_row", ScaleGrid::kRow, Element::kE4m3},
                               Named{"fp8_row_e5m2", ScaleGrid::kRow, Element::kE5m2},
                               Named{"fp8_vec128", ScaleGrid::kVec128, Element::kE4m3},
                               Named{"fp8_vec128_e5m2", ScaleGrid::kVec128, Element::kE5m2},
                               Named{"fp8_block128", ScaleGrid::kBlock128, Element::kE4m3},
                               Named{"fp8_block128_e5m2", ScaleGrid::kBlock128, Element::kE5m2},
                               Named{"mxfp8", ScaleGrid::kMx32, Element::kE4m3},
                               Named{"mxfp8_e5m2", ScaleGrid::kMx32, Element::kE5m2},
                               Named{"mxfp4", ScaleGrid::kMx32, Element::kE2m1},
                               Named{"nvfp4", ScaleGrid::kNv16, Element::kE2m1}};

}  // namespace

std::string format_name(const QuantFormat& format) {
  for (const Named& n : kNames)
    if (n.grid == format.grid && n.element == format.element) return std::string(n.name);
  return "none";
}

std::optional<QuantFormat> format_of_name(std::string_view name) {
  for (const Named& n : kNames)
    if (n.name == name) return QuantFormat{.grid = n.grid, .element = n.element};
  return std::nullopt;
}

}  // namespace ida::formats
