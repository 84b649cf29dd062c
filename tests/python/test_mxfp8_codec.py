"""The MXFP8 single file: its rules element by element, files built by hand, and every way to be wrong."""
import hashlib
import json
import struct
import tempfile
import unittest
from pathlib import Path

import ml_dtypes
import numpy as np

from ida_train import CorruptFileError
from ida_train.native import mxfp8_codec
from ida_train.native.mxfp8_codec import read_mxfp8_safetensors, write_mxfp8_safetensors

METADATA = {"format": "pt", "weights_dtype": "MXFP8_E4M3_UE8M0_K32"}


def file_bytes(tensors, metadata=METADATA):
    """A safetensors file of (name, dtype, shape, bytes), put together without the package."""
    header, data = {"__metadata__": metadata}, b""
    for name, dtype, shape, raw in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def rule(values):
    """(codes, scales) of the format's text in plain Python, without the engine."""
    flat = values.astype(np.float64).reshape(-1)
    codes, scales = [], []
    for begin in range(0, flat.size, 32):
        block = flat[begin:begin + 32]
        amax = np.abs(block).max()
        exponent = -127
        if amax > 0:
            exponent = -126
            while amax > 448 * 2.0**exponent:
                exponent += 1
        scales.append(exponent + 127)
        scale = max(2.0**exponent, float(np.float32(1e-30)))
        codes.append((block / scale).astype(np.float32).astype(ml_dtypes.float8_e4m3fn).view(np.uint8))
    return np.concatenate(codes), np.array(scales, dtype=np.uint8)


class FileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "model.safetensors"

    def read(self, tensors, metadata=METADATA, **options):
        self.path.write_bytes(file_bytes(tensors, metadata))
        return read_mxfp8_safetensors(self.path, **options)

    def assert_corrupt(self, words, tensors, metadata=METADATA):
        with self.assertRaises(CorruptFileError) as caught:
            self.read(tensors, metadata)
        message = str(caught.exception)
        self.assertIn(words, message)
        self.assertIn(str(self.path), message)
        self.assertNotIn("\n", message)


class RuleTest(unittest.TestCase):
    def test_every_code_under_every_scale(self):
        codes = np.tile(np.arange(256, dtype=np.uint8), 255)
        scales = np.repeat(np.arange(255, dtype=np.uint8), 8)
        factors = np.maximum(np.exp2(scales.astype(np.float64) - 127), float(np.float32(1e-30))).astype(np.float32)
        with np.errstate(over="ignore"):
            expected = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32) * np.repeat(factors, 32)
        np.testing.assert_array_equal(mxfp8_codec.decode_mxfp8(codes, scales), expected)

    def test_codes_and_scales_are_those_of_the_rule(self):
        random = np.random.default_rng(7)
        for size in (1, 31, 32, 33, 1000):
            values = (random.standard_normal(size) * np.exp2(random.integers(-30, 30, size))).astype(np.float32)
            codes, scales = mxfp8_codec.encode_mxfp8(values)
            expected_codes, expected_scales = rule(values)
            np.testing.assert_array_equal(scales, expected_scales)
            np.testing.assert_array_equal(codes, expected_codes)

    def test_the_scale_steps_where_the_largest_code_ends(self):
        for exponent in (-126, -90, -3, 0, 40, 119):
            top = np.float32(448 * 2.0**exponent)
            for amax, byte in ((top, exponent + 127), (np.nextafter(top, np.float32(np.inf)), exponent + 128)):
                self.assertEqual(mxfp8_codec.encode_mxfp8(np.array([amax]))[1].tolist(), [byte])
        self.assertEqual(mxfp8_codec.encode_mxfp8(np.array([1e-45], np.float32))[1].tolist(), [1])

    def test_zeros_keep_their_sign_and_get_byte_0(self):
        codes, scales = mxfp8_codec.encode_mxfp8(np.array([0.0, -0.0], np.float32))
        self.assertEqual((codes.tolist(), scales.tolist()), ([0, 0x80], [0]))

    def test_what_is_not_finite_becomes_nan_with_its_sign_under_byte_0(self):
        values = np.array([np.nan, np.inf, -np.inf, 1.0] + [0.0] * 28 + [2.0], np.float32)
        codes, scales = mxfp8_codec.encode_mxfp8(values)
        self.assertEqual(codes[:4].tolist(), [0x7F, 0x7F, 0xFF, 0x7E])
        self.assertEqual(scales.tolist(), [0, 127 - 7])
        self.assertTrue(np.isnan(mxfp8_codec.decode_mxfp8(codes, scales)[:3]).all())

    def test_small_types_are_widened_and_others_refused(self):
        values = np.linspace(-3, 3, 40, dtype=np.float32)
        for dtype in (np.float16, ml_dtypes.bfloat16):
            narrow = values.astype(dtype)
            for got, expected in zip(mxfp8_codec.encode_mxfp8(narrow), mxfp8_codec.encode_mxfp8(narrow.astype(np.float32))):
                np.testing.assert_array_equal(got, expected)
        for array in (values.astype(np.float64), np.arange(4), ["a"]):
            with self.assertRaisesRegex(TypeError, "expected float32, float16 or bfloat16"):
                mxfp8_codec.encode_mxfp8(array)

    def test_sizes_and_scales_of_decode_are_checked(self):
        codes = np.zeros(33, np.uint8)
        with self.assertRaisesRegex(ValueError, r"expected shape \(2,\) for 33 codes, got \(1,\)"):
            mxfp8_codec.decode_mxfp8(codes, np.zeros(1, np.uint8))
        with self.assertRaisesRegex(ValueError, "scale 1 is NaN"):
            mxfp8_codec.decode_mxfp8(codes, np.array([0, 255], np.uint8))
        with self.assertRaisesRegex(TypeError, "codes: expected a numpy array of uint8, got int64"):
            mxfp8_codec.decode_mxfp8(codes.astype(np.int64), np.zeros(2, np.uint8))


class ReadTest(FileTest):
    def test_a_file_built_by_hand(self):
        # [in = 2, out = 18]: 36 elements, so the second block has 4. e4m3: 0x38 = 1, 0x40 = 2, 0xB8 = -1, 0x01 = 2^-9.
        codes = bytes([0x38, 0x40, 0xB8, 0x01] + [0] * 28 + [0x38, 0x7E, 0x80, 0x40])
        tensors = self.read([
            ("model.norm.weight", "BF16", [2], bytes([0x80, 0x3F, 0x20, 0xC0])),
            ("model.layers.0.self_attn.q_proj.weight", "F8_E4M3", [2, 18], codes),
            ("lm_head.weight", "F8_E4M3", [1, 3], bytes([0x38, 0x40, 0xB8])),
            ("model.layers.0.self_attn.q_proj.weight.scale", "U8", [2], bytes([128, 126])),
            ("lm_head.weight.scale", "U8", [1], bytes([0])),
        ])
        self.assertEqual(list(tensors), ["model.norm.weight", "model.layers.0.self_attn.q_proj.weight", "lm_head.weight"])
        np.testing.assert_array_equal(tensors["model.norm.weight"], np.array([1.0, -2.5], np.float32))
        stored = np.zeros((2, 18), np.float32)
        stored[0, :4] = [2, 4, -2, 2 * 2.0**-9]
        stored[1, 14:] = [0.5, 224, -0.0, 1]
        projection = tensors["model.layers.0.self_attn.q_proj.weight"]
        self.assertEqual((projection.shape, projection.dtype), ((18, 2), np.float32))
        np.testing.assert_array_equal(projection, stored.T)
        np.testing.assert_array_equal(tensors["lm_head.weight"], np.float32([[1e-30, 2e-30, -1e-30]]))

    def test_the_projections_alone_are_transposed(self):
        names = [f"model.layers.0.{part}.weight" for part in (
            "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj",
            "mlp.down_proj")] + ["model.embed_tokens.weight", "lm_head.weight", "model.layers.0.mlp.gate.weight"]
        entries = [(name, "F8_E4M3", [1, 3], bytes([0x38, 0x40, 0x30])) for name in names]
        entries += [(f"{name}.scale", "U8", [1], bytes([127])) for name in names]
        for name, values in self.read(entries).items():
            self.assertEqual(values.shape, (3, 1) if "_proj" in name else (1, 3), name)
            np.testing.assert_array_equal(values.reshape(-1), np.float32([1, 2, 0.5]))
        for name, values in self.read(entries, native_orientation=True).items():
            self.assertEqual(values.shape, (1, 3), name)

    def test_a_payload_may_be_called_u8_and_a_scale_e8m0(self):
        tensors = self.read([("w", "U8", [2], bytes([0x38, 0x40])), ("w.scale", "F8_E8M0", [1], bytes([128]))])
        np.testing.assert_array_equal(tensors["w"], np.float32([2, 4]))

    def test_other_types_stay_what_they_are_wherever_they_lie(self):
        tensors = self.read([("flag", "U8", [1], b"\x05"), ("half", "F16", [1], np.float16(1.5).tobytes()),
                             ("wide", "F32", [1, 1], np.float32(-7).tobytes()), ("none", "BF16", [0, 4], b""),
                             ("norm.scale", "BF16", [1], bytes([0x80, 0x3F]))])
        self.assertEqual({name: (values.dtype.name, values.shape) for name, values in tensors.items()},
                         {"flag": ("uint8", (1,)), "half": ("float16", (1,)), "wide": ("float32", (1, 1)),
                          "none": ("float32", (0, 4)), "norm.scale": ("float32", (1,))})
        self.assertEqual([tensors["flag"][0], tensors["half"][0], tensors["wide"][0, 0]], [5, 1.5, -7])
        tensors["wide"][0, 0] = 1  # own memory, not the file's
        self.path.unlink()
        self.assertEqual(tensors["wide"][0, 0], 1)

    def test_wrong_metadata(self):
        self.assert_corrupt("weights_dtype: expected MXFP8_E4M3_UE8M0_K32, got nothing", [], {"format": "pt"})
        self.assert_corrupt("got MXFP4", [], {"weights_dtype": "MXFP4"})

    def test_wrong_scales(self):
        payload = ("w", "F8_E4M3", [33], bytes(33))
        self.assert_corrupt("w: quantised, but there is no w.scale", [payload])
        self.assert_corrupt("w.scale: expected shape [2] for 33 elements, got [1]", [payload, ("w.scale", "U8", [1], b"\0")])
        self.assert_corrupt("w.scale: expected shape [2]", [payload, ("w.scale", "U8", [2, 1], b"\0\0")])
        self.assert_corrupt("w.scale: expected U8, got I8", [payload, ("w.scale", "I8", [2], b"\0\0")])
        self.assert_corrupt("w.scale: scale 1 is NaN", [payload, ("w.scale", "U8", [2], b"\0\xff")])
        self.assert_corrupt("v.scale: a scale without its quantised tensor", [("v.scale", "U8", [1], b"\0")])

    def test_wrong_tensors(self):
        self.assert_corrupt("a.q_proj.weight: expected a matrix [in, out], got shape [2]",
                            [("a.q_proj.weight", "F8_E4M3", [2], b"\0\0"), ("a.q_proj.weight.scale", "U8", [1], b"\0")])
        self.assert_corrupt("w: F8_E5M2 is not an element type of this format", [("w", "F8_E5M2", [1], b"\0")])

    def test_files_that_are_no_safetensors(self):
        whole = file_bytes([("w", "F8_E4M3", [2], b"\0\0"), ("w.scale", "U8", [1], b"\0")])
        for damaged in (b"", whole[:7], whole[:-1], whole + b"\0", b"\xff" * 8 + whole[8:], whole.replace(b"[2]", b"[3]")):
            self.path.write_bytes(damaged)
            with self.assertRaises(CorruptFileError):
                read_mxfp8_safetensors(self.path)
        with self.assertRaises(FileNotFoundError):
            read_mxfp8_safetensors(self.path.with_name("absent"))
        with self.assertRaises(ValueError):
            read_mxfp8_safetensors(self.path.parent)


class WriteTest(FileTest):
    def test_written_byte_for_byte(self):
        write_mxfp8_safetensors(self.path, {"a.up_proj.weight": np.float32([[1, -2, 0.3], [448, 0, 5]]),
                                            "a.norm.weight": np.float32([1, -2.5])})
        # As [in, out]: 1, 448, -2, 0, .3, 5 under 2^0. Types by descending alignment, as safetensors sorts them.
        expected = file_bytes([("a.norm.weight", "BF16", [2], bytes([0x80, 0x3F, 0x20, 0xC0])),
                               ("a.up_proj.weight", "F8_E4M3", [3, 2], bytes([0x38, 0x7E, 0xC0, 0x00, 0x2A, 0x4A])),
                               ("a.up_proj.weight.scale", "U8", [1], bytes([127]))])
        written = self.path.read_bytes()
        size = 8 + struct.unpack("<Q", written[:8])[0]
        self.assertEqual(json.loads(written[8:size]), json.loads(expected[8:8 + struct.unpack("<Q", expected[:8])[0]]))
        data = expected[8 + struct.unpack("<Q", expected[:8])[0]:]
        self.assertEqual(written[size:], data)
        self.assertEqual(mxfp8_codec.data_sha256(self.path), hashlib.sha256(data).hexdigest())

    def test_written_and_read_back(self):
        random = np.random.default_rng(3)
        tensors = {"l.q_proj.weight": random.standard_normal((48, 33)).astype(np.float32),
                   "l.down_proj.weight": random.standard_normal((7, 5)).astype(np.float16),
                   "embed.weight": random.standard_normal((9, 4)).astype(ml_dtypes.bfloat16)}
        write_mxfp8_safetensors(self.path, tensors, metadata={"note": "ours"})
        first = read_mxfp8_safetensors(self.path)
        np.testing.assert_array_equal(first["embed.weight"], tensors["embed.weight"].astype(np.float32))
        for name in ("l.q_proj.weight", "l.down_proj.weight"):
            stored = tensors[name].T.astype(np.float32)
            codes, scales = rule(np.ascontiguousarray(stored))
            expected = mxfp8_codec.decode_mxfp8(codes, scales).reshape(stored.shape).T
            np.testing.assert_array_equal(first[name], expected)
        # A second writing may choose a smaller scale, where a block's largest value was rounded down; the values stay.
        again = self.path.with_name("again")
        write_mxfp8_safetensors(again, first)
        for name, values in read_mxfp8_safetensors(again).items():
            np.testing.assert_array_equal(values, first[name])
        write_mxfp8_safetensors(again, {name: values.T.copy() if "_proj" in name else values
                                        for name, values in tensors.items()}, native_orientation=True)
        self.assertEqual(mxfp8_codec.data_sha256(again), mxfp8_codec.data_sha256(self.path))

    def test_what_cannot_be_written_leaves_the_old_file(self):
        self.path.write_bytes(b"old")
        matrix = np.ones((2, 2), np.float32)
        wrong = [({"w": np.float32([1, np.inf])}, {}, "w: holds values that are not finite"),
                 ({"a.q_proj.weight": matrix[0]}, {}, "expected a matrix, got shape [2]"),
                 ({"a.q_proj.weight": matrix, "a.q_proj.weight.scale": matrix}, {}, "two tensors of this name"),
                 ({"w": matrix}, {"metadata": {"weights_dtype": "F32"}}, "metadata: weights_dtype is MXFP8")]
        for tensors, options, words in wrong:
            with self.assertRaises(ValueError) as caught:
                write_mxfp8_safetensors(self.path, tensors, **options)
            self.assertIn(words, str(caught.exception))
        with self.assertRaisesRegex(TypeError, "w: expected float32, float16 or bfloat16, got float64"):
            write_mxfp8_safetensors(self.path, {"w": np.ones(2)})
        with self.assertRaises(OSError):
            write_mxfp8_safetensors(self.path.with_name("absent") / "file", {"w": matrix})
        self.assertEqual([self.path.read_bytes(), [entry.name for entry in self.path.parent.iterdir()]],
                         [b"old", [self.path.name]])


if __name__ == "__main__":
    unittest.main()
