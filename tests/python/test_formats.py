"""Block formats through the package: the golden file, an independent form of every rule, and every way to ask wrongly."""
import itertools
import json
import struct
import unittest
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np

from ida_train import formats
from ida_train.formats import FORMATS, dequantize, quantize

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "quant.safetensors"
TYPES = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e2m1": ml_dtypes.float4_e2m1fn}
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0, "e2m1": 6.0}
BLOCKS = {"fp8_vec128": (1, 128), "fp8_block128": (128, 128), "mxfp8": (1, 32), "mxfp4": (1, 32), "nvfp4": (1, 16)}


def element_of(name):
    return "e2m1" if "fp4" in name else "e5m2" if name.endswith("e5m2") else "e4m3"


def block_of(name, rows, k, square=False):
    """(rows, columns) that share a scale."""
    grid = name.removesuffix("_e5m2")
    height, width = {"fp8_tensor": (rows, k), "fp8_row": (1, k)}.get(grid) or BLOCKS[grid]
    return (width if square else height), width


def codes_as_values(quantized):
    """The element values by ml_dtypes, [rows, k]."""
    return quantized.unpacked_codes().view(TYPES[element_of(quantized.format)]).astype(np.float32)


def scales_as_values(quantized):
    """The scales as f32, spread over [rows, k], for the layout "rows"."""
    rows, k = quantized.matrix_shape
    scales = quantized.scales
    if quantized.format.startswith("mx"):
        scales = scales.view(ml_dtypes.float8_e8m0fnu)
    elif quantized.format == "nvfp4":
        scales = scales.view(ml_dtypes.float8_e4m3fn)
    height, width = block_of(quantized.format, rows, k)
    spread = scales.astype(np.float32).repeat(height, axis=0)[:rows].repeat(width, axis=1)[:, :k]
    return spread


def sample(rows, cols, seed=1):
    random = np.random.default_rng(seed)
    return (random.standard_normal((rows, cols)) * np.exp2(random.integers(-6, 6, (rows, 1)))).astype(np.float32)


def read_golden():
    raw = GOLDEN.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8:8 + size]), raw[8 + size:]
    header.pop("__metadata__")
    return {name: np.frombuffer(data[slice(*entry["data_offsets"])], {"F32": "<f4", "U8": "u1"}[entry["dtype"]])
            .reshape(entry["shape"]) for name, entry in header.items()}


class GoldenTest(unittest.TestCase):
    def test_every_code_and_scale(self):
        golden, compared = read_golden(), 0
        for name, codes in golden.items():
            if not name.endswith(".q"):
                continue
            case, format_name, mode, _ = name.split(".")
            choice = {"two_level": mode == "two_level"} if format_name == "nvfp4" else {"scale_rule": mode}
            got = quantize(golden[f"{case}.x"], format_name, **choice)
            prefix = f"{case}.{format_name}.{mode}."
            np.testing.assert_array_equal(got.unpacked_codes(), codes, name)
            scale = "scale_e4m3" if format_name == "nvfp4" else "scale_ue8m0"
            np.testing.assert_array_equal(got.scales, golden[prefix + scale], name)
            if format_name == "nvfp4":
                np.testing.assert_array_equal(got.tensor_scale, golden[prefix + "global"], name)
            compared += 1
        self.assertEqual(compared, 24)


class RuleTest(unittest.TestCase):
    def test_dequantize_is_element_times_scale_by_ml_dtypes(self):
        x = sample(150, 272)
        for name, axis in itertools.product(FORMATS, (-1, 0)):
            got = quantize(x, name, axis=axis)
            values = codes_as_values(got) * scales_as_values(got) * got.tensor_scale
            np.testing.assert_array_equal(dequantize(got), values.T if axis == 0 else values, name)

    def test_codes_are_the_nearest_under_their_scale(self):
        x = sample(150, 272)
        for name in FORMATS:
            got = quantize(x, name)
            scale = scales_as_values(got).astype(np.float64) * got.tensor_scale.astype(np.float64)
            quotient = np.divide(x, scale, out=np.zeros_like(scale), where=scale != 0)
            if name.startswith("fp8"):  # encoded from x * (largest / amax), one f32 product
                rows, k = x.shape
                height, width = block_of(name, rows, k)
                starts = range(0, rows, height), range(0, k, width)
                amax = np.maximum.reduceat(np.maximum.reduceat(np.abs(x), starts[0], axis=0), starts[1], axis=1)
                encode = np.float32(LARGEST[element_of(name)]) / amax
                quotient = x * encode.repeat(height, 0)[:rows].repeat(width, 1)[:, :k]
            quotient = np.clip(quotient.astype(np.float32), -LARGEST[element_of(name)], LARGEST[element_of(name)])
            expected = quotient.astype(TYPES[element_of(name)]).view(np.uint8)
            np.testing.assert_array_equal(got.unpacked_codes(), expected, name)

    def test_axis_0_is_the_transpose(self):
        x = sample(64, 96)
        for name in FORMATS:
            got, other = quantize(x, name, axis=0), quantize(np.ascontiguousarray(x.T), name)
            np.testing.assert_array_equal(got.codes, other.codes, name)
            np.testing.assert_array_equal(got.scales, other.scales, name)
            np.testing.assert_array_equal(dequantize(got), dequantize(other).T, name)

    def test_leading_dimensions_are_folded(self):
        x = sample(6, 64).reshape(2, 3, 64)
        got = quantize(x, "mxfp8", axis=2)
        self.assertEqual((dequantize(got).shape, got.codes.shape), ((2, 3, 64), (6, 64)))
        np.testing.assert_array_equal(got.codes, quantize(x.reshape(6, 64), "mxfp8").codes)
        self.assertEqual(dequantize(quantize(x[0, 0], "nvfp4")).shape, (64,))

    def test_narrow_types_and_strides_are_taken_as_they_are(self):
        x = sample(8, 64).astype(ml_dtypes.bfloat16)
        expected = quantize(x.astype(np.float32), "mxfp8").codes
        np.testing.assert_array_equal(quantize(x, "mxfp8").codes, expected)
        wide = np.zeros((8, 128), np.float32)
        wide[:, ::2] = x
        np.testing.assert_array_equal(quantize(wide[:, ::2], "mxfp8").codes, expected)
        np.testing.assert_array_equal(quantize(x.astype(np.float16), "mxfp8").codes, expected)

    def test_a_packed_byte_holds_the_first_element_in_its_low_half(self):
        got = quantize(np.float32([[6, -0.5, 1]]), "mxfp4")
        self.assertEqual(got.codes.tolist(), [[0x97, 0x02]])
        self.assertEqual(got.unpacked_codes().tolist(), [[0x7, 0x9, 0x2]])


class EdgeTest(unittest.TestCase):
    def test_a_group_that_is_not_finite_decodes_to_nan(self):
        for name, bad in itertools.product(FORMATS, (np.nan, np.inf, -np.inf)):
            x = sample(256, 256)
            x[3, 40] = bad
            values = dequantize(quantize(x, name))
            height, width = block_of(name, 256, 256)
            row, col = 3 // height * height, 40 // width * width
            self.assertTrue(np.isnan(values[row:row + height, col:col + width]).all(), name)
            if name not in ("fp8_tensor", "fp8_tensor_e5m2", "nvfp4"):
                self.assertEqual(np.isnan(values).sum(), height * width, name)

    def test_zeros_stay_zeros(self):
        for name in FORMATS:
            np.testing.assert_array_equal(dequantize(quantize(np.zeros((3, 40), np.float32), name)), np.zeros((3, 40)), name)

    def test_every_exponent_stays_finite_and_close(self):
        for exponent, name in itertools.product(range(-100, 121, 5), FORMATS):
            x = np.ldexp(np.float32([[1, -0.5, 1.25, 0]]).repeat(8, axis=1), exponent).astype(np.float32)
            values = dequantize(quantize(x, name))
            bound = 0.26 if element_of(name) == "e2m1" else 0.07 if element_of(name) == "e4m3" else 0.13
            self.assertLessEqual(np.abs(values - x).max(), bound * np.abs(x).max(), (name, exponent))


class ChoiceTest(unittest.TestCase):
    def test_floor_and_ceil_differ_where_the_largest_element_would_saturate(self):
        x = np.full((1, 32), 480, np.float32)
        self.assertEqual([quantize(x, "mxfp8", scale_rule=rule).scales[0, 0] for rule in ("floor", "ceil", None)],
                         [127, 128, 128])
        self.assertEqual(dequantize(quantize(x, "mxfp8", scale_rule="floor"))[0, 0], 448)

    def test_square_blocks_give_a_matrix_and_its_transpose_the_same_values(self):
        x = np.ldexp(sample(96, 64), np.random.default_rng(2).integers(-40, 0, (96, 64))).astype(np.float32)
        for name in ("mxfp8", "mxfp8_e5m2", "mxfp4", "nvfp4"):
            rows, columns = (dequantize(quantize(x, name, square_blocks=True, axis=axis)) for axis in (-1, 0))
            np.testing.assert_array_equal(rows, columns, name)
            self.assertFalse(np.array_equal(*(dequantize(quantize(x, name, axis=axis)) for axis in (-1, 0))), name)

    def test_power_of_two_scales(self):
        for name in FORMATS[:8]:
            scales = quantize(sample(130, 140), name, power_of_two=True).scales
            self.assertTrue((np.frexp(scales)[0] == 0.5).all(), name)
            self.assertFalse((np.frexp(quantize(sample(130, 140), name).scales)[0] == 0.5).all(), name)

    def test_two_levels_and_one(self):
        x = sample(4, 64)
        self.assertEqual(quantize(x, "nvfp4", two_level=False).tensor_scale.tolist(), [1])
        self.assertEqual(quantize(x, "nvfp4").tensor_scale, np.abs(x).max() / np.float32(2688))

    def test_four_over_six_is_closer(self):
        x = sample(64, 256)
        plain, better = (np.square(dequantize(quantize(x, "nvfp4", four_over_six=choice)) - x).sum() for choice in (False, True))
        self.assertLess(better, plain)

    def test_stochastic_rounding_is_reproducible_keyed_and_unbiased(self):
        x = np.full((64, 512), 0.3, np.float32)
        x[:, ::32] = 6
        first = quantize(x, "mxfp4", rounding="stochastic", seed=5, step=2, tensor=3)
        np.testing.assert_array_equal(
            first.codes, quantize(x, "mxfp4", rounding="stochastic", seed=5, step=2, tensor=3).codes)
        for key in ({"seed": 6, "step": 2, "tensor": 3}, {"seed": 5, "step": 3, "tensor": 3}, {"seed": 5, "step": 2, "tensor": 4}):
            self.assertFalse(np.array_equal(first.codes, quantize(x, "mxfp4", rounding="stochastic", **key).codes), key)
        drawn = dequantize(first)[x < 1]
        self.assertEqual(set(drawn.tolist()), {0.0, 0.5})
        # Five standard errors of a mean of n draws of 0 or 0.5 with probability 0.6 of the latter.
        self.assertLess(abs(drawn.mean() - 0.3), 5 * 0.5 * np.sqrt(0.24 / drawn.size))

    def test_the_prescale_is_undone(self):
        x = sample(16, 64) * np.float32(1e-6)
        exponent = int(np.round(np.log2(4 / np.abs(x).max())))
        for name in FORMATS:
            auto, given, plain = (quantize(x, name, prescale=prescale) for prescale in ("auto", exponent, None))
            np.testing.assert_array_equal(auto.codes, given.codes, name)
            np.testing.assert_array_equal(auto.scales, given.scales, name)
            if name != "nvfp4":
                self.assertEqual(auto.tensor_scale.tolist(), [2.0**-exponent])
            np.testing.assert_array_equal(dequantize(auto), dequantize(plain), name)
        # A single level with e4m3 scales loses everything at this magnitude, unless it is moved first.
        self.assertEqual(np.abs(dequantize(quantize(x, "nvfp4", two_level=False))).max(), 0)
        moved = dequantize(quantize(x, "nvfp4", two_level=False, prescale="auto"))
        self.assertLess(np.linalg.norm(moved - x), 0.15 * np.linalg.norm(x))

    def test_hadamard_is_orthogonal_undone_and_keyed(self):
        x = sample(16, 64)
        for name, axis in itertools.product(("mxfp8", "nvfp4", "fp8_row"), (-1, 0)):
            got = quantize(x, name, hadamard="fixed", axis=axis)
            bound = 0.15 if name == "nvfp4" else 0.05
            self.assertLess(np.linalg.norm(dequantize(got) - x), bound * np.linalg.norm(x), name)
        sign = np.float32([-1 if got.hadamard_signs >> i & 1 else 1 for i in range(16)])
        matrix = np.float32([[(-1) ** (i & j).bit_count() for j in range(16)] for i in range(16)]) / 4 * sign
        got = quantize(x, "fp8_row", hadamard="fixed")
        transformed = np.einsum("ij,rbj->rbi", matrix, x.reshape(16, 4, 16)).reshape(16, 64)
        self.assertLess(np.linalg.norm(dequantize(got, undo_hadamard=False) - transformed), 0.05 * np.linalg.norm(x))
        signs = {quantize(x, "nvfp4", hadamard="seeded", seed=seed, step=step).hadamard_signs
                 for seed, step in itertools.product(range(3), range(3))}
        self.assertGreater(len(signs), 6)

    def test_the_layout_of_products(self):
        x = sample(130, 272)
        for name, square in [(name, None) for name in FORMATS] + [("mxfp8", True), ("nvfp4", True)]:
            rows, product = (quantize(x, name, layout=layout, square_blocks=square) for layout in ("rows", "product"))
            np.testing.assert_array_equal(rows.codes, product.codes, name)
            np.testing.assert_array_equal(dequantize(rows), dequantize(product), name)
            if name.startswith(("mx", "nv")):
                per_row = rows.scales.shape[1]
                tiles = (per_row + 3) // 4
                tiled = product.scales.reshape(2, tiles, 32, 4, 4)  # row block, tile, row % 32, row / 32 % 4, column % 4
                spread = tiled.transpose(0, 3, 2, 1, 4).reshape(256, tiles * 4)
                np.testing.assert_array_equal(spread[:130, :per_row], rows.scales, name)
                self.assertEqual((spread[130:].sum(), spread[:, per_row:].sum()), (0, 0))
        self.assertEqual(quantize(x, "fp8_vec128", layout="product").scales.shape, (3, 130))
        self.assertEqual(quantize(x, "fp8_block128", layout="product").scales.shape, (2, 4))


class RefusalTest(unittest.TestCase):
    def assert_refused(self, words, *arguments, error=ValueError, call=quantize, **choices):
        with self.assertRaises(error) as caught:
            call(*arguments, **choices)
        self.assertIn(words, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))

    def test_arrays(self):
        x = np.ones((2, 32), np.float32)
        self.assert_refused("expected float32, float16 or bfloat16, got float64", x.astype(np.float64), "mxfp8", error=TypeError)
        self.assert_refused("got int64", [[1, 2]], "mxfp8", error=TypeError)
        for empty in (np.float32(1), np.ones((0, 4), np.float32), np.ones((4, 0), np.float32)):
            self.assert_refused("array: expected at least one dimension and one element", empty, "mxfp8")
        for axis in (1.5, "0"):
            self.assert_refused("", x, "mxfp8", axis=axis, error=TypeError)
        self.assert_refused("axis: expected the last dimension", x, "mxfp8", axis=2)
        self.assert_refused("axis: expected the last dimension", x.reshape(1, 2, 32), "mxfp8", axis=0)

    def test_names(self):
        x = np.ones((2, 32), np.float32)
        self.assert_refused("format: no format is called 'mxfp6'", x, "mxfp6")
        self.assert_refused("format: no format is called 'none'", x, "none")
        self.assert_refused("scale_rule: expected one of 'ceil', 'floor', got 'up'", x, "mxfp8", scale_rule="up")
        self.assert_refused("rounding: expected one of 'nearest_even', 'stochastic', got 'up'", x, "mxfp8", rounding="up")
        self.assert_refused("hadamard: expected one of", x, "mxfp8", hadamard="random")
        self.assert_refused("layout: expected one of 'rows', 'product', got 'tiled'", x, "mxfp8", layout="tiled")
        self.assert_refused("prescale: expected an exponent or 'auto', got 'on'", x, "mxfp8", prescale="on")

    def test_numbers(self):
        x = np.ones((2, 32), np.float32)
        for prescale in (-127, 127, 10**30):
            self.assert_refused("prescale: expected -126 to 126", x, "mxfp8", prescale=prescale)
        for what, number in itertools.product(("seed", "step", "tensor"), (-1, 2**64)):
            self.assert_refused(f"{what}: expected 0 to 2^64 - 1, got {number}", x, "mxfp8", **{what: number})
        self.assert_refused("", x, "mxfp8", seed=1.5, error=TypeError)

    def test_choices_that_a_format_does_not_have(self):
        x = np.ones((2, 32), np.float32)
        self.assert_refused("scale_rule: a choice of mxfp8 and mxfp4", x, "nvfp4", scale_rule="ceil")
        self.assert_refused("two_level: a choice of nvfp4", x, "mxfp4", two_level=True)
        self.assert_refused("power_of_two: a choice of formats with f32 scales", x, "mxfp8", power_of_two=True)
        self.assert_refused("square blocks are a choice of", x, "fp8_row", square_blocks=True)
        self.assert_refused("four-over-six is a choice of nvfp4", x, "mxfp4", four_over_six=True)
        self.assert_refused("four-over-six is a choice of nvfp4", x, "nvfp4", four_over_six=True, rounding="stochastic")
        self.assert_refused("multiple of 16", np.ones((2, 40), np.float32), "mxfp8", hadamard="fixed")

    def test_arrays_that_do_not_belong_together(self):
        got = quantize(np.ones((3, 33), np.float32), "mxfp4")
        wrong = [({"codes": got.codes[:, 1:]}, ValueError, "codes: expected [3, 17], got [3, 16]"),
                 ({"scales": got.scales[:1]}, ValueError, "scales: expected u8 [3, 2], got another type or [1, 2]"),
                 ({"scales": got.scales.astype(np.float32)}, ValueError, "scales: expected u8 [3, 2]"),
                 ({"tensor_scale": np.ones(2, np.float32)}, ValueError, "tensor_scale: expected one value, got 2"),
                 ({"shape": (3, 40)}, ValueError, "codes: expected [3, 20]"),
                 ({"format": "mxfp5"}, ValueError, "no format is called 'mxfp5'"),
                 ({"codes": got.codes.astype(np.int32)}, TypeError, "codes: expected uint8, got int32"),
                 ({"codes": got.codes[0]}, TypeError, "codes: expected a numpy array of 2 dimensions"),
                 ({"tensor_scale": np.ones(1)}, TypeError, "tensor_scale: expected float32, got float64")]
        for change, error, words in wrong:
            self.assert_refused(words, replace(got, **change), call=dequantize, error=error)

    def test_every_name_is_known_to_the_engine(self):
        self.assertEqual(len(FORMATS), 12)
        for name in FORMATS:
            self.assertEqual(formats.quantize(np.ones((1, 1), np.float32), name).format, name)


if __name__ == "__main__":
    unittest.main()
