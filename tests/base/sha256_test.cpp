#include "base/sha256.h"

#include <gtest/gtest.h>

namespace ida {
namespace {

// Vectors of FIPS 180-4.
TEST(Sha256, KnownDigests) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, PiecesMakeTheWhole) {
  Sha256 pieces;
  for (int i = 0; i < 1000000; i += 1000) pieces.update(std::string(1000, 'a'));
  Sha256 moved = std::move(pieces);
  EXPECT_EQ(moved.hex(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace ida
