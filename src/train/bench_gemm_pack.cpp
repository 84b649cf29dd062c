// The whole path of a low-precision linear map beside bf16: y = x W^T, dx = dy W, dW = dy^T x, with what must be quantised
// for each product, and as a step needs it, every tensor packed once.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "ops/site.h"
#include "train/op_timer.h"

namespace ida::train {
namespace {

using formats::QuantFormat;
using formats::ScaleGrid;

struct Recipe {
  std::string name;
  QuantFormat x = {};
  QuantFormat w = {};
  QuantFormat dy = {};
  bool fast_fprop = false;  // sums in fprop may keep 14 bits
  bool fast_backward = false;
  bool amax_given = false;  // by whoever made the tensor
};

std::vector<Recipe> recipes() {
  const auto grid = [](ScaleGrid g, formats::Element e) { return QuantFormat{.grid = g, .element = e}; };
  using enum formats::Element;
  const QuantFormat tensor = grid(ScaleGrid::kTensor, kE4m3);
  const QuantFormat tensor_grad = grid(ScaleGrid::kTensor, kE5m2);
  const QuantFormat row = grid(ScaleGrid::kRow, kE4m3);
  const QuantFormat vec = grid(ScaleGrid::kVec128, kE4m3);
  const QuantFormat block = grid(ScaleGrid::kBlock128, kE4m3);
  const QuantFormat mxfp8 = grid(ScaleGrid::kMx32, kE4m3);
  const QuantFormat mxfp4 = grid(ScaleGrid::kMx32, kE2m1);
  const QuantFormat nvfp4 = grid(ScaleGrid::kNv16, kE2m1);
  return {{"fp8_tensor", tensor, tensor, tensor_grad, true, false, false},
          {"fp8_tensor, amax given", tensor, tensor, tensor_grad, true, false, true},
          {"fp8_tensor, amax given, fast sums", tensor, tensor, tensor_grad, true, true, true},
          {"fp8_row", row, row, row, true, false, false},
          {"fp8_block", vec, block, vec, false, false, false},
          {"mxfp8", mxfp8, mxfp8, mxfp8, false, false, false},
          {"mxfp4", mxfp4, mxfp4, mxfp4, false, false, false},
          {"nvfp4", nvfp4, nvfp4, nvfp4, false, false, false},
          {"nvfp4, amax given", nvfp4, nvfp4, nvfp4, false, false, true}};
}

// A tensor of the map and its quantised forms.
struct Tensor {
  TensorView x;  // [rows, cols] bf16
  QuantFormat format;
  ops::QuantizedView by_rows = {};
  ops::QuantizedView by_cols = {};
  std::uint32_t* amax = nullptr;
};

struct Map {
  std::int64_t m, n, k;
  Tensor x, w, dy;
  TensorView y, dx, dw;
};

ops::QuantizedView quantized(Operands& o, const QuantFormat& format, std::int64_t rows, std::int64_t k) {
  const ops::ScalesShape shape = ops::quantized_scales_shape(format, formats::ScaleLayout::kProduct, rows, k);
  ops::QuantizedView view{.codes = o.zero(DType::kU8, rows, formats::code_row_bytes(format, k)),
                          .scales = o.zero(shape.dtype, shape.rows, shape.cols)};
  // Only NVFP4 has a scale of the tensor here: there is no prescale.
  if (format.grid == ScaleGrid::kNv16) view.tensor_scale = o.zero(DType::kF32, 1, 1).as<float>();
  return view;
}

Tensor tensor(Operands& o, std::int64_t rows, std::int64_t cols, const QuantFormat& format) {
  constexpr float kLargest = 5.5f;  // of the made-up values, about
  Tensor t{.x = o.random(DType::kBF16, rows, cols), .format = format};
  t.amax = reinterpret_cast<std::uint32_t*>(o.upload(DType::kF32, 1, 1, &kLargest).data);
  if (format.grid == ScaleGrid::kNone) return t;
  t.by_rows = quantized(o, format, rows, cols);
  t.by_cols = quantized(o, format, cols, rows);
  return t;
}

Map make_map(Operands& o, std::int64_t m, std::int64_t n, std::int64_t k, const Recipe& recipe) {
  return {.m = m,
          .n = n,
          .k = k,
          .x = tensor(o, m, k, recipe.x),
          .w = tensor(o, n, k, recipe.w),
          .dy = tensor(o, m, n, recipe.dy),
          .y = o.zero(DType::kBF16, m, n),
          .dx = o.zero(DType::kBF16, m, k),
          .dw = o.zero(DType::kF32, n, k)};
}

// Formats that the unfused preparation knows.
bool has_steps(const Recipe& recipe) {
  const ScaleGrid grid = recipe.x.grid;
  return grid == ScaleGrid::kTensor || grid == ScaleGrid::kMx32 || grid == ScaleGrid::kNv16;
}

// One thing to run: an implementation with its problem.
using Call = std::function<void(const ops::Launch&)>;

class Calls {
 public:
  Calls(OpTimer& timer, const Recipe& recipe) : timer_(timer), recipe_(recipe) {}
  std::int64_t workspace_bytes = 0;
  std::string engine;  // of the last product
  std::vector<Call> preparations;

  Call pack(const Tensor& t, bool rows, bool cols) {
    ops::QuantizeDesc desc{.rows = t.x.rows, .cols = t.x.cols, .dtype = DType::kBF16};
    if (rows) desc.by_rows = t.format;
    if (cols) desc.by_cols = t.format;
    desc.layout = formats::ScaleLayout::kProduct;
    desc.has_amax = recipe_.amax_given;
    const ops::QuantizeArgs args{.x = t.x, .by_rows = t.by_rows, .by_cols = t.by_cols, .amax = t.amax};
    return call(timer_.backend().quantize, desc, args, "quantize");
  }

  // What packing `t` one way takes without fusion, step by step.
  std::map<std::string, std::vector<Call>> steps(Operands& o, const Tensor& t, bool transposed) {
    using ops::QuantizeStep;
    std::map<std::string, std::vector<Call>> calls;
    const auto add = [&](QuantizeStep step, const TensorView& x, const ops::QuantizeStepArgs& args,
                         const QuantFormat& format) {
      const ops::QuantizeStepDesc desc{.step = step, .rows = x.rows, .cols = x.cols, .format = format};
      calls[std::string(ops::quantize_step_name(step))].push_back(
          call(timer_.backend().quantize_steps, desc, args, "quantize_step"));
    };
    TensorView x = t.x;
    if (transposed) {
      x = o.zero(DType::kBF16, t.x.cols, t.x.rows);
      add(QuantizeStep::kTranspose, t.x, {.x = t.x, .out = x}, t.format);
    }
    const bool by_tensor = t.format.grid == ScaleGrid::kTensor;
    const std::int64_t per_row = formats::scales_per_row(t.format, x.cols);
    ops::QuantizeStepArgs quantize{.x = x, .out = o.zero(DType::kU8, x.rows, x.cols)};
    quantize.amax = by_tensor ? o.zero(DType::kI32, 1, 1) : o.zero(DType::kI32, x.rows, per_row);
    quantize.scales = by_tensor ? o.zero(DType::kF32, 1, 1) : o.zero(DType::kU8, x.rows, per_row);
    add(QuantizeStep::kAmax, x, {.x = x, .out = quantize.amax}, t.format);
    if (t.format.grid == ScaleGrid::kNv16) {
      quantize.tensor_amax = o.zero(DType::kI32, 1, 1);
      add(QuantizeStep::kAmax, x, {.x = x, .out = quantize.tensor_amax}, {.grid = ScaleGrid::kTensor});
    }
    add(QuantizeStep::kQuantize, x, quantize, t.format);
    if (t.format.element == formats::Element::kE2m1)
      add(QuantizeStep::kPack, quantize.out, {.x = quantize.out, .out = o.zero(DType::kU8, x.rows, x.cols / 2)}, t.format);
    if (!by_tensor) {
      const ops::ScalesShape tiled = ops::quantized_scales_shape(t.format, formats::ScaleLayout::kProduct, x.rows, x.cols);
      add(QuantizeStep::kSwizzle, quantize.scales,
          {.x = quantize.scales, .out = o.zero(DType::kU8, tiled.rows, tiled.cols)}, t.format);
    }
    return calls;
  }

  // C[m, n] = A B^T of quantised operands, or of bf16 ones as they lie.
  Call product(const Map& map, ops::Pass pass) {
    const bool plain = recipe_.x.grid == ScaleGrid::kNone;
    const bool fprop = pass == ops::Pass::kFprop;
    ops::GemmDesc desc{.m = pass == ops::Pass::kWgrad ? map.n : map.m,
                       .n = fprop ? map.n : map.k,
                       .k = fprop                       ? map.k
                            : pass == ops::Pass::kDgrad ? map.n
                                                        : map.m};
    desc.c_dtype = pass == ops::Pass::kWgrad ? DType::kF32 : DType::kBF16;
    ops::GemmArgs args{
        .a = fprop ? map.x.x : map.dy.x, .b = pass == ops::Pass::kWgrad ? map.x.x : map.w.x, .c = {}, .bias = {}};
    args.c = fprop ? map.y : pass == ops::Pass::kDgrad ? map.dx : map.dw;
    if (plain) {
      desc.a_dtype = desc.b_dtype = DType::kBF16;
      desc.a_transposed = pass == ops::Pass::kWgrad;
      desc.b_transposed = fprop;
    } else {
      desc.a_dtype = desc.b_dtype = DType::kU8;
      desc.b_transposed = true;
      desc.a_format = fprop ? map.x.format : map.dy.format;
      desc.b_format = pass == ops::Pass::kWgrad ? map.x.format : map.w.format;
      desc.fast_accumulation = fprop ? recipe_.fast_fprop : recipe_.fast_backward;
      args.a_quantized = fprop ? map.x.by_rows : pass == ops::Pass::kDgrad ? map.dy.by_rows : map.dy.by_cols;
      args.b_quantized = fprop ? map.w.by_rows : pass == ops::Pass::kDgrad ? map.w.by_cols : map.x.by_cols;
    }
    return call(timer_.backend().gemm, desc, args, "gemm");
  }

 private:
  template <typename Desc, typename Args>
  Call call(const ops::ImplList<Desc, Args>& list, const Desc& desc, const Args& args, std::string_view op) {
    const runtime::DeviceInfo& device = timer_.device().info();
    const ops::Impl<Desc, Args>& impl = ops::choose(list, desc, device, op);
    if (op == "gemm") engine = impl.name;
    if (impl.workspace_bytes != nullptr) workspace_bytes = std::max(workspace_bytes, impl.workspace_bytes(desc, device));
    if (impl.prepare != nullptr)
      preparations.push_back([&impl, desc, args](const ops::Launch& scratch) { impl.prepare(desc, args, scratch); });
    return [&impl, desc, args](const ops::Launch& launch) { impl.run(desc, args, launch); };
  }

  OpTimer& timer_;
  const Recipe& recipe_;
};

constexpr std::array kPasses = {ops::Pass::kFprop, ops::Pass::kDgrad, ops::Pass::kWgrad};

struct Sequences {
  std::array<Call, 3> products;
  std::array<std::vector<Call>, 3> packs;  // what one product needs
  std::vector<Call> all_packs;             // every tensor once, both ways
};

Sequences sequences(Calls& calls, const Map& map, bool plain) {
  Sequences s;
  for (std::size_t p = 0; p < kPasses.size(); ++p) s.products[p] = calls.product(map, kPasses[p]);
  if (plain) return s;
  s.packs[0] = {calls.pack(map.x, true, false), calls.pack(map.w, true, false)};
  s.packs[1] = {calls.pack(map.dy, true, false), calls.pack(map.w, false, true)};
  s.packs[2] = {calls.pack(map.dy, false, true), calls.pack(map.x, false, true)};
  s.all_packs = {calls.pack(map.x, true, true), calls.pack(map.w, true, true), calls.pack(map.dy, true, true)};
  return s;
}

// The six packs of a step without fusion, in memory of their own one after the other.
void time_unfused(OpTimer& timer, Calls& calls, const Map& map, const ops::Launch& launch, GemmPackRow& row) {
  for (const Tensor* t : {&map.x, &map.w, &map.dy}) {
    for (const bool transposed : {false, true}) {
      runtime::Arena dry;
      Operands measured(timer.device(), dry);
      calls.steps(measured, *t, transposed);
      OpTimer::Memory memory(timer.device(), dry.high_water_bytes(), 0, 1);
      Operands operands(timer.device(), memory.arena);
      for (const auto& [step, list] : calls.steps(operands, *t, transposed)) {
        row.unfused_ms[step] += timer.median_ms([&](std::int64_t) {
          for (const Call& call : list) call(launch);
        });
      }
    }
  }
}

}  // namespace

GemmPackResult bench_gemm_pack(runtime::Device& device, const ops::Backend& backend, const GemmPackOptions& options) {
  GemmPackResult result{.device = device.info().name};
  std::vector<Recipe> all = {{.name = "bf16"}};
  for (const Recipe& recipe : recipes()) all.push_back(recipe);
  for (const Recipe& recipe : all) {
    for (const GemmShape& shape : options.shapes) {
      OpTimer timer(device, backend, options.repeats);
      GemmPackRow row{.recipe = recipe.name, .shape = shape};
      try {
        Calls calls(timer, recipe);
        runtime::Arena dry;
        Operands measured(device, dry);
        sequences(calls, make_map(measured, shape.m, shape.n, shape.k, recipe), recipe.x.grid == ScaleGrid::kNone);
        OpTimer::Memory memory(device, dry.high_water_bytes(), calls.workspace_bytes, 1);
        Operands operands(device, memory.arena);
        const Map map = make_map(operands, shape.m, shape.n, shape.k, recipe);
        Calls prepared(timer, recipe);
        const Sequences s = sequences(prepared, map, recipe.x.grid == ScaleGrid::kNone);
        void* workspace = memory.arena.allocate_bytes(calls.workspace_bytes, runtime::MemoryClass::kWorkspace, "workspace");
        const ops::Launch launch{device.info(),
                                 {static_cast<std::byte*>(workspace), static_cast<std::size_t>(calls.workspace_bytes)},
                                 device.queue()};
        {
          const OpTimer::Memory scratch(device, dry.high_water_bytes() + calls.workspace_bytes, 0, 1);
          for (const Call& prepare : prepared.preparations)
            prepare({device.info(),
                     {static_cast<std::byte*>(scratch.data), static_cast<std::size_t>(scratch.size_bytes)},
                     device.queue()});
        }
        const auto ms = [&](const std::vector<const std::vector<Call>*>& lists) {
          return timer.median_ms([&](std::int64_t) {
            for (const auto* list : lists)
              for (const Call& call : *list) call(launch);
          });
        };
        for (const Call& call : s.all_packs) call(launch);  // operands of the products alone
        std::vector<Call> products;
        for (std::size_t p = 0; p < kPasses.size(); ++p) {
          const std::vector<Call> product = {s.products[p]};
          row.product_ms[p] = ms({&product});
          row.path_ms[p] = ms({&s.packs[p], &product});
          row.pack_ms[p] = s.packs[p].empty() ? 0.0 : ms({&s.packs[p]});
          products.push_back(s.products[p]);
        }
        row.step_ms = ms({&s.all_packs, &products});
        if (!backend.quantize_steps.empty() && has_steps(recipe) && !recipe.amax_given)
          time_unfused(timer, prepared, map, launch, row);
        row.engine = prepared.engine;
      } catch (const Error& error) {
        row.refusal = error.what();
      }
      result.rows.push_back(std::move(row));
    }
  }
  return result;
}

}  // namespace ida::train
